"""Reading a model's reply: exactly one answer, or an error that says why.

A reply is one JSON object and nothing that could change what it says. What is repaired leaves no doubt:
a closed reasoning block before it, one closed fence, a stock phrase ("Here is my answer:"), raw line
breaks inside strings, and three spellings of JSON5 (trailing commas, single quotes, bare keys), read by a
parser and never by pattern replacement. Each repair is named in the result. Everything else is an error,
since the list of what may be meant otherwise has no end: words or tags beside the object, a second
object, a list, a draft, a cut-off, other keys than asked for, a reason that is none.
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


def Points(low: float, high: float, description: str) -> Any:
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


REASON = "reason"
"""The key that holds the grounds of an answer, where it has one."""

_FINISHED = frozenset(("stop", "eos", "eos_token", "end_turn", "stop_sequence", "stop_token"))
_TAG = re.compile(
    r"(?P<open>[<\[])(?P<end>/?)(?P<name>think|thinking|thoughts?|reason|reasoning|reflection|analysis|scratchpad)"
    r"\b[^<>\[\]]*[>\]]",
    re.IGNORECASE,
)
_CHANNELS = re.compile(
    r"(?:(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)<\|message\|>(?:(?!<\|).)*<\|end\|>\s*)*"
    r"(?:<\|start\|>assistant)?<\|channel\|>final(?:\s*<\|constrain\|>\s*\w+)?<\|message\|>"
    r"(?P<final>(?:(?!<\|).)*)(?:<\|(?:return|end)\|>)?\s*",
    re.DOTALL,
)
_LEADING = frozenset(
    """sure certainly of course okay ok alright here here's is my the this answer verdict judgement judgment evaluation
    assessment json object result response output final in as format requested""".split()
)
_CLOSING = frozenset("that's that is all i hope this it helps done thanks thank you".split())
"""Words of which a phrase beside the object may consist: none that could take anything back."""

_REFUSAL = re.compile(
    r"\s*(?:sorry,? (?:but )?i\b|i(?:['’]?m| am) (?:sorry|afraid|unable|not able)|as an ai\b|"
    r"i (?:can['’]?t|cannot|can not|won['’]?t|will not) (?:judge|assess|evaluate|score|rate|help|assist|comply|provide|"
    r"answer|determine|continue|fulfil)\b(?![^.!?]*\b(?:high|higher|highly|low|lower|above|below|better|fully)\b))",
    re.IGNORECASE,
)
_STRING = re.compile(r"""\"(?:[^"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'""", re.DOTALL)


class AnswerError(Exception):
    """A reply that cannot be read.

    Attributes
    ----------
    kind : empty | refusal | truncated | too_long | no_json | invalid_json | duplicate_key |
        ambiguous | extra_text | extra_key | missing_key | bad_value
    """

    def __init__(self, kind: str, message: str):
        self.kind = kind
        super().__init__(clean(message))


@dataclass(frozen=True)
class Reading:
    """A validated answer and the repairs it took to read it.

    verdict_first : another key stood before `reason`, so the reason can't have led to it (a server that sorts keys).
    """

    answer: BaseModel
    repairs: tuple[str, ...]
    verdict_first: bool = False


def read_reply(reply: Reply, model: type[BaseModel]) -> Reading:
    """The answer in a reply; a refusal or a cut-off is named as such whatever text came with it.

    Raises
    ------
    AnswerError : see its kinds.
    """
    finish = str(reply.finish or "stop").lower()
    if reply.refusal or finish in ("content_filter", "refusal", "safety"):
        why = (reply.refusal or "the server's content filter stopped the reply")[:200]
        raise AnswerError("refusal", f"the model declined to answer ({why})")
    if finish in ("length", "max_tokens"):
        raise AnswerError(
            "truncated", "the reply was cut off at the token limit: be briefer, or raise it (--max-tokens)"
        )
    if finish not in _FINISHED:
        raise AnswerError("truncated", f"the server ended the reply for another reason than its end ({finish[:40]})")
    return read_answer(reply.text, model)


def read_answer(text: str, model: type[BaseModel]) -> Reading:
    """Read the one answer of the kind `model` in a reply.

    A field called `reason` is taken for the grounds of the others: it must say something.

    Raises
    ------
    AnswerError : see its kinds; the message says what was found.
    """
    if not text.strip():
        raise AnswerError("empty", "the reply is empty")
    if len(text) > MAX_CHARS:
        raise AnswerError("too_long", f"the reply has {len(text)} characters; at most {MAX_CHARS} are read")
    body, repairs = _without_reasoning(text.strip())
    at = body.find("{")
    if at == -1:
        raise AnswerError("no_json", f"the reply holds no JSON object; it begins {body.strip()[:60]!r}")
    value, end, fixes = _object_at(body, at)
    if _alone(body[:at].strip(), body[end:].strip()):
        fixes = (*fixes, "text around the object")
    _check_keys(value, model)
    given = _validate(value, model)
    keys = list(value)
    late = REASON in keys and any(key in model.model_fields for key in keys[: keys.index(REASON)])
    return Reading(given, (*repairs, *fixes), late)


