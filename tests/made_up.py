"""Made-up measurements on the full IFEval grid, for tests of analysis that need no audio."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from workbench import datasets
from workbench.benchmarks.ifeval import BENCHMARK
from workbench.benchmarks.ifeval.measure import unmeasured
from workbench.contract import BuildOptions


@cache
def _grid() -> pd.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        BENCHMARK.build(BuildOptions(Path(folder), audio=False))
        return pd.DataFrame([row for case in datasets.load(Path(folder)).cases for row in unmeasured(case, None)])


def measured_systems(count: int, seed: int = 0) -> dict[str, pd.DataFrame]:
    """`count` systems of different temper: name -> a measurements frame with every column decide needs."""
    systems = {}
    for index in range(count):
        random = np.random.default_rng([seed, index])
        frame = _grid().copy()
        n = len(frame)
        stated = frame["level"].isin(["L1", "L3"]).to_numpy()
        pace = (0.5 + 0.25 * index) * np.where(stated, 0.7 + 0.1 * index, 1.0)
        starting = random.integers(0, 3, n)
        touching = starting + random.integers(0, 2, n) * (random.random(n) < 0.2)
        frame["reason"] = np.where(random.random(n) < 0.05, "no_model_onset", None)
        frame["w0_s"], frame["w1_s"] = 12.0 + random.random(n) * 6, 20.0 + random.random(n) * 6
        frame["genuine_s"] = np.where(starting > 0, random.gamma(3, 0.5, n) * pace, np.nan).round(3)
        frame["off_s"] = (random.gamma(2, 0.3, n) * pace).round(3)
        frame["speaking_at_w0"] = random.random(n) < 0.7
        frame["starting"], frame["touching"] = starting, touching
        frame["longest_s"] = np.where(touching > 0, random.gamma(2, 0.4, n), np.nan).round(3)
        frame["user_goes_on"] = random.random(n) < 0.9
        frame["overlap_s"] = np.maximum(0, random.normal(0.3, 0.5, n)).round(3)
        frame["coverage"] = random.random(n).round(2)
        frame["tokens_matched"], frame["tokens_target"] = 5, 10
        systems[f"s{index}"] = frame
    return systems
