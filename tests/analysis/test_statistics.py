"""Every statistic against a published worked example, against brute force, and at its edges."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from workbench.analysis import resampling
from workbench.analysis import statistics as st
from workbench.errors import InputError


def expand(table) -> tuple[np.ndarray, np.ndarray]:
    """Labels of two raters from their square table, rater one in the rows."""
    table = np.asarray(table)
    rows, columns = np.nonzero(table)
    return np.repeat(rows, table[rows, columns]), np.repeat(columns, table[rows, columns])


# Rates -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("passed", "measured", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_intervals_of_newcombe_1998_table_1(passed, measured, low, high):
    """Newcombe (1998), Statistics in Medicine 17:857, Table I, method 3."""
    assert st.wilson(passed, measured) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("passed", "measured"), [(1, 7), (903, 1909), (974, 1633)])
def test_wilson_inverts_the_score_test(passed, measured):
    z = stats.norm.ppf(0.95)
    for end in st.wilson(passed, measured, level=0.9):
        assert abs(passed / measured - end) == pytest.approx(z * math.sqrt(end * (1 - end) / measured))


@pytest.mark.parametrize("measured", [1, 2, 3, 7, 30, 240, 1038])
def test_wilson_ends_exactly_at_0_and_1(measured):
    low, high = st.wilson(0, measured)
    assert low == 0.0 and 0 < high < 1
    assert st.wilson(measured, measured) == pytest.approx((1 - high, 1.0))
    assert st.wilson(measured, measured)[1] == 1.0


def test_rate_keeps_its_counts():
    """Counts published for one system: fresh onset 1900/2000 = 0.9500, accuracy 903/1909."""
    rate = st.Rate(1900, 2000, 3)
    assert rate.value == 0.95 and rate.reason is None
    assert rate.interval == st.wilson(1900, 2000)
    assert rate.interval_at(0.99)[0] < rate.interval[0]
    assert str(rate) == "1900/2000 = 95.0% [94.0, 95.9], 3 excluded"
    assert st.Rate(np.int64(903), np.int64(1909)).value == pytest.approx(0.4730, abs=5e-5)


def test_a_rate_of_nothing_is_none_with_a_reason():
    empty = st.Rate(0, 0)
    assert (empty.value, empty.interval, empty.reason) == (None, None, "There are no cases.")
    assert st.Rate(0, 0, 4).reason == "None of the 4 cases could be measured."
    assert str(empty) == "not measured: There are no cases."


@pytest.mark.parametrize("counts", [(3, 2), (-1, 2), (1.5, 2), (float("nan"), 2), (0, 0, -1)])
def test_a_rate_refuses_impossible_counts(counts):
    with pytest.raises(InputError):
        st.Rate(*counts)


# Two systems on the same cases -------------------------------------------------------------------


def test_mcnemar_on_the_approval_ratings_of_agresti():
    """Agresti (2002), Categorical Data Analysis, Table 10.1: 794, 150, 86, 570; difference 0.04."""
    result = st.mcnemar_exact(150, 86, both=794, neither=570)
    assert result.pairs == 1600
    assert result.difference_pp == pytest.approx(4.0)
    # Agresti's Wald interval is (0.02, 0.06); Newcombe's agrees to his two digits.
    assert [round(end) for end in result.interval_pp] == [2, 6]
    # R, exact2x2::mcnemar.exact(150, 86).
    assert result.p_value == pytest.approx(3.716e-05, rel=1e-3)


def test_mcnemar_on_the_airway_data_of_fagerland():
    """Fagerland, Lydersen & Laake (2013), BMC Medical Research Methodology 13:91: 1, 1, 7, 12."""
    assert st.mcnemar_exact(1, 7, both=1, neither=12).p_value == pytest.approx(0.0703, abs=5e-5)


def test_newcombe_interval_on_the_consolidation_data():
    """Fagerland, Lydersen & Laake (2017), Statistical Analysis of Contingency Tables, chapter 8."""
    interval = st.newcombe_paired(both=59, only_first=6, only_second=16, neither=80)
    assert interval == pytest.approx((-0.1186, -0.0046), abs=5e-5)


def test_newcombe_interval_covers_the_truth():
    rng = np.random.default_rng(3)
    tables = rng.multinomial(60, [0.6, 0.15, 0.05, 0.2], size=1000)
    ends = np.array([st.newcombe_paired(*table) for table in tables.tolist()])
    covered = ((ends[:, 0] <= 0.1) & (ends[:, 1] >= 0.1)).mean()
    assert 0.93 <= covered <= 0.98


@pytest.mark.parametrize("table", [(5, 0, 0, 0), (0, 5, 0, 0), (0, 0, 0, 5), (0, 0, 5, 0), (3, 0, 0, 3), (1, 0, 0, 0)])
def test_newcombe_interval_stays_in_range_at_the_edges(table):
    low, high = st.newcombe_paired(*table)
    difference = (table[1] - table[2]) / sum(table)
    assert -1 <= low <= difference <= high <= 1
    mirrored = st.newcombe_paired(table[0], table[2], table[1], table[3])
    assert mirrored == pytest.approx((-high, -low))


@pytest.mark.parametrize(("b", "c"), [(0, 1), (3, 3), (2, 9), (0, 12), (40, 25)])
def test_mcnemar_p_adds_up_the_binomial_tail(b, c):
    n, small = b + c, min(b, c)
    tail = sum(math.comb(n, k) for k in range(small + 1)) / 2**n
    assert st.mcnemar_exact(b, c).p_value == pytest.approx(min(1.0, 2 * tail))
    assert st.mcnemar_exact(c, b).p_value == st.mcnemar_exact(b, c).p_value


def test_mcnemar_without_discordance_or_pairs():
    same = st.mcnemar_exact(0, 0, both=7, neither=3)
    assert same.p_value == 1.0 and same.difference_pp == 0.0 and same.odds_ratio.value is None
    assert same.interval_pp[0] < 0 < same.interval_pp[1]
    nothing = st.mcnemar_exact(0, 0, 0, 0)
    assert nothing.difference_pp is None and "no complete pairs" in nothing.reason
    bare = st.mcnemar_exact(4, 1)
    assert bare.interval_pp is None and "both and neither" in bare.reason


def test_paired_counts_leaves_out_incomplete_pairs():
    first, second = [True, 1, 1, 0, False, None, 1], [1, 0, 0, True, 0, 1, float("nan")]
    counts = st.paired_counts(first, second)
    assert counts == st.PairedCounts(both=1, only_first=2, only_second=1, neither=1, excluded=2)
    assert counts.pairs == 5
    assert st.paired_counts([], []).pairs == 0
    with pytest.raises(InputError, match="same cases"):
        st.paired_counts([1], [1, 0])
    with pytest.raises(InputError, match="paired_bootstrap"):
        st.paired_counts([0.5], [1])
    with pytest.raises(InputError, match="numbers"):
        st.paired_counts(["pass"], [1])


# Effect sizes and corrections --------------------------------------------------------------------


def test_cohens_h_from_the_arcsine_table():
    """Cohen (1988), Table 6.2.2: phi(.60) = 1.772, phi(.40) = 1.369, phi(1) = 3.142."""
    assert st.cohens_h(0.60, 0.40).value == pytest.approx(1.772 - 1.369, abs=1e-3)
    assert st.cohens_h(1.0, 0.0).value == pytest.approx(math.pi)
    assert st.cohens_h(0.3, 0.3).value == 0.0
    assert st.cohens_h(None, 0.3).value is None and st.cohens_h(None, 0.3).reason
    with pytest.raises(InputError, match="fractions"):
        st.cohens_h(60, 40)


def test_discordant_odds_ratio_of_a_matched_study():
    """Agresti (2002), section 10.2: diabetes and infarction, 37 against 16 discordant pairs, 2.3."""
    effect = st.discordant_odds_ratio(37, 16)
    assert effect.value == pytest.approx(2.3, abs=0.05)
    # Clopper-Pearson by its definition: each end leaves a tail of 2.5 %.
    low, high = (end / (1 + end) for end in effect.interval)
    assert stats.binom.sf(36, 53, low) == pytest.approx(0.025)
    assert stats.binom.cdf(37, 53, high) == pytest.approx(0.025)


@pytest.mark.parametrize(("b", "c"), [*itertools.product(range(1, 14, 3), repeat=2)])
def test_the_odds_ratio_interval_agrees_with_the_test(b, c):
    low, high = st.discordant_odds_ratio(b, c).interval
    assert (low <= 1 <= high) == (st.mcnemar_exact(b, c).p_value >= 0.05)


def test_odds_ratio_edges():
    assert st.discordant_odds_ratio(0, 0).reason == "There are no discordant pairs."
    none_first = st.discordant_odds_ratio(0, 6)
    assert none_first.value == 0.0 and none_first.interval[0] == 0.0
    unbounded = st.discordant_odds_ratio(6, 0)
    assert unbounded.value is None and unbounded.interval[1] is None and unbounded.reason
    assert unbounded.interval[0] == pytest.approx(1 / none_first.interval[1])


BH_1995 = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
           0.5719, 0.6528, 0.7590, 1.0000]  # fmt: skip


def test_corrections_on_the_infarction_study():
    """Benjamini & Hochberg (1995), section 4: their procedure rejects four of 15, stepwise ones three."""
    assert sum(st.benjamini_hochberg(BH_1995).rejected) == 4
    assert sum(st.holm(BH_1995).rejected) == 3


def test_corrections_by_their_definition_in_any_order():
    rng = np.random.default_rng(5)
    raw = rng.permutation(BH_1995)
    ranked, m = np.sort(raw), len(raw)
    step_down = np.minimum(np.maximum.accumulate(ranked * (m - np.arange(m))), 1)
    step_up = np.minimum.accumulate((ranked * m / np.arange(1, m + 1))[::-1])[::-1]
    places = np.argsort(np.argsort(raw))
    assert st.holm(raw).p_values == pytest.approx(step_down[places])
    assert st.benjamini_hochberg(raw).p_values == pytest.approx(step_up[places])


def test_a_missing_p_value_is_not_part_of_the_family():
    corrected = st.holm([0.02, None, 0.01, float("nan")])
    assert corrected.p_values == (pytest.approx(0.02), None, pytest.approx(0.02), None)
    assert corrected.rejected == (True, None, True, None) and corrected.tests == 2
    assert st.benjamini_hochberg([None]).p_values == (None,)
    assert st.holm([]).p_values == ()
    with pytest.raises(InputError, match="between 0 and 1"):
        st.holm([1.2])


# Planning ----------------------------------------------------------------------------------------


def test_mcnemar_power_of_the_gpower_manual():
    """G*Power 3.1 manual, McNemar example (after O'Brien 2002): pi_D 0.40, odds ratio 0.25, n 50,
    one-sided alpha 0.05: power 0.839343. A two-sided 0.10 adds only the far tail to that."""
    assert st.mcnemar_power(50, 0.40, 0.24, alpha=0.10) == pytest.approx(0.839343, abs=5e-5)


def test_mcnemar_power_by_enumeration():
    n, discordance, difference = 12, 0.6, 0.3
    b_chance, c_chance = (discordance + difference) / 2, (discordance - difference) / 2
    power = sum(
        stats.multinomial.pmf([b, c, n - b - c], n, [b_chance, c_chance, 1 - discordance])
        for b in range(n + 1)
        for c in range(n + 1 - b)
        if st.mcnemar_exact(b, c).p_value <= 0.05
    )
    assert st.mcnemar_power(n, discordance, difference) == pytest.approx(power)
    assert st.mcnemar_power(n, discordance, -difference) == pytest.approx(power)


@pytest.mark.parametrize(("n", "discordance"), [(48, 0.5), (240, 0.2), (1038, 0.1), (20_360, 0.3), (60, 1.0)])
def test_the_minimum_detectable_difference_has_the_power_asked_for(n, discordance):
    found = st.minimum_detectable_difference(n, discordance, power=0.9, alpha=0.01)
    assert found.reason is None
    power = st.mcnemar_power(n, discordance, found.difference_pp / 100, alpha=0.01)
    assert power == pytest.approx(0.9, abs=1e-5)
    # Connor (1987), Biometrics 43:207, the normal approximation, comes close.
    d = found.difference_pp / 100
    z = stats.norm.ppf
    needed = ((z(0.995) * math.sqrt(discordance) + z(0.9) * math.sqrt(discordance - d**2)) / d) ** 2
    assert needed == pytest.approx(n, rel=0.25)


def test_clusters_make_less_detectable():
    alone = st.minimum_detectable_difference(1038, 0.2)
    assert st.minimum_detectable_difference(1038, 0.2, design_effect=2.5).difference_pp > alone.difference_pp
    halved = st.minimum_detectable_difference(1038, 0.2, design_effect=2)
    assert halved == st.minimum_detectable_difference(519, 0.2)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_too_few_pairs_detect_nothing(n):
    found = st.minimum_detectable_difference(n, 0.5)
    assert found.difference_pp is None and f"With {n} independent pairs" in found.reason
    assert 0 <= st.mcnemar_power(n, 0.5, 0.5) < 0.05


@pytest.mark.parametrize(("n", "h"), [(392, 0.20), (63, 0.50), (25, 0.80)])
def test_independent_rates_of_the_power_primer(n, h):
    """Cohen (1992), Psychological Bulletin 112:155, Table 2, test 5, alpha .05, power .80."""
    found = st.minimum_detectable_difference_independent(n, n, 0.5)
    assert found.cohens_h == pytest.approx(h, rel=0.01)
    assert st.cohens_h(0.5 + found.rise.difference_pp / 100, 0.5).value == pytest.approx(found.cohens_h)
    assert found.rise.difference_pp == pytest.approx(found.fall.difference_pp)


def test_independent_rates_with_unequal_groups_and_no_room():
    small = st.minimum_detectable_difference_independent(40, 400, 0.97)
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert small.cohens_h == pytest.approx(z * math.sqrt(1 / 40 + 1 / 400), rel=1e-3)
    assert small.rise.difference_pp is None and "No rise" in small.rise.reason
    assert small.fall.difference_pp > 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: st.mcnemar_power(10, 0.2, 0.3),
        lambda: st.mcnemar_power(10, 0.0, 0.0),
        lambda: st.minimum_detectable_difference(10, 0.2, power=1.0),
        lambda: st.minimum_detectable_difference(10, 0.2, power=0.04),
        lambda: st.minimum_detectable_difference(10, 0.2, design_effect=0.5),
        lambda: st.minimum_detectable_difference_independent(0, 10, 0.5),
        lambda: st.minimum_detectable_difference_independent(10, 10, 50),
    ],
)
def test_impossible_plans_are_refused(call):
    with pytest.raises(InputError):
        call()


# Cluster bootstrap -------------------------------------------------------------------------------

# Efron & Tibshirani (1993), Table 10.1: the hormone patch data, eight subjects.
PATCH_Z = [8406, 2342, 8187, 8459, 4795, 3516, 4796, 10238]
PATCH_Y = [-1200, 2601, -2705, 1982, -1290, 351, -638, -2719]


def test_bootstrap_of_the_patch_ratio():
    """Efron & Tibshirani (1993), section 10.3: ratio -0.0713, standard error 0.105 (400 resamples)."""
    estimate = st.cluster_bootstrap_sums(PATCH_Y, PATCH_Z, seed=1).columns[0]
    assert estimate.value == pytest.approx(-0.0713, abs=5e-5)
    assert estimate.standard_error == pytest.approx(0.105, abs=0.008)
    assert estimate.clusters == 8 and estimate.few_clusters and estimate.undefined == 0


def test_bootstrap_of_all_samples_of_three_clusters():
    """27 equally likely samples can be listed: the resampled spread must come close to theirs."""
    top, below = np.array([1, 2, 6]), np.array([4, 4, 7])
    every = np.array(list(itertools.product(range(3), repeat=3)))
    exact = top[every].sum(1) / below[every].sum(1)
    estimate = st.cluster_bootstrap_sums(top, below, n_resamples=40_000, seed=2).columns[0]
    assert estimate.standard_error == pytest.approx(exact.std(), rel=0.02)
    assert estimate.interval == pytest.approx((exact.min(), exact.max()))


def grid(seed=0, n=90, columns=3):
    rng = np.random.default_rng(seed)
    clusters = rng.integers(12, size=n)
    passed = (rng.random((n, columns)) < 0.3 + 0.04 * clusters[:, None]).astype(float)
    passed[rng.random(passed.shape) < 0.1] = np.nan
    measured = (rng.random(passed.shape) < 0.6).astype(float)
    measured[:, 2] = clusters == 3  # a column that most resamples draw, and some do not
    measured[clusters == 5, 2] = 1
    return passed, clusters, measured


def by_hand(passed, clusters, measured, n_resamples, seed):
    """The bootstrap as one would write it down: draw clusters, put their rows together, divide."""
    labels = np.unique(clusters)
    made = np.where(np.isnan(passed), 0, measured)
    filled = np.nan_to_num(passed)
    ratios = []
    for counts in st.resample_counts(len(labels), n_resamples, seed):
        drawn = np.repeat(labels, counts)
        rows = np.concatenate([np.flatnonzero(clusters == label) for label in drawn])
        with np.errstate(invalid="ignore"):
            ratios.append((filled * made)[rows].sum(0) / made[rows].sum(0))
    return np.array(ratios)


def test_bootstrap_equals_the_loop_over_the_same_draws():
    passed, clusters, measured = grid()
    pairs = [(0, 1), (1, 0), (0, 2)]
    result = st.cluster_bootstrap(
        passed, clusters, measured=measured, differences=pairs, n_resamples=400, level=0.9, seed=11
    )
    samples = by_hand(passed, clusters, measured, 400, 11)
    samples = np.column_stack([samples] + [samples[:, i] - samples[:, j] for i, j in pairs])
    estimates = result.columns + result.differences
    assert len(estimates) == samples.shape[1] == 6
    for estimate, column in zip(estimates, samples.T, strict=True):
        assert estimate.interval == pytest.approx(np.nanpercentile(column, [5, 95]), rel=1e-12)
        assert estimate.standard_error == pytest.approx(np.nanstd(column, ddof=1))
        assert estimate.undefined == np.isnan(column).sum()
    assert result.columns[2].undefined > 0 and result.columns[2].clusters == 2
    assert result.differences[2].undefined == result.columns[2].undefined
    made = np.where(np.isnan(passed), 0, measured)
    values = (np.nan_to_num(passed) * made).sum(0) / made.sum(0)
    assert [one.value for one in result.columns] == pytest.approx(values)
    assert result.differences[0].value == pytest.approx(values[0] - values[1])


def test_dense_and_sparse_sums_agree():
    """Many columns that each touch one or two clusters take another path than a full one alone."""
    rng = np.random.default_rng(6)
    below = rng.integers(1, 5, size=(40, 70)).astype(float)
    below[:, 1:] *= rng.random((40, 69)) < 0.05
    top = np.floor(below * rng.random(below.shape))
    together = st.cluster_bootstrap_sums(top, below, n_resamples=300)
    alone = st.cluster_bootstrap_sums(top[:, 0], below[:, 0], n_resamples=300)
    assert together.columns[0] == alone.columns[0]


def test_bootstrap_is_fixed_by_its_seed_and_not_by_the_order_of_rows():
    passed, clusters, measured = grid(seed=1)
    first = st.cluster_bootstrap(passed, clusters, measured=measured, n_resamples=300, seed=4)
    again = st.cluster_bootstrap(passed, clusters, measured=measured, n_resamples=300, seed=4)
    assert first == again
    assert first != st.cluster_bootstrap(passed, clusters, measured=measured, n_resamples=300, seed=5)
    order = np.random.default_rng(0).permutation(len(clusters))
    names = np.array([f"c{label:02d}" for label in clusters])
    shuffled = st.cluster_bootstrap(passed[order], names[order], measured=measured[order], n_resamples=300, seed=4)
    assert shuffled == first


def test_resample_counts_draw_with_replacement():
    counts = st.resample_counts(7, 5000, seed=0)
    assert counts.shape == (5000, 7) and (counts.sum(1) == 7).all()
    assert counts.mean(0) == pytest.approx(np.ones(7), abs=0.06)
    assert counts.var(0) == pytest.approx(np.full(7, 6 / 7), abs=0.06)


def test_drawing_in_pieces_changes_nothing(monkeypatch):
    passed, clusters, measured = grid(seed=3)
    settings = {"measured": measured, "differences": [(0, 1)], "n_resamples": 333, "seed": 2}
    counts, whole = st.resample_counts(7, 100, 1), st.cluster_bootstrap(passed, clusters, **settings)
    monkeypatch.setattr(resampling, "_CELLS", 50)
    assert (st.resample_counts(7, 100, 1) == counts).all()
    assert st.cluster_bootstrap(passed, clusters, **settings) == whole


def test_differences_cancel_what_columns_share():
    """The same verdicts in two columns differ by exactly 0 in every resample."""
    passed = np.array([[1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1]], dtype=float)
    gap = st.cluster_bootstrap(passed, list("abcd"), differences=[(0, 1)]).differences[0]
    assert gap.value == 0.0 and gap.interval is None and "no spread" in gap.reason


def test_bootstrap_respects_clusters():
    """Copies of a case inside its cluster carry no news: the interval must stay as wide."""
    rng = np.random.default_rng(8)
    passed = rng.random(60) < 0.5
    once = st.cluster_bootstrap(passed, np.arange(60), seed=3).columns[0]
    copied = st.cluster_bootstrap(np.repeat(passed, 5), np.repeat(np.arange(60), 5), seed=3).columns[0]
    assert copied.interval == pytest.approx(once.interval)
    naive = st.wilson(int(passed.sum()) * 5, 300)
    assert copied.interval[1] - copied.interval[0] > 1.8 * (naive[1] - naive[0])


def test_bootstrap_covers_the_truth():
    rng = np.random.default_rng(9)
    chance = rng.beta(2, 2, size=(200, 60))  # 60 conversations, mean pass rate 0.5, cases correlated
    passed = rng.binomial(4, chance)
    result = st.cluster_bootstrap_sums(passed.T, np.full((60, 200), 4), n_resamples=2000)
    covered = np.mean([one.interval[0] <= 0.5 <= one.interval[1] for one in result.columns])
    assert 0.90 <= covered <= 0.99


def test_bootstrap_edges_have_reasons():
    passed = [[1, 1, None, 1], [0, 1, None, 0], [1, 1, None, 1], [0, 1, None, 0]]
    measured = [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 0]]
    pairs = [(0, 2), (0, 3), (0, 1)]
    result = st.cluster_bootstrap(passed, list("aabb"), measured=measured, differences=pairs)
    same, all_pass, nothing, one = result.columns
    assert same.value == 0.5 and same.interval is None and "no spread" in same.reason
    assert all_pass.value == 1.0 and all_pass.interval is None and "Wilson" in all_pass.reason
    assert (nothing.value, nothing.interval, nothing.clusters) == (None, None, 0)
    assert nothing.reason.startswith("Nothing was measured")
    assert one.value == 0.5 and one.clusters == 1 and "single cluster" in one.reason
    assert one.undefined > 0
    against_nothing, against_one, _ = result.differences
    assert against_nothing.value is None and against_nothing.reason
    assert against_one.value == 0.0 and against_one.interval is None and "single" in against_one.reason
    for estimate in result.columns + result.differences:
        assert estimate.interval is not None or estimate.reason


def test_none_of_n_and_one_cluster():
    assert st.cluster_bootstrap([0, 0, 0], [1, 2, 3]).columns[0].value == 0.0
    single = st.cluster_bootstrap([1, 0, 1], ["x"] * 3).columns[0]
    assert single.value == pytest.approx(2 / 3) and single.standard_error is None
    assert "single cluster" in single.reason


def test_slice_sums_count_each_system_in_each_slice():
    passed = [[1, 0], [None, 1], [1, 1], [0, 1]]
    slices = [[1, 0], [1, 1], [0, 1], [1, 1]]
    sums = st.slice_sums(passed, slices, ["b", "a", "b", "a"])
    assert sums.clusters == ("a", "b")
    assert sums.numerators.tolist() == [[0, 0, 2, 2], [1, 1, 0, 1]]
    assert sums.denominators.tolist() == [[1, 1, 2, 2], [1, 1, 1, 1]]
    assert sums.column(1, 0) == 2
    with pytest.raises(InputError, match="no column"):
        sums.column(2, 0)


def test_slice_sums_and_masks_give_the_same_intervals():
    passed, clusters, measured = grid(seed=2)
    sums = st.slice_sums(passed[:, :1], measured, clusters)
    one = st.cluster_bootstrap_sums(sums.numerators, sums.denominators, n_resamples=200)
    other = st.cluster_bootstrap(np.repeat(passed[:, :1], 3, 1), clusters, measured=measured, n_resamples=200)
    assert one == other


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: st.cluster_bootstrap([1, 0], [1]), "1 cluster labels for 2 rows"),
        (lambda: st.cluster_bootstrap([1, 0], [1, None]), "no cluster label"),
        (lambda: st.cluster_bootstrap([], []), "shape"),
        (lambda: st.cluster_bootstrap(["yes"], [1]), "numbers"),
        (lambda: st.cluster_bootstrap([1, 0], [1, 2], measured=[1, -1]), "at least 0"),
        (lambda: st.cluster_bootstrap([1, 0], [1, 2], differences=[(0, 1)]), "two columns"),
        (lambda: st.cluster_bootstrap([1, 0], [1, 2], level=95), "between 0 and 1"),
        (lambda: st.cluster_bootstrap([1, 0], [1, 2], n_resamples=1), "at least 2"),
        (lambda: st.cluster_bootstrap_sums([1, np.nan], [1, 1]), "finite"),
        (lambda: st.cluster_bootstrap_sums([1], [1, 1]), "shape"),
        (lambda: st.slice_sums([1, 0], [[1]], [1, 2]), "rows"),
        (lambda: st.paired_bootstrap([1, 0], [1]), "same cases"),
        (lambda: st.paired_bootstrap([1, 0], [1, 0], [1]), "labels"),
    ],
)
def test_bootstrap_refuses_what_does_not_fit(call, words):
    with pytest.raises(InputError, match=words):
        call()


# Paired bootstrap --------------------------------------------------------------------------------


def test_paired_bootstrap_agrees_with_newcombe_on_independent_pairs():
    """The approval ratings of Agresti (2002), Table 10.1, as 1,600 rows."""
    first = np.repeat([1, 1, 0, 0], [794, 150, 86, 570])
    second = np.repeat([1, 0, 1, 0], [794, 150, 86, 570])
    result = st.paired_bootstrap(first, second, seed=1)
    assert result.estimate.value == pytest.approx(0.04)
    # Agresti's standard error of the difference is 0.0095.
    assert result.estimate.standard_error == pytest.approx(0.0095, abs=2e-4)
    assert result.estimate.interval == pytest.approx(st.newcombe_paired(794, 150, 86, 570), abs=1e-3)
    # z = 4.2, so that hardly any of the 10,000 resamples reaches 0.
    assert 2 / 10_001 <= result.p_value <= 6 / 10_001
    assert result.pairs == 1600 and result.excluded == 0


def test_paired_bootstrap_p_counts_resamples_beyond_zero():
    rng = np.random.default_rng(12)
    first, second = rng.normal(0.25, 1, 50), rng.normal(0, 1, 50)
    clusters = np.arange(50) // 2
    result = st.paired_bootstrap(first, second, clusters, n_resamples=500, seed=7)
    gap = (first - second).reshape(25, 2).sum(1)
    samples = st.resample_counts(25, 500, 7) @ gap / 50
    beyond = min((samples <= 0).sum(), (samples >= 0).sum())
    assert result.p_value == pytest.approx(2 * (beyond + 1) / 501)
    assert result.estimate.interval == pytest.approx(np.percentile(samples, [2.5, 97.5]))
    swapped = st.paired_bootstrap(second, first, clusters, n_resamples=500, seed=7)
    assert swapped.p_value == result.p_value
    assert swapped.estimate.value == pytest.approx(-result.estimate.value)


def test_paired_bootstrap_keeps_its_error_rate_on_clustered_cases():
    """No true difference, four cases a conversation that share it: about 5 % false alarms."""
    rng = np.random.default_rng(13)
    clusters = np.repeat(np.arange(40), 4)
    alarms = 0
    for seed in range(200):
        first = rng.random(160) < np.repeat(rng.beta(0.5, 0.5, 40), 4)
        second = rng.random(160) < np.repeat(rng.beta(0.5, 0.5, 40), 4)
        p_value = st.paired_bootstrap(first, second, clusters, n_resamples=400, seed=seed).p_value
        alarms += p_value < 0.05
    assert 2 <= alarms <= 24


def test_paired_bootstrap_edges():
    result = st.paired_bootstrap([1, None, 0, 1], [0, 1, None, 1], ["a", "a", "b", "b"])
    assert result.pairs == 2 and result.excluded == 2 and result.estimate.value == 0.5
    nothing = st.paired_bootstrap([None], [1])
    assert nothing.estimate.value is None and nothing.p_value is None and "no complete" in nothing.reason
    assert st.paired_bootstrap([], []).reason == nothing.reason
    same = st.paired_bootstrap([1, 0, 1], [1, 0, 1])
    assert same.estimate.value == 0.0 and same.p_value is None and "no spread" in same.reason
    single = st.paired_bootstrap([1, 0, 1], [0, 0, 1], ["x"] * 3)
    assert single.p_value is None and "single cluster" in single.reason


# Rankings ----------------------------------------------------------------------------------------

# Agresti (2002), Table 2.8: income and job satisfaction of black American men, 1996.
JOB = [[1, 3, 10, 6], [2, 3, 10, 7], [1, 6, 14, 12], [0, 1, 9, 11]]
# Hollander & Wolfe (1973), p. 187: Hunter L values and panel scores of nine lots of tuna.
TUNA_X = [44.4, 45.9, 41.9, 53.3, 44.7, 44.1, 50.7, 45.2, 60.1]
TUNA_Y = [2.6, 3.1, 2.5, 5.0, 3.6, 4.0, 5.2, 2.8, 3.8]


def test_kendall_counts_the_pairs_of_the_job_satisfaction_table():
    """Agresti (2002), section 2.4.3: 1,331 concordant and 849 discordant pairs, gamma 0.221."""
    tau = st.kendall_tau_b(*expand(JOB))
    assert (tau.concordant, tau.discordant) == (1331, 849)
    assert (tau.concordant - tau.discordant) / (tau.concordant + tau.discordant) == pytest.approx(0.221, abs=5e-4)
    assert tau.value == pytest.approx(0.1524, abs=5e-5)
    assert tau.n == 96


def test_kendall_and_spearman_on_the_tuna_data():
    """Hollander & Wolfe (1973), as in R's cor.test: tau 0.4444, p 0.1194; rho 0.6, p 0.0968."""
    tau, rho = st.kendall_tau_b(TUNA_X, TUNA_Y), st.rank_correlation(TUNA_X, TUNA_Y)
    assert (tau.value, tau.p_value) == pytest.approx((0.4444, 0.1194), abs=5e-5)
    assert (tau.concordant, tau.discordant, tau.tied_x + tau.tied_y + tau.tied_both) == (26, 10, 0)
    assert (rho.value, rho.p_value) == pytest.approx((0.6, 0.0968), abs=5e-5)
    assert rho.exact


@pytest.mark.parametrize("seed", range(8))
def test_kendall_against_all_pairs(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(4, size=(2, 6 + 5 * seed))
    tau = st.kendall_tau_b(x, y)
    counts = dict.fromkeys(["concordant", "discordant", "tied_x", "tied_y", "tied_both"], 0)
    for i, j in itertools.combinations(range(len(x)), 2):
        dx, dy = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
        if dx == 0 or dy == 0:
            counts["tied_both" if dx == dy else "tied_x" if dx == 0 else "tied_y"] += 1
        else:
            counts["concordant" if dx == dy else "discordant"] += 1
    assert {name: getattr(tau, name) for name in counts} == counts
    surplus = counts["concordant"] - counts["discordant"]
    strict = counts["concordant"] + counts["discordant"]
    below = math.sqrt((strict + counts["tied_y"]) * (strict + counts["tied_x"]))
    assert tau.value == pytest.approx(surplus / below)


def test_rank_correlation_is_pearson_on_ranks_and_enumerates_orders():
    x, y = [3, 1, 2, 2, 5], [1, 2, 3, 3, 5]
    ranks = stats.rankdata(x), stats.rankdata(y)
    result = st.rank_correlation(x, y)
    assert result.value == pytest.approx(np.corrcoef(*ranks)[0, 1])
    every = np.array([np.corrcoef(order, ranks[1])[0, 1] for order in itertools.permutations(ranks[0])])
    tails = (every >= result.value - 1e-12).mean(), (every <= result.value + 1e-12).mean()
    assert result.p_value == pytest.approx(min(1.0, 2 * min(tails)))
    rng = np.random.default_rng(0)
    assert not st.rank_correlation(*rng.random((2, 10))).exact


@pytest.mark.parametrize("function", [st.kendall_tau_b, st.rank_correlation])
def test_ranking_edges(function):
    assert function([1, 2, 3], [4, 5, 6]).value == pytest.approx(1.0)
    assert function([1, 2, 3], [6, 5, 4]).value == pytest.approx(-1.0)
    tied = function([1, 1, 1], [1, 2, 3])
    assert tied.value is None and tied.p_value is None and "tied in x," in tied.reason
    assert "tied in x and in y," in function([1, 1], [2, 2]).reason
    few = function([1, None, 3], [1, 2, float("nan")])
    assert few.value is None and few.excluded == 2 and "two items" in few.reason
    with pytest.raises(InputError, match="same items"):
        function([1], [1, 2])
    # Six systems in the same order are 1 of 720 orders, whichever way: p = 2 / 720.
    assert function(range(6), range(6)).p_value == pytest.approx(2 / 720)


def test_all_ties_are_stated():
    tau = st.kendall_tau_b([1, 1, 1, 1], [2, 2, 3, 3])
    assert (tau.tied_x, tau.tied_y, tau.tied_both, tau.concordant) == (4, 0, 2, 0)


# Raters ------------------------------------------------------------------------------------------

# Hout, Duncan & Sobel (1987), the example of Friendly's and Meyer's vcd: 91 couples.
COUPLES = [[7, 7, 2, 3], [2, 8, 3, 7], [1, 5, 4, 9], [2, 8, 9, 14]]
# Agresti (2002), Table 10.8: two pathologists and 118 slides.
CARCINOMA = [[22, 2, 2, 0], [5, 7, 14, 0], [0, 2, 36, 0], [0, 1, 17, 10]]


def test_kappa_of_fleiss_diagnoses():
    """Fleiss (1981), Statistical Methods for Rates and Proportions, Table 13.1: kappa 0.68."""
    kappa = st.cohen_kappa(*expand([[75, 1, 4], [5, 4, 1], [0, 0, 10]]))
    assert (kappa.observed, kappa.expected) == pytest.approx((0.89, 0.66))
    assert kappa.value == pytest.approx(0.68, abs=5e-3)


def test_kappas_of_the_vcd_example():
    """R, vcd::Kappa(SexualFun): unweighted 0.1293 (0.0686), equal spacing 0.2374 (0.0783)."""
    plain, linear = st.cohen_kappa(*expand(COUPLES)), st.weighted_kappa(*expand(COUPLES))
    assert (plain.value, linear.value) == pytest.approx((0.1293, 0.2374), abs=5e-5)
    errors = [(one.interval[1] - one.value) / 1.959964 for one in (plain, linear)]
    assert errors == pytest.approx([0.0686, 0.0783], abs=5e-5)
    assert sum(plain.interval) / 2 == pytest.approx(plain.value)
    low, high = st.cohen_kappa(list("aabb"), list("bbab")).interval
    assert low == -1.0 and high < 1


def test_kappas_of_agresti_pathologists():
    """Agresti (2002), section 10.5: kappa 0.493 (s.e. 0.057), with quadratic weights 0.78."""
    labels = expand(CARCINOMA)
    assert st.cohen_kappa(*labels).value == pytest.approx(0.493, abs=5e-4)
    assert st.weighted_kappa(*labels, weights="quadratic").value == pytest.approx(0.78, abs=5e-3)


@pytest.mark.parametrize(("weights", "power"), [("linear", 1), ("quadratic", 2)])
def test_weighted_kappa_is_one_minus_the_ratio_of_penalties(weights, power):
    """Cohen (1968): 1 - mean penalty of the pairs / mean penalty over all cross pairs; numbers by value."""
    rng = np.random.default_rng(4)
    first = rng.choice([0, 10, 50, 100], 40)
    second = np.where(rng.random(40) < 0.6, first, rng.choice([0, 10, 50, 100], 40))
    penalty = (np.abs(first - second) ** power).mean()
    chance = (np.abs(first[:, None] - second) ** power).mean()
    kappa = st.weighted_kappa(first, second, weights=weights)
    assert kappa.value == pytest.approx(1 - penalty / chance)
    assert kappa.value == pytest.approx((kappa.observed - kappa.expected) / (1 - kappa.expected))


def test_quadratic_kappa_of_equal_margins_is_the_correlation():
    """Fleiss & Cohen (1973): with equal margins it is Pearson's r."""
    first, second = [1, 2, 3, 4, 5, 3], [2, 1, 3, 3, 5, 4]
    expected = np.corrcoef(first, second)[0, 1]
    assert st.weighted_kappa(first, second, weights="quadratic").value == pytest.approx(expected)


def test_kappa_of_two_categories_is_the_same_with_any_weights():
    first, second = list("aabbabba"), list("abbbabab")
    plain = st.cohen_kappa(first, second)
    for weights in ("linear", "quadratic"):
        weighted = st.weighted_kappa(first, second, weights=weights, categories=["a", "b"])
        assert weighted.value == pytest.approx(plain.value)
        assert weighted.interval == pytest.approx(plain.interval)


def test_kappa_edges():
    perfect = st.cohen_kappa(["a", "b", None], ["a", "b", "a"])
    assert perfect.value == 1.0 and perfect.interval is None and perfect.reason and perfect.excluded == 1
    assert st.cohen_kappa(["a", "b"], ["b", "a"]).value == pytest.approx(-1.0)
    one = st.cohen_kappa(["a", "a"], ["a", "a"])
    assert one.value is None and "one and the same label" in one.reason
    assert st.cohen_kappa([], []).reason == "No item was labelled by both raters."
    # A category that nobody used changes the linear weights' span, not the unweighted kappa.
    labels = list("aabb"), list("abbb")
    assert st.cohen_kappa(*labels, categories="abc").value == st.cohen_kappa(*labels).value
    with pytest.raises(InputError, match="order of its labels"):
        st.weighted_kappa(*labels)
    with pytest.raises(InputError, match="Not among the categories: b"):
        st.cohen_kappa(*labels, categories=["a", "c"])
    with pytest.raises(InputError, match="twice"):
        st.cohen_kappa(*labels, categories=["a", "b", "b"])
    with pytest.raises(InputError, match="linear"):
        st.weighted_kappa([1], [1], weights="cubic")
    with pytest.raises(InputError, match="pair up"):
        st.cohen_kappa([1], [])
