"""Audio in and out: any file that soundfile reads, float32 in [-1, 1], stateful resampling."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
import soxr

from workbench.errors import InputError
from workbench.files import write_atomically


def read(path: Path) -> tuple[np.ndarray, int]:
    """Read a file as float32, shape (samples, channels), with its rate in Hz.

    Raises
    ------
    InputError : file missing, empty, truncated, not audio, or holding NaN or infinite samples.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; rebuild the dataset or run the case again.")
    try:
        with soundfile.SoundFile(path) as file:
            rate_hz, announced = file.samplerate, file.frames
            samples = file.read(dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError) as error:
        size = path.stat().st_size
        raise InputError(f"{path} ({size} bytes) cannot be read as audio: {error}. Replace or remove it.") from None
    if samples.shape[0] == 0:
        raise InputError(f"{path} holds no samples; replace or remove it.")
    if samples.shape[0] < announced < 2**40:
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
    _refuse_cut_wav(path, samples.shape[0])
    return samples, rate_hz


def _refuse_cut_wav(path: Path, frames: int) -> None:
    """libsndfile silently shortens a WAV whose data chunk announces more bytes than the file has.

    Placeholder sizes (0 or 0xFFFFFFFF), which streaming writers leave, are taken as they are.
    """
    with path.open("rb") as stream:
        head = stream.read(4096)
    if head[:4] != b"RIFF":
        return
    at = head.find(b"data", 12)
    if at < 0 or at + 8 > len(head):
        return
    announced = int.from_bytes(head[at + 4 : at + 8], "little")
    there = path.stat().st_size - (at + 8)
    if announced in (0, 0xFFFFFFFF, 0x7FFFFFFF) or announced >= 0xFFFFFF00 or announced <= there:
        return
    raise InputError(
        f"{path} is truncated: its data chunk announces {announced} bytes and {there} are there "
        f"({frames} samples could be read); copy it again or run the case again."
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
    data = samples if samples.dtype == np.int16 else to_pcm16(samples)
    write_atomically(path, lambda part: soundfile.write(part, data, rate_hz, subtype="PCM_16"))


def resample(samples: np.ndarray, from_hz: int, to_hz: int) -> np.ndarray:
    """Resample a whole clip (time on axis 0) with soxr's HQ filter."""
    if from_hz == to_hz:
        return samples
    return soxr.resample(samples, from_hz, to_hz).astype(np.float32)


class StreamResampler:
    """Resample a stream chunk by chunk without drift or seams.

    The filter keeps its state between chunks; `last=True` flushes what it still holds. Resampling
    each chunk alone would lose or add a fraction of a sample at every seam.
    """

    def __init__(self, from_hz: int, to_hz: int):
        self.from_hz, self.to_hz = from_hz, to_hz
        self._stream = None if from_hz == to_hz else soxr.ResampleStream(from_hz, to_hz, 1, dtype="float32")

    def __call__(self, chunk: np.ndarray, last: bool = False) -> np.ndarray:
        if self._stream is None:
            return chunk
        return self._stream.resample_chunk(np.ascontiguousarray(chunk, dtype=np.float32), last=last)
