"""Labels that people gave, from CSV, and how far a judge agrees with them.

Columns: case, label, and optionally item (or event) and annotator; others are ignored. A label is a number on
the judge's scale or one of its labels (reported names are understood as well); one file may hold both
kinds, so a case may stand in two rows of one annotator.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from itertools import combinations
from pathlib import Path

import pandas as pd

from workbench.errors import InputError, ProblemsFound
from workbench.judges.base import Judge
from workbench.judges.compare import agree, pair_up

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
