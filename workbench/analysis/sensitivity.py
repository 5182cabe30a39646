"""Detector sensitivity: the same recordings under several detector settings, side by side.

Silero's probabilities are computed once a run and kept; each further threshold, minimum or merging
gap costs no inference. (They differ from the official ones by float rounding, 1.8e-4 at most as far as
seen; scoring itself settles windows within `workbench.silero.ROUNDING` with the official model.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

import numpy as np
import pandas as pd

from workbench import benchmarks, episodes
from workbench.cases import RATE_HZ
from workbench.errors import InputError
from workbench.files import write_atomically
from workbench.progress import meter
from workbench.runs import Run
from workbench.scoring import CHANNELS, find_spans, identity_of, same_recording
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
    """The run's measurements under one setting."""
    benchmark = benchmarks.get(run.meta.benchmark)
    spans = _spans(run, setting.vad, workers)
    gap_s = benchmark.merge_gap_s if setting.merge_gap_s is None else setting.merge_gap_s
    none, rows = np.empty((0, 2)), []
    recorded = set(run.recorded())
    for case_id, case in run.cases.items():
        if case_id not in recorded:
            rows += benchmark.unmeasured(case, "not_recorded")
            continue
        both = spans.get(case_id, {channel: none for channel in CHANNELS})
        record = run.record(case_id)
        rows += benchmark.measure(case, record, both["user"], both["agent"], merge_gap_s=gap_s)
    return pd.DataFrame(rows)


def sensitivity(
    run: Run,
    settings: tuple[Setting, ...] | None = None,
    thresholds: Mapping[str, float] | None = None,
    workers: int | None = None,
) -> pd.DataFrame:
    """One row a setting, compared with the first.

    Columns: passed, measured, rate; verdicts changed, pass to fail and fail to pass; cases whose
    onset exists under both, and by how much it moved (median and 90th percentile of |shift|, and
    the signed median, in ms); onsets found only here or only there.

    Raises
    ------
    InputError : fewer than two settings.
    """
    settings = settings or usual_settings()
    if len(settings) < 2:
        raise InputError("Sensitivity compares detector settings; give at least two.")
    benchmark = benchmarks.get(run.meta.benchmark)
    limits = dict(benchmark.defaults) | dict(thresholds or {})
    base: tuple[pd.DataFrame, pd.Series] | None = None
    rows = []
    for setting in settings:
        frame = measure_under(run, setting, workers)
        verdict = benchmark.verdicts(frame, limits)["verdict"]
        base = base or (frame, verdict)
        rows.append({"setting": setting.name, **_compare(base, (frame, verdict))})
    return pd.DataFrame(rows)


def _compare(base: tuple[pd.DataFrame, pd.Series], other: tuple[pd.DataFrame, pd.Series]) -> dict:
    (before, was), (after, now) = base, other
    passed, measured = int((now == "pass").sum()), int(now.isin(("pass", "fail")).sum())
    onset_before, onset_after = (pd.to_numeric(f["genuine_s"], errors="coerce").to_numpy() for f in (before, after))
    both = ~np.isnan(onset_before) & ~np.isnan(onset_after)
    shift_ms = (onset_after[both] - onset_before[both]) * 1000
    return {
        "passed": passed,
        "measured": measured,
        "rate": passed / measured if measured else None,
        "changed": int((was != now).sum()),
        "pass_to_fail": int(((was == "pass") & (now == "fail")).sum()),
        "fail_to_pass": int(((was == "fail") & (now == "pass")).sum()),
        "onsets": int(both.sum()),
        "onset_shift_median_ms": float(np.median(shift_ms)) if shift_ms.size else None,
        "onset_shift_abs_median_ms": float(np.median(np.abs(shift_ms))) if shift_ms.size else None,
        "onset_shift_abs_p90_ms": float(np.percentile(np.abs(shift_ms), 90)) if shift_ms.size else None,
        "onsets_gained": int((np.isnan(onset_before) & ~np.isnan(onset_after)).sum()),
        "onsets_lost": int((~np.isnan(onset_before) & np.isnan(onset_after)).sum()),
    }


def _spans(run: Run, vad: VadSettings, workers: int | None) -> dict[str, dict[str, np.ndarray]]:
    if vad.detector != "silero":
        return find_spans(run, vad, workers)[0]
    found: dict[str, dict[str, np.ndarray]] = {}
    for (case_id, channel), (values, samples) in probabilities(run, workers).items():
        found.setdefault(case_id, {})[channel] = spans_from_probabilities(values, samples, vad)
    return found


def probabilities(run: Run, workers: int | None = None) -> dict[tuple[str, str], tuple[np.ndarray, int]]:
    """Silero's speech probabilities of every channel: (case, channel) -> (float32 (windows,), samples at 16 kHz).

    Kept in spans/probabilities-VERSION.parquet; recordings made again are computed again.
    """
    path = run.spans / f"probabilities-{version('silero-vad')}.parquet"
    kept: dict[tuple[str, str], tuple[str, np.ndarray, int]] = {}
    if path.exists():
        for row in pd.read_parquet(path).itertuples():
            kept[row.case, row.channel] = (row.identity, np.asarray(row.probabilities, np.float32), int(row.samples))
    identities = {case_id: identity_of(run, case_id) for case_id in run.recorded()}
    stale = [
        case_id
        for case_id, identity in identities.items()
        if any(not same_recording(kept.get((case_id, channel), ("",))[0], identity) for channel in CHANNELS)
        and run.record(case_id).status == "complete"
    ]

    def channels() -> Iterator[tuple[str, np.ndarray, int]]:
        for case_id in stale:
            stereo = episodes.load_audio(run.episodes, run.record(case_id))
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
    return {key: (values, samples) for key, (identity, values, samples) in kept.items() if key[0] in identities}
