"""180 threshold settings x 1,038 cases x 6 systems: the vectorised rule against a plain loop over cases.

    python benchmarks/decide.py

The loop applies the same rules case by case in Python, timed on a share of the settings and checked
against the vectorised verdicts; its time is scaled to all of them, and the output says so.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd

from workbench.benchmarks.ifeval import BENCHMARK
from workbench.benchmarks.ifeval.cases import ACTIONS
from workbench.benchmarks.ifeval.check import BY_ACTION
from workbench.contract import PASS
from workbench.deciding import Decider, grid

GOAL = 50
GOAL_S = 0.5
SYSTEMS = 6
LOOP_SETTINGS = 12


def made_up(seed: int) -> pd.DataFrame:
    """Measurements of six systems on the full grid, drawn at random around the thresholds."""
    random = np.random.default_rng(seed)
    action = np.concatenate([np.repeat(name, BY_ACTION[name] * SYSTEMS) for name in ACTIONS])
    n = len(action)

    def sometimes(values: np.ndarray, share: float) -> np.ndarray:
        return np.where(random.random(n) < share, values, np.nan)

    starting = random.integers(0, 5, n).astype(float)
    return pd.DataFrame(
        {
            "action": action,
            "reason": np.where(random.random(n) < 0.97, None, "no_audio"),
            "genuine_s": sometimes(random.gamma(2, 0.8, n), 0.8),
            "off_s": sometimes(random.gamma(2, 0.4, n), 0.8),
            "speaking_at_w0": random.random(n) < 0.7,
            "starting": starting,
            "touching": starting + random.integers(0, 2, n),
            "longest_s": sometimes(random.gamma(2, 0.5, n), 0.8),
            "user_goes_on": random.random(n) < 0.8,
            "overlap_s": np.maximum(0, random.normal(0.3, 0.5, n)),
            "coverage": random.random(n),
            "own_max_wait_s": np.where(random.random(n) < 0.25, 2.5, np.nan),
        }
    )


def plain_loop(table: dict[str, np.ndarray], settings: dict[str, float]) -> list[bool]:
    out = []
    for i in range(len(table["action"])):
        if isinstance(table["reason"][i], str):
            out.append(False)
            continue
        action = table["action"][i]
        if action in ("LISTEN", "NO_BACKCHANNEL"):
            verdict = table["touching"][i] == 0
        elif action == "TAKE_TURN":
            own = table["own_max_wait_s"][i]
            verdict = table["genuine_s"][i] <= (settings["max_wait_s"] if np.isnan(own) else own)
        elif action == "BACKCHANNEL":
            verdict = (
                table["longest_s"][i] < settings["backchannel_max_s"]
                and table["starting"][i] >= 1
                and table["user_goes_on"][i]
                and table["touching"][i] <= settings["bc_window_max"]
            )
        elif action == "INTERRUPT":
            verdict = round(table["genuine_s"][i] * 1000, 3) <= settings["interrupt_latency_ms"]
        elif action == "READBACK":
            verdict = table["coverage"][i] >= settings["readback_coverage"]
        elif action == "ACCEPT_OVERLAP":
            verdict = table["overlap_s"][i] > 0
        else:
            yielded = round(table["off_s"][i] * 1000, 3) <= settings["yield_latency_ms"]
            verdict = yielded if action == "YIELD" else not yielded
        out.append(bool(verdict))
    return out


def main() -> None:
    frame = made_up(seed=7)
    decider, settings = Decider(BENCHMARK, frame), grid(BENCHMARK)
    count, axes = len(settings), {name: settings[name].to_numpy() for name in settings}
    decider.states(axes)  # warm-up
    times = []
    for _ in range(7):
        began = time.perf_counter()
        passed = decider.states(axes) == PASS
        times.append(time.perf_counter() - began)
    ours_s = float(np.median(times))

    table = {name: frame[name].to_numpy() for name in frame}
    chosen = np.linspace(0, count - 1, LOOP_SETTINGS).astype(int)
    began = time.perf_counter()
    for index in chosen:
        one = BENCHMARK.limits(settings.iloc[index].to_dict())
        if plain_loop(table, one) != passed[index].tolist():
            raise SystemExit(f"the two rules differ at setting {index}: {one}")
    loop_s = (time.perf_counter() - began) * count / LOOP_SETTINGS

    print(f"{count} settings x {len(frame)} cases ({SYSTEMS} systems)")
    print(f"vectorised  {ours_s * 1000:8.1f} ms (median of {len(times)}, goal under {GOAL_S * 1000:.0f} ms)")
    print(f"plain loop  {loop_s * 1000:8.0f} ms (from {LOOP_SETTINGS} settings, scaled; verdicts equal)")
    ratio = loop_s / ours_s
    print(f"decide ratio={ratio:.0f} goal={GOAL} {'ok' if ratio >= GOAL and ours_s < GOAL_S else 'short'}")


if __name__ == "__main__":
    main()
