"""Tables of DuplexSpeechBench-IFEval: IAS by level, action and role, Entailment Gap, matched audio.

IAS is the share of measured cases that pass; unmeasurable cases are counted beside it, never in it.
Intervals resample conversations, since the levels of a conversation share one audio. The Entailment
Gap is IAS(L1) - IAS(L2): what stating the rule gives over implying it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench.analysis.statistics import cluster_bootstrap_sums, slice_sums, wilson
from workbench.benchmarks.ifeval.authored import ACTIONS, LEVELS, MATCHED_ROLES, ROLES
from workbench.benchmarks.ifeval.rules import NEEDS_FLOOR
from workbench.contract import Chart, Mark, Score, Section

RESAMPLES = 10_000


@dataclass(frozen=True)
class _Slice:
    table: str
    keys: dict[str, str]
    mask: np.ndarray


def tables(
    measurements: pd.DataFrame, verdicts: pd.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, pd.DataFrame]:
    """Every table of one run.

    measurements, verdicts : as scoring wrote them, one row a case in the same order. Rates are
    fractions with `passed`, `measured`, `excluded` and a 95 % interval `low`, `high` (`note` says where
    it is Wilson's, or why there is none); `strict_*` is the strict variant.
    """
    frame = measurements.merge(verdicts[["case", "verdict", "strict", "label"]], on="case", validate="one_to_one")
    slices = _slices(frame)
    passed = np.column_stack([_outcome(frame["verdict"]), _outcome(frame["strict"])])
    masks = np.column_stack([part.mask for part in slices])
    sums = slice_sums(passed, masks, frame["conversation"])
    pairs, gap_keys = _gap_pairs(slices)
    differences = [(sums.column(system, i), sums.column(system, j)) for i, j in pairs for system in (0, 1)]
    boot = cluster_bootstrap_sums(
        sums.numerators, sums.denominators, differences=differences, n_resamples=resamples, seed=seed
    )
    out: dict[str, list[dict]] = {}
    for index, part in enumerate(slices):
        if part.mask.any() or part.table == "ias":
            out.setdefault(part.table, []).append(_rate_row(part, sums, boot, index))
    out["entailment_gap"] = [
        _gap_row(keys, slices, pair, sums, boot, 2 * index)
        for index, (pair, keys) in enumerate(zip(pairs, gap_keys, strict=True))
    ]
    result = {name: pd.DataFrame(rows) for name, rows in out.items()}
    result["unmeasurable"] = _unmeasurable(frame)
    result["floor"] = _floor(frame)
    result["labels"] = _labels(frame)
    return result


def _outcome(words: pd.Series) -> np.ndarray:
    return words.map({"pass": 1.0, "fail": 0.0}).to_numpy(float)


def _slices(frame: pd.DataFrame) -> list[_Slice]:
    level, action, role = (frame[name].to_numpy(str) for name in ("level", "action", "role"))
    names = dict(zip(frame["role"], frame["role_name"], strict=True))
    everything = np.ones(len(frame), bool)
    slices = [_Slice("ias", {}, everything)]
    slices += [_Slice("ias_by_level", {"level": name}, level == name) for name in LEVELS]
    slices += [_Slice("ias_by_action", {"action": name}, action == name) for name in ACTIONS]
    slices += [_Slice("ias_by_role", {"role": name, "name": names.get(name, "")}, role == name) for name in ROLES]
    slices += [
        _Slice("ias_by_action_and_level", {"action": a, "level": n}, (action == a) & (level == n))
        for a in ACTIONS
        for n in LEVELS
    ]
    slices += [
        _Slice("ias_by_role_and_level", {"role": r, "level": n}, (role == r) & (level == n))
        for r in ROLES
        for n in LEVELS
    ]
    matched = frame["matched"].to_numpy(str) == "yes"
    slices += [
        _Slice("matched_audio", {"role": r, "name": names.get(r, "")}, matched & (role == r)) for r in MATCHED_ROLES
    ]
    return slices


def _rate_row(part: _Slice, sums, boot, index: int) -> dict:
    row = dict(part.keys)
    for prefix, system in (("", 0), ("strict_", 1)):
        column = sums.column(system, index)
        estimate = boot.columns[column]
        passed, measured = int(sums.numerators[:, column].sum()), int(sums.denominators[:, column].sum())
        interval, note = estimate.interval, estimate.reason
        if interval is None and measured and passed in (0, measured):
            # All conversations agree, or there is only one: resampling shows no spread, which is no
            # certainty. Wilson's interval stands in, over conversations (levels of one share audio).
            agreeing = estimate.clusters
            interval = wilson(agreeing if passed else 0, agreeing)
            note = f"Wilson interval over {agreeing} conversation{'s' if agreeing != 1 else ''}, since all agree"
        low, high = interval or (None, None)
        row |= {f"{prefix}passed": passed, f"{prefix}ias": estimate.value, f"{prefix}low": low, f"{prefix}high": high}
        if not prefix:
            row |= {"measured": measured, "excluded": int(part.mask.sum()) - measured, "note": note}
    order = [*part.keys, "ias", "passed", "measured", "excluded", "low", "high"]
    return {name: row[name] for name in (*order, "strict_ias", "strict_passed", "strict_low", "strict_high", "note")}


def _gap_pairs(slices: list[_Slice]) -> tuple[list[tuple[int, int]], list[dict[str, str]]]:
    where = {(part.table, *part.keys.values()): index for index, part in enumerate(slices)}
    pairs = [(where["ias_by_level", "L1"], where["ias_by_level", "L2"])]
    keys = [{"role": "all"}]
    for role in ROLES:
        pairs.append((where["ias_by_role_and_level", role, "L1"], where["ias_by_role_and_level", role, "L2"]))
        keys.append({"role": role})
    return pairs, keys


def _gap_row(keys: dict, slices: list[_Slice], pair: tuple[int, int], sums, boot, at: int) -> dict:
    row = dict(keys)
    for name, index in (("l1", pair[0]), ("l2", pair[1])):
        column = sums.column(0, index)
        row |= {
            f"{name}_passed": int(sums.numerators[:, column].sum()),
            f"{name}_measured": int(sums.denominators[:, column].sum()),
            f"{name}_ias": boot.columns[column].value,
        }
    gap, strict = boot.differences[at], boot.differences[at + 1]
    low, high = gap.interval or (None, None)
    strict_low, strict_high = strict.interval or (None, None)
    return row | {
        "gap": gap.value,
        "low": low,
        "high": high,
        "strict_gap": strict.value,
        "strict_low": strict_low,
        "strict_high": strict_high,
        "note": gap.reason,
    }


def _unmeasurable(frame: pd.DataFrame) -> pd.DataFrame:
    missing = frame[frame["verdict"] == "unmeasurable"]
    counted = missing.groupby(["reason", "action"], sort=True).size().rename("cases").reset_index()
    return counted.sort_values("cases", ascending=False, ignore_index=True)


def _floor(frame: pd.DataFrame) -> pd.DataFrame:
    """How often the agent held the floor at w0, for the actions that presuppose it."""
    rows = []
    for action in NEEDS_FLOOR:
        measured = frame[(frame["action"] == action) & (frame["verdict"] != "unmeasurable")]
        held = int((measured["speaking_at_w0"] == True).sum())  # noqa: E712  (null is not True)
        passed = measured["verdict"] == "pass"
        rows.append(
            {
                "action": action,
                "measured": len(measured),
                "speaking_at_w0": held,
                "passed": int(passed.sum()),
                "passed_without_floor": int((passed & (measured["speaking_at_w0"] != True)).sum()),  # noqa: E712
            }
        )
    return pd.DataFrame(rows)


def _labels(frame: pd.DataFrame) -> pd.DataFrame:
    measured = frame[frame["verdict"] != "unmeasurable"]
    table = pd.crosstab(measured["action"], measured["label"])
    for label in ("silent", "backchannel", "floor_take"):
        if label not in table:
            table[label] = 0
    return table[["silent", "backchannel", "floor_take"]].reset_index().rename_axis(None, axis=1)


# -- what is shown -----------------------------------------------------------------------------------------

SECTIONS = (
    Section(
        "ias",
        "IAS over all cases",
        about="IAS is the share of measured cases whose verifier passes. The strict variant, this workbench's own, "
        "asks of YIELD, CONTINUE and ACCEPT_OVERLAP in addition that the agent was speaking when the window "
        "opened.",
        kind="rates",
        value="ias",
    ),
    Section(
        "ias_by_level",
        "IAS by level",
        about="L0 no prompt, L1 the rule stated, L2 a persona that implies it, L3 both, L4a persona and a "
        "contradiction, L4b persona and a safety contradiction. Levels of one conversation share one audio.",
        kind="rates",
        value="ias",
        charts=(Chart("rates", "level", order=LEVELS),),
    ),
    Section(
        "entailment_gap",
        "Entailment Gap",
        about="IAS(L1) minus IAS(L2), in percentage points: what stating the rule gives over implying it. Near "
        "zero, the agent acts on the persona as well as on the rule.",
        kind="gaps",
        value="gap",
        sides=("l1", "l2"),
        charts=(
            Chart("gaps", "run", "Entailment Gap", where={"role": "all"}),
            Chart("gaps", "role", "Entailment Gap by role", order=ROLES),
        ),
    ),
    Section(
        "ias_by_action",
        "IAS by expected action",
        about="Each expected action has one deterministic verifier.",
        kind="rates",
        value="ias",
        charts=(Chart("rates", "action", order=ACTIONS, horizontal=True),),
    ),
    Section(
        "ias_by_role",
        "IAS by role",
        kind="rates",
        value="ias",
        charts=(Chart("rates", "role", order=ROLES, names="name", horizontal=True),),
    ),
    Section(
        "matched_audio",
        "IAS on matched audio",
        about="The same waveforms under three roles that want different things of them: an agent that ignores its "
        "role cannot do well in all three.",
        kind="rates",
        value="ias",
        always=True,
        charts=(Chart("rates", "role", order=ROLES, names="name", horizontal=True),),
    ),
    Section(
        "ias_by_action_and_level",
        "IAS by action and level",
        kind="rates",
        value="ias",
        folded=True,
        charts=(Chart("heatmap", "action", across="level", order=ACTIONS, across_order=LEVELS),),
    ),
    Section(
        "ias_by_role_and_level",
        "IAS by role and level",
        kind="rates",
        value="ias",
        folded=True,
        charts=(Chart("heatmap", "role", across="level", order=ROLES, across_order=LEVELS),),
    ),
    Section(
        "latency",
        "Latencies",
        about="Onsets count from the opening of the window to the first agent speech that has not ended by then, so "
        "an agent that is already talking has a negative onset. Offsets are the first end of agent speech "
        "after the barge-in. Cases without the event have no latency. LISTEN and NO_BACKCHANNEL expect "
        "silence, so an onset inside the window is a fault there, and one after it is not.",
    ),
    Section(
        "labels",
        "What was heard in the window",
        about="The label that voice detection gives each measured window, by expected action.",
        folded=True,
    ),
    Section(
        "floor",
        "Floor precondition",
        about="YIELD, CONTINUE and ACCEPT_OVERLAP presuppose an agent that is speaking at the barge-in. By the rule "
        "as published an agent that is silent at that moment passes CONTINUE, and one that starts and stops "
        "after it passes YIELD; the last column counts such passes.",
    ),
    Section(
        "unmeasurable",
        "Cases that could not be measured",
        always=True,
    ),
)

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

    def number(name: str) -> float | None:
        value = row.get(name)
        return None if value is None or value != value else float(value)

    w0, w1, limit = number("w0_s"), number("w1_s"), number("limit_value")
    if w0 is None or w1 is None:
        return []
    out = [Mark("window", w0, "scored window", w1)]
    onset, offset = number("genuine_s"), number("off_s")
    if onset is not None:
        out.append(Mark("onset", w0 + onset, f"onset {1000 * onset:+.0f} ms"))
    if offset is not None and row.get("action") in NEEDS_FLOOR:
        out.append(Mark("offset", w0 + offset, f"offset {1000 * offset:+.0f} ms"))
    match row.get("limit"):
        case "max_wait_s" if limit is not None:
            out.append(Mark("limit", w0 + limit, f"limit {limit:g} s", None, "max_wait_s", w0))
        case "interrupt_latency_ms" | "yield_latency_ms" as name if limit is not None:
            out.append(Mark("limit", w0 + limit / 1000, f"limit {limit:g} ms", None, name, w0))
        case "backchannel_max_s" if limit is not None and onset is not None:
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
