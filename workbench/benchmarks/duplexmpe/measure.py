"""Measurements of Duplex-MPE: several rows a case, one for each metric that applies to a turn.

The values are those of `streams`, whose text defines them; `event` is the turn's position as text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.benchmarks.duplexmpe.authored import ATTRIBUTES
from workbench.benchmarks.duplexmpe.cases import PREAMBLE
from workbench.benchmarks.duplexmpe.streams import FLOATS, MERGE_GAP_S, OF_LABEL, TRUTHS, Stream, measure_streams
from workbench.cases import Case
from workbench.episodes import EpisodeRecord

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
    values = {name: found[name].tolist() for name in ("turn", "turn_label", "metric", "reason", *FLOATS, *TRUTHS)}
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in (dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)):
        index = placed[row.pop("turn")]
        row |= {"spans": _near(agent, row["w0_s"], row["w1_s"]), "user_spans": _near(user, row["w0_s"], row["w1_s"])}
        rows.setdefault(index, []).append(_labels(case, index, row["turn_label"]) | row)
    out = []
    for index, cue in enumerate(turns):
        if index in rows:
            out += rows[index]
        else:
            reason = played[cue.id].reason if cue.id in played else None
            out += [_empty(case, index, cue.label, metric, reason or "not_played") for metric in OF_LABEL[cue.label]]
    return out


def unmeasured(case: Case, reason: str) -> list[dict[str, Any]]:
    """The rows of a case that has no usable recording."""
    turns = [cue for cue in case.cues if cue.label != PREAMBLE]
    return [
        _empty(case, index, cue.label, metric, reason)
        for index, cue in enumerate(turns)
        for metric in OF_LABEL[cue.label]
    ]


def _labels(case: Case, index: int, label: str) -> dict[str, Any]:
    return {
        "case": case.id,
        "event": str(index),
        "conversation": case.conversation,
        **{name: case.tags.get(name) for name in TAGS},
        "turn_label": label,
    }


def _empty(case: Case, index: int, label: str, metric: str, reason: str) -> dict[str, Any]:
    values = dict.fromkeys((*FLOATS, *TRUTHS, "spans", "user_spans"))
    return _labels(case, index, label) | {"metric": metric, "reason": reason} | values


def _near(spans: np.ndarray, w0: float, w1: float) -> list[list[float]]:
    """The spans in and around a window, for display."""
    first = np.searchsorted(spans[:, 1], w0 - _AROUND_S, "right")
    last = np.searchsorted(spans[:, 0], w1 + _AROUND_S, "left")
    return np.round(spans[first:last], 6).tolist()
