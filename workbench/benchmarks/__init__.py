"""The benchmarks by name; adding one is a folder and a line here. None imports another."""

from __future__ import annotations

from importlib import import_module

from workbench.benchmarks.base import Benchmark
from workbench.errors import InputError

_MODULES = {
    "ifeval": "workbench.benchmarks.ifeval",
    "duplex-mpe": "workbench.benchmarks.duplexmpe",
}


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


def package(name: str) -> str:
    """The package of the benchmark called `name`, for its modules that only some need (pictures, authoring)."""
    get(name)
    return _MODULES[name]
