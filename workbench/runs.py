"""A run: a folder that holds everything about one agent on one dataset, and nothing outside it.

run.json                     the configuration, versions and checksums
cases.jsonl                  the cases, copied from the dataset
episodes/{case}.rec.json     one record a case (present only when whole)
episodes/{case}.stereo.wav   channel 0 user, channel 1 agent
spans/{settings}.parquet     speech spans of every channel, by detector settings
scores/                      measurements, verdicts, score.json; judged: columns from judges, for rules that take some
judgements/{judge}/          what judges said, one file a judge
"""

from __future__ import annotations

import json
import platform
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from workbench import contract, episodes, files
from workbench.cases import Case, Versioned
from workbench.contract import KEYS, Benchmark
from workbench.datasets import CASES, CaseHead, Dataset, check_manifest, content_of, describe, scan_cases
from workbench.deciding import Decider, keys
from workbench.episodes import EpisodeRecord, Policy
from workbench.errors import InputError, ProblemsFound
from workbench.files import read_json, sha256_of, timestamp, write_json
from workbench.version import SCORER, VERSION

FORMAT = 1
META = "run.json"
MEASUREMENTS, VERDICTS, JUDGED, SCORE = "measurements.parquet", "verdicts.parquet", "judged.parquet", "score.json"


class RunMeta(Versioned):
    """What a run says of itself; never a key, never a path outside the run."""

    format: int = FORMAT
    benchmark: str
    dataset: dict[str, Any]
    agent: dict[str, Any]
    clock: str
    policy: Policy
    workbench: str
    platform: dict[str, str] = {}
    started: str


