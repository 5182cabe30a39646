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
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench import episodes
from workbench.cases import RATE_HZ, Case
from workbench.contract import KEYS
from workbench.deciding import Decider, keys
from workbench.episodes import EpisodeRecord, record_path, stereo_path
from workbench.errors import InputError
from workbench.files import write_atomically, write_csv, write_json, writing
from workbench.parallel import pmap
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
    run: Run, settings: VadSettings, workers: int | None = None, dask: str | None = None
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, str]]:
    """Spans of every recorded case: case -> channel -> float (n, 2); and case -> why there are none.

    Memory stays flat: a few recordings are held at a time. Interrupted, it goes on where it was.
    """
    store = SpanStore(run, settings)
    found: dict[str, dict[str, np.ndarray]] = {}
    faults: dict[str, str] = {}
    identities: dict[str, str] = {}
    todo = []
    for case_id in run.recorded():
        try:
            record = run.record(case_id)
            identities[case_id] = identity_of(run, case_id)
            kept = store.get(case_id, identities[case_id])
            if kept is not None:
                _refuse_replaced(run, record)
                found[case_id] = kept
            elif record.status == "complete" and record.unmeasurable is None:
                todo.append(case_id)
        except InputError as error:
            faults[case_id] = str(error)
    if not todo:
        return found, faults
    with meter("finding speech", len(todo)) as progress:
        try:
            for count, (case_id, spans, fault) in enumerate(_detected(run, todo, settings, workers, dask), start=1):
                if spans is None:
                    faults[case_id] = fault
                else:
                    found[case_id] = spans
                    for channel in CHANNELS:
                        store.put(case_id, channel, identities[case_id], spans[channel])
                if count % _FLUSH_EVERY == 0:
                    store.save()
                progress.step()
        finally:
            store.save()
    return found, faults


def _refuse_replaced(run: Run, record: EpisodeRecord) -> None:
    """Read a recording again that was put in another's place after its spans were found; its time gives it away."""
    sound, written = stereo_path(run.episodes, record.case), record_path(run.episodes, record.case)
    newer = sound.exists() and sound.stat().st_mtime_ns > written.stat().st_mtime_ns
    if newer and not episodes.audio_is_whole(run.episodes, record):
        episodes.load_audio(run.episodes, record)


def _detected(
    run: Run, todo: list[str], settings: VadSettings, workers: int | None, dask: str | None
) -> Iterator[tuple[str, dict[str, np.ndarray] | None, str]]:
    """(case, its spans, '') or (case, None, why not), as they are found: in threads here, or on Dask."""
    folder = run.episodes.absolute()  # workers may live in another
    if dask:
        for (_, case_id, _), spans, error in pmap(_spans_of, [(folder, name, settings) for name in todo], dask=dask):
            yield case_id, spans, "" if error is None else str(error)
        return
    faults: dict[str, str] = {}

    def channels() -> Iterator[tuple[str, np.ndarray, int]]:
        for case_id in todo:
            try:
                yield from _channels(folder, case_id)
            except InputError as error:
                faults[case_id] = str(error)

    both: dict[str, np.ndarray] = {}
    for name, spans in detect(channels(), settings, workers):
        case_id, channel = name.rsplit("/", 1)
        both[channel] = spans
        if channel == CHANNELS[-1]:
            yield case_id, both, ""
            both = {}
    yield from ((case_id, None, fault) for case_id, fault in faults.items())


def _channels(folder: Path, case_id: str) -> list[tuple[str, np.ndarray, int]]:
    stereo = episodes.load_audio(folder, episodes.load_record(record_path(folder, case_id)))
    return [(f"{case_id}/{channel}", stereo[:, index], RATE_HZ) for index, channel in enumerate(CHANNELS)]


def _spans_of(job: tuple[Path, str, VadSettings]) -> dict[str, np.ndarray]:
    folder, case_id, settings = job
    return {name.rsplit("/", 1)[1]: spans for name, spans in detect(_channels(folder, case_id), settings, 1)}


