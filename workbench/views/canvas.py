"""The empty picture of a recording: figures, glyphs and their sources, built once and then only filled.

From top to bottom: script, user, agent, agent text, events, mini-map. All but the mini-map share one
range, whose name the player watches; every figure has a playhead that the player moves.
"""

from __future__ import annotations

import itertools
from typing import Any

from bokeh.core.properties import value
from bokeh.layouts import column
from bokeh.models import (
    ColumnDataSource,
    CustomJS,
    GlyphRenderer,
    HoverTool,
    LinearColorMapper,
    PanTool,
    Range1d,
    RangeTool,
    Span,
    TapTool,
    WheelZoomTool,
)
from bokeh.palettes import cividis
from bokeh.plotting import figure

from workbench.views.detail import CHANNELS
from workbench.views.theme import FONT, Theme

TOP, BOTTOM = 1.04, -1.36
"""A lane's waveform lies in [-1, 1]; the strips of spans lie below it."""

_COUNT = itertools.count()
_BORDERS = {"min_border_left": 62, "min_border_right": 12, "min_border_top": 2, "min_border_bottom": 2}
_SEEK = "window.dispatchEvent(new CustomEvent('wb-seek', {detail: {id: range.name, t: cb_obj.x}}))"
_SOURCES = {
    "segments": ("left", "right", "what", "colour"),
    "segments_labels": ("x", "label"),
    "said": ("left", "right", "what", "colour"),
    "said_labels": ("x", "label"),
    "windows": ("left", "right", "name"),
    "cues": ("x",),
    "lines": ("x", "colour"),
    "line_labels": ("x", "y", "text", "colour", "align", "shift"),
    "events": ("x", "kind", "text", "short"),
    "event_labels": ("x", "label"),
} | {
    f"{channel}_{what}": columns
    for channel in CHANNELS
    for what, columns in {
        "wave": ("x", "low", "high"),
        "map": ("x", "low", "high"),
        "spans": ("left", "right", "bottom", "top", "colour", "what"),
        "words": ("left", "right", "text"),
        "image": ("image", "x", "dw"),
    }.items()
}


