"""One run read into rows: labels from its cases, verdicts and latencies from its scores, judges, errors.

Nothing here fails on an unfinished or damaged run: what cannot be read becomes a sentence in
`problems`, and the rest is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError
from pydantic_core import from_json

from workbench.app.judged import judged_columns
from workbench.cases import Case, check_id
from workbench.datasets import CASES, describe
from workbench.episodes import record_path
from workbench.errors import InputError
from workbench.files import content_key, read_json
from workbench.runs import META
from workbench.scoring import MEASUREMENTS, SCORE, VERDICTS
from workbench.version import SCORER

CORE: dict[str, Any] = {
    "run": "", "case": "", "event": "", "metric": "", "benchmark": "", "conversation": "", "verdict": "", "strict": "",
    "label": "", "limit": "", "limit_value": float("nan"), "reason": "", "onset_s": float("nan"),
    "offset_s": float("nan"), "latency_s": float("nan"), "error": "", "judge_score": float("nan"),
    "judge_label": "", "annotation": "",
}  # fmt: skip
"""Column -> what stands in it when nothing is known."""

ONSETS, OFFSETS = ("genuine_s", "onset_s", "latency_s"), ("off_s", "offset_s", "release_s")
"""Names under which benchmarks measure when the agent began and fell silent, seconds after the window opened."""

_MEASURED_BY_OFFSET = ("YIELD", "CONTINUE")
_OF_EVENTS = ("turn_label",)
"""Measured columns that say what an event is; they are shown and filtered like tags."""


@dataclass
class RunRows:
    """What is held of one run. `rows` has `CORE`, the tags and `text` (what a search looks through)."""

    name: str
    folder: Path
    signature: tuple
    meta: dict[str, Any] = field(default_factory=dict)
    score: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    rows: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=[*CORE, "text"]))
    lines: dict[str, tuple[int, int]] = field(default_factory=dict)
    recorded: set[str] = field(default_factory=set)
    records: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    @property
    def token(self) -> str:
        """Names the run in addresses, so that no name from outside is ever joined to a path."""
        return content_key(str(self.folder), length=12)

    @property
    def benchmark(self) -> str:
        return str(self.meta.get("benchmark", ""))

    def case(self, case_id: str) -> Case:
        """One case, read from its line.

        Raises
        ------
        InputError : unknown, or the line is not a case.
        """
        if case_id not in self.lines:
            raise InputError(f"{self.folder}: the run has no case {case_id!r}; see {self.folder / CASES}.")
        at, size = self.lines[case_id]
        with (self.folder / CASES).open("rb") as stream:
            stream.seek(at)
            line = stream.read(size)
        try:
            return Case.model_validate_json(line)
        except ValidationError as error:
            raise InputError(f"{self.folder / CASES}, case {case_id}: {describe(error)}.") from None

    def read_record(self, case_id: str) -> None:
        """Take the error and the transcript of one record, once for each version of the file."""
        path = record_path(self.folder / "episodes", case_id)
        try:
            stamp = path.stat().st_mtime_ns
            if self.records.get(case_id, (0,))[0] == stamp:
                return
            raw = from_json(path.read_bytes())
            fault = raw.get("error") or {}
            said = "".join(piece["text"] for piece in raw.get("transcript") or ())
            self.records[case_id] = (
                stamp,
                str(fault.get("kind") or ""),
                f"{said} {fault.get('message') or ''}".strip(),
            )
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
    watched += [folder / "scores" / name for name in (SCORE, MEASUREMENTS, VERDICTS)]
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
    run = RunRows(name, folder, stamp, records=dict(known or {}))
    try:
        meta = read_json(folder / META)
        run.meta = meta if isinstance(meta, dict) else {}
        if not run.meta:
            run.problems.append(f"{folder / META} is not a JSON object.")
    except InputError as error:
        run.problems.append(str(error))
    labels = _read_labels(run)
    try:
        names = {path.name for path in (folder / "episodes").iterdir()}
    except OSError:
        names = set()
        run.problems.append(f"{folder} holds no episodes yet.")
    run.recorded = {case_id for case_id in run.lines if f"{case_id}.rec.json" in names}
    if 0 < len(run.recorded) < len(run.lines):
        run.problems.append(f"{len(run.recorded)} of {len(run.lines)} cases are recorded.")
    rows = _with_scores(run, labels)
    rows["run"] = name
    rows = _with_judges(run, rows)
    for column, empty in (CORE | {"rationale": "", "text": ""}).items():
        if column not in rows:
            rows[column] = empty
        elif isinstance(empty, str):
            rows[column] = rows[column].astype(object).where(rows[column].notna(), empty).astype(str)
        else:
            rows[column] = pd.to_numeric(rows[column], errors="coerce").astype(float)
    run.rows = rows[[*CORE, *(column for column in rows if column not in CORE)]]
    run.unread = [case_id for case_id in run.lines if case_id in run.recorded and not _same(run, case_id)]
    run.fill_records()
    return run


def _same(run: RunRows, case_id: str) -> bool:
    entry = run.records.get(case_id)
    try:
        same = entry is not None and entry[0] == record_path(run.folder / "episodes", case_id).stat().st_mtime_ns
    except OSError:
        same = False
    if not same:
        run.records.pop(case_id, None)
    return same


def _read_labels(run: RunRows) -> pd.DataFrame:
    labels, at = [], 0
    try:
        content = (run.folder / CASES).read_bytes()
    except OSError:
        run.problems.append(f"{run.folder / CASES} does not exist, so the run has no cases to show.")
        content = b""
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        start, at = at, at + len(line)
        if not line.strip():
            continue
        try:
            raw = from_json(line)
            case_id = check_id(raw["id"])
            if case_id in run.lines:
                raise ValueError(f"the case {case_id!r} stands twice")
            row = {"case": case_id, "benchmark": raw.get("benchmark", ""), "conversation": raw.get("conversation", "")}
            tags = {name: value for name, value in raw.get("tags", {}).items() if name not in CORE}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            run.problems.append(f"{run.folder / CASES}, line {number} cannot be used: {error}.")
            continue
        run.lines[case_id] = (start, len(line))
        labels.append(row | tags)
    return pd.DataFrame(labels) if labels else pd.DataFrame(columns=["case", "benchmark", "conversation"])


def _with_scores(run: RunRows, labels: pd.DataFrame) -> pd.DataFrame:
    folder = run.folder / "scores"
    recorded = labels["case"].isin(run.recorded)
    state = recorded.map({True: "not scored", False: "not recorded"})
    try:
        run.score = read_json(folder / SCORE)
        verdicts, measured = pd.read_parquet(folder / VERDICTS), pd.read_parquet(folder / MEASUREMENTS)
    except (InputError, OSError, ValueError):
        if run.recorded:
            run.problems.append(f"The run has not been scored: `workbench score {run.name}` does it.")
        return labels.assign(event="", metric="", verdict=state, strict=state, reason="")
    if run.score.get("scorer") != SCORER:
        run.problems.append(f"Scored by version {run.score.get('scorer')!r} of the scorer, and this is {SCORER!r}.")
    for frame in (verdicts, measured):
        for name in ("event", "metric"):
            if name not in frame:
                frame[name] = ""
    chosen = {"onset_s": _first(measured, ONSETS), "offset_s": _first(measured, OFFSETS)}
    chosen |= {name: measured[name] for name in _OF_EVENTS if name in measured}
    latencies = measured[["case", "event", "metric"]].assign(**chosen)
    columns = [name for name in verdicts if name in CORE and name != "benchmark"]
    verdicts = verdicts[columns].merge(latencies, on=["case", "event", "metric"], how="left")
    rows = labels.merge(verdicts, on="case", how="left")
    rows[["event", "metric"]] = rows[["event", "metric"]].fillna("")
    if "action" in rows:
        rows["latency_s"] = rows["onset_s"].where(~rows["action"].isin(_MEASURED_BY_OFFSET), rows["offset_s"])
    else:
        rows["latency_s"] = rows["onset_s"].fillna(rows["offset_s"])
    there = rows["case"].isin(run.recorded)
    # Recorded after the last scoring: the old "not recorded" would be wrong now.
    late = rows["verdict"].isna() | (there & rows["reason"].astype(str).str.contains("has not been recorded"))
    rows.loc[late, ["verdict", "strict"]] = "not scored"
    rows.loc[late & there, "reason"] = "recorded after the run was scored; score it again"
    rows.loc[~there, ["verdict", "strict"]] = "not recorded"
    failed = rows["reason"].astype(str).str.extract(r"error: (.+)$")[0]
    rows["error"] = failed.fillna("")
    if late.any() and there[late].any():
        run.problems.append(f"{int((late & there).sum())} cases were recorded after the run was scored.")
    return rows


def _first(frame: pd.DataFrame, names: tuple[str, ...]) -> pd.Series:
    return next((frame[name] for name in names if name in frame), pd.Series(float("nan"), index=frame.index))


def _with_judges(run: RunRows, rows: pd.DataFrame) -> pd.DataFrame:
    columns, problems = judged_columns(run.folder / "judgements")
    run.problems += problems
    if columns.empty:
        return rows.assign(rationale="")
    rows = rows.merge(columns, on=["case", "event"] if columns["event"].ne("").any() else "case", how="left",
                      suffixes=("", "_judge"))  # fmt: skip
    return rows.drop(columns="event_judge", errors="ignore")
