"""Scripts with markers -> ordered pieces of speech and designed silence.

`<pause:2.5s>` and `<chunk_gap:1.2s>` are silences; `<check:PHRASE>` and `<barge_in:CONTENT>` are
speech with a role in the probe (the four markers of the DuplexSpeechBench-IFEval appendix);
`<chunk:CONTENT>` (a dictated chunk) and `<flag:PHRASE>` (the words that carry a red flag) are ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

SILENCES = ("pause", "chunk_gap")
SPEECHES = ("chunk", "check", "flag", "barge_in")
_MARKER = re.compile(r"<([a-z_]+):([^<>]*)>")
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


@dataclass(frozen=True)
class Piece:
    """One stretch of a script: `mark` is '' for plain text; `duration_s` is set for silences only."""

    kind: Literal["speech", "silence"]
    text: str = ""
    mark: str = ""
    duration_s: float | None = None

    @property
    def shape(self) -> str:
        """How a probe's structure names this piece: 'text', 'chunk', 'pause:2.5' ..."""
        return f"{self.mark}:{self.duration_s:.1f}" if self.kind == "silence" else self.mark or "text"


def parse(script: str) -> list[Piece]:
    """Split a script at its markers.

    Raises
    ------
    ValueError : unknown marker, malformed duration, empty content, or a stray angle bracket; the
        message quotes it.
    """
    pieces: list[Piece] = []
    at = 0
    for match in _MARKER.finditer(script):
        _plain(script[at : match.start()], pieces)
        name, content = match.group(1), " ".join(match.group(2).split())
        if name in SILENCES:
            seconds = _SECONDS.fullmatch(content)
            if not seconds or float(seconds.group(1)) <= 0:
                raise ValueError(f"the marker {match.group(0)!r} needs a duration such as 1.5s")
            pieces.append(Piece("silence", mark=name, duration_s=float(seconds.group(1))))
        elif name in SPEECHES:
            if not re.search(r"\w", content):
                raise ValueError(f"the marker {match.group(0)!r} holds no words")
            pieces.append(Piece("speech", content, name))
        else:
            known = ", ".join(SILENCES + SPEECHES)
            raise ValueError(f"the marker {match.group(0)!r} is unknown; markers are {known}")
        at = match.end()
    _plain(script[at:], pieces)
    if not any(piece.kind == "speech" for piece in pieces):
        raise ValueError("the script holds no spoken text")
    return pieces


def _plain(text: str, pieces: list[Piece]) -> None:
    text = " ".join(text.split())
    if "<" in text or ">" in text:
        raise ValueError(f"there is a stray angle bracket in {text!r}; write markers as <name:content>")
    if re.search(r"\w", text):
        pieces.append(Piece("speech", text))
    elif text and pieces and pieces[-1].kind == "speech" and not pieces[-1].mark:
        raise ValueError(f"there is text without words ({text!r}) between markers")


def shape(script: str) -> list[str]:
    return [piece.shape for piece in parse(script)]


def spoken(script: str) -> str:
    """The words alone, as a listener hears them."""
    return " ".join(piece.text for piece in parse(script) if piece.kind == "speech")


def anchor_s(anchor: str, segments: tuple) -> float:
    """Resolve an anchor such as 'pause.1.start', 'chunk_gap.last.end', 'turn.end' or 'turn.end+8.0'.

    segments : built `workbench.cases.Segment`s of one cue. Returns seconds after the cue's start.
    The end of the turn is the end of its last speech segment.

    Raises
    ------
    ValueError : when no segment fits the anchor.
    """
    base, _, plus = anchor.partition("+")
    offset_s = float(plus) if plus else 0.0
    name, *rest = base.split(".")
    if name == "turn":
        speech = [segment for segment in segments if segment.kind == "speech"]
        return round((0.0 if rest == ["start"] else speech[-1].end_s) + offset_s, 3)
    nth, edge = rest
    marked = [segment for segment in segments if segment.mark == name]
    try:
        segment = marked[-1] if nth == "last" else marked[int(nth) - 1]
    except IndexError:
        raise ValueError(f"the anchor {anchor!r} finds no {nth} segment marked {name!r}") from None
    return round((segment.start_s if edge == "start" else segment.end_s) + offset_s, 3)
