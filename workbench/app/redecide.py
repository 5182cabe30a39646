"""Whole runs decided again under other thresholds, quickly enough for a slider.

Everything that does not depend on thresholds is prepared once: the deciders, the masks of every score, the
verdicts at the thresholds that the runs were scored with. One setting is then a few vectorised comparisons;
the sentence of a verdict is never made here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from workbench.analysis.sweep import Sweep, sweep
from workbench.app.store import Key
from workbench.contract import KEYS, Benchmark, Score
from workbench.deciding import Decider, score_of
from workbench.statistics import tau_b


@dataclass(frozen=True)
class Redecided:
    """What one setting gives. scores : name -> float (systems,). flips : run -> rows (positions) that turned.
    states : run -> int8 (1, rows), as `Decider.states` gives them."""

    scores: dict[str, np.ndarray]
    tau: float
    flips: dict[str, np.ndarray]
    states: dict[str, np.ndarray]


class Redecide:
    """Several runs of one benchmark.

    Parameters
    ----------
    measurements : run -> frame, the baseline first.
    limits : the thresholds in force, which changes are counted from; the benchmark's defaults where not given.
    rule : 'strict' takes the benchmark's strict variant.
    """

    def __init__(self, benchmark: Benchmark, measurements: Mapping[str, pd.DataFrame],
                 limits: Mapping[str, float] | None = None, rule: str = "verdict"):  # fmt: skip
        self.benchmark, self.rule, self.names = benchmark, rule, tuple(measurements)
        self.limits = benchmark.limits(limits)
        self.deciders = {name: Decider(benchmark, frame) for name, frame in measurements.items()}
        self._own = {name: benchmark.scores(frame) for name, frame in measurements.items()}
        self.scores: Mapping[str, Score] = next(iter(self._own.values()))
        """Score name -> what it is; its masks are the first run's."""
        self.before = {name: self._states(name, {}) for name in self.names}
        self.base = self._scores(self.before)

    def _states(self, name: str, settings: Mapping[str, np.ndarray | float]) -> np.ndarray:
        return self.deciders[name].states(self.limits | dict(settings), strict=self.rule == "strict")

    def _score(self, name: str, states: Mapping[str, np.ndarray]) -> np.ndarray:
        """states : run -> int8 (k, rows). float (k, systems)."""
        return np.stack([score_of(states[run], self._own[run][name]) for run in self.names], axis=1)

    def _scores(self, states: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: self._score(name, states) for name in self.scores}

    def at(self, settings: Mapping[str, float], ranking: str | None = None) -> Redecided:
        """Decide every run under one setting. `ranking` : the score that tau is of (the benchmark's own)."""
        states = {name: self._states(name, settings) for name in self.names}
        scores, ranking = self._scores(states), ranking or self.benchmark.ranking
        tau = float(tau_b(scores[ranking], self.base[ranking][0])[0])
        flips = {name: np.flatnonzero(states[name][0] != self.before[name][0]) for name in self.names}
        return Redecided({name: values[0] for name, values in scores.items()}, tau, flips, states)

    def grid(self, settings: Mapping[str, float], x: str, y: str, score: str) -> np.ndarray:
        """One score over two thresholds, the others as set: float (systems, y values, x values)."""
        xs, ys = self.axis(x), self.axis(y)
        mesh_y, mesh_x = np.meshgrid(ys, xs, indexing="ij")
        columns = {name: float(value) for name, value in settings.items()} | {x: mesh_x.ravel(), y: mesh_y.ravel()}
        found = self._score(score, {name: self._states(name, columns) for name in self.names})
        return found.T.reshape(len(self.names), len(ys), len(xs))

    def axis(self, threshold: str) -> np.ndarray:
        """The values of one threshold on a map: the preset's or a few around the default, and the one in force."""
        return np.unique([*self.benchmark.threshold[threshold].axis, self.limits[threshold]])

    def preset(self) -> Sweep:
        """The benchmark's whole grid, for the summary of rankings."""
        frames = {name: decider.frame for name, decider in self.deciders.items()}
        return sweep(self.benchmark, frames, base=self.limits, strict=self.rule == "strict")

    @cached_property
    def keys(self) -> dict[str, list[Key]]:
        """Run -> the key of each of its rows."""
        return {
            name: [(name, *key) for key in decider.frame[list(KEYS)].astype(str).itertuples(index=False, name=None)]
            for name, decider in self.deciders.items()
        }

    def turns(self, name: str, rows: Sequence[int], settings: Mapping[str, float]) -> list[str]:
        """Where verdicts of a run's rows turn, the other thresholds as set; '' where no single one turns it."""
        part = Decider(self.benchmark, self.deciders[name].frame.iloc[list(rows)])
        found = part.flips(self.limits | dict(settings), strict=self.rule == "strict")
        return ["" if flip is None else str(flip) for flip in found]
