"""Deliberate mistakes in a built dataset, each with renewed checksums: all that can be computed again are caught."""

import json
import shutil

import numpy as np
import pytest
from spoilt import Spoilt, swap

from workbench import audio, datasets
from workbench.benchmarks.ifeval import check
from workbench.cases import RATE_HZ


class OfIFEval(Spoilt):
    def case(self, role="R1", probe="C1"):
        return self.find(role=role, probe=probe)


@pytest.fixture
def spoilt(dataset_copy):
    return OfIFEval(dataset_copy)


def silence(cue, mark):
    return next(segment for segment in cue["segments"] if segment["mark"] == mark)


def shift(case, by_s, edges=("start_s", "end_s")):
    for edge in edges:
        case["windows"]["trigger"][edge] += by_s


def turn2(case):
    return case["cues"][1]


def noise_in_the_pause(s):
    cue = turn2(s.case())
    at = round(silence(cue, "pause")["start_s"] * RATE_HZ) + 2000

    def change(samples):
        samples[at : at + 500] = 300
        return samples

    s.rewrite(cue, change)


def shorter_pause(s, times_too):
    """A pause of 4 s cut to 0.5 s in the samples; with `times_too` the manifest is made to agree everywhere."""
    case = s.case("R2", "R2_A")
    cue, cut_s = turn2(case), 3.5
    pause = silence(cue, "pause")
    at = round(pause["start_s"] * RATE_HZ) + 10
    s.rewrite(cue, lambda samples: np.delete(samples, np.s_[at : at + round(cut_s * RATE_HZ)]))
    if times_too:
        start_s = pause["start_s"]
        for part in [*cue["segments"], *(word for segment in cue["segments"] for word in segment["words"])]:
            for edge in ("start_s", "end_s"):
                if part[edge] > start_s + 0.001:
                    part[edge] = round(part[edge] - cut_s, 3)
        case["windows"]["trigger"]["end_s"] -= cut_s


def both(s, field, *path):
    swap(s.case("R1", "C1"), s.case("R1", "C2"), field, *path)


def in_expect(**changes):
    return lambda s: s.case()["expect"].update(changes)


def in_tags(**changes):
    return lambda s: s.case()["tags"].update(changes)


def part(s, role, probe, index=0):
    return s.case(role, probe)["prompt"][index]


MISTAKES = {
    "window later by 1 s": lambda s: shift(s.case(), 1.0),
    "window later by 20 s": lambda s: shift(s.case(), 20.0),
    "window earlier by 0.1 s": lambda s: shift(s.case(), -0.1),
    "window ends 2 ms late": lambda s: shift(s.case(), 0.002, ["end_s"]),
    "window starts 0.5 s late": lambda s: shift(s.case(), 0.5, ["start_s"]),
    "window on the other turn": lambda s: s.case()["windows"]["trigger"].update(cue="turn1"),
    "window of another role": lambda s: swap(s.case("R1", "C4"), s.case("R1", "R1_B"), "windows"),
    "another window beside it": lambda s: s.case()["windows"].update(more={"cue": "turn2", "start_s": 0, "end_s": 1}),
    "personas of two roles swapped": lambda s: swap(s.case("R1"), s.case("R2"), "prompt"),
    "persona replaced": lambda s: part(s, "R1", "C2").update(text="You are a helpful assistant."),
    "one word of the persona": lambda s: part(s, "R1", "C2").update(text=part(s, "R1", "C2")["text"] + " Indeed."),
    "part renamed": lambda s: part(s, "R1", "C2").update(name="directive"),
    "no prompt": lambda s: s.case().update(prompt=[]),
    "a second part": lambda s: s.case()["prompt"].append({"name": "directive", "text": "Be brief."}),
    "level changed": in_tags(level="L1"),
    "action changed in the tag": in_tags(action="LISTEN"),
    "action changed in both": lambda s: (in_tags(action="LISTEN")(s), in_expect(action="LISTEN")(s)),
    "actions of two cells swapped": lambda s: (both(s, "tags", "action"), both(s, "expect", "action")),
    "role renamed": in_tags(role_name="janitor"),
    "role exchanged": in_tags(role="R3"),
    "probe exchanged": in_tags(probe="C2"),
    "instance exchanged": in_tags(instance=3),
    "speaker's sex": lambda s: s.case()["tags"].update(sex="female" if s.case()["tags"]["sex"] == "male" else "male"),
    "speaker's age": in_tags(age="under 18"),
    "situation": in_tags(situation="somebody calls"),
    "matched audio denied": in_tags(matched="no"),
    "a tag too many": in_tags(colour="blue"),
    "streams of two cells swapped": lambda s: swap(s.case("R1", "C2"), s.case("R1", "C3"), "cues"),
    "stream renamed": lambda s: s.case("R1", "C2").update(stream="R1_C3_i1"),
    "stream of nobody": lambda s: s.case("R1", "C2").update(stream="R1_C2_i9"),
    "conversation renamed": lambda s: s.case().update(conversation="R1_C2_i1"),
    "an id that the grid lacks": lambda s: s.case().update(id="R1_C1_i1_L7"),
    "turns swapped": lambda s: s.case("R1", "C2")["cues"].reverse(),
    "first turn played for the second": lambda s: turn2(s.case("R1", "C2")).update(
        audio=s.case("R1", "C2")["cues"][0]["audio"]
    ),
    "one role's shared audio is another's": lambda s: turn2(s.case("R1", "C1")).update(
        audio=turn2(s.case("R1", "C2"))["audio"]
    ),
    "script reworded in the manifest": lambda s: turn2(s.case("R1", "C2")).update(text="May I go home now, please?"),
    "script and segment reworded": lambda s: (
        turn2(s.case("R1", "C2")).update(text="May I go home now?"),
        turn2(s.case("R1", "C2"))["segments"][0].update(text="May I go home now?"),
    ),
    "voice renamed": lambda s: turn2(s.case("R1", "C2")).update(speaker="hibari:nobody"),
    "noise in a designed silence": noise_in_the_pause,
    "a pause of 4 s cut in the samples": lambda s: shorter_pause(s, False),
    "a pause of 4 s cut in samples and times": lambda s: shorter_pause(s, True),
    "a segment's boundary moved": lambda s: [
        segment.update(end_s=segment["end_s"] + 0.2) for segment in turn2(s.case("R2", "R2_A"))["segments"][:1]
    ],
    "a mark taken away": lambda s: silence(turn2(s.case("R2", "R2_A")), "pause").update(mark=""),
    "a word out of its segment": lambda s: turn2(s.case("R2", "R2_A"))["segments"][0]["words"][0].update(end_s=99.0),
    "speech turned to silence": lambda s: s.rewrite(turn2(s.case("R1", "C2")), lambda samples: samples * 0),
    "other barge-in delay": lambda s: turn2(s.case("R1", "C3"))["start"].update(delay_s=1.0),
    "barge-in no longer bounded": lambda s: turn2(s.case("R1", "C3"))["start"].update(max_wait_s=600.0),
    "other wait after turn 1": lambda s: turn2(s.case("R1", "C2"))["start"].update(settle_s=3.0),
    "barge-in delay in what is expected": lambda s: s.case("R1", "C3")["expect"].update(barge_in_after_s=2.0),
    "other ending": lambda s: s.case()["ending"].update(max_wait_s=1.0),
    "wrong read-back target": lambda s: s.case("R1", "R1_B")["expect"].update(target="one two three"),
    "a target where none is": in_expect(target="one two three"),
    "precedence flipped": in_expect(precedence="persona-wins"),
    "a threshold of 90 s": in_expect(thresholds={"max_wait_s": 90.0}),
    "content rule replaced": in_expect(content_rule="Anything goes."),
    "a label on a turn": lambda s: turn2(s.case()).update(label="T"),
    "another track": lambda s: turn2(s.case()).update(track=1),
}


