"""Building a Duplex-MPE dataset: scenario pairs -> speech, turn by turn -> manifest.

Turns that both versions share are one clip.
"""

from __future__ import annotations

from pathlib import Path

from workbench import datasets
from workbench.benchmarks.duplexmpe import authored as au
from workbench.benchmarks.duplexmpe import check
from workbench.benchmarks.duplexmpe.cases import PREAMBLE, cue_id, expand, stream_of, voices_for
from workbench.cases import Case, Cue
from workbench.construct import recompute as recomputing
from workbench.construct.conversation import TurnJob, build_turns, without_audio
from workbench.construct.recompute import Recomputed
from workbench.construct.voices import Recorded, engine_for, load_engine
from workbench.contract import BuildOptions
from workbench.datasets import Dataset, Header
from workbench.errors import InputError, ProblemsFound
from workbench.progress import meter

VERSION = "2"
"""Of the authored data; a dataset carries that of the data it was built from."""


def build(options: BuildOptions) -> Header:
    """Build the dataset in `options.out`.

    Raises
    ------
    ProblemsFound : scenarios break a rule (each named; nothing is built), or turns could not be
        spoken (everything else was; the manifest waits until they can).
    """
    data = au.load(options.scripts)
    problems = check.structure(data.scenarios.values(), data.attributes if options.scripts is None else None)
    if problems:
        raise ProblemsFound(problems)
    data = _limited(data, options.limit)
    texts = _texts(data)
    turns, speech = {key: without_audio(text) for key, (text, _, _) in texts.items()}, None
    if options.audio:
        spec = engine_for(options.engine, full=options.limit is None)
        engine = load_engine(spec)
        voices = {scenario.id: voices_for(scenario, engine) for scenario in data.scenarios.values()}
        jobs = [
            TurnJob(stream, cue, text, voices[scenario][speaker], spec, options.out)
            for (stream, cue), (text, scenario, speaker) in texts.items()
        ]
        with meter("building", len(jobs)) as progress:
            turns = build_turns(jobs, workers=options.workers, dask=options.dask, done=lambda job: progress.step())
        speech = {"engine": engine.name, "version": engine.version(), "voices": list(engine.voices)}
    author = "shipped" if options.scripts is None else f"scripts in {options.scripts.name}"
    return datasets.write(options.out, expand(data, turns), version=VERSION, author=author, speech=speech)


def _texts(data: au.Authored) -> dict[tuple[str, str], tuple[str, str, str]]:
    """(stream, cue) -> (words, scenario, speaker), each distinct clip once."""
    texts = {}
    for scenario in data.scenarios.values():
        texts[scenario.id, PREAMBLE] = (data.preamble, scenario.id, PREAMBLE)
        for condition in au.CONDITIONS:
            for index, turn in enumerate(scenario.turns):
                key = stream_of(scenario, index, condition), cue_id(index)
                texts[key] = (turn.words(condition), scenario.id, turn.speaker)
    return texts


def _limited(data: au.Authored, limit: int | None) -> au.Authored:
    """Whole pairs only: `limit` cases or one less, every bucket and speaker count before any comes twice."""
    if limit is None:
        return data
    if limit < 2:
        raise InputError(f"--limit {limit} leaves no pair, and a pair is two cases; give at least 2.")
    cells: dict[tuple[int, int], list[str]] = {}
    for scenario in data.scenarios.values():
        cells.setdefault((scenario.bucket, len(scenario.speakers)), []).append(scenario.id)
    ranked = sorted(
        (place, cell, name) for cell, names in cells.items() for place, name in enumerate(names)
    )  # first of every cell, then second ...
    wanted = {name for _, _, name in ranked[: limit // 2]}
    kept = {name: scenario for name, scenario in data.scenarios.items() if name in wanted}
    return au.Authored(kept, data.attributes, data.preamble)


def recompute(dataset: Dataset, scripts: Path | None = None, listen: bool = False) -> Recomputed:
    """Expand every pair again from the authored data and the dataset's own clips, and compare."""
    if dataset.header.version != VERSION or (scripts is None and dataset.header.author != "shipped"):
        return recomputing.recompute(
            dataset, clip_of=lambda case, cue: (case.stream, cue.id), scripts=None, expand=None, listen=listen
        )
    data = au.load(scripts)
    texts = _texts(data)
    engine = Recorded.of(dataset.header.speech or {})

    def clip_of(case: Case, cue: Cue) -> recomputing.Clip:
        shared = (str(case.tags.get("scenario")), cue.id)
        return shared if shared in texts else (case.stream, cue.id)

    def voice_of(clip: recomputing.Clip) -> str:
        _, scenario, speaker = texts[clip]
        return voices_for(data.scenarios[scenario], engine)[speaker]

    return recomputing.recompute(
        dataset,
        clip_of=clip_of,
        scripts={clip: text for clip, (text, _, _) in texts.items()},
        expand=lambda turns: expand(data, turns),
        voice_of=voice_of,
        listen=listen,
    )


def validate_authored() -> list[str]:
    """The rules of every shipped pair, and the spread of the set."""
    data = au.load()
    return check.structure(data.scenarios.values(), data.attributes) + check.spread(data.scenarios.values())


def validate(dataset: Dataset, complete: bool) -> list[str]:
    """What must hold of a built dataset; the exact count only when it is meant to be the whole shipped set."""
    problems = check.built(dataset.cases)
    if complete and dataset.header.author == "shipped" and len(dataset.cases) != check.CASES:
        problems.append(f"{len(dataset.cases)} cases, where the shipped set has {check.CASES}; build without --limit.")
    return problems
