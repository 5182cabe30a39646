"""Tables of rates and gaps: how to know them, and where their intervals come from.

When every conversation agrees, resampling shows no spread. A benchmark's table of rates then holds
Wilson's interval over conversations and says so in `note`; for a gap Newcombe's paired interval is added here. The
column `interval` names the method of each row.
"""

from __future__ import annotations

import pandas as pd

from workbench.analysis.statistics import newcombe_paired

BOOTSTRAP, WILSON, NEWCOMBE = "bootstrap", "Wilson", "Newcombe"

RATE = {"passed", "measured", "excluded", "low", "high"}
GAP = {"gap", "low", "high", "l1_passed", "l1_measured", "l2_passed", "l2_measured"}


def is_rate(frame: pd.DataFrame) -> bool:
    return set(frame.columns) >= RATE


def is_gap(frame: pd.DataFrame) -> bool:
    return set(frame.columns) >= GAP


def value_column(frame: pd.DataFrame) -> str:
    """The rate itself: by convention the column before `passed`."""
    return frame.columns[list(frame.columns).index("passed") - 1]


def keys(frame: pd.DataFrame) -> list[str]:
    """The label columns of a table of rates or gaps: those before its first number, without `run`."""
    columns = list(frame.columns)
    end = columns.index("passed") - 1 if is_rate(frame) else columns.index("l1_passed")
    return [column for column in columns[:end] if column != "run"]


def fill(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with a column `interval`; gaps without spread get Newcombe's interval."""
    if not (is_rate(frame) or is_gap(frame)):
        return frame.copy()
    rows = frame.to_dict("records")
    for row in rows:
        noted = str(row.get("note") or "").startswith(WILSON)
        row["interval"] = None if pd.isna(row["low"]) else WILSON if noted else BOOTSTRAP
        if is_gap(frame) and row["interval"] is None:
            _fill_gap(row)
    return pd.DataFrame.from_records(rows, columns=[*frame.columns, "interval"])


def _fill_gap(row: dict) -> None:
    pairs = int(row["l1_measured"])
    if not pairs or pairs != row["l2_measured"] or row["gap"] not in (-1.0, 0.0, 1.0):
        return
    # No spread means that every conversation shows the same difference, so the counts give the pairs.
    both = int(row["l1_passed"]) if row["gap"] == 0 else 0
    neither = pairs - both if row["gap"] == 0 else 0
    first, second = (pairs if row["gap"] == sign else 0 for sign in (1, -1))
    found = newcombe_paired(both, first, second, neither)
    if found:
        row |= {"low": found[0], "high": found[1], "interval": NEWCOMBE}
