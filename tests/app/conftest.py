import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from inspected_runs import make_runs

from workbench.app.store import Store


@pytest.fixture(scope="session")
def runs_folder(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def store(runs_folder):
    made = Store([runs_folder])
    made.wait()
    return made
