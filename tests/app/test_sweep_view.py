"""Thresholds moved live: the same verdicts as scoring gives, the cases that turned, the link; without a browser."""

import numpy as np
import pandas as pd
import pytest
from inspected_runs import ENERGY, make_case, record, start_run, stereo

from workbench import contract, episodes
from workbench.analysis.sweep import sweep
from workbench.app.redecide import Redecide
from workbench.app.side_by_side import load_tables
from workbench.app.store import Store
from workbench.app.sweep_view import SweepView
from workbench.app.workspace import Workspace, read_query, to_query
from workbench.contract import WORDS
from workbench.deciding import Decider
from workbench.runs import load_run
from workbench.scoring import score_run


@pytest.fixture
def space(store):
    return Workspace(store)


@pytest.fixture
def measurements(store):
    return {name: load_tables(store.runs[name]).measurements for name in ("prompt", "slow")}


def test_one_setting_decides_as_scoring_does(measurements):
    benchmark = contract.get("ifeval")
    engine = Redecide(benchmark, measurements)
    for limits in ({}, {"max_wait_s": 0.1}, {"max_wait_s": 9.0, "yield_latency_ms": 100.0}):
        answer = engine.at(limits)
        for at, (name, frame) in enumerate(measurements.items()):
            decider = Decider(benchmark, frame)
            verdicts = decider.verdicts(limits)
            assert [WORDS[state] for state in answer.states[name][0].tolist()] == verdicts["verdict"].tolist()
            default = decider.verdicts()["verdict"]
            assert set(answer.flips[name]) == set(np.flatnonzero(verdicts["verdict"] != default))
            assert answer.scores["ias"][at] == pytest.approx((verdicts["verdict"] == "pass").mean())


def test_scores_and_maps_are_those_of_a_sweep(measurements):
    benchmark = contract.get("ifeval")
    engine = Redecide(benchmark, measurements)
    found = sweep(benchmark, measurements)
    for name, values in engine.base.items():
        assert np.allclose(values[0], found.scores[name][found.default], equal_nan=True)
    axes = {name: engine.axis(name) for name in ("max_wait_s", "yield_latency_ms")}
    grid = engine.grid({}, "max_wait_s", "yield_latency_ms", "ias")
    assert grid.shape == (2, 5, 3)
    whole = sweep(benchmark, measurements, axes).frame()
    for at, system in enumerate(engine.names):
        part = whole[whole["system"] == system].pivot(index="yield_latency_ms", columns="max_wait_s", values="ias")
        assert np.allclose(grid[at], part.to_numpy())


def test_a_slider_turns_cases_and_a_click_opens_one(space):
    view = SweepView(space)
    assert view.engine.names == ("prompt", "slow") and view.table.total == 0
    view.sliders._handle_msg({"values": {"max_wait_s": 3.0}})
    assert space.thresholds == {"max_wait_s": 3.0} and view.sliders.answered == 1
    assert view.table.total == 6 and {row[0] for row in view.table.rows} == {"slow"}
    assert (
        view.table.rows[0][-3:-1] == ["fail", "pass"] and "passes with longest wait at least" in view.table.rows[0][-1]
    )
    assert "(+100.0)" in view.ranks.object
    view.table.sort = "-case"
    view.table._handle_msg({"open": 0})
    assert (space.view, space.run, space.case) == ("case", "slow", "R1_C2_i3_L2")
    view.press("r")
    assert space.thresholds == {} and view.table.total == 0
    assert all(slider["value"] == slider["usual"] for slider in view.sliders.sliders)


def test_values_from_outside_are_held_within_bounds(space):
    view = SweepView(space)
    for bad in ({"values": {"nothing": 1}}, {"values": {"max_wait_s": "9"}}, {"values": {"max_wait_s": True}}, {}, 5):
        view.sliders._handle_msg(bad)
    assert space.thresholds == {}
    view.sliders._handle_msg({"values": {"max_wait_s": 1e9}})
    assert space.thresholds["max_wait_s"] == contract.get("ifeval").threshold["max_wait_s"].range[1]
    space.thresholds = {"nothing": 3.0, "max_wait_s": -5.0}
    assert view.settings == {"max_wait_s": 0.0}


def test_the_setting_is_in_the_link(store, space):
    SweepView(space).sliders._handle_msg({"values": {"max_wait_s": 3.0}})
    space.view = "sweep"
    query = to_query(space)
    other = Workspace(store)
    assert read_query(other, query) == [] and other.thresholds == {"max_wait_s": 3.0}
    assert SweepView(other).table.total == 6


def test_an_unknown_threshold_of_a_link_is_told(space):
    space.thresholds = {"nothing": 3.0}
    assert "no threshold &#x27;nothing&#x27;" in SweepView(space).told.object


def test_maps_and_ranking_hold_every_run(space):
    view = SweepView(space)
    cells = view.maps.source.data
    assert len(cells["value"]) == 2 * len(view.engine.axis(view.across.value)) * len(view.engine.axis(view.up.value))
    assert sorted(view.ranking.y.factors) == ["prompt", "slow"]
    figure = view.maps.figure
    view.rank_by.value = "ias"
    assert view.ranking.y.factors == ["slow", "prompt"], "the best stands at the top"
    view.up.value = view.across.value
    assert view.maps.figure is figure and len(view.maps.source.data["value"])
    view.grid_box.collapsed = False
    assert view.grid_tau.object is not None


def test_strict_decides_by_the_strict_variant(space):
    view = SweepView(space)
    space.rule = "strict"
    assert view.engine.rule == "strict" and "strict variant" in view.ranks.object


def test_what_turned_is_counted_from_the_run_s_own_thresholds(tmp_path):
    case = make_case(1)
    folder = start_run(tmp_path / "runs" / "own", [case])
    episodes.save(folder / "episodes", record(case), stereo(6.5))
    score_run(load_run(folder), ENERGY, {"max_wait_s": 0.3}, workers=1)
    space = Workspace(Store([tmp_path / "runs"]))
    view = SweepView(space)
    assert view.table.total == 0 and view.engine.limits["max_wait_s"] == 0.3
    assert next(one for one in view.sliders.sliders if one["name"] == "max_wait_s")["usual"] == 0.3
    view.sliders._handle_msg({"values": {"max_wait_s": 2.0}})
    assert [row[-3:-1] for row in view.table.rows] == [["fail", "pass"]] and space.thresholds == {"max_wait_s": 2.0}
    space.thresholds = {"max_wait_s": 2.0, "backchannel_max_s": 0.4}
    assert view.table.rows[0][-1].startswith("passes with longest wait at least 0.4")


def test_a_large_sweep_gives_what_its_parts_give(measurements):
    benchmark = contract.get("ifeval")
    large = {f"run{n}": pd.concat([measurements["slow"]] * 173, ignore_index=True) for n in range(6)}
    whole, part = Redecide(benchmark, large), Redecide(benchmark, {"slow": measurements["slow"]})
    for limits in ({}, {"max_wait_s": 2.7}):
        answer, small = whole.at(limits), part.at(limits)
        for name in whole.scores:
            assert answer.scores[name] == pytest.approx([small.scores[name][0]] * 6, nan_ok=True)
        assert {len(rows) for rows in answer.flips.values()} == {173 * len(small.flips["slow"])}
