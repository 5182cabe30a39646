"""Streams at other rates, late and early audio: where the recorder puts them."""

from itertools import pairwise

import numpy as np
import pytest

from workbench.agents.base import AudioOut, Interrupted, TurnEnd
from workbench.runners.recorder import MAX_BACKLOG_S, Recorder


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def packets(recorder, clock, count, rate_hz=8_000, each_s=0.02, item="a"):
    """Real-time packets of a tone, each arriving when it is due."""
    t = np.arange(round(count * each_s * rate_hz)) / rate_hz
    tone = (10_000 * np.sin(2 * np.pi * 300 * t)).astype(np.int16)
    for part in np.split(tone, count):
        recorder.receive(AudioOut(part, item, rate_hz))
        clock.now_s += each_s


def heard(recorder):
    recorder.user.append(np.zeros(24_000 * 4, np.int16))
    stereo, _, _ = recorder.finish()
    return stereo[:, 1], [d for d in recorder.deliveries() if d.placed is not None]


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100, 48_000])
def test_what_the_filter_holds_back_opens_no_gap(clock, rate_hz):
    recorder = Recorder(clock, "as_played", "arrival")
    packets(recorder, clock, 50, rate_hz)
    recorder.receive(TurnEnd("a"))
    agent, chunks = heard(recorder)
    assert all(b.placed == a.placed + a.played for a, b in pairwise(chunks))
    expected = 10_000 * np.sin(2 * np.pi * 300 * np.arange(24_000) / 24_000)
    assert np.abs(agent[200:23_800] - expected[200:23_800]).max() < 40


def test_a_stall_at_another_rate_is_a_gap_and_nothing_is_lost(clock):
    recorder = Recorder(clock, "as_played", "arrival")
    packets(recorder, clock, 10)
    clock.now_s += 0.5
    packets(recorder, clock, 10)
    recorder.receive(TurnEnd("a"))
    agent, chunks = heard(recorder)
    assert sum(c.played for c in chunks) == pytest.approx(0.4 * 24_000, abs=2)
    assert not agent[round(0.201 * 24_000) : round(0.699 * 24_000)].any()
    assert np.abs(agent[round(0.7 * 24_000) : round(0.72 * 24_000)]).max() > 5_000


def test_cut_audio_keeps_nobody_waiting(clock):
    recorder = Recorder(clock, "as_played", "arrival")
    for _ in range(20):  # ten seconds, at once
        recorder.receive(AudioOut(np.full(12_000, 5_000, np.int16), "a"))
    clock.now_s = 0.6
    recorder.receive(Interrupted("a"))
    clock.now_s = 1.0
    recorder.receive(AudioOut(np.full(2_400, 5_000, np.int16), "b"))
    _, chunks = heard(recorder)
    assert [(c.item, c.placed, c.played) for c in chunks] == [
        ("a", 0, 12_000),
        ("a", 12_000, 2_400),
        ("b", 24_000, 2_400),
    ]


def test_a_flood_is_a_fault(clock):
    recorder = Recorder(clock, "as_played", "arrival")
    for _ in range(int(MAX_BACKLOG_S / 10) + 1):
        recorder.receive(AudioOut(np.zeros(240_000, np.int16), "a"))
    assert recorder.fault.kind == "too_much_audio"
