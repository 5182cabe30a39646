"""Every statistic against a published worked example, against brute force, and at its edges."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from workbench import statistics as st
from workbench.errors import InputError


def expand(table) -> tuple[np.ndarray, np.ndarray]:
    """Labels of two raters from their square table, rater one in the rows."""
    table = np.asarray(table)
    rows, columns = np.nonzero(table)
    return np.repeat(rows, table[rows, columns]), np.repeat(columns, table[rows, columns])


# Rates -------------------------------------------------------------------------------------------


def by_conversation(*conversations):
    """Rows and their labels from (passed, measured) a conversation."""
    passed: list[int] = []
    labels: list[int] = []
    for number, (good, measured) in enumerate(conversations):
        passed += [1] * good + [0] * (measured - good)
        labels += [number] * measured
    return passed, labels


@pytest.mark.parametrize(("passed", "measured"), [(81, 263), (15, 148), (0, 20), (1, 29), (20, 20), (48, 50)])
def test_cases_of_their_own_have_the_interval_of_clopper_and_pearson(passed, measured):
    """Each end leaves a tail of 2.5 %; Newcombe (1998), Table I, method 5: 81 of 263, 0.2527 to 0.3676."""
    found = st.rate([1] * passed + [0] * (measured - passed))
    low, high = found.interval
    assert found.effective_n == measured and found.clusters == measured
    if passed:
        assert stats.binom.sf(passed - 1, measured, low) == pytest.approx(0.025)
    if passed < measured:
        assert stats.binom.cdf(passed, measured, high) == pytest.approx(0.025)
    if passed == 81:
        assert found.interval == pytest.approx((0.2527, 0.3676), abs=5e-5)
    assert (low == 0.0) == (passed == 0) and (high == 1.0) == (passed == measured)


def test_whole_conversations_count_as_one_case_each():
    """Cases that always agree tell as much as their conversations."""
    found = st.rate(*by_conversation((4, 4), (0, 4), (4, 4), (4, 4), (0, 4), (4, 4)))
    alone = st.rate([1, 0, 1, 1, 0, 1])
    assert found.effective_n == pytest.approx(6) and found.interval == pytest.approx(alone.interval)
    assert (found.numerator, found.denominator, found.clusters) == (16, 24, 6)


def test_cases_without_anything_in_common_count_nearly_as_such():
    even = st.rate(*by_conversation(*[(2, 4)] * 240))
    assert 900 < even.effective_n <= 960


def test_19_of_20_over_five_conversations_lies_below_20_of_20():
    almost, every = st.rates([[4, 4]] * 4 + [[3, 4]], [[4, 4]] * 5)
    assert almost.low < every.low and almost.high < every.high == 1.0
    assert every.interval == pytest.approx(st.rate([1] * 5).interval)
    assert almost.note == every.note == "few conversations (5)"


@pytest.mark.parametrize("size", [1, 3, 4, 6, 10])
def test_another_pass_never_lowers_a_limit(size):
    """Any conversations, any one of their cases turned into a pass."""
    rng = np.random.default_rng(size)
    for count in (3, 5, 8, 20):
        start = rng.integers(0, size + 1, (count, 400))
        start[:, :40] = size  # near the upper end, where there is little to estimate from
        start[0, :40] -= rng.integers(1, size + 1, 40)
        row = rng.integers(count, size=400)
        row[:40] = 0
        more = start.copy()
        more[row, np.arange(400)] = np.minimum(more[row, np.arange(400)] + 1, size)
        whole = np.full((count, 400), size)
        for before, after in zip(st.rates(start, whole), st.rates(more, whole), strict=True):
            assert after.low >= before.low - 1e-12 and after.high >= before.high - 1e-12


def test_limits_mirror_and_do_not_depend_on_the_order():
    rng = np.random.default_rng(2)
    below = rng.integers(1, 6, (12, 30))
    top = rng.integers(0, below + 1)
    order = rng.permutation(12)
    mirrored, shuffled = st.rates(below - top, below), st.rates(top[order], below[order])
    for one, other, again in zip(st.rates(top, below), mirrored, shuffled, strict=True):
        assert one.interval == pytest.approx((1 - other.high, 1 - other.low))
        assert one.interval == pytest.approx(again.interval)
        assert one.low <= one.value <= one.high


def test_a_slice_has_the_same_interval_alone_and_inside_a_larger_set():
    rng = np.random.default_rng(3)
    passed, labels = rng.random(960) < 0.8, np.repeat(np.arange(240), 4)
    inside = labels < 8
    sums = st.slice_sums(passed, np.column_stack([inside, ~inside]), labels)
    assert st.rates(sums.numerators, sums.denominators)[0] == st.rate(passed[inside], labels[inside])


def test_too_few_conversations_have_no_interval_and_few_are_said():
    two = st.rate(*by_conversation((3, 4), (4, 4)))
    assert two.value == 7 / 8 and two.interval is None and two.low is None
    assert two.note == "no interval from 2 conversations, it takes 3"
    assert st.rate([1, 0, 1]).interval is not None
    assert st.rate([1] * 19).note == "few conversations (19)" and st.rate([1] * 20).note is None
    for nothing in (st.rate([]), st.rate([None, float("nan"), pd.NA], [1, 2, 3])):
        assert (nothing.value, nothing.low, nothing.high, nothing.denominator) == (None, None, None, 0)
        assert nothing.note == "Nothing was measured."


def test_missing_is_missing_in_every_spelling():
    column = pd.array([True, pd.NA, False, None, True], dtype="boolean")
    for values in (column, pd.Series(column), [1, None, 0, float("nan"), 1], np.array([1, pd.NA, 0, None, 1], object)):
        found = st.rate(values)
        assert (found.numerator, found.denominator, found.clusters) == (2, 3, 3)


def test_slice_sums_count_each_system_in_each_slice():
    passed = [[1, 0], [None, 1], [1, 1], [0, 1]]
    slices = [[1, 0], [1, 1], [0, 1], [1, 1]]
    sums = st.slice_sums(passed, slices, ["b", "a", "b", "a"])
    assert sums.numerators.tolist() == [[0, 0, 2, 2], [1, 1, 0, 1]]
    assert sums.denominators.tolist() == [[1, 1, 2, 2], [1, 1, 1, 1]]
    assert sums.column(1, 0) == 2
    with pytest.raises(InputError, match="no column"):
        sums.column(2, 0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: st.rate([1, 0], [1]), "1 cluster labels for 2 rows"),
        (lambda: st.rate([1, 0], [1, None]), "no cluster label"),
        (lambda: st.rate([1, 0], ["a", pd.NA]), "no cluster label"),
        (lambda: st.rate(["yes"], [1]), "numbers"),
        (lambda: st.rate([1, 2]), "between 0 and its denominator"),
        (lambda: st.rate([1, 0], level=95), "between 0 and 1"),
        (lambda: st.rates([1, np.nan], [1, 1]), "between 0"),
        (lambda: st.rates([1], [1, 1]), "shape"),
        (lambda: st.differences([1, 0], [1, 1], [(0, 1)]), "two columns"),
        (lambda: st.slice_sums([1, 0], [[1]], [1, 2]), "rows"),
        (lambda: st.slice_sums([], [], []), "shape"),
        (lambda: st.cluster_mean([1, 0], [1]), "labels"),
        (lambda: st.paired_difference([1, 0], [1]), "same cases"),
        (lambda: st.paired_difference([1, 0], [1, 0], [1]), "labels"),
    ],
)
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


# Differences of rates ----------------------------------------------------------------------------


def test_unrelated_sides_have_the_square_and_add_interval():
    """MOVER without correlation: the distances to the limits are squared and added."""
    top, below = np.zeros((110, 2), int), np.zeros((110, 2), int)
    below[:60, 0], below[60:, 1] = 1, 1
    top[:45, 0], top[60:80, 1] = 1, 1
    one, other = st.rates(top, below)
    [gap] = st.differences(top, below, [(0, 1)])
    down = math.hypot(one.value - one.low, other.high - other.value)
    up = math.hypot(one.high - one.value, other.value - other.low)
    assert gap.value == pytest.approx(0.75 - 0.4)
    assert gap.interval == pytest.approx((gap.value - down, gap.value + up))
    assert gap.clusters == 50 and gap.note is None


def test_what_both_sides_have_in_common_narrows_the_interval():
    rng = np.random.default_rng(4)
    first = (rng.random(200) < 0.7).astype(int)
    alike, unlike = first.copy(), rng.permutation(first)
    alike[:6] = 1 - alike[:6]
    below = np.ones((200, 3), int)
    close, apart = st.differences(np.column_stack([first, alike, unlike]), below, [(0, 1), (0, 2)])
    assert close.high - close.low < 0.5 * (apart.high - apart.low)
    [back] = st.differences(np.column_stack([alike, first]), below[:, :2], [(0, 1)])
    assert back.interval == pytest.approx((-close.high, -close.low))


def test_differences_at_the_ends_of_the_range_have_intervals():
    lost = st.paired_difference([0] * 144, [1] * 144, np.repeat(np.arange(36), 4))
    assert lost.value == -1.0 and lost.interval[0] == -1.0 and -1 < lost.interval[1] < -0.8
    assert lost.p_value == pytest.approx(2 / 2**36)
    same = st.paired_difference([1] * 24, [1] * 24)
    assert same.value == 0.0 and same.interval[0] < 0 < same.interval[1] and same.p_value == 1.0


def test_a_difference_without_a_side_or_with_few_conversations_says_so():
    top, below = [[1, 0, 0], [1, 0, 0], [0, 0, 0]], [[1, 1, 0], [1, 1, 0], [1, 0, 0]]
    few, none = st.differences(top, below, [(0, 1), (0, 2)])
    assert few.value == pytest.approx(2 / 3) and few.interval is None and few.clusters == 2 and "takes 3" in few.note
    assert none.value is None and none.interval is None and "at least one side" in none.note
    assert st.differences(top, below, []) == []


# Two systems on the same cases -------------------------------------------------------------------


def test_mcnemar_on_the_approval_ratings_of_agresti():
    """Agresti (2002), Categorical Data Analysis, Table 10.1: 150 and 86 discordant pairs of 1,600."""
    # R, exact2x2::mcnemar.exact(150, 86).
    assert st.mcnemar_exact(150, 86).p_value == pytest.approx(3.716e-05, rel=1e-3)


def test_mcnemar_on_the_airway_data_of_fagerland():
    """Fagerland, Lydersen & Laake (2013), BMC Medical Research Methodology 13:91: 1, 1, 7, 12."""
    assert st.mcnemar_exact(1, 7).p_value == pytest.approx(0.0703, abs=5e-5)


@pytest.mark.parametrize(("b", "c"), [(0, 1), (3, 3), (2, 9), (0, 12), (40, 25)])
def test_mcnemar_p_adds_up_the_binomial_tail(b, c):
    n, small = b + c, min(b, c)
    tail = sum(math.comb(n, k) for k in range(small + 1)) / 2**n
    assert st.mcnemar_exact(b, c).p_value == pytest.approx(min(1.0, 2 * tail))
    assert st.mcnemar_exact(c, b).p_value == st.mcnemar_exact(b, c).p_value


def test_mcnemar_without_discordance():
    same = st.mcnemar_exact(0, 0)
    assert same.p_value == 1.0 and same.odds_ratio is None


def test_paired_counts_leaves_out_incomplete_pairs():
    first, second = [True, 1, 1, 0, False, None, 1, pd.NA], [1, 0, 0, True, 0, 1, float("nan"), 1]
    counts = st.paired_counts(first, second)
    assert counts == st.PairedCounts(both=1, only_first=2, only_second=1, neither=1, excluded=3)
    assert counts.pairs == 5
    assert st.paired_counts([], []).pairs == 0
    with pytest.raises(InputError, match="same cases"):
        st.paired_counts([1], [1, 0])
    with pytest.raises(InputError, match="paired_difference"):
        st.paired_counts([0.5], [1])
    with pytest.raises(InputError, match="numbers"):
        st.paired_counts(["pass"], [1])


# Effect sizes and corrections --------------------------------------------------------------------


def test_the_odds_ratio_of_discordant_pairs():
    """Agresti (2002), section 10.2: diabetes and infarction, 37 against 16 discordant pairs, 2.3."""
    assert st.mcnemar_exact(37, 16).odds_ratio == pytest.approx(2.3, abs=0.05)
    assert st.mcnemar_exact(0, 6).odds_ratio == 0.0
    assert st.mcnemar_exact(6, 0).odds_ratio is None


BH_1995 = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
           0.5719, 0.6528, 0.7590, 1.0000]  # fmt: skip


def test_the_correction_on_the_infarction_study():
    """Benjamini & Hochberg (1995), section 4: stepwise procedures reject three of 15."""
    assert sum(st.holm(BH_1995).rejected) == 3


def test_the_correction_by_its_definition_in_any_order():
    rng = np.random.default_rng(5)
    raw = rng.permutation(BH_1995)
    ranked, m = np.sort(raw), len(raw)
    step_down = np.minimum(np.maximum.accumulate(ranked * (m - np.arange(m))), 1)
    places = np.argsort(np.argsort(raw))
    assert st.holm(raw).p_values == pytest.approx(step_down[places])


def test_a_missing_p_value_is_not_part_of_the_family():
    corrected = st.holm([0.02, None, 0.01, float("nan")])
    assert corrected.p_values == (pytest.approx(0.02), None, pytest.approx(0.02), None)
    assert corrected.rejected == (True, None, True, None) and corrected.tests == 2
    assert st.holm([None]).p_values == (None,)
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


@pytest.mark.parametrize(
    "call",
    [
        lambda: st.mcnemar_power(10, 0.2, 0.3),
        lambda: st.mcnemar_power(10, 0.0, 0.0),
        lambda: st.minimum_detectable_difference(10, 0.2, power=1.0),
        lambda: st.minimum_detectable_difference(10, 0.2, power=0.04),
        lambda: st.minimum_detectable_difference(10, 0.2, design_effect=0.5),
    ],
)
def test_impossible_plans_are_refused(call):
    with pytest.raises(InputError):
        call()


# Means and paired differences --------------------------------------------------------------------


def test_a_mean_of_independent_values_has_student_s_interval():
    values = np.random.default_rng(6).normal(50, 10, 12)
    found = st.cluster_mean(values)
    wanted = stats.ttest_1samp(values, 0).confidence_interval()
    assert found.interval == pytest.approx((wanted.low, wanted.high)) and found.note == "few conversations (12)"


def test_a_mean_of_equal_conversations_is_the_mean_of_their_means():
    values = np.random.default_rng(7).normal(size=(9, 4)) + np.arange(9)[:, None]
    found = st.cluster_mean([*values.ravel(), None], [*np.repeat(np.arange(9), 4), 9])
    wanted = stats.ttest_1samp(values.mean(1), 0).confidence_interval()
    assert found.interval == pytest.approx((wanted.low, wanted.high)) and found.clusters == 9


def test_means_without_spread_or_values_say_why():
    assert st.cluster_mean([None, pd.NA]).note == "Nothing was measured."
    same = st.cluster_mean([60, 60, 60, 60])
    assert same.value == 60 and same.interval is None and "no spread" in same.note
    assert "takes 3" in st.cluster_mean([1, 2, 3], ["a", "a", "b"]).note


@pytest.mark.parametrize(("b", "c"), [(0, 1), (3, 3), (2, 9), (0, 12), (40, 25)])
def test_the_sign_flip_test_of_single_cases_is_mcnemar_s(b, c):
    first, second = [1] * b + [0] * c + [1, 0], [0] * b + [1] * c + [1, 0]
    found = st.paired_difference(first, second)
    assert found.p_value == pytest.approx(st.mcnemar_exact(b, c).p_value)
    assert found.pairs == b + c + 2


def test_the_sign_flip_test_lists_every_choice_of_signs():
    rng = np.random.default_rng(8)
    for whole in (rng.integers(-4, 5, 9), rng.normal(0.4, 1, 9)):
        sums = whole.astype(float)
        every = np.array(list(itertools.product((-1, 1), repeat=9))) @ sums
        wanted = (np.abs(every) >= abs(sums.sum()) - 1e-9).mean()
        assert st.sign_flip(sums) == pytest.approx(wanted)


def test_many_numbers_are_drawn_and_repeat_with_their_seed():
    sums = np.random.default_rng(9).normal(0.3, 1, 40)
    p_value = st.sign_flip(sums, seed=1)
    assert p_value == st.sign_flip(sums, seed=1) != st.sign_flip(sums, seed=2)
    assert p_value == pytest.approx(stats.ttest_1samp(sums, 0).pvalue, abs=0.02)
    assert st.sign_flip(np.full(60, 0.5)) == pytest.approx(1 / (2**14 + 1))
    whole = np.round(3 * sums)
    assert st.sign_flip(whole + np.where(np.arange(40) % 2, 1e-11, -1e-11)) == pytest.approx(
        st.sign_flip(whole), abs=0.015
    )


@pytest.mark.parametrize("conversations", [4, 6, 10, 20, 40])
def test_paired_test_keeps_its_error_rate_on_clustered_cases(conversations):
    """No true difference, four cases a conversation that have much in common: at most 5 % false alarms."""
    rng = np.random.default_rng(13)
    labels = np.repeat(np.arange(conversations), 4)
    alarms = 0
    for _ in range(400):
        first, second = (rng.random(labels.size) < rng.beta(0.5, 0.5, conversations)[labels] for _ in range(2))
        alarms += st.paired_difference(first, second, labels).p_value <= 0.05
    assert alarms <= 20 + 2 * math.sqrt(19)


def test_paired_difference_edges():
    result = st.paired_difference([1, None, 0, 1, pd.NA], [0, 1, None, 1, 1], ["a", "a", "b", "b", "c"])
    assert (result.pairs, result.excluded, result.clusters, result.value) == (2, 3, 2, 0.5)
    assert result.interval is None and "takes 3" in result.note and result.p_value == 1.0
    nothing = st.paired_difference([None], [1])
    assert nothing.value is None and nothing.p_value is None and "no complete" in nothing.note
    assert st.paired_difference([], []).note == nothing.note
    seconds = st.paired_difference([1.5, 2.0, 2.5, 4.0], [1.0, 1.0, 1.0, 1.0])
    assert seconds.value == 1.5 and seconds.interval == st.cluster_mean([0.5, 1.0, 1.5, 3.0]).interval
    assert seconds.p_value == pytest.approx(2 / 16)


# Rankings ----------------------------------------------------------------------------------------

# Hollander & Wolfe (1973), p. 187: Hunter L values and panel scores of nine lots of tuna.
TUNA_X = [44.4, 45.9, 41.9, 53.3, 44.7, 44.1, 50.7, 45.2, 60.1]
TUNA_Y = [2.6, 3.1, 2.5, 5.0, 3.6, 4.0, 5.2, 2.8, 3.8]


def test_kendall_and_spearman_on_the_tuna_data():
    """Hollander & Wolfe (1973), as in R's cor.test: tau 0.4444; rho 0.6, p 0.0968."""
    tau, rho = st.tau_b(np.array([TUNA_X]), np.array(TUNA_Y)), st.rank_correlation(TUNA_X, TUNA_Y)
    assert tau == pytest.approx([0.4444], abs=5e-5)
    assert (rho.value, rho.p_value) == pytest.approx((0.6, 0.0968), abs=5e-5)
    assert rho.exact


