"""The calls that notebooks use: build, run, score, flips; runs to practise on; the agent of known skill."""

import asyncio

import numpy as np
import pytest

import workbench as wb
from workbench import datasets, practice
from workbench.agents.registry import factory
from workbench.agents.scripted import WaveringAgent
from workbench.benchmarks.ifeval import BENCHMARK
from workbench.benchmarks.ifeval.reference import moves
from workbench.errors import InputError


@pytest.fixture(scope="module")
def oracle(tiny_dataset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("api") / "oracle"
    return wb.score(wb.run(wb.load_dataset(tiny_dataset), "oracle", folder, concurrency=1), workers=1)


def test_from_scripts_to_verdicts(oracle, tiny_dataset):
    assert [case.id for case in wb.load_dataset(tiny_dataset).cases] == list(oracle.cases)
    assert (oracle.verdicts()["verdict"] == "pass").all()


def test_building_without_audio_gives_a_dataset(tmp_path):
    dataset = wb.build("ifeval", tmp_path / "grid", limit=60, audio=False)
    assert len(dataset.cases) == 60 and dataset.header.benchmark == "ifeval"
    assert len(wb.load_dataset(str(tmp_path / "grid")).cases) == 60


def test_a_run_may_be_made_from_inside_an_event_loop(tiny_dataset, tmp_path):
    dataset = wb.load_dataset(tiny_dataset)
    two = datasets.Dataset(dataset.folder, dataset.header, dataset.cases[:2])

    async def cell():  # Jupyter runs cells inside a loop
        return wb.run(two, "silent", tmp_path / "silent", concurrency=1)

    assert len(asyncio.run(cell()).recorded()) == 2


def test_scoring_refuses_a_threshold_that_does_not_exist(oracle):
    with pytest.raises(InputError, match="no threshold 'max_wait'"):
        wb.score(oracle, {"max_wait": 1.0})


def test_a_flip_is_where_the_verdict_turns(oracle):
    flips = oracle.flips()
    assert set(flips["threshold"]) <= set(BENCHMARK.threshold) and len(flips) >= 5
    shares = (flips["distance"].abs() / flips["limit"]).to_numpy()
    assert (np.diff(shares) >= -1e-12).all()
    was = oracle.verdicts().set_index("case")["verdict"]
    for flip in flips[flips["value"] > 0].itertuples():
        own = oracle.measurements.set_index("case").loc[flip.case].get(f"own_{flip.threshold}")
        if own is not None and own == own:
            continue  # the case has a limit of its own, which no general one moves
        values = (np.nextafter(flip.value, -np.inf), flip.value, np.nextafter(flip.value, np.inf))
        found = {oracle.verdicts({flip.threshold: v}).set_index("case")["verdict"][flip.case] for v in values}
        assert found == {"pass", "fail"}, flip
        assert was[flip.case] == flip.verdict


# -- the agent of known skill ------------------------------------------------------------------------


def test_known_skill_comes_out_in_the_long_run():
    cases = wb_grid()
    agent = WaveringAgent(moves, stated=0.9, implied=0.6, seed=1)
    right = {"L1": [], "L2": []}
    for case in cases:
        if case.tags["level"] in right:
            right[case.tags["level"]].append(agent._moves(case, "") == moves(case, "oracle"))
    stated, implied = (np.array(values) for values in right.values())
    assert len(stated) == len(implied) == 240
    assert abs(stated.mean() - 0.9) < 0.06 and abs(implied.mean() - 0.6) < 0.09
    assert (stated >= implied).all()  # whoever manages without the rule manages with it


def test_delays_have_the_mean_that_was_asked_for():
    agent = WaveringAgent(moves, stated=1, implied=1, late_s=0.5)
    delays = []
    for case in wb_grid():
        ours, exact = agent._moves(case, ""), moves(case, "oracle")
        delays.append(ours[0].begin.offset_s - exact[0].begin.offset_s)
        # A case's moves are late by the same time, so what is held is held as long.
        assert all(
            abs(a.begin.offset_s - b.begin.offset_s - delays[-1]) < 2e-3 for a, b in zip(ours, exact, strict=True)
        )
    assert min(delays) >= 0 and abs(np.mean(delays) - 0.5) < 0.05


def wb_grid() -> list:
    from workbench.benchmarks.ifeval import cases as au
    from workbench.benchmarks.ifeval.cases import TURN1, TURN2, expand
    from workbench.construct.turns import without_audio

    data = au.load()
    texts = {(s, c): t for s, one in data.scripts.items() for c, t in ((TURN1, one.turn1), (TURN2, one.turn2))}
    cases = expand(data, {key: without_audio(text) for key, text in texts.items()})
    # Without audio a window has no place yet; anywhere will do for moves that count from it.
    return [
        case.model_copy(
            update={
                "windows": {n: w.model_copy(update={"start_s": 1.0, "end_s": 4.0}) for n, w in case.windows.items()}
            }
        )
        for case in cases
    ]


@pytest.mark.parametrize("options", [{"stated": 1.2}, {"implied": -0.1}, {"late_s": -1}, {"late_s": float("nan")}])
def test_impossible_skills_are_refused(options):
    with pytest.raises(InputError, match="wavering"):
        factory("wavering", options, BENCHMARK)()


def test_practice_runs_are_kept(tiny_dataset, tmp_path):
    (tmp_path / "dataset").symlink_to(tiny_dataset)
    first = practice.runs(tmp_path, ("silent",))["silent"]
    stamp = (first.scores / "score.json").stat().st_mtime_ns
    again = practice.runs(tmp_path, {"silent": ("silent", {})})["silent"]
    assert again.folder == first.folder == tmp_path / "runs" / "silent"
    assert (again.scores / "score.json").stat().st_mtime_ns == stamp
    with pytest.raises(InputError, match="no practice system 'nobody'"):
        practice.runs(tmp_path, ("nobody",))


@pytest.mark.parametrize("runs", [[], {}, ["runs/oracle"], "runs/oracle"])
def test_what_is_no_run_is_a_sentence(runs):
    with pytest.raises(InputError, match=r"load_run\(folder\)"):
        wb.sweep(runs)
    with pytest.raises(InputError, match=r"load_run\(folder\)"):
        wb.sensitivity(runs)
