"""Duplex Workbench: build, run, score, judge and inspect tests of full-duplex voice agents.

import workbench as wb

dataset = wb.build(BENCHMARK, "datasets/small", limit=96)
run = wb.score(wb.run(dataset, "oracle", "runs/oracle"))
run = wb.load_run("runs/oracle")     # or one that is there already
run.cases, run.measurements, run.verdicts({THRESHOLD: 2.5}), run.flips(), run.tables()
wb.sweep([run_a, run_b])             # every run under every threshold setting, ranked
wb.ranking_flips([run_a, run_b], THRESHOLD)
wb.compare(run_a, run_b)             # wins, losses, paired tests, evidence side by side
wb.sensitivity(run)                  # the same recordings under other detector settings
wb.inspect(run)                      # the dashboard, inside a notebook
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import InputError, ProblemsFound
from workbench.version import VERSION as __version__

if TYPE_CHECKING:
    import pandas as pd

    from workbench.analysis.compare import Comparison
    from workbench.analysis.sweep import RankingFlip, Sweep
    from workbench.datasets import Dataset
    from workbench.runs import Run
    from workbench.vad import VadSettings

__all__ = [
    "InputError",
    "__version__",
    "build",
    "compare",
    "inspect",
    "load_dataset",
    "load_run",
    "ranking_flips",
    "run",
    "score",
    "sensitivity",
    "sweep",
]

# Imports stand inside the functions: `import workbench` must not cost what a sweep needs.


def build(
    benchmark: str,
    out,
    *,
    limit: int | None = None,
    audio: bool = True,
    engine: str | None = None,
    scripts=None,
    workers: int | None = None,
) -> Dataset:
    """Build a dataset from a benchmark's scripts, or bring the one in `out` up to date, and load it.

    limit : at most so many cases, every cell of the grid first. engine : who speaks (see `workbench
    build --help`). scripts : a folder of scripts in place of the shipped ones.

    Raises
    ------
    InputError : unknown benchmark or engine, scripts that break a rule, or turns that cannot be spoken.
    """
    from workbench import contract
    from workbench.files import writing

    scripts = None if scripts is None else Path(scripts)
    made = contract.get(benchmark)
    with writing(Path(out)):
        made.build(contract.BuildOptions(Path(out), audio, limit, engine, scripts, workers))
    return load_dataset(out)


def load_dataset(folder) -> Dataset:
    """Open a dataset folder (see `workbench.datasets.Dataset`).

    Raises
    ------
    InputError : it is not a dataset, or holds no usable case.
    """
    from workbench import datasets

    return datasets.load(Path(folder))


def run(
    dataset: Dataset,
    agent: str,
    out,
    options: Mapping[str, object] | None = None,
    *,
    clock: str | None = None,
    concurrency: int | None = None,
) -> Run:
    """Run an agent on every case; a run that is already in `out` goes on where it stopped.

    agent : a name from `workbench agents`, or 'python:module:Class'. options : the agent's own, as
    with `--set`. Cases in which the agent failed are recorded as such, not raised.

    Raises
    ------
    InputError : unknown agent or option, another run in `out`, or clips that cannot be used.
    """
    from workbench import contract
    from workbench.agents.registry import factory
    from workbench.runners import batch

    make = factory(agent, options, contract.get(dataset.header.benchmark))
    outcome = batch.run(batch.Plan(dataset, make, Path(out), clock=clock, concurrency=concurrency))
    if outcome.problems:
        raise ProblemsFound(outcome.problems)
    return load_run(out)


def score(
    run: Run,
    thresholds: Mapping[str, float] | None = None,
    *,
    vad: VadSettings | None = None,
    workers: int | None = None,
) -> Run:
    """Find speech, measure and decide; the results stay beside the run. Returns the run.

    thresholds : those that differ from the defaults. vad : how speech is found.

    Raises
    ------
    InputError : an unknown threshold.
    ProblemsFound : recordings that could not be used; the others have been scored.
    """
    from workbench.judges.summary import rejoin
    from workbench.scoring import score_run

    problems = score_run(run, vad, thresholds, workers).problems
    rejoin(run)
    if problems:
        raise ProblemsFound(problems)
    return run


def load_run(folder) -> Run:
    """Open a run folder (see `workbench.runs.Run`).

    Raises
    ------
    InputError : it is not a run, or its cases cannot be read.
    """
    from workbench.runs import load_run

    return load_run(folder)


def _named(runs: Run | Iterable[Run] | Mapping[str, Run]) -> dict[str, Run]:
    if isinstance(runs, Mapping) and runs:
        return dict(runs)
    runs = [runs] if hasattr(runs, "folder") or isinstance(runs, str | PathLike) else list(runs)
    if not runs:
        raise InputError("At least one run is needed; open it with workbench.load_run(folder).")
    for run in runs:
        if not hasattr(run, "folder"):
            raise InputError(f"A run is needed, found {run!r}; open it with workbench.load_run(folder).")
    named = {run.name: run for run in runs}
    if len(named) < len(runs):
        raise InputError("Two of the runs have the same folder name; give a dict of name -> run.")
    if len({run.meta.benchmark for run in named.values()}) > 1:
        raise InputError("The runs are of different benchmarks; give runs of one.")
    return named


def _together(named: Mapping[str, Run], common: bool) -> tuple[dict[str, pd.DataFrame], dict[str, float]]:
    """The measurements of runs that may stand side by side, and the thresholds that they were scored with."""
    from workbench.contract import KEYS

    (first, base), *others = named.items()
    for name, run in others:
        if run.content != base.content and not common:
            raise InputError(
                f"The runs {first!r} and {name!r} are of different datasets; give runs of one, or common=True to "
                "take the cases that all of them have."
            )
        if run.limits() != base.limits():
            raise InputError(
                f"The runs {first!r} and {name!r} were scored with different thresholds; score both alike."
            )
    frames = {name: run.measurements for name, run in named.items()}
    if common:
        rows = {name: set(zip(*(frame[key] for key in KEYS), strict=True)) for name, frame in frames.items()}
        shared = set.intersection(*rows.values())
        if not shared:
            raise InputError("The runs have no case in common.")
        for name, frame in frames.items():
            kept = [key in shared for key in zip(*(frame[key] for key in KEYS), strict=True)]
            frames[name] = frame[kept].reset_index(drop=True)
    return frames, base.limits()


def sweep(
    runs: Run | Iterable[Run] | Mapping[str, Run],
    axes: Mapping[str, Sequence[float]] | None = None,
    *,
    strict: bool = False,
    common: bool = False,
    ranking: str | None = None,
) -> Sweep:
    """Decide runs under every combination of thresholds (the benchmark's own grid when `axes` is None).

    Thresholds that are no axis stand where the runs were scored. common : take the cases that all runs have.
    ranking : the score that ranks runs (the benchmark's own when None).

    Raises
    ------
    InputError : runs of different benchmarks, datasets (unless `common`) or thresholds; an unknown axis or score.
    """
    from workbench.analysis.sweep import sweep

    named = _named(runs)
    frames, base = _together(named, common)
    return sweep(next(iter(named.values())).benchmark, frames, axes, base=base, strict=strict, ranking=ranking)


def ranking_flips(
    runs: Iterable[Run] | Mapping[str, Run], threshold: str, *, strict: bool = False, common: bool = False
) -> RankingFlip:
    """How far one threshold may move from where the runs were scored before their ranking changes (see `sweep`)."""
    from workbench.analysis.sweep import ranking_flips

    named = _named(runs)
    frames, base = _together(named, common)
    return ranking_flips(next(iter(named.values())).benchmark, frames, threshold, base=base, strict=strict)


def compare(*runs: Run, anyway: bool = False, **named: Run) -> Comparison:
    """Join two or more scored runs on their cases; the first is the baseline.

    Runs may be given by name: compare(base=run_a, patient=run_b). Runs of different datasets, or
    scored differently, are refused unless `anyway`; cases recorded after scoring are told in `notes`.
    """
    from dataclasses import replace

    from workbench.analysis.compare import compare
    from workbench.runs import load_scores

    together = (_named(runs) if runs or not named else {}) | named
    loaded, told = {}, []
    for name, run in together.items():
        measurements, verdicts, score = load_scores(run)
        loaded[name] = (measurements, verdicts, run.facts(score))
        told += [f"{name}: {late}"] if (late := run.unscored(measurements, score)) else []
    found = compare(next(iter(together.values())).benchmark, loaded, anyway=anyway)
    return replace(found, notes=(*found.notes, *told))


def sensitivity(run: Run, settings=None, thresholds: Mapping[str, float] | None = None) -> pd.DataFrame:
    """The run under several detector settings: which verdicts change, how far onsets move."""
    from workbench.analysis.detectors import sensitivity

    (run,) = _named(run).values()
    return sensitivity(run, settings, thresholds)


def inspect(runs: Run | Iterable[Run], **state):
    """The dashboard's views of these runs, inside JupyterLab (see docs/inspector.md)."""
    from workbench.app.inspecting import inspect

    return inspect(runs, **state)
