"""The report: tables, intervals and one self-contained page about scored runs of one dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from workbench.files import write_text
from workbench.report.gather import Gathered, gather, write_tables
from workbench.report.page import render
from workbench.report.terminal import print_report

__all__ = ["PAGE", "Gathered", "gather", "write_report"]

PAGE = "report.html"


def write_report(runs: Sequence[Path | str], out: Path | str, *, console: Console | None = None) -> Path:
    """Report on scored runs: tables on `console`, tables/ as Parquet and CSV, and the page.

    Returns the path of the page, `out`/report.html.

    Raises
    ------
    InputError : no run, the same run twice, a run that is not scored, or runs of different datasets.
    """
    out = Path(out)
    gathered = gather([Path(folder) for folder in runs])
    write_tables(gathered, out / "tables")
    write_text(out / PAGE, render(gathered))
    if console is not None:
        print_report(gathered, console)
    return out / PAGE
