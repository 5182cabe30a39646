"""Tables of Duplex-MPE: the published example of size from its counts, pairs, chains, rankings."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from workbench.benchmarks.duplexmpe import BENCHMARK
from workbench.benchmarks.duplexmpe.judged import answer_tables, silence_tables
from workbench.benchmarks.duplexmpe.measure import TAGS
from workbench.benchmarks.duplexmpe.pairs import pair_tests
from workbench.benchmarks.duplexmpe.ranking import presence_and_onset, silence_ranking
from workbench.benchmarks.duplexmpe.streams import FLOATS, TRUTHS
from workbench.benchmarks.duplexmpe.summary import joined, rate, tables

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
    verdicts = BENCHMARK.verdicts(frame, BENCHMARK.defaults)
    made = tables(frame, verdicts, resamples=200)
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
    assert rate(903, 1909)["rate"] == 0.4730 and rate(0, 0)["rate"] is None


def test_accuracy_has_presence_for_its_denominator(frame):
    run = SimpleNamespace(measurements=frame, verdicts=lambda: BENCHMARK.verdicts(frame, BENCHMARK.defaults))
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
    run = SimpleNamespace(measurements=frame, verdicts=lambda: BENCHMARK.verdicts(frame, BENCHMARK.defaults))
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
    row = pair_tests(joined(frame, BENCHMARK.verdicts(frame, BENCHMARK.defaults)), resamples=500).iloc[0]
    assert (row.pairs, row.both, row.only_explicit, row.only_implicit, row.neither) == (40, 12, 18, 0, 10)
    assert row.difference_pp == pytest.approx(45.0) and row.low_pp < 45 < row.high_pp
    assert row.p_mcnemar == pytest.approx(2 * 0.5**18)
    frame.loc[0, "reason"] = "error: lost"
    row = pair_tests(joined(frame, BENCHMARK.verdicts(frame, BENCHMARK.defaults)), resamples=500).iloc[0]
    assert (row.pairs, row.incomplete, row.both) == (39, 1, 11)


def test_ranks_under_presence_and_under_fresh_onset_differ_for_one_who_never_stops():
    def system(fresh, presence, speech):
        parts = [block("fresh_onset", "T", 20, fresh), block("response_presence", "T", 20, presence)]
        parts += [block("fresh_onset_permissive", "T", 20, fresh), block("silence", "N2", 20, 20)]
        parts[-1]["speech_s"] = parts[-1]["most_s"] = speech
        return pd.concat(parts, ignore_index=True)

    runs = {"talker": system(0, 20, 5.0), "answerer": system(15, 15, 0.4), "quiet": system(2, 2, 0.0)}
    order = presence_and_onset(runs).set_index("system")
    assert order.loc["talker", ["response_presence_rank", "fresh_onset_rank", "moves"]].tolist() == [1, 3, 2]
    ranks = silence_ranking(runs, [0.25, 1.0]).set_index(["brief_s", "system"])
    assert ranks.loc[(0.25, "answerer"), "rank"] == 2 and ranks.loc[(1.0, "answerer"), "rank"] == 1
    assert ranks.loc[(1.0, "quiet"), "tau"] == pytest.approx(1.0)


def test_sweep_and_comparison_carry_several_rows_a_case():
    from workbench.analysis.compare import compare
    from workbench.analysis.sweep import sweep

    one = pd.concat([block("fresh_onset", "T", 20, 15), block("silence", "N2", 20, 12)], ignore_index=True)
    two = pd.concat([block("fresh_onset", "T", 20, 10), block("silence", "N2", 20, 20)], ignore_index=True)
    swept = sweep(BENCHMARK, {"one": one, "two": two}, {"onset_within_s": (0.5, 5.0)})
    assert swept.scores["fresh_onset"].tolist() == [[0.0, 0.0], [0.75, 0.5]]
    facts = {"content": "c", "fingerprint": "f", "scorer": "1", "thresholds": {}, "vad": {}}
    both = compare(
        {name: (f, BENCHMARK.verdicts(f, BENCHMARK.defaults), facts) for name, f in (("one", one), ("two", two))}
    )
    assert len(both.joined) == 40
    test = both.tests(resamples=200).iloc[0]
    assert (test.pairs, test.wins, test.losses) == (40, 8, 5)
