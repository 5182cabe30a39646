"""The browser components: keys, address, table of rows, filters, choice of runs, sliders of thresholds, player.

Each is a small script in browser/ that loads nothing from outside; Python sees only params.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import panel as pn
import param
from panel.custom import JSComponent

from workbench.contract import Column
from workbench.pictures import standalone

_HERE = Path(__file__).parent / "browser"


def css(name: str) -> str:
    """A style sheet of browser/; its colours are the properties that the page sets."""
    return (_HERE / f"{name}.css").read_text(encoding="utf-8")


TEXT_CSS = css("text")
"""For HTML panes, which live in shadow roots."""

WIDGET_CSS = css("widgets")
"""For Panel's own widgets."""

_CONTROLS = css("controls")


class Keys(JSComponent):
    """Tells which of `keys` was pressed anywhere on the page, except while typing; names its main part and handles.

    Space (play or pause), and '/' where a search field is on screen, are handled in the browser.
    """

    keys = param.List([])
    pressed = param.Event()
    last = param.String("", doc="the key behind `pressed`")

    _esm = _HERE / "keys.js"

    def _handle_msg(self, data: dict) -> None:
        key = data.get("key") if isinstance(data, dict) else None
        if key in self.keys:
            self.last = key
            self.param.trigger("pressed")


class Address(JSComponent):
    """The page's address: [view, query] is written into it; `went` tells that the browser went back or on to `to`.

    probe : an address of `files`; `unserved` tells that the server does not answer there.
    """

    state = param.List(["", ""])
    reload = param.Integer(0, doc="raised to load the page again")
    probe = param.String("")
    unserved = param.Event()
    went = param.Event()
    to = param.String("")

    _esm = _HERE / "address.js"

    def _handle_msg(self, data: dict) -> None:
        query = data.get("query") if isinstance(data, dict) else None
        if isinstance(query, str):
            self.to = query
            self.param.trigger("went")
        elif isinstance(data, dict) and data.get("unserved") is True:
            self.param.trigger("unserved")


class RowsTable(JSComponent):
    """One page of rows. columns : [name, label, kind]; kind is '', 'number', 'word' or 'long'.

    `stamp` is raised after rows, columns and page were set, so that the browser draws once.
    """

    columns = param.List([])
    rows = param.List([])
    page = param.Integer(0, bounds=(0, None))
    size = param.Integer(50, bounds=(1, 1000))
    total = param.Integer(0)
    selected = param.Integer(-1, doc="place of the chosen row among all filtered rows; -1 for none")
    sort = param.String("")
    follow = param.Boolean(True, doc="whether the page moves so that the chosen row is seen")
    empty = param.String("No row passes these filters.")
    stamp = param.Integer(0)
    opened = param.Integer(-1, doc="place of the row that was clicked last")

    _esm = _HERE / "rows_table.js"
    _stylesheets = [_CONTROLS, css("rows_table")]

    def fill(
        self, total: int, columns: Sequence[Sequence[str]], rows: Callable[[slice], list], selected: int = -1
    ) -> None:
        """Show the page that is open. rows : the cells, as text, of these places among all rows."""
        page = min(self.page, max(0, math.ceil(total / self.size) - 1))
        part = slice(page * self.size, min((page + 1) * self.size, total))
        with pn.io.hold():
            self.param.update(columns=list(map(list, columns)), rows=rows(part), page=page, total=total,
                              selected=selected, stamp=self.stamp + 1)  # fmt: skip

    def see(self, place: int) -> None:
        """Choose a row, on its page; -1 for none."""
        if place >= 0 and place // self.size != self.page:
            self.page = place // self.size
        else:
            self.selected = place

    def turn(self, by: int) -> None:
        """Pages on or back."""
        self.page = min(max(self.page + by, 0), max(0, math.ceil(self.total / self.size) - 1))

    def _handle_msg(self, data: dict) -> None:
        place = data.get("open") if isinstance(data, dict) else None
        if isinstance(place, int) and 0 <= place < self.total:
            self.opened = place
            self.param.trigger("opened")


class Facets(JSComponent):
    """Filters with counts. groups : dicts with name, label, shown and options [value, text, count]."""

    groups = param.List([])
    chosen = param.Dict({})

    _esm = _HERE / "facets.js"
    _stylesheets = [_CONTROLS, css("facets")]


