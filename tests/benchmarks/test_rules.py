"""What every benchmark's rules promise: public, documented, with an example that runs, and fed by what it declares."""

import doctest
import inspect
import sys

import pytest

from workbench import contract

BENCHMARKS = [contract.get(name) for name in contract.names() if name != "toy"]
RULES = [
    pytest.param(benchmark, rule, id=f"{benchmark.name}-{rule.name}")
    for benchmark in BENCHMARKS
    for rule in benchmark.rules
]


@pytest.mark.parametrize(("benchmark", "rule"), RULES)
def test_a_rule_says_what_it_takes_and_shows_it(benchmark, rule):
    function = rule.decide
    assert not function.__name__.startswith("_") and "Examples\n" in inspect.getdoc(function)
    examples = doctest.DocTestFinder(recurse=False).find(function, globs=vars(sys.modules[function.__module__]))
    assert sum(len(test.examples) for test in examples) > 0
    for test in examples:
        assert doctest.DocTestRunner().run(test).failed == 0
    limits = benchmark.thresholds_of(rule)
    text = inspect.getdoc(function)
    assert all(name in text for name in limits) or "are those of" in text
    assert all(benchmark.threshold[name].default >= 0 for name in limits)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_columns_thresholds_and_sections_have_headings_and_one_name_each(benchmark):
    for parts in (benchmark.columns, benchmark.thresholds, benchmark.rules, benchmark.sections, benchmark.judges):
        names = [part.name for part in parts]
        assert len(names) == len(set(names))
    taken = {name for rule in benchmark.rules for name in benchmark.thresholds_of(rule)}
    assert taken == set(benchmark.threshold), "a threshold that no rule takes"
    assert all(part.heading for part in (*benchmark.columns, *benchmark.thresholds, *benchmark.judges))
    assert all(section.title for section in benchmark.sections)
