"""Detector settings side by side, on real recordings of the tiny dataset."""

import numpy as np
import pytest

import workbench as wb
from workbench import contract, datasets
from workbench.agents.registry import factory
from workbench.analysis.detectors import EDGES, Setting, measure_under, probabilities, stated_ms, usual_settings
from workbench.errors import InputError
from workbench.runners import batch
from workbench.scoring import score_run
from workbench.vad import VadSettings


@pytest.fixture(scope="module")
def run(tiny_dataset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "oracle"
    make = factory("oracle", benchmark=contract.get("ifeval"))
    batch.run(batch.Plan(datasets.load(tiny_dataset), make, folder, concurrency=1))
    made = wb.load_run(folder)
    score_run(made)
    return made


def test_the_default_setting_gives_the_scored_measurements(run):
    again = measure_under(run, Setting("default"))
    for name in ("genuine_s", "off_s", "longest_s"):
        both = run.measurements[name].notna()
        assert both.equals(again[name].notna())
        assert (run.measurements[name] - again[name].astype(float)).abs().max() < 1e-6


def test_a_table_of_what_changes(run):
    settings = (
        Setting("default"),
        Setting("deaf", VadSettings(min_speech_ms=5000)),
        Setting("energy", VadSettings(detector="energy")),
        Setting("merged", merge_gap_s=2.0),
    )
    table = wb.sensitivity(run, settings).set_index("setting")
    assert table.loc["default", "changed"] == 0 and table.loc["default", "onset_shift_abs_median_ms"] == 0
    assert table.loc["deaf", "changed"] > 0 and table.loc["deaf", "onsets_lost"] > 0
    assert 0 < table.loc["energy", "onset_shift_abs_median_ms"] < 100
    assert (table["measured"] == 12).all()
    assert (table["low"] < table["rate"]).all() and (table["rate"] <= table["high"]).all()
    assert table.loc["energy", "detector_offset_median_ms"] == 25.0 and np.isnan(
        table.loc["deaf", "detector_offset_median_ms"]
    ), "a setting whose bias nobody has measured has none"


def test_the_bias_of_every_usual_setting_is_stated():
    stated = [stated_ms(setting.vad, edge) for setting in usual_settings() for edge in EDGES]
    assert None not in stated and stated[:2] == [-7.0, 109.5]


def test_probabilities_are_computed_once(run, monkeypatch):
    probabilities(run)
    monkeypatch.setattr("workbench.analysis.detectors.speech_probabilities", lambda *_: pytest.fail("computed again"))
    assert len(probabilities(run)) == 24


def test_one_setting_is_no_comparison(run):
    with pytest.raises(InputError, match="at least two"):
        wb.sensitivity(run, (Setting("alone"),))
