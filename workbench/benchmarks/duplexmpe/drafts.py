"""What a language model is asked for at each step of a pair, and how its texts are made plain and compared."""

from __future__ import annotations

import re

from pydantic import Field

from workbench.benchmarks.duplexmpe import authored as au
from workbench.cases import Record

GRAM, SAME_SHARE = 5, 0.2
"""Two conversations are the same when they share this much of the shorter one's runs of GRAM words."""


_PLAIN = str.maketrans({"\u2018": "'", "\u2019": "'", "\u2013": " -- ", "\u2014": " -- ", "\u2026": "..."})


class DraftTurn(Record):
    speaker: str = Field(description="first name")
    label: au.Label = Field(description="the turn's label")
    text: str = Field(description="what is said")


class Draft(Record):
    """The explicit conversation."""

    speakers: tuple[str, ...] = Field(description="first names, in order of appearance")
    turns: tuple[DraftTurn, ...] = Field(description="the turns in order")
    gold: str = Field(description="the answer to T as one short sentence")
    accept: tuple[str, ...] = Field(description="two to five phrasings that make an answer right")


class Rewrite(Record):
    """What is different in the implicit version."""

    implicit: str = Field(description="the request without the name, with a cue")
    before: str = Field(description="another wording of the turn just before it, or an empty string")


class Labelling(Record):
    """The labels that a second pass gives."""

    labels: tuple[au.Label, ...] = Field(description="one label a turn, in order")


def as_draft(scenario: au.Scenario) -> Draft:
    turns = tuple(
        DraftTurn(speaker=turn.speaker, label=turn.label, text=turn.words("explicit")) for turn in scenario.turns
    )
    return Draft(speakers=scenario.speakers, turns=turns, gold=scenario.gold, accept=scenario.accept)


def grams(scenario: au.Scenario) -> frozenset[tuple[str, ...]]:
    words = re.findall(r"[a-z']+", " ".join(turn.words("explicit") for turn in scenario.turns).lower())
    return frozenset(tuple(words[at : at + GRAM]) for at in range(len(words) - GRAM + 1))


def clean(text: str) -> str:
    """Typographic quotes and dashes made plain, white space single."""
    return " ".join(text.translate(_PLAIN).split())
