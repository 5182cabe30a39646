"""Tables of DuplexSpeechBench-IFEval: IAS by level, action and role, Entailment Gap, matched audio.

IAS is the share of measured cases that pass; unmeasurable cases are counted beside it, never in it.
Intervals resample conversations, since the levels of a conversation share one audio. The Entailment
Gap is IAS(L1) - IAS(L2): what stating the rule gives over implying it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from workbench.analysis.statistics import cluster_bootstrap_sums, slice_sums, wilson
from workbench.benchmarks.ifeval.authored import ACTIONS, LEVELS, MATCHED_ROLES, ROLES
from workbench.benchmarks.ifeval.decide import NEEDS_FLOOR

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
