"""Tables of judged metrics: each with its denominator, what is missing from it, and an interval.

Judge errors and cases that can't be judged stay outside every denominator and are counted in their
own columns. With more than 5 % errors among the cases that were asked, all judged metrics of the run
are invalid: they are shown, and marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from workbench.errors import InputError
from workbench.files import write_atomically, write_csv, write_json
from workbench.judges.base import Judge, judge_of
from workbench.judges.records import JudgeRecord, judge_folders, load_latest, load_record
from workbench.runs import Run
from workbench.scoring import add_judgements
from workbench.statistics import cluster_mean, rate

MAX_ERROR_SHARE = 0.05
"""Above this share of judge errors the judged metrics are invalid (design promise of the workbench)."""

ALL = "all"


@dataclass(frozen=True)
class Summary:
    """What one judge found in one run.

    rows : one row an item of each case: tags, status, the judge's values, rationale; one row for a case
    without items. tables : by name, see `Judge.tables`. `problems` are sentences about validity;
    `verdicts_first` counts verdicts that were written before their reason.
    """

    judge: Judge
    record: JudgeRecord
    rows: pd.DataFrame
    tables: dict[str, pd.DataFrame]
    asked: int
    errors: int
    problems: tuple[str, ...]
    verdicts_first: int = 0

    @property
    def valid(self) -> bool:
        return not self.asked or self.errors / self.asked <= MAX_ERROR_SHARE


def summarise(run: Run, folder: Path) -> Summary:
    """Summarise the judgements in one judge's folder over the cases of the run.

    Raises
    ------
    InputError : no judgements there, or unreadable ones.
    """
    record = load_record(folder)
    judge = judge_of(run.benchmark, record.judge)
    rows = case_rows(run, folder, judge)
    asked, errors = int(rows.status.isin(["ok", "error"]).sum()), int((rows.status == "error").sum())
    problems = []
    if asked and errors / asked > MAX_ERROR_SHARE:
        problems.append(
            f"INVALID: {errors} of {asked} judgements are errors ({100 * errors / asked:.1f} %, at most "
            f"{100 * MAX_ERROR_SHARE:.0f} % are allowed). Judge again before using these figures."
        )
    if errors:
        said = rows.loc[rows.status == "error", "message"].dropna()
        if len(said):
            text, count = next(iter(said.value_counts().items()))
            problems.append(f"The most frequent error ({count} of {errors}): {text}")
    waiting = int((rows.status == "not_judged").sum())
    if waiting:
        problems.append(f"{waiting} of {len(rows)} cases are not judged yet.")
    lines = [line for line in load_latest(folder).values() if line.status == "ok"]
    early = sum(line.verdict_first for line in lines)
    if early:
        problems.append(
            f"{early} of {len(lines)} verdicts were written before their reason (a server that sorts keys?), which "
            "therefore did not lead to them."
        )
    prints = {mark for session in record.sessions for mark in session.fingerprints}
    if len(prints) > 1:
        problems.append(f"The server changed while judging: {len(prints)} system fingerprints.")
    tables = judge.tables(run, rows) if judge.tables else usual_tables(judge, rows)
    return Summary(judge, record, rows, tables, asked, errors, tuple(problems), early)


def case_rows(run: Run, folder: Path, judge: Judge) -> pd.DataFrame:
    """One row an item of each case of the run, one for a case without items.

    `item` names it ('' where a case has one); `status` is ok, error, not_judgeable or not_judged
    (nothing asked yet).
    """
    lines: dict[str, list] = {}
    for (case_id, _), line in load_latest(folder).items():
        lines.setdefault(case_id, []).append(line)
    rows = []
    for case in run.cases.values():
        for line in lines.get(case.id, [None]):
            row = {"case": case.id, "conversation": case.conversation, **case.tags}
            row["item"] = line.item if line else ""
            row["status"] = line.status if line else "not_judged"
            row["reason"] = line.reason if line else None
            row["message"] = line.message if line else None
            for name in (judge.score, judge.label):
                if name:
                    row[name] = line.values.get(name) if line else None
            row["rationale"] = line.rationale if line else None
            rows.append(row)
    return pd.DataFrame(rows)


def usual_tables(judge: Judge, rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables of a judge that declares none: its mean score and the shares of its labels."""
    out = {}
    if judge.score:
        out["scores"] = mean_table(rows, judge.score, judge.strata)
    if judge.label:
        shown = {label: judge.reported.get(label, label) for label in judge.labels}
        out["labels"] = label_table(rows, judge.label, shown, judge.strata)
    return out


