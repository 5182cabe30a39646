"""What judges said of a run, for tables and for one case; damaged judgements become sentences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from workbench.contract import Benchmark
from workbench.errors import InputError
from workbench.judges.base import Judge
from workbench.judges.records import Judgement, JudgeRecord, judge_folders, load_latest, load_record

COLUMNS = ("case", "event", "judge_score", "judge_label", "rationale")


@dataclass(frozen=True)
class Opinion:
    """One judge's word on one case. `spoke` names the model, or says that it is no language model."""

    judge: str
    spoke: str
    folder: str
    judgement: Judgement


def _read(judgements: Path) -> tuple[list[tuple[str, JudgeRecord, dict[tuple[str, str], Judgement]]], list[str]]:
    """Folder, record and judgements of every judge, language models first, and what cannot be read."""
    found, problems = [], []
    for folder in judge_folders(judgements):
        try:
            found.append((folder.name, load_record(folder), load_latest(folder)))
        except InputError as error:
            problems.append(str(error))
    return sorted(found, key=lambda one: one[1].kind != "llm"), problems


def judge_called(benchmark: Benchmark | None, name: str) -> Judge | None:
    """The judge that the benchmark declares under this name."""
    return next((judge for judge in benchmark.judges if judge.name == name), None) if benchmark else None


def opinions(judgements: Path, case_id: str) -> tuple[list[Opinion], list[str]]:
    """Every judge's word on a case, language models first, and sentences about what cannot be read."""
    found, problems = _read(judgements)
    return [
        Opinion(record.judge, record.spoke, name, judgement)
        for name, record, latest in found
        for (case, _), judgement in latest.items()
        if case == case_id
    ], problems


def judged_columns(judgements: Path, benchmark: Benchmark | None = None) -> tuple[pd.DataFrame, list[str]]:
    """`COLUMNS`, one row an item, and sentences about what cannot be read; the rationale is that of every judge.

    With several judges the score is that of the first language model, by folder name.
    """
    rows: dict[tuple[str, str], dict] = {}
    found, problems = _read(judgements)
    for _, record, latest in found:
        judge = judge_called(benchmark, record.judge)
        for (case, item), judgement in latest.items():
            row = rows.setdefault((case, item), dict(zip(COLUMNS, (case, item, None, None, ""), strict=True)))
            values = judgement.values
            numbers = [values.get(judge.score)] if judge and judge.score else values.values()
            label = values.get(judge.label) if judge and judge.label else None
            if row["judge_score"] is None and row["judge_label"] is None:
                row["judge_score"] = next((float(each) for each in numbers if isinstance(each, int | float)), None)
                row["judge_label"] = None if label is None else str(label)
            row["rationale"] = f"{row['rationale']}\n{judgement.rationale or judgement.message or ''}".strip()
    return pd.DataFrame(list(rows.values()), columns=list(COLUMNS), dtype=object), problems
