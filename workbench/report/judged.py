"""What judges said of the runs, always with the judge's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from workbench.errors import InputError
from workbench.runs import Run


@dataclass(frozen=True)
class Judged:
    """One judge's tables for one run: `spoke` names the judge, `problems` are sentences about validity."""

    run: str
    key: str
    spoke: str
    prompt: str
    valid: bool
    problems: tuple[str, ...]
    tables: dict[str, pd.DataFrame]


def collect(names: Sequence[str], runs: Sequence[Run]) -> tuple[Judged, ...]:
    """Every judge of every run; judgements that cannot be read become a sentence, not an end."""
    found = []
    for name, run in zip(names, runs, strict=True):
        if not run.judgements.is_dir():
            continue
        from workbench.judges.store import judge_folders
        from workbench.judges.summary import summarise

        for folder in judge_folders(run.judgements):
            try:
                made = summarise(run, folder)
            except InputError as error:
                found.append(Judged(name, folder.name, "unreadable", "", False, (str(error),), {}))
                continue
            tables = dict(made.tables)
            found.append(
                Judged(
                    name,
                    folder.name,
                    made.record.spoke,
                    made.record.prompt_sha256[:12],
                    made.valid,
                    tuple(made.problems),
                    tables,
                )
            )
    return tuple(found)


def stacked(found: Sequence[Judged]) -> dict[str, pd.DataFrame]:
    """judge_pas, judge_conflict, judge_safety: rows of every run and judge, led by `run`, `judge`, `valid`."""
    out: dict[str, list[pd.DataFrame]] = {}
    for one in found:
        for table, frame in one.tables.items():
            if len(frame):
                led = frame.copy()
                for place, (column, value) in enumerate(
                    (("run", one.run), ("judge", one.spoke), ("judge_key", one.key), ("valid", one.valid))
                ):
                    led.insert(place, column, value)
                out.setdefault(f"judge_{table}", []).append(led)
    return {table: pd.concat(frames, ignore_index=True) for table, frames in out.items()}
