"""What people say of cases: one line a change in `annotations.jsonl` of the run, appended and never rewritten.

A line is one statement of one person: that a verdict or a judge is right or wrong, an own label or score,
a moment, a note. What a person says now is what their lines add up to, so two sessions that write at once
cannot undo each other, and the file is the history. A taken-back statement is a line with an empty value.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pandas as pd
from filelock import FileLock
from pydantic import Field, ValidationError, field_validator

from workbench.cases import Record, check_id
from workbench.contract import KEYS
from workbench.datasets import describe
from workbench.errors import InputError

NAME = "annotations.jsonl"
FORMAT = 1
Kind = Literal["verdict", "judge", "label", "score", "moment", "note"]
IN_WORDS = {"agree": "right", "disagree": "wrong"}
STANCES = tuple(IN_WORDS)
_LONGEST = 4_000


class Change(Record):
    """One statement. `target` is the judge's folder, or the moment's id; `saw` is what was on screen then."""

    format: int = FORMAT
    id: str = Field(default_factory=lambda: uuid.uuid4().hex[:12], max_length=40)
    date: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"), max_length=40)
    annotator: str = Field(min_length=1, max_length=80)
    case: str
    event: str = Field(default="", max_length=128)
    metric: str = Field(default="", max_length=128)
    kind: Kind
    target: str = Field(default="", max_length=200)
    value: str = Field(default="", max_length=_LONGEST)
    t_s: float | None = Field(default=None, ge=0, lt=1e6, allow_inf_nan=False)
    saw: str = Field(default="", max_length=_LONGEST)

    _safe = field_validator("case")(check_id)

    @field_validator("annotator")
    @classmethod
    def _named(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("an annotator needs a name")
        return " ".join(value.split())


@dataclass
class Said:
    """What one person says now of one row."""

    annotator: str
    case: str
    event: str = ""
    metric: str = ""
    verdict: str = ""
    judges: dict[str, str] = field(default_factory=dict)
    label: str = ""
    score: str = ""
    note: str = ""
    moments: dict[str, tuple[float, str]] = field(default_factory=dict)
    date: str = ""
    saw: dict[str, str] = field(default_factory=dict)

    @property
    def says_something(self) -> bool:
        return bool(self.verdict or self.judges or self.label or self.score or self.note or self.moments)

    @property
    def facts(self) -> list[str]:
        """What is said besides the note, each in few words."""
        out = [f"verdict {IN_WORDS[self.verdict]}"] if self.verdict else []
        out += [f"judge {name} {IN_WORDS[stance]}" for name, stance in self.judges.items()]
        out += [f"{name} {text}" for name, text in (("label", self.label), ("score", self.score)) if text]
        return out + [f"{t_s:.2f} s {text}".strip() for t_s, text in sorted(self.moments.values())]

    def take(self, change: Change) -> None:
        """Add the next line of the history."""
        self.date = max(self.date, change.date)
        if change.kind == "judge":
            _put(self.judges, change.target, change.value)
        elif change.kind == "moment":
            where = change.target or change.id
            if change.t_s is None and not change.value:
                self.moments.pop(where, None)
            else:
                before = self.moments.get(where, (0.0, ""))
                self.moments[where] = (before[0] if change.t_s is None else change.t_s, change.value)
        else:
            setattr(self, change.kind, change.value)
        if change.kind in ("verdict", "judge"):
            _put(self.saw, change.target or "verdict", change.saw if change.value else "")


def _put(where: dict[str, str], name: str, value: str) -> None:
    if value:
        where[name] = value
    else:
        where.pop(name, None)


def change(**fields) -> Change:
    """A checked statement.

    Raises
    ------
    InputError : a field that cannot be used, in a sentence.
    """
    try:
        made = Change(**fields)
    except ValidationError as error:
        raise InputError(f"The annotation cannot be saved: {describe(error)}.") from None
    if made.kind in ("verdict", "judge") and made.value not in ("", *STANCES):
        raise InputError(f"The annotation cannot be saved: {made.value[:40]!r} is neither agree nor disagree.")
    return made


def append(folder: Path, made: Change) -> None:
    """Write one line, whole, at the end of the file, also when other sessions or processes write.

    Raises
    ------
    InputError : the run folder cannot be written to.
    """
    line = made.model_dump_json(exclude_defaults=False).encode() + b"\n"
    try:
        with FileLock(folder / f".{NAME}.lock"), (folder / NAME).open("ab+") as file:
            if file.seek(0, os.SEEK_END):
                # A line that a crash cut short must not swallow the next one.
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"{folder / NAME} cannot be written ({error.strerror}); nothing was saved.") from None


def read(folder: Path) -> tuple[list[Change], list[str]]:
    """The history of a run, oldest first, and sentences about lines that cannot be used."""
    path = folder / NAME
    try:
        content = path.read_bytes()
    except OSError:
        return [], []
    found, problems = [], []
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found.append(Change.model_validate_json(line))
        except ValidationError as error:
            problems.append(f"{path}, line {number} cannot be used: {describe(error)}.")
    return found, problems


def fold(history: Iterable[Change]) -> dict[tuple[str, str, str], list[Said]]:
    """(case, event, metric) -> what each person says now, in the order in which they first spoke."""
    people: dict[tuple[str, str, str], dict[str, Said]] = {}
    for each in history:
        key = (each.case, each.event, each.metric)
        people.setdefault(key, {}).setdefault(each.annotator, Said(each.annotator, *key)).take(each)
    folded = {key: [said for said in row.values() if said.says_something] for key, row in people.items()}
    return {key: row for key, row in folded.items() if row}


def of_row(folder: Path, case: str, event: str = "", metric: str = "") -> tuple[list[Said], list[Change]]:
    """What people say of one row, and its history."""
    own = [each for each in read(folder)[0] if (each.case, each.event, each.metric) == (case, event, metric)]
    return fold(own).get((case, event, metric), []), own


def words(row: Iterable[Said]) -> str:
    """What people did, in few words: a filter of Cases has one line for each combination."""
    row, out = list(row), []
    for stance in STANCES:
        if any(said.verdict == stance for said in row):
            out.append(f"{stance}s with verdict")
        if any(stance in said.judges.values() for said in row):
            out.append(f"{stance}s with judge")
    there = {"labelled": any(said.label or said.score for said in row), "moments": any(said.moments for said in row),
             "note": any(said.note for said in row)}  # fmt: skip
    return ", ".join([*out, *(name for name, found in there.items() if found)])


def columns(run) -> pd.DataFrame:
    """Columns for the store's rows of a run (`RunRows`): annotation, annotator, own_label; notes become searchable."""
    history, problems = read(run.folder)
    run.problems += [problem for problem in problems if problem not in run.problems]
    folded = fold(history)
    out = run.rows[list(KEYS)].assign(annotation="", annotator="", own_label="")
    if not folded:
        return out
    rows = [folded.get(key, []) for key in zip(*(out[name] for name in KEYS), strict=True)]
    out["annotation"] = [words(row) for row in rows]
    out["annotator"] = [", ".join(said.annotator for said in row) for row in rows]
    out["own_label"] = [", ".join(dict.fromkeys(said.label for said in row if said.label)) for row in rows]
    if "text" in run.rows:
        spoken = ["\n".join(_spoken(said) for said in row) for row in rows]
        out["text"] = run.rows["text"].fillna("").to_numpy() + [f"\n{text}".casefold() for text in spoken]
    return out


def _spoken(said: Said) -> str:
    return " ".join([said.label, said.note, *(text for _, text in said.moments.values())])
