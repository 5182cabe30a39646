"""Whole runs decided again under other thresholds, quickly enough for a slider.

Everything that does not depend on thresholds is prepared once: the decider's arrays, the masks of every
score, the verdicts at the default. One setting is then a few vectorised comparisons; the sentence of a
verdict is never made here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from workbench.analysis.sweep import Sweep, sweep, tau_b
from workbench.app.store import KEY, Key
from workbench.contract import Benchmark, Contrast


@dataclass(frozen=True)
class Answer:
    """What one setting gives. scores : name -> float (systems,). flips : run -> rows (positions) that turned.
    now : run -> bool (rows,), passed under the setting."""

    scores: dict[str, np.ndarray]
    tau: float
    flips: dict[str, np.ndarray]
    now: dict[str, np.ndarray]

    @property
    def flipped(self) -> int:
        return sum(len(rows) for rows in self.flips.values())


class Redecide:
    """measurements : run -> frame, the baseline first. `rule` 'strict' takes the benchmark's strict variant."""

    def __init__(self, benchmark: Benchmark, measurements: Mapping[str, pd.DataFrame], rule: str = "verdict"):
        self.benchmark, self.rule = benchmark, rule
        self.names = tuple(measurements)
        self.frames = dict(measurements)
        self._tables = {name: benchmark.decider.table(frame) for name, frame in measurements.items()}
        self._masks = {
            name: _masks(benchmark.decider.contrasts(frame), self._tables[name].measured)
            for name, frame in measurements.items()
        }
        self.score_names = list(benchmark.decider.contrasts(next(iter(measurements.values()))))
        self.default = {name: self._pass(name, {})[0] for name in self.names}
        self.base = self._scores({name: passed[None] for name, passed in self.default.items()})

    def _pass(self, name: str, settings: Mapping[str, np.ndarray | float]) -> np.ndarray:
        full = dict(self.benchmark.defaults) | dict(settings)
        return self.benchmark.decider.passes(self._tables[name], full, strict=self.rule == "strict")

    def _scores(self, passed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """passed : run -> bool (k, rows). Score name -> float (k, systems)."""
        columns = []
        for name in self.names:
            plus, minus, counts = self._masks[name]
            values = passed[name].astype(np.float32)
            with np.errstate(invalid="ignore", divide="ignore"):
                first, second = (values @ plus) / counts[0], (values @ minus) / counts[1]
            columns.append(np.where(counts[2], first - second, first))
        stacked = np.stack(columns, axis=1)  # (k, systems, scores)
        return {name: stacked[:, :, at] for at, name in enumerate(self.score_names)}

    def at(self, settings: Mapping[str, float], ranking: str | None = None) -> Answer:
        """Decide every run under one setting. `ranking` : the score that tau is of (the benchmark's own)."""
        now = {name: self._pass(name, settings)[0] for name in self.names}
        scores = self._scores({name: passed[None] for name, passed in now.items()})
        ranking = ranking or self.benchmark.decider.ranking
        tau = float(tau_b(scores[ranking], self.base[ranking][0])[0])
        flips = {
            name: np.flatnonzero((now[name] != self.default[name]) & self._tables[name].measured) for name in self.names
        }
        return Answer({name: values[0] for name, values in scores.items()}, tau, flips, now)

    def grid(self, settings: Mapping[str, float], x: str, y: str, score: str) -> np.ndarray:
        """One score over two thresholds, the others as set: float (systems, y values, x values)."""
        xs, ys = self.axis(x), self.axis(y)
        mesh_y, mesh_x = np.meshgrid(ys, xs, indexing="ij")
        columns = {name: float(value) for name, value in settings.items()} | {x: mesh_x.ravel(), y: mesh_y.ravel()}
        passed = {name: self._pass(name, columns) for name in self.names}
        return self._scores(passed)[score].T.reshape(len(self.names), len(ys), len(xs))

    def axis(self, threshold: str) -> np.ndarray:
        """The values of one threshold on a map: the preset's, or a few around the default."""
        default = float(self.benchmark.defaults[threshold])
        values = self.benchmark.decider.preset.get(threshold) or tuple(default * step for step in (0.5, 0.75, 1, 1.25))
        return np.unique([*map(float, values), default])

    def preset(self) -> Sweep:
        """The benchmark's whole grid, for the summary of rankings."""
        return sweep(self.benchmark, self.frames, strict=self.rule == "strict")

    def key(self, name: str, row: int) -> Key:
        frame = self.frames[name]
        return (name, *(str(frame[part].iloc[row]) if part in frame else "" for part in KEY[1:]))


def _masks(contrasts: Mapping[str, Contrast], measured: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """plus and minus as float32 (rows, scores), and (rows in plus, rows in minus, has a minus) by score."""
    nothing = np.zeros_like(measured)
    plus = np.stack([each.plus & measured for each in contrasts.values()], axis=1)
    minus = np.stack(
        [measured & (nothing if each.minus is None else each.minus) for each in contrasts.values()], axis=1
    )
    both = np.array([each.minus is not None for each in contrasts.values()])
    counts = np.stack([plus.sum(axis=0), minus.sum(axis=0), both]).astype(float)
    return plus.astype(np.float32), minus.astype(np.float32), counts


def bounds(benchmark: Benchmark, threshold: str) -> tuple[float, float, float]:
    """Least and greatest value and the step of a threshold's slider, from its unit and its preset."""
    default = float(benchmark.defaults[threshold])
    most = max([default, *benchmark.decider.preset.get(threshold, ())])
    if threshold.endswith("_ms"):
        return 0.0, float(np.ceil(2 * most / 100) * 100), 10.0
    if threshold.endswith("_s"):
        return 0.0, float(np.ceil(2 * most)), 0.05
    if 0 < default <= 1:
        return 0.0, 1.0, 0.01
    return 0.0, float(np.ceil(3 * most)), 1.0


def shown(value: float) -> str:
    """A score in percent or points; a dash where nothing was measured."""
    return "–" if value != value else f"{100 * value:.1f}"


def ranks(values: Sequence[float]) -> list[int]:
    """Competition ranks, best 1; what is not measured comes last."""
    numbers = [float("-inf") if value != value else float(value) for value in values]
    return [1 + sum(other > value + 1e-9 for other in numbers) for value in numbers]
