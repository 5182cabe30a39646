"""Duplex-MPE: does a full-duplex assistant among several humans speak, stay silent and stop when it should?

Paper: 'Duplex-MPE'. Every scenario has an explicit version (the request names Aria) and an implicit one
(a cue from the context carries the address); four capabilities and two diagnostics, each on its own
denominator.
"""

from __future__ import annotations

from workbench.benchmarks.duplexmpe import build as _build
from workbench.benchmarks.duplexmpe import check
from workbench.benchmarks.duplexmpe.brought import decide_brought
from workbench.benchmarks.duplexmpe.cases import BENCHMARK_NAME
from workbench.benchmarks.duplexmpe.decide import DEFAULTS, GRID, as_table, contrasts, flip, passes
from workbench.benchmarks.duplexmpe.evidence import chain, verdicts
from workbench.benchmarks.duplexmpe.measure import measure, unmeasured
from workbench.benchmarks.duplexmpe.reference import moves
from workbench.benchmarks.duplexmpe.streams import MERGE_GAP_S
from workbench.benchmarks.duplexmpe.summary import tables
from workbench.contract import Benchmark, Decider

BENCHMARK = Benchmark(
    name=BENCHMARK_NAME,
    title="Duplex-MPE",
    cases=check.CASES,
    build=_build.build,
    validate_authored=_build.validate_authored,
    validate=_build.validate,
    measure=measure,
    unmeasured=unmeasured,
    verdicts=verdicts,
    decider=Decider(as_table, passes, GRID, contrasts, "fresh_onset", flip),
    defaults=DEFAULTS,
    merge_gap_s=MERGE_GAP_S,
    tables=tables,
    moves=moves,
    decide_brought=decide_brought,
    steps=chain,
)
