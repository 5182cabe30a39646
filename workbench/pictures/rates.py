"""Charts of rates and gaps with their counts and intervals, heat maps, and latencies with their limits.

A table of rates has, per row, some labels, the rate, `passed`, `measured`, `low` and `high` (fractions; null
where nothing was measured). Several runs stand in one frame, told apart by `run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Legend, LegendItem, LinearColorMapper, Span
from bokeh.plotting import figure
from bokeh.transform import dodge

from workbench.pictures.theme import FONT, HATCH, HEAT, LIGHT, MARKERS, Theme, empty, legend_above, new_figure, on_heat

_SPREAD = 0.32


def percent(value: float, signed: bool = False) -> str:
    """A fraction in percent, one decimal, without the sign; a dash where it is NaN."""
    return "–" if value != value else f"{100 * value:{'+' if signed else ''}.1f}"


def counted(frame: pd.DataFrame) -> str:
    """How many cases stand behind the rows of each run: 'n = 1038' or 'n = 1030 to 1038'."""
    if frame.empty:
        return "n = 0"
    totals = frame.groupby("run")["measured"].sum() if "run" in frame else pd.Series([frame["measured"].sum()])
    low, high = int(totals.min()), int(totals.max())
    each = " in each run" if len(totals) > 1 else ""
    return f"n = {low}{each}" if low == high else f"n = {low} to {high} a run"


def _fractions(frame: pd.DataFrame, *names: str) -> list[pd.Series]:
    return [pd.to_numeric(frame[name], errors="coerce").astype(float) for name in names]


def _hover(made: figure, renderer: Any, tips: Mapping[str, str]) -> None:
    tooltips = [(name.replace("_", " "), text) for name, text in tips.items()]
    made.add_tools(HoverTool(renderers=[renderer], tooltips=tooltips))


def rates_with_intervals(
    frame: pd.DataFrame, by: str, *, value: str = "rate", title: str | None = None, order: Sequence[str] = (),
    labels: Mapping[str, str] | None = None, horizontal: bool = False, theme: Theme = LIGHT,
) -> figure:  # fmt: skip
    """Rates of one or several runs as points with 95 % intervals, one place a category.

    frame : a table of rates with a column `by`; `order` and `labels` say which of its values are shown, and
    how they are called. A category that was not measured is named so.
    """
    words = by.replace("_", " ")
    title = title or f"Share of measured cases that pass by {words}, with 95 % intervals ({counted(frame)})"
    if frame.empty or not frame["measured"].sum():
        return empty(title, "Nothing was measured.", theme)
    frame = frame.assign(run=frame.get("run", ""))
    known = frame[by].astype(str).unique().tolist()
    names = {item: (labels or {}).get(item, item) for item in _placed(order, known)}
    runs = frame["run"].unique().tolist()
    places = FactorRange(factors=[*names.values()][:: -1 if horizontal else 1])
    step = min(0.8 / max(len(runs), 1), 0.22)
    if horizontal:
        height = 90 + len(names) * max(30, 15 * len(runs))
        made = new_figure(theme, title=title, y_range=places, x_range=(-0.02, 1.02), height=height)
    else:
        made = new_figure(theme, title=title, x_range=places, y_range=(-0.02, 1.04), height=340)
    along, across = (made.xaxis, made.ygrid) if horizontal else (made.yaxis, made.xgrid)
    along.formatter.use_scientific, along.axis_label, across.grid_line_color = False, "share passed", None
    absent = {"text_color": theme.muted, "text_font_size": "11px", "text_font": {"value": FONT},
              "text_baseline": "middle", "angle": 0.0 if horizontal else np.pi / 2}  # fmt: skip
    for index, run in enumerate(runs):
        part = frame[(frame["run"] == run) & frame[by].astype(str).isin(names)]
        source = ColumnDataSource(_points(part, by, names, value))
        at = dodge("place", (index - (len(runs) - 1) / 2) * step * (-1 if horizontal else 1), range=places)
        colour = theme.run_colour(index)
        common = {"source": source, "legend_label": str(run), "muted_alpha": 0.15, "line_color": colour}
        marks = {"marker": MARKERS[index % len(MARKERS)], "size": 9, "fill_color": colour}
        if horizontal:
            made.segment(x0="low", x1="high", y0=at, y1=at, line_width=2, **common)
            dots = made.scatter(x="value", y=at, **marks, **common)
            made.text(x=0.01, y=at, text="absent", **absent, source=source)
        else:
            made.segment(x0=at, x1=at, y0="low", y1="high", line_width=2, **common)
            dots = made.scatter(x=at, y="value", **marks, **common)
            made.text(x=at, y=0.01, text="absent", **absent, source=source)
        _hover(made, dots, {"run": "@run", words: "@place", "rate": "@shown", "95 % interval": "@interval",
                            "passed / measured": "@passed / @measured"})  # fmt: skip
    legend_above(made, theme, len(runs) > 1)
    return made


def _placed(order: Iterable[str], known: Sequence[str]) -> list[str]:
    """The values that are there, in the wanted order."""
    return [item for item in order or known if item in known]


def _points(part: pd.DataFrame, by: str, names: Mapping[str, str], value: str) -> dict[str, list]:
    rates, low, high = _fractions(part, value, "low", "high")
    notes = part["note"].fillna("") if "note" in part else [""] * len(part)
    spans = zip(low, high, notes, strict=True)
    return {
        "place": [names[item] for item in part[by].astype(str)], "run": part["run"].astype(str).tolist(),
        "value": rates.tolist(), "low": low.fillna(rates).tolist(), "high": high.fillna(rates).tolist(),
        "passed": part["passed"].astype(int).tolist(), "measured": part["measured"].astype(int).tolist(),
        "shown": [f"{percent(rate)} %" if rate == rate else "not measured" for rate in rates],
        "interval": [
            ", ".join(filter(None, ("none" if a != a or b != b else f"{percent(a)} to {percent(b)} %", note)))
            for a, b, note in spans
        ],
        "absent": ["" if rate == rate else "not measured" for rate in rates],
    }  # fmt: skip


def gap_bars(
    frame: pd.DataFrame, by: str = "run", *, value: str = "gap", title: str | None = None,
    axis: str = "difference in percentage points", labels: Mapping[str, str] | None = None, theme: Theme = LIGHT,
) -> figure:  # fmt: skip
    """Differences of two rates as bars from zero, with 95 % intervals.

    frame : one row a bar (a group of bars when several rows share `by`, one a run) with `value`,
    `low`, `high` as fractions. A bar without an interval has none drawn.
    """
    title = title or f"Difference by {by}, with 95 % intervals (n = {len(frame)} rows)"
    if frame.empty or not _fractions(frame, value)[0].notna().any():
        return empty(title, "Neither side of the difference was measured.", theme)
    frame = frame.assign(place=[(labels or {}).get(str(item), str(item)) for item in frame[by]])
    places = FactorRange(factors=list(dict.fromkeys(frame["place"]))[::-1])
    runs = frame["run"].unique().tolist() if "run" in frame else [""]
    grouped = by != "run" and len(runs) > 1
    reach = max(5.0, 112 * float(pd.concat(_fractions(frame, value, "low", "high")).abs().max()))
    height = 90 + len(places.factors) * (max(24, 15 * len(runs)) if grouped else 32)
    made = new_figure(theme, title=title, y_range=places, x_range=(-reach, reach), height=height)
    made.xaxis.axis_label, made.ygrid.grid_line_color = axis, None
    for index, run in enumerate(runs):
        part = frame[frame["run"] == run] if "run" in frame else frame
        step, colour = 0.8 / len(runs) if grouped else 0.0, theme.run_colour(index)
        at = dodge("place", -(index - (len(runs) - 1) / 2) * step, range=places)
        gaps, low, high = (100 * each for each in _fractions(part, value, "low", "high"))
        source = ColumnDataSource({
            "place": part["place"].tolist(), "run": [str(run)] * len(part), "value": gaps.tolist(), "low": low.tolist(),
            "high": high.tolist(), "shown": ["not measured" if v != v else f"{v:+.1f} points" for v in gaps],
        })  # fmt: skip
        bars = made.hbar(y=at, left=0, right="value", height=(step or 0.6) * 0.75, fill_color=colour, fill_alpha=0.55,
                         line_color=colour, source=source, legend_label=str(run))  # fmt: skip
        made.segment(x0="low", x1="high", y0=at, y1=at, line_color=theme.ink, line_width=2, source=source)
        made.scatter(x="value", y=at, marker=MARKERS[index % len(MARKERS)], size=7, fill_color=colour,
                     line_color=theme.ink, source=source)  # fmt: skip
        _hover(made, bars, {"run": "@run", by: "@place", "difference": "@shown",
                            "95 % interval": "@low{0.0} to @high{0.0}"})  # fmt: skip
    made.add_layout(Span(location=0, dimension="height", line_color=theme.muted, line_width=1))
    legend_above(made, theme, grouped and len(runs) > 1)
    return made


class HeatMap:
    """Values over two labels, built once and filled again: `figure`, `source`. Cells without a value are hatched."""

    def __init__(self, theme: Theme = LIGHT):
        self.theme = theme
        columns = ("x", "y", "value", "text", "ink", "about", "edge", "width", "hatch")
        self.source = ColumnDataSource({name: [] for name in columns})
        self.x, self.y = FactorRange(factors=[], group_padding=0.5, range_padding=0.02), FactorRange(factors=[])
        self.mapper = LinearColorMapper(palette=list(HEAT), low=0, high=1, nan_color=theme.missing)
        self.figure = made = new_figure(
            theme, x_range=self.x, y_range=self.y, tools="", toolbar_location=None, title=" "
        )
        made.grid.visible = False
        cells = made.rect("x", "y", 0.98, 0.94, source=self.source, line_color="edge", line_width="width",
                          fill_color={"field": "value", "transform": self.mapper}, hatch_pattern="hatch",
                          hatch_color=theme.muted, hatch_alpha=0.5)  # fmt: skip
        made.text("x", "y", "text", source=self.source, text_color="ink", text_align="center", text_baseline="middle",
                  text_font={"value": FONT}, text_font_size="11px")  # fmt: skip
        made.add_tools(HoverTool(renderers=[cells], tooltips="@about"))
        made.xaxis.group_label_orientation, made.xaxis.major_label_text_font_size = 0, "11px"
        made.xaxis.group_text_color, made.xaxis.group_text_font, made.xaxis.separator_line_color = theme.ink, FONT, None

    def fill(self, xs: list, ys: list[str], cells: Iterable[tuple], *, title: str, axes: tuple[str, str],
             limits: tuple[float, float] = (0.0, 1.0)) -> None:  # fmt: skip
        """Draw `cells`: (x, y, value, text, about) and perhaps the colour and width of an edge. ys : from the top."""
        low, high = limits
        self.mapper.update(low=low, high=high)
        rows = []
        for x, y, number, text, about, *edge in cells:
            there = number == number
            ink = on_heat((number - low) / (high - low)) if there else self.theme.ink
            colour, width = edge or (self.theme.paper, 1.5)
            rows.append((x, y, float(number), text, ink, about, colour, width, " " if there else HATCH))
        for place, factors in ((self.x, xs), (self.y, ys[::-1])):
            if place.factors != factors:
                place.factors = factors
        self.figure.height = 84 + 28 * len(ys)
        self.source.data = {name: [row[at] for row in rows] for at, name in enumerate(self.source.column_names)}
        self.figure.xaxis.axis_label, self.figure.yaxis.axis_label = axes
        self.figure.title.text = title


def rate_heatmap(
    frame: pd.DataFrame, x: str, y: str, *, value: str = "rate", name: str = "pass rate", run: str = "",
    x_order: Sequence[str] = (), y_order: Sequence[str] = (), labels: Mapping[str, str] | None = None,
    theme: Theme = LIGHT,
) -> figure:  # fmt: skip
    """A heat map of rates, x by y, with passed/measured on every cell.

    Cells that do not exist in the grid are blank; those of which nothing was measured are grey and
    hatched, and say how many cases they have.
    """
    made, labels = HeatMap(theme), labels or {}
    xs, ys = (_placed(order, frame[each].astype(str).unique().tolist()) for each, order in ((x, x_order), (y, y_order)))
    cells = []
    for row, rate in zip(frame.to_dict("records"), _fractions(frame, value)[0], strict=True):
        counts = f"{row['passed']}/{row['measured']}"
        text = counts if row["measured"] else f"0 of {row.get('excluded', 0)}"
        where = labels.get(str(row[y]), str(row[y]))
        about = f"{row[x]}, {where}: {f'{percent(rate)} %, ' if rate == rate else ''}{text}"
        cells.append((str(row[x]), where, rate if row["measured"] else np.nan, text, about))
    title = f"{name} by {y} and {x}{f': {run}' if run else ''} ({counted(frame)})"
    made.fill(xs, [labels.get(item, item) for item in ys], cells, title=title, axes=(x, ""))
    return made.figure


def latency_distributions(
    frame: pd.DataFrame, *, lane: str, order: Sequence[str] = (), title: str = "Latency",
    axis: str = "seconds after the window opens (negative: before)", theme: Theme = LIGHT,
) -> figure:  # fmt: skip
    """Every latency as a dot, with its median and quartiles, one lane a value of `lane` and run.

    frame : columns `lane`, `run`, `latency_s` (signed seconds; null is left out and counted in the
    title), `limit_s` (null: none), `case`, `verdict`. Limits are upright lines in their lane; where
    cases of a lane differ in limit, each is drawn.
    """
    known = frame[frame["latency_s"].notna()]
    title = f"{title}: {len(known)} latencies, {len(frame) - len(known)} cases without one"
    if known.empty:
        return empty(title, "No case has a latency here.", theme)
    names, runs = _placed(order, known[lane].unique().tolist()), frame["run"].unique().tolist()
    places = FactorRange(factors=names[::-1])
    low, high = known["latency_s"].quantile([0.005, 0.995])
    limits = known[[lane, "limit_s"]].dropna().drop_duplicates()
    bounds = (min(low, 0) - 0.3, max(high, limits["limit_s"].max() if len(limits) else 0) + 0.4)
    height = 100 + len(names) * max(46, 26 * len(runs))
    made = new_figure(theme, title=title, y_range=places, x_range=bounds, height=height)
    made.xaxis.axis_label, made.ygrid.grid_line_color = axis, None
    made.add_layout(Span(location=0, dimension="height", line_color=theme.muted, line_dash="dotted"))
    generator = np.random.default_rng(0)  # the same jitter every time, so the page is reproducible
    step, items = 0.86 / len(runs), []
    for index, run in enumerate(runs):
        part, colour = known[known["run"] == run], theme.run_colour(index)
        shift = -(index - (len(runs) - 1) / 2) * step
        offset = (shift + step * _SPREAD * generator.uniform(-1, 1, len(part))).round(3).tolist()
        source = ColumnDataSource({"place": list(zip(part[lane].tolist(), offset, strict=True)),
                                   "t": part["latency_s"].round(3).tolist(), "case": part["case"].tolist(),
                                   "verdict": part["verdict"].tolist()})  # fmt: skip
        dots = made.scatter(x="t", y="place", marker=MARKERS[index % len(MARKERS)], size=5, fill_color=colour,
                            fill_alpha=0.35, line_color=None, source=source, muted_alpha=0.03)  # fmt: skip
        _hover(made, dots, {"case": "@case", "latency": "@t s", "verdict": "@verdict"})
        quartiles = part.groupby(lane)["latency_s"].quantile([0.25, 0.5, 0.75]).unstack().round(4)
        boxes = ColumnDataSource({"place": quartiles.index.tolist()} | {
            name: quartiles[share].tolist() if len(quartiles) else []
            for name, share in (("q1", 0.25), ("q2", 0.5), ("q3", 0.75))
        })  # fmt: skip
        at = dodge("place", shift, range=places)
        box = made.segment(x0="q1", x1="q3", y0=at, y1=at, line_color=colour, line_width=3, source=boxes)
        median = made.scatter(x="q2", y=at, marker="dash", angle=np.pi / 2, size=step * 30 + 6, line_color=theme.ink,
                              line_width=3, source=boxes)  # fmt: skip
        items.append(LegendItem(label=str(run), renderers=[dots, box, median]))
    if len(limits):
        ends = [[(place, end) for place in limits[lane]] for end in (-0.48, 0.48)]
        line = made.segment(x0=limits["limit_s"].tolist(), x1=limits["limit_s"].tolist(), y0=ends[0], y1=ends[1],
                            line_color=theme.limit, line_width=2, line_dash="dashed")  # fmt: skip
        items.append(LegendItem(label="limit", renderers=[line]))
    made.add_layout(Legend(items=items), "above")
    legend_above(made, theme)
    return made
