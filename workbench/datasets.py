"""A dataset: a folder with `dataset.json` (header), `cases.jsonl` (one case a line) and `audio/`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, Field, ValidationError, field_validator

from workbench import audio
from workbench.cases import RATE_HZ, Case, Cue, Versioned, check_id
from workbench.errors import InputError
from workbench.files import content_key, read_json, sha256_of, write_json, write_text

Model = TypeVar("Model", bound=BaseModel)
FORMAT = 1
HEADER = "dataset.json"
CASES = "cases.jsonl"


class Header(Versioned):
    """What a dataset says of itself.

    It has two identities. `content` names what was meant: scripts, prompts, grid, rules and the engine
    that spoke; it is the same on every machine, and runs are compared by it. `fingerprint` names the
    bytes, the SHA-256 of `cases.jsonl`, which holds the checksum of every clip; a run holds to it.
    """

    format: int = FORMAT
    benchmark: str
    version: str
    author: str
    speech: dict[str, Any] | None = Field(description="engine, version and voices; null without audio")
    cases: int
    fingerprint: str
    content: str | None = Field(default=None, description="null in datasets of earlier versions: see content_of")

    def brief(self) -> dict[str, Any]:
        """What a run keeps of it."""
        return self.model_dump(include={"version", "author", "speech", "cases", "fingerprint", "content"})


@dataclass(frozen=True)
class Dataset:
    """A loaded dataset. `problems` are sentences about records that could not be used."""

    folder: Path
    header: Header
    cases: tuple[Case, ...]
    problems: tuple[str, ...] = field(default=())

    def clips(self, case: Case) -> dict[str, np.ndarray]:
        """The case's clips: cue id -> int16 (samples,) at 24 kHz.

        Raises
        ------
        InputError : audio not built, missing, changed, or of the wrong kind.
        """
        clips = {}
        for cue in case.cues:
            if cue.audio is None:
                raise InputError(
                    f"{self.folder}: case {case.id} has no audio (the dataset was built with --no-audio); "
                    "build it again without that option."
                )
            clips[cue.id] = audio.to_pcm16(_read_clip(self.folder, case, cue))
        return clips


def _read_clip(folder: Path, case: Case, cue: Cue) -> np.ndarray:
    """A cue's clip, float32 (samples,), which must be the one the manifest names.

    Raises
    ------
    InputError : missing, leading out of the folder, changed, unreadable, or of the wrong kind.
    """
    ref, path = cue.audio, folder / cue.audio.path
    if not path.exists():
        raise InputError(f"{path} is missing (case {case.id}, cue {cue.id}); rebuild the dataset.")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{path} leads out of the dataset folder; copy the file in.")
    samples = audio.read_mono(path, RATE_HZ)
    if samples.size != ref.samples:
        raise InputError(
            f"{path} holds {samples.size} samples and the manifest says {ref.samples}; rebuild the dataset."
        )
    if sha256_of(path) != ref.sha256:
        raise InputError(
            f"{path} has changed since it was built: its sha256 is not the manifest's {ref.sha256[:12]}...; "
            "rebuild the dataset."
        )
    return samples


_MEASURED = {
    "windows": {"__all__": {"start_s", "end_s"}},
    "cues": {"__all__": {"audio": True, "segments": {"__all__": {"start_s", "end_s", "words"}}}},
}
"""What of a case was measured on the synthesised sound, and so differs in the last bits between machines."""


def content_of(cases: Iterable[Case], about: Mapping[str, Any]) -> str:
    """The identity of a dataset's content.

    about : its header, or the part that a run keeps of it: `content` where it is known already, else
    `version` and `speech` count beside the cases.
    """
    if about.get("content"):
        return str(about["content"])
    speech = about.get("speech") or {}
    parts = [case.model_dump(mode="json", exclude=_MEASURED) for case in cases]
    return content_key(about.get("version"), speech.get("engine"), speech.get("version"), parts, length=64)


def read_record(kind: type[Model], path: Path, remedy: str = "") -> Model:
    """A file that holds one record. remedy : what to do when it cannot be used, such as '; run the case again'.

    Raises
    ------
    InputError : naming the file and the first wrong field.
    """
    try:
        return kind.model_validate(read_json(path))
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}{remedy}.") from None


_KINDS = {"string": "text", "bool": "true or false", "int": "a whole number", "float": "a number", "list": "a list",
          "tuple": "a list", "dict": "an object", "model": "an object"}  # fmt: skip


def describe(error: ValidationError) -> str:
    """The first fault of a record: field, what is wrong, and the value where it is short."""
    first = error.errors()[0]
    # Parts that name a kind of a union are the validator's, not the file's.
    place = ".".join(str(part) for part in first["loc"] if part not in ("str", "int", "float", "bool"))
    field_name, kind = f"field {place!r}" if place else "the record", first["type"]
    if kind == "extra_forbidden":
        return f"unknown {field_name}; remove it or check its spelling"
    if kind == "missing":
        return f"{field_name} is missing"
    wanted = _KINDS.get(kind.removesuffix("_type"))
    message = f"{wanted} is needed" if wanted and kind.endswith("_type") else first["msg"].removeprefix("Value error, ")
    shown = repr(first.get("input"))
    if not place:  # A rule about several fields names them itself.
        return message
    return f"{field_name}: {message}" + (f" (found {shown})" if len(shown) <= 60 else "")


class CaseHead(BaseModel):
    """What names and labels a case: all that tables need, read many times as fast as the whole case."""

    id: str
    benchmark: str = ""
    conversation: str = ""
    tags: dict[str, Any] = {}

    _safe = field_validator("id")(check_id)


def scan_cases(path: Path, kind: type[BaseModel] = Case) -> Iterator[tuple[Any, int, int, str]]:
    """Every line of a `cases.jsonl`, read as `kind`: the record (None where it cannot be used), where its line starts
    and how long it is in bytes, and a sentence about what is wrong with it ('' if nothing)."""
    seen: dict[str, int] = {}
    at = 0
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
        start, at = at, at + len(line)
        if not line.strip():
            continue
        try:
            case = kind.model_validate_json(line)
        except ValidationError as error:
            yield None, start, len(line), f"{path}, line {number}: {describe(error)}."
            continue
        if case.id in seen:
            yield (
                None,
                start,
                len(line),
                (
                    f"{path}, line {number}: the case id {case.id!r} stands already in line {seen[case.id]}; "
                    "give one of them another id."
                ),
            )
            continue
        seen[case.id] = number
        yield case, start, len(line), ""


def parse_cases(path: Path) -> tuple[list[Case], list[str]]:
    """Read a `cases.jsonl`: the good cases in order, and a sentence for each bad line."""
    if not path.exists():
        raise InputError(f"{path} does not exist; build the dataset first (workbench build).")
    found = list(scan_cases(path))
    return [case for case, *_ in found if case is not None], [problem for *_, problem in found if problem]


def load(folder: Path) -> Dataset:
    """Load a dataset; bad records become `problems`, the rest stays usable.

    Raises
    ------
    InputError : no dataset there, unreadable header, or not one usable case.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder that `workbench build --out` wrote.")
    if not (folder / HEADER).exists():
        hint = " It looks like a run folder: give the dataset it was run on." if (folder / "run.json").exists() else ""
        raise InputError(f"{folder} holds no {HEADER}, so it is not a dataset.{hint}")
    try:
        header = Header.model_validate(read_json(folder / HEADER))
    except ValidationError as error:
        raise InputError(f"{folder / HEADER}: {describe(error)}.") from None
    cases, problems = parse_cases(folder / CASES)
    if not cases:
        told = " ".join([f"{folder / CASES} holds no usable case; build the dataset again.", *problems[:3]])
        raise InputError(told)
    foreign = [case.id for case in cases if case.benchmark != header.benchmark]
    if foreign:
        problems.append(
            f"{folder / CASES}: {len(foreign)} cases are of another benchmark than {header.benchmark!r} "
            f"(the first is {foreign[0]!r}); remove them."
        )
        cases = [case for case in cases if case.benchmark == header.benchmark]
    # Workers may live in another folder.
    return Dataset(folder.absolute(), header, tuple(cases), tuple(problems))


