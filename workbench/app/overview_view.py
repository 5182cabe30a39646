"""The benchmark's tables and pictures for the chosen runs, with intervals; one part at a time.

Counting takes a moment, so it is done once for each choice of runs, away from
the server's loop, and kept for all sessions. Titles, order and pictures are the benchmark's `sections`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import panel as pn
import param
from panel.viewable import Viewer

from workbench.app.choosers import RunPicker
from workbench.app.look import TEXT_CSS, WIDGET_CSS
from workbench.app.overview_texts import calibration_table, configuration_table, figures_table, judged_tables
from workbench.app.side_by_side import choose, folders, identity, show_picker, watch_picker
from workbench.app.workspace import Workspace
from workbench.errors import InputError
from workbench.pictures.texts import esc
from workbench.report.charts import drawn
from workbench.report.gather import Gathered, gather
from workbench.report.page import configuration, table_of

MOST_RUNS = 8
_KEEP = 6
_counted: OrderedDict[tuple, Gathered | str] = OrderedDict()
_lock = threading.Lock()
_counting = threading.Lock()
"""One count at a time: several sessions that open the same runs wait for one another, then find it done."""


def count(key: tuple, where: list) -> Gathered | str:
    """Everything about these runs, or the sentence that says why not."""
    with _counting:
        found = _known(key)
        if found is not None:
            return found
        try:
            made: Gathered | str = gather(where)
        except InputError as error:
            made = str(error)
        with _lock:
            _counted[key] = made
            while len(_counted) > _KEEP:
                _counted.popitem(last=False)
        return made


def _known(key: tuple) -> Gathered | str | None:
    with _lock:
        if key in _counted:
            _counted.move_to_end(key)
        return _counted.get(key)


class OverviewView(Viewer):
    """Shows `gathered`, one section (the workspace's) at a time."""

    workspace: Workspace = param.ClassSelector(class_=Workspace)
    active = param.Boolean(True)
    keys = ("n", "p")

    def __init__(self, workspace: Workspace, **params):
        super().__init__(workspace=workspace, **params)
        self.picker = RunPicker(most=MOST_RUNS, colours=list(workspace.look.series), baseline=False,
                                sizing_mode="stretch_width", margin=(0, 0, 8, 0))  # fmt: skip
        css = [WIDGET_CSS, ".bk-btn { text-align: left; }"]
        self.sections = pn.widgets.RadioButtonGroup(
            options={"…": ""}, orientation="vertical", width=214, margin=0, stylesheets=css
        )
        self.told, self.text = (
            pn.pane.HTML("", sizing_mode="stretch_width", margin=(0, 0, 8, 0), stylesheets=[TEXT_CSS]) for _ in range(2)
        )
        self.pictures = pn.Column(sizing_mode="stretch_width", margin=0)
        self.gathered: Gathered | None = None
        self._key: tuple | None = None
        self._made: dict[str, tuple[str, list]] = {}
        self._shown: tuple | None = None
        watch_picker(self.picker, workspace)
        self.sections.param.watch(lambda event: workspace.param.update(section=event.new), "value")
        workspace.param.watch(lambda *events: self.update(), ["together", "version"])
        workspace.param.watch(lambda *events: self.draw(), "section")
        self.param.watch(lambda *events: self.update(), "active")
        self.update()

    def update(self) -> None:
        """Count what has not been counted yet; nothing while off screen."""
        if not self.active:
            return
        space = self.workspace
        choice = choose(space, MOST_RUNS)
        runs = [space.store.runs[name] for name in choice.names]
        key = tuple(map(identity, runs))
        if (key, choice.told) == self._key:
            return
        self._key = (key, choice.told)
        show_picker(self.picker, space.store, choice.names)
        if not runs:
            self._arrived(key, " ".join(choice.told))
            return
        found = _known(key)
        document = pn.state.curdoc
        if found is not None or document is None or not document.session_context:
            self._arrived(key, found or count(key, folders(space, choice.names)))
            return
        self.told.object = f'<div class="wb-muted">Counting {len(runs)} runs …</div>'
        where = folders(space, choice.names)

        def work() -> None:
            made = count(key, where)
            document.add_next_tick_callback(lambda: self._arrived(key, made))

        threading.Thread(target=work, name="overview", daemon=True).start()

    def _arrived(self, key: tuple, made: Gathered | str) -> None:
        if self._key is None or self._key[0] != key:
            return  # another choice was made meanwhile
        with pn.io.hold():
            if isinstance(made, str):
                self.gathered, self._made = None, {}
                self.told.object = f'<div class="wb-fail">{esc(made, 600)}</div>'
                self.sections.param.update(options={"–": ""}, value="")
                self.draw()
                return
            self.gathered, self._made = made, {}
            told = [*self._key[1], *made.warnings]
            self.told.object = "".join(f'<div class="wb-muted">{esc(text, 400)}</div>' for text in told)
            titles = self._titles()
            section = (
                self.workspace.section if self.workspace.section in titles.values() else next(iter(titles.values()))
            )
            self.sections.param.update(options=titles, value=section)
            self.workspace.section = section
            self.draw()

    def _titles(self) -> dict[str, str]:
        """Title -> name of each part, in the benchmark's order, then calibration, judges and configuration."""
        found = self.gathered
        out = {section.title: section.name for section in found.sections} | {"Calibration matrix": "calibration"}
        if found.judged:
            out["Judges"] = "judges"
        return out | {"Configuration": "configuration"}

    def draw(self) -> None:
        """The open part: its figures and its table, made once."""
        name, found = self.workspace.section, self.gathered
        if not self.active:
            return
        if found is None or name not in self.sections.options.values():
            self.text.object, self.pictures.objects, self._shown = "", [], None
            return
        if (name, found) == self._shown:
            return
        self._shown = (name, found)
        with pn.io.hold():
            self.sections.value = name
            if name not in self._made:
                self._made[name] = self._make(name, found)
            self.text.object, self.pictures.objects = self._made[name]

    def _make(self, name: str, found: Gathered) -> tuple[str, list[pn.pane.Bokeh]]:
        if name == "calibration":
            return calibration_table(found), []
        if name == "judges":
            return judged_tables(found.judged), []
        if name == "configuration":
            return configuration_table(configuration(found)), []
        section = next(each for each in found.sections if each.name == name)
        panes = [
            pn.pane.Bokeh(picture, sizing_mode="stretch_width", margin=(0, 0, 10, 0))
            for picture in drawn(found, section, self.workspace.look)
        ]
        table = table_of(found.tables.get(name), section, found.names)
        return figures_table(table, section.about, bool(panes)), panes

    def press(self, key: str) -> None:
        names = list(self.sections.options.values())
        if self.workspace.section in names:
            at = names.index(self.workspace.section) + (1 if key == "n" else -1)
            self.workspace.section = names[min(max(at, 0), len(names) - 1)]

    def __panel__(self):
        main = pn.Column(self.told, self.pictures, self.text, sizing_mode="stretch_width", margin=(0, 0, 0, 14))
        return pn.Column(self.picker, pn.Row(self.sections, main, sizing_mode="stretch_width"),
                         sizing_mode="stretch_width", margin=0)  # fmt: skip
