"""Runs: resumable after any death, refusing to mix, each case whole or absent."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from workbench import contract, datasets, episodes
from workbench.agents.base import AgentError, Traits, TurnEnd
from workbench.agents.registry import factory
from workbench.errors import InputError
from workbench.files import sha256_of
from workbench.runners import batch
from workbench.runs import load_run


def plan(dataset, out, agent="silent", **changes):
    loaded = datasets.load(dataset)
    make = factory(agent, benchmark=contract.get("ifeval")) if isinstance(agent, str) else agent
    return batch.Plan(loaded, make, out, **({"concurrency": 1} | changes))


def test_a_run_is_self_contained_and_every_case_is_there(tiny_dataset, tmp_path):
    outcome = batch.run(plan(tiny_dataset, tmp_path / "run", "oracle"))
    run = load_run(tmp_path / "run")
    assert outcome.recorded == len(run.cases) == len(run.recorded()) and not outcome.failed
    assert run.fingerprint == datasets.load(tiny_dataset).header.fingerprint
    assert run.meta.agent["name"] == "oracle" and run.meta.agent["privileged"] and run.meta.clock == "virtual"
    record = run.record(run.recorded()[0])
    stereo, rate_hz = soundfile.read(episodes.stereo_path(run.episodes, record.case), dtype="int16")
    assert rate_hz == 24000 and stereo.shape == (round(record.duration_s * 24000), 2)
    assert record.sends.frames * 480 <= stereo.shape[0] <= record.sends.frames * 480 + 480


def test_user_audio_is_the_datasets_own_to_the_sample(tiny_dataset, tmp_path):
    batch.run(plan(tiny_dataset, tmp_path / "run", "oracle"))
    run, dataset = load_run(tmp_path / "run"), datasets.load(tiny_dataset)
    for case_id in run.recorded():
        stereo, _ = soundfile.read(episodes.stereo_path(run.episodes, case_id), dtype="int16")
        user = stereo[:, 0].copy()
        record = run.record(case_id)
        for cue_id, clip in dataset.clips(run.cases[case_id]).items():
            start = record.cue(cue_id).start_s
            if start is None:
                continue
            at = round(start * 24000)
            assert np.array_equal(user[at : at + clip.size], clip)
            user[at : at + clip.size] = 0
        assert not user.any()


def test_a_second_call_keeps_everything(tiny_dataset, tmp_path):
    batch.run(plan(tiny_dataset, tmp_path / "run"))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*") if path.is_file()}
    outcome = batch.run(plan(tiny_dataset, tmp_path / "run"))
    assert outcome.recorded == 0 and outcome.kept == 12
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*") if path.is_file()}


def test_killed_at_any_moment_it_goes_on_where_it_was(tiny_dataset, tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "workbench", "run", str(tiny_dataset), "--agent", "oracle", "--out", str(out)]
    started = subprocess.Popen(
        [*command, "--concurrency", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        while len(list(out.glob("episodes/*.rec.json"))) < 3 and started.poll() is None:
            time.sleep(0.005)
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    survivors = {path.name: path.read_bytes() for path in out.glob("episodes/*.rec.json")}
    (out / "episodes" / ".part-abc.wav").write_bytes(b"half")
    outcome = batch.run(plan(tiny_dataset, out, "oracle"))
    assert outcome.kept == len(survivors) >= 3 and outcome.recorded == 12 - len(survivors)
    for name, content in survivors.items():
        assert json.loads(content)["status"] == "complete"
        assert (out / "episodes" / name).read_bytes() == content
    assert not list(out.glob("episodes/.part-*"))
    run = load_run(out)
    for case_id in run.recorded():
        episodes.load_audio(run.episodes, run.record(case_id))


def test_a_damaged_record_is_done_again(tiny_dataset, tmp_path):
    batch.run(plan(tiny_dataset, tmp_path / "run"))
    run = load_run(tmp_path / "run")
    path = episodes.record_path(run.episodes, run.recorded()[0])
    path.write_text("{half")
    outcome = batch.run(plan(tiny_dataset, tmp_path / "run"))
    assert (outcome.recorded, outcome.kept) == (1, 11)


def test_another_agent_dataset_or_policy_is_refused(tiny_dataset, dataset_copy, tmp_path):
    out = tmp_path / "run"
    batch.run(plan(tiny_dataset, out))
    with pytest.raises(InputError, match=r"another agent.*'silent' there, 'babble' now"):
        batch.run(plan(tiny_dataset, out, "babble"))
    with pytest.raises(InputError, match="another policy"):
        batch.run(plan(tiny_dataset, out, policy="as_delivered"))
    loaded = datasets.load(dataset_copy)
    datasets.write(dataset_copy, list(loaded.cases[:-1]), version="1", author="x", speech=None)
    with pytest.raises(InputError, match="another dataset"):
        batch.run(plan(dataset_copy, out))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        batch.run(plan(tiny_dataset, tmp_path / "full"))


def test_clock_and_pacing_must_fit(tiny_dataset, tmp_path):
    with pytest.raises(InputError, match="real time"):
        batch.run(plan(tiny_dataset, tmp_path / "run", lambda: Flaky(0), clock="virtual"))
    with pytest.raises(InputError, match="no clock 'sundial'"):
        batch.run(plan(tiny_dataset, tmp_path / "run", clock="sundial"))


def test_audio_that_vanished_costs_only_its_own_cases(dataset_copy, tmp_path):
    dataset = datasets.load(dataset_copy)
    (dataset_copy / dataset.cases[0].cues[0].audio.path).unlink()
    outcome = batch.run(plan(dataset_copy, tmp_path / "run"))
    touched = [case for case in dataset.cases if case.stream == dataset.cases[0].stream]
    assert outcome.recorded == len(dataset.cases) - len(touched)
    assert len(outcome.problems) == len(touched) and "is missing" in outcome.problems[0]


class Flaky:
    """Lives in real time; fails to open a number of times, and says whether to try again."""

    tries = 0

    def __init__(self, failures, retry=True):
        self.traits = Traits("flaky", "1", "wall")
        self.failures, self.retry = failures, retry

    async def open(self, session, emit):
        Flaky.tries += 1
        if Flaky.tries <= self.failures:
            raise AgentError("busy", "too many sessions", retry=self.retry)
        self.emit = emit

    async def send(self, frame):
        self.emit(TurnEnd("a"))

    async def close(self): ...


def short(dataset_folder, tmp_path):
    """One case whose clips last a third of a second, for the wall clock."""
    loaded = datasets.load(dataset_folder)
    case = next(case for case in loaded.cases if case.tags["probe"] == "C2")
    cues = []
    for cue in case.cues:
        path = f"audio/{cue.id}.wav"
        soundfile.write(tmp_path / path, np.full(8000, 900, np.int16), 24000)
        ref = {"path": path, "samples": 8000, "sha256": sha256_of(tmp_path / path)}
        cues.append(cue.model_copy(update={"audio": cue.audio.model_copy(update=ref)}))
    ending = case.ending.model_copy(update={"tail_s": 0.0, "max_wait_s": 0.1, "flush_s": 0.0})
    return [case.model_copy(update={"cues": tuple(cues), "ending": ending, "id": f"short{i}"}) for i in range(2)]


@pytest.mark.parametrize(
    ("failures", "retry", "failed", "tries"), [(1, True, 0, 3), (1, False, 1, 2), (99, True, 2, 6)]
)
def test_failed_sessions_are_tried_again_only_where_that_may_help(
    tiny_dataset, tmp_path, failures, retry, failed, tries
):
    (tmp_path / "dataset" / "audio").mkdir(parents=True)
    cases = short(tiny_dataset, tmp_path / "dataset")
    datasets.write(tmp_path / "dataset", cases, version="1", author="x", speech=None)
    Flaky.tries = 0
    outcome = batch.run(plan(tmp_path / "dataset", tmp_path / "run", lambda: Flaky(failures, retry)))
    assert outcome.recorded == 2 and outcome.failed.total() == failed and Flaky.tries == tries
    Flaky.tries = 99
    again = batch.run(plan(tmp_path / "dataset", tmp_path / "run", lambda: Flaky(0)))
    assert again.recorded == failed and not again.failed


async def test_a_run_can_be_made_where_an_event_loop_runs_already(tiny_dataset, tmp_path):
    assert batch.run(plan(tiny_dataset, tmp_path / "run")).recorded == 12


def test_ctrl_c_leaves_a_resumable_run(tiny_dataset, tmp_path):
    out = Path(tmp_path / "run")
    command = [sys.executable, "-m", "workbench", "run", str(tiny_dataset), "--agent", "oracle", "--clock", "wall",
               "--out", str(out)]  # fmt: skip
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (out / "episodes").exists() and started.poll() is None:
        time.sleep(0.02)
    time.sleep(0.5)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate()
    assert started.returncode == 130 and "the same command goes on" in said and "Traceback" not in said
    assert load_run(out).recorded() == []


@pytest.mark.parametrize("spoil", ["missing", "cut"])
def test_a_spoilt_recording_is_done_again(tiny_dataset, tmp_path, spoil):
    batch.run(plan(tiny_dataset, tmp_path / "run"))
    run = load_run(tmp_path / "run")
    path = episodes.stereo_path(run.episodes, run.recorded()[0])
    if spoil == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:50_000])
    outcome = batch.run(plan(tiny_dataset, tmp_path / "run"))
    assert (outcome.recorded, outcome.kept) == (1, 11)


@pytest.mark.parametrize("make", [lambda: None, lambda: object(), lambda: 1 / 0])
def test_an_agent_that_cannot_be_made_is_the_users_to_mend(tiny_dataset, tmp_path, make):
    with pytest.raises(InputError, match="cannot be made"):
        batch.run(plan(tiny_dataset, tmp_path / "run", make))
