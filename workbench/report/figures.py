"""How figures are written, on the terminal and on the page: never a rate without its counts and its interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench.contract import Section

NONE = "\u2013"


@dataclass(frozen=True)
class Figure:
    """A rate or gap as text: `main` the value, `short` its counts, `spread` its interval.

    `passed`, `measured` are numbers for machines that read the page; None for a gap.
    """

    main: str
    short: str
    spread: str
    strict: str = ""
    excluded: int = 0
    passed: int | None = None
    measured: int | None = None

    @property
    def counts(self) -> str:
        """The counts with the excluded cases beside them."""
        return self.short + (f", {self.excluded} excluded" if self.excluded else "")


def bare(value: Any) -> Any:
    """A table's value as JSON and templates want it: numbers and text, None for every kind of null."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value


def percent(value: Any) -> str:
    value = bare(value)
    return NONE if value is None else f"{100 * value:.1f} %"


def written(value: Any) -> str:
    """Any other cell: numbers without noise, null as a dash."""
    value = bare(value)
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.3f}"
    return str(value)


def heading(name: str) -> str:
    """A column's or table's name as words."""
    return name.replace("_", " ")


def between(row: Mapping[str, Any], signed: bool = False) -> str:
    """'90.1 to 96.4', with what has to be said beside it, such as that it rests on few conversations."""
    low, high, note = (bare(row.get(name)) for name in ("low", "high", "note"))
    if low is None or high is None:
        return note or "no interval"
    sign = "+" if signed else ""
    return f"{100 * low:{sign}.1f} to {100 * high:{sign}.1f}" + (f", {note}" if note else "")


def figure_of(row: Mapping[str, Any], section: Section) -> Figure:
    """A row of a table of rates, or of gaps in percentage points."""
    value, strict = bare(row[section.value]), bare(row.get(f"strict_{section.value}"))
    if section.kind == "gaps":
        names = {side: side.upper() if len(side) < 3 else heading(side) for side in section.sides}
        counts = ", ".join(f"{name} {int(row[f'{side}_passed'])}/{int(row[f'{side}_measured'])}"
                           for side, name in names.items())  # fmt: skip
        if value is None:
            return Figure("not measured", counts, "")
        differs = strict is not None and abs(strict - value) > 1e-12
        return Figure(f"{100 * value:+.1f}", counts, between(row, signed=True),
                      f"strict {100 * strict:+.1f}" if differs else "")  # fmt: skip
    passed, measured, excluded = (int(row[name]) for name in ("passed", "measured", "excluded"))
    counts = f"{passed}/{measured}"
    if not measured:
        return Figure("not measured", counts, "", "", excluded, passed, measured)
    differs = strict is not None and int(row["strict_passed"]) != passed
    said = f"strict {percent(strict)} ({int(row['strict_passed'])}/{measured})" if differs else ""
    return Figure(percent(value), counts, between(row), said, excluded, passed, measured)


def labels(frame: pd.DataFrame, section: Section) -> list[str]:
    """The label columns of a table of rates or gaps: those before its first number, without `run`."""
    columns = list(frame.columns)
    firsts = (section.value, "passed", *(f"{side}_passed" for side in section.sides))
    return [name for name in columns[: min(columns.index(name) for name in firsts if name in columns)] if name != "run"]


def line_key(row: Mapping[str, Any], frame: pd.DataFrame, section: Section) -> tuple[str, ...]:
    """The labels of a row; a long name stands with its id ('R1 ER triage nurse')."""
    names = {chart.by: chart.names for chart in section.charts if chart.names in frame}
    parts = [" ".join(filter(None, (str(row[key]), str(row[names[key]]) if key in names else "")))
             for key in labels(frame, section) if key not in names.values()]  # fmt: skip
    return tuple(parts) or ("all cases",)


def key_heads(frame: pd.DataFrame, section: Section) -> tuple[str, ...]:
    names = {chart.names for chart in section.charts}
    return tuple(heading(key) for key in labels(frame, section) if key not in names) or ("cases",)


def table_of(frame: pd.DataFrame | None, section: Section | None, runs: tuple[str, ...]) -> dict[str, Any] | None:
    """A table for page, terminal and inspector. Rates and gaps have a column a run; other tables stand as they are."""
    if frame is None or frame.empty:
        return None
    if section is None or section.kind == "plain":
        columns = [column for column in frame.columns if len(runs) > 1 or column != "run"]
        label = next((column for column in columns if column != "run"), None)
        if len(runs) > 1 and label:  # the runs of one label beside each other: what a reader compares
            places = {value: place for place, value in enumerate(dict.fromkeys(frame[label]))}
            frame = frame.iloc[frame[label].map(places).argsort(kind="stable")]
        rows = [[written(value) for value in row] for row in frame[columns].itertuples(index=False)]
        numeric = [frame[column].dtype.kind in "if" for column in columns]
        return {"kind": "plain", "heads": [heading(name) for name in columns], "numeric": numeric, "rows": rows}
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    ids = [name for name in labels(frame, section) if name not in {chart.names for chart in section.charts}]
    for row in frame.to_dict("records"):
        key = line_key(row, frame, section)
        line = found.setdefault(key, {"key": key, "id": "|".join(str(row[name]) for name in ids), "cells": {}})
        line["cells"][row["run"]] = figure_of(row, section)
    rows = [line | {"cells": [line["cells"].get(run) for run in runs]} for line in found.values()]
    return {"kind": "figures", "heads": key_heads(frame, section), "runs": runs, "rows": rows}
