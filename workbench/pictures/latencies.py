"""Latency distributions, signed, with the limit each is held against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Legend, LegendItem, Span
from bokeh.plotting import figure
from bokeh.transform import dodge

from workbench.pictures.theme import LIGHT, MARKERS, Theme, empty, new_figure, style_legend

_SPREAD = 0.32


def latency_distributions(
    frame: pd.DataFrame,
    *,
    lane: str = "action",
    order: Sequence[str] | None = None,
    title: str = "Latency",
    axis: str = "seconds after the window opens (negative: before)",
    theme: Theme = LIGHT,
) -> figure:
    """Every latency as a dot, with its median and quartiles, one lane an action and run.

    frame : columns `lane`, `run`, `latency_s` (signed seconds; null is left out and counted in the
    title), `limit_s` (null: none), and, for the hover, `case` and `verdict` when present. Limits are
    upright lines in their lane; where cases of a lane differ in limit, each is drawn.
    """
    shown = frame[frame["latency_s"].notna()] if len(frame) else frame
    title = f"{title}: {len(shown)} latencies, {len(frame) - len(shown)} cases without one"
    if shown.empty:
        return empty(title, "No case has a latency here.", theme)
    lanes = [item for item in (order or shown[lane].unique()) if item in set(shown[lane])]
    runs = frame["run"].unique().tolist()
    places = FactorRange(factors=list(reversed(lanes)))
    low, high = shown["latency_s"].quantile([0.005, 0.995])
    limits = shown["limit_s"].dropna()
    bounds = (min(low, 0) - 0.3, max(high, limits.max() if len(limits) else 0) + 0.4)
    height = 100 + len(lanes) * max(46, 26 * len(runs))
    made = new_figure(theme, title=title, y_range=places, x_range=bounds, height=height)
    made.xaxis.axis_label, made.ygrid.grid_line_color = axis, None
    made.add_layout(Span(location=0, dimension="height", line_color=theme.muted, line_dash="dotted"))
    step = 0.86 / len(runs)
    generator = np.random.default_rng(0)  # the same jitter every time, so the page is reproducible
    items = []
    for index, run in enumerate(runs):
        part = shown[shown["run"] == run]
        shift = -(index - (len(runs) - 1) / 2) * step
        colour = theme.run_colour(index)
        renderers = [
            _dots(made, part, lane, shift, step, index, colour, generator),
            *_boxes(made, part, lane, shift, step, places, colour, theme),
        ]
        items.append(LegendItem(label=str(run), renderers=renderers))
    line = _limits(made, shown, lane, places, theme)
    if line:
        items.append(LegendItem(label="limit", renderers=[line]))
    legend = Legend(items=items, orientation="horizontal")
    made.add_layout(legend, "above")
    style_legend(legend, theme)
    return made


def _dots(made, part, lane, shift, step, index, colour, generator):
    offset = shift + step * _SPREAD * generator.uniform(-1, 1, len(part))
    source = ColumnDataSource(
        {
            "place": list(zip(part[lane].tolist(), offset.round(3).tolist(), strict=True)),
            "t": part["latency_s"].round(3).tolist(),
            "case": part["case"].tolist() if "case" in part else [""] * len(part),
            "verdict": part["verdict"].tolist() if "verdict" in part else [""] * len(part),
        }
    )
    dots = made.scatter(
        x="t",
        y="place",
        marker=MARKERS[index % len(MARKERS)],
        size=5,
        fill_color=colour,
        fill_alpha=0.35,
        line_color=None,
        source=source,
        muted_alpha=0.03,
    )
    made.add_tools(
        HoverTool(renderers=[dots], tooltips=[("case", "@case"), ("latency", "@t s"), ("verdict", "@verdict")])
    )
    return dots


def _boxes(made, part, lane, shift, step, places, colour, theme):
    if part.empty:
        return []
    quartiles = part.groupby(lane)["latency_s"].quantile([0.25, 0.5, 0.75]).unstack().round(4)
    source = ColumnDataSource(
        {
            "place": quartiles.index.tolist(),
            "q1": quartiles[0.25].tolist(),
            "q2": quartiles[0.5].tolist(),
            "q3": quartiles[0.75].tolist(),
        }
    )
    at = dodge("place", shift, range=places)
    box = made.segment(x0="q1", x1="q3", y0=at, y1=at, line_color=colour, line_width=3, source=source)
    median = made.scatter(
        x="q2",
        y=at,
        marker="dash",
        angle=np.pi / 2,
        size=step * 30 + 6,
        line_color=theme.ink,
        line_width=3,
        source=source,
    )
    return [box, median]


def _limits(made, shown, lane, places, theme):
    pairs = shown[[lane, "limit_s"]].dropna().drop_duplicates()
    if pairs.empty:
        return None
    return made.segment(
        x0=pairs["limit_s"].tolist(),
        x1=pairs["limit_s"].tolist(),
        y0=[(place, -0.48) for place in pairs[lane]],
        y1=[(place, 0.48) for place in pairs[lane]],
        line_color=theme.limit,
        line_width=2,
        line_dash="dashed",
    )
