"""What a text may say: a persona implies its rule and never states it; a script can be said aloud.

Gate 1 looks for turn-management vocabulary, stems matched, and for stock paraphrases of it: words of several groups
close together. Gate 2 looks for runs of content words that a persona shares with a rule that states the behaviour
outright (both: appendix). What neither sees is a rule told in other words than the lists hold, such as an anecdote
that shows it; a person has to read every persona. Scripts keep the bounds that an author is told, in
data/ifeval/prompts/briefs.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import pairwise

from pydantic import Field

from workbench.benchmarks.ifeval.cases import DIGITS, Probe, Script, pieces_of, shape_of, spoken
from workbench.cases import Record
from workbench.construct.turns import ScriptPiece
from workbench.files import data_path, read_yaml


class Concept(Record):
    """A paraphrase: a word of each group, in this order, all within `within` words; `*` stands for any ending."""

    says: str
    groups: tuple[tuple[str, ...], ...]
    within: int

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        between = rf"(?: \S+){{0,{self.within - len(self.groups)}}}? "
        each = ("|".join(re.escape(entry).replace(r"\*", r"\S*") for entry in group) for group in self.groups)
        return re.compile(" " + between.join(f"(?:{entries})" for entries in each) + "(?= )")


class Vocabulary(Record):
    """What counts as stating a rule.

    stems : matched at the start of a word; words : whole words only; phrases : runs of words;
    function_words : left out before n-grams are compared; concepts : paraphrases; caller_phrases : what a caller
    may not say; grave : what a benign contradiction may not.
    """

    stems: tuple[str, ...]
    words: tuple[str, ...]
    phrases: tuple[str, ...]
    function_words: frozenset[str]
    concepts: tuple[Concept, ...] = ()
    caller_phrases: tuple[str, ...] = ()
    grave: tuple[str, ...] = ()


@cache
def vocabulary() -> Vocabulary:
    return Vocabulary.model_validate(read_yaml(data_path("ifeval", "turn_management.yaml")))


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower().replace("\u2019", "'"))


def stated_rules(text: str) -> list[str]:
    """The words, phrases and paraphrases of `text` that state turn management, in order of the lists."""
    rules, words = vocabulary(), words_of(text)
    running = f" {' '.join(words)} "
    found = [word for word in dict.fromkeys(words) if word.startswith(rules.stems) or word in rules.words]
    # A word with a hyphen (mm-hm) is two here; a phrase may be inflected in its first word (cuts in).
    phrases = (*(word for word in rules.words if "-" in word), *rules.phrases)
    found += [phrase for phrase in phrases if re.search(rf" {r'[a-z]* '.join(_split(phrase))} ", running)]
    for sentence in re.split(r"[.;:!?]", text):
        running = f" {' '.join(words_of(sentence))} "
        matches = (concept.pattern.search(running) for concept in rules.concepts)
        found += [match.group().strip() for match in matches if match]
    return list(dict.fromkeys(found))


def caller_states(text: str) -> list[str]:
    """The phrases of `text` by which a caller would tell the assistant how to take turns."""
    running = f" {' '.join(words_of(text))} "
    return [phrase for phrase in vocabulary().caller_phrases if f" {phrase} " in running]


def _split(phrase: str) -> tuple[str, ...]:
    """First word and the rest, as they stand in running text."""
    first, *rest = words_of(phrase)
    return (first, " ".join(rest)) if rest else (first,)


def shared_ngrams(a: str, b: str, n: int) -> list[tuple[str, ...]]:
    """Runs of `n` content words (function words left out) that both texts hold, in order of `a`."""

    def ngrams(text: str) -> list[tuple[str, ...]]:
        content = [word for word in words_of(text) if word not in vocabulary().function_words]
        return [tuple(content[i : i + n]) for i in range(len(content) - n + 1)]

    other = set(ngrams(b))
    return [ngram for ngram in dict.fromkeys(ngrams(a)) if ngram in other]


# -- scripts -----------------------------------------------------------------------------------------------

_ODD = re.compile(r"[^A-Za-z .,?!;:'\"\-]")
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


@cache
def briefs() -> Briefs:
    return Briefs.model_validate(read_yaml(data_path("ifeval", "prompts", "briefs.yaml")))


def script_faults(script: Script, probe: Probe, actions: tuple[str, ...] = ()) -> list[str]:
    """What is wrong with one script for roles that expect `actions` of it, as sentences without its name."""
    faults = []
    first: list[ScriptPiece] = []
    try:
        first = pieces_of(script.turn1)
        if shape_of(first) != ["text"]:
            faults.append("turn1 is context and may hold no marker; remove it.")
    except ValueError as error:
        faults.append(f"turn1: {error}.")
    try:
        pieces = pieces_of(script.turn2)
    except ValueError as error:
        return [*faults, f"turn2: {error}."]
    shape = shape_of(pieces)
    if not probe.fits(shape, actions):
        faults.append(
            f"turn2 has the structure [{', '.join(shape)}], where its probe ({probe.title}) needs "
            f"[{', '.join(probe.shape_for(actions))}]; mend the markers."
        )
    chunks = [piece.text for piece in pieces if piece.mark == "chunk"]
    for chunk in chunks:
        for word in re.findall(r"[a-z]+|\d+", chunk.lower()):
            if word in _AMBIGUOUS or word.isdigit():
                faults.append(
                    f"turn2: the dictated chunk {chunk!r} holds {word!r}, which can be transcribed in more than one "
                    "way; dictate single digits as words."
                )
    for said in (first, pieces):
        text = " ".join(piece.text for piece in said)
        if re.search(r"\d", text):
            faults.append(f"a digit stands in the spoken text ({text[:40]!r} ...); write numbers as words.")
    return faults


_AMBIGUOUS = frozenset(
    """ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty
    sixty seventy eighty ninety hundred thousand double triple""".split()
)


def rule_faults(script: Script, probe_id: str) -> list[str]:
    """What is wrong with one script whose markers can be read, as sentences without its name."""
    try:
        pieces = pieces_of(script.turn2)
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
        for phrase in caller_states(text):
            faults.append(f"{name} says {phrase!r}, which states the rule; leave that to the role.")
    return faults


def _lengths(script: Script, pieces: list[ScriptPiece], brief: Brief) -> Iterator[str]:
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


def _shape(script: Script, pieces: list[ScriptPiece], brief: Brief) -> Iterator[str]:
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
        if word in DIGITS:
            run += DIGITS[word]
            continue
        if len(run) in _TELEPHONE and run[-7:-2] != "55501":
            yield run
        run = ""
