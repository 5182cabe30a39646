"""Scoring a run: recordings -> spans (cached) -> measurements -> verdicts.

Audio is read only where spans are missing. Spans are kept beside the run, in a file named by the
detector settings; an episode that was recorded again is detected again. Nothing after measuring
reads audio.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench import episodes
from workbench.cases import RATE_HZ
from workbench.contract import KEYS
from workbench.deciding import Decider, keys
from workbench.episodes import record_path, stereo_path
from workbench.errors import InputError
from workbench.files import write_atomically, write_json
from workbench.progress import meter
from workbench.runs import JUDGED, MEASUREMENTS, SCORE, VERDICTS, Run, read_rows
from workbench.vad import VadSettings, detect
from workbench.version import SCORER, VERSION

CHANNELS = ("user", "agent")
_FLUSH_EVERY = 200


@dataclass(frozen=True)
class Scored:
    """What scoring gave: the two tables, and sentences about recordings that could not be used."""

    measurements: pd.DataFrame
    verdicts: pd.DataFrame
    problems: list[str]


class SpanStore:
    """Spans of one run under one detector setting.

    One row a channel: case, channel, identity (of the episode's record), spans (list of [start_s,
    end_s]).
    """

    def __init__(self, run: Run, settings: VadSettings):
        self.path = run.spans / f"{settings.key()}.parquet"
        self.settings = settings
        self._rows: dict[tuple[str, str], tuple[str, np.ndarray]] = {}
        if self.path.exists():
            try:
                frame = pd.read_parquet(self.path)
                for row in frame.itertuples():
                    spans = np.array([list(pair) for pair in row.spans], float).reshape(-1, 2)
                    self._rows[row.case, row.channel] = (row.identity, spans)
            except (OSError, ValueError, AttributeError):
                self._rows = {}  # a damaged cache is made anew

    def get(self, case_id: str, identity: str) -> dict[str, np.ndarray] | None:
        found = {channel: self._rows.get((case_id, channel)) for channel in CHANNELS}
        if any(entry is None or not same_recording(entry[0], identity) for entry in found.values()):
            return None
        return {channel: entry[1] for channel, entry in found.items()}

    def put(self, case_id: str, channel: str, identity: str, spans: np.ndarray) -> None:
        self._rows[case_id, channel] = (identity, spans)

    def save(self) -> None:
        rows = [
            {"case": case, "channel": channel, "identity": identity, "spans": spans.tolist()}
            for (case, channel), (identity, spans) in sorted(self._rows.items())
        ]
        _write_table(self.path, pd.DataFrame(rows, columns=["case", "channel", "identity", "spans"]))
        write_json(self.path.with_suffix(".json"), self.settings.model_dump())


def _write_table(path, frame: pd.DataFrame) -> None:
    write_atomically(path, lambda part: frame.to_parquet(part, index=False))


def identity_of(run: Run, case_id: str) -> str:
    """Names one recording of a case: the checksum of its record, and the size of its audio.

    The size is '-' where the audio is not there (a run shared without it): its spans still count.
    """
    record = hashlib.sha256(record_path(run.episodes, case_id).read_bytes()).hexdigest()[:16]
    audio = stereo_path(run.episodes, case_id)
    return f"{record}:{audio.stat().st_size if audio.exists() else '-'}"


def same_recording(kept: str, now: str) -> bool:
    """Whether spans made for identity `kept` hold for the recording that is there `now`."""
    return kept == now or (now.endswith(":-") and kept.partition(":")[0] == now.partition(":")[0])


def find_spans(
    run: Run, settings: VadSettings, workers: int | None = None
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, str]]:
    """Spans of every recorded case: case -> channel -> float (n, 2); and case -> why there are none.

    Memory stays flat: a few recordings are held at a time. Interrupted, it goes on where it was.
    """
    store = SpanStore(run, settings)
    found: dict[str, dict[str, np.ndarray]] = {}
    faults: dict[str, str] = {}
    identities = {case_id: identity_of(run, case_id) for case_id in run.recorded()}
    for case_id, identity in identities.items():
        kept = store.get(case_id, identity)
        if kept is not None:
            found[case_id] = kept
    todo = [case_id for case_id in identities if case_id not in found]

    def channels() -> Iterator[tuple[str, np.ndarray, int]]:
        for case_id in todo:
            try:
                record = run.record(case_id)
                if record.status != "complete":
                    continue
                stereo = episodes.load_audio(run.episodes, record)
            except InputError as error:
                faults[case_id] = str(error)
                continue
            for index, channel in enumerate(CHANNELS):
                yield f"{case_id}/{channel}", stereo[:, index], RATE_HZ

    if todo:
        with meter("finding speech", 2 * len(todo)) as progress:
            try:
                for count, (name, spans) in enumerate(detect(channels(), settings, workers), start=1):
                    case_id, channel = name.rsplit("/", 1)
                    store.put(case_id, channel, identities[case_id], spans)
                    found.setdefault(case_id, {})[channel] = spans
                    if count % _FLUSH_EVERY == 0:
                        store.save()
                    progress.step()
            finally:
                store.save()
    return found, faults


def measure_run(
    run: Run, settings: VadSettings | None = None, workers: int | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """One row a measurement for every case of the run, those without a recording included."""
    spans, faults = find_spans(run, settings or VadSettings(), workers)
    return measure_spans(run, spans, faults), [f"case {case_id}: {fault}" for case_id, fault in faults.items()]


def measure_spans(
    run: Run,
    spans: Mapping[str, Mapping[str, np.ndarray]],
    faults: Mapping[str, str],
    merge_gap_s: float | None = None,
) -> pd.DataFrame:
    """The measurements of a run from the spans of its recordings.

    spans : case -> channel -> (n, 2) seconds. faults : case -> why there are none. merge_gap_s : spans closer
    than this are one utterance (None: the benchmark's own).
    """
    benchmark, recorded = run.benchmark, set(run.recorded())
    gap_s = benchmark.merge_gap_s if merge_gap_s is None else merge_gap_s
    rows: list[dict[str, Any]] = []
    none = np.empty((0, 2))
    for case_id, case in run.cases.items():
        if case_id not in recorded:
            rows += benchmark.unmeasured(case, "not_recorded")
        elif case_id in faults:
            rows += benchmark.unmeasured(case, "no_audio")
        else:
            both = spans.get(case_id, dict.fromkeys(CHANNELS, none))
            rows += benchmark.measure(case, run.record(case_id), both["user"], both["agent"], merge_gap_s=gap_s)
    frame = pd.DataFrame(rows)
    frame["reason"] = frame["reason"].astype(object)
    return frame.assign(**{name: values for name, values in keys(frame).items() if name not in frame})


def score_run(
    run: Run,
    settings: VadSettings | None = None,
    thresholds: Mapping[str, float] | None = None,
    workers: int | None = None,
) -> Scored:
    """Score a run and write scores/ (measurements and verdicts as Parquet and CSV, score.json)."""
    settings = settings or VadSettings()
    limits = run.benchmark.limits(thresholds)
    measurements, problems = measure_run(run, settings, workers)
    _write(run, MEASUREMENTS, measurements)
    (run.scores / JUDGED).unlink(missing_ok=True)
    verdicts = _decide(run, measurements, limits)
    write_json(
        run.scores / SCORE,
        {
            "workbench": VERSION,
            "scorer": SCORER,
            "vad": settings.model_dump() | {"key": settings.key()},
            "thresholds": limits,
            "cases": len(run.cases),
            "verdicts": {str(word): int(n) for word, n in verdicts["verdict"].value_counts().items()},
            "problems": problems,
        },
    )
    return Scored(measurements, verdicts, problems)


def add_judgements(run: Run, judgements: Mapping[str, pd.DataFrame]) -> None:
    """Put what judges said beside the measurements and decide again, for benchmarks whose verdicts rest on it.

    judgements : judge's name -> one row an item of each case. Without a benchmark's `join` nothing happens.
    """
    if run.benchmark.join is None or not (run.scores / SCORE).exists():
        return
    measured = read_rows(run.scores / MEASUREMENTS)
    joined = run.benchmark.join(measured, judgements)
    added = [name for name in joined if name not in measured]
    _write(run, JUDGED, joined[[*KEYS, *added]])
    _decide(run, joined, run.limits())


def _decide(run: Run, measurements: pd.DataFrame, limits: Mapping[str, float]) -> pd.DataFrame:
    verdicts = Decider(run.benchmark, measurements).verdicts(limits)
    _write(run, VERDICTS, verdicts)
    return verdicts


def _write(run: Run, name: str, frame: pd.DataFrame) -> None:
    _write_table(run.scores / name, frame)
    write_atomically((run.scores / name).with_suffix(".csv"), lambda part: frame.to_csv(part, index=False))


def summary_line(verdicts: pd.DataFrame) -> str:
    counts = verdicts["verdict"].value_counts()
    words = dict.fromkeys(("pass", "fail", "unmeasurable", *sorted(counts.index)))
    return json.dumps({word: int(counts.get(word, 0)) for word in words})
