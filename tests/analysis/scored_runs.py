"""Tiny scored runs without audio, made by hand: a built manifest, chosen measurements, real verdicts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from workbench import datasets
from workbench.benchmarks import ifeval
from workbench.cases import Case
from workbench.contract import BuildOptions
from workbench.deciding import Decider, keys
from workbench.files import write_json
from workbench.runs import MEASUREMENTS, SCORE, VERDICTS, RunMeta, save_meta
from workbench.vad import VadSettings
from workbench.version import SCORER, VERSION

W0, W1 = 10.0, 14.0
HOSTILE = "<script>alert('owned')</script><img src=x onerror=alert(1)>"

GOOD = {
    "genuine_s": 0.4,
    "off_s": 0.3,
    "speaking_at_w0": True,
    "starting": 1,
    "touching": 1,
    "longest_s": 0.5,
    "user_goes_on": True,
    "overlap_s": 0.4,
    "coverage": 1.0,
    "tokens_matched": 8,
    "tokens_target": 8,
    "spans": [[10.4, 10.9]],
    "user_spans": [[1.0, 4.0], [9.5, 13.0]],
    "first_words": "all right",
}
"""Passes every action but LISTEN, NO_BACKCHANNEL and CONTINUE, whatever the role's own thresholds."""

SILENT = GOOD | {
    "genuine_s": None,
    "off_s": None,
    "starting": 0,
    "touching": 0,
    "longest_s": None,
    "user_goes_on": None,
    "overlap_s": 0.0,
    "coverage": 0.0,
    "tokens_matched": 0,
    "spans": [],
    "speaking_at_w0": False,
}


def dataset(folder: Path, limit: int | None = None) -> Path:
    ifeval.BENCHMARK.build(BuildOptions(folder, audio=False, limit=limit))
    return folder


def run(
    source: Path,
    folder: Path,
    measured: Callable[[Case], dict[str, Any] | str],
    *,
    agent: str = "cascade",
    privileged: bool = False,
    settings: dict[str, Any] | None = None,
    thresholds: dict[str, float] | None = None,
) -> Path:
    """A run of the cases in `source`, scored. measured(case) : measurements, or why there are none."""
    benchmark = ifeval.BENCHMARK
    loaded = datasets.load(source)
    rows = []
    for case in loaded.cases:
        found = measured(case)
        reason = found if isinstance(found, str) else None
        [row] = benchmark.unmeasured(case, reason)
        rows.append(row if reason else row | {"w0_s": W0, "w1_s": W1} | found)
    measurements = pd.DataFrame(rows)
    measurements = measurements.assign(**keys(measurements))
    limits = benchmark.limits(thresholds)
    verdicts = Decider(benchmark, measurements).verdicts(limits)
    folder.mkdir(parents=True)
    shutil.copy(source / "cases.jsonl", folder / "cases.jsonl")
    (folder / "scores").mkdir()
    measurements.to_parquet(folder / "scores" / MEASUREMENTS, index=False)
    verdicts.to_parquet(folder / "scores" / VERDICTS, index=False)
    vad = VadSettings()
    write_json(
        folder / "scores" / SCORE,
        {
            "workbench": VERSION,
            "scorer": SCORER,
            "vad": vad.model_dump() | {"key": vad.key()},
            "thresholds": limits,
            "cases": len(rows),
            "verdicts": {},
            "problems": [],
        },
    )
    meta = RunMeta(
        benchmark="ifeval",
        dataset={"version": "1", "fingerprint": loaded.header.fingerprint},
        agent={"name": agent, "version": "0", "privileged": privileged, "settings": settings or {}},
        clock="virtual",
        policy="as_played",
        workbench=VERSION,
        started="2026-11-01T12:00:00+00:00",
    )
    save_meta(folder, meta)
    return folder


def oracle(case: Case) -> dict[str, Any]:
    """What the case expects."""
    action = case.tags["action"]
    if action in ("LISTEN", "NO_BACKCHANNEL"):
        return SILENT
    return GOOD | {"off_s": 4.5} if action == "CONTINUE" else GOOD


def contrary(case: Case) -> dict[str, Any]:
    """The opposite of what the case expects."""
    action = case.tags["action"]
    if action in ("LISTEN", "NO_BACKCHANNEL", "CONTINUE"):
        return GOOD
    return SILENT


def mixed(case: Case) -> dict[str, Any] | str:
    """Some of each: passes, failures, and cases without an onset; hostile words throughout."""
    if case.tags["action"] == "ACCEPT_OVERLAP":
        return "no_model_onset"
    chosen = oracle(case) if sum(case.id.encode()) % 3 else contrary(case)
    return chosen | {"first_words": HOSTILE}


def nothing(case: Case) -> str:
    return f"error: {HOSTILE}"
