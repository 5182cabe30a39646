"""The agents by name. Adding one is a module and a line here."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from workbench.agents.base import Agent
from workbench.agents.door import words
from workbench.contract import Benchmark
from workbench.errors import InputError

Factory = Callable[[], Agent]


@dataclass(frozen=True)
class Entry:
    """One line of `workbench agents`: where the class is, and what it is.

    fixed : options that its name stands for. A class with an option `planner` gets the benchmark's `moves`.
    """

    target: str
    about: str
    pacing: str
    fixed: tuple[tuple[str, Any], ...] = ()


def _ours(target: str, pacing: str, about: str, **fixed: Any) -> Entry:
    return Entry(f"workbench.agents.{target}", about, pacing, tuple(fixed.items()))


AGENTS: dict[str, Entry] = {
    "oracle": _ours("scripted:MovesAgent", "input", "reference: does what the case expects", style="oracle"),
    "contrary": _ours(
        "scripted:MovesAgent", "input", "reference: does the opposite of what the case expects", style="contrary"
    ),
    "wavering": _ours(
        "scripted:WaveringAgent",
        "input",
        "reference: does what the case expects with a known probability, after a random delay",
    ),
    "silent": _ours("scripted:SilentAgent", "input", "reference: never makes a sound"),
    "babble": _ours("scripted:BabbleAgent", "input", "reference: always talking"),
    "echo": _ours("scripted:EchoAgent", "input", "reference: gives back what it hears"),
    "eager": _ours("scripted:EagerAgent", "input", "reference: answers at every pause"),
    "cascade": _ours(
        "cascade:CascadeAgent",
        "input",
        "local and full-duplex: voice detection, recognition, a brain (chat endpoint or rules) and speech",
    ),
    "openai-realtime": _ours(
        "openai:OpenAIRealtime", "wall", "OpenAI Realtime, and any server that speaks its protocol"
    ),
    "openai-live": _ours("openai:OpenAILive", "wall", "OpenAI Live: full-duplex, output without end"),
    "gemini-live": _ours("gemini_live:GeminiLive", "wall", "Gemini Live"),
    "moshi": _ours("moshi:Moshi", "wall", "a Moshi server over its WebSocket"),
    "personaplex": _ours("moshi:Moshi", "wall", "a PersonaPlex server", flavour="personaplex"),
    "flm-audio": _ours("moshi:Moshi", "wall", "an FLM-Audio server", flavour="flm-audio"),
    "moshi-local": _ours("moshi:MoshiLocal", "input", "Moshi in this process, frame by frame"),
    "twilio": _ours("twilio:Twilio", "wall", "a telephone agent: the workbench plays Twilio Media Streams"),
    "turn-based": _ours("turn_based:TurnBased", "wall", "answers whole turns: an HTTP endpoint or a Python callable"),
}


def factory(name: str, options: Mapping[str, Any] | None = None, benchmark: Benchmark | None = None) -> Factory:
    """A function that makes a fresh agent for each case; it can be pickled for worker processes.

    name : an agent's name, or 'python:module:Class' for a user's own class.
    options : keyword arguments for the class, from `--set name=value`.
    benchmark : whose `moves` reference agents carry out, and whose own agents there are.

    Raises
    ------
    InputError : unknown agent, a module or option that does not exist, or one that is missing.
    """
    options, foreign = dict(options or {}), name.startswith("python:")
    entries = AGENTS | (dict(benchmark.agents) if benchmark else {})
    if foreign:
        entries[name] = Entry(name.removeprefix("python:"), "your own class", "")
    elif name not in entries:
        raise InputError(f"There is no agent {name!r}; agents are {', '.join(entries)}, or python:module:Class.")
    module_name, _, class_name = entries[name].target.partition(":")
    if foreign and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does; a console script does not
    try:
        made = getattr(import_module(module_name), class_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's module may do anything, sys.exit included
        raise InputError(
            f"The agent {name!r} cannot be loaded: {words(error)}. Give python:module:Class with a module that can be "
            "imported from the current folder."
        ) from None
    keywords = dict(entries[name].fixed)
    try:
        parameters = inspect.signature(made).parameters
    except (TypeError, ValueError):
        return partial(made, **keywords, **options)
    if "planner" in parameters and not foreign:
        keywords["planner"] = benchmark.moves if benchmark else None
    known = {
        p.name: p
        for p in parameters.values()
        if p.name not in keywords and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    unknown = [option for option in options if option not in known]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        listed = ", ".join(known) or "none"
        raise InputError(f"The agent {name!r} has no option {unknown[0]!r}; its options: {listed}.")
    missing = [option for option, p in known.items() if p.default is p.empty and option not in options]
    if missing:
        raise InputError(f"The agent {name!r} needs the option {missing[0]!r}; give it with --set {missing[0]}=VALUE.")
    return partial(made, **keywords, **options)
