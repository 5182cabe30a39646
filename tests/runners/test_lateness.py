"""Late frames: whose doing they are, and what they cost. All on a clock that is moved by hand."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from workbench import contract, datasets
from workbench.agents.base import AudioOut, Traits
from workbench.agents.registry import factory
from workbench.cases import AtTime, AudioRef, Case, Cue, Ending
from workbench.deciding import Decider
from workbench.episodes import LATE_S, AgentInfo, EpisodeRecord, PlayedCue, Sends, Stall, unusable
from workbench.runners import guard
from workbench.runners.episode import run_episode
from workbench.runners.guard import VirtualClock

CLIPS = {"turn": np.full(4800, 900, np.int16)}


def case(name, seconds):
    ref = AudioRef(path="x.wav", sha256="0" * 64, samples=4800)
    cue = Cue(id="turn", text="", start=AtTime(time_s=0.1), audio=ref)
    ending = Ending(continuous_s=seconds - 0.3)
    return Case(id=name, benchmark="t", conversation="c", stream="s", cues=(cue,), ending=ending)


class Time:
    """One time for everybody, moved on by 20 ms whenever every session waits; a blocking call moves it too."""

    def __init__(self, monkeypatch):
        self.now_s = 100.0
        guard._held.clear()
        monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: self.now_s))

    def clock(self):
        return HandMoved(self)

    async def go_on(self):
        while True:
            for _ in range(4):
                await asyncio.sleep(0)
            self.now_s += 0.02

    def play(self, sessions, seconds=10.0):
        """name -> record of sessions that run at once; sessions : name -> agent."""

        async def all_of_them():
            moving = asyncio.create_task(self.go_on())
            results = await asyncio.gather(
                *(run_episode(case(name, seconds), CLIPS, lambda a=a: a, self.clock) for name, a in sessions.items())
            )
            moving.cancel()
            return dict(zip(sessions, (result.record for result in results), strict=True))

        return asyncio.run(all_of_them())


class HandMoved:
    kind = "wall"

    def __init__(self, time):
        self.time = time

    def start(self):
        self.zero_s = self.time.now_s

    def now(self):
        return self.time.now_s - self.zero_s

    async def sleep_until(self, time_s):
        await asyncio.sleep(0)
        while self.now() < time_s - 1e-6:
            await asyncio.sleep(0)
        return max(0.0, self.now() - time_s)


class Streams:
    """Speaks without end, 20 ms at a time; holds the loop, or only itself, for `hold_s` every 100 frames."""

    def __init__(self, time, name="streams", hold_s=0.0, patiently=False):
        self.time, self.hold_s, self.patiently = time, hold_s, patiently
        self.traits = Traits(name, "1", "wall", turns="continuous")

    async def open(self, session, emit):
        self.emit, self.frames = emit, 0

    async def send(self, frame):
        self.frames += 1
        self.emit(AudioOut(np.full(480, 3000, np.int16)))
        if self.hold_s and self.frames % 100 == 0:
            until_s = self.time.now_s + self.hold_s
            if self.patiently:
                while self.time.now_s < until_s:
                    await asyncio.sleep(0)
            else:
                self.time.now_s = until_s

    async def close(self): ...


def test_one_that_blocks_among_sixteen_is_named_and_the_rows_of_the_others_are_unmeasurable(monkeypatch):
    time = Time(monkeypatch)
    sessions = {f"c{i}": Streams(time) for i in range(15)} | {"c15": Streams(time, "slow", hold_s=0.25)}
    records = time.play(sessions)
    for name, record in records.items():
        stalls = record.sends.stalls
        assert len(stalls) == 4  # every 2 s in 10 s, less the one that ends it
        assert {stall.by for stall in stalls} == {"the agent 'slow' in case c15"}
        assert all(stall.own == (name == "c15") for stall in stalls)
        assert all(stall.late_s == pytest.approx(0.23, abs=0.021) for stall in stalls)
        if name == "c15":
            assert unusable(record) is None  # its own doing is measured
        else:
            assert unusable(record) == "late frames: the agent 'slow' in case c15 held up the recording"
            first = stalls[0]
            assert unusable(record, 0.0, first.start_s - 0.1) is None
            assert unusable(record, first.end_s + 0.1, stalls[1].start_s - 0.1) is None


def test_alone_nobody_is_late(monkeypatch):
    time = Time(monkeypatch)
    (record,) = time.play({"c0": Streams(time)}).values()
    assert not record.sends.stalls and max(record.sends.late_s) < LATE_S and unusable(record) is None


def test_an_agent_that_waits_long_in_send_is_late_by_its_own_doing_and_holds_up_nobody(monkeypatch):
    time = Time(monkeypatch)
    records = time.play({"c0": Streams(time), "c1": Streams(time, "slow", hold_s=0.25, patiently=True)}, 5.0)
    assert not records["c0"].sends.stalls and unusable(records["c0"]) is None
    assert [stall.own for stall in records["c1"].sends.stalls] == [True, True]
    assert unusable(records["c1"]) is None


def test_what_nobody_in_the_process_did_was_the_machine(monkeypatch):
    time = Time(monkeypatch)

    class Paused(HandMoved):
        async def sleep_until(self, time_s):
            if time_s == pytest.approx(1.0):
                self.time.now_s += 0.5
            return await super().sleep_until(time_s)

    time.clock = lambda: Paused(time)
    # The pause falls into a step of this session, which is as far as anybody can see: it is no call of the agent.
    (record,) = time.play({"c0": Streams(time)}, 3.0).values()
    (stall,) = record.sends.stalls
    assert not stall.own and stall.by == "" and stall.late_s == pytest.approx(0.48, abs=0.021)
    assert unusable(record) == "late frames: the machine held up the recording"


def record_with(late_s, stalls=()):
    sends = Sends(frame_samples=480, frames=len(late_s), late_s=late_s, stalls=stalls)
    return SimpleNamespace(status="complete", sends=sends)


def test_records_from_before_are_judged_by_their_late_frames_alone():
    late = record_with((0.0,) * 50 + (0.3, 0.28) + (0.0,) * 50)
    assert unusable(late) == "late frames: the machine held up the recording"
    assert unusable(late, 0.0, 1.0) is None and unusable(late, 1.5, 2.0) is None
    assert unusable(record_with((LATE_S,) * 100)) is None
    own = Stall(start_s=1.02, end_s=1.32, late_s=0.3, by="the agent 'x' in case c", own=True)
    assert unusable(record_with(late.sends.late_s, (own,))) is None


def test_a_failed_case_is_not_measured():
    failed = SimpleNamespace(status="error", error=SimpleNamespace(kind="killed"))
    assert unusable(failed) == "error: killed"


# What benchmarks make of it -------------------------------------------------------------------------


def late_at(record, *times_s):
    """The record with a frame 0.3 s late at each of the times, and nobody to blame."""
    late_s = [0.0] * round(record.duration_s / 0.02)
    for time_s in times_s:
        late_s[round(time_s / 0.02)] = 0.3
    sends = Sends(frame_samples=480, frames=len(late_s), late_s=tuple(late_s))
    return record.model_copy(update={"clock": "wall", "sends": sends})


def test_an_ifeval_row_with_late_frames_up_to_its_window_is_unmeasurable(tiny_dataset):
    dataset = datasets.load(tiny_dataset)
    ifeval = contract.get("ifeval")
    case = next(case for case in dataset.cases if case.tags["probe"] == "C2")
    make = factory("oracle", benchmark=ifeval)
    record = asyncio.run(run_episode(case, dataset.clips(case), make, VirtualClock)).record
    w1_s = record.windows["trigger"][1]
    record = record.model_copy(update={"duration_s": w1_s + 2.0})
    none = np.empty((0, 2))
    (in_time,), (early,), (after,) = (
        ifeval.measure(case, late_at(record, *times), none, none) for times in ((), (1.0,), (w1_s + 0.2,))
    )
    assert in_time["reason"] is None and after["reason"] is None
    assert early["reason"] == "late frames: the machine held up the recording" and early["genuine_s"] is None
    assert list(Decider(ifeval, pd.DataFrame([early])).verdicts()["verdict"]) == ["unmeasurable"]


def test_only_the_mpe_rows_of_the_turn_with_late_frames_are_unmeasurable():
    mpe = contract.get("duplex-mpe")
    ref = AudioRef(path="x.wav", sha256="0" * 64, samples=24_000)
    cues = [Cue(id=f"t{k}", text="", label="N1", start=AtTime(time_s=10.0 * k), audio=ref) for k in range(3)]
    case = Case(id="c", benchmark="duplex-mpe", conversation="c", stream="s", cues=cues)
    record = EpisodeRecord(
        case="c", benchmark="duplex-mpe", status="complete", agent=AgentInfo(name="x", version="1"), clock="wall",
        policy="as_played", placement="arrival", system_prompt="", duration_s=30.0, workbench="0", started="",
        cues=tuple(PlayedCue(id=f"t{k}", start_s=10.0 * k, end_s=10.0 * k + 1) for k in range(3)),
        sends=Sends(frame_samples=480, frames=1500),
    )  # fmt: skip
    none = np.empty((0, 2))
    rows = mpe.measure(case, late_at(record, 10.5), none, none)
    late = {row["event"] for row in rows if str(row["reason"]).startswith("late frames")}
    assert late == {"1"} and {row["event"] for row in rows} == {"0", "1", "2"}
    # As many rows as without the late frame: they are unmeasurable, not gone.
    assert len(rows) == len(mpe.measure(case, late_at(record), none, none))
