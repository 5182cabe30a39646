"""One run as rows: labels from its cases, verdicts and latencies from its scores, judges, errors, transcripts.

Nothing here fails on an unfinished or damaged run: what cannot be read becomes a sentence in
`problems`, and the rest is shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError
from pydantic_core import from_json

from workbench import contract
from workbench.cases import Case
from workbench.contract import KEYS, Benchmark, Column
from workbench.datasets import CASES, describe
from workbench.deciding import latency
from workbench.episodes import record_path
from workbench.errors import InputError
from workbench.files import content_key
from workbench.judges.base import Judge
from workbench.judges.records import Judgement, JudgeRecord, judge_folders, load_latest, load_record
from workbench.runs import JUDGED, MEASUREMENTS, META, SCORE, VERDICTS, Contents, read_folder, read_scores

CORE: dict[str, Any] = {
    "run": "", "case": "", "event": "", "metric": "", "benchmark": "", "conversation": "", "verdict": "", "strict": "",
    "label": "", "limit": "", "limit_value": float("nan"), "reason": "", "latency_s": float("nan"), "error": "",
    "judge_score": float("nan"), "judge_label": "", "annotation": "",
}  # fmt: skip
"""Column -> what stands in it when nothing is known."""

_VERDICTS = ("fail", "pass", "not_eligible", "unmeasurable", "not scored", "not recorded")
_FIRST = (
    Column("run", "run", filter=True, open=True, table=True),
    Column("case", "case", table=True),
    Column("event", "event", table=True),
)
_LAST = (
    Column("metric", "metric", filter=True, open=True, split=True, table=True),
    Column("benchmark", "benchmark", filter=True, split=True),
    Column("verdict", "verdict", filter=True, open=True, table=True, order=_VERDICTS),
    Column("strict", "strict verdict", filter=True, table=True, order=_VERDICTS),
    Column("label", "heard as", filter=True, open=True, split=True, table=True),
    Column("latency_s", "latency", kind="seconds", unit="s", filter=True, table=True),
    Column("judge_score", "judge", kind="number", filter=True, table=True),
    Column("judge_label", "judge's label", filter=True),
    Column("reason", "why", kind="text", table=True),
    Column("error", "error", kind="text", filter=True, table=True),
    Column("annotation", "annotation", kind="text", filter=True, table=True),
    Column("annotator", "annotator", filter=True),
    Column("own_label", "own label", filter=True),
)


def benchmark_of(name: str) -> Benchmark | None:
    """The benchmark of that name, or None where it is not installed: its runs are shown without its columns."""
    try:
        return contract.get(name)
    except InputError:
        return None


def columns_of(names: Iterable[str]) -> dict[str, Column]:
    """Every column that runs of these benchmarks may have, in the order of tables: the shared ones around theirs."""
    declared = [column for name in names if (found := benchmark_of(name)) for column in found.columns]
    out = {column.name: column for column in _FIRST}
    for column in (*declared, *_LAST):
        out.setdefault(column.name, column)
    return out


@dataclass
class RunRows:
    """What is held of one run. `rows` has `CORE`, the tags and `text` (what a search looks through).

    records : case -> stamp of its record's file, kind of error, words.
    """

    name: str
    contents: Contents
    signature: tuple
    score: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    rows: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=[*CORE, "text"]))
    records: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.contents.folder

    @property
    def recorded(self) -> set[str]:
        return self.contents.recorded

    @property
    def token(self) -> str:
        """Names the run in addresses, so that no name from outside is ever joined to a path."""
        return content_key(str(self.folder), length=12)

    @property
    def benchmark(self) -> str:
        return str(self.contents.meta.get("benchmark", ""))

    def case(self, case_id: str) -> Case:
        """One case, read from its line.

        Raises
        ------
        InputError : unknown, or the line is not a case.
        """
        if case_id not in self.contents.places:
            raise InputError(f"{self.folder}: the run has no case {case_id!r}; see {self.folder / CASES}.")
        start, size = self.contents.places[case_id]
        with (self.folder / CASES).open("rb") as stream:
            stream.seek(start)
            line = stream.read(size)
        try:
            return Case.model_validate_json(line)
        except ValidationError as error:
            raise InputError(f"{self.folder / CASES}, case {case_id}: {describe(error)}.") from None

    def stamp(self, case_id: str) -> int:
        """When the case's record was written; 0 where it is gone."""
        try:
            return record_path(self.folder / "episodes", case_id).stat().st_mtime_ns
        except OSError:
            return 0

    def read_record(self, case_id: str) -> None:
        """Take the error and the transcript of one record, once for each version of the file."""
        stamp = self.stamp(case_id)
        if self.records.get(case_id, (0,))[0] == stamp != 0:
            return
        try:
            raw = from_json(record_path(self.folder / "episodes", case_id).read_bytes())
            fault = raw.get("error") or {}
            said = "".join(piece["text"] for piece in raw.get("transcript") or ())
            kind, message = str(fault.get("kind") or ""), fault.get("message") or ""
            self.records[case_id] = (stamp, kind, f"{said} {message}".strip())
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            self.records[case_id] = (0, "unreadable record", "")

    def fill_records(self) -> None:
        """Put what the records say into the rows."""
        rows = self.rows.copy()
        known = {case_id: entry for case_id, entry in self.records.items() if case_id in self.recorded}
        error = rows["case"].map({case_id: entry[1] for case_id, entry in known.items()})
        said = rows["case"].map({case_id: entry[2] for case_id, entry in known.items()}).astype(object).fillna("")
        rows["error"] = error.where(error.notna() & (error != ""), rows["error"])
        rows["text"] = (said + "\n" + rows["rationale"]).str.casefold()
        self.rows = rows
        self.unread = [case_id for case_id in self.unread if case_id not in self.records]


