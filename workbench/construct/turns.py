"""Turns: a script with markers -> pieces of speech and designed silence -> one clip, built once and kept.

A script is plain words and markers: `<name:1.5s>` is a designed silence, exact zeros; `<name:WORDS>` is speech
with a role, which a benchmark gives it. Each piece of speech is synthesised alone. Boundaries come from
construction (sample counts), never from alignment; word times come from forced alignment and serve display only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from workbench.audio import to_pcm16, write_pcm16
from workbench.cases import RATE_HZ, AudioRef, Record, Segment, Word
from workbench.construct.alignment import ALIGNER_VERSION, say_and_align
from workbench.construct.speech import PROCESSING_VERSION, SpeechCache
from workbench.errors import InputError, ProblemsFound
from workbench.files import content_key, read_json, sha256_of, write_text
from workbench.parallel import WorkerDied, pmap

ASSEMBLY = 2
"""Version of `assemble`; a change rebuilds every clip."""
JOIN_S = 0.12
"""Silence between two neighbouring speech pieces, since each was trimmed (ours)."""
AUDIO, INDEX = "audio", "build"

_MARKER = re.compile(r"<([a-z_]+):([^<>]*)>")
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")

ClipName = tuple[str, str]
"""(stream, cue id): what names a built turn."""


@dataclass(frozen=True)
class ScriptPiece:
    """One stretch of a script: `mark` is '' for plain text; `duration_s` is set for silences only."""

    kind: Literal["speech", "silence"]
    text: str = ""
    mark: str = ""
    duration_s: float | None = None


def parse(script: str) -> list[ScriptPiece]:
    """Split a script at its markers.

    Raises
    ------
    ValueError : a marker without content, a silence of no length, a stray angle bracket, or no words at all;
        the message quotes it.
    """
    pieces: list[ScriptPiece] = []
    at = 0
    for match in _MARKER.finditer(script):
        _plain(script[at : match.start()], pieces)
        name, content = match.group(1), " ".join(match.group(2).split())
        if seconds := _SECONDS.fullmatch(content):
            if float(seconds.group(1)) <= 0:
                raise ValueError(f"the marker {match.group(0)!r} needs a duration above 0, such as 1.5s")
            pieces.append(ScriptPiece("silence", mark=name, duration_s=float(seconds.group(1))))
        elif re.search(r"\w", content):
            pieces.append(ScriptPiece("speech", content, name))
        else:
            raise ValueError(f"the marker {match.group(0)!r} holds no words and no duration such as 1.5s")
        at = match.end()
    _plain(script[at:], pieces)
    if not any(piece.kind == "speech" for piece in pieces):
        raise ValueError("the script holds no spoken text")
    return pieces


def _plain(text: str, pieces: list[ScriptPiece]) -> None:
    text = " ".join(text.split())
    if "<" in text or ">" in text:
        raise ValueError(f"there is a stray angle bracket in {text!r}; write markers as <name:content>")
    if re.search(r"\w", text):
        pieces.append(ScriptPiece("speech", text))
    elif text and pieces and pieces[-1].kind == "speech" and not pieces[-1].mark:
        raise ValueError(f"there is text without words ({text!r}) between markers")


@dataclass(frozen=True)
class Assembled:
    """A built clip: int16 (samples,) at 24 kHz, and where each piece lies in it (seconds)."""

    samples: np.ndarray
    segments: tuple[Segment, ...]


def assemble(pieces: list[ScriptPiece], voice: str, cache: SpeechCache) -> Assembled:
    """Build one clip.

    Raises
    ------
    InputError : a piece could not be synthesised and aligned; the message names its text.
    """
    parts: list[np.ndarray] = []
    segments: list[Segment] = []
    at = 0

    def silence(duration_s: float) -> int:
        samples = round(duration_s * RATE_HZ)
        parts.append(np.zeros(samples, np.int16))
        return samples

    for index, piece in enumerate(pieces):
        if piece.kind == "silence":
            length = silence(piece.duration_s)
            words: tuple[Word, ...] = ()
        else:
            if index and pieces[index - 1].kind == "speech":
                at += silence(JOIN_S)
            at_s = at / RATE_HZ
            clip, aligned = say_and_align(cache, cache.engine, piece.text, voice)
            parts.append(to_pcm16(clip.samples))
            length = parts[-1].size
            words = tuple(
                Word(text=word.text, start_s=round(at_s + word.start_s, 3), end_s=round(at_s + word.end_s, 3))
                for word in aligned
            )
        [segment] = unbuilt([piece])
        times = {"start_s": round(at / RATE_HZ, 3), "end_s": round((at + length) / RATE_HZ, 3)}
        segments.append(segment.model_copy(update={**times, "words": words}))
        at += length
    return Assembled(np.concatenate(parts), tuple(segments))


def unbuilt(pieces: list[ScriptPiece]) -> tuple[Segment, ...]:
    """The same segments without times, for a dataset built without audio."""
    return tuple(Segment(kind=piece.kind, text=piece.text, mark=piece.mark) for piece in pieces)


class BuiltTurn(Record):
    """One turn of a stream: its script, its speaker and, once built, its clip and segment times.

    `key` names everything the clip depends on; an equal key means nothing needs to be built.
    """

    key: str
    script: str
    speaker: str
    audio: AudioRef | None
    segments: tuple[Segment, ...]

    def fields(self) -> dict[str, Any]:
        """What a Cue takes over."""
        return {"text": self.script, "speaker": self.speaker, "audio": self.audio, "segments": self.segments}


@dataclass(frozen=True)
class TurnJob:
    """A turn to build: `stream` and `cue` name it, `voice` says it, `engine` is the engine's spec."""

    stream: str
    cue: str
    script: str
    voice: str
    engine: str
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.stream}.{self.cue}"


