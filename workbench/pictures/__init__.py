"""The one door to the pictures that notebooks, reports and the dashboard share.

Each is a plain function from frames to a Bokeh figure or a HoloViews object; `as_figure` makes a
Bokeh figure of either. All take `theme` (see `workbench.pictures.theme`).

- `rates_with_intervals`, `rate_heatmap`, `gap_bars`: rates and their differences, several runs.
- `latency_distributions`: signed latencies with their limits.
- `sweep_heatmap`, `threshold_curves`, `tau_histogram`, `slope_chart`: threshold sweeps.
- `timeline`: one case on the clock.
"""

from __future__ import annotations

from typing import Any

from bokeh.plotting import figure

from workbench.pictures.latencies import latency_distributions
from workbench.pictures.rates import counted, gap_bars, rate_heatmap, rates_with_intervals
from workbench.pictures.stack import holoviews
from workbench.pictures.sweeps import slope_chart, sweep_heatmap, tau_histogram, threshold_curves
from workbench.pictures.theme import DARK, LIGHT, Theme, style
from workbench.pictures.timelines import timeline

__all__ = [
    "DARK",
    "LIGHT",
    "Theme",
    "as_figure",
    "counted",
    "gap_bars",
    "latency_distributions",
    "rate_heatmap",
    "rates_with_intervals",
    "slope_chart",
    "sweep_heatmap",
    "tau_histogram",
    "threshold_curves",
    "timeline",
]


def as_figure(picture: Any, theme: Theme = LIGHT) -> figure:
    """The Bokeh figure behind a picture: the picture itself, or a HoloViews object rendered and styled."""
    if isinstance(picture, figure):
        return picture
    made = holoviews().renderer("bokeh").get_plot(picture).state
    made.sizing_mode = "stretch_width"
    return style(made, theme)
