"""Sweeps decide stored measurements again; rankings, Kendall's tau and flip points are checked by brute force."""

import numpy as np
import pytest
from made_up import measured_systems
from scipy.stats import kendalltau

from workbench.analysis.sweep import ranking_flips, scores, sweep
from workbench.benchmarks.ifeval import BENCHMARK
from workbench.errors import InputError
from workbench.statistics import tau_b


@pytest.fixture(scope="module")
def systems():
    return measured_systems(4)


@pytest.fixture(scope="module")
def swept(systems):
    return sweep(BENCHMARK, systems)


def test_the_preset_is_the_papers_180_settings(swept):
    assert len(swept.settings) == 180 and swept.systems == ("s0", "s1", "s2", "s3")
    assert swept.settings.iloc[swept.default].to_dict() == {name: BENCHMARK.defaults[name] for name in swept.settings}


def test_scores_equal_verdicts_decided_one_setting_at_a_time(swept, systems):
    for index in (0, 57, 179):
        setting = BENCHMARK.defaults | swept.settings.iloc[index].to_dict()
        for at, frame in enumerate(systems.values()):
            verdict = BENCHMARK.verdicts(frame, setting)["verdict"]
            passed, measured = verdict == "pass", verdict != "unmeasurable"
            assert swept.scores["ias"][index, at] == pytest.approx(passed.sum() / measured.sum(), abs=1e-6)
            rate = {
                level: passed[frame["level"] == level].sum() / measured[frame["level"] == level].sum()
                for level in ("L1", "L2")
            }
            assert swept.scores["entailment_gap"][index, at] == pytest.approx(rate["L1"] - rate["L2"], abs=1e-6)


def test_tau_equals_scipy_ties_included():
    random = np.random.default_rng(0)
    rows, base = random.integers(0, 4, (200, 6)) / 10, random.integers(0, 4, 6) / 10
    wanted = [kendalltau(row, base).statistic for row in rows]
    assert np.allclose(tau_b(rows, base), wanted, equal_nan=True)


def test_summary_counts_survival(swept):
    summary = swept.summary()
    order = np.argsort(-swept.scores["entailment_gap"], axis=1, kind="stable")
    assert summary["order_kept"] == pytest.approx((order == order[swept.default]).all(axis=1).mean())
    assert summary["top1_kept"] == pytest.approx((order[:, 0] == order[swept.default, 0]).mean())
    assert summary["tau_min"] <= summary["tau_median"] <= summary["tau_max"] == 1.0


def test_a_curve_moves_one_threshold_only(swept):
    curve = swept.curve("yield_latency_ms")
    assert len(curve) == 5 * 4 and curve["yield_latency_ms"].nunique() == 5
    with pytest.raises(InputError, match="not in this sweep"):
        swept.curve("patience")


def test_the_default_is_added_to_a_grid_without_it(systems):
    made = sweep(BENCHMARK, systems, {"max_wait_s": [0.5, 1.0]})
    assert made.settings["max_wait_s"].tolist() == [0.5, 1.0, 2.0] and made.default == 2


def test_a_ranking_flips_where_it_says_and_not_before(systems):
    flips = ranking_flips(BENCHMARK, systems, "max_wait_s")
    assert flips.below is not None or flips.above is not None

    def ranking(value):
        gaps = [scores(BENCHMARK, f, {"max_wait_s": np.array([value])})["entailment_gap"][0] for f in systems.values()]
        return np.round(gaps, 9).argsort(kind="stable").tolist()

    for edge, between in ((flips.below, -1), (flips.above, 1)):
        if edge is None:
            continue
        assert ranking(edge) != ranking(2.0)
        for share in np.linspace(0.02, 0.98, 25):
            assert ranking(2.0 + share * (edge - 2.0)) == ranking(2.0), between


def test_refusals(systems):
    with pytest.raises(InputError, match="at least one run"):
        sweep(BENCHMARK, {})
    with pytest.raises(InputError, match="no threshold"):
        sweep(BENCHMARK, systems, {"nonsense": [1.0]})
    with pytest.raises(InputError, match="empty"):
        sweep(BENCHMARK, systems, {"max_wait_s": []})
