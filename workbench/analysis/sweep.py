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

_EQUAL = 1e-9
"""Scores this close are a tie: they are ratios of small counts, computed in floating point."""


@dataclass(frozen=True)
class Sweep:
    """Scores of every system under every setting.

    settings : frame (k, thresholds). default : the row that holds the thresholds in force.
    scores : score name -> float (k, systems), NaN where nothing was measured.
    """

    benchmark: str
    systems: tuple[str, ...]
    settings: pd.DataFrame
    default: int
    scores: Mapping[str, np.ndarray]
    ranking: str
    strict: bool

    @cached_property
    def tau(self) -> np.ndarray:
        """Kendall's tau-b (k,) of the ranking under each setting against the default's; NaN where undefined."""
        return tau_b(self.scores[self.ranking], self.scores[self.ranking][self.default])

    @cached_property
    def ranks(self) -> np.ndarray:
        """Competition ranks (k, systems) by the ranking score: the greatest has 1, ties share a rank; NaN: no rank."""
        return _ranks(self.scores[self.ranking])

    def summary(self) -> dict[str, float | int | None]:
        """Tau's mean, median, minimum and maximum, and how often the top of the ranking survives.

        Shares count settings whose best (or best two, as a set; or whole order) is the default's.
        Ties are broken by none: a tied place survives only if the same systems are tied in it.
        """
        others = np.arange(len(self.settings)) != self.default
        tau = self.tau[~np.isnan(self.tau)]
        ranks, base = self.ranks, self.ranks[self.default]
        ranked = int((~np.isnan(base)).sum())
        kept = {
            "top1_kept": (((ranks == 1) == (base == 1)).all(axis=1)),
            "top2_kept": (((ranks <= 2) == (base <= 2)).all(axis=1)),
            "order_kept": ((ranks == base) | (np.isnan(ranks) & np.isnan(base))).all(axis=1),
        }

        def share(mask: np.ndarray) -> float | None:
            # One system, or none that is measured, has no order that could be kept.
            return float(mask.mean()) if ranked > 1 and mask.size else None

        return {
            "settings": len(self.settings),
            "undefined": int(np.isnan(self.tau).sum()),
            "tau_mean": float(tau.mean()) if tau.size else None,
            "tau_median": float(np.median(tau)) if tau.size else None,
            "tau_min": float(tau.min()) if tau.size else None,
            "tau_max": float(tau.max()) if tau.size else None,
            "ranked": ranked,
            "ties_at_default": ranked - len(np.unique(base[~np.isnan(base)])),
            **{name: share(mask) for name, mask in kept.items()},
            **{f"{name}_elsewhere": share(mask[others]) for name, mask in kept.items()},
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


def sweep(
    benchmark: Benchmark,
    measurements: Mapping[str, pd.DataFrame],
    axes: Mapping[str, Sequence[float]] | None = None,
    *,
    base: Mapping[str, float] | None = None,
    strict: bool = False,
) -> Sweep:
    """Decide every system under every combination of the axes.

    measurements : system name -> measurements frame. axes : threshold -> values; the benchmark's own
    preset when None. base : the thresholds in force, which the others are held at and rankings are compared
    with (the benchmark's defaults when None); it is added to the grid where it is not in it.

    Raises
    ------
    InputError : no system, an unknown threshold, an empty axis.
    """
    if not measurements:
        raise InputError("A sweep needs the measurements of at least one run.")
    limits = benchmark.limits(base)
    settings = grid(benchmark, axes, limits)
    columns = {**limits, **{name: settings[name].to_numpy(float) for name in settings}}
    per_system: dict[str, list[np.ndarray]] = {}
    for frame in measurements.values():
        for name, values in scores(Decider(benchmark, frame), columns, strict=strict).items():
            per_system.setdefault(name, []).append(values)
    stacked = {name: np.stack(values, axis=1) for name, values in per_system.items()}
    own = np.array([limits[name] for name in settings])
    default = int(np.flatnonzero((settings.to_numpy(float) == own).all(axis=1))[0])
    return Sweep(benchmark.name, tuple(measurements), settings, default, stacked, benchmark.ranking, strict)


def tau_b(scores: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Kendall's tau-b of each row of scores (k, systems) against base (systems,).

    Source: Kendall (1945), Biometrika 33:239: (concordant - discordant) / sqrt of the untied pairs
    on either side. NaN where all systems tie on one side, or fewer than two are measured.
    """
    systems = len(base)
    first, second = np.triu_indices(systems, 1)
    ours = _signs(scores[:, first] - scores[:, second])
    theirs = _signs(base[first] - base[second])
    usable = ~np.isnan(ours) & ~np.isnan(theirs)
    ours, theirs = np.where(usable, ours, 0), np.where(usable, theirs, 0)
    below = np.sqrt((ours != 0).sum(axis=1) * (theirs != 0).sum(axis=1).astype(float))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(below > 0, (ours * theirs).sum(axis=1) / below, np.nan)


def _signs(differences: np.ndarray) -> np.ndarray:
    return np.where(np.abs(differences) < _EQUAL, 0.0, np.sign(differences))


def _ranks(scores: np.ndarray) -> np.ndarray:
    """Competition ranks along the last axis, best 1; ties share a rank; what is not measured has none (NaN)."""
    with np.errstate(invalid="ignore"):
        above = (scores[..., None, :] > scores[..., :, None] + _EQUAL).sum(axis=-1)
    return np.where(np.isnan(scores), np.nan, 1.0 + above)


@dataclass(frozen=True)
class RankingFlip:
    """The nearest value of one threshold, on either side of its default, that changes the ranking."""

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
    if (~np.isnan(found[at])).sum() < 2:
        raise InputError("A ranking needs at least two systems with a measured score; score more runs.")
    ranks = _ranks(found)
    changed = ((ranks != ranks[at]) & ~(np.isnan(ranks) & np.isnan(ranks[at]))).any(axis=1)
    below, above = np.flatnonzero(changed[:at]), np.flatnonzero(changed[at:])
    return RankingFlip(
        threshold,
        float(limits[threshold]),
        float(values[below[-1]]) if below.size else None,
        float(values[at + above[0]]) if above.size else None,
    )
