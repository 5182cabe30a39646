"""Audio in and out: any file that soundfile reads, float32 in [-1, 1], stateful resampling."""

from __future__ import annotations

import functools
import io
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr

from workbench.errors import InputError
from workbench.files import write_atomically

LOWEST_HZ, HIGHEST_HZ = 4_000, 400_000
"""Rates outside are a header's mistake: nobody records speech at them."""

MOST = 2.0
"""Decoders and mixers pass 1.0 by a little; samples beyond this are on another scale."""


def read(path: Path) -> tuple[np.ndarray, int]:
    """Read a file as float32, shape (samples, channels), with its rate in Hz.

    Raises
    ------
    InputError : file missing, empty, truncated, not audio, at an impossible rate, on another scale than
        [-1, 1], or holding NaN or infinite samples.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; rebuild the dataset or run the case again.")
    try:
        with soundfile.SoundFile(path) as file:
            rate_hz, announced, kind, log = file.samplerate, file.frames, file.format, file.extra_info
            samples = file.read(dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError, MemoryError, OSError) as error:
        size, told = path.stat().st_size, str(error).rstrip(".")
        raise InputError(f"{path} ({size} bytes) cannot be read as audio: {told}. Replace or remove it.") from None
    if samples.shape[0] == 0:
        raise InputError(f"{path} holds no samples; replace or remove it.")
    if not LOWEST_HZ <= rate_hz <= HIGHEST_HZ:
        raise InputError(f"{path}: its header gives a rate of {rate_hz} Hz, at which no speech is recorded; mend it.")
    if kind == "MP3":
        check_mp3(path)
    elif samples.shape[0] < announced < 2**40:
        raise InputError(
            f"{path} is truncated: its header announces {announced} samples and {samples.shape[0]} are there; "
            "copy it again or run the case again."
        )
    broken = ~np.isfinite(samples)
    if broken.any():
        raise InputError(
            f"{path} holds {int(broken.sum())} NaN or infinite samples, the first at "
            f"{int(np.argwhere(broken)[0][0]) / rate_hz:.3f} s; export it again."
        )
    loudest = float(np.abs(samples).max())
    if loudest > MOST:
        raise InputError(
            f"{path} holds samples up to {loudest:g}, where floats lie in [-1, 1]; divide by the full scale "
            "(32768 for 16 bits) and export it again."
        )
    _refuse_cut(path, kind, log, samples.shape[0])
    return samples, rate_hz


_SIZES = re.compile(r"^\s*(data|SSND|Data Size|riff|Riff size)\s*: (\d+) \(should be (\d+)\)", re.MULTILINE)


def _refuse_cut(path: Path, kind: str, log: str, frames: int) -> None:
    """Refuse a file that is shorter than it announces, which libsndfile only writes in its log.

    Placeholder sizes, which streaming writers leave (0 and about 2 or 4 GiB), are taken as they are.
    """
    for _, announced, there in _SIZES.findall(log):
        if int(there) < int(announced) < 0x7FFFFF00:
            raise InputError(
                f"{path} is truncated: its header announces {announced} bytes and {there} are there "
                f"({frames} samples could be read); copy it again or run the case again."
            )
    if kind == "OGG":
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - 2**17))
            page = stream.read().rpartition(b"OggS")[2]
        if len(page) < 2 or not page[1] & 4:
            raise InputError(
                f"{path} is truncated: it has no last page ({frames} samples could be read); copy it again."
            )


def read_mono(path: Path, rate_hz: int) -> np.ndarray:
    """Read a mono clip at exactly `rate_hz`: float32, shape (samples,)."""
    samples, found_hz = read(path)
    if samples.shape[1] != 1:
        raise InputError(f"{path} has {samples.shape[1]} channels, where a mono clip is needed; export one channel.")
    if found_hz != rate_hz:
        raise InputError(f"{path} is at {found_hz} Hz, where {rate_hz} Hz is needed; resample it or rebuild.")
    return samples[:, 0]


def read_stereo(path: Path) -> tuple[np.ndarray, int]:
    """Read a recording with two roles: float32, shape (samples, 2), channel 0 user and 1 agent."""
    samples, rate_hz = read(path)
    if samples.shape[1] != 2:
        raise InputError(
            f"{path} has {samples.shape[1]} channel{'s' if samples.shape[1] != 1 else ''}, where two are needed "
            "(channel 0 the user, channel 1 the agent); record or export both sides."
        )
    return samples, rate_hz


def to_pcm16(samples: np.ndarray) -> np.ndarray:
    """float32 in [-1, 1] to int16, rounded and clipped; exact zeros stay zeros."""
    return np.clip(np.round(samples * 32768.0), -32768, 32767).astype(np.int16)


def from_pcm16(samples: np.ndarray) -> np.ndarray:
    return samples.astype(np.float32) / np.float32(32768.0)


def write_pcm16(path: Path, samples: np.ndarray, rate_hz: int) -> None:
    """Write int16 or float32 samples atomically; the suffix chooses WAV or FLAC."""
    data, made = samples if samples.dtype == np.int16 else to_pcm16(samples), io.BytesIO()
    # Made in memory, since libsndfile does not say when a disk is full.
    soundfile.write(made, data, rate_hz, subtype="PCM_16", format=path.suffix[1:].upper())
    write_atomically(path, lambda part: part.write_bytes(made.getbuffer()))


def resample(samples: np.ndarray, from_hz: int, to_hz: int) -> np.ndarray:
    """Resample a whole clip (time on axis 0) with soxr's HQ filter."""
    if from_hz == to_hz:
        return samples
    return soxr.resample(samples, from_hz, to_hz).astype(np.float32)


