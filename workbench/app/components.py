"""The browser components: keys, address, table of rows, filters with counts.

Each is a small script in browser/ that loads nothing from outside; Python sees only params.
"""

from __future__ import annotations

from pathlib import Path

import param
from panel.custom import JSComponent

from workbench.app.look import css

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
    """The page's address: [view, query] is written into it; `went` tells that the browser went back or on to `to`."""

    state = param.List(["", ""])
    reload = param.Integer(0, doc="raised to load the page again")
    went = param.Event()
    to = param.String("")

    _esm = _HERE / "address.js"

    def _handle_msg(self, data: dict) -> None:
        query = data.get("query") if isinstance(data, dict) else None
        if isinstance(query, str):
            self.to = query
            self.param.trigger("went")


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
