"""What the agent hears: the user's stream as speech, pauses and words, on the stream's own time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from workbench.agents.cascade.endpointing import Edge, Endpointer
from workbench.agents.cascade.recogniser import Recogniser
from workbench.audio import StreamResampler, from_pcm16
from workbench.cases import RATE_HZ
from workbench.silero import RATE_HZ as MODEL_HZ

TRAIL_S = 0.3
"""Silence after speech that is still decoded; the recogniser settles its last word there."""
CHUNK_PAUSE_S = 0.4
"""A pause this long divides what is said into chunks."""
_WORDS_EVERY = 5  # frames between two looks at the words while they come in


class Ears:
    """Follows one stream of 24 kHz frames.

    Attributes
    ----------
    words : words of the user's turn so far (a turn lasts until `next_turn`).
    chunks : number of words in each stretch between pauses of `CHUNK_PAUSE_S`, the last one open.
    heard : whether there was any speech in this turn.
    """

    def __init__(self, recogniser: Recogniser):
        self._recogniser = recogniser
        self._resample = StreamResampler(RATE_HZ, MODEL_HZ)
        self._endpointer = Endpointer()
        self._frames = 0
        self._divided = False
        self._fresh = False
        self.words: list[str] = []
        self._boundaries: list[int] = []
        self.heard = False

    @property
    def talking(self) -> bool:
        return self._endpointer.talking

    @property
    def started_s(self) -> float:
        """When the latest stretch of speech began."""
        return self._endpointer.started_s

    def silence_s(self, now_s: float) -> float:
        """How long the user has been silent; 0 while talking."""
        return 0.0 if self.talking else now_s - self._endpointer.voiced_until_s

    @property
    def chunks(self) -> list[int]:
        marks = [0, *self._boundaries, len(self.words)]
        return [max(0, after - before) for before, after in pairwise(marks)]

    def push(self, frame: np.ndarray, now_s: float) -> list[Edge]:
        """Take int16 (480,) at 24 kHz ending at `now_s`; give the edges that became known with it."""
        chunk = self._resample(from_pcm16(frame))
        edges = self._endpointer.push(chunk)
        self.heard = self.heard or self.talking
        in_reach = self.heard and (self.talking or self.silence_s(now_s) <= TRAIL_S)
        if in_reach:
            self._recogniser.feed(chunk)
            self._fresh = True
        else:
            self._recogniser.wait(chunk)
        self._frames += 1
        if self._fresh and (self._frames % _WORDS_EVERY == 0 or not in_reach):
            self.words = self._recogniser.words()
            self._fresh = in_reach
        self._divide(now_s)
        return edges

    def _divide(self, now_s: float) -> None:
        if self.talking:
            self._divided = False
        elif self.heard and not self._divided and self.silence_s(now_s) >= CHUNK_PAUSE_S:
            self._boundaries.append(len(self.words))
            self._divided = True

    def latest_words(self) -> list[str]:
        """The words up to the latest frame, not only up to the last look."""
        self.words = self._recogniser.words()
        return list(self.words)

    def next_turn(self) -> None:
        """Begin a new turn: words, chunks and speech heard so far are forgotten."""
        self._recogniser.next()
        self.words, self._boundaries = [], []
        self.heard = self.talking
        self._fresh, self._divided = False, False
