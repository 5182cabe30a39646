"""Lets tests here import the helpers of other tests (pytest's importlib mode does not)."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("analysis", "app")]
