"""Everything about one row, read when somebody looks at it; what is missing is said, never raised."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench import benchmarks, episodes
from workbench.app.judged import Opinion, opinions
from workbench.app.store import Key, Store, whole_key
from workbench.cases import Case
from workbench.contract import Step
from workbench.episodes import EpisodeRecord
from workbench.errors import InputError
from workbench.pictures import peaks
from workbench.scoring import MEASUREMENTS
from workbench.spans import merge

CHANNELS = ("user", "agent")


@dataclass
class Detail:
    """One row with its case, record, recording, spans, measurement and judges; null is explained in `missing`.

    spans, utterances : channel -> (n, 2) seconds. window : the scored interval on the session clock.
    """

    key: Key
    row: dict[str, Any] = field(default_factory=dict)
    case: Case | None = None
    record: EpisodeRecord | None = None
    recording: peaks.Recording | None = None
    spans: dict[str, np.ndarray] | None = None
    utterances: dict[str, np.ndarray] = field(default_factory=dict)
    measurement: dict[str, Any] = field(default_factory=dict)
    windows: dict[str, tuple[float, float]] = field(default_factory=dict)
    opinions: list[Opinion] = field(default_factory=list)
    flip: str | None = None
    steps: list[Step] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    audio: str | None = None
    missing: list[str] = field(default_factory=list)

    @property
    def duration_s(self) -> float:
        if self.recording is not None:
            return self.recording.duration_s
        return self.record.duration_s if self.record else 10.0

    @property
    def window(self) -> tuple[float, float] | None:
        """The scored window: as measured, else the record's first."""
        w0, w1 = self.measurement.get("w0_s"), self.measurement.get("w1_s")
        if _there(w0) and _there(w1):
            return float(w0), float(w1)
        return next(iter(self.windows.values()), None)


def _there(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and np.isnan(value))


def load_detail(store: Store, key: Key) -> Detail:
    """Read one row. Never raises for what is wrong with a run; says it in `missing`."""
    key = whole_key(key)
    out = Detail(key)
    row, run = store.row(key), store.runs.get(key[0])
    if row is None or run is None:
        out.missing.append(f"There is no case {key[1]!r} in a run {key[0]!r} here; choose a row in Cases.")
        return out
    out.row = row.to_dict()
    case_id = out.row["case"]
    try:
        out.case = run.case(case_id)
    except InputError as error:
        out.missing.append(str(error))
    folder = run.folder / "episodes"
    try:
        out.record = episodes.load_record(episodes.record_path(folder, case_id))
        out.windows = {name: tuple(pair) for name, pair in out.record.windows.items() if pair is not None}
        if out.record.error is not None:
            out.missing.append(f"The episode failed ({out.record.error.kind}): {out.record.error.message}")
        if out.record.transcript is None:
            out.missing.append("The agent gives no text of what it says.")
    except InputError as error:
        there = case_id in run.recorded
        out.missing.append(str(error) if there else "This case has not been recorded yet.")
    path = episodes.stereo_path(folder, case_id)
    if path.exists():
        try:
            out.recording = peaks.load(path)
            out.audio = f"episodes/{path.name}"
        except InputError as error:
            out.missing.append(str(error))
    elif out.record is not None:
        out.missing.append("There is no audio of this case, so there is nothing to draw or to play.")
    _add_scores(out, run.folder, run.score)
    found, problems = opinions(run.folder / "judgements", case_id)
    out.opinions = [opinion for opinion in found if opinion.judgement.item in ("", out.row["event"])]
    out.missing += problems
    if not out.opinions:
        out.missing.append("No judge has judged this case.")
    out.files = [name for name in _files(run.folder, case_id) if (run.folder / name).is_file()]
    return out


def _add_scores(out: Detail, folder: Path, score: dict[str, Any]) -> None:
    case_id = out.row["case"]
    try:
        frame = pd.read_parquet(folder / "scores" / MEASUREMENTS, filters=[("case", "==", case_id)])
        for name in ("event", "metric"):
            if name in frame:
                frame = frame[frame[name] == out.row[name]]
        out.measurement = frame.iloc[0].to_dict() if len(frame) else {}
    except (OSError, ValueError, KeyError):
        out.missing.append("The run has not been scored, so there is no verdict and no window to show.")
    _add_flip(out, score)
    key = (score.get("vad") or {}).get("key")
    try:
        if not key:
            raise OSError
        frame = pd.read_parquet(folder / "spans" / f"{Path(str(key)).name}.parquet", filters=[("case", "==", case_id)])
        if frame.empty:
            raise OSError
        out.spans = {row.channel: _pairs(row.spans) for row in frame.itertuples()}
    except (OSError, ValueError, AttributeError):
        out.missing.append("No speech spans are kept for this case: `workbench score` finds them.")
        out.spans = None
    gap_s = _merge_gap_s(out.row.get("benchmark", ""))
    out.utterances = {name: merge(spans, gap_s) for name, spans in (out.spans or {}).items()}


def _add_flip(out: Detail, score: dict[str, Any]) -> None:
    try:
        benchmark = benchmarks.get(out.row.get("benchmark", ""))
        found = benchmark.decider.flip(out.measurement) if out.measurement else None
        out.flip = None if found is None else str(found)
        out.steps = benchmark.steps(out.measurement) if benchmark.steps and out.measurement else []
    except (InputError, AttributeError, KeyError, TypeError, ValueError):
        out.flip = None


def _merge_gap_s(benchmark: str) -> float:
    try:
        return float(getattr(benchmarks.get(benchmark), "merge_gap_s", 0.3))
    except InputError:
        return 0.3


def _pairs(value: Any) -> np.ndarray:
    return np.array([list(pair) for pair in value], float).reshape(-1, 2)


def _files(folder: Path, case_id: str) -> list[str]:
    names = [f"episodes/{case_id}.stereo.wav", f"episodes/{case_id}.rec.json", "run.json", "scores/score.json",
             "scores/measurements.csv", "scores/verdicts.csv"]  # fmt: skip
    return names + [
        path.relative_to(folder).as_posix() for path in sorted(folder.glob("judgements/*/judgements.jsonl"))
    ]
