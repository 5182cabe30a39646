"""Runs to practise on: a small slice of a benchmark and systems whose skill is known, made when first needed.

The notebooks start from these when no runs of your own are named. Nothing here is made up after the
fact: the agents speak through the same runner, detector and scorer as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import workbench as wb
from workbench import contract
from workbench.datasets import HEADER, Dataset
from workbench.errors import InputError
from workbench.files import read_json
from workbench.runs import SCORE, Run
from workbench.version import SCORER


def dataset(folder: str | Path, benchmark: str | None = None, cases: int | None = None) -> Dataset:
    """The dataset in `folder`, of any benchmark; built, with so many cases, when there is none."""
    place = Path(folder) / "dataset"
    if (place / HEADER).exists():
        return wb.load_dataset(place)
    chosen = contract.get(benchmark) if benchmark else contract.default()
    if chosen.practice is None:
        raise InputError(f"{chosen.title} has no practice runs; build and run it by hand.")
    return wb.build(chosen.name, place, limit=cases or chosen.practice.limit)


def runs(
    folder: str | Path,
    systems: Iterable[str] | Mapping[str, tuple[str, dict[str, Any]]] = ("oracle", "contrary", "eager"),
    cases: int | None = None,
    benchmark: str | None = None,
) -> dict[str, Run]:
    """Scored runs by name, in `folder`; what is there already is kept, an unfinished run goes on.

    systems : names of the benchmark's practice systems, or a dict name -> (agent, options) with agents of your
    own. cases, benchmark : what to build when `folder` holds no dataset yet.

    Raises
    ------
    InputError : an unknown system, or a run of that name with other settings.
    """
    cases_to_run = dataset(folder, benchmark, cases)
    plan = contract.get(cases_to_run.header.benchmark).practice
    if not isinstance(systems, Mapping):
        known = plan.systems if plan else {}
        unknown = [name for name in systems if name not in known]
        if unknown:
            raise InputError(f"There is no practice system {unknown[0]!r}; they are {', '.join(known)}.")
        systems = {name: known[name] for name in systems}
    made = {}
    for name, (agent, options) in systems.items():
        # One process: starting more would take longer than so few cases do.
        run = wb.run(cases_to_run, agent, Path(folder) / "runs" / name, options, concurrency=1)
        made[name] = run if _scored(run) else wb.score(run)
    return made


def _scored(run: Run) -> bool:
    path = run.scores / SCORE
    return path.exists() and read_json(path).get("scorer") == SCORER
