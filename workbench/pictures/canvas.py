"""The empty picture of a recording: figures, glyphs and their sources, built once and then only filled.

From top to bottom: the user's lane with the script above its waveform, the agent's with its text, events,
and a mini-map. All but the mini-map share one range, whose name the player watches; every figure has a
playhead that the player moves. Figures, axes and renderers are kept few: each costs the server and the
browser some milliseconds whenever somebody opens a case.
"""

from __future__ import annotations

import itertools
from typing import Any

from bokeh.core.properties import value
from bokeh.layouts import column
from bokeh.models import (
    ColumnDataSource,
    CustomJS,
    Glyph,
    GlyphRenderer,
    HoverTool,
    Image,
    Label,
    LinearColorMapper,
    PanTool,
    Quad,
    Range1d,
    RangeTool,
    Scatter,
    Segment,
    Span,
    Text,
    VArea,
    WheelZoomTool,
)
from bokeh.palettes import cividis
from bokeh.plotting import figure

from workbench.app.detail import CHANNELS
from workbench.pictures.theme import FONT, Theme

TOP, BOTTOM = 1.06, -1.36
"""A lane's waveform lies in [-1, 1]; the strips of spans lie below it, the strip of words above."""

WORDS = (1.12, 1.6)
_STRIPS = {"user": "segments", "agent": "said"}

