"""The contract: everything that a benchmark declares, and all that the rest of the workbench knows of one.

A benchmark is a folder (a package of its own, if somebody else's) whose `BENCHMARK` is named by the
entry-point group `duplex_workbench.benchmarks`. Core, judges, analysis, report, inspector and command line
take columns, thresholds, rules, marks, judges, scores and tables from here and name no benchmark.

Conventions
-----------
A measurement is one row, named by the columns case, event, metric (the last two '' where a case has one
row). Its `reason` is a short code where nothing could be measured, else null. The column that
`Benchmark.rule_column` names says which rule decides the row.

A rule is one public function. Its parameters are names of columns and of thresholds, and it is called
with arrays: columns (n,), thresholds broadcastable to (k, n) for k settings. Numbers and flags come as
float64 with NaN for null (a flag is 1.0 or 0.0), labels as str. It returns bool or one of the states
below, (n,) or (k, n). Comparisons with NaN are False, so what is null never meets a limit.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import pandas as pd

from workbench.cases import Case, Move
from workbench.construct.building import Recomputed
from workbench.datasets import Dataset, Header
from workbench.errors import InputError

if TYPE_CHECKING:
    from workbench.judges.base import Judge
    from workbench.runs import Run

GROUP = "duplex_workbench.benchmarks"
KEYS = ("case", "event", "metric")
"""What names a row of measurements, verdicts and tables of cases."""

PASS, FAIL, UNDECIDED, NOT_ELIGIBLE, NOT_JUDGED = 1, 0, -1, -2, -3
"""States of a row: at least `FAIL` is measured. Undecided: what was recorded leaves both verdicts possible.
Not eligible: outside the denominator by the rule's own definition. Not judged: it hangs on a judgement that
nobody has made."""

WORDS = {PASS: "pass", FAIL: "fail", UNDECIDED: "unmeasurable", NOT_ELIGIBLE: "not_eligible",
         NOT_JUDGED: "unmeasurable"}  # fmt: skip
"""State -> verdict."""

REASONS = {
    "not_recorded": "the case has not been recorded",
    "no_audio": "the recording of the case cannot be read",
    "bad_record": "the record of the case cannot be read or is of another case",
    "same_channels": "both channels of the recording hold the same signal",
    "user_bleed": "the user is heard in the agent's channel",
    "no_transcript": "the agent gives no text of what it says",
}
"""Reason codes of every benchmark, in words; a benchmark adds its own."""


@dataclass(frozen=True)
class Column:
    """One column of a benchmark's measurements that people see or filter by.

    heading : above tables and filters. kind : 'label' a word, 'text' free text, 'flag' yes or no, 'number',
    'seconds'. filter : rows may be filtered by it; `open` shows that group at first. split : rates may be
    split by it. table : a column of the table of cases. order : its values in order. names : another column
    that holds the long name of each value.
    """

    name: str
    heading: str
    kind: Literal["label", "number", "seconds", "flag", "text"] = "label"
    unit: str = ""
    filter: bool = False
    open: bool = False
    split: bool = False
    table: bool = False
    order: tuple[str, ...] = ()
    names: str | None = None


@dataclass(frozen=True)
class Threshold:
    """A limit that a rule takes. unit : 's', 'ms', '' ... grid : values of the paper's own sweep.

    most : the greatest value that makes sense (1 for a share). per_case : a case may carry its own value, in
    the measurements' column `own_{name}` (null: the general one).
    """

    name: str
    heading: str
    unit: str
    default: float
    grid: tuple[float, ...] = ()
    per_case: bool = False
    about: str = ""
    most: float = math.inf

    def words(self, value: float) -> str:
        """A value with its unit.

        >>> Threshold("wait_s", "longest wait", "s", 2.0).words(1.5)
        '1.5 s'
        """
        return f"{value:g} {self.unit}".strip()

    @property
    def range(self) -> tuple[float, float, float]:
        """Least and greatest value and step of a slider, from the unit and the grid."""
        most = max([self.default, *self.grid])
        if self.unit == "ms":
            return 0.0, math.ceil(2 * most / 100) * 100.0, 10.0
        if self.unit == "s":
            return 0.0, float(math.ceil(2 * most)), 0.05
        return (0.0, 1.0, 0.01) if 0 < self.default <= 1 else (0.0, float(math.ceil(3 * most)), 1.0)

    @property
    def axis(self) -> tuple[float, ...]:
        """Values of this threshold on a map: the grid, or a few around the default."""
        values = self.grid or tuple(self.default * step for step in (0.5, 0.75, 1.0, 1.25))
        return tuple(sorted({*values, self.default}))


@dataclass(frozen=True)
class Rule:
    """What makes a row pass.

    name : its value in the rule column. decide : the public function, see the module's conventions.
    sentence(row, state, label, limits) : why, with the numbers it rests on; `limits` are the thresholds in
    force for this row. label : like `decide` (it may also take `state`), gives what was heard as words.
    needs : a flag that the strict reading asks for in addition. latency : the column shown as the row's
    latency. scored : False for diagnostics, which describe and do not score.
    """

    name: str
    decide: Callable[..., np.ndarray]
    sentence: Callable[[Mapping[str, Any], int, str | None, Mapping[str, float]], str]
    label: Callable[..., np.ndarray] | None = None
    needs: str | None = None
    latency: str | None = None
    scored: bool = True

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.decide).parameters)


@dataclass(frozen=True)
class Mark:
    """Something on the clock of a recording, in words: a scored window, a measured onset or offset, a limit.

    threshold : the limit's name, where moving the mark moves it; `at_zero_s` is where the limit would be 0.
    """

    kind: Literal["window", "onset", "offset", "limit"]
    start_s: float
    words: str
    end_s: float | None = None
    threshold: str | None = None
    at_zero_s: float | None = None


@dataclass(frozen=True)
class Score:
    """A number by which systems are ranked: the pass rate over `plus`, less that over `minus` (masks over rows)."""

    heading: str
    plus: np.ndarray
    minus: np.ndarray | None = None
    better: Literal["more", "less"] = "more"

    @property
    def sign(self) -> int:
        """What turns its values into such of which more is better."""
        return -1 if self.better == "less" else 1


@dataclass(frozen=True)
class Chart:
    """A picture of a table: rates or gaps with intervals by `by`, or a heat map of rates by `by` and `across`.

    where : column -> value, the rows that are drawn. order, across_order : values in order. names : the
    table's column that holds the long name of each value of `by`.
    """

    kind: Literal["rates", "gaps", "heatmap"]
    by: str
    title: str = ""
    across: str | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    across_order: tuple[str, ...] = ()
    names: str | None = None
    horizontal: bool = False


@dataclass(frozen=True)
class Section:
    """A table of the report: its title, an explanation, and how it is shown.

    kind : 'rates' (column `value` with passed, measured, excluded, low, high), 'gaps' (column `value` with
    low, high and {side}_passed, {side}_measured for both `sides`), or 'plain'. folded : long, closed at
    first. always : said to be empty where it is.
    """

    name: str
    title: str
    about: str = ""
    kind: Literal["rates", "gaps", "plain"] = "plain"
    value: str = "rate"
    sides: tuple[str, ...] = ()
    folded: bool = False
    always: bool = False
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True)
class Step:
    """One named step on the way into a denominator. passed : None where it was not asked or is not known."""

    name: str
    passed: bool | None
    words: str


@dataclass(frozen=True)
class BuildOptions:
    """How a dataset is to be built.

    limit : at most so many cases, chosen so that every cell comes first. scripts : a folder of
    scripts that replaces the shipped ones. engine : spec of the speech engine; without one, Kokoro for a
    full build where it is installed, else hibari.
    """

    out: Path
    audio: bool = True
    limit: int | None = None
    engine: str | None = None
    scripts: Path | None = None
    workers: int | None = None
    dask: str | None = None


class Build(Protocol):
    def __call__(self, options: BuildOptions) -> Header: ...


@dataclass(frozen=True)
class Brought:
    """How segments that a user brings are read: no audio, own detector, own annotations.

    model : the pydantic model of one item of the list. measure(items, merge_gap_s) : rows of measurements for
    read items, each with `item`, its place in `items`. answer(row, verdict) : what is given back for a row.
    spoilt(item, why) : what is given back for an item that cannot be read.
    """

    model: type
    measure: Callable[[list[Any], float], list[dict[str, Any]]]
    answer: Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]
    spoilt: Callable[[Any, str], list[dict[str, Any]]]


@dataclass(frozen=True)
class Trial:
    """Systems on a slice of the benchmark: what `workbench demo` and the notebooks' practice runs do.

    limit : at most so many cases. systems : name -> (agent, options). judges : by name. first : this
    benchmark is meant where none is named.
    """

    limit: int | None
    systems: Mapping[str, tuple[str, Mapping[str, Any]]]
    judges: tuple[str, ...] = ()
    first: bool = False


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    cases : how many the full grid has. about : one sentence.
    columns, thresholds, rules, rule_column : of its measurements (see the classes). variant : what the strict
        reading asks in addition, '' where there is none. reasons : reason codes in words.
    build : authored data -> dataset folder. validate_authored : sentences about leakage and structure of the
        authored data. validate(dataset, complete) : sentences about a built dataset. recompute(dataset,
        scripts=None, listen=False) : what expanding the authored data again finds, and what could not be checked.
        counts(cases) : name ->
        number or dict of numbers, as `workbench validate` prints them.
    measure(case, record, user_spans, agent_spans, merge_gap_s=...) : the rows of one case. merge_gap_s : spans
        closer than this are one utterance. unmeasured(case, reason) : the rows of a case without a usable recording.
    join(measurements, judgements) : the measurements with columns from judges (name -> rows), for benchmarks
        whose verdicts rest on judgements.
    scores(frame) : name -> Score over the rows of a frame; `ranking` is the one that ranks systems.
    tables(measurements, verdicts) : name -> frame; `sections` say how they are shown; `notes` stand below.
    marks(row) : where onset, offset, limit and window of a row (measurement and verdict) lie on the clock.
    latencies(rows) : rows with latency_s, limit_s, kind for pictures; None: from the rules' latency columns.
    steps(row) : the named steps by which a row comes to count; [] for rows that have none.
    speakers(case) : cue -> who speaks, where that is not the voice's name.
    moves(case, style) : what the 'oracle' and the 'contrary' agent do. agents : its own agents, name -> entry as in
        `workbench.agents.registry`.
    judges, brought, author, demo, practice : see `Judge`, `Brought`, `Trial`; author(out, model=..., ...) writes
        new scripts.
    """

    name: str
    title: str
    about: str
    cases: int
    columns: tuple[Column, ...]
    thresholds: tuple[Threshold, ...]
    rules: tuple[Rule, ...]
    build: Build
    validate_authored: Callable[[], list[str]]
    validate: Callable[[Dataset, bool], list[str]]
    measure: Callable[..., list[dict[str, Any]]]
    unmeasured: Callable[[Case, str], list[dict[str, Any]]]
    scores: Callable[[pd.DataFrame], dict[str, Score]]
    ranking: str
    tables: Callable[..., dict[str, pd.DataFrame]]
    sections: tuple[Section, ...]
    marks: Callable[[Mapping[str, Any]], list[Mark]]
    moves: Callable[[Case, str], tuple[Move, ...]]
    merge_gap_s: float = 0.3
    rule_column: str = "metric"
    variant: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    agents: Mapping[str, Any] = field(default_factory=dict)
    judges: tuple[Judge, ...] = ()
    counts: Callable[[tuple[Case, ...]], dict[str, Any]] = field(default=lambda cases: {})
    recompute: Callable[..., Recomputed] | None = None
    join: Callable[[pd.DataFrame, Mapping[str, pd.DataFrame]], pd.DataFrame] | None = None
    latencies: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    steps: Callable[[Mapping[str, Any]], list[Step]] | None = None
    speakers: Callable[[Case], Mapping[str, str]] | None = None
    brought: Brought | None = None
    author: Callable[..., Any] | None = None
    demo: Trial | None = None
    practice: Trial | None = None

    @cached_property
    def rule(self) -> dict[str, Rule]:
        """The rules by name."""
        return {rule.name: rule for rule in self.rules}

    @cached_property
    def threshold(self) -> dict[str, Threshold]:
        """The thresholds by name."""
        return {threshold.name: threshold for threshold in self.thresholds}

    @cached_property
    def column(self) -> dict[str, Column]:
        """The declared columns by name."""
        return {column.name: column for column in self.columns}

    @cached_property
    def preset(self) -> dict[str, tuple[float, ...]]:
        """The grid of the paper's own sweep: threshold -> values."""
        return {threshold.name: threshold.grid for threshold in self.thresholds if threshold.grid}

    def limits(self, settings: Mapping[str, float] | None = None) -> dict[str, float]:
        """Every threshold: the default, or what `settings` says.

        Raises
        ------
        InputError : unknown name, or a value that is not a finite number of at least 0.
        """
        for name, value in (settings or {}).items():
            most = self.check_threshold(name).most
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and math.isfinite(value) and 0 <= value <= most):
                bound = "" if math.isinf(most) else f" and at most {most:g}"
                raise InputError(f"The threshold {name} cannot be {value!r}; give a number of at least 0{bound}.")
        return {name: threshold.default for name, threshold in self.threshold.items()} | dict(settings or {})

    def check_threshold(self, name: str) -> Threshold:
        """The threshold called `name`.

        Raises
        ------
        InputError : there is none of that name.
        """
        if name not in self.threshold:
            raise InputError(f"There is no threshold {name!r}; thresholds are {', '.join(self.threshold)}.")
        return self.threshold[name]

    def thresholds_of(self, rule: Rule) -> tuple[str, ...]:
        """The thresholds that a rule takes, its own limit first."""
        return tuple(name for name in rule.parameters if name in self.threshold)


