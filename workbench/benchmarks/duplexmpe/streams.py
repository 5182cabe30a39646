"""Measuring many streams at once: array arithmetic over every turn and every span.

Conventions
-----------
Agent segments less than 0.8 s apart merge first. Inside, times are whole microseconds (int64), so
that a limit is met exactly and never missed by a rounding error. A span is [start, end): one that
ends as a turn begins is not active there, one that starts as T ends is new. `stop_s` is the end of
the recording; what lies past it is not known, and `known_s` or `most_s` say what that leaves open. A
window that lacks less at its end than the detector's shortest span (`spans.LEAST_SPEECH_S`) is whole.

One row a metric that applies to a turn:

T     fresh_onset, fresh_onset_permissive   onset_s, active_at_start, known_s (since T ended)
      response_presence                     speech_s and most_s from the end of T to the next turn, to
                                            the end of the recording if T is last, 60 s at most
N1-3  silence                               speech_s and most_s from the turn's start to its end + 0.5 s
N4_Q  window_response                       speech_s and most_s from the question's start to N4_R (or + 3 s)
N4_R  yield                                 quiet_question, began_in_gap, speaking_at_resolution (null:
                                            not known); release_s, resume_s, resume_end_s, known_s since
                                            N4_R began; window_s (the turn + 0.5 s)

speech_s is what is heard in the window, most_s the most it could be if the unrecorded rest were
speech. release_s is the last end of speech that begins before the window of N4_R closes, resume_s and
resume_end_s the first speech after that (a limit may lie past a short turn's window).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.benchmarks.duplexmpe.cases import ANSWER_GAP_S, ONSET_S, RESPONSE_S, SILENT, TAIL_S, YIELD_S
from workbench.errors import InputError
from workbench.spans import LEAST_SPEECH_S

MERGE_GAP_S = 0.8
"""Agent segments closer than this are one (read off public clips)."""

OF_LABEL = {
    "T": ("fresh_onset", "fresh_onset_permissive", "response_presence"),
    **dict.fromkeys(SILENT, ("silence",)),
    "N4_Q": ("window_response",),
    "N4_R": ("yield",),
}
"""The metrics that apply to a turn, in the order of their rows."""

FLOATS = ("w0_s", "w1_s", "onset_s", "known_s", "speech_s", "most_s", "release_s", "resume_s", "resume_end_s",
          "window_s")  # fmt: skip
TRUTHS = ("active_at_start", "quiet_question", "began_in_gap", "speaking_at_resolution")
WORDS = ("turn_label", "metric", "reason")

_US = 1_000_000
_NEVER = np.iinfo(np.int64).max // 4
_LEAST = round(LEAST_SPEECH_S * _US)


@dataclass(frozen=True)
class Stream:
    """The turns of one stream on its clock and what the agent said.

    labels (n,), start_s and end_s (n,) seconds in order of start; agent spans float (m, 2), sorted and
    disjoint; stop_s is the end of the recording.
    """

    labels: Sequence[str]
    start_s: Sequence[float]
    end_s: Sequence[float]
    agent: np.ndarray
    stop_s: float


def measure_streams(streams: Sequence[Stream], merge_gap_s: float = MERGE_GAP_S) -> dict[str, np.ndarray]:
    """Every row of many streams: column -> array (rows,); NaN and None stand for null.

    `stream` and `turn` are positions; `TRUTHS` are 1.0 and 0.0. Rows come in order of stream, turn and
    `OF_LABEL`.

    Raises
    ------
    InputError : a merging gap that is negative or not finite.
    """
    if not (np.isfinite(merge_gap_s) and merge_gap_s >= 0):
        raise InputError(f"A merging gap of {merge_gap_s} s makes no sense; give seconds, 0 or more.")
    turns = _Turns(streams)
    spans = _Spans(streams, turns, round(merge_gap_s * _US))
    blocks = [*_t(turns, spans), _n(turns, spans), _q(turns, spans), _r(turns, spans)]
    rows = np.concatenate([block["row"] for block in blocks])
    rank = np.concatenate([np.full(len(block["row"]), block["rank"]) for block in blocks])
    place = np.empty(len(rows), int)
    place[np.lexsort((rank, rows))] = np.arange(len(rows))  # where each row of the blocks goes
    out: dict[str, np.ndarray] = {name: np.full(len(rows), None, object) for name in WORDS}
    out |= {name: np.full(len(rows), np.nan) for name in (*FLOATS, *TRUTHS)}
    out |= {"stream": np.empty(len(rows), int), "turn": np.empty(len(rows), int)}
    at = 0
    for block in blocks:
        where = place[at : at + len(block["row"])]
        at += len(where)
        out["stream"][where], out["turn"][where] = turns.stream[block["row"]], turns.index[block["row"]]
        for name, values in block.items():
            if name not in ("row", "rank"):
                out[name][where] = values
    return out


def _us(seconds: Any) -> np.ndarray:
    return np.rint(np.asarray(seconds, float) * _US).astype(np.int64)


class _Turns:
    """The turns of all streams on one axis: stream k is shifted by k * stride (microseconds)."""

    def __init__(self, streams: Sequence[Stream]):
        counts = np.array([len(stream.labels) for stream in streams], int)
        self.stream = np.repeat(np.arange(len(streams)), counts)
        self.index = np.arange(len(self.stream)) - np.repeat(np.cumsum(counts) - counts, counts)
        self.label = np.array([label for stream in streams for label in stream.labels], object)
        start = _us([time for stream in streams for time in stream.start_s])
        end = _us([time for stream in streams for time in stream.end_s])
        self.stops = _us([stream.stop_s for stream in streams])
        # Far enough apart that no window of one stream reaches the next.
        stride = int(max(self.stops.max(initial=0), end.max(initial=0))) + 200 * _US
        self.shifts = np.arange(len(streams), dtype=np.int64) * stride
        self.shift = self.shifts[self.stream]
        self.start, self.end = start + self.shift, end + self.shift
        self.stop = self.stops[self.stream] + self.shift
        self.next = np.full(len(self.start), _NEVER, np.int64)
        if len(self.start) > 1:
            self.next[:-1] = np.where(self.stream[1:] == self.stream[:-1], self.start[1:], _NEVER)
        self.question, self.resolution = self._resolutions()

    def _resolutions(self) -> tuple[np.ndarray, np.ndarray]:
        """For each N4_R the question it resolves, the last open one before it, and the other way round; else -1."""
        question, resolution = np.full((2, len(self.label)), -1)
        waiting, owner = -1, -1
        for row in np.flatnonzero((self.label == "N4_Q") | (self.label == "N4_R")):
            if self.stream[row] != owner:
                waiting, owner = -1, self.stream[row]
            if self.label[row] == "N4_Q":
                waiting = row
            elif waiting >= 0:
                question[row], resolution[waiting] = waiting, row
                waiting = -1
        return question, resolution

    def rows(self, *labels: str) -> np.ndarray:
        return np.flatnonzero(np.isin(self.label, labels))

    def block(self, rows: np.ndarray, metric: str, w0: np.ndarray, w1: np.ndarray, rank: int = 0) -> dict[str, Any]:
        shift = self.shift[rows]
        return {
            "row": rows,
            "rank": rank,
            "turn_label": self.label[rows],
            "metric": np.full(len(rows), metric, object),
            "w0_s": (w0 - shift) / _US,
            "w1_s": (w1 - shift) / _US,
            "reason": np.where(self.start[rows] >= self.stop[rows], "outside", None),
        }


class _Spans:
    """The merged agent spans of all streams on the same axis."""

    def __init__(self, streams: Sequence[Stream], turns: _Turns, gap: int):
        counts = [len(stream.agent) for stream in streams]
        owner = np.repeat(np.arange(len(streams)), counts)
        flat = np.concatenate([np.reshape(stream.agent, (-1, 2)) for stream in streams] or [np.empty((0, 2))])
        both = _us(flat)
        both[:, 1] = np.minimum(both[:, 1], turns.stops[owner])  # past the end of the recording nothing is known
        kept = both[:, 0] < both[:, 1]
        both, owner = both[kept] + turns.shifts[owner[kept], None], owner[kept]
        apart = np.ones(len(both), bool)
        apart[1:] = (owner[1:] != owner[:-1]) | (both[1:, 0] - both[:-1, 1] >= gap)
        self.gap = gap
        self.start = both[apart, 0]
        self.end = both[np.append(apart[1:], True)[: len(both)], 1]
        self.passed = np.append(0, np.cumsum(self.end - self.start))
        self._starts, self._ends = np.append(self.start, _NEVER), np.append(self.end, -_NEVER)

    def covered(self, at: np.ndarray) -> np.ndarray:
        """Microseconds of speech before each moment."""
        count = np.searchsorted(self.start, at, "left")  # spans that started before it
        return self.passed[count] - np.maximum(self._ends[count - 1] - at, 0)

    def speech(self, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        end = np.maximum(begin, end)
        return self.covered(end) - self.covered(begin)

    def next_start(self, at: np.ndarray) -> np.ndarray:
        """Start of the first span that starts at or after each moment; _NEVER when there is none."""
        return self._starts[np.searchsorted(self.start, at, "left")]

    def next_end(self, at: np.ndarray) -> np.ndarray:
        """End of that span."""
        return self._ends[np.searchsorted(self.start, at, "left")]

    def last_end(self, at: np.ndarray) -> np.ndarray:
        """End of the last span that starts before each moment; -_NEVER when there is none."""
        return self._ends[np.searchsorted(self.start, at, "left") - 1]


def _window(turns: _Turns, spans: _Spans, rows: np.ndarray, w0: np.ndarray, w1: np.ndarray) -> dict[str, np.ndarray]:
    """Speech in [w0, w1), and the most there could be were the unrecorded rest of it speech."""
    stop = turns.stop[rows]
    heard = spans.speech(w0, np.minimum(w1, stop))
    rest = np.maximum(w1 - np.maximum(stop, w0), 0)
    rest = np.where(rest < _LEAST, 0, rest)
    # Speech right after the recording would also close the gap to the last span, where that is short.
    silent = stop - np.maximum(spans.last_end(stop), w0)
    bridged = np.where((rest > 0) & (stop > w0) & (silent < spans.gap) & (spans.last_end(stop) > w0), silent, 0)
    return {"speech_s": heard / _US, "most_s": (heard + rest + bridged) / _US}


def _known(begin: np.ndarray, stop: np.ndarray, closes: np.ndarray) -> np.ndarray:
    """Seconds that are known since `begin`, of a window that closes at `closes`."""
    missing = closes - stop
    return (np.where((missing > 0) & (missing < _LEAST), closes, stop) - begin) / _US


def _first_reason(reason: np.ndarray, *others: tuple[np.ndarray, str]) -> np.ndarray:
    out = reason.astype(object)
    for mask, word in others:
        out = np.where((out == None) & mask, word, out)  # noqa: E711  (elementwise)
    return out


def _t(turns: _Turns, spans: _Spans) -> list[dict[str, Any]]:
    rows = turns.rows("T")
    end, stop = turns.end[rows], turns.stop[rows]
    closes = end + round(ONSET_S * _US)
    onset = spans.next_start(end)
    there = onset < stop
    values = {
        "onset_s": np.where(there, (np.where(there, onset, end) - end) / _US, np.nan),
        "active_at_start": spans.last_end(end) > end,
        "known_s": _known(end, stop, closes),
    }
    out = []
    for rank, metric in enumerate(OF_LABEL["T"][:2]):
        block = turns.block(rows, metric, end, closes, rank) | values
        block["reason"] = _first_reason(block["reason"], (end > stop, "outside"))
        out.append(block)
    limit = end + round(RESPONSE_S * _US)
    # After a last T the window is open until the recording ends, so nothing of it is unseen.
    closes = np.where(turns.next[rows] == _NEVER, np.maximum(stop, end), turns.next[rows])
    w1 = np.minimum(closes, limit)
    block = turns.block(rows, OF_LABEL["T"][2], end, w1, 2) | _window(turns, spans, rows, end, w1)
    block["reason"] = _first_reason(block["reason"], (end >= stop, "outside"), (w1 <= end, "no_window"))
    return [*out, block]


def _n(turns: _Turns, spans: _Spans) -> dict[str, Any]:
    rows = turns.rows(*SILENT)
    w0, w1 = turns.start[rows], turns.end[rows] + round(TAIL_S * _US)
    return turns.block(rows, "silence", w0, w1) | _window(turns, spans, rows, w0, w1)


def _q(turns: _Turns, spans: _Spans) -> dict[str, Any]:
    rows = turns.rows("N4_Q")
    resolved = turns.resolution[rows]
    w0, end = turns.start[rows], turns.end[rows]
    w1 = np.where(resolved >= 0, np.maximum(turns.start[resolved], end), end + round(ANSWER_GAP_S * _US))
    return turns.block(rows, "window_response", w0, w1) | _window(turns, spans, rows, w0, w1)


def _r(turns: _Turns, spans: _Spans) -> dict[str, Any]:
    rows = turns.rows("N4_R")
    question = turns.question[rows]  # -1 takes the last row, and its reason below says that there is none
    q0, q1 = turns.start[question], turns.end[question]
    r0, stop = turns.start[rows], turns.stop[rows]
    closes = turns.end[rows] + round(TAIL_S * _US)
    until = np.maximum(r0 + round(YIELD_S * _US), closes)
    talked = spans.speech(q0, np.minimum(q1, stop)) > 0
    onset = spans.next_start(q1)
    release, resume = spans.last_end(closes), spans.next_start(closes)
    there = resume < stop

    def known(value: np.ndarray, certain: np.ndarray) -> np.ndarray:
        return np.where(certain, value, np.nan)

    block = turns.block(rows, "yield", r0, until)
    block["reason"] = _first_reason(np.where(question < 0, "no_question", None), (q0 >= stop, "outside"))
    return block | {
        "quiet_question": known(~talked, talked | (q1 - stop < _LEAST)),
        "began_in_gap": known(onset < r0, (onset < np.minimum(r0, stop)) | (r0 - stop < _LEAST)),
        "speaking_at_resolution": known(spans.last_end(r0) > r0, stop > r0),
        "release_s": np.where(release > r0, (np.maximum(release, r0) - r0) / _US, 0.0),
        "resume_s": np.where(there, (np.where(there, resume, r0) - r0) / _US, np.nan),
        "resume_end_s": np.where(there, (np.where(there, spans.next_end(closes), r0) - r0) / _US, np.nan),
        "known_s": _known(r0, stop, until),
        "window_s": (closes - r0) / _US,
    }
