"""Reading a judge's reply: exactly one answer, or a judge error that says why.

What is repaired is only what leaves no doubt about the meaning: prose or a fence around the object,
a reasoning block before it, raw line breaks inside strings, and JSON5 spellings (trailing commas,
single quotes, comments), read by a JSON5 parser and never by pattern replacement. Each repair is
named in the result. A truncated, doubled or conflicting answer is an error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import json5
from pydantic import BaseModel, ValidationError

from workbench.judges.fencing import clean

MAX_CHARS = 60_000
"""Longest reply that is parsed; a longer one is a judge running away."""


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
