"""Tables of the overview as escaped HTML: rates with counts and intervals, calibration, judges, configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.pictures.texts import esc
from workbench.pictures.theme import HEAT, on_heat
from workbench.report import figures as shown
from workbench.report.calibration import EXPECTED
from workbench.report.figures import plain
from workbench.report.gather import Gathered
from workbench.report.page import table_of

_MOST_ROWS = 400


def figures_table(table: dict[str, Any] | None, about: str, has_picture: bool) -> str:
    """A table as `report.page.table_of` gives it; rates with counts and intervals in one cell."""
    note = f'<p class="wb-muted">{esc(about)}</p>' if about else ""
    if table is None:
        return note if has_picture else f'{note}<p class="wb-muted">Nothing to count here.</p>'
    if table["kind"] == "plain":
        return note + _plain(table)
    heads = "".join(f"<th>{esc(head)}</th>" for head in (*table["heads"], *table["runs"]))
    lines = []
    for row in table["rows"]:
        keys = "".join(f'<th scope="row">{esc(key)}</th>' for key in row["key"])
        lines.append(f"<tr>{keys}{''.join(_figure(cell) for cell in row['cells'])}</tr>")
    return (
        f'{note}<div class="wb-wide"><table class="wb-strip">{"<tr>" + heads + "</tr>"}{"".join(lines)}</table></div>'
    )


def _figure(cell: shown.Figure | None) -> str:
    if cell is None:
        return '<td class="wb-muted">–</td>'
    strict = f'<br><span class="wb-muted">{esc(cell.strict)}</span>' if cell.strict else ""
    spread = f'<br><span class="wb-muted">{esc(cell.spread)}</span>' if cell.spread else ""
    return f'<td><b>{esc(cell.main)}</b> <span class="wb-muted">{esc(cell.counts)}</span>{spread}{strict}</td>'


def _plain(table: dict[str, Any]) -> str:
    heads = "".join(f"<th>{esc(head)}</th>" for head in table["heads"])
    rows = table["rows"][:_MOST_ROWS]
    body = "".join(
        "<tr>" + "".join(
            f'<td style="text-align: {"right" if numeric else "left"}">{esc(value, 300)}</td>'
            for value, numeric in zip(row, table["numeric"], strict=True)
        ) + "</tr>"
        for row in rows
    )  # fmt: skip
    more = len(table["rows"]) - len(rows)
    rest = f'<p class="wb-muted">and {more} more rows; `workbench report` writes them all.</p>' if more else ""
    return f'<div class="wb-wide"><table class="wb-strip"><tr>{heads}</tr>{body}</table></div>{rest}'


def calibration_table(found: Gathered) -> str:
    """Verifier by run, with what reference agents should show, and every exception."""
    matrix = found.calibration.matrix
    kinds = found.calibration.kinds
    heads = "".join(
        f'<th title="{esc(kinds[name])}">{esc(name, 40)}<br>'
        f'<span class="wb-muted">{esc(_kind(kinds[name]))}</span></th>'
        for name in found.names
    )
    lines = []
    for verifier, part in matrix.groupby(found.benchmark.rule_column, sort=False):
        rows = part.set_index("run")
        cells = "".join(_cell(rows.loc[name]) if name in rows.index else "<td></td>" for name in found.names)
        lines.append(f'<tr><th scope="row">{esc(verifier)}</th>{cells}</tr>')
    about = (
        "Share of measured cases that pass, verifier by run. "
        f"The oracle should pass {EXPECTED['oracle'][0]} {EXPECTED['oracle'][1]:.0%} and contrary "
        f"{EXPECTED['contrary'][0]} {EXPECTED['contrary'][1]:.0%}: ✓ means that it does."
    )
    odd = table_of(found.calibration.exceptions, None, found.names)
    exceptions = (
        f"<h3>Exceptions: {len(found.calibration.exceptions)} cases depart from what their reference agent should "
        f"show</h3>{_plain(odd)}"
        if odd
        else '<p class="wb-muted">No case departs from what its reference agent should show.</p>'
        if found.calibration.references
        else ""
    )
    return (
        f'<p class="wb-muted">{esc(about)}</p><div class="wb-wide"><table class="wb-strip"><tr><th></th>{heads}</tr>'
        f"{''.join(lines)}</table></div><br>{exceptions}"
    )


def _kind(kind: str) -> str:
    return "reference" if kind.startswith("reference") else kind


def _cell(row: Any) -> str:
    rate, met = plain(row["rate"]), plain(row["met"])
    excluded = f", {row['excluded']} excluded" if row["excluded"] else ""
    counts = f"{row['passed']}/{row['measured']}{excluded}"
    if rate is None:
        return f'<td class="wb-muted" title="{esc(counts)}">not measured</td>'
    sign = "" if met is None else " ✓" if met else " ✗"
    style = f"background: {HEAT[round(rate * 255)]}; color: {on_heat(rate)}"
    return f'<td style="{style}" title="{esc(counts)}">{rate:.1%}{sign}<br><small>{esc(counts)}</small></td>'


def judged_tables(judged: Sequence[Any]) -> str:
    """What judges' summaries say: pooled rows; whose figures are not valid says why."""
    out = []
    for one in judged:
        problems = "".join(f'<div class="wb-fail">{esc(text, 300)}</div>' for text in one.problems)
        tables = []
        for title, frame in one.tables.items():
            table = table_of(frame, None, ())
            if table:
                tables.append(f"<h3>{esc(title)}</h3>" + figures_table(table, "", False))
        valid = "" if one.valid else ' <span class="wb-fail">not valid</span>'
        out.append(f"<section><h3>{esc(one.run)}: {esc(one.spoke)}{valid}</h3>{problems}{''.join(tables)}</section>")
    return "".join(out)


def configuration_table(found: dict[str, Any]) -> str:
    """run.json and score.json of every run; lines that differ are set off."""
    heads = "".join(f"<th>{esc(name, 60)}</th>" for name in found["runs"])
    lines = []
    for row in found["rows"]:
        mark = ' class="wb-fail"' if row["apart"] else ""
        values = "".join(f'<td style="text-align: left">{esc(value, 160)}</td>' for value in row["values"])
        lines.append(
            f'<tr><th scope="row"><span{mark}>{esc(row["name"])}{" ≠" if row["apart"] else ""}</span></th>{values}</tr>'
        )
    return f'<div class="wb-wide"><table class="wb-strip"><tr><th></th>{heads}</tr>{"".join(lines)}</table></div>'
