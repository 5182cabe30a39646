"""Dask: what a job carries, and the same results from workers that were started in another folder."""

import asyncio
import pickle
import subprocess
import sys

import pytest
from distributed import LocalCluster
from judges.judge_runs import make_run

from workbench import contract, datasets
from workbench.agents.registry import factory
from workbench.benchmarks.ifeval.judging import JUDGE
from workbench.contract import BuildOptions
from workbench.judges.ask import FarBackend, OfflineJudge
from workbench.judges.batch import judge_run
from workbench.judges.records import load_latest
from workbench.parallel import pmap
from workbench.runners import batch, replay
from workbench.runs import load_run
from workbench.scoring import measure_run
from workbench.vad import VadSettings


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A cluster of processes that live in another folder than the tests."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, worker_dashboard_address=None) as made:
        with_client = made.get_client()
        with_client.run(lambda: __import__("os").chdir(elsewhere))
        yield made.scheduler_address


@pytest.mark.parametrize("work", ["run", "import"])
def test_a_job_carries_its_own_case_and_no_other(tmp_path, monkeypatch, work, capsys):
    contract.get("ifeval").build(BuildOptions(tmp_path / "d", audio=False))
    dataset = datasets.load(tmp_path / "d")
    sent = []

    def weighed(function, items, **options):
        sent.extend(len(pickle.dumps((function, item))) for item in items)
        return iter(())

    if work == "run":
        monkeypatch.setattr(batch, "pmap", weighed)
        make = factory("oracle", benchmark=contract.get("ifeval"))
        batch.run(batch.Plan(dataset, make, tmp_path / "run", concurrency=1))
    else:
        monkeypatch.setattr(replay, "pmap", weighed)
        (tmp_path / "theirs").mkdir()
        for case in dataset.cases:
            (tmp_path / "theirs" / f"{case.id}.wav").touch()
        replay.import_recordings(replay.Source(dataset, tmp_path / "theirs", "x"), tmp_path / "run")
    whole, manifest = len(pickle.dumps(dataset)), (tmp_path / "d" / "cases.jsonl").stat().st_size
    with capsys.disabled():
        print(f"\n{work}: {len(sent)} jobs carry {sum(sent):,} bytes, {max(sent):,} at most; the dataset is {whole:,}")
    assert len(sent) == len(dataset.cases) == 1038
    assert max(sent) < whole / 50 and sum(sent) < 4 * manifest


def halved(number):
    return number / 2


OWN = """
from workbench.agents.base import Traits
class Mute:
    traits = Traits("mute", "1", "input")
    async def open(self, session, emit): ...
    async def send(self, frame): ...
    async def close(self): ...
"""


def test_workers_in_another_folder_find_the_users_own_class(tiny_dataset, tmp_path, address):
    (tmp_path / "my_agents.py").write_text(OWN)
    command = [
        sys.executable,
        "-m",
        "workbench",
        "run",
        tiny_dataset,
        "--agent",
        "python:my_agents:Mute",
        "--out",
        "run",
    ]
    done = subprocess.run(
        [*map(str, command), "--dask", address], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and "12 cases recorded" in done.stdout, done.stderr
    assert len(load_run(tmp_path / "run").recorded()) == 12


def test_scores_from_dask_are_those_from_here(tiny_dataset, tmp_path, address, monkeypatch):
    make = factory("oracle", benchmark=contract.get("ifeval"))
    batch.run(batch.Plan(datasets.load(tiny_dataset), make, tmp_path / "run", concurrency=1))
    monkeypatch.chdir(tmp_path)
    run, energy = load_run("run"), VadSettings(detector="energy")
    (run.episodes / f"{run.recorded()[0]}.stereo.wav").write_bytes(b"spoilt")
    far, problems = measure_run(run, energy, dask=address)
    assert len(problems) == 1 and "cannot be read as audio" in problems[0]
    (run.spans / f"{energy.key()}.parquet").unlink()
    here, told = measure_run(run, energy)
    assert told[0].split(": ")[0] == problems[0].split(": ")[0] and far.equals(here)


def test_judgements_from_dask_are_those_from_here(tmp_path, address):
    here, there = (make_run(tmp_path / name) for name in ("here", "there"))
    one = asyncio.run(judge_run(here, JUDGE, OfflineJudge()))
    two = asyncio.run(judge_run(there, JUDGE, FarBackend(OfflineJudge(), address)))
    assert one.folder.name == two.folder.name and two.tally.judged == one.tally.judged == 16
    values = [{key: line.values for key, line in load_latest(made.folder).items()} for made in (one, two)]
    assert values[0] == values[1]


class Fault(Exception):
    """As servers' faults are: made of more than their words."""

    def __init__(self, kind, message):
        self.kind = kind
        super().__init__(message)


class Refusing(OfflineJudge):
    async def ask(self, judge, item, key):
        raise Fault("auth", "no such key")


def test_what_a_judge_raises_on_dask_arrives_as_it_was(tmp_path, address):
    with pytest.raises(Fault, match="no such key") as told:
        asyncio.run(judge_run(make_run(tmp_path / "run"), JUDGE, FarBackend(Refusing(), address)))
    assert told.value.kind == "auth"


def test_a_worker_says_which_module_it_lacks(tmp_path, address, monkeypatch):
    (tmp_path / "only_here.py").write_text("def twice(n): return 2 * n")
    monkeypatch.syspath_prepend(tmp_path)
    from only_here import twice

    ((_, result, error),) = pmap(twice, [2], dask=address)
    assert result is None and "lacks the module 'only_here'; install it" in str(error)
    monkeypatch.chdir(tmp_path)
    assert [result for _, result, _ in pmap(twice, [2], dask=address)] == [4]


def test_one_bad_item_on_dask_is_handed_back(address):
    found = {item: (result, type(error)) for item, result, error in pmap(halved, [2, "x"], dask=address)}
    assert found == {2: (1.0, type(None)), "x": (None, TypeError)}