def twins(cases: Iterable[Case]) -> list[str]:
    """Cases that are there twice under two ids, equal in all that is played, said and expected."""
    seen: dict[str, str] = {}
    problems = []
    for case in cases:
        trial = content_key(case.model_dump(mode="json", exclude={"id", "conversation", "tags"}))
        first = seen.setdefault(trial, case.id)
        if first != case.id:
            problems.append(f"case {case.id} is case {first} under another id; remove one of them.")
    return problems


def check_manifest(dataset: Dataset) -> list[str]:
    """Whether `cases.jsonl` is the file that the header was written for."""
    path, header = dataset.folder / CASES, dataset.header
    if sha256_of(path) == header.fingerprint:
        return []
    return [
        f"{path} is not the one that {HEADER} was written for: its sha256 is not the fingerprint "
        f"{header.fingerprint[:12]}... ({header.cases} cases there, {len(dataset.cases)} here); rebuild the dataset."
    ]


def check_audio(dataset: Dataset) -> list[str]:
    """Every referenced clip present, unchanged, mono, 24 kHz, readable: a sentence for each that is not."""
    problems: list[str] = []
    done: dict[str, str] = {}
    for case in dataset.cases:
        for cue in case.cues:
            ref = cue.audio
            if ref is None:
                continue
            if ref.path in done:
                if done[ref.path] != ref.sha256:
                    problems.append(
                        f"{dataset.folder / CASES}: case {case.id} gives {ref.path} another sha256 than an earlier "
                        "case does; rebuild the dataset."
                    )
                continue
            done[ref.path] = ref.sha256
            try:
                _read_clip(dataset.folder, case, cue)
            except InputError as error:
                problems.append(str(error))
    return problems


def streams(cases: tuple[Case, ...]) -> int:
    """Distinct user audio streams: by content where audio is built, else by the script's stream name."""
    identities = set()
    for case in cases:
        sums = tuple(cue.audio.sha256 if cue.audio else None for cue in case.cues)
        identities.add(case.stream if None in sums else sums)
    return len(identities)


def write(folder: Path, cases: list[Case], *, version: str, author: str, speech: dict | None) -> Header:
    """Write the manifest; unchanged content leaves the files untouched (their times too)."""
    text = "".join(case.model_dump_json() + "\n" for case in cases)
    path = folder / CASES
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)
    header = Header(
        benchmark=cases[0].benchmark,
        version=version,
        author=author,
        speech=speech,
        cases=len(cases),
        fingerprint=sha256_of(path),
        content=content_of(cases, {"version": version, "speech": speech}),
    )
    value = json.loads(header.model_dump_json())
    if not (folder / HEADER).exists() or read_json(folder / HEADER) != value:
        write_json(folder / HEADER, value)
    return header
