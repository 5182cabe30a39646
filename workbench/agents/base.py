"""What an agent is: a voice system behind open, send, close, with events out through one callback.

Frames go in at 24 kHz, int16, shape (480,), one every 20 ms of session time; an adapter resamples
for its system with `workbench.audio.StreamResampler`. Events come out through `emit`, at any time
for agents paced by the wall clock, during `send` for agents paced by their input.

`emit` may be called from any thread and never raises. What it is given is copied before it returns, and
must be what the fields say (`workbench.agents.door`); anything else fails the case, in words. So does
whatever an agent raises, in its calls or in tasks that it started, and a call that does not come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from workbench.cases import Case

FRAME_SAMPLES = 480
FRAME_S = 0.020


@dataclass(frozen=True)
class Traits:
    """What the runner must know of an agent before it opens it.

    pacing : 'wall' (a server that lives in real time) or 'input' (advances only by what it is sent,
        so a virtual clock may run it as fast as the CPU allows).
    turns : 'events' (emits TurnEnd), 'continuous' (frame-synchronous output, no turns), 'batch'
        (answers after a whole user turn).
    placement : 'arrival' (bursty transports: a chunk starts at its arrival or after the one before)
        or 'sample_clock' (output counted in samples from the first chunk's arrival).
    text : whether the agent gives a transcript of what it says.
    privileged : whether it is told the case and its cues (reference agents; said in every record).
    """

    name: str
    version: str
    pacing: Literal["wall", "input"]
    turns: Literal["events", "continuous", "batch"] = "events"
    placement: Literal["arrival", "sample_clock"] = "arrival"
    text: bool = True
    privileged: bool = False
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AudioOut:
    """Agent speech: int16, or floats in [-1, 1], shape (samples,), at `rate_hz`; `item` names the utterance."""

    samples: np.ndarray
    item: str = ""
    rate_hz: int = 24_000


@dataclass(frozen=True)
class Text:
    """A piece of the agent's transcript, in order; pieces are joined without a separator."""

    text: str
    item: str = ""


@dataclass(frozen=True)
class Interrupted:
    """The agent (or its server) gave up what it was saying; unplayed audio is dropped as played.

    item : the utterance that was cut; '' cuts whatever is playing.
    """

    item: str = ""


@dataclass(frozen=True)
class TurnEnd:
    """The agent has delivered all of its turn."""

    item: str = ""


@dataclass(frozen=True)
class Note:
    """Anything else worth logging: a server event, a latency, a reported version."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """The session cannot go on; the case becomes an error with this reason (`retry` as in AgentError)."""

    kind: str
    message: str
    retry: bool = False


Event = AudioOut | Text | Interrupted | TurnEnd | Note | Fault
Emit = Callable[[Event], None]


@dataclass(frozen=True)
class Session:
    """What an agent is given when a case opens.

    played_samples(item) : samples at 24 kHz of that utterance that have been played by now, for
        truncation after a barge-in. `case` is None unless the agent is privileged.
    """

    case_id: str
    system_prompt: str
    played_samples: Callable[[str], int]
    case: Case | None = None


class Agent(Protocol):
    """A voice system. One instance serves one case and is then closed: no state survives a case.

    An agent may also have `async def cue(self, cue_id: str, phase: Literal['start', 'end'])`: it is
    told of cues when it is privileged (reference agents) or works in whole turns ('batch').
    """

    traits: Traits

    async def open(self, session: Session, emit: Emit) -> None:
        """Connect and apply the system prompt; return when audio may flow.

        Raises
        ------
        AgentError : the session could not be opened; the case is recorded as an error.
        """

    async def send(self, frame: np.ndarray) -> None:
        """Take one frame of user audio: int16, shape (480,), 24 kHz, the agent's own to keep or change."""

    async def close(self) -> None:
        """End the session, within 10 s; called exactly once, also after faults."""


class AgentError(Exception):
    """An agent's fault with a kind (for counting) and a message (for people).

    retry : whether trying the case again may help (a dropped connection, a full server), or not
        (a refused key, a rejected setting).
    """

    def __init__(self, kind: str, message: str, *, retry: bool = False):
        super().__init__(message)
        self.kind, self.message, self.retry = kind, message, retry
