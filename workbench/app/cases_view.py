"""Every run's rows: filters with counts, search, a table, and pass rates that follow the filters."""

from __future__ import annotations

import math

import pandas as pd
import panel as pn
import param
from panel.viewable import Viewer

from workbench.app import filters as fl
from workbench.app.components import Facets, RowsTable
from workbench.app.look import TEXT_CSS, WIDGET_CSS
from workbench.app.store import key_of
from workbench.app.workspace import Workspace
from workbench.pictures.texts import esc, plain
from workbench.pictures.theme import HEAT, on_heat

COLUMNS = {
    "run": ("run", ""),
    "case": ("case", ""),
    "event": ("event", ""),
    "turn_label": ("turn", ""),
    "metric": ("metric", ""),
    "condition": ("condition", ""),
    "level": ("level", ""),
    "action": ("expected", ""),
    "role": ("role", ""),
    "verdict": ("verdict", "word"),
    "strict": ("strict", "word"),
    "label": ("heard as", ""),
    "latency_s": ("latency, s", "number"),
    "judge_score": ("judge", "number"),
    "reason": ("why", "long"),
    "error": ("error", "long"),
    "annotation": ("annotation", "long"),
}
"""Column -> heading and kind. Columns in which nothing stands are left out."""

SHOWN = ("run", "verdict", "metric", "turn_label", "condition", "label", "level", "action", "role")
"""Groups of filters that are open at first."""

SPLITS = ("level", "action", "role", "metric", "turn_label", "condition", "bucket", "speakers", "benchmark", "label")
"""What the strip of pass rates may be split by, where runs have it."""

LABELS = {
    "turn_label": "turn",
    "label": "heard as",
    "action": "expected action",
    "judge_label": "judge's label",
    "strict": "strict verdict",
}
SIDE_PX = 232
_RUNS_IN_STRIP = 8


