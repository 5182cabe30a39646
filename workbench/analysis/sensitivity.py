"""Detector sensitivity: the same recordings under several detector settings, side by side.

Silero's probabilities are computed once a run and kept; each further threshold, minimum or merging
gap costs no inference. (They differ from the official ones by float rounding, 1.8e-4 at most as far as
seen; scoring itself settles windows within `workbench.silero.ROUNDING` with the official model.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version

import numpy as np
import pandas as pd

from workbench import episodes
from workbench.cases import RATE_HZ
from workbench.contract import KEYS
from workbench.deciding import Decider, keys, latency
from workbench.errors import InputError
from workbench.files import write_atomically
from workbench.progress import meter
from workbench.runs import Run, with_judgements
from workbench.scoring import CHANNELS, find_spans, identity_of, measure_spans, same_recording
from workbench.vad import VadSettings, spans_from_probabilities, speech_probabilities


@dataclass(frozen=True)
class Setting:
    """One detector setting: VAD and the gap under which spans merge (None: the benchmark's own)."""

    name: str
    vad: VadSettings = field(default_factory=VadSettings)
    merge_gap_s: float | None = None


def usual_settings() -> tuple[Setting, ...]:
    """The default and one change at a time: threshold, minimum speech and silence, merging gap, detector."""
    return (
        Setting("default"),
        Setting("threshold 0.3", VadSettings(threshold=0.3)),
        Setting("threshold 0.7", VadSettings(threshold=0.7)),
        Setting("min speech 30 ms", VadSettings(min_speech_ms=30)),
        Setting("min speech 250 ms", VadSettings(min_speech_ms=250)),
        Setting("min silence 30 ms", VadSettings(min_silence_ms=30)),
        Setting("min silence 250 ms", VadSettings(min_silence_ms=250)),
        Setting("merge gap 0.1 s", merge_gap_s=0.1),
        Setting("merge gap 0.5 s", merge_gap_s=0.5),
        Setting("energy detector", VadSettings(detector="energy")),
    )


def measure_under(run: Run, setting: Setting, workers: int | None = None) -> pd.DataFrame:
    """The run's measurements under one setting; a recording that cannot be read is unmeasurable, not silent."""
    spans = _spans(run, setting.vad, workers)
    return with_judgements(run.scores, measure_spans(run, spans, setting.merge_gap_s))


def sensitivity(
    run: Run,
    settings: tuple[Setting, ...] | None = None,
    thresholds: Mapping[str, float] | None = None,
    workers: int | None = None,
) -> pd.DataFrame:
    """One row a setting and metric, compared with the first setting.

    thresholds : those that differ from the ones that the run was scored with. Benchmarks whose rows are of
    several metrics have a row each, since these have denominators of their own.

    Columns: setting, metric ('' for benchmarks with one); passed, measured, rate; verdicts changed, pass to fail
    and fail to pass, and rows that are measured only here or only there; rows whose latency exists under both,
    and by how much it moved (median and 90th percentile of |shift|, and the signed median, in ms); latencies
    found only here or only there. Latency is what each row's rule names as such.

    Raises
    ------
    InputError : fewer than two settings, an unknown threshold.
    """
    settings = settings or usual_settings()
    if len(settings) < 2:
        raise InputError("Sensitivity compares detector settings; give at least two.")
    limits = run.limits(thresholds)
    base: pd.DataFrame | None = None
    rows = []
    for setting in settings:
        frame = measure_under(run, setting, workers)
        now = keys(frame).assign(
            verdict=Decider(run.benchmark, frame).verdicts(limits)["verdict"].to_numpy(),
            latency_s=latency(run.benchmark, frame),
        )
        base = now if base is None else base
        both = base.merge(now, on=list(KEYS), how="outer", suffixes=("_before", ""))
        rows += [
            {"setting": setting.name, "metric": metric, **_compare(part)} for metric, part in both.groupby("metric")
        ]
    return pd.DataFrame(rows)


def _compare(both: pd.DataFrame) -> dict:
    was, now = both["verdict_before"], both["verdict"]
    measured_before, measured_now = was.isin(("pass", "fail")), now.isin(("pass", "fail"))
    passed, measured = int((now == "pass").sum()), int(measured_now.sum())
    before, after = both["latency_s_before"].to_numpy(float), both["latency_s"].to_numpy(float)
    there = ~np.isnan(before) & ~np.isnan(after)
    shift_ms = (after[there] - before[there]) * 1000
    return {
        "passed": passed,
        "measured": measured,
        "rate": passed / measured if measured else None,
        "changed": int((was != now).sum()),
        "pass_to_fail": int(((was == "pass") & (now == "fail")).sum()),
        "fail_to_pass": int(((was == "fail") & (now == "pass")).sum()),
        "measured_only_here": int((measured_now & ~measured_before).sum()),
        "measured_only_there": int((measured_before & ~measured_now).sum()),
        "onsets": int(there.sum()),
        "onset_shift_median_ms": float(np.median(shift_ms)) if shift_ms.size else None,
        "onset_shift_abs_median_ms": float(np.median(np.abs(shift_ms))) if shift_ms.size else None,
        "onset_shift_abs_p90_ms": float(np.percentile(np.abs(shift_ms), 90)) if shift_ms.size else None,
        "onsets_gained": int((np.isnan(before) & ~np.isnan(after)).sum()),
        "onsets_lost": int((~np.isnan(before) & np.isnan(after)).sum()),
    }


def _spans(run: Run, vad: VadSettings, workers: int | None) -> dict[str, dict[str, np.ndarray]]:
    """Spans by case and channel; a case whose recording cannot be read has none."""
    if vad.detector != "silero":
        return find_spans(run, vad, workers)[0]
    found: dict[str, dict[str, np.ndarray]] = {}
    for (case_id, channel), (each, samples) in probabilities(run, workers).items():
        found.setdefault(case_id, {})[channel] = spans_from_probabilities(each, samples, vad)
    return found


def probabilities(run: Run, workers: int | None = None) -> dict[tuple[str, str], tuple[np.ndarray, int]]:
    """Silero's speech probabilities: (case, channel) -> (float32 (windows,), samples at 16 kHz).

    Kept in spans/probabilities-VERSION.parquet; recordings made again are computed again. A recording that
    cannot be read is left out.
    """
    path = run.spans / f"probabilities-{version('silero-vad')}.parquet"
    kept: dict[tuple[str, str], tuple[str, np.ndarray, int]] = {}
    if path.exists():
        for row in pd.read_parquet(path).itertuples():
            kept[row.case, row.channel] = (row.identity, np.asarray(row.probabilities, np.float32), int(row.samples))
    identities = {case_id: identity_of(run, case_id) for case_id in run.recorded()}
    stale = []
    for case_id, identity in identities.items():
        if all(same_recording(kept.get((case_id, channel), ("",))[0], identity) for channel in CHANNELS):
            continue
        kept = {key: value for key, value in kept.items() if key[0] != case_id}
        with suppress(InputError):
            if run.record(case_id).status == "complete":
                stale.append(case_id)

    def channels() -> Iterator[tuple[str, np.ndarray, int]]:
        for case_id in stale:
            try:
                stereo = episodes.load_audio(run.episodes, run.record(case_id))
            except InputError:
                continue
            for index, channel in enumerate(CHANNELS):
                yield f"{case_id}/{channel}", stereo[:, index], RATE_HZ

    if stale:
        with meter("speech probabilities", 2 * len(stale)) as progress:
            for name, values, samples in speech_probabilities(channels(), workers):
                case_id, channel = name.rsplit("/", 1)
                kept[case_id, channel] = (identities[case_id], values, samples)
                progress.step()
        rows = [
            {"case": case, "channel": channel, "identity": identity, "samples": samples, "probabilities": values}
            for (case, channel), (identity, values, samples) in sorted(kept.items())
        ]
        write_atomically(path, lambda part: pd.DataFrame(rows).to_parquet(part, index=False))
    return {key: (each, samples) for key, (_, each, samples) in kept.items() if key[0] in identities}
