"""What a judge's reply may look like, and what is made of it."""

import contextlib
import json
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from workbench.chat.client import Reply
from workbench.chat.reading import Answer, AnswerError, Points, read_answer, read_reply


class Given(Answer):
    reason: str = Field(min_length=1, description="one sentence naming the words")
    score: Points(0, 100, "the score")
    label: Literal["yes", "no"]


class Small(Answer):
    score: Points(0, 1, "a share")


def text(score="85", label='"yes"', reason='"plain and short"'):
    return f'{{"reason": {reason}, "score": {score}, "label": {label}}}'


V = text()
"""A good verdict; whatever is doubtful below is built around it."""

AROUND, REASONED, JSON5 = ("text around the object",), ("reasoning block",), ("JSON5 spelling",)
FINAL = "<|channel|>final<|message|>"

GOOD = [
    (V, 85, ()),
    (text("85.5"), 85.5, ()),
    (text('"85.5"'), 85.5, ()),
    (text('"85"'), 85, ()),
    (text("0"), 0, ()),
    (text("1"), 1, ()),
    (text("100.0"), 100, ()),
    (f"```json\n{V}\n```", 85, AROUND),
    (f"```\n{text(reason=json.dumps('a fence ``` inside'))}\n```", 85, AROUND),
    (f"Here's my answer:\n{V}\nI hope that helps.", 85, AROUND),
    (f"**Answer:** {V}", 85, AROUND),
    (f"Sure! Here is the JSON object as requested:\n```json\n{V}\n```\nThat's all.", 85, AROUND),
    (text(reason='"he said ```json {name: 3}``` and stopped"'), 85, ()),
    (text(reason='"\\u201cSorry to hear that\\u201d is warm, and the score fits the label."'), 85, ()),
    (text(reason='"I cannot rate this any higher: two questions at once."'), 85, ()),
    (text(reason='"简短而清楚。"'), 85, ()),
    ('{"reason": "ok", "score": 85, "label": "yes",}', 85, JSON5),
    ("{'reason': 'it\\'s fine', 'score': 85, 'label': 'yes'}", 85, JSON5),
    ("{reason: 'half // of + it at 0x5', score: 85.5, label: 'yes'}", 85.5, JSON5),
    ('{"reason": "two\nlines", "score": 85, "label": "yes"}', 85, ("raw control characters in a string",)),
    (f"<think>A draft: {{'score': 10}}</think>\n{V}", 85, REASONED),
    (f"<THINKING effort='low'>Hm <think>deeper</think> so.</THINKING>\n```json\n{V}\n```", 85, REASONED + AROUND),
    (f"[THINK]A draft: {text('10')}[/THINK]{V}", 85, REASONED),
    (f"<think></think><reasoning>Hm.</reasoning> {V}", 85, REASONED),
    (f"I would say so. </think>{V}", 85, REASONED),
    (f"<|channel|>analysis<|message|>{text('10')}<|end|><|start|>assistant{FINAL}{V}<|return|>", 85, REASONED),
    ('{"reason": "more", "score": 85, "label": "yes", "confidence": 0.9}', 85, ()),
]

