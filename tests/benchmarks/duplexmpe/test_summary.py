"""Tables of Duplex-MPE: the published example of size from its counts, pairs, chains, rankings."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from workbench.analysis.compare import compare
from workbench.analysis.sweep import ranking_flips, sweep
from workbench.benchmarks.duplexmpe import BENCHMARK
from workbench.benchmarks.duplexmpe.judging import answer_tables, silence_tables
from workbench.benchmarks.duplexmpe.measure import TAGS
from workbench.benchmarks.duplexmpe.streams import FLOATS, TRUTHS
from workbench.benchmarks.duplexmpe.tables import joined, pair_tests, presence_and_onset, tables
from workbench.deciding import Decider
from workbench.errors import InputError

FILLED = {"w0_s": 0.0, "w1_s": 5.0, "known_s": 60.0, "speech_s": 0.0, "most_s": 0.0, "release_s": 0.0, "window_s": 4.0,
          "active_at_start": False}  # fmt: skip


def block(metric, label, events, passed, condition="explicit", scenarios=None, start=0, **values):
    """Rows of one metric: the first `passed` of them with values that pass, the rest with values that fail."""
    index = np.arange(events)
    good, bad = {
        "fresh_onset": ({"onset_s": 1.0}, {"onset_s": np.nan}),
        "fresh_onset_permissive": ({"onset_s": 1.0}, {"onset_s": np.nan}),
        "response_presence": ({"speech_s": 2.0, "most_s": 2.0}, {}),
        "window_response": ({"speech_s": 2.0, "most_s": 2.0}, {}),
        "silence": ({}, {"speech_s": 3.0, "most_s": 3.0}),
        "yield": ({"release_s": 1.0}, {"release_s": 4.0}),
    }[metric]
    scenario = index % (scenarios or events)
    frame = pd.DataFrame({"case": [f"c{i}_{condition}" for i in scenario]})
    frame["event"] = (start + index // (scenarios or events)).astype(str)
    frame["conversation"] = frame["scenario"] = [f"c{i}" for i in scenario]
    for tag in TAGS[4:]:
        frame[tag] = "x"
    frame["condition"], frame["bucket"], frame["speakers"] = condition, 1 + scenario % 4, 3 + scenario % 2
    frame["turn_label"], frame["metric"], frame["reason"] = label, metric, None
    for name in (*FLOATS, *TRUTHS):
        frame[name] = FILLED.get(name)
        for mask, given in ((index < passed, good), (index >= passed, bad)):
            if name in given:
                frame.loc[mask, name] = given[name]
    for name, value in values.items():
        frame[name] = value
    return frame


def chain(events, eligible, passed, condition="explicit", **more):
    frame = block("yield", "N4_R", events, passed, condition, **more)
    index = np.arange(events)
    for name in TRUTHS[1:]:
        frame[name] = True
    frame.loc[index >= eligible, "began_in_gap"] = False
    return frame


def decided(frame, **limits):
    return Decider(BENCHMARK, frame).verdicts(limits)


def as_run(frame, **limits):
    """What a judge's tables take of a run that was scored with these thresholds."""
    return SimpleNamespace(measurements=frame, verdicts=lambda: decided(frame, **limits))


def published(condition="explicit"):
    """One system's explicit condition, from the counts that were published."""
    return pd.concat(
        [
            block("fresh_onset", "T", 2000, 1900, condition, start=5),
            block("response_presence", "T", 2000, 1909, condition, start=5),
            block("silence", "N2", 20360, 18817, condition, scenarios=2000, start=20),
            chain(1911, 1633, 974, condition, start=9),
            block("window_response", "N4_Q", 1911, 1818, condition, start=8),
        ],
        ignore_index=True,
    )


@pytest.fixture(scope="module")
def frame():
    return published()


