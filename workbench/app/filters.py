"""Filtering rows: masks, counts a filter, order and pass rates. Plain functions on frames, no widgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from workbench.pictures.texts import terms
from workbench.statistics import rate
from workbench.statistics.slices import outcomes

FIXED_FACETS = (
    "run",
    "benchmark",
    "verdict",
    "strict",
    "label",
    "level",
    "action",
    "role",
    "probe",
    "metric",
    "turn_label",
    "condition",
)
LATER_FACETS = ("error", "judge_label", "annotation", "matched", "instance", "speaker")
_MOST_VALUES = 60
_NOT_FACETS = {"case", "event", "conversation", "reason", "limit", "rationale", "role_name", "situation"}
RANGES = ("latency_s", "judge_score")
ORDERED = {"verdict": ("fail", "pass", "not_eligible", "unmeasurable", "not scored", "not recorded")}


@dataclass(frozen=True)
class Filters:
    """chosen : facet -> values kept (none chosen: all). ranges : column -> (low, high); rows without a
    value are left out. words : every word or "phrase" must occur in transcript, rationale, case id or reason."""

    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    words: str = ""


def facets_of(frame: pd.DataFrame) -> list[str]:
    """The columns worth filtering by, in order: fixed ones first, then a benchmark's further tags."""
    first = [name for name in FIXED_FACETS if name in frame]
    tags = [
        name for name in frame
        if name not in (*FIXED_FACETS, *LATER_FACETS) and name not in _NOT_FACETS and frame[name].dtype.kind not in "fc"
    ]  # fmt: skip
    last = [name for name in LATER_FACETS if name in frame]
    return [name for name in (*first, *tags, *last) if 1 <= frame[name].nunique() <= _MOST_VALUES]


class Table:
    """A frame prepared for filtering many times: each facet as codes, the text beside it.

    Masks are recomputed only for the facet that changed, which keeps 100,000 rows quick.
    """

    def __init__(self, frame: pd.DataFrame, texts: pd.Series):
        self.frame = frame
        self.texts = texts
        self.facets = facets_of(frame)
        self._codes: dict[str, tuple[np.ndarray, list[str]]] = {}
        for name in self.facets:
            codes, values = pd.factorize(_words(frame[name]), sort=True)
            self._codes[name] = (codes, [str(value) for value in values])
        self._kept: dict[tuple, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.frame)

    def values(self, facet: str) -> list[str]:
        return self._codes[facet][1] if facet in self._codes else []

    def _mask(self, key: tuple, make) -> np.ndarray:
        if key not in self._kept:
            if len(self._kept) > 64:
                self._kept.clear()
            self._kept[key] = make()
        return self._kept[key]

    def _masks(self, filters: Filters) -> dict[str, np.ndarray]:
        masks = {}
        for name, chosen in filters.chosen.items():
            if chosen and name in self._codes:
                codes, values = self._codes[name]
                wanted = np.array([value in chosen for value in values] or [False])
                masks[name] = self._mask((name, tuple(chosen)), lambda w=wanted, c=codes: w[c])
        for name, (low, high) in filters.ranges.items():
            if name in self.frame:
                masks[name] = self._mask(
                    (name, low, high),
                    lambda n=name, lo=low, hi=high: self.frame[n].between(lo, hi).to_numpy(bool),
                )
        for word in terms(filters.words):
            masks[f"word {word}"] = self._mask(("word", word), lambda w=word: self._has(w))
        return masks

    def _has(self, word: str) -> np.ndarray:
        found = np.zeros(len(self.frame), bool)
        for column in (self.texts, self.frame["case"], self.frame["reason"]):
            if len(column) == len(found):
                found |= column.str.casefold().str.contains(word, regex=False).fillna(False).to_numpy(bool)
        return found

    def keep(self, filters: Filters) -> np.ndarray:
        """Positions of the rows that pass every filter, in the frame's order."""
        kept = np.ones(len(self.frame), bool)
        for mask in self._masks(filters).values():
            kept &= mask
        return np.flatnonzero(kept)

    def counts(self, filters: Filters) -> dict[str, list[tuple[str, int]]]:
        """Facet -> (value, rows it would show): each facet is counted under all the other filters."""
        masks = self._masks(filters)
        refused = np.zeros(len(self.frame), np.int16)
        for mask in masks.values():
            refused += ~mask
        out = {}
        for name in self.facets:
            codes, values = self._codes[name]
            shown = refused == 0 if name not in masks else refused - ~masks[name] == 0
            numbers = np.bincount(codes[shown], minlength=len(values))
            pairs = [(value, int(n)) for value, n in zip(values, numbers, strict=True)]
            rank = {value: at for at, value in enumerate(ORDERED.get(name, ()))}
            out[name] = sorted(pairs, key=lambda pair: rank.get(pair[0], len(rank)))
        return out


def _words(column: pd.Series) -> pd.Series:
    """A column as text; nothing where a run has no such tag."""
    return column.astype(str).where(column.notna(), "").astype(str)


def ordered(frame: pd.DataFrame, rows: np.ndarray, column: str, descending: bool) -> np.ndarray:
    """The positions sorted by a column; rows without a value come last, equal ones keep their order."""
    if not column or column not in frame or not len(rows):
        return rows
    values = frame[column].iloc[rows].reset_index(drop=True)
    if values.dtype.kind not in "fiub":
        values = values.astype(str).where(values.astype(str) != "")
    return rows[values.sort_values(ascending=not descending, kind="stable", na_position="last").index.to_numpy()]


def pass_rates(frame: pd.DataFrame, by: Iterable[str]) -> pd.DataFrame:
    """Passed, measured, rows, rate and its interval a group; unmeasured rows are counted, never rated."""
    by = list(by)
    words = frame[by].apply(_words).reset_index(drop=True)
    outcome, conversation = outcomes(frame["verdict"]), pd.factorize(frame["conversation"].astype(str))[0]
    rows = []
    for names, part in words.groupby(by, sort=True):
        at = part.index.to_numpy()
        found = rate(outcome[at], conversation[at])
        counts = {"passed": found.numerator, "measured": found.denominator, "rows": len(at)}
        ends = {"rate": found.value, "low": found.low, "high": found.high, "note": found.note}
        rows.append(dict(zip(by, names, strict=True)) | counts | ends)
    return pd.DataFrame(rows, columns=[*by, "passed", "measured", "rows", "rate", "low", "high", "note"])
