"""Building a DuplexSpeechBench-IFEval dataset: authored scripts -> speech -> manifest."""

from __future__ import annotations

from pathlib import Path

from workbench import datasets
from workbench.benchmarks.ifeval import authored as au
from workbench.benchmarks.ifeval import check
from workbench.benchmarks.ifeval.cases import TURN1, TURN2, expand
from workbench.cases import Case, Cue
from workbench.construct import recompute as recomputing
from workbench.construct.conversation import TurnJob, build_turns, without_audio
from workbench.construct.recompute import Recomputed
from workbench.construct.voices import Engine, Recorded, cast, engine_for, load_engine
from workbench.contract import BuildOptions
from workbench.datasets import Dataset, Header
from workbench.errors import InputError, ProblemsFound
from workbench.progress import meter

VERSION = "2"
"""Of the authored data; a dataset carries that of the data it was built from."""

LIMIT_ORDER = ("L2", "L1", "L4b", "L3", "L4a", "L0")
"""The order in which --limit takes levels: the two of the Entailment Gap first."""


def build(options: BuildOptions) -> Header:
    """Build the dataset in `options.out`.

    Raises
    ------
    ProblemsFound : gates or structure are violated (nothing is built), or turns could not be spoken
        (everything else was; the manifest then waits until they can).
    """
    data = au.load(scripts=options.scripts)
    problems = check.structure(data) + check.leakage(data) + check.contradictions(data)
    if problems:
        raise ProblemsFound(problems)
    silent = {
        (stream, cue): without_audio(text) for stream, script in data.scripts.items() for cue, text in _turns(script)
    }
    grid = expand(data, silent)
    wanted = _limited(grid, options.limit)
    cases, speech = [case for case in grid if case.id in wanted], None
    if options.audio:
        spec = engine_for(options.engine, full=options.limit is None)
        engine = load_engine(spec)
        jobs = [
            TurnJob(stream, cue, silent[stream, cue].script, voice_of(data, stream, engine), spec, options.out)
            for stream in dict.fromkeys(case.stream for case in cases)
            for cue in (TURN1, TURN2)
        ]
        with meter("building", len(jobs)) as progress:
            turns = build_turns(jobs, workers=options.workers, dask=options.dask, done=lambda job: progress.step())
        cases = [case for case in expand(data, turns) if case.id in wanted]
        speech = {"engine": engine.name, "version": engine.version(), "voices": list(engine.voices)}
    author = "shipped" if options.scripts is None else f"scripts in {options.scripts.name}"
    return datasets.write(options.out, cases, version=VERSION, author=author, speech=speech)


def voice_of(data: au.Authored, stream: str, engine: Engine | Recorded) -> str:
    """Who says a stream: a voice that fits the script's speaker, always the same for the same engine."""
    return cast(stream, {"user": data.scripts[stream].speaker}, engine)["user"]


def _limited(grid: list, limit: int | None) -> set[str]:
    """Ids of the cases to build: all, or the first `limit` with every cell before any second instance."""
    if limit is None:
        return {case.id for case in grid}
    if limit < 1:
        raise InputError(f"--limit {limit} leaves no case; give at least 1.")
    ranked = sorted(grid, key=lambda case: (case.tags["instance"], LIMIT_ORDER.index(case.tags["level"])))
    return {case.id for case in ranked[:limit]}


def recompute(dataset: Dataset, scripts: Path | None = None, listen: bool = False) -> Recomputed:
    """Expand the grid again from the authored data and the dataset's own clips, and compare."""
    if dataset.header.version != VERSION or (scripts is None and dataset.header.author != "shipped"):
        return recomputing.recompute(dataset, clip_of=_clip, scripts=None, expand=None, listen=listen)
    data = au.load(scripts=scripts)
    texts = {(key, cue): text for key, script in data.scripts.items() for cue, text in _turns(script)}
    engine = Recorded.of(dataset.header.speech or {})
    return recomputing.recompute(
        dataset,
        clip_of=_clip,
        scripts=texts,
        expand=lambda turns: expand(data, dict(turns)),
        voice_of=lambda clip: voice_of(data, clip[0], engine),
        listen=listen,
    )


def _clip(case: Case, cue: Cue) -> recomputing.Clip:
    return case.stream, cue.id


def _turns(script: au.Script) -> tuple[tuple[str, str], tuple[str, str]]:
    return (TURN1, script.turn1), (TURN2, script.turn2)


def validate_authored() -> list[str]:
    """Leakage gates and structure of the shipped data."""
    data = au.load()
    return check.structure(data) + check.leakage(data) + check.contradictions(data)


def validate(dataset: Dataset, complete: bool) -> list[str]:
    """What must hold of a built dataset; the exact counts only when it is meant to be complete."""
    problems = check.built(dataset.cases) + check.prompts(dataset.cases)
    if complete:
        problems += check.counts(dataset.cases, datasets.streams(dataset.cases))
    return problems
