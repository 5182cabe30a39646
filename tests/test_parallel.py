"""The map: an item that ends its process costs itself alone, and no process outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import wild_agents

from workbench.errors import InputError
from workbench.parallel import NotPortable, WorkerDied, pmap

TESTS = Path(__file__).parent


def results(jobs, **options):
    return {job[1]: (result, error) for job, result, error in pmap(wild_agents.work, jobs, **options)}


@pytest.mark.parametrize("workers", [2, 1])
def test_an_item_that_ends_its_process_is_told_how_and_all_others_are_done(workers):
    deaths = {
        "killed": "the process running it was killed, signal 9",
        "segfault": "the process running it was killed, signal 11",
        "os._exit": "the process running it ended by itself, exit code 3",
        "sys.exit": r"it raised SystemExit\(4\)",
        "hangs": "did not come back and the process running it was ended",
    }
    jobs = [("fine", 0), *((how, index + 1) for index, how in enumerate(deaths)), *(("fine", n) for n in range(10, 16))]
    found = results(jobs, workers=workers, isolate=True)
    assert found.keys() == {value for _, value in jobs}
    for how, value in jobs:
        result, error = found[value]
        if how == "fine":
            assert error is None and result[0] == 2 * value and result[1] != os.getpid()
        else:
            assert isinstance(error, WorkerDied) and isinstance(error, InputError)
            with pytest.raises(WorkerDied, match=deaths[how]):
                raise error


def test_faults_of_items_come_back_whatever_they_are_made_of():
    found = results([("raises", 1), ("own argument", 2), ("spoils", 3), ("fine", 4)], workers=2)
    assert isinstance(found[1][1], ZeroDivisionError) and isinstance(found[3][1], InputError)
    assert "Awkward: awkward" in str(found[2][1]) and found[4][0][0] == 8


def test_one_worker_is_this_process_unless_it_must_not_be():
    assert results([("fine", 1)], workers=1)[1][0][1] == os.getpid()
    assert results([("fine", 1)], workers=1, isolate=True)[1][0][1] != os.getpid()
    assert isinstance(results([("sys.exit", 1)], workers=1)[1][1], WorkerDied)


def test_what_cannot_be_sent_is_said():
    (found,) = [error for _, _, error in pmap(lambda job: job, [1], workers=2)]
    assert isinstance(found, NotPortable)


def running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().split()[2] != "Z"


def gone(pid, within_s=30):
    until = time.monotonic() + within_s
    while running(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not running(pid)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_its_parent(tmp_path, how):
    paths = [str(tmp_path / name) for name in "ab"]
    script = (
        f"from workbench.parallel import pmap; import wild_agents; list(pmap(wild_agents.linger, {paths}, workers=2))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    parent = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    pids = []
    while len(pids) < 2 and time.monotonic() < until:
        time.sleep(0.02)
        pids = [int(path.read_text()) for path in tmp_path.iterdir() if path.read_text()]
    assert len(pids) == 2
    parent.send_signal(how)
    parent.wait(timeout=60)
    assert all(gone(pid) for pid in pids)


def test_a_script_without_a_guard_is_not_run_again_by_its_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import wild_agents as w; from workbench.parallel import pmap; print('ran')\n"
        "print(sum(result[0] for _, result, _ in pmap(w.work, [('fine', 1), ('fine', 2)], workers=2)))\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr, done.returncode) == (["ran", "6"], "", 0)


def test_work_is_ended_where_the_caller_stops(tmp_path):
    path = tmp_path / "pid"
    going = pmap(wild_agents.work_or_linger, [("fine", 1), ("linger", str(path))], workers=2)
    assert next(going)[0] == ("fine", 1)
    until = time.monotonic() + 60
    while not (path.exists() and path.read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    going.close()
    assert gone(int(path.read_text()))


def test_on_dask_too_the_culprit_alone_is_an_error():
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    # With no second chance at all, whatever stood beside the culprit in its worker is suspected with it.
    with dask.config.set({"distributed.scheduler.allowed-failures": 0, "distributed.worker.daemon": False}):
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster:
            jobs = [("fine", 1), ("killed", 2), ("fine", 3), ("sys.exit", 4), ("fine", 5)]
            found = results(jobs, dask=cluster.scheduler_address)
    assert {value: error is None for value, (_, error) in found.items()} == {
        1: True,
        2: False,
        3: True,
        4: False,
        5: True,
    }
    assert isinstance(found[2][1], WorkerDied) and "was killed" in str(found[2][1])
    assert isinstance(found[4][1], WorkerDied)
