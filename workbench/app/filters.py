"""Filtering rows: masks, counts a filter, order and pass rates. Plain functions on frames, no widgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from workbench.app.run_rows import columns_of
from workbench.contract import Column
from workbench.pictures.texts import terms
from workbench.statistics import rates
from workbench.statistics.slices import outcomes

_MOST_VALUES = 60
_ALWAYS = ("run", "case", "verdict")
"""Columns that every table has."""


@dataclass(frozen=True)
class Filters:
    """chosen : facet -> values kept (none chosen: all). ranges : column -> (low, high); rows without a
    value are left out. words : every word or "phrase" must occur in transcript, rationale, case id or reason."""

    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    words: str = ""


def facets_of(frame: pd.DataFrame, columns: Mapping[str, Column]) -> list[str]:
    """The columns that rows are filtered by their values, in order; seconds and continuous numbers have ranges."""
    return [
        name for name, column in columns.items()
        if column.filter and name in frame and frame[name].dtype.kind != "f"
        and 1 <= frame[name].nunique() <= _MOST_VALUES
    ]  # fmt: skip


class Table:
    """A frame prepared for filtering many times: each facet as codes, the text beside it. columns : as declared.

    Masks are recomputed only for the facet that changed, which keeps 100,000 rows quick.
    """

    def __init__(self, frame: pd.DataFrame, texts: pd.Series, columns: Mapping[str, Column]):
        self.frame = frame
        self.texts = texts
        self.columns = columns
        self.facets = facets_of(frame, columns)
        self._codes: dict[str, tuple[np.ndarray, list[str]]] = {}
        for name in self.facets:
            codes, values = pd.factorize(_words(frame[name]), sort=True)
            self._codes[name] = (codes, [str(value) for value in values])
        self._kept: dict[tuple, np.ndarray] = {}
        self._shown: dict[tuple, dict[str, Column]] = {}

    def __len__(self) -> int:
        return len(self.frame)

    def shown(self, benchmarks: Iterable[str] | None = None) -> dict[str, Column]:
        """The columns of tables of rows of these benchmarks (all by default), without those in which nothing stands."""
        wanted = tuple(sorted(self.frame["benchmark"].unique() if benchmarks is None else benchmarks))
        if wanted not in self._shown:
            part = self.frame[self.frame["benchmark"].isin(wanted)]
            self._shown[wanted] = {
                name: column for name, column in columns_of(wanted).items()
                if column.table and name in part and (name in _ALWAYS or _says_something(part[name]))
            }  # fmt: skip
        return self._shown[wanted]

    def splits(self, benchmarks: Iterable[str]) -> list[str]:
        """What pass rates of rows of these benchmarks may be split by."""
        return [name for name, column in columns_of(benchmarks).items() if column.split and any(self.values(name))]

    @property
    def ranges(self) -> list[str]:
        """The columns of numbers that rows are filtered by from the least to the greatest."""
        return [
            name for name, column in self.columns.items()
            if column.filter and name in self.frame and name not in self.facets and self.frame[name].dtype.kind == "f"
        ]  # fmt: skip

    def long_names(self, name: str) -> dict[str, str]:
        """Value -> long name, of a column that has such."""
        other = self.columns[name].names
        if other is None or other not in self.frame:
            return {}
        return dict(zip(_words(self.frame[name]), _words(self.frame[other]), strict=True))

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
                    (name, low, high), lambda n=name, lo=low, hi=high: self.frame[n].between(lo, hi).to_numpy(bool)
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
            rank = {value: at for at, value in enumerate(self.columns[name].order)}
            out[name] = sorted(pairs, key=lambda pair: rank.get(pair[0], len(rank)))
        return out


def _says_something(column: pd.Series) -> bool:
    return bool(column.notna().any() if column.dtype.kind == "f" else _words(column).ne("").any())


def _words(column: pd.Series) -> pd.Series:
    """A column as text; nothing where a run has no such tag."""
    return column.astype(str).where(column.notna(), "").astype(str)


def ordered(frame: pd.DataFrame, rows: np.ndarray, sort: str) -> np.ndarray:
    """The positions sorted by a column, '-' before its name for descending; rows without a value come last."""
    column = sort.lstrip("-")
    if not column or column not in frame or not len(rows):
        return rows
    values = frame[column].iloc[rows].reset_index(drop=True)
    if values.dtype.kind not in "fiub":
        values = values.astype(str).where(values.astype(str) != "")
    return rows[values.sort_values(ascending=column == sort, kind="stable", na_position="last").index.to_numpy()]


def pass_rates(frame: pd.DataFrame, by: Iterable[str]) -> pd.DataFrame:
    """Passed, measured, rows, rate and its interval a group; unmeasured rows are counted, never rated.

    The interval is that of the report: conversations are what is independent, not their cases.
    """
    by = list(by)
    groups = frame[by].apply(_words).groupby(by, sort=True)
    out = pd.DataFrame([*groups.groups] if len(by) > 1 else [(name,) for name in groups.groups], columns=by)
    group, (cluster, clusters) = groups.ngroup().to_numpy(), pd.factorize(frame["conversation"].astype(str))
    outcome, shape = outcomes(frame["verdict"]), (len(clusters), len(out))
    at = cluster * len(out) + group
    passed, measured = (
        np.bincount(at, weights, minlength=shape[0] * shape[1]).reshape(shape)
        for weights in (np.nan_to_num(outcome), ~np.isnan(outcome))
    )
    found = rates(passed, measured) if len(frame) else []
    out["passed"], out["measured"] = ([getattr(one, name) for one in found] for name in ("numerator", "denominator"))
    out["rows"] = np.bincount(group, minlength=len(out))
    out["rate"] = pd.Series([one.value for one in found], dtype=float)
    for name in ("low", "high", "note"):
        out[name] = [getattr(one, name) for one in found]
    return out
