"""One pair built, run, scored and judged: reference agents at their ends, waits by what is heard, judges' words."""

import asyncio
import shutil

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from workbench import datasets
from workbench.agents.base import AudioOut, Traits, TurnEnd
from workbench.agents.registry import factory
from workbench.analysis.detectors import Setting
from workbench.benchmarks.duplexmpe import BENCHMARK as MPE
from workbench.benchmarks.duplexmpe import cases as au
from workbench.benchmarks.duplexmpe.judging import answer_items, answer_offline, brief_items, brief_offline
from workbench.benchmarks.duplexmpe.reference import rule
from workbench.cases import AfterTurn, AtTime, AudioRef, Case, Cue, Ending
from workbench.contract import BuildOptions
from workbench.deciding import Decider
from workbench.episodes import AgentInfo, Delivery, EpisodeRecord, Piece, Sends, timed_words, words_between
from workbench.errors import InputError
from workbench.judges.ask import OfflineJudge
from workbench.judges.base import Item, NotJudgeable, Part, judge_of
from workbench.judges.batch import judge_run
from workbench.judges.summary import summarise
from workbench.runners import batch
from workbench.runners.episode import run_episode
from workbench.runners.guard import VirtualClock
from workbench.runs import load_run
from workbench.scoring import score_run
from workbench.vad import VadSettings

