"""The nine verifiers, by hand-made segments whose verdicts follow from the paper's rules."""

import json

import numpy as np
import pandas as pd
import pytest

from workbench import brought
from workbench.benchmarks.ifeval import BENCHMARK
from workbench.benchmarks.ifeval.cases import tokens
from workbench.benchmarks.ifeval.measure import coverage
from workbench.contract import PASS
from workbench.deciding import Decider, grid
from workbench.errors import InputError


def decide_brought(items, settings=None):
    return brought.decide(BENCHMARK, items, settings)


def one(action, model, user=((0, 10), (13, 15)), window=(10, 13), **more):
    item = {"id": "x", "action": action, "window": window, "user_spans": user, "model_spans": model}
    settings = more.pop("settings", {})
    verdicts, problems = decide_brought([item | more], settings)
    assert not problems
    json.dumps(verdicts, allow_nan=False)
    return verdicts[0]


def both(action, model, **more):
    verdict = one(action, model, **more)
    return verdict["verdict"], verdict["strict"]


@pytest.mark.parametrize("action", ["LISTEN", "NO_BACKCHANNEL"])
@pytest.mark.parametrize(
    ("model", "verdict"),
    [
        ([], "pass"),
        ([[2, 4]], "pass"),
        ([[13.5, 14]], "pass"),
        ([[9, 10]], "pass"),  # ends as the window opens
        ([[11, 11.4]], "fail"),  # even a backchannel
        ([[8, 10.2]], "fail"),  # held over into the window
        ([[8, 14]], "fail"),
    ],
)
def test_silence(action, model, verdict):
    assert both(action, model) == (verdict, verdict)


@pytest.mark.parametrize(
    ("model", "verdict"),
    [
        ([[11.2, 12]], "pass"),
        ([[12.0, 12.5]], "pass"),  # exactly at the limit of 2.0 s
        ([[12.001, 12.5]], "fail"),
        ([], "fail"),
        ([[9.5, 12.5]], "fail"),  # already speaking: no onset inside the window
        ([[9.5, 10.5], [11.0, 12]], "pass"),  # a new span after the old one
        ([[9.5, 10.5], [10.7, 12]], "fail"),  # less than 0.3 s apart: one utterance, begun before
    ],
)
def test_take_turn(model, verdict):
    assert one("TAKE_TURN", model)["verdict"] == verdict


def test_limits_hold_exactly_in_spite_of_float_arithmetic():
    # 12.3 - 10.3 is 2.0000000000000018 in floating point
    assert one("TAKE_TURN", [[12.3, 13]], window=(10.3, 15.0))["verdict"] == "pass"
    assert one("YIELD", [[9, 10.9]], window=(10.3, 13.3))["verdict"] == "pass"
    assert one("INTERRUPT", [[11.8, 12.5]], window=(10.3, 13.3))["verdict"] == "pass"
    # 1.1 * 1000 is 1100.0000000000002
    assert (
        one("INTERRUPT", [[11.4, 12.5]], window=(10.3, 13.3), settings={"interrupt_latency_ms": 1100})["verdict"]
        == "pass"
    )


@pytest.mark.parametrize(
    ("model", "verdict"), [([[11.5, 12]], "pass"), ([[11.501, 12]], "fail"), ([[9, 12]], "fail"), ([], "fail")]
)
def test_interrupt(model, verdict):
    assert one("INTERRUPT", model)["verdict"] == verdict


@pytest.mark.parametrize(
    ("model", "verdict", "label"),
    [
        ([[10.5, 11.0]], "pass", "backchannel"),
        ([[10.5, 11.499]], "pass", "backchannel"),
        ([[10.5, 11.5]], "fail", "floor_take"),  # not shorter than the ceiling of 1.0 s
        ([], "fail", "silent"),
        ([[10.1, 10.3], [10.7, 10.9], [11.3, 11.5]], "pass", "backchannel"),
        ([[10.1, 10.3], [10.7, 10.9], [11.3, 11.5], [12.0, 12.2]], "fail", "backchannel"),  # four spans
        ([[10.1, 10.4], [10.6, 10.9]], "pass", "backchannel"),  # 0.2 s apart: one utterance
        ([[9.8, 10.3]], "fail", "floor_take"),  # none begins in the window
        ([[10.2, 10.5], [11.0, 12.8]], "fail", "floor_take"),
        ([[12.9, 13.5]], "pass", "backchannel"),  # begins in the window, ends after it
    ],
)
def test_backchannel(model, verdict, label):
    found = one("BACKCHANNEL", model)
    assert (found["verdict"], found["evidence"]["label"]) == (verdict, label)


def test_a_short_answer_after_the_users_last_word_is_no_backchannel():
    found = one("BACKCHANNEL", [[10.5, 10.9]], user=[[0, 10]])
    assert (found["verdict"], found["evidence"]["label"]) == ("fail", "floor_take")


