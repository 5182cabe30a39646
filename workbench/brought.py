"""Verdicts for segments that a user brings: own detector, own annotations, no audio; one way for every benchmark.

A benchmark says how one item is read and measured (`contract.Brought`); reading the list, refusing what
cannot be meant, deciding and keeping the order are here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, ValidationError

from workbench.contract import Benchmark
from workbench.datasets import describe
from workbench.deciding import Decider
from workbench.errors import InputError

MOST_S = 1e6
"""Later than this (eleven days) a time is not in seconds."""
LEAST_S = 1e-6


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"a number of seconds is needed, not {type(value).__name__}")
    if not 0 <= value <= MOST_S:
        raise ValueError(f"{value:g} is no time in a recording; give seconds from its start, at most {MOST_S:g}")
    return float(value)


def _interval(value: Any) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError("give [start, end] in seconds")
    start, end = map(_seconds, value)
    if end - start < LEAST_S:
        raise ValueError(f"[{start:g}, {end:g}] is not an interval: it does not end after it starts")
    return start, end


def _segments(value: Any) -> tuple[tuple[float, float], ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("give a list of [start, end] pairs in seconds")
    out = []
    for place, pair in enumerate(value):
        try:
            out.append(_interval(pair))
        except ValueError as error:
            raise ValueError(f"span {place}: {error}") from None
    return tuple(out)


Seconds = Annotated[float, BeforeValidator(_seconds)]
Interval = Annotated[tuple[float, float], BeforeValidator(_interval)]
Segments = Annotated[tuple[tuple[float, float], ...], BeforeValidator(_segments)]


def name_of(item: Any) -> str | int | None:
    """The id by which a bad item can still be named; None where it has none that can be printed."""
    named = item.get("id") if isinstance(item, dict) else None
    if isinstance(named, int) and not isinstance(named, bool):
        return named
    return named if isinstance(named, str) and named.isprintable() else None


def given(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The values of a row that are not null, as JSON can hold them."""
    out = {}
    for name in names:
        value = row.get(name)
        value = value.item() if isinstance(value, np.generic) else value
        if value is not None and not (isinstance(value, float) and not math.isfinite(value)):
            out[name] = value
    return out


def decide(benchmark: Benchmark, items: Any, settings: Mapping[str, float] | None = None) -> tuple[list, list[str]]:
    """Verdicts for the items of a list, in its order.

    Parameters
    ----------
    items : the parsed JSON list. settings : thresholds that differ from the defaults, and perhaps `merge_gap_s`.

    Returns
    -------
    The verdicts, and a sentence for each item that could not be used; such an item keeps its place, unmeasurable.

    Raises
    ------
    InputError : not a list, an unknown threshold, or a benchmark that takes no segments.
    """
    if benchmark.brought is None:
        raise InputError(f"{benchmark.title} does not decide segments that are brought; run and score a dataset.")
    settings = dict(settings or {})
    merge_gap_s = settings.pop("merge_gap_s", benchmark.merge_gap_s)
    benchmark.limits(settings)
    if not isinstance(items, list):
        raise InputError(f"A JSON list is needed, found {type(items).__name__}; wrap what you have in [ ].")
    read, problems, seen, out = [], [], set(), {}
    for place, item in enumerate(items):
        try:
            one = benchmark.brought.model.model_validate(item)
            if isinstance(one.id, str) and not one.id.isprintable():
                raise InputError("field 'id': it holds characters that cannot be printed; give a plain name")
            if one.id in seen:
                raise InputError(f"the id {one.id!r} stands already in an earlier item; give it another")
        except (ValidationError, InputError) as error:
            why = describe(error) if isinstance(error, ValidationError) else str(error).rstrip(".")
            named = name_of(item)
            problems.append(f"item {place}{f' (id {named!r})' if named is not None else ''}: {why}.")
            out[place] = benchmark.brought.spoilt(item, why)
            continue
        seen.add(one.id)
        out[place] = []
        read.append((place, one))
    rows = benchmark.brought.measure([one for _, one in read], merge_gap_s) if read else []
    if rows:
        frame = pd.DataFrame(rows).astype({"reason": object})
        for row, verdict in zip(rows, Decider(benchmark, frame).verdicts(settings).to_dict("records"), strict=True):
            out[read[row["item"]][0]].append(benchmark.brought.answer(row, verdict))
    return [verdict for place in sorted(out) for verdict in out[place]], problems
