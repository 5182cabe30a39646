"""Voice activity: where a channel holds speech, as Spans.

Two detectors sit behind the same `detect`: Silero (default), whose spans equal the library's own
`get_speech_timestamps` to the sample, and an energy gate as a second opinion, so that a table can
show how much a result depends on the detector. Audio is resampled to 16 kHz with a proper filter
first; the library itself would drop samples, which folds high frequencies into speech.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import product
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from workbench import audio, silero
from workbench.errors import InputError
from workbench.parallel import cores
from workbench.silero import RATE_HZ, WINDOW_SAMPLES
from workbench.spans import LEAST_SPEECH_S, clip

Channel = tuple[str, np.ndarray, int]
"""Name, samples (float, shape (samples,), in [-1, 1]), rate in Hz."""

_ENERGY_VERSION = 1
_FRAME_SAMPLES = RATE_HZ // 100  # the energy gate looks at 10 ms frames
_SAMPLES_PER_MS = RATE_HZ // 1000


class VadSettings(BaseModel):
    """How speech is found. All else is as the library has it.

    `threshold` opens a silero span; it closes below `exit_threshold` for `min_silence_ms`. The
    threshold may not go under 0.02, since the library's exit threshold is never under 0.01.
    The energy gate opens at the channel's noise level (10th percentile of its 10 ms frames) plus
    `energy_above_noise_db`, but never under `energy_floor_dbfs`, so digital silence stays silent,
    and never less than `energy_below_speech_db` under the channel's speech level (95th percentile),
    so an agent that talks all the time is not taken for noise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    detector: Literal["silero", "energy"] = "silero"
    threshold: float = Field(default=0.5, ge=0.02, lt=1)
    min_speech_ms: int = Field(default=round(1000 * LEAST_SPEECH_S), ge=0)
    min_silence_ms: int = Field(default=90, ge=0)
    speech_pad_ms: int = Field(default=30, ge=0)
    energy_floor_dbfs: float = Field(default=-60.0, le=0, allow_inf_nan=False)
    energy_above_noise_db: float = Field(default=12.0, ge=0, allow_inf_nan=False)
    energy_below_speech_db: float = Field(default=15.0, ge=0, allow_inf_nan=False)

    @property
    def exit_threshold(self) -> float:
        """Below this a window counts as silence; the library's default, never negative."""
        return max(self.threshold - 0.15, 0.01)

    def key(self) -> str:
        """16 hex digits that change with any setting and with the detector's version."""
        detector = version("silero-vad") if self.detector == "silero" else _ENERGY_VERSION
        content = json.dumps({**self.model_dump(), "version": detector}, sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def detect(
    channels: Iterable[Channel], settings: VadSettings | None = None, workers: int | None = None
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (name, Spans) for each channel, in their order.

    `channels` is read as results are taken: at most four channels a worker are held, so a corpus of
    any size fits. Channels run in `workers` threads (default: the CPUs this process may use).

    Raises
    ------
    InputError : when a channel's turn comes, if it is not one-dimensional, not float, holds NaN or
        infinite samples, or has no sensible rate; the sentence names the channel.
    """
    settings = settings or VadSettings()

    def work(channel: Channel) -> tuple[str, np.ndarray]:
        name, samples, rate_hz = channel
        at_16k = _prepare(name, samples, rate_hz)
        found = _energy(at_16k, settings) if settings.detector == "energy" else _silero(at_16k, settings)
        # Resampling may round the length up by part of a sample; no span outlasts its channel.
        return name, clip(found, 0.0, len(samples) / rate_hz)

    return _in_order(work, channels, workers)


def speech_probabilities(
    channels: Iterable[Channel], workers: int | None = None
) -> Iterator[tuple[str, np.ndarray, int]]:
    """Yield (name, probabilities float32 of shape (windows,), samples at 16 kHz) for each channel.

    One inference serves many thresholds: give the result to `spans_from_probabilities`. They differ from
    the official ones by rounding, at most 1.8e-4 as far as seen; `detect` asks the official model where a
    probability lies within `silero.ROUNDING` of a level and a span hangs on it. Streams, threads and errors
    are as in `detect`.
    """

    def work(channel: Channel) -> tuple[str, np.ndarray, int]:
        at_16k = _prepare(*channel)
        return channel[0], silero.window_probabilities(at_16k), len(at_16k)

    return _in_order(work, channels, workers)


def spans_from_probabilities(probabilities: np.ndarray, n_samples: int, settings: VadSettings) -> np.ndarray:
    """Spans from the probabilities of 512-sample windows, as the library's loop finds them.

    Parameters
    ----------
    probabilities : shape (windows,), one for each window of a channel.
    n_samples : length of that channel at 16 kHz.

    Raises
    ------
    InputError : the number of probabilities does not fit the length.
    """
    values = np.asarray(probabilities, dtype=np.float64)
    windows = -(-n_samples // WINDOW_SAMPLES)
    if values.shape != (windows,):
        raise InputError(
            f"{values.shape} probabilities were given for {n_samples} samples, which make {windows} windows of "
            f"{WINDOW_SAMPLES}; give one probability a window of the same 16 kHz channel."
        )
    loud = np.flatnonzero(values >= settings.threshold)
    if len(loud) == 0:
        return np.empty((0, 2))
    # Between one loud window and the next, a span ends at the first quiet window if a quiet one
    # min_silence later is still in between. Windows between the thresholds decide nothing.
    quiet = np.append(np.flatnonzero(values < settings.exit_threshold), windows)
    first = np.searchsorted(quiet, loud)
    last = np.searchsorted(quiet[:-1], np.append(loud[1:], windows)) - 1
    silence = (quiet[last] - quiet[first]) * WINDOW_SAMPLES
    closed = (first <= last) & (silence >= settings.min_silence_ms * _SAMPLES_PER_MS)

    starts = loud[np.append(True, closed[:-1])] * WINDOW_SAMPLES
    ends = quiet[first[closed]] * WINDOW_SAMPLES
    if not closed[-1]:
        ends = np.append(ends, n_samples)
    long_enough = ends - starts > settings.min_speech_ms * _SAMPLES_PER_MS
    return _pad(starts[long_enough], ends[long_enough], n_samples, settings)


def _silero(at_16k: np.ndarray, settings: VadSettings) -> np.ndarray:
    found = silero.window_probabilities(at_16k)
    doubtful = silero.doubtful_windows(found, (settings.threshold, settings.exit_threshold))
    if len(doubtful) and not _same_either_way(found, doubtful, len(at_16k), settings):
        found = silero.settle(at_16k, found, doubtful)
    return spans_from_probabilities(found, len(at_16k), settings)


def _same_either_way(found: np.ndarray, doubtful: np.ndarray, n_samples: int, settings: VadSettings) -> bool:
    """Whether the spans stay as they are on whichever side of their level the doubtful windows fall."""
    if len(doubtful) > 4:
        return False  # too many combinations; asking the official model is as quick
    seen = set()
    for sides in product((-silero.ROUNDING, silero.ROUNDING), repeat=len(doubtful)):
        moved = found.astype(np.float64)
        moved[doubtful] += sides
        seen.add(spans_from_probabilities(moved, n_samples, settings).tobytes())
    return len(seen) == 1


def _energy(at_16k: np.ndarray, settings: VadSettings) -> np.ndarray:
    """Spans from a level gate with hangover (min_silence_ms); see VadSettings for the gate."""
    if len(at_16k) == 0:
        return np.empty((0, 2))
    edges = np.arange(0, len(at_16k), _FRAME_SAMPLES)
    sizes = np.diff(np.append(edges, len(at_16k)))  # the last frame may be short
    power = np.add.reduceat(np.square(at_16k, dtype=np.float64), edges) / sizes
    level_db = 10 * np.log10(np.maximum(power, 1e-20))
    noise_db, speech_db = np.percentile(level_db, [10, 95])
    gate_db = min(noise_db + settings.energy_above_noise_db, speech_db - settings.energy_below_speech_db)
    loud = np.flatnonzero(level_db >= max(gate_db, settings.energy_floor_dbfs))
    if len(loud) == 0:
        return np.empty((0, 2))
    starts = loud * _FRAME_SAMPLES
    ends = np.minimum(starts + _FRAME_SAMPLES, len(at_16k))
    apart = starts[1:] - ends[:-1] >= max(settings.min_silence_ms * _SAMPLES_PER_MS, 1)
    starts, ends = starts[np.append(True, apart)], ends[np.append(apart, True)]
    long_enough = ends - starts > settings.min_speech_ms * _SAMPLES_PER_MS
    return _pad(starts[long_enough], ends[long_enough], len(at_16k), settings)


def _pad(starts: np.ndarray, ends: np.ndarray, n_samples: int, settings: VadSettings) -> np.ndarray:
    """Widen spans (in samples) by the padding, at most to the middle of a gap; the result in seconds."""
    if len(starts) == 0:
        return np.empty((0, 2))
    pad = settings.speech_pad_ms * _SAMPLES_PER_MS
    room = np.minimum((starts[1:] - ends[:-1]) // 2, pad)
    starts = np.append(max(0, starts[0] - pad), starts[1:] - room)
    ends = np.append(ends[:-1] + room, min(n_samples, ends[-1] + pad))
    return np.column_stack([starts, ends]) / RATE_HZ


def _prepare(name: str, samples: np.ndarray, rate_hz: int) -> np.ndarray:
    """Check one channel and bring it to float32 at 16 kHz, shape (samples,)."""
    samples = np.asarray(samples)
    if samples.ndim != 1:
        raise InputError(f"Channel {name} has shape {samples.shape}, where one channel is (samples,); split the roles.")
    if samples.dtype.kind != "f":
        raise InputError(f"Channel {name} holds {samples.dtype} samples; scale them to float32 in [-1, 1] first.")
    if not (np.isfinite(rate_hz) and rate_hz > 0):
        raise InputError(f"Channel {name} has a rate of {rate_hz} Hz; give the rate it was recorded at.")
    broken = ~np.isfinite(samples)
    if broken.any():
        raise InputError(
            f"Channel {name} holds {int(broken.sum())} NaN or infinite samples, the first at "
            f"{int(np.argmax(broken)) / rate_hz:.3f} s; export it again."
        )
    samples = samples.astype(np.float32, copy=False)
    return audio.resample(samples, rate_hz, RATE_HZ) if len(samples) else samples


def _in_order(work: Callable[[Channel], Any], channels: Iterable[Channel], workers: int | None) -> Iterator[Any]:
    """Map in threads, keeping the order.

    At most four items a worker are in flight: enough that one slow channel at the head, whose
    result must leave first, seldom idles the others.
    """
    workers = cores() if workers is None else workers
    pool = ThreadPoolExecutor(workers, thread_name_prefix="vad")
    waiting: deque = deque()
    try:
        for channel in channels:
            waiting.append(pool.submit(work, channel))
            if len(waiting) >= 4 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
