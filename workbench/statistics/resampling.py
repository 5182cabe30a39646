"""Means and other statistics when several rows share a conversation, without assuming how they depend.

Use it through `workbench.statistics`. A mean has a robust standard error over conversations;
any other statistic is computed again without each conversation in turn. Student's t with one degree of
freedom less than there are conversations widens both where conversations are few.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from workbench.statistics.rates import (
    LEAST_CLUSTERS,
    Interval,
    as_floats,
    check_fraction,
    cluster_codes,
    cluster_sums,
    note_of,
)

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
