"""Two systems on the same cases: counts, tests, effect sizes, and many tests at once.

Use it through `workbench.statistics`. Rates and levels are fractions in [0, 1]; whatever
ends in `_pp` is in percentage points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from workbench.errors import InputError
from workbench.statistics.rates import (
    Interval,
    as_floats,
    check_count,
    check_fraction,
    cluster_codes,
    cluster_mean,
    cluster_sums,
    differences,
)

# 2^14 orders of signs are listed; beyond, that many are drawn. Whole numbers need neither.
_LISTED = 14
_DRAWN = 2**_LISTED


@dataclass(frozen=True)
class PairedCounts:
    """The 2 x 2 table of two systems on the same cases; `excluded` pairs lack a verdict."""

    both: int
    only_first: int
    only_second: int
    neither: int
    excluded: int = 0

    @property
    def pairs(self) -> int:
        return self.both + self.only_first + self.only_second + self.neither


def paired_counts(first: Sequence, second: Sequence) -> PairedCounts:
    """Count two verdict sequences, shape (n_cases,) each: True/1, False/0, None/NaN = unmeasurable.

    Assumes that position i is the same case in both. A pair with a missing half is excluded and
    counted (complete-case analysis: unbiased only if what is missing does not depend on the outcome).
    """
    a, b = as_floats(first, "first"), as_floats(second, "second")
    if a.shape != b.shape:
        raise InputError(f"The systems have {len(a)} and {len(b)} verdicts; pairs need the same cases.")
    complete = ~(np.isnan(a) | np.isnan(b))
    a, b = a[complete], b[complete]
    if not np.isin(np.concatenate([a, b]), (0, 1)).all():
        raise InputError("Verdicts must be True/1, False/0 or None; use paired_difference for numbers.")
    a, b = a == 1, b == 1
    counts = [int(cell.sum()) for cell in (a & b, a & ~b, ~a & b, ~a & ~b)]
    return PairedCounts(*counts, excluded=int((~complete).sum()))


@dataclass(frozen=True)
class PairedDifference:
    """Result of `paired_difference`, in the units of the input; `note` as in `Rate`."""

    value: float | None
    interval: Interval | None
    p_value: float | None
    clusters: int
    pairs: int
    excluded: int
    note: str | None


def paired_difference(
    first: Sequence, second: Sequence, clusters: Sequence | None = None, *, level: float = 0.95, seed: int = 0
) -> PairedDifference:
    """Mean difference (first minus second) on the same cases, with interval and two-sided p value.

    Parameters
    ----------
    first, second : (n_cases,) verdicts (0 and 1) or numbers such as seconds; None/NaN/NA = not measurable
        (the pair is excluded and counted).
    clusters : (n_cases,) labels of the conversations; by default each case is its own.

    Verdicts have the interval of `differences`, numbers that of `cluster_mean`; p is that of
    `sign_flip` over conversations, None without pairs. With K conversations that differ p is at least
    2 / 2^K, so fewer than six can't reach 0.05.

    Examples
    --------
    >>> found = paired_difference([1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0])
    >>> found.value, round(found.interval[0], 3), found.interval[1], found.p_value
    (1.0, 0.351, 1.0, 0.03125)
    """
    a, b = as_floats(first, "first"), as_floats(second, "second")
    if a.shape != b.shape:
        raise InputError(f"The systems have {len(a)} and {len(b)} values; pairs need the same cases.")
    codes, count = cluster_codes(clusters, len(a))
    complete = ~(np.isnan(a) | np.isnan(b))
    a, b, codes = a[complete], b[complete], codes[complete]
    pairs, excluded = len(a), int((~complete).sum())
    if not pairs:
        return PairedDifference(None, None, None, 0, 0, excluded, "There are no complete pairs.")
    sums = cluster_sums(codes, count, a, b, np.ones(pairs))
    if np.isin(np.concatenate([a, b]), (0, 1)).all():
        [found] = differences(sums[:, :2], sums[:, [2, 2]], [(0, 1)], level)
        interval, note = found.interval, found.note
    else:
        mean = cluster_mean(a - b, codes, level)
        interval, note = mean.interval, mean.note
    p_value = sign_flip(sums[:, 0] - sums[:, 1], seed=seed)
    return PairedDifference(
        float((a - b).mean()), interval, p_value, int((sums[:, 2] > 0).sum()), pairs, excluded, note
    )


@lru_cache(256)
def _coins(count: int) -> np.ndarray:
    """Chances of 0 to `count` heads."""
    return stats.binom.pmf(np.arange(count + 1), count, 0.5)


def sign_flip(sums: Sequence, *, seed: int = 0) -> float:
    """Two-sided p value that sums per conversation are as likely to be negative as positive.

    Parameters
    ----------
    sums : (n_clusters,) the difference of two systems, added up over each conversation.

    Notes
    -----
    p = share of the 2^K choices of signs with |sum s_i d_i| >= |sum d_i|. Exact for whole numbers of any
    K (sums of binomial steps are convolved) and up to 14 other numbers that are not 0; beyond, 16,384
    choices are drawn and p = (hits + 1) / (draws + 1). With one case a conversation it is McNemar's
    exact test. Assumes independent conversations whose difference is symmetric about 0 where the
    systems are equal.

    Source: Fisher (1935), The Design of Experiments, section 21; Good (2005), Permutation, Parametric
    and Bootstrap Tests of Hypotheses, section 3.2; Phipson & Smyth (2010), Statistical Applications in
    Genetics and Molecular Biology 9:39 (the one added).

    Examples
    --------
    >>> sign_flip([4, 3, 4, 2, 1])
    0.0625
    """
    given = as_floats(sums, "sums")
    given = given[np.abs(given) > 1e-12]
    total, most = abs(given.sum()), np.abs(given)
    if not len(given):
        return 1.0
    if (given == np.round(given)).all():
        chances = np.ones(1)
        for step, count in zip(*np.unique(most.astype(int), return_counts=True), strict=True):
            steps = np.zeros(2 * step * count + 1)
            steps[:: 2 * step] = _coins(int(count))
            chances = np.convolve(chances, steps)
        reach = len(chances) // 2
        # The outcomes are symmetric, and the middle one belongs to both tails.
        return float(min(1.0, 2 * chances[reach + round(total) :].sum())) if round(total) else 1.0
    listed = len(given) <= _LISTED
    if listed:
        flips = 1.0 - 2.0 * ((np.arange(2 ** len(given))[:, None] >> np.arange(len(given))) & 1)
        reached = np.abs(flips @ most)
    else:
        rng = np.random.default_rng(seed)
        reached = np.abs(
            np.concatenate([rng.choice((-1.0, 1.0), (2**8, len(given))) @ most for _ in range(_DRAWN // 2**8)])
        )
    hits = int((reached >= total - 1e-9 * most.sum()).sum())
    return hits / len(reached) if listed else (hits + 1) / (len(reached) + 1)


@dataclass(frozen=True)
class McNemar:
    """Result of `mcnemar_exact`; `odds_ratio` is only_first / only_second, None where that has no bound."""

    only_first: int
    only_second: int
    p_value: float
    odds_ratio: float | None


def mcnemar_exact(only_first: int, only_second: int) -> McNemar:
    """Exact two-sided McNemar test that two systems pass equally often on the same cases.

    p is the doubled tail of Binomial(only_first + only_second, 1/2), at most 1; without discordant
    pairs it is 1. Assumes independent pairs: over cases that share a conversation it is too
    optimistic, and `paired_difference` is the one to trust.

    Source: McNemar (1947), Psychometrika 12:153; Agresti (2002), Categorical Data Analysis, 10.1.
    """
    b, c = check_count(only_first, "only_first"), check_count(only_second, "only_second")
    p_value = float(mcnemar([[0, b], [c, 0]], exact=True).pvalue) if b + c else 1.0
    return McNemar(b, c, p_value, b / c if c else None)


@dataclass(frozen=True)
class Corrected:
    """Adjusted p values in the order given; None stays None and is not part of the family."""

    p_values: tuple[float | None, ...]
    rejected: tuple[bool | None, ...]
    alpha: float
    tests: int


def holm(p_values: Sequence[float | None], alpha: float = 0.05) -> Corrected:
    """Holm's step-down correction: the chance of any false rejection stays at or below alpha.

    Valid under any dependence between the tests. Source: Holm (1979), Scand. J. Statistics 6:65.
    """
    check_fraction(alpha, "alpha")
    raw = as_floats(p_values, "p_values")
    made = ~np.isnan(raw)
    if not ((raw[made] >= 0) & (raw[made] <= 1)).all():
        raise InputError("p values must lie between 0 and 1.")
    adjusted: list[float | None] = [None] * len(raw)
    rejected: list[bool | None] = [None] * len(raw)
    if made.any():
        decisions, values, _, _ = multipletests(raw[made], alpha=alpha, method="holm")
        for index, decision, value in zip(np.flatnonzero(made), decisions, values, strict=True):
            adjusted[index], rejected[index] = float(value), bool(decision)
    return Corrected(tuple(adjusted), tuple(rejected), alpha, int(made.sum()))


def _rejection(n_pairs: int, discordance: float, alpha: float):
    """Chance of each number of discordant pairs (n,), and the last count at which each rejects (n,)."""
    spread = 10 * math.sqrt(n_pairs * discordance * (1 - discordance)) + 10
    middle = n_pairs * discordance
    # Beyond ten standard deviations the binomial weight is far below rounding.
    m = np.arange(max(0, math.floor(middle - spread)), min(n_pairs, math.ceil(middle + spread)) + 1)
    last = stats.binom.ppf(alpha / 2, m, 0.5)
    last = np.where(stats.binom.cdf(last, m, 0.5) > alpha / 2, last - 1, last)
    return m, stats.binom.pmf(m, n_pairs, discordance), last


def _power(difference: float, discordance: float, m, weight, last) -> float:
    share = min((discordance + difference) / (2 * discordance), 1.0)
    rejects = stats.binom.cdf(last, m, share) + stats.binom.cdf(last, m, 1 - share)
    return float((weight * rejects).sum())


def _check_plan(n_pairs: int, discordance: float, design_effect: float) -> int:
    n_pairs = check_count(n_pairs, "n_pairs")
    if not 0 < discordance <= 1:
        raise InputError(f"discordance is {discordance}, but it must lie above 0 and at most at 1.")
    if not 1 <= design_effect < math.inf:
        raise InputError(f"design_effect is {design_effect}, but it must be at least 1.")
    return math.floor(n_pairs / design_effect)


def mcnemar_power(
    n_pairs: int,
    discordance: float,
    difference: float,
    alpha: float = 0.05,
    design_effect: float = 1.0,
) -> float:
    """Power of the exact two-sided McNemar test, averaged over the number of discordant pairs.

    discordance is the expected share of pairs on which the systems disagree, difference the true
    difference of their rates (fractions, |difference| <= discordance). Assumes independent pairs;
    for m pairs a conversation with intraclass correlation r of the pair differences, pass
    design_effect = 1 + (m - 1) r (Kish 1965, Survey Sampling), which divides n_pairs.

    Source: Duffy (1984), Biometrics 40:1005 (unconditional exact power).
    """
    check_fraction(alpha, "alpha")
    effective = _check_plan(n_pairs, discordance, design_effect)
    if abs(difference) > discordance:
        raise InputError(
            f"The difference {difference} is larger than the discordance {discordance}: systems that "
            "disagree on that share of pairs cannot differ by more."
        )
    return _power(abs(difference), discordance, *_rejection(effective, discordance, alpha))


@dataclass(frozen=True)
class Detectable:
    """Smallest difference in percentage points that reaches the power, or None with a `reason`."""

    difference_pp: float | None
    power: float
    alpha: float
    reason: str | None = None


def minimum_detectable_difference(
    n_pairs: int,
    discordance: float,
    power: float = 0.8,
    alpha: float = 0.05,
    design_effect: float = 1.0,
) -> Detectable:
    """Smallest difference between two systems on the same cases that the exact McNemar test finds.

    Arguments, assumptions and source are those of `mcnemar_power`, which this inverts. The answer
    depends on the discordance more than on the rates: take it from a pilot run, or try several.
    """
    check_fraction(alpha, "alpha")
    check_fraction(power, "power")
    if power <= alpha:
        raise InputError(f"power is {power}, but it must be above alpha ({alpha}).")
    effective = _check_plan(n_pairs, discordance, design_effect)
    plan = _rejection(effective, discordance, alpha)
    best = _power(discordance, discordance, *plan)
    if best < power:
        reason = (
            f"With {effective} independent pairs and {discordance:.1%} discordance even the largest "
            f"possible difference reaches a power of {best:.2f} only."
        )
        return Detectable(None, power, alpha, reason)
    found = optimize.brentq(
        lambda difference: _power(difference, discordance, *plan) - power, 0.0, discordance, xtol=1e-9
    )
    return Detectable(100 * float(found), power, alpha)
