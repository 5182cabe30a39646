"""The picture of a recording for Bokeh: one to n systems below one another on one clock, filled for every zoom.

Figures, glyphs and sources are built once; afterwards only columns change. Each lane shows the user above
and the agent below, with spans, windows, and marks; a tall picture (one system) also the script, the agent's
text, events, spectrograms and a mini-map. Waveforms are minima and maxima of about one column a pixel, filled
again for what is in view: a 100 s stereo case costs some 50 kB and any zoom is exact. Models are changed inside
`pn.io.hold()` only: Panel handles a message from the browser without the document's lock, and hold writes
what changed without needing it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import panel as pn
import param
from bokeh.core.properties import value
from bokeh.layouts import column
from bokeh.models import (
    ColumnDataSource,
    CustomJS,
    Glyph,
    GlyphRenderer,
    HoverTool,
    Image,
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

from workbench.pictures import lanes, peaks
from workbench.pictures.lanes import CHANNELS, Lane
from workbench.pictures.theme import FONT, Theme, quiet_axis

_COUNT = itertools.count()
_SEEK = "window.dispatchEvent(new CustomEvent('wb-seek', {detail: {id: range.name, t: cb_obj.x}}))"
_MARGIN = 0.15
"""More is filled than is in view, by this share on both sides, so that a drag shows no gap."""

_TEXT_Y = 1.36
"""Middle of the strip of words above a waveform."""

_SOURCES = {
    "windows": "left right name alpha edge map", "cues": "x", "lines": "x text colour", "moments": "x text short",
    "line_labels": "x y text colour align shift",
} | {f"{channel}_{name}": columns for channel in CHANNELS for name, columns in {
    "wave": "x low high", "spans": "left right bottom top colour what"}.items()}  # fmt: skip
_TALL = {"events": "x text short", "event_labels": "x label"} | {
    f"{channel}_{name}": columns for channel in CHANNELS for name, columns in {
        "map": "x low high", "words": "left right text", "image": "image x dw",
        "text": "left right what colour", "labels": "x label"}.items()
}  # fmt: skip


class LaneFigure:
    """One system: `figure`, its `sources`, the `lane` that is shown, and `lead_s`, what its clock shows at 0."""

    def __init__(self, theme: Theme, x_range: Range1d, name: str, tall: bool):
        self.theme, self.tall, self.lead_s = theme, tall, 0.0
        self.lane: Lane | None = None
        self.middle = {"user": 3.15 if tall else 2.35, "agent": 0.0}
        self.bottom, self.top = (-2.1, 4.85) if tall else (-1.4, 3.4)
        self.height_px = 350 if tall else 150
        self.sources = {key: ColumnDataSource({each: [] for each in columns.split()}, name=f"{name}-{key}")
                        for key, columns in (_SOURCES | (_TALL if tall else {})).items()}  # fmt: skip
        self.images: dict[str, GlyphRenderer] = {}
        self.waves: dict[str, GlyphRenderer] = {}
        self.figure = made = _figure(theme, x_range, (self.bottom, self.top), self.height_px, x_range)
        wheel, pan = WheelZoomTool(dimensions="width"), PanTool(dimensions="width")
        made.add_tools(wheel, pan)
        made.toolbar.active_scroll, made.toolbar.active_drag = wheel, pan
        made.yaxis[0].ticker = list(self.middle.values())
        made.yaxis[0].major_label_overrides = {at: name for name, at in self.middle.items()}
        quiet_axis(made.xaxis[0], theme)
        quiet_axis(made.yaxis[0], theme, theme.muted)
        made.yaxis[0].axis_line_color = made.yaxis[0].major_tick_line_color = None
        self.head = _head(made, theme, f"{name}-head")
        self._draw()

    def _add(self, source: str, glyph: Glyph, tip: str = "", **options: Any) -> GlyphRenderer:
        # add_glyph, unlike figure's own methods, makes no further glyphs for selection and muting: with some
        # twenty renderers a page that is most of the time it takes to make it.
        made = self.figure.add_glyph(self.sources[source], glyph, **options)
        if tip:
            self.figure.add_tools(HoverTool(renderers=[made], tooltips=f"@{tip}", point_policy="follow_mouse"))
        return made

    def _text(self, source: str, text: str, y: float | str, **options: Any) -> None:
        style = {"text_color": self.theme.ink, "text_font": value(FONT), "text_font_size": "11px", "x_offset": 4}
        self._add(source, Text(x="x", y=y, text=text, **(style | {"text_baseline": "middle"} | options)))

    def _draw(self) -> None:
        theme, tall = self.theme, self.tall
        for channel, at in self.middle.items() if tall else ():
            mapper = LinearColorMapper(palette=cividis(256), low=0, high=255)
            picture = Image(image="image", x="x", y=at - 1, dw="dw", dh=2.0, color_mapper=mapper)
            self.images[channel] = self._add(f"{channel}_image", picture, visible=False)
        across = {"left": "left", "right": "right", "top": self.top, "bottom": -1.4}
        self.band = Quad(
            **across, fill_color=theme.window, fill_alpha="alpha", line_color=theme.limit, line_alpha="edge"
        )
        self._add("windows", self.band)  # over a spectrogram, under a waveform
        for channel, at in self.middle.items():
            colour = theme.user if channel == "user" else theme.agent
            self.waves[channel] = self._add(f"{channel}_wave", VArea(x="x", y1="low", y2="high", fill_color=colour))
            place = {"left": "left", "right": "right"}
            strips = Quad(**place, top="top", bottom="bottom", fill_color="colour", line_color=None)
            self._add(f"{channel}_spans", strips, "what")
            if not tall:
                continue
            seen = Quad(**place, top=at + 1, bottom=at - 1, fill_color=theme.ink, fill_alpha=0.12, line_alpha=0.3)
            hidden = Quad(**place, top=at + 1, bottom=at - 1, fill_alpha=0, line_alpha=0)
            self._add(f"{channel}_words", hidden, "text", hover_glyph=seen)
            paint = {"fill_color": "colour", "fill_alpha": 0.22, "line_color": "colour", "line_alpha": 0.7}
            words = Quad(**place, bottom=at + _TEXT_Y - 0.24, top=at + _TEXT_Y + 0.24, **paint)
            self._add(f"{channel}_text", words, "what")
            self._text(f"{channel}_labels", "label", at + _TEXT_Y)
        whole, below = (
            {"x0": "x", "x1": "x", "y0": self.top, "y1": -1.4},
            {"x0": "x", "x1": "x", "y0": 1.06, "y1": -1.4},
        )
        self._add("cues", Segment(**whole, line_color=theme.muted, line_dash="dotted"))
        self._add("lines", Segment(**below, line_color="colour", line_width=1.6, line_dash="dashed"))
        paper = {"background_fill_color": theme.paper, "background_fill_alpha": 0.75}
        self._text("line_labels", "text", "y", text_color="colour", text_baseline="top", text_align="align",
                   x_offset="shift", **paper)  # fmt: skip
        self._add("moments", Segment(**whole, line_color=theme.series[3], line_width=2, line_alpha=0.85), "text")
        if tall:
            mark = Scatter(x="x", y=-1.75, size=9, marker="inverted_triangle", fill_color=theme.muted, line_color=None)
            self._add("events", mark, "text")
            self._text("event_labels", "label", -1.75, x_offset=8, text_color=theme.muted)
            self._text("moments", "short", self.bottom, text_color=theme.series[3], text_baseline="bottom")

    def put(self, name: str, columns: dict[str, Any]) -> None:
        source = self.sources[name]
        source.data = {each: columns[each] for each in source.column_names}

    def _shifted(self, columns: dict[str, list]) -> dict[str, list]:
        """The columns on the picture's clock."""
        moved = {name: [x - self.lead_s for x in columns[name]] for name in ("x", "left", "right") if name in columns}
        return columns | moved

    def show(self, lane: Lane | None, lead_s: float) -> None:
        """Fill what does not depend on the zoom."""
        self.lane, self.lead_s, theme = lane, lead_s, self.theme
        if lane is None:
            return
        self._labelled = {"lines": self._shifted(lanes.lines(lane, theme))}
        for channel, at in self.middle.items():
            found = self._shifted(lanes.boxes(lane, channel, theme))
            self.put(f"{channel}_spans", found | {end: [y + at for y in found[end]] for end in ("bottom", "top")})
        self.put("windows", self._shifted(lanes.windows(lane)))
        self.put("cues", self._shifted({"x": lanes.cue_bounds(lane)}))
        self.put("lines", self._labelled["lines"])
        if self.tall:
            self._labelled |= {"user": lanes.segments(lane, theme), "agent": lanes.said(lane, theme),
                               "events": lanes.events(lane)}  # fmt: skip
            self.put("events", self._labelled["events"])
            self.put("user_words", lanes.user_words(lane))
            self.put("agent_words", lanes.agent_words(lane))
            for channel in CHANNELS:
                self.put(f"{channel}_text", self._labelled[channel])
                overview = self._wave(channel, 0, lane.duration_s, 500)
                shift = np.float32(2 if channel == "user" else 0)
                self.put(f"{channel}_map", overview | {name: overview[name] + shift for name in ("low", "high")})

    def _wave(self, channel: str, start_s: float, end_s: float, count: int) -> dict[str, np.ndarray]:
        if self.lane.recording is None:
            return dict.fromkeys(("x", "low", "high"), np.zeros(0, np.float32))
        found = self.lane.recording.columns(CHANNELS.index(channel), start_s, end_s, count)
        gain = np.float32(self.lane.gain(channel))
        return {"x": found["x"], "low": found["low"] * gain, "high": found["high"] * gain}

    def refill(self, start_s: float, end_s: float, width_px: int, spectrogram: bool) -> None:
        """Fill what depends on the zoom: waveforms or spectrograms, and labels cut to their room."""
        lane, lead = self.lane, self.lead_s
        if lane is None:
            return
        margin = _MARGIN * (end_s - start_s)
        left, right = start_s - margin + lead, end_s + margin + lead
        self.band.fill_alpha = 0.0 if spectrogram else "alpha"  # of the window only the edges, so as not to tint
        for channel, at in self.middle.items():
            self.waves[channel].visible = not spectrogram
            if channel in self.images:
                self.images[channel].visible = spectrogram
            if spectrogram:
                first, last = max(0.0, left), min(lane.duration_s, right)
                drawn = lane.recording is not None and last > first
                image = [lane.recording.spectrogram(CHANNELS.index(channel), first, last)] if drawn else []
                where = {"x": [first], "dw": [last - first]} if drawn else {"x": [], "dw": []}
                self.put(f"{channel}_image", {"image": image} | where)
                continue
            found, shift = self._wave(channel, left, right, peaks.COLUMNS), np.float32(at)
            self.put(f"{channel}_wave", {"x": found["x"] - np.float32(lead), "low": found["low"] + shift,
                                         "high": found["high"] + shift})  # fmt: skip
        step = 0.27 if self.tall else 0.57
        self.put("line_labels", lanes.line_labels(self._labelled["lines"], 1.02, step, start_s, end_s, width_px))
        if self.tall:
            for channel in CHANNELS:
                self.put(f"{channel}_labels", lanes.fitted(self._labelled[channel], start_s, end_s, width_px))
            self.put("event_labels", lanes.event_labels(self._labelled["events"], start_s, end_s, width_px))


