"""The detector's own bias: edges of known sounds, and the figures that stand beside limits."""

import numpy as np
import pytest

from workbench.analysis.detectors import EDGES, bias, level_edges, sentence, stated
from workbench.errors import InputError
from workbench.vad import VadSettings


def burst(rate_hz: int, before_s: float, length_s: float, after_s: float) -> np.ndarray:
    n = round(rate_hz * length_s)
    tone = 0.5 * np.sin(2 * np.pi * 200 * np.arange(n) / rate_hz)
    return np.concatenate([np.zeros(round(rate_hz * before_s)), tone, np.zeros(round(rate_hz * after_s))])


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 22_050, 48_000])
def test_edges_of_a_burst_lie_where_it_begins_and_ends(rate_hz):
    # 10 ms that hold a sliver of the burst are 35 dB below it, so the edges reach at most 5 ms beyond.
    assert level_edges(burst(rate_hz, 0.8, 1.2, 0.7), rate_hz) == pytest.approx((0.8, 2.0), abs=0.006)
    assert level_edges(burst(rate_hz, 0.8, 1.2, 0.7), rate_hz, 3.0) == pytest.approx((0.8, 2.0), abs=0.0015)


def test_a_fade_is_cut_where_its_level_is_35_db_down():
    rate_hz, fall_db_a_s = 16_000, 100.0
    tail = 10 ** (-fall_db_a_s * np.arange(rate_hz) / rate_hz / 20) * burst(rate_hz, 0, 1.0, 0)
    whole = np.concatenate([burst(rate_hz, 0.5, 0.5, 0.0), tail, np.zeros(rate_hz)])
    assert level_edges(whole, rate_hz)[1] == pytest.approx(1.0 + 35 / fall_db_a_s, abs=0.01)


def test_silence_has_no_edges():
    for nothing in (np.zeros(16_000), np.zeros(3)):
        with pytest.raises(InputError, match="no sound"):
            level_edges(nothing, 16_000)


def test_the_bias_of_an_energy_gate_is_its_padding():
    """A gate of 10 ms frames with 30 ms of padding opens and closes 30 ms outside the burst."""
    clips = [(burst(16_000, 0.8, length, 0.8), 16_000) for length in (0.5, 0.9, 1.3)]
    found = bias(clips, VadSettings(detector="energy"))
    assert found["onset"]["median_ms"] == pytest.approx(-30, abs=7)
    assert found["offset"]["median_ms"] == pytest.approx(30, abs=7)
    assert found["onset"]["clips"] == 3 and found["onset"]["missed"] == 0
    deaf = bias(clips, VadSettings(detector="energy", energy_floor_dbfs=0))
    assert deaf["offset"]["median_ms"] is None and deaf["offset"]["missed"] == 3


def test_the_stated_figures_cover_the_default_at_every_rate():
    frame = stated()
    usual = frame[frame["settings"] == ""]
    assert {(row.rate_hz, row.edge) for row in usual.itertuples()} == {
        (rate_hz, edge) for rate_hz in (24_000, 16_000, 8_000) for edge in EDGES
    }
    assert ((frame["p10_ms"] <= frame["median_ms"]) & (frame["median_ms"] <= frame["p90_ms"])).all()
    assert (usual.loc[usual["edge"] == "offset", "median_ms"] > 30).all(), "offsets come late at the default padding"
    assert "onsets" in sentence(VadSettings()) and "offsets" in sentence(VadSettings(), 8_000)
    assert "not been measured" in sentence(VadSettings(threshold=0.45))


def test_the_stated_figures_are_those_of_the_detector():
    from hibari import Hibari

    voice, silence = Hibari(), np.zeros(16_800, np.float32)
    texts = ("Sure, I can do that.", "Wait, actually, can you stop for a second?")
    found = bias([(np.concatenate([silence, voice(text, seed=1), silence]), 24_000) for text in texts])
    usual = stated().query("settings == '' and rate_hz == 24_000").set_index("edge")
    for edge in EDGES:
        assert abs(found[edge]["median_ms"] - usual.loc[edge, "median_ms"]) < 60
