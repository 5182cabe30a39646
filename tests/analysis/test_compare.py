"""Comparisons: joined on cases, counted both ways, refused where they would mislead."""

import numpy as np
import pytest
from made_up import measured_systems

from workbench.analysis.compare import compare
from workbench.benchmarks.ifeval import BENCHMARK
from workbench.deciding import Decider
from workbench.errors import InputError

FACTS = {"content": "c", "fingerprint": "f", "scorer": "1", "thresholds": {}, "vad": {"key": "k"}}


@pytest.fixture(scope="module")
def scored():
    systems = measured_systems(3)
    return {name: (frame, Decider(BENCHMARK, frame).verdicts(), FACTS) for name, frame in systems.items()}


@pytest.fixture(scope="module")
def compared(scored):
    return compare(BENCHMARK, scored)


def test_wins_losses_ties_and_excluded_add_up(compared, scored):
    tests = compared.tests().set_index("system")
    base = scored["s0"][1]["verdict"]
    for name in ("s1", "s2"):
        other = scored[name][1]["verdict"]
        row = tests.loc[name]
        assert row["wins"] == ((other == "pass") & (base == "fail")).sum()
        assert row["losses"] == ((other == "fail") & (base == "pass")).sum()
        assert row["wins"] + row["losses"] + row["ties"] == row["pairs"]
        assert row["pairs"] + row["excluded"] == 1038
        assert row["difference_pp"] == pytest.approx(100 * (row["wins"] - row["losses"]) / row["pairs"])
        assert row["low_pp"] < row["difference_pp"] < row["high_pp"]
        assert row["p_mcnemar"] <= row["p_mcnemar_holm"]


@pytest.mark.parametrize("column", ["level", "action", "role", "probe", "speaker", "length"])
def test_slices_add_up_to_the_whole(compared, column):
    table = compared.by(column)
    for name in compared.names:
        assert table[f"passed:{name}"].sum() == np.nansum(compared.outcome(name))
        assert table[f"measured:{name}"].sum() == (~np.isnan(compared.outcome(name))).sum()
        measured = table[table[f"low:{name}"].notna()]
        assert (measured[f"low:{name}"] <= measured[f"rate:{name}"]).all()
        assert table.loc[table[f"low:{name}"].isna(), f"note:{name}"].str.contains("no interval|Nothing").all()
    with pytest.raises(InputError, match="no label 'weather'"):
        compared.by("weather")


def test_differences_hold_the_evidence_side_by_side(compared):
    differing = compared.differences()
    assert 0 < len(differing) < 1038
    assert all(row["verdict:s0"] != row["verdict:s1"] or row["verdict:s0"] != row["verdict:s2"]
               for row in differing.to_dict("records"))  # fmt: skip
    assert differing["reason:s1"].str.len().gt(10).all()


@pytest.mark.parametrize(
    ("key", "said"),
    [("content", "different cases"), ("scorer", "scorer"), ("thresholds", "thresholds"), ("vad", "detector")],
)
def test_runs_that_differ_otherwise_are_refused_unless_insisted(scored, key, said):
    unlike = {"s0": scored["s0"], "s1": (*scored["s1"][:2], FACTS | {key: "other"})}
    with pytest.raises(InputError, match=said):
        compare(BENCHMARK, unlike)
    assert len(compare(BENCHMARK, unlike, anyway=True).joined) == 1038


def test_two_builds_of_one_dataset_are_compared_and_it_is_told(scored):
    made = compare(BENCHMARK, scored | {"s1": (*scored["s1"][:2], FACTS | {"fingerprint": "g"})})
    assert len(made.joined) == 1038
    assert "the same cases in different builds" in made.notes[0] and "s1 g" in made.notes[0]
    assert compare(BENCHMARK, scored).notes == ()


def test_cases_only_one_run_has_are_listed(scored):
    frame, verdicts, facts = scored["s1"]
    made = compare(BENCHMARK, {"s0": scored["s0"], "s1": (frame[5:], verdicts[5:], facts)})
    assert len(made.joined) == 1033 and made.only_in["runs"].tolist() == ["s0"] * 5
    with pytest.raises(InputError, match="no case in common"):
        compare(
            BENCHMARK, {"s0": (scored["s0"][0][:3], scored["s0"][1][:3], FACTS), "s1": (frame[5:], verdicts[5:], facts)}
        )
    with pytest.raises(InputError, match="at least two"):
        compare(BENCHMARK, {"s0": scored["s0"]})
