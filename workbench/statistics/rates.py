"""The one rate with its interval, for many slices at once, when several cases share a conversation.

Use it through `workbench.statistics`. Rates and levels are fractions in [0, 1]; whatever
ends in `_pp` is in percentage points.

An interval has to know how much the cases of one conversation have in common, and a slice of few
conversations, or one in which nearly all cases pass, hardly tells. So the design effect is estimated
as if two more conversations had passed whole and two had failed whole: with little evidence the
interval counts conversations, with much of it cases. Two is what makes more passes never lower a limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse, special, stats

from workbench.errors import InputError

Interval = tuple[float, float]

LEAST_CLUSTERS = 3
"""Below this there is no interval: two conversations say next to nothing about a third."""
FEW_CLUSTERS = 20
"""Below this the number of conversations is said beside every interval."""
_ADDED = 2.0


def check_fraction(value: float, name: str) -> float:
    if not 0 < value < 1:
        raise InputError(f"{name} is {value}, but it must lie between 0 and 1 (both excluded).")
    return float(value)


def check_count(value: int, name: str) -> int:
    # bool and 3.0 are accepted (numpy sums produce them), 3.5, NaN and -1 are not.
    if not (value >= 0 and value == int(value)):
        raise InputError(f"{name} is {value}, but it must be a whole number of at least 0.")
    return int(value)


def as_floats(values, name: str, ndim: int = 1) -> np.ndarray:
    """A float array of `ndim` dimensions; None, NaN and NA alike become NaN."""
    try:
        array = np.asarray(values)
        if array.dtype == object:
            array = np.where(pd.isna(array), np.nan, array)
        array = array.astype(float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers, True/False or None: {error}.") from None
    if ndim == 2 and array.ndim == 1:
        array = array[:, None]
    if array.ndim != ndim or (ndim == 2 and 0 in array.shape):
        raise InputError(f"{name} must have {ndim} dimension{'s' * (ndim > 1)}, but its shape is {array.shape}.")
    return array


def cluster_codes(clusters: Sequence | None, n_rows: int) -> tuple[np.ndarray, int]:
    """The number of each row's cluster (n_rows,), and how many there are; without labels each row is its own."""
    if clusters is None:
        return np.arange(n_rows), n_rows
    # Sorted, so that the order of the rows does not change the order of the sums.
    codes, labels = pd.factorize(np.asarray(clusters), sort=True)
    if len(codes) != n_rows:
        raise InputError(f"There are {len(codes)} cluster labels for {n_rows} rows.")
    if (codes < 0).any():
        raise InputError(f"Row {int(np.argmin(codes))} has no cluster label.")
    return codes, len(labels)


def cluster_sums(codes: np.ndarray, count: int, *columns: np.ndarray) -> np.ndarray:
    """Each column (n_rows,) added up over the clusters: (n_clusters, n_columns)."""
    return np.column_stack([np.bincount(codes, column, count) for column in columns])


@dataclass(frozen=True)
class SliceSums:
    """Sums per cluster, shape (n_clusters, n_systems * n_slices); column = system * n_slices + slice."""

    numerators: np.ndarray
    denominators: np.ndarray
    n_systems: int
    n_slices: int

    def column(self, system: int, slice_: int) -> int:
        if not (0 <= system < self.n_systems and 0 <= slice_ < self.n_slices):
            raise InputError(
                f"There is no column for system {system} and slice {slice_}: "
                f"{self.n_systems} systems and {self.n_slices} slices were counted from 0."
            )
        return system * self.n_slices + slice_


def slice_sums(passed, slices, clusters: Sequence) -> SliceSums:
    """Sums per cluster of every system in every slice, ready for `rates` and `differences`.

    Parameters
    ----------
    passed : (n_rows, n_systems) of True/1, False/0, or None/NaN/NA where not measurable: in neither sum.
    slices : (n_rows, n_slices) of True/False, such as one column for each level, action and role.
    clusters : (n_rows,) labels, the conversation of each row.
    """
    passed, slices = as_floats(passed, "passed", 2), as_floats(slices, "slices", 2)
    if len(passed) != len(slices):
        raise InputError(f"passed has {len(passed)} rows and slices has {len(slices)}.")
    codes, count = cluster_codes(clusters, len(passed))
    members = sparse.csr_matrix((np.ones(len(codes)), (codes, np.arange(len(codes)))), (count, len(codes)))
    made = ~np.isnan(passed)
    filled = np.where(made, passed, 0.0)
    # A slice touches few rows; sparse products do a fraction of the work.
    inside = sparse.csr_matrix(slices)
    numerators = np.hstack([(members.multiply(column) @ inside).toarray() for column in filled.T])
    denominators = np.hstack([(members.multiply(column) @ inside).toarray() for column in made.T])
    return SliceSums(numerators, denominators, passed.shape[1], slices.shape[1])


