"""Thresholds as sliders: whole runs decided again while a hand moves, and which cases turn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from workbench.app.choosers import RunPicker, Sliders
from workbench.app.components import RowsTable
from workbench.app.look import TEXT_CSS, WIDGET_CSS
from workbench.app.redecide import Answer, Redecide
from workbench.app.side_by_side import choose, identity, load_tables, show_picker, watch_picker
from workbench.app.store import KEY, key_of
from workbench.app.sweep_texts import rank_table, slider
from workbench.app.workspace import Workspace
from workbench.errors import InputError
from workbench.pictures import tau_histogram
from workbench.pictures.sweeps import Ranking, SweepMaps
from workbench.pictures.texts import esc, plain

MOST_RUNS = 8
SIDE_PX = 250
_LABELS = ("run", "case", "event", "level", "action", "metric", "role")


class SweepView(Viewer):
    """Decides the chosen runs under the workspace's thresholds. `engine` does the arithmetic."""

    workspace: Workspace = param.ClassSelector(class_=Workspace)
    active = param.Boolean(True)
    keys = ("r",)

    def __init__(self, workspace: Workspace, **params):
        super().__init__(workspace=workspace, **params)
        theme = workspace.look
        css = {"stylesheets": [WIDGET_CSS], "margin": (0, 0, 8, 0), "width": SIDE_PX - 18}
        self.picker = RunPicker(most=MOST_RUNS, colours=list(theme.series), baseline=False, sizing_mode="stretch_width",
                                margin=(0, 0, 8, 0))  # fmt: skip
        self.sliders = Sliders(width=SIDE_PX - 18, margin=(0, 0, 4, 0))
        self.reset = pn.widgets.Button(name="reset to defaults (r)", height=28, **css)
        self.rule = pn.widgets.RadioButtonGroup(
            options={"as published": "verdict", "strict": "strict"}, height=28, **css
        )
        self.rank_by, self.map_of, self.across, self.up = (
            pn.widgets.Select(name=name, options=[], **css) for name in ("rank by", "map of", "map: across", "map: up")
        )
        self.told, self.ranks = (
            pn.pane.HTML("", sizing_mode="stretch_width", margin=(0, 0, 8, 0), stylesheets=[TEXT_CSS]) for _ in range(2)
        )
        self.maps, self.ranking = SweepMaps(theme), Ranking(theme)
        self.grid_tau = pn.pane.Bokeh(None, sizing_mode="stretch_width", margin=0)
        self.grid_box = pn.Card(
            self.grid_tau, title="Rankings over the whole preset", collapsed=True, sizing_mode="stretch_width",
            margin=(0, 0, 8, 0), stylesheets=[WIDGET_CSS],
        )  # fmt: skip
        self.table = RowsTable(size=12, sizing_mode="stretch_width", empty="No verdict differs from the default.",
                               stylesheets=[".holder { max-height: 380px; min-height: 90px; }"])  # fmt: skip
        self.engine: Redecide | None = None
        self.answer: Answer | None = None
        self._prepared: tuple | None = None
        self._where: dict[str, np.ndarray] = {}
        self._turned = np.zeros(0, int)
        self._to_pass: set[int] = set()
        watch_picker(self.picker, workspace)
        self.sliders.param.watch(lambda *events: self._moved(), "moved")
        self.reset.on_click(lambda event: workspace.param.update(thresholds={}))
        self.rule.param.watch(lambda event: workspace.param.update(rule=event.new), "value")
        for widget in (self.rank_by, self.map_of, self.across, self.up):
            widget.param.watch(lambda *events: self._again(), "value")
        self.table.param.watch(lambda *events: self._page(), ["page", "sort"])
        self.table.param.watch(lambda event: self._open(event.new), "opened")
        workspace.param.watch(lambda *events: self.update(), ["together", "thresholds", "rule", "version"])
        self.grid_box.param.watch(lambda *events: self._whole_preset(), "collapsed")
        self.param.watch(lambda *events: self.update(), "active")
        self._quiet = False
        self.update()

    # -- state -> picture ----------------------------------------------------------------------

    @property
    def settings(self) -> dict[str, float]:
        """The workspace's thresholds that this benchmark has, held within the sliders' bounds."""
        if self.engine is None:
            return {}
        known = self.engine.benchmark.defaults
        return {name: max(0.0, float(value)) for name, value in self.workspace.thresholds.items() if name in known}

    def update(self) -> None:
        """Prepare the runs where they changed, then decide and draw."""
        if not self.active:
            return
        with pn.io.hold():
            self._prepare()
            self._decide()

    def _again(self) -> None:
        if self.active and not self._quiet:
            with pn.io.hold():
                self._decide()

    def _prepare(self) -> None:
        space = self.workspace
        choice = choose(space, MOST_RUNS)
        runs = [space.store.runs[name] for name in choice.names]
        state = (tuple(map(identity, runs)), space.rule, space.version, choice.told)
        if state == self._prepared:
            return
        self._prepared = state
        self.rule.value = space.rule
        show_picker(self.picker, space.store, choice.names)
        told, measurements = list(choice.told), {}
        for run in runs:
            try:
                measurements[run.name] = load_tables(run).measurements
            except InputError as error:
                told.append(str(error))
        unknown = [name for name in space.thresholds if choice.benchmark and name not in choice.benchmark.defaults]
        told += [f"{choice.benchmark.name} has no threshold {name!r}; it is left out." for name in unknown]
        self.told.object = "".join(f'<div class="wb-fail">{esc(text, 300)}</div>' for text in told)
        self.engine = Redecide(choice.benchmark, measurements, space.rule) if measurements else None
        if self.engine is None:
            return
        at = space.store.position
        self._where = {
            name: np.array([-1 if (place := at(key)) is None else place for key in _keys(name, frame)], int)
            for name, frame in self.engine.frames.items()
        }
        self._offer()
        self._whole_preset()

    def _offer(self) -> None:
        """What can be chosen: scores, and the thresholds of the map."""
        decider, defaults = self.engine.benchmark.decider, list(self.engine.benchmark.defaults)
        names = self.engine.score_names
        axes = list(decider.preset) or defaults
        longest = sorted(axes, key=lambda name: -len(decider.preset.get(name, ())))
        self._quiet = True
        try:
            for widget, options, usual in (
                (self.rank_by, names, decider.ranking),
                (self.map_of, names, names[0]),
                (self.across, defaults, longest[1] if len(longest) > 1 else defaults[0]),
                (self.up, defaults, longest[0]),
            ):
                value = widget.value if widget.value in options else usual
                widget.param.update(options=options, value=value)
        finally:
            self._quiet = False

    def _decide(self) -> None:
        engine = self.engine
        for part in (self.maps.figure, self.ranking.figure):
            part.visible = engine is not None
        self.ranks.visible = self.table.visible = engine is not None
        if engine is None:
            return
        settings, score = self.settings, self.rank_by.value
        self.answer = answer = engine.at(settings, score)
        full = dict(engine.benchmark.defaults) | settings
        x, y = self.across.value, self.up.value
        if x == y:
            y = next(name for name in [*engine.benchmark.decider.preset, *engine.benchmark.defaults, x] if name != x)
        grid, axes = engine.grid(settings, x, y, self.map_of.value), {x: engine.axis(x), y: engine.axis(y)}
        self.maps.show(grid, engine.names, axes, full, engine.benchmark.defaults, self.map_of.value)
        self.ranking.fill(engine.names, engine.base[score][0], answer.scores[score], score)
        self.ranks.object = rank_table(engine, answer, score, settings)
        self._list_flips(answer)
        self.sliders.sliders = [slider(engine.benchmark, name, full[name]) for name in engine.benchmark.defaults]

    def _whole_preset(self) -> None:
        """The preset's settings all at once, when somebody opens that part."""
        if self.grid_box.collapsed or self.engine is None:
            return
        found = self.engine.preset()
        self.grid_tau.object = tau_histogram(
            [None if math.isnan(value) else float(value) for value in found.tau], theme=self.workspace.look
        )

    # -- cases that turned ---------------------------------------------------------------------

    def _list_flips(self, answer: Answer) -> None:
        parts, to_pass = [], []
        for name, rows in answer.flips.items():
            places = self._where[name][rows]
            parts.append(places[places >= 0])
            to_pass += places[answer.now[name][rows]].tolist()
        self._turned = np.concatenate(parts) if parts else np.zeros(0, int)
        self._to_pass = set(to_pass)
        self._page()

    def _page(self) -> None:
        frame, table = self.workspace.frame, self.table
        shown_columns = [name for name in _LABELS if name in frame and (name != "event" or frame[name].ne("").any())]
        places = self._turned
        column = table.sort.lstrip("-")
        if column in frame and len(places):
            order = frame[column].iloc[places].astype(str).reset_index(drop=True).sort_values(
                ascending=not table.sort.startswith("-"), kind="stable").index  # fmt: skip
            places = places[order.to_numpy()]
        self._shown = places
        page = min(table.page, max(0, math.ceil(len(places) / table.size) - 1))
        here = places[page * table.size : (page + 1) * table.size]
        part = frame.iloc[here]
        rows = []
        for place, (_, row) in zip(here.tolist(), part.iterrows(), strict=True):
            was, now = ("fail", "pass") if place in self._to_pass else ("pass", "fail")
            rows.append([*(plain(row[name], 80) for name in shown_columns), was, now, self._turns_at(row)])
        columns = [[name, name, ""] for name in shown_columns]
        columns += [["was", "at default", "word"], ["now", "now", "word"], ["at", "turns", "long"]]
        with pn.io.hold():
            table.param.update(columns=columns, rows=rows, page=page, total=len(places), stamp=table.stamp + 1)

    def _turns_at(self, row: Any) -> str:
        found = self.engine.frames.get(row["run"])
        if found is None:
            return ""
        for name in KEY[1:]:
            found = found[found[name] == row[name]] if name in found else found
        flip = self.engine.benchmark.decider.flip(found.iloc[0].to_dict()) if len(found) else None
        return "" if flip is None else str(flip)

    # -- browser -> state ----------------------------------------------------------------------

    def _moved(self) -> None:
        if self.engine is None:
            return
        usual = self.engine.benchmark.defaults
        values = self.sliders.values
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
        flips = pn.pane.HTML("<h3>Cases whose verdict turned since the default (a click opens the case)</h3>",
                             stylesheets=[TEXT_CSS], margin=0, sizing_mode="stretch_width")  # fmt: skip
        main = pn.Column(self.told, self.ranks, pn.pane.Bokeh(self.ranking.figure, **wide),
                         pn.pane.Bokeh(self.maps.figure, **wide), self.grid_box, flips, self.table,
                         sizing_mode="stretch_width", margin=0)  # fmt: skip
        return pn.Column(
            self.picker, pn.Row(side, main, sizing_mode="stretch_width"), sizing_mode="stretch_width", margin=0
        )


def _keys(name: str, frame) -> list:
    parts = [frame[part].astype(str) if part in frame else [""] * len(frame) for part in KEY[1:]]
    return [(name, *key) for key in zip(*parts, strict=True)]
