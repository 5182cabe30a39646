"""Annotations in formats that others read: CSV (also for `judge-check --human`), Praat TextGrid, Audacity labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd
from textgrid import IntervalTier, PointTier, TextGrid

from workbench.app import annotations
from workbench.app.annotations import Said
from workbench.app.detail import Detail, load_detail
from workbench.app.run_rows import benchmark_of
from workbench.contract import Benchmark
from workbench.errors import InputError
from workbench.files import write_atomically, write_csv, write_text
from workbench.judges.base import Judge
from workbench.judges.records import judge_folders, load_latest
from workbench.pictures.texts import plain

COLUMNS = (
    "run", "case", "event", "metric", "item", "label", "annotator", "own_label", "verdict", "verdict_seen", "judges",
    "moments", "note", "date",
)  # fmt: skip


def labelling(benchmark: Benchmark | None) -> list[Judge]:
    """The judges whose labels and scale people may use too."""
    return [judge for judge in benchmark.judges if judge.label] if benchmark else []


def table(run: str, folder: Path, benchmark: Benchmark | None = None, judge: Judge | None = None) -> pd.DataFrame:
    """One row a person and row of the run, with `label` and `item` as `judge-check --human` wants them.

    judge : whose labels and scores stand in `label`; those of every judge where None. Any other label stands in
    `own_label`. What is judged once may have several rows (an event has several metrics): what a person said of it
    last is its label. A person who gave both a score and a label has two rows.
    """
    known = {label for one in ([judge] if judge else labelling(benchmark)) for label in one.labels}
    judged = {item for path in judge_folders(folder / "judgements") for item in _items(path)}
    rows, last = [], {}
    for row in annotations.fold(annotations.read(folder)[0]).values():
        for said in row:
            item = said.event if (said.case, said.event) in judged else ""
            fields = {
                "run": run, "case": said.case, "event": said.event, "metric": said.metric, "item": item, "label": "",
                "annotator": said.annotator, "own_label": "" if said.label in known else said.label,
                "verdict": said.verdict, "verdict_seen": said.saw.get("verdict", ""),
                "judges": "; ".join(f"{name}: {stance}" for name, stance in said.judges.items()),
                "moments": "; ".join(f"{t_s:.3f} {text}".strip() for t_s, text in sorted(said.moments.values())),
                "note": said.note, "date": said.date,
            }  # fmt: skip
            labels = {"label": said.label if said.label in known else "", "score": said.score}
            given = {kind: label for kind, label in labels.items() if label}
            for kind, label in given.items() or (("", ""),):
                made, of = fields | {"label": label}, (said.case, item, said.annotator, kind)
                if label and of in last:
                    older = min(last[of], made, key=lambda each: each["date"])
                    older["own_label"], older["label"] = older["own_label"] or older["label"], ""
                if label:
                    last[of] = max(last.get(of, made), made, key=lambda each: each["date"])
                rows.append(made)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _items(folder: Path) -> set[tuple[str, str]]:
    try:
        return set(load_latest(folder))
    except InputError:
        return set()


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """CSV in which no text can act as a spreadsheet formula."""
    write_csv(path, frame.map(lambda cell: plain(cell) if isinstance(cell, str) else cell))


def textgrid(
    duration_s: float,
    points: Mapping[str, Iterable[tuple[float, str]]],
    intervals: Mapping[str, Iterable[tuple[float, float, str]]],
) -> TextGrid:
    """One point tier a name in `points`, one interval tier a name in `intervals`, whose spans are disjoint.

    Praat wants points apart, so the texts of marks at one moment are joined.
    """
    grid = TextGrid(maxTime=duration_s)
    for name, spans in intervals.items():
        tier = IntervalTier(_line(name), 0, duration_s)
        for start, end, text in spans:
            tier.add(start, end, _line(text))
        grid.append(tier)
    for name, marks in points.items():
        at: dict[float, list[str]] = {}
        for t_s, text in sorted(marks):
            at.setdefault(t_s, []).append(_line(text))
        # The library doubles the quotation marks of labels, as Praat wants them, but not those of a tier's name.
        tier = PointTier(_line(name).replace('"', "'"), 0, duration_s)
        for t_s, texts in at.items():
            tier.add(t_s, ", ".join(texts))
        grid.append(tier)
    return grid


def _line(text: str) -> str:
    return " ".join(plain(text).split())


def audacity(marks: Iterable[tuple[float, float, str]]) -> str:
    """A label track: start, end and text, tab-separated; a moment starts where it ends."""
    return "".join(f"{start:.6f}\t{end:.6f}\t{_line(text)}\n" for start, end, text in sorted(marks))


def write_case(out: Path, detail: Detail, row: list[Said]) -> list[Path]:
    """Speech, window and moments of one case below `out`, as TextGrid and as Audacity labels."""
    moments = {said.annotator: [(t_s, text) for t_s, text in said.moments.values()] for said in row if said.moments}
    intervals = {name: [(float(a), float(b), "speech") for a, b in found] for name, found in detail.spans.items()}
    opens_s, closes_s = detail.window or (0.0, 0.0)
    if max(opens_s, 0.0) < closes_s:
        intervals["window"] = [(max(opens_s, 0.0), closes_s, "window")]
    ends = [t_s for marks in moments.values() for t_s, _ in marks]
    ends += [end for found in intervals.values() for _, end, _ in found]
    labels = [(t_s, t_s, f"{name}: {text}".strip(": ")) for name, marks in moments.items() for t_s, text in marks]
    labels += [(start, end, f"{name} {text}".strip() if name != text else name)
               for name, found in intervals.items() for start, end, text in found]  # fmt: skip
    case = ".".join(part for part in detail.key[1:] if part).replace(":", "_")
    points = {f"moments {name}": marks for name, marks in moments.items()} or {"moments": []}
    grid, written = textgrid(max(detail.duration_s, *ends), points, intervals), [out / f"{case}.TextGrid"]
    write_atomically(written[0], lambda part: grid.write(str(part)))
    written.append(out / f"{case}.labels.txt")
    write_text(written[1], audacity(labels))
    return written


def write_run(store, run: str, out: Path) -> list[Path]:
    """Every annotation of a run below `out`: annotations.csv (and one for each judge, where a benchmark has several,
    as `judge-check --human` reads it), and TextGrid and Audacity labels a row.

    Raises
    ------
    InputError : nobody has annotated a case of the run.
    """
    rows = store.runs[run]
    folded = annotations.fold(annotations.read(rows.folder)[0])
    if not folded:
        raise InputError(f"No case of {run} has been annotated yet.")
    benchmark = benchmark_of(rows.benchmark)
    judges = labelling(benchmark)
    files = {"annotations.csv": None} | {f"annotations.{one.name}.csv": one for one in judges if len(judges) > 1}
    written = [out / name for name in files]
    for path, judge in zip(written, files.values(), strict=True):
        write_table(path, table(run, rows.folder, benchmark, judge))
    for key, row in folded.items():
        detail = load_detail(store, (run, *key))
        written += write_case(out, detail, row) if detail.row else []
    return written
