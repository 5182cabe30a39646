"""Which runs stand side by side in Compare, Sweep and Overview, and their stored tables.

Tables are read once for each version of a run's files and shared by all sessions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from workbench.app import annotations
from workbench.app.components import WIDGET_CSS, RunPicker, text_pane
from workbench.app.run_rows import RunRows, benchmark_of
from workbench.app.store import Store
from workbench.app.workspace import Workspace
from workbench.contract import Benchmark
from workbench.errors import InputError
from workbench.pictures.texts import esc
from workbench.runs import Scores, read_scores
from workbench.version import SCORER


@dataclass(frozen=True)
class Choice:
    """The runs that a view shows, and sentences about those that it cannot."""

    runs: tuple[RunRows, ...]
    benchmark: Benchmark | None
    told: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(run.name for run in self.runs)

    @property
    def folders(self) -> list[Path]:
        return [run.folder for run in self.runs]


def identity(run: RunRows) -> tuple:
    """Changes whenever verdicts, judges or recordings of a run change; not when somebody annotates."""
    return (str(run.folder), *(each for each in run.signature if each[0] != annotations.NAME))


def is_scored(run: RunRows) -> bool:
    return run.score.get("scorer") == SCORER


def load_tables(run: RunRows) -> Scores:
    """Measurements and verdicts of a run.

    Raises
    ------
    InputError : not scored, scored by another version, or unreadable.
    """
    return _tables(identity(run))


@lru_cache(24)
def _tables(version: tuple) -> Scores:
    found = read_scores(Path(version[0]))
    if found.problem:
        raise InputError(found.problem)
    return found


def choose(workspace: Workspace, most: int) -> Choice:
    """The chosen runs that are scored and of one benchmark, in order; without a choice, those of one dataset."""
    store: Store = workspace.store
    told = [f"There is no run {name!r} here." for name in workspace.together if name not in store.runs]
    asked = [store.runs[name] for name in workspace.together if name in store.runs]
    runs: list[RunRows] = []
    for run in asked or _alike(store, workspace.run):
        if not is_scored(run):
            told.append(f"{run.name} has not been scored by this version of the scorer, so it is left out.")
        elif runs and run.benchmark != runs[0].benchmark:
            told.append(f"{run.name} is a run of {run.benchmark}, and {runs[0].name} of another benchmark; "
                        "it is left out.")  # fmt: skip
        elif len(runs) == most:
            if asked:
                told.append(f"At most {most} runs are shown here, so {run.name} is left out.")
        else:
            runs.append(run)
    if not runs:
        return Choice((), None, (*told, "No run here has been scored yet; `workbench score` does it."))
    benchmark = benchmark_of(runs[0].benchmark)
    if benchmark is None:
        return Choice((), None, (*told, f"The benchmark {runs[0].benchmark!r} is not installed here."))
    return Choice(tuple(runs), benchmark, tuple(told))


def _alike(store: Store, run: str) -> list[RunRows]:
    """Scored runs on the same cases: those of the chosen run, else the largest such group."""
    groups: dict[tuple, list[RunRows]] = {}
    for each in store.runs.values():
        if is_scored(each):
            groups.setdefault((each.benchmark, frozenset(each.contents.cases)), []).append(each)
    return next((group for group in groups.values() if run in [each.name for each in group]),
                max(groups.values(), key=len, default=[]))  # fmt: skip


class Together(Viewer):
    """A view of several runs: their picker, and sentences about what it cannot show.

    Subclasses say how many runs there may be, and draw in `update`, which is called when something changed
    and does nothing while the view is off screen.
    """

    workspace: Workspace = param.ClassSelector(class_=Workspace)
    active = param.Boolean(True)
    most, baseline, watched = 8, False, ("together", "version")

    def __init__(self, workspace: Workspace, **params: Any):
        super().__init__(workspace=workspace, **params)
        self.picker = RunPicker(most=self.most, baseline=self.baseline, colours=list(workspace.look.series),
                                sizing_mode="stretch_width", margin=(0, 0, 8, 0))  # fmt: skip
        self.told = text_pane(8)
        self._state: tuple | None = None
        self._build()
        self.picker.param.watch(self._picked, "chosen")
        workspace.param.watch(lambda *events: self.update(), list(self.watched))
        self.param.watch(lambda *events: self.update(), "active")
        self.update()

    def _build(self) -> None:
        """Make the view's own parts."""

    def update(self) -> None:
        raise NotImplementedError

    def choice(self, *more: Any) -> Choice | None:
        """The runs to show, when they (or `more`) have changed since the last call."""
        choice = choose(self.workspace, self.most)
        state = (*map(identity, choice.runs), choice.told, *more)
        if state == self._state:
            return None
        self._state = state
        options = [name for name, run in self.workspace.store.runs.items() if is_scored(run)]
        self.picker.shown = list(choice.names)
        self.picker.param.update(options=options, chosen=list(choice.names))
        return choice

    def tell(self, told: list[str], kind: str = "fail") -> None:
        self.told.object = "".join(f'<div class="wb-{kind}">{esc(text, 600)}</div>' for text in told)

    def _picked(self, event: Any) -> None:
        """Take over what a person picks; what the view itself shows is no choice and stays out of the link."""
        if list(event.new) != self.picker.shown:
            self.workspace.together = list(event.new)


def rule_switch(workspace: Workspace, **css: Any) -> pn.widgets.RadioButtonGroup:
    """As published or strict, for all views that decide."""
    options = {"as published": "verdict", "strict": "strict"}
    made = pn.widgets.RadioButtonGroup(options=options, height=28, stylesheets=[WIDGET_CSS], **css)
    made.param.watch(lambda event: workspace.param.update(rule=event.new), "value")
    return made