@dataclass(frozen=True)
class Run:
    """A loaded run. Records are read on demand, so a run of any size is cheap to open."""

    folder: Path
    meta: RunMeta
    cases: dict[str, Case]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def episodes(self) -> Path:
        return self.folder / "episodes"

    @property
    def scores(self) -> Path:
        return self.folder / "scores"

    @property
    def spans(self) -> Path:
        return self.folder / "spans"

    @property
    def judgements(self) -> Path:
        return self.folder / "judgements"

    @cached_property
    def fingerprint(self) -> str:
        return sha256_of(self.folder / CASES)

    @cached_property
    def content(self) -> str:
        """The identity of the dataset's content, by which runs are compared (see `datasets.Header`)."""
        return content_of(self.cases.values(), self.meta.dataset)

    def facts(self, score: Mapping[str, Any]) -> dict[str, Any]:
        """What must be alike for verdicts of runs to be compared (see `analysis.compare`). score : score.json."""
        found = {name: score.get(name) for name in ("scorer", "thresholds", "vad")}
        return found | {"content": self.content, "fingerprint": self.fingerprint}

    @property
    def benchmark(self) -> Benchmark:
        """What this run's benchmark declares."""
        return contract.of(self)

    @property
    def measurements(self) -> pd.DataFrame:
        """The stored measurements, one row a measured event.

        Raises
        ------
        InputError : the run has not been scored.

        Warns
        -----
        UserWarning : cases were recorded after scoring.
        """
        measurements, _, score = load_scores(self)
        if told := self.unscored(measurements, score):
            warnings.warn(f"{self.folder}: {told}", stacklevel=2)
        return measurements

    def limits(self, thresholds: Mapping[str, float] | None = None) -> dict[str, float]:
        """The thresholds in force: those that the run was scored with, some replaced by `thresholds`.

        Raises
        ------
        InputError : an unknown threshold, or no finite number of at least 0.
        """
        path = self.scores / SCORE
        score = read_json(path) if path.exists() else {}
        own = score.get("thresholds", {}) if isinstance(score, dict) else None
        if not isinstance(own, dict):
            raise InputError(f"{path} is not what scoring writes; run `workbench score {self.folder}` again.")
        known = {name: value for name, value in own.items() if name in self.benchmark.threshold}
        return self.benchmark.limits(known | dict(thresholds or {}))

    def decider(self) -> Decider:
        """The benchmark's rules over the stored measurements, ready for any number of settings."""
        return Decider(self.benchmark, self.measurements)

    def verdicts(self, thresholds: Mapping[str, float] | None = None) -> pd.DataFrame:
        """Verdicts with their evidence, decided now from the stored measurements. No audio is read.

        thresholds : those that differ from the ones that the run was scored with.
        """
        return self.decider().verdicts(self.limits(thresholds))

    def flips(self, thresholds: Mapping[str, float] | None = None) -> pd.DataFrame:
        """Where each verdict would turn: the one threshold value nearest to it, the other thresholds held.

        Columns: case, event, metric, verdict, threshold, value, limit (the one in force), distance (value -
        limit) and a sentence. Verdicts that no single threshold turns are left out. The nearest, as a share of
        the limit, come first.
        """
        limits, decider = self.limits(thresholds), self.decider()
        rows = []
        for place, (flip, verdict) in enumerate(
            zip(decider.flips(limits), decider.verdicts(limits).to_dict("records"), strict=True)
        ):
            if flip is not None:
                name = flip.threshold.name
                own = decider.column(f"own_{name}")[place] if flip.threshold.per_case else float("nan")
                limit = float(limits[name] if own != own else own)
                rows.append(
                    {key: verdict[key] for key in (*KEYS, "verdict")}
                    | {"threshold": name, "value": flip.value, "limit": limit}
                    | {"distance": flip.value - limit, "sentence": str(flip)}
                )
        columns = [*KEYS, "verdict", "threshold", "value", "limit", "distance", "sentence"]
        frame = pd.DataFrame(rows, columns=columns)
        nearest = (frame["distance"].abs() / frame["limit"].abs().clip(lower=1e-9)).sort_values(kind="stable").index
        return frame.loc[nearest].reset_index(drop=True)

    def tables(self, thresholds: Mapping[str, float] | None = None) -> dict[str, pd.DataFrame]:
        """The benchmark's tables by name, with counts and intervals."""
        return self.benchmark.tables(self.measurements, self.verdicts(thresholds))

    def recorded(self) -> list[str]:
        """Ids of the cases that have a record, in dataset order."""
        return [case_id for case_id in self.cases if episodes.record_path(self.episodes, case_id).exists()]

    def marks(self) -> dict[str, str]:
        """A checksum of each case's record: what scoring notes, to know later which cases were recorded since."""
        paths = {case_id: episodes.record_path(self.episodes, case_id) for case_id in self.recorded()}
        return {case_id: sha256_of(path)[:16] for case_id, path in paths.items()}

    def unscored(self, measurements: pd.DataFrame, score: Mapping[str, Any]) -> str:
        """A sentence about cases whose record is not the one that was scored; '' where there are none.

        score : score.json; one without records tells only of cases that had none.
        """
        absent = set(measurements.loc[measurements["reason"] == "not_recorded", "case"])
        noted = score.get("records")
        since = [name for name, mark in self.marks().items() if noted.get(name) != mark] if noted is not None else []
        late = len(absent.intersection(self.recorded()).union(since))
        if not late:
            return ""
        were, them = ("1 case was", "it") if late == 1 else (f"{late} cases were", "them")
        return f"{were} recorded after scoring; run `workbench score` again to count {them}."

    def record(self, case_id: str) -> EpisodeRecord:
        """The record of one case.

        Raises
        ------
        InputError : no such case in the run, not recorded yet, an unreadable record, or one made under
            another prompt.
        """
        if case_id not in self.cases:
            raise InputError(f"{self.folder}: the run has no case {case_id!r}; see {self.folder / CASES}.")
        path = episodes.record_path(self.episodes, case_id)
        record = episodes.load_record(path)
        if (record.benchmark, record.system_prompt) != (self.meta.benchmark, self.cases[case_id].system_prompt):
            raise InputError(f"{path} was recorded under another prompt or benchmark; run the case again.")
        return record

    def heard(self, case_id: str) -> EpisodeRecord:
        """The record of one case as it is judged: without words where its recording is mute.

        Where the audio is not there (a run shared without it), the words are taken as they stand.
        """
        record = self.record(case_id)
        if not record.text:
            return record
        try:
            stereo = episodes.load_audio(self.episodes, record)
        except InputError:
            return record
        return episodes.sounded(record, episodes.loud_spans(stereo[:, 1]))

    def kept(self, case_id: str) -> EpisodeRecord | None:
        """The record of one case where it and its recording are whole, else None: the case is still to be done."""
        try:
            record = self.record(case_id)
        except InputError:
            return None
        return record if episodes.audio_is_whole(self.episodes, record) else None


