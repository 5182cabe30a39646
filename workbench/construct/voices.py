"""Voices: one small interface to any speech synthesiser, and a fixed choice of voices for those who speak.

An engine is found by a spec, `name` or `name?option=value&option=value`:

    hibari                                       needs no download and no key
    kokoro                                       26 people; `workbench voices get kokoro` once
    openai?model=gpt-4o-mini-tts                 any server that speaks OpenAI's audio/speech
    command?template=espeak-ng -v {voice} -w {out} {text}&voices=en-us,en-gb

A voice id is `engine:voice`, for example `hibari:low`, so that it names its speaker on its own in a
manifest. `say` also takes the part after the colon.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, Protocol, get_args
from urllib.parse import unquote

import numpy as np

from workbench.errors import InputError

Sex = Literal["female", "male"]
Age = Literal["under 18", "18 to 24", "25 to 34", "35 to 49", "50 to 64", "65 and over"]
_AGES: tuple[str, ...] = get_args(Age)


@dataclass(frozen=True)
class Person:
    """Who speaks, or whom a voice sounds like. None is not known, and fits everybody."""

    sex: Sex | None = None
    age: Age | None = None

    def distance(self, other: Person) -> int:
        """0 where a voice fits: of the same sex and of an age no further than the next band."""
        apart = 100 if self.sex and other.sex and self.sex != other.sex else 0
        return apart + (abs(_AGES.index(self.age) - _AGES.index(other.age)) // 2 if self.age and other.age else 0)


class Engine(Protocol):
    """A speech synthesiser.

    Attributes
    ----------
    name : short name, part of every cache key.
    voices : ids `name:voice`.
    people : whom each voice sounds like; voices that it lacks may be anybody's.
    """

    name: str
    voices: tuple[str, ...]
    people: Mapping[str, Person]

    def version(self) -> str:
        """Whatever changes the sound for the same text: package version, model, options."""

    def say(self, text: str, voice: str, *, attempt: int = 0) -> tuple[np.ndarray, int]:
        """Synthesise `text` in `voice`.

        `attempt` asks for another rendition of the same text (another seed, a slightly other
        tempo) where the engine can give one; the same attempt gives the same samples again, except
        from a hosted engine, which promises no such thing.

        Returns
        -------
        samples : float32, shape (samples,), in [-1, 1]; silence at the ends is left in.
        rate_hz : int

        Raises
        ------
        InputError : unknown voice, nothing to say, or the synthesiser failed.
        """


# Imported when asked for: an optional engine that is not installed costs nothing.
ENGINES = {
    "hibari": "workbench.construct.hibari:HibariEngine",
    "kokoro": "workbench.construct.kokoro:KokoroEngine",
    "openai": "workbench.construct.outside_engines:OpenAIEngine",
    "command": "workbench.construct.outside_engines:CommandEngine",
}


def load_engine(spec: str) -> Engine:
    """Make the engine that `spec` names (see the module's text for its form).

    Option values may be percent-encoded, which only `&` and `%` need; `+` stays `+`, since espeak
    has voices such as en-us+f3.

    Raises
    ------
    InputError : unknown engine, unknown or malformed option, or the engine is not installed.
    """
    name, _, query = spec.partition("?")
    if name not in ENGINES:
        raise InputError(f"There is no speech engine {name!r}; choose one of {', '.join(ENGINES)}.")
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        option, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"{part!r} in the speech engine {spec!r} is not option=value; write name?option=value.")
        options[option] = unquote(value)
    module, _, made = ENGINES[name].partition(":")
    engine = getattr(import_module(module), made)
    unknown = options.keys() - inspect.signature(engine).parameters.keys()
    if unknown:
        raise InputError(f"The speech engine {name!r} has no option {min(unknown)!r}; see its class's text.")
    return engine(**options)


def own_voice(engine: Engine, voice: str) -> str:
    """The part after the colon of one of `engine`'s voices, given with or without its prefix; else InputError."""
    full = voice if voice.startswith(f"{engine.name}:") else f"{engine.name}:{voice}"
    if full not in engine.voices:
        raise InputError(
            f"The speech engine {engine.name!r} has no voice {voice!r}; choose one of {', '.join(engine.voices)}."
        )
    return full.partition(":")[2]


def cast(key: str, people: Mapping[str, Person], engine: Engine | Recorded) -> dict[str, str]:
    """A voice for each speaker of one conversation, no two alike: always the same for the same key and engine.

    people : speaker -> who that is, in any order. Each gets the voice that fits best among those left; of
    several that fit alike, the one that the SHA-256 of key, speaker and voice puts first.

    Raises
    ------
    InputError : the engine has fewer voices than there are speakers.
    """
    if len(engine.voices) < len(people):
        raise InputError(
            f"{key} needs {len(people)} voices, and the speech engine {engine.name!r} has {len(engine.voices)}; "
            "take an engine with more."
        )

    def rank(speaker: str, voice: str) -> tuple[int, bytes]:
        distance = people[speaker].distance(engine.people.get(voice, Person()))
        return distance, hashlib.sha256(f"{key} {speaker} {voice}".encode()).digest()

    chosen: dict[str, str] = {}
    # Whoever may be anybody comes last, so that nobody is left without a voice of their sex.
    for speaker in sorted(people, key=lambda name: (people[name].sex is None, people[name].age is None)):
        chosen[speaker] = min(set(engine.voices) - set(chosen.values()), key=lambda voice: rank(speaker, voice))
    return {speaker: chosen[speaker] for speaker in people}


@dataclass(frozen=True)
class Recorded:
    """The engine that a dataset was built with, as its header names it: enough to cast voices again."""

    name: str
    voices: tuple[str, ...]
    people: Mapping[str, Person]

    @classmethod
    def of(cls, speech: Mapping) -> Recorded:
        from workbench.construct import hibari, kokoro

        people = hibari.HibariEngine.people | {f"kokoro:{voice}": who for voice, who in kokoro.PEOPLE.items()}
        return cls(str(speech.get("engine")), tuple(speech.get("voices", ())), people)


def engine_for(spec: str | None, *, full: bool) -> str:
    """The engine of a build: `spec` where given; else Kokoro for a full one where it is installed, else hibari."""
    if spec is not None:
        return spec
    if full:
        try:
            load_engine("kokoro")
            return "kokoro"
        except InputError:
            pass
    return "hibari"
