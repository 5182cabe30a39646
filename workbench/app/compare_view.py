"""Two to four systems on the same cases: paired tests, the rows on which they differ, and one case stacked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import panel as pn

from workbench.analysis.compare import Comparison, compare
from workbench.app.case_texts import word
from workbench.app.components import WIDGET_CSS, Player, RowsTable, head, system, text_pane
from workbench.app.detail import Detail, load_detail
from workbench.app.filters import ordered
from workbench.app.run_rows import RunRows
from workbench.app.side_by_side import Together, identity, load_tables, rule_switch
from workbench.app.store import key_of
from workbench.app.tables import tests_table
from workbench.contract import KEYS
from workbench.errors import InputError
from workbench.pictures.recording import Picture
from workbench.pictures.texts import cell, esc, muted, nothing, rounded
from workbench.runs import load_run

_WHICH = {"all differences": "all", "wins": "wins", "losses": "losses"}


class CompareView(Together):
    """Shows the workspace's runs side by side, and its case under each of them."""

    keys = ("w", "f", "l", "n", "p", "[", "]", "1", "2", "3", "4", "ArrowLeft", "ArrowRight")
    most, baseline = 4, True
    watched = ("together", "rule", "version", "case", "event", "metric", "align", "served")

    def _build(self) -> None:
        space, css = self.workspace, {"margin": (0, 8, 0, 0)}
        self.rule = rule_switch(space, **css)
        self.which, self.align = (
            pn.widgets.RadioButtonGroup(options=options, height=28, stylesheets=[WIDGET_CSS], **css)
            for options in (_WHICH, {"one clock": "clock", "windows aligned": "window"})
        )
        self.tests, self.count, self.title = (text_pane(4) for _ in range(3))
        self.table = RowsTable(size=8, sizing_mode="stretch_width", empty="On no row do these runs differ.",
                               stylesheets=[".holder { max-height: 262px; min-height: 60px; }"])  # fmt: skip
        self.stack = Picture(space.look, self.most)
        self.heads = [text_pane(4) for _ in range(self.most)]
        # A column around each, since a Bokeh pane takes over its figure's own visibility.
        self.panes = [
            pn.Column(pn.pane.Bokeh(lane.figure, sizing_mode="stretch_width", margin=0), margin=(0, 0, 4, 0),
                      sizing_mode="stretch_width") for lane in self.stack.lanes
        ]  # fmt: skip
        self.player = Player(heads=self.stack.heads, range=self.stack.range.name, sizing_mode="stretch_width",
                                  margin=(6, 0, 6, 0))  # fmt: skip
        self.names: tuple[str, ...] = ()
        self.comparison: Comparison | None = None
        self.differing = pd.DataFrame(columns=list(KEYS))
        self.details: list[Detail] = []
        self._stacked: tuple | None = None
        self.align.param.watch(lambda event: space.param.update(align=event.new), "value")
        self.which.param.watch(lambda *events: self._list(), "value")
        self.table.param.watch(lambda *events: self._page(), ["page", "sort"])
        self.table.param.watch(lambda event: self._open(event.new), "opened")
        self.player.param.watch(lambda *events: self._viewed(), "viewport")
        self.player.param.watch(lambda event: self._heard(event.new), "heard")
        space.param.watch(lambda *events: self._hear(), "run")

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
        choice = self.choice(space.rule)
        if choice is None:
            return
        self.names, self.rule.value = choice.names, space.rule
        told = list(choice.told)
        self.comparison, self.tests.object = None, ""
        if len(choice.runs) == 1:
            told.append("Choose a second run to compare with the first.")
        elif choice.runs:
            try:
                self.comparison = compare(choice.benchmark, {run.name: _scored(run) for run in choice.runs})
                tests = self.comparison.tests(space.rule)
                self.tests.object = tests_table(tests, self.names[0])
                told += self.comparison.notes
                if len(self.comparison.only_in):
                    told.append(f"{len(self.comparison.only_in)} cases are not in every run and are left out.")
            except InputError as error:
                told.append(str(error))
        self.tell(told)
        self._list()

    def _list(self) -> None:
        """The rows on which the runs differ."""
        found, rule = self.comparison, self.workspace.rule
        frame = pd.DataFrame(columns=list(KEYS)) if found is None else found.differences(rule)
        if found is not None:
            if self.which.value != "all":
                base = frame[f"{rule}:{self.names[0]}"]
                better, worse = ("pass", "fail") if self.which.value == "wins" else ("fail", "pass")
                hits = [(frame[f"{rule}:{name}"] == better) & (base == worse) for name in self.names[1:]]
                frame = frame[np.logical_or.reduce(hits)].reset_index(drop=True)
            told = f"Rows on which they differ: {len(frame):,} of {len(found.joined):,}"
            self.count.object = f"<h3>{told} (a click opens one below; n and p walk)</h3>"
        self.differing = frame
        self.table.visible = self.count.visible = self.which.visible = found is not None
        self._page()

    def _page(self) -> None:
        table, rule = self.table, self.workspace.rule
        order = ordered(self.differing, np.arange(len(self.differing)), table.sort)
        frame = self.differing = self.differing.iloc[order].reset_index(drop=True)
        known = self.workspace.table.shown()
        columns = [head(column) for name, column in known.items() if name in frame]
        names = self.names if self.comparison else ()
        columns += [[f"{rule}:{name}", name, "word"] for name in names]
        columns += [[f"reason:{name}", f"why, {name}", "long"] for name in names]
        shown = [name for name, *_ in columns]
        table.fill(len(frame), columns, lambda part: [list(map(cell, row)) for row in
                                                      frame.iloc[part][shown].itertuples(index=False)],
                   self._at())  # fmt: skip

    def _at(self) -> int:
        """Where the workspace's row stands among those that differ; -1 if it does not."""
        found = np.flatnonzero((self.differing[list(KEYS)] == list(self.workspace.key[1:])).all(axis=1).to_numpy(bool))
        return int(found[0]) if len(found) else -1

    def _stack(self) -> None:
        space = self.workspace
        self.align.value = space.align
        runs = space.store.runs
        state = (space.key[1:], tuple(identity(runs[name]) for name in self.names), space.align, space.rule,
                 space.served)  # fmt: skip
        if state == self._stacked:
            return
        other = self._stacked is None or state[:2] != self._stacked[:2]
        self._stacked = state
        shown = bool(space.case)
        if other:
            self.details = [load_detail(space.store, (name, *space.key[1:])) for name in self.names] if shown else []
        turned = self.stack.aligned is not None and self.stack.aligned != (space.align == "window")
        self.stack.show(self.details, aligned=space.align == "window")
        if turned:
            space.span = []  # seconds of another clock
        self.stack.view(*(space.span or self.stack.whole))
        for at in range(self.most):
            there = at < len(self.details)
            self.heads[at].visible = self.panes[at].visible = there
            if there:
                self.heads[at].object = self._head(at)
        self.player.visible = shown
        named = " ".join(filter(None, space.key[1:]))
        self.title.object = f"<h3>{esc(named)} under each system</h3>" if shown else muted(
            "Choose a row in the table to see and hear it under every system.")  # fmt: skip
        systems = [
            system(name, detail, space.sound(name, detail), lane.lead_s)
            for name, detail, lane in zip(self.names, self.details, self.stack.lanes, strict=False)
        ]
        self.player.param.update(
            window=list(self.stack.window or self.stack.whole), heard=self._place(), systems=systems
        )
        self.table.see(self._at())

    def _head(self, at: int) -> str:
        """The line above one system of the stack: its verdict and the sentence for it."""
        row, missing = self.details[at].row, self.details[at].missing
        colour = self.workspace.look.run_colour(at)
        name = f'<b style="border-bottom: 3px solid {colour}">{at + 1} {esc(self.names[at])}</b>'
        first = ' <span class="wb-muted">baseline</span>' if at == 0 and len(self.details) > 1 else ""
        if not row:
            return f"{name}{first} <span class='wb-muted'>{esc(' '.join(missing), 300)}</span>"
        lacking = [text for text in missing if "judge" not in text.lower()][:1]
        if not nothing(row["judge_score"]):
            lacking.append(f"judge {rounded(float(row['judge_score']))}")
        aside = "".join(f' <span class="wb-muted">{esc(text, 160)}</span>' for text in lacking)
        said = esc(row["reason"] or "no reason is given", 400)
        return f"{name}{first} {word(row[self.workspace.rule])} {said}{aside}"

    def _place(self) -> int:
        """Which system sounds: the workspace's run where it is among them."""
        return self.names.index(self.workspace.run) if self.workspace.run in self.names else 0

    def _hear(self) -> None:
        if self.active and self.names:
            self.player.heard = self._place()

    # -- browser -> state ----------------------------------------------------------------------

    def _heard(self, place: int) -> None:
        if 0 <= place < len(self.names) and self.workspace.case:
            self.workspace.param.update(run=self.names[place])

    def _open(self, place: int) -> None:
        if 0 <= place < len(self.differing):
            run = self.workspace.run if self.workspace.run in self.names else self.names[0]
            self.workspace.select((run, *key_of(self.differing.iloc[place], KEYS)))

    def _viewed(self) -> None:
        self.stack.see(self.player.viewport)
        self.workspace.span = self.stack.zoom

    def step(self, by: int) -> None:
        """The next or previous row on which the runs differ."""
        if len(self.differing):
            here = self._at()
            self._open(min(max(here + by if here >= 0 else 0, 0), len(self.differing) - 1))

    def press(self, key: str) -> None:
        match key:
            case "n" | "p":
                self.step(1 if key == "n" else -1)
            case "w":
                self.stack.zoom_to_window()
            case "f":
                self.stack.fit()
            case "1" | "2" | "3" | "4":
                if int(key) <= len(self.names):
                    self.player.heard = int(key) - 1
            case _:
                self.player.press(key)

    def __panel__(self):
        lanes = [part for pair in zip(self.heads, self.panes, strict=True) for part in pair]
        bar = pn.Row(self.which, self.rule, self.align, margin=(0, 0, 6, 0))
        above = (self.picker, self.told, self.tests, bar, self.count, self.table, self.title, self.player)
        return pn.Column(*above, *lanes, sizing_mode="stretch_width", margin=0)


def _scored(run: RunRows) -> tuple[pd.DataFrame, pd.DataFrame, dict]:
    found = load_tables(run)
    return found.measurements, found.verdicts, load_run(run.folder).facts(found.score)
