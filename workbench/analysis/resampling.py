"""The cluster bootstrap: intervals for rates when several cases share one conversation.

Use it through `workbench.analysis.statistics`. All statistics of a call are resampled together, so
differences between levels or systems are taken within one resample: what the columns have in common
(the same conversations) cancels, as it must.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from workbench.analysis.rates import Interval, as_floats, check_fraction
from workbench.errors import InputError

# 64 statistics x 10,000 resamples of float64 = 5 MB a matrix: small enough to be reused, not paged.
_BLOCK = 64
# Counts held at once (34 MB as float64): 20,000 windows as clusters of their own must not fill memory.
_CELLS = 2**22
FEW_CLUSTERS = 20


@dataclass(frozen=True)
class Estimate:
    """One resampled statistic. `reason` says why the value or only the interval is None.

    clusters counts those with something measured; undefined counts the resamples whose denominator
    was 0 (they are left out of the interval, which is then conditional on a defined value).
    """

    value: float | None
    interval: Interval | None
    standard_error: float | None
    level: float
    clusters: int
    undefined: int
    reason: str | None = None

    @property
    def few_clusters(self) -> bool:
        """True below 20 clusters, where percentile intervals come out too narrow.

        Source: Cameron, Gelbach & Miller (2008), Review of Economics and Statistics 90:414.
        """
        return self.clusters < FEW_CLUSTERS


@dataclass(frozen=True)
class Bootstrap:
    """Estimates for every column, then for every difference, in the order asked for."""

    columns: tuple[Estimate, ...]
    differences: tuple[Estimate, ...]
    n_clusters: int
    n_resamples: int
    seed: int


@dataclass(frozen=True)
class SliceSums:
    """Sums per cluster, shape (n_clusters, n_systems * n_slices); column = system * n_slices + slice."""

    numerators: np.ndarray
    denominators: np.ndarray
    clusters: tuple
    n_systems: int
    n_slices: int

    def column(self, system: int, slice_: int) -> int:
        if not (0 <= system < self.n_systems and 0 <= slice_ < self.n_slices):
            raise InputError(
                f"There is no column for system {system} and slice {slice_}: "
                f"{self.n_systems} systems and {self.n_slices} slices were counted from 0."
            )
        return system * self.n_slices + slice_


def _draws(n_clusters: int, n_resamples: int, seed: int) -> Iterator[np.ndarray]:
    """`resample_counts` in pieces of bounded size; the pieces do not change what is drawn."""
    rng = np.random.default_rng(seed)
    step = max(1, _CELLS // n_clusters)
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        drawn = rng.integers(n_clusters, size=(size, n_clusters))
        drawn += n_clusters * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * n_clusters).reshape(size, n_clusters)


def resample_counts(n_clusters: int, n_resamples: int, seed: int) -> np.ndarray:
    """How often each cluster is drawn: integers, shape (n_resamples, n_clusters), rows sum to n_clusters.

    Multinomial with equal chances, that is, n_clusters draws with replacement. The same seed gives
    the same counts. Source: Efron & Tibshirani (1993), An Introduction to the Bootstrap, chapter 6.
    """
    return np.concatenate(list(_draws(n_clusters, n_resamples, seed)))


def _two_dimensional(values, name: str) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=float)  # None becomes NaN
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers, True/False or None: {error}.") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{name} must be a table of rows x columns, but its shape is {array.shape}.")
    return array


def _check_settings(n_resamples: int, level: float) -> None:
    check_fraction(level, "level")
    if n_resamples < 2:
        raise InputError(f"n_resamples is {n_resamples}, but at least 2 are needed.")


def _membership(clusters: Sequence, n_rows: int) -> tuple[sparse.csr_matrix, tuple]:
    """One row a cluster, one column a data row, 1 where it belongs; and the labels."""
    # Sorted, so that the order of the rows does not change the intervals of a seed.
    codes, labels = pd.factorize(np.asarray(clusters), sort=True)
    if len(codes) != n_rows:
        raise InputError(f"There are {len(codes)} cluster labels for {n_rows} rows.")
    if (codes < 0).any():
        raise InputError(f"Row {int(np.argmin(codes))} has no cluster label.")
    shape = (len(labels), n_rows)
    return sparse.csr_matrix((np.ones(n_rows), (codes, np.arange(n_rows))), shape), tuple(labels)


def slice_sums(passed, slices, clusters: Sequence) -> SliceSums:
    """Sums per cluster of every system in every slice, ready for `cluster_bootstrap_sums`.

    passed is (n_rows, n_systems): True/1, False/0 or None/NaN for not measurable; slices is
    (n_rows, n_slices) of True/False, such as one column for each level, action and role; clusters is
    (n_rows,), the conversation of each row. Rows that are not measurable count in neither sum.
    """
    passed, slices = _two_dimensional(passed, "passed"), _two_dimensional(slices, "slices")
    if len(passed) != len(slices):
        raise InputError(f"passed has {len(passed)} rows and slices has {len(slices)}.")
    members, labels = _membership(clusters, len(passed))
    made = ~np.isnan(passed)
    filled = np.where(made, passed, 0.0)
    numerators = np.hstack([members.multiply(column) @ slices for column in filled.T])
    denominators = np.hstack([members.multiply(column) @ slices for column in made.T])
    return SliceSums(numerators, denominators, labels, passed.shape[1], slices.shape[1])


def _resampled_sums(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """sums (n_clusters, n_columns) added up by counts (n_clusters, n_resamples): (n_columns, n_resamples)."""
    # A slice touches few conversations; then a sparse product does a fraction of the work.
    if np.count_nonzero(sums) < sums.size / 8:
        return sparse.csr_matrix(sums.T) @ counts
    return sums.T @ counts


def _ratios(numerators: np.ndarray, denominators: np.ndarray, draws: Iterable[np.ndarray]) -> np.ndarray:
    """Ratios (n_columns, n_resamples) from pieces of counts, each (n_clusters, size).

    Where the denominator is 0 the ratio is undefined and comes out as NaN or infinite.
    """
    pieces = []
    for counts in draws:
        above, below = _resampled_sums(numerators, counts), _resampled_sums(denominators, counts)
        with np.errstate(divide="ignore", invalid="ignore"):
            pieces.append(np.divide(above, below, out=above))
    return pieces[0] if len(pieces) == 1 else np.hstack(pieces)


class _Resamples:
    """The counts of one seed, once for all columns: kept when they are few, else drawn again."""

    def __init__(self, n_clusters: int, n_resamples: int, seed: int) -> None:
        self.settings = (n_clusters, n_resamples, seed)
        self.kept = list(self._draw()) if n_clusters * n_resamples <= _CELLS else None

    def _draw(self) -> Iterator[np.ndarray]:
        for counts in _draws(*self.settings):
            yield np.ascontiguousarray(counts.T, dtype=float)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self._draw() if self.kept is None else self.kept)


def _estimate(value: float, samples: np.ndarray, level: float, clusters: int) -> Estimate:
    """Turn a value and its resamples (n_resamples,) into what is shown: None with a reason, never NaN."""
    if not np.isfinite(value):
        reason = "Nothing was measured (for a difference: on at least one side)."
        return Estimate(None, None, None, level, clusters, 0, reason)
    fine = np.isfinite(samples)
    undefined = len(samples) - int(np.count_nonzero(fine))
    defined = samples[fine] if undefined else samples
    if clusters < 2:
        reason = "A single cluster carries every measured case, so resampling cannot show any spread."
        return Estimate(float(value), None, None, level, clusters, undefined, reason)
    if len(defined) < 2:
        reason = "Hardly any resample drew a cluster with a measured case."
        return Estimate(float(value), None, None, level, clusters, undefined, reason)
    low, high = np.percentile(defined, [100 * (1 - level) / 2, 100 * (1 + level) / 2])
    if low == high:
        reason = (
            "The clusters agree so far that resampling shows no spread; that is no proof of certainty: "
            "use the Wilson or Newcombe interval."
        )
        return Estimate(float(value), None, None, level, clusters, undefined, reason)
    error = float(defined.std(ddof=1))
    return Estimate(float(value), (float(low), float(high)), error, level, clusters, undefined)


def cluster_bootstrap_sums(
    numerators,
    denominators,
    *,
    differences: Sequence[tuple[int, int]] = (),
    n_resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Bootstrap:
    """Percentile intervals for ratios of sums, and for differences of such ratios, over clusters.

    numerators and denominators are sums per cluster, shape (n_clusters, n_columns), such as cases
    passed and cases measured per conversation; denominators are not negative. differences lists
    pairs of columns (i, j) for ratio i minus ratio j within the same resample.

    Assumes that the clusters are independent draws from one population; within a cluster anything
    goes. Below about 20 clusters the intervals are too narrow (see `Estimate.few_clusters`). A
    percentile interval is not corrected for bias.

    Source: Efron & Tibshirani (1993), chapters 6, 10 and 13; Davison & Hinkley (1997), Bootstrap
    Methods and their Application, section 3.8 (resampling whole clusters).
    """
    top, below = _two_dimensional(numerators, "numerators"), _two_dimensional(denominators, "denominators")
    if top.shape != below.shape:
        raise InputError(f"numerators has shape {top.shape} and denominators {below.shape}.")
    if not (np.isfinite(top).all() and np.isfinite(below).all() and (below >= 0).all()):
        raise InputError("Sums per cluster must be finite, and the denominators at least 0.")
    _check_settings(n_resamples, level)
    n_clusters, n_columns = top.shape
    for pair in differences:
        if len(pair) != 2 or not all(0 <= column < n_columns for column in pair):
            raise InputError(f"The difference {tuple(pair)} must name two columns, 0 to {n_columns - 1}.")

    first = np.concatenate([np.arange(n_columns), [i for i, _ in differences]]).astype(int)
    # -1 marks a plain column, with nothing to subtract.
    second = np.concatenate([np.full(n_columns, -1), [j for _, j in differences]]).astype(int)
    ratios = _ratios(top, below, [np.ones((n_clusters, 1))])[:, 0]
    carries = below > 0
    draws = _Resamples(n_clusters, n_resamples, seed)

    estimates: list[Estimate] = []
    for start in range(0, len(first), _BLOCK):
        plus, minus = first[start : start + _BLOCK], second[start : start + _BLOCK]
        both = minus >= 0
        values, samples = ratios[plus], _ratios(top[:, plus], below[:, plus], draws)
        clusters = carries[:, plus].sum(0)
        if both.any():
            other = minus[both]
            values[both] -= ratios[other]
            samples[both] -= _ratios(top[:, other], below[:, other], draws)
            # The weaker side decides: one cluster on either side means that side shows no spread.
            clusters[both] = np.minimum(clusters[both], carries[:, other].sum(0))
        # Row by row: one statistic's resamples fit the processor's cache, a block of them does not.
        estimates += [
            _estimate(value, row, level, int(carried))
            for value, row, carried in zip(values, samples, clusters, strict=True)
        ]
    columns, gaps = tuple(estimates[:n_columns]), tuple(estimates[n_columns:])
    return Bootstrap(columns, gaps, n_clusters, n_resamples, seed)


def cluster_bootstrap(
    passed,
    clusters: Sequence,
    *,
    measured=None,
    differences: Sequence[tuple[int, int]] = (),
    n_resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Bootstrap:
    """`cluster_bootstrap_sums` from rows: the weighted mean of each column, clusters resampled whole.

    passed is (n_rows, n_columns) or (n_rows,): True/1, False/0 or any number; None/NaN is not
    measurable. clusters is (n_rows,) labels, such as conversation ids. measured is a mask or weights
    of at least 0, same shape (0 = the row is not part of that column); by default whatever is not NaN
    counts once. Assumptions and sources: see `cluster_bootstrap_sums`.
    """
    values = _two_dimensional(passed, "passed")
    weights = np.ones(values.shape) if measured is None else _two_dimensional(measured, "measured")
    if weights.shape != values.shape:
        raise InputError(f"passed has shape {values.shape} and measured {weights.shape}.")
    if not (weights >= 0).all():
        raise InputError("measured must hold True/False or weights of at least 0.")
    made = ~np.isnan(values)
    members, _ = _membership(clusters, len(values))
    weights = np.where(made, weights, 0.0)
    return cluster_bootstrap_sums(
        members @ (np.where(made, values, 0.0) * weights),
        members @ weights,
        differences=differences,
        n_resamples=n_resamples,
        level=level,
        seed=seed,
    )


@dataclass(frozen=True)
class PairedDifference:
    """Result of `paired_bootstrap`, in the units of the input."""

    estimate: Estimate
    p_value: float | None
    pairs: int
    excluded: int
    reason: str | None = None


def paired_bootstrap(
    first: Sequence,
    second: Sequence,
    clusters: Sequence | None = None,
    *,
    n_resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> PairedDifference:
    """Mean difference (first minus second) on the same cases, with interval and two-sided p value.

    first and second are (n_cases,): verdicts or numbers such as seconds, None/NaN = not measurable
    (the pair is excluded and counted). clusters is (n_cases,) labels; None makes each case its own.
    p is twice the smaller share of resampled differences at or beyond 0, with one added to each
    count, so never below 2 / (n_resamples + 1); it agrees with the interval. Assumes independent
    clusters, and enough of them (about 20): with few, p is too small.

    Source: Davison & Hinkley (1997), chapters 4 and 5; Efron & Tibshirani (1993), chapter 13.
    """
    _check_settings(n_resamples, level)
    a, b = as_floats(first, "first"), as_floats(second, "second")
    if a.shape != b.shape:
        raise InputError(f"The systems have {len(a)} and {len(b)} values; pairs need the same cases.")
    labels = np.arange(len(a)) if clusters is None else np.asarray(clusters)
    if len(labels) != len(a):
        raise InputError(f"There are {len(labels)} cluster labels for {len(a)} cases.")
    complete = ~(np.isnan(a) | np.isnan(b))
    pairs, excluded = int(complete.sum()), int((~complete).sum())
    if not pairs:
        reason = "There are no complete pairs."
        return PairedDifference(Estimate(None, None, None, level, 0, 0, reason), None, 0, excluded, reason)
    gap = (a - b)[complete]
    members, _ = _membership(labels[complete], pairs)
    top, below = (members @ column[:, None] for column in (gap, np.ones(pairs)))
    samples = _ratios(top, below, _Resamples(len(top), n_resamples, seed))[0]
    estimate = _estimate(float(gap.mean()), samples, level, len(top))
    if estimate.interval is None:
        return PairedDifference(estimate, None, pairs, excluded, estimate.reason)
    beyond = min((samples <= 0).sum(), (samples >= 0).sum())
    p_value = min(1.0, 2 * (int(beyond) + 1) / (n_resamples + 1))
    return PairedDifference(estimate, p_value, pairs, excluded)
