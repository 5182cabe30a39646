"""Deliberate mistakes in a built dataset of pairs, each with renewed checksums: all are caught and named."""

import shutil

import numpy as np
import pytest
from spoilt import Spoilt, swap

from workbench import datasets
from workbench.benchmarks.duplexmpe import BENCHMARK, check
from workbench.cases import RATE_HZ
from workbench.contract import BuildOptions


class OfMPE(Spoilt):
    def case(self, condition="explicit", pair=0):
        names = list(dict.fromkeys(case["tags"]["scenario"] for case in self.cases))
        return self.find(condition=condition, scenario=names[pair])

    def turn(self, label, **which):
        return next(cue for cue in self.case(**which)["cues"] if cue["label"] == label)

    def window(self, kind, **which):
        return next(window for name, window in self.case(**which)["windows"].items() if name.startswith(f"{kind}."))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Two pairs, four cases, to be read only."""
    folder = tmp_path_factory.mktemp("pairs") / "dataset"
    BENCHMARK.build(BuildOptions(folder, limit=4, workers=1))
    return folder


@pytest.fixture
def spoilt(pairs, tmp_path):
    return OfMPE(shutil.copytree(pairs, tmp_path / "dataset"))


def shift(window, by_s, edges=("start_s", "end_s")):
    for edge in edges:
        window[edge] += by_s


def relabel(case, old, new):
    next(cue for cue in case["cues"] if cue["label"] == old)["label"] = new
    next(turn for turn in case["expect"]["turns"] if turn["label"] == old)["label"] = new


def murmur(spoilt):
    """Faint noise in place of a turn's words."""
    rng = np.random.default_rng(1)
    spoilt.rewrite(spoilt.turn("N2"), lambda samples: rng.integers(-300, 300, len(samples)).astype(np.int16))


def cut(spoilt, label, end_s):
    spoilt.rewrite(spoilt.turn(label), lambda samples: samples[: round(end_s * RATE_HZ)])


def both(spoilt, change):
    """The same mistake in both versions of a pair, so that they still agree with each other."""
    for condition in ("explicit", "implicit"):
        change(spoilt.case(condition))


def in_expect(**changes):
    return lambda s: s.case()["expect"].update(changes)


def in_tags(**changes):
    return lambda s: s.case()["tags"].update(changes)


def gap(case, value_s):
    next(cue for cue in case["cues"] if cue["label"] == "N4_R")["start"].update(gap_s=value_s)


