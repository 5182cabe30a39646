"""The one door to the workbench's statistics.

- `rate`, `rate_columns`, `rates`, `differences`, `slice_sums`: rates and their differences with intervals, many
  at once, over conversations, because levels share audio. `cluster_mean`: the same for scores and seconds.
- `paired_difference`, `sign_flip`, `paired_counts`, `mcnemar_exact`: two systems on the same cases.
  The first two respect conversations, McNemar's test does not. `holm`: many tests.
- `rank_correlation`, `cohen_kappa`, `weighted_kappa`: agreement; `ranks`, `tau_b` for many rankings at once.
- `mcnemar_power`, `minimum_detectable_difference`: planning a run.

scipy and statsmodels do the mathematics. Every docstring names its assumptions and its source. What
cannot be computed is None with a `reason`, never 0 or NaN; what cannot be used raises `InputError`.
Rates are fractions; whatever ends in `_pp` is in percentage points.
"""

from workbench.statistics.agreement import cohen_kappa, rank_correlation, ranks, tau_b, weighted_kappa
from workbench.statistics.paired import (
    PairedCounts,
    holm,
    mcnemar_exact,
    mcnemar_power,
    minimum_detectable_difference,
    paired_counts,
    paired_difference,
    sign_flip,
)
from workbench.statistics.rates import Difference, Rate, cluster_mean, differences, rate, rates, slice_sums
from workbench.statistics.slices import outcomes, rate_columns

__all__ = [
    "Difference",
    "PairedCounts",
    "Rate",
    "cluster_mean",
    "cohen_kappa",
    "differences",
    "holm",
    "mcnemar_exact",
    "mcnemar_power",
    "minimum_detectable_difference",
    "outcomes",
    "paired_counts",
    "paired_difference",
    "rank_correlation",
    "ranks",
    "rate",
    "rate_columns",
    "rates",
    "sign_flip",
    "slice_sums",
    "tau_b",
    "weighted_kappa",
]