def test_the_published_counts_give_the_published_rates(frame):
    made = tables(frame, decided(frame))
    rows = made["metrics"].set_index(["metric", "version"])
    for metric, value, passed, measured in (
        ("fresh_onset", 0.9500, 1900, 2000), ("silence", 0.9242, 18817, 20360), ("yield", 0.5964, 974, 1633),
        ("response_presence", 0.9545, 1909, 2000), ("window_response", 0.9513, 1818, 1911),
    ):  # fmt: skip
        row = rows.loc[metric, "explicit"]
        assert (row.passed, row.measured, row.excluded) == (passed, measured, 0)
        assert round(row.rate, 4) == value and row.low < row.rate < row.high
    assert rows.loc["yield", "explicit"].not_eligible == 1911 - 1633
    step = made["yield_chain"].set_index("version").loc["explicit"]
    assert (step.events, step.silent_during_question, step.eligible, step.yielded) == (1911, 1911, 1633, 974)
    assert made["pairs"].set_index("metric").loc["silence", "pairs"] == 0, "there is no implicit half"


def test_accuracy_has_presence_for_its_denominator(frame):
    run = as_run(frame)
    said = frame[(frame["metric"] == "response_presence") & (frame["speech_s"] > 0)]
    rows = pd.DataFrame({"case": said["case"], "item": said["event"], "status": "ok"})
    rows["answer"] = np.where(np.arange(len(rows)) < 903, "correct", "incorrect")
    made = answer_tables(run, rows)["accuracy"].set_index("version").loc["explicit"]
    assert (made.passed, made.measured, made.excluded, made.not_eligible) == (903, 1909, 0, 91)
    assert round(made.rate, 4) == 0.4730
    rows.iloc[:9, rows.columns.get_loc("status")] = "error"
    made = answer_tables(run, rows)["accuracy"].set_index("version").loc["explicit"]
    assert (made.passed, made.measured, made.excluded) == (894, 1900, 9), "a judge's error stays outside"


def test_a_judge_decides_the_silence_windows_that_hold_speech(frame):
    run = as_run(frame)
    spoken = frame[(frame["metric"] == "silence") & (frame["speech_s"] > 0)]
    rows = pd.DataFrame({"case": spoken["case"], "item": spoken["event"], "status": "ok", "kind": "floor"})
    rows.iloc[:43, rows.columns.get_loc("kind")] = "brief"
    made = silence_tables(run, rows)
    row = made["judged_silence"].set_index("version").loc["explicit"]
    assert (row.passed, row.measured) == (18817 + 43, 20360)
    apart = made["judge_and_duration"].set_index("by the judge")
    assert apart.loc["brief", "floor by duration"] == 43 and apart.loc["floor", "floor by duration"] == 1500


def test_explicit_against_implicit_is_paired_by_scenario_and_turn():
    explicit, implicit = block("fresh_onset", "T", 40, 30), block("fresh_onset", "T", 40, 12, "implicit")
    frame = pd.concat([explicit, implicit], ignore_index=True)
    row = pair_tests(joined(frame, decided(frame))).iloc[0]
    assert (row.pairs, row.both, row.only_explicit, row.only_implicit, row.neither) == (40, 12, 18, 0, 10)
    assert row.difference_pp == pytest.approx(45.0) and row.low_pp < 45 < row.high_pp
    assert row.p_mcnemar == pytest.approx(2 * 0.5**18)
    frame.loc[0, "reason"] = "error: lost"
    row = pair_tests(joined(frame, decided(frame))).iloc[0]
    assert (row.pairs, row.incomplete, row.both) == (39, 1, 11)


def test_ranks_under_presence_and_under_fresh_onset_differ_for_one_who_never_stops():
    def system(fresh, presence, speech):
        parts = [block("fresh_onset", "T", 20, fresh), block("response_presence", "T", 20, presence)]
        parts += [block("fresh_onset_permissive", "T", 20, fresh), block("silence", "N2", 20, 20)]
        parts[-1]["speech_s"] = parts[-1]["most_s"] = speech
        return pd.concat(parts, ignore_index=True)

    runs = {"talker": system(0, 20, 5.0), "answerer": system(15, 15, 0.4), "quiet": system(2, 2, 0.0)}
    order = presence_and_onset(sweep(BENCHMARK, runs)).set_index("system")
    assert order.loc["talker", ["response_presence_rank", "fresh_onset_rank", "moves"]].tolist() == [1, 3, 2]
    ranks = sweep(BENCHMARK, runs, {"brief_s": (0.25, 1.0)}, ranking="silence").frame().set_index(["brief_s", "system"])
    assert ranks.loc[(0.25, "answerer"), "rank"] == 2 and ranks.loc[(1.0, "answerer"), "rank"] == 1
    assert ranks.loc[(1.0, "quiet"), "tau"] == pytest.approx(1.0)
    with pytest.raises(InputError, match="no score 'charm'"):
        sweep(BENCHMARK, runs, ranking="charm")


