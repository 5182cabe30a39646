"""The report's tables on a terminal."""

from __future__ import annotations

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from workbench.report import shown
from workbench.report.gather import Gathered, extras
from workbench.report.intervals import is_gap, is_rate

_EXCEPTIONS = 20


def print_report(gathered: Gathered, console: Console) -> None:
    """Print warnings, every short table of rates, calibration, and what could not be measured."""
    console.print()
    about = f"{gathered.benchmark.title}: {', '.join(gathered.names)} ({len(gathered.runs[0].cases)} cases each)"
    console.print(Text(about, style="bold"))
    for warning in gathered.warnings:
        console.print(Text(warning, style="yellow"))
    more = extras(gathered.benchmark)
    titles, detail = getattr(more, "TITLES", {}), getattr(more, "DETAIL", ())
    several = len(gathered.names) > 1
    for name in ordered(gathered, titles):
        frame = gathered.tables.get(name)
        title = titles.get(name, shown.heading(name))
        if name in detail:
            continue
        if frame is None or (frame.empty and name in getattr(more, "ALWAYS", ())):
            console.print(Text(f"{title}: no such cases in these runs."))
        elif is_rate(frame) or is_gap(frame):
            console.print(_figures(title, frame, several))
        elif len(frame):
            console.print(_plain(title, frame, several))
    if gathered.calibration:
        _calibration(gathered, console)
    for judge in gathered.judged:
        console.print(Text(f"{judge.run}, judged by {judge.spoke}: the tables are in the page.", style="dim"))
        for problem in judge.problems:
            console.print(Text(problem, style="yellow"))
    console.print(
        "Intervals: 95 %, Clopper and Pearson's with as many cases as the conversations, which share audio, are worth; "
        "gaps by MOVER.",
        style="dim",
        markup=False,
        highlight=False,
    )


def ordered(gathered: Gathered, titles: dict[str, str]) -> list[str]:
    """Tables in the benchmark's order, then those it does not name; only those that exist or are always wanted."""
    always = getattr(extras(gathered.benchmark), "ALWAYS", ())
    known = [name for name in titles if name in gathered.tables or name in always]
    return known + [name for name in gathered.tables if name not in titles]


def _figures(title: str, frame: pd.DataFrame, several: bool) -> Table:
    """Rates or gaps, the runs of one label beneath each other: that is the comparison a reader makes."""
    gaps, rows = is_gap(frame), frame.to_dict("records")
    order = {key: place for place, key in enumerate(dict.fromkeys(shown.key_of(row, frame) for row in rows))}
    rows.sort(key=lambda row: order[shown.key_of(row, frame)])
    figures = [shown.figure_of(row, frame) for row in rows]
    excluded, strict = any(figure.excluded for figure in figures), any(figure.strict for figure in figures)
    table = _table(title)
    for head in shown.key_heads(frame):
        table.add_column(head)
    if several:
        table.add_column("run")
    table.add_column("gap" if gaps else "rate", justify="right", no_wrap=True)
    table.add_column("counts" if gaps else "passed", justify="right", no_wrap=True)
    if excluded:
        table.add_column("excl.", justify="right", no_wrap=True)
    table.add_column("95 % interval", no_wrap=True)
    if strict:
        table.add_column("strict", no_wrap=True)
    last = None
    for row, figure in zip(rows, figures, strict=True):
        key = shown.key_of(row, frame)
        cells = [*(key if key != last else ("",) * len(key)), *([row["run"]] if several else [])]
        cells += [figure.main, figure.short]
        cells += [str(figure.excluded or "")] if excluded else []
        cells += [figure.spread, *([figure.strict.removeprefix("strict ")] if strict else [])]
        table.add_row(*[Text(str(cell)) for cell in cells])
        last = key
    return table


def _table(title: str) -> Table:
    return Table(title=f"\n{title}", title_justify="left", title_style="bold", box=None, pad_edge=False)


def _plain(title: str, frame: pd.DataFrame, several: bool) -> Table:
    table = _table(title)
    columns = [column for column in frame.columns if several or column != "run"]
    for column in columns:
        table.add_column(shown.heading(column), justify="right" if frame[column].dtype.kind in "if" else "left")
    for row in frame[columns].itertuples(index=False):
        table.add_row(*[Text(shown.number(value)) for value in row])
    return table


def _calibration(gathered: Gathered, console: Console) -> None:
    found = gathered.calibration
    if not any("reference" in kind for kind in found.kinds.values()):
        return
    table = _table("Calibration: share that passes, verifier x agent")
    table.add_column(gathered.verifier)
    for name in gathered.names:
        table.add_column(name, justify="right")  # a rate above its counts, so that six runs fit
    for verifier, part in found.matrix.groupby(gathered.verifier, sort=False):
        cells = [Text(str(verifier))]
        for row in part.to_dict("records"):
            text = f"{shown.percent(row['rate'])}\n{row['passed']}/{row['measured']}"
            style = "" if row["met"] is None or row["met"] != row["met"] else "green" if row["met"] else "bold red"
            cells.append(Text(text, style=style))
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