@pytest.mark.parametrize(
    ("model", "yields", "goes_on"),
    [
        ([[7, 10.4]], ("pass", "pass"), ("fail", "fail")),
        ([[7, 10.6]], ("pass", "pass"), ("fail", "fail")),
        ([[7, 10.601]], ("fail", "fail"), ("pass", "pass")),
        ([[7, 14]], ("fail", "fail"), ("pass", "pass")),
        ([], ("fail", "fail"), ("pass", "fail")),  # a silent agent "continues" by the paper's rule
        ([[10.1, 10.4]], ("pass", "fail"), ("fail", "fail")),  # starts and stops: "yields" by the paper's rule
        ([[7, 9]], ("fail", "fail"), ("pass", "fail")),
        ([[7, 10.2], [10.4, 14]], ("fail", "fail"), ("pass", "pass")),  # a 0.2 s breath is no offset
    ],
)
def test_yield_and_continue(model, yields, goes_on):
    assert both("YIELD", model, user=[[10, 13]]) == yields
    assert both("CONTINUE", model, user=[[10, 13]]) == goes_on


@pytest.mark.parametrize(
    ("model", "verdicts"),
    [
        ([[7, 10.5]], ("pass", "pass")),
        ([[7, 10]], ("fail", "fail")),
        ([[11, 12]], ("pass", "fail")),  # overlap, but it was not the agent who was talked over
        ([], ("fail", "fail")),
    ],
)
def test_accept_overlap(model, verdicts):
    assert both("ACCEPT_OVERLAP", model, user=[[10, 13]]) == verdicts


@pytest.mark.parametrize(
    ("target", "transcript", "matched", "of"),
    [
        ("five five five", "555", 3, 3),
        ("five five five", "55", 2, 3),
        ("oh one four two", "That's 0142, right?", 4, 4),
        ("Juniper Way unit nine", "juniper way, UNIT 9!", 4, 4),
        ("two two", "two", 1, 2),  # each heard token counts once
        ("seven", "no", 0, 1),
    ],
)
def test_coverage_is_a_multiset_share(target, transcript, matched, of):
    found = coverage(target, transcript)
    assert (found.matched, found.target) == (matched, of)


def test_normalisation():
    assert tokens("Oh, it's 4-1-2; ZERO nine B2b!") == ["0", "it", "s", "4", "1", "2", "0", "9", "b2b"]


def test_readback_threshold_and_what_is_missing():
    target = "one two three four five six seven eight nine zero"
    assert one("READBACK", [], target=target, transcript="123456789")["verdict"] == "pass"  # 0.90 exactly
    found = one("READBACK", [], target=target, transcript="12345678")
    assert found["verdict"] == "fail" and found["evidence"]["tokens_missing"] == ["9", "0"]
    assert one("READBACK", [], target=target, transcript="")["verdict"] == "fail"
    assert one("READBACK", [], target=target, transcript=None)["verdict"] == "unmeasurable"
    assert one("READBACK", [], target=" -- ", transcript="1")["verdict"] == "unmeasurable"


def test_what_cannot_be_measured_says_why():
    found = one("YIELD", [], window=None)
    assert found["verdict"] == found["strict"] == "unmeasurable" and "no scored window" in found["reason"]


def test_reasons_carry_number_and_limit():
    assert one("TAKE_TURN", [[12.31, 13]])["reason"] == "onset 2.31 s after the window opened; limit 2.0 s"
    assert "400 ms" in one("YIELD", [[7, 10.4]])["reason"]


def test_settings_change_verdicts_and_unknown_ones_are_refused():
    assert one("TAKE_TURN", [[12.3, 13]], settings={"max_wait_s": 2.5})["verdict"] == "pass"
    assert (
        one("BACKCHANNEL", [[10.1, 10.4], [10.6, 10.9]], settings={"merge_gap_s": 0.1, "bc_window_max": 1})["verdict"]
        == "fail"
    )
    with pytest.raises(InputError, match="no threshold 'max_wait'"):
        one("TAKE_TURN", [], settings={"max_wait": 1})
    with pytest.raises(InputError, match="cannot be"):
        one("TAKE_TURN", [], settings={"max_wait_s": -1})


def test_bad_items_are_named_in_place_and_the_good_ones_decided():
    good = {"id": "good", "action": "LISTEN", "window": [1, 2], "user_spans": [], "model_spans": []}
    items = [
        good,
        {"id": "a", "action": "SHOUT", "window": [1, 2]},
        {"id": "b", "action": "LISTEN", "window": [2, 1]},
        {"id": "c", "action": "LISTEN", "window": [1, 2], "model_spans": [[3, 2]]},
        {"id": "d", "action": "LISTEN", "window": [1, 2], "surprise": 1},
        {"action": "LISTEN", "window": [1, 2]},
        "no object",
        good,
        good | {"id": "last"},
    ]
    verdicts, problems = decide_brought(items)
    assert [verdict["id"] for verdict in verdicts] == ["good", "a", "b", "c", "d", None, None, "good", "last"]
    assert [verdict["verdict"] for verdict in verdicts] == ["pass", *["unmeasurable"] * 7, "pass"]
    assert len(problems) == 7
    for problem, named in zip(
        problems, ["SHOUT", "window", "model_spans", "surprise", "id", "item 6", "good"], strict=True
    ):
        assert named in problem
    json.dumps(verdicts, allow_nan=False)


