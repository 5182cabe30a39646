"""The folder of one judge in a run: `judge.json`, `judgements.jsonl`, and tables made from it.

Lines are only ever appended; for an item judged twice the last line counts. A process killed while
writing leaves at most one broken last line, which is dropped on opening.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pandas as pd
from pydantic import ValidationError

from workbench.datasets import describe
from workbench.errors import InputError
from workbench.files import read_json, write_atomically, write_json
from workbench.judges.records import Judgement, JudgeRecord, Session
from workbench.locks import writing

LINES = "judgements.jsonl"
RECORD = "judge.json"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def read_lines(path: Path) -> Iterator[Judgement]:
    """Every judgement in a file, in order; a last line without an end is left out.

    Raises
    ------
    InputError : another broken line; its number is given.
    """
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        if not line.strip():
            continue
        try:
            yield Judgement.model_validate_json(line)
        except ValidationError as error:
            raise InputError(f"{path}, line {number}: {describe(error)}; remove that line and judge again.") from None


def load_latest(folder: Path) -> dict[tuple[str, str], Judgement]:
    """The judgement that counts for each (case, item)."""
    return {(line.case, line.item): line for line in read_lines(folder / LINES)}


class Log:
    """The judgements of one judge, open for appending; use as a context manager.

    Raises
    ------
    InputError : another process is judging into the same folder.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        with ExitStack() as stack:
            stack.enter_context(writing(folder))
            self._stream = stack.enter_context((folder / LINES).open("ab+"))
            self._drop_broken_end()
            self.latest = load_latest(folder)
            self._held = stack.pop_all()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *exc: object) -> None:
        self._held.close()

    def append(self, judgement: Judgement) -> None:
        """Write one line and hand it to the system, so that a killed process loses nothing judged."""
        self._stream.write(judgement.model_dump_json().encode() + b"\n")
        self._stream.flush()
        self.latest[judgement.case, judgement.item] = judgement

    def _drop_broken_end(self) -> None:
        self._stream.seek(0)
        content = self._stream.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._stream.truncate(whole)


def write_record(folder: Path, record: JudgeRecord, session: Session | None = None) -> JudgeRecord:
    """Write `judge.json`, keeping the sessions that stand in it and adding `session`."""
    past = load_record(folder).sessions if (folder / RECORD).exists() else ()
    record = record.model_copy(update={"sessions": past + ((session,) if session else ())})
    write_json(folder / RECORD, json.loads(record.model_dump_json()))
    return record


def load_record(folder: Path) -> JudgeRecord:
    """Read `judge.json`.

    Raises
    ------
    InputError : missing or unreadable; the file and field are named.
    """
    path = folder / RECORD
    try:
        return JudgeRecord.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}; judge again into a fresh folder.") from None


def judge_folders(judgements: Path) -> list[Path]:
    """The folders of all judges of a run, by name."""
    if not judgements.is_dir():
        return []
    return sorted(folder for folder in judgements.iterdir() if (folder / RECORD).exists())


def table(folder: Path) -> pd.DataFrame:
    """One row an item: case, item, status, each value, rationale, reason, message, raw, model, fingerprint, date."""
    rows = []
    for line in load_latest(folder).values():
        row = {"case": line.case, "item": line.item, "status": line.status, **line.values}
        rest = ("rationale", "reason", "message", "raw", "mode", "model", "fingerprint", "date")
        row.update({name: getattr(line, name) for name in rest})
        row["repairs"], row["attempts"] = ", ".join(line.repairs), len(line.attempts)
        row["verdict_first"] = line.verdict_first
        rows.append(row)
    return pd.DataFrame(rows)


def export(folder: Path) -> None:
    """Write judgements.parquet and judgements.csv beside the lines they are made from."""
    rows = table(folder)
    write_atomically(folder / "judgements.parquet", lambda part: rows.to_parquet(part, index=False))
    write_csv(folder / "judgements.csv", rows)


def write_csv(path: Path, rows: pd.DataFrame) -> None:
    """Write a CSV in which no text can act as a spreadsheet formula (such cells get a leading ')."""
    safe = rows.map(lambda cell: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell)
    write_atomically(path, lambda part: safe.to_csv(part, index=False))
