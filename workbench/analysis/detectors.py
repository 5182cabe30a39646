"""Detector sensitivity: the same recordings under several detector settings, side by side.

Silero's probabilities are computed once a run and kept; each further threshold, minimum or merging
gap costs no inference. (They differ from the official ones by float rounding, 1.8e-4 at most as far as
seen; scoring itself settles windows within `workbench.silero.ROUNDING` with the official model.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from workbench import episodes
from workbench.cases import RATE_HZ
from workbench.contract import KEYS
from workbench.deciding import Decider, keys, latency
from workbench.errors import InputError
from workbench.files import data_path, write_atomically
from workbench.progress import meter
from workbench.runs import Run, with_judgements
from workbench.scoring import CHANNELS, find_spans, identity_of, measure_spans, same_recording
from workbench.statistics import outcomes, rate_columns
from workbench.vad import VadSettings, detect, spans_from_probabilities, speech_probabilities


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

    Columns: setting, metric ('' for benchmarks with one); rate, passed, measured, low, high, conversations and
    note (an interval over conversations); verdicts changed, pass to fail and fail to pass, and rows that are
    measured only here or only there; rows whose latency exists under both, and by how much it moved (median and
    90th percentile of |shift|, and the signed median, in ms); latencies found only here or only there; how late
    the detector under this setting finds an onset and an offset of known speech (`bias`, in ms; null where it has
    not been measured), which is part of every latency beside it. Latency is what each row's rule names as such.

    Raises
    ------
    InputError : fewer than two settings, an unknown threshold.
    """
    settings = settings or usual_settings()
    if len(settings) < 2:
        raise InputError("Sensitivity compares detector settings; give at least two.")
    limits = run.limits(thresholds)
    conversation = {case_id: case.conversation for case_id, case in run.cases.items()}
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
        both["conversation"] = both["case"].map(conversation)
        late = {f"detector_{edge}_median_ms": stated_ms(setting.vad, edge) for edge in EDGES}
        rows += [
            {"setting": setting.name, "metric": metric, **_compare(part), **late}
            for metric, part in both.groupby("metric")
        ]
    return pd.DataFrame(rows)


def _compare(both: pd.DataFrame) -> dict:
    was, now = both["verdict_before"], both["verdict"]
    measured_before, measured_now = was.isin(("pass", "fail")), now.isin(("pass", "fail"))
    before, after = both["latency_s_before"].to_numpy(float), both["latency_s"].to_numpy(float)
    there = ~np.isnan(before) & ~np.isnan(after)
    shift_ms = (after[there] - before[there]) * 1000
    return {
        **rate_columns(outcomes(now), both["conversation"]),
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
    with suppress(OSError, ValueError, AttributeError):  # a cache that is not there, or damaged, is made anew
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


BELOW_PEAK_DB = 35.0
"""Speech is taken to begin and end where its level passes this far below its loudest 10 ms."""
EDGES = ("onset", "offset")


def level_edges(samples: np.ndarray, rate_hz: int, below_peak_db: float = BELOW_PEAK_DB) -> tuple[float, float]:
    """First and last second at which a clip is within `below_peak_db` of its loudest 10 ms.

    Parameters
    ----------
    samples : float, shape (samples,), one utterance with nothing else in it.

    Returns
    -------
    Onset and offset in seconds, to 1 ms: the level is the root mean square of 10 ms, taken every 1 ms and
    reckoned to the middle.

    Raises
    ------
    InputError : a clip of silence, or one shorter than 10 ms.

    Examples
    --------
    >>> tone = np.sin(2 * np.pi * 200 * np.arange(16_000) / 16_000)
    >>> level_edges(np.concatenate([np.zeros(8_000), tone, np.zeros(8_000)]), 16_000, below_peak_db=3)
    (0.501, 1.499)
    """
    power = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=float))])
    step, frame = rate_hz // 1000, rate_hz // 100
    starts = np.arange(0, len(samples) - frame + 1, step)
    level = power[starts + frame] - power[starts]
    if not len(level) or not level.max() > 0:
        raise InputError("The clip holds no sound of 10 ms, so it has no edges; give one utterance.")
    loud = np.flatnonzero(level >= level.max() * 10 ** (-below_peak_db / 10)) * step + frame / 2
    return round(float(loud[0]) / rate_hz, 3), round(float(loud[-1]) / rate_hz, 3)


