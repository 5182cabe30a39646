"""Spoken input for agents that really listen, and driving an agent with it frame by frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from workbench.agents.base import AudioOut, Event, Interrupted, Note, Session, Text
from workbench.audio import to_pcm16
from workbench.cases import RATE_HZ
from workbench.construct.speech import SpeechCache

FRAME = 480


@lru_cache
def say(text: str, voice: str = "clear") -> np.ndarray:
    """Int16 (samples,) at 24 kHz."""
    return to_pcm16(SpeechCache().render(text, voice).samples)


def gap(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * RATE_HZ), np.int16)


def frames(*parts: np.ndarray) -> list[np.ndarray]:
    whole = np.concatenate(parts)
    return list(np.pad(whole, (0, -whole.size % FRAME)).reshape(-1, FRAME))


@dataclass
class Heard:
    """What an agent emitted: (time in seconds of the stream, event)."""

    events: list[tuple[float, Event]] = field(default_factory=list)

    def of(self, kind: type) -> list[tuple[float, Event]]:
        return [(t_s, event) for t_s, event in self.events if isinstance(event, kind)]

    def onsets(self) -> list[float]:
        """When each utterance was first heard, in order."""
        first: dict[str, float] = {}
        for t_s, event in self.of(AudioOut):
            first.setdefault(event.item, t_s)
        return list(first.values())

    def utterances(self) -> list[str]:
        texts: dict[str, str] = {}
        for _, event in self.of(Text):
            texts[event.item] = texts.get(event.item, "") + event.text
        return [text.strip() for text in texts.values()]

    def interruptions(self) -> list[float]:
        return [t_s for t_s, _ in self.of(Interrupted)]

    def notes(self, kind: str) -> list[dict]:
        return [event.data for _, event in self.of(Note) if event.kind == kind]


async def drive(agent, *parts: np.ndarray, prompt: str = "") -> Heard:
    """Open the agent, send it everything, close it."""
    heard, now_s = Heard(), [0.0]
    await agent.open(Session("case", prompt, lambda item: 0), lambda event: heard.events.append((now_s[0], event)))
    try:
        for count, frame in enumerate(frames(*parts), start=1):
            now_s[0] = count * 0.02
            await agent.send(frame)
    finally:
        await agent.close()
    return heard
