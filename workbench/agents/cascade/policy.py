"""When to speak and when to stop: numbers in a policy, one decision a frame, directives out of a prompt.

The rules for directives stand in data/cascade/directives.yaml. They know the usual words ("interrupt at
once", "stay silent", "read back", "a brief okay") and nothing of what a described person would do: an
agent that follows them is moved by explicit directives more than by a persona, and conditions ("only
while digits are dictated") are beyond it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal

from workbench.agents.cascade import words as language
from workbench.errors import InputError
from workbench.files import data_path, read_yaml

Action = Literal["none", "answer", "backchannel", "interrupt", "stop"]
_NEGATION_WORDS = 5


@dataclass(frozen=True)
class Policy:
    """Times in seconds of the user's silence, as the voice detector sees it.

    question_s, statement_s, unfinished_s : silence before an answer to a complete question, to a
        statement, and to a sentence that stops where it cannot end (also after a dictated number).
    holds : leave silences alone; anything but a complete question is answered after `hold_s` only.
    backchannels : a short sound in each pause longer than `backchannel_after_s` (not after questions).
    interrupts : break in when an alarming phrase is recognised, once a turn.
    yields : stop when the user has talked over the agent for `yield_after_s`, or over an interruption
        of its own for `persist_s` (who breaks in does not give up at the next word).
    readback : say again what was dictated, `unfinished_s` after its end, instead of asking the brain.
    """

    name: str
    question_s: float = 0.6
    statement_s: float = 0.8
    unfinished_s: float = 1.5
    holds: bool = False
    hold_s: float = 6.0
    backchannels: bool = False
    backchannel_after_s: float = 0.45
    interrupts: bool = False
    yields: bool = True
    yield_after_s: float = 0.2
    persist_s: float = 1.0
    readback: bool = False

    def answer_after_s(self, words: Sequence[str], chunks: Sequence[int] = ()) -> float:
        """How long a silence after these words must last before they are answered.

        chunks : number of words in each stretch between pauses.
        """
        if self.readback and language.dictated(words, chunks):
            return self.unfinished_s
        if language.is_question(words):
            return self.question_s
        if self.holds:
            return self.hold_s
        if language.ends_open(words) or language.dictating(words):
            return self.unfinished_s
        return self.statement_s


POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("balanced"),
        Policy("patient", question_s=1.0, statement_s=1.5, unfinished_s=3.0),
        Policy("eager", question_s=0.25, statement_s=0.25, unfinished_s=0.25),
        Policy("backchanneling", statement_s=1.6, unfinished_s=2.5, backchannels=True),
        Policy("prompted"),  # as balanced, until the system prompt says otherwise
    )
}


def make(name: str, changes: Mapping[str, Any]) -> Policy:
    """The named policy with some of its numbers changed; InputError for an unknown name or an unfit value."""
    if name not in POLICIES:
        raise InputError(f"The cascade agent has no policy {name!r}; choose one of {', '.join(POLICIES)}.")
    kinds = {field.name: type(getattr(POLICIES[name], field.name)) for field in fields(Policy) if field.name != "name"}
    unknown = [key for key in changes if key not in kinds]
    if unknown:
        raise InputError(f"The cascade agent has no option {unknown[0]!r}; a policy's options are {', '.join(kinds)}.")
    return replace(POLICIES[name], **{key: read(key, value, kinds[key]) for key, value in changes.items()})


def read(option: str, value: Any, kind: type) -> Any:
    """An option's value as a bool or as seconds (0 or more), from itself or from text; else InputError."""
    if kind is bool:
        known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if str(value).lower() not in known:
            raise InputError(f"{option}={value!r} is neither true nor false.")
        return known[str(value).lower()]
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise InputError(f"{option}={value!r} is not a number of seconds; give 0 or more.")
    return seconds


@dataclass(frozen=True)
class View:
    """What a decision is made from, at one moment.

    saying : what the agent is saying ('' for nothing). overlap_s : how long the user has talked over
    it. talking, silence_s, words : the user's side of this turn; heard is false before any of it.
    backchannelled, interrupted : whether that was done already, in this pause and in this turn.
    """

    saying: str
    overlap_s: float
    heard: bool
    talking: bool
    silence_s: float
    words: Sequence[str]
    backchannelled: bool
    interrupted: bool
    chunks: Sequence[int] = ()


def decide(policy: Policy, view: View) -> Action:
    """What to do now."""
    if view.saying in ("answer", "interrupt"):
        patience_s = policy.yield_after_s if view.saying == "answer" else policy.persist_s
        return "stop" if policy.yields and view.overlap_s >= patience_s else "none"
    if not view.heard:
        return "none"
    if policy.interrupts and not view.interrupted and language.danger_in(view.words):
        return "interrupt"
    if view.talking:
        return "none"
    if view.silence_s >= policy.answer_after_s(view.words, view.chunks):
        return "answer"
    in_pause = view.silence_s >= policy.backchannel_after_s and not view.backchannelled
    if policy.backchannels and in_pause and view.words and not language.is_question(view.words):
        return "backchannel"
    return "none"


@dataclass(frozen=True)
class Reading:
    """One directive found: the sentence, what it was taken for, and what it sets."""

    sentence: str
    about: str
    set: dict[str, Any]


@lru_cache(maxsize=1)
def _rules() -> tuple[re.Pattern, list[dict[str, Any]]]:
    table = read_yaml(data_path("cascade", "directives.yaml"))
    for rule in table["rules"]:
        rule["says"] = re.compile(rf"\b(?:{'|'.join(rule['says'])})")
        rule["with"] = re.compile(rf"\b{rule.get('with', '')}")
    return re.compile(rf"\b{table['negations']}\b"), table["rules"]


def prompted(policy: Policy, prompt: str) -> tuple[Policy, list[Reading]]:
    """The policy with what the keywords find in the prompt, in its order; later sentences win."""
    negations, rules = _rules()
    readings = []
    for sentence in re.split(r"(?<=[.!?;:])\s+", " ".join(prompt.replace("\u2019", "'").split())):
        lowered = sentence.lower()
        for rule in rules:
            found = rule["says"].search(lowered)
            if not found or not rule["with"].search(lowered):
                continue
            before = " ".join(lowered[: found.start()].split()[-_NEGATION_WORDS:])
            setting = rule.get("negated", {}) if negations.search(before) else rule["set"]
            if setting:
                readings.append(Reading(sentence, rule["about"], setting))
                policy = replace(policy, **setting)
    return policy, readings
