"""Where the user's clips lie in a recording, and whether its two channels are what they are said to be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, ValidationError, field_validator
from scipy.signal import fftconvolve, find_peaks

from workbench import audio
from workbench.cases import RATE_HZ, Case, Cue, Record
from workbench.datasets import describe
from workbench.episodes import Piece
from workbench.errors import InputError
from workbench.files import read_json

MATCH = 0.5
"""The least correlation (1: the very clip) at which a cue counts as found in the user channel."""

NEAR_BEST = 0.75
"""Places this close to a clip's best are its places too, so that what is said twice is found twice."""

SAME = 0.98
"""The least correlation of two channels that hold the same signal."""

BLEED, BLEED_DELAY_S, BLEED_DBFS = 0.3, 0.5, -70.0
"""The user counts as heard in the agent's channel from this correlation and level on, up to this delay."""

SILENT_DBFS = -60.0
_HZ = 8_000
_SLACK_S = 0.05
_SHORTEST_S = 0.5
_FIXED = 1_000  # what a sidecar says outweighs every match


@dataclass(frozen=True)
class Place:
    """Where a clip begins, and how much like it the channel is there (negative: with inverted polarity)."""

    start_s: float
    likeness: float = 1.0


def places(clip: np.ndarray, channel: np.ndarray) -> tuple[list[Place], float]:
    """Every place of `clip` in `channel`, in order, and the best likeness there is.

    clip, channel : int16 (samples,) at 24 kHz. The normalised cross-correlation at 8 kHz finds them,
    whatever level and polarity.
    """
    needle, hay = _low(clip), _low(channel)
    # A recording that stops inside the clip still shows where it began.
    found = _likeness(needle, np.concatenate([hay, np.zeros(needle.size, np.float32)]))
    best = float(np.abs(found).max(initial=0.0))
    # Two plays of a clip can't overlap, but voiced sounds are like themselves a pitch period away.
    height, apart = max(MATCH, NEAR_BEST * best), max(1, int(0.9 * needle.size))
    peaks, _ = find_peaks(np.concatenate([[0.0], np.abs(found), [0.0]]), height=height, distance=apart)
    return [Place(int(peak - 1) / _HZ, float(found[peak - 1])) for peak in peaks], best


def _low(samples: np.ndarray) -> np.ndarray:
    return audio.resample(audio.from_pcm16(samples), RATE_HZ, _HZ)


def _likeness(needle: np.ndarray, hay: np.ndarray) -> np.ndarray:
    """Correlation in [-1, 1] of `needle` with every stretch of `hay` as long."""
    energy = float(np.sum(needle.astype(np.float64) ** 2))
    if energy == 0 or not np.any(hay) or hay.size < needle.size:
        return np.zeros(0)
    product = fftconvolve(hay, needle[::-1], mode="valid").astype(np.float64)
    sums = np.concatenate([[0.0], np.cumsum(hay.astype(np.float64) ** 2)])
    power = sums[needle.size :] - sums[: -needle.size]
    return product / np.sqrt(np.maximum(power, energy * 1e-6) * energy)


def in_order(cues: Sequence[Cue], found: Mapping[str, Sequence[Place]], given: Mapping[str, float]) -> dict[str, Place]:
    """One place for as many cues as can have one, in the order of the cues, each as early as that allows.

    found : cue -> its places. given : cue -> the start that is known, which stands.
    """
    choices = [[Place(given[cue.id])] if cue.id in given else list(found.get(cue.id, ())) for cue in cues]

    @cache
    def best(index: int, from_s: float) -> tuple[int, tuple[Place | None, ...]]:
        if index == len(cues):
            return 0, ()
        cue = cues[index]
        top: tuple[int, tuple[Place | None, ...]] | None = None
        for place in [*choices[index], None]:
            gain, next_s = 0, from_s
            if place is not None:
                if place.start_s < from_s - _SLACK_S:
                    continue
                gain = _FIXED if cue.id in given else 1
                next_s = place.start_s if cue.track else place.start_s + (cue.duration_s or 0.0)
            count, rest = best(index + 1, next_s)
            if top is None or count + gain > top[0]:
                top = count + gain, (place, *rest)
        assert top is not None
        return top

    _, chosen = best(0, 0.0)
    return {cue.id: place for cue, place in zip(cues, chosen, strict=True) if place is not None}


def peak_dbfs(samples: np.ndarray) -> float:
    """Peak level of int16 (samples,); -inf for digital silence."""
    peak = float(np.abs(samples.astype(np.int32)).max(initial=0))
    return 20 * np.log10(peak / 32768) if peak else -np.inf


