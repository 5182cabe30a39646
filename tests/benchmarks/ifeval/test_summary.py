"""The tables: counts that add up, intervals, the Entailment Gap, unmeasurable cases beside."""

import numpy as np
import pandas as pd
import pytest

from workbench import datasets
from workbench.benchmarks.ifeval import BENCHMARK
from workbench.benchmarks.ifeval.measure import unmeasured
from workbench.benchmarks.ifeval.tables import tables
from workbench.contract import KEYS, BuildOptions


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grid")
    BENCHMARK.build(BuildOptions(folder, audio=False))
    return datasets.load(folder).cases


def scored(grid, chance, seed=0, missing=0.0):
    """A made-up system: passes a case with a chance by level; verdicts need no measurements here."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame([row for case in grid for row in unmeasured(case, None)])
    passed = random.random(len(frame)) < frame["level"].map(chance).to_numpy()
    gone = random.random(len(frame)) < missing
    frame["reason"] = np.where(gone, "no_model_onset", None)
    verdict = np.where(gone, "unmeasurable", np.where(passed, "pass", "fail"))
    verdicts = frame[list(KEYS)].assign(verdict=verdict, strict=verdict, label="silent")
    return frame, verdicts


CHANCE = {"L0": 0.2, "L1": 0.9, "L2": 0.5, "L3": 0.9, "L4a": 0.4, "L4b": 0.3}


def test_counts_add_up_and_rates_are_their_ratio(grid):
    frame, verdicts = scored(grid, CHANCE, missing=0.1)
    made = tables(frame, verdicts)
    for name in ("ias_by_level", "ias_by_action", "ias_by_role"):
        table = made[name]
        assert table["measured"].sum() == (verdicts["verdict"] != "unmeasurable").sum()
        assert table["passed"].sum() == (verdicts["verdict"] == "pass").sum()
        assert (table["measured"] + table["excluded"]).sum() == 1038
        assert np.allclose(table["ias"], table["passed"] / table["measured"])
        assert ((table["low"] <= table["ias"]) & (table["ias"] <= table["high"])).all()
    assert made["unmeasurable"]["cases"].sum() == (verdicts["verdict"] == "unmeasurable").sum()


def test_entailment_gap_is_l1_minus_l2_with_an_interval(grid):
    made = tables(*scored(grid, CHANCE))["entailment_gap"].set_index("role")
    row = made.loc["all"]
    assert row["gap"] == pytest.approx(row["l1_passed"] / row["l1_measured"] - row["l2_passed"] / row["l2_measured"])
    assert row["l1_measured"] == row["l2_measured"] == 240
    assert 0.2 < row["low"] < row["gap"] < row["high"] < 0.6
    assert list(made.index) == ["all", *[f"R{i}" for i in range(1, 9)]]


def test_the_matched_audio_subset_is_three_roles_on_eight_streams(grid):
    made = tables(*scored(grid, CHANCE))["matched_audio"]
    assert made["role"].tolist() == ["R1", "R2", "R3"]
    # 8 conversations a role at four levels, 2 of them instance 1 with L0, and the starred cells' L4b
    assert made["measured"].tolist() == [8 * 4 + 2 + 4, 8 * 4 + 2, 8 * 4 + 2 + 4]


def test_nothing_measured_is_null_with_a_reason(grid):
    frame, verdicts = scored(grid, CHANCE, missing=1.1)
    made = tables(frame, verdicts)
    row = made["ias"].iloc[0]
    assert row["ias"] is None or np.isnan(row["ias"])
    assert row["measured"] == 0 and row["excluded"] == 1038 and "Nothing was measured" in row["note"]


def test_a_perfect_score_still_has_an_interval(grid):
    made = tables(*scored(grid, dict.fromkeys(CHANCE, 1.0)))["ias"].iloc[0]
    assert made["ias"] == 1.0 and 0.98 < made["low"] < 0.99 and made["note"] is None and made["conversations"] == 240
