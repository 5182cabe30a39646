"""Placement on the sample clock: bursts unroll, interruptions cut what nobody heard, the log says it all."""

import numpy as np
import pytest

from workbench.agents.base import AudioOut, Fault, Interrupted, Note, Text, TurnEnd
from workbench.runners.recorder import Recorder, replay

SECOND = 24_000


class At:
    def __init__(self):
        self.s = 0.0

    def __call__(self):
        return self.s


def tone(seconds, level=3000):
    return np.full(round(seconds * SECOND), level, np.int16)


def recorder(policy="as_played", placement="arrival", length_s=10.0):
    now = At()
    made = Recorder(now, policy, placement)
    made.user = [np.zeros(round(length_s * SECOND), np.int16)]
    return made, now


def spans(channel):
    loud = np.flatnonzero(channel)
    if not loud.size:
        return []
    cuts = np.flatnonzero(np.diff(loud) > 1)
    starts, ends = np.r_[loud[0], loud[cuts + 1]], np.r_[loud[cuts], loud[-1]] + 1
    return [(round(s / SECOND, 3), round(e / SECOND, 3)) for s, e in zip(starts, ends, strict=True)]


def test_a_burst_unrolls_to_real_time_and_a_late_chunk_starts_at_its_arrival():
    made, now = recorder()
    now.s = 1.0
    made.receive(AudioOut(tone(1.0), "a"))
    made.receive(AudioOut(tone(1.0), "a"))  # arrives at once, plays after the first
    now.s = 4.0
    made.receive(AudioOut(tone(0.5), "a"))
    stereo, _, cut = made.finish()
    assert spans(stereo[:, 1]) == [(1.0, 3.0), (4.0, 4.5)] and cut == 0


def test_sample_clock_follows_without_gaps():
    made, now = recorder(placement="sample_clock")
    for t in (1.0, 1.9, 3.5):  # jittered arrivals of one-second chunks
        now.s = t
        made.receive(AudioOut(tone(1.0), ""))
    assert spans(made.finish()[0][:, 1]) == [(1.0, 4.0)]


def test_an_interruption_cuts_what_was_not_played_and_drops_late_chunks():
    made, now = recorder()
    now.s = 1.0
    made.receive(AudioOut(tone(3.0), "a"))
    now.s = 2.0
    made.receive(Interrupted("a"))
    made.receive(AudioOut(tone(1.0), "a"))  # a delta after the cut
    now.s = 2.5
    made.receive(AudioOut(tone(0.5), "b"))
    stereo, delivered, cut = made.finish()
    assert spans(stereo[:, 1]) == [(1.0, 2.0), (2.5, 3.0)]
    assert cut == 3 * SECOND and delivered.size == 4.5 * SECOND
    assert [d.played for d in made.deliveries()] == [SECOND, 0, SECOND // 2]


def test_as_delivered_keeps_everything_even_past_the_end():
    made, now = recorder(policy="as_delivered", length_s=3.0)
    now.s = 1.0
    made.receive(AudioOut(tone(3.0), "a"))
    now.s = 2.0
    made.receive(Interrupted("a"))
    made.receive(AudioOut(tone(1.0), "a"))
    stereo, _, cut = made.finish()
    assert spans(stereo[:, 1]) == [(1.0, 5.0)] and cut == 0


def test_hanging_up_cuts_what_was_not_yet_played():
    made, now = recorder(length_s=2.0)
    now.s = 1.0
    made.receive(AudioOut(tone(3.0), "a"))
    stereo, _, cut = made.finish()
    assert stereo.shape[0] == 2 * SECOND + 480 and cut == 2 * SECOND - 480


@pytest.mark.parametrize("policy", ["as_played", "as_delivered"])
def test_the_log_gives_the_same_samples_again(policy):
    random = np.random.default_rng(5)
    made, now = recorder(policy=policy)
    for index in range(60):
        now.s += float(random.exponential(0.1))
        item = f"item{index // 12}"
        samples = random.integers(-9000, 9000, int(random.integers(1, 9000))).astype(np.int16)
        made.receive(AudioOut(samples, item))
        if random.random() < 0.15:
            made.receive(Interrupted(item if random.random() < 0.5 else ""))
    stereo, delivered, cut = made.finish()
    again = replay(made.deliveries(), delivered, stereo.shape[0])
    assert np.array_equal(again, stereo[:, 1])
    assert cut == delivered.size - sum(d.played for d in made.deliveries())


@pytest.mark.parametrize("rate_hz", [8000, 16000, 48000])
def test_another_rate_is_resampled_without_losing_the_tail(rate_hz):
    made, now = recorder()
    source = (0.3 * np.sin(np.arange(rate_hz) * 0.05)).astype(np.float32)
    now.s = 1.0
    for start in range(0, rate_hz, rate_hz // 25):
        made.receive(AudioOut(source[start : start + rate_hz // 25], "a", rate_hz))
    made.receive(TurnEnd("a"))
    _, delivered, _ = made.finish()
    assert abs(delivered.size - SECOND) <= 2


def test_onset_and_played_samples_follow_the_clock():
    made, now = recorder()
    now.s = 1.0
    made.receive(AudioOut(np.concatenate([np.zeros(2400, np.int16), tone(1.0)]), "a"))
    assert made.onset_after(0.0, 1.12) is None  # not yet 60 ms of it
    assert made.onset_after(0.0, 1.5) == pytest.approx(1.1)
    assert made.onset_after(1.3, 1.6) == pytest.approx(1.3)  # already speaking: counts from there
    assert made.onset_after(3.0, 4.0) is None
    now.s = 1.6
    assert made.played_samples("a") == round(0.6 * SECOND)
    assert not made.drained(1.6) and made.drained(2.2)
    assert made.last_loud_s(1.6) == pytest.approx(1.6)


def test_text_notes_and_faults_are_kept():
    made, now = recorder()
    now.s = 0.5
    made.receive(Text("Hello ", "a"))
    made.receive(Text("there", "a"))
    made.receive(Note("reported", {"model": "m-1"}))
    made.receive(Fault("dropped", "the socket closed"))
    assert "".join(piece.text for piece in made.pieces) == "Hello there"
    assert made.reported == {"model": "m-1"} and made.fault.kind == "dropped"
    assert [event.kind for event in made.events] == ["reported", "fault"]