AGENTS = ("oracle", "contrary", "silent", "name-spotter", "text-reference")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One pair (two cases), run by every reference agent and scored: agent -> run."""
    root = tmp_path_factory.mktemp("mpe")
    MPE.build(BuildOptions(root / "set", limit=2, workers=1))
    dataset = datasets.load(root / "set")
    assert MPE.validate(dataset, False) == [] and datasets.check_audio(dataset) == []
    out = {}
    for name in AGENTS:
        plan = batch.Plan(dataset, factory(name, {}, MPE), root / name, concurrency=1)
        assert not batch.run(plan).failed
        out[name] = load_run(root / name)
        score_run(out[name], workers=1)
    return out


def rates(run):
    verdicts = run.verdicts()
    shares = {}
    for (metric, condition), part in verdicts.assign(condition=verdicts["case"].str.rpartition("_")[2]).groupby(
        ["metric", "condition"]
    ):
        decided = part[part["verdict"].isin(["pass", "fail"])]
        shares[metric, condition] = float((decided["verdict"] == "pass").mean()) if len(decided) else None
    return shares


def test_the_oracle_passes_and_contrary_fails_every_capability(runs):
    for condition in au.CONDITIONS:
        for metric in ("fresh_onset", "fresh_onset_permissive", "silence", "yield"):
            assert rates(runs["oracle"])[metric, condition] == 1.0
            assert rates(runs["contrary"])[metric, condition] == 0.0
        assert rates(runs["contrary"])["response_presence", condition] == 1.0
    assert (runs["silent"].verdicts()["verdict"].value_counts()[["not_eligible"]] == 2).all()
    assert rates(runs["silent"])["silence", "explicit"] == 1.0


@pytest.mark.parametrize("agent", ["name-spotter", "text-reference"])
def test_who_goes_by_the_name_answers_the_explicit_version_only(runs, agent):
    shares = rates(runs[agent])
    assert (shares["fresh_onset", "explicit"], shares["fresh_onset", "implicit"]) == (1.0, 0.0)
    assert runs[agent].meta.agent["privileged"]
    pairs = runs[agent].tables()["pairs"].set_index("metric").loc["fresh_onset"]
    assert (pairs.only_explicit, pairs.only_implicit) == (1, 0)


def test_the_stream_waits_for_the_answer_and_goes_on_two_seconds_after_it(runs):
    for name, low, high in (("oracle", 2.0, 2.2), ("silent", None, None)):
        run = runs[name]
        for case in run.cases.values():
            record = run.record(case.id)
            place = [cue.label for cue in case.cues].index("T")
            ends, starts = record.cues[place].end_s, record.cues[place + 1].start_s
            if name == "silent":
                assert 6.0 <= starts - ends <= 6.05
            else:
                spoken = max(d.placed + d.played for d in record.deliveries if d.t_s < starts) / 24_000
                assert low <= starts - spoken + 0.1 and starts - spoken <= high
            question = [cue.label for cue in case.cues].index("N4_Q")
            assert 3.0 <= record.cues[question + 1].start_s - record.cues[question].end_s < 3.03


def test_scores_carry_several_rows_a_case(runs):
    run = runs["oracle"]
    measured = run.measurements
    assert not measured.duplicated(["case", "event", "metric"]).any()
    turns = sum(len(case.cues) - 1 for case in run.cases.values())
    assert len(measured) == turns + 2 * 2, "T has two rows more than the other turns"
    assert measured["reason"].isna().all()


def test_the_report_holds_reference_agents_to_what_is_scored(runs):
    from workbench.report import gather

    gathered = gather([runs["oracle"].folder, runs["contrary"].folder])
    matrix = gathered.calibration.matrix.set_index(["run", "metric"])
    assert matrix.loc[("oracle", "yield"), "met"] and matrix.loc[("contrary", "silence"), "met"]
    assert pd.isna(matrix.loc[("contrary", "response_presence"), "met"]), "a diagnostic expects nothing"
    assert gathered.calibration.exceptions.empty


def test_runs_side_by_side_by_metric_and_under_other_detectors(runs):
    tests = wb.compare(runs["oracle"], runs["contrary"]).tests().set_index("metric")
    measured = runs["oracle"].measurements["metric"]
    assert set(tests.index) == set(MPE.rule)
    for metric in ("fresh_onset", "silence", "yield"):
        count = (measured == metric).sum()
        assert tests.loc[metric, ["pairs", "wins", "losses"]].tolist() == [count, 0, count], "oracle is the baseline"
    assert tests.loc["response_presence", "ties"] == (measured == "response_presence").sum()
    settings = (Setting("default"), Setting("deaf", VadSettings(min_speech_ms=5000)))
    table = wb.sensitivity(runs["oracle"], settings).set_index(["setting", "metric"])
    assert table.loc["default", "changed"].eq(0).all()
    assert table.loc[("deaf", "fresh_onset"), ["passed", "pass_to_fail", "onsets_lost"]].tolist() == [0, 2, 2]
    assert table.loc[("deaf", "silence"), "rate"] == 1.0


def test_a_run_stands_under_the_thresholds_it_was_scored_with(runs, tmp_path):
    run = load_run(shutil.copytree(runs["oracle"].folder, tmp_path / "run"))
    score_run(run, thresholds={"yield_within_s": 0.1}, workers=1)
    chain = run.tables()["yield_chain"].set_index("version").loc["both"]
    metrics = run.tables()["metrics"].set_index(["metric", "version"]).loc["yield", "both"]
    assert (chain.eligible, chain.yielded, metrics.passed, metrics.measured) == (2, 0, 0, 2)
    again = run.tables({"yield_within_s": 2.0})
    assert again["yield_chain"].set_index("version").loc["both", "yielded"] == 2
    swept = wb.sweep(run, {"onset_within_s": (5.0,)})
    assert swept.scores["yield"][swept.default, 0] == 0.0
    with pytest.raises(InputError, match="different thresholds"):
        wb.sweep({"a": run, "b": runs["contrary"]})


def test_the_benchmark_says_who_speaks_and_what_it_counts(runs):
    case = next(iter(runs["oracle"].cases.values()))
    who = MPE.speakers(case)
    assert set(who.values()) == set(case.expect["speakers"]) and set(who) == {cue.id for cue in case.cues[1:]}
    counts = MPE.counts(tuple(runs["oracle"].cases.values()))
    assert counts["by_condition"] == {"explicit": 1, "implicit": 1} and counts["turns_by_label"]["T"] == 2


def test_an_episode_that_failed_has_every_row_and_no_verdict(runs):
    case = next(iter(runs["oracle"].cases.values()))
    rows = MPE.unmeasured(case, "error: lost")
    frame = pd.DataFrame(rows)
    assert len(frame) == len(case.cues) - 1 + 2
    assert set(Decider(MPE, frame).verdicts()["verdict"]) == {"unmeasurable"}


def test_judges_by_the_words(runs):
    for name, judge, label, wanted in (
        ("oracle", "mpe_answer", "answer", {"correct"}), ("contrary", "mpe_answer", "answer", {"incorrect"}),
        ("contrary", "mpe_brief", "kind", {"floor"}),
    ):  # fmt: skip
        result = asyncio.run(judge_run(runs[name], judge_of(MPE, judge), OfflineJudge()))
        summary = summarise(runs[name], result.folder)
        assert set(summary.rows[label]) == wanted and summary.valid
        rate = next(iter(summary.tables.values())).iloc[0]
        assert rate.measured == len(summary.rows) and rate.passed == (len(summary.rows) if wanted == {"correct"} else 0)
    with pytest.raises(InputError, match="Name one"):
        judge_of(MPE)


def test_a_judge_sees_no_time_and_no_verdict(runs):
    run = runs["oracle"]
    case = next(iter(run.cases.values()))
    (item,) = answer_items(case, run.record(case.id))
    shown = "\n".join(section.text for section in item.sections)
    assert case.expect["gold"] in shown and "oracle" not in shown and "pass" not in shown
    assert item.text("transcript").strip(".").lower() in case.expect["gold"].lower() + "."
    with pytest.raises(NotJudgeable, match="no words"):
        brief_items(case, run.record(case.id))


@pytest.mark.parametrize(
    "said, verdict",
    [("That would be twelve tablespoons.", "correct"), ("12 tablespoons!", "correct"), ("Twelve.", "incorrect"),
     ("Let me look that up.", "incorrect"), ("It's a hundred and twelve tablespoons of it", "correct")],
)  # fmt: skip
def test_the_lexical_answer_judge_looks_for_a_phrasing(said, verdict):
    sections = (Part("accept", "", "- twelve tablespoons\n- 12 tablespoons"), Part("gold", "", "It is."),
                Part("transcript", "", said))  # fmt: skip
    assert answer_offline(Item("c", sections))[0]["answer"] == verdict


WEEK = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"


@pytest.mark.parametrize(
    "gold, said, verdict",
    [("Thursday", "", "incorrect"), ("Thursday", WEEK, "incorrect"), ("Thursday", "It is on Thursday.", "correct"),
     ("Thursday", "Not on Wednesday, it is on Thursday.", "correct"), ("12", "1 2 3 4 5 6 7 8 9 10 11 12", "incorrect"),
     ("星期四", "是星期四。", "correct"), ("星期四", "是星期五。", "incorrect"), ("星期四", "", "incorrect"),
     ("星期四", "一二三四五六七", "incorrect"), ("１２勺", "要12勺。", "correct"),
     ("星期四", "星期一，星期二，星期三，星期四，星期五，星期六", "incorrect")],
)  # fmt: skip
def test_the_lexical_answer_judge_in_both_scripts_and_for_guesses(gold, said, verdict):
    sections = (Part("accept", "", f"- {gold}"), Part("gold", "", gold), Part("transcript", "", said))
    assert answer_offline(Item("c", sections))[0]["answer"] == verdict


@pytest.mark.parametrize(
    "said, kind",
    [("Mm-hm.", "brief"), ("Okay, got it.", "brief"), ("Actually it's nine.", "floor"),
     ("okay okay okay okay okay okay okay", "floor"), ("嗯，好的。", "brief"), ("我觉得是九。", "floor")],
)  # fmt: skip
def test_the_lexical_brief_judge(said, kind):
    assert brief_offline(Item("c", (Part("transcript", "", said),)))[0]["kind"] == kind


def test_words_are_spread_over_the_audio_that_says_them():
    deliveries = (Delivery(t_s=1.0, item="a", samples=48_000, placed=24_000, played=48_000),)
    record = EpisodeRecord(
        case="c", benchmark="duplex-mpe", status="complete", agent=AgentInfo(name="x", version="1"), clock="virtual",
        policy="as_played", placement="arrival", system_prompt="", duration_s=9.0, cues=(),
        transcript=(Piece(t_s=1.0, text="one two six ten ", item="a"), Piece(t_s=5.0, text="late words")),
        deliveries=deliveries, sends=Sends(frame_samples=480, frames=1), workbench="0", started="",
    )  # fmt: skip
    words = timed_words(record)
    assert [(round(t, 2), w) for t, w in words] == [(1.0, "one"), (1.5, "two"), (2.0, "six"), (2.5, "ten"),
                                                    (5.0, "late"), (5.0, "words")]  # fmt: skip
    assert words_between(words, 1.5, 2.5) == "two six"


# Waits by what is heard --------------------------------------------------------------------------


class Twice:
    """Says 0.4 s, ends its turn, and 1.2 s later another 0.4 s: its first turn end is not its last word."""

    def __init__(self, turns):
        self.traits = Traits("twice", "1", "input", turns=turns)

    async def open(self, session, emit):
        self.emit, self.frames, self.heard = emit, -1, False

    async def send(self, frame):
        if frame.any():
            self.heard = True
        elif self.heard:
            self.frames += 1
        at = self.frames * 0.02
        loud = 0.2 <= at < 0.6 or 1.8 <= at < 2.2
        self.emit(AudioOut(np.full(480, 3000 if loud else 0, np.int16)))
        if self.traits.turns == "events" and self.frames in (30, 110):
            self.emit(TurnEnd())

    async def close(self): ...


@pytest.mark.parametrize("turns", ["events", "continuous"])
def test_the_wait_is_over_when_the_agent_has_been_silent_long_enough(turns):
    clips = {"a": np.full(12_000, 900, np.int16), "b": np.full(12_000, 901, np.int16)}
    ref = {"path": "x.wav", "sha256": "0" * 64, "samples": 12_000}
    wait = AfterTurn(max_wait_s=20, quiet_s=2.0, give_up_s=6.0, by_silence=True)
    starts = (("a", AtTime(time_s=0)), ("b", wait))
    case = Case(
        id="c", benchmark="t", conversation="c", stream="c",
        ending=Ending(tail_s=0.1, max_wait_s=0.1, continuous_s=0.1),
        cues=tuple(Cue(id=name, text="", start=start, audio=AudioRef(**ref)) for name, start in starts),
    )  # fmt: skip
    record = asyncio.run(run_episode(case, clips, lambda: Twice(turns), VirtualClock)).record
    assert record.cue("b").start_s - record.cue("a").end_s == pytest.approx(2.2 + 2.0, abs=0.05)


# Agents that are told the words ------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, speaks",
    [
        ("Aria, how many ounces is that?", True), ("So, Aria, what is it in feet?", True), ("Aria, set a timer.", True),
        ("What would that be in feet, Aria?", True), ("I love that Aria never forgets the list.", False),
        ("Did you ask Aria about it?", False), ("How many feet is that, little speaker?", False),
        ("Maria, could you pass me that?", False),
    ],
)  # fmt: skip
def test_the_rules_of_the_reader(text, speaks):
    assert bool(rule(text, "Aria")) == speaks


def test_the_rules_of_the_reader_on_the_shipped_set():
    told = {True: 0, False: 0}
    for scenario in au.load().scenarios.values():
        for turn in scenario.turns:
            for condition in au.CONDITIONS:
                speaks = bool(rule(turn.words(condition), "Aria"))
                if turn.label in ("N1", "N2", "N3", "N4_R") or (turn.label == "T" and condition == "implicit"):
                    assert not speaks, turn.words(condition)
                else:
                    told[speaks] += 1
    assert told[False] <= 2, "a request that the rules miss"


def test_a_name_of_two_words_is_refused():
    with pytest.raises(InputError, match="one word"):
        factory("name-spotter", {"name": "Hey Aria"}, MPE)()
