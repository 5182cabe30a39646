"""How figures are written, on the terminal and on the page: never a rate without its counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from workbench.report.gather import plain
from workbench.report.intervals import is_gap, keys, value_column

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


def percent(value: Any) -> str:
    value = plain(value)
    return NONE if value is None else f"{100 * value:.1f} %"


def between(row: dict[str, Any], signed: bool = False) -> str:
    """'90.1 to 96.4', with what has to be said beside it, such as that it rests on few conversations."""
    low, high, note = (plain(row.get(name)) for name in ("low", "high", "note"))
    if low is None or high is None:
        return note or "no interval"
    sign = "+" if signed else ""
    return f"{100 * low:{sign}.1f} to {100 * high:{sign}.1f}" + (f", {note}" if note else "")


def rate(row: dict[str, Any], value: str) -> Figure:
    """A row of a table of rates."""
    passed, measured, excluded = (int(row[name]) for name in ("passed", "measured", "excluded"))
    counts = f"{passed}/{measured}"
    if not measured:
        return Figure("not measured", counts, "", "", excluded, passed, measured)
    strict = plain(row.get(f"strict_{value}"))
    differs = strict is not None and int(row["strict_passed"]) != passed
    return Figure(
        percent(row[value]),
        counts,
        between(row),
        f"strict {percent(strict)} ({int(row['strict_passed'])}/{measured})" if differs else "",
        excluded,
        passed,
        measured,
    )


def gap(row: dict[str, Any]) -> Figure:
    """A row of a table of gaps, in percentage points."""
    value = plain(row["gap"])
    l1, l2 = (f"{int(row[f'{side}_passed'])}/{int(row[f'{side}_measured'])}" for side in ("l1", "l2"))
    counts = f"L1 {l1}, L2 {l2}"
    if value is None:
        return Figure("not measured", counts, "")
    strict = plain(row.get("strict_gap"))
    differs = strict is not None and abs(strict - value) > 1e-12
    return Figure(
        f"{100 * value:+.1f}",
        counts,
        between(row, signed=True),
        f"strict {100 * strict:+.1f}" if differs else "",
    )


def figure_of(row: dict[str, Any], frame: pd.DataFrame) -> Figure:
    return gap(row) if is_gap(frame) else rate(row, value_column(frame))


def key_of(row: dict[str, Any], frame: pd.DataFrame) -> tuple[str, ...]:
    """The labels of a row; a name that belongs to an id stands with it ('R1 ER triage nurse')."""
    parts = [str(row[key]) for key in keys(frame)]
    if "name" in keys(frame) and len(parts) == 2:
        return (" ".join(part for part in parts if part),)
    return tuple(parts) or ("all cases",)


def key_heads(frame: pd.DataFrame) -> tuple[str, ...]:
    names = [key for key in keys(frame) if key != "name"]
    return tuple(names) or ("cases",)


def number(value: Any) -> str:
    """Any other cell: numbers without noise, null as a dash."""
    value = plain(value)
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
