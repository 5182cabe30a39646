"""Agreement: between two judges, between a judge and people, and between people.

Scores are compared as ranks (Spearman), as mean difference, and in the bands of the rubric (weighted
kappa); labels by Cohen's kappa and the share that is equal. Intervals go by conversations. A row without
a value or interval, or of few conversations, says so in `reason`.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from workbench.errors import InputError, ProblemsFound
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


POOLED = "people together"


def read_labels(path: Path, judge: Judge, cases: dict[str, object]) -> pd.DataFrame:
    """Read a CSV of human labels: columns case, item, annotator, score (NaN if none), label (or None).

    `item` tells several items of one case apart; a file may call it `event`, as annotations do.

    Raises
    ------
    InputError : missing or unreadable file, or columns. ProblemsFound : every line that can't be used.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            lines = [(reader.line_num, row) for row in reader]
            names = reader.fieldnames or []
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the path.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; save it as CSV UTF-8.") from None
    missing = [name for name in ("case", "label") if name not in names]
    if missing:
        raise InputError(f"{path} has no column {missing[0]!r}; it needs case, label and perhaps annotator.")
    rows: dict[tuple[str, str, str], dict] = {}
    problems = []
    for number, line in lines:
        case, label = (line["case"] or "").strip(), (line["label"] or "").strip()
        annotator = (line.get("annotator") or "").strip() or "one annotator"
        item = (line.get("item" if "item" in names else "event") or "").strip()
        if not label:
            continue
        if case not in cases:
            problems.append(f"{path}, line {number}: the run has no case {case!r}; mend the id or remove the line.")
            continue
        try:
            kind, value = _label(label, judge)
        except ValueError as error:
            problems.append(f"{path}, line {number}: {error}.")
            continue
        row = rows.setdefault((case, item, annotator), {"case": case, "item": item, "annotator": annotator})
        if kind in row:
            problems.append(f"{path}, line {number}: {annotator} gave case {case} a {kind} already; keep one.")
            continue
        row[kind] = value
    if problems:
        raise ProblemsFound(problems)
    if not rows:
        raise InputError(f"{path} holds no label; fill in the column 'label'.")
    frame = pd.DataFrame(list(rows.values())).reindex(columns=["case", "item", "annotator", "score", "label"])
    return frame.astype({"score": float, "label": object})


def agreement(judged: pd.DataFrame, people: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    """Judge against each person, against all together, and each two people against one another.

    judged : columns case, item, conversation, score, label. Together means the median score and the label that
    most gave; where two labels lead, the case has none.
    """
    conversations = judged.drop_duplicates("case").set_index("case").conversation
    each = {name: part.assign(conversation=part.case.map(conversations)) for name, part in people.groupby("annotator")}
    tables = [agree(f"judge and {name}", pair_up(judged, part), judge) for name, part in each.items()]
    if len(each) > 1:
        together = pool(people).assign(conversation=lambda frame: frame.case.map(conversations))
        tables.append(agree(f"judge and {POOLED}", pair_up(judged, together), judge))
        for one, two in combinations(each, 2):
            tables.append(agree(f"{one} and {two}", pair_up(each[one], each[two]), judge))
    return pd.concat(tables, ignore_index=True)


def pool(people: pd.DataFrame) -> pd.DataFrame:
    """One row an item: the median score, and the label that most people gave (None on a tie)."""
    rows = []
    for (case, item), part in people.groupby(["case", "item"]):
        counts = Counter(part.label.dropna()).most_common(2)
        clear = bool(counts) and (len(counts) == 1 or counts[0][1] > counts[1][1])
        rows.append(
            {"case": case, "item": item, "score": part.score.median(), "label": counts[0][0] if clear else None}
        )
    return pd.DataFrame(rows).astype({"score": float, "label": object})


def _label(text: str, judge: Judge) -> tuple[str, float | str]:
    name = text.lower().replace(" ", "-")
    spoken = {word.lower().replace(" ", "-"): label for label, word in judge.reported.items()}
    name = spoken.get(name, name)
    if name in judge.labels:
        return "label", name
    try:
        score = float(text)
    except ValueError:
        known = ", ".join(judge.labels)
        raise ValueError(f"the label {text[:40]!r} is neither a number nor one of {known}") from None
    low, high = judge.scale
    if not (math.isfinite(score) and low <= score <= high) or (high >= 10 and 0 < score < 1):
        raise ValueError(f"the score {text[:40]!r} is not on the scale of {low:g} to {high:g}")
    return "score", score