class CasesView(Viewer):
    """The table of the workspace's filtered rows."""

    workspace: Workspace = param.ClassSelector(class_=Workspace)
    active = param.Boolean(True)
    keys = ("Enter", "PageDown", "PageUp")

    def __init__(self, workspace: Workspace, **params):
        super().__init__(workspace=workspace, **params)
        self.table = RowsTable(sizing_mode="stretch_width")
        self.facets = Facets(width=SIDE_PX - 16)
        css = {"stylesheets": [WIDGET_CSS], "margin": (0, 0, 8, 0), "width": SIDE_PX - 16}
        self.search = pn.widgets.TextInput(
            placeholder="search transcripts, rationales ( / )", value=workspace.words, **css
        )
        self.latency = pn.widgets.RangeSlider(name="latency, s", start=0, end=1, step=0.05, **css)
        self.judge = pn.widgets.RangeSlider(name="judge score", start=0, end=100, step=1, **css)
        self.reset = pn.widgets.Button(name="clear filters", height=28, **css)
        self.by = pn.widgets.RadioButtonGroup(
            options=["level"], value="level", height=28, margin=(0, 0, 4, 0), stylesheets=[WIDGET_CSS]
        )
        self.strip, self.notes = (
            pn.pane.HTML("", sizing_mode="stretch_width", margin=(0, 0, 6, 0), stylesheets=[TEXT_CSS]) for _ in range(2)
        )
        self._quiet = False
        self._drawn: tuple | None = None
        self.reset.on_click(lambda event: workspace.clear())
        self.search.param.watch(lambda event: workspace.param.update(words=event.new), "value")
        self.by.param.watch(lambda event: workspace.param.update(by=event.new), "value")
        self.facets.param.watch(lambda event: workspace.param.update(chosen=event.new), "chosen")
        self.latency.param.watch(lambda *events: self._ranged("latency_s", self.latency), "value_throttled")
        self.judge.param.watch(lambda *events: self._ranged("judge_score", self.judge), "value_throttled")
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
            self._bounds()
            self.search.value = space.words
            self.facets.param.update(groups=self._groups(), chosen=space.chosen)
            options = [name for name in SPLITS if any(space.table.values(name))]
            self.by.param.update(
                options=options or ["run"], value=space.by if space.by in options else (options or ["run"])[0]
            )
            self.strip.object = strip(space.frame.iloc[space.rows], self.by.value)
            self.notes.object = self._notes()
            self.table.param.update(total=len(space.rows), sort=space.sort)
            self._show_chosen(redraw=True)

    def _columns(self) -> list[list[str]]:
        frame = self.workspace.frame
        out = []
        for name, (label, kind) in COLUMNS.items():
            if name in frame and name not in ("run", "case", "verdict") and not _says_something(frame, name):
                continue
            if name in frame:
                out.append([name, label, kind])
        return out

    def _page(self, redraw: bool = True) -> None:
        """The rows of the page, as text."""
        space, table = self.workspace, self.table
        last = max(0, math.ceil(len(space.rows) / table.size) - 1)
        page = min(table.page, last)
        part = space.frame.iloc[space.rows[page * table.size : (page + 1) * table.size]]
        columns = self._columns()
        cells = [[_cell(value) for value in part[name]] for name, _, _ in columns]
        with pn.io.hold():
            here = space.position
            table.param.update(columns=columns, rows=[list(row) for row in zip(*cells, strict=True)], page=page,
                               selected=-1 if here is None else here, stamp=table.stamp + 1)  # fmt: skip

    def _show_chosen(self, redraw: bool = False) -> None:
        """Turn to the page of the chosen row."""
        here = self.workspace.position
        page = self.table.page if here is None else here // self.table.size
        if redraw or page != self.table.page:
            self.table.param.update(page=page) if page != self.table.page else self._page()
        else:
            self.table.selected = -1 if here is None else here

    def _groups(self) -> list[dict]:
        space = self.workspace
        names = {}
        if {"role", "role_name"} <= set(space.frame):
            names = dict(zip(space.frame["role"].astype(str), space.frame["role_name"].astype(str), strict=True))
        groups = []
        for name, counted in space.table.counts(space.filters).items():
            if len(counted) < 2 and name not in ("run", "verdict") and not space.chosen.get(name):
                continue
            options = [
                [
                    value,
                    plain(f"{value} {names.get(value, '')}".strip() if name == "role" else value or "(none)", 80),
                    count,
                ]
                for value, count in counted
            ]
            groups.append({"name": name, "label": LABELS.get(name, name), "shown": name in SHOWN, "options": options})
        return groups

    def _bounds(self) -> None:
        """Sliders reach from the least to the greatest value there is, and show what is chosen."""
        for name, slider in (("latency_s", self.latency), ("judge_score", self.judge)):
            values = self.workspace.frame[name]
            slider.visible = bool(values.notna().any())
            if not slider.visible:
                continue
            low, high = math.floor(values.min() * 20) / 20, math.ceil(values.max() * 20) / 20
            chosen = self.workspace.ranges.get(name)
            value = (max(low, chosen[0]), min(high, chosen[1])) if chosen else (low, max(high, low + 0.05))
            if value[0] > value[1]:
                value = (low, max(high, low + 0.05))
            slider.param.update(start=low, end=max(high, low + 0.05), value=value)

    def _notes(self) -> str:
        store = self.workspace.store
        said = [*store.problems, *(f"{run.name}: {text}" for run in store.runs.values() for text in run.problems[:4])]
        if store.unread:
            said.append(f"{store.unread} transcripts are still being read; a search does not reach them yet.")
        return "".join(f'<div class="wb-muted">{esc(text, 400)}</div>' for text in said[:8])

    # -- browser -> state ----------------------------------------------------------------------

    def _ranged(self, name: str, slider: pn.widgets.RangeSlider) -> None:
        ranges = {key: value for key, value in self.workspace.ranges.items() if key != name}
        if tuple(slider.value) != (slider.start, slider.end):
            ranges[name] = [float(value) for value in slider.value]
        self.workspace.ranges = ranges

    def _open(self, place: int) -> None:
        space = self.workspace
        if 0 <= place < len(space.rows):
            space.select(key_of(space.frame.iloc[space.rows[place]]), open_case=True)

    def press(self, key: str) -> None:
        if key == "Enter":
            if self.workspace.position is not None:
                self.workspace.view = "case"
        else:
            last = max(0, math.ceil(self.table.total / self.table.size) - 1)
            self.table.page = min(max(self.table.page + (1 if key == "PageDown" else -1), 0), last)

    def __panel__(self):
        side = pn.Column(
            self.search, self.latency, self.judge, self.reset, self.facets, width=SIDE_PX, margin=(0, 12, 0, 0)
        )
        main = pn.Column(self.by, self.strip, self.notes, self.table, sizing_mode="stretch_width", margin=0)
        return pn.Row(side, main, sizing_mode="stretch_width")


