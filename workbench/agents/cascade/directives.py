"""Reading floor-keeping directives out of a system prompt by keywords.

The rules stand in data/cascade/directives.yaml. They know the usual words for directives ("interrupt
at once", "stay silent", "read back", "a brief okay") and nothing of what a described person would do:
an agent that follows them is moved by explicit directives more than by a persona, and conditions
("only while digits are dictated") are beyond it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from workbench.agents.cascade.policy import Policy
from workbench.files import data_path, read_yaml

_NEGATION_WORDS = 5


@dataclass(frozen=True)
class _Rule:
    about: str
    says: re.Pattern
    beside: re.Pattern | None
    set: dict[str, Any]
    negated: dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """One directive found: the sentence, what it was taken for, and what it sets."""

    sentence: str
    about: str
    set: dict[str, Any]


@lru_cache(maxsize=1)
def _rules() -> tuple[re.Pattern, tuple[_Rule, ...]]:
    table = read_yaml(data_path("cascade", "directives.yaml"))
    rules = tuple(
        _Rule(
            about=rule["about"],
            says=re.compile(rf"\b(?:{'|'.join(rule['says'])})"),
            beside=re.compile(rf"\b{rule['with']}") if "with" in rule else None,
            set=rule["set"],
            negated=rule.get("negated", {}),
        )
        for rule in table["rules"]
    )
    return re.compile(rf"\b{table['negations']}\b"), rules


def read_prompt(prompt: str) -> list[Reading]:
    """The directives that the keywords find, in the prompt's order."""
    negations, rules = _rules()
    readings = []
    for sentence in re.split(r"(?<=[.!?;:])\s+", " ".join(prompt.replace("\u2019", "'").split())):
        lowered = sentence.lower()
        for rule in rules:
            found = rule.says.search(lowered)
            if not found or (rule.beside and not rule.beside.search(lowered)):
                continue
            before = " ".join(lowered[: found.start()].split()[-_NEGATION_WORDS:])
            setting = rule.negated if negations.search(before) else rule.set
            if setting:
                readings.append(Reading(sentence, rule.about, setting))
    return readings


def prompted(policy: Policy, prompt: str) -> tuple[Policy, list[Reading]]:
    """The policy with what the prompt's directives set; later sentences win."""
    readings = read_prompt(prompt)
    for reading in readings:
        policy = replace(policy, **reading.set)
    return policy, readings
