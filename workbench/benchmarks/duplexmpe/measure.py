"""Measurements of Duplex-MPE: several rows a case, one for each metric that applies to a turn.

The values are those of `streams`, whose text defines them; `event` is the turn's position as text.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from pydantic import Field, StrictInt, StrictStr, model_validator

from workbench import spans as sp
from workbench.benchmarks.duplexmpe.cases import ATTRIBUTES, PREAMBLE, Label
from workbench.benchmarks.duplexmpe.rules import STEPS
from workbench.benchmarks.duplexmpe.streams import FLOATS, MERGE_GAP_S, OF_LABEL, TRUTHS, Stream, measure_streams
from workbench.brought import Seconds, Segments, given, name_of
from workbench.cases import Case, Cue, Record
from workbench.episodes import EpisodeRecord, unusable

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
    turns = _turns(case)
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
    near = _Near(agent), _Near(user)
    base = _labels(case)
    rows: dict[int, list[dict[str, Any]]] = {}
    for values in rows_of(found):
        del values["stream"]
        index = placed[values.pop("turn")]
        row = base | values
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


def rows_of(found: Mapping[str, np.ndarray]) -> Iterator[dict[str, Any]]:
    """The rows of `measure_streams` one by one; flags are True, False or None."""
    names = ("stream", "turn", "turn_label", "metric", "reason", *FLOATS, *TRUTHS)
    for values in zip(*(found[name].tolist() for name in names), strict=True):
        row = dict(zip(names, values, strict=True))
        for name in TRUTHS:
            row[name] = None if row[name] != row[name] else bool(row[name])
        yield row


def unmeasured(case: Case, reason: str) -> list[dict[str, Any]]:
    """The rows of a case that has no usable recording."""
    return [row for index, cue in enumerate(_turns(case)) for row in _empty(case, index, cue.label, reason)]


def _turns(case: Case) -> list[Cue]:
    return [cue for cue in case.cues if cue.label != PREAMBLE]


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


# -- segments that a user brings ---------------------------------------------------------------------------


class BroughtTurn(Record):
    """One human turn."""

    label: Label
    start_s: Seconds
    end_s: Seconds

    @model_validator(mode="after")
    def _forwards(self) -> BroughtTurn:
        if self.end_s <= self.start_s:
            raise ValueError(f"it ends ({self.end_s:g} s) before or as it starts ({self.start_s:g} s)")
        return self


class BroughtStream(Record):
    """One stream: turns in order of their start, the model's speech, the end of the recording (seconds)."""

    id: StrictStr | StrictInt
    turns: tuple[BroughtTurn, ...] = Field(min_length=1)
    model_spans: Segments
    end_s: Annotated[Seconds, Field(gt=0)]

    @model_validator(mode="after")
    def _ordered(self) -> BroughtStream:
        for index, (before, turn) in enumerate(pairwise(self.turns), start=1):
            if turn.start_s < before.start_s:
                raise ValueError(f"turn {index} starts before turn {index - 1}; list the turns in order of their start")
        return self


def measure_brought(items: list[BroughtStream], merge_gap_s: float) -> list[dict[str, Any]]:
    """The rows of every stream; `spans` are the merged ones in the window."""
    streams = [
        Stream(*([getattr(turn, name) for turn in item.turns] for name in ("label", "start_s", "end_s")),
               sp.as_spans(item.model_spans), item.end_s)
        for item in items
    ]  # fmt: skip
    heard = [sp.merge(sp.clip(stream.agent, 0, stream.stop_s), merge_gap_s) for stream in streams]
    out = []
    for row in rows_of(measure_streams(streams, merge_gap_s)):
        place = row.pop("stream")
        near = sp.touching(heard[place], row["w0_s"], row["w1_s"])
        out.append({**row, "item": place, "case": items[place].id, "event": row["turn"], "spans": near.tolist()})
    return out


def answer(row: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
    """What `workbench decide` gives back for one row; what is null is left out of the evidence."""
    evidence = {"label": row["turn_label"], "window": [row["w0_s"], row["w1_s"]]}
    if not isinstance(row["reason"], str):
        steps = {column: step for step, column in STEPS.items()}
        found = given(row, (name for name in (*FLOATS, *TRUTHS) if name not in ("w0_s", "w1_s")))
        evidence |= {steps.get(name, name): value for name, value in found.items()} | {"model_spans": row["spans"]}
    renamed = {"label": "heard", "limit": "threshold", "limit_value": "limit"}
    evidence |= {renamed[name]: value for name, value in given(verdict, renamed).items()}
    said = {name: verdict[name] for name in ("verdict", "reason")}
    return {"id": row["case"], "metric": row["metric"], "turn": row["turn"], **said, "evidence": evidence}


def spoilt(item: Any, why: str) -> list[dict[str, Any]]:
    """Unmeasurable answers in the place of an item that cannot be read, as far as its labels can be."""
    turns = item.get("turns") if isinstance(item, dict) else None
    turns = turns if isinstance(turns, list) else []
    labels = [turn.get("label") if isinstance(turn, dict) else None for turn in turns]
    return [
        {"id": name_of(item), "metric": metric, "turn": index, "verdict": "unmeasurable",
         "reason": f"not measurable: bad input: {why}", "evidence": {}}
        for index, label in enumerate(labels)
        for metric in (OF_LABEL.get(label, ()) if isinstance(label, str) else ())
    ]  # fmt: skip
