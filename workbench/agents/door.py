"""The door: whatever an agent gives is checked and copied here before anything else sees it.

An agent is foreign code. What it declares and emits becomes plain values of the right type, or a
sentence that says what is wrong (`Refused`); nothing that cannot be written to a record gets past.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args, get_type_hints

import numpy as np

from workbench.agents.base import AudioOut, Event, Fault, Interrupted, Note, Text, Traits, TurnEnd

RATES_HZ = (4_000, 192_000)
FULL_SCALE = 2.0
"""Float samples beyond this are no speech in [-1, 1] with some overshoot, but counted in another unit."""
_WORDS_MAX = 2_000
_DEPTH_MAX = 20


class Refused(ValueError):
    """What an agent gave cannot be used; the message says what and why."""


def words(fault: BaseException | object) -> str:
    """A fault in words that any file can hold, whatever its own `__str__` does."""
    try:
        text = str(fault)
    except Exception:
        text = "(no words)"
    if isinstance(fault, BaseException):
        name = type(fault).__name__
        text = f"{name}: {text}" if text else name
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= _WORDS_MAX else text[: _WORDS_MAX - 1] + "…"


def as_json(value: Any, what: str, depth: int = 0) -> Any:
    """A copy as JSON knows it: tuples become lists, numpy's numbers Python's, numbers that are none null."""
    if depth > _DEPTH_MAX:
        raise Refused(f"{what} is nested more than {_DEPTH_MAX} deep")
    match value:
        case None | bool():
            return value
        case str():
            return text(value, what)
        case np.ndarray():
            return as_json(value.tolist(), what, depth)
        case np.generic():
            return as_json(value.item(), what, depth)
        case numbers.Integral():
            return int(value)
        case numbers.Real():
            return float(value) if math.isfinite(value) else None
        case Mapping():
            return {str(as_json(key, what, depth + 1)): as_json(value[key], what, depth + 1) for key in value}
        case list() | tuple() | set() | frozenset():
            return [as_json(part, what, depth + 1) for part in value]
    raise Refused(f"{what} holds a {type(value).__name__}; give text, numbers, lists and mappings")


def text(value: Any, what: str) -> str:
    """A string that UTF-8 can hold."""
    if not isinstance(value, str):
        raise Refused(f"{what} must be a string, found {value!r:.80}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        found = value[error.start].encode("ascii", "backslashreplace").decode()
        where = f"{found} at {error.start}"
        raise Refused(f"{what} holds half of a surrogate pair ({where}), which is no character") from None
    return str(value)


def samples(value: Any) -> np.ndarray:
    """A copy of agent audio: int16 or float32, shape (samples,)."""
    if not (isinstance(value, np.ndarray) and value.ndim == 1):
        found = getattr(value, "shape", type(value).__name__)
        raise Refused(f"AudioOut.samples must be an array of shape (samples,), found {found}")
    if not value.dtype.isnative or not (value.dtype == np.int16 or value.dtype.kind == "f"):
        order = "" if value.dtype.isnative else " in the other byte order"
        raise Refused(
            f"AudioOut.samples must be int16, or floats in [-1, 1], found {value.dtype.name}{order}; convert it first"
        )
    if value.dtype == np.int16:
        return np.array(value)
    bad = ~np.isfinite(value)
    if bad.any():
        raise Refused(f"AudioOut.samples holds {value[bad][0]} at sample {int(np.argmax(bad))}")
    peak = float(np.max(np.abs(value), initial=0.0))
    if peak > FULL_SCALE:
        raise Refused(
            f"AudioOut.samples are floats up to {peak:g}, where full scale is 1; divide 16-bit samples by 32768"
        )
    return np.array(value, dtype=np.float32)


def rate(value: Any) -> int:
    """A whole number of Hz within `RATES_HZ`."""
    low, high = RATES_HZ
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not low <= value <= high:
        raise Refused(f"AudioOut.rate_hz must be a whole number of Hz from {low} to {high}, found {value!r:.80}")
    return int(value)


def event(given: Any) -> Event:
    """The event, checked and copied."""
    match given:
        case AudioOut():
            return AudioOut(samples(given.samples), text(given.item, "AudioOut.item"), rate(given.rate_hz))
        case Text():
            return Text(text(given.text, "Text.text"), text(given.item, "Text.item"))
        case Interrupted() | TurnEnd():
            name = type(given).__name__
            return type(given)(text(given.item, f"{name}.item"))
        case Note():
            data = as_json(given.data, "Note.data")
            if not isinstance(data, dict):
                raise Refused(f"Note.data must be a mapping, found {given.data!r:.80}")
            return Note(text(given.kind, "Note.kind"), data)
        case Fault():
            return Fault(words(given.kind), words(given.message), bool(given.retry))
    raise Refused(f"an agent emits AudioOut, Text, Interrupted, TurnEnd, Note or Fault, not {given!r:.80}")


def traits(found: Any) -> Traits:
    """An agent's traits, with settings as they come back from a file."""
    if not isinstance(found, Traits):
        raise Refused(f"The agent's `traits` must be workbench.agents.base.Traits, found {found!r:.80}")
    for name, hint in get_type_hints(Traits).items():
        value, known = getattr(found, name), get_args(hint)
        if name == "settings":
            continue
        if (known and value not in known) or (not known and not isinstance(value, hint)):
            wanted = " or ".join(repr(word) for word in known) or f"a {hint.__name__}"
            raise Refused(f"The agent's traits say {name}={value!r:.80}; {name} must be {wanted}")
    settings = as_json(found.settings, "Traits.settings")
    if not isinstance(settings, dict):
        raise Refused(f"The agent's traits say settings={found.settings!r:.80}; settings must be a mapping")
    return replace(found, name=text(found.name, "name"), version=text(found.version, "version"), settings=settings)
