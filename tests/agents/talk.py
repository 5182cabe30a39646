"""Short synthetic cases, and running an agent on them over the wall clock."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import numpy as np

from workbench.cases import RATE_HZ, AfterGap, AfterOnset, AtTime, Case, Cue, Ending, PromptPart
from workbench.runners.episode import Result, run_episode
from workbench.runners.guard import CLOCKS
from workbench.runners.recorder import replay

ENDING = Ending(tail_s=0.05, max_wait_s=1.2, flush_s=0.05, quiet_s=0.2, continuous_s=1.0, batch_s=0.05)


def case(name: str = "case", prompt: str = "Answer at 440 Hz.", barge_in_s: float | None = None, then_s=None) -> Case:
    """One user turn at 0.1 s; with `barge_in_s` a second one that long after the agent's onset."""
    cues = [Cue(id="first", text="", start=AtTime(time_s=0.1))]
    if barge_in_s is not None:
        cues.append(Cue(id="second", text="", start=AfterOnset(delay_s=barge_in_s, max_wait_s=1.5)))
    if then_s is not None:
        cues.append(Cue(id="second", text="", start=AfterGap(gap_s=then_s)))
    return Case(
        id=name,
        benchmark="test",
        conversation="c",
        stream="s",
        prompt=(PromptPart(name="role", text=prompt),) if prompt else (),
        cues=tuple(cues),
        ending=ENDING,
    )


def sweep(seconds: float) -> np.ndarray:
    """Rising from 200 to 1200 Hz, so that it matches itself in one place only: int16 (samples,) at 24 kHz."""
    t = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    return (10_000 * np.sin(2 * np.pi * (200 + 500 * t / seconds) * t)).astype(np.int16)


CLIPS = {"first": sweep(0.25), "second": sweep(0.3)}


class SettledClock:
    """Time that moves a frame at a time, and only once everything under way has arrived.

    For an agent and a server that share this event loop over real sockets: what a test sees hangs on
    what was sent when, and not on how busy the machine is.
    """

    kind = "wall"
    _TURNS = 40  # of the event loop: a message there and its answer back take about ten

    def __init__(self) -> None:
        self._now_s = 0.0

    def start(self) -> None:
        self._now_s = 0.0

    def now(self) -> float:
        return self._now_s

    async def sleep_until(self, time_s: float) -> float:
        for _ in range(self._TURNS):
            await asyncio.sleep(0)
        self._now_s = time_s
        return 0.0

    async def reach(self, time_s: float) -> None:
        """Wait, as a server does, until the episode has come to `time_s`."""
        while self._now_s < time_s:
            await asyncio.sleep(0)


async def talk(make, a_case: Case | None = None, clock="wall", policy="as_played") -> Result:
    """Run one case; check what must hold for every recording, whatever the agent did.

    clock : the name of one, or a clock.
    """
    a_case = a_case or case()
    make_clock = CLOCKS[clock] if isinstance(clock, str) else lambda: clock
    result = await run_episode(a_case, CLIPS, make, make_clock, policy)
    check(result)
    return result


def check(result: Result) -> None:
    record = result.record
    if result.stereo is None:
        return
    delivered = result.delivered if result.delivered is not None else whole(result)
    again = replay(record.deliveries, delivered, result.stereo.shape[0])
    assert np.array_equal(again, result.stereo[:, 1]), "the log does not give the recorded agent channel"
    assert sum(d.samples - d.played for d in record.deliveries) == record.cut_samples
    starts = [(d.placed, d.placed + d.played) for d in record.deliveries if d.placed is not None]
    assert all(end <= begin for (_, end), (begin, _) in pairwise(starts)), "chunks overlap"
    expected = user_side(result)
    assert np.array_equal(result.stereo[: expected.size, 0], expected), "the user's side is not what was played"
    assert not result.stereo[expected.size :, 0].any()


def whole(result: Result) -> np.ndarray:
    """Every delivered sample in order, of a recording from which nothing was cut."""
    parts = [result.stereo[d.placed : d.placed + d.played, 1] for d in result.record.deliveries]
    return np.concatenate([*parts, np.zeros(0, np.int16)])


def user_side(result: Result) -> np.ndarray:
    """What the user's side must be: the clips where the record says, exact zeros elsewhere."""
    side = np.zeros(result.record.sends.frames * result.record.sends.frame_samples, np.int16)
    for cue in result.record.cues:
        if cue.start_s is not None:
            at = round(cue.start_s * RATE_HZ)
            part = CLIPS[cue.id][: max(0, side.size - at)]
            side[at : at + part.size] += part
    return side


def seamless(result: Result) -> bool:
    """Whether every chunk that was heard begins where the one before it ended."""
    heard = [d for d in result.record.deliveries if d.placed is not None]
    return all(after.placed == before.placed + before.played for before, after in pairwise(heard))


def loud_s(result: Result) -> float:
    """Seconds of audible agent speech, in 10 ms blocks."""
    return sum(level > 1000 for level in levels(result)) * 0.01


def levels(result: Result) -> list[float]:
    agent = result.stereo[:, 1].astype(np.float64)
    blocks = agent[: agent.size // 240 * 240].reshape(-1, 240)
    return list(np.sqrt((blocks**2).mean(axis=1)))


def pitch_hz(samples: np.ndarray) -> float:
    """The loudest frequency of int16 (samples,) at 24 kHz."""
    spectrum = np.abs(np.fft.rfft(samples.astype(np.float64) * np.hanning(samples.size)))
    return float(np.argmax(spectrum) * RATE_HZ / samples.size)


def share_at(samples: np.ndarray, hz: float) -> float:
    """Share of the energy of `samples` within 60 Hz of `hz`."""
    power = np.abs(np.fft.rfft(samples.astype(np.float64))) ** 2
    frequencies = np.fft.rfftfreq(samples.size, 1 / RATE_HZ)
    return float(power[np.abs(frequencies - hz) < 60].sum() / max(power.sum(), 1e-9))
