"""Threshold sweeps: verdicts of whole runs decided again from stored measurements, never from audio.

Does a ranking survive another threshold? Each system's measurements are decided under every setting
of a grid; scores (IAS, Entailment Gap ...) are ratios of sums; rankings are compared with the
default's by Kendall's tau-b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from workbench.contract import Benchmark
from workbench.deciding import Decider, grid, scores
from workbench.errors import InputError
from workbench.statistics.agreement import ranks, tau_b


@dataclass(frozen=True)
class Sweep:
    """Scores of every system under every setting.

    settings : frame (k, thresholds). default : the row that holds the thresholds in force.
    scores : score name -> float (k, systems), NaN where nothing was measured. ranking : the score that ranks;
    sign : 1 where more of it is better, -1 where less is.
    """

    benchmark: str
    systems: tuple[str, ...]
    settings: pd.DataFrame
    default: int
    scores: Mapping[str, np.ndarray]
    ranking: str
    strict: bool
    sign: int = 1

    @cached_property
    def tau(self) -> np.ndarray:
        """Kendall's tau-b (k,) of the ranking under each setting against the default's; NaN where undefined."""
        return tau_b(self.scores[self.ranking], self.scores[self.ranking][self.default])

    @cached_property
    def ranks(self) -> np.ndarray:
        """Competition ranks (k, systems) by the ranking score: the best has 1, ties share a rank, NaN has none."""
        return ranks(self.sign * self.scores[self.ranking])

    @property
    def unranked(self) -> str | None:
        """Why there is no ranking to keep; None where there is one."""
        place = self.ranks[self.default]
        tied = np.unique(place[~np.isnan(place)]).size < 2
        return _too_few(self.ranking, place) or (f"All runs tie on {self.ranking}." if tied else None)

    def summary(self) -> dict[str, float | int | str | None]:
        """Tau's mean, median, minimum and maximum, and how often the top of the ranking survives.

        Shares count settings whose best (or best two, as a set; or whole order) is the default's, among the
        settings with a ranking; None where the default has none, since nothing can be kept then (`unranked` says
        why). Fewer than two measured runs are no ranking, nor are runs that all tie at the default.
        Ties are broken by none: a tied place survives only if the same systems are tied in it.
        """
        tau = self.tau[~np.isnan(self.tau)]
        places = np.nan_to_num(self.ranks)
        base = places[self.default]
        ranked = (places > 0).sum(axis=1) >= 2
        if self.unranked:
            ranked[:] = False
        others = ranked & (np.arange(len(self.settings)) != self.default)
        top, second = (places == 1), (places > 0) & (places <= 2)
        kept = {
            "top1_kept": (top == top[self.default]).all(axis=1),
            "top2_kept": (second == second[self.default]).all(axis=1),
            "order_kept": (places == base).all(axis=1),
        }

        return {
            "settings": len(self.settings),
            "ranked": int(ranked.sum()),
            "undefined": int(np.isnan(self.tau).sum()),
            "unranked": self.unranked,
            "tau_mean": float(tau.mean()) if tau.size else None,
            "tau_median": float(np.median(tau)) if tau.size else None,
            "tau_min": float(tau.min()) if tau.size else None,
            "tau_max": float(tau.max()) if tau.size else None,
            "ties_at_default": int((base > 0).sum() - len(np.unique(base[base > 0]))),
            **{name: float(mask[ranked].mean()) if ranked.any() else None for name, mask in kept.items()},
            **{
                f"{name}_elsewhere": float(mask[others].mean()) if others.any() else None for name, mask in kept.items()
            },
        }

    def frame(self) -> pd.DataFrame:
        """Long form: one row a setting and system, with every score, its rank and the setting's tau."""
        count = len(self.systems)
        out = self.settings.loc[self.settings.index.repeat(count)].reset_index(drop=True)
        out["system"] = np.tile(self.systems, len(self.settings))
        for name, values in self.scores.items():
            out[name] = values.ravel()
        out["rank"] = self.ranks.ravel()
        out["tau"] = np.repeat(self.tau, count)
        out["is_default"] = np.repeat(np.arange(len(self.settings)) == self.default, count)
        return out

    def curve(self, threshold: str) -> pd.DataFrame:
        """One threshold moved over the grid, the others at their default: one row a value and system.

        Raises
        ------
        InputError : the threshold is not part of this sweep.
        """
        if threshold not in self.settings:
            raise InputError(f"{threshold!r} is not in this sweep, which has {', '.join(self.settings)}.")
        fixed = self.settings.drop(columns=threshold)
        at = (fixed == fixed.iloc[self.default]).all(axis=1)
        keep = np.repeat(at.to_numpy(), len(self.systems))
        columns = [threshold, "system", *self.scores, "rank"]
        return self.frame()[keep][columns].reset_index(drop=True)