@dataclass
class Contents:
    """What a run folder holds, finished or not; what is wrong with it is said in `problems`, never raised.

    meta : run.json, {} where it cannot be used. cases : whole, or their heads. places : case -> where its line
    starts in cases.jsonl and how long it is, in bytes. recorded : ids of the cases that have a record.
    """

    folder: Path
    meta: dict[str, Any] = field(default_factory=dict)
    cases: dict[str, Any] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    recorded: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


def read_folder(folder: Path, kind: type = CaseHead) -> Contents:
    """Read a run folder that may be unfinished or damaged. kind : what is read of a case, `CaseHead` or `Case`."""
    out = Contents(folder)
    try:
        meta = read_json(folder / META)
        if not isinstance(meta, dict):
            raise InputError(f"{folder / META} is not a JSON object.")
        out.meta = meta
    except InputError as error:
        out.problems.append(str(error))
    try:
        for case, start, size, problem in scan_cases(folder / CASES, kind):
            if problem:
                out.problems.append(problem)
            else:
                out.cases[case.id], out.places[case.id] = case, (start, size)
    except OSError:
        out.problems.append(f"{folder / CASES} does not exist, so the run has no cases.")
    ending = episodes.record_path(Path(), "").name
    try:
        found = {
            path.name.removesuffix(ending) for path in (folder / "episodes").iterdir() if path.name.endswith(ending)
        }
        out.recorded = found & set(out.cases)
    except OSError:
        pass  # nothing is recorded yet
    return out


