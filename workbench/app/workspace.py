"""What all views of one session share: the store, the filters, the chosen row, the open view, the theme.

A view takes a `Workspace`, shows it, and changes it through params and the methods here. Nothing in
this module knows of widgets or of a browser.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import numpy as np
import pandas as pd
import param

from workbench.app import filters as fl
from workbench.app.store import KEY, Key, Store, key_of, whole_key
from workbench.pictures.theme import DARK, LIGHT, Theme


class Workspace(param.Parameterized):
    """The state of a session. Every param but `store` and `rows` can be written into a link."""

    store: Store = param.ClassSelector(class_=Store, constant=True)
    view = param.String("cases", doc="name of the open view")
    run = param.String("", doc="run of the chosen row")
    case = param.String("", doc="case of the chosen row")
    event = param.String("", doc="event of the chosen row; '' where a case has one row")
    metric = param.String("", doc="metric of the chosen row; '' where an event has one row")
    chosen = param.Dict({}, doc="facet -> list of values kept")
    ranges = param.Dict({}, doc="column -> [low, high]")
    words = param.String("", doc="free-text search")
    sort = param.String("", doc="column, with a leading '-' for descending")
    by = param.String("", doc="what the strip of pass rates is split by")
    at_s = param.Number(None, allow_None=True, doc="moment on the session clock of the chosen case")
    span = param.List([], doc="[from, to] seconds shown of the chosen case; [] for all")
    theme = param.Selector(default="light", objects=["light", "dark"])
    together = param.List([], item_type=str, doc="runs that stand side by side, the baseline first; [] for all")
    thresholds = param.Dict({}, doc="threshold -> value, those that were moved")
    rule = param.Selector(default="verdict", objects=["verdict", "strict"])
    align = param.Selector(default="clock", objects=["clock", "window"], doc="what stacked systems share")
    section = param.String("", doc="the open part of the overview")
    version = param.Integer(0, doc="version of the store that is shown")
    rows = param.Array(np.zeros(0, int), doc="positions in the frame of the filtered rows, in order")
    served = param.Boolean(True, doc="whether the server hands out files of runs (see `files`)")
    message = param.String("", doc="a sentence for the person, such as why a link leads nowhere")

    def __init__(self, store: Store, **params: Any):
        super().__init__(store=store, **params)
        self._table: fl.Table | None = None
        self._table_version = -1
        self.version = store.version
        self._filter()

    # -- rows ----------------------------------------------------------------------------------

    @property
    def look(self) -> Theme:
        return DARK if self.theme == "dark" else LIGHT

    @property
    def frame(self) -> pd.DataFrame:
        return self.table.frame

    @property
    def table(self) -> fl.Table:
        """The store's frame prepared for filtering, as of the version that is shown; shared by all sessions."""
        if self._table is None or self.version != self._table_version:
            self._table, self._table_version = self.store.table, self.version
        return self._table

    @property
    def benchmarks(self) -> list[str]:
        """Those of the filtered rows; of all rows where none is left."""
        rows = self.rows if len(self.rows) else np.arange(len(self.frame))
        return self.frame["benchmark"].iloc[rows].unique().tolist()

    @property
    def filters(self) -> fl.Filters:
        chosen = {name: tuple(map(str, values)) for name, values in self.chosen.items() if values}
        ranges = {name: (float(pair[0]), float(pair[1])) for name, pair in self.ranges.items()}
        return fl.Filters(chosen, ranges, self.words)

    @param.depends("chosen", "ranges", "words", "sort", "version", watch=True)
    def _filter(self) -> None:
        kept = self.table.keep(self.filters)
        self.rows = fl.ordered(self.frame, kept, self.sort)

    def refresh(self) -> bool:
        """Take over what the store has read since; True when there was something."""
        self.store.refresh()
        changed = self.version != self.store.version
        self.version = self.store.version
        return changed

    def clear(self) -> None:
        self.param.update(chosen={}, ranges={}, words="")

    # -- the chosen row ------------------------------------------------------------------------

    @property
    def key(self) -> Key:
        return (self.run, self.case, self.event, self.metric)

    @property
    def position(self) -> int | None:
        """Where the chosen row stands among the filtered ones, from 0; None when it is not among them."""
        at = self.store.position(self.key)
        found = np.flatnonzero(self.rows == at) if at is not None else ()
        return int(found[0]) if len(found) else None

    def select(self, key: Key, *, open_case: bool = False) -> None:
        """Choose a row; the moment and the zoom of the row before do not carry over."""
        key = whole_key(key)
        change: dict[str, Any] = dict(zip(KEY, key, strict=True))
        if key != self.key:
            change |= {"at_s": None, "span": [], "message": ""}
        if open_case:
            change["view"] = "case"
        self.param.update(**change)

    def step(self, by: int) -> None:
        """Choose the next (1) or previous (-1) filtered row; stops at the ends."""
        if not len(self.rows):
            return
        here = self.position
        at = (0 if by > 0 else len(self.rows) - 1) if here is None else min(max(here + by, 0), len(self.rows) - 1)
        self.select(key_of(self.frame.iloc[self.rows[at]]))

    def sound(self, run: str, detail: Any) -> str:
        """Where the browser finds the recording of a `Detail`; '' for none.

        Where the server does not hand out files it is the whole recording, as lossless FLAC in a data URL.
        """
        if not detail.audio:
            return ""
        if self.served:
            return self.store.address(run, detail.audio)
        return detail.recording.data_url("flac")

    def others(self) -> pd.DataFrame:
        """All rows of the chosen case in its run, in their own order; the index is the position in the frame."""
        frame = self.store.frame
        return frame[(frame["run"] == self.run) & (frame["case"] == self.case)]


