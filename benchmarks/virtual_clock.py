"""How much faster than real time the virtual clock runs a scripted agent on one core, recording included.

    python benchmarks/virtual_clock.py

The baseline is the wall clock: the same episode code, agent and case, run once in real time in this
very run. The figure is seconds of session per second of CPU, of one process.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from workbench import datasets, episodes
from workbench.agents.registry import factory
from workbench.contract import BuildOptions, get
from workbench.runners.episode import run_episode
from workbench.runners.guard import VirtualClock, WallClock

GOAL = 20
CASES = 24


def main() -> None:
    benchmark = get("ifeval")
    with tempfile.TemporaryDirectory() as folder:
        benchmark.build(BuildOptions(Path(folder) / "dataset", limit=CASES))
        dataset = datasets.load(Path(folder) / "dataset")
        make = factory("oracle", benchmark=benchmark)
        out = Path(folder) / "episodes"
        first = dataset.cases[0]

        def play(case, clock) -> float:
            result = asyncio.run(run_episode(case, dataset.clips(case), make, clock))
            episodes.save(out, result.record, result.stereo, result.delivered)
            return result.record.duration_s

        for case in dataset.cases:  # warm-up: the agent's lines are synthesised and cached
            play(case, VirtualClock)
        began, cpu = time.perf_counter(), time.process_time()
        session_s = sum(play(case, VirtualClock) for case in dataset.cases)
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu

        began = time.perf_counter()
        real_s = play(first, WallClock)
        real_wall_s = time.perf_counter() - began

    print(f"virtual clock  {session_s:7.1f} s of session in {wall_s:6.2f} s ({cpu_s:.2f} s CPU), {CASES} cases, saved")
    print(f"wall clock     {real_s:7.1f} s of session in {real_wall_s:6.2f} s, 1 case")
    ratio = (session_s / max(wall_s, cpu_s)) / (real_s / real_wall_s)
    print(f"virtual_clock ratio={ratio:.0f} goal={GOAL} {'ok' if ratio >= GOAL else 'short'}")


if __name__ == "__main__":
    main()
