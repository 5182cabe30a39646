"""The examples in docstrings run: every module of the package that holds one."""

import doctest
import importlib
from pathlib import Path

import pytest

import workbench

PACKAGE = Path(workbench.__file__).parent
WITH_EXAMPLES = [
    ".".join(("workbench", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", [*WITH_EXAMPLES, "duplex_toy"])
def test_examples(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted and not found.failed


def test_every_rule_of_a_shipped_benchmark_has_an_example():
    from workbench import contract

    for name in contract.names():
        for rule in contract.get(name).rules:
            assert ">>> " in (rule.decide.__doc__ or ""), f"{name}: {rule.name} shows no example"
