"""The same case under several systems, drawn one below the other on one clock.

Figures are built once for as many systems as can be shown; afterwards only their columns change. Each
shows the user above and the agent below, with spans, window, limit and measured onsets and offsets.
"""

from __future__ import annotations

import itertools

import numpy as np
from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, CustomJS, HoverTool, PanTool, Range1d, Span, TapTool, WheelZoomTool
from bokeh.plotting import figure

from workbench.app.detail import CHANNELS, Detail
from workbench.pictures import marks
from workbench.pictures.theme import FONT, Theme

_COUNT = itertools.count()
_SEEK = "window.dispatchEvent(new CustomEvent('wb-seek', {detail: {id: range.name, t: cb_obj.x}}))"
_COLUMNS = {
    "window": ("left", "right"),
    "lines": ("x", "colour"),
    "line_labels": ("x", "y", "text", "colour", "align", "shift"),
    "cues": ("x",),
} | {
    f"{channel}_{what}": columns
    for channel in CHANNELS
    for what, columns in {
        "wave": ("x", "low", "high"),
        "spans": ("left", "right", "bottom", "top", "colour", "what"),
    }.items()
}
USER_AT, AGENT_AT = 2.35, 0.0
"""Middles of the two lanes; each is 2 high, with strips of spans below."""

HEIGHT_PX = 128
_DRAWN = 900
_MARGIN = 0.15


class Lane:
    """One system: `figure`, `sources`, `head` (name of the playhead)."""

    def __init__(self, theme: Theme, x_range: Range1d, name: str, last: bool):
        self.theme, self.head = theme, f"{name}-head"
        self.sources = {key: ColumnDataSource({each: [] for each in columns}) for key, columns in _COLUMNS.items()}
        made = figure(
            height=HEIGHT_PX + (22 if last else 0), sizing_mode="stretch_width", x_range=x_range,
            y_range=Range1d(-1.4, 3.4), tools="", toolbar_location=None, lod_timeout=50, lod_threshold=None,
            min_border_left=62, min_border_right=12, min_border_top=2, min_border_bottom=2,
        )  # fmt: skip
        made.background_fill_color = made.border_fill_color = None
        made.outline_line_color = made.xgrid.grid_line_color = theme.grid
        made.ygrid.visible = False
        made.xaxis.visible = last
        axis = made.yaxis[0]
        axis.ticker, axis.axis_line_color, axis.major_tick_line_color = [AGENT_AT, USER_AT], None, None
        axis.major_label_overrides = {AGENT_AT: "agent", USER_AT: "user"}
        axis.major_label_text_color, axis.major_label_text_font, axis.major_label_text_font_size = (
            theme.muted,
            FONT,
            "12px",
        )
        below = made.xaxis[0]
        below.axis_line_color = below.major_tick_line_color = theme.muted
        below.minor_tick_line_color, below.major_label_text_color, below.major_label_text_font = None, theme.ink, FONT
        made.quad("left", "right", 3.4, -1.4, source=self.sources["window"], fill_color=theme.window, fill_alpha=0.45,
                  line_color=None, level="underlay")  # fmt: skip
        spans = []
        for channel, colour in (("user", theme.user), ("agent", theme.agent)):
            made.varea("x", "low", "high", source=self.sources[f"{channel}_wave"], fill_color=colour)
            spans.append(made.quad("left", "right", "top", "bottom", source=self.sources[f"{channel}_spans"],
                                   fill_color="colour", line_color=None))  # fmt: skip
        made.segment("x", 3.4, "x", -1.4, source=self.sources["cues"], line_color=theme.muted, line_dash="dotted")
        made.segment("x", 1.02, "x", -1.4, source=self.sources["lines"], line_color="colour", line_width=1.6,
                     line_dash="dashed")  # fmt: skip
        made.text("x", "y", "text", source=self.sources["line_labels"], text_color="colour", text_font=value(FONT),
                  text_font_size="11px", text_baseline="top", text_align="align", x_offset="shift",
                  background_fill_color=theme.paper, background_fill_alpha=0.75)  # fmt: skip
        made.add_layout(Span(location=0, dimension="height", line_color=theme.ink, line_width=1.5, level="overlay",
                             name=self.head))  # fmt: skip
        wheel, pan = WheelZoomTool(dimensions="width"), PanTool(dimensions="width")
        made.add_tools(wheel, pan, TapTool(), HoverTool(renderers=spans, tooltips="@what", point_policy="follow_mouse"))
        made.toolbar.active_scroll, made.toolbar.active_drag = wheel, pan
        made.js_on_event("tap", CustomJS(args={"range": x_range}, code=_SEEK))
        self.figure = made
        self.detail: Detail | None = None
        self.lead_s = 0.0

    def _fill(self, name: str, columns: dict) -> None:
        self.sources[name].data = {column: columns[column] for column in _COLUMNS[name]}

    def show(self, detail: Detail | None, lead_s: float) -> None:
        """Fill what does not depend on the zoom. lead_s : what this system's clock shows at 0 of the picture."""
        self.detail, self.lead_s = detail, lead_s
        if detail is None:
            return
        for channel, middle in (("user", USER_AT), ("agent", AGENT_AT)):
            boxes = marks.span_boxes(detail, channel, self.theme)
            boxes |= {name: [x - lead_s for x in boxes[name]] for name in ("left", "right")}
            self._fill(
                f"{channel}_spans", boxes | {name: [y + middle for y in boxes[name]] for name in ("bottom", "top")}
            )
        window = detail.window
        self._fill(
            "window", {"left": [window[0] - lead_s] if window else [], "right": [window[1] - lead_s] if window else []}
        )
        self._fill("cues", {"x": [x - lead_s for x in marks.cue_bounds(detail)]})
        lines = marks.lines(detail, self.theme)
        self._fill("lines", lines | {"x": [x - lead_s for x in lines["x"]]})

    def refill(self, start_s: float, end_s: float, width_px: int) -> None:
        """Fill what is in view."""
        detail, lead = self.detail, self.lead_s
        if detail is None:
            return
        left, right = start_s - _MARGIN * (end_s - start_s), end_s + _MARGIN * (end_s - start_s)
        for number, (channel, middle) in enumerate((("user", USER_AT), ("agent", AGENT_AT))):
            if detail.recording is None:
                self._fill(f"{channel}_wave", dict.fromkeys(("x", "low", "high"), np.zeros(0, np.float32)))
                continue
            columns = detail.recording.columns(number, left + lead, right + lead, _DRAWN)
            gain, shift = np.float32(detail.recording.gain(number)), np.float32(middle)
            self._fill(f"{channel}_wave", {"x": columns["x"] - np.float32(lead), "low": columns["low"] * gain + shift,
                                           "high": columns["high"] * gain + shift})  # fmt: skip
        labels = marks.line_labels(detail, self.theme, start_s + lead, end_s + lead, width_px)
        # Labels stand below one another; this lane is lower than the one that they were placed for.
        places = {"x": [x - lead for x in labels["x"]], "y": [1.02 - 2.1 * (1.02 - y) for y in labels["y"]]}
        self._fill("line_labels", labels | places)