def signature(folder: Path) -> tuple:
    """Changes whenever something that is read here changes. An unfinished file is renamed into place, never grown."""
    watched = [folder / META, folder / CASES, folder / "episodes", folder / "annotations.jsonl"]
    watched += [folder / "scores" / name for name in (SCORE, MEASUREMENTS, JUDGED, VERDICTS)]
    watched += sorted(folder.glob("judgements/*/judgements.jsonl"))
    out = []
    for path in watched:
        try:
            stat = path.stat()
            out.append((path.name, stat.st_mtime_ns, stat.st_size))
        except OSError:
            out.append((path.name, 0, 0))
    return tuple(out)


def read_run(name: str, folder: Path, stamp: tuple, known: dict | None = None) -> RunRows:
    """Read a run, finished or not. `known` are records read earlier, taken over where the file is the same."""
    contents = read_folder(folder)
    run = RunRows(name, contents, stamp, problems=list(contents.problems))
    recorded, cases = len(run.recorded), len(contents.cases)
    if recorded < cases:
        run.problems.append(f"{recorded or 'None'} of {cases} cases {'are' if recorded else 'is'} recorded.")
    heads = [
        {tag: value for tag, value in head.tags.items() if tag not in CORE}
        | {"case": head.id, "benchmark": head.benchmark, "conversation": head.conversation}
        for head in contents.cases.values()
    ]
    labels = pd.DataFrame(heads) if heads else pd.DataFrame(columns=["case", "benchmark", "conversation"])
    rows = _with_judges(run, _with_scores(run, labels)).assign(run=name)
    for column, empty in (CORE | {"rationale": "", "text": ""}).items():
        if column not in rows:
            rows[column] = empty
        elif isinstance(empty, str):
            rows[column] = rows[column].astype(object).where(rows[column].notna(), empty).astype(str)
        else:
            rows[column] = pd.to_numeric(rows[column], errors="coerce").astype(float)
    run.rows = rows[[*CORE, *(column for column in rows if column not in CORE)]]
    run.records = {
        case_id: entry for case_id, entry in (known or {}).items() if entry[0] and entry[0] == run.stamp(case_id)
    }
    run.unread = [case_id for case_id in contents.cases if case_id in run.recorded and case_id not in run.records]
    run.fill_records()
    return run


