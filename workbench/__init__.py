"""Duplex Workbench: build, run, score, judge and inspect tests of full-duplex voice agents.

import workbench as wb

run = wb.load_run("runs/oracle")
run.cases, run.measurements, run.verdicts({"max_wait_s": 2.5}), run.tables()
wb.sweep([run_a, run_b])             # every run under every threshold setting, ranked
wb.ranking_flips([run_a, run_b], "max_wait_s")
wb.compare(run_a, run_b)             # wins, losses, paired tests, evidence side by side
wb.sensitivity(run)                  # the same recordings under other detector settings
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.errors import InputError
from workbench.version import VERSION as __version__

if TYPE_CHECKING:
    import pandas as pd

    from workbench.analysis.compare import Comparison
    from workbench.analysis.sweep import RankingFlip, Sweep
    from workbench.runs import Run

__all__ = [
    "InputError",
    "__version__",
    "compare",
    "load_run",
    "ranking_flips",
    "sensitivity",
    "sweep",
]

# Imports stand inside the functions: `import workbench` must not cost what a sweep needs.


def load_run(folder) -> Run:
    """Open a run folder (see `workbench.runs.Run`).

    Raises
    ------
    InputError : it is not a run, or its cases cannot be read.
    """
    from workbench.runs import load_run

    return load_run(folder)


def _named(runs: Run | Iterable[Run] | Mapping[str, Run]) -> dict[str, Run]:
    if isinstance(runs, Mapping):
        return dict(runs)
    runs = [runs] if hasattr(runs, "folder") else list(runs)
    named = {run.name: run for run in runs}
    if len(named) < len(runs):
        raise InputError("Two of the runs have the same folder name; give a dict of name -> run.")
    if len({run.meta.benchmark for run in named.values()}) > 1:
        raise InputError("The runs are of different benchmarks; give runs of one.")
    return named


def sweep(
    runs: Run | Iterable[Run] | Mapping[str, Run],
    axes: Mapping[str, Sequence[float]] | None = None,
    *,
    strict: bool = False,
) -> Sweep:
    """Decide runs under every combination of thresholds (the paper's 180 for IFEval when `axes` is None)."""
    from workbench.analysis.sweep import sweep

    named = _named(runs)
    benchmark = next(iter(named.values())).benchmark
    return sweep(benchmark, {name: run.measurements for name, run in named.items()}, axes, strict=strict)


def ranking_flips(runs: Iterable[Run] | Mapping[str, Run], threshold: str, *, strict: bool = False) -> RankingFlip:
    """How far one threshold may move before the ranking of the runs changes."""
    from workbench.analysis.sweep import ranking_flips

    named = _named(runs)
    benchmark = next(iter(named.values())).benchmark
    return ranking_flips(benchmark, {name: run.measurements for name, run in named.items()}, threshold, strict=strict)


def compare(*runs: Run, anyway: bool = False, **named: Run) -> Comparison:
    """Join two or more scored runs on their cases; the first is the baseline.

    Runs may be given by name: compare(base=run_a, patient=run_b). Runs of different datasets, or
    scored differently, are refused unless `anyway`.
    """
    from workbench.analysis.compare import compare
    from workbench.scoring import load_scores

    together = _named(runs) | named
    loaded = {}
    for name, run in together.items():
        measurements, verdicts, score = load_scores(run)
        facts = {"fingerprint": run.fingerprint, **{key: score.get(key) for key in ("scorer", "thresholds", "vad")}}
        loaded[name] = (measurements, verdicts, facts)
    return compare(loaded, anyway=anyway)


def sensitivity(run: Run, settings=None, thresholds: Mapping[str, float] | None = None) -> pd.DataFrame:
    """The run under several detector settings: which verdicts change, how far onsets move."""
    from workbench.analysis.sensitivity import sensitivity

    return sensitivity(run, settings, thresholds)