# -- state <-> address: what stands in an address comes from anywhere -------------------------------------

IN_LINK = {
    "view": "view", "run": "run", "case": "case", "event": "event", "metric": "metric", "q": "words", "sort": "sort",
    "by": "by", "theme": "theme", "t": "at_s", "span": "span", "only": "chosen", "within": "ranges",
    "runs": "together", "set": "thresholds", "rule": "rule", "align": "align", "part": "section",
}  # fmt: skip
"""Name in the address -> param of the workspace."""

_LONGEST = 8_000


def to_query(workspace: Workspace, **other: Any) -> str:
    """The address's query, `?...`; what stands at its default is left out. other : values in place of the state's."""
    out = []
    for name, attribute in IN_LINK.items():
        value = other.get(attribute, getattr(workspace, attribute))
        if value == workspace.param[attribute].default or value in (None, "", [], {}):
            continue
        if isinstance(value, float):
            value = round(value, 3)
        if isinstance(value, list):
            value = [round(entry, 3) if isinstance(entry, float) else entry for entry in value]
        out.append((name, value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))))
    return "?" + urlencode(out, quote_via=quote, safe=",:[]") if out else ""


def read_query(workspace: Workspace, query: str) -> list[str]:
    """Apply an address to a workspace in one step; sentences about what could not be used.

    What the address does not name returns to its default.
    """
    change: dict[str, Any] = {attribute: workspace.param[attribute].default for attribute in IN_LINK.values()}
    problems = []
    if len(query) > _LONGEST:
        return [f"The link is {len(query)} characters long, where at most {_LONGEST} are read."]
    for name, text in parse_qsl(query.lstrip("?"), keep_blank_values=False):
        if name not in IN_LINK:
            continue
        try:
            change[IN_LINK[name]] = _value(workspace.param[IN_LINK[name]], IN_LINK[name], text)
        except (ValueError, TypeError, AttributeError, RecursionError):
            problems.append(f"The link's {name!r} cannot be used ({text[:60]!r}), so it was left out.")
    try:
        workspace.param.update(**change)
    except ValueError as error:
        problems.append(f"The link cannot be used: {error}")
    return problems


def _value(kind: param.Parameter, attribute: str, text: str) -> Any:
    if isinstance(kind, param.Selector):
        if text not in kind.objects:
            raise ValueError(text)
        return text
    if isinstance(kind, param.String):
        return text
    value = json.loads(text)
    if isinstance(kind, param.Number):
        return _seconds(value)
    if attribute == "span":
        low, high = (_seconds(entry) for entry in value)
        if not low < high:
            raise ValueError(text)
        return [low, high]
    if attribute == "chosen":
        return {str(name): [str(entry) for entry in _list(values)] for name, values in value.items()}
    if attribute == "ranges":
        return {str(name): [_seconds(low), _seconds(high)] for name, (low, high) in value.items()}
    if attribute == "together":
        return list(dict.fromkeys(str(entry) for entry in _list(value)))
    if attribute == "thresholds":
        return {str(name): _seconds(limit) for name, limit in value.items()}
    raise ValueError(text)


def _list(value: Any) -> list:
    if not isinstance(value, list):
        raise ValueError(value)
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e7:
        raise ValueError(value)
    return float(value)
