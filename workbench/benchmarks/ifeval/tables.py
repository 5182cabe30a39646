"""Tables of DuplexSpeechBench-IFEval: IAS by level, action and role, Entailment Gap, matched audio.

IAS is the share of measured cases that pass; unmeasurable cases are counted beside it, never in it.
Intervals go by conversations, since the levels of a conversation share one audio. The Entailment
Gap is IAS(L1) - IAS(L2): what stating the rule gives over implying it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from workbench.benchmarks.ifeval.cases import ACTIONS, LEVELS, MATCHED_ROLES, ROLES
from workbench.benchmarks.ifeval.rules import LABELS, NEEDS_FLOOR
from workbench.contract import KEYS, Chart, Mark, Score, Section
from workbench.deciding import number, window_marks
from workbench.statistics.slices import Contrast, Slice, difference_table, rate_tables


def tables(measurements: pd.DataFrame, verdicts: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Every table of one run.

    measurements, verdicts : as scoring wrote them, one row a case in the same order. Rates are
    fractions with `passed`, `measured`, `excluded` and a 95 % interval `low`, `high` (`note` says why
    there is none, or that conversations are few); `strict_*` is the strict variant.
    """
    frame = measurements.merge(verdicts[[*KEYS, "verdict", "strict", "label"]], on=list(KEYS), validate="one_to_one")
    rules = {"": frame["verdict"], "strict_": frame["strict"]}
    result = rate_tables(_slices(frame), rules, frame["conversation"], value="ias", always=("ias",))
    result["entailment_gap"] = difference_table(
        _gaps(frame), rules, frame["conversation"], sides=("l1", "l2"), value="ias", difference="gap"
    )
    result["unmeasurable"] = _unmeasurable(frame)
    result["floor"] = _floor(frame)
    result["labels"] = _labels(frame)
    return result


def _slices(frame: pd.DataFrame) -> list[Slice]:
    level, action, role = (frame[name].to_numpy(str) for name in ("level", "action", "role"))
    names = dict(zip(frame["role"], frame["role_name"], strict=True))
    matched = frame["matched"].to_numpy(str) == "yes"
    return [
        Slice("ias", {}, np.ones(len(frame), bool)),
        *(Slice("ias_by_level", {"level": name}, level == name) for name in LEVELS),
        *(Slice("ias_by_action", {"action": name}, action == name) for name in ACTIONS),
        *(Slice("ias_by_role", {"role": name, "name": names.get(name, "")}, role == name) for name in ROLES),
        *(Slice("ias_by_action_and_level", {"action": a, "level": n}, (action == a) & (level == n))
          for a in ACTIONS for n in LEVELS),
        *(Slice("ias_by_role_and_level", {"role": r, "level": n}, (role == r) & (level == n))
          for r in ROLES for n in LEVELS),
        *(Slice("matched_audio", {"role": r, "name": names.get(r, "")}, matched & (role == r)) for r in MATCHED_ROLES),
    ]  # fmt: skip


def _gaps(frame: pd.DataFrame) -> list[Contrast]:
    level, role = frame["level"].to_numpy(str), frame["role"].to_numpy(str)
    parts = {"all": np.ones(len(frame), bool)} | {name: role == name for name in ROLES}
    return [Contrast({"role": name}, mask & (level == "L1"), mask & (level == "L2")) for name, mask in parts.items()]


def _unmeasurable(frame: pd.DataFrame) -> pd.DataFrame:
    missing = frame[frame["verdict"] == "unmeasurable"]
    counted = missing.groupby(["reason", "action"], sort=True).size().rename("cases").reset_index()
    return counted.sort_values("cases", ascending=False, ignore_index=True)


def _floor(frame: pd.DataFrame) -> pd.DataFrame:
    """How often the agent held the floor at w0, for the actions that presuppose it."""
    rows = []
    for action in NEEDS_FLOOR:
        measured = frame[(frame["action"] == action) & frame["verdict"].isin(("pass", "fail"))]
        held, passed = measured["speaking_at_w0"] == True, measured["verdict"] == "pass"  # noqa: E712  (null is not True)
        counts = {"speaking_at_w0": held, "passed": passed, "passed_without_floor": passed & ~held}
        rows.append({"action": action, "measured": len(measured)} | {n: int(mask.sum()) for n, mask in counts.items()})
    return pd.DataFrame(rows)


def _labels(frame: pd.DataFrame) -> pd.DataFrame:
    measured = frame[frame["verdict"].isin(("pass", "fail"))]
    table = pd.crosstab(measured["action"], measured["label"]).reindex(columns=list(LABELS), fill_value=0)
    return table.reset_index().rename_axis(None, axis=1)


# -- what is shown -----------------------------------------------------------------------------------------

_ias = partial(Section, kind="rates", value="ias")

