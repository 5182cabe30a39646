"""Tables of DuplexSpeechBench-IFEval: IAS by level, action and role, Entailment Gap, matched audio.

IAS is the share of measured cases that pass; unmeasurable cases are counted beside it, never in it.
Intervals go by conversations, since the levels of a conversation share one audio. The Entailment
Gap is IAS(L1) - IAS(L2): what stating the rule gives over implying it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from workbench.analysis.slices import Contrast, Slice, difference_table, rate_tables
from workbench.benchmarks.ifeval.authored import ACTIONS, LEVELS, MATCHED_ROLES, ROLES
from workbench.benchmarks.ifeval.decide import NEEDS_FLOOR


def tables(measurements: pd.DataFrame, verdicts: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Every table of one run.

    measurements, verdicts : as scoring wrote them, one row a case in the same order. Rates are
    fractions with `passed`, `measured`, `excluded` and a 95 % interval `low`, `high` (`note` says why
    there is none, or that conversations are few); `strict_*` is the strict variant.
    """
    frame = measurements.merge(verdicts[["case", "verdict", "strict", "label"]], on="case", validate="one_to_one")
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
    everything = np.ones(len(frame), bool)
    slices = [Slice("ias", {}, everything)]
    slices += [Slice("ias_by_level", {"level": name}, level == name) for name in LEVELS]
    slices += [Slice("ias_by_action", {"action": name}, action == name) for name in ACTIONS]
    slices += [Slice("ias_by_role", {"role": name, "name": names.get(name, "")}, role == name) for name in ROLES]
    slices += [
        Slice("ias_by_action_and_level", {"action": a, "level": n}, (action == a) & (level == n))
        for a in ACTIONS
        for n in LEVELS
    ]
    slices += [
        Slice("ias_by_role_and_level", {"role": r, "level": n}, (role == r) & (level == n))
        for r in ROLES
        for n in LEVELS
    ]
    matched = frame["matched"].to_numpy(str) == "yes"
    slices += [
        Slice("matched_audio", {"role": r, "name": names.get(r, "")}, matched & (role == r)) for r in MATCHED_ROLES
    ]
    return slices


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
    measured = frame[frame["verdict"].isin(("pass", "fail"))]
    table = pd.crosstab(measured["action"], measured["label"])
    for label in ("silent", "backchannel", "floor_take"):
        if label not in table:
            table[label] = 0
    return table[["silent", "backchannel", "floor_take"]].reset_index().rename_axis(None, axis=1)
