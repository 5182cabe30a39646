"""Building every turn of a dataset once: cached by content, in parallel, resumable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from workbench.audio import write_pcm16
from workbench.cases import AudioRef, Record, Segment
from workbench.construct.alignment import ALIGNER_VERSION
from workbench.construct.assemble import ASSEMBLY, assemble, unbuilt
from workbench.construct.markup import parse
from workbench.construct.speech import PROCESSING_VERSION, SpeechCache
from workbench.errors import InputError, ProblemsFound
from workbench.files import content_key, read_json, sha256_of, write_text
from workbench.parallel import WorkerDied, pmap

AUDIO = "audio"
INDEX = "build"


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
) -> dict[tuple[str, str], BuiltTurn]:
    """Build all turns; those that fail are named together at the end, after everything good was built.

    Raises
    ------
    ProblemsFound : one sentence for each turn that could not be built.
    """
    turns: dict[tuple[str, str], BuiltTurn] = {}
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
