"""Every run's rows: filters with counts, search, a table, and pass rates that follow the filters."""

from __future__ import annotations

import math

import panel as pn
import param
from panel.viewable import Viewer

from workbench.app.components import WIDGET_CSS, Facets, RowsTable, button, head, text_pane
from workbench.app.store import key_of
from workbench.app.tables import strip
from workbench.app.workspace import Workspace
from workbench.pictures.texts import cell, esc, muted, plain

SIDE_PX = 232
_ALWAYS = ("run", "verdict")
"""Filters that are there even with one value."""


class CasesView(Viewer):
    """The table of the workspace's filtered rows."""

    workspace: Workspace = param.ClassSelector(class_=Workspace)
    active = param.Boolean(True)
    keys = ("Enter", "PageDown", "PageUp")

    def __init__(self, workspace: Workspace, **params):
        super().__init__(workspace=workspace, **params)
        self.table = RowsTable(sizing_mode="stretch_width")
        self.facets = Facets(width=SIDE_PX - 16)
        self._css = {"stylesheets": [WIDGET_CSS], "margin": (0, 0, 8, 0), "width": SIDE_PX - 16}
        self.search = pn.widgets.TextInput(
            placeholder="search transcripts, rationales ( / )", value=workspace.words, **self._css
        )
        self.sliders: dict[str, pn.widgets.RangeSlider] = {}
        self.ranges = pn.Column(margin=0)
        self.reset = button("clear filters", workspace.clear, height=28, **self._css)
        self.by = pn.widgets.RadioButtonGroup(options=["run"], height=28, margin=(0, 0, 4, 0), stylesheets=[WIDGET_CSS])
        self.strip, self.notes = text_pane(), text_pane()
        self._drawn: tuple | None = None
        self.search.param.watch(lambda event: workspace.param.update(words=event.new), "value")
        self.by.param.watch(lambda event: workspace.param.update(by=event.new), "value")
        self.facets.param.watch(lambda event: workspace.param.update(chosen=event.new), "chosen")
        self.table.param.watch(lambda event: workspace.param.update(sort=event.new), "sort")
        self.table.param.watch(lambda *events: self._page(), "page")
        self.table.param.watch(lambda event: self._open(event.new), "opened")
        workspace.param.watch(lambda *events: self.update(), ["rows", "by", "words", "chosen", "ranges", "sort"])
        workspace.param.watch(lambda *events: self._show_chosen(), ["run", "case", "event", "metric"])
        self.param.watch(lambda *events: self.update(), "active")
        self.update()

    # -- state -> picture ----------------------------------------------------------------------

    def update(self) -> None:
        """Draw rows, counts and rates of the filtered rows; nothing while the view is off screen."""
        space = self.workspace
        now = (space.version, str(space.filters), space.sort, space.by, space.store.unread)
        if not self.active or now == self._drawn:
            return
        self._drawn = now
        with pn.io.hold():
            for name in space.table.ranges:
                self._bounds(name)
            self.search.value = space.words
            self.facets.param.update(groups=self._groups(), chosen=space.chosen)
            options = {space.table.columns[name].heading: name for name in space.table.splits(space.benchmarks)} or {
                "run": "run"
            }
            value = space.by if space.by in options.values() else next(iter(options.values()))
            self.by.param.update(options=options, value=value)
            self.strip.object = strip(space.frame.iloc[space.rows], value)
            self.notes.object = self._notes()
            self.table.sort = space.sort
            self._page()
            self._show_chosen()

    def _page(self) -> None:
        space, here = self.workspace, self.workspace.position
        columns = space.table.shown(space.benchmarks)

        def rows(part: slice) -> list[list[str]]:
            page = space.frame.iloc[space.rows[part]]
            cells = [[cell(value) for value in page[name]] for name in columns]
            return [list(row) for row in zip(*cells, strict=True)]

        self.table.fill(len(space.rows), map(head, columns.values()), rows, -1 if here is None else here)

    def _show_chosen(self) -> None:
        here = self.workspace.position
        self.table.see(-1 if here is None else here)

    def _groups(self) -> list[dict]:
        space, groups = self.workspace, []
        for name, counted in space.table.counts(space.filters).items():
            if len(counted) < 2 and name not in _ALWAYS and not space.chosen.get(name):
                continue
            column = space.table.columns[name]
            names = space.table.long_names(name)
            options = [
                [value, plain(f"{value} {names.get(value, '')}".strip() or "(none)", 80), count]
                for value, count in counted
            ]
            groups.append({"name": name, "label": column.heading, "shown": column.open, "options": options})
        return groups

    def _bounds(self, name: str) -> None:
        """A slider from the least to the greatest value there is; it shows what is chosen."""
        if name not in self.sliders:
            made = pn.widgets.RangeSlider(name=head(self.workspace.table.columns[name])[1], start=0, end=1, **self._css)
            made.param.watch(lambda *events: self._ranged(name), "value_throttled")
            self.sliders[name] = made
            self.ranges.append(made)
        slider, values = self.sliders[name], self.workspace.frame[name]
        slider.visible = bool(values.notna().any())
        if not slider.visible:
            return
        low, high = math.floor(values.min() * 20) / 20, math.ceil(values.max() * 20) / 20
        high = max(high, low + 0.05)
        chosen = self.workspace.ranges.get(name)
        value = (max(low, chosen[0]), min(high, chosen[1])) if chosen else (low, high)
        value = value if value[0] <= value[1] else (low, high)
        slider.param.update(start=low, end=high, step=1.0 if high - low > 20 else 0.05, value=value)

    def _notes(self) -> str:
        store = self.workspace.store
        said = [*store.problems, *(f"{run.name}: {text}" for run in store.runs.values() for text in run.problems[:4])]
        if store.unread:
            said.append(f"{store.unread} transcripts are still being read; a search does not reach them yet.")
        return "".join(muted(esc(text, 400)) for text in said[:8])

    # -- browser -> state ----------------------------------------------------------------------

    def _ranged(self, name: str) -> None:
        slider = self.sliders[name]
        ranges = {key: value for key, value in self.workspace.ranges.items() if key != name}
        if tuple(slider.value) != (slider.start, slider.end):
            ranges[name] = [float(value) for value in slider.value]
        self.workspace.ranges = ranges

    def _open(self, place: int) -> None:
        space = self.workspace
        if 0 <= place < len(space.rows):
            space.select(key_of(space.frame.iloc[space.rows[place]]), open_case=True)

    def press(self, key: str) -> None:
        if key != "Enter":
            self.table.turn(1 if key == "PageDown" else -1)
        elif self.workspace.position is not None:
            self.workspace.view = "case"

    def __panel__(self):
        side = pn.Column(self.search, self.ranges, self.reset, self.facets, width=SIDE_PX, margin=(0, 12, 0, 0))
        main = pn.Column(self.by, self.strip, self.notes, self.table, sizing_mode="stretch_width", margin=0)
        return pn.Row(side, main, sizing_mode="stretch_width")
