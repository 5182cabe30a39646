"""Tables of rates and gaps: how to know them, and which of their columns are labels."""

from __future__ import annotations

import pandas as pd

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