def _says_something(frame: pd.DataFrame, name: str) -> bool:
    return bool(frame[name].notna().any() if frame[name].dtype.kind == "f" else (frame[name].astype(str) != "").any())


def _cell(value: object) -> str:
    if value is pd.NA:
        return ""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.3f}".rstrip("0").rstrip(".")
    return plain(value, 300)


def strip(rows: pd.DataFrame, by: str) -> str:
    """Pass rates of the rows: a line a run, a cell a value of `by`; numbers with denominators on hover."""
    if rows.empty or by not in rows:
        return ""
    # Metrics have denominators of their own, so they are never pooled.
    several = "metric" in rows and rows["metric"].nunique() > 1
    line = ["run", "metric"] if several and by not in ("run", "metric") else ["run"]
    whole, split = fl.pass_rates(rows, line), fl.pass_rates(rows, list(dict.fromkeys((*line, by))))
    most = _RUNS_IN_STRIP * (rows["metric"].nunique() if len(line) > 1 else 1)
    names = sorted(split[by].unique())
    out = [
        "".join(
            [
                "<tr><th></th><th>all</th>",
                *(f'<th scope="col">{esc(name or "(none)", 30).replace("_", "_<wbr>")}</th>' for name in names),
                "</tr>",
            ]
        )
    ]
    for _, run in whole.head(most).iterrows():
        own = split[(split[line] == run[line]).all(axis=1)].set_index(by)
        cells = [_rate_cell(own.loc[name]) if name in own.index else "<td></td>" for name in names]
        name = " · ".join(filter(None, run[line]))
        title = f'<th scope="row" title="{esc(name)}">{esc(name, 60)}</th>'
        all_of = _mixed_cell(run) if several and len(line) == 1 else _whole_cell(run)
        out.append(f"<tr>{title}{all_of}{''.join(cells)}</tr>")
    if len(whole) > most:
        kind = "runs" if len(line) == 1 else "lines"
        out.append(f'<tr><td colspan="{len(names) + 2}" class="wb-muted">and {len(whole) - most} more {kind}</td></tr>')
    return f'<div class="wb-wide"><table class="wb-strip">{"".join(out)}</table></div>'


def _mixed_cell(rate: pd.Series) -> str:
    return f'<td class="all wb-muted">{rate["rows"]} rows of several metrics</td>'


def _whole_cell(rate: pd.Series) -> str:
    if not rate["measured"]:
        return f'<td class="all wb-muted">none of {rate["rows"]} measured</td>'
    left = rate["rows"] - rate["measured"]
    aside = f", {left} not measured" if left else ""
    return (f'<td class="all">{rate["rate"]:.1%} <span class="wb-muted">{_ends(rate)} '
            f'{rate["passed"]}/{rate["measured"]}{aside}</span></td>')  # fmt: skip


def _ends(rate: pd.Series) -> str:
    ends = "" if pd.isna(rate["low"]) else f"[{rate['low']:.1%}, {rate['high']:.1%}]"
    return ", ".join(filter(None, (ends, rate["note"])))


def _rate_cell(rate: pd.Series) -> str:
    if not rate["measured"]:
        return f'<td class="wb-muted" title="none of {rate["rows"]} measured">–</td>'
    colour = HEAT[round(rate["rate"] * 255)]
    title = f"{rate['passed']} of {rate['measured']} pass, 95 % interval {_ends(rate)}"
    return f'<td style="background: {colour}; color: {on_heat(rate["rate"])}" title="{title}">{rate["rate"]:.0%}</td>'