LOOK_AHEAD_S = 0.0025
"""How far `StreamResampler` looks ahead."""


class StreamResampler:
    """Resample a stream chunk by chunk without drift or seams, looking ahead by only 2.5 ms.

    soxr's streaming filters hold audio back in blocks (35 ms from 24 to 16 kHz, 66 ms from 24 to
    8 kHz), which would be counted as an agent's latency; a short windowed sinc does not.

    live : give every chunk its full share at once (480 samples at 24 kHz become exactly 160 at
        8 kHz), the whole stream being 2.5 ms late. Otherwise samples keep their times, the last
        2.5 ms are held back until more comes, and `last=True` flushes them.
    """

    def __init__(self, from_hz: int, to_hz: int, live: bool = False):
        self.from_hz, self.to_hz = from_hz, to_hz
        common = math.gcd(from_hz, to_hz)
        self._up, self._down = to_hz // common, from_hz // common
        self._half = math.ceil(LOOK_AHEAD_S * from_hz)
        # The samples before the first are silence; a live stream begins with the delay as well.
        self._waiting = np.zeros(self._half * (2 if live else 1), np.float32)
        self._first = -self._half
        self._taken = self._half if live else 0
        self._given = 0

    def __call__(self, chunk: np.ndarray, last: bool = False) -> np.ndarray:
        """float32 (samples,) at `from_hz` to float32 (samples,) at `to_hz`."""
        if self.from_hz == self.to_hz:
            return chunk
        self._taken += chunk.size
        tail = np.zeros(self._half + 1 if last else 0, np.float32)
        self._waiting = np.concatenate([self._waiting, chunk.astype(np.float32, copy=False), tail])
        # Output j lies at input time j * down / up and needs `half` input samples to either side.
        reach = self._taken if last else self._taken - self._half
        positions = np.arange(self._given, max(self._given, -(-reach * self._up // self._down))) * self._down
        self._given += positions.size
        if positions.size == 0:
            return np.zeros(0, np.float32)
        weights = _filters(self.from_hz, self.to_hz)
        nearest = positions // self._up - self._half - self._first
        windows = np.lib.stride_tricks.sliding_window_view(self._waiting, weights.shape[1])[nearest]
        out = np.einsum("ij,ij->i", windows, weights[positions % self._up])
        # What no later output can need is let go.
        done = self._given * self._down // self._up - self._half - self._first
        self._waiting, self._first = self._waiting[done:], self._first + done
        return out


@functools.lru_cache(maxsize=32)
def _filters(from_hz: int, to_hz: int) -> np.ndarray:
    """Windowed-sinc weights, one row a phase: float32 (to_hz / gcd, taps), each row summing to 1."""
    up = to_hz // math.gcd(from_hz, to_hz)
    half = math.ceil(LOOK_AHEAD_S * from_hz)
    # Tap t of phase r weighs the input sample that lies (t - half) samples after the nearest one.
    offset = np.arange(-half, half + 1)[None, :] - np.arange(up)[:, None] / up
    cutoff_hz = min(from_hz, to_hz) / 2 - 1 / LOOK_AHEAD_S
    window = np.i0(8.0 * np.sqrt(np.clip(1 - (offset / half) ** 2, 0, 1))) * (np.abs(offset) <= half)
    weights = np.sinc(2 * cutoff_hz / from_hz * offset) * window
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


_RATES_HZ = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_KBPS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}


_DELAY_SAMPLES = 1105
"""What the commonest encoder and every decoder put before the first sample: 576 + 529."""


@dataclass(frozen=True)
class _Frame:
    """A frame: its length in bytes and samples; `announced` where it is an info frame (0: without a count)."""

    size: int
    samples: int
    rate_hz: int
    announced: int | None


def _frame(data: bytes, at: int) -> _Frame | None:
    """The layer III frame that begins at `at`, or None."""
    head = int.from_bytes(data[at : at + 4], "big")
    version, layer, kbps, rate, pad = (head >> s & m for s, m in ((19, 3), (17, 3), (12, 15), (10, 3), (9, 1)))
    if head >> 21 != 0x7FF or version == 1 or layer != 1 or kbps in (0, 15) or rate == 3:
        return None
    first = version == 3
    rate_hz, mono = _RATES_HZ[version][rate], (head >> 6 & 3) == 3
    size = (144 if first else 72) * _KBPS[first][kbps] * 1000 // rate_hz + pad
    announced, tag = None, at + 4 + ((17 if mono else 32) if first else (9 if mono else 17))
    if data[tag : tag + 4] in (b"Xing", b"Info"):
        announced = int.from_bytes(data[tag + 8 : tag + 12], "big") if data[tag + 7] & 1 else 0
    elif data[at + 36 : at + 40] == b"VBRI":
        announced = int.from_bytes(data[at + 50 : at + 54], "big")
    return _Frame(size, 1152 if first else 576, rate_hz, announced)


def check_mp3(path: Path) -> str | None:
    """What a reader must know of an MP3 file, as a sentence, or None.

    Raises
    ------
    InputError : less is there than is announced, or more, as in two files joined, of which decoders
        give only the first.
    """
    data = path.read_bytes()
    at, frames, infos, cut = 0, 0, [], False
    each_s = delay_s = 0.0
    while at < len(data) - 4:
        if data[at : at + 3] == b"ID3":
            at += 10 + sum((data[at + 6 + place] & 127) << 21 - 7 * place for place in range(4))
            continue
        frame = _frame(data, at)
        if frame is None:
            at = data.find(b"\xff", at + 1)
            if at < 0:
                break
            continue
        each_s, delay_s = frame.samples / frame.rate_hz, _DELAY_SAMPLES / frame.rate_hz
        cut = at + frame.size > len(data)
        if frame.announced is not None:
            infos.append((frames, frame.announced))
        elif not cut:
            frames += 1
        at += frame.size
    if len(infos) > 1:
        raise InputError(
            f"{path} is {len(infos)} MP3 files joined (another begins at {infos[1][0] * each_s:.2f} s), of which "
            "decoders give only the first; decode each and join the sound."
        )
    announced = infos[0][1] if infos else 0
    if announced > frames + 1:
        raise InputError(
            f"{path} is truncated: its header announces {announced * each_s:.2f} s and {frames * each_s:.2f} s are "
            "there; copy it again."
        )
    if announced and frames > announced + 1:
        raise InputError(
            f"{path} holds {frames * each_s:.2f} s and its header announces {announced * each_s:.2f} s, after which "
            "decoders stop; were two files joined? Decode each and join the sound."
        )
    if frames and not infos:
        ending = "; it ends inside a frame, so its end may be missing" if cut else ""
        return (
            f"{path.name} has no info frame, so the encoder's delay, usually {delay_s:.3f} s, stays in and all of it "
            f"is late by that{ending}; send WAV or FLAC where times matter."
        )
    return None