class RunPicker(JSComponent):
    """Runs to set side by side; `chosen` keeps the order, the baseline first. `colours` are the theme's."""

    options = param.List([])
    chosen = param.List([])
    colours = param.List([])
    most = param.Integer(4, bounds=(1, None))
    baseline = param.Boolean(True, doc="whether the first run is a baseline, and says so")
    shown: list[str] = []  # what the view last put into `chosen` itself

    _esm = _HERE / "run_picker.js"
    _stylesheets = [_CONTROLS, css("run_picker")]


class Sliders(JSComponent):
    """Thresholds. sliders : dicts with name, value, low, high, step, usual (the default), unit, ticks.

    `moved` is triggered with the new `values`; raise `answered` when their effect has been drawn, since
    the browser sends the next values only then.
    """

    sliders = param.List([])
    answered = param.Integer(0)
    values = param.Dict({})
    moved = param.Event()

    _esm = _HERE / "sliders.js"
    _stylesheets = [_CONTROLS, css("sliders")]

    def _handle_msg(self, data: dict) -> None:
        values = data.get("values") if isinstance(data, dict) else None
        known = {slider["name"]: slider for slider in self.sliders}
        if not isinstance(values, dict) or not set(values) <= set(known):
            return
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values.values()):
            self.values = {
                name: float(min(max(value, known[name]["low"]), known[name]["high"])) for name, value in values.items()
            }
            self.param.trigger("moved")


SPEEDS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)


class Player(JSComponent):
    """Plays one of `systems` and is the clock of the picture: moves the spans named in `heads`.

    systems : dicts with name, src (address of the audio, '' for none), lead (s, what its clock shows where the
    picture has 0), length_s and group (of the same case: a change keeps the moment). range : name of the Bokeh
    range that is watched. viewport : what that range shows, told 40 ms after it came to rest. time : where
    playback stands when it is not playing. window : what `loop` repeats.
    """

    systems = param.List([])
    heard = param.Integer(0, doc="the system that sounds")
    start = param.Number(0.0, doc="where a newly loaded file stands")
    heads = param.List([])
    range = param.String("")
    channel = param.Selector(default="both", objects=["both", "user", "agent"])
    speed = param.Number(1.0, bounds=(0.5, 2.0))
    loop = param.Boolean(False)
    window = param.List([])
    viewport = param.List([])
    time = param.Number(0.0)
    playing = param.Boolean(False)

    _esm = standalone.player_script() + (_HERE / "player.js").read_text(encoding="utf-8")
    _stylesheets = [_CONTROLS, standalone.controls_style()]

    def seek(self, seconds: float) -> None:
        self._send_msg({"seek": float(seconds)})

    def pause(self) -> None:
        self._send_msg({"pause": True})

    def press(self, key: str) -> None:
        """Answer a key that every player knows: l, [, ], and the arrows."""
        match key:
            case "l":
                self.loop = not self.loop
            case "[" | "]":
                at = SPEEDS.index(self.speed) if self.speed in SPEEDS else 2
                self.speed = SPEEDS[min(max(at + (1 if key == "]" else -1), 0), len(SPEEDS) - 1)]
            case "ArrowLeft" | "ArrowRight":
                self._send_msg({"by": -1.0 if key == "ArrowLeft" else 1.0})


def system(name: str, detail: Any, src: str, lead_s: float = 0.0) -> dict[str, Any]:
    """One entry of `Player.systems`. src : address of the audio."""
    return {"name": name, "src": src, "lead": lead_s, "length_s": detail.duration_s, "group": " ".join(detail.key[1:])}


def text_pane(below: int = 6) -> pn.pane.HTML:
    """A pane of escaped HTML. below : margin in pixels."""
    return pn.pane.HTML("", sizing_mode="stretch_width", margin=(0, 0, below, 0), stylesheets=[TEXT_CSS])


def button(name: str, act: Callable[[], Any], **more: Any) -> pn.widgets.Button:
    """A button in the page's look. act : what a click does."""
    made = pn.widgets.Button(name=name, **({"height": 30, "margin": (0, 6, 0, 0), "stylesheets": [WIDGET_CSS]} | more))
    made.on_click(lambda event: act())
    return made


_KINDS = {"number": "number", "seconds": "number", "text": "long"}


def head(column: Column) -> list[str]:
    """A column as `RowsTable` takes it."""
    kind = "word" if column.name in ("verdict", "strict") else _KINDS.get(column.kind, "")
    return [column.name, f"{column.heading}, {column.unit}" if column.unit else column.heading, kind]