def names() -> tuple[str, ...]:
    """Every benchmark that is installed, by name."""
    return tuple(_entries())


def default() -> Benchmark:
    """The benchmark that is meant where none is named."""
    found = [one for one in installed().values() if isinstance(one, Benchmark)]
    if not found:
        raise InputError("No benchmark is installed; install the workbench again.")
    return next((one for one in found if one.demo is not None and one.demo.first), found[0])


def installed() -> dict[str, Benchmark | InputError]:
    """Every benchmark by name, or why it cannot be loaded: one broken package does not hide the others."""
    out: dict[str, Benchmark | InputError] = {}
    for name in names():
        try:
            out[name] = get(name)
        except InputError as error:
            out[name] = error
    return out


def get(name: str) -> Benchmark:
    """The benchmark called `name`.

    Raises
    ------
    InputError : there is none of that name, or it cannot be loaded.
    """
    if name not in _entries():
        raise InputError(f"There is no benchmark {name!r}; benchmarks are {', '.join(_entries())}.")
    return _load(name)


@cache
def _load(name: str) -> Benchmark:
    try:
        found = _entries()[name].load()
    except Exception as error:  # whatever a foreign package does when it is imported
        raise InputError(
            f"The benchmark {name!r} cannot be loaded ({type(error).__name__}: {error}); mend or remove the package "
            f"whose entry point {_entries()[name].value!r} it is."
        ) from error
    if not isinstance(found, Benchmark):
        raise InputError(f"The entry point {name!r} of {GROUP} is no benchmark; it must name a contract.Benchmark.")
    return found


@cache
def _entries() -> dict[str, Any]:
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def of(run: Run) -> Benchmark:
    """The benchmark of a run."""
    return get(run.meta.benchmark)
