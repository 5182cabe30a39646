"""Whatever an agent does, its own case is an error in words and the others are recorded."""

import asyncio
import os
import threading
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import wild_agents

from workbench import episodes
from workbench.agents.base import AgentError, AudioOut, Fault, Interrupted, Note, Text, Traits
from workbench.agents.registry import factory
from workbench.errors import InputError
from workbench.files import read_json
from workbench.runners import batch, episode
from workbench.runs import load_run


def run(dataset, out, make, **changes):
    return batch.run(batch.Plan(dataset, make, out, **changes))


def statuses(out):
    run = load_run(out)
    return {case_id: run.record(case_id).status for case_id in run.recorded()}


# A process that dies ----------------------------------------------------------------------------------


ENDS = {
    "c1": ("killed", "killed", "the process running it was killed, signal 9"),
    "c2": ("segfault", "killed", "the process running it was killed, signal 11"),
    "c3": ("os._exit", "killed", "the process running it ended by itself, exit code 3"),
    "c4": ("sys.exit", "agent_exception", "SystemExit: 4"),
}


@pytest.mark.parametrize("pacing", ["input", "wall"])
def test_a_death_is_an_error_of_its_own_case_and_twice_it_is_left_alone(six_cases, tmp_path, pacing):
    out, log = tmp_path / "run", tmp_path / "log"
    options = {"how": {case: how for case, (how, *_) in ENDS.items()}, "pacing": pacing, "log": str(log)}
    make = factory("python:wild_agents:Ends", options)
    first = run(six_cases, out, make, concurrency=2)
    assert first.recorded == 6 and first.failed == {"killed": 3, "agent_exception": 1} and not first.problems
    assert statuses(out) == {f"c{i}": "error" if f"c{i}" in ENDS else "complete" for i in range(6)}
    for case, (_, kind, words) in ENDS.items():
        error = load_run(out).record(case).error
        assert (error.kind, error.times) == (kind, 1) and words in error.message

    reported = [load_run(out).record(case).agent.reported["pid"] for case in ("c0", "c5")]
    assert os.getpid() not in reported

    again = run(six_cases, out, make, concurrency=2)
    assert (again.recorded, again.kept, again.failed) == (4, 2, first.failed)
    assert load_run(out).record("c1").error.times == 2

    third = run(six_cases, out, make, concurrency=2)
    assert (third.recorded, third.kept, third.failed) == (1, 5, first.failed)
    assert "2 times; it is left alone: remove" in third.words["killed"]
    assert Counter(log.read_text().split()) == {"c0": 1, "c1": 2, "c2": 2, "c3": 2, "c4": 3, "c5": 1}


def test_a_call_that_never_comes_back_is_given_up_and_told(six_cases, tmp_path, monkeypatch):
    monkeypatch.setattr(episode, "STUCK_S", 0.2)
    outcome = run(six_cases, tmp_path / "run", lambda: wild_agents.Waits(), concurrency=6)
    assert outcome.failed == {"stuck": 6} and "more than 0.2 s over one call" in outcome.words["stuck"]


# What it may do -------------------------------------------------------------------------------------


class Does(wild_agents.Mild):
    """Does something in one of its calls."""

    def __init__(self, what, where="send", pacing="input"):
        super().__init__(pacing)
        self.what, self.where = what, where

    async def act(self, where):
        if where == self.where and self.case == "c1":
            done = self.what(self)
            if asyncio.iscoroutine(done):
                await done

    async def open(self, session, emit):
        await super().open(session, emit)
        await self.act("open")

    async def send(self, frame):
        await super().send(frame)
        if self.frames == 5:
            await self.act("send")

    async def close(self):
        await self.act("close")


def raises(error):
    def act(agent):
        raise error

    return act


