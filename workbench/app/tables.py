"""Tables of numbers as escaped HTML: pass rates, paired tests, rankings, a report's tables, calibration, judges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from workbench.app.filters import pass_rates
from workbench.app.redecide import Redecide, Redecided
from workbench.pictures.rates import percent
from workbench.pictures.texts import esc, muted, nothing
from workbench.pictures.theme import HEAT, on_heat
from workbench.report.calibration import EXPECTED
from workbench.report.figures import Figure, bare, between, table_of
from workbench.report.gather import Gathered
from workbench.statistics import ranks

_MOST_ROWS = 400
_RUNS_IN_STRIP = 8


def grid(heads: Iterable[str], rows: Iterable[Iterable[str]], kind: str = "wb-strip") -> str:
    """A table. heads : texts. rows : of cells that are HTML already, `<td>` and `<th>` with them."""
    top = "".join(f'<th scope="col">{esc(head)}</th>' if head else "<td></td>" for head in heads)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="wb-wide"><table class="{kind}"><tr>{top}</tr>{body}</table></div>'


def _name(text: str, limit: int = 60) -> str:
    return f'<th scope="row" title="{esc(text)}">{esc(text, limit)}</th>'


def _coloured(rate: float, inside: str, title: str) -> str:
    return (
        f'<td style="background: {HEAT[round(rate * 255)]}; color: {on_heat(rate)}" title="{esc(title)}">{inside}</td>'
    )


# -- pass rates of filtered rows -------------------------------------------------------------------------


def strip(rows: pd.DataFrame, by: str) -> str:
    """Pass rates of the rows: a line a run, a cell a value of `by`; numbers with denominators on hover."""
    if rows.empty or by not in rows:
        return ""
    # Metrics have denominators of their own, so they are never pooled.
    several = rows["metric"].nunique() > 1
    line = ["run", "metric"] if several and by not in ("run", "metric") else ["run"]
    whole, split = pass_rates(rows, line), pass_rates(rows, list(dict.fromkeys((*line, by))))
    most = _RUNS_IN_STRIP * (rows["metric"].nunique() if len(line) > 1 else 1)
    names = sorted(split[by].unique())
    lines = []
    for _, run in whole.head(most).iterrows():
        own = split[(split[line] == run[line]).all(axis=1)].set_index(by)
        mixed = f'<td class="all wb-muted">{run["rows"]} rows of several metrics</td>'
        lines.append(
            [
                _name(" · ".join(filter(None, run[line]))),
                mixed if several and len(line) == 1 else _whole_cell(run),
                *(_rate_cell(own.loc[name]) if name in own.index else "<td></td>" for name in names),
            ]
        )
    if len(whole) > most:
        kind = "runs" if len(line) == 1 else "lines"
        lines.append([f'<td colspan="{len(names) + 2}" class="wb-muted">and {len(whole) - most} more {kind}</td>'])
    return grid(["", "all", *(name or "(none)" for name in names)], lines)


def _spread(rate: pd.Series) -> str:
    ends = "" if nothing(rate["low"]) else f"{rate['low']:.1%} to {rate['high']:.1%}"
    return ", ".join(filter(None, (ends, rate["note"])))


def _whole_cell(rate: pd.Series) -> str:
    if not rate["measured"]:
        return f'<td class="all wb-muted">none of {rate["rows"]} measured</td>'
    left = rate["rows"] - rate["measured"]
    aside = f", {left} not measured" if left else ""
    return (f'<td class="all">{rate["rate"]:.1%} <span class="wb-muted">[{_spread(rate)}] '
            f'{rate["passed"]}/{rate["measured"]}{aside}</span></td>')  # fmt: skip


def _rate_cell(rate: pd.Series) -> str:
    if not rate["measured"]:
        return f'<td class="wb-muted" title="none of {rate["rows"]} measured">–</td>'
    title = f"{rate['passed']} of {rate['measured']} pass, 95 % interval {_spread(rate)}"
    return _coloured(rate["rate"], f"{rate['rate']:.0%}", title)


# -- runs side by side -----------------------------------------------------------------------------------


def tests_table(frame: pd.DataFrame, baseline: str) -> str:
    """Every other run against the baseline, a line a metric. frame : of `Comparison.tests`."""
    several = frame["metric"].ne("").any()
    heads = ("", "wins", "losses", "ties", "excluded", "difference, points", "95 % interval", "p (sign flip)",
             "p (McNemar)")  # fmt: skip
    lines = []
    for row in frame.to_dict("records"):
        ends = "" if nothing(row["low_pp"]) else f"{row['low_pp']:+.1f} to {row['high_pp']:+.1f}"
        interval = esc(", ".join(filter(None, (ends, row["note"]))))
        difference = "–" if nothing(row["difference_pp"]) else f"{row['difference_pp']:+.1f}"
        named = f"{row['system'][:40]} against {baseline[:40]}"
        lines.append(
            (
                _name(row["metric"].replace("_", " ")) if several else "",
                f'{_name(named, 90)}<td class="wb-pass">{row["wins"]}</td>',
                f'<td class="wb-fail">{row["losses"]}</td><td>{row["ties"]}</td><td>{row["excluded"]}</td>',
                f"<td>{difference}</td><td>{interval}</td>",
                f"<td>{_p(row['p_sign_flip_holm'])}</td><td>{_p(row['p_mcnemar_holm'])}</td>",
            )
        )
    about = (
        "Wins: the run passes where the baseline fails. Only rows measured for both count, metric by metric. Intervals "
        "go by conversations, and so does the exact sign-flip test; McNemar's exact test takes rows as independent. "
        "Both p values are corrected by Holm."
    )
    return grid(("metric", *heads) if several else heads, lines) + muted(about)


def _p(value: Any) -> str:
    return "–" if nothing(value) else "&lt; 0.001" if value < 0.001 else f"{value:.3f}"


def rank_table(engine: Redecide, answer: Redecided, score: str, settings: Mapping[str, float]) -> str:
    """Every score of every run now, with its change since the thresholds in force, ranked by one of them."""
    kinds = engine.scores
    sign = kinds[score].sign
    before, now = ranks(sign * engine.base[score][0]), ranks(sign * answer.scores[score])
    lines = []
    for at in sorted(range(len(engine.names)), key=lambda at: (math.isnan(now[at]), now[at])):
        moved = before[at] - now[at]
        arrow = f"▲{moved:g}" if moved > 0 else f"▼{-moved:g}" if moved < 0 else ""
        cells = []
        for name in kinds:
            value, change = answer.scores[name][at], answer.scores[name][at] - engine.base[name][0][at]
            aside = f' <span class="wb-muted">({100 * change:+.1f})</span>' if abs(change) > 5e-4 else ""
            cells.append(f"<td>{percent(value)}{aside}</td>")
        run = engine.names[at]
        turned = len(answer.flips[run]) or "–"
        place = "not ranked" if math.isnan(now[at]) else f"{now[at]:g}"
        lines.append([f'<th scope="row" title="{esc(run)}">{place} {arrow} {esc(run, 40)}</th>', *cells,
                      f"<td>{turned}</td>"])  # fmt: skip
    known = engine.benchmark.threshold
    moved = ", ".join(f"{known[name].heading} {known[name].words(value)}" for name, value in settings.items())
    tau = "not defined, since all runs tie before or now" if math.isnan(answer.tau) else (
        f"{answer.tau:.2f} (1: the same order, −1: reversed)")  # fmt: skip
    rule = "strict variant" if engine.rule == "strict" else "rule as published"
    heads = [f"rank by {kinds[score].heading}", *(each.heading for each in kinds.values()), "turned"]
    return grid(heads, lines) + muted(
        f"In percent of measured cases, {rule}; in brackets the change since the thresholds that the runs were scored "
        f"with. Moved: {esc(moved) or 'none'}. Kendall's tau-b against that ranking: {esc(tau)}."
    )


# -- a benchmark's own tables ----------------------------------------------------------------------------


def figures_table(table: dict[str, Any] | None, about: str, has_picture: bool) -> str:
    """A table as `report.figures.table_of` gives it; rates with counts and intervals in one cell."""
    note = f'<p class="wb-muted">{esc(about)}</p>' if about else ""
    if table is None:
        return note if has_picture else f'{note}<p class="wb-muted">Nothing to count here.</p>'
    if table["kind"] == "plain":
        return note + _plain(table)
    lines = [
        [*(f'<th scope="row">{esc(key)}</th>' for key in row["key"]), *map(_figure, row["cells"])]
        for row in table["rows"]
    ]
    return note + grid((*table["heads"], *table["runs"]), lines)


def _figure(cell: Figure | None) -> str:
    if cell is None:
        return '<td class="wb-muted">–</td>'
    under = "".join(f'<br><span class="wb-muted">{esc(text)}</span>' for text in (cell.spread, cell.strict) if text)
    return f'<td><b>{esc(cell.main)}</b> <span class="wb-muted">{esc(cell.counts)}</span>{under}</td>'


def _plain(table: dict[str, Any]) -> str:
    lines = [
        [f'<td style="text-align: {"right" if numeric else "left"}">{esc(value, 300)}</td>'
         for value, numeric in zip(row, table["numeric"], strict=True)]
        for row in table["rows"][:_MOST_ROWS]
    ]  # fmt: skip
    more = len(table["rows"]) - len(lines)
    return grid(table["heads"], lines) + muted(
        f"and {more} more rows; `workbench report` writes them all." if more else ""
    )


def calibration_table(found: Gathered) -> str:
    """Rule by run, with what reference agents should show, and every exception."""
    matrix, kinds = found.calibration.matrix, found.calibration.kinds
    lines = []
    for rule, part in matrix.groupby(found.benchmark.rule_column, sort=False):
        rows = part.set_index("run")
        cells = [_met(rows.loc[name]) if name in rows.index else "<td></td>" for name in found.names]
        lines.append([f'<th scope="row">{esc(rule)}</th>', *cells])
    about = (
        "Share of measured cases that pass, verifier by run. "
        f"The oracle should pass {EXPECTED['oracle'][0]} {EXPECTED['oracle'][1]:.0%} and contrary "
        f"{EXPECTED['contrary'][0]} {EXPECTED['contrary'][1]:.0%}: ✓ means that it does."
    )
    odd = table_of(found.calibration.exceptions, None, found.names)
    title = f"Exceptions: {len(found.calibration.exceptions)} cases depart from what their reference agent should show"
    exceptions = (
        f"<h3>{title}</h3>{_plain(odd)}"
        if odd
        else muted("No case departs from what its reference agent should show." if found.calibration.references else "")
    )
    short = {name: "reference" if kind.startswith("reference") else kind for name, kind in kinds.items()}
    heads = ["", *(f"{name} ({short[name]})" for name in found.names)]
    return f'<p class="wb-muted">{esc(about)}</p>{grid(heads, lines)}<br>{exceptions}'


def _met(row: pd.Series) -> str:
    rate, met = bare(row["rate"]), bare(row["met"])
    counts = f"{row['passed']}/{row['measured']}" + (f", {row['excluded']} excluded" if row["excluded"] else "")
    if rate is None:
        return f'<td class="wb-muted" title="{esc(counts)}">not measured</td>'
    sign = "" if met is None else " ✓" if met else " ✗"
    return _coloured(rate, f"{rate:.1%}{sign}<br><small>{esc(counts)}</small>", f"{counts}, {between(row)}")


def judged_tables(judged: Sequence[Any]) -> str:
    """What judges' summaries say; whose figures are not valid says why."""
    out = []
    for one in judged:
        problems = "".join(f'<div class="wb-fail">{esc(text, 300)}</div>' for text in one.problems)
        tables = [
            f"<h3>{esc(title)}</h3>" + figures_table(table, "", False)
            for title, frame in one.tables.items()
            if (table := table_of(frame, None, ()))
        ]
        valid = "" if one.valid else ' <span class="wb-fail">not valid</span>'
        out.append(f"<section><h3>{esc(one.run)}: {esc(one.spoke)}{valid}</h3>{problems}{''.join(tables)}</section>")
    return "".join(out)


def configuration_table(found: dict[str, Any]) -> str:
    """run.json and score.json of every run; lines that differ are set off."""
    lines = []
    for row in found["rows"]:
        name = f'<span class="wb-fail">{esc(row["name"])} ≠</span>' if row["apart"] else esc(row["name"])
        values = (f'<td style="text-align: left">{esc(value, 160)}</td>' for value in row["values"])
        lines.append([f'<th scope="row">{name}</th>', *values])
    return grid(["", *found["runs"]], lines)