def test_a_system_of_which_nothing_is_measured_has_no_rank():
    one, two = block("fresh_onset", "T", 20, 15), block("fresh_onset", "T", 20, 10)
    lost = block("fresh_onset", "T", 20, 20, reason="no_audio")
    swept = sweep(BENCHMARK, {"lost": lost, "one": one, "two": two})
    assert np.isnan(swept.ranks[swept.default][0]) and swept.ranks[swept.default][1:].tolist() == [1.0, 2.0]
    assert swept.summary()["ranked"] == len(swept.settings)
    order = presence_and_onset(swept).set_index("system")
    assert np.isnan(order.loc["lost", "fresh_onset_rank"]) and order.loc["one", "fresh_onset_rank"] == 1


def test_ranking_flips_see_every_threshold():
    """Two systems whose order turns at 0.6 s of speech, and by metric at their own thresholds only."""

    def system(onset, speech):
        frame = pd.concat([block("fresh_onset", "T", 20, 20), block("silence", "N2", 20, 20)], ignore_index=True)
        fresh = frame["metric"] == "fresh_onset"
        frame.loc[fresh, "onset_s"] = [onset if place < 12 else 1.0 for place in range(20)]
        frame.loc[~fresh, ["speech_s", "most_s"]] = speech
        return frame

    systems = {"quick": system(2.0, 0.6), "slow": system(4.5, 0.4)}
    flip = ranking_flips(BENCHMARK, systems, "onset_within_s")
    assert flip.below == pytest.approx(4.5) and flip.below < 4.5 and flip.above is None
    assert ranking_flips(BENCHMARK, systems, "brief_s").below is None, "brief speech does not move fresh onset"
    brief = ranking_flips(dataclasses.replace(BENCHMARK, ranking="silence"), systems, "brief_s")
    assert brief.below == pytest.approx(0.6) and brief.below < 0.6
    chains = {"early": chain(10, 10, 10), "late": chain(10, 10, 10).assign(release_s=1.8)}
    released = ranking_flips(dataclasses.replace(BENCHMARK, ranking="yield"), chains, "yield_within_s")
    assert released.below == pytest.approx(1.8) and released.below < 1.8


def test_tables_stand_under_the_thresholds_of_the_verdicts():
    """34 events that yield at 2.0 s and none at 0.5 s; 24 of 144 windows are quiet at 0.1 s."""
    yields = chain(34, 34, 34)
    windows = block("silence", "N2", 144, 24, start=20)
    windows.loc[windows["speech_s"] > 0, ["speech_s", "most_s"]] = 0.8
    frame = pd.concat([yields, windows], ignore_index=True)
    made = tables(frame, decided(frame, yield_within_s=0.5, brief_s=0.1))
    rates = made["metrics"].set_index(["metric", "version"])
    assert (rates.loc["yield", "both"].passed, rates.loc["yield", "both"].measured) == (0, 34)
    step = made["yield_chain"].set_index("version").loc["both"]
    assert (step.eligible, step.yielded) == (34, 0)
    assert (rates.loc["silence", "both"].passed, rates.loc["silence", "both"].measured) == (24, 144)
    swept = made["silence_thresholds"].query("version == 'both'").set_index("brief")
    assert (swept.loc["0.1 s", "passed"], swept.loc["0.1 s", "measured"]) == (24, 144), "the threshold in force too"
    assert swept.loc["1 s", "passed"] == 144 and 0.9 < swept.loc["1 s", "low"] < 1 == swept.loc["1 s", "high"]


