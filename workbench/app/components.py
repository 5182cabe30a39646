"""The browser components: keys, address, table of rows, filters with counts.

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

from workbench.app.look import TEXT_CSS, css
from workbench.contract import Column

_HERE = Path(__file__).parent / "browser"
_CONTROLS = css("controls")


class Keys(JSComponent):
    """Tells which of `keys` was pressed anywhere on the page, except while typing.

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


def text_pane(below: int = 6, **more: Any) -> pn.pane.HTML:
    """A pane of escaped HTML. below : margin in pixels."""
    return pn.pane.HTML("", sizing_mode="stretch_width", margin=(0, 0, below, 0), stylesheets=[TEXT_CSS], **more)


_KINDS = {"number": "number", "seconds": "number", "text": "long"}


def head(column: Column) -> list[str]:
    """A column as `RowsTable` takes it."""
    kind = "word" if column.name in ("verdict", "strict") else _KINDS.get(column.kind, "")
    return [column.name, f"{column.heading}, {column.unit}" if column.unit else column.heading, kind]