class Wordless(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Odd(BaseException):
    """Not even an Exception."""


class Deaf:
    """Runs on, however often it is cancelled."""

    async def __call__(self, agent):
        while agent.frames < 1000:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                agent.frames += 400


async def own_task_fails(agent):
    agent.task = asyncio.create_task(fails())  # kept, so that nobody collects it


async def fails():
    raise KeyError("listener")


async def own_task_exits(agent):
    agent.task = asyncio.create_task(leaves())


async def leaves():
    raise SystemExit(7)


def from_a_thread(agent):
    thread = threading.Thread(target=agent.emit, args=(Text(5),))
    thread.start()
    thread.join()


WRONG = {
    "exception": (raises(ValueError("broken")), "agent_exception", "ValueError: broken"),
    "its own kind": (raises(AgentError("refused", "no")), "refused", "no"),
    "kind of no text": (raises(AgentError(7, None)), "7", "None"),
    "sys.exit": (raises(SystemExit(2)), "agent_exception", "SystemExit: 2"),
    "cancelled": (raises(asyncio.CancelledError()), "agent_exception", "cancelled its own session"),
    "cancels": (lambda agent: asyncio.current_task().cancel(), "agent_exception", "cancelled its own session"),
    "timeout of its own": (raises(TimeoutError("db")), "agent_exception", "TimeoutError: db"),
    "surrogate in words": (raises(ValueError("a\ud800b")), "agent_exception", "ValueError: a?b"),
    "no words": (raises(Wordless()), "agent_exception", "Wordless: (no words)"),
    "no exception": (raises(Odd("odd")), "agent_exception", "Odd: odd"),
    "own task": (own_task_fails, "agent_exception", "KeyError: 'listener'"),
    "own task exits": (own_task_exits, "agent_exception", "SystemExit: 7"),
    "from a thread": (from_a_thread, "bad_event", "Text.text must be a string, found 5"),
}


@pytest.mark.parametrize("where", ["open", "send"])
@pytest.mark.parametrize("fault", WRONG)
@pytest.mark.parametrize("clock", ["virtual", "wall"])
def test_a_fault_is_an_error_in_words_and_other_sessions_go_on(six_cases, tmp_path, fault, where, clock):
    act, kind, words = WRONG[fault]
    out = tmp_path / "run"
    if fault.startswith("own task") and clock == "virtual":
        # A task only runs where its agent lets it, on a clock that never waits.
        act = lambda agent, start=act: both(start(agent), asyncio.sleep(0))  # noqa: E731
    outcome = run(six_cases, out, lambda: Does(act, where), clock=clock, concurrency=6)
    assert statuses(out) == {f"c{i}": "error" if i == 1 else "complete" for i in range(6)}
    assert outcome.failed == {kind: 1} and words in outcome.words[kind]
    assert read_json(episodes.record_path(out / "episodes", "c1"))["error"]["kind"] == kind


async def both(first, second):
    await first
    await second


EVENTS = {
    "lone surrogate": (Text("ab\ud800"), r"half of a surrogate pair \(\\ud800 at 2\)"),
    "item of no text": (AudioOut(np.zeros(480, np.int16), item=7), "AudioOut.item must be a string, found 7"),
    "item of a text": (Text("a", item=None), "Text.item must be a string, found None"),
    "item of an interruption": (Interrupted(item=b"x"), "Interrupted.item must be a string"),
    "object in a note": (Note("seen", {"at": object()}), "Note.data holds a object"),
    "note without names": (Note("seen", [1]), "Note.data must be a mapping"),
    "no event": ("hello", "an agent emits AudioOut, Text"),
    "rate 0": (AudioOut(np.zeros(480, np.int16), rate_hz=0), "rate_hz must be a whole number of Hz from 4000"),
    "rate of no number": (AudioOut(np.zeros(480, np.int16), rate_hz="24k"), "rate_hz must be a whole number"),
    "two channels": (AudioOut(np.zeros((480, 2), np.int16)), r"shape \(samples,\), found \(480, 2\)"),
    "list": (AudioOut([1, 2, 3]), r"shape \(samples,\), found list"),
    "int32": (AudioOut(np.zeros(480, np.int32)), "must be int16, or floats in .-1, 1., found int32"),
    "bool": (AudioOut(np.zeros(480, bool)), "found bool"),
    "complex": (AudioOut(np.zeros(480, complex)), "found complex128"),
    "big-endian": (AudioOut(np.zeros(480, ">i2")), "found int16 in the other byte order"),
    "big-endian floats": (AudioOut(np.zeros(480, ">f4")), "found float32 in the other byte order"),
    "objects": (AudioOut(np.zeros(480, object)), "found object"),
    "16-bit floats": (AudioOut(np.full(480, 12000.0, np.float32)), "floats up to 12000, where full scale is 1"),
    "not a number": (AudioOut(np.full(480, np.nan, np.float32)), "holds nan at sample 0"),
    "infinite": (AudioOut(np.r_[np.zeros(7), np.inf].astype(np.float64)), "holds inf at sample 7"),
}


AT_BOTH_RATES = [
    (name, replace(event, rate_hz=rate_hz) if rate_hz else event)
    for name, (event, _) in EVENTS.items()
    for rate_hz in ((24_000, 16_000) if getattr(event, "rate_hz", None) == 24_000 else (None,))
]


@pytest.mark.parametrize(("name", "event"), AT_BOTH_RATES, ids=lambda value: value if isinstance(value, str) else "")
def test_what_cannot_be_used_is_refused_in_words(six_cases, tmp_path, name, event):
    words = EVENTS[name][1]
    outcome = run(six_cases, tmp_path / "run", lambda: Does(lambda agent: agent.emit(event)), concurrency=6)
    assert outcome.failed == {"bad_event": 1}
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(outcome.words["bad_event"])


def test_what_only_looks_odd_is_kept_as_plain_values(six_cases, tmp_path):
    data = {"n": np.int64(3), "x": np.float32(0.5), "of": (1, 2), "all": np.arange(2), "kind": "k", "self": 1, 4: None}
    notes = [Note("seen", data), Note("reported", {"model": np.str_("m"), "nan": float("nan")})]
    out = tmp_path / "run"
    outcome = run(six_cases, out, lambda: Does(lambda agent: [agent.emit(note) for note in notes] and None))
    record = load_run(out).record("c1")
    assert not outcome.failed and record.agent.reported.items() >= {"model": "m", "nan": None}.items()
    (seen,) = [event.data for event in record.events if event.kind == "seen"]
    assert seen == {"n": 3, "x": 0.5, "of": [1, 2], "all": [0, 1], "kind": "k", "self": 1, "4": None}


@pytest.mark.parametrize("clock", ["virtual", "wall"])
def test_closing_that_fails_or_never_ends_is_only_noted(six_cases, tmp_path, monkeypatch, clock):
    monkeypatch.setattr(episode, "CLOSE_S", 0.1)
    for name, act, words in [
        ("fails", raises(OSError("gone")), "OSError: gone"),
        ("exits", raises(SystemExit(1)), "SystemExit: 1"),
        ("cancelled", raises(asyncio.CancelledError()), "cancelled its own session"),
        ("never ends", lambda agent: asyncio.Event().wait(), "more than 0.1 s to close"),
    ]:
        out = tmp_path / name
        outcome = run(six_cases, out, lambda act=act: Does(act, "close"), clock=clock, concurrency=6)
        assert outcome.recorded == 6 and not outcome.failed
        event = load_run(out).record("c1").events[-1]
        assert event.kind == "close_failed" and words in event.data["message"]


def test_an_agent_that_is_deaf_to_being_cancelled_holds_up_nobody(six_cases, tmp_path, monkeypatch):
    monkeypatch.setattr(episode, "STUCK_S", 0.1)
    outcome = run(six_cases, tmp_path / "run", lambda: Does(Deaf()), clock="wall", concurrency=6)
    assert outcome.recorded == 6 and outcome.failed == {"stuck": 1}


# What it is -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("no more"), SystemExit("no more"), asyncio.CancelledError("no more")])
@pytest.mark.parametrize("clock", ["virtual", "wall"])
def test_an_agent_that_can_be_made_only_sometimes_costs_those_cases(six_cases, tmp_path, clock, error):
    made = []

    def make():
        made.append(1)
        if len(made) == 3:  # the first is only looked at
            raise error
        return wild_agents.Mild()

    outcome = run(six_cases, tmp_path / "run", make, clock=clock, concurrency=6)
    assert outcome.recorded == 6 and outcome.failed == {"agent_not_made": 1}
    assert f"{type(error).__name__}: no more" in outcome.words["agent_not_made"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pacing": "sundial"}, "pacing='sundial'; pacing must be 'wall' or 'input'"),
        ({"placement": "anywhere"}, "placement must be 'arrival' or 'sample_clock'"),
        ({"turns": "often"}, "turns must be 'events' or 'continuous' or 'batch'"),
        ({"name": 5}, "name must be a str"),
        ({"settings": [1]}, "settings must be a mapping"),
        ({"settings": {"model": object()}}, "Traits.settings holds a object"),
    ],
)
def test_unknown_traits_are_refused_before_the_run(six_cases, tmp_path, change, words):
    class Odd(wild_agents.Mild):
        def __init__(self):
            self.traits = Traits(**({"name": "odd", "version": "1", "pacing": "input"} | change))

    with pytest.raises(InputError, match=words):
        run(six_cases, tmp_path / "run", Odd)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("lacking", ["open", "send", "close"])
