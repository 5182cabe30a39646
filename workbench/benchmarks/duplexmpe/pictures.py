"""What a report of Duplex-MPE shows: titles, notes, pictures, worked examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from workbench import pictures
from workbench.benchmarks.duplexmpe.measure import DIAGNOSTICS as _DIAGNOSTICS
from workbench.benchmarks.duplexmpe.measure import METRICS
from workbench.pictures.theme import LIGHT, Theme

VERIFIER = "metric"
"""The column of measurements that names the verifier of a row."""

DIAGNOSTICS = _DIAGNOSTICS
"""Metrics that describe and do not score: the reference agents are not held to them."""

TITLES = {
    "metrics": "The metrics, explicit and implicit",
    "pairs": "Explicit against implicit, in pairs",
    "yield_chain": "Yield: where events leave the denominator",
    "silence_by_label": "Silence preservation by label",
    "silence_thresholds": "Silence preservation under brief-speech thresholds",
    "by_bucket": "By position of the request",
    "by_speakers": "By number of speakers",
    "by_attribute": "By attribute of the scenario",
    "unmeasurable": "Turns that could not be measured",
}
"""Tables in the order of the report. Those that are always wanted are shown empty, with a sentence."""

ALWAYS = ("unmeasurable",)
DETAIL = ("by_attribute", "silence_thresholds")
"""Long tables: folded in the page, left out on the terminal."""

ABOUT = {
    "metrics": "Each metric has a denominator of its own. fresh_onset, silence and yield are scored; the fourth "
    "capability, answer accuracy, needs a judge and stands with the judged tables. fresh_onset is strict, as "
    "written: a new onset within 5 s after the request and no speech active as it ends. fresh_onset_permissive asks "
    "for some new onset only. response_presence and window_response are diagnostics: they say how much speech there "
    "is to judge, and an agent that never stops talking has both.",
    "pairs": "Both versions of a scenario have the same turns; the same event is compared. The exact McNemar test "
    "takes pairs as independent (several silence windows of one scenario are not); the interval of the difference "
    "and the exact sign-flip test beside it go by scenarios.",
    "yield_chain": "An event counts for yield only if the agent was silent during the question, began to speak in "
    "the 3 s gap and was still speaking when a human resolved it. The columns say how many events are left after "
    "each step.",
    "silence_by_label": "N1: Aria is mentioned, nothing is asked. N2: somebody or something else is addressed. N3: "
    "nobody is. Without a judge up to 1.0 s of speech counts as a brief acknowledgement.",
    "silence_thresholds": "The duration rule is this workbench's own; a ranking that hangs on it shows here.",
    "by_bucket": "The quarter of the turn list in which the request stands.",
}

NOTES = (
    "A rate is passed / measured. Excluded turns could not be measured; events that are not eligible for yield are "
    "outside its denominator by definition.",
    "Published figures were measured on other audio and other scenarios, and are not mixed in.",
)


def figures(tables: Mapping[str, pd.DataFrame], cases: pd.DataFrame, theme: Theme = LIGHT) -> dict[str, list[Any]]:
    """Pictures by the table that they stand with. tables : each with a `run` column."""
    out: dict[str, list[Any]] = {}
    if "metrics" in tables:
        out["metrics"] = [
            _rates(tables["metrics"].query("version == @version"), "metric", f"{version} version", theme, METRICS)
            for version in ("explicit", "implicit")
        ]
    if "silence_by_label" in tables:
        out["silence_by_label"] = [
            _rates(tables["silence_by_label"].query("version == 'both'"), "turn_label", "silence", theme)
        ]
    if "by_bucket" in tables:
        fresh = tables["by_bucket"].query("metric == 'fresh_onset'")
        out["by_bucket"] = [_rates(fresh, "bucket", "fresh onset", theme)]
    return out


def _rates(frame: pd.DataFrame, by: str, name: str, theme: Theme, order: Any = None) -> Any:
    return pictures.rates_with_intervals(
        frame, by, value="rate", name=name, order=order, horizontal=by == "metric", theme=theme
    )


def example(row: Mapping[str, Any], theme: Theme = LIGHT) -> Any:
    """The timeline around one scored window, from its row of the joined table."""
    limits = {}
    value = row.get("limit_value")
    if row.get("limit") in ("onset_within_s", "yield_within_s") and value == value and value is not None:
        limits = {f"limit {value:g} s": row["w0_s"] + value}
    return pictures.timeline(
        row.get("user_spans"), row.get("spans"), window=(row["w0_s"], row["w1_s"]), limits=limits, theme=theme,
        title=f"{row['run']}, {row['case']}, turn {row['event']} ({row['turn_label']}): {row['metric']}, "
        f"{row['verdict']} (n = 1 turn)",
    )  # fmt: skip