def same_signal(stereo: np.ndarray) -> bool:
    """Whether both channels of int16 (samples, 2) hold one signal, at whatever level."""
    user, agent = (channel.astype(np.float64) for channel in stereo.T)
    scale = np.sqrt(np.dot(user, user) * np.dot(agent, agent))
    return bool(scale) and abs(float(np.dot(user, agent))) / scale >= SAME


@dataclass(frozen=True)
class Bleed:
    """How the user is heard in the agent's channel."""

    delay_s: float
    gain_db: float
    likeness: float


def bleed(stereo: np.ndarray, spans_s: Sequence[tuple[float, float]]) -> Bleed | None:
    """The plainest trace of the user's cues in the agent's channel; None where there is none.

    stereo : int16 (samples, 2) at 24 kHz. spans_s : where the user's cues were played.
    """
    user, agent = _low(stereo[:, 0]), _low(stereo[:, 1])
    plainest: Bleed | None = None
    for start_s, end_s in spans_s:
        needle = user[round(start_s * _HZ) : round(end_s * _HZ)]
        if needle.size < _SHORTEST_S * _HZ:
            continue
        first = max(0, round((start_s - 0.02) * _HZ))
        found = np.abs(_likeness(needle, agent[first : round((end_s + BLEED_DELAY_S) * _HZ)]))
        if not found.size or found.max() < max(BLEED, plainest.likeness if plainest else 0.0):
            continue
        at = int(found.argmax())
        heard = agent[first + at : first + at + needle.size]
        rms = float(np.sqrt(np.mean(np.square(needle, dtype=np.float64))))
        gain = abs(float(np.dot(heard, needle))) / (rms**2 * needle.size)
        if 20 * np.log10(max(gain * rms, 1e-9)) >= BLEED_DBFS:
            delay_s = (first + at) / _HZ - round(start_s * _HZ) / _HZ
            plainest = Bleed(delay_s, 20 * np.log10(gain), float(found[at]))
    return plainest


class _Words(Record):
    t_s: float = Field(ge=0)
    text: str


class Sidecar(Record):
    """What a `{case}.json` beside a recording may say.

    cues : cue -> when it began, in seconds; null where it was not played. transcript : the agent's
    words, as one text or as pieces with their times.
    """

    cues: dict[str, float | None] = {}
    transcript: list[_Words] | None = None

    @field_validator("transcript", mode="before")
    @classmethod
    def _one_text(cls, value: Any) -> Any:
        return [{"t_s": 0.0, "text": value}] if isinstance(value, str) else value


@dataclass(frozen=True)
class Known:
    """A checked sidecar: cue -> start (null: not played), and the transcript."""

    cues: Mapping[str, float | None]
    transcript: tuple[Piece, ...] | None
    path: Path


def read_sidecar(path: Path, case: Case, length_s: float) -> Known:
    """Read and check a sidecar; an absent one says nothing.

    Raises
    ------
    InputError : naming the file, the field and what is wrong with it.
    """
    if not path.exists():
        return Known({}, None, path)
    try:
        told = Sidecar.model_validate_json(json.dumps(read_json(path)), strict=True)
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}.") from None
    ids = [cue.id for cue in case.cues]
    unknown = sorted(set(told.cues) - set(ids))
    if unknown:
        raise InputError(f"{path}: field 'cues': the case has no cue {unknown[0]!r}; its cues: {', '.join(ids)}.")
    times = [(f"cues.{name}", time_s) for name, time_s in told.cues.items() if time_s is not None]
    times += [(f"transcript.{index}.t_s", piece.t_s) for index, piece in enumerate(told.transcript or ())]
    for name, time_s in times:
        if not 0 <= time_s <= length_s:
            hint = "; these look like milliseconds" if length_s < time_s <= 1000 * length_s else ""
            raise InputError(
                f"{path}: field {name!r}: {time_s:g} is not inside the recording, which lasts {length_s:.3f} s; give "
                f"seconds{hint}."
            )
    known = [cue for cue in case.cues if told.cues.get(cue.id) is not None]
    for before, cue in pairwise(known):
        if told.cues[cue.id] < told.cues[before.id]:
            raise InputError(
                f"{path}: field 'cues.{cue.id}': {told.cues[cue.id]:g} s lies before the cue {before.id!r} at "
                f"{told.cues[before.id]:g} s, which is played first; mend the times."
            )
    pieces = told.transcript and tuple(Piece(t_s=piece.t_s, text=piece.text) for piece in told.transcript)
    return Known(told.cues, pieces, path)