def bias(clips: Sequence[tuple[np.ndarray, int]], settings: VadSettings | None = None) -> dict[str, dict[str, Any]]:
    """Detected edges less those of the sound, in milliseconds; positive is late.

    Parameters
    ----------
    clips : (samples (n,), rate in Hz), one utterance each between silences of half a second or more.

    Returns
    -------
    'onset' and 'offset' -> median_ms, p10_ms, p90_ms, most_ms (the farthest from 0, signed), clips (with
    speech found) and missed. An edge is that of the first or last span, so pauses do not matter.
    """
    given = [(str(at), samples, rate_hz) for at, (samples, rate_hz) in enumerate(clips)]
    truth = [level_edges(samples, rate_hz) for samples, rate_hz in clips]
    found = [spans for _, spans in detect(given, settings)]
    heard = [(spans[0, 0], spans[-1, 1], *edges) for spans, edges in zip(found, truth, strict=True) if len(spans)]
    late = 1000 * np.array([(start - onset, end - offset) for start, end, onset, offset in heard]).reshape(-1, 2)
    out = {}
    for name, values in zip(EDGES, late.T, strict=True):
        figures: dict[str, Any] = dict.fromkeys(("median_ms", "p10_ms", "p90_ms", "most_ms"))
        if len(values):
            low, middle, high = np.percentile(values, [10, 50, 90]).round(1).tolist()
            most = round(float(values[np.abs(values).argmax()]), 1)
            figures = {"median_ms": middle, "p10_ms": low, "p90_ms": high, "most_ms": most}
        out[name] = figures | {"clips": len(values), "missed": len(found) - len(values)}
    return out


def stated() -> pd.DataFrame:
    """What was measured: one row a detector, padding, rate and edge, with the figures of `bias`."""
    return pd.DataFrame(_kept()["rows"])


def stated_ms(settings: VadSettings, edge: str, rate_hz: int = 24_000) -> float | None:
    """Median of how late a detector finds an edge, as measured; None where this setting has not been.

    >>> stated_ms(VadSettings(), "onset"), stated_ms(VadSettings(speech_pad_ms=500), "onset")
    (-7.0, None)
    """
    frame = stated()
    at = (frame["settings"] == settings_key(settings)) & (frame["rate_hz"] == rate_hz) & (frame["edge"] == edge)
    return float(frame.loc[at, "median_ms"].iloc[0]) if at.any() else None


def sentence(settings: VadSettings | Mapping[str, Any], rate_hz: int = 24_000) -> str:
    """What to say beside a latency limit measured by this detector. settings : or the `vad` of a score.json.

    Examples
    --------
    >>> sentence(VadSettings(speech_pad_ms=500))
    'The bias of this detector setting has not been measured; run benchmarks/detector_bias.py.'
    """
    frame = stated()
    rows = frame[(frame["settings"] == settings_key(settings)) & (frame["rate_hz"] == rate_hz)].set_index("edge")
    if rows.empty:
        return "The bias of this detector setting has not been measured; run benchmarks/detector_bias.py."
    words = [
        f"{edge}s {abs(row['median_ms']):.0f} ms {'late' if row['median_ms'] >= 0 else 'early'} "
        f"({row['p10_ms']:+.0f} to {row['p90_ms']:+.0f} ms in 8 of 10 clips)"
        for edge, row in rows.iterrows()
    ]
    return (
        f"The detector itself finds {' and '.join(words)}, median of {rows['clips'].iloc[0]} clips at {rate_hz} Hz "
        f"against {BELOW_PEAK_DB:.0f} dB below the loudest 10 ms."
    )


def settings_key(settings: VadSettings | Mapping[str, Any]) -> str:
    """The settings that differ from the default, as text; '' for the default."""
    given, usual = dict(settings), VadSettings().model_dump()
    return ", ".join(f"{name} {given[name]}" for name in usual if given.get(name, usual[name]) != usual[name])


def _kept() -> Mapping[str, Any]:
    return json.loads(data_path("detector_bias.json").read_text(encoding="utf-8"))
