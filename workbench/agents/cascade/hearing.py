"""What the agent hears: the user's stream as speech, pauses and words, on the stream's own time.

Where speech begins and ends is Silero's model over ONNX: windows of 512 samples at 16 kHz (32 ms), each
preceded by the last 64 samples of the one before, with a state carried from window to window. The
model file is the one that the `silero-vad` package carries; the package itself is not imported, since
that would load torch. Words are pocketsphinx's, with its English model.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from workbench.audio import StreamResampler, from_pcm16, to_pcm16
from workbench.cases import RATE_HZ
from workbench.errors import InputError
from workbench.silero import RATE_HZ as MODEL_HZ
from workbench.silero import WINDOW_SAMPLES

WINDOW_S = WINDOW_SAMPLES / MODEL_HZ
_CONTEXT_SAMPLES = 64
PRE_ROLL_S = 0.4
"""What is kept of the time before speech is known to have started; the detector needs 0.1 to 0.15 s."""
TRAIL_S = 0.3
"""Silence after speech that is still decoded; the recogniser settles its last word there."""
CHUNK_PAUSE_S = 0.4
"""A pause this long divides what is said into chunks."""
_WORDS_EVERY = 5  # frames between two looks at the words while they come in

# One pass with narrow beams: about a tenth of real time, for the same words on clean speech as the
# full search at a quarter of it. The second passes would only run after the end of a turn.
_SEARCH = {"fwdflat": False, "bestpath": False, "ds": 2, "topn": 2, "maxhmmpf": 3000, "maxwpf": 5}

# A decoder takes 0.4 s to load and 90 MB, so those that are done are kept for the next stream.
_MOST_KEPT = 4
_kept: list = []
_keeping = threading.Lock()


@lru_cache(maxsize=1)
def _model():
    try:
        import onnxruntime
    except ImportError:
        raise InputError("Streaming voice activity needs onnxruntime; run: pip install onnxruntime") from None
    package = find_spec("silero_vad")
    if package is None:
        raise InputError("Streaming voice activity needs silero-vad's model; run: pip install silero-vad")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    path = Path(package.submodule_search_locations[0]) / "data" / "silero_vad.onnx"
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class SileroStream:
    """Speech probabilities of one stream; one instance a stream, since it carries the model's state."""

    def __init__(self) -> None:
        self._model = _model()
        self._state = np.zeros((2, 1, 128), np.float32)
        self._context = np.zeros(_CONTEXT_SAMPLES, np.float32)
        self._rest = np.zeros(0, np.float32)
        self._rate = np.array(MODEL_HZ, np.int64)

    def __call__(self, chunk: np.ndarray) -> list[float]:
        """Take float32 (samples,) at 16 kHz; give the probability of each window that it completes."""
        self._rest = np.concatenate([self._rest, chunk])
        found = []
        while self._rest.size >= WINDOW_SAMPLES:
            window, self._rest = self._rest[:WINDOW_SAMPLES], self._rest[WINDOW_SAMPLES:]
            inputs = {"input": np.concatenate([self._context, window])[None], "state": self._state, "sr": self._rate}
            probability, self._state = self._model.run(None, inputs)
            self._context = window[-_CONTEXT_SAMPLES:]
            found.append(float(probability[0, 0]))
        return found


@dataclass(frozen=True)
class Edge:
    """Speech that started or stopped at `at_s`, in seconds of the stream (known a little later)."""

    kind: Literal["start", "stop"]
    at_s: float


class Endpointer:
    """Turns probabilities into starts and stops.

    Parameters
    ----------
    threshold : a window at or above it is voiced; `onset_windows` of them in a row start speech.
    release_s : silence after which speech has stopped. Inside speech a window counts as voiced down
        to `threshold - 0.15`, as in Silero's own code.

    Attributes
    ----------
    talking : between a start and a stop.
    started_s : when the latest speech started, in seconds of the stream.
    voiced_until_s : end of the latest voiced window of speech; 0 before any.
    heard_s : seconds of the stream that were looked at.
    """

    def __init__(self, threshold: float = 0.5, release_s: float = 0.1, onset_windows: int = 3):
        self._stream = SileroStream()
        self._onset_windows = onset_windows
        self.configure(threshold, release_s)
        self._row = 0
        self.talking = False
        self.started_s = self.voiced_until_s = self.heard_s = 0.0

    def configure(self, threshold: float, release_s: float) -> None:
        """Change the settings from the next window on."""
        self._enter, self._exit = threshold, max(threshold - 0.15, 0.01)
        self._release_s = release_s

    def push(self, chunk: np.ndarray) -> list[Edge]:
        """Take float32 (samples,) at 16 kHz; give the edges that became known with it."""
        edges = []
        for probability in self._stream(chunk):
            self.heard_s += WINDOW_S
            if self.talking:
                if probability >= self._exit:
                    self.voiced_until_s = self.heard_s
                elif self.heard_s - self.voiced_until_s >= self._release_s - 1e-9:
                    self.talking, self._row = False, 0
                    edges.append(Edge("stop", self.voiced_until_s))
                continue
            self._row = self._row + 1 if probability >= self._enter else 0
            if self._row >= self._onset_windows:
                self.talking = True
                self.started_s = self.heard_s - self._row * WINDOW_S
                self.voiced_until_s = self.heard_s
                edges.append(Edge("start", self.started_s))
        return edges


class Recogniser:
    """One stream's recogniser, to be closed after it. `name` says what it is, for the record."""

    def __init__(self) -> None:
        try:
            from pocketsphinx import Decoder
        except ImportError:
            raise InputError("The cascade agent's recogniser is missing; run: pip install pocketsphinx") from None
        with _keeping:
            decoder = _kept.pop() if _kept else None
        self._decoder = decoder or Decoder(loglevel="FATAL", **_SEARCH)
        self._forget()
        self.name = f"pocketsphinx {metadata.version('pocketsphinx')} en-us"
        self._before: deque[np.ndarray] = deque()
        self._before_samples = 0
        self._open = False

    def _forget(self) -> None:
        """Bring the decoder, new or used, to one state, so that no case hears the one before.

        It adapts to its channel and carries the last codewords over. Half a second of the same noise
        leaves the same codewords behind; the rest is forgotten by itself.
        """
        noise = np.random.default_rng(0).normal(0, 1000, MODEL_HZ // 2).astype(np.int16)
        self._decoder.reinit_feat()
        self._decoder.start_utt()
        self._decoder.process_raw(noise.tobytes())
        self._decoder.end_utt()
        self._decoder.reinit_feat()

    def wait(self, chunk: np.ndarray) -> None:
        """Take sound outside speech (float32, 16 kHz): kept for `PRE_ROLL_S`, not decoded yet."""
        self._before.append(chunk)
        self._before_samples += chunk.size
        while self._before and self._before_samples - self._before[0].size >= PRE_ROLL_S * MODEL_HZ:
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
