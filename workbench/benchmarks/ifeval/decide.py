"""Verdicts of DuplexSpeechBench-IFEval, for a whole table and many threshold settings at once.

Every action has one verifier (appendix E.3). `paper` is the rule as written there. `strict` (ours)
adds the floor precondition to the three actions that presuppose an agent already speaking: YIELD,
CONTINUE and ACCEPT_OVERLAP pass only if the agent held the floor at w0. By the rule as written an
agent that says nothing "continues", and one that starts and stops after w0 "yields".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench.benchmarks.base import Contrast, Flip, with_defaults
from workbench.errors import InputError

DEFAULTS: dict[str, float] = {
    "max_wait_s": 2.0,  # TAKE_TURN: latest onset after w0
    "yield_latency_ms": 600.0,  # YIELD passes, and CONTINUE fails, at or below this offset
    "interrupt_latency_ms": 1500.0,  # INTERRUPT: latest onset after w0
    "backchannel_max_s": 1.0,  # the ceiling: a backchannel is shorter than this
    "bc_window_max": 3.0,  # BACKCHANNEL: at most so many spans in the window
    "readback_coverage": 0.90,  # READBACK: least share of target tokens
}
"""Default thresholds. Ours, since the paper's table of defaults is not public, except the coverage;
each lies inside the grid of the paper's own sweep."""

PAPER_GRID: dict[str, tuple[float, ...]] = {
    "max_wait_s": (1.5, 2.0, 2.5),
    "yield_latency_ms": (200.0, 400.0, 600.0, 1000.0, 1500.0),
    "interrupt_latency_ms": (1000.0, 1500.0, 2000.0),
    "backchannel_max_s": (0.6, 0.8, 1.0, 1.2),
}
"""The 3 x 5 x 3 x 4 = 180 configurations of the paper's threshold sweep."""

NEEDS_FLOOR = ("YIELD", "CONTINUE", "ACCEPT_OVERLAP")
LABELS = ("silent", "backchannel", "floor_take")


@dataclass(frozen=True)
class Table:
    """The columns that verdicts need, as arrays of one length (n,); NaN stands for null.

    `own` holds thresholds that a role sets for its cases; NaN where the general one applies.
    """

    action: np.ndarray
    measured: np.ndarray
    genuine_s: np.ndarray
    off_s: np.ndarray
    floor: np.ndarray
    starting: np.ndarray
    touching: np.ndarray
    longest_s: np.ndarray
    goes_on: np.ndarray
    overlap_s: np.ndarray
    coverage: np.ndarray
    own: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.action)


def as_table(frame: pd.DataFrame) -> Table:
    """Take the columns of a measurements frame."""

    def numbers(name: str) -> np.ndarray:
        return pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=float, na_value=np.nan)

    def truths(name: str) -> np.ndarray:
        return frame[name].map({True: True, False: False}).fillna(False).to_numpy(dtype=bool)

    own = {name: numbers(f"own_{name}") for name in DEFAULTS if f"own_{name}" in frame}
    return Table(
        action=frame["action"].to_numpy(dtype=str),
        measured=frame["reason"].isna().to_numpy(),
        genuine_s=numbers("genuine_s"),
        off_s=numbers("off_s"),
        floor=truths("speaking_at_w0"),
        starting=numbers("starting"),
        touching=numbers("touching"),
        longest_s=numbers("longest_s"),
        goes_on=truths("user_goes_on"),
        overlap_s=numbers("overlap_s"),
        coverage=numbers("coverage"),
        own={name: values for name, values in own.items() if not np.isnan(values).all()},
    )


def grid(axes: Mapping[str, Sequence[float]] = PAPER_GRID) -> dict[str, np.ndarray]:
    """Every combination of the axes as columns of one length (k,), the last axis fastest.

    Raises
    ------
    InputError : unknown threshold name or an empty axis.
    """
    for name, values in axes.items():
        if len(values) == 0:
            raise InputError(f"The axis {name} of the grid is empty; give it at least one value.")
        for value in values:
            with_defaults(DEFAULTS, {name: float(value)})
    mesh = np.meshgrid(*(np.asarray(values, float) for values in axes.values()), indexing="ij")
    return {name: values.ravel() for name, values in zip(axes, mesh, strict=True)}


def passes(
    table: Table, settings: Mapping[str, np.ndarray | float] | None = None, *, strict: bool = False
) -> np.ndarray:
    """Verdicts under one or many settings.

    settings : threshold name -> value or array (k,); names left out stand at their default.
    Returns bool (k, n); rows that are not measured are False and must be masked by `table.measured`.
    """
    columns = {name: np.atleast_1d(np.asarray(value, float)) for name, value in (settings or {}).items()}
    unknown = set(columns) - set(DEFAULTS)
    if unknown:
        raise InputError(f"There is no threshold {sorted(unknown)[0]!r}; thresholds are {', '.join(DEFAULTS)}.")
    k = max((len(values) for values in columns.values()), default=1)
    out = np.zeros((k, len(table)), bool)

    def limit(name: str, rows: np.ndarray) -> np.ndarray:
        value = columns.get(name, np.array([DEFAULTS[name]]))[:, None]
        own = table.own.get(name)
        if own is None:
            return value
        return np.where(np.isnan(own[rows]), value, own[rows])

    for action in np.unique(table.action[table.measured]):
        rows = np.flatnonzero((table.action == action) & table.measured)
        verdict = _VERIFIERS[action](table, rows, limit)
        if strict and action in NEEDS_FLOOR:
            verdict = verdict & table.floor[rows]
        out[:, rows] = verdict
    return out


