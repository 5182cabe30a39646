"""One case on the clock: who spoke when, what was played, the scored window and the limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.models import BoxAnnotation, ColumnDataSource, FactorRange, HoverTool
from bokeh.plotting import figure

from workbench.pictures.theme import FONT, LIGHT, Theme, new_figure


def timeline(
    user: Any,
    agent: Any,
    *,
    title: str,
    window: tuple[float, float] | None = None,
    cues: Mapping[str, tuple[float, float]] | None = None,
    limits: Mapping[str, float] | None = None,
    end_s: float | None = None,
    theme: Theme = LIGHT,
) -> figure:
    """Speech of both sides as bars, seconds on the session clock.

    user, agent : spans, shape (n, 2). window : the scored interval, shaded. cues : name -> (start,
    end) of what was played. limits : what a line stands for -> where it stands.
    """
    user, agent = _spans(user), _spans(agent)
    cues, limits = dict(cues or {}), dict(limits or {})
    lanes = ["agent", "user", *(["cues"] if cues else [])]
    marks = [*(window or ()), *limits.values(), *(end for _, end in cues.values())]
    last = max([end_s or 0.0, *user[:, 1], *agent[:, 1], *marks, 1.0])
    made = new_figure(
        theme,
        title=title,
        y_range=FactorRange(factors=lanes, range_padding=0.16),
        x_range=(-0.2, last + 0.3),
        height=92 + 30 * len(lanes),
    )
    made.ygrid.grid_line_color = None
    made.xaxis.axis_label = "seconds"
    if window:
        made.add_layout(
            BoxAnnotation(
                left=window[0],
                right=window[1],
                fill_color=theme.window,
                fill_alpha=0.55,
                line_color=None,
                level="underlay",
            )
        )
    bars = [
        _bars(made, user, "user", [f"user {i + 1}" for i in range(len(user))], theme.user),
        _bars(made, agent, "agent", [f"agent {i + 1}" for i in range(len(agent))], theme.agent),
    ]
    if cues:
        bars.append(_bars(made, _spans(list(cues.values())), "cues", list(cues), theme.missing))
        made.text(
            x=[start for start, _ in cues.values()],
            y=["cues"] * len(cues),
            text=list(cues),
            x_offset=4,
            text_baseline="middle",
            text_color=theme.ink,
            text_font_size="11px",
            text_font={"value": FONT},
        )
    made.add_tools(
        HoverTool(renderers=bars, tooltips=[("", "@name: @start{0.000} to @end{0.000} s, @length{0.000} s")])
    )
    if limits:
        names, where = list(limits), [float(value) for value in limits.values()]
        made.segment(
            x0=where,
            x1=where,
            y0=[(lanes[0], -0.5)] * len(where),
            y1=[(lanes[-1], 0.62)] * len(where),
            line_color=theme.limit,
            line_width=2,
            line_dash="dashed",
        )
        made.text(
            x=where,
            y=[(lanes[-1], 0.52)] * len(where),
            text=names,
            x_offset=4,
            text_baseline="middle",
            text_color=theme.limit,
            text_font_size="11px",
            text_font={"value": FONT},
        )
    return made


def _bars(made: figure, spans: np.ndarray, lane: str, names: Sequence[str], colour: str):
    source = ColumnDataSource(
        {
            "start": spans[:, 0].tolist(),
            "end": spans[:, 1].tolist(),
            "name": list(names),
            "length": (spans[:, 1] - spans[:, 0]).tolist(),
            "lane": [lane] * len(spans),
        }
    )
    return made.hbar(
        y="lane",
        left="start",
        right="end",
        height=0.62,
        fill_color=colour,
        line_color=colour,
        fill_alpha=0.85,
        source=source,
    )


def _spans(value: Any) -> np.ndarray:
    """Spans as (n, 2), also when a table gives them as an array of arrays or as null."""
    if value is None or (isinstance(value, float) and value != value):
        return np.empty((0, 2))
    return np.array([list(pair) for pair in value], float).reshape(-1, 2)