class Canvas:
    """Attributes: `sources` by name, `layout`, `range` (in view), `whole`, `heads` (names of playheads), and
    `waves` and `images`, the renderers of each channel that take turns being visible."""

    def __init__(self, theme: Theme):
        self.theme = theme
        self.name = f"wb{next(_COUNT)}"
        self.sources = {
            name: ColumnDataSource({each: [] for each in columns}, name=f"{self.name}-{name}")
            for name, columns in _SOURCES.items()
        }
        self.range = Range1d(0, 10, name=f"{self.name}-x", min_interval=0.02)
        self.whole = Range1d(0, 10)
        self.heads: list[str] = []
        self.waves: dict[str, GlyphRenderer] = {}
        self.images: dict[str, GlyphRenderer] = {}
        rows = [self._boxes("segments", "script"), *(self._wave(channel) for channel in CHANNELS)]
        rows += [self._boxes("said", "agent text"), self._events(), self._minimap()]
        self.layout = column(*rows, sizing_mode="stretch_width", spacing=0)

    def colour(self, channel: str) -> str:
        return self.theme.user if channel == "user" else self.theme.agent

    def _figure(self, height: int, label: str, x_range: Range1d, y_range: tuple[float, float]) -> figure:
        made = figure(
            height=height, sizing_mode="stretch_width", x_range=x_range, y_range=Range1d(*y_range), tools="",
            toolbar_location=None, lod_timeout=50, lod_threshold=None, **_BORDERS,
        )  # fmt: skip
        theme = self.theme
        made.background_fill_color = made.border_fill_color = None
        made.outline_line_color = made.xgrid.grid_line_color = theme.grid
        made.ygrid.visible = made.xaxis.visible = False
        axis = made.yaxis[0]
        axis.axis_label, axis.axis_label_text_color, axis.axis_label_text_font = label, theme.muted, FONT
        axis.axis_label_text_font_size, axis.axis_label_text_font_style = "12px", "normal"
        axis.axis_label_orientation, axis.ticker, axis.axis_line_color = "horizontal", [], None
        name = f"{self.name}-head{len(self.heads)}"
        head = Span(location=0, dimension="height", line_color=theme.ink, line_width=1.5, level="overlay", name=name)
        made.add_layout(head)
        self.heads.append(name)
        made.js_on_event("tap", CustomJS(args={"range": self.range}, code=_SEEK))
        return made

    def _lane(self, height: int, label: str, y_range: tuple[float, float] = (0, 1)) -> figure:
        made = self._figure(height, label, self.range, y_range)
        wheel, pan = WheelZoomTool(dimensions="width"), PanTool(dimensions="width")
        made.add_tools(wheel, pan, TapTool())
        made.toolbar.active_scroll, made.toolbar.active_drag = wheel, pan
        return made

    def _text(self, made: figure, y: float | str, text: str, source: str, **options: Any) -> None:
        style = {"text_color": self.theme.ink, "text_font": value(FONT), "text_font_size": "11px", "x_offset": 4}
        made.text("x", y, text, source=self.sources[source], **(style | options))

    def _boxes(self, source: str, label: str) -> figure:
        made = self._lane(30, label)
        paint = {"fill_color": "colour", "fill_alpha": 0.22, "line_color": "colour", "line_alpha": 0.7}
        boxes = made.quad("left", "right", 0.92, 0.08, source=self.sources[source], **paint)
        self._text(made, 0.5, "label", f"{source}_labels", text_baseline="middle")
        made.add_tools(HoverTool(renderers=[boxes], tooltips="@what", point_policy="follow_mouse"))
        return made

    def _wave(self, channel: str) -> figure:
        theme, sources = self.theme, self.sources
        made = self._lane(118, channel, (BOTTOM, TOP))
        band = {"fill_color": theme.window, "fill_alpha": 0.45, "line_color": None}
        made.quad("left", "right", TOP, BOTTOM, source=sources["windows"], level="underlay", **band)
        mapper = LinearColorMapper(palette=cividis(256), low=0, high=255)
        self.images[channel] = made.image(
            "image", "x", -1.0, "dw", 2.0, source=sources[f"{channel}_image"], color_mapper=mapper, visible=False
        )
        edge = {"fill_color": None, "line_color": theme.limit, "line_alpha": 0.7}
        made.quad("left", "right", TOP, BOTTOM, source=sources["windows"], **edge)  # seen over a spectrogram too
        self.waves[channel] = made.varea(
            "x", "low", "high", source=sources[f"{channel}_wave"], fill_color=self.colour(channel)
        )
        spans = made.quad(
            "left", "right", "top", "bottom", source=sources[f"{channel}_spans"], fill_color="colour", line_color=None
        )
        shown = {"hover_fill_color": theme.ink, "hover_fill_alpha": 0.12, "hover_line_alpha": 0.3}
        words = made.quad(
            "left", "right", 1.0, -1.0, source=sources[f"{channel}_words"], fill_alpha=0, line_alpha=0, **shown
        )
        made.segment("x", TOP, "x", BOTTOM, source=sources["cues"], line_color=theme.muted, line_dash="dotted")
        if channel == "agent":
            dashed = {"line_color": "colour", "line_width": 1.6, "line_dash": "dashed"}
            made.segment("x", TOP, "x", BOTTOM, source=sources["lines"], **dashed)
            self._text(made, "y", "text", "line_labels", text_color="colour", text_baseline="top", text_align="align",
                       x_offset="shift", background_fill_color=theme.paper, background_fill_alpha=0.75)  # fmt: skip
        made.add_tools(
            HoverTool(renderers=[spans], tooltips="@what", point_policy="follow_mouse"),
            HoverTool(renderers=[words], tooltips="@text", point_policy="follow_mouse"),
        )
        return made

    def _events(self) -> figure:
        theme = self.theme
        made = self._lane(58, "events")
        points = made.scatter(
            "x", 0.72, source=self.sources["events"], size=9, marker="inverted_triangle", color=theme.muted
        )
        self._text(made, 0.72, "label", "event_labels", x_offset=8, text_color=theme.muted, text_baseline="middle")
        made.add_tools(HoverTool(renderers=[points], tooltips="@text"))
        axis = made.xaxis[0]
        axis.visible, axis.minor_tick_line_color = True, None
        axis.axis_line_color = axis.major_tick_line_color = theme.muted
        axis.major_label_text_color, axis.major_label_text_font = theme.ink, FONT
        axis.major_label_text_font_size = "11px"
        return made

    def _minimap(self) -> figure:
        theme = self.theme
        made = self._figure(46, "whole", self.whole, (-1, 3))
        made.xgrid.visible = False
        made.quad("left", "right", 3, -1, source=self.sources["windows"], fill_color=theme.window, line_color=None)
        for channel in CHANNELS:
            made.varea("x", "low", "high", source=self.sources[f"{channel}_map"], fill_color=self.colour(channel))
        tool = RangeTool(x_range=self.range)
        tool.overlay.fill_color = tool.overlay.line_color = theme.ink
        tool.overlay.fill_alpha, tool.overlay.line_alpha = 0.10, 0.6
        made.add_tools(tool)
        return made
