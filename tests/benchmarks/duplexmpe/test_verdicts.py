"""Verdicts of Duplex-MPE against the definitions, with numbers worked out by hand."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench import brought
from workbench.analysis.sweep import sweep
from workbench.benchmarks.duplexmpe import BENCHMARK
from workbench.benchmarks.duplexmpe.streams import Stream, measure_streams
from workbench.contract import FAIL, NOT_ELIGIBLE, PASS, UNDECIDED
from workbench.deciding import Decider
from workbench.errors import InputError

T = {"label": "T", "start_s": 10.0, "end_s": 12.0}
AFTER = {"label": "N2", "start_s": 30.0, "end_s": 33.0}
Q, R = {"label": "N4_Q", "start_s": 10.0, "end_s": 12.0}, {"label": "N4_R", "start_s": 15.0, "end_s": 19.0}


def decide_brought(items, settings):
    return brought.decide(BENCHMARK, items, settings)


def decide(turns, spans, end_s=60.0, **settings):
    rows, problems = decide_brought([{"id": "x", "turns": turns, "model_spans": spans, "end_s": end_s}], settings)
    assert not problems
    return {(row["turn"], row["metric"]): row for row in rows}


def on_t(spans, turns=(T, AFTER), **more):
    rows = decide(list(turns), spans, **more)
    return tuple(rows[0, name]["verdict"] for name in ("fresh_onset", "fresh_onset_permissive", "response_presence"))


@pytest.mark.parametrize(
    "spans, verdicts",
    [
        ([[13.0, 15.0]], ("pass", "pass", "pass")),
        ([[17.0, 18.0]], ("pass", "pass", "pass")),  # exactly 5 s after T
        ([[17.001, 18.0]], ("fail", "fail", "pass")),
        ([[12.0, 13.0]], ("pass", "pass", "pass")),  # begins as T ends: new, not under way
        ([[11.0, 12.0], [12.9, 14.0]], ("pass", "pass", "pass")),  # ended as T ended, a new one 0.9 s later
        ([[11.0, 12.0], [12.7, 14.0]], ("fail", "fail", "pass")),  # 0.7 s apart: one segment, under way
        ([[11.0, 12.5], [14.0, 15.0]], ("fail", "pass", "pass")),  # under way, and something new
        ([[11.0, 29.0]], ("fail", "fail", "pass")),
        ([[31.0, 32.0]], ("fail", "fail", "fail")),  # only in the next turn
        ([], ("fail", "fail", "fail")),
        ([[9.0, 11.0]], ("fail", "fail", "fail")),  # over before T ended
    ],
)
def test_onset_and_presence(spans, verdicts):
    assert on_t(spans) == verdicts


def test_the_response_window_lasts_to_the_next_turn_or_the_end_and_sixty_seconds_at_most():
    assert on_t([[40.0, 41.0]])[2] == "fail"
    assert on_t([[40.0, 41.0]], turns=[T])[2] == "pass"
    assert on_t([[73.0, 74.0]], turns=[T], end_s=100.0)[2] == "fail"


@pytest.mark.parametrize(
    "end_s, spans, verdicts",
    [
        (14.0, [], ("unmeasurable", "unmeasurable", "unmeasurable")),  # the next turn was to come at 30 s
        (14.0, [[13.0, 13.5]], ("pass", "pass", "pass")),
        (14.0, [[11.0, 13.5]], ("fail", "unmeasurable", "pass")),  # under way decides the strict reading only
        (17.0, [], ("fail", "fail", "unmeasurable")),
        (11.0, [], ("unmeasurable", "unmeasurable", "unmeasurable")),
        (14.0, [[14.5, 15.0]], ("unmeasurable", "unmeasurable", "unmeasurable")),  # past the end is not known
    ],
)
def test_a_recording_that_ends_early(end_s, spans, verdicts):
    assert on_t(spans, end_s=end_s) == verdicts


@pytest.mark.parametrize(
    "spans, verdict, heard",
    [
        ([], "pass", "silent"),
        ([[11.0, 12.0]], "pass", "brief"),  # exactly 1.0 s
        ([[11.0, 12.001]], "fail", "floor"),
        ([[12.4, 20.0]], "pass", "brief"),  # 0.1 s of it lies before the turn's end + 0.5 s
        ([[12.5, 20.0]], "pass", "silent"),
        ([[9.0, 10.0]], "pass", "silent"),
        ([[10.0, 10.4], [11.1, 11.5]], "fail", "floor"),  # 0.7 s apart: one segment of 1.5 s
        ([[10.0, 10.4], [11.2, 11.6]], "pass", "brief"),  # exactly 0.8 s apart: two, 0.8 s together
    ],
)
def test_silence(spans, verdict, heard):
    row = decide([{"label": "N3", "start_s": 10.0, "end_s": 12.0}], spans)[0, "silence"]
    assert (row["verdict"], row["evidence"]["heard"]) == (verdict, heard)


@pytest.mark.parametrize("limit, verdict", [(0.0, "fail"), (0.5, "fail"), (0.6, "pass"), (2.0, "pass")])
def test_the_brief_threshold_moves_the_verdict(limit, verdict):
    turn = {"label": "N1", "start_s": 10.0, "end_s": 12.0}
    assert decide([turn], [[10.5, 11.1]], brief_s=limit)[0, "silence"]["verdict"] == verdict


@pytest.mark.parametrize(
    "end_s, spans, verdict",
    [
        (12.0, [], "pass"),  # half a second is missing, and half a second of speech would be brief
        (12.0, [[10.0, 10.6]], "unmeasurable"),
        (12.0, [[10.0, 11.2]], "fail"),
        (11.0, [], "unmeasurable"),
        (10.0, [], "unmeasurable"),
        (12.0, [[11.1, 11.4]], "unmeasurable"),  # speech at once would merge with it: 0.3 + 0.6 + 0.5 s
    ],
)
def test_silence_in_a_recording_that_ends_early(end_s, spans, verdict):
    assert (
        decide([{"label": "N2", "start_s": 10.0, "end_s": 12.0}], spans, end_s=end_s)[0, "silence"]["verdict"]
        == verdict
    )


@pytest.mark.parametrize(
    "spans, verdict, step",
    [
        ([[13.0, 16.9]], "pass", "eligible"),
        ([[13.0, 17.0]], "pass", "eligible"),  # silent from 2.0 s on
        ([[13.0, 17.001]], "fail", "eligible"),
        ([[13.0, 15.5], [19.4, 20.0]], "fail", "eligible"),  # again within 0.5 s after the turn
        ([[13.0, 15.5], [19.5, 20.0]], "pass", "eligible"),
        ([[13.0, 15.5], [17.0, 17.2]], "fail", "eligible"),  # the moment itself
        ([[13.0, 15.5], [16.4, 16.9]], "pass", "eligible"),  # within the 2 s it may still say something
        ([[11.0, 11.5], [13.0, 16.0]], "not_eligible", "silent_during_question"),
        ([[11.9, 16.0]], "not_eligible", "silent_during_question"),
        ([[12.0, 16.0]], "pass", "eligible"),  # begins as the question ends
        ([], "not_eligible", "started_in_gap"),
        ([[15.0, 16.0]], "not_eligible", "started_in_gap"),  # begins with N4_R
        ([[13.0, 14.0]], "not_eligible", "speaking_at_resolution"),
        ([[13.0, 15.0]], "not_eligible", "speaking_at_resolution"),
        ([[13.0, 14.4], [15.1, 16.0]], "pass", "eligible"),  # 0.7 s apart: speaking at 15 s
    ],
)
def test_yield(spans, verdict, step):
    row = decide([Q, R], spans)[1, "yield"]
    assert (row["verdict"], row["evidence"]["heard"]) == (verdict, step)


@pytest.mark.parametrize("last, verdict", [(16.99, "pass"), (17.0, "pass"), (17.2, "fail")])
def test_a_shorter_turn_does_not_shorten_the_two_seconds(last, verdict):
    short = R | {"end_s": 15.8}
    assert decide([Q, short], [[13.0, last]])[1, "yield"]["verdict"] == verdict
    # Past the short turn's window nothing but the moment at 2.0 s counts.
    assert decide([Q, short], [[13.0, 15.5], [17.1, 19.0]])[1, "yield"]["verdict"] == "pass"
    assert decide([Q, short], [[13.0, 15.5], [16.9, 19.0]])[1, "yield"]["verdict"] == "fail"


@pytest.mark.parametrize(
    "end_s, spans, verdict",
    [
        (19.4, [[13.0, 16.0]], "unmeasurable"),
        (19.5, [[13.0, 16.0]], "pass"),
        (18.0, [[13.0, 17.5]], "fail"),
        (14.0, [[13.0, 14.0]], "unmeasurable"),
        (14.0, [[11.0, 13.0]], "not_eligible"),
        (11.0, [], "unmeasurable"),
        (15.0, [[13.0, 15.0]], "unmeasurable"),
    ],
)
def test_yield_in_a_recording_that_ends_early(end_s, spans, verdict):
    assert decide([Q, R], spans, end_s=end_s)[1, "yield"]["verdict"] == verdict


@pytest.mark.parametrize(
    "spans, verdict",
    [
        ([[11.0, 11.2]], "pass"),
        ([[14.9, 15.5]], "pass"),
        ([[15.0, 16.0]], "fail"),
        ([[9.0, 10.0]], "fail"),
        ([], "fail"),
    ],
)
def test_window_response(spans, verdict):
    assert decide([Q, R], spans)[0, "window_response"]["verdict"] == verdict


def test_a_resolution_without_a_question_has_nothing_to_yield():
    row = decide([AFTER, R | {"start_s": 40.0, "end_s": 42.0}], [])[1, "yield"]
    assert row["verdict"] == "unmeasurable" and "N4_Q" in row["reason"]


def test_every_metric_that_applies_to_each_turn_stands_in_turn_order_without_nan():
    labels = ["N2", "T", "N1", "N4_Q", "N4_R", "N3"]
    turns = [{"label": label, "start_s": 10.0 * i, "end_s": 10.0 * i + 4} for i, label in enumerate(labels)]
    rows, problems = decide_brought([{"id": 7, "turns": turns, "model_spans": [[15, 17.5]], "end_s": 70}], {})
    assert not problems
    assert [(row["turn"], row["metric"]) for row in rows] == [
        (0, "silence"), (1, "fresh_onset"), (1, "fresh_onset_permissive"), (1, "response_presence"), (2, "silence"),
        (3, "window_response"), (4, "yield"), (5, "silence"),
    ]  # fmt: skip
    assert all(set(row) == {"id", "metric", "turn", "verdict", "reason", "evidence"} and row["id"] == 7 for row in rows)
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


@pytest.mark.parametrize(
    "spoilt, words",
    [
        ({"turns": [T], "model_spans": [], "end_s": 60}, "id"),
        ({"id": "b", "turns": [], "model_spans": [], "end_s": 60}, "turns"),
        ({"id": "b", "turns": [T | {"label": "N9"}], "model_spans": [], "end_s": 60}, "label"),
        ({"id": "b", "turns": [T | {"end_s": 9.0}], "model_spans": [], "end_s": 60}, "ends"),
        ({"id": "b", "turns": [AFTER, T], "model_spans": [], "end_s": 60}, "order"),
        ({"id": "b", "turns": [T], "model_spans": [[5, 4]], "end_s": 60}, "model_spans"),
        ({"id": "b", "turns": [T], "model_spans": [[1, 2]]}, "end_s"),
        ({"id": "b", "turns": [T], "model_spans": [], "end_s": math.nan}, "end_s"),
        ({"id": "a", "turns": [T], "model_spans": [], "end_s": 60}, "already"),
        ("not an object", "item 1"),
    ],
)
def test_a_spoilt_item_is_named_and_the_rest_is_answered(spoilt, words):
    good = {"id": "a", "turns": [T], "model_spans": [[13, 14]], "end_s": 60}
    rows, problems = decide_brought([good, spoilt, good | {"id": "c"}], {})
    assert len(problems) == 1 and words in problems[0] and problems[0].startswith("item 1")
    assert [row["verdict"] for row in rows if row["id"] in ("a", "c") and "bad input" not in row["reason"]] == [
        "pass"
    ] * 6
    assert all(row["verdict"] == "unmeasurable" for row in rows if "bad input" in row["reason"])
    json.dumps(rows, allow_nan=False)


def test_what_is_no_list_and_unknown_thresholds_are_refused():
    with pytest.raises(InputError, match="list"):
        decide_brought({"id": "a"}, {})
    with pytest.raises(InputError, match="no threshold 'brief'"):
        decide_brought([], {"brief": 1.0})


spans_strategy = st.lists(
    st.tuples(st.integers(0, 599), st.integers(1, 60)).map(lambda pair: [pair[0] / 10, (pair[0] + pair[1]) / 10]),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(spans_strategy, st.integers(130, 700))
def test_more_recording_never_turns_a_verdict_round(spans, tenths):
    """What a shorter recording decides, the whole one decides alike."""
    turns = [{"label": "N2", "start_s": 2, "end_s": 5}, T, AFTER, Q | {"start_s": 36.0, "end_s": 38.0},
             R | {"start_s": 41.0, "end_s": 44.0}, {"label": "N3", "start_s": 50, "end_s": 52}]  # fmt: skip
    short, whole = decide(turns, spans, end_s=tenths / 10), decide(turns, spans, end_s=80.0)
    for key, row in short.items():
        if row["verdict"] != "unmeasurable":
            assert row["verdict"] == whole[key]["verdict"], (key, row, whole[key])


@settings(max_examples=60, deadline=None)
@given(spans_strategy)
def test_strict_is_never_kinder_than_permissive_and_both_need_presence_before_the_next_turn(spans):
    strict, permissive, presence = on_t(spans)
    assert strict == "fail" or permissive == "pass"
    assert permissive == "fail" or presence == "pass"  # the next turn comes 18 s after T


@pytest.fixture(scope="module")
def decider():
    """The rules over sixty streams in which an agent speaks at random."""
    random = np.random.default_rng(3)
    streams = []
    for _ in range(60):
        edges = np.sort(np.round(random.uniform(0, 60, 14), 2)).reshape(-1, 2)
        streams.append(Stream(["N2", "T", "N1", "N4_Q", "N4_R"], [1, 10, 20, 30, 36], [4, 12, 24, 33, 39],
                              edges[edges[:, 1] > edges[:, 0]], 60.0))  # fmt: skip
    return Decider(BENCHMARK, pd.DataFrame(measure_streams(streams)))


def test_many_settings_at_once_agree_with_one_at_a_time(decider):
    limits = {"onset_within_s": np.array([1.0, 5.0, 8.0]), "brief_s": np.array([0.0, 1.0, 2.5])}
    many = decider.states(limits)
    for index in range(3):
        one = decider.states({name: float(values[index]) for name, values in limits.items()})
        assert (many[index] == one[0]).all()
    assert set(np.unique(many)) == {NOT_ELIGIBLE, FAIL, PASS}


def test_every_flip_turns_the_verdict_where_it_says(decider):
    before, seen = decider.states()[0], set()
    for place, flip in enumerate(decider.flips()):
        if flip is None:
            continue
        name, side = flip.threshold.name, {"from": 1, "above": 2, "below": 0, "up_to": 1}[flip.passes]
        around = [np.nextafter(flip.value, -np.inf), flip.value, np.nextafter(flip.value, np.inf)]
        passing = [decider.states({name: value})[0][place] == PASS for value in around]
        assert passing[side] and passing.count(True) < 3, (place, flip)
        assert before[place] >= FAIL
        seen.add((decider.frame["metric"][place], name))
    assert seen == {("fresh_onset", "onset_within_s"), ("fresh_onset_permissive", "onset_within_s"),
                    ("silence", "brief_s"), ("yield", "yield_within_s")}  # fmt: skip


@pytest.mark.parametrize("missing_s, verdict", [(0.004, "pass"), (0.089, "pass"), (0.09, "unmeasurable")])
def test_a_window_that_lacks_less_than_the_shortest_speech_is_whole(missing_s, verdict):
    """Silence at a limit of 0 s, no answer in time, nothing in a response window, silent after N4_R."""
    turn, absent = {"label": "N1", "start_s": 10.0, "end_s": 12.0}, "fail" if verdict == "pass" else verdict
    assert decide([turn], [], end_s=12.5 - missing_s, brief_s=0.0)[0, "silence"]["verdict"] == verdict
    assert decide([T], [], end_s=17.0 - missing_s)[0, "fresh_onset"]["verdict"] == absent
    assert decide([T, AFTER], [], end_s=30.0 - missing_s)[0, "response_presence"]["verdict"] == absent
    assert decide([Q, R], [[13.0, 16.0]], end_s=19.5 - missing_s)[1, "yield"]["verdict"] == verdict
    before = decide([Q, R], [], end_s=15.0 - missing_s)[1, "yield"]["verdict"]
    assert before == {"pass": "not_eligible"}.get(verdict, verdict), "nothing had begun as N4_R was to begin"


def test_a_recording_that_ends_before_or_inside_its_window_is_not_silence():
    for end_s in (5.0, 10.0, 10.05, 11.0):
        turn = {"label": "N1", "start_s": 10.0, "end_s": 12.0}
        assert decide([turn], [], end_s=end_s)[0, "silence"]["verdict"] == "unmeasurable"


def test_a_sweep_decides_what_each_setting_can_measure():
    """0.3 s of speech and up to 0.9 s more: undecided at 1.0 s, a fail at 0.25 s, a pass at 1.2 s."""
    streams = [Stream(["N2"], [10.0], [12.0], np.array([[10.2, 10.5]]), 11.6)]
    streams += [Stream(["N2"], [10.0], [12.0], np.empty((0, 2)), 20.0)]
    frame = pd.DataFrame(measure_streams(streams))
    found = Decider(BENCHMARK, frame).states({"brief_s": np.array([0.25, 1.0, 1.2])})
    assert found[:, 0].tolist() == [FAIL, UNDECIDED, PASS]
    swept = sweep(BENCHMARK, {"one": frame}, {"brief_s": (0.25, 1.0, 1.2)})
    assert swept.scores["silence"][:, 0].tolist() == [0.5, 1.0, 1.0]
