"""What is kept of judging: one line a judgement, and one record a judge."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pydantic import ValidationError

from workbench.cases import Record
from workbench.chat.messages import schema
from workbench.datasets import describe, read_record
from workbench.errors import InputError
from workbench.files import content_key, write_atomically, write_csv, write_json, writing
from workbench.judges.base import Item, Judge, messages

FORMAT = 1


class Attempt(Record):
    """An answer that could not be read, kept as it came."""

    kind: str
    message: str
    raw: str


class Usage(Record):
    """Tokens of all calls behind one judgement; null when the server counts none. `calls` are HTTP answers."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    calls: int = 0


class Judgement(Record):
    """What a judge said of one item.

    `status` ok: `values` and `rationale` are set. error: `reason` is the kind of error and `raw` the
    last reply. not_judgeable: `reason` says why there was nothing to ask. `shown` is what the judge
    saw, section by section; `sent` is the hash of the messages. `verdict_first`: it was written before its reason.
    """

    format: int = FORMAT
    case: str
    item: str = ""
    key: str
    status: Literal["ok", "error", "not_judgeable"]
    values: dict[str, Any] = {}
    rationale: str | None = None
    reason: str | None = None
    message: str | None = None
    raw: str | None = None
    attempts: tuple[Attempt, ...] = ()
    repairs: tuple[str, ...] = ()
    verdict_first: bool = False
    mode: str | None = None
    usage: Usage = Usage()
    model: str | None = None
    fingerprint: str | None = None
    date: str
    shown: dict[str, str] = {}
    sent: str | None = None


class Session(Record):
    """One sitting of a judge: what it did and which server answered."""

    started: str
    finished: str
    workbench: str
    complete: bool
    judged: int
    cached: int
    errors: int
    not_judgeable: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    without_usage: int
    price_in: float | None = None
    price_out: float | None = None
    money: float | None = None
    modes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()


class JudgeRecord(Record):
    """Everything needed to ask the same judge again; never a key.

    `kind` is 'llm' or 'offline'; `host` is the server's name, with its port where that is not the usual one.
    """

    format: int = FORMAT
    judge: str
    benchmark: str
    kind: Literal["llm", "offline"]
    model: str
    host: str | None
    parameters: dict[str, Any]
    prompt_sha256: str
    prompt: dict[str, str]
    rules: str | None = None
    sessions: tuple[Session, ...] = ()

    @property
    def spoke(self) -> str:
        """Which judge spoke, for reports."""
        if self.kind == "offline":
            return f"{self.model} (a lexical baseline, no language model)"
        return f"{self.model} at {self.host}"


def judge_key(judge: Judge, model: str, host: str | None, parameters: Mapping[str, Any]) -> str:
    """Name of a judge's folder: judge, model, and a hash of prompt, host, model and parameters."""
    slug = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:40]
    return f"{judge.name}-{slug}-{content_key(judge.name, judge.prompt.sha256, model, host, dict(parameters))[:10]}"


def item_key(judge: Judge, folder: str, item: Item, repeat: int = 0) -> str:
    """Content of one call: the judge (by `folder`, its key), the messages as sent, the answer's schema."""
    return content_key(folder, messages(judge, item), schema(judge.answer(item)), repeat)


LINES = "judgements.jsonl"
RECORD = "judge.json"


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
    return read_record(JudgeRecord, folder / RECORD, "; judge again into a fresh folder")


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
