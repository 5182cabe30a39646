"""The streaming resampler: no seams, no drift, and a delay that is known and small."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from workbench.audio import LOOK_AHEAD_S, StreamResampler

PAIRS = [(24_000, 16_000), (24_000, 8_000), (8_000, 24_000), (16_000, 24_000), (44_100, 24_000), (48_000, 24_000)]


def sine(rate_hz: int, hz: float, seconds: float = 0.5) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(round(rate_hz * seconds)) / rate_hz)).astype(np.float32)


@pytest.mark.parametrize(("from_hz", "to_hz"), PAIRS)
@pytest.mark.parametrize("live", [False, True])
def test_a_tone_comes_out_where_it_should(from_hz, to_hz, live):
    hz = min(from_hz, to_hz) * 0.3
    out = StreamResampler(from_hz, to_hz, live)(sine(from_hz, hz), last=True)
    delay_s = np.ceil(LOOK_AHEAD_S * from_hz) / from_hz if live else 0.0
    expected = 0.5 * np.sin(2 * np.pi * hz * (np.arange(out.size) / to_hz - delay_s))
    inner = slice(round(0.02 * to_hz), -round(0.02 * to_hz))
    assert np.abs(out[inner] - expected[inner]).max() < 5e-5
    assert out.size == pytest.approx(0.5 * to_hz + delay_s * to_hz, abs=1)


@hypothesis_settings(max_examples=40, deadline=None)
@given(pair=st.sampled_from(PAIRS), sizes=st.lists(st.integers(0, 700), min_size=1, max_size=12), live=st.booleans())
def test_how_a_stream_is_cut_makes_no_difference(pair, sizes, live):
    samples = np.random.default_rng(0).standard_normal(sum(sizes)).astype(np.float32)
    stream, at, parts = StreamResampler(*pair, live), 0, []
    for size in sizes:
        parts.append(stream(samples[at : at + size]))
        at += size
    parts.append(stream(np.zeros(0, np.float32), last=True))
    assert np.array_equal(np.concatenate(parts), StreamResampler(*pair, live)(samples, last=True))


@pytest.mark.parametrize(("to_hz", "share"), [(16_000, 320), (8_000, 160)])
def test_live_gives_every_frame_its_share_at_once(to_hz, share):
    stream = StreamResampler(24_000, to_hz, live=True)
    assert {stream(np.zeros(480, np.float32)).size for _ in range(20)} == {share}


@pytest.mark.parametrize(("from_hz", "to_hz"), PAIRS)
def test_no_more_is_held_back_than_the_look_ahead(from_hz, to_hz):
    stream, given_, taken = StreamResampler(from_hz, to_hz), 0, 0
    for _ in range(50):
        given_ += stream(np.zeros(from_hz // 50, np.float32)).size
        taken += from_hz // 50
        assert taken / from_hz - given_ / to_hz <= LOOK_AHEAD_S + 2 / min(from_hz, to_hz)


def test_what_the_lower_rate_cannot_hold_is_taken_out():
    out = StreamResampler(24_000, 8_000)(sine(24_000, 4_700), last=True)
    assert np.abs(out[200:-200]).max() < 0.5e-3


def test_levels_are_kept():
    out = StreamResampler(24_000, 16_000)(np.full(4800, 0.25, np.float32), last=True)
    assert out[100:-100] == pytest.approx(0.25, abs=1e-6)