def _without_reasoning(text: str) -> tuple[str, tuple[str, ...]]:
    """Drop reasoning blocks that stand first and are closed, as some local models print them.

    A block that is not closed, or closed by another tag, was cut off. What stands anywhere else stays, and is
    refused as text beside the object.
    """
    if text.startswith("<|"):
        channels = _CHANNELS.fullmatch(text)
        if channels is None:
            raise AnswerError("truncated", "the reply has channel markers and not one closed final channel")
        return channels["final"].strip(), ("reasoning block",)
    body = text
    while (first := _TAG.match(body)) and not first["end"]:
        open_tags: list[tuple[str, str]] = []
        for tag in _TAG.finditer(body):
            name = (tag["open"], tag["name"].lower())
            if not tag["end"]:
                open_tags.append(name)
            elif open_tags.pop() != name:
                raise AnswerError("truncated", "a reasoning block is closed by the end of another")
            if not open_tags:
                body = body[tag.end() :].lstrip()
                break
        else:
            raise AnswerError("truncated", "the reasoning block was never closed")
    tags = list(_TAG.finditer(body))
    if body is text and len(tags) == 1 and tags[0]["end"] and not body.startswith(("{", "```")):
        body = body[tags[0].end() :].lstrip()  # the opening tag stood in the model's template
    return body, () if body is text else ("reasoning block",)


def _alone(before: str, after: str) -> bool:
    """Whether anything harmless stands around the object: one closed fence, stock phrases.

    Raises
    ------
    AnswerError : something else stands there, which may take back or contradict what the object says.
    """
    around = bool(before or after)
    fence = re.search(r"```\w*$", before)
    if fence:
        if "```" not in after:
            raise AnswerError("truncated", "the fence around the object was never closed")
        before, after = before[: fence.start()].rstrip(), after.replace("```", "", 1).lstrip()
    if "{" in after:
        raise AnswerError("ambiguous", "the reply holds more than one object")
    for words, known, marks in ((before, _LEADING, r"[\w\s,.:!'*#]*"), (after, _CLOSING, r"[\w\s,.!']*")):
        words = words.replace("\u2019", "'")
        if len(words) > 80 or not re.fullmatch(marks, words) or not set(re.findall(r"[\w']+", words.lower())) <= known:
            raise AnswerError("extra_text", f"other words stand beside the object ({words[:60]!r})")
    return around


def _check_keys(value: dict[str, Any], model: type[BaseModel]) -> None:
    """Refuse what could say something else than the keys that were asked for."""
    known = model.model_fields
    if not known.keys() & value.keys():
        raise AnswerError("missing_key", f"the object has none of the keys {', '.join(known)}")
    for key, item in value.items():
        # How sure it is changes no verdict, and models like to say it.
        if key not in known and not (key == "confidence" and isinstance(item, int | float)):
            raise AnswerError("extra_key", f"the key {key[:40]!r} was not asked for")
    inner = re.compile(rf"[{{,]\W*(?:{'|'.join(map(re.escape, known))})\W*[:=]", re.IGNORECASE)
    for key, item in value.items():
        if isinstance(item, str) and "{" in item and inner.search(item):
            raise AnswerError("ambiguous", f"{key} holds another answer")
    reason = value.get(REASON)
    if REASON in known and isinstance(reason, str):
        said = re.sub(r"[\W_]+", " ", reason).strip().lower()
        asked = re.sub(r"[\W_]+", " ", known[REASON].description or "").strip().lower()
        if said in ("", "n a", "none", "null", "string", "text", "reason", "your reason", "your reason here", asked):
            raise AnswerError("bad_value", f"{REASON}: it says nothing ({reason.strip()[:40]!r})")
        if re.fullmatch(r"\s*(<[^<>]*>|\[[^\[\]]*\]|\{[^{}]*\})\s*", reason):
            raise AnswerError("bad_value", f"{REASON}: a placeholder, not a reason ({reason.strip()[:40]!r})")
        if _REFUSAL.match(reason):
            raise AnswerError("refusal", f"the model declined to answer ({reason.strip()[:80]!r})")


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
    # Of JSON5 only what changes no value: a comment may take an answer back, 0x55 may be meant as 55.
    if re.search(r"/|\b0x|\+|(?<!\d)\.|\.(?!\d)|Infinity", _STRING.sub("''", text[at:end]), re.IGNORECASE):
        raise AnswerError("invalid_json", "the object holds a comment or a number that is not plain")
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
