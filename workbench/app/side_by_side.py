"""Which runs stand side by side in Compare, Sweep and Overview, and their stored tables.

Tables are read once for each version of a run's files and shared by all sessions.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import pandas as pd

from workbench import benchmarks
from workbench.app import annotations
from workbench.app.choosers import RunPicker
from workbench.app.run_rows import RunRows
from workbench.app.store import Store
from workbench.app.workspace import Workspace
from workbench.contract import Benchmark
from workbench.errors import InputError
from workbench.runs import load_run
from workbench.scoring import MEASUREMENTS, VERDICTS
from workbench.version import SCORER


@dataclass(frozen=True)
class Tables:
    """A scored run as stored. `facts` are what must be alike for verdicts to be compared."""

    measurements: pd.DataFrame
    verdicts: pd.DataFrame
    facts: dict[str, Any]


@dataclass(frozen=True)
class Choice:
    """The runs that a view shows, and sentences about those that it cannot."""

    names: tuple[str, ...]
    benchmark: Benchmark | None
    told: tuple[str, ...] = ()


_KEEP = 24
_kept: OrderedDict[tuple, Tables] = OrderedDict()
_lock = Lock()


def identity(run: RunRows) -> tuple:
    """Changes whenever verdicts, judges or recordings of the run change; not when somebody annotates."""
    return str(run.folder), tuple(each for each in run.signature if each[0] != annotations.NAME)


def is_scored(run: RunRows) -> bool:
    return run.score.get("scorer") == SCORER


def load_tables(run: RunRows) -> Tables:
    """Measurements and verdicts of a run.

    Raises
    ------
    InputError : not scored, scored by another version, or unreadable.
    """
    if not run.score:
        raise InputError(f"{run.name} has not been scored; `workbench score` does it.")
    if not is_scored(run):
        raise InputError(f"{run.name} was scored by another version of the scorer; run `workbench score` again.")
    key = identity(run)
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    folder = run.folder / "scores"
    try:
        measurements, verdicts = pd.read_parquet(folder / MEASUREMENTS), pd.read_parquet(folder / VERDICTS)
    except (OSError, ValueError) as error:
        raise InputError(f"The scores of {run.name} cannot be read ({error}); run `workbench score` again.") from None
    opened = load_run(run.folder)
    facts = {name: run.score.get(name) for name in ("scorer", "thresholds", "vad")}
    facts |= {"content": opened.content, "fingerprint": opened.fingerprint}
    made = Tables(measurements, verdicts, facts)
    with _lock:
        _kept[key] = made
        while len(_kept) > _KEEP:
            _kept.popitem(last=False)
    return made


def choose(workspace: Workspace, most: int) -> Choice:
    """The chosen runs that are scored and of one benchmark, in order; without a choice, those of one dataset."""
    store: Store = workspace.store
    told = [f"There is no run {name!r} here." for name in workspace.together if name not in store.runs]
    wanted = [name for name in workspace.together if name in store.runs]
    asked = bool(wanted)
    if not asked:
        wanted = _alike(store, workspace.run)
    names: list[str] = []
    for name in wanted:
        run = store.runs[name]
        if not is_scored(run):
            told.append(f"{name} has not been scored by this version of the scorer, so it is left out.")
        elif names and run.benchmark != store.runs[names[0]].benchmark:
            told.append(f"{name} is a run of {run.benchmark}, and {names[0]} of another benchmark; it is left out.")
        elif len(names) == most:
            if asked:
                told.append(f"At most {most} runs are shown here, so {name} is left out.")
        else:
            names.append(name)
    if not names:
        return Choice((), None, (*told, "No run here has been scored yet; `workbench score` does it."))
    try:
        return Choice(tuple(names), benchmarks.get(store.runs[names[0]].benchmark), tuple(told))
    except InputError as error:
        return Choice((), None, (*told, str(error)))


def _alike(store: Store, run: str) -> list[str]:
    """Scored runs on the same cases: those of the chosen run, else the largest such group."""
    groups: dict[tuple, list[str]] = {}
    for name, each in store.runs.items():
        if is_scored(each):
            groups.setdefault((each.benchmark, frozenset(each.lines)), []).append(name)
    return next((group for group in groups.values() if run in group), max(groups.values(), key=len, default=[]))


def folders(workspace: Workspace, names: tuple[str, ...]) -> list[Path]:
    return [workspace.store.runs[name].folder for name in names]


def watch_picker(picker: RunPicker, workspace: Workspace) -> None:
    """Take over what a person picks; what a view itself shows is no choice and stays out of the link."""

    def picked(event) -> None:
        if list(event.new) != picker.shown:
            workspace.together = list(event.new)

    picker.param.watch(picked, "chosen")


def show_picker(picker: RunPicker, store: Store, names: tuple[str, ...]) -> None:
    picker.shown = list(names)
    picker.param.update(options=[name for name, run in store.runs.items() if is_scored(run)], chosen=list(names))
