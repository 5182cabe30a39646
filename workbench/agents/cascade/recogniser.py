"""Speech to words while it is being said: pocketsphinx with its English model.

A decoder takes 0.4 s to load and 90 MB, so those that are done are kept for the next stream. A decoder
used before would give slightly other words, since it adapts to its channel and carries the last codewords
over: `_as_new` brings every decoder, new or used, to one state, so that no case hears the one before.
"""

from __future__ import annotations

import threading
from collections import deque
from importlib import metadata

import numpy as np

from workbench.audio import to_pcm16
from workbench.errors import InputError

RATE_HZ = 16_000
PRE_ROLL_S = 0.4
"""What is kept of the time before speech is known to have started; the detector needs 0.1 to 0.15 s."""

# One pass with narrow beams: about a tenth of real time, for the same words on clean speech as the
# full search at a quarter of it. The second passes would only run after the end of a turn.
_SEARCH = {"fwdflat": False, "bestpath": False, "ds": 2, "topn": 2, "maxhmmpf": 3000, "maxwpf": 5}

_MOST_KEPT = 4
_kept: list = []
_keeping = threading.Lock()


def _take():
    try:
        from pocketsphinx import Decoder
    except ImportError:
        raise InputError("The cascade agent's recogniser is missing; run: pip install pocketsphinx") from None
    with _keeping:
        decoder = _kept.pop() if _kept else None
    return _as_new(decoder or Decoder(loglevel="FATAL", **_SEARCH))


def _as_new(decoder):
    # Half a second of the same noise leaves the same codewords behind; the rest is forgotten by itself.
    noise = np.random.default_rng(0).normal(0, 1000, RATE_HZ // 2).astype(np.int16)
    decoder.reinit_feat()
    decoder.start_utt()
    decoder.process_raw(noise.tobytes())
    decoder.end_utt()
    decoder.reinit_feat()
    return decoder


class Recogniser:
    """One stream's recogniser, to be closed after it. `name` says what it is, for the record."""

    def __init__(self) -> None:
        self._decoder = _take()
        self.name = f"pocketsphinx {metadata.version('pocketsphinx')} en-us"
        self._before: deque[np.ndarray] = deque()
        self._before_samples = 0
        self._open = False

    def wait(self, chunk: np.ndarray) -> None:
        """Take sound outside speech (float32, 16 kHz): kept for `PRE_ROLL_S`, not decoded yet."""
        self._before.append(chunk)
        self._before_samples += chunk.size
        while self._before and self._before_samples - self._before[0].size >= PRE_ROLL_S * RATE_HZ:
            self._before_samples -= self._before.popleft().size

    def feed(self, chunk: np.ndarray) -> None:
        """Decode sound (float32, 16 kHz), after whatever was waiting."""
        if not self._open:
            self._decoder.start_utt()
            self._open = True
        self._before.append(chunk)
        for part in self._before:
            if part.size:
                self._decoder.process_raw(to_pcm16(part).tobytes())
        self._before.clear()
        self._before_samples = 0

    def words(self) -> list[str]:
        """The words of this utterance so far, lower case; later sound may still change the last ones."""
        found = self._decoder.hyp() if self._open else None
        return found.hypstr.split() if found else []

    def next(self) -> None:
        """Forget the utterance; the next sound begins another."""
        if self._open:
            self._decoder.end_utt()
            self._open = False

    def close(self) -> None:
        """End the stream; the decoder is kept for another."""
        self.next()
        decoder, self._decoder = self._decoder, None
        with _keeping:
            if decoder is not None and len(_kept) < _MOST_KEPT:
                _kept.append(decoder)
