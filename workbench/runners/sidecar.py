"""What somebody who brings recordings says of one: when the user's cues began, and the agent's words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator

from workbench.cases import Case, Record
from workbench.datasets import describe
from workbench.episodes import Piece
from workbench.errors import InputError
from workbench.files import read_json


class _Words(Record):
    t_s: float = Field(ge=0)
    text: str


class Sidecar(Record):
    """What a `{case}.json` beside a recording may say.

    cues : cue -> when it began, in seconds; null where it was not played. transcript : the agent's
    words, as one text or as pieces with their times.
    """

    cues: dict[str, float | None] = {}
    transcript: list[_Words] | None = None

    @field_validator("transcript", mode="before")
    @classmethod
    def _one_text(cls, value: Any) -> Any:
        return [{"t_s": 0.0, "text": value}] if isinstance(value, str) else value


@dataclass(frozen=True)
class Known:
    """A checked sidecar: cue -> start (null: not played), and the transcript."""

    cues: Mapping[str, float | None]
    transcript: tuple[Piece, ...] | None
    path: Path


def read(path: Path, case: Case, length_s: float) -> Known:
    """Read and check a sidecar; an absent one says nothing.

    Raises
    ------
    InputError : naming the file, the field and what is wrong with it.
    """
    if not path.exists():
        return Known({}, None, path)
    try:
        told = Sidecar.model_validate_json(json.dumps(read_json(path)), strict=True)
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}.") from None
    ids = [cue.id for cue in case.cues]
    unknown = sorted(set(told.cues) - set(ids))
    if unknown:
        raise InputError(f"{path}: field 'cues': the case has no cue {unknown[0]!r}; its cues: {', '.join(ids)}.")
    times = [(f"cues.{name}", time_s) for name, time_s in told.cues.items() if time_s is not None]
    times += [(f"transcript.{index}.t_s", piece.t_s) for index, piece in enumerate(told.transcript or ())]
    for name, time_s in times:
        if not 0 <= time_s <= length_s:
            hint = "; these look like milliseconds" if length_s < time_s <= 1000 * length_s else ""
            raise InputError(
                f"{path}: field {name!r}: {time_s:g} is not inside the recording, which lasts {length_s:.3f} s; give "
                f"seconds{hint}."
            )
    known = [cue for cue in case.cues if told.cues.get(cue.id) is not None]
    for before, cue in pairwise(known):
        if told.cues[cue.id] < told.cues[before.id]:
            raise InputError(
                f"{path}: field 'cues.{cue.id}': {told.cues[cue.id]:g} s lies before the cue {before.id!r} at "
                f"{told.cues[before.id]:g} s, which is played first; mend the times."
            )
    pieces = told.transcript and tuple(Piece(t_s=piece.t_s, text=piece.text) for piece in told.transcript)
    return Known(told.cues, pieces, path)
