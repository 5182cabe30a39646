"""The one door to the workbench's statistics.

- `rate`, `rates`, `differences`, `slice_sums`: rates and their differences with intervals, many at
  once, over conversations, because levels share audio. `cluster_mean`: the same for scores and seconds.
- `paired_difference`, `sign_flip`, `paired_counts`, `mcnemar_exact`: two systems on the same cases.
  The first two respect conversations, McNemar's test does not.
- `cohens_h`, `discordant_odds_ratio`: effect sizes. `holm`, `benjamini_hochberg`: many tests.
- `kendall_tau_b`, `rank_correlation`, `cohen_kappa`, `weighted_kappa`: agreement; `ranks`, `tau_b` for many
  rankings at once.
- `mcnemar_power`, `minimum_detectable_difference`, `minimum_detectable_difference_independent`:
  planning a run.

scipy and statsmodels do the mathematics. Every docstring names its assumptions and its source. What
cannot be computed is None with a `reason`, never 0 or NaN; what cannot be used raises `InputError`.
Rates are fractions; whatever ends in `_pp` is in percentage points.
"""

from workbench.statistics.agreement import (
    Kappa,
    KendallTau,
    RankCorrelation,
    cohen_kappa,
    kendall_tau_b,
    rank_correlation,
    ranks,
    tau_b,
    weighted_kappa,
)
from workbench.statistics.paired import (
    Corrected,
    Effect,
    McNemar,
    PairedCounts,
    PairedDifference,
    benjamini_hochberg,
    cohens_h,
    discordant_odds_ratio,
    holm,
    mcnemar_exact,
    paired_counts,
    paired_difference,
    sign_flip,
)
from workbench.statistics.planning import (
    Detectable,
    DetectableAround,
    mcnemar_power,
    minimum_detectable_difference,
    minimum_detectable_difference_independent,
)
from workbench.statistics.rates import Difference, Rate, SliceSums, differences, rate, rates, slice_sums
from workbench.statistics.resampling import Estimate, cluster_mean

__all__ = [
    "Corrected",
    "Detectable",
    "DetectableAround",
    "Difference",
    "Effect",
    "Estimate",
    "Kappa",
    "KendallTau",
    "McNemar",
    "PairedCounts",
    "PairedDifference",
    "RankCorrelation",
    "Rate",
    "SliceSums",
    "benjamini_hochberg",
    "cluster_mean",
    "cohen_kappa",
    "cohens_h",
    "differences",
    "discordant_odds_ratio",
    "holm",
    "kendall_tau_b",
    "mcnemar_exact",
    "mcnemar_power",
    "minimum_detectable_difference",
    "minimum_detectable_difference_independent",
    "paired_counts",
    "paired_difference",
    "rank_correlation",
    "ranks",
    "rate",
    "rates",
    "sign_flip",
    "slice_sums",
    "tau_b",
    "weighted_kappa",
]
