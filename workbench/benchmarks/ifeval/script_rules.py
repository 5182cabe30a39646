"""What a script must be beyond its probe's structure: lengths, open pauses, sayable words, nobody's telephone.

The bounds are those that an author is told, in data/ifeval/prompts/briefs.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from pydantic import Field

from workbench.benchmarks.ifeval.authored import Script
from workbench.cases import Record
from workbench.construct.gates import Vocabulary, caller_states
from workbench.construct.markup import Piece, parse, spoken
from workbench.files import data_path, read_yaml

_ODD = re.compile(r"[^A-Za-z .,?!;:'\"\-]")
_DIGITS = {word: str(value) for value, word in enumerate("zero one two three four five six seven eight nine".split())}
_DIGITS["oh"] = "0"
_TELEPHONE = (7, 10, 11)  # digits in a row that could be somebody's number


class Brief(Record):
    """What a model is told of one probe, and the bounds its scripts must keep."""

    brief: str
    turn2_words: tuple[int, int]
    open_pause: bool = False
    question: bool = False
    after_flag: int = 0
    for_role: dict[str, str] = Field(default={}, alias="for")


class Briefs(Record):
    """The file briefs.yaml."""

    turn1_words: tuple[int, int]
    piece_words: dict[str, tuple[int, int]]
    probes: dict[str, Brief]


@lru_cache(maxsize=1)
def briefs() -> Briefs:
    return Briefs.model_validate(read_yaml(data_path("ifeval", "prompts", "briefs.yaml")))


@lru_cache(maxsize=1)
def _vocabulary() -> Vocabulary:
    return Vocabulary.read(data_path("ifeval", "turn_management.yaml"))


def rule_faults(script: Script, probe_id: str) -> list[str]:
    """What is wrong with one script whose markers can be read, as sentences without its name."""
    try:
        pieces = parse(script.turn2)
    except ValueError:
        return []  # named by the check of the structure
    faults = [*_lengths(script, pieces, briefs().probes[probe_id]), *_shape(script, pieces, briefs().probes[probe_id])]
    for name, text in (("turn1", script.turn1), ("turn2", " ".join(piece.text for piece in pieces))):
        odd = sorted(set(_ODD.findall(re.sub(r"[\d<>]", "", text))))
        if odd:
            faults.append(f"{name} holds {' '.join(odd)}, which cannot be said aloud; use letters and punctuation.")
        if re.match(r"\W*\w+:\s", text):
            faults.append(f"{name} begins with a speaker's name; give only the words.")
        faults += [f"{name} has the telephone number {number}; use 555 and 0100 to 0199." for number in _numbers(text)]
        for phrase in caller_states(text, _vocabulary()):
            faults.append(f"{name} says {phrase!r}, which states the rule; leave that to the role.")
    return faults


def _lengths(script: Script, pieces: list[Piece], brief: Brief) -> Iterator[str]:
    parts = [
        ("the situation", script.situation, (4, 20)),
        ("turn1", script.turn1, briefs().turn1_words),
        ("turn2", spoken(script.turn2), brief.turn2_words),
    ]
    parts += [
        (f"the {piece.mark or 'text'} {piece.text!r}", piece.text, briefs().piece_words[piece.mark or "text"])
        for piece in pieces
        if piece.kind == "speech"
    ]
    for what, text, (low, high) in parts:
        words = len(text.split())
        if not low <= words <= high:
            yield f"{what} has {words} words, where {low} to {high} are wanted."


def _shape(script: Script, pieces: list[Piece], brief: Brief) -> Iterator[str]:
    for before, after in pairwise(pieces):
        if brief.open_pause and after.mark == "pause" and re.search(r"[.?!]\W*$", before.text):
            yield f"{before.text[-30:]!r} ends a sentence before the pause; break off in the middle of one."
    flags = [index for index, piece in enumerate(pieces) if piece.mark == "flag"]
    if brief.after_flag and flags:
        rest = len(" ".join(piece.text for piece in pieces[flags[0] + 1 :]).split())
        if rest < brief.after_flag:
            yield f"only {rest} words follow the flag; let the caller run on for {brief.after_flag}."
    if brief.question and not script.turn2.rstrip("\"' ").endswith("?"):
        yield "turn2 must end as a question."


def _numbers(text: str) -> Iterator[str]:
    """Runs of spoken digits that could be a telephone number of somebody's."""
    run = ""
    for word in [*re.findall(r"[a-z]+", text.lower()), ""]:
        if word in _DIGITS:
            run += _DIGITS[word]
            continue
        if len(run) in _TELEPHONE and run[-7:-2] != "55501":
            yield run
        run = ""
