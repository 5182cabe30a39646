"""Sweeps decide stored measurements again; rankings, Kendall's tau and flip points are checked by brute force."""

import numpy as np
import pandas as pd
import pytest
import scored_runs as made
from made_up import measured_systems
from scipy.stats import kendalltau

import workbench as wb
from workbench.analysis.sweep import Sweep, ranking_flips, sweep
from workbench.benchmarks.ifeval import BENCHMARK
from workbench.deciding import Decider, scores
from workbench.errors import InputError
from workbench.files import read_json, write_json
from workbench.runs import MEASUREMENTS, SCORE, VERDICTS
from workbench.statistics import tau_b
from workbench.statistics.agreement import ranks


@pytest.fixture(scope="module")
def systems():
    return measured_systems(4)


@pytest.fixture(scope="module")
def swept(systems):
    return sweep(BENCHMARK, systems)


def test_the_preset_is_the_papers_180_settings(swept):
    assert len(swept.settings) == 180 and swept.systems == ("s0", "s1", "s2", "s3")
    assert swept.settings.iloc[swept.default].to_dict() == {name: BENCHMARK.limits()[name] for name in swept.settings}


def test_scores_equal_verdicts_decided_one_setting_at_a_time(swept, systems):
    for index in (0, 57, 179):
        setting = swept.settings.iloc[index].to_dict()
        for at, frame in enumerate(systems.values()):
            verdict = Decider(BENCHMARK, frame).verdicts(setting)["verdict"]
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
    order = np.argsort(swept.scores["entailment_gap"], axis=1, kind="stable")
    assert summary["order_kept"] == pytest.approx((order == order[swept.default]).all(axis=1).mean())
    assert summary["top1_kept"] == pytest.approx((order[:, 0] == order[swept.default, 0]).mean())
    assert summary["tau_min"] <= summary["tau_median"] <= summary["tau_max"] == 1.0


def swept_from(scores):
    """A sweep of one threshold from its scores (settings, systems); the first setting is the default."""
    values = np.array(scores, float)
    settings = pd.DataFrame({"limit_s": np.arange(len(values), dtype=float)})
    return Sweep("made", tuple("abc"[: values.shape[1]]), settings, 0, {"rate": values}, "rate", False)


FEW = (
    "rate is measured for {} runs, and a ranking needs two; a slice of the dataset may lack cases that this score "
    "compares."
)


@pytest.mark.parametrize(
    ("scores", "why"),
    [
        ([[np.nan, np.nan]] * 180, FEW.format("0 of 2")),
        ([[0.4, np.nan]] * 180, FEW.format("1 of 2")),
        ([[0.7]] * 180, FEW.format("1 of 1")),
        ([[0.4, 0.4]] * 180, "All runs tie on rate."),
    ],
)
def test_what_cannot_be_ranked_keeps_no_order_and_says_why(scores, why):
    summary = swept_from(scores).summary()
    assert (summary["ranked"], summary["undefined"]) == (0, 180)
    assert [summary[name] for name in ("order_kept", "top1_kept", "top2_kept", "order_kept_elsewhere")] == [None] * 4
    assert summary["unranked"] == why


def test_a_score_of_which_less_is_better_ranks_the_least_first(swept):
    assert (swept.ranking, swept.sign) == ("entailment_gap", -1)
    assert swept.ranks[0][np.nanargmin(swept.scores["entailment_gap"][0])] == 1


def test_a_run_that_is_not_measured_has_no_rank():
    swept = swept_from([[0.5, 0.7, np.nan], [0.5, 0.7, 0.1], [np.nan, np.nan, 0.2], [0.5, 0.7, np.nan]])
    assert np.array_equal(swept.ranks[0], [2, 1, np.nan], equal_nan=True)
    summary = swept.summary()
    assert summary["ranked"] == 3 and summary["order_kept"] == pytest.approx(2 / 3)
    assert summary["top1_kept"] == 1.0 and summary["ties_at_default"] == 0


def test_a_curve_moves_one_threshold_only(swept):
    curve = swept.curve("yield_latency_ms")
    assert len(curve) == 5 * 4 and curve["yield_latency_ms"].nunique() == 5
    with pytest.raises(InputError, match="not in this sweep"):
        swept.curve("patience")


