"""What a comparison of runs says, as escaped HTML: paired tests, and each system's verdict on a case."""

from __future__ import annotations

from typing import Any

import pandas as pd

from workbench.app.case_texts import word
from workbench.app.detail import Detail
from workbench.pictures.texts import esc, number


def tests_table(frame: pd.DataFrame, baseline: str) -> str:
    """Every other run against the baseline. frame : of `Comparison.tests`."""
    heads = (
        "",
        "wins",
        "losses",
        "ties",
        "excluded",
        "difference, points",
        "95 % interval",
        "p (sign flip)",
        "p (McNemar)",
    )
    out = "".join(f"<th>{esc(head)}</th>" for head in heads)
    lines = [f"<tr>{out}</tr>"]
    for row in frame.to_dict("records"):
        interval = "" if _none(row["low_pp"]) else f"{row['low_pp']:+.1f} to {row['high_pp']:+.1f}"
        if isinstance(row.get("note"), str):
            interval = ", ".join(filter(None, (interval, row["note"])))
        difference = "–" if _none(row["difference_pp"]) else f"{row['difference_pp']:+.1f}"
        names = f"{esc(row['system'], 40)} against {esc(baseline, 40)}"
        lines.append(
            f'<tr><th scope="row" title="{esc(row["system"])}">{names}</th>'
            f'<td class="wb-pass">{row["wins"]}</td><td class="wb-fail">{row["losses"]}</td><td>{row["ties"]}</td>'
            f"<td>{row['excluded']}</td><td>{difference}</td><td>{esc(interval)}</td>"
            f"<td>{_p(row['p_sign_flip_holm'])}</td><td>{_p(row['p_mcnemar_holm'])}</td></tr>"
        )
    about = (
        "Wins: the run passes where the baseline fails. Only cases measured for both count. Intervals go by "
        "conversations, and so does the exact sign-flip test; McNemar's exact test takes cases as independent. Both "
        "p values are corrected by Holm."
    )
    table = f'<div class="wb-wide"><table class="wb-strip">{"".join(lines)}</table></div>'
    return f'{table}<div class="wb-muted">{about}</div>'


def _none(value: Any) -> bool:
    return value is None or value != value


def _p(value: Any) -> str:
    return "–" if _none(value) else "&lt; 0.001" if value < 0.001 else f"{value:.3f}"


def system_head(place: int, run: str, detail: Detail, colour: str, rule: str, baseline: bool) -> str:
    """The line above one system of the stack: its verdict and the sentence for it."""
    row = detail.row
    name = f'<b style="border-bottom: 3px solid {colour}">{place + 1} {esc(run)}</b>'
    aside = ' <span class="wb-muted">baseline</span>' if baseline else ""
    if not row:
        return f"{name}{aside} <span class='wb-muted'>{esc(' '.join(detail.missing), 300)}</span>"
    verdict = row.get(rule) or row.get("verdict", "")
    said = row.get("reason") or "no reason is given"
    missing = [text for text in detail.missing if "judge" not in text.lower()]
    lacking = f' <span class="wb-muted">{esc(missing[0], 160)}</span>' if missing else ""
    score = row.get("judge_score")
    judged = "" if _none(score) else f' <span class="wb-muted">judge {esc(number(float(score)))}</span>'
    return f"{name}{aside} {word(verdict)} {esc(said, 400)}{judged}{lacking}"
