"""Voices: one small interface to any speech synthesiser, and a fixed choice of speaker for a key.

An engine is found by a spec, `name` or `name?option=value&option=value`:

    hibari                                       the default, needs no download and no key
    kokoro?folder=/models/kokoro                 more voices, an optional extra
    openai?model=gpt-4o-mini-tts                 any server that speaks OpenAI's audio/speech
    command?template=espeak-ng -v {voice} -w {out} {text}&voices=en-us,en-gb

A voice id is `engine:voice`, for example `hibari:low`, so that it names its speaker on its own in a
manifest. `say` also takes the part after the colon.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import unquote

import numpy as np

from workbench.errors import InputError


class Engine(Protocol):
    """A speech synthesiser.

    Attributes
    ----------
    name : short name, part of every cache key.
    voices : ids `name:voice`, in a fixed order (the order decides who `speaker_for` picks).
    """

    name: str
    voices: tuple[str, ...]

    def version(self) -> str:
        """Whatever changes the sound for the same text: package version, model, options."""
        ...

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
        ...


def hibari_engine(**options: str) -> Engine:
    from workbench.construct.engines.hibari import HibariEngine

    return HibariEngine(**options)


def kokoro_engine(**options: str) -> Engine:
    from workbench.construct.engines.kokoro import KokoroEngine

    return KokoroEngine(**options)


def openai_engine(**options: str) -> Engine:
    from workbench.construct.engines.openai import OpenAIEngine

    return OpenAIEngine(**options)


def command_engine(**options: str) -> Engine:
    from workbench.construct.engines.command import CommandEngine

    return CommandEngine(**options)


# Factories import their engine when called: an optional engine that is not installed costs nothing.
ENGINES: dict[str, Callable[..., Engine]] = {
    "hibari": hibari_engine,
    "kokoro": kokoro_engine,
    "openai": openai_engine,
    "command": command_engine,
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
    try:
        return ENGINES[name](**options)
    except TypeError as error:
        # Only a wrong option name, which Python itself words well enough, ends here.
        if "unexpected keyword argument" not in str(error):
            raise
        unknown = str(error).rpartition("argument")[2].strip()
        raise InputError(f"The speech engine {name!r} has no option {unknown}; see its module's text.") from None


def own_voice(engine: Engine, voice: str) -> str:
    """The part after the colon of one of `engine`'s voices, given with or without its prefix.

    Raises
    ------
    InputError : the engine has no such voice; the message lists those it has.
    """
    full = voice if voice.startswith(f"{engine.name}:") else f"{engine.name}:{voice}"
    if full not in engine.voices:
        raise InputError(
            f"The speech engine {engine.name!r} has no voice {voice!r}; choose one of {', '.join(engine.voices)}."
        )
    return full.partition(":")[2]


def speaker_for(key: str, voices: Sequence[str]) -> str:
    """The voice for `key`, always the same one: SHA-256 of the key modulo the number of voices.

    Raises
    ------
    InputError : `voices` is empty.
    """
    if not voices:
        raise InputError(f"There is no voice to choose from for {key!r}; give at least one.")
    digest = hashlib.sha256(key.encode("utf-8")).digest()
    return voices[int.from_bytes(digest[:8], "big") % len(voices)]
