"""DuplexSpeechBench-IFEval: does a voice agent follow instructions that its role only implies?

Paper: 'DuplexSpeechBench-IFEval: Evaluating Implicit Instruction Following in Full-Duplex Voice
Agents'. Eight roles, six probes each, five instances, up to six levels of prompting: 1,038 cases,
each with one expected floor action and one deterministic verifier.
"""

from __future__ import annotations

from workbench.benchmarks.base import Benchmark, Decider
from workbench.benchmarks.ifeval import build as _build
from workbench.benchmarks.ifeval import check
from workbench.benchmarks.ifeval.decide import DEFAULTS, PAPER_GRID, as_table, contrasts, flip, passes
from workbench.benchmarks.ifeval.evidence import decide_brought, verdicts
from workbench.benchmarks.ifeval.measure import MERGE_GAP_S, measure, unmeasured
from workbench.benchmarks.ifeval.reference import moves
from workbench.benchmarks.ifeval.summary import tables

BENCHMARK = Benchmark(
    name="ifeval",
    title="DuplexSpeechBench-IFEval",
    cases=check.CASES,
    build=_build.build,
    validate_authored=_build.validate_authored,
    validate=_build.validate,
    recompute=_build.recompute,
    measure=lambda *given, **named: [measure(*given, **named)],
    unmeasured=lambda case, reason: [unmeasured(case, reason)],
    verdicts=verdicts,
    decider=Decider(as_table, passes, PAPER_GRID, contrasts, "entailment_gap", flip),
    defaults=DEFAULTS,
    merge_gap_s=MERGE_GAP_S,
    tables=tables,
    moves=moves,
    decide_brought=decide_brought,
)
