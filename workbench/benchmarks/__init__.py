"""The benchmarks by name; adding one is a folder and a line here. None imports another."""

from __future__ import annotations

from importlib import import_module

from workbench.benchmarks.base import Benchmark
from workbench.errors import InputError

_MODULES = {"ifeval": "workbench.benchmarks.ifeval"}


def names() -> tuple[str, ...]:
    return tuple(_MODULES)


def get(name: str) -> Benchmark:
    """The benchmark called `name`.

    Raises
    ------
    InputError : there is none of that name.
    """
    if name not in _MODULES:
        raise InputError(f"There is no benchmark {name!r}; benchmarks are {', '.join(_MODULES)}.")
    return import_module(_MODULES[name]).BENCHMARK
