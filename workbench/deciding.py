"""Deciding: a benchmark's rules over a whole table of measurements, for one setting or for many at once.

Measure once, decide many: nothing here reads audio or asks a model. Single verdicts, sweeps, the values
at which verdicts turn and the sentences all go through the rules that the benchmark declares.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from workbench.contract import (
    FAIL,
    KEYS,
    NOT_JUDGED,
    PASS,
    REASONS,
    UNDECIDED,
    WORDS,
    Benchmark,
    Mark,
    Score,
    Threshold,
)
from workbench.errors import InputError

Settings = Mapping[str, "float | np.ndarray"]


def in_ms(seconds: np.ndarray) -> np.ndarray:
    """Seconds in milliseconds, rounded: 1.1 s * 1000 is 1100.0000000000002 and would miss a limit of 1100 ms.

    >>> float(in_ms(np.array([1.1]))[0])
    1100.0
    """
    return np.round(np.asarray(seconds, float) * 1000, 3)


def states(passed: np.ndarray, failed: np.ndarray | bool | None = None) -> np.ndarray:
    """PASS where `passed`, FAIL where `failed` (everywhere else, if not given), else UNDECIDED: int8.

    >>> states(np.array([True, False, False]), np.array([False, True, False])).tolist()
    [1, 0, -1]
    """
    failed = ~passed if failed is None else failed
    return np.where(passed, PASS, np.where(failed, FAIL, UNDECIDED)).astype(np.int8)


@dataclass(frozen=True)
class Flip:
    """Where one threshold turns a verdict: the row passes 'from', 'above', 'below' or 'up_to' this value."""

    threshold: Threshold
    value: float
    passes: Literal["from", "above", "below", "up_to"]

    def __str__(self) -> str:
        where = {"from": "at least {}", "above": "above {}", "below": "below {}", "up_to": "at most {}"}[self.passes]
        return f"passes with {self.threshold.heading} {where.format(self.threshold.words(self.value))}"


class Decider:
    """The rules of a benchmark over one frame of measurements, prepared for any number of settings.

    Parameters
    ----------
    benchmark : the rules and thresholds.
    frame : measurements, n rows, with the rule column and `reason`; columns that are lacking are null.

    Raises
    ------
    InputError : a row names a rule that the benchmark has not.
    """

    def __init__(self, benchmark: Benchmark, frame: pd.DataFrame):
        self.benchmark, self.frame = benchmark, frame
        self.usable = frame["reason"].isna().to_numpy()
        rule = frame[benchmark.rule_column].to_numpy(str)
        unknown = set(rule[self.usable]) - set(benchmark.rule)
        if unknown:
            raise InputError(
                f"{benchmark.title} has no rule {sorted(unknown)[0]!r}; its rules are {', '.join(benchmark.rule)}."
            )
        self._arrays: dict[str, np.ndarray] = {}
        self.rows = {name: np.flatnonzero((rule == name) & self.usable) for name in benchmark.rule}
        self.rows = {name: rows for name, rows in self.rows.items() if len(rows)}
        self._given = {
            name: {p: self.column(p)[rows] for p in benchmark.rule[name].parameters if p not in benchmark.threshold}
            for name, rows in self.rows.items()
        }
        self._own = {
            (name, limit): own[rows]
            for limit, threshold in benchmark.threshold.items()
            if threshold.per_case and not np.isnan(own := self.column(f"own_{limit}")).all()
            for name, rows in self.rows.items()
        }

    def __len__(self) -> int:
        return len(self.frame)

    def column(self, name: str) -> np.ndarray:
        """A column as rules see it: float64 with NaN for null, or str for labels; (n,)."""
        if name not in self._arrays:
            declared = self.benchmark.column.get(name)
            words = declared is not None and declared.kind in ("label", "text")
            if name not in self.frame:
                array = np.full(len(self.frame), "" if words else np.nan)
            else:
                series = self.frame[name]
                if words:
                    array = series.astype(object).where(series.notna(), "").to_numpy(str)
                else:
                    if series.dtype == object:
                        series = series.map({True: 1.0, False: 0.0}).fillna(pd.to_numeric(series, errors="coerce"))
                    array = pd.to_numeric(series, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
            self._arrays[name] = array
        return self._arrays[name]

    def states(self, settings: Settings | None = None, *, strict: bool = False) -> np.ndarray:
        """Every row under every setting.

        Parameters
        ----------
        settings : threshold -> value or array (k,); those left out stand at their default.
        strict : add what the rules `need`.

        Returns
        -------
        int8 (k, n) of PASS, FAIL, UNDECIDED, NOT_ELIGIBLE, NOT_JUDGED.

        Raises
        ------
        InputError : unknown threshold.
        """
        given = {name: np.atleast_1d(np.asarray(value, float)) for name, value in (settings or {}).items()}
        for name in given:
            self.benchmark.check_threshold(name)
        k = max((len(values) for values in given.values()), default=1)
        columns = {
            name: np.broadcast_to(given.get(name, np.array([threshold.default])), k)
            for name, threshold in self.benchmark.threshold.items()
        }
        out = np.full((k, len(self)), UNDECIDED, np.int8)
        for name, rows in self.rows.items():
            rule = self.benchmark.rule[name]
            taken = self.benchmark.thresholds_of(rule)
            # A rule sees each combination of its own thresholds once, however many settings there are.
            mine, back = _distinct([columns[limit] for limit in taken], k)
            limits = {limit: self._limit(name, limit, values) for limit, values in zip(taken, mine, strict=True)}
            found = self._call(rule.decide, name, limits)
            if strict and rule.needs:
                found = np.where((found == PASS) & (self.column(rule.needs)[rows] != 1.0), FAIL, found)
            out[:, rows] = found if found.ndim == 1 else found[back]
        return out

    def _limit(self, rule: str, name: str, values: np.ndarray) -> np.ndarray:
        """A threshold as a rule takes it: (k, 1), or (k, rows) where cases carry their own."""
        own = self._own.get((rule, name))
        values = values[:, None] if values.ndim == 1 else values
        return values if own is None else np.where(np.isnan(own), values, own)

    def _call(self, function: Any, rule: str, limits: Mapping[str, np.ndarray], **more: Any) -> np.ndarray:
        found = np.asarray(function(**self._given[rule], **limits, **more))
        return found.astype(np.int8) if found.dtype == bool else found

    def labels(self, settings: Mapping[str, float] | None = None) -> np.ndarray:
        """What was heard, in the benchmark's words: object (n,), None where nothing is said."""
        limits, state = self.benchmark.limits(settings), self.states(settings)[0]
        out = np.full(len(self), None, object)
        for name, rows in self.rows.items():
            label = self.benchmark.rule[name].label
            if label is None:
                continue
            given = {}
            for parameter in inspect.signature(label).parameters:
                if parameter == "state":
                    given[parameter] = state[rows]
                elif parameter in limits:
                    own = self._own.get((name, parameter))
                    value = np.full(len(rows), float(limits[parameter]))
                    given[parameter] = value if own is None else np.where(np.isnan(own), value, own)
                else:
                    given[parameter] = self.column(parameter)[rows]
            out[rows] = [word or None for word in label(**given)]
        return out

    def verdicts(self, settings: Mapping[str, float] | None = None) -> pd.DataFrame:
        """One row a measurement, with its evidence.

        Columns: case, event, metric, verdict and strict ('pass', 'fail', 'not_eligible', 'unmeasurable'), label,
        limit (the threshold's name), limit_value, reason (a sentence).
        """
        values = self.benchmark.limits(settings)
        state, strict = self.states(values)[0], self.states(values, strict=True)[0]
        label = self.labels(values)
        limit, limit_value = np.full(len(self), None, object), np.full(len(self), np.nan)
        own = {
            name: self.column(f"own_{name}")
            for name, threshold in self.benchmark.threshold.items()
            if threshold.per_case
        }
        names = self.frame[self.benchmark.rule_column].to_numpy(str)
        for rule in self.benchmark.rules:
            rows, taken = np.flatnonzero(names == rule.name), self.benchmark.thresholds_of(rule)
            if taken:
                limit[rows] = taken[0]
                limit_value[rows] = values[taken[0]]
                if taken[0] in own:
                    limit_value[rows] = np.where(np.isnan(own[taken[0]][rows]), values[taken[0]], own[taken[0]][rows])
        sentences = []
        columns = self.frame.columns.tolist()
        for place, cells in enumerate(zip(*(self.frame[name].tolist() for name in columns), strict=True)):
            row = dict(zip(columns, cells, strict=True))
            limits = values | {name: float(each[place]) for name, each in own.items() if each[place] == each[place]}
            sentences.append(self._sentence(row, int(state[place]), int(strict[place]), label[place], limits))
        return pd.DataFrame(
            {
                **{name: keys(self.frame)[name].tolist() for name in KEYS},
                "verdict": [WORDS[int(code)] for code in state],
                "strict": [WORDS[int(code)] for code in strict],
                "label": label,
                "limit": limit,
                "limit_value": limit_value,
                "reason": sentences,
            }
        )

    def _sentence(self, row: Mapping[str, Any], state: int, strict: int, label: str | None, limits: Mapping) -> str:
        code = row.get("reason")
        if isinstance(code, str):
            return f"not measurable: {(REASONS | dict(self.benchmark.reasons)).get(code, code)}"
        if state == NOT_JUDGED:
            return "not judged: the verdict hangs on what a judge says of it, and no judge has"
        text = self.benchmark.rule[row[self.benchmark.rule_column]].sentence(row, state, label, limits)
        return f"{text}; strict: {self.benchmark.variant}" if state == PASS and strict == FAIL else text

    def turning(
        self, threshold: str, settings: Mapping[str, float] | None = None, *, strict: bool = False, own: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """The values of one threshold at which rows turn, the others as set.

        Only numbers that a rule compares the threshold with can matter, and those are the row's own (in
        milliseconds for a threshold in ms). Each is tried, and a hair on either side of it.

        Parameters
        ----------
        own : move a case's own limit as well; otherwise such rows stay with theirs.

        Returns
        -------
        values : float (c, n), candidates by row, NaN where a row has fewer.
        passing : bool (3, c, n), whether the row passes just below, at and just above each.
        """
        values, moved = self.benchmark.limits(settings), self.benchmark.check_threshold(threshold)
        concerned = [name for name in self.rows if threshold in self.benchmark.rule[name].parameters]
        width = max((len(self._numbers(name)) for name in concerned), default=0)
        out, passing = np.full((width, len(self)), np.nan), np.zeros((3, width, len(self)), bool)
        for name in concerned:
            rule, rows = self.benchmark.rule[name], self.rows[name]
            found = np.array([self._given[name][column] for column in self._numbers(name)]).reshape(-1, len(rows))
            found = in_ms(found) if moved.unit == "ms" else np.round(found, 6)
            found = np.where((found >= 0) & (found <= moved.most), found, np.nan)
            above = np.minimum(np.nextafter(found, np.inf), moved.most)  # nobody can set more than the most
            tried = np.stack([np.nextafter(found, -np.inf), found, above]).reshape(-1, len(rows))
            limits = {
                limit: self._limit(name, limit, np.array([float(values[limit])]))
                for limit in self.benchmark.thresholds_of(rule)
            }
            limits[threshold] = tried if own else self._limit(name, threshold, tried)
            state = np.broadcast_to(self._call(rule.decide, name, limits), tried.shape)
            if strict and rule.needs:
                state = np.where(self.column(rule.needs)[rows] != 1.0, FAIL, state)
            out[: len(found), rows] = found
            passing[:, : len(found), rows] = (state == PASS).reshape(3, len(found), len(rows))
        return out, passing

    def _numbers(self, rule: str) -> list[str]:
        return [name for name, values in self._given[rule].items() if values.dtype.kind == "f"]

    def flips(self, settings: Mapping[str, float] | None = None, *, strict: bool = False) -> list[Flip | None]:
        """For each row the threshold value nearest to the one in force that turns its verdict, the others as set.

        Near is a share of the limit. None where the row is not measured or no single threshold turns it.
        """
        limits, state = self.benchmark.limits(settings), self.states(settings, strict=strict)[0]
        nearest, out = np.full(len(self), np.inf), [None] * len(self)
        for name, threshold in self.benchmark.threshold.items():
            values, passing = self.turning(name, limits, strict=strict, own=True)
            own = self.column(f"own_{name}") if threshold.per_case else np.full(len(self), np.nan)
            in_force = np.where(np.isnan(own), limits[name], own)
            turns = ~np.isnan(values) & passing.any(axis=0) & ~passing.all(axis=0) & (state >= FAIL)
            far = np.where(turns, np.abs(values - in_force) / np.maximum(np.abs(in_force), 1e-9), np.inf)
            for place in np.flatnonzero(turns.any(axis=0)):
                at = int(far[:, place].argmin())
                kind = _KINDS.get(tuple(passing[:, at, place].tolist()))
                if kind and far[at, place] < nearest[place]:
                    nearest[place] = far[at, place]
                    out[place] = Flip(threshold, float(values[at, place]), kind)
        return out


_KINDS = {(False, True, True): "from", (False, False, True): "above", (True, False, False): "below",
          (True, True, False): "up_to"}  # fmt: skip
"""Whether a row passes (just below, at, just above) a value -> how that is said."""


def _distinct(columns: Sequence[np.ndarray], k: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The distinct combinations of columns (k,), and for each row its place among them."""
    if not columns:
        return [], np.zeros(k, int)
    if k == 1:
        return list(columns), np.zeros(1, int)
    combined, back = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return list(combined.T), back.reshape(-1)


def keys(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns case, event, metric of a frame; '' where it lacks one."""
    return pd.DataFrame({name: frame.get(name, "") for name in KEYS}, index=frame.index)


def number(row: Mapping[str, Any], name: str) -> float | None:
    """A value of one row as a float; None for every kind of null."""
    value = row.get(name)
    return None if value is None or value != value else float(value)


def window_marks(row: Mapping[str, Any], onset: str, offset: str | None = None) -> list[Mark]:
    """The scored window of a row and its measured onset and offset (columns, seconds after w0); [] without a window."""
    w0, w1 = number(row, "w0_s"), number(row, "w1_s")
    if w0 is None or w1 is None:
        return []
    out = [Mark("window", w0, "scored window", w1)]
    for kind, column in (("onset", onset), ("offset", offset)):
        value = number(row, column) if column else None
        if value is not None:
            out.append(Mark(kind, w0 + value, f"{kind} {1000 * value:+.0f} ms"))
    return out


def latency(benchmark: Benchmark, frame: pd.DataFrame) -> np.ndarray:
    """Each row's latency in seconds, float (n,): the column that its rule names, NaN where there is none."""
    out, rule = np.full(len(frame), np.nan), frame[benchmark.rule_column].to_numpy(str)
    for name, each in benchmark.rule.items():
        if each.latency in frame:
            out = np.where(rule == name, pd.to_numeric(frame[each.latency], errors="coerce").to_numpy(float), out)
    return out


def rates(found: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Pass rate (k,) among the rows of `mask` that are measured under each setting; NaN where none is.

    >>> rates(np.array([[1, 0, -1], [1, 1, 1]], np.int8), np.array([True, True, True])).tolist()
    [0.5, 1.0]
    """
    among = found[:, mask]
    passed, measured = np.count_nonzero(among == PASS, axis=1), np.count_nonzero(among >= FAIL, axis=1)
    return np.where(measured > 0, passed / np.maximum(measured, 1), np.nan)


def scores(decider: Decider, settings: Settings, *, strict: bool = False) -> dict[str, np.ndarray]:
    """Every score of one system: name -> float (k,)."""
    found = decider.states(settings, strict=strict)
    return {name: score_of(found, score) for name, score in decider.benchmark.scores(decider.frame).items()}


def score_of(found: np.ndarray, score: Score) -> np.ndarray:
    """One score (k,) of the verdicts (k, rows), as `Decider.states` gives them."""
    return rates(found, score.plus) - (0.0 if score.minus is None else rates(found, score.minus))


def grid(
    benchmark: Benchmark,
    axes: Mapping[str, Sequence[float]] | None = None,
    base: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Every combination of the axes (the benchmark's own preset when None), the last fastest.

    base : the thresholds in force (the defaults when None), which are added where they are not in it.

    Raises
    ------
    InputError : an unknown threshold, an empty axis, a value that is no threshold.
    """
    axes = axes or benchmark.preset
    for name, values in axes.items():
        benchmark.check_threshold(name)
        if len(values) == 0:
            raise InputError(f"The axis {name} of the grid is empty; give it at least one value.")
        for value in values:
            benchmark.limits({name: float(value)})
    mesh = np.meshgrid(*(np.unique(np.asarray(values, float)) for values in axes.values()), indexing="ij")
    out = pd.DataFrame({name: values.ravel() for name, values in zip(axes, mesh, strict=True)})
    limits = benchmark.limits(base)
    default = {name: float(limits[name]) for name in axes}
    if not (out == pd.Series(default)).all(axis=1).any():
        out = pd.concat([out, pd.DataFrame([default])], ignore_index=True)
    return out
