"""The report's tables on a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from workbench.contract import Section
from workbench.report import figures as shown
from workbench.report.gather import LATENCY, Gathered

_EXCEPTIONS = 20


def print_report(gathered: Gathered, console: Console) -> None:
    """Print warnings, every short table of rates, calibration, and what could not be measured."""
    console.print()
    about = f"{gathered.benchmark.title}: {', '.join(gathered.names)} ({len(gathered.runs[0].cases)} cases each)"
    console.print(Text(about, style="bold"))
    for warning in gathered.warnings:
        console.print(Text(warning, style="yellow"))
    for section in gathered.sections:
        if section.folded or section.name == LATENCY:
            continue
        found = shown.table_of(gathered.tables.get(section.name), section, gathered.names)
        if found is not None:
            console.print((_plain if found["kind"] == "plain" else _figures)(section, found))
        elif section.always:
            console.print(Text(f"{section.title}: no such cases in these runs."))
    _calibration(gathered, console)
    for judge in gathered.judged:
        console.print(
            Text(f"{judge.heading}: {judge.run}, judged by {judge.spoke}; the tables are in the page.", style="dim")
        )
        for problem in judge.problems:
            console.print(Text(problem, style="yellow"))
    for note in gathered.detector_notes:
        console.print(Text(note, style="dim"))
    console.print(
        "Intervals: 95 %, Clopper and Pearson's with as many cases as the conversations, which share audio, are worth; "
        "gaps by MOVER.",
        style="dim", markup=False, highlight=False,
    )  # fmt: skip


def _table(title: str) -> Table:
    return Table(title=f"\n{title}", title_justify="left", title_style="bold", box=None, pad_edge=False)


def _figures(section: Section, found: dict[str, Any]) -> Table:
    """Rates or gaps, the runs of one label beneath each other: that is the comparison a reader makes."""
    several, gaps = len(found["runs"]) > 1, section.kind == "gaps"
    known = [figure for line in found["rows"] for figure in line["cells"] if figure is not None]
    excluded, strict = (any(getattr(figure, name) for figure in known) for name in ("excluded", "strict"))
    table = _table(section.title)
    for head in (*found["heads"], *(["run"] if several else [])):
        table.add_column(head)
    for head in ("gap" if gaps else "rate", "counts" if gaps else "passed", *(["excl."] if excluded else [])):
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("95 % interval", *(["strict"] if strict else [])):
        table.add_column(head, no_wrap=True)
    for line in found["rows"]:
        key = line["key"]
        for run, figure in zip(found["runs"], line["cells"], strict=True):
            if figure is None:
                continue
            cells = [*key, *([run] if several else []), figure.main, figure.short]
            cells += [str(figure.excluded or "")] if excluded else []
            cells += [figure.spread, *([figure.strict.removeprefix("strict ")] if strict else [])]
            table.add_row(*[Text(str(cell)) for cell in cells])
            key = ("",) * len(key)
    return table


def _plain(section: Section, found: dict[str, Any]) -> Table:
    table = _table(section.title)
    for head, numeric in zip(found["heads"], found["numeric"], strict=True):
        table.add_column(head, justify="right" if numeric else "left")
    for row in found["rows"]:
        table.add_row(*map(Text, row))
    return table


def _calibration(gathered: Gathered, console: Console) -> None:
    found = gathered.calibration
    if not found.references:
        return
    table = _table("Calibration: share that passes, rule x agent")
    table.add_column(gathered.benchmark.rule_column)
    for name in gathered.names:
        table.add_column(name, justify="right")  # a rate above its counts, so that six runs fit
    for rule, part in found.matrix.groupby(gathered.benchmark.rule_column, sort=False):
        cells = [Text(str(rule))]
        for row in part.to_dict("records"):
            style = "" if shown.bare(row["met"]) is None else "green" if row["met"] else "bold red"
            spread = f"\n{shown.between(row)}" if row["measured"] else ""
            cells.append(Text(f"{shown.percent(row['rate'])}\n{row['passed']}/{row['measured']}{spread}", style=style))
        table.add_row(*cells)
    console.print(table)
    for name, kind in found.kinds.items():
        console.print(Text(f"{name}: {kind}", style="dim"))
    count = len(found.exceptions)
    console.print(Text(f"Exceptions: {count or 'none'}"))
    for row in found.exceptions.head(_EXCEPTIONS).to_dict("records"):
        console.print(Text(f"- {row['run']} {row['case']}: {row['verdict']}, {row['reason']}"))
    if count > _EXCEPTIONS:
        console.print(Text(f"- and {count - _EXCEPTIONS} more, in tables/calibration_exceptions.csv"))
