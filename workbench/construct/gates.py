"""Leakage gates: a persona must imply a rule without stating it.

Gate 1 looks for turn-management vocabulary, stems matched, and for stock paraphrases of it: words of
several groups close together. Gate 2 looks for runs of content words that a persona shares with a rule that
states the behaviour outright. What neither sees is a rule told in other words than the lists hold, such as an
anecdote that shows it; a person has to read every persona.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import InputError
from workbench.files import read_yaml


def _concept(groups: list[list[str]], within: int) -> re.Pattern[str]:
    """A word of each group, in this order, all within `within` words; `*` stands for any ending."""
    between = rf"(?: \S+){{0,{within - len(groups)}}}? "
    each = ("|".join(re.escape(entry).replace(r"\*", r"\S*") for entry in group) for group in groups)
    return re.compile(" " + between.join(f"(?:{entries})" for entries in each) + "(?= )")


@dataclass(frozen=True)
class Vocabulary:
    """What counts as stating a rule.

    stems : matched at the start of a word; words : whole words only; phrases : runs of words;
    function_words : left out before n-grams are compared; concepts : paraphrases; caller_phrases : what a caller
    may not say; grave : what a benign contradiction may not.
    """

    stems: tuple[str, ...]
    words: tuple[str, ...]
    phrases: tuple[str, ...]
    function_words: frozenset[str]
    concepts: tuple[re.Pattern[str], ...] = ()
    caller_phrases: tuple[str, ...] = ()
    grave: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Vocabulary:
        raw = read_yaml(path)
        try:
            return cls(
                tuple(raw["stems"]),
                tuple(raw["words"]),
                tuple(raw["phrases"]),
                frozenset(raw["function_words"]),
                tuple(_concept(each["groups"], each["within"]) for each in raw.get("concepts", ())),
                tuple(raw.get("caller_phrases", ())),
                tuple(raw.get("grave", ())),
            )
        except (KeyError, TypeError) as error:
            needs = "stems, words, phrases, function_words"
            raise InputError(f"{path} lacks the list {error}; it needs {needs}.") from None


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower().replace("\u2019", "'"))


def stated_rules(text: str, vocabulary: Vocabulary) -> list[str]:
    """The words, phrases and paraphrases of `text` that state turn management, in order of the lists."""
    words = words_of(text)
    running = " " + " ".join(words) + " "
    found = [word for word in dict.fromkeys(words) if word.startswith(vocabulary.stems) or word in vocabulary.words]
    # A word with a hyphen (mm-hm) is two here; a phrase may be inflected in its first word (cuts in).
    phrases = (*(word for word in vocabulary.words if "-" in word), *vocabulary.phrases)
    found += [phrase for phrase in phrases if re.search(rf" {r'[a-z]* '.join(_split(phrase))} ", running)]
    for sentence in re.split(r"[.;:!?]", text):
        running = f" {' '.join(words_of(sentence))} "
        matches = (concept.search(running) for concept in vocabulary.concepts)
        found += [match.group().strip() for match in matches if match]
    return list(dict.fromkeys(found))


def caller_states(text: str, vocabulary: Vocabulary) -> list[str]:
    """The phrases of `text` by which a caller would tell the assistant how to take turns."""
    running = f" {' '.join(words_of(text))} "
    return [phrase for phrase in vocabulary.caller_phrases if f" {phrase} " in running]


def _split(phrase: str) -> tuple[str, ...]:
    """First word and the rest, as they stand in running text."""
    first, *rest = words_of(phrase)
    return (first, " ".join(rest)) if rest else (first,)


def shared_ngrams(a: str, b: str, n: int, vocabulary: Vocabulary) -> list[tuple[str, ...]]:
    """Runs of `n` content words (function words left out) that both texts hold, in order of `a`."""

    def ngrams(text: str) -> list[tuple[str, ...]]:
        content = [word for word in words_of(text) if word not in vocabulary.function_words]
        return [tuple(content[i : i + n]) for i in range(len(content) - n + 1)]

    other = set(ngrams(b))
    return [ngram for ngram in dict.fromkeys(ngrams(a)) if ngram in other]