def test_an_agent_without_a_call_is_refused_before_the_run(six_cases, tmp_path, lacking):
    agent = type("Half", (wild_agents.Mild,), {lacking: None})
    with pytest.raises(InputError, match=f"cannot be made: it has no `{lacking}`"):
        run(six_cases, tmp_path / "run", agent)


def test_settings_with_tuples_and_numpy_are_the_same_agent_when_the_run_goes_on(six_cases, tmp_path):
    def make():
        return wild_agents.Mild(layers=(1, 2), gain=np.float64(0.5), taps=np.arange(3), seeds={4: np.int8(1)})

    out = tmp_path / "run"
    assert run(six_cases, out, make).recorded == 6
    assert run(six_cases, out, make).kept == 6
    settings = load_run(out).record("c0").agent.settings
    assert settings == {"layers": [1, 2], "gain": 0.5, "taps": [0, 1, 2], "seeds": {"4": 1}}


@pytest.mark.parametrize("error", ["raise RuntimeError('no GPU')", "raise SystemExit(3)", "def broken(:"])
def test_a_module_that_cannot_be_imported_is_said(tmp_path, monkeypatch, error):
    name = f"broken_{abs(hash(error))}"
    (tmp_path / f"{name}.py").write_text(error)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=f"'python:{name}:Agent' cannot be loaded"):
        factory(f"python:{name}:Agent")