class _Limited:
    @property
    def interval(self) -> Interval | None:
        return None if self.low is None else (self.low, self.high)


@dataclass(frozen=True)
class Rate(_Limited):
    """One rate: numerator of denominator, over `clusters` conversations.

    `effective_n` is the number of independent cases that would tell as much. `note` says why there is
    no value or no interval, or that the conversations are few; None where there is nothing to say.
    """

    value: float | None
    numerator: float
    denominator: float
    low: float | None
    high: float | None
    clusters: int
    effective_n: float | None
    note: str | None


@dataclass(frozen=True)
class Difference(_Limited):
    """One difference of two rates; `clusters` is that of the side with fewer. `note` as in `Rate`."""

    value: float | None
    low: float | None
    high: float | None
    clusters: int
    note: str | None


def note_of(clusters: int, measured: bool = True) -> str | None:
    """What has to be said beside a number that rests on so many conversations."""
    if not measured:
        return "Nothing was measured."
    if clusters < LEAST_CLUSTERS:
        return f"no interval from {clusters} conversation{'s' * (clusters != 1)}, it takes {LEAST_CLUSTERS}"
    return f"few conversations ({clusters})" if clusters < FEW_CLUSTERS else None


@dataclass(frozen=True)
class _Sums:
    """What the intervals need of every column, each (n_columns,); `below`, `top` are (n_clusters, n_columns)."""

    top: np.ndarray
    below: np.ndarray
    value: np.ndarray
    size: np.ndarray
    clusters: np.ndarray
    effective_n: np.ndarray
    low: np.ndarray
    high: np.ndarray


def _measure(numerators, denominators, level: float) -> _Sums:
    top, below = as_floats(numerators, "numerators", 2), as_floats(denominators, "denominators", 2)
    check_fraction(level, "level")
    if top.shape != below.shape:
        raise InputError(f"numerators has shape {top.shape} and denominators {below.shape}.")
    if not (np.isfinite(below).all() and ((top >= 0) & (top <= below)).all()):
        raise InputError("Sums per cluster must be finite, and a numerator must lie between 0 and its denominator.")
    passed, n = top.sum(0), below.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = passed / n
        size = (below**2).sum(0) / n
        more = n + 2 * _ADDED * size
        p = (passed + _ADDED * size) / more
        spread = ((top - p * below) ** 2).sum(0) + _ADDED * size**2 * (p**2 + (1 - p) ** 2)
        effect = np.clip(spread / (more * p * (1 - p)), 1, np.maximum(size, 1))
        effective = n / effect
        x = value * effective
        low = np.where(passed == 0, 0.0, special.betaincinv(x, effective - x + 1, (1 - level) / 2))
        high = np.where(passed == n, 1.0, special.betaincinv(x + 1, effective - x, (1 + level) / 2))
    return _Sums(top, below, value, size, (below > 0).sum(0), effective, low, high)