SECTIONS = (
    _ias("ias", "IAS over all cases",
         "IAS is the share of measured cases whose verifier passes. The strict variant, this workbench's own, asks of "
         "YIELD, CONTINUE and ACCEPT_OVERLAP in addition that the agent was speaking when the window opened."),
    _ias("ias_by_level", "IAS by level",
         "L0 no prompt, L1 the rule stated, L2 a persona that implies it, L3 both, L4a persona and a contradiction, "
         "L4b persona and a safety contradiction. Levels of one conversation share one audio.",
         charts=(Chart("rates", "level", order=LEVELS),)),
    Section("entailment_gap", "Entailment Gap",
            "IAS(L1) minus IAS(L2), in percentage points: what stating the rule gives over implying it. Near zero, the "
            "agent acts on the persona as well as on the rule.",
            kind="gaps", value="gap", sides=("l1", "l2"),
            charts=(Chart("gaps", "run", "Entailment Gap", where={"role": "all"}),
                    Chart("gaps", "role", "Entailment Gap by role", order=ROLES))),
    _ias("ias_by_action", "IAS by expected action", "Each expected action has one deterministic verifier.",
         charts=(Chart("rates", "action", order=ACTIONS, horizontal=True),)),
    _ias("ias_by_role", "IAS by role", charts=(Chart("rates", "role", order=ROLES, names="name", horizontal=True),)),
    _ias("matched_audio", "IAS on matched audio",
         "The same waveforms under three roles that want different things of them: an agent that ignores its role "
         "cannot do well in all three.", always=True,
         charts=(Chart("rates", "role", order=ROLES, names="name", horizontal=True),)),
    _ias("ias_by_action_and_level", "IAS by action and level", folded=True,
         charts=(Chart("heatmap", "action", across="level", order=ACTIONS, across_order=LEVELS),)),
    _ias("ias_by_role_and_level", "IAS by role and level", folded=True,
         charts=(Chart("heatmap", "role", across="level", order=ROLES, across_order=LEVELS),)),
    Section("latency", "Latencies",
            "Onsets count from the opening of the window to the first agent speech that has not ended by then, so an "
            "agent that is already talking has a negative onset. Offsets are the first end of agent speech after the "
            "barge-in. Cases without the event have no latency. LISTEN and NO_BACKCHANNEL expect silence, so an onset "
            "inside the window is a fault there, and one after it is not."),
    Section("labels", "What was heard in the window",
            "The label that voice detection gives each measured window, by expected action.", folded=True),
    Section("floor", "Floor precondition",
            "YIELD, CONTINUE and ACCEPT_OVERLAP presuppose an agent that is speaking at the barge-in. By the rule as "
            "published an agent that is silent at that moment passes CONTINUE, and one that starts and stops after it "
            "passes YIELD; the last column counts such passes."),
    Section("unmeasurable", "Cases that could not be measured", always=True),
)  # fmt: skip

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


def scores(frame: pd.DataFrame) -> dict[str, Score]:
    """IAS over all cases, IAS by level, and the Entailment Gap, which ranks systems as in the paper's sweep."""
    level = frame["level"].to_numpy(str)
    out = {"ias": Score("IAS", np.ones(len(frame), bool))}
    out |= {f"ias_{name}": Score(f"IAS at {name}", level == name) for name in ("L1", "L2")}
    return out | {"entailment_gap": Score("Entailment Gap", level == "L1", level == "L2", better="less")}


def marks(row: Mapping[str, Any]) -> list[Mark]:
    """The scored window, the measured onset and offset, and the limit of a row's rule, on the session clock."""
    out = window_marks(row, "genuine_s", "off_s" if row.get("action") in NEEDS_FLOOR else None)
    w0, onset, limit = (number(row, name) for name in ("w0_s", "genuine_s", "limit_value"))
    if not out or limit is None:
        return out
    match row.get("limit"):
        case "max_wait_s":
            out.append(Mark("limit", w0 + limit, f"limit {limit:g} s", None, "max_wait_s", w0))
        case "interrupt_latency_ms" | "yield_latency_ms" as name:
            out.append(Mark("limit", w0 + limit / 1000, f"limit {limit:g} ms", None, name, w0))
        case "backchannel_max_s" if onset is not None:
            # A ceiling on the length of what begins in the window, so it stands after that onset.
            out.append(Mark("limit", w0 + onset + limit, f"ceiling {limit:g} s", None, "backchannel_max_s", w0 + onset))
    return out


def latencies(rows: pd.DataFrame) -> pd.DataFrame:
    """Signed latencies: action, run, case, verdict, kind ('onset' or 'offset'), latency_s, limit_s.

    An onset is the start of the first agent speech that ends after the window opened, minus w0: below
    zero for an agent that was already speaking. READBACK rests on the transcript and has none.
    """
    measured = rows[(rows["verdict"] != "unmeasurable") & (rows["action"] != "READBACK")]
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
