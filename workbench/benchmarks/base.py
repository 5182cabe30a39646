"""What a benchmark is to the rest of the workbench: a handful of plain functions under one name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from workbench.cases import Case, Move
from workbench.datasets import Dataset, Header
from workbench.episodes import EpisodeRecord


@dataclass(frozen=True)
class BuildOptions:
    """How a dataset is to be built.

    limit : at most so many cases, chosen so that every cell comes first. scripts : a folder of
    scripts that replaces the shipped ones. engine : spec of the speech engine.
    """

    out: Path
    audio: bool = True
    limit: int | None = None
    engine: str = "hibari"
    scripts: Path | None = None
    workers: int | None = None
    dask: str | None = None


class Build(Protocol):
    def __call__(self, options: BuildOptions) -> Header: ...


@dataclass(frozen=True)
class Benchmark:
    """The functions of one benchmark.

    cases : how many the full grid has.
    build : authored data -> dataset folder.
    validate_authored : sentences about leakage and structure of the authored data.
    validate : sentences about a built dataset; `complete` is False for a slice.
    measure(case, record, user_spans, agent_spans) : the rows of one case.
    unmeasured(case, reason) : the rows of a case without a usable recording.
    verdicts(measurements, thresholds) : one row a measurement, with evidence.
    defaults : threshold name -> value. merge_gap_s : spans closer than this are one utterance.
    tables(measurements, verdicts) : name -> frame, for reports.
    moves(case, style) : what the 'oracle' and 'contrary' reference agents do.
    decide_brought(items, settings) : verdicts for a user's own segments, and problems.
    """

    name: str
    title: str
    cases: int
    build: Build
    validate_authored: Callable[[], list[str]]
    validate: Callable[[Dataset, bool], list[str]]
    measure: Callable[[Case, EpisodeRecord, np.ndarray, np.ndarray], list[dict[str, Any]]]
    unmeasured: Callable[[Case, str], list[dict[str, Any]]]
    verdicts: Callable[[pd.DataFrame, Mapping[str, float]], pd.DataFrame]
    defaults: Mapping[str, float]
    tables: Callable[..., dict[str, pd.DataFrame]]
    moves: Callable[[Case, str], tuple[Move, ...]]
    decide_brought: Callable[[Any, Mapping[str, float]], tuple[list[dict], list[str]]]
