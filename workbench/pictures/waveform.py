"""A recording drawn with everything known about it: fills a `Canvas` for a case and for every zoom.

Waveforms are minima and maxima of about one column a pixel, filled again for what is in view, so that a
100 s stereo case costs some 50 kB and any zoom is exact. Bokeh models are changed inside `pn.io.hold()`
only: Panel handles a message from the browser without the document's lock, and hold writes what changed
without needing it.
"""

from __future__ import annotations

import numpy as np
import panel as pn
import param

from workbench.app.detail import CHANNELS, Detail
from workbench.pictures import marks, peaks
from workbench.pictures.canvas import Canvas
from workbench.pictures.theme import Theme

WIDTH_PX = 835
"""Assumed width of the plots when labels are cut to fit; the real one differs little at 1280 px."""

_MARGIN = 0.15
"""More is filled than is in view, by this share on both sides, so that a drag shows no gap."""


class Waveform(param.Parameterized):
    """Shows `detail`. `span` is what is in view, [from, to] in seconds; `told` says what was drawn larger."""

    detail: Detail = param.ClassSelector(class_=Detail, allow_None=True)
    span = param.List([0.0, 10.0])
    spectrogram = param.Boolean(False)
    told = param.String("")

    def __init__(self, theme: Theme, **params):
        super().__init__(**params)
        self.theme = theme
        self.canvas = Canvas(theme)
        self._gains = dict.fromkeys(CHANNELS, 1.0)
        self._labelled: dict[str, marks.Columns] = {}

    @property
    def duration_s(self) -> float:
        return max(self.detail.duration_s, 0.1) if self.detail else 10.0

    @property
    def whole(self) -> tuple[float, float]:
        """The view that fits everything, with a sliver of margin so that marks at the ends are seen."""
        return -0.006 * self.duration_s, 1.006 * self.duration_s

    # -- filling -------------------------------------------------------------------------------

    def _put(self, name: str, columns: marks.Columns | dict[str, np.ndarray]) -> None:
        source = self.canvas.sources[name]
        source.data = {column: columns[column] for column in source.column_names}

    @param.depends("detail", watch=True)
    def _fill_case(self) -> None:
        if self.detail is not None:
            with pn.io.hold():
                self._draw(self.detail)

    def _draw(self, detail: Detail) -> None:
        theme, end = self.theme, self.duration_s
        self.canvas.range.update(bounds=(-0.05 * end - 0.1, 1.05 * end + 0.1), max_interval=1.1 * end + 0.2)
        self.canvas.whole.update(start=self.whole[0], end=self.whole[1])
        for number, channel in enumerate(CHANNELS):
            self._gains[channel] = detail.recording.gain(number) if detail.recording else 1.0
            overview = self._columns(number, 0, end, 500)
            shift = np.float32(2 if channel == "user" else 0)
            self._put(f"{channel}_map", overview | {name: overview[name] + shift for name in ("low", "high")})
            self._put(f"{channel}_spans", marks.span_boxes(detail, channel, theme))
        self._labelled = {"segments": marks.segments(detail, theme), "said": marks.said(detail, theme)}
        for name, columns in self._labelled.items():
            self._put(name, columns)
        self._labelled["events"] = marks.events(detail)
        self._put("events", self._labelled["events"])
        self._put("windows", marks.windows(detail))
        self._put("cues", {"x": marks.cue_bounds(detail)})
        self._put("lines", marks.lines(detail, theme))
        self._put("user_words", marks.user_words(detail))
        self._put("agent_words", marks.agent_words(detail))
        self.told = loudness(detail, self._gains)

    def _columns(self, number: int, start_s: float, end_s: float, count: int) -> dict[str, np.ndarray]:
        if self.detail is None or self.detail.recording is None:
            return {name: np.zeros(0, np.float32) for name in ("x", "low", "high")}
        found = self.detail.recording.columns(number, start_s, end_s, count)
        gain = np.float32(self._gains[CHANNELS[number]])
        return found | {"low": found["low"] * gain, "high": found["high"] * gain}

    @param.depends("detail", "span", "spectrogram", watch=True)
    def refill(self) -> None:
        """Fill what depends on the zoom: waveforms or spectrograms, and labels cut to their room."""
        if self.detail is not None:
            with pn.io.hold():
                self._draw_view(*self.span)

    def _draw_view(self, start: float, end: float) -> None:
        left, right = start - _MARGIN * (end - start), end + _MARGIN * (end - start)
        self.canvas.show_spectrogram(self.spectrogram)
        for number, channel in enumerate(CHANNELS):
            if self.spectrogram:
                self._put(f"{channel}_image", self._image(number, max(0.0, left), min(self.duration_s, right)))
            else:
                self._put(f"{channel}_wave", self._columns(number, left, right, peaks.COLUMNS))
        for name in ("segments", "said"):
            self._put(f"{name}_labels", marks.fitted(self._labelled[name], start, end, WIDTH_PX))
        self._put("event_labels", marks.event_labels(self._labelled["events"], start, end, WIDTH_PX))
        self._put("line_labels", marks.line_labels(self.detail, self.theme, start, end, WIDTH_PX))

    def _image(self, number: int, left: float, right: float) -> dict[str, list]:
        if self.detail.recording is None or right <= left:
            return {"image": [], "x": [], "dw": []}
        return {"image": [self.detail.recording.spectrogram(number, left, right)], "x": [left], "dw": [right - left]}

    # -- zooming -------------------------------------------------------------------------------

    def show(self, start_s: float, end_s: float) -> None:
        """Put [start_s, end_s] in view."""
        end_s = max(end_s, start_s + 0.02)
        with pn.io.hold():
            self.canvas.range.update(start=start_s, end=end_s)
            self.span = [float(start_s), float(end_s)]

    def fit(self) -> None:
        self.show(*self.whole)

    def zoom_to_window(self) -> None:
        """The scored window with some of what is around it; the whole where there is none."""
        window = self.detail.window if self.detail else None
        if window is None:
            self.fit()
            return
        around = max(0.6 * (window[1] - window[0]), 0.5)
        self.show(max(self.whole[0], window[0] - around), min(self.whole[1], window[1] + around))


def loudness(detail: Detail, gains: dict[str, float]) -> str:
    """What is said of channels that are drawn larger than they are, or hold nothing."""
    if detail.recording is None:
        return ""
    peak = dict(zip(CHANNELS, map(float, detail.recording.peak), strict=True))
    larger = [f"{name} {gains[name]:.1f}× (peak {20 * np.log10(peak[name]):.0f} dBFS)"
              for name in CHANNELS if gains[name] >= 1.5]  # fmt: skip
    silent = [f"{name} is exact silence" for name in CHANNELS if peak[name] == 0]
    said = [f"drawn larger than it sounds: {', '.join(larger)}"] if larger else []
    return "; ".join(said + silent)
