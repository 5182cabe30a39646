"""The benchmark's tables and pictures for the chosen runs, with intervals; one part at a time.

Counting may take seconds, so it is done once for each choice of runs, away from the server's loop, and kept
for all sessions. Titles, order and pictures are the benchmark's `sections`.
"""

from __future__ import annotations

import threading
from typing import Any

import panel as pn

from workbench.app.components import WIDGET_CSS, text_pane
from workbench.app.side_by_side import Choice, Together, identity
from workbench.app.tables import calibration_table, configuration_table, figures_table, judged_tables
from workbench.errors import InputError
from workbench.report.charts import drawn
from workbench.report.figures import table_of
from workbench.report.gather import Gathered, gather
from workbench.report.page import configuration

_counted: dict[tuple, Gathered | str] = {}
_KEEP = 6
_counting = threading.Lock()
"""One count at a time: several sessions that open the same runs wait for one another, then find it done."""


def count(choice: Choice) -> Gathered | str:
    """Everything about these runs, or the sentence that says why not."""
    key = tuple(map(identity, choice.runs))
    with _counting:
        found = _counted.pop(key, None)
        try:
            found = found or gather(choice.folders)
        except InputError as error:
            found = str(error)
        _counted[key] = found  # the last, so that the first is what was not asked for longest
        if len(_counted) > _KEEP:
            del _counted[next(iter(_counted))]
        return found


class OverviewView(Together):
    """Shows `gathered`, one section (the workspace's) at a time."""

    keys = ("n", "p")

    def _build(self) -> None:
        css = [WIDGET_CSS, ".bk-btn { text-align: left; }"]
        self.sections = pn.widgets.RadioButtonGroup(
            options={"…": ""}, orientation="vertical", width=214, margin=0, stylesheets=css
        )
        self.text, self.pictures = text_pane(8), pn.Column(sizing_mode="stretch_width", margin=0)
        self.gathered: Gathered | None = None
        self._choice: Choice | None = None
        self._made: dict[str, tuple[str, list]] = {}
        self._shown: tuple | None = None
        self.sections.param.watch(lambda event: self.workspace.param.update(section=event.new), "value")
        self.workspace.param.watch(lambda *events: self.draw(), "section")

    def update(self) -> None:
        """Count what has not been counted yet; nothing while off screen."""
        choice = self.choice() if self.active else None
        if choice is None:
            return
        self._choice, document = choice, pn.state.curdoc
        if not choice.runs:
            self._arrived(choice, " ".join(choice.told))
        elif document is None or not document.session_context or _counted.get(tuple(map(identity, choice.runs))):
            self._arrived(choice, count(choice))
        else:
            self.tell([f"Counting {len(choice.runs)} runs …"], "muted")

            def work() -> None:
                made = count(choice)
                document.add_next_tick_callback(lambda: self._arrived(choice, made))

            threading.Thread(target=work, name="overview", daemon=True).start()

    def _arrived(self, choice: Choice, made: Gathered | str) -> None:
        if choice is not self._choice:
            return  # another choice was made meanwhile
        with pn.io.hold():
            self._made = {}
            self.gathered = None if isinstance(made, str) else made
            if self.gathered is None:
                self.tell([str(made)])
                self.sections.param.update(options={"–": ""}, value="")
            else:
                self.tell([*choice.told, *self.gathered.warnings], "muted")
                titles = {section.title: section.name for section in self.gathered.sections}
                titles |= {"Calibration matrix": "calibration"} | ({"Judges": "judges"} if self.gathered.judged else {})
                titles["Configuration"] = "configuration"
                wanted = self.workspace.section
                section = wanted if wanted in titles.values() else next(iter(titles.values()))
                self.sections.param.update(options=titles, value=section)
                self.workspace.section = section
            self.draw()

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

    def _make(self, name: str, found: Gathered) -> tuple[str, list[Any]]:
        match name:
            case "calibration":
                return calibration_table(found), []
            case "judges":
                return judged_tables(found.judged), []
            case "configuration":
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
