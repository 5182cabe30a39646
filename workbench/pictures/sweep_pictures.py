"""The sweep's live pictures: built once, then only their columns change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, LinearColorMapper, Span

from workbench.app.redecide import shown
from workbench.pictures.theme import FONT, HEAT, MARKERS, Theme, new_figure, on_heat

_MOST_TEXT = 30
"""With more columns than this the numbers in the cells would touch; the hover still gives them."""


class HeatMaps:
    """One score over two thresholds for every run, side by side in one figure."""

    def __init__(self, theme: Theme):
        self.theme = theme
        columns = ("x", "y", "value", "text", "ink", "run", "there", "edge", "width")
        self.source = ColumnDataSource({name: [] for name in columns})
        self.x, self.y = FactorRange(factors=[], group_padding=0.5, range_padding=0.02), FactorRange(factors=[])
        self.mapper = LinearColorMapper(palette=list(HEAT), low=0, high=1, nan_color=theme.missing)
        made = new_figure(theme, x_range=self.x, y_range=self.y, height=240, tools="", toolbar_location=None, title=" ")
        made.grid.visible = False
        cells = made.rect("x", "y", 0.98, 0.94, source=self.source, line_color="edge", line_width="width",
                          fill_color={"field": "value", "transform": self.mapper})  # fmt: skip
        made.text("x", "y", "text", source=self.source, text_color="ink", text_align="center", text_baseline="middle",
                  text_font={"value": FONT}, text_font_size="11px")  # fmt: skip
        made.add_tools(HoverTool(renderers=[cells], tooltips="@run, @there: @value{0.0 %}"))
        made.xaxis.group_label_orientation, made.xaxis.major_label_text_font_size = 0, "11px"
        made.xaxis.group_text_color, made.xaxis.group_text_font, made.xaxis.separator_line_color = theme.ink, FONT, None
        self.figure = made

    def fill(self, values: np.ndarray, names: Sequence[str], axes: Mapping[str, np.ndarray],
             here: Mapping[str, float], usual: Mapping[str, float], score: str) -> None:  # fmt: skip
        """values : float (systems, y, x). axes : the x threshold's values and then the y threshold's."""
        (x, xs), (y, ys) = axes.items()
        low, high = (-1.0, 1.0) if np.nanmin(values, initial=0) < 0 else (0.0, 1.0)
        self.mapper.update(low=low, high=high)
        columns: dict[str, list] = {name: [] for name in self.source.data}
        crowded = len(names) * len(xs) > _MOST_TEXT
        for at, name in enumerate(names):
            for row, value_y in enumerate(ys):
                for column, value_x in enumerate(xs):
                    value = float(values[at, row, column])
                    now = _same(value_x, here[x]) and _same(value_y, here[y])
                    default = _same(value_x, usual[x]) and _same(value_y, usual[y])
                    share = (value - low) / (high - low) if value == value else 0.5
                    cell = ((name, f"{value_x:g}"), f"{value_y:g}", value, "" if crowded else shown(value),
                            on_heat(share), name, f"{x} {value_x:g}, {y} {value_y:g}",
                            self.theme.limit if now else self.theme.ink if default else self.theme.paper,
                            2.5 if now else 1.2)  # fmt: skip
                    for column_name, entry in zip(columns, cell, strict=True):
                        columns[column_name].append(entry)
        factors = [(name, f"{value:g}") for name in names for value in xs]
        if self.x.factors != factors:
            self.x.factors = factors
        rows = [f"{value:g}" for value in ys]
        if self.y.factors != rows:
            self.y.factors = rows
        self.figure.height = 84 + 26 * len(ys)
        self.source.data = columns
        self.figure.xaxis.axis_label, self.figure.yaxis.axis_label = x, y
        self.figure.title.text = f"{score} by {x} and {y}, in percent; others as set (red: now, thin: default)"


class Ranking:
    """The ranking score of every run, at the default and now, the best at the top."""

    def __init__(self, theme: Theme):
        self.theme = theme
        self.source = ColumnDataSource({name: [] for name in ("run", "was", "now", "colour", "marker", "text")})
        self.y = FactorRange(factors=[])
        made = new_figure(theme, y_range=self.y, height=200, tools="", toolbar_location=None, title=" ")
        made.ygrid.grid_line_color = None
        made.add_layout(Span(location=0, dimension="height", line_color=theme.muted, line_dash="dotted"))
        made.segment("was", "run", "now", "run", source=self.source, line_color="colour", line_width=3, line_alpha=0.6)
        marks = {"source": self.source, "size": 11, "marker": "marker", "line_color": "colour"}
        was = made.scatter("was", "run", fill_color=None, line_width=2, **marks)
        now = made.scatter("now", "run", fill_color="colour", **marks)
        made.add_tools(HoverTool(renderers=[was, now], tooltips="@run: @text"))
        made.xaxis.axis_label = "percent"
        self.figure = made

    def fill(self, names: Sequence[str], was: np.ndarray, now: np.ndarray, score: str) -> None:
        order = sorted(range(len(names)), key=lambda at: -np.inf if np.isnan(now[at]) else now[at])
        factors = [names[at] for at in order]
        if self.y.factors != factors:
            self.y.factors = factors
        self.figure.height = 78 + 26 * len(names)
        self.source.data = {
            "run": list(names), "was": (100 * was).tolist(), "now": (100 * now).tolist(),
            "colour": [self.theme.run_colour(at) for at in range(len(names))],
            "marker": [MARKERS[at % len(MARKERS)] for at in range(len(names))],
            "text": [f"{shown(a)} at the default, {shown(b)} now" for a, b in zip(was, now, strict=True)],
        }  # fmt: skip
        self.figure.title.text = f"Ranking by {score}: at the default (hollow) and now (filled)"


def _same(one: float, other: float) -> bool:
    return abs(one - other) < 1e-9
