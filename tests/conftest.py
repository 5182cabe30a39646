"""Fixtures that the whole suite shares: a cache of its own, and one small dataset built once."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from filelock import FileLock

pytest_plugins = ["chat_loopback"]

TINY_CASES = 12
"""The first twelve cells at instance 1: every probe of R1 and R2, with C1 and C4 shared between them."""

# A suite started in the background by a shell ignores SIGINT, and so would every process that it starts
# and then interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory, worker_id) -> Path:
    """One folder for the whole suite, also where its tests run in several processes at once."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def workbench_cache(shared_folder):
    """The cache of this session, for its processes and those they start: never the user's own."""
    folder = shared_folder / "cache"
    before = os.environ.get("WORKBENCH_CACHE")
    os.environ["WORKBENCH_CACHE"] = str(folder)
    yield folder
    if before is None:
        del os.environ["WORKBENCH_CACHE"]
    else:
        os.environ["WORKBENCH_CACHE"] = before


@pytest.fixture(scope="session", autouse=True)
def toy_benchmark():
    """The toy benchmark's entry point, for this process (by pytest's own path) and those it starts."""
    before = os.environ.get("PYTHONPATH")
    place = str(Path(__file__).parent / "toy")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (place, before)))
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="session")
def tiny_dataset(shared_folder, workbench_cache) -> Path:
    """Folder of a built ifeval dataset of `TINY_CASES` cases, to be read only; `dataset_copy` may be spoilt."""
    from workbench import contract

    folder = shared_folder / "tiny"
    with FileLock(shared_folder / "tiny.lock"):
        if not (folder / "cases.jsonl").exists():
            contract.get("ifeval").build(contract.BuildOptions(folder, limit=TINY_CASES, workers=1))
    return folder


@pytest.fixture
def dataset_copy(tiny_dataset, tmp_path) -> Path:
    """A copy of the tiny dataset, with the files' times kept."""
    return Path(shutil.copytree(tiny_dataset, tmp_path / "dataset"))