def groups(rows: pd.DataFrame, by: Iterable[str]) -> list[tuple[dict[str, str], pd.DataFrame]]:
    """All rows, then every value of each column, and every combination; 'all' where pooled."""
    by = [name for name in by if name in rows]
    out: list[tuple[dict[str, str], pd.DataFrame]] = [(dict.fromkeys(by, ALL), rows)]
    for name in by:
        out += [(dict.fromkeys(by, ALL) | {name: value}, part) for value, part in rows.groupby(name)]
    if len(by) > 1:
        out += [(dict(zip(by, key, strict=True)), part) for key, part in rows.groupby(by)]
    return out


def mean_table(rows: pd.DataFrame, score: str, by: Iterable[str] = ()) -> pd.DataFrame:
    """Mean score by `by`, with an interval over conversations.

    Columns: those of `by`, n, mean, low, high, conversations, note, errors, not_judgeable, not_judged.
    """
    out = []
    for names, part in groups(rows, by):
        values = pd.to_numeric(part[score].where(part.status == "ok"))
        found = cluster_mean(values, part.conversation)
        low, high = found.interval or (None, None)
        row = {**names, "n": int(values.notna().sum()), "mean": found.value, "low": low, "high": high}
        out.append(row | {"conversations": found.clusters, "note": found.note} | missing(part))
    return pd.DataFrame(out)


def label_table(
    rows: pd.DataFrame, label: str, shown: Mapping[str, str], by: Iterable[str] = (), never_pooled: str | None = None
) -> pd.DataFrame:
    """Share of each label by `by`, one row a label.

    shown : label -> word in the table. never_pooled : a column whose values are not taken together.
    Columns: those of `by`, label, count, n, share, low, high, conversations, note, errors, not_judgeable,
    not_judged.
    """
    out = []
    for names, part in groups(rows, by):
        if never_pooled and names.get(never_pooled, ALL) == ALL:
            continue
        good = part[(part.status == "ok") & part[label].notna()]
        for value, word in shown.items():
            out.append({**names, "label": word, **share(good[label] == value, good.conversation), **missing(part)})
    return pd.DataFrame(out)


def share(true: pd.Series, conversations: pd.Series) -> dict[str, float | int | str | None]:
    """A share with its counts and interval over conversations; true, conversations : one value an item."""
    found = rate(true, conversations)
    return {"count": found.numerator, "n": found.denominator, "share": found.value, "low": found.low,
            "high": found.high, "conversations": found.clusters, "note": found.note}  # fmt: skip


def missing(part: pd.DataFrame) -> dict[str, int]:
    """Rows without a judgement, by why."""
    names = {"error": "errors", "not_judgeable": "not_judgeable", "not_judged": "not_judged"}
    return {name: int((part.status == status).sum()) for status, name in names.items()}


def short(judge: Judge, frame: pd.DataFrame) -> pd.DataFrame:
    """A judge's table in its short form: the pooled rows of the column that it folds."""
    if judge.folded in frame:
        return frame[frame[judge.folded] == ALL].drop(columns=judge.folded)
    return frame


def rejoin(run: Run) -> None:
    """Put what judges said of a run beside its measurements and decide again, where its rules take judgements.

    Every judge of the benchmark counts; of several folders of one judge the one that judged last.
    """
    if run.benchmark.join is None:
        return
    newest: dict[str, tuple[str, Path]] = {}
    for folder in judge_folders(run.judgements):
        record = load_record(folder)
        finished = max((session.finished for session in record.sessions), default="")
        if record.judge not in newest or newest[record.judge][0] <= finished:
            newest[record.judge] = finished, folder
    known = {judge.name: judge for judge in run.benchmark.judges}
    add_judgements(
        run, {name: case_rows(run, folder, known[name]) for name, (_, folder) in newest.items() if name in known}
    )


def write_tables(folder: Path, summary: Summary) -> None:
    """Write summary.json (which judge, validity) and the tables as CSV and Parquet beside the judgements."""
    for name, frame in {**summary.tables, "rows": summary.rows}.items():
        write_csv(folder / f"{name}.csv", frame)
        write_atomically(folder / f"{name}.parquet", lambda part, frame=frame: frame.to_parquet(part, index=False))
    write_json(
        folder / "summary.json",
        {
            "judge": summary.record.spoke,
            "valid": summary.valid,
            "asked": summary.asked,
            "errors": summary.errors,
            "verdicts_first": summary.verdicts_first,
            "problems": list(summary.problems),
        },
    )


def find_folder(run: Run, key: str | None) -> Path:
    """The folder of the judge `key` (or a start of it), or the only one of the run.

    Raises
    ------
    InputError : none, or several that fit; they are listed.
    """
    folders = judge_folders(run.judgements)
    fitting = [folder for folder in folders if key is None or folder.name.startswith(key)]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(folder.name for folder in folders) or "none yet (run `workbench judge`)"
    which = "name one" if key is None else f"{key!r} fits {len(fitting)} of them"
    raise InputError(f"{run.judgements} holds judgements by: {known}; {which}.")