def test_the_default_is_added_to_a_grid_without_it(systems):
    made = sweep(BENCHMARK, systems, {"max_wait_s": [0.5, 1.0]})
    assert made.settings["max_wait_s"].tolist() == [0.5, 1.0, 2.0] and made.default == 2


@pytest.mark.parametrize("threshold", BENCHMARK.threshold)
def test_a_ranking_flips_where_it_says_and_not_before(systems, threshold):
    flips, default = ranking_flips(BENCHMARK, systems, threshold), BENCHMARK.limits()[threshold]
    deciders = [Decider(BENCHMARK, frame) for frame in systems.values()]

    def ranking(values):
        gaps = [scores(one, {threshold: np.asarray(values)})["entailment_gap"] for one in deciders]
        return ranks(np.stack(gaps, axis=1))

    [before] = ranking([default])
    for edge, reach in ((flips.below, 0.0), (flips.above, 3 * default)):
        assert edge is None or (ranking([edge])[0] != before).any()
        until = reach if edge is None else edge
        assert (ranking(default + np.linspace(0.01, 0.99, 99) * (until - default)) == before).all()


def test_the_number_of_backchannels_is_seen_to_turn_a_ranking(systems):
    """One says two backchannels wherever the rule is stated; the other says one, and every other time a long one."""
    frame = systems["s0"].assign(reason=None)
    rows = (frame["action"] == "BACKCHANNEL").to_numpy()
    stated = rows & (frame["level"] == "L1").to_numpy()
    frame.loc[rows, ["starting", "touching", "longest_s"]] = 1, 1, 0.5
    frame.loc[rows, "user_goes_on"] = True
    twice, long = frame.copy(), frame.copy()
    twice.loc[stated, "touching"] = 2
    long.loc[np.flatnonzero(stated)[::2], "longest_s"] = 3.0
    flips = ranking_flips(BENCHMARK, {"twice": twice, "long": long}, "bc_window_max")
    assert flips.below == pytest.approx(2.0) and flips.below < 2.0 and flips.above is None


def test_runs_of_different_datasets_are_refused_or_joined_on_what_they_share(tmp_path):
    small, large = made.dataset(tmp_path / "small", limit=24), made.dataset(tmp_path / "large", limit=48)
    one = wb.load_run(made.run(small, tmp_path / "one", made.oracle))
    two = wb.load_run(made.run(large, tmp_path / "two", made.contrary))
    with pytest.raises(InputError, match="different datasets; give runs of one, or common=True"):
        wb.sweep([one, two])
    with pytest.raises(InputError, match="different datasets"):
        wb.ranking_flips([one, two], "max_wait_s")
    both = wb.sweep([one, two], {"max_wait_s": (2.0,)}, common=True, ranking="ias")
    assert both.scores["ias"][0].tolist() == [1.0, 0.0] and both.ranking == "ias"
    kept = set(one.measurements["case"]) & set(two.measurements["case"])
    assert len(kept) == 24
    other = wb.load_run(made.run(small, tmp_path / "other", made.contrary))
    write_json(other.scores / SCORE, read_json(other.scores / SCORE) | {"thresholds": {"max_wait_s": 1.0}})
    with pytest.raises(InputError, match="different thresholds"):
        wb.sweep([one, other])


def test_a_row_that_stands_twice_is_said_in_words(tmp_path):
    run = wb.load_run(made.run(made.dataset(tmp_path / "set", limit=12), tmp_path / "run", made.oracle))
    for name in (MEASUREMENTS, VERDICTS):
        path = run.scores / name
        frame = pd.read_parquet(path)
        pd.concat([frame, frame[:1]]).to_parquet(path, index=False)
        with pytest.raises(InputError, match=f"{name}: the row {frame['case'][0]} stands twice; score the run again"):
            run.measurements  # noqa: B018
        frame.to_parquet(path, index=False)
    assert len(run.measurements) == 12


def test_refusals(systems):
    with pytest.raises(InputError, match="at least one run"):
        sweep(BENCHMARK, {})
    with pytest.raises(InputError, match="no threshold"):
        sweep(BENCHMARK, systems, {"nonsense": [1.0]})
    with pytest.raises(InputError, match="empty"):
        sweep(BENCHMARK, systems, {"max_wait_s": []})