def rates(numerators, denominators, level: float = 0.95) -> list[Rate]:
    """Rates with intervals from sums per cluster, one a column.

    Parameters
    ----------
    numerators, denominators : (n_clusters, n_columns), such as the cases passed and measured of each
        conversation; see `slice_sums`. Clusters without a measured case do not count.

    Returns
    -------
    One `Rate` a column; an interval needs 3 conversations.

    Notes
    -----
    Clopper and Pearson's interval with n_e = n / D cases, of which p n_e passed:

        D = S / (N q (1 - q)),  1 <= D <= M,  M = sum m_i^2 / n,
        S = sum (y_i - q m_i)^2 + 2 M^2 (q^2 + (1 - q)^2),  N = n + 4 M,  q = (y + 2 M) / N,

    y_i of m_i cases passed in conversation i, y of n in all. That is the design effect of Rao and Scott
    with two whole conversations added on either side. Assumes independent conversations; within one
    anything goes.

    Source: Korn & Graubard (1998), Survey Methodology 24:193 (the interval with an effective n); Rao &
    Scott (1992), Biometrics 48:577 (D); Agresti & Coull (1998), The American Statistician 52:119 (two
    added on either side). `benchmarks/coverage.py` measures the coverage.

    Examples
    --------
    Five conversations of four cases, all but one passed; then all passed:

    >>> almost, every = rates([[4, 4], [4, 4], [4, 4], [4, 4], [3, 4]], [[4, 4]] * 5)
    >>> round(almost.value, 2), round(almost.low, 3), round(almost.high, 3), almost.note
    (0.95, 0.459, 1.0, 'few conversations (5)')
    >>> round(every.low, 3), every.high, round(every.effective_n)
    (0.478, 1.0, 5)
    """
    sums = _measure(numerators, denominators, level)
    out = []
    for index, count in enumerate(sums.clusters.tolist()):
        top, n = float(sums.top[:, index].sum()), float(sums.below[:, index].sum())
        shown, told = n > 0, count >= LEAST_CLUSTERS
        out.append(
            Rate(
                float(sums.value[index]) if shown else None,
                int(top) if top.is_integer() else top,
                int(n) if n.is_integer() else n,
                float(sums.low[index]) if told else None,
                float(sums.high[index]) if told else None,
                count,
                float(sums.effective_n[index]) if shown else None,
                note_of(count, shown),
            )
        )
    return out


def rate(passed: Sequence, clusters: Sequence | None = None, level: float = 0.95) -> Rate:
    """The rate of one list of verdicts, with its interval; see `rates`.

    Parameters
    ----------
    passed : (n_cases,) of True/1, False/0, or None/NaN/NA where not measurable.
    clusters : (n_cases,) labels of the conversations; by default each case is its own.

    Examples
    --------
    >>> found = rate([True, True, False, None, True], ["a", "b", "c", "d", "e"])
    >>> found.numerator, found.denominator, round(found.low, 3), round(found.high, 3)
    (3, 4, 0.194, 0.994)
    >>> rate([True, False], ["a", "a"]).note
    'no interval from 1 conversation, it takes 3'
    """
    values = as_floats(passed, "passed")
    if not len(values):
        return Rate(None, 0, 0, None, None, 0, None, note_of(0, False))
    made = ~np.isnan(values)
    sums = cluster_sums(*cluster_codes(clusters, len(values)), np.where(made, values, 0.0), made)
    return rates(sums[:, :1], sums[:, 1:], level)[0]


