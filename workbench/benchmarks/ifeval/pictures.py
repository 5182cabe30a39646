"""What a report of DuplexSpeechBench-IFEval shows: titles, notes, pictures, worked examples.

The report looks for a module of this name beside a benchmark and manages without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from workbench import pictures
from workbench.benchmarks.ifeval.authored import ACTIONS, LEVELS, ROLES
from workbench.pictures.theme import LIGHT, Theme

VERIFIER = "action"
"""The column of measurements that names the verifier of a case."""

TITLES = {
    "ias": "IAS over all cases",
    "ias_by_level": "IAS by level",
    "entailment_gap": "Entailment Gap",
    "ias_by_action": "IAS by expected action",
    "ias_by_role": "IAS by role",
    "matched_audio": "IAS on matched audio",
    "ias_by_action_and_level": "IAS by action and level",
    "ias_by_role_and_level": "IAS by role and level",
    "latency": "Latencies",
    "labels": "What was heard in the window",
    "floor": "Floor precondition",
    "unmeasurable": "Cases that could not be measured",
}
"""Tables in the order of the report. Those that are always wanted are shown empty, with a sentence."""

ALWAYS = ("matched_audio", "unmeasurable")
DETAIL = ("ias_by_action_and_level", "ias_by_role_and_level", "labels")
"""Long tables: folded in the page, left out on the terminal."""

ABOUT = {
    "ias": "IAS is the share of measured cases whose verifier passes. The strict "
    "variant, this workbench's own, asks of YIELD, CONTINUE and ACCEPT_OVERLAP in addition that the agent was "
    "speaking when the window opened.",
    "ias_by_level": "L0 no prompt, L1 the rule stated, L2 a persona that implies it, L3 both, L4a persona and a "
    "contradiction, L4b persona and a safety contradiction. Levels of one conversation share one audio.",
    "entailment_gap": "IAS(L1) minus IAS(L2), in percentage points: what stating the rule gives over implying it. "
    "Near zero, the agent acts on the persona as well as on the rule.",
    "ias_by_action": "Each expected action has one deterministic verifier.",
    "matched_audio": "The same waveforms under three roles that want different things of them: an agent that "
    "ignores its role cannot do well in all three.",
    "latency": "Onsets count from the opening of the window to the first agent speech that has not ended by then, "
    "so an agent that is already talking has a negative onset. Offsets are the first end of agent speech after the "
    "barge-in. Cases without the event have no latency. LISTEN and NO_BACKCHANNEL expect silence, so an onset "
    "inside the window is a fault there, and one after it is not.",
    "floor": "YIELD, CONTINUE and ACCEPT_OVERLAP presuppose an agent that is speaking at the barge-in. By the rule "
    "as published an agent that is silent at that moment passes CONTINUE, and one that starts and stops after it "
    "passes YIELD; the last column counts such passes.",
    "labels": "The label that voice detection gives each measured window, by expected action.",
}

NOTES = (
    "IAS at L4a is measured against the cell's own action. At L4a the prompt carries a contradiction of that "
    "action, so an agent that follows the contradiction scores low there, and one that ignores its prompt may score "
    "high. Read L4a together with the Conflict Profile of a judge, never alone.",
    "At L4b the persona should win over the safety contradiction; the cell's expected action says so already.",
    "In the full grid L0 has 48 cases, one a cell, and L4b 30; their intervals are wide. The expected action "
    "of an L0 case is that of its cell, which no prompt announces.",
    "Only figures of the runs named above stand on this page. Published figures were measured on other audio, "
    "prompts and thresholds, and are not mixed in.",
)

_ROLE_NAMES = "name"


def figures(tables: Mapping[str, pd.DataFrame], cases: pd.DataFrame, theme: Theme = LIGHT) -> dict[str, list[Any]]:
    """Pictures by the table that they stand with.

    tables : each with a `run` column. cases : measurements and verdicts of every run, one row a case.
    """
    out: dict[str, list[Any]] = {}
    roles = role_labels(tables.get("ias_by_role"))
    if "ias_by_level" in tables:
        out["ias_by_level"] = [
            pictures.rates_with_intervals(tables["ias_by_level"], "level", order=LEVELS, theme=theme)
        ]
    if "ias_by_action" in tables:
        out["ias_by_action"] = [
            pictures.rates_with_intervals(
                tables["ias_by_action"], "action", order=ACTIONS, horizontal=True, theme=theme
            )
        ]
    for name in ("ias_by_role", "matched_audio"):
        if name in tables and len(tables[name]):
            out[name] = [
                pictures.rates_with_intervals(
                    tables[name],
                    "role",
                    order=ROLES,
                    labels=roles,
                    horizontal=True,
                    theme=theme,
                    name="IAS" if name == "ias_by_role" else "IAS on matched audio",
                )
            ]
    if "entailment_gap" in tables:
        out["entailment_gap"] = _gaps(tables["entailment_gap"], roles, theme)
    for name, rows, order in (
        ("ias_by_action_and_level", "action", ACTIONS),
        ("ias_by_role_and_level", "role", ROLES),
    ):
        if name in tables:
            out[name] = [
                pictures.rate_heatmap(part, "level", rows, run=run, x_order=LEVELS, y_order=order, theme=theme)
                for run, part in tables[name].groupby("run", sort=False)
            ]
    out["latency"] = _latencies(cases, theme)
    return out


def role_labels(by_role: pd.DataFrame | None) -> dict[str, str]:
    """Role id -> 'R1 ER triage nurse'."""
    if by_role is None or by_role.empty:
        return {}
    pairs = by_role.drop_duplicates("role")
    return {role: f"{role} {name}".strip() for role, name in zip(pairs["role"], pairs[_ROLE_NAMES], strict=True)}


def _gaps(gap: pd.DataFrame, roles: dict[str, str], theme: Theme) -> list[Any]:
    overall, by_role = gap[gap["role"] == "all"], gap[gap["role"] != "all"]
    count = f"{int(overall['l1_measured'].max())} cases at L1, {int(overall['l2_measured'].max())} at L2"
    shown = [pictures.gap_bars(overall, "run", title=f"Entailment Gap, 95 % intervals (n = {count})", theme=theme)]
    if len(by_role):
        most = int(by_role[["l1_measured", "l2_measured"]].max().max())
        title = f"Entailment Gap by role, 95 % intervals (n = at most {most} cases a role and level)"
        shown.append(pictures.gap_bars(by_role, "role", labels=roles, title=title, theme=theme))
    return shown


def latencies(cases: pd.DataFrame) -> pd.DataFrame:
    """Signed latencies: action, run, case, verdict, kind ('onset' or 'offset'), latency_s, limit_s.

    An onset is the start of the first agent speech that ends after the window opens, minus w0: below
    zero for an agent that was already speaking. READBACK rests on the transcript and has none.
    """
    measured = cases[(cases["verdict"] != "unmeasurable") & (cases["action"] != "READBACK")]
    offsets = measured["action"].isin(["YIELD", "CONTINUE"]).to_numpy()
    onset = [_signed_onset(spans, w0) for spans, w0 in zip(measured["spans"], measured["w0_s"], strict=True)]
    off = pd.to_numeric(measured["off_s"], errors="coerce").to_numpy(float)
    scale = measured["limit"].map({"max_wait_s": 1.0, "interrupt_latency_ms": 1e-3, "yield_latency_ms": 1e-3})
    limit = pd.to_numeric(measured["limit_value"], errors="coerce") * pd.to_numeric(scale, errors="coerce")
    return measured[["action", "run", "case", "verdict"]].assign(
        kind=np.where(offsets, "offset", "onset"),
        latency_s=np.where(offsets, off, np.array(onset, float)),
        limit_s=limit,
    )


def _signed_onset(spans: Any, w0: float) -> float:
    if spans is None or w0 is None or isinstance(spans, float):
        return float("nan")
    return next((float(start) - w0 for start, end in spans if end > w0), float("nan"))


def _latencies(cases: pd.DataFrame, theme: Theme) -> list[Any]:
    if cases.empty or "spans" not in cases:
        return []
    frame = latencies(cases)
    return [
        pictures.latency_distributions(
            frame[frame["kind"] == kind],
            order=[a for a in ACTIONS if a != "READBACK"],
            title=title,
            axis=axis,
            theme=theme,
        )
        for kind, title, axis in (
            (
                "onset",
                "Onset of agent speech by expected action",
                "seconds after the window opens (negative: already speaking)",
            ),
            ("offset", "End of agent speech after a barge-in, by expected action", "seconds after the barge-in begins"),
        )
    ]


def example(row: Mapping[str, Any], theme: Theme = LIGHT) -> Any:
    """The timeline of one case, from its row of the joined table."""
    limits = {}
    value = row.get("limit_value")
    if row.get("limit") in ("max_wait_s", "interrupt_latency_ms", "yield_latency_ms") and value == value:
        seconds = value if row["limit"] == "max_wait_s" else value / 1000
        limits = {f"limit {seconds:g} s": row["w0_s"] + seconds}
    return pictures.timeline(
        row.get("user_spans"),
        row.get("spans"),
        window=(row["w0_s"], row["w1_s"]),
        limits=limits,
        theme=theme,
        title=f"{row['run']}, {row['case']}: {row['action']} expected, {row['verdict']} (n = 1 case)",
    )
