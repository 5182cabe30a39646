"""The report's tables on a terminal."""

from __future__ import annotations

import pandas as pd
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
    several = len(gathered.names) > 1
    for section in gathered.sections:
        frame = gathered.tables.get(section.name)
        if section.folded or section.name == LATENCY:
            continue
        if frame is None or frame.empty:
            if section.always:
                console.print(Text(f"{section.title}: no such cases in these runs."))
        else:
            console.print((_plain if section.kind == "plain" else _figures)(section, frame, several))
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


def _figures(section: Section, frame: pd.DataFrame, several: bool) -> Table:
    """Rates or gaps, the runs of one label beneath each other: that is the comparison a reader makes."""
    rows = [(shown.key_of(row, frame, section), row["run"], shown.figure_of(row, section))
            for row in frame.to_dict("records")]  # fmt: skip
    order = {key: place for place, key in enumerate(dict.fromkeys(key for key, _, _ in rows))}
    rows.sort(key=lambda row: order[row[0]])
    excluded, strict = (any(getattr(figure, name) for _, _, figure in rows) for name in ("excluded", "strict"))
    table = _table(section.title)
    for head in (*shown.key_heads(frame, section), *(["run"] if several else [])):
        table.add_column(head)
    gaps = section.kind == "gaps"
    for head in ("gap" if gaps else "rate", "counts" if gaps else "passed", *(["excl."] if excluded else [])):
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("95 % interval", *(["strict"] if strict else [])):
        table.add_column(head, no_wrap=True)
    last = None
    for key, run, figure in rows:
        cells = [*(key if key != last else ("",) * len(key)), *([run] if several else []), figure.main, figure.short]
        cells += [str(figure.excluded or "")] if excluded else []
        cells += [figure.spread, *([figure.strict.removeprefix("strict ")] if strict else [])]
        table.add_row(*[Text(str(cell)) for cell in cells])
        last = key
    return table


def _plain(section: Section, frame: pd.DataFrame, several: bool) -> Table:
    table = _table(section.title)
    columns = [column for column in frame.columns if several or column != "run"]
    for column in columns:
        table.add_column(shown.heading(column), justify="right" if frame[column].dtype.kind in "if" else "left")
    for row in frame[columns].itertuples(index=False):
        table.add_row(*[Text(shown.number(value)) for value in row])
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
            style = "" if shown.plain(row["met"]) is None else "green" if row["met"] else "bold red"
            cells.append(Text(f"{shown.percent(row['rate'])}\n{row['passed']}/{row['measured']}", style=style))
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