def random_table(n, seed):
    random = np.random.default_rng(seed)
    actions = np.array(list(BENCHMARK.rule))

    def sometimes(values):
        return np.where(random.random(n) < 0.8, values, None)

    starting = random.integers(0, 3, n)
    touching = starting + random.integers(0, 3, n)
    return pd.DataFrame(
        {
            "case": [f"c{i}" for i in range(n)],
            "action": actions[random.integers(0, 9, n)],
            "reason": np.where(random.random(n) < 0.1, "no_window", None),
            "genuine_s": sometimes(random.gamma(2, 0.8, n).round(3)),
            "off_s": sometimes(random.gamma(2, 0.3, n).round(3)),
            "speaking_at_w0": random.random(n) < 0.5,
            "starting": starting,
            "touching": touching,
            "longest_s": np.where(touching > 0, random.gamma(2, 0.5, n).round(3), None),
            "user_goes_on": random.random(n) < 0.8,
            "overlap_s": np.maximum(0, random.normal(0.2, 0.5, n)),
            "coverage": random.random(n).round(2),
            "own_max_wait_s": np.where(random.random(n) < 0.3, 3.0, np.nan),
        }
    )


def test_many_settings_at_once_equal_one_at_a_time():
    decider, settings = Decider(BENCHMARK, random_table(800, seed=3)), grid(BENCHMARK)
    assert len(settings) == 180
    for strict in (False, True):
        together = decider.states({name: settings[name].to_numpy() for name in settings}, strict=strict)
        for index in range(0, 180, 17):
            alone = decider.states(settings.iloc[index].to_dict(), strict=strict)
            assert np.array_equal(together[index], alone[0])


def test_a_roles_own_threshold_overrides_the_sweep():
    frame = random_table(1, seed=0).assign(action="TAKE_TURN", genuine_s=2.8, own_max_wait_s=3.0, reason=None)
    found = Decider(BENCHMARK, frame).states({"max_wait_s": np.array([0.5, 1.0, 5.0])})
    assert found[:, 0].tolist() == [PASS] * 3


def test_flip_points_are_where_the_verdict_really_flips():
    frame = random_table(600, seed=11)
    decider = Decider(BENCHMARK, frame)
    flipped = 0
    for index, (row, flip) in enumerate(zip(frame.to_dict("records"), decider.flips(), strict=True)):
        if flip is None or not np.isnan(row["own_max_wait_s"]):
            continue
        at = flip.value
        inside = {"from": at, "above": np.nextafter(at, np.inf), "below": np.nextafter(at, -np.inf), "up_to": at}
        outside = {"from": np.nextafter(at, -np.inf), "above": at, "below": at, "up_to": np.nextafter(at, np.inf)}
        values = np.array([inside[flip.passes], outside[flip.passes]])
        found = decider.states({flip.threshold.name: values})[:, index] == PASS
        assert found.tolist() == [True, False], (row, flip)
        flipped += 1
    assert flipped > 150


def test_unknown_axes_are_refused():
    with pytest.raises(InputError, match="no threshold 'patience'"):
        grid(BENCHMARK, {"patience": [1.0]})
    with pytest.raises(InputError, match="empty"):
        grid(BENCHMARK, {"max_wait_s": []})


@pytest.mark.parametrize("bad", [[1], {"a": 1}, float("nan"), "\ud800x", True, None, 1.5])
def test_an_id_that_is_none_costs_only_its_own_item(bad):
    item = {"id": bad, "action": "LISTEN", "window": [1, 2], "model_spans": []}
    verdicts, problems = decide_brought([item, item | {"id": "good"}])
    assert [verdict["verdict"] for verdict in verdicts] == ["unmeasurable", "pass"] and len(problems) == 1
    json.dumps(verdicts, allow_nan=False).encode()


def test_a_value_a_hair_past_its_limit_is_shown_as_such():
    assert "onset 2.001 s" in one("TAKE_TURN", [[12.001, 13]])["reason"]


@pytest.mark.parametrize("action", ["LISTEN", "TAKE_TURN", "YIELD", "BACKCHANNEL"])
def test_what_lies_after_the_recording_s_end_has_not_been_recorded(action):
    within = one(action, [[4, 5]], end_s=12.0)
    assert one(action, [[4, 5], [12.0, 12.8], [12.9, 14]], end_s=12.0) == within
    cut = one(action, [[4, 5], [11.9, 14]], end_s=12.0)
    assert cut == one(action, [[4, 5], [11.9, 12.0]], end_s=12.0)
