"""What a planned run can show: power and minimum detectable differences.

Use it through `workbench.statistics`. Inputs are fractions; `_pp` is percentage points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats
from statsmodels.stats.power import NormalIndPower

from workbench.errors import InputError
from workbench.statistics.rates import check_count, check_fraction


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


def _check_aims(power: float, alpha: float) -> None:
    check_fraction(alpha, "alpha")
    check_fraction(power, "power")
    if power <= alpha:
        raise InputError(f"power is {power}, but it must be above alpha ({alpha}).")


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
    _check_aims(power, alpha)
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


@dataclass(frozen=True)
class DetectableAround:
    """Smallest rise above and fall below a baseline rate that reaches the power."""

    rise: Detectable
    fall: Detectable
    cohens_h: float


def minimum_detectable_difference_independent(
    n_first: int,
    n_second: int,
    baseline: float,
    power: float = 0.8,
    alpha: float = 0.05,
    design_effect: float = 1.0,
) -> DetectableAround:
    """Smallest difference from a baseline rate that two independent groups of cases can show.

    Two-sided normal test on Cohen's arcsine scale. Assumes independent cases within and between
    the groups (different cases, not two systems on the same ones) and groups large enough for the
    normal approximation (about 10 expected passes and fails each). design_effect divides both n.

    Source: Cohen (1988), Statistical Power Analysis, chapter 6; statsmodels NormalIndPower.
    """
    _check_aims(power, alpha)
    if not 0 <= baseline <= 1:
        raise InputError(f"baseline is {baseline}, but it must be a fraction from 0 to 1.")
    n1 = _check_plan(n_first, 1.0, design_effect)
    n2 = _check_plan(n_second, 1.0, design_effect)
    if min(n1, n2) < 1:
        raise InputError("Each group needs at least one independent case.")
    # The test statistic is h divided by sqrt(1/n1 + 1/n2).
    h = float(NormalIndPower().solve_power(None, nobs1=n1, alpha=alpha, power=power, ratio=n2 / n1))
    angle = 2 * math.asin(math.sqrt(baseline))

    def reach(target: float, word: str) -> Detectable:
        if not 0 <= target <= math.pi:
            reason = f"No {word} from {baseline:.1%} is large enough for groups of {n1} and {n2}."
            return Detectable(None, power, alpha, reason)
        return Detectable(100 * abs(math.sin(target / 2) ** 2 - baseline), power, alpha)

    return DetectableAround(reach(angle + h, "rise"), reach(angle - h, "fall"), h)