DOUBTFUL = {
    "empty": ("", "empty"),
    "blank": (" \n ", "empty"),
    "a refusal in words": ("I can't help with that.", "no_json"),
    "a bare number": ("85", "no_json"),
    # a draft inside a reasoning block of any kind
    "an unclosed block": (f"<think>{V}", "truncated"),
    "an unclosed thought": ("<think>a long thought", "truncated"),
    "another tag": (f"<thinking>{V}", "truncated"),
    "a reasoning tag": (f"<reasoning>{V}", "truncated"),
    "upper case": (f"<THINK>{V}", "truncated"),
    "attributes": (f'<think effort="high">{V}', "truncated"),
    "square brackets": (f"[THINK]{V}", "truncated"),
    "a tag nobody knows, closed": (f"<inner_voice>{V}</inner_voice>", "extra_text"),
    "a block after prose": (f"Let me think. <think>{V}", "extra_text"),
    "a closed block after prose": (f"Let me think. <think>{V}</think>", "extra_text"),
    "a second block unclosed": (f"<think>Hm.</think><think>{V}", "truncated"),
    "a second block after prose unclosed": (f"<think>Hm.</think> Well, <think>{V}", "extra_text"),
    "nested, the outer unclosed": (f"<think>Hm <think>so</think> {V}", "truncated"),
    "closed twice": (f"<think>Hm.</think>{V}</think>{text('10')}", "ambiguous"),
    "closed by another tag": (f"<think>Hm.</reasoning>{V}", "truncated"),
    "a block with nothing after": (f"<think>{V}</think>", "no_json"),
    "an answer before its block": (f"{V}<think>But no, rather 10.</think>", "extra_text"),
    "channels without a final": (f"<|channel|>analysis<|message|>{V}<|end|>", "truncated"),
    "a channel unclosed": (f"<|channel|>analysis<|message|>Hm. {FINAL}{V}", "truncated"),
    "two finals": (f"{FINAL}{V}<|end|>{FINAL}{text('10')}<|return|>", "truncated"),
    "channel words without markers": (f"analysisHm.assistantfinal{V}", "extra_text"),
    # an object inside a string
    "the verdict's keys in its reason": (text(reason=json.dumps(f"I first thought {text('10')}.")), "ambiguous"),
    "the keys bare in its reason": (text(reason='"I first thought {score: 10}."'), "ambiguous"),
    "a cut reason with an object": ('{"reason": "he said {\\"score\\": 3, \\"label\\": \\"no\\"} and', "truncated"),
    "a broken reason with an object": ('{"reason": "he said "{\'score\': 3}" ok", "score": 85}', "invalid_json"),
    # more than one verdict
    "two that differ": (f"{text('10')} or rather {text('90')}", "ambiguous"),
    "two that agree": (f"{V} {V}", "ambiguous"),
    "an example first": (f'For example {{"score": 3}}. {V}', "ambiguous"),
    "retracted": (f"{V} On reflection that is far too generous.", "extra_text"),
    "retracted before": (f"Ignore the following, it is only a draft: {V}", "extra_text"),
    "contradicted": (f"The label is no. {V}", "extra_text"),
    "a score before": (f"I would give 40 of 100. {V}", "extra_text"),
    "a score after": (f"{V} Score: 40", "extra_text"),
    "a score in words": (f"{V} Forty, that is.", "extra_text"),
    "a negation": (f"{V} Not!", "extra_text"),
    "another to come": (f"{V} My final answer is this:", "extra_text"),
    "a list of one": (f"[{V}]", "extra_text"),
    "a list of two": (f"[{V}, {text('10')}]", "ambiguous"),
    "wrapped": (f'{{"result": {V}}}', "missing_key"),
    "a list inside": (f'{{"verdicts": [{V}, {text("10")}]}}', "missing_key"),
    "in a tag": (f"<answer>{V}</answer>", "extra_text"),
    "a call in a tag": (f"<tool_call>{V}</tool_call>", "extra_text"),
    # cut off
    "cut in a key": ('{"reason": "ok", "score": 85, "lab', "truncated"),
    "cut before the end": ('{"reason": "ok", "score": 85, "label": "yes"', "truncated"),
    "cut after a draft": (f'{{"draft": {V}, "final": ', "truncated"),
    "an open fence": (f"```json\n{V}", "truncated"),
    "a fence around prose too": (f"```\nHm, maybe.\n{V}\n```", "extra_text"),
    # a refusal or a request that shows a template
    "a refusal with a template": (f"I can't judge this. The format would be {V}", "extra_text"),
    "a request with a template": (f"Please give me the transcript, so that I can answer {V}", "extra_text"),
    "a refusal as the reason": (text("0", reason="\"I'm sorry, but I can't assist with that.\""), "refusal"),
    "another refusal as the reason": (text("0", reason='"I cannot judge this without a transcript."'), "refusal"),
    "a placeholder as the reason": (text("0", reason='"<your reason>"'), "bad_value"),
    "the description as the reason": (text("0", reason='"One sentence, naming the words"'), "bad_value"),
    "the type as the reason": (text("0", reason='"string"'), "bad_value"),
    # keys
    "the scale beside it": ('{"reason": "ok", "score": 8, "max_score": 10, "label": "yes"}', "extra_key"),
    "its scale": ('{"reason": "ok", "score": 8, "scale": "0-10", "label": "yes"}', "extra_key"),
    "an error": ('{"reason": "ok", "score": 85, "label": "yes", "error": "no transcript"}', "extra_key"),
    "another letter case": ('{"reason": "ok", "score": 85, "Score": 10, "label": "yes"}', "extra_key"),
    "an alternative": (f'{{"reason": "ok", "score": 85, "label": "yes", "alternative": {text("10")}}}', "extra_key"),
    "a note": ('{"reason": "ok", "score": 85, "label": "yes", "note": "rather 10"}', "extra_key"),
    "a key twice": ('{"reason": "ok", "score": 10, "score": 90, "label": "yes"}', "duplicate_key"),
    "a key twice in JSON5": ("{'reason': 'ok', 'score': 10, 'score': 90, 'label': 'yes'}", "duplicate_key"),
    "a missing key": ('{"reason": "ok", "score": 85}', "missing_key"),
    "other keys": ('{"verdict": "ok"}', "missing_key"),
    # numbers
    "hexadecimal": (text("0x55"), "invalid_json"),
    "hexadecimal in quotes": (text('"0x55"'), "bad_value"),
    "a plus": (text("+85"), "invalid_json"),
    "a point at the end": (text("85."), "invalid_json"),
    "a point first": (text(".85"), "invalid_json"),
    "a fraction in quotes": (text('"4/5"'), "bad_value"),
    "a fraction": (text("4/5"), "invalid_json"),
    "a small decimal in quotes": (text('"0.8"'), "bad_value"),
    "a small decimal": (text("0.8"), "bad_value"),
    "one as a decimal": (text("1.0"), "bad_value"),
    "per cent": (text('"85%"'), "bad_value"),
    "out of": (text('"85 out of 100"'), "bad_value"),
    "a comma": (text('"85,5"'), "bad_value"),
    "off the scale": (text("101"), "bad_value"),
    "below the scale": (text("-1"), "bad_value"),
    "1e400": (text("1e400"), "bad_value"),
    "5000 digits": (text("9" * 5000), "invalid_json"),
    "NaN": (text("NaN"), "bad_value"),
    "Infinity": (text("Infinity"), "bad_value"),
    "NaN in quotes": (text('"NaN"'), "bad_value"),
    "null": (text("null"), "bad_value"),
    "true": (text("true"), "bad_value"),
    "a list": (text("[85]"), "bad_value"),
    "in words": (text('"eighty-five"'), "bad_value"),
    "other digits": (text('"٨٥"'), "bad_value"),
    # comments, reasons, labels
    "a line comment": ("{reason: 'ok', score: 85, label: 'yes', // or rather 10\n}", "invalid_json"),
    "a block comment": ("{reason: 'ok', score: 85 /* or 10 */, label: 'yes'}", "invalid_json"),
    "an empty reason": (text(reason='""'), "bad_value"),
    "a blank reason": (text(reason='" \\t\\u200b "'), "bad_value"),
    "a reason of points": (text(reason='"..."'), "bad_value"),
    "a reason of none": (text(reason='"N/A"'), "bad_value"),
    "half a character": (text(reason='"\\ud800"'), "bad_value"),
    "an unknown label": (text(label='"maybe"'), "bad_value"),
    "a label in upper case": (text(label='"Yes"'), "bad_value"),
    "two labels": (text(label='"yes|no"'), "bad_value"),
    "quotes inside quotes": ('{"reason": "he said "well" to it", "score": 85, "label": "yes"}', "invalid_json"),
    # size
    "50000 objects": ('{"a":' * 50_000, "too_long"),
    "9000 objects": ('{"a":' * 9_000, "invalid_json"),
    "too much": ("x" * 70_000, "too_long"),
}


