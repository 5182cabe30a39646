"""Clips: text made into speech once, trimmed, levelled and kept.

A clip is found again by what made it: engine, engine version, voice, text, attempt and the version of
the processing here. It is a pair of files, `KEY-DIGEST.wav` and `KEY.json`; the JSON names the WAV and
its checksum and is written last, so a pair is whole or absent, however many processes share the folder.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.ndimage import minimum_filter1d, uniform_filter1d

from workbench import audio
from workbench.construct.voices import Engine, load_engine
from workbench.errors import InputError
from workbench.files import cache_root, content_key, read_json, sha256_of, write_json

RATE_HZ = 24_000
PROCESSING_VERSION = 4  # raise when anything below changes a sample: it is part of the cache key

# Trimming, in dB relative to the loudest frame. Speech reaches from the first to the last strong frame,
# and further through weak ones ([f], [h], a decaying vowel), but not for long: some synthesisers end
# with half a second of breath at -30 dB. Silence around good synthesis lies below -60 dB.
FRAME_S = 0.005
STRONG_DB = -25.0
WEAK_DB = -45.0
WEAK_S = 0.15
GUARD_S = 0.020
RAMP_S = 0.005  # at the very ends, inside the guard, so that a clip meets exact zeros without a click

PAUSE_S = 0.45  # the longest pause inside a piece of speech

# Level. Speech of this RMS has peaks near -6 dBFS; what would pass the peak limit is brought down there and
# nowhere else, so that one spike of a synthesiser leaves the rest of a clip as loud as any other.
RMS_DBFS = -23.0
PEAK_DBFS = -1.0
LIMITER_S = 0.005
SPIKE_S = 0.05  # what is louder than all else for less than this is a spike, no measure of the speech
SILENT_RMS_DBFS = -60.0  # a synthesiser that returns less than this said nothing


@dataclass(frozen=True)
class Clip:
    """One piece of speech.

    Attributes
    ----------
    samples : float32, shape (samples,), at `rate_hz`, exactly as stored (read-only).
    rate_hz : int, always 24000.
    key : what made it, as a short name; the same text, voice and versions give the same key.
    text, voice : what is said and by whom (`engine:voice`).
    path : the stored WAV (PCM16).
    sha256 : checksum of that file.
    """

    samples: np.ndarray
    rate_hz: int
    key: str
    text: str
    voice: str
    path: Path
    sha256: str

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.rate_hz


class SpeechCache:
    """Renders text, or finds the clip rendered before.

    Parameters
    ----------
    folder : where clips are kept; `speech` under `cache_root()` when not given.
    engine : an engine or its spec, used by `render` unless it is told another.
    """

    def __init__(self, folder: Path | str | None = None, engine: Engine | str = "hibari"):
        self.folder = Path(folder) if folder is not None else cache_root() / "speech"
        self.engine: Engine = load_engine(engine) if isinstance(engine, str) else engine

    def render(self, text: str, voice: str, *, engine: Engine | None = None, attempt: int = 0) -> Clip:
        """Say `text` in `voice`, from the cache when it was said before.

        A damaged entry is made again. Of two processes that make the same clip at once, the first to
        finish decides, so that both go on with the same samples even when the engine is not exact.

        Raises
        ------
        InputError : the text is empty, the engine cannot say it, or what came back is silence.
        """
        engine = engine or self.engine
        text = " ".join(text.split())
        if not text:
            raise InputError("There is nothing to say: the text is empty; write a word or a silence segment.")
        if ":" not in voice:
            voice = f"{engine.name}:{voice}"
        key = content_key(engine.name, engine.version(), voice, text, attempt, PROCESSING_VERSION)
        kept = self._find(key)
        if kept is not None:
            return kept
        samples, rate_hz = engine.say(text, voice, attempt=attempt)
        about = {"text": text, "voice": voice, "engine": engine.name, "engine_version": engine.version()}
        try:
            finished = process(samples, rate_hz)
        except InputError as error:
            raise InputError(f"{voice} did not say {text!r}: {error}") from None
        return self._keep(key, finished, {**about, "attempt": attempt, "processing_version": PROCESSING_VERSION})

    def entry(self, key: str) -> Path:
        """The JSON file of a clip; files derived from the clip are kept beside it."""
        return self.folder / key[:2] / f"{key}.json"

    def _find(self, key: str) -> Clip | None:
        """The clip kept under `key`; None when there is none or it is damaged in any way."""
        entry = self.entry(key)
        try:
            record = read_json(entry)
            path = entry.parent / Path(record["wav"]).name
            if sha256_of(path) != record["sha256"]:
                return None
            samples = audio.read_mono(path, RATE_HZ)
            text, voice, sha256 = record["text"], record["voice"], record["sha256"]
        except (InputError, OSError, KeyError, TypeError):
            return None
        samples.flags.writeable = False
        return Clip(samples, RATE_HZ, key, text, voice, path, sha256)

    def _keep(self, key: str, pcm: np.ndarray, about: dict) -> Clip:
        entry = self.entry(key)
        # The WAV's name holds its content, so two processes with unequal audio never share a file.
        path = entry.parent / f"{key}-{hashlib.sha256(pcm.tobytes()).hexdigest()[:12]}.wav"
        audio.write_pcm16(path, pcm, RATE_HZ)
        record = {**about, "wav": path.name, "sha256": sha256_of(path), "duration_s": len(pcm) / RATE_HZ}
        mine = entry.with_name(f".{key}-{os.getpid()}-{os.urandom(4).hex()}.json")
        write_json(mine, record)
        try:
            os.link(mine, entry)  # unlike a rename it fails when another process was first
        except OSError:
            first = self._find(key)
            if first is not None:
                return first
            os.replace(mine, entry)  # what is there is damaged, or the file system has no links
        finally:
            mine.unlink(missing_ok=True)
        clip = self._find(key)
        if clip is None:
            raise InputError(f"{path} does not read back as written; check the disk behind {self.folder}.")
        return clip


def process(samples: np.ndarray, rate_hz: int) -> np.ndarray:
    """A synthesiser's output as a finished clip: int16, shape (samples,), at 24 kHz.

    Resampled, trimmed to `GUARD_S` around the speech, pauses inside cut to `PAUSE_S`, brought to
    `RMS_DBFS` with its peaks held under `PEAK_DBFS`, ramped at the ends.

    Raises
    ------
    InputError : no samples, not mono, not finite, or nothing but silence.
    """
    samples = np.asarray(samples, dtype=np.float32)
    if samples.ndim != 1 or samples.size == 0:
        raise InputError(f"the engine returned samples of shape {samples.shape}, where mono speech is needed.")
    if not np.isfinite(samples).all():
        raise InputError("the engine returned NaN or infinite samples; try another voice or another engine.")
    speech = shorten_pauses(trim(audio.resample(samples, rate_hz, RATE_HZ)))
    levels = _frame_levels(speech)
    rms = float(np.sqrt(np.mean(np.square(np.minimum(levels, 2 * _loudest(levels))))))
    finished = limited(speech * np.float32(_from_db(RMS_DBFS) / rms))
    ramp = np.linspace(0.0, 1.0, round(RAMP_S * RATE_HZ), dtype=np.float32)
    finished[: len(ramp)] *= ramp
    finished[-len(ramp) :] *= ramp[::-1]
    return audio.to_pcm16(finished)


def limited(samples: np.ndarray) -> np.ndarray:
    """24 kHz samples with every peak at most `PEAK_DBFS`, turned down smoothly for `LIMITER_S` around it alone."""
    needed = np.minimum(1.0, _from_db(PEAK_DBFS) / np.maximum(np.abs(samples), 1e-9))
    if needed.min() == 1.0:
        return samples
    width = 2 * round(LIMITER_S * RATE_HZ) + 1
    # The mean over a window of values that are each the least of their own window never exceeds what is needed.
    return samples * uniform_filter1d(minimum_filter1d(needed, width), width).astype(np.float32)


def _frame_levels(samples: np.ndarray) -> np.ndarray:
    """RMS of each `FRAME_S`, a rest at the end left out."""
    frame = round(FRAME_S * RATE_HZ)
    whole = samples[: samples.size // frame * frame].reshape(-1, frame)
    return np.sqrt(np.mean(np.square(whole, dtype=np.float64), axis=1))


def _loudest(levels: np.ndarray) -> float:
    """The highest level that frames of `SPIKE_S` in all reach."""
    return float(np.sort(levels)[-min(round(SPIKE_S / FRAME_S), len(levels))])


def trim(samples: np.ndarray) -> np.ndarray:
    """Cut silence from both ends of 24 kHz speech, leaving exactly `GUARD_S` before and after it.

    Where the synthesiser left less than the guard, zeros are added: a clip's speech always begins
    `GUARD_S` after its start and ends `GUARD_S` before its end, to within a frame.
    """
    frame = round(FRAME_S * RATE_HZ)
    whole = np.pad(samples, (0, -len(samples) % frame))
    rms = _frame_levels(whole)
    loudest = _loudest(rms)
    if loudest < _from_db(SILENT_RMS_DBFS):
        raise InputError("the engine returned silence; give it words it can read, or another voice.")
    strong = np.flatnonzero(rms > loudest * _from_db(STRONG_DB))
    reach = round(WEAK_S / FRAME_S)
    weak = np.flatnonzero(rms > loudest * _from_db(WEAK_DB))
    weak = weak[(weak >= strong[0] - reach) & (weak <= strong[-1] + reach)]
    guard = round(GUARD_S * RATE_HZ)
    start, end = weak[0] * frame, (weak[-1] + 1) * frame
    padded = np.pad(whole, guard)
    return padded[start : end + 2 * guard].copy()


def shorten_pauses(samples: np.ndarray) -> np.ndarray:
    """Cut the middle out of every pause longer than `PAUSE_S` inside 24 kHz speech.

    A long pause is a probe of turn-taking: it has to be designed, never left to a synthesiser's
    reading of a full stop, which some agents' endpointing (0.5 to 0.8 s) would take for the end.
    """
    frame = round(FRAME_S * RATE_HZ)
    rms = _frame_levels(samples)
    loud = np.flatnonzero(rms > _loudest(rms) * _from_db(WEAK_DB))
    longest = round(PAUSE_S / FRAME_S)
    keep = np.ones(samples.size, bool)
    for before, after in pairwise(loud):
        if after - before - 1 > longest:
            middle = before + 1 + longest // 2
            keep[middle * frame : (middle + after - before - 1 - longest) * frame] = False
    return samples[keep]


def _from_db(level_db: float) -> float:
    return 10.0 ** (level_db / 20.0)
