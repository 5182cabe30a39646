"""Every table of a report as Parquet and CSV, each with a `run` column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from workbench.files import write_atomically
from workbench.judges.store import write_csv
from workbench.report.gather import Gathered
from workbench.report.judged import stacked


def all_tables(gathered: Gathered) -> dict[str, pd.DataFrame]:
    """Table name -> frame: the benchmark's tables, calibration, judges, and `cases`."""
    tables = dict(gathered.tables)
    if gathered.calibration:
        tables["calibration"] = gathered.calibration.matrix
        tables["calibration_exceptions"] = gathered.calibration.exceptions
    tables |= stacked(gathered.judged)
    tables["cases"] = flat(gathered.cases)
    return tables


def write_tables(gathered: Gathered, folder: Path) -> None:
    """Write `folder`/{table}.parquet and .csv; no text in a CSV can act as a spreadsheet formula."""
    for name, frame in all_tables(gathered).items():
        stored = _storable(frame)
        write_atomically(folder / f"{name}.parquet", lambda part, f=stored: f.to_parquet(part, index=False))
        write_csv(folder / f"{name}.csv", frame)


def flat(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns that hold one value a cell; spans stay in the run's own scores."""
    nested = [column for column in frame if frame[column].map(lambda v: isinstance(v, list | tuple | np.ndarray)).any()]
    return frame.drop(columns=nested)


def _storable(frame: pd.DataFrame) -> pd.DataFrame:
    """Parquet wants one type a column; columns that mix numbers and text are stored as text."""
    mixed = [
        column
        for column in frame
        if frame[column].dtype == object and len({type(value) for value in frame[column].dropna()}) > 1
    ]
    return frame.assign(**{column: frame[column].map(lambda v: None if pd.isna(v) else str(v)) for column in mixed})
