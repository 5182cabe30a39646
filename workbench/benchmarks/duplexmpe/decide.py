"""Verdicts of Duplex-MPE for a whole table of rows and many threshold settings at once.

fresh_onset              a new onset within the limit after T, no speech active as T ends (as written)
fresh_onset_permissive   some new onset within the limit, whatever was active
response_presence        any speech in T's response window
silence                  no speech in the window, or no more than `brief_s` of it (without a judge)
window_response          any speech during N4_Q or its gap
yield                    eligible: silent during N4_Q, began in the gap, speaking as N4_R begins;
                         passes: silent from `yield_within_s` after N4_R began and for the rest of that
                         turn's window, which a shorter turn does not shorten

A row is undecided ('unmeasurable') only where the recording ends before its window does and what was
recorded leaves both verdicts possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench.benchmarks.duplexmpe.cases import ONSET_S, YIELD_S
from workbench.benchmarks.duplexmpe.measure import METRICS
from workbench.benchmarks.duplexmpe.streams import FLOATS, TRUTHS
from workbench.contract import Contrast, Flip
from workbench.errors import InputError

DEFAULTS: dict[str, float] = {
    "onset_within_s": ONSET_S,  # the paper's 5 s
    "brief_s": 1.0,  # ours: so much speech in an N window is an acknowledgement, where no judge decides
    "yield_within_s": YIELD_S,  # the paper's 2.0 s
}

BRIEF_GRID = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
"""Brief-speech thresholds under which the silence ranking is shown."""

GRID: dict[str, tuple[float, ...]] = {
    "onset_within_s": (2.0, 3.0, 4.0, 5.0),
    "brief_s": BRIEF_GRID,
    "yield_within_s": (1.0, 1.5, 2.0, 2.5, 3.0),
}

PASS, FAIL, UNDECIDED, NOT_ELIGIBLE = 1, 0, -1, -2
VERDICTS = {PASS: "pass", FAIL: "fail", UNDECIDED: "unmeasurable", NOT_ELIGIBLE: "not_eligible"}

STEPS = ("silent_during_question", "started_in_gap", "speaking_at_resolution")
"""The eligibility chain of yield, in the order in which an event may leave it."""
STEP_COLUMNS = dict(zip(STEPS, ("quiet_question", "began_in_gap", "speaking_at_resolution"), strict=True))


@dataclass(frozen=True)
class Table:
    """The columns that verdicts need, arrays of one length (n,); NaN in floats stands for null.

    step : how far each yield event came in the eligibility chain, 0 to 3; -1 where a step is not known.
    measured : rows with a pass or a fail at the default thresholds.
    """

    metric: np.ndarray
    usable: np.ndarray
    values: dict[str, np.ndarray]
    active: np.ndarray
    step: np.ndarray
    measured: np.ndarray

    def __len__(self) -> int:
        return len(self.metric)


def as_table(frame: pd.DataFrame | Mapping[str, np.ndarray]) -> Table:
    """Take the columns of a measurements frame (or of `measure_streams`)."""
    values = {name: np.asarray(pd.to_numeric(pd.Series(frame[name]), errors="coerce"), float) for name in FLOATS}
    truths = {name: _truth(frame[name]) for name in TRUTHS}
    step = np.zeros(len(values["w0_s"]), int)
    going = np.ones(len(step), bool)
    for column in STEP_COLUMNS.values():
        step = np.where(going & np.isnan(truths[column]), -1, step)
        going &= truths[column] == 1.0
        step += going
    usable = pd.isna(pd.Series(frame["reason"])).to_numpy()
    table = Table(
        np.asarray(frame["metric"], object), usable, values, truths["active_at_start"] == 1.0, step, np.zeros(0, bool)
    )
    measured = states(table)[0] >= FAIL
    return Table(table.metric, usable, values, table.active, step, measured)


def _truth(column: Any) -> np.ndarray:
    """True, False and null as 1.0, 0.0 and NaN."""
    if isinstance(column, np.ndarray) and column.dtype.kind == "f":
        return column
    return np.array([np.nan if value is None or value != value else float(value) for value in column])


def states(table: Table, settings: Mapping[str, np.ndarray | float] | None = None) -> np.ndarray:
    """PASS, FAIL, UNDECIDED or NOT_ELIGIBLE under one or many settings: int8 (k, n).

    settings : threshold name -> value or array (k,); names left out stand at their default.
    """
    columns = {name: np.atleast_1d(np.asarray(value, float)) for name, value in (settings or {}).items()}
    unknown = set(columns) - set(DEFAULTS)
    if unknown:
        raise InputError(f"There is no threshold {sorted(unknown)[0]!r}; thresholds are {', '.join(DEFAULTS)}.")
    k = max((len(values) for values in columns.values()), default=1)
    limit = {name: columns.get(name, np.array([value]))[:, None] for name, value in DEFAULTS.items()}
    out = np.full((k, len(table)), UNDECIDED, np.int8)
    for metric, rule in _RULES.items():
        rows = np.flatnonzero((table.metric == metric) & table.usable)
        if len(rows):
            passed, failed = rule(table, rows, limit)
            out[:, rows] = np.where(passed, PASS, np.where(failed, FAIL, UNDECIDED))
    left = (table.metric == "yield") & table.usable
    out[:, left & (table.step == -1)] = UNDECIDED
    out[:, left & (table.step >= 0) & (table.step < len(STEPS))] = NOT_ELIGIBLE
    return out


def _fresh(table, rows, limit, strict=True):
    onset, known, within = table.values["onset_s"][rows], table.values["known_s"][rows], limit["onset_within_s"]
    active = table.active[rows] & strict
    passed = (onset <= within) & ~active
    return passed, active | (~passed & (known >= within)) | (onset > within)


def _permissive(table, rows, limit):
    return _fresh(table, rows, limit, strict=False)


def _any_speech(table, rows, limit):
    return table.values["speech_s"][rows] > 0, table.values["most_s"][rows] <= 0


def _silence(table, rows, limit):
    # Rounded, so that 4.3 - 3.3 s of speech is no more than 1.0 s.
    return (
        np.round(table.values["most_s"][rows], 6) <= limit["brief_s"],
        np.round(table.values["speech_s"][rows], 6) > limit["brief_s"],
    )


def _yield(table, rows, limit):
    value = {
        name: table.values[name][rows] for name in ("release_s", "resume_s", "resume_end_s", "known_s", "window_s")
    }
    within = limit["yield_within_s"]
    # Past a short turn's window only the moment of the limit itself counts.
    late = (within >= value["window_s"]) & (value["resume_s"] <= within) & (within < value["resume_end_s"])
    failed = (value["release_s"] > within) | late
    return ~failed & (value["known_s"] >= np.maximum(within, value["window_s"])), failed


# Comparisons with NaN are False: no onset never meets a limit.
_RULES = {
    "fresh_onset": _fresh,
    "fresh_onset_permissive": _permissive,
    "response_presence": _any_speech,
    "silence": _silence,
    "window_response": _any_speech,
    "yield": _yield,
}


def passes(
    table: Table, settings: Mapping[str, np.ndarray | float] | None = None, *, strict: bool = False
) -> np.ndarray:
    """Bool (k, n); rows that are not measured are False and must be masked by `table.measured`.

    strict : no further variant here; the two readings of fresh onset are metrics of their own.
    """
    return states(table, settings) == PASS


def contrasts(frame: pd.DataFrame) -> dict[str, Contrast]:
    """The scores by which systems are compared: every metric over both versions; `fresh_onset` ranks."""
    metric = frame["metric"].to_numpy(str)
    return {name: Contrast(metric == name) for name in METRICS}


def flip(row: Mapping[str, Any], settings: Mapping[str, float] | None = None) -> Flip | None:
    """The nearest threshold value at which this row's verdict would change; None where none would."""

    def number(name: str) -> float | None:
        value = row.get(name)
        return None if value is None or value != value else float(value)

    if isinstance(row.get("reason"), str):
        return None
    match row["metric"]:
        case "fresh_onset" if not row.get("active_at_start"):
            return Flip.at("onset_within_s", number("onset_s"), "from")
        case "fresh_onset_permissive":
            return Flip.at("onset_within_s", number("onset_s"), "from")
        case "silence" if number("speech_s"):
            return Flip.at("brief_s", number("speech_s"), "from")
        case "yield" if all(row.get(column) is True for column in STEP_COLUMNS.values()):
            return Flip.at("yield_within_s", number("release_s"), "from")
    return None
