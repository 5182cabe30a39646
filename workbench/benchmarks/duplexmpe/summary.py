"""Tables of one Duplex-MPE run: every metric on its own denominator, by version, label, bucket and more.

Rates carry passed, measured (the denominator), excluded (not measurable) and not_eligible (yield: outside
the denominator by its own chain). Intervals go by scenarios, since a scenario's windows and versions
share its audio. Explicit against implicit is in `pairs`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from workbench.analysis import slices
from workbench.analysis.slices import Slice
from workbench.benchmarks.duplexmpe import decide
from workbench.benchmarks.duplexmpe.authored import ATTRIBUTES, BUCKETS, CONDITIONS, SILENT
from workbench.benchmarks.duplexmpe.measure import METRICS
from workbench.benchmarks.duplexmpe.pairs import pair_tests

VERSIONS = ("both", *CONDITIONS)
KEYS = ["case", "event", "metric"]
ON_T = ("fresh_onset", "fresh_onset_permissive", "response_presence")
SLICED = ("fresh_onset", "response_presence", "silence", "yield")
"""The metrics shown by attribute; all six would say little more and make the table long."""


def tables(measurements: pd.DataFrame, verdicts: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Every table of one run. measurements, verdicts : as scoring wrote them, one row a measured event."""
    frame = joined(measurements, verdicts)
    result = rate_tables(frame, _slices(frame))
    result["pairs"] = pair_tests(frame)
    result["yield_chain"] = yield_chain(measurements)
    result["silence_thresholds"] = silence_thresholds(measurements)
    result["unmeasurable"] = _unmeasurable(frame)
    return result


def joined(measurements: pd.DataFrame, verdicts: pd.DataFrame) -> pd.DataFrame:
    """Measurements with `verdict`, `label` and `outcome` (pass 1, fail 0, else NaN)."""
    frame = measurements.merge(verdicts[[*KEYS, "verdict", "label"]], on=KEYS, validate="one_to_one")
    return frame.assign(outcome=slices.outcomes(frame["verdict"]))


def rate_tables(frame: pd.DataFrame, parts: Iterable[Slice]) -> dict[str, pd.DataFrame]:
    """One row a slice, grouped by table. frame : see `joined`; needs verdict and conversation."""
    beside = slices.EXCLUDED | {"not_eligible": "not_eligible"}
    return slices.rate_tables(parts, {"": frame["verdict"]}, frame["conversation"], beside=beside, always=("metrics",))


def _slices(frame: pd.DataFrame) -> list[Slice]:
    metric, condition, label = (frame[name].to_numpy(str) for name in ("metric", "condition", "turn_label"))
    versions = {"both": np.ones(len(frame), bool)} | {name: condition == name for name in CONDITIONS}
    out = [
        Slice("metrics", {"metric": name, "version": version}, (metric == name) & mask)
        for name in METRICS
        for version, mask in versions.items()
    ]
    out += [
        Slice("silence_by_label", {"turn_label": name, "version": version},
               (metric == "silence") & (label == name) & mask)
        for name in SILENT
        for version, mask in versions.items()
    ]  # fmt: skip
    buckets, speakers = (pd.to_numeric(frame[name]).to_numpy(float) for name in ("bucket", "speakers"))
    out += [
        Slice("by_bucket", {"metric": name, "bucket": f"quarter {bucket}"}, (metric == name) & (buckets == bucket))
        for name in METRICS
        for bucket in BUCKETS
    ]
    out += [
        Slice("by_speakers", {"metric": name, "speakers": f"{count} speakers"}, (metric == name) & (speakers == count))
        for name in METRICS
        for count in sorted(set(speakers[~np.isnan(speakers)].astype(int)))
    ]
    for attribute in ATTRIBUTES:
        values = frame[attribute].astype(str).to_numpy()
        out += [
            Slice("by_attribute", {"metric": name, "attribute": attribute, "value": value},
                   (metric == name) & (values == value))
            for name in SLICED
            for value in sorted(set(values))
        ]  # fmt: skip
    return out


def yield_chain(measurements: pd.DataFrame) -> pd.DataFrame:
    """Where each N4 event stands in the chain of yield, by version.

    Columns: version, events (N4_R turns), unmeasurable, then how many are left after each step, and of
    those that came through (`eligible`) how many passed.
    """
    rows = measurements[measurements["metric"] == "yield"]
    table = decide.as_table(rows)
    state = decide.states(table)[0]
    out = []
    for version in VERSIONS:
        mask = np.ones(len(rows), bool) if version == "both" else rows["condition"].to_numpy(str) == version
        known = mask & table.usable & (state != decide.UNDECIDED)
        left = [int((known & (table.step > place)).sum()) for place in range(len(decide.STEPS))]
        out.append(
            {"version": version, "events": int(mask.sum()), "not_measurable": int((mask & ~known).sum())}
            | dict(zip(decide.STEPS, left, strict=True))
            | {"eligible": left[-1], "yielded": int((mask & (state == decide.PASS)).sum())}
        )
    return pd.DataFrame(out)


def silence_thresholds(measurements: pd.DataFrame, limits: Iterable[float] = decide.BRIEF_GRID) -> pd.DataFrame:
    """Silence preservation under several brief-speech thresholds, by version: brief_s, version, rate, counts."""
    rows = measurements[measurements["metric"] == "silence"]
    limits = np.array(sorted(limits), float)
    state = decide.states(decide.as_table(rows), {"brief_s": limits})
    out = []
    for version in VERSIONS:
        mask = np.ones(len(rows), bool) if version == "both" else rows["condition"].to_numpy(str) == version
        for index, limit in enumerate(limits):
            passed = int((state[index, mask] == decide.PASS).sum())
            measured = int((state[index, mask] >= decide.FAIL).sum())
            rate = passed / measured if measured else None
            out.append({"brief": f"{limit:g} s", "version": version, "brief_s": float(limit), "share": rate,
                        "silent": passed, "windows": measured})  # fmt: skip
    return pd.DataFrame(out)


def _unmeasurable(frame: pd.DataFrame) -> pd.DataFrame:
    missing = frame[frame["verdict"] == "unmeasurable"]
    reason = missing["reason"].fillna("the recording ends inside the window")
    counted = missing.assign(reason=reason).groupby(["reason", "metric"], sort=True).size()
    return counted.rename("turns").reset_index().sort_values("turns", ascending=False, ignore_index=True)