_COUNT = itertools.count()
_BORDERS = {"min_border_left": 4, "min_border_right": 12, "min_border_top": 2, "min_border_bottom": 2}
_SEEK = "window.dispatchEvent(new CustomEvent('wb-seek', {detail: {id: range.name, t: cb_obj.x}}))"
_SOURCES = {
    "segments": ("left", "right", "what", "colour"),
    "segments_labels": ("x", "label"),
    "said": ("left", "right", "what", "colour"),
    "said_labels": ("x", "label"),
    "windows": ("left", "right", "name", "alpha", "edge", "map"),
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
        self.bands: list[Quad] = []
        rows = [*(self._wave(channel) for channel in CHANNELS), self._events(), self._minimap()]
        self.layout = column(*rows, sizing_mode="stretch_width", spacing=0)

    def show_spectrogram(self, on: bool) -> None:
        """Spectrograms in place of waveforms; of the window only the edges stay, so as not to tint them."""
        for channel in CHANNELS:
            self.waves[channel].visible, self.images[channel].visible = not on, on
        for band in self.bands:
            band.fill_alpha = 0.0 if on else "alpha"

    def colour(self, channel: str) -> str:
        return self.theme.user if channel == "user" else self.theme.agent

    def _figure(self, height: int, label: str, x_range: Range1d, y_range: tuple[float, float]) -> figure:
        theme, axes = self.theme, {"y_axis_location": None} | ({} if label == "events" else {"x_axis_location": None})
        made = figure(
            height=height, sizing_mode="stretch_width", x_range=x_range, y_range=Range1d(*y_range), tools="",
            toolbar_location=None, lod_timeout=50, lod_threshold=None, **_BORDERS, **axes,
        )  # fmt: skip
        made.background_fill_color = made.border_fill_color = None
        made.outline_line_color = made.xgrid.grid_line_color = theme.grid
        made.center = [grid for grid in made.xgrid if label != "whole"]  # no lines across the waveforms
        name = f"{self.name}-head{len(self.heads)}"
        head = Span(location=0, dimension="height", line_color=theme.ink, line_width=1.5, level="overlay", name=name)
        made.add_layout(head)
        self.heads.append(name)
        if label in CHANNELS:
            made.add_layout(
                Label(x=5, y=92, x_units="screen", y_units="screen", text=label, text_color=theme.muted, text_font=FONT,
                      text_font_size="11px", background_fill_color=theme.paper, background_fill_alpha=0.7)
            )  # fmt: skip
        made.js_on_event("tap", CustomJS(args={"range": self.range}, code=_SEEK))
        return made

    def _lane(self, height: int, label: str, y_range: tuple[float, float] = (0, 1)) -> figure:
        made = self._figure(height, label, self.range, y_range)
        wheel, pan = WheelZoomTool(dimensions="width"), PanTool(dimensions="width")
        made.add_tools(wheel, pan)
        made.toolbar.active_scroll, made.toolbar.active_drag = wheel, pan
        return made

    def _add(self, made: figure, source: str, glyph: Glyph, **options: Any) -> GlyphRenderer:
        # add_glyph, unlike figure's own methods, makes no further glyphs for selection and muting: with some
        # twenty renderers a page that is most of the time it takes to make it.
        return made.add_glyph(self.sources[source], glyph, **options)

    def _hover(self, made: figure, renderer: GlyphRenderer, column: str) -> None:
        made.add_tools(HoverTool(renderers=[renderer], tooltips=f"@{column}", point_policy="follow_mouse"))

    def _text(self, made: figure, source: str, text: str, y: float | str, **options: Any) -> None:
        style = {"text_color": self.theme.ink, "text_font": value(FONT), "text_font_size": "11px", "x_offset": 4}
        self._add(made, source, Text(x="x", y=y, text=text, **(style | options)))

    def _wave(self, channel: str) -> figure:
        theme, strip = self.theme, _STRIPS[channel]
        made = self._lane(144, channel, (BOTTOM, WORDS[1] + 0.04))
        mapper = LinearColorMapper(palette=cividis(256), low=0, high=255)
        picture = Image(image="image", x="x", y=-1.0, dw="dw", dh=2.0, color_mapper=mapper)
        self.images[channel] = self._add(made, f"{channel}_image", picture, visible=False)
        across = {"left": "left", "right": "right", "top": TOP, "bottom": BOTTOM}
        edge = {"line_color": theme.limit, "line_alpha": "edge"}
        band = Quad(**across, fill_color=theme.window, fill_alpha="alpha", **edge)
        self._add(made, "windows", band)  # over a spectrogram, under a waveform
        self.bands.append(band)
        area = VArea(x="x", y1="low", y2="high", fill_color=self.colour(channel))
        self.waves[channel] = self._add(made, f"{channel}_wave", area)
        boxes = Quad(left="left", right="right", top="top", bottom="bottom", fill_color="colour", line_color=None)
        self._hover(made, self._add(made, f"{channel}_spans", boxes), "what")
        place = {"left": "left", "right": "right", "top": 1.0, "bottom": -1.0}
        seen = Quad(**place, fill_color=theme.ink, fill_alpha=0.12, line_color=theme.ink, line_alpha=0.3)
        hidden = Quad(**place, fill_alpha=0, line_alpha=0)
        self._hover(made, self._add(made, f"{channel}_words", hidden, hover_glyph=seen), "text")
        paint = {"fill_color": "colour", "fill_alpha": 0.22, "line_color": "colour", "line_alpha": 0.7}
        words = Quad(left="left", right="right", bottom=WORDS[0], top=WORDS[1], **paint)
        self._hover(made, self._add(made, strip, words), "what")
        self._text(made, f"{strip}_labels", "label", sum(WORDS) / 2, text_baseline="middle")
        down = {"x0": "x", "x1": "x", "y0": TOP, "y1": BOTTOM}
        self._add(made, "cues", Segment(**down, line_color=theme.muted, line_dash="dotted"))
        if channel == "agent":
            self._add(made, "lines", Segment(**down, line_color="colour", line_width=1.6, line_dash="dashed"))
            paper = {"background_fill_color": theme.paper, "background_fill_alpha": 0.75}
            self._text(made, "line_labels", "text", "y", text_color="colour", text_baseline="top", text_align="align",
                       x_offset="shift", **paper)  # fmt: skip
        return made

    def _events(self) -> figure:
        theme = self.theme
        made = self._lane(50, "events")
        mark = Scatter(x="x", y=0.6, size=9, marker="inverted_triangle", fill_color=theme.muted, line_color=None)
        self._hover(made, self._add(made, "events", mark), "text")
        self._text(made, "event_labels", "label", 0.6, x_offset=8, text_color=theme.muted, text_baseline="middle")
        axis = made.xaxis[0]
        axis.visible, axis.minor_tick_line_color = True, None
        axis.axis_line_color = axis.major_tick_line_color = theme.muted
        axis.major_label_text_color, axis.major_label_text_font = theme.ink, FONT
        axis.major_label_text_font_size = "11px"
        return made

    def _minimap(self) -> figure:
        theme = self.theme
        made = self._figure(46, "whole", self.whole, (-1, 3))
        over = {"left": "left", "right": "right", "top": 3, "bottom": -1}
        band = Quad(**over, fill_color=theme.window, fill_alpha="map", line_color=None)
        self._add(made, "windows", band)
        for channel in CHANNELS:
            area = VArea(x="x", y1="low", y2="high", fill_color=self.colour(channel))
            self._add(made, f"{channel}_map", area)
        tool = RangeTool(x_range=self.range)
        tool.overlay.fill_color = tool.overlay.line_color = theme.ink
        tool.overlay.fill_alpha, tool.overlay.line_alpha = 0.10, 0.6
        made.add_tools(tool)
        return made
