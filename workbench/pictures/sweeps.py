"""Pictures of threshold sweeps: heat map, curves' ranking, and how far rankings agree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from bokeh.models import Span
from bokeh.plotting import figure

from workbench.pictures.stack import holoviews
from workbench.pictures.theme import FONT, HEAT, LIGHT, MARKERS, Theme, empty, new_figure, on_heat, style_legend


def sweep_heatmap(
    frame: pd.DataFrame, x: str, y: str, value: str = "ias", *, name: str = "IAS", what: str = "", theme: Theme = LIGHT
):
    """A HoloViews heat map of one value over two thresholds.

    frame : one row a configuration, columns `x`, `y`, `value`. Where other thresholds vary too, a
    cell is the mean over them; the title says over how many configurations.
    """
    hv = holoviews()
    cells = frame.groupby([y, x], sort=True)[value].agg(["mean", "size"]).reset_index()
    over = int(cells["size"].max()) if len(cells) else 0
    mean = f", mean of {over} configurations a cell" if over > 1 else ""
    title = f"{name} by {x} and {y}{f': {what}' if what else ''} (n = {len(frame)} configurations{mean})"
    for column in (x, y):
        cells[column] = [f"{number:g}" for number in cells[column]]
    low, high = float(cells["mean"].min()), float(cells["mean"].max())
    cells["text"] = ["" if number != number else f"{100 * number:.1f}" for number in cells["mean"]]
    layers = hv.HeatMap(cells, kdims=[x, y], vdims=["mean", "size"]).opts(
        cmap=list(HEAT),
        clim=(low, high if high > low else low + 1e-9),
        clipping_colors={"NaN": theme.missing},
        tools=["hover"],
        line_color=theme.paper,
        line_width=2,
    )
    share = (cells["mean"] - low) / (high - low if high > low else 1.0)
    for mask, colour in ((share < 0.55, on_heat(0.0)), (share >= 0.55, on_heat(1.0))):
        if mask.any():
            layers = layers * hv.Labels(cells[mask], kdims=[x, y], vdims="text").opts(
                text_color=colour, text_font_size="11px"
            )
    height = 90 + 34 * cells[y].nunique()
    return layers.opts(hv.opts.Overlay(title=title, height=height, responsive=True, show_legend=False))


def tau_histogram(taus: Sequence[float], *, against: str = "the default thresholds", theme: Theme = LIGHT) -> figure:
    """How rankings under other thresholds agree with one ranking: Kendall's tau, -1 to 1.

    taus : one a configuration; null where it is not defined (every system ties), counted in the title.
    """
    values = np.asarray([np.nan if tau is None else tau for tau in taus], float)
    known = values[~np.isnan(values)]
    undefined = f", {len(values) - len(known)} undefined" if len(known) < len(values) else ""
    title = f"Kendall's tau against the ranking at {against} (n = {len(values)} configurations{undefined})"
    if not len(known):
        return empty(title, "Tau is not defined for any configuration.", theme)
    counts, edges = np.histogram(known, bins=np.linspace(-1.05, 1.05, 22))  # so that -1, 0 and 1 are bins' middles
    made = new_figure(theme, title=title, height=260, x_range=(-1.1, 1.1))
    made.quad(
        left=edges[:-1],
        right=edges[1:],
        bottom=0,
        top=counts,
        fill_color=theme.series[0],
        fill_alpha=0.7,
        line_color=theme.paper,
    )
    median = float(np.median(known))
    made.segment(
        x0=[median],
        x1=[median],
        y0=[0],
        y1=[int(counts.max())],
        line_color=theme.limit,
        line_width=2,
        line_dash="dashed",
        legend_label=f"median {median:.2f}",
    )
    made.y_range.start = 0
    made.xaxis.axis_label, made.yaxis.axis_label = "tau", "configurations"
    made.legend.location = "top_left"
    style_legend(made.legend[0], theme)
    return made


def threshold_curves(
    frame: pd.DataFrame,
    threshold: str,
    value: str = "ias",
    *,
    run: str = "run",
    name: str = "IAS",
    default: float | None = None,
    theme: Theme = LIGHT,
) -> figure:
    """How one value of each run moves with one threshold, the others held.

    frame : one row a run and setting, columns `threshold`, `run`, `value` (fractions). default : where
    a dashed line marks the default threshold.
    """
    runs, known = frame[run].unique().tolist(), frame.dropna(subset=value)
    title = f"{name} against {threshold} ({len(runs)} runs, n = {frame[threshold].nunique()} settings)"
    if known.empty:
        return empty(title, "Nothing was measured.", theme)
    made = new_figure(theme, title=title, height=300)
    made.xaxis.axis_label, made.yaxis.axis_label = threshold, name
    for index, who in enumerate(runs):
        part = known[known[run] == who].sort_values(threshold)
        xs, ys, colour = part[threshold].tolist(), part[value].tolist(), theme.run_colour(index)
        common = {"x": xs, "y": ys, "line_color": colour, "legend_label": str(who), "muted_alpha": 0.15}
        made.line(line_width=2.5, **common)
        made.scatter(marker=MARKERS[index % len(MARKERS)], size=8, fill_color=colour, **common)
    if default is not None:
        made.add_layout(Span(location=default, dimension="height", line_color=theme.limit, line_dash="dashed"))
    made.legend.orientation = "horizontal"
    for legend in list(made.legend):
        style_legend(legend, theme)
        made.add_layout(legend, "above")
    return made


def slope_chart(
    frame: pd.DataFrame,
    *,
    at: str = "at",
    run: str = "run",
    value: str = "value",
    name: str = "value",
    theme: Theme = LIGHT,
) -> figure:
    """How the ranking of runs shifts between settings: ranks joined by lines, the first setting leftmost.

    frame : one row a run and setting with columns `at` (in order of appearance), `run`, `value`; the
    greatest value ranks first, equal ones share the mean rank. Null values have no place.
    """
    stops = frame[at].astype(str).unique().tolist()
    runs = frame[run].unique().tolist()
    title = f"Ranking of {len(runs)} runs by {name} under {len(stops)} settings (n = {len(frame)} values)"
    ranked = frame.assign(
        rank=frame.groupby(at, sort=False)[value].rank(ascending=False, method="average"), place=frame[at].astype(str)
    ).dropna(subset="rank")
    if ranked.empty:
        return empty(title, "No run has a value here.", theme)
    made = new_figure(theme, title=title, x_range=stops, y_range=(len(runs) + 0.5, 0.5), height=110 + 40 * len(runs))
    made.yaxis.ticker = list(range(1, len(runs) + 1))
    made.yaxis.axis_label, made.xgrid.grid_line_color = "rank", None
    made.x_range.range_padding = 0.35
    for index, who in enumerate(runs):
        part = ranked[ranked[run] == who]
        if part.empty:
            continue
        colour = theme.run_colour(index)
        made.line(x=part["place"].tolist(), y=part["rank"].tolist(), line_color=colour, line_width=2.5)
        made.scatter(
            x=part["place"].tolist(),
            y=part["rank"].tolist(),
            marker=MARKERS[index % len(MARKERS)],
            size=10,
            fill_color=colour,
            line_color=colour,
        )
        for row, align, gap in ((part.iloc[0], "right", -12), (part.iloc[-1], "left", 12)):
            # Runs that tie share a rank; each then gets its own line of text.
            same = ranked[(ranked["place"] == row["place"]) & (ranked["rank"] == row["rank"])][run].tolist()
            lift = 14 * (same.index(who) - (len(same) - 1) / 2)
            made.text(
                x=[row["place"]],
                y=[row["rank"]],
                text=[f"{who} ({100 * row[value]:.1f})"],
                x_offset=gap,
                y_offset=lift,
                text_align=align,
                text_baseline="middle",
                text_color=theme.ink,
                text_font={"value": FONT},
                text_font_size="12px",
            )
    return made
