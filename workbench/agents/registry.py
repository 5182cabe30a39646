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
    """One line of `workbench agents`: where the class is, and what it is."""

    target: str
    about: str
    pacing: str
    fixed: tuple[tuple[str, Any], ...] = ()
    needs_plan: bool = False


AGENTS: dict[str, Entry] = {
    "oracle": Entry(
        "workbench.agents.scripted:MovesAgent",
        "reference: does what the case expects",
        "input",
        (("style", "oracle"),),
        needs_plan=True,
    ),
    "contrary": Entry(
        "workbench.agents.scripted:MovesAgent",
        "reference: does the opposite of what the case expects",
        "input",
        (("style", "contrary"),),
        needs_plan=True,
    ),
    "wavering": Entry(
        "workbench.agents.scripted:WaveringAgent",
        "reference: does what the case expects with a known probability, after a random delay",
        "input",
        needs_plan=True,
    ),
    "silent": Entry("workbench.agents.scripted:SilentAgent", "reference: never makes a sound", "input"),
    "babble": Entry("workbench.agents.scripted:BabbleAgent", "reference: always talking", "input"),
    "echo": Entry("workbench.agents.scripted:EchoAgent", "reference: gives back what it hears", "input"),
    "eager": Entry("workbench.agents.scripted:EagerAgent", "reference: answers at every pause", "input"),
    "cascade": Entry(
        "workbench.agents.cascade:CascadeAgent",
        "local and full-duplex: voice detection, recognition, a brain (chat endpoint or rules) and speech",
        "input",
    ),
    "openai-realtime": Entry(
        "workbench.agents.openai:OpenAIRealtime",
        "OpenAI Realtime, and any server that speaks its protocol",
        "wall",
    ),
    "openai-live": Entry("workbench.agents.openai:OpenAILive", "OpenAI Live: full-duplex, output without end", "wall"),
    "gemini-live": Entry("workbench.agents.gemini_live:GeminiLive", "Gemini Live", "wall"),
    "moshi": Entry("workbench.agents.moshi:Moshi", "a Moshi server over its WebSocket", "wall"),
    "personaplex": Entry("workbench.agents.moshi:Moshi", "a PersonaPlex server", "wall", (("flavour", "personaplex"),)),
    "flm-audio": Entry("workbench.agents.moshi:Moshi", "an FLM-Audio server", "wall", (("flavour", "flm-audio"),)),
    "moshi-local": Entry("workbench.agents.moshi:MoshiLocal", "Moshi in this process, frame by frame", "input"),
    "twilio": Entry(
        "workbench.agents.twilio:Twilio", "a telephone agent: the workbench plays Twilio Media Streams", "wall"
    ),
    "turn-based": Entry(
        "workbench.agents.turn_based:TurnBased", "answers whole turns: an HTTP endpoint or a Python callable", "wall"
    ),
}


def entries(benchmark: Benchmark | None = None) -> dict[str, Entry]:
    """Every agent by name, with a benchmark's own."""
    return AGENTS | (dict(benchmark.agents) if benchmark else {})


def factory(name: str, options: Mapping[str, Any] | None = None, benchmark: Benchmark | None = None) -> Factory:
    """A function that makes a fresh agent for each case; it can be pickled for worker processes.

    name : an agent's name, or 'python:module:Class' for a user's own class.
    options : keyword arguments for the class, from `--set name=value`.
    benchmark : whose `moves` reference agents carry out, and whose own agents there are.

    Raises
    ------
    InputError : unknown agent, a module or option that does not exist, or one that is missing.
    """
    options = dict(options or {})
    if name.startswith("python:"):
        entry = Entry(name.removeprefix("python:"), "your own class", "")
    elif name in entries(benchmark):
        entry = entries(benchmark)[name]
    else:
        known = ", ".join(entries(benchmark))
        raise InputError(f"There is no agent {name!r}; agents are {known}, or python:module:Class.")
    module_name, _, class_name = entry.target.partition(":")
    if name.startswith("python:") and os.getcwd() not in sys.path:
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
    keywords = dict(entry.fixed)
    if entry.needs_plan:
        keywords["planner"] = benchmark.moves if benchmark else None
    _check_options(name, made, keywords, options)
    return partial(made, **keywords, **options)


def _check_options(name: str, made: Callable, fixed: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    try:
        parameters = inspect.signature(made).parameters
    except (TypeError, ValueError):
        return
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    known = [p for p in parameters if p not in fixed and parameters[p].kind not in (2, 4)]
    unknown = [option for option in options if option not in known]
    if unknown and not open_ended:
        listed = ", ".join(known) or "none"
        raise InputError(f"The agent {name!r} has no option {unknown[0]!r}; its options: {listed}.")
    missing = [
        p for p in known if parameters[p].default is inspect.Parameter.empty and p not in options and p != "self"
    ]
    if missing:
        raise InputError(f"The agent {name!r} needs the option {missing[0]!r}; give it with --set {missing[0]}=VALUE.")
