"""Two to four systems on the same cases: paired tests, the cases on which they differ, and one case stacked."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from workbench.analysis.compare import Comparison, compare
from workbench.app.choosers import RunPicker, StackPlayer
from workbench.app.compare_texts import system_head, tests_table
from workbench.app.components import RowsTable
from workbench.app.detail import Detail, load_detail
from workbench.app.look import TEXT_CSS, WIDGET_CSS
from workbench.app.side_by_side import choose, identity, load_tables, show_picker, watch_picker
from workbench.app.workspace import Workspace
from workbench.errors import InputError
from workbench.pictures.stack_picture import Stack
from workbench.pictures.texts import esc, plain

MOST = 4
RESAMPLES = 2000
_LABELS = ("level", "action", "metric", "role")
_WHICH = {"all differences": "all", "wins": "wins", "losses": "losses"}


class CompareView(Viewer):
    """Shows the workspace's runs side by side, and its case under each of them."""

    workspace: Workspace = param.ClassSelector(class_=Workspace)
    active = param.Boolean(True)
    keys = ("w", "f", "l", "n", "p", "[", "]", "1", "2", "3", "4", "ArrowLeft", "ArrowRight")

    def __init__(self, workspace: Workspace, **params):
        super().__init__(workspace=workspace, **params)
        theme = workspace.look
        css = {"stylesheets": [WIDGET_CSS], "height": 28, "margin": (0, 8, 0, 0)}
        self.picker = RunPicker(most=MOST, colours=list(theme.series), sizing_mode="stretch_width", margin=(0, 0, 8, 0))
        self.rule = pn.widgets.RadioButtonGroup(options={"as published": "verdict", "strict": "strict"}, **css)
        self.which = pn.widgets.RadioButtonGroup(options=_WHICH, **css)
        self.align = pn.widgets.RadioButtonGroup(options={"one clock": "clock", "windows aligned": "window"}, **css)
        self.told, self.tests, self.count, self.title = (self._pane() for _ in range(4))
        self.table = RowsTable(size=8, sizing_mode="stretch_width", empty="On no case do these runs differ.",
                               stylesheets=[".holder { max-height: 262px; min-height: 60px; }"])  # fmt: skip
        self.stack = Stack(theme, MOST)
        self.heads = [self._pane() for _ in range(MOST)]
        # A column around each, since a Bokeh pane takes over its figure's own visibility.
        self.panes = [
            pn.Column(pn.pane.Bokeh(lane.figure, sizing_mode="stretch_width", margin=0), margin=(0, 0, 4, 0),
                      sizing_mode="stretch_width") for lane in self.stack.lanes
        ]  # fmt: skip
        self.player = StackPlayer(heads=self.stack.heads, range=self.stack.range.name, sizing_mode="stretch_width",
                                  margin=(6, 0, 6, 0))  # fmt: skip
        self.names: tuple[str, ...] = ()
        self.comparison: Comparison | None = None
        self.differing = pd.DataFrame({"case": []})
        self.details: list[Detail] = []
        self._compared: tuple | None = None
        self._stacked: tuple | None = None
        watch_picker(self.picker, workspace)
        self.rule.param.watch(lambda event: workspace.param.update(rule=event.new), "value")
        self.align.param.watch(lambda event: workspace.param.update(align=event.new), "value")
        self.which.param.watch(lambda *events: self._list(), "value")
        self.table.param.watch(lambda *events: self._page(), ["page", "sort"])
        self.table.param.watch(lambda event: self._open(event.new), "opened")
        self.player.param.watch(lambda *events: self._viewed(), "viewport")
        self.player.param.watch(lambda event: self._heard(event.new), "heard")
        workspace.param.watch(
            lambda *events: self.update(), ["together", "rule", "version", "case", "event", "metric", "align", "served"]
        )
        workspace.param.watch(lambda *events: self._hear(), "run")
        self.param.watch(lambda *events: self.update(), "active")
        self.update()

    def _pane(self) -> pn.pane.HTML:
        return pn.pane.HTML("", sizing_mode="stretch_width", margin=(0, 0, 4, 0), stylesheets=[TEXT_CSS])

    # -- state -> picture ----------------------------------------------------------------------

    def update(self) -> None:
        """Compare where runs changed, stack where the case changed; nothing while off screen."""
        if not self.active:
            self.player.pause()
            return
        with pn.io.hold():
            self._compare()
            self._stack()

    def _compare(self) -> None:
        space = self.workspace
        choice = choose(space, MOST)
        runs = [space.store.runs[name] for name in choice.names]
        state = (tuple(map(identity, runs)), space.rule, choice.told)
        if state == self._compared:
            return
        self._compared = state
        self.names, self.rule.value = choice.names, space.rule
        show_picker(self.picker, space.store, choice.names)
        told = list(choice.told)
        self.comparison, self.tests.object = None, ""
        if len(runs) == 1:
            told.append("Choose a second run to compare with the first.")
        elif runs:
            try:
                loaded = {run.name: load_tables(run) for run in runs}
                self.comparison = _joined(loaded)
                tests = self.comparison.tests(space.rule, resamples=RESAMPLES)
                self.tests.object = tests_table(tests, self.names[0])
                if len(self.comparison.only_in):
                    told.append(f"{len(self.comparison.only_in)} cases are not in every run and are left out.")
            except InputError as error:
                told.append(str(error))
        self.told.object = "".join(f'<div class="wb-fail">{esc(text, 400)}</div>' for text in told)
        self._list()

    def _list(self) -> None:
        """The cases on which the runs differ."""
        found, rule = self.comparison, self.workspace.rule
        if found is None:
            self.differing = pd.DataFrame({"case": []})
        else:
            frame = found.differences(rule)
            if self.which.value != "all":
                base = frame[f"{rule}:{self.names[0]}"]
                better, worse = ("pass", "fail") if self.which.value == "wins" else ("fail", "pass")
                hits = [(frame[f"{rule}:{name}"] == better) & (base == worse) for name in self.names[1:]]
                frame = frame[np.logical_or.reduce(hits)].reset_index(drop=True)
            self.differing = frame
            told = f"Cases on which they differ: {len(frame):,} of {len(found.joined):,}"
            self.count.object = f"<h3>{told} (a click opens one below; n and p walk)</h3>"
        self.table.visible = self.count.visible = self.which.visible = found is not None
        self._page()

    def _page(self) -> None:
        frame, table, rule = self.differing, self.table, self.workspace.rule
        column = table.sort.lstrip("-")
        if column in frame:
            frame = self.differing = frame.sort_values(column, ascending=not table.sort.startswith("-"), kind="stable",
                                                       ignore_index=True)  # fmt: skip
        page = min(table.page, max(0, math.ceil(len(frame) / table.size) - 1))
        part = frame.iloc[page * table.size : (page + 1) * table.size]
        columns = [
            ["case", "case", ""],
            *([name, name if name != "action" else "expected", ""] for name in _LABELS if name in frame),
        ]
        for name in self.names if self.comparison else ():
            columns.append([f"{rule}:{name}", name, "word"])
        for name in self.names if self.comparison else ():
            columns.append([f"reason:{name}", f"why, {name}", "long"])
        columns = [each for each in columns if each[0] in frame]
        rows = [
            [plain(value, 200) for value in row] for row in part[[each[0] for each in columns]].itertuples(index=False)
        ]
        chosen = np.flatnonzero(frame["case"].to_numpy() == self.workspace.case)
        with pn.io.hold():
            table.param.update(columns=columns, rows=rows, page=page, total=len(frame), stamp=table.stamp + 1,
                               selected=int(chosen[0]) if len(chosen) else -1)  # fmt: skip

    def _stack(self) -> None:
        space = self.workspace
        self.align.value = space.align
        runs = space.store.runs
        state = (
            space.case,
            (space.event, space.metric),
            space.align,
            space.rule,
            tuple(identity(runs[name]) for name in self.names),
            space.served,
        )
        if state == self._stacked:
            return
        other = self._stacked is None or state[:2] != self._stacked[:2] or state[4] != self._stacked[4]
        self._stacked = state
        shown = bool(space.case)
        if other:
            self.details = [load_detail(space.store, (name, *space.key[1:])) for name in self.names] if shown else []
        turned = self.stack.aligned is not None and self.stack.aligned != (space.align == "window")
        self.stack.show(self.details, space.align == "window")
        if turned:
            space.span = []  # seconds of another clock
        self.stack.view(*(space.span or self.stack.whole))
        for at in range(MOST):
            there = at < len(self.details)
            self.heads[at].visible = self.panes[at].visible = there
            if there:
                self.heads[at].object = system_head(at, self.names[at], self.details[at], space.look.run_colour(at),
                                                    space.rule, at == 0 and len(self.details) > 1)  # fmt: skip
        self.player.visible = shown
        self.title.object = (
            f"<h3>{esc(space.case)} {esc(space.event)} under each system</h3>" if shown else
            '<div class="wb-muted">Choose a case in the table to see and hear it under every system.</div>'
        )  # fmt: skip
        group = f"{space.case} {space.event}"
        systems = [
            {"name": name, "src": space.sound(name, detail),
             "lead": lane.lead_s, "group": group}
            for name, detail, lane in zip(self.names, self.details, self.stack.lanes, strict=False)
        ]  # fmt: skip
        self.player.param.update(
            window=list(self.stack.window() or self.stack.whole), heard=self._place(), systems=systems
        )
        self._mark()

    def _place(self) -> int:
        """Which system sounds: the workspace's run where it is among them."""
        return self.names.index(self.workspace.run) if self.workspace.run in self.names else 0

    def _hear(self) -> None:
        if self.active and self.names:
            self.player.heard = self._place()

    def _mark(self) -> None:
        """Show the chosen case in the table, on its page."""
        found = np.flatnonzero(self.differing["case"].to_numpy() == self.workspace.case)
        if not len(found):
            self.table.selected = -1
        elif found[0] // self.table.size != self.table.page:
            self.table.page = int(found[0]) // self.table.size
        else:
            self.table.selected = int(found[0])

    # -- browser -> state ----------------------------------------------------------------------

    def _heard(self, place: int) -> None:
        if 0 <= place < len(self.names) and self.workspace.case:
            self.workspace.param.update(run=self.names[place])

    def _open(self, place: int) -> None:
        if 0 <= place < len(self.differing):
            run = self.workspace.run if self.workspace.run in self.names else self.names[0]
            self.workspace.select((run, str(self.differing["case"].iloc[place]), ""))

    def _viewed(self) -> None:
        view = [float(each) for each in self.player.viewport]
        if len(view) != 2 or view[0] >= view[1]:
            return
        if any(abs(a - b) > 1e-6 for a, b in zip(view, self.stack.span, strict=True)):
            with pn.io.hold():
                self.stack.refill(*view)
        whole = all(abs(a - b) < 0.01 for a, b in zip(view, self.stack.whole, strict=True))
        self.workspace.span = [] if whole else view

    def step(self, by: int) -> None:
        """The next or previous case on which the runs differ."""
        if len(self.differing):
            found = np.flatnonzero(self.differing["case"].to_numpy() == self.workspace.case)
            at = int(found[0]) + by if len(found) else 0
            self._open(min(max(at, 0), len(self.differing) - 1))

    def press(self, key: str) -> None:
        player, window = self.player, self.stack.window()
        match key:
            case "n" | "p":
                self.step(1 if key == "n" else -1)
            case "w" if window:
                around = max(0.6 * (window[1] - window[0]), 0.5)
                self.stack.view(
                    max(self.stack.whole[0], window[0] - around), min(self.stack.whole[1], window[1] + around)
                )
            case "f" | "w":
                self.stack.view(*self.stack.whole)
            case "l":
                player.loop = not player.loop
            case "1" | "2" | "3" | "4" if int(key) <= len(self.names):
                player.heard = int(key) - 1
            case "[" | "]":
                steps = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
                at = steps.index(player.speed) if player.speed in steps else 2
                player.speed = steps[min(max(at + (1 if key == "]" else -1), 0), len(steps) - 1)]
            case "ArrowLeft" | "ArrowRight":
                player.seek_by(-1.0 if key == "ArrowLeft" else 1.0)

    def __panel__(self):
        lanes = [part for pair in zip(self.heads, self.panes, strict=True) for part in pair]
        bar = pn.Row(self.which, self.rule, self.align, margin=(0, 0, 6, 0))
        head = (self.picker, self.told, self.tests, bar, self.count, self.table, self.title, self.player)
        return pn.Column(*head, *lanes, sizing_mode="stretch_width", margin=0)


def _joined(loaded: dict) -> Comparison:
    runs = {name: (tables.measurements, tables.verdicts, tables.facts) for name, tables in loaded.items()}
    first = next(iter(runs.values()))[0]
    if "event" in first or "genuine_s" not in first:
        raise InputError("Runs of this benchmark have several rows a case, which the paired tests here do not take.")
    return compare(runs)