def test_there_are_fifty_mistakes():
    assert len(MISTAKES) >= 50


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_with_renewed_checksums_is_named(spoilt, mistake):
    MISTAKES[mistake](spoilt)
    found = spoilt.recompute()
    assert found, "nothing was noticed"
    assert all(problem.endswith((".", "rebuild.")) and len(problem) > 20 for problem in found)


def test_what_is_named_is_the_case_and_the_field(spoilt):
    shift(spoilt.case(), 1.0)
    spoilt.case("R2", "R2_A")["expect"]["thresholds"] = {"max_wait_s": 90.0}
    found = spoilt.recompute()
    names = [problem.partition(": ")[0] for problem in found]
    assert names == [
        "case R1_C1_i1_L2, windows.trigger.start_s",
        "case R1_C1_i1_L2, windows.trigger.end_s",
        "case R2_R2_A_i1_L2, expect.thresholds.max_wait_s",
    ]
    assert "90.0, where nothing is expected" in found[2]


def test_audio_that_says_something_else_is_heard(spoilt):
    one, other = turn2(spoilt.case("R1", "R1_A")), turn2(spoilt.case("R2", "R2_B"))
    says = audio.to_pcm16(audio.read_mono(spoilt.folder / other["audio"]["path"], RATE_HZ))

    def change(samples):
        first = one["segments"][2]
        start, end = (round(first[edge] * RATE_HZ) for edge in ("start_s", "end_s"))
        samples[start:end] = np.resize(says[: round(other["segments"][0]["end_s"] * RATE_HZ)], end - start)
        return samples

    spoilt.rewrite(one, change)
    assert spoilt.recompute() == []
    found = spoilt.recompute(listen=True)
    assert len(found) == 1 and "does not sound like its text" in found[0]


def test_a_sound_dataset_has_no_faults_and_tells_what_was_not_checked(tiny_dataset):
    done = check.recompute(datasets.load(tiny_dataset), listen=True)
    assert (done.problems, done.unchecked) == ([], [])
    assert check.recompute(datasets.load(tiny_dataset)).unchecked == [
        "whether the audio says its text (--audio checks that)"
    ]


@pytest.mark.parametrize("change", [{"author": "scripts in mine"}, {"version": "1"}])
def test_of_foreign_and_older_datasets_it_is_told_what_cannot_be_computed_again(dataset_copy, change):
    header = json.loads((dataset_copy / "dataset.json").read_text()) | change
    (dataset_copy / "dataset.json").write_text(json.dumps(header))
    done = check.recompute(datasets.load(dataset_copy))
    assert done.problems == [] and "authored data is not here" in done.unchecked[0]


def test_without_audio_the_grid_is_compared_all_the_same(tmp_path):
    from workbench.contract import BuildOptions

    check.build(BuildOptions(tmp_path / "d", audio=False))
    loaded = datasets.load(tmp_path / "d")
    assert check.recompute(loaded).problems == []
    shutil.rmtree(tmp_path / "d")
