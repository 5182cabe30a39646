"""The simulation of `benchmarks/coverage.py` in short: no interval leaves out the truth more often than it says."""

import importlib.util
import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

_PATH = Path(__file__).parents[2] / "benchmarks" / "coverage.py"
DRAWS = 400
# Below 0.98 of the nominal 0.95 by no more than chance: three standard errors of so many draws.
LEAST = 0.95 * 0.98 - 3 * math.sqrt(0.05 * 0.95 / DRAWS)


@pytest.fixture(scope="module")
def simulated():
    spec = importlib.util.spec_from_file_location("coverage_of_intervals", _PATH)
    module = importlib.util.module_from_spec(spec)
    # Its dataclass looks its own module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize("kind", ["rate", "difference", "test"])
def test_intervals_cover(simulated, kind):
    cells = list(getattr(simulated, f"{kind}_cells")(DRAWS, 1, (5, 10, 40)))
    least = simulated.worst(cells)
    assert least.coverage >= LEAST, least
    assert np.mean([one.coverage for one in cells]) >= 0.95


def test_more_conversations_give_narrower_intervals_and_two_give_none(simulated):
    cells = list(simulated.rate_cells(50, 1, (2, 5, 20, 48)))
    assert all(one.coverage is None and "takes 3" in one.note for one in cells if one.conversations == 2)
    widths = [np.mean([one.width for one in cells if one.conversations == count]) for count in (5, 20, 48)]
    assert all(few > many for few, many in itertools.pairwise(widths)) and widths[0] < 0.7 and widths[-1] < 0.2
