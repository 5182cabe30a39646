"""What a benchmark is to the rest of the workbench: a handful of plain functions under one name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from workbench.cases import Case, Move
from workbench.construct.recompute import Recomputed
from workbench.datasets import Dataset, Header
from workbench.errors import InputError


@dataclass(frozen=True)
class BuildOptions:
    """How a dataset is to be built.

    limit : at most so many cases, chosen so that every cell comes first. scripts : a folder of
    scripts that replaces the shipped ones. engine : spec of the speech engine; without one, Kokoro for a
    full build where it is installed, else hibari.
    """

    out: Path
    audio: bool = True
    limit: int | None = None
    engine: str | None = None
    scripts: Path | None = None
    workers: int | None = None
    dask: str | None = None


@dataclass(frozen=True)
class Contrast:
    """A score of a system: the pass rate over `plus`, less that over `minus` if given (masks over rows)."""

    plus: np.ndarray
    minus: np.ndarray | None = None


@dataclass(frozen=True)
class Flip:
    """Where one threshold turns a verdict: it passes 'from', 'above', 'below' or 'up_to' this value."""

    threshold: str
    value: float
    passes: Literal["from", "above", "below", "up_to"]

    @classmethod
    def at(cls, threshold: str, value: float | None, passes: str) -> Flip | None:
        return None if value is None else cls(threshold, value, passes)

    def __str__(self) -> str:
        unit = " ms" if self.threshold.endswith("_ms") else " s" if self.threshold.endswith("_s") else ""
        where = {"from": "from {} on", "above": "above {}", "below": "below {}", "up_to": "up to {}"}[self.passes]
        return f"passes with {self.threshold} {where.format(f'{self.value:g}{unit}')}"


@dataclass(frozen=True)
class Step:
    """One named step on the way into a denominator. passed : None where it was not asked or is not known."""

    name: str
    passed: bool | None
    words: str


@dataclass(frozen=True)
class Decider:
    """How a benchmark decides many settings at once, for sweeps.

    table(frame) : the columns as arrays; has `.measured`, bool (n,).
    passes(table, settings, strict=False) : bool (k, n) for k settings.
    preset : the grid of the paper's own sweep. contrasts(frame) : scores by name, `ranking` the one
    that ranks systems. flip(row) : the nearest threshold at which one case flips.
    """

    table: Callable[[pd.DataFrame], Any]
    passes: Callable[..., np.ndarray]
    preset: Mapping[str, tuple[float, ...]]
    contrasts: Callable[[pd.DataFrame], dict[str, Contrast]]
    ranking: str
    flip: Callable[..., Flip | None]


def with_defaults(defaults: Mapping[str, float], settings: Mapping[str, float] | None) -> dict[str, float]:
    """A benchmark's default thresholds with some replaced.

    Raises
    ------
    InputError : unknown name, or a value that is not a finite number at least 0.
    """
    for name, value in (settings or {}).items():
        if name not in defaults:
            raise InputError(f"There is no threshold {name!r}; thresholds are {', '.join(defaults)}.")
        if not math.isfinite(value) or value < 0:
            raise InputError(f"The threshold {name} cannot be {value!r}; give a number of at least 0.")
    return dict(defaults) | dict(settings or {})


class Build(Protocol):
    def __call__(self, options: BuildOptions) -> Header: ...


@dataclass(frozen=True)
class Benchmark:
    """The functions of one benchmark.

    cases : how many the full grid has.
    build : authored data -> dataset folder.
    validate_authored : sentences about leakage and structure of the authored data.
    validate : sentences about a built dataset; `complete` is False for a slice.
    recompute(dataset, scripts=None, listen=False) : what expanding the authored data again finds, and what
        could not be checked.
    measure(case, record, user_spans, agent_spans, merge_gap_s=...) : the rows of one case.
    unmeasured(case, reason) : the rows of a case without a usable recording.
    verdicts(measurements, thresholds) : one row a measurement, with evidence.
    decider : the same rules for many settings at once.
    defaults : threshold name -> value. merge_gap_s : spans closer than this are one utterance.
    tables(measurements, verdicts) : name -> frame, for reports.
    moves(case, style) : what the 'oracle' and 'contrary' reference agents do.
    decide_brought(items, settings) : verdicts for a user's own segments, and problems.
    steps(measurement) : the named steps by which a row comes to count or leaves the denominator, for a
        person to read; [] for rows that have none.
    """

    name: str
    title: str
    cases: int
    build: Build
    validate_authored: Callable[[], list[str]]
    validate: Callable[[Dataset, bool], list[str]]
    measure: Callable[..., list[dict[str, Any]]]
    unmeasured: Callable[[Case, str], list[dict[str, Any]]]
    verdicts: Callable[[pd.DataFrame, Mapping[str, float]], pd.DataFrame]
    decider: Decider
    defaults: Mapping[str, float]
    merge_gap_s: float
    tables: Callable[..., dict[str, pd.DataFrame]]
    moves: Callable[[Case, str], tuple[Move, ...]]
    decide_brought: Callable[[Any, Mapping[str, float]], tuple[list[dict], list[str]]]
    steps: Callable[[Mapping[str, Any]], list[Step]] | None = None
    recompute: Callable[..., Recomputed] | None = None
