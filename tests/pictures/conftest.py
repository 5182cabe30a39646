"""The inspector's tiny runs, with real audio and hostile words, for pictures too."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "app"))

from inspected_runs import make_runs


@pytest.fixture(scope="session")
def runs_folder(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("runs"))
