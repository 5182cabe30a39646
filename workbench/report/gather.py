"""What a report rests on: the runs, their tables side by side, and what a reader must be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench import benchmarks
from workbench.analysis.compare import built_apart
from workbench.contract import Benchmark
from workbench.errors import InputError
from workbench.report import calibration, judged
from workbench.report.intervals import fill
from workbench.runs import Run, load_run
from workbench.scoring import load_scores

KEYS = ("case", "event", "metric")
"""What names a row: the case, and where a case has several rows the event and the metric."""


@dataclass(frozen=True)
class Gathered:
    """Everything a report shows.

    names : of the runs, unique, in the order given. tables : by name, each with `run` as its first
    column. cases : measurements and verdicts joined, one row a measurement, with `run`; the
    measurement's own reason code is `code`, the verdict's sentence `reason`. warnings : sentences
    that a reader needs before any figure.
    """

    benchmark: Benchmark
    names: tuple[str, ...]
    runs: tuple[Run, ...]
    scores: tuple[dict[str, Any], ...]
    tables: dict[str, pd.DataFrame]
    cases: pd.DataFrame
    verifier: str | None
    calibration: calibration.Calibration | None
    judged: tuple[judged.Judged, ...] = ()
    warnings: tuple[str, ...] = field(default=())


def gather(folders: Sequence[Path]) -> Gathered:
    """Load scored runs of one dataset and compute every table.

    Raises
    ------
    InputError : no run, one twice, one that is not scored, or runs of different datasets.
    """
    if not folders:
        raise InputError("A report needs at least one run; give the folder of a scored run.")
    resolved = [folder.resolve() for folder in folders]
    for index, folder in enumerate(resolved):
        if folder in resolved[:index]:
            raise InputError(f"{folders[index]} is given twice; give each run once.")
    runs = [load_run(folder) for folder in folders]
    _same_dataset(runs)
    names = run_names(resolved)
    benchmark = benchmarks.get(runs[0].meta.benchmark)
    parts: dict[str, list[pd.DataFrame]] = {}
    joined, scores, warnings = [], [], []
    for name, run in zip(names, runs, strict=True):
        measurements, verdicts, score = load_scores(run)
        cases = join(measurements, verdicts, run)
        warnings += _unscored(name, run, measurements)
        for table, frame in benchmark.tables(measurements, verdicts).items():
            frame = fill(frame)
            frame.insert(0, "run", name)
            parts.setdefault(table, []).append(frame)
        cases.insert(0, "run", name)
        joined.append(cases)
        scores.append(score)
    warnings += _settings_differ(names, scores, runs)
    warnings += built_apart({name: run.fingerprint for name, run in zip(names, runs, strict=True)})
    tables = {table: stack(frames) for table, frames in parts.items()}
    cases = stack(joined)
    verifier = next((column for column in (_verifier(benchmark), "verifier", "action") if column in cases), None)
    free = getattr(extras(benchmark), "DIAGNOSTICS", ())
    found = judged.collect(names, runs)
    return Gathered(
        benchmark=benchmark,
        names=names,
        runs=tuple(runs),
        scores=tuple(scores),
        tables=tables,
        cases=cases,
        verifier=verifier,
        calibration=calibration.calibrate(names, runs, cases, verifier, free) if verifier else None,
        judged=found,
        warnings=tuple(warnings),
    )


def stack(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Rows of several runs under each other; columns that are null throughout one run keep their place."""
    columns = list(dict.fromkeys(column for frame in frames for column in frame.columns))
    full = [frame for frame in frames if len(frame)]
    if not full:
        return pd.DataFrame(columns=columns)
    records = [record for frame in full for record in frame.to_dict("records")]
    return pd.DataFrame.from_records(records, columns=columns)


def run_names(folders: Sequence[Path]) -> tuple[str, ...]:
    """Short, unique names: the folder's own name, with as many parents as it takes to tell runs apart."""
    names = []
    for folder in folders:
        depth = 1
        others = [other for other in folders if other != folder]
        while any(other.parts[-depth:] == folder.parts[-depth:] for other in others):
            depth += 1
        names.append("/".join(folder.parts[-depth:]))
    return tuple(names)


def join(measurements: pd.DataFrame, verdicts: pd.DataFrame, run: Run) -> pd.DataFrame:
    """Measurements and verdicts of one run side by side.

    Raises
    ------
    InputError : the two tables, or they and the run, do not belong together.
    """
    again = f"run `workbench score {run.folder}` again."
    keys = [name for name in KEYS if name in measurements and name in verdicts]
    if len(measurements) != len(verdicts) or any((measurements[key] != verdicts[key]).any() for key in keys):
        raise InputError(f"{run.scores}: measurements and verdicts are of different cases; {again}")
    if set(measurements["case"]) != set(run.cases):
        raise InputError(f"{run.scores} holds scores of other cases than {run.folder / 'cases.jsonl'}; {again}")
    left = measurements.rename(columns={"reason": "code"}).reset_index(drop=True)
    right = verdicts.drop(columns=keys).reset_index(drop=True)
    return pd.concat([left, right], axis=1)


def _same_dataset(runs: Sequence[Run]) -> None:
    first = runs[0]
    for other in runs[1:]:
        if other.meta.benchmark != first.meta.benchmark or other.content != first.content:
            raise InputError(
                f"{first.folder} and {other.folder} are runs of different datasets ({_named(first)}, {_named(other)}), "
                "and their figures cannot stand side by side; write a report for each."
            )


def _named(run: Run) -> str:
    return f"{run.meta.benchmark} with {len(run.cases)} cases, fingerprint {run.fingerprint[:12]}"


def _unscored(name: str, run: Run, measurements: pd.DataFrame) -> list[str]:
    absent = set(measurements.loc[measurements["reason"] == "not_recorded", "case"])
    late = len(absent.intersection(run.recorded())) if absent else 0
    found = []
    if absent:
        found.append(f"{name}: {len(absent)} of {len(run.cases)} cases were not recorded when it was scored.")
    if late:
        found.append(f"{name}: {late} cases were recorded after scoring; run `workbench score` again to count them.")
    return found


def _settings_differ(names: Sequence[str], scores: Sequence[dict], runs: Sequence[Run]) -> list[str]:
    found = []
    for what, of in (("thresholds", "thresholds"), ("detector settings", "vad")):
        apart = [name for name, score in zip(names, scores, strict=True) if score.get(of) != scores[0].get(of)]
        if apart:
            found.append(f"The {what} of {', '.join(apart)} differ from those of {names[0]}; see the configuration.")
    for what, of in (("clock", "clock"), ("placement policy", "policy")):
        values = {str(getattr(run.meta, of)) for run in runs}
        if len(values) > 1:
            found.append(f"The runs differ in their {what}: {', '.join(sorted(values))}.")
    return found


def extras(benchmark: Benchmark) -> Any:
    """The benchmark's own module of titles and pictures, or None: a report manages without one."""
    from importlib import import_module
    from importlib.util import find_spec

    name = f"{benchmarks.package(benchmark.name)}.pictures"
    return import_module(name) if find_spec(name) else None


def _verifier(benchmark: Benchmark) -> str:
    return getattr(extras(benchmark), "VERIFIER", "verifier")


def plain(value: Any) -> Any:
    """A table's value as JSON and templates want it: numbers and text, None for every kind of null."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and value != value else value
