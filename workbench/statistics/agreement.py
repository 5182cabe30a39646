"""Agreement between two rankings or two raters.

Use it through `workbench.statistics`. Pairs with a missing half are left out and counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa

from workbench.errors import InputError
from workbench.statistics.rates import Interval, as_floats, check_fraction, jackknife

# 9! = 362,880 orders are quick to enumerate; beyond, the t approximation is good enough.
_EXACT_UP_TO = 9


def _complete(x: Sequence, y: Sequence) -> tuple[np.ndarray, np.ndarray, int]:
    a, b = as_floats(x, "x"), as_floats(y, "y")
    if a.shape != b.shape:
        raise InputError(f"x has {len(a)} values and y has {len(b)}; they must describe the same items.")
    keep = ~(np.isnan(a) | np.isnan(b))
    return a[keep], b[keep], int((~keep).sum())


def _no_ranking(a: np.ndarray, b: np.ndarray) -> str | None:
    if len(a) < 2:
        return f"A ranking needs at least two items, and {len(a)} can be compared."
    tied = [name for name, values in (("x", a), ("y", b)) if (values == values[0]).all()]
    return f"All items are tied in {' and in '.join(tied)}, so there is no order to compare." if tied else None


_EQUAL = 1e-9
"""Scores this close are a tie: they are ratios of small counts, computed in floating point."""


def tau_b(scores: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Kendall's tau-b (k,) of each row of scores (k, systems) against base (systems,), many at once.

    tau-b = (concordant - discordant) / sqrt((pairs untied in x) (pairs untied in y)); with ties in one ranking
    only it cannot reach 1. NaN where all systems tie on one side, or fewer than two are measured.

    Source: Kendall (1945), Biometrika 33:239; Agresti (2002), Categorical Data Analysis, 2.4.
    """
    first, second = np.triu_indices(len(base), 1)

    def signs(differences: np.ndarray) -> np.ndarray:
        return np.where(np.abs(differences) < _EQUAL, 0.0, np.sign(differences))

    ours, theirs = signs(scores[:, first] - scores[:, second]), signs(base[first] - base[second])
    usable = ~np.isnan(ours) & ~np.isnan(theirs)
    ours, theirs = np.where(usable, ours, 0), np.where(usable, theirs, 0)
    below = np.sqrt((ours != 0).sum(axis=1) * (theirs != 0).sum(axis=1).astype(float))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(below > 0, (ours * theirs).sum(axis=1) / below, np.nan)


def ranks(scores: np.ndarray) -> np.ndarray:
    """Competition ranks along the last axis, best 1; ties share a rank, what is not measured has none (NaN)."""
    better = (scores[..., None, :] > scores[..., :, None] + _EQUAL).sum(axis=-1)
    return np.where(np.isnan(scores), np.nan, 1.0 + better)


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's rho; `exact` says whether p enumerates all orders."""

    value: float | None
    p_value: float | None
    exact: bool
    n: int
    excluded: int
    reason: str | None = None
    interval: Interval | None = None


def rank_correlation(
    x: Sequence, y: Sequence, clusters: Sequence | None = None, level: float = 0.95
) -> RankCorrelation:
    """Spearman's rho of two scorings of the same items, shape (n_items,) each; ties share mean ranks.

    p tests independence over independent items: all n! orders up to 9 items (a few systems are too
    few for an approximation), Student's t beyond. With `clusters` (n_items,), the conversations, there
    is an interval, the jackknife's over them.

    Source: Spearman (1904), Am. J. Psychology 15:72; Hollander & Wolfe (1973), Nonparametric
    Statistical Methods, chapter 8.
    """
    a, b, excluded = _complete(x, y)
    reason = _no_ranking(a, b)
    if reason:
        return RankCorrelation(None, None, False, len(a), excluded, reason)
    result = stats.spearmanr(a, b)
    value, p_value, exact = float(result.statistic), float(result.pvalue), len(a) <= _EXACT_UP_TO
    if exact:
        # With fixed ranks, rho is a linear function of the sum of products: enough to order by.
        ranks = stats.rankdata(b) - (len(b) + 1) / 2
        p_value = stats.permutation_test(
            (stats.rankdata(a) - (len(a) + 1) / 2,),
            lambda order, axis: np.moveaxis(order, axis, -1) @ ranks,
            permutation_type="pairings",
            vectorized=True,
            n_resamples=np.inf,
            batch=50_000,
        ).pvalue
    if clusters is None:
        return RankCorrelation(value, float(p_value), exact, len(a), excluded)
    labels = np.asarray(clusters)[~(np.isnan(as_floats(x, "x")) | np.isnan(as_floats(y, "y")))]

    def without(kept: np.ndarray) -> float:
        return math.nan if _no_ranking(a[kept], b[kept]) else float(stats.spearmanr(a[kept], b[kept]).statistic)

    found = jackknife(value, without, labels, level, (-1.0, 1.0))
    return RankCorrelation(value, float(p_value), exact, len(a), excluded, found.note, found.interval)


@dataclass(frozen=True)
class Kappa:
    """Chance-corrected agreement of two raters. observed and expected are (weighted) shares."""

    value: float | None
    interval: Interval | None
    observed: float | None
    expected: float | None
    categories: tuple
    weights: str
    n: int
    excluded: int
    reason: str | None = None