def _with_scores(run: RunRows, labels: pd.DataFrame) -> pd.DataFrame:
    found = read_scores(run.folder)
    run.score, recorded = found.score, labels["case"].isin(run.recorded)
    if found.problem and run.recorded:
        run.problems.append(found.problem)
    if found.measurements is None:
        state = recorded.map({True: "not scored", False: "not recorded"})
        return labels.assign(event="", metric="", verdict=state, strict=state, reason="")
    benchmark, measured, keys = benchmark_of(run.benchmark), found.measurements, list(KEYS)
    beside = measured[keys].copy()
    if benchmark is not None and benchmark.rule_column in measured:
        beside["latency_s"] = latency(benchmark, measured)
        shown = [each.name for each in benchmark.columns if each.filter or each.split or each.table or each.names]
        for column in shown:
            if column in measured and column not in labels and column not in CORE:
                beside[column] = measured[column]
    verdicts = found.verdicts[[name for name in found.verdicts if name in CORE and name != "benchmark"]]
    rows = labels.merge(verdicts.merge(beside, on=keys, how="left"), on="case", how="left")
    rows[["event", "metric"]] = rows[["event", "metric"]].fillna("")
    there = rows["case"].isin(run.recorded)
    # Recorded after the last scoring: the old "not recorded" would be wrong now.
    late = rows["verdict"].isna() | (there & rows["reason"].astype(str).str.contains("has not been recorded"))
    rows.loc[late, ["verdict", "strict"]] = "not scored"
    rows.loc[late & there, "reason"] = "recorded after the run was scored; score it again"
    rows.loc[~there, ["verdict", "strict"]] = "not recorded"
    rows["error"] = rows["reason"].astype(str).str.extract(r"error: (.+)$")[0].fillna("")
    if (late & there).any():
        run.problems.append(f"{int((late & there).sum())} cases were recorded after the run was scored.")
    return rows


def _with_judges(run: RunRows, rows: pd.DataFrame) -> pd.DataFrame:
    columns, problems = judged_columns(run.folder / "judgements", benchmark_of(run.benchmark))
    run.problems += problems
    if columns.empty:
        return rows.assign(rationale="")
    rows = rows.merge(columns, on=["case", "event"] if columns["event"].ne("").any() else "case", how="left",
                      suffixes=("", "_judge"))  # fmt: skip
    return rows.drop(columns="event_judge", errors="ignore")


# -- what judges said ----------------------------------------------------------------------

JUDGED_COLUMNS = ("case", "event", "judge_score", "judge_label", "rationale")


@dataclass(frozen=True)
class Opinion:
    """One judge's word on one case. `spoke` names the model, or says that it is no language model."""

    judge: str
    spoke: str
    folder: str
    judgement: Judgement


def _read(judgements: Path) -> tuple[list[tuple[str, JudgeRecord, dict[tuple[str, str], Judgement]]], list[str]]:
    """Folder, record and judgements of every judge, language models first, and what cannot be read."""
    found, problems = [], []
    for folder in judge_folders(judgements):
        try:
            found.append((folder.name, load_record(folder), load_latest(folder)))
        except InputError as error:
            problems.append(str(error))
    return sorted(found, key=lambda one: one[1].kind != "llm"), problems


def judge_called(benchmark: Benchmark | None, name: str) -> Judge | None:
    """The judge that the benchmark declares under this name."""
    return next((judge for judge in benchmark.judges if judge.name == name), None) if benchmark else None


def opinions(judgements: Path, case_id: str) -> tuple[list[Opinion], list[str]]:
    """Every judge's word on a case, language models first, and sentences about what cannot be read."""
    found, problems = _read(judgements)
    return [
        Opinion(record.judge, record.spoke, name, judgement)
        for name, record, latest in found
        for (case, _), judgement in latest.items()
        if case == case_id
    ], problems


def judged_columns(judgements: Path, benchmark: Benchmark | None = None) -> tuple[pd.DataFrame, list[str]]:
    """`JUDGED_COLUMNS`, one row an item, and sentences about what cannot be read; the rationale is that of every judge.

    With several judges the score is that of the first language model, by folder name.
    """
    rows: dict[tuple[str, str], dict] = {}
    found, problems = _read(judgements)
    for _, record, latest in found:
        judge = judge_called(benchmark, record.judge)
        for (case, item), judgement in latest.items():
            row = rows.setdefault((case, item), dict(zip(JUDGED_COLUMNS, (case, item, None, None, ""), strict=True)))
            values = judgement.values
            numbers = [values.get(judge.score)] if judge and judge.score else values.values()
            label = values.get(judge.label) if judge and judge.label else None
            if row["judge_score"] is None and row["judge_label"] is None:
                row["judge_score"] = next((float(each) for each in numbers if isinstance(each, int | float)), None)
                row["judge_label"] = None if label is None else str(label)
            row["rationale"] = f"{row['rationale']}\n{judgement.rationale or judgement.message or ''}".strip()
    return pd.DataFrame(list(rows.values()), columns=list(JUDGED_COLUMNS), dtype=object), problems
