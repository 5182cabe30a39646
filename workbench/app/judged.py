"""What judges said of a run, for tables and for one case; damaged judgements become sentences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.errors import InputError
from workbench.judges.records import Judgement, JudgeRecord
from workbench.judges.registry import JUDGES
from workbench.judges.store import judge_folders, load_latest, load_record

EMPTY = pd.DataFrame({name: pd.Series([], dtype=object) for name in
                      ("case", "event", "judge_score", "judge_label", "rationale")})  # fmt: skip


@dataclass(frozen=True)
class Opinion:
    """One judge's word on one case. `spoke` names the model, or says that it is no language model."""

    judge: str
    spoke: str
    score: float | None
    label: str | None
    judgement: Judgement


def _main(record: JudgeRecord, judgement: Judgement) -> tuple[float | None, str | None]:
    """The score and the label that tables show."""
    known = JUDGES.get(record.judge)
    names = [known.score] if known and known.score else list(judgement.values)
    numbers = [judgement.values.get(name) for name in names]
    score = next((float(value) for value in numbers if isinstance(value, int | float)), None)
    label: Any = judgement.values.get(known.label) if known and known.label else None
    return score, None if label is None else str(label)


def opinions(judgements: Path, case_id: str) -> tuple[list[Opinion], list[str]]:
    """Every judge's word on a case, language models first, and sentences about what cannot be read."""
    out, problems = [], []
    for folder in judge_folders(judgements):
        try:
            record = load_record(folder)
            for (case, _), judgement in load_latest(folder).items():
                if case == case_id:
                    out.append(Opinion(record.judge, record.spoke, *_main(record, judgement), judgement))
        except InputError as error:
            problems.append(str(error))
    return sorted(out, key=lambda opinion: "no language model" in opinion.spoke), problems


def judged_columns(judgements: Path) -> tuple[pd.DataFrame, list[str]]:
    """Columns case, event, judge_score, judge_label, rationale (of every judge, for searching).

    With several judges the score is that of the first language model, by folder name.
    """
    rows, problems = {}, []
    folders = []
    for folder in judge_folders(judgements):
        try:
            folders.append((load_record(folder), load_latest(folder)))
        except InputError as error:
            problems.append(str(error))
    for record, latest in sorted(folders, key=lambda pair: pair[0].kind != "llm"):
        for (case, item), judgement in latest.items():
            row = rows.setdefault((case, item), {"case": case, "event": item, "judge_score": None,
                                                 "judge_label": None, "rationale": ""})  # fmt: skip
            score, label = _main(record, judgement)
            if row["judge_score"] is None and row["judge_label"] is None:
                row["judge_score"], row["judge_label"] = score, label
            said = judgement.rationale or judgement.message or ""
            row["rationale"] = f"{row['rationale']}\n{said}".strip()
    return (pd.DataFrame(list(rows.values())) if rows else EMPTY), problems