MISTAKES = {
    "onset window later by 1 s": lambda s: shift(s.window("onset"), 1.0),
    "onset window later by 20 s": lambda s: shift(s.window("onset"), 20.0),
    "onset window ends 2 ms late": lambda s: shift(s.window("onset"), 0.002, ["end_s"]),
    "onset window of 8 s": lambda s: shift(s.window("onset"), 3.0, ["end_s"]),
    "silence window shorter": lambda s: shift(s.window("silence"), -0.4, ["end_s"]),
    "yield window later": lambda s: shift(s.window("yield"), 1.0),
    "answering window without the gap": lambda s: shift(s.window("answering"), -3.0, ["end_s"]),
    "window fixed to the next turn": lambda s: s.window("onset").update(cue="t11"),
    "a window is gone": lambda s: s.case()["windows"].pop(next(iter(s.case()["windows"]))),
    "a window too many": lambda s: s.case()["windows"].update({"onset.00": {"cue": "t00", "start_s": 0, "end_s": 1}}),
    "windows of two cases swapped": lambda s: swap(s.case(), s.case(pair=1), "windows"),
    "T called N2": lambda s: relabel(s.case(), "T", "N2"),
    "T called N2 in both versions": lambda s: both(s, lambda case: relabel(case, "T", "N2")),
    "N1 called N2": lambda s: both(s, lambda case: relabel(case, "N1", "N2")),
    "N3 called N1": lambda s: both(s, lambda case: relabel(case, "N3", "N1")),
    "a second T": lambda s: both(s, lambda case: relabel(case, "N2", "T")),
    "N4_R called N2": lambda s: both(s, lambda case: relabel(case, "N4_R", "N2")),
    "a label in the cue alone": lambda s: s.turn("N2").update(label="N3"),
    "a label in what is expected alone": lambda s: s.case()["expect"]["turns"][0].update(label="N4_Q"),
    "who speaks": lambda s: (
        s.case()["expect"]["turns"][2].update(speaker=s.case()["expect"]["speakers"][-1])
        if s.case()["expect"]["turns"][2]["speaker"] != s.case()["expect"]["speakers"][-1]
        else s.case()["expect"]["turns"][2].update(speaker=s.case()["expect"]["speakers"][0])
    ),
    "a speaker renamed": lambda s: s.case()["expect"]["speakers"].__setitem__(0, "Nobody"),
    "gold answer replaced": lambda s: both(s, lambda case: case["expect"].update(gold="Seven.")),
    "gold answer of one version": in_expect(gold="Seven."),
    "gold answers of two pairs swapped": lambda s: swap(s.case(), s.case(pair=1), "expect", "gold"),
    "what makes an answer right": lambda s: both(s, lambda case: case["expect"].update(accept=["anything"])),
    "version in the tag": in_tags(condition="implicit"),
    "position in the tag": lambda s: in_tags(bucket=s.case()["tags"]["bucket"] % 4 + 1)(s),
    "speakers in the tag": lambda s: in_tags(speakers=7 - s.case()["tags"]["speakers"])(s),
    "scenario in the tag": in_tags(scenario="nowhere"),
    "an attribute": lambda s: swap(s.case(), s.case(pair=1), "tags"),
    "a tag too many": in_tags(colour="blue"),
    "versions swapped": lambda s: swap(s.case("explicit"), s.case("implicit"), "cues"),
    "streams of two pairs swapped": lambda s: swap(s.case(), s.case(pair=1), "cues"),
    "stream renamed": lambda s: s.case().update(stream=s.case(pair=1)["stream"]),
    "conversation renamed": lambda s: s.case().update(conversation=s.case(pair=1)["conversation"]),
    "an id that is none": lambda s: s.case().update(id="nowhere_explicit"),
    "turns in another order": lambda s: s.case()["cues"].insert(1, s.case()["cues"].pop(3)),
    "a turn is gone": lambda s: s.case()["cues"].pop(-1),
    "a system prompt": lambda s: s.case().update(prompt=[{"name": "duty", "text": "You are Aria."}]),
    "preamble of other words": lambda s: s.turn("preamble").update(text="Hello Aria, listen."),
    "the explicit T is played in both": lambda s: s.turn("T", condition="implicit").update(
        audio=s.turn("T")["audio"], segments=s.turn("T")["segments"]
    ),
    "the explicit T is said in both": lambda s: s.turn("T", condition="implicit").update(
        audio=s.turn("T")["audio"], segments=s.turn("T")["segments"], text=s.turn("T")["text"]
    ),
    "script reworded in the manifest": lambda s: s.turn("N2").update(text="May I have the salt, please?"),
    "script and segment reworded": lambda s: (
        s.turn("T").update(text="Aria, what is the time?"),
        s.turn("T")["segments"][0].update(text="Aria, what is the time?"),
    ),
    "voice of one turn": lambda s: s.turn("N2").update(speaker=s.turn("preamble")["speaker"]),
    "voice of nobody": lambda s: s.turn("N2").update(speaker="nobody"),
    "no time for N4_Q's answer": lambda s: both(s, lambda case: gap(case, 0.5)),
    "N4_R after 6 s": lambda s: both(s, lambda case: gap(case, 6.0)),
    "another gap between turns": lambda s: both(s, lambda case: case["cues"][2]["start"].update(gap_s=2.0)),
    "no wait for the answer": lambda s: both(
        s,
        lambda case: case["cues"][1 + [cue["label"] for cue in case["cues"]].index("T")].update(
            start={"kind": "after_gap", "gap_s": 0.8}
        ),
    ),
    "a longer wait after T": lambda s: both(
        s, lambda case: case["cues"][1 + [cue["label"] for cue in case["cues"]].index("T")]["start"].update(quiet_s=9.0)
    ),
    "other ending": lambda s: s.case()["ending"].update(tail_s=0.1),
    "another track": lambda s: s.turn("N2").update(track=1),
    "a segment's boundary moved": lambda s: s.turn("N2")["segments"][0].update(end_s=1.0),
    "a word out of its segment": lambda s: s.turn("N2")["segments"][0]["words"][0].update(end_s=99.0),
    "speech turned to silence": lambda s: s.rewrite(s.turn("N2"), lambda samples: samples * 0),
    "a murmur in place of speech": murmur,
    "a turn cut off": lambda s: cut(s, "T", 0.8),
}


def test_there_are_fifty_mistakes():
    assert len(MISTAKES) >= 50


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_with_renewed_checksums_is_named(spoilt, mistake):
    MISTAKES[mistake](spoilt)
    found = spoilt.recompute()
    assert found, "nothing was noticed"
    assert all(problem.endswith(".") and len(problem) > 20 for problem in found)


def test_what_is_named_is_the_case_and_the_field(spoilt):
    case = spoilt.case()
    name = next(name for name in case["windows"] if name.startswith("onset."))
    case["windows"][name]["end_s"] += 1.0
    case["expect"]["gold"] = "Seven."
    found = spoilt.recompute()
    assert [problem.partition(": ")[0] for problem in found] == [
        f"case {case['id']}, windows.{name}.end_s",
        f"case {case['id']}, expect.gold",
    ]


def test_a_sound_dataset_has_no_faults_and_says_its_words(pairs):
    done = check.recompute(datasets.load(pairs), listen=True)
    assert (done.problems, done.unchecked) == ([], [])


def test_a_turn_that_says_other_words_is_heard(spoilt):
    one, other = spoilt.turn("N2"), spoilt.turn("N3")
    ours, theirs = one["audio"]["samples"], []
    spoilt.rewrite(other, lambda samples: theirs.append(samples) or samples)
    spoilt.rewrite(one, lambda samples: np.resize(theirs[0], ours))
    assert spoilt.recompute() == []
    assert any("does not sound like its text" in problem for problem in spoilt.recompute(listen=True))
