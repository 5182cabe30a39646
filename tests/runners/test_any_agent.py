"""Agents that emit anything at any time from any thread: what is kept, whatever they do."""

import asyncio
import math
import threading

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from workbench.agents.base import AudioOut, Fault, Interrupted, Note, Text, Traits, TurnEnd
from workbench.cases import AfterOnset, AfterTurn, AtTime, AtWord, AudioRef, Case, Cue, Ending
from workbench.episodes import EpisodeRecord
from workbench.runners.episode import run_episode
from workbench.runners.guard import VirtualClock
from workbench.runners.recorder import replay

CLIPS = {"first": np.full(2400, 900, np.int16), "second": np.full(2400, 901, np.int16)}

items = st.sampled_from(["", "a", "b"]) | st.text(max_size=3) | st.sampled_from([None, 7, b"x"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=4)
    | st.binary(max_size=2) | st.sampled_from([object(), np.int64(3), np.arange(2), math.inf, "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
dtypes = st.sampled_from(["int16", "float32", "float64", ">i2", "int32", "bool", "complex64", "float16", "uint8", "O"])
samples = (
    st.integers(0, 30_000).map(lambda count: np.full(count, 3000, np.int16))
    | dtypes.flatmap(
        lambda dtype: arrays.arrays(dtype, st.integers(0, 40), elements=st.just(1) if dtype == "O" else None)
    )
    | st.sampled_from([np.zeros((3, 2)), np.float32(1), [1, 2], None])
)
events = st.one_of(
    st.builds(AudioOut, samples, items, st.sampled_from([24_000, 24_000, 16_000, 8_000, 0, -1, 44_100.0, "24k"])),
    st.builds(Text, st.text(st.characters(), max_size=12) | st.sampled_from(["wait ", "\ud800", 5]), items),
    st.builds(Interrupted, items),
    st.builds(TurnEnd, items),
    st.builds(Note, st.sampled_from(["reported", "seen", 3]), anything),
    st.builds(Fault, anything, anything, st.booleans()),
    anything,
)
deeds = st.tuples(st.integers(0, 60), st.sampled_from(["call", "task", "thread"]), events)


class Anyhow:
    """Emits what it is told in the frame it is told, from its call, from a task or from a thread."""

    def __init__(self, script, turns, placement):
        self.traits = Traits("anyhow", "1", "input", turns=turns, placement=placement)
        self.script, self.threads, self.raised = script, [], []

    async def open(self, session, emit):
        self.emit, self.frames = emit, 0
        await self.send(np.zeros(480, np.int16))

    async def send(self, frame):
        for _, how, event in [deed for deed in self.script if deed[0] == self.frames]:
            if how == "call":
                self.safely(event)
            elif how == "task":
                await asyncio.create_task(self.later(event))
            else:
                self.threads.append(threading.Thread(target=self.safely, args=(event,)))
                self.threads[-1].start()
        self.frames += 1
        frame[:] = -1

    async def later(self, event):
        await asyncio.sleep(0)
        self.safely(event)

    def safely(self, event):
        try:
            self.emit(event)
        except BaseException as error:
            self.raised.append(error)

    async def close(self):
        for thread in self.threads:
            thread.join()


def case(rule):
    ref = AudioRef(path="x.wav", sha256="0" * 64, samples=2400)
    starts = {"first": AtTime(time_s=0.06), "second": rule}
    cues = tuple(Cue(id=name, text="", start=start, audio=ref) for name, start in starts.items())
    ending = Ending(tail_s=0.1, max_wait_s=0.3, flush_s=0.1, continuous_s=0.2, batch_s=0.1)
    return Case(id="c", benchmark="t", conversation="c", stream="s", cues=cues, ending=ending)


rules = st.sampled_from(
    [
        AfterTurn(max_wait_s=0.3, quiet_s=0.1),
        AfterOnset(delay_s=0.1, max_wait_s=0.4),
        AtWord(word="wait", max_wait_s=0.4),
    ]
)


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    script=st.lists(deeds, max_size=12),
    rule=rules,
    turns=st.sampled_from(["events", "continuous"]),
    placement=st.sampled_from(["arrival", "sample_clock"]),
    policy=st.sampled_from(["as_played", "as_delivered"]),
)
def test_whatever_an_agent_emits_the_record_is_whole_and_the_users_side_is_its_own(
    script, rule, turns, placement, policy
):
    agent = Anyhow(script, turns, placement)
    result = asyncio.run(run_episode(case(rule), CLIPS, lambda: agent, VirtualClock, policy))
    record = result.record
    # Emitting never raises into the agent, and the record can be written and read as it is.
    assert not agent.raised
    assert EpisodeRecord.model_validate_json(record.model_dump_json()).model_dump_json() == record.model_dump_json()
    # An error says of what kind it is; an agent that gave only what can be used has none.
    assert (record.status == "error") == (record.error is not None)
    assert record.status == "complete" or record.error.message is not None
    # The user's side is the clips where the record says, and zeros elsewhere.
    expected = np.zeros(record.sends.frames * 480, np.int16)
    for cue in record.cues:
        if cue.start_s is not None:
            at = round(cue.start_s * 24_000)
            part = CLIPS[cue.id][: expected.size - at]
            expected[at : at + part.size] += part
    if result.stereo is None:
        assert record.duration_s == 0
        return
    assert np.array_equal(result.stereo[: expected.size, 0], expected) and not result.stereo[expected.size :, 0].any()
    # The agent's side follows from the log, sample by sample; what was cut is counted.
    placed = [result.stereo[d.placed : d.placed + d.played, 1] for d in record.deliveries if d.placed is not None]
    delivered = result.delivered if result.delivered is not None else np.concatenate([*placed, np.zeros(0, np.int16)])
    assert np.array_equal(replay(record.deliveries, delivered, result.stereo.shape[0]), result.stereo[:, 1])
    assert sum(d.samples - d.played for d in record.deliveries) == record.cut_samples