class Picture(param.Parameterized):
    """`lanes` share `range`, whose name the player watches; `heads` are the playheads' names.

    span : what is in view, [from, to] in seconds of the picture's clock.
    """

    span = param.List([0.0, 10.0])
    spectrogram = param.Boolean(False)
    whole = (0.0, 10.0)
    """The view that fits everything."""

    def __init__(self, theme: Theme, most: int = 1, *, tall: bool = False, width_px: int = 1130, **params):
        super().__init__(**params)
        self.theme, self.width_px = theme, width_px
        name = f"wb{next(_COUNT)}"
        self.range = Range1d(0, 10, name=f"{name}-x", min_interval=0.02)
        self.bounds = Range1d(0, 10)
        self.lanes = [LaneFigure(theme, self.range, f"{name}-{at}", tall) for at in range(most)]
        self.heads = [lane.head for lane in self.lanes]
        figures = [lane.figure for lane in self.lanes]
        if tall:
            figures.append(self._minimap(f"{name}-map"))
        self.layout = column(*figures, sizing_mode="stretch_width", spacing=0)
        self.aligned: bool | None = None

    def _minimap(self, name: str) -> figure:
        theme, [lane] = self.theme, self.lanes
        made = _figure(theme, self.bounds, (-1, 3), 46, self.range)
        made.xaxis.visible = made.yaxis.visible = False
        made.center = []
        self.heads.append(_head(made, theme, f"{name}-head"))
        over = {"left": "left", "right": "right", "top": 3, "bottom": -1}
        made.add_glyph(
            lane.sources["windows"], Quad(**over, fill_color=theme.window, fill_alpha="map", line_color=None)
        )
        for channel, colour in zip(CHANNELS, (theme.user, theme.agent), strict=True):
            made.add_glyph(lane.sources[f"{channel}_map"], VArea(x="x", y1="low", y2="high", fill_color=colour))
        tool = RangeTool(x_range=self.range)
        tool.overlay.fill_color = tool.overlay.line_color = theme.ink
        tool.overlay.fill_alpha, tool.overlay.line_alpha = 0.10, 0.6
        made.add_tools(tool)
        return made

    def show(self, shown: Sequence[Lane], *, aligned: bool = False) -> None:
        """Draw one recording a lane. aligned : put the openings of the windows above one another, at 0 s."""
        self.aligned = aligned
        leads = [lane.window[0] if aligned and lane.window else 0.0 for lane in shown]
        first = min((-lead for lead in leads), default=0.0)
        last = max((lane.duration_s - lead for lane, lead in zip(shown, leads, strict=True)), default=10.0)
        margin = 0.006 * (last - first)  # so that marks at the ends are seen
        self.whole = (first - margin, last + margin)
        with pn.io.hold():
            self.range.update(bounds=(first - 10 * margin, last + 10 * margin), max_interval=1.1 * (last - first) + 0.2)
            self.bounds.update(start=self.whole[0], end=self.whole[1])
            for at, each in enumerate(self.lanes):
                there, ends = at < len(shown), at == len(shown) - 1
                each.show(shown[at] if there else None, leads[at] if there else 0.0)
                each.figure.xaxis.visible = ends
                each.figure.height = each.height_px - (0 if ends else 22)
            self.refill()

    @param.depends("span", "spectrogram", watch=True)
    def refill(self) -> None:
        with pn.io.hold():
            for lane in self.lanes:
                lane.refill(*self.span, self.width_px, self.spectrogram)

    @property
    def window(self) -> tuple[float, float] | None:
        """From the first opening of a window to the last close, on the picture's clock."""
        found = [(lane.lane.window, lane.lead_s) for lane in self.lanes if lane.lane is not None and lane.lane.window]
        return (min(w[0] - by for w, by in found), max(w[1] - by for w, by in found)) if found else None

    def view(self, start_s: float, end_s: float) -> None:
        """Put [start_s, end_s] in view."""
        end_s = max(end_s, start_s + 0.02)
        with pn.io.hold():
            self.range.update(start=start_s, end=end_s)
            self.span = [float(start_s), float(end_s)]

    def see(self, viewport: Sequence[float]) -> None:
        """Fill what a browser has in view; what is no range is left alone."""
        start_s, end_s = map(float, viewport) if len(viewport) == 2 else (0.0, 0.0)
        if start_s < end_s and not np.allclose((start_s, end_s), self.span, rtol=0, atol=1e-6):
            self.span = [start_s, end_s]

    @property
    def zoom(self) -> list[float]:
        """`span`, and [] where that is the whole."""
        return [] if np.allclose(self.span, self.whole, rtol=0, atol=0.01) else self.span

    def fit(self) -> None:
        self.view(*self.whole)

    def zoom_to_window(self) -> None:
        """The scored window with some of what is around it; the whole where there is none."""
        if self.window is None:
            return self.fit()
        w0, w1 = self.window
        around = max(0.6 * (w1 - w0), 0.5)
        self.view(max(self.whole[0], w0 - around), min(self.whole[1], w1 + around))


def _figure(theme: Theme, x_range: Range1d, y_range: tuple[float, float], height: int, seen: Range1d) -> figure:
    made = figure(
        height=height, sizing_mode="stretch_width", x_range=x_range, y_range=Range1d(*y_range), tools="",
        toolbar_location=None, lod_timeout=50, lod_threshold=None, min_border_left=46, min_border_right=12,
        min_border_top=2, min_border_bottom=2,
    )  # fmt: skip
    made.background_fill_color = made.border_fill_color = None
    made.outline_line_color = made.xgrid.grid_line_color = theme.grid
    made.ygrid.visible = False
    made.js_on_event("tap", CustomJS(args={"range": seen}, code=_SEEK))
    return made


def _head(made: figure, theme: Theme, name: str) -> str:
    made.add_layout(
        Span(location=0, dimension="height", line_color=theme.ink, line_width=1.5, level="overlay", name=name)
    )
    return name
