"""Explicit against implicit: the same event in both versions of a scenario, tested in pairs.

The exact McNemar test is the paper's. It takes pairs as independent, which holds for metrics with one
event a scenario (all but silence); the interval of the difference and the exact sign-flip test beside it
go by whole scenarios.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from workbench.benchmarks.duplexmpe.rules import METRICS
from workbench.statistics import mcnemar_exact, paired_counts, paired_difference


def pair_tests(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a metric: how often both, only one or neither version passes, and the difference.

    frame : one row an event with scenario, event, condition, metric, conversation and outcome (pass 1,
    fail 0, else NaN). A pair counts when both halves have a verdict; the rest is `incomplete`.
    """
    order = [name for name in METRICS if (frame["metric"] == name).any()]
    order += [name for name in dict.fromkeys(frame["metric"]) if name not in order]
    return pd.DataFrame([_test(name, frame[frame["metric"] == name]) for name in order])


def _test(metric: str, rows: pd.DataFrame) -> dict:
    wide = rows.pivot(index=["conversation", "scenario", "event"], columns="condition", values="outcome")
    wide = wide.reindex(columns=["explicit", "implicit"])
    explicit, implicit = wide["explicit"].to_numpy(float), wide["implicit"].to_numpy(float)
    counts = paired_counts(explicit, implicit)
    found = paired_difference(explicit, implicit, np.asarray(wide.index.get_level_values("conversation")))
    low, high = found.interval or (None, None)
    return {
        "metric": metric,
        "pairs": counts.pairs,
        "incomplete": counts.excluded,
        "both": counts.both,
        "only_explicit": counts.only_first,
        "only_implicit": counts.only_second,
        "neither": counts.neither,
        "explicit_rate": (counts.both + counts.only_first) / counts.pairs if counts.pairs else None,
        "implicit_rate": (counts.both + counts.only_second) / counts.pairs if counts.pairs else None,
        "difference_pp": _points(found.value),
        "low_pp": _points(low),
        "high_pp": _points(high),
        "p_mcnemar": mcnemar_exact(counts.only_first, counts.only_second).p_value if counts.pairs else None,
        "p_sign_flip": found.p_value,
        "conversations": found.clusters,
        "note": found.note,
    }


def _points(fraction: float | None) -> float | None:
    return None if fraction is None else 100 * fraction
