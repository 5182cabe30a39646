"""The one door to the charts that notebooks, reports and the dashboard share.

Each is a plain function from a frame to a Bokeh figure and takes `theme` (see `workbench.pictures.theme`).

- `rates_with_intervals`, `rate_heatmap`, `gap_bars`: rates and their differences, several runs.
- `latency_distributions`: signed latencies with their limits.
- `sweep_heatmap`, `threshold_curves`, `tau_histogram`, `slope_chart`: threshold sweeps.

Recordings: `recording.Picture` (interactive), `standalone` (pages), `notebook.listen`; each draws a `lanes.Lane`.
"""

from workbench.pictures.rates import counted, gap_bars, latency_distributions, rate_heatmap, rates_with_intervals
from workbench.pictures.sweeps import slope_chart, sweep_heatmap, tau_histogram, threshold_curves
from workbench.pictures.theme import DARK, LIGHT, Theme

__all__ = [
    "DARK", "LIGHT", "Theme", "counted", "gap_bars", "latency_distributions", "rate_heatmap", "rates_with_intervals",
    "slope_chart", "sweep_heatmap", "tau_histogram", "threshold_curves",
]  # fmt: skip