class Stack:
    """`lanes` share `range`, whose name the player watches; `heads` are the playheads' names."""

    def __init__(self, theme: Theme, most: int):
        self.name = f"stack{next(_COUNT)}"
        self.range = Range1d(0, 10, name=f"{self.name}-x", min_interval=0.02)
        self.lanes = [Lane(theme, self.range, f"{self.name}-{at}", True) for at in range(most)]
        self.heads = [lane.head for lane in self.lanes]
        self.span = (0.0, 10.0)
        self.whole = (0.0, 10.0)
        self.aligned: bool | None = None

    def show(self, details: list[Detail], aligned: bool) -> None:
        """Draw one detail a lane. aligned : put the openings of the windows above one another, at 0 s."""
        self.aligned = aligned
        opens = [detail.window[0] if detail.window else None for detail in details]
        leads = [at or 0.0 for at in opens] if aligned and any(at is not None for at in opens) else [0.0] * len(details)
        ends = [max(detail.duration_s, 0.1) - lead for detail, lead in zip(details, leads, strict=True)]
        starts = [-lead for lead in leads]
        first, last = min(starts, default=0.0), max(ends, default=10.0)
        margin = 0.006 * (last - first)
        self.whole = (first - margin, last + margin)
        self.range.update(bounds=(first - 10 * margin, last + 10 * margin), max_interval=1.2 * (last - first))
        for at, lane in enumerate(self.lanes):
            lane.show(details[at] if at < len(details) else None, leads[at] if at < len(details) else 0.0)
            lane.figure.xaxis.visible = at == len(details) - 1
            lane.figure.height = HEIGHT_PX + (22 if at == len(details) - 1 else 0)

    def view(self, start_s: float, end_s: float) -> None:
        """Put a stretch in view."""
        self.range.update(start=start_s, end=end_s)
        self.refill(start_s, end_s)

    def refill(self, start_s: float, end_s: float, width_px: int = 1130) -> None:
        self.span = (start_s, end_s)
        for lane in self.lanes:
            lane.refill(start_s, end_s, width_px)

    def window(self) -> tuple[float, float] | None:
        """From the first opening of a window to the last close, as the picture's clock has it."""
        found = [(lane.detail.window[0] - lane.lead_s, lane.detail.window[1] - lane.lead_s)
                 for lane in self.lanes if lane.detail is not None and lane.detail.window]  # fmt: skip
        return (min(pair[0] for pair in found), max(pair[1] for pair in found)) if found else None
