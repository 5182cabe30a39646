"""Building a DuplexSpeechBench-IFEval dataset: authored scripts -> speech -> manifest."""

from __future__ import annotations

from workbench import datasets
from workbench.benchmarks.ifeval import authored as au
from workbench.benchmarks.ifeval import check
from workbench.benchmarks.ifeval.cases import TURN1, TURN2, expand
from workbench.construct.conversation import TurnJob, build_turns, without_audio
from workbench.construct.voices import load_engine, speaker_for
from workbench.contract import BuildOptions
from workbench.datasets import Dataset, Header
from workbench.errors import InputError, ProblemsFound
from workbench.progress import meter

VERSION = "1"
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
    problems = check.structure(data) + check.leakage(data)
    if problems:
        raise ProblemsFound(problems)
    silent = {
        (stream, cue): without_audio(text)
        for stream, script in data.scripts.items()
        for cue, text in ((TURN1, script.turn1), (TURN2, script.turn2))
    }
    grid = expand(data, silent)
    wanted = _limited(grid, options.limit)
    cases, speech = [case for case in grid if case.id in wanted], None
    if options.audio:
        engine = load_engine(options.engine)
        jobs = [
            TurnJob(
                stream, cue, silent[stream, cue].script, speaker_for(stream, engine.voices), options.engine, options.out
            )
            for stream in dict.fromkeys(case.stream for case in cases)
            for cue in (TURN1, TURN2)
        ]
        with meter("building", len(jobs)) as progress:
            turns = build_turns(jobs, workers=options.workers, dask=options.dask, done=lambda job: progress.step())
        cases = [case for case in expand(data, turns) if case.id in wanted]
        speech = {"engine": engine.name, "version": engine.version(), "voices": list(engine.voices)}
    author = "shipped" if options.scripts is None else f"scripts in {options.scripts.name}"
    return datasets.write(options.out, cases, version=VERSION, author=author, speech=speech)


def _limited(grid: list, limit: int | None) -> set[str]:
    """Ids of the cases to build: all, or the first `limit` with every cell before any second instance."""
    if limit is None:
        return {case.id for case in grid}
    if limit < 1:
        raise InputError(f"--limit {limit} leaves no case; give at least 1.")
    ranked = sorted(grid, key=lambda case: (case.tags["instance"], LIMIT_ORDER.index(case.tags["level"])))
    return {case.id for case in ranked[:limit]}


def validate_authored() -> list[str]:
    """Leakage gates and structure of the shipped data."""
    data = au.load()
    return check.structure(data) + check.leakage(data)


def validate(dataset: Dataset, complete: bool) -> list[str]:
    """What must hold of a built dataset; the exact counts only when it is meant to be complete."""
    problems = check.built(dataset.cases) + check.prompts(dataset.cases)
    if complete:
        problems += check.counts(dataset.cases, datasets.streams(dataset.cases))
    return problems