def _categories(labels: list, given: Sequence | None, ordered: bool) -> list:
    if given is not None:
        listed = list(given)
        strangers = sorted({str(label) for label in labels if label not in listed})
        if strangers or len(set(listed)) < len(listed):
            problem = f"Not among the categories: {', '.join(strangers)}." if strangers else "One is twice."
            raise InputError(f"The categories {listed} do not fit the labels. {problem}")
        return listed
    if ordered and not all(_is_number(label) for label in labels):
        raise InputError("Weighted kappa needs the order of its labels: give categories, lowest first.")
    return sorted(set(labels), key=lambda label: (label if _is_number(label) else 0, str(label)))


def _is_number(label) -> bool:
    return isinstance(label, (int, float, np.integer, np.floating))


def _kappa(first, second, weights: str | None, categories, clusters, level: float) -> Kappa:
    check_fraction(level, "level")
    first, second = list(first), list(second)
    if len(first) != len(second):
        raise InputError(f"The raters gave {len(first)} and {len(second)} labels; they must pair up.")
    if clusters is not None and len(clusters) != len(first):
        raise InputError(f"There are {len(clusters)} cluster labels for {len(first)} items.")
    keep = [not (pd.isna(a) or pd.isna(b)) for a, b in zip(first, second, strict=True)]
    pairs = [pair for pair, kept in zip(zip(first, second, strict=True), keep, strict=True) if kept]
    n, excluded, name = len(pairs), len(first) - len(pairs), weights or "none"
    order = _categories([label for pair in pairs for label in pair], categories, weights is not None)
    if len({label for pair in pairs for label in pair}) < 2:
        reason = (
            "No item was labelled by both raters."
            if not pairs
            else ("Both raters gave one and the same label throughout, so chance alone explains the agreement.")
        )
        return Kappa(None, None, None, None, tuple(order), name, n, excluded, reason)

    place = {label: index for index, label in enumerate(order)}
    rows = np.array([(place[a], place[b]) for a, b in pairs])
    # Numbers keep their distances (a rating of 0, 50 or 60 is not equally spaced), names their places.
    numeric = all(_is_number(label) for label in order)
    scores = np.array(order if numeric else range(len(order)), dtype=float)
    scores /= np.ptp(scores) or 1.0
    penalty = np.abs(scores[:, None] - scores) ** (2 if weights == "quadratic" else 1)
    credit = 1 - penalty if weights else np.eye(len(order))

    def agreement(kept: np.ndarray) -> tuple[float, float, float]:
        shares = np.zeros((len(order), len(order)))
        np.add.at(shares, tuple(rows[kept].T), 1 / max(kept.sum(), 1))
        observed = float((shares * credit).sum())
        expected = float((np.outer(shares.sum(1), shares.sum(0)) * credit).sum())
        return observed, expected, (observed - expected) / (1 - expected) if expected < 1 - 1e-12 else math.nan

    observed, expected, value = agreement(np.ones(n, bool))
    if clusters is not None:
        labels = np.asarray(clusters)[keep]
        found = jackknife(value, lambda kept: agreement(kept)[2], labels, level, (-1.0, 1.0))
        return Kappa(value, found.interval, observed, expected, tuple(order), name, n, excluded, found.note)
    table = np.zeros((len(order), len(order)))
    np.add.at(table, tuple(rows.T), 1)
    error = math.sqrt(max(float(cohens_kappa(table, weights=scores if weights else None, wt=weights).var_kappa), 0.0))
    reach = float(stats.norm.ppf((1 + level) / 2)) * error
    if error < 1e-12:
        reason = "The large-sample standard error is 0, so it gives no interval."
        return Kappa(value, None, observed, expected, tuple(order), name, n, excluded, reason)
    interval = max(value - reach, -1.0), min(value + reach, 1.0)
    return Kappa(value, interval, observed, expected, tuple(order), name, n, excluded)


def cohen_kappa(
    first: Sequence,
    second: Sequence,
    categories: Sequence | None = None,
    clusters: Sequence | None = None,
    level: float = 0.95,
) -> Kappa:
    """Cohen's kappa of two raters' labels, shape (n_items,) each; None/NaN/NA = not labelled.

    Assumes independent raters and nominal categories. With `clusters` (n_items,), the conversations,
    the interval is the jackknife's over them; without, items are taken as independent and it is the
    large-sample one. Kappa falls when one category is rare, at equal agreement: read `observed` too.

    Source: Cohen (1960), Educational and Psychological Measurement 20:37; variance of Fleiss, Cohen
    & Everitt (1969), Psychological Bulletin 72:323.
    """
    return _kappa(first, second, None, categories, clusters, level)


def weighted_kappa(
    first: Sequence,
    second: Sequence,
    weights: str = "linear",
    categories: Sequence | None = None,
    clusters: Sequence | None = None,
    level: float = 0.95,
) -> Kappa:
    """Weighted kappa for ordered labels: "linear" (Cicchetti-Allison) or "quadratic" (Fleiss-Cohen).

    Numeric labels are scored by their value, others by their place in `categories` (lowest first,
    required). Assumptions are those of `cohen_kappa`, and that the weights mean something: quadratic
    ones make kappa an intraclass correlation.

    Source: Cohen (1968), Psychological Bulletin 70:213; Fleiss & Cohen (1973), Educational and
    Psychological Measurement 33:613; Cicchetti & Allison (1971), Am. J. EEG Technology 11:101.
    """
    if weights not in ("linear", "quadratic"):
        raise InputError(f"weights is {weights!r}, but it must be 'linear' or 'quadratic'.")
    return _kappa(first, second, weights, categories, clusters, level)
