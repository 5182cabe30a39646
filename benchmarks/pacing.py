"""How well frames keep their deadlines when many real-time sessions run at once in one process.

    python benchmarks/pacing.py [--seconds 8] [--sessions 1 4 16 32] [--rounds 3]

A loopback OpenAI Realtime server runs in a process of its own and answers every turn; the sessions
are real ones, through the `openai` client, the episode and the recorder. The figure of a frame is
how late it left (`sends.late_s` of the record). Rounds take turns, so that a busy moment of the
machine falls on every size; the median round counts, and the spread is shown. "One at a time" is
what the recordings last together: real time cannot be hurried, so nothing slower than that counts
as saved. The last line is `pacing ratio=<10 ms / p99 with 16 sessions> goal=1 ok|short`; short also
when a session failed or a recording's user side is not what was to be played.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from workbench.agents.openai import OpenAIRealtime
from workbench.cases import RATE_HZ, AfterGap, AtTime, Case, Cue, Ending
from workbench.runners.episode import Result, run_episode
from workbench.runners.guard import WallClock

GOAL_MS = 10.0
MEASURED_AT = 16
SERVER = Path(__file__).parents[1] / "tests" / "agents" / "servers" / "openai_realtime.py"


def clip(seconds: float, seed: int) -> np.ndarray:
    """Noise as loud as speech: int16 (samples,) at 24 kHz."""
    return (np.random.default_rng(seed).standard_normal(round(seconds * RATE_HZ)) * 3000).astype(np.int16)


CLIPS = {"turn_1": clip(1.2, 1), "turn_2": clip(1.0, 2)}


def case(index: int, seconds: float) -> Case:
    """Two turns at fixed times, so that every recording lasts the same and is known in advance."""
    left_s = seconds - 0.2 - 1.2 - 1.5 - 1.0
    return Case(
        id=f"case_{index}",
        benchmark="pacing",
        conversation="c",
        stream="s",
        cues=(
            Cue(id="turn_1", text="", start=AtTime(time_s=0.2)),
            Cue(id="turn_2", text="", start=AfterGap(gap_s=1.5)),
        ),
        ending=Ending(tail_s=max(0.5, left_s), max_wait_s=1.0, flush_s=0.1),
    )


def wrong(result: Result) -> str:
    """Why a recording does not count; '' when it does."""
    if result.record.status != "complete":
        return result.record.error.message
    expected = np.zeros(result.stereo.shape[0], np.int16)
    for cue in result.record.cues:
        at = round(cue.start_s * RATE_HZ)
        expected[at : at + CLIPS[cue.id].size] += CLIPS[cue.id]
    if not np.array_equal(expected, result.stereo[:, 0]):
        return "the user's side is not what was to be played"
    return "" if result.record.deliveries else "the server never answered"


async def together(url: str, sessions: int, seconds: float) -> tuple[list[float], float, float, list[str]]:
    """(late by ms of every frame, wall seconds, seconds recorded, what went wrong)."""
    began = time.monotonic()

    def agent() -> OpenAIRealtime:
        return OpenAIRealtime("loopback", base_url=url, handshake_s=30)

    results = await asyncio.gather(
        *(run_episode(case(index, seconds), CLIPS, agent, WallClock) for index in range(sessions))
    )
    wall_s = time.monotonic() - began
    late_ms = [1000 * late_s for result in results for late_s in result.record.sends.late_s]
    recorded_s = sum(result.record.duration_s for result in results)
    return late_ms, wall_s, recorded_s, [reason for result in results if (reason := wrong(result))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 4, 16, 32])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    sizes = sorted({*args.sessions, MEASURED_AT})

    server = subprocess.Popen([sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    rounds: dict[int, list[tuple[float, float, float, float, float]]] = {size: [] for size in sizes}
    problems: list[str] = []
    try:
        url = server.stdout.readline().strip()
        asyncio.run(together(url, 1, 1.0))  # imports and first connections
        for _ in range(args.rounds):
            for size in sizes:
                late_ms, wall_s, recorded_s, bad = asyncio.run(together(url, size, args.seconds))
                problems += bad
                p50, p99 = np.percentile(late_ms, [50, 99])
                rounds[size].append((float(p50), float(p99), max(late_ms), wall_s, recorded_s))
    finally:
        server.stdin.close()
        server.wait(timeout=10)

    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{args.rounds} rounds, {cpus} CPUs{load}; ms behind the deadline, median round (lowest - highest of p99)")
    columns = ("sessions", "p50", "p99", "max", "p99 spread", "wall s", "one at a time s", "saved")
    print("{:>8} {:>7} {:>7} {:>7} {:>16} {:>8} {:>16} {:>6}".format(*columns))
    for size, values in rounds.items():
        p50, p99, worst, wall_s, recorded_s = (statistics.median(column) for column in zip(*values, strict=True))
        spread = [value[1] for value in values]
        saved = max(0.0, 1 - wall_s / recorded_s)
        print(
            f"{size:>8} {p50:>7.2f} {p99:>7.2f} {worst:>7.2f} {min(spread):>7.2f} -{max(spread):>7.2f} "
            f"{wall_s:>8.1f} {recorded_s:>16.1f} {100 * saved:>5.0f}%"
        )
    for reason in sorted(set(problems)):
        print(f"failed: {problems.count(reason)} sessions: {reason}")
    p99_ms = statistics.median(value[1] for value in rounds[MEASURED_AT])
    ratio = GOAL_MS / max(p99_ms, 1e-3)
    print(f"pacing ratio={ratio:.1f} goal=1 {'ok' if ratio >= 1 and not problems else 'short'}")
    return 0 if ratio >= 1 and not problems else 1


if __name__ == "__main__":
    sys.exit(main())
