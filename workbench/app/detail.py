"""A row of the inspector with everything about it, read when somebody looks at it; what is missing is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from workbench import contract, episodes
from workbench.analysis import detectors
from workbench.app.run_rows import Opinion, opinions
from workbench.app.store import Key, Store, whole_key
from workbench.contract import Benchmark, Step
from workbench.deciding import Decider
from workbench.errors import InputError
from workbench.pictures.lanes import Lane, read


@dataclass
class Detail(Lane):
    """A recording with its row in the store, judges, flip and files. audio : its address below the run."""

    key: Key = ("", "", "", "")
    row: dict[str, Any] = field(default_factory=dict)
    opinions: list[Opinion] = field(default_factory=list)
    flip: str | None = None
    bias: str = ""
    steps: list[Step] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    @property
    def audio(self) -> str | None:
        return f"episodes/{episodes.stereo_path(Path(), self.key[1]).name}" if self.recording is not None else None


def load_detail(store: Store, key: Key) -> Detail:
    """Read one row. Never raises for what is wrong with a run; says it in `missing`."""
    key = whole_key(key)
    out = Detail(key=key)
    row, run = store.row(key), store.runs.get(key[0])
    if row is None or run is None:
        out.missing.append(f"There is no case {key[1]!r} in a run {key[0]!r} here; choose a row in Cases.")
        return out
    out.row = row.to_dict()
    _, case_id, event, metric = key
    benchmark = None
    try:
        benchmark = contract.get(run.benchmark)
        out.case = run.case(case_id)
    except InputError as error:
        out.missing.append(str(error))
    read(out, run.folder, case_id, benchmark, event, metric)
    if benchmark is not None and out.measurement:
        _add_rules(out, benchmark, run.score)
    found, problems = opinions(run.folder / "judgements", case_id)
    out.opinions = [opinion for opinion in found if opinion.judgement.item in ("", event)]
    out.missing += problems
    if not out.opinions:
        out.missing.append("No judge has judged this case.")
    out.files = [name for name in _files(run.folder, case_id) if (run.folder / name).is_file()]
    return out


def _add_rules(out: Detail, benchmark: Benchmark, score: Mapping[str, Any]) -> None:
    """Where the row flips, at the run's own thresholds, the steps by which it counts, and the bias of its times."""
    row = out.measurement | {"reason": out.measurement.get("code")}
    [flip] = Decider(benchmark, pd.DataFrame([row])).flips(out.limits)
    out.flip = None if flip is None else str(flip)
    out.steps = benchmark.steps(row) if benchmark.steps else []
    limit = benchmark.threshold.get(out.row["limit"])
    if limit is not None and limit.unit in ("s", "ms"):
        out.bias = detectors.sentence(score["vad"])


def _files(folder: Path, case_id: str) -> list[str]:
    names = [f"episodes/{case_id}.stereo.wav", f"episodes/{case_id}.rec.json", "run.json", "scores/score.json",
             "scores/measurements.csv", "scores/verdicts.csv"]  # fmt: skip
    return names + [
        path.relative_to(folder).as_posix() for path in sorted(folder.glob("judgements/*/judgements.jsonl"))
    ]
