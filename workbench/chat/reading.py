"""Reading a judge's reply: exactly one answer, or a judge error that says why.

What is repaired is only what leaves no doubt about the meaning: prose or a fence around the object,
a reasoning block before it, raw line breaks inside strings, and JSON5 spellings (trailing commas,
single quotes, comments), read by a JSON5 parser and never by pattern replacement. Each repair is
named in the result. A truncated, doubled or conflicting answer is an error.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Annotated, Any

import json5
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from workbench.chat.client import Reply
from workbench.chat.messages import clean

MAX_CHARS = 60_000
"""Longest reply that is parsed; a longer one is a judge running away."""


_NUMERAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


class Answer(BaseModel):
    """Base of every judge's answer: all keys required, extra keys ignored, strings never coerced."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


def Score(low: float, high: float, description: str) -> Any:
    """A number on the scale [low, high], as an annotated type for an answer's field.

    A number, or a string that is a plain numeral ('85.5'), is read as it stands. Everything else is
    refused: fractions, percentages, NaN, booleans, values off the scale. On a scale that reaches 10
    or more, a decimal above 0 and up to 1 (0.8, 1.0) is refused as well: it may be meant on a scale
    of 0 to 1, and neither reading can be known.
    """

    def read(value: Any) -> float:
        if isinstance(value, str):
            text = value.strip()
            if not _NUMERAL.fullmatch(text):
                raise ValueError(f"{text[:40]!r} is not a plain number")
            value = float(text) if "." in text else int(text)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"a number is needed, not {type(value).__name__}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is not a number on a scale")
        if not low <= value <= high:
            raise ValueError(f"{_short(value)} is outside {low:g} to {high:g}")
        if high >= 10 and isinstance(value, float) and 0 < value <= 1:
            raise ValueError(f"{value} may be meant on a scale of 0 to 1, so it can't be read on {low:g} to {high:g}")
        return float(value)

    bounds = {"type": "number", "minimum": low, "maximum": high}
    return Annotated[float, BeforeValidator(read), Field(description=description, json_schema_extra=bounds)]


def _short(value: float) -> str:
    text = str(value) if isinstance(value, float) or abs(value) < 10**20 else "a number of that size"
    return text[:40]


class AnswerError(Exception):
    """A reply that cannot be read.

    Attributes
    ----------
    kind : empty | refusal | truncated | too_long | no_json | invalid_json | duplicate_key |
        ambiguous | missing_key | bad_value
    """

    def __init__(self, kind: str, message: str):
        self.kind = kind
        super().__init__(clean(message))


@dataclass(frozen=True)
class Reading:
    """A validated answer and the repairs it took to read it."""

    answer: BaseModel
    repairs: tuple[str, ...]


def read_reply(reply: Reply, model: type[BaseModel]) -> Reading:
    """The answer in a reply; a refusal or a cut-off is named as such whatever text came with it.

    Raises
    ------
    AnswerError : see its kinds.
    """
    if reply.refusal or reply.finish == "content_filter":
        why = (reply.refusal or "the server's content filter stopped the reply")[:200]
        raise AnswerError("refusal", f"the model declined to answer ({why})")
    if reply.finish == "length":
        raise AnswerError(
            "truncated", "the reply was cut off at the token limit; be briefer or raise --max-tokens"
        )
    return read_answer(reply.text, model)


def read_answer(text: str, model: type[BaseModel]) -> Reading:
    """Read the one answer of the kind `model` in a judge's reply.

    Raises
    ------
    AnswerError : see its kinds; the message says what was found.
    """
    if not text.strip():
        raise AnswerError("empty", "the reply is empty")
    if len(text) > MAX_CHARS:
        raise AnswerError("too_long", f"the reply has {len(text)} characters; at most {MAX_CHARS} are read")
    body, repairs = _without_reasoning(text)
    found = _objects(body)
    keys = set(model.model_fields)
    answers = [(value, fixes) for value, fixes in found if keys & value.keys()]
    if not answers:
        if found:
            raise AnswerError("missing_key", f"the object has none of the keys {', '.join(model.model_fields)}")
        raise AnswerError("no_json", f"the reply holds no JSON object; it begins {body.strip()[:60]!r}")
    value, fixes = answers[0]
    if any(repr(other) != repr(value) for other, _ in answers[1:]):
        raise AnswerError("ambiguous", f"the reply holds {len(answers)} answers that differ")
    if len(found) > 1 or body.strip()[:1] != "{" or body.strip()[-1:] != "}":
        fixes = (*fixes, "text around the object")
    return Reading(_validate(value, model), (*repairs, *fixes))


def _without_reasoning(text: str) -> tuple[str, tuple[str, ...]]:
    """Drop a leading reasoning block, as some local models print it; one without an end was cut off."""
    body = text.lstrip()
    if body.startswith("<think>") and "</think>" not in body:
        raise AnswerError("truncated", "the reasoning block was never closed")
    if "</think>" in body and not body.startswith(("{", "```")):
        return body.split("</think>", 1)[1], ("reasoning block",)
    return text, ()


def _objects(text: str) -> list[tuple[dict[str, Any], tuple[str, ...]]]:
    """Every top-level object with its repairs. An object that does not parse spoils the whole reply,
    since an object inside it could otherwise be taken for the answer."""
    found = []
    at = text.find("{")
    while at != -1:
        value, end, fixes = _object_at(text, at)
        found.append((value, fixes))
        at = text.find("{", end)
    return found


def _object_at(text: str, at: int) -> tuple[dict[str, Any], int, tuple[str, ...]]:
    for strict, fixes in ((True, ()), (False, ("raw control characters in a string",))):
        try:
            decoder = json.JSONDecoder(strict=strict, object_pairs_hook=_unique)
            value, end = decoder.raw_decode(text, at)
            return value, end, fixes
        except RecursionError:
            raise AnswerError("invalid_json", "the object is nested too deeply") from None
        except ValueError:
            continue
    try:
        value, problem, end = json5.parse(
            text, start=at, consume_trailing=False, object_pairs_hook=_unique, strict=False
        )
    except RecursionError:
        raise AnswerError("invalid_json", "the object is nested too deeply") from None
    except ValueError as error:
        value, problem, end = None, str(error), at
    if problem or not isinstance(value, dict):
        if not _closed(text[at:]):
            raise AnswerError("truncated", "the object is not closed, so the reply was cut off or is malformed")
        raise AnswerError("invalid_json", f"the object is not valid JSON ({' '.join(str(problem).split())[:120]})")
    return value, end, ("JSON5 spelling",)


def _closed(text: str) -> bool:
    """Whether braces balance, strings in double quotes left out; only chooses between two error kinds."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text, flags=re.DOTALL)
    return bare.count("}") >= bare.count("{") and bare.count('"') == 0


def _unique(pairs: Any) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in value:
            raise AnswerError("duplicate_key", f"the key {key[:40]!r} stands twice")
        value[key] = item
    return value


def _validate(value: dict[str, Any], model: type[BaseModel]) -> BaseModel:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        kind = "missing_key" if first["type"] == "missing" else "bad_value"
        message = first["msg"].removeprefix("Value error, ")
        raise AnswerError(kind, f"{field}: {message}") from None
