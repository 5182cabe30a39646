"""Charts of threshold sweeps: heat maps, curves, rankings, and how far rankings agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Span
from bokeh.plotting import figure

from workbench.pictures.rates import HeatMap, percent
from workbench.pictures.theme import FONT, LIGHT, MARKERS, Theme, empty, legend_above, new_figure, style_legend

_MOST_TEXT = 30
"""With more columns than this the numbers in the cells would touch; the hover still gives them."""


def sweep_heatmap(
    frame: pd.DataFrame, x: str, y: str, value: str, *, name: str = "", what: str = "", theme: Theme = LIGHT
) -> figure:
    """A heat map of one value over two thresholds.

    frame : one row a configuration, columns `x`, `y`, `value`. Where other thresholds vary too, a
    cell is the mean over them; the title says over how many configurations.
    """
    cells = frame.groupby([y, x], sort=True)[value].agg(["mean", "size"]).reset_index()
    over = int(cells["size"].max()) if len(cells) else 0
    mean = f", mean of {over} configurations a cell" if over > 1 else ""
    low, high = float(cells["mean"].min()), float(cells["mean"].max())
    made = HeatMap(theme)
    made.fill(
        [f"{each:g}" for each in sorted(frame[x].unique())], [f"{each:g}" for each in sorted(frame[y].unique())[::-1]],
        [(f"{a:g}", f"{b:g}", mean, percent(mean), f"{x} {a:g}, {y} {b:g}: {percent(mean)} %")
         for b, a, mean in cells[[y, x, "mean"]].itertuples(index=False)],
        title=f"{name or value} by {x} and {y}{f': {what}' if what else ''} (n = {len(frame)} configurations{mean})",
        axes=(x, y), limits=(low, high if high > low else low + 1e-9),
    )  # fmt: skip
    return made.figure


class SweepMaps(HeatMap):
    """One score over two thresholds for every run, side by side in one figure."""

    def show(self, values: np.ndarray, names: Sequence[str], axes: Mapping[str, np.ndarray],
             here: Mapping[str, float], usual: Mapping[str, float], score: str) -> None:  # fmt: skip
        """values : float (systems, y, x). axes : the x threshold's values and then the y threshold's."""
        (x, xs), (y, ys) = axes.items()
        crowded, cells = len(names) * len(xs) > _MOST_TEXT, []
        for at, row, column in np.ndindex(values.shape):
            number, a, b = float(values[at, row, column]), xs[column], ys[row]
            now, default = (abs(a - of[x]) < 1e-9 and abs(b - of[y]) < 1e-9 for of in (here, usual))
            edge = self.theme.limit if now else self.theme.ink if default else self.theme.paper
            about = f"{names[at]}, {x} {a:g}, {y} {b:g}: {percent(number)} %"
            text, width = "" if crowded else percent(number), 2.5 if now else 1.2
            cells.append(((names[at], f"{a:g}"), f"{b:g}", number, text, about, edge, width))
        self.fill(
            [(name, f"{value:g}") for name in names for value in xs], [f"{value:g}" for value in ys[::-1]], cells,
            title=f"{score} by {x} and {y}, in percent; others as set (red: now, thin: as scored)", axes=(x, y),
            limits=(-1.0, 1.0) if np.nanmin(values, initial=0) < 0 else (0.0, 1.0),
        )  # fmt: skip


class Ranking:
    """The ranking score of every run, as scored and now, the best at the top."""

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

    def fill(self, names: Sequence[str], was: np.ndarray, now: np.ndarray, score: str, *, less: bool = False) -> None:
        """less : whether the least value is the best."""
        worst = np.where(np.isnan(now), -np.inf, -now if less else now)
        factors = [names[at] for at in np.argsort(worst, kind="stable")]
        if self.y.factors != factors:
            self.y.factors = factors
        self.figure.height = 78 + 26 * len(names)
        self.source.data = {
            "run": list(names), "was": (100 * was).tolist(), "now": (100 * now).tolist(),
            "colour": [self.theme.run_colour(at) for at in range(len(names))],
            "marker": [MARKERS[at % len(MARKERS)] for at in range(len(names))],
            "text": [f"{percent(a)} as scored, {percent(b)} now" for a, b in zip(was, now, strict=True)],
        }  # fmt: skip
        self.figure.title.text = f"Ranking by {score}: as scored (hollow) and now (filled)"


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
    made.quad(left=edges[:-1], right=edges[1:], bottom=0, top=counts, fill_color=theme.series[0], fill_alpha=0.7,
              line_color=theme.paper)  # fmt: skip
    median = float(np.median(known))
    made.segment(x0=[median], x1=[median], y0=[0], y1=[int(counts.max())], line_color=theme.limit, line_width=2,
                 line_dash="dashed", legend_label=f"median {median:.2f}")  # fmt: skip
    made.y_range.start = 0
    made.xaxis.axis_label, made.yaxis.axis_label, made.legend.location = "tau", "configurations", "top_left"
    style_legend(made.legend[0], theme)
    return made


def threshold_curves(
    frame: pd.DataFrame, threshold: str, value: str, *, run: str = "run", name: str = "",
    default: float | None = None, theme: Theme = LIGHT,
) -> figure:  # fmt: skip
    """How one value of each run moves with one threshold, the others held.

    frame : one row a run and setting, columns `threshold`, `run`, `value` (fractions). default : where
    a dashed line marks the default threshold.
    """
    runs, known = frame[run].unique().tolist(), frame.dropna(subset=value)
    title = f"{name or value} against {threshold} ({len(runs)} runs, n = {frame[threshold].nunique()} settings)"
    if known.empty:
        return empty(title, "Nothing was measured.", theme)
    made = new_figure(theme, title=title, height=300)
    made.xaxis.axis_label, made.yaxis.axis_label = threshold, name or value
    for index, who in enumerate(runs):
        part, colour = known[known[run] == who].sort_values(threshold), theme.run_colour(index)
        common = {"x": part[threshold].tolist(), "y": part[value].tolist(), "line_color": colour,
                  "legend_label": str(who), "muted_alpha": 0.15}  # fmt: skip
        made.line(line_width=2.5, **common)
        made.scatter(marker=MARKERS[index % len(MARKERS)], size=8, fill_color=colour, **common)
    if default is not None:
        made.add_layout(Span(location=default, dimension="height", line_color=theme.limit, line_dash="dashed"))
    legend_above(made, theme)
    return made


def slope_chart(
    frame: pd.DataFrame, *, at: str = "at", run: str = "run", value: str = "value", name: str = "", theme: Theme = LIGHT
) -> figure:
    """How the ranking of runs shifts between settings: ranks joined by lines, the first setting leftmost.

    frame : one row a run and setting with columns `at` (in order of appearance), `run`, `value`; the
    greatest value ranks first, equal ones share the mean rank. Null values have no place.
    """
    stops, runs = frame[at].astype(str).unique().tolist(), frame[run].unique().tolist()
    title = f"Ranking of {len(runs)} runs by {name or value} under {len(stops)} settings (n = {len(frame)} values)"
    rank = frame.groupby(at, sort=False)[value].rank(ascending=False, method="average")
    ranked = frame.assign(rank=rank, place=frame[at].astype(str)).dropna(subset="rank")
    if ranked.empty:
        return empty(title, "No run has a value here.", theme)
    made = new_figure(theme, title=title, x_range=stops, y_range=(len(runs) + 0.5, 0.5), height=110 + 40 * len(runs))
    made.yaxis.ticker = list(range(1, len(runs) + 1))
    made.yaxis.axis_label, made.xgrid.grid_line_color, made.x_range.range_padding = "rank", None, 0.35
    for index, who in enumerate(runs):
        part, colour = ranked[ranked[run] == who], theme.run_colour(index)
        if part.empty:
            continue
        common = {"x": part["place"].tolist(), "y": part["rank"].tolist(), "line_color": colour}
        made.line(line_width=2.5, **common)
        made.scatter(marker=MARKERS[index % len(MARKERS)], size=10, fill_color=colour, **common)
        for row, align, gap in ((part.iloc[0], "right", -12), (part.iloc[-1], "left", 12)):
            # Runs that tie share a rank; each then gets its own line of text.
            same = ranked[(ranked["place"] == row["place"]) & (ranked["rank"] == row["rank"])][run].tolist()
            made.text(
                x=[row["place"]], y=[row["rank"]], text=[f"{who} ({100 * row[value]:.1f})"], x_offset=gap,
                y_offset=14 * (same.index(who) - (len(same) - 1) / 2), text_align=align, text_baseline="middle",
                text_color=theme.ink, text_font={"value": FONT}, text_font_size="12px",
            )  # fmt: skip
    return made
