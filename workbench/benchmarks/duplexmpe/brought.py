"""Verdicts for segments that a user brings: turns with labels and bounds, and the model's speech; no audio."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field, ValidationError, model_validator

from workbench import spans as sp
from workbench.benchmarks.duplexmpe import decide
from workbench.benchmarks.duplexmpe.authored import LABELS, Label
from workbench.benchmarks.duplexmpe.evidence import verdicts
from workbench.benchmarks.duplexmpe.streams import FLOATS, MERGE_GAP_S, OF_LABEL, TRUTHS, Stream, measure_streams
from workbench.cases import Record
from workbench.contract import with_defaults
from workbench.datasets import describe
from workbench.errors import InputError

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


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


class Brought(Record):
    """One stream: turns in order of their start, the model's speech, the end of the recording (seconds)."""

    id: str | int
    turns: list[BroughtTurn] = Field(min_length=1)
    model_spans: list[tuple[float, float]]
    end_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _ordered(self) -> Brought:
        for index in range(1, len(self.turns)):
            if self.turns[index].start_s < self.turns[index - 1].start_s:
                raise ValueError(f"turn {index} starts before turn {index - 1}; list the turns in order of their start")
        return self


def decide_brought(items: Any, settings: Mapping[str, float] | None = None) -> tuple[list[dict], list[str]]:
    """Verdicts in order of items, turns and metrics: one for each metric that applies to each turn.

    items : the parsed JSON list. Returns the verdicts, and a sentence for each item that could not be
    used; as far as its turns have readable labels, they are there as 'unmeasurable'.

    Raises
    ------
    InputError : not a list, or an unknown threshold.
    """
    settings = dict(settings or {})
    merge_gap_s = settings.pop("merge_gap_s", MERGE_GAP_S)
    values = with_defaults(decide.DEFAULTS, settings)
    if not isinstance(items, list):
        raise InputError(f"A JSON list of streams is needed, found {type(items).__name__}; wrap the stream in [ ].")
    streams, problems, seen, spoilt = [], [], set(), {}
    good: list[Brought | None] = []
    for index, item in enumerate(items):
        try:
            brought, stream = _read(item)
            if brought.id in seen:
                raise InputError(f"the id {brought.id!r} stands already in an earlier item; give it another")
        except InputError as error:
            named = item.get("id") if isinstance(item, dict) else None
            problems.append(f"item {index}{f' (id {named!r})' if named is not None else ''}: {error}.")
            spoilt[index] = _unusable(item, str(error))
            good.append(None)
            continue
        seen.add(brought.id)
        good.append(brought)
        streams.append(stream)
    answers = iter(_answers([brought for brought in good if brought], streams, merge_gap_s, values))
    out = []
    for index, brought in enumerate(good):
        out += spoilt[index] if brought is None else next(answers)
    return out, problems


def _read(item: Any) -> tuple[Brought, Stream]:
    try:
        brought = Brought.model_validate(item)
    except ValidationError as error:
        raise InputError(describe(error)) from None
    try:
        spans = sp.as_spans(brought.model_spans)
    except InputError as error:
        raise InputError(f"field 'model_spans': {str(error).rstrip('.')}") from None
    turns = brought.turns
    stream = Stream(
        [turn.label for turn in turns], [turn.start_s for turn in turns], [turn.end_s for turn in turns], spans,
        brought.end_s,
    )  # fmt: skip
    return brought, stream


def _answers(
    brought: list[Brought], streams: list[Stream], merge_gap_s: float, values: Mapping[str, float]
) -> list[list[dict]]:
    if not streams:
        return []
    found = measure_streams(streams, merge_gap_s)
    frame = pd.DataFrame(found)
    frame[list(TRUTHS)] = frame[list(TRUTHS)].astype(object).replace({1.0: True, 0.0: False})
    frame["case"] = [brought[index].id for index in found["stream"]]
    frame["event"] = found["turn"].astype(str)
    decided = verdicts(frame, values)
    out: list[list[dict]] = [[] for _ in streams]
    for row, verdict in zip(frame.to_dict("records"), decided.to_dict("records"), strict=True):
        stream = streams[row["stream"]]
        heard = sp.merge(sp.clip(stream.agent, 0, stream.stop_s), merge_gap_s)
        near = sp.touching(heard, row["w0_s"], row["w1_s"])
        out[row["stream"]].append(
            {
                "id": brought[row["stream"]].id,
                "metric": row["metric"],
                "turn": int(row["turn"]),
                "verdict": verdict["verdict"],
                "reason": verdict["reason"],
                "evidence": _evidence(row, verdict, near),
            }
        )
    return out


def _evidence(row: Mapping[str, Any], verdict: Mapping[str, Any], near: np.ndarray) -> dict[str, Any]:
    """What the verdict rests on, null values left out; `model_spans` are the merged ones in the window."""
    evidence: dict[str, Any] = {"label": row["turn_label"], "window": [row["w0_s"], row["w1_s"]]}
    if not isinstance(row["reason"], str):
        names = [name for name in (*FLOATS, *TRUTHS) if name not in ("w0_s", "w1_s")]
        renamed = {column: step for step, column in decide.STEP_COLUMNS.items()}
        evidence |= {renamed.get(name, name): row[name] for name in names if _there(row[name])}
        evidence["model_spans"] = near.tolist()
    for name, key in (("label", "heard"), ("limit", "threshold"), ("limit_value", "limit")):
        if _there(verdict[name]):
            evidence[key] = verdict[name]
    return {name: bool(value) if isinstance(value, np.bool_) else value for name, value in evidence.items()}


def _there(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


def _unusable(item: Any, why: str) -> list[dict]:
    """Unmeasurable rows for a spoilt item, as far as its labels can be read."""
    turns = item.get("turns") if isinstance(item, dict) else None
    rows = []
    for index, turn in enumerate(turns if isinstance(turns, list) else []):
        label = turn.get("label") if isinstance(turn, dict) else None
        for metric in OF_LABEL[label] if isinstance(label, str) and label in LABELS else ():
            named = item.get("id")
            rows.append(
                {"id": named if isinstance(named, str | int) else None, "metric": metric, "turn": index,
                 "verdict": "unmeasurable", "reason": f"not measurable: bad input: {why}", "evidence": {}}
            )  # fmt: skip
    return rows
