"""Where the user's speech begins and ends, found while it streams in: Silero's model over ONNX.

The model sees windows of 512 samples at 16 kHz (32 ms), each preceded by the last 64 samples of the
one before, and carries its state from window to window; chunks of any size are re-buffered here.
The model file is the one that the `silero-vad` package carries; the package itself is not imported,
since that would load torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np

from workbench.errors import InputError
from workbench.silero import RATE_HZ, WINDOW_SAMPLES

WINDOW_S = WINDOW_SAMPLES / RATE_HZ
_CONTEXT_SAMPLES = 64


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
        self._rate = np.array(RATE_HZ, np.int64)

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