# What is its own ------------------------------------------------------------------------------------


class Reuses(wild_agents.Mild):
    """Gives the same buffer again and again, and writes into the frame that it is sent."""

    async def open(self, session, emit):
        await super().open(session, emit)
        self.buffer = np.zeros(480, np.int16)

    async def send(self, frame):
        self.frames += 1
        frame[:] = 12345
        self.buffer[:] = self.frames
        self.emit(AudioOut(self.buffer))


def test_a_buffer_used_again_and_a_frame_written_to_change_nothing(six_cases, tmp_path):
    run(six_cases, tmp_path / "run", Reuses)
    loaded = load_run(tmp_path / "run")
    stereo = episodes.load_audio(loaded.episodes, loaded.record("c0"))
    user, agent = np.round(stereo * 32768).astype(int).T
    assert np.array_equal(np.unique(user), [0, 900]) and np.count_nonzero(user) == 4800
    frames = agent[480 : agent.size // 480 * 480].reshape(-1, 480)
    assert np.array_equal(frames, np.repeat(np.arange(1, len(frames) + 1)[:, None], 480, axis=1))


def test_events_after_the_end_are_not_heard(six_cases, tmp_path):
    kept = []
    run(six_cases, tmp_path / "run", lambda: Does(lambda agent: kept.append(agent.emit)))
    kept[0](Fault("late", "far too late"))
    assert statuses(tmp_path / "run")["c1"] == "complete"
