"""Measurements of Duplex-MPE: several rows a case, one for each metric that applies to a turn.

The values are those of `streams`, whose text defines them; `event` is the turn's position as text.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np

from workbench.benchmarks.duplexmpe.authored import ATTRIBUTES
from workbench.benchmarks.duplexmpe.cases import PREAMBLE
from workbench.benchmarks.duplexmpe.streams import FLOATS, MERGE_GAP_S, OF_LABEL, TRUTHS, Stream, measure_streams
from workbench.cases import Case
from workbench.episodes import EpisodeRecord, unusable

METRICS = ("fresh_onset", "silence", "yield", "fresh_onset_permissive", "response_presence", "window_response")
CAPABILITIES = METRICS[:3]
"""Decided from timing. The fourth capability, answer accuracy, needs a judge (see `judged`)."""
DIAGNOSTICS = METRICS[3:]
"""The permissive reading of fresh onset, and the paper's two coverage diagnostics."""

TAGS = ("scenario", "condition", "bucket", "speakers", *ATTRIBUTES)
_AROUND_S = 3.0


def measure(
    case: Case, record: EpisodeRecord, user: np.ndarray, agent: np.ndarray, merge_gap_s: float = MERGE_GAP_S
) -> list[dict[str, Any]]:
    """The rows of one case. user, agent : spans of the two channels, not yet merged.

    The user's turns are where the record says they were played: construction knows their bounds
    better than a detector, so `user` is only shown.
    """
    if record.status == "error":
        return unmeasured(case, f"error: {record.error.kind}")
    turns = [cue for cue in case.cues if cue.label != PREAMBLE]
    played = {cue.id: cue for cue in record.cues}
    placed = [index for index, cue in enumerate(turns) if cue.id in played and played[cue.id].start_s is not None]
    stream = Stream(
        [turns[index].label for index in placed],
        [played[turns[index].id].start_s for index in placed],
        [played[turns[index].id].end_s for index in placed],
        agent,
        record.duration_s,
    )
    found = measure_streams([stream], merge_gap_s)
    names = ("turn", "turn_label", "metric", "reason", *FLOATS, *TRUTHS)
    near = _Near(agent), _Near(user)
    base = _labels(case)
    rows: dict[int, list[dict[str, Any]]] = {}
    for values in zip(*(found[name].tolist() for name in names), strict=True):
        row = base | dict(zip(names, values, strict=True))
        for name in TRUTHS:
            row[name] = None if row[name] != row[name] else bool(row[name])
        index = placed[row.pop("turn")]
        row["event"] = str(index)
        row["spans"], row["user_spans"] = (spans(row["w0_s"], row["w1_s"]) for spans in near)
        rows.setdefault(index, []).append(row)
    out = []
    for index, cue in enumerate(turns):
        if index in rows:
            late = unusable(record, played[cue.id].start_s, max(row["w1_s"] for row in rows[index]))
            out += _empty(case, index, cue.label, late) if late else rows[index]
        else:
            reason = played[cue.id].reason if cue.id in played else None
            out += _empty(case, index, cue.label, reason or "not_played")
    return out


def unmeasured(case: Case, reason: str) -> list[dict[str, Any]]:
    """The rows of a case that has no usable recording."""
    turns = [cue for cue in case.cues if cue.label != PREAMBLE]
    return [row for index, cue in enumerate(turns) for row in _empty(case, index, cue.label, reason)]


def _labels(case: Case) -> dict[str, Any]:
    """What all rows of a case begin with; `event` keeps its place as the second column."""
    tags = {name: case.tags.get(name) for name in TAGS}
    return {"case": case.id, "event": "", "conversation": case.conversation, **tags}


def _empty(case: Case, index: int, label: str, reason: str) -> list[dict[str, Any]]:
    values = dict.fromkeys((*FLOATS, *TRUTHS, "spans", "user_spans"))
    own = {"event": str(index), "turn_label": label, "reason": reason}
    return [_labels(case) | values | own | {"metric": metric} for metric in OF_LABEL[label]]


class _Near:
    """The spans in and around a window, for display."""

    def __init__(self, spans: np.ndarray):
        self.pairs = np.round(spans, 6).tolist()
        self.starts, self.ends = [pair[0] for pair in self.pairs], [pair[1] for pair in self.pairs]

    def __call__(self, w0: float, w1: float) -> list[list[float]]:
        return self.pairs[bisect_right(self.ends, w0 - _AROUND_S) : bisect_left(self.starts, w1 + _AROUND_S)]
