"""Rates with their intervals, and two rates on the same cases: tests, effect sizes and planning.

Use it through `workbench.analysis.statistics`. Rates and levels are fractions in [0, 1]; whatever
ends in `_pp` is in percentage points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint, proportion_effectsize

from workbench.errors import InputError

Interval = tuple[float, float]


def check_fraction(value: float, name: str) -> float:
    if not 0 < value < 1:
        raise InputError(f"{name} is {value}, but it must lie between 0 and 1 (both excluded).")
    return float(value)


def check_count(value: int, name: str) -> int:
    # bool and 3.0 are accepted (numpy sums produce them), 3.5, NaN and -1 are not.
    if not (value >= 0 and value == int(value)):
        raise InputError(f"{name} is {value}, but it must be a whole number of at least 0.")
    return int(value)


def wilson(passed: int, measured: int, level: float = 0.95) -> Interval | None:
    """Wilson's score interval for one proportion, without continuity correction.

    Assumes independent cases with one common chance of passing. Cases that share audio (the levels
    of one conversation) are not independent: use `cluster_bootstrap` for a rate over several levels.

    Source: Wilson (1927), JASA 22:209; recommended by Newcombe (1998), Statistics in Medicine
    17:857, and Brown, Cai & DasGupta (2001), Statistical Science 16:101.

    Returns (low, high) as fractions, or None when nothing was measured.
    """
    passed, measured = check_count(passed, "passed"), check_count(measured, "measured")
    check_fraction(level, "level")
    if passed > measured:
        raise InputError(f"passed is {passed}, more than the {measured} measured cases.")
    if measured == 0:
        return None
    low, high = proportion_confint(passed, measured, alpha=1 - level, method="wilson")
    # At 0 of n and n of n the exact ends are 0 and 1; rounding may leave them a hair outside.
    return (0.0 if passed == 0 else float(low), 1.0 if passed == measured else float(high))


@dataclass(frozen=True)
class Rate:
    """A rate that keeps its counts: `passed` of `measured`, with `excluded` not measurable.

    `value` is a fraction, or None with a `reason` when nothing was measured; `interval` is Wilson's
    at 95 % (see `wilson` for what it assumes).
    """

    passed: int
    measured: int
    excluded: int = 0

    def __post_init__(self) -> None:
        for name in ("passed", "measured", "excluded"):
            object.__setattr__(self, name, check_count(getattr(self, name), name))
        if self.passed > self.measured:
            raise InputError(f"passed is {self.passed}, more than the {self.measured} measured cases.")

    @property
    def value(self) -> float | None:
        return self.passed / self.measured if self.measured else None

    @property
    def reason(self) -> str | None:
        if self.measured:
            return None
        if self.excluded:
            return f"None of the {self.excluded} cases could be measured."
        return "There are no cases."

    @cached_property
    def interval(self) -> Interval | None:
        return wilson(self.passed, self.measured)

    def interval_at(self, level: float) -> Interval | None:
        return wilson(self.passed, self.measured, level)

    def __str__(self) -> str:
        if self.interval is None:
            return f"not measured: {self.reason}"
        low, high = (100 * end for end in self.interval)
        excluded = f", {self.excluded} excluded" if self.excluded else ""
        share = f"{100 * self.passed / self.measured:.1f}% [{low:.1f}, {high:.1f}]"
        return f"{self.passed}/{self.measured} = {share}{excluded}"


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


def as_floats(values: Sequence, name: str) -> np.ndarray:
    """A one-dimensional float array; None and missing values become NaN."""
    try:
        array = np.array([np.nan if value is None else value for value in values], dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers, True/False or None: {error}.") from None
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, but its shape is {array.shape}.")
    return array


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
        raise InputError("Verdicts must be True/1, False/0 or None; use paired_bootstrap for numbers.")
    a, b = a == 1, b == 1
    counts = [int(cell.sum()) for cell in (a & b, a & ~b, ~a & b, ~a & ~b)]
    return PairedCounts(*counts, excluded=int((~complete).sum()))


def newcombe_paired(both: int, only_first: int, only_second: int, neither: int, level: float = 0.95) -> Interval | None:
    """Interval for the difference (first minus second) of two rates on the same cases.

    Wilson's limits of the two margins, squared and added with the observed correlation, which is
    shrunk by n/2 when positive. Assumes independent pairs; with several pairs a conversation use
    `paired_bootstrap`.

    Source: Newcombe (1998), Statistics in Medicine 17:2635, method 10.

    Returns (low, high) as fractions, or None when there are no pairs.
    """
    n = both + only_first + only_second + neither
    if n == 0:
        return None
    first, second = both + only_first, both + only_second
    p1, p2 = first / n, second / n
    (l1, u1), (l2, u2) = wilson(first, n, level), wilson(second, n, level)
    margins = first * (n - first) * second * (n - second)
    cross = both * neither - only_first * only_second
    shrunk = max(cross - n / 2, 0) if cross > 0 else cross
    phi = shrunk / math.sqrt(margins) if margins else 0.0
    down = (p1 - l1) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2
    up = (u1 - p1) ** 2 - 2 * phi * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2
    difference = (only_first - only_second) / n
    low, high = difference - math.sqrt(max(down, 0)), difference + math.sqrt(max(up, 0))
    return max(low, -1.0), min(high, 1.0)


@dataclass(frozen=True)
class Effect:
    """A statistic and its interval; an end of None is unbounded. `reason` says why one is None."""

    value: float | None
    interval: tuple[float | None, float | None] | None = None
    reason: str | None = None


def cohens_h(first: float | None, second: float | None) -> Effect:
    """Cohen's h of two rates (fractions): 2 asin(sqrt(first)) - 2 asin(sqrt(second)), in [-pi, pi].

    Makes a difference at 0.95 comparable with one at 0.50. No assumption: it describes, and says
    nothing about the sampling error. Source: Cohen (1988), Statistical Power Analysis, chapter 6.
    """
    if first is None or second is None:
        return Effect(None, reason="One of the two rates was not measured.")
    if not (0 <= first <= 1 and 0 <= second <= 1):
        raise InputError(f"Rates must be fractions from 0 to 1, but they are {first} and {second}.")
    return Effect(float(proportion_effectsize(first, second)))


def discordant_odds_ratio(only_first: int, only_second: int, level: float = 0.95) -> Effect:
    """Conditional odds ratio of a matched pair design, only_first / only_second.

    The interval is Clopper-Pearson's for only_first among the discordant pairs, turned into odds, so
    it excludes 1 exactly when `mcnemar_exact` rejects. Assumes independent pairs and one odds ratio
    common to all.

    Source: Breslow & Day (1980), Statistical Methods in Cancer Research I, section 5.2.
    """
    b, c = check_count(only_first, "only_first"), check_count(only_second, "only_second")
    check_fraction(level, "level")
    if b + c == 0:
        return Effect(None, reason="There are no discordant pairs.")
    low, high = proportion_confint(b, b + c, alpha=1 - level, method="beta")
    odds_low = 0.0 if b == 0 else float(low / (1 - low))
    if c == 0:
        reason = "No pair favours the second system only, so the ratio has no upper bound."
        return Effect(None, (odds_low, None), reason)
    return Effect(b / c, (odds_low, float(high / (1 - high))))


@dataclass(frozen=True)
class McNemar:
    """Result of `mcnemar_exact`; `reason` says why the difference or its interval is None."""

    only_first: int
    only_second: int
    pairs: int | None
    p_value: float
    difference_pp: float | None
    interval_pp: Interval | None
    level: float
    odds_ratio: Effect
    reason: str | None = None


def mcnemar_exact(
    only_first: int,
    only_second: int,
    both: int | None = None,
    neither: int | None = None,
    level: float = 0.95,
) -> McNemar:
    """Exact two-sided McNemar test that two systems pass equally often on the same cases.

    p is the doubled tail of Binomial(only_first + only_second, 1/2), at most 1; without discordant
    pairs it is 1. Assumes independent pairs: over cases that share a conversation it is too
    optimistic, and `paired_bootstrap` is the one to trust. The difference (first minus second) has
    Newcombe's interval, which needs the concordant counts `both` and `neither`.

    Source: McNemar (1947), Psychometrika 12:153; Agresti (2002), Categorical Data Analysis, 10.1.
    """
    b, c = check_count(only_first, "only_first"), check_count(only_second, "only_second")
    check_fraction(level, "level")
    p_value = float(mcnemar([[0, b], [c, 0]], exact=True).pvalue) if b + c else 1.0
    odds = discordant_odds_ratio(b, c, level)
    if both is None or neither is None:
        reason = "The difference needs the pairs that agree: give both and neither."
        return McNemar(b, c, None, p_value, None, None, level, odds, reason)
    both, neither = check_count(both, "both"), check_count(neither, "neither")
    n = b + c + both + neither
    if n == 0:
        return McNemar(b, c, 0, p_value, None, None, level, odds, "There are no complete pairs.")
    low, high = newcombe_paired(both, b, c, neither, level)
    return McNemar(b, c, n, p_value, 100 * (b - c) / n, (100 * low, 100 * high), level, odds)


@dataclass(frozen=True)
class Corrected:
    """Adjusted p values in the order given; None stays None and is not part of the family."""

    method: str
    p_values: tuple[float | None, ...]
    rejected: tuple[bool | None, ...]
    alpha: float
    tests: int


def _correct(p_values: Sequence[float | None], alpha: float, method: str, name: str) -> Corrected:
    check_fraction(alpha, "alpha")
    raw = as_floats(p_values, "p_values")
    made = ~np.isnan(raw)
    if not ((raw[made] >= 0) & (raw[made] <= 1)).all():
        raise InputError("p values must lie between 0 and 1.")
    adjusted: list[float | None] = [None] * len(raw)
    rejected: list[bool | None] = [None] * len(raw)
    if made.any():
        decisions, values, _, _ = multipletests(raw[made], alpha=alpha, method=method)
        for index, decision, value in zip(np.flatnonzero(made), decisions, values, strict=True):
            adjusted[index], rejected[index] = float(value), bool(decision)
    return Corrected(name, tuple(adjusted), tuple(rejected), alpha, int(made.sum()))


def holm(p_values: Sequence[float | None], alpha: float = 0.05) -> Corrected:
    """Holm's step-down correction: the chance of any false rejection stays at or below alpha.

    Valid under any dependence between the tests. Source: Holm (1979), Scand. J. Statistics 6:65.
    """
    return _correct(p_values, alpha, "holm", "Holm")


def benjamini_hochberg(p_values: Sequence[float | None], alpha: float = 0.05) -> Corrected:
    """Benjamini-Hochberg: the expected share of false rejections stays at or below alpha.

    Assumes independent or positively dependent tests. Source: Benjamini & Hochberg (1995), JRSS B
    57:289.
    """
    return _correct(p_values, alpha, "fdr_bh", "Benjamini-Hochberg")
