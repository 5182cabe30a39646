"""What the judge is shown: the specified inputs, and quoted words that cannot step out of their quotation."""

import json
import re

import pytest
from chat_loopback import gullible, outside_quotes
from judge_runs import AGENT, SPOKEN, make_case, make_record, make_run

from workbench.benchmarks.ifeval.judging import JUDGE, items
from workbench.chat.messages import schema
from workbench.errors import InputError
from workbench.judges import base
from workbench.judges.base import messages
from workbench.judges.batch import judge_run
from workbench.judges.check import attacks
from workbench.judges.records import load_latest


def sent(case, text):
    (item,) = items(case, make_record(case, text))
    return messages(JUDGE, item)


def test_only_the_inputs_of_the_specification():
    case = make_case(level="L2")
    system, user = (message["content"] for message in sent(case, SPOKEN["R1"]))
    for shown in ("ER triage nurse", case.expect["persona"], case.expect["content_rule"]):
        assert shown in user
    assert "(pause 2.5 s) my dad had it" in user and "four two (pause 1.2 s) nine oh" in user
    assert SPOKEN["R1"] in user and "conflict" not in user.lower() + system.lower()
    for withheld in (AGENT, case.id, "L2", "INTERRUPT", "9.75", "12.345", "3.217", "4.875", "ada", "C1"):
        assert withheld not in user + system, withheld


@pytest.mark.parametrize(("level", "side"), [("L4a", "the later instruction"), ("L4b", "the character")])
def test_on_level_four_the_conflict_is_shown(level, side):
    case = make_case(level=level)
    system, user = (message["content"] for message in sent(case, "Okay."))
    assert f"# The side meant to have precedence\n\n{side}" in user and case.prompt[-1].text in user
    assert all(f"- `{label}`:" in system for label in JUDGE.labels)
    assert "INTERRUPT" not in user + system and level not in user + system


def test_silence_is_shown_as_such():
    assert '"(the assistant produced no speech)"' in sent(make_case(), "")[1]["content"]


def test_the_same_inputs_give_the_same_message_and_others_another_boundary():
    case = make_case()
    assert sent(case, "Hello.") == sent(case, "Hello.")
    assert re.findall(r"QUOTE (\w+)", str(sent(case, "Hello."))) != re.findall(
        r"QUOTE (\w+)", str(sent(case, "Hullo."))
    )


@pytest.mark.parametrize("attack", attacks(), ids=lambda attack: attack["id"])
def test_an_attack_stays_inside_its_quotation(attack):
    case = make_case(level="L4a")
    text = f"{SPOKEN['R1']} {attack['text']}"
    attacked, plain = sent(case, text), sent(case, SPOKEN["R1"])
    assert outside_quotes({"messages": attacked}) == outside_quotes({"messages": plain})
    user = attacked[1]["content"]
    boundary = re.search(r"exactly `([0-9a-f]{16})`", attacked[0]["content"]).group(1)
    _, words = re.findall(rf"\[\[QUOTE {boundary}\]\]\n([^\n]*)\n\[\[END {boundary}\]\]", user)
    assert json.loads(words) == text, "the words themselves are shown whole"
    assert not re.search(r"[<>\u200b\u202e\U000e0000-\U000e007f]", user) and "[INST]" not in user


async def test_scores_do_not_move_with_the_red_team(tmp_path, server, model):
    """A judge that obeys whatever stands outside the quotations gives every attacked answer its plain score."""
    cases = [make_case("R1", "C1", number, "L4a") for number in range(len(attacks()) + 1)]
    texts = [SPOKEN["R1"]] + [f"{SPOKEN['R1']} {attack['text']}" for attack in attacks()]
    run = make_run(tmp_path / "red", cases, texts)
    server.say = gullible
    latest = load_latest((await judge_run(run, JUDGE, model())).folder)
    assert len({line.values["pas"] for line in latest.values()}) == 1 and len(latest) == len(cases)
    assert len(server.bodies) == len(cases)


async def test_without_the_fence_that_test_would_fail(tmp_path, server, model, monkeypatch):
    monkeypatch.setattr(base, "fence", lambda text, boundary: f"[[QUOTE {boundary}]]\n{text}\n[[END {boundary}]]")
    cases = [make_case("R1", "C1", number, "L4a") for number in range(len(attacks()) + 1)]
    texts = [SPOKEN["R1"]] + [f"{SPOKEN['R1']} {attack['text']}" for attack in attacks()]
    run = make_run(tmp_path / "red", cases, texts)
    server.say = gullible
    latest = load_latest((await judge_run(run, JUDGE, model())).folder)
    assert len({line.values["pas"] for line in latest.values()}) > 1


def test_the_schema_is_strict_and_ordered():
    (item,) = items(make_case(level="L4a"), make_record(make_case(level="L4a"), "x"))
    node = schema(JUDGE.answer(item))
    assert list(node["properties"]) == node["required"] == ["reason", "role_score", "conflict"]
    assert node["additionalProperties"] is False and node["properties"]["conflict"]["enum"] == list(JUDGE.labels)
    assert (node["properties"]["role_score"]["minimum"], node["properties"]["role_score"]["maximum"]) == (0, 100)


@pytest.mark.parametrize(
    ("change", "word"),
    [({"persona": ""}, "expect.persona"), ({"content_rule": None}, "expect.content_rule"),
     ({"precedence": None}, "expect.precedence")],
)  # fmt: skip
def test_a_case_that_lacks_an_input_is_named(change, word):
    case = make_case(level="L4a", **change)
    with pytest.raises(InputError, match=word) as caught:
        items(case, make_record(case, "x"))
    assert case.id in str(caught.value)


def test_clips_travel_as_audio():
    from dataclasses import replace

    from workbench.judges.base import Sound

    (item,) = items(make_case(), make_record(make_case(), "x"))
    parts = messages(JUDGE, replace(item, clips=(Sound("Clip 1, the target", b"RIFF"),)))[1]["content"]
    assert parts[1] == {"type": "text", "text": "# Clip 1, the target"}
    assert parts[2]["input_audio"] == {"data": "UklGRg==", "format": "wav"}
