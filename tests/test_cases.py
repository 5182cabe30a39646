"""The Case is validated on load and cannot be changed afterwards."""

import pytest
from pydantic import ValidationError

from workbench.cases import AtTime, AudioRef, Case, Cue, PromptPart, Window, check_id


def case(**changes):
    values = {
        "id": "a_1",
        "benchmark": "ifeval",
        "conversation": "a",
        "stream": "a",
        "cues": (Cue(id="turn1", text="hi", start=AtTime(time_s=0)),),
    }
    return Case(**(values | changes))


def test_prompt_parts_are_joined_by_one_blank_line():
    parts = (PromptPart(name="persona", text="You are calm."), PromptPart(name="directive", text="Wait."))
    assert case(prompt=parts).system_prompt == "You are calm.\n\nWait."
    assert case().system_prompt == ""


def test_a_case_survives_json():
    original = case(windows={"trigger": Window(cue="turn1", start_s=0.5, end_s=1.0)})
    assert Case.model_validate_json(original.model_dump_json()) == original


def test_a_case_cannot_be_changed():
    with pytest.raises(ValidationError):
        case().id = "other"


@pytest.mark.parametrize("bad", ["", "../a", "a/b", ".hidden", "a\\b", "x" * 129, "a b", "a\n"])
def test_unsafe_ids_are_refused(bad):
    with pytest.raises(ValueError):
        check_id(bad)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"surprise": 1}, "surprise"),
        ({"windows": {"w": Window(cue="turn9")}}, "turn9"),
        ({"windows": {"w": Window(cue="turn1", start_s=2.0, end_s=1.0)}}, "before it starts"),
        ({"windows": {"w": Window(cue="turn1", start_s=2.0)}}, "only one"),
        ({"cues": ()}, "cues"),
        ({"cues": (Cue(id="x", text="", start=AtTime(time_s=0)),) * 2}, "twice"),
    ],
)
def test_faults_are_named(changes, named):
    with pytest.raises(ValidationError, match=named):
        case(**changes)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x.wav", "audio/../../x.wav", "audio//x.wav", "a\\b.wav", "./x.wav"]
)
def test_audio_paths_stay_inside(path):
    with pytest.raises(ValidationError, match="inside the dataset"):
        AudioRef(path=path, sha256="0" * 64, samples=1)
