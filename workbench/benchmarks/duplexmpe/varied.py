"""The combinatorial author: any number of pairs out of the shipped ones, by exchanging names and numbers.

What it makes are variations, not new conversations: who speaks to whom, what is said and where T stands
are those of the source. Names of speakers are exchanged for others of the same group (voices and gaps
follow the id, so they change too); in the few scenarios of slots.yaml the number of the request changes
and its answer is computed again. Every pair names its source, and intervals go by sources.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from workbench.benchmarks.duplexmpe.cases import Scenario, Turn
from workbench.benchmarks.duplexmpe.check import scenario_faults
from workbench.cases import Record
from workbench.errors import InputError
from workbench.files import data_path, read_yaml

_TRIES = 60
WORDINGS = ("text", "explicit", "implicit")
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


class Slot(Record):
    """A number of one scenario that may change; the answer is (n * times + plus) / over."""

    id: str
    said: str
    values: tuple[int, ...]
    times: int = 1
    plus: int = 0
    over: int = 1
    gold: str
    accept: tuple[str, ...]

    def answer(self, number: int) -> int:
        """The answer for one value.

        Raises
        ------
        InputError : it is not a whole number of at least 1.
        """
        value = Fraction(number * self.times + self.plus, self.over)
        if value.denominator != 1 or value < 1:
            raise InputError(f"slots.yaml, {self.id}: the value {number} gives {value}, which is no count; remove it.")
        return int(value)


def in_words(number: int) -> str:
    """0 to 9,999 in words: 'one hundred and sixty-eight'.

    Raises
    ------
    InputError : outside that range.
    """
    if not 0 <= number < 10_000:
        raise InputError(f"{number} cannot be put into words here; give a number from 0 to 9999.")
    if number < 20:
        return _ONES[number]
    if number < 100:
        ten, one = divmod(number, 10)
        return _TENS[ten - 2] + (f"-{_ONES[one]}" if one else "")
    size, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    many, rest = divmod(number, size)
    joint = " and " if rest < 100 else " "
    return f"{in_words(many)} {name}" + (joint + in_words(rest) if rest else "")


def read_slots() -> dict[str, Slot]:
    slots = map(Slot.model_validate, read_yaml(data_path("duplexmpe", "slots.yaml"))["slots"])
    return {slot.id: slot for slot in slots}


def read_names() -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(group.split()) for group in read_yaml(data_path("duplexmpe", "names.yaml"))["groups"])


def vary(sources: Mapping[str, Scenario], count: int, seed: int) -> Iterator[Scenario]:
    """`count` different variations, the sources in turn; the same seed gives the same pairs.

    A source that allows no further variation is passed over.

    Raises
    ------
    InputError : no source allows another variation, or one breaks a rule.
    """
    slots, names = read_slots(), read_names()
    seen = {source.id: {(source.speakers, source.gold)} for source in sources.values()}
    left, made = list(sources.values()), 0
    place = 0
    while made < count:
        if not left:
            raise InputError(
                f"{len(sources)} scenarios allow {made} variations, and {count} are wanted; ask for fewer."
            )
        place += 1
        for source in list(left):
            if made == count:
                return
            variation = _another(source, place, seed, slots.get(source.id), names, seen[source.id])
            if variation is None:
                left.remove(source)
                continue
            made += 1
            yield variation


def _another(
    source: Scenario, place: int, seed: int, slot: Slot | None, names: Sequence[Sequence[str]], seen: set[tuple]
) -> Scenario | None:
    draw = random.Random(f"{seed} {source.id} {place}")
    for _ in range(_TRIES):
        made = _variation(source, f"{source.id}_v{place}", draw, slot, names)
        key = (made.speakers, made.gold)
        if key not in seen:
            faults = scenario_faults(made)
            if faults:
                raise InputError(f"{made.id}: {' '.join(faults)}")
            seen.add(key)
            return made
    return None


def _variation(
    source: Scenario, name: str, draw: random.Random, slot: Slot | None, groups: Sequence[Sequence[str]]
) -> Scenario:
    exchanged = _exchange(source, draw, groups)
    texts = dict(exchanged)
    gold, accept = source.gold, source.accept
    if slot is not None:
        number = draw.choice(slot.values)
        said, answer = in_words(number), in_words(slot.answer(number))
        texts |= {slot.said: said, _capital(slot.said): _capital(said)}
        values = {"N": _capital(said), "n": said, "answer": answer, "Answer": _capital(answer),
                  "digits": str(slot.answer(number))}  # fmt: skip
        gold = slot.gold.format(**values)
        accept = tuple(dict.fromkeys(form for text in slot.accept for form in _forms(text.format(**values))))
    return Scenario(
        id=name,
        attributes=source.attributes,
        speakers=tuple(exchanged.get(speaker, speaker) for speaker in source.speakers),
        people={exchanged.get(speaker, speaker): person for speaker, person in source.people.items()},
        bucket=source.bucket,
        gold=_replaced(gold, exchanged),
        accept=tuple(_replaced(text, exchanged) for text in accept),
        turns=tuple(_said(turn, exchanged.get(turn.speaker, turn.speaker), texts) for turn in source.turns),
        varied_from=source.source,
    )


def _said(turn: Turn, speaker: str, texts: Mapping[str, str]) -> Turn:
    wordings = {field: _replaced(words, texts) for field in WORDINGS if (words := getattr(turn, field)) is not None}
    return Turn(speaker=speaker, label=turn.label, **wordings)


def _exchange(source: Scenario, draw: random.Random, groups: Sequence[Sequence[str]]) -> dict[str, str]:
    """Speaker -> another name of the same group, with an initial that nobody else here has."""
    words = {word for turn in source.turns for field in WORDINGS
             for word in re.findall(r"[A-Z][a-z]+", getattr(turn, field) or "")}  # fmt: skip
    out: dict[str, str] = {}
    initials = {speaker[0] for speaker in source.speakers}
    for speaker in source.speakers:
        group = next((group for group in groups if speaker in group), None)
        free = [name for name in group or () if name not in words and name[0] not in initials]
        if free:
            out[speaker] = draw.choice(free)
            initials.add(out[speaker][0])
    return out


def _replaced(text: str, texts: Mapping[str, str]) -> str:
    if not texts:
        return text
    # All at once, so that a name that was put in is not taken for one to be exchanged; a number inside
    # a longer one (sixty in sixty-four) is another number.
    pattern = "|".join(re.escape(word) for word in sorted(texts, key=len, reverse=True))
    return re.sub(rf"(?<![\w-])(?:{pattern})(?![\w-])", lambda found: texts[found.group()], text)


def _forms(text: str) -> list[str]:
    """A phrasing with and without the 'and' and the hyphens of number words."""
    forms = [text, text.replace("hundred and ", "hundred ")]
    forms += [form.replace("one hundred", "a hundred") for form in forms]
    return forms + [form.replace("-", " ") for form in forms]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