@lru_cache(maxsize=4)
def _cache(engine: str) -> SpeechCache:
    """One cache, with its engine loaded, a process."""
    return SpeechCache(engine=engine)


def build_turn(job: TurnJob) -> BuiltTurn:
    """Build one turn unless what stands there already is what would be built.

    Raises
    ------
    InputError : naming the stream, the turn and the text that could not be spoken.
    """
    engine = _cache(job.engine).engine
    versions = engine.version(), PROCESSING_VERSION, ASSEMBLY, ALIGNER_VERSION
    key = content_key(job.script, job.voice, engine.name, *versions)
    entry = job.folder / INDEX / f"{job.name}.json"
    kept = _kept(entry, job.folder, key)
    if kept is not None:
        return kept
    try:
        made = assemble(parse(job.script), job.voice, _cache(job.engine))
    except (InputError, ValueError) as error:
        raise InputError(f"{job.stream}, {job.cue}: {error}") from None
    path = f"{AUDIO}/{job.name}.wav"
    write_pcm16(job.folder / path, made.samples, 24_000)
    turn = BuiltTurn(
        key=key,
        script=job.script,
        speaker=job.voice,
        audio=AudioRef(path=path, sha256=sha256_of(job.folder / path), samples=int(made.samples.size)),
        segments=made.segments,
    )
    write_text(entry, turn.model_dump_json() + "\n")
    return turn


def _kept(entry: Path, folder: Path, key: str) -> BuiltTurn | None:
    try:
        turn = BuiltTurn.model_validate(read_json(entry))
        if turn.key == key and turn.audio and sha256_of(folder / turn.audio.path) == turn.audio.sha256:
            return turn
    except (InputError, ValidationError, OSError):
        pass
    return None


def without_audio(script: str) -> BuiltTurn:
    """A turn as it stands in a dataset built with --no-audio."""
    return BuiltTurn(key="", script=script, speaker="", audio=None, segments=unbuilt(parse(script)))


def build_turns(
    jobs: Iterable[TurnJob],
    *,
    workers: int | None = None,
    dask: str | None = None,
    done: Callable[[TurnJob], None] = lambda job: None,
) -> dict[ClipName, BuiltTurn]:
    """Build all turns; those that fail are named together at the end, after everything good was built.

    Raises
    ------
    ProblemsFound : one sentence for each turn that could not be built.
    """
    turns: dict[ClipName, BuiltTurn] = {}
    problems: list[str] = []
    jobs = [replace(job, folder=job.folder.absolute()) for job in jobs]  # workers may live in another folder
    for job, turn, error in pmap(build_turn, jobs, workers=workers, dask=dask):
        if error is None:
            turns[job.stream, job.cue] = turn
        elif isinstance(error, InputError):
            where = f"{job.stream}, {job.cue}: " if isinstance(error, WorkerDied) else ""
            problems.append(f"{where}{error}")
        else:
            raise error
        done(job)
    if problems:
        raise ProblemsFound(sorted(problems))
    return turns