def test_the_judge_beside_the_duration_rule_is_the_runs_own():
    windows = block("silence", "N2", 10, 4)
    windows.loc[windows["speech_s"] > 0, ["speech_s", "most_s"]] = 0.8
    spoken = windows[windows["speech_s"] > 0]
    rows = pd.DataFrame({"case": spoken["case"], "item": spoken["event"], "status": "ok", "kind": "floor"})
    for limit, column in ((1.0, "brief by duration"), (0.1, "floor by duration")):
        apart = silence_tables(as_run(windows, brief_s=limit), rows)["judge_and_duration"].set_index("by the judge")
        assert apart.loc["floor", column] == 6


def test_table_and_sweep_have_the_same_denominator_under_every_setting():
    """Ten windows, six with 0.3 s of speech in a recording that ends early: undecided at 1.0 s, fails at 0.25 s."""
    windows = block("silence", "N2", 10, 4)
    windows.loc[windows["speech_s"] > 0, ["speech_s", "most_s"]] = 0.3, 1.4
    one = sweep(BENCHMARK, {"one": windows}, {"brief_s": (0.25, 1.0)})
    for place, (limit, passed, measured) in enumerate(((0.25, 4, 10), (1.0, 4, 4))):
        made = tables(windows, decided(windows, brief_s=limit))
        row = made["metrics"].set_index(["metric", "version"]).loc["silence", "both"]
        assert (row.passed, row.measured, row.excluded) == (passed, measured, 10 - measured)
        shown = made["silence_thresholds"].query("version == 'both'").set_index("brief").loc[f"{limit:g} s"]
        assert (shown.passed, shown.measured) == (passed, measured)
        assert one.scores["silence"][place, 0] == pytest.approx(passed / measured)


def test_sweep_and_comparison_carry_several_rows_a_case():
    one = pd.concat([block("fresh_onset", "T", 20, 15), block("silence", "N2", 20, 12)], ignore_index=True)
    two = pd.concat([block("fresh_onset", "T", 20, 10), block("silence", "N2", 20, 20)], ignore_index=True)
    swept = sweep(BENCHMARK, {"one": one, "two": two}, {"onset_within_s": (0.5, 5.0)})
    assert swept.scores["fresh_onset"].tolist() == [[0.0, 0.0], [0.75, 0.5]]
    facts = {"content": "c", "fingerprint": "f", "scorer": "1", "thresholds": {}, "vad": {}}
    both = compare(BENCHMARK, {name: (f, decided(f), facts) for name, f in (("one", one), ("two", two))})
    assert len(both.joined) == 40
    tests = both.tests().set_index("metric")
    assert tests.loc["fresh_onset", ["pairs", "wins", "losses"]].tolist() == [20, 0, 5]
    assert tests.loc["silence", ["pairs", "wins", "losses"]].tolist() == [20, 8, 0], "metrics are never pooled"
    assert set(both.by("turn_label")["turn_label"]) == {"T", "N2"}


def test_marks_lie_where_the_row_says():
    row = {"metric": "fresh_onset", "w0_s": 12.0, "w1_s": 17.0, "onset_s": 1.5, "limit": "onset_within_s",
           "limit_value": 5.0}  # fmt: skip
    places = {mark.kind: (mark.start_s, mark.end_s, mark.threshold) for mark in BENCHMARK.marks(row)}
    assert places == {
        "window": (12.0, 17.0, None),
        "onset": (13.5, None, None),
        "limit": (17.0, None, "onset_within_s"),
    }
    brief = row | {"metric": "silence", "onset_s": np.nan, "limit": "brief_s", "limit_value": 1.0}
    assert [mark.kind for mark in BENCHMARK.marks(brief)] == ["window"]
    given_up = row | {"onset_s": None, "release_s": 2.5, "limit": "yield_within_s", "limit_value": 2.0}
    assert [(mark.kind, mark.start_s) for mark in BENCHMARK.marks(given_up)][1:] == [("offset", 14.5), ("limit", 14.0)]
    assert BENCHMARK.marks({"w0_s": None, "w1_s": None}) == []
