"""Pieces -> one clip: each speech piece synthesised alone, each designed silence exact zeros.

Boundaries come from construction (sample counts), never from alignment; word times come from forced
alignment of each piece, shifted into the clip, and serve display only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.audio import to_pcm16
from workbench.cases import RATE_HZ, Segment, Word
from workbench.construct.alignment import say_and_align
from workbench.construct.markup import Piece
from workbench.construct.speech import SpeechCache

ASSEMBLY = 2
"""Version of this step; a change rebuilds every clip."""

JOIN_S = 0.12
"""Silence between two neighbouring speech pieces, since each was trimmed (ours)."""


@dataclass(frozen=True)
class Assembled:
    """A built clip: int16 (samples,) at 24 kHz, and where each piece lies in it (seconds)."""

    samples: np.ndarray
    segments: tuple[Segment, ...]


def assemble(pieces: list[Piece], voice: str, cache: SpeechCache) -> Assembled:
    """Build one clip.

    Raises
    ------
    InputError : a piece could not be synthesised and aligned; the message names its text.
    """
    parts: list[np.ndarray] = []
    segments: list[Segment] = []
    at = 0

    def silence(duration_s: float) -> int:
        samples = round(duration_s * RATE_HZ)
        parts.append(np.zeros(samples, np.int16))
        return samples

    for index, piece in enumerate(pieces):
        if piece.kind == "silence":
            length = silence(piece.duration_s)
            words: tuple[Word, ...] = ()
        else:
            if index and pieces[index - 1].kind == "speech":
                at += silence(JOIN_S)
            clip, aligned = say_and_align(cache, cache.engine, piece.text, voice)
            parts.append(to_pcm16(clip.samples))
            length = parts[-1].size
            words = tuple(
                Word(
                    text=word.text,
                    start_s=round(at / RATE_HZ + word.start_s, 3),
                    end_s=round(at / RATE_HZ + word.end_s, 3),
                )
                for word in aligned
            )
        segments.append(
            Segment(
                kind=piece.kind,
                text=piece.text,
                mark=piece.mark,
                start_s=round(at / RATE_HZ, 3),
                end_s=round((at + length) / RATE_HZ, 3),
                words=words,
            )
        )
        at += length
    return Assembled(np.concatenate(parts), tuple(segments))


def unbuilt(pieces: list[Piece]) -> tuple[Segment, ...]:
    """The same segments without times, for a dataset built without audio."""
    return tuple(Segment(kind=piece.kind, text=piece.text, mark=piece.mark) for piece in pieces)
