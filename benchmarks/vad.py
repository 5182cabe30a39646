"""Throughput of voice activity detection against Silero's own ways, in one run.

    python benchmarks/vad.py [--channels 64] [--seconds 30] [--rounds 5]

Every way gets the same 16 kHz channels and settings and must return the same spans. The ways take
turns within each round, so a busy machine slows all of them, and the median round counts. The
official one-at-a-time call is slow, so each round gives it another subset of the channels and its
throughput is taken from those: an extrapolation, sound because its cost depends only on length.
The last line is `vad ratio=<ours / official one at a time> goal=10 ok|short`; short also when ours
is more than 3 % slower than the better pool of the official sequence model, or any span differs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import soxr
import torch
from hibari import Hibari
from silero_vad import get_speech_timestamps, get_speech_timestamps_sequence, load_silero_vad

from workbench import silero, vad
from workbench.vad import RATE_HZ, VadSettings

GOAL = 10
SPEECH_HZ = 24_000
SENTENCES = (
    "Hello there, could you help me plan a trip to Lisbon next month?",
    "Sure, I can do that.",
    "Mhm.",
    "What is the weather like in the spring, and do I need a coat?",
    "Okay, yeah, that sounds right to me.",
    "Wait, actually, can you stop for a second?",
    "The quick brown fox jumps over the lazy dog near the river bank.",
    "Please list three reasons to learn a second language.",
)


def build(n_channels: int, seconds: float, seed: int = 0) -> np.ndarray:
    """Sentences with pauses of 0.2 to 2.5 s, gains of -20 to 0 dB and noise: float32 (channels, samples), 24 kHz."""
    voice = Hibari()
    clips = [voice(text, seed=i) for i, text in enumerate(SENTENCES)]
    rng = np.random.default_rng(seed)
    n_samples = round(seconds * SPEECH_HZ)
    channels = np.zeros((n_channels, n_samples), np.float32)
    for channel in channels:
        at = int(rng.uniform(0.1, 2) * SPEECH_HZ)
        while True:
            clip = clips[rng.integers(len(clips))][: n_samples - at]  # some channels end in speech
            channel[at : at + len(clip)] += clip * 10 ** (rng.uniform(-20, 0) / 20)
            at += len(clip) + int(rng.uniform(0.2, 2.5) * SPEECH_HZ)
            if at >= n_samples:
                break
        channel += rng.normal(0, 10 ** (rng.uniform(-80, -45) / 20), n_samples).astype(np.float32)
    return channels


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def in_samples(spans: np.ndarray) -> list[dict]:
    return [{"start": round(a * RATE_HZ), "end": round(b * RATE_HZ)} for a, b in spans]


def stages(channels: list[np.ndarray], audio_24k: np.ndarray, seconds: float) -> list[tuple[str, float]]:
    """x real time of each stage of ours alone, in one thread."""
    settings, blocks = VadSettings(), silero._forward()
    windows = [
        torch.from_numpy(np.pad(c, (64, -len(c) % 512))).unfold(0, 576, 512).split(silero._BLOCK_WINDOWS)
        for c in channels
    ]
    with torch.inference_mode():
        encode_s, features = timed(lambda: [torch.cat([blocks.encode(b) for b in w]) for w in windows])
        recur_s, _ = timed(lambda: [blocks.recurrent(f[None]) for f in features])
    probabilities = [silero.window_probabilities(c) for c in channels]
    segment_s, _ = timed(
        lambda: [
            vad.spans_from_probabilities(p, len(c), settings) for p, c in zip(probabilities, channels, strict=True)
        ]
    )
    resample_s, _ = timed(lambda: [soxr.resample(c, SPEECH_HZ, RATE_HZ) for c in audio_24k[: len(channels)]])
    total_s = seconds * len(channels)
    return [
        ("spectrum and convolutions", total_s / encode_s),
        ("recurrence", total_s / recur_s),
        ("segmentation", total_s / segment_s),
        ("resampling from 24 kHz", total_s / resample_s),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--subset", type=int, default=6, help="channels a round for the official one-at-a-time call")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", category=DeprecationWarning)

    settings = VadSettings()
    official_arguments = {
        "threshold": settings.threshold,
        "min_speech_duration_ms": settings.min_speech_ms,
        "min_silence_duration_ms": settings.min_silence_ms,
        "speech_pad_ms": settings.speech_pad_ms,
    }
    audio_24k = build(args.channels, args.seconds)
    channels = [soxr.resample(c, SPEECH_HZ, RATE_HZ).astype(np.float32) for c in audio_24k]
    scripted, sequence = load_silero_vad(), load_silero_vad(sequence=True)

    def one_at_a_time(chosen: list[int]) -> list:
        return [get_speech_timestamps(torch.from_numpy(channels[i]), scripted, **official_arguments) for i in chosen]

    def pooled(threads: int) -> list:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda c: get_speech_timestamps_sequence(c, sequence, **official_arguments), channels))

    def ours(samples: list[np.ndarray] | np.ndarray, rate_hz: int, workers: int | None = None) -> list:
        return [s for _, s in vad.detect(((str(i), c, rate_hz) for i, c in enumerate(samples)), settings, workers)]

    ways: dict[str, Callable[[], list]] = {
        "official sequence model, pool of 2": lambda: pooled(2),
        "official sequence model, pool of 4": lambda: pooled(4),
        "ours, 1 worker": lambda: ours(channels, RATE_HZ, 1),
        "ours": lambda: ours(channels, RATE_HZ),
        "ours, from 24 kHz": lambda: ours(audio_24k, SPEECH_HZ),
    }
    first = "official call, one at a time"
    speeds: dict[str, list[float]] = {name: [] for name in (first, *ways)}
    for warm in (lambda: one_at_a_time([0]), *ways.values()):
        warm()

    total_s = args.channels * args.seconds
    checked, differing = set(), set()
    for round_ in range(args.rounds):
        chosen = [(round_ * args.subset + i) % args.channels for i in range(min(args.subset, args.channels))]
        spent_s, reference = timed(lambda chosen=chosen: one_at_a_time(chosen))
        speeds[first].append(len(chosen) * args.seconds / spent_s)
        results = {}
        for name, work in ways.items():
            spent_s, results[name] = timed(work)
            speeds[name].append(total_s / spent_s)
        mine = [in_samples(s) for s in results["ours"]]
        differing |= {i for i, spans in zip(chosen, reference, strict=True) if mine[i] != spans}
        differing |= {i for i in range(args.channels) if mine[i] != results["official sequence model, pool of 2"][i]}
        checked |= set(chosen)

    asked: list[int] = []
    settle = silero.settle
    silero.settle = lambda *given: (asked.append(1), settle(*given))[1]
    ours(channels, RATE_HZ)
    silero.settle = settle
    speech_s = sum(float((s[:, 1] - s[:, 0]).sum()) for s in results["ours"])

    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(
        f"{args.channels} channels of {args.seconds:g} s, {100 * speech_s / total_s:.0f} % speech, "
        f"{args.rounds} rounds, {cpus} CPUs; x real time, median (lowest - highest)"
    )
    for name, values in speeds.items():
        note = f"   from {len(chosen)} channels a round" if name == first else ""
        print(f"  {name:<36}{statistics.median(values):7.0f} ({min(values):.0f} - {max(values):.0f}){note}")
    print("our stages alone, one thread, x real time")
    measured = stages(channels[:16], audio_24k, args.seconds)
    for name, speed in measured:
        print(f"  {name:<36}{speed:7.0f}")
    print(
        f"spans: {len(checked)} channels compared with the official call, all {args.channels} with the sequence model, "
        f"{len(differing)} differ; {len(asked)} needed the official model for a doubtful window"
    )
    middle = {name: statistics.median(values) for name, values in speeds.items()}
    window_us = {name: 1e6 * silero.WINDOW_SAMPLES / RATE_HZ / middle[name] for name in (first, "ours, 1 worker")}
    slowest = min(measured, key=lambda stage: stage[1])[0]
    print(
        f"limit: arithmetic in '{slowest}', so it grows with the cores. A window costs "
        f"{window_us['ours, 1 worker']:.0f} us in one thread; in the official call, which makes each operation for "
        f"one window at a time, {window_us[first]:.0f} us"
    )
    ratio = middle["ours"] / middle[first]
    pool = max(middle["official sequence model, pool of 2"], middle["official sequence model, pool of 4"])
    good = ratio >= GOAL and middle["ours"] >= 0.97 * pool and not differing
    print(f"against the better sequence pool: {middle['ours'] / pool:.2f}")
    print(f"vad ratio={ratio:.1f} goal={GOAL} {'ok' if good else 'short'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
