"""Runs side by side: tests, the cases on which they differ, one case stacked; without a browser."""

import numpy as np
import pytest
from inspected_runs import ENERGY, HOSTILE, make_case, record, start_run, stereo

from workbench import episodes
from workbench.app.compare_view import CompareView
from workbench.app.shell import Shell
from workbench.app.side_by_side import choose
from workbench.app.store import Store
from workbench.app.workspace import Workspace, read_query, to_query
from workbench.runs import load_run
from workbench.scoring import score_run


@pytest.fixture
def space(store):
    return Workspace(store)


def test_wins_losses_and_the_cases_that_differ(space):
    view = CompareView(space)
    assert view.names == ("prompt", "slow") and view.table.total == 6
    tests = view.comparison.tests().iloc[0]
    assert (tests.wins, tests.losses, tests.ties) == (0, 6, 0)
    assert "slow against prompt" in view.tests.object and "gaps" not in view.names
    assert [name for name, _, _ in view.table.columns][-2:] == ["reason:prompt", "reason:slow"]
    view.which.value = "wins"
    assert view.table.total == 0
    space.together = ["slow", "prompt"]
    assert view.table.total == 6, "with the other baseline every loss is a win"


def test_a_click_stacks_the_case_under_every_system(space):
    view = CompareView(space)
    view.table._handle_msg({"open": 2})
    assert space.case == view.differing["case"].iloc[2] and space.run == "prompt"
    assert [pane.visible for pane in view.panes] == [True, True, False, False]
    assert "✓ pass" in view.heads[0].object and "baseline" in view.heads[0].object
    assert "✗ fail" in view.heads[1].object and "onset 2." in view.heads[1].object
    waves = [np.asarray(lane.sources["agent_wave"].data["high"]) for lane in view.stack.lanes[:2]]
    assert all(len(wave) for wave in waves) and not np.array_equal(*waves)
    assert all(lane.figure.x_range is view.stack.range for lane in view.stack.lanes)
    first = space.case
    view.press("n")
    assert space.case == view.differing["case"].iloc[3] != first
    view.press("p")
    assert space.case == first


def test_one_player_chooses_whose_audio_sounds(space):
    space.select(("slow", "R1_C2_i1_L1", ""))
    view = CompareView(space)
    assert view.player.heard == 1 and [one["name"] for one in view.player.systems] == ["prompt", "slow"]
    assert all(one["src"].startswith("wb-files/") for one in view.player.systems)
    view.press("1")
    assert space.run == "prompt" and view.player.heard == 0
    view.press("4")
    assert view.player.heard == 0
    assert view.player.window == [pytest.approx(6.0), pytest.approx(9.0)]


def test_windows_can_be_put_above_one_another(tmp_path):
    case = make_case(1)
    for name, shift in (("a", 0.0), ("b", 1.5)):
        folder = start_run(tmp_path / "runs" / name, [case])
        made = record(case, windows={"trigger": (6.0 + shift, 9.0 + shift)})
        episodes.save(folder / "episodes", made, stereo(6.5 + shift))
        score_run(load_run(folder), ENERGY, workers=1)
    space = Workspace(Store([tmp_path / "runs"]), case=case.id, run="a", align="window")
    view = CompareView(space)
    assert [one["lead"] for one in view.player.systems] == [6.0, 7.5]
    assert [lane.sources["windows"].data["left"] for lane in view.stack.lanes[:2]] == [[0.0], [0.0]]
    onsets = [lane.sources["lines"].data["x"][0] for lane in view.stack.lanes[:2]]
    assert onsets[0] == pytest.approx(onsets[1], abs=0.03)
    space.align = "clock"
    assert [lane.sources["windows"].data["left"] for lane in view.stack.lanes[:2]] == [[6.0], [7.5]]


def test_runs_that_should_not_be_compared_are_refused_in_a_sentence(tmp_path):
    for name, number, limits in (("a", 1, {}), ("b", 2, {}), ("c", 1, {"max_wait_s": 9.0})):
        case = make_case(number)
        folder = start_run(tmp_path / "runs" / name, [case])
        episodes.save(folder / "episodes", record(case), stereo(6.5))
        score_run(load_run(folder), ENERGY, limits, workers=1)
    space = Workspace(Store([tmp_path / "runs"]), together=["a", "b"])
    view = CompareView(space)
    assert view.comparison is None and "have different cases" in view.told.object and not view.table.visible
    space.together = ["a", "c"]
    assert "have different thresholds" in view.told.object
    space.together = ["a"]
    assert "Choose a second run" in view.told.object


def test_a_choice_leaves_out_what_cannot_be_shown_and_says_so(space):
    space.together = ["slow", "nothing", "gaps", "prompt"]
    choice = choose(space, 4)
    assert choice.names[:1] == ("slow",) and "prompt" in choice.names
    assert any("no run 'nothing'" in text for text in choice.told)
    assert any("At most 1" in text for text in choose(space, 1).told)


def test_hostile_words_stay_text(space):
    space.select(("prompt", "R1_C2_i1_L2", ""))
    view = CompareView(space)
    space.together = ["prompt", "slow", HOSTILE]
    shown = view.told.object + view.tests.object + view.title.object + "".join(head.object for head in view.heads)
    assert "<script" not in shown and "<img" not in shown


def test_the_comparison_is_a_link(store, space):
    space.param.update(view="compare", together=["slow", "prompt"], rule="strict", align="window", case="R1_C2_i1_L1")
    other = Workspace(store)
    assert read_query(other, to_query(space)) == []
    assert (other.together, other.rule, other.align) == (["slow", "prompt"], "strict", "window")
    assert CompareView(other).names == ("slow", "prompt")
    for bad in ("?runs=5", "?runs={%22a%22:1}", "?set=[1]", "?set={%22a%22:true}", "?rule=odd", "?align=odd"):
        assert read_query(Workspace(store), bad), bad


def test_every_view_opens_from_the_shell(space):
    shell = Shell(space)
    for name in ("compare", "sweep", "overview", "share", "cases"):
        space.view = name
        assert shell.open.active
    assert not shell.views["sweep"].active
