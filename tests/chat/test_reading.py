"""What a judge's reply may look like, and what is made of it."""

import contextlib
import json
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from workbench.chat.reading import Answer, AnswerError, Score, read_answer


class Given(Answer):
    reason: str = Field(min_length=1)
    score: Score(0, 100, "the score")
    label: Literal["yes", "no"]


class Small(Answer):
    score: Score(0, 1, "a share")


def text(score="85", label='"yes"', reason='"plain and short"'):
    return f'{{"reason": {reason}, "score": {score}, "label": {label}}}'


@pytest.mark.parametrize(
    ("reply", "score", "repairs"),
    [
        (text(), 85, ()),
        (text("85.5"), 85.5, ()),
        (text('"85.5"'), 85.5, ()),
        (text('"85"'), 85, ()),
        (text("0"), 0, ()),
        (text("1"), 1, ()),
        (text("100.0"), 100, ()),
        (f"```json\n{text()}\n```", 85, ("text around the object",)),
        (f"Here's my view, in short:\n{text()}\nI hope that helps.", 85, ("text around the object",)),
        (text(reason='"he said ```json {\\"score\\": 3}``` and stopped"'), 85, ()),
        (f"```\n{text(reason=json.dumps('a fence ``` inside'))}\n```", 85, ("text around the object",)),
        ('{"reason": "ok", "score": 85, "label": "yes",}', 85, ("JSON5 spelling",)),
        ("{'reason': 'it\\'s fine', 'score': 85, 'label': 'yes'}", 85, ("JSON5 spelling",)),
        ("{reason: 'ok', score: 85, label: 'yes', // done\n}", 85, ("JSON5 spelling",)),
        ('{"reason": "two\nlines", "score": 85, "label": "yes"}', 85, ("raw control characters in a string",)),
        (f"<think>A draft: {{'score': 10}}</think>\n{text()}", 85, ("reasoning block",)),
        (f"I would say so. </think>{text()}", 85, ("reasoning block",)),
        (f"{text()} {text()}", 85, ("text around the object",)),
        (f"[{text()}]", 85, ("text around the object",)),
        ('{"reason": "more", "score": 85, "label": "yes", "confidence": 0.9}', 85, ()),
    ],
)
def test_reads(reply, score, repairs):
    reading = read_answer(reply, Given)
    assert reading.answer.score == score
    assert reading.answer.label == "yes"
    assert reading.repairs == repairs


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        ("I can't help with that.", "no_json"),
        ("85", "no_json"),
        (text('"4/5"'), "bad_value"),
        (text("4/5"), "invalid_json"),
        (text('"0.8"'), "bad_value"),
        (text("0.8"), "bad_value"),
        (text("1.0"), "bad_value"),
        (text('"85%"'), "bad_value"),
        (text('"85 out of 100"'), "bad_value"),
        (text('"85,5"'), "bad_value"),
        (text("101"), "bad_value"),
        (text("-1"), "bad_value"),
        (text("1e400"), "bad_value"),
        (text("9" * 5000), "invalid_json"),
        (text("NaN"), "bad_value"),
        (text("Infinity"), "bad_value"),
        (text('"NaN"'), "bad_value"),
        (text("null"), "bad_value"),
        (text("true"), "bad_value"),
        (text("[85]"), "bad_value"),
        (text('"eighty-five"'), "bad_value"),
        (text('"٨٥"'), "bad_value"),
        (text(reason='"\\ud800"'), "bad_value"),
        (text(label='"maybe"'), "bad_value"),
        (text(label='"Yes"'), "bad_value"),
        (text(label='"yes|no"'), "bad_value"),
        (text(reason='""'), "bad_value"),
        ('{"reason": "ok", "score": 85}', "missing_key"),
        ('{"verdict": "ok"}', "missing_key"),
        ('{"result": {"reason": "ok", "score": 85, "label": "yes"}}', "missing_key"),
        ('{"reason": "ok", "score": 85, "lab', "truncated"),
        ('{"reason": "ok", "score": 85, "label": "yes"', "truncated"),
        ('{"reason": "he said {\\"score\\": 3, \\"label\\": \\"no\\"} and', "truncated"),
        ('{"draft": {"reason": "ok", "score": 85, "label": "yes"}, "final": ', "truncated"),
        ("<think>a long thought", "truncated"),
        (f"{text('10')} or rather {text('90')}", "ambiguous"),
        (f'For example {{"score": 3}}. {text()}', "ambiguous"),
        ('{"reason": "ok", "score": 10, "score": 90, "label": "yes"}', "duplicate_key"),
        ("{'reason': 'ok', 'score': 10, 'score': 90, 'label': 'yes'}", "duplicate_key"),
        ('{"reason": "he said "well" to it", "score": 85, "label": "yes"}', "invalid_json"),
        ('{"a":' * 50_000, "too_long"),
        ('{"a":' * 9_000, "invalid_json"),
        ("x" * 70_000, "too_long"),
    ],
)
def test_refuses(reply, kind):
    with pytest.raises(AnswerError) as caught:
        read_answer(reply, Given)
    assert caught.value.kind == kind
    assert str(caught.value).encode()


def test_a_share_may_lie_below_one():
    assert read_answer('{"score": 0.8}', Small).answer.score == 0.8
    assert read_answer('{"score": 1}', Small).answer.score == 1


PIECES = st.sampled_from(
    [*"{}[]:,'\"`\\ \n", "reason", "score", "label", "yes", "85", "NaN", "<think>", "</think>", "//"]
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
@given(st.integers(0, 120), st.integers(0, 120))
def test_a_cut_reply_is_never_read_as_another(start, end):
    """A piece of a good reply is either the whole answer or an error."""
    whole = "Sure: " + text(reason=json.dumps('He said {"reason": "x", "score": 3, "label": "no"} to me.'))
    with contextlib.suppress(AnswerError):
        assert read_answer(whole[start:end], Given).answer.score == 85