def _too_few(ranking: str, values: np.ndarray) -> str | None:
    """Why these values (systems,) of the ranking score are no ranking; None where at least two are measured."""
    count = int((~np.isnan(values)).sum())
    if count > 1:
        return None
    return (
        f"{ranking} is measured for {count} of {len(values)} runs, and a ranking needs two; a slice of the dataset may "
        "lack cases that this score compares."
    )


def sweep(
    benchmark: Benchmark,
    measurements: Mapping[str, pd.DataFrame],
    axes: Mapping[str, Sequence[float]] | None = None,
    *,
    base: Mapping[str, float] | None = None,
    strict: bool = False,
    ranking: str | None = None,
) -> Sweep:
    """Decide every system under every combination of the axes.

    measurements : system name -> measurements frame. axes : threshold -> values; the benchmark's own
    preset when None. base : the thresholds in force, which the others are held at and rankings are compared
    with (the benchmark's defaults when None); it is added to the grid where it is not in it. ranking : the score
    that ranks (the benchmark's own when None).

    Raises
    ------
    InputError : no system, an unknown threshold or score, an empty axis.
    """
    if not measurements:
        raise InputError("A sweep needs the measurements of at least one run.")
    limits = benchmark.limits(base)
    settings = grid(benchmark, axes, limits)
    columns = {**limits, **{name: settings[name].to_numpy(float) for name in settings}}
    deciders = [Decider(benchmark, frame) for frame in measurements.values()]
    found = [scores(decider, columns, strict=strict) for decider in deciders]
    stacked = {name: np.stack([each[name] for each in found], axis=1) for name in found[0]}
    ranking = ranking or benchmark.ranking
    if ranking not in stacked:
        raise InputError(f"There is no score {ranking!r} to rank by; scores are {', '.join(stacked)}.")
    sign = benchmark.scores(deciders[0].frame)[ranking].sign
    own = np.array([limits[name] for name in settings])
    default = int(np.flatnonzero((settings.to_numpy(float) == own).all(axis=1))[0])
    return Sweep(benchmark.name, tuple(measurements), settings, default, stacked, ranking, strict, sign)


@dataclass(frozen=True)
class RankingFlip:
    """The nearest value of one threshold, on either side of where it stands, that changes the ranking."""

    threshold: str
    default: float
    below: float | None
    above: float | None


def ranking_flips(
    benchmark: Benchmark,
    measurements: Mapping[str, pd.DataFrame],
    threshold: str,
    *,
    base: Mapping[str, float] | None = None,
    strict: bool = False,
) -> RankingFlip:
    """How far `threshold` alone may move from where it stands before the systems' order changes.

    Only values at which some row turns can matter, so exactly those are tried (and a hair beside them, for
    rules that are strict inequalities).

    Raises
    ------
    InputError : an unknown threshold, or fewer than two systems whose ranking score is measured.
    """
    benchmark.check_threshold(threshold)
    limits = benchmark.limits(base)
    deciders = [Decider(benchmark, frame) for frame in measurements.values()]
    critical = [np.array([limits[threshold]])]
    for decider in deciders:
        values, passing = decider.turning(threshold, limits, strict=strict)
        turning = values[passing.any(axis=0) & ~passing.all(axis=0) & ~np.isnan(values)]
        critical += [turning, np.nextafter(turning, np.inf), np.nextafter(turning, -np.inf)]
    values = np.unique(np.concatenate(critical))
    values = values[values >= 0]
    settings = {**limits, threshold: values}
    found = np.stack([scores(one, settings, strict=strict)[benchmark.ranking] for one in deciders], axis=1)
    at = int(np.flatnonzero(values == limits[threshold])[0])
    if few := _too_few(benchmark.ranking, found[at]):
        raise InputError(few)
    order = ranks(benchmark.scores(deciders[0].frame)[benchmark.ranking].sign * found)
    changed = ((order != order[at]) & ~(np.isnan(order) & np.isnan(order[at]))).any(axis=1)
    below, above = np.flatnonzero(changed[:at]), np.flatnonzero(changed[at:])
    return RankingFlip(
        threshold,
        float(limits[threshold]),
        float(values[below[-1]]) if below.size else None,
        float(values[at + above[0]]) if above.size else None,
    )
