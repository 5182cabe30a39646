"""One writer a folder: the second is told who holds it, and a dead holder stands in nobody's way."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from workbench import datasets, files
from workbench.agents.registry import factory
from workbench.contract import BuildOptions
from workbench.errors import InputError
from workbench.judges.records import Log
from workbench.runners import batch
from workbench.runners.replay import Source, import_recordings
from workbench.runs import load_run
from workbench.scoring import score_run

HOLD = """
import sys
from pathlib import Path
from workbench.files import writing
with writing(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path):
    """A folder, and the process that is writing into it."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "held")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"held\n"
    yield tmp_path / "held", holder
    holder.kill()
    holder.communicate()


def test_the_second_says_who_holds_it_and_a_dead_holders_lock_is_taken_over(held):
    folder, holder = held
    with pytest.raises(InputError) as told, files.writing(folder):
        pass
    assert f"is being written by process {holder.pid} on {socket.gethostname()} since 20" in str(told.value)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert (folder / files.HOLDER).exists()  # what a killed process leaves behind
    with files.writing(folder):
        assert str(os.getpid()) in (folder / files.HOLDER).read_text()
    assert files.is_empty(folder)


def test_every_writer_of_a_folder_asks_for_it(held, tiny_dataset, tmp_path):
    import workbench as wb

    folder, holder = held
    loaded = datasets.load(tiny_dataset)
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    scored = tmp_path / "scored"
    batch.run(batch.Plan(loaded, factory("silent"), scored))
    (scored / "scores").symlink_to(folder)
    writers = {
        "run": lambda: batch.run(batch.Plan(loaded, factory("silent"), folder)),
        "build": lambda: wb.build("ifeval", folder, audio=False),
        "import": lambda: import_recordings(Source(loaded, recordings, "theirs"), folder),
        "judge": lambda: Log(folder),
        "score": lambda: score_run(load_run(scored)),
    }
    for name, write in writers.items():
        with pytest.raises(InputError, match=f"is being written by process {holder.pid}"):
            write()
            pytest.fail(name)
    assert files.is_empty(folder)


def test_one_process_may_write_again_after_it_has_written(tmp_path):
    for _ in range(2):
        with files.writing(tmp_path), pytest.raises(InputError, match=f"process {os.getpid()} "):
            with files.writing(tmp_path):
                pass
    assert BuildOptions(tmp_path).out == tmp_path