def _ms(seconds: np.ndarray) -> np.ndarray:
    # 1.1 s * 1000 is 1100.0000000000002 in floating point, which would miss a limit of 1100 ms.
    return np.round(seconds * 1000, 3)


def _silent(table, rows, limit):
    return table.touching[rows] == 0


def _take_turn(table, rows, limit):
    return table.genuine_s[rows] <= limit("max_wait_s", rows)


def _is_backchannel(table, rows, limit):
    short = table.longest_s[rows] < limit("backchannel_max_s", rows)
    return short & (table.starting[rows] >= 1) & table.goes_on[rows]


def _backchannel(table, rows, limit):
    return _is_backchannel(table, rows, limit) & (table.touching[rows] <= limit("bc_window_max", rows))


def _interrupt(table, rows, limit):
    return _ms(table.genuine_s[rows]) <= limit("interrupt_latency_ms", rows)


def _readback(table, rows, limit):
    return table.coverage[rows] >= limit("readback_coverage", rows)


def _yield(table, rows, limit):
    return _ms(table.off_s[rows]) <= limit("yield_latency_ms", rows)


def _continue(table, rows, limit):
    return ~_yield(table, rows, limit)


def _accept_overlap(table, rows, limit):
    return table.overlap_s[rows] > 0


# Comparisons with NaN are False: no onset never meets a limit, and no offset means "not yielded".
_VERIFIERS = {
    "LISTEN": _silent,
    "NO_BACKCHANNEL": _silent,
    "TAKE_TURN": _take_turn,
    "BACKCHANNEL": _backchannel,
    "INTERRUPT": _interrupt,
    "READBACK": _readback,
    "YIELD": _yield,
    "CONTINUE": _continue,
    "ACCEPT_OVERLAP": _accept_overlap,
}


def labels(table: Table, settings: Mapping[str, float] | None = None) -> np.ndarray:
    """The VAD label of every row under one setting: silent, backchannel, floor_take; '' when not measured."""
    values = DEFAULTS | dict(settings or {})
    rows = np.arange(len(table))
    own = table.own.get("backchannel_max_s")

    def limit(name, _rows):
        return values[name] if own is None else np.where(np.isnan(own), values[name], own)

    silent = _silent(table, rows, limit)
    brief = _is_backchannel(table, rows, limit)
    chosen = np.select([~table.measured, silent, brief], ["", "silent", "backchannel"], "floor_take")
    return chosen.astype(str)


def contrasts(frame: pd.DataFrame) -> dict[str, Contrast]:
    """The scores by which systems are compared: IAS over all cases, IAS by level, the Entailment Gap."""
    level = frame["level"].to_numpy(str)
    scores = {"ias": Contrast(np.ones(len(frame), bool))}
    scores |= {f"ias_{name}": Contrast(level == name) for name in ("L1", "L2")}
    return scores | {"entailment_gap": Contrast(level == "L1", level == "L2")}


def flip(row: Mapping[str, Any], settings: Mapping[str, float] | None = None) -> Flip | None:
    """The nearest threshold value at which this case's verdict (the paper's) would change.

    None when it was not measured, when no threshold enters its rule (LISTEN, NO_BACKCHANNEL,
    ACCEPT_OVERLAP), or when no value of one threshold alone changes it.
    """
    values = DEFAULTS | dict(settings or {})

    def number(name: str) -> float | None:
        value = row.get(name)
        return None if value is None or value != value else float(value)

    def in_ms(name: str) -> float | None:
        value = number(name)
        return None if value is None else float(_ms(np.float64(value)))

    if isinstance(row.get("reason"), str):
        return None
    match row["action"]:
        case "TAKE_TURN":
            return Flip.at("max_wait_s", number("genuine_s"), "from")
        case "INTERRUPT":
            return Flip.at("interrupt_latency_ms", in_ms("genuine_s"), "from")
        case "YIELD":
            return Flip.at("yield_latency_ms", in_ms("off_s"), "from")
        case "CONTINUE":
            return Flip.at("yield_latency_ms", in_ms("off_s"), "below")
        case "READBACK":
            return Flip.at("readback_coverage", number("coverage"), "up_to")
        case "BACKCHANNEL" if number("starting") and row.get("user_goes_on") is not None and row["user_goes_on"]:
            own = number("own_backchannel_max_s")
            short = number("longest_s") < (values["backchannel_max_s"] if own is None else own)
            few = number("touching") <= values["bc_window_max"]
            if few:
                return Flip.at("backchannel_max_s", number("longest_s"), "above")
            if short:
                return Flip.at("bc_window_max", number("touching"), "from")
    return None
