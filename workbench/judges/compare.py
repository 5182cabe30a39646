"""Agreement: between two judges, between a judge and people, and between people.

Scores are compared as ranks (Spearman), as mean difference, and in the bands of the rubric (weighted
kappa); labels by Cohen's kappa and the share that is equal. Intervals go by conversations. A row without
a value or interval, or of few conversations, says so in `reason`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from workbench.judges.base import Judge
from workbench.statistics import cohen_kappa, paired_difference, rank_correlation, rate, weighted_kappa

COLUMNS = ["comparison", "metric", "n", "value", "low", "high", "reason"]


def band(score: float, bands: tuple[float, ...]) -> int:
    """Place of a score among the steps of a rubric, whose lower ends (but the lowest's) are `bands`."""
    return int(np.searchsorted(bands, score, side="right"))


def agree(
    name: str,
    pairs: pd.DataFrame,
    judge: Judge,
) -> pd.DataFrame:
    """Every measure of agreement for paired values.

    pairs : columns conversation, and any of first_score/second_score and
    first_label/second_label; missing halves are left out. judge : for its bands and labels.
    """
    rows: list[dict] = []
    if {"first_score", "second_score"} <= set(pairs):
        rows += _scores(pairs.dropna(subset=["first_score", "second_score"]), judge.bands)
    if {"first_label", "second_label"} <= set(pairs):
        rows += _labels(pairs.dropna(subset=["first_label", "second_label"]), judge.labels)
    return pd.DataFrame([{"comparison": name, **row} for row in rows], columns=COLUMNS)


def disagreements(pairs: pd.DataFrame, *, points: float = 15.0) -> pd.DataFrame:
    """Pairs whose labels differ or whose scores are `points` or more apart, the widest first."""
    frame = pairs.copy()
    frame["apart"] = (frame.first_score - frame.second_score).abs() if "first_score" in frame else 0.0
    differ = pd.Series(False, index=frame.index)
    if "first_label" in frame:
        both = frame.first_label.notna() & frame.second_label.notna()
        differ = both & (frame.first_label != frame.second_label)
    frame["label_differs"] = differ
    kept = frame[differ | (frame.apart >= points)]
    return kept.sort_values(["label_differs", "apart"], ascending=False, kind="stable").reset_index(drop=True)


def pair_up(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Join two frames with columns case, item, conversation, score, label (and rationale) into pairs."""
    names = [name for name in ("score", "label", "rationale") if name in first and name in second]
    keys = ["case", "item"] if "item" in first and "item" in second else ["case"]
    left = first[[*keys, "conversation", *names]].rename(columns={name: f"first_{name}" for name in names})
    right = second[[*keys, *names]].rename(columns={name: f"second_{name}" for name in names})
    return left.merge(right, on=keys, how="inner")


def _scores(pairs: pd.DataFrame, bands: tuple[float, ...]) -> list[dict]:
    first, second = pairs.first_score.to_numpy(float), pairs.second_score.to_numpy(float)
    clusters = pairs.conversation.to_numpy(str)
    n = len(pairs)
    rho = rank_correlation(first, second, clusters)
    gap = paired_difference(first, second, clusters)
    kappa = weighted_kappa(
        [band(score, bands) for score in first],
        [band(score, bands) for score in second],
        "quadratic",
        range(len(bands) + 1),
        clusters,
    )
    return [
        _row("score: rank correlation (Spearman)", n, rho.value, rho.interval, rho.reason),
        _row("score: mean difference (first less second)", n, gap.value, gap.interval, gap.note),
        _row("score: quadratic weighted kappa of bands", n, kappa.value, kappa.interval, kappa.reason),
    ]


def _labels(pairs: pd.DataFrame, labels: tuple[str, ...]) -> list[dict]:
    first, second, clusters = pairs.first_label, pairs.second_label, pairs.conversation.to_numpy(str)
    equal = rate(first == second, clusters)
    kappa = cohen_kappa(first, second, labels or None, clusters)
    n = len(pairs)
    return [
        _row("label: share equal", n, equal.value, equal.interval, equal.note),
        _row("label: Cohen's kappa", n, kappa.value, kappa.interval, kappa.reason),
    ]


def _row(metric: str, n: int, value: float | None, interval: tuple | None, reason: str | None) -> dict:
    low, high = interval or (None, None)
    return {"metric": metric, "n": n, "value": value, "low": low, "high": high, "reason": reason}