@pytest.mark.parametrize("seed", range(8))
def test_kendall_against_scipy_with_ties(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(4, size=(2, 6 + 5 * seed)).astype(float)
    assert st.tau_b(x[None], y) == pytest.approx([stats.kendalltau(x, y).statistic])


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


def test_ranking_edges():
    function = st.rank_correlation
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


def test_kappa_of_single_items_by_the_jackknife_agrees_with_its_large_sample_interval():
    labels = expand(CARCINOMA)
    plain, left_out = st.cohen_kappa(*labels), st.cohen_kappa(*labels, clusters=range(118))
    assert left_out.value == plain.value and left_out.interval == pytest.approx(plain.interval, abs=0.01)


def test_kappa_over_conversations_counts_them_and_not_their_items():
    rng = np.random.default_rng(10)
    first = rng.integers(3, size=30)
    second = np.where(rng.random(30) < 0.7, first, rng.integers(3, size=30))
    alone = st.cohen_kappa(first, second, clusters=range(30))
    copied = st.cohen_kappa(*(np.repeat(one, 5) for one in (first, second)), clusters=np.repeat(range(30), 5))
    assert copied.interval == pytest.approx(alone.interval)
    ordered = st.weighted_kappa(first, second, "quadratic", range(3), np.arange(30) // 3)
    assert ordered.interval[0] < ordered.value < ordered.interval[1] <= 1.0
    assert ordered.reason == "few conversations (10)"
    few = st.cohen_kappa(first, second, clusters=np.arange(30) // 15)
    assert few.value is not None and few.interval is None and "takes 3" in few.reason
    missing = st.cohen_kappa([*first, pd.NA, None], [*second, 1, 1], clusters=range(32))
    assert missing.interval == pytest.approx(alone.interval) and missing.excluded == 2
    with pytest.raises(InputError, match="cluster labels"):
        st.cohen_kappa(first, second, clusters=[1])


def test_rank_correlation_over_conversations_has_an_interval():
    rng = np.random.default_rng(11)
    x = rng.normal(size=40)
    y = x + rng.normal(size=40)
    found = st.rank_correlation(x, y, np.arange(40))
    assert found.interval[0] < found.value < found.interval[1] <= 1.0
    # Bonett & Wright (2000), Psychometrika 65:23: the spread of atanh(rho) is sqrt((1 + rho^2 / 2) / (n - 3)).
    half = stats.norm.ppf(0.975) * math.sqrt((1 + found.value**2 / 2) / 37)
    wanted = math.tanh(math.atanh(found.value) - half), math.tanh(math.atanh(found.value) + half)
    assert found.interval == pytest.approx(wanted, abs=0.1)
    assert st.rank_correlation(x, y).interval is None


def test_what_is_not_measured_has_no_rank():
    scores = np.array([[0.5, np.nan, 0.7, 0.5], [np.nan] * 4, [0.2, 0.2 + 1e-12, 0.1, 0.3]])
    wanted = [[2, np.nan, 1, 2], [np.nan] * 4, [2, 2, 4, 1]]
    assert np.array_equal(st.ranks(scores), wanted, equal_nan=True)
