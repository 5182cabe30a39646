"""The episode: cues by their rules, the same code on either clock, faults recorded and not raised."""

import asyncio

import numpy as np
import pytest

from workbench.agents.base import AgentError, AudioOut, Fault, Traits, TurnEnd
from workbench.cases import (
    AfterGap,
    AfterOnset,
    AfterTurn,
    AtTime,
    AtWord,
    AudioRef,
    Case,
    Cue,
    Ending,
    Window,
)
from workbench.runners.episode import run_episode
from workbench.runners.guard import VirtualClock, WallClock

RATE = 24_000
REF = {"path": "x.wav", "sha256": "0" * 64}


def clip(seconds, level=2000):
    return np.full(round(seconds * RATE), level, np.int16)


def case(*starts, clips=None, ending=None, windows=None):
    clips = clips or {f"cue{i}": clip(0.5, 1000 + i) for i in range(len(starts))}
    cues = tuple(
        Cue(id=name, text="", start=start, track=i if isinstance(start, AtTime) else 0,
            audio=AudioRef(samples=clips[name].size, **REF))
        for i, (name, start) in enumerate(zip(clips, starts, strict=True))
    )  # fmt: skip
    ending = ending or Ending(tail_s=0.1, max_wait_s=0.4, flush_s=0.2, continuous_s=0.3, batch_s=0.2)
    made = Case(id="c", benchmark="t", conversation="c", stream="c", cues=cues, ending=ending, windows=windows or {})
    return made, clips


class Answering:
    """Answers `length_s` of speech `delay_s` after the input falls silent; a turn event at the end."""

    def __init__(self, delay_s=0.2, length_s=0.4, turns="events"):
        self.traits = Traits("answering", "1", "input", turns=turns)
        self.delay, self.length = round(delay_s * RATE), round(length_s * RATE)

    async def open(self, session, emit):
        self.emit, self.heard, self.quiet, self.left = emit, False, 0, 0

    async def send(self, frame):
        if frame.any():
            self.heard, self.quiet = True, 0
        else:
            self.quiet += frame.size
        if self.heard and self.quiet >= self.delay:
            self.heard, self.left = False, self.length
        if self.left > 0:
            self.emit(AudioOut(clip(0.02, 3000), "a"))
            self.left -= 480
            if self.left <= 0 and self.traits.turns == "events":
                self.emit(TurnEnd("a"))

    async def close(self): ...


def play(made, agent, clock=VirtualClock, policy="as_played"):
    a_case, clips = made
    return asyncio.run(run_episode(a_case, clips, lambda: agent, clock, policy))


def test_the_next_turn_comes_after_the_agent_has_finished_and_settled():
    result = play(case(AtTime(time_s=0), AfterTurn(max_wait_s=5, settle_s=0.6)), Answering())
    first, second = result.record.cues
    # 0.5 s of cue, 0.2 s of delay, 0.4 s of answer, 0.6 s to settle; frames are 20 ms
    assert (first.start_s, first.end_s) == (0.0, 0.5)
    assert second.start_s == pytest.approx(0.5 + 0.2 + 0.4 + 0.6, abs=0.041)


def test_the_wait_for_an_agent_that_says_nothing_is_bounded():
    result = play(case(AtTime(time_s=0), AfterTurn(max_wait_s=1.0, settle_s=0.2)), Answering(delay_s=99))
    assert result.record.cues[1].start_s == pytest.approx(0.5 + 1.0 + 0.2, abs=0.021)
    assert [event.kind for event in result.record.events].count("wait_over") == 2


def test_giving_up_early_on_an_agent_that_has_said_nothing():
    rule = AfterTurn(max_wait_s=60, quiet_s=0.2, give_up_s=1.0)
    assert play(case(AtTime(time_s=0), rule), Answering(delay_s=99)).record.cues[1].start_s == pytest.approx(
        1.5, abs=0.03
    )
    spoken = play(case(AtTime(time_s=0), rule), Answering(delay_s=0.6, length_s=2.0, turns="continuous"))
    assert spoken.record.cues[1].start_s == pytest.approx(0.5 + 0.6 + 2.0 + 0.2, abs=0.05)


def test_continuous_agents_get_fixed_padding():
    made = case(AtTime(time_s=0), AfterTurn(max_wait_s=5, settle_s=0.6, fixed_gap_s=3.0))
    record = play(made, Answering(turns="continuous")).record
    assert record.cues[1].start_s == pytest.approx(3.5)
    assert record.duration_s == pytest.approx(3.5 + 0.5 + 0.3, abs=0.03)


