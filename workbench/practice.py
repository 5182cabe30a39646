"""Runs to practise on: a small slice of IFEval and systems whose skill is known, made when first needed.

The notebooks start from these when no runs of your own are named. Nothing here is made up after the
fact: the agents speak through the same runner, detector and scorer as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import workbench as wb
from workbench.datasets import HEADER, Dataset
from workbench.errors import InputError
from workbench.files import read_json
from workbench.runs import Run
from workbench.scoring import SCORE
from workbench.version import SCORER

CASES = 96
"""All 48 cells at the two levels that the Entailment Gap needs, L2 and L1, one instance each."""

SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "oracle": ("oracle", {}),
    "contrary": ("contrary", {}),
    "silent": ("silent", {}),
    "eager": ("eager", {}),
    "quick": ("wavering", {"stated": 0.9, "implied": 0.6, "late_s": 0.1, "seed": 1}),
    "steady": ("wavering", {"stated": 0.85, "implied": 0.7, "late_s": 0.3, "seed": 2}),
    "slow": ("wavering", {"stated": 0.95, "implied": 0.75, "late_s": 1.2, "seed": 3}),
}
"""Name -> agent and options. The last three have known skills: how often they do what is expected when
the prompt states the rule and when it implies it, and how long they dawdle on average."""


def dataset(folder: str | Path, cases: int = CASES) -> Dataset:
    """The dataset in `folder`, of any benchmark; built, IFEval with so many cases, when there is none."""
    place = Path(folder) / "dataset"
    return wb.load_dataset(place) if (place / HEADER).exists() else wb.build("ifeval", place, limit=cases)


def runs(
    folder: str | Path,
    systems: Iterable[str] | Mapping[str, tuple[str, dict[str, Any]]] = ("oracle", "contrary", "eager"),
    cases: int = CASES,
) -> dict[str, Run]:
    """Scored runs by name, in `folder`; what is there already is kept, an unfinished run goes on.

    systems : names of `SYSTEMS`, or a dict such as theirs with agents of your own. cases : how many to
    build when `folder` holds no dataset yet.

    Raises
    ------
    InputError : an unknown system, or a run of that name with other settings.
    """
    if not isinstance(systems, Mapping):
        unknown = [name for name in systems if name not in SYSTEMS]
        if unknown:
            raise InputError(f"There is no practice system {unknown[0]!r}; they are {', '.join(SYSTEMS)}.")
        systems = {name: SYSTEMS[name] for name in systems}
    cases_to_run = dataset(folder, cases)
    made = {}
    for name, (agent, options) in systems.items():
        # One process: starting more would take longer than so few cases do.
        run = wb.run(cases_to_run, agent, Path(folder) / "runs" / name, options, concurrency=1)
        made[name] = run if _scored(run) else wb.score(run)
    return made


def _scored(run: Run) -> bool:
    path = run.scores / SCORE
    return path.exists() and read_json(path).get("scorer") == SCORER
