"""The agent's voice: sentences rendered one ahead, delivered on the stream's time, cut when told to.

Time is counted in samples of the user's stream. An utterance begins to play with the frame in which
its first sample is delivered; `lead_s` is how far delivery runs ahead of playing: 0 gives 20 ms each
frame, more gives bursts as hosted services send them.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

import numpy as np

from workbench.agents.base import FRAME_SAMPLES, AgentError, AudioOut, Emit, Interrupted, Note, Text, TurnEnd
from workbench.audio import to_pcm16
from workbench.cases import RATE_HZ
from workbench.construct.speech import SpeechCache
from workbench.errors import InputError

GAP_S = 0.12
"""Silence between two sentences of one utterance."""
_BURST_SAMPLES = RATE_HZ // 10
_rendering = threading.Lock()  # the synthesiser is shared by all sessions of the process


@dataclass(frozen=True)
class _Word:
    text: str
    at: int  # sample of the utterance at which it is said, by its share of the sentence


class Speaker:
    """Says one utterance at a time.

    Attributes
    ----------
    saying : the kind of the utterance that is playing ('' when none is).
    started : position, in samples of the stream, at which it began to play.
    delivered : whether all of it has been delivered.
    """

    def __init__(self, emit: Emit, cache: SpeechCache, voice: str, lead_s: float):
        self._emit, self._cache, self._voice = emit, cache, voice
        self._lead = round(lead_s * RATE_HZ)
        self._count = 0
        self.saying = ""
        self.started = 0
        self.delivered = True
        self._waiting: list[str] = []
        self._next: asyncio.Task | None = None

    @property
    def item(self) -> str:
        return f"utterance_{self._count}"

    async def render(self, text: str) -> np.ndarray:
        """Int16 (samples,) at 24 kHz, read-only. Raises AgentError when the voice cannot say it."""
        try:
            return await asyncio.to_thread(self._render, text)
        except InputError as error:
            raise AgentError("speech_failed", str(error)) from None

    def _render(self, text: str) -> np.ndarray:
        with _rendering:
            return to_pcm16(self._cache.render(text, self._voice).samples)

    def begin(self, kind: str, pieces: list[str], first: np.ndarray, position: int) -> None:
        """Start saying `pieces` (sentences), of which `first` is rendered already, at `position`."""
        self._count += 1
        self.saying, self.started = kind, position
        self._samples = np.zeros(0, np.int16)
        self._words: list[_Word] = []
        self._sent = self._told = 0
        self.delivered = False
        self._append(pieces[0], first)
        self._waiting = list(pieces[1:])
        self._prefetch()

    def _append(self, sentence: str, samples: np.ndarray) -> None:
        gap = round(GAP_S * RATE_HZ) if self._samples.size else 0
        begin, length, said = self._samples.size + gap, max(1, len(sentence)), 0
        for word in sentence.split():
            self._words.append(_Word(word + " ", begin + round(samples.size * said / length)))
            said += len(word) + 1
        self._samples = np.concatenate([self._samples, np.zeros(gap, np.int16), samples])

    def _prefetch(self) -> None:
        self._next = asyncio.ensure_future(self.render(self._waiting[0])) if self._waiting else None

    async def frame(self, position: int) -> None:
        """Deliver what is due at `position` (the end of the latest frame of the stream)."""
        if not self.saying:
            return
        due = position - self.started + FRAME_SAMPLES + self._lead
        while self._next is not None and due > self._samples.size:
            rendered = await self._next
            self._append(self._waiting.pop(0), rendered)
            self._prefetch()
        while self._sent < min(due, self._samples.size):
            size = min(_BURST_SAMPLES if self._lead else FRAME_SAMPLES, due - self._sent)
            part = self._samples[self._sent : self._sent + size]
            self._sent += part.size
            self._tell()
            self._emit(AudioOut(part, self.item))
        if not self.delivered and self._next is None and self._sent >= self._samples.size:
            self.delivered = True
            # A backchannel is no turn: whoever waits for the agent's turn must go on waiting.
            self._emit(
                Note("utterance_end", {"item": self.item}) if self.saying == "backchannel" else TurnEnd(self.item)
            )
        if self.delivered and position - self.started >= self._samples.size:
            self.saying = ""

    def _tell(self) -> None:
        while self._told < len(self._words) and self._words[self._told].at < self._sent:
            self._emit(Text(self._words[self._told].text, self.item))
            self._told += 1

    def said(self, position: int) -> str:
        """The words that have begun to play by `position`."""
        played = position - self.started
        return "".join(word.text for word in self._words if word.at < played).strip()

    async def stop(self, position: int) -> str:
        """Fall silent at once; give the words that were heard of the utterance."""
        self._emit(Interrupted(self.item))
        self.saying = ""
        await self.close()
        return self.said(position)

    async def close(self) -> None:
        self._waiting = []
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
            self._next = None
