"""Pictures of rates with their counts and intervals: by level, action or role, and as a heat map.

A table of rates has, per row, some labels, the rate, `passed`, `measured`, `low` and `high`
(fractions; null where nothing was measured). Several runs stand in one frame, told apart by `run`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, FactorRange, HoverTool, Span
from bokeh.plotting import figure
from bokeh.transform import dodge

from workbench.pictures.stack import holoviews
from workbench.pictures.theme import FONT, HATCH, HEAT, LIGHT, MARKERS, Theme, empty, new_figure, on_heat, style_legend


def counted(frame: pd.DataFrame) -> str:
    """How many cases stand behind the rows of each run: 'n = 1038' or 'n = 1030 to 1038'."""
    if frame.empty:
        return "n = 0"
    totals = frame.groupby("run")["measured"].sum() if "run" in frame else pd.Series([frame["measured"].sum()])
    low, high = int(totals.min()), int(totals.max())
    each = " in each run" if len(totals) > 1 else ""
    return f"n = {low}{each}" if low == high else f"n = {low} to {high} a run"


def rates_with_intervals(
    frame: pd.DataFrame,
    by: str,
    *,
    value: str = "ias",
    name: str = "IAS",
    order: Sequence[str] | None = None,
    labels: dict[str, str] | None = None,
    horizontal: bool = False,
    theme: Theme = LIGHT,
) -> figure:
    """Rates of one or several runs as points with 95 % intervals, one place a category.

    frame : a table of rates with a column `by`; `order` and `labels` say how its values are placed
    and called. A category that was not measured is named so.
    """
    title = (
        f"{name} by {by.replace('_', ' ')}: share of measured cases that pass, with 95 % intervals ({counted(frame)})"
    )
    if frame.empty or not frame["measured"].sum():
        return empty(title, "Nothing was measured.", theme)
    frame = frame.assign(run=frame.get("run", name))
    known = frame[by].astype(str).unique().tolist()
    order = [item for item in (order or known) if item in known]
    labels = {item: (labels or {}).get(item, item) for item in order}
    runs = frame["run"].unique().tolist()
    places = FactorRange(factors=[labels[item] for item in (reversed(order) if horizontal else order)])
    step = min(0.8 / max(len(runs), 1), 0.22)
    if horizontal:
        height = 90 + len(order) * max(30, 15 * len(runs))
        made = new_figure(theme, title=title, y_range=places, x_range=(-0.02, 1.02), height=height)
    else:
        made = new_figure(theme, title=title, x_range=places, y_range=(-0.02, 1.04), height=340)
    along, across = (made.xaxis, made.ygrid) if horizontal else (made.yaxis, made.xgrid)
    along.formatter.use_scientific = False
    along.axis_label = f"{name} (share passed)"
    across.grid_line_color = None
    for index, run in enumerate(runs):
        part = frame[frame["run"] == run]
        source = ColumnDataSource(_points(part, by, labels, value))
        shift = (index - (len(runs) - 1) / 2) * step * (-1 if horizontal else 1)
        at = dodge("place", shift, range=places)
        colour = theme.run_colour(index)
        common = {"source": source, "legend_label": str(run), "muted_alpha": 0.15}
        marks = {"marker": MARKERS[index % len(MARKERS)], "size": 9, "fill_color": colour, "line_color": colour}
        if horizontal:
            made.segment(x0="low", x1="high", y0=at, y1=at, line_color=colour, line_width=2, **common)
            dots = made.scatter(x="value", y=at, **marks, **common)
            made.text(x=0.01, y=at, text="absent", **_absent(theme), source=source)
        else:
            made.segment(x0=at, x1=at, y0="low", y1="high", line_color=colour, line_width=2, **common)
            dots = made.scatter(x=at, y="value", **marks, **common)
            made.text(x=at, y=0.01, text="absent", **_absent(theme, turned=True), source=source)
        made.add_tools(
            HoverTool(
                renderers=[dots],
                tooltips=[
                    ("run", "@run"),
                    (by, "@place"),
                    (name, "@shown"),
                    ("passed / measured", "@passed / @measured"),
                    ("95 % interval", "@interval"),
                ],
            )
        )
    _legend(made, theme, len(runs))
    return made


def _absent(theme: Theme, turned: bool = False) -> dict:
    return {
        "text_color": theme.muted,
        "text_font_size": "11px",
        "text_font": {"value": FONT},
        "text_baseline": "middle",
        "angle": np.pi / 2 if turned else 0.0,
    }


def _points(part: pd.DataFrame, by: str, labels: dict[str, str], value: str) -> dict[str, list]:
    part = part[part[by].astype(str).isin(labels)]
    rates = pd.to_numeric(part[value], errors="coerce")
    low, high = (pd.to_numeric(part[end], errors="coerce").fillna(rates) for end in ("low", "high"))
    given = part["low"].notna() & part["high"].notna()
    notes = part["note"].fillna("") if "note" in part else [""] * len(part)
    return {
        "place": [labels[item] for item in part[by].astype(str)],
        "run": part["run"].astype(str).tolist(),
        "value": rates.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "passed": part["passed"].astype(int).tolist(),
        "measured": part["measured"].astype(int).tolist(),
        "shown": [f"{100 * rate:.1f} %" if rate == rate else "not measured" for rate in rates],
        "interval": [
            ", ".join(filter(None, (f"{100 * a:.1f} to {100 * b:.1f} %" if ok else "none", note)))
            for a, b, ok, note in zip(low, high, given, notes, strict=True)
        ],
        "absent": ["" if rate == rate else "not measured" for rate in rates],
    }


def _legend(made: figure, theme: Theme, runs: int) -> None:
    if runs == 1:
        made.legend.visible = False
        return
    made.legend.orientation = "horizontal"
    for legend in list(made.legend):
        style_legend(legend, theme)
        made.add_layout(legend, "above")


def gap_bars(
    frame: pd.DataFrame,
    by: str = "run",
    *,
    value: str = "gap",
    title: str | None = None,
    axis: str = "IAS(L1) - IAS(L2), in percentage points",
    labels: dict[str, str] | None = None,
    theme: Theme = LIGHT,
) -> figure:
    """Differences of two rates as bars from zero, with 95 % intervals.

    frame : one row a bar (a group of bars when several rows share `by`, one a run) with `value`,
    `low`, `high` as fractions. A bar without an interval has none drawn.
    """
    title = title or f"Entailment Gap by {by}, with 95 % intervals"
    numbers = pd.to_numeric(frame[value], errors="coerce") if len(frame) else pd.Series([], dtype=float)
    if not numbers.notna().any():
        return empty(title, "Neither side of the gap was measured.", theme)
    labels = labels or {}
    frame = frame.assign(place=[labels.get(str(item), str(item)) for item in frame[by]])
    places = FactorRange(factors=list(dict.fromkeys(frame["place"]))[::-1])
    runs = frame["run"].unique().tolist() if "run" in frame else [""]
    grouped = by != "run" and len(runs) > 1
    ends = pd.concat([pd.to_numeric(frame[c], errors="coerce") for c in (value, "low", "high")]).dropna() * 100
    reach = max(5.0, 1.12 * float(ends.abs().max()))
    height = 90 + len(places.factors) * (max(24, 15 * len(runs)) if grouped else 32)
    made = new_figure(theme, title=title, y_range=places, x_range=(-reach, reach), height=height)
    made.xaxis.axis_label, made.ygrid.grid_line_color = axis, None
    for index, run in enumerate(runs):
        part = frame[frame["run"] == run] if "run" in frame else frame
        step = 0.8 / len(runs) if grouped else 0.0
        at = dodge("place", -(index - (len(runs) - 1) / 2) * step, range=places)
        rows = pd.DataFrame({name: 100 * pd.to_numeric(part[name], errors="coerce") for name in (value, "low", "high")})
        source = ColumnDataSource(
            {
                "place": part["place"].tolist(),
                "run": [str(run)] * len(part),
                "value": rows[value].tolist(),
                "low": rows["low"].tolist(),
                "high": rows["high"].tolist(),
                "shown": ["not measured" if v != v else f"{v:+.1f} points" for v in rows[value]],
            }
        )
        colour = theme.run_colour(index)
        bars = made.hbar(
            y=at,
            left=0,
            right="value",
            height=(step or 0.6) * 0.75,
            fill_color=colour,
            fill_alpha=0.55,
            line_color=colour,
            source=source,
            legend_label=str(run),
        )
        made.segment(x0="low", x1="high", y0=at, y1=at, line_color=theme.ink, line_width=2, source=source)
        made.scatter(
            x="value",
            y=at,
            marker=MARKERS[index % len(MARKERS)],
            size=7,
            fill_color=colour,
            line_color=theme.ink,
            source=source,
        )
        made.add_tools(
            HoverTool(
                renderers=[bars],
                tooltips=[
                    ("run", "@run"),
                    (by, "@place"),
                    ("gap", "@shown"),
                    ("95 % interval", "@low{0.0} to @high{0.0}"),
                ],
            )
        )
    made.add_layout(Span(location=0, dimension="height", line_color=theme.muted, line_width=1))
    _legend(made, theme, len(runs) if grouped else 1)
    return made


def rate_heatmap(
    frame: pd.DataFrame,
    x: str,
    y: str,
    *,
    value: str = "ias",
    name: str = "IAS",
    run: str = "",
    x_order: Sequence[str] | None = None,
    y_order: Sequence[str] | None = None,
    theme: Theme = LIGHT,
):
    """A HoloViews heat map of rates, x by y, with passed/measured on every cell.

    Cells that do not exist in the grid are blank; those of which nothing was measured are grey and
    hatched, and say how many cases they have.
    """
    hv = holoviews()
    x_order = [item for item in (x_order or frame[x].unique()) if item in set(frame[x])]
    y_order = [item for item in (y_order or frame[y].unique()) if item in set(frame[y])]
    rates = pd.to_numeric(frame[value], errors="coerce").astype(float)
    passed, measured = frame["passed"].astype(int), frame["measured"].astype(int)
    title = f"{name} by {y} and {x}{f': {run}' if run else ''} ({counted(frame)})"
    cells = pd.DataFrame(
        {x: frame[x].astype(str), y: frame[y].astype(str), "rate": rates, "passed": passed, "measured": measured}
    )
    known = measured > 0
    dims = [hv.Dimension(x, values=list(x_order)), hv.Dimension(y, values=list(reversed(y_order)))]
    heat = hv.HeatMap(cells, kdims=dims, vdims=["rate", "passed", "measured"]).opts(
        cmap=list(HEAT),
        clim=(0, 1),
        clipping_colors={"NaN": "rgba(0, 0, 0, 0)"},
        tools=["hover"],
        line_color=theme.paper,
        line_width=2,
        hooks=[_hatch_missing(cells[~known], x, y, theme)],
    )
    excluded = frame["excluded"].astype(int) if "excluded" in frame else measured
    cells["text"] = [f"{p}/{m}" if m else f"0 of {n}" for p, m, n in zip(passed, measured, excluded, strict=True)]
    layers = heat
    for mask, colour in (
        (known & (rates < 0.55), on_heat(0.0)),
        (known & (rates >= 0.55), on_heat(1.0)),
        (~known, theme.ink),
    ):
        if mask.any():
            layers = layers * hv.Labels(cells[mask], kdims=dims, vdims="text").opts(
                text_color=colour, text_font_size="11px"
            )
    return layers.opts(
        hv.opts.Overlay(title=title, height=70 + 30 * len(y_order), responsive=True, show_legend=False),
        hv.opts.HeatMap(xlabel=x, ylabel="", colorbar=False),
    )


def _hatch_missing(cells: pd.DataFrame, x: str, y: str, theme: Theme):
    def hook(plot, element) -> None:
        made = plot.state
        made.grid.visible = False  # cells that do not exist stay blank
        if len(cells) and not made.select_one({"name": "not measured"}):
            made.rect(
                x=cells[x].tolist(),
                y=cells[y].tolist(),
                width=0.96,
                height=0.92,
                fill_color=theme.missing,
                fill_alpha=0.5,
                line_color=None,
                hatch_pattern=HATCH,
                hatch_color=theme.muted,
                hatch_alpha=0.5,
                level="underlay",
                name="not measured",
            )

    return hook