@pytest.mark.parametrize(("reply", "score", "repairs"), GOOD)
def test_reads(reply, score, repairs):
    reading = read_answer(reply, Given)
    assert reading.answer.score == score
    assert reading.answer.label == "yes"
    assert reading.repairs == repairs and not reading.verdict_first


@pytest.mark.parametrize("name", DOUBTFUL)
def test_refuses(name):
    reply, kind = DOUBTFUL[name]
    with pytest.raises(AnswerError) as caught:
        read_answer(reply, Given)
    assert caught.value.kind == kind
    assert str(caught.value).encode()


def reply(finish="stop", refusal=None):
    return Reply(V, refusal, finish, "m", None, None, None, "text")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (reply("length"), "truncated"),
        (reply("MAX_TOKENS"), "truncated"),
        (reply("content_filter"), "refusal"),
        (reply("tool_calls"), "truncated"),
        (reply({"odd": 1}), "truncated"),
        (reply(refusal="I can't judge this."), "refusal"),
    ],
)
def test_a_whole_answer_in_a_reply_that_did_not_end_well_is_none(said, kind):
    with pytest.raises(AnswerError) as caught:
        read_reply(said, Given)
    assert caught.value.kind == kind


@pytest.mark.parametrize("finish", ["stop", None, "eos"])
def test_a_reply_that_ended_is_read(finish):
    assert read_reply(reply(finish), Given).answer.score == 85


def test_a_verdict_written_before_its_reason_is_told():
    assert read_answer('{"label": "yes", "reason": "ok", "score": 85}', Given).verdict_first
    assert not read_answer('{"confidence": 1, "reason": "ok", "label": "yes", "score": 85}', Given).verdict_first


def test_a_share_may_lie_below_one():
    assert read_answer('{"score": 0.8}', Small).answer.score == 0.8
    assert read_answer('{"score": 1}', Small).answer.score == 1


PIECES = st.sampled_from(
    [*"{}[]:,'\"`\\ \n", "reason", "score", "label", "yes", "85", "NaN", "<think>", "</think>", "//", text(), FINAL]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=60).map("".join)))
def test_any_text_is_an_answer_or_an_error(reply):
    """Nothing a judge can say breaks the reading, and no answer comes from nowhere."""
    try:
        answer = read_answer(reply, Given).answer
    except AnswerError:
        return
    assert 0 <= answer.score <= 100 and answer.label in ("yes", "no")


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 140), st.integers(0, 140), st.sampled_from(("score", "points")))
def test_a_cut_reply_is_never_read_as_another(start, end, key):
    """A piece of a reply is either the whole answer or an error."""
    whole = "Sure: " + text(reason=json.dumps(f'He said {{"reason": "x", "{key}": 3, "label": "no"}} to me.'))
    with contextlib.suppress(AnswerError):
        assert read_answer(whole[start:end], Given).answer.score == 85
