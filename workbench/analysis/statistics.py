"""The one door to the workbench's statistics.

- `Rate`, `wilson`: one rate. `Rate.interval` treats cases as independent.
- `cluster_bootstrap`, `cluster_bootstrap_sums`, `slice_sums`: many rates and their differences at
  once, resampling whole conversations, because levels share audio.
- `paired_counts`, `mcnemar_exact`, `newcombe_paired`, `paired_bootstrap`: two systems on the same
  cases. The bootstrap respects clusters, McNemar's test does not.
- `cohens_h`, `discordant_odds_ratio`: effect sizes. `holm`, `benjamini_hochberg`: many tests.
- `kendall_tau_b`, `rank_correlation`, `cohen_kappa`, `weighted_kappa`: agreement.
- `mcnemar_power`, `minimum_detectable_difference`, `minimum_detectable_difference_independent`:
  planning a run.

scipy and statsmodels do the mathematics. Every docstring names its assumptions and its source. What
cannot be computed is None with a `reason`, never 0 or NaN; what cannot be used raises `InputError`.
Rates are fractions; whatever ends in `_pp` is in percentage points.
"""

from workbench.analysis.agreement import (
    Kappa,
    KendallTau,
    RankCorrelation,
    cohen_kappa,
    kendall_tau_b,
    rank_correlation,
    weighted_kappa,
)
from workbench.analysis.planning import (
    Detectable,
    DetectableAround,
    mcnemar_power,
    minimum_detectable_difference,
    minimum_detectable_difference_independent,
)
from workbench.analysis.rates import (
    Corrected,
    Effect,
    McNemar,
    PairedCounts,
    Rate,
    benjamini_hochberg,
    cohens_h,
    discordant_odds_ratio,
    holm,
    mcnemar_exact,
    newcombe_paired,
    paired_counts,
    wilson,
)
from workbench.analysis.resampling import (
    Bootstrap,
    Estimate,
    PairedDifference,
    SliceSums,
    cluster_bootstrap,
    cluster_bootstrap_sums,
    paired_bootstrap,
    resample_counts,
    slice_sums,
)

__all__ = [
    "Bootstrap",
    "Corrected",
    "Detectable",
    "DetectableAround",
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
    "cluster_bootstrap",
    "cluster_bootstrap_sums",
    "cohen_kappa",
    "cohens_h",
    "discordant_odds_ratio",
    "holm",
    "kendall_tau_b",
    "mcnemar_exact",
    "mcnemar_power",
    "minimum_detectable_difference",
    "minimum_detectable_difference_independent",
    "newcombe_paired",
    "paired_bootstrap",
    "paired_counts",
    "rank_correlation",
    "resample_counts",
    "slice_sums",
    "weighted_kappa",
    "wilson",
]
