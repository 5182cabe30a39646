"""A recording for the eye and the ear: minima and maxima at any zoom, spectrogram, and the sound as Ogg or FLAC.

The first two are made once a recording and kept (least recently used goes first), shared by all sessions.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import soundfile

from workbench import audio

_BIN = 64
_KEEP = 8
COLUMNS = 1100
"""Columns drawn: about one a pixel at 1280 px."""

BANDS, TOP_HZ, FLOOR_DB = 96, 8000.0, -80.0
_FFT, _HOP_S = 512, 0.005

FORMATS = {"opus": ("audio/ogg;codecs=opus", {"format": "OGG", "subtype": "OPUS"}),
           "flac": ("audio/flac", {"format": "FLAC", "subtype": "PCM_16"})}  # fmt: skip
_COMPRESSION = {"opus": 0.94}
"""libsndfile's scale: about 15 kbit/s a channel, and silence costs next to nothing."""

_BLOCK = 24_000


def encode(samples: np.ndarray, rate_hz: int, kind: str = "opus") -> bytes:
    """Audio in a compressed format. samples : (samples, channels), int16 or float32; kind : see `FORMATS`."""
    stream, options = io.BytesIO(), FORMATS[kind][1]
    try:
        file = soundfile.SoundFile(stream, "w", rate_hz, samples.shape[1], compression_level=_COMPRESSION.get(kind),
                                   **options)  # fmt: skip
    except TypeError:  # soundfile before 0.13 knows no level; its default is larger and sounds the same
        file = soundfile.SoundFile(stream, "w", rate_hz, samples.shape[1], **options)
    with file:
        for at in range(0, len(samples), _BLOCK):
            file.write(samples[at : at + _BLOCK])
    return stream.getvalue()


@dataclass
class Recording:
    """A stereo recording in memory: int16 (samples, channels), minima and maxima by bins of 64 samples."""

    samples: np.ndarray
    rate_hz: int
    low: np.ndarray
    high: np.ndarray
    peak: np.ndarray
    _spectra: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.rate_hz

    def data_url(self, kind: str = "opus", start_s: float = 0.0, end_s: float | None = None) -> str:
        """The sound as an address that holds it."""
        last = None if end_s is None else round(end_s * self.rate_hz)
        sound = encode(self.samples[round(start_s * self.rate_hz) : last], self.rate_hz, kind)
        return f"data:{FORMATS[kind][0]};base64,{base64.b64encode(sound).decode()}"

    def columns(self, channel: int, start_s: float, end_s: float, count: int = COLUMNS) -> dict[str, np.ndarray]:
        """x (seconds), low and high in [-1, 1] as float32, `count` columns or one a sample when zoomed in that far."""
        first = int(np.clip(start_s * self.rate_hz, 0, len(self.samples)))
        last = int(np.clip(np.ceil(end_s * self.rate_hz), first, len(self.samples)))
        if last <= first:
            nothing = np.zeros(0, np.float32)
            return {"x": nothing, "low": nothing, "high": nothing}
        fine = last - first < 2 * _BIN * count
        step = 1 if fine else _BIN
        lows = self.samples[first:last, channel] if fine else self.low[first // _BIN : -(-last // _BIN), channel]
        highs = lows if fine else self.high[first // _BIN : -(-last // _BIN), channel]
        edges = np.unique(np.linspace(0, len(lows), min(count, len(lows)) + 1).astype(int)[:-1])
        origin = first if fine else first // _BIN * _BIN
        middle = (edges + np.append(edges[1:], len(lows))) / 2
        return {
            "x": ((origin + middle * step) / self.rate_hz).astype(np.float32),
            "low": np.minimum.reduceat(lows, edges).astype(np.float32) / 32768,
            "high": np.maximum.reduceat(highs, edges).astype(np.float32) / 32768,
        }

    def gain(self, channel: int) -> float:
        """How much larger the channel is drawn so that its peak fills the lane; 1 for silence."""
        peak = float(self.peak[channel])
        return 0.95 / peak if 0 < peak < 0.95 else 1.0

    def spectrogram(self, channel: int, start_s: float, end_s: float, count: int = 600) -> np.ndarray:
        """uint8 (BANDS, columns): 0 is 80 dB below full scale, rows from 0 to 8 kHz."""
        whole = self._spectrum(channel)
        first = int(np.clip(start_s / _HOP_S, 0, len(whole)))
        last = int(np.clip(np.ceil(end_s / _HOP_S), first, len(whole)))
        part = whole[first:last]
        if not len(part):
            return np.zeros((BANDS, 1), np.uint8)
        edges = np.unique(np.linspace(0, len(part), min(count, len(part)) + 1).astype(int)[:-1])
        return np.ascontiguousarray(np.maximum.reduceat(part, edges, axis=0).T)

    def _spectrum(self, channel: int) -> np.ndarray:
        if channel not in self._spectra:
            hop = round(self.rate_hz * _HOP_S)
            padded = np.pad(self.samples[:, channel], _FFT // 2)
            windows = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[::hop]
            bands = np.linspace(0, min(TOP_HZ, self.rate_hz / 2) / self.rate_hz * _FFT, BANDS + 1).astype(int)[:-1]
            shape = np.hanning(_FFT).astype(np.float32) / (32768 * _FFT / 4)
            out = np.empty((len(windows), BANDS), np.uint8)
            for at in range(0, len(windows), 2048):  # in pieces: the float spectrum of a long file is large
                power = np.abs(np.fft.rfft(windows[at : at + 2048] * shape, axis=1))
                level = 20 * np.log10(np.maximum.reduceat(power[:, : _FFT // 2], bands, axis=1) + 1e-9)
                out[at : at + 2048] = np.clip((level / -FLOOR_DB + 1) * 255, 0, 255)
            self._spectra[channel] = out
        return self._spectra[channel]


def make(samples: np.ndarray, rate_hz: int) -> Recording:
    """samples : int16 (samples, channels)."""
    edges = np.arange(0, len(samples), _BIN)
    low, high = np.minimum.reduceat(samples, edges, axis=0), np.maximum.reduceat(samples, edges, axis=0)
    peak = np.maximum(-(low.min(axis=0).astype(float)), high.max(axis=0)) / 32768
    return Recording(samples, rate_hz, low, high, peak)


def load(path: Path) -> Recording:
    """The recording of a file, made once for each version of it.

    Raises
    ------
    InputError : as `audio.read_stereo`.
    """
    try:
        stat = path.stat()
        return _version(path, stat.st_mtime_ns, stat.st_size)
    except OSError:
        return _version(path, 0, 0)


@lru_cache(_KEEP)
def _version(path: Path, written_ns: int, size: int) -> Recording:
    samples, rate_hz = audio.read_stereo(path)
    return make(audio.to_pcm16(samples), rate_hz)