def case_rows(run: Run, case: Case, spans: Mapping[str, Mapping[str, np.ndarray]], **options: Any) -> list[dict]:
    """The rows of one case: measured, or with the reason why nothing could be, which no benchmark decides.

    spans : of every case whose recording could be read. options : for the benchmark's `measure`.
    """
    benchmark = run.benchmark
    if not record_path(run.episodes, case.id).exists():
        return benchmark.unmeasured(case, "not_recorded")
    try:
        record = run.record(case.id)
    except InputError:
        return benchmark.unmeasured(case, "bad_record")
    if record.unmeasurable is not None:
        return benchmark.unmeasured(case, record.unmeasurable)
    if record.status == "complete" and case.id not in spans:
        return benchmark.unmeasured(case, "no_audio")
    both = spans.get(case.id) or dict.fromkeys(CHANNELS, np.empty((0, 2)))
    return benchmark.measure(case, record, both["user"], both["agent"], **options)


def measure_run(
    run: Run, settings: VadSettings | None = None, workers: int | None = None, dask: str | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """One row a measurement for every case of the run, those without a recording included."""
    spans, faults = find_spans(run, settings or VadSettings(), workers, dask)
    return measure_spans(run, spans), [f"case {case_id}: {fault}" for case_id, fault in faults.items()]


def measure_spans(
    run: Run, spans: Mapping[str, Mapping[str, np.ndarray]], merge_gap_s: float | None = None
) -> pd.DataFrame:
    """The measurements of a run from the spans of its recordings (case -> channel -> (n, 2) seconds).

    merge_gap_s : spans closer than this are one utterance (None: the benchmark's own).
    """
    gap_s = run.benchmark.merge_gap_s if merge_gap_s is None else merge_gap_s
    frame = pd.DataFrame([row for case in run.cases.values() for row in case_rows(run, case, spans, merge_gap_s=gap_s)])
    frame["reason"] = frame["reason"].astype(object)
    return frame.assign(**{name: values for name, values in keys(frame).items() if name not in frame})


def score_run(
    run: Run,
    settings: VadSettings | None = None,
    thresholds: Mapping[str, float] | None = None,
    workers: int | None = None,
    dask: str | None = None,
) -> Scored:
    """Score a run and write scores/ (measurements and verdicts as Parquet and CSV, score.json).

    A run may be scored while it is still being recorded, so what is locked is its scores alone.

    Raises
    ------
    InputError : a threshold that is none, or another process scores the run.
    """
    settings = settings or VadSettings()
    limits = run.benchmark.limits(thresholds)
    with writing(run.scores):
        return _score(run, settings, limits, workers, dask)


def _score(
    run: Run, settings: VadSettings, limits: Mapping[str, float], workers: int | None, dask: str | None
) -> Scored:
    noted = run.marks()
    measurements, problems = measure_run(run, settings, workers, dask)
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
            "records": noted,
            "verdicts": {str(word): int(n) for word, n in verdicts["verdict"].value_counts().items()},
            "problems": problems,
        },
    )
    return Scored(measurements, verdicts, problems)


def add_judgements(run: Run, judgements: Mapping[str, pd.DataFrame]) -> None:
    """Put what judges said beside the measurements and decide again, for benchmarks whose verdicts rest on it.

    judgements : judge's name -> one row an item of each case. Without a benchmark's `join` nothing happens.

    Raises
    ------
    InputError : another process scores the run.
    """
    if run.benchmark.join is None or not (run.scores / SCORE).exists():
        return
    with writing(run.scores):
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
    write_csv((run.scores / name).with_suffix(".csv"), frame)


def summary_line(verdicts: pd.DataFrame) -> str:
    counts = verdicts["verdict"].value_counts()
    words = dict.fromkeys(("pass", "fail", "unmeasurable", *sorted(counts.index)))
    return json.dumps({word: int(counts.get(word, 0)) for word in words})