def differences(numerators, denominators, pairs: Sequence[tuple[int, int]], level: float = 0.95) -> list[Difference]:
    """Differences of two rates with intervals, over clusters that both sides may share.

    Parameters
    ----------
    numerators, denominators : sums per cluster, (n_clusters, n_columns), as in `rates`.
    pairs : columns (i, j) for rate i minus rate j.

    Notes
    -----
    The method of variance estimates recovery (MOVER): with the limits (l, u) of each rate and the
    correlation r of the two over conversations,

        low = d - sqrt((p1 - l1)^2 + (u2 - p2)^2 - 2 r (p1 - l1) (u2 - p2)),

    and high with the other two distances. r is that of the sums less their expectation, with two whole
    conversations added to each side's own spread, so few conversations count as unrelated sides.
    An end of the range (no win, every one lost) has an interval as any other.

    Source: Zou & Donner (2008), Statistics in Medicine 27:1693; for independent pairs Newcombe (1998),
    Statistics in Medicine 17:2635.

    Examples
    --------
    Level 1 against level 2 in four conversations:

    >>> [gap] = differences([[1, 0]] * 4, [[1, 1]] * 4, [(0, 1)])
    >>> gap.value, round(gap.low, 3), gap.high
    (1.0, 0.148, 1.0)
    """
    sums = _measure(numerators, denominators, level)
    columns = sums.top.shape[1]
    for pair in pairs:
        if len(pair) != 2 or not all(0 <= column < columns for column in pair):
            raise InputError(f"The difference {tuple(pair)} must name two columns, 0 to {columns - 1}.")
    if not pairs:
        return []
    first, second = np.array(pairs).T
    value = np.nan_to_num(sums.value)
    rest = sums.top - value * sums.below
    spread = (rest**2).sum(0) + _ADDED * np.nan_to_num(sums.size) ** 2 * (value**2 + (1 - value) ** 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        shared = (rest[:, first] * rest[:, second]).sum(0) / np.sqrt(spread[first] * spread[second])
    down, up = sums.value - sums.low, sums.high - sums.value
    gap = sums.value[first] - sums.value[second]

    def reach(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(one**2 + other**2 - 2 * shared * one * other, 0.0))

    low = np.maximum(gap - reach(down[first], up[second]), -1.0)
    high = np.minimum(gap + reach(up[first], down[second]), 1.0)
    out = []
    for index, count in enumerate(np.minimum(sums.clusters[first], sums.clusters[second]).tolist()):
        told = count >= LEAST_CLUSTERS
        note = note_of(count) if count else "Nothing was measured on at least one side."
        ends = (float(low[index]), float(high[index])) if told else (None, None)
        out.append(Difference(float(gap[index]) if math.isfinite(gap[index]) else None, *ends, count, note))
    return out


NO_SPREAD = "The conversations agree so far that they show no spread, so there is no interval."


@dataclass(frozen=True)
class Estimate:
    """A statistic with its interval over conversations; `note` says why one is missing, or that they are few."""

    value: float | None
    interval: Interval | None
    standard_error: float | None
    clusters: int
    note: str | None


def student(value: float, variance: float, clusters: int, level: float, ends: Interval | None = None) -> Estimate:
    """value -+ t(clusters - 1) standard errors, cut at the `ends` of what is possible."""
    check_fraction(level, "level")
    error = math.sqrt(max(variance, 0.0)) if math.isfinite(variance) else 0.0
    if clusters < LEAST_CLUSTERS or error < 1e-12:
        return Estimate(value, None, None, clusters, note_of(clusters) if clusters < LEAST_CLUSTERS else NO_SPREAD)
    reach = float(stats.t.ppf((1 + level) / 2, clusters - 1)) * error
    low, high = ends or (-math.inf, math.inf)
    return Estimate(value, (max(value - reach, low), min(value + reach, high)), error, clusters, note_of(clusters))


def cluster_mean(values: Sequence, clusters: Sequence | None = None, level: float = 0.95) -> Estimate:
    """The mean of scores or seconds, with an interval over conversations.

    Parameters
    ----------
    values : (n_rows,) numbers; None, NaN and NA are left out.
    clusters : (n_rows,) labels of the conversations; by default each row is its own.

    Notes
    -----
    With m_i rows and the sum s_i in conversation i of K, n rows in all and the mean a,
    variance = K / (K - 1) sum (s_i - a m_i)^2 / n^2.

    Source: Liang & Zeger (1986), Biometrika 73:13; Cameron, Gelbach & Miller (2008), Review of
    Economics and Statistics 90:414 (t with K - 1 degrees of freedom).

    Examples
    --------
    >>> found = cluster_mean([60, 62, 70, 72, 80, 81], ["a", "a", "b", "b", "c", "c"])
    >>> round(found.value, 2), [round(end, 1) for end in found.interval]
    (70.83, [46.6, 95.1])
    """
    given = as_floats(values, "values")
    made = ~np.isnan(given)
    if not made.any():
        return Estimate(None, None, None, 0, note_of(0, False))
    codes, count = cluster_codes(clusters, len(given))
    sums = cluster_sums(codes, count, np.where(made, given, 0.0), made)
    mean, count = float(given[made].mean()), int((sums[:, 1] > 0).sum())
    rest = sums[:, 0] - mean * sums[:, 1]
    return student(mean, count / max(count - 1, 1) * float((rest**2).sum()) / made.sum() ** 2, count, level)


def jackknife(
    value: float, without: Callable[[np.ndarray], float], clusters: Sequence, level: float, ends: Interval
) -> Estimate:
    """The interval of any smooth statistic from its values without one conversation at a time.

    Parameters
    ----------
    without : the statistic of the rows where a mask (n_rows,) is True; NaN where it does not exist.
    clusters : (n_rows,) labels.

    Notes
    -----
    variance = (K - 1) / K sum (t_i - mean t)^2 over the values t_i without conversation i.

    Source: Tukey (1958), Ann. Math. Statistics 29:614; Shao & Tu (1995), The Jackknife and Bootstrap,
    section 2.2 (deleting whole groups).
    """
    labels = np.asarray(clusters)
    known = list(dict.fromkeys(labels.tolist()))
    count = len(known)
    left = np.array([without(labels != label) for label in known]) if count >= LEAST_CLUSTERS else np.zeros(1)
    if np.isnan(left).any():
        reason = "Without one of the conversations it is not defined, so there is no interval."
        return Estimate(value, None, None, count, reason)
    return student(value, (count - 1) / count * float(((left - left.mean()) ** 2).sum()), count, level, ends)
