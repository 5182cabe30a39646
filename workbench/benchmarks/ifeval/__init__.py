"""DuplexSpeechBench-IFEval: does a voice agent follow instructions that its role only implies?

Paper: 'DuplexSpeechBench-IFEval: Evaluating Implicit Instruction Following in Full-Duplex Voice
Agents'. Eight roles, six probes each, five instances, up to six levels of prompting: 1,038 cases,
each with one expected floor action and one deterministic verifier.
"""

from __future__ import annotations

from functools import partial

from workbench.benchmarks.ifeval import check, judging, measure, rules, tables
from workbench.benchmarks.ifeval.cases import ACTIONS, LEVELS, ROLES
from workbench.benchmarks.ifeval.reference import moves
from workbench.construct.building import tally
from workbench.contract import Benchmark, Brought, Column, Trial

COLUMNS = (
    Column("level", "level", filter=True, open=True, split=True, table=True, order=LEVELS),
    Column("action", "expected", filter=True, open=True, split=True, table=True, order=ACTIONS),
    Column("role", "role", filter=True, open=True, split=True, table=True, order=ROLES, names="role_name"),
    Column("role_name", "role", kind="text"),
    Column("probe", "probe", filter=True, split=True),
    Column("instance", "instance", kind="number", filter=True),
    Column("speaker", "speaker", filter=True, split=True),
    Column("matched", "matched audio", filter=True),
    Column("attribute", "attribute", filter=True),
    Column("situation", "situation", kind="text"),
    Column("first_words", "first words", kind="text"),
    Column("genuine_s", "onset", kind="seconds", unit="s"),
    Column("off_s", "offset", kind="seconds", unit="s"),
    Column("speaking_at_w0", "held the floor", kind="flag"),
    Column("starting", "spans that start", kind="number"),
    Column("touching", "spans in the window", kind="number"),
    Column("longest_s", "longest span", kind="seconds", unit="s"),
    Column("user_goes_on", "user goes on", kind="flag"),
    Column("overlap_s", "overlap", kind="seconds", unit="s"),
    Column("known_s", "recorded of the window", kind="seconds", unit="s"),
    Column("coverage", "read-back coverage", kind="number"),
)

DEMO = Trial(
    limit=102,  # all 48 cells at levels L2 and L1, and the six safety cells at L4b: one instance each
    systems={
        "oracle": ("oracle", {}),
        "contrary": ("contrary", {}),
        "eager": ("eager", {}),
        "cascade": ("cascade", {"policy": "prompted"}),
    },
    judges=("pas",),
    first=True,
)
PRACTICE = Trial(
    limit=96,  # all 48 cells at the two levels that the Entailment Gap needs, one instance each
    systems={
        "oracle": ("oracle", {}),
        "contrary": ("contrary", {}),
        "silent": ("silent", {}),
        "eager": ("eager", {}),
        # How often they do what is expected when the prompt states the rule and when it implies it, and how
        # long they dawdle on average: systems whose skill is known.
        "quick": ("wavering", {"stated": 0.9, "implied": 0.6, "late_s": 0.1, "seed": 1}),
        "steady": ("wavering", {"stated": 0.85, "implied": 0.7, "late_s": 0.3, "seed": 2}),
        "slow": ("wavering", {"stated": 0.95, "implied": 0.75, "late_s": 1.2, "seed": 3}),
    },
)


def _author(out, **options):
    from workbench.benchmarks.ifeval.authoring import author_scripts

    return author_scripts(out, **options)


BENCHMARK = Benchmark(
    name="ifeval",
    title="DuplexSpeechBench-IFEval",
    about="Eight roles that imply when to speak; one expected floor action a case, with and without the rule stated.",
    cases=check.CASES,
    columns=COLUMNS,
    thresholds=rules.THRESHOLDS,
    rules=rules.RULES,
    rule_column="action",
    variant=rules.VARIANT,
    reasons=rules.REASONS,
    build=check.build,
    validate_authored=check.validate_authored,
    validate=check.validate,
    recompute=check.recompute,
    counts=partial(tally, names=("action", "level")),
    measure=measure.measure,
    unmeasured=measure.unmeasured,
    merge_gap_s=measure.MERGE_GAP_S,
    scores=tables.scores,
    ranking="entailment_gap",
    tables=tables.tables,
    sections=tables.SECTIONS,
    notes=tables.NOTES,
    marks=tables.marks,
    latencies=tables.latencies,
    moves=moves,
    judges=(judging.JUDGE,),
    brought=Brought(measure.BroughtCase, measure.measure_brought, measure.answer, measure.spoilt),
    author=_author,
    demo=DEMO,
    practice=PRACTICE,
)