def load_run(folder: str | Path) -> Run:
    """Open a run folder, finished or still being written.

    Raises
    ------
    InputError : not a run folder, unreadable run.json, bad cases (each named), or cases that are not
        those the run was made with.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give the folder that `workbench run --out` wrote.")
    if not (folder / META).exists():
        hint = " It is a dataset: run an agent on it first." if (folder / "dataset.json").exists() else ""
        raise InputError(f"{folder} holds no {META}, so it is not a run.{hint}")
    found = read_folder(folder, Case)
    if found.problems:
        more = f" ({len(found.problems) - 1} more like it)" if len(found.problems) > 1 else ""
        raise InputError(found.problems[0] + more)
    try:
        run = Run(folder, RunMeta.model_validate(found.meta), found.cases)
    except ValidationError as error:
        raise InputError(f"{folder / META}: {describe(error)}.") from None
    meta = run.meta
    if meta.dataset.get("fingerprint", run.fingerprint) != run.fingerprint:
        raise InputError(
            f"{folder / CASES} is not the one that the run was made with: its sha256 is not the fingerprint in {META}; "
            "copy it from the dataset again."
        )
    return run


def begin(folder: Path, dataset: Dataset, agent: dict[str, Any], clock: str, policy: Policy) -> Run:
    """Make the run folder of `dataset`, or open the one that is there to go on with it.

    Raises
    ------
    InputError : the dataset is not as it was built, or `folder` holds another run or something else.
    """
    changed = check_manifest(dataset)
    if changed:
        raise ProblemsFound(changed)
    meta = RunMeta(
        benchmark=dataset.header.benchmark,
        dataset=dataset.header.brief(),
        agent=agent,
        clock=clock,
        policy=policy,
        workbench=VERSION,
        platform={"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()},
        started=timestamp(),
    )
    if (folder / META).exists():
        there, meta = load_run(folder).meta, RunMeta.model_validate_json(meta.model_dump_json())
        for name in ("benchmark", "dataset", "agent", "clock", "policy"):
            old, new = getattr(there, name), getattr(meta, name)
            if name == "dataset":  # runs of earlier versions kept less of it
                new = {key: value for key, value in new.items() if key in old}
            if old != new:
                raise InputError(
                    f"{folder} holds a run with another {name} ({_brief(old, new)}); give another --out, "
                    "or remove that folder."
                )
    elif not files.is_empty(folder, CASES):
        raise InputError(f"{folder} is not empty and is not a run; give a new or empty folder as --out.")
    else:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(dataset.folder / CASES, folder / CASES)
        save_meta(folder, meta)
    (folder / "episodes").mkdir(exist_ok=True)
    for leftover in (folder / "episodes").glob(".part-*"):
        leftover.unlink(missing_ok=True)
    return load_run(folder)


def save_meta(folder: Path, meta: RunMeta) -> None:
    write_json(folder / META, json.loads(meta.model_dump_json()))


@dataclass
class Scores:
    """What a run's scores folder holds: tables (None where there are none), score.json, and what is wrong with them.

    measurements : with what judges added to them.
    """

    measurements: pd.DataFrame | None = None
    verdicts: pd.DataFrame | None = None
    score: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


def read_scores(folder: Path) -> Scores:
    """The scores of a run folder; never raises. Those of another version of the scorer are given, and it is said."""
    out, scores, again = Scores(), folder / "scores", f"run `workbench score {folder}` again."
    if not (scores / SCORE).exists():
        out.problem = f"{folder} has not been scored; run `workbench score {folder}` first."
        return out
    try:
        score = read_json(scores / SCORE)
        if not isinstance(score, dict):
            raise InputError(f"{scores / SCORE} is not what scoring writes; {again}")
        measurements, verdicts = read_rows(scores / MEASUREMENTS), read_rows(scores / VERDICTS)
        measurements = with_judgements(scores, measurements)
        out.score, out.measurements, out.verdicts = score, measurements, verdicts
    except InputError as error:
        out.problem = str(error)
        return out
    if score.get("scorer") != SCORER:
        out.problem = (
            f"{folder} was scored by version {score.get('scorer')!r} of the scorer and this is {SCORER!r}; {again}"
        )
    return out


def load_scores(run: Run) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """Measurements (with what judges added to them), verdicts and score.json of a scored run.

    Raises
    ------
    InputError : the run has not been scored, or by another version of the scorer, or a row stands twice.
    """
    found = read_scores(run.folder)
    if found.problem:
        raise InputError(found.problem)
    return found.measurements, found.verdicts, found.score


def with_judgements(scores: Path, measurements: pd.DataFrame) -> pd.DataFrame:
    """Measurements with the columns that judges gave their rows, where rules take some. scores : a run's folder."""
    if not (scores / JUDGED).exists():
        return measurements
    return measurements.merge(read_rows(scores / JUDGED), on=list(KEYS), how="left")


def read_rows(path: Path) -> pd.DataFrame:
    """A table of rows named by case, event and metric.

    Raises
    ------
    InputError : it cannot be read, or a row stands twice.
    """
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path} cannot be read ({told}); score the run again.") from None
    if "case" not in frame:
        raise InputError(f"{path} is not what scoring writes; score the run again.")
    frame = frame.assign(**{name: values for name, values in keys(frame).items() if name not in frame})
    twice = frame[frame.duplicated(list(KEYS))]
    if len(twice):
        named = " ".join(str(twice.iloc[0][name]) for name in KEYS).strip()
        raise InputError(f"{path}: the row {named} stands twice; score the run again.")
    return frame


def _brief(old: object, new: object) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        differing = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        return "; ".join(f"{key}: {old.get(key)!r} there, {new.get(key)!r} now" for key in differing[:2])
    return f"{old!r} there, {new!r} now"
