"""Thresholds as sliders: whole runs decided again while a hand moves, and which rows turn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import panel as pn

from workbench.app.components import WIDGET_CSS, RowsTable, Sliders, button, head, text_pane
from workbench.app.filters import ordered
from workbench.app.redecide import Redecide, Redecided
from workbench.app.side_by_side import Together, load_tables, rule_switch
from workbench.app.store import key_of
from workbench.app.tables import rank_table
from workbench.contract import WORDS, Threshold
from workbench.errors import InputError
from workbench.pictures import tau_histogram
from workbench.pictures.sweeps import Ranking, SweepMaps
from workbench.pictures.texts import cell

SIDE_PX = 250
_NOT_SHOWN = ("verdict", "strict", "label", "latency_s", "judge_score", "reason", "error", "annotation")
"""Columns of Cases that say nothing of a setting."""


class SweepView(Together):
    """Decides the chosen runs under the workspace's thresholds. `engine` does the arithmetic."""

    keys = ("r",)
    watched = ("together", "thresholds", "rule", "version")

    def _build(self) -> None:
        space, theme = self.workspace, self.workspace.look
        css = {"margin": (0, 0, 8, 0), "width": SIDE_PX - 18}
        self.sliders = Sliders(width=SIDE_PX - 18, margin=(0, 0, 4, 0))
        self.reset = button("reset (r)", lambda: self.press("r"), height=28, **css)
        self.rule = rule_switch(space, **css)
        self.rank_by, self.map_of, self.across, self.up = (
            pn.widgets.Select(name=name, options=[], stylesheets=[WIDGET_CSS], **css)
            for name in ("rank by", "map of", "map: across", "map: up")
        )
        self.ranks, self.title = text_pane(8), text_pane(0)
        self.title.object = "<h3>Rows whose verdict turned (a click opens the case)</h3>"
        self.maps, self.ranking = SweepMaps(theme), Ranking(theme)
        self.grid_tau = pn.pane.Bokeh(None, sizing_mode="stretch_width", margin=0)
        self.grid_box = pn.Card(
            self.grid_tau, title="Rankings over the whole preset", collapsed=True, sizing_mode="stretch_width",
            margin=(0, 0, 8, 0), stylesheets=[WIDGET_CSS],
        )  # fmt: skip
        self.table = RowsTable(size=12, sizing_mode="stretch_width", empty="No verdict has turned.",
                               stylesheets=[".holder { max-height: 380px; min-height: 90px; }"])  # fmt: skip
        self.engine: Redecide | None = None
        self.answer: Redecided | None = None
        self._turned: list[tuple[int, str, int]] = []
        self._shown = np.zeros(0, int)
        self._quiet = False
        self.sliders.param.watch(lambda *events: self._moved(), "moved")
        for widget in (self.rank_by, self.map_of, self.across, self.up):
            widget.param.watch(lambda *events: self._again(), "value")
        self.table.param.watch(lambda *events: self._page(), ["page", "sort"])
        self.table.param.watch(lambda event: self._open(event.new), "opened")
        self.grid_box.param.watch(lambda *events: self._whole_preset(), "collapsed")

    # -- state -> picture ----------------------------------------------------------------------

    @property
    def settings(self) -> dict[str, float]:
        """The workspace's thresholds that this benchmark has, at least 0."""
        known = self.engine.benchmark.threshold if self.engine else {}
        return {name: max(0.0, float(value)) for name, value in self.workspace.thresholds.items() if name in known}

    def update(self) -> None:
        """Prepare the runs where they changed, then decide and draw."""
        if self.active:
            with pn.io.hold():
                self._prepare()
                self._decide()

    def _again(self) -> None:
        if not self._quiet:
            self.update()

    def _prepare(self) -> None:
        space = self.workspace
        choice = self.choice(space.rule, space.version)
        if choice is None:
            return
        self.rule.value = space.rule
        told, measurements, limits = list(choice.told), {}, {}
        for run in choice.runs:
            try:
                measurements[run.name] = load_tables(run).measurements
                limits[run.name] = run.score.get("thresholds", {})
            except InputError as error:
                told.append(str(error))
        self.engine = None
        if measurements:
            first, known = next(iter(limits)), choice.benchmark.threshold
            told += [f"{choice.benchmark.title} has no threshold {name!r}; it is left out." for name in space.thresholds
                     if name not in known]  # fmt: skip
            told += [f"{name} was scored with other thresholds than {first}; here all runs begin with those of {first}."
                     for name, own in limits.items() if own != limits[first]]  # fmt: skip
            own = {name: value for name, value in limits[first].items() if name in known}
            try:
                self.engine = Redecide(choice.benchmark, measurements, own, space.rule)
            except InputError as error:
                told.append(str(error))
        self.tell(told)
        if self.engine is not None:
            self._offer()
            self._whole_preset()

    def _offer(self) -> None:
        """What can be chosen: scores, and the thresholds of the map."""
        engine, benchmark = self.engine, self.engine.benchmark
        scores = {score.heading: name for name, score in engine.scores.items()}
        limits = {threshold.heading: name for name, threshold in benchmark.threshold.items()}
        longest = sorted(limits.values(), key=lambda name: -len(benchmark.threshold[name].grid))
        self._quiet = True
        try:
            for widget, options, usual in (
                (self.rank_by, scores, benchmark.ranking),
                (self.map_of, scores, next(iter(engine.scores))),
                (self.across, limits, longest[min(1, len(longest) - 1)]),
                (self.up, limits, longest[0]),
            ):
                value = widget.value if widget.value in options.values() else usual
                widget.param.update(options=options, value=value)
        finally:
            self._quiet = False

    def _decide(self) -> None:
        engine = self.engine
        for part in (self.maps.figure, self.ranking.figure, self.ranks, self.table, self.title):
            part.visible = engine is not None
        if engine is None:
            return
        settings, score, known = self.settings, self.rank_by.value, engine.benchmark.threshold
        self.answer = answer = engine.at(settings, score)
        full = engine.limits | settings
        x, y = self.across.value, self.up.value
        if x == y:
            y = next((name for name in known if name != x), x)
        if x != y:
            grid, axes = engine.grid(settings, x, y, self.map_of.value), {x: engine.axis(x), y: engine.axis(y)}
            named = [
                {_named(known[name]): value for name, value in each.items()} for each in (axes, full, engine.limits)
            ]
            self.maps.show(grid, engine.names, *named, engine.scores[self.map_of.value].heading)
        chosen = engine.scores[score]
        self.ranking.fill(engine.names, engine.base[score][0], answer.scores[score], chosen.heading,
                          less=chosen.better == "less")  # fmt: skip
        self.ranks.object = rank_table(engine, answer, score, settings)
        place = self.workspace.store.position
        self._turned = [
            (at, name, int(row))
            for name, rows in answer.flips.items()
            for row in rows
            if (at := place(engine.keys[name][row])) is not None
        ]
        self._page()
        self.sliders.sliders = [slider(known[name], full[name], engine.limits[name]) for name in known]

    def _whole_preset(self) -> None:
        """The preset's settings all at once, when somebody opens that part."""
        if self.grid_box.collapsed or self.engine is None:
            return
        found = self.engine.preset()
        self.grid_tau.object = tau_histogram(
            [None if math.isnan(value) else float(value) for value in found.tau],
            against="the thresholds as scored",
            theme=self.workspace.look,
        )

    def _page(self) -> None:
        """The rows that turned."""
        table, frame = self.table, self.workspace.store.frame
        known = self.workspace.table.shown([self.engine.benchmark.name])
        columns = {name: column for name, column in known.items() if name not in _NOT_SHOWN}
        turned = {at: (name, row) for at, name, row in self._turned}
        self._shown = ordered(frame, np.array(list(turned), int), table.sort)

        def rows(part: slice) -> list[list[str]]:
            here, turns = self._shown[part].tolist(), {}
            for run in {turned[at][0] for at in here}:
                own = [at for at in here if turned[at][0] == run]
                found = self.engine.turns(run, [turned[at][1] for at in own], self.settings)
                turns |= dict(zip(own, found, strict=True))
            both = (self.engine.before, self.answer.states)
            words = {at: [WORDS[int(each[turned[at][0]][0][turned[at][1]])] for each in both] for at in here}
            return [[*(cell(frame[name].iloc[at]) for name in columns), *words[at], turns[at]] for at in here]

        more = (["was", "was", "word"], ["now", "now", "word"], ["at", "turns", "long"])
        table.fill(len(self._shown), [*map(head, columns.values()), *more], rows)

    # -- browser -> state ----------------------------------------------------------------------

    def _moved(self) -> None:
        if self.engine is None:
            return
        usual, values = self.engine.limits, self.sliders.values
        with pn.io.hold():
            self.workspace.thresholds = {
                name: value for name, value in values.items() if abs(value - float(usual[name])) > 1e-9
            }
            self.sliders.answered += 1

    def _open(self, place: int) -> None:
        if 0 <= place < len(self._shown):
            self.workspace.select(key_of(self.workspace.frame.iloc[self._shown[place]]), open_case=True)

    def press(self, key: str) -> None:
        if key == "r":
            self.workspace.thresholds = {}

    def __panel__(self):
        side = pn.Column(self.sliders, self.reset, self.rule, self.rank_by, self.map_of, self.across, self.up,
                         width=SIDE_PX, margin=(0, 14, 0, 0))  # fmt: skip
        wide = {"sizing_mode": "stretch_width", "margin": (0, 0, 8, 0)}
        main = pn.Column(self.told, self.ranks, pn.pane.Bokeh(self.ranking.figure, **wide),
                         pn.pane.Bokeh(self.maps.figure, **wide), self.grid_box, self.title, self.table,
                         sizing_mode="stretch_width", margin=0)  # fmt: skip
        return pn.Column(
            self.picker, pn.Row(side, main, sizing_mode="stretch_width"), sizing_mode="stretch_width", margin=0
        )


def _named(threshold: Threshold) -> str:
    return f"{threshold.heading}, {threshold.unit}" if threshold.unit else threshold.heading


def slider(threshold: Threshold, value: float, usual: float) -> dict[str, Any]:
    """One threshold, for `choosers.Sliders`. usual : the value in force, which it returns to."""
    low, high, step = threshold.range
    return {
        "name": threshold.name, "heading": threshold.heading, "about": threshold.about, "value": value, "low": low,
        "high": max(high, value), "step": step, "unit": threshold.unit, "usual": float(usual),
        "ticks": list(threshold.grid),
    }  # fmt: skip
