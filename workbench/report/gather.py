"""What a report rests on: the runs, their tables side by side, what judges said, and what a reader must be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.analysis import detectors
from workbench.analysis.compare import built_apart
from workbench.contract import KEYS, Benchmark, Section
from workbench.errors import InputError
from workbench.files import write_atomically, write_csv
from workbench.judges.records import judge_folders
from workbench.judges.summary import Summary, short, summarise
from workbench.report.calibration import Calibration, calibrate
from workbench.report.figures import heading
from workbench.runs import Run, load_run, load_scores

LATENCY = "latency"
"""The section that shows latencies, where a benchmark declares it; it has no table."""


@dataclass(frozen=True)
class Judged:
    """One judge's tables for one run, in their short form, with their titles. problems : sentences about validity."""

    run: str
    key: str
    spoke: str
    prompt: str
    valid: bool
    problems: tuple[str, ...]
    summary: Summary | None = None

    @property
    def heading(self) -> str:
        """What is judged, in the judge's own words."""
        return self.summary.judge.heading if self.summary else self.key

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Title -> table."""
        if self.summary is None:
            return {}
        judge = self.summary.judge
        return {
            judge.titles.get(name, heading(name)): short(judge, frame) for name, frame in self.summary.tables.items()
        }


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
    calibration: Calibration
    judged: tuple[Judged, ...]
    warnings: tuple[str, ...]

    @property
    def sections(self) -> list[Section]:
        """The benchmark's sections that there is something to show of, then tables that it does not name."""
        known = {section.name: section for section in self.benchmark.sections}
        shown = [name for name, section in known.items() if name in self.tables or section.always or name == LATENCY]
        return [known.get(name, Section(name, heading(name))) for name in dict.fromkeys([*shown, *self.tables])]

    @property
    def detector_notes(self) -> list[str]:
        """What the detectors of these runs do to every latency and limit, a sentence for each of their settings."""
        found: dict[str, list[str]] = {}
        for name, score in zip(self.names, self.scores, strict=True):
            found.setdefault(detectors.sentence(score["vad"]), []).append(name)
        several = len(found) > 1
        return [f"{', '.join(names)}: {said}" if several else said for said, names in found.items()]


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
    names, benchmark = run_names(resolved), runs[0].benchmark
    parts: dict[str, list[pd.DataFrame]] = {}
    joined, scores, warnings = [], [], []
    for name, run in zip(names, runs, strict=True):
        measurements, verdicts, score = load_scores(run)
        cases = join(measurements, verdicts, run)
        warnings += _unscored(name, run, measurements, score)
        for table, frame in benchmark.tables(measurements, verdicts).items():
            frame.insert(0, "run", name)
            parts.setdefault(table, []).append(frame)
        cases.insert(0, "run", name)
        joined.append(cases)
        scores.append(score)
    warnings += _settings_differ(names, scores, runs)
    warnings += built_apart({name: run.fingerprint for name, run in zip(names, runs, strict=True)})
    cases = stack(joined)
    return Gathered(
        benchmark, names, tuple(runs), tuple(scores), {table: stack(frames) for table, frames in parts.items()}, cases,
        calibrate(names, runs, cases, benchmark), _judged(names, runs), tuple(warnings),
    )  # fmt: skip


def stack(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Rows of several runs under each other; columns that are null throughout one run keep their place."""
    columns = list(dict.fromkeys(column for frame in frames for column in frame.columns))
    records = [record for frame in frames for record in frame.to_dict("records")]
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
    again, keys = f"run `workbench score {run.folder}` again.", list(KEYS)
    if len(measurements) != len(verdicts) or not measurements[keys].equals(verdicts[keys]):
        raise InputError(f"{run.scores}: measurements and verdicts are of different cases; {again}")
    if set(measurements["case"]) != set(run.cases):
        raise InputError(f"{run.scores} holds scores of other cases than {run.folder / 'cases.jsonl'}; {again}")
    left = measurements.rename(columns={"reason": "code"})
    return pd.concat([left, verdicts.drop(columns=keys)], axis=1)


def _same_dataset(runs: Sequence[Run]) -> None:
    first = runs[0]
    for other in runs[1:]:
        if other.meta.benchmark != first.meta.benchmark or other.content != first.content:
            one, two = (f"{run.meta.benchmark} with {len(run.cases)} cases, fingerprint {run.fingerprint[:12]}"
                        for run in (first, other))  # fmt: skip
            raise InputError(
                f"{first.folder} and {other.folder} are runs of different datasets ({one}, {two}), "
                "and their figures cannot stand side by side; write a report for each."
            )


def _unscored(name: str, run: Run, measurements: pd.DataFrame, score: dict[str, Any]) -> list[str]:
    absent = set(measurements.loc[measurements["reason"] == "not_recorded", "case"])
    found = []
    if absent:
        found.append(f"{name}: {len(absent)} of {len(run.cases)} cases were not recorded when it was scored.")
    if told := run.unscored(measurements, score):
        found.append(f"{name}: {told}")
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


def _judged(names: Sequence[str], runs: Sequence[Run]) -> tuple[Judged, ...]:
    """Every judge of every run; judgements that cannot be read become a sentence, not an end."""
    found = []
    for name, run in zip(names, runs, strict=True):
        for folder in judge_folders(run.judgements):
            try:
                made = summarise(run, folder)
            except InputError as error:
                found.append(Judged(name, folder.name, "unreadable", "", False, (str(error),)))
                continue
            prompt = made.record.prompt_sha256[:12]
            found.append(Judged(name, folder.name, made.record.spoke, prompt, made.valid, tuple(made.problems), made))
    return tuple(found)


# -- files -------------------------------------------------------------------------------------------


def all_tables(gathered: Gathered) -> dict[str, pd.DataFrame]:
    """Table name -> frame: the benchmark's tables, calibration, `judge_...` of every judge, and `cases`."""
    tables = dict(gathered.tables)
    tables["calibration"], tables["calibration_exceptions"] = (
        gathered.calibration.matrix,
        gathered.calibration.exceptions,
    )
    judged: dict[str, list[pd.DataFrame]] = {}
    for one in gathered.judged:
        for name, frame in one.summary.tables.items() if one.summary else ():
            if len(frame):
                led = {"run": one.run, "judge": one.spoke, "judge_key": one.key, "valid": one.valid}
                own = frame.rename(columns={"judge": "judge_name"})
                judged.setdefault(f"judge_{name}", []).append(own.assign(**led)[[*led, *own]])
    tables |= {name: pd.concat(frames, ignore_index=True) for name, frames in judged.items()}
    nested = [name for name, column in gathered.cases.items()
              if column.map(lambda value: isinstance(value, list | tuple | np.ndarray)).any()]  # fmt: skip
    return tables | {"cases": gathered.cases.drop(columns=nested)}  # spans stay in the run's own scores


def write_tables(gathered: Gathered, folder: Path) -> None:
    """Write `folder`/{table}.parquet and .csv; no text in a CSV can act as a spreadsheet formula."""
    for name, frame in all_tables(gathered).items():
        # Parquet wants one type a column; columns that mix numbers and text are stored as text.
        mixed = [column for column in frame if frame[column].dtype == object
                 and len({type(value) for value in frame[column].dropna()}) > 1]  # fmt: skip
        texts = {column: frame[column].map(lambda value: None if pd.isna(value) else str(value)) for column in mixed}
        stored = frame.assign(**texts)
        write_atomically(folder / f"{name}.parquet", lambda part, stored=stored: stored.to_parquet(part, index=False))
        write_csv(folder / f"{name}.csv", frame)