def test_barge_in_comes_a_delay_after_the_onset_while_the_agent_speaks():
    made = case(AtTime(time_s=0), AfterOnset(delay_s=1.0, max_wait_s=5),
                windows={"trigger": Window(cue="cue1", start_s=0, end_s=3.0)})  # fmt: skip
    result = play(made, Answering(length_s=3.0))
    record = result.record
    assert record.onset_s == pytest.approx(0.7, abs=0.03)
    assert record.cues[1].start_s == pytest.approx(record.onset_s + 1.0, abs=0.021)
    assert record.windows["trigger"] == pytest.approx((record.cues[1].start_s, record.cues[1].start_s + 3.0))
    at = round(record.cues[1].start_s * RATE)
    assert result.stereo[at + 100, 0] != 0 and result.stereo[at + 100, 1] != 0


def test_no_onset_is_recorded_as_such():
    made = case(AtTime(time_s=0), AfterOnset(delay_s=1.0, max_wait_s=0.8), windows={"trigger": Window(cue="cue1")})
    record = play(made, Answering(delay_s=99)).record
    assert record.status == "complete" and record.cues[1].reason == "no_model_onset"
    assert record.windows == {"trigger": None}


def test_gap_word_and_overlapping_tracks():
    assert play(case(AtTime(time_s=0), AfterGap(gap_s=0.3)), Answering()).record.cues[1].start_s == pytest.approx(0.8)
    two = play(case(AtTime(time_s=0), AtTime(time_s=0.2)), Answering())
    assert two.stereo[round(0.3 * RATE), 0] == 1000 + 1001  # both tracks sound at once
    heard = play(case(AtTime(time_s=0), AtWord(word="stop", max_wait_s=0.5)), Answering())
    assert heard.record.cues[1].reason == "word_not_heard"


@pytest.mark.parametrize("agent", [Answering(), Answering(delay_s=99), Answering(length_s=5.0)])
def test_the_user_stream_is_the_same_whatever_the_agent_does(agent):
    user = play(case(AtTime(time_s=0), AfterGap(gap_s=0.3)), agent).stereo[:, 0]
    expected = np.zeros_like(user)
    expected[:12000] = 1000
    expected[19200:31200] = 1001
    assert np.array_equal(user, expected)


def test_both_clocks_give_the_same_recording():
    made = case(AtTime(time_s=0), AfterTurn(max_wait_s=2, settle_s=0.1))
    virtual, wall = play(made, Answering()), play(made, Answering(), WallClock)
    assert virtual.record.clock == "virtual" and wall.record.clock == "wall"
    assert wall.record.sends.late_s and not virtual.record.sends.late_s
    for result in (wall, virtual):
        for cue, clip in zip(result.record.cues, made[1].values(), strict=True):
            at = round(cue.start_s * RATE)
            assert np.array_equal(result.stereo[at : at + clip.size, 0], clip)
    # On the wall clock the agent's answer, and so the next cue, may come some frames later on a busy machine.
    assert wall.record.cues[1].start_s >= virtual.record.cues[1].start_s
    assert wall.record.cues[0] == virtual.record.cues[0]


def test_the_virtual_clock_repeats_exactly():
    made = case(AtTime(time_s=0), AfterTurn(max_wait_s=2, settle_s=0.1))
    first, second = play(made, Answering()), play(made, Answering())
    assert np.array_equal(first.stereo, second.stereo) and first.record.deliveries == second.record.deliveries


class Faulty(Answering):
    def __init__(self, where):
        super().__init__()
        self.where, self.sent, self.closed = where, 0, 0

    async def open(self, session, emit):
        if self.where == "open":
            raise AgentError("refused", "the server said no", retry=True)
        await super().open(session, emit)

    async def send(self, frame):
        self.sent += 1
        if self.sent == 20 and self.where == "send":
            raise RuntimeError("broken")
        if self.sent == 20 and self.where == "event":
            self.emit(Fault("session_limit", "30 minutes are over"))
        await super().send(frame)

    async def close(self):
        self.closed += 1
        if self.where == "close":
            raise OSError("already gone")


@pytest.mark.parametrize(
    ("where", "kind", "retry"),
    [("open", "refused", True), ("send", "agent_exception", False), ("event", "session_limit", False)],
)
def test_an_agents_fault_is_an_error_with_its_words_and_what_was_recorded(where, kind, retry):
    agent = Faulty(where)
    result = play(case(AtTime(time_s=0)), agent)
    assert result.record.status == "error" and result.record.error.kind == kind and result.retry is retry
    assert agent.closed == 1
    if where != "open":
        assert result.stereo.shape[0] >= 19 * 480


def test_a_fault_on_closing_is_only_logged():
    result = play(case(AtTime(time_s=0)), Faulty("close"))
    assert result.record.status == "complete"
    assert result.record.events[-1].kind == "close_failed"
