"""Duplex-MPE: does a full-duplex assistant among several humans speak, stay silent and stop when it should?

Paper: 'Duplex-MPE'. Every scenario has an explicit version (the request names Aria) and an implicit one
(a cue from the context carries the address); four capabilities and two diagnostics, each on its own
denominator.
"""

from __future__ import annotations

from workbench.agents.registry import Entry
from workbench.benchmarks.duplexmpe import check, judging, measure, rules, tables
from workbench.benchmarks.duplexmpe.cases import ATTRIBUTES, BENCHMARK_NAME, CONDITIONS, LABELS, speakers
from workbench.benchmarks.duplexmpe.reference import moves
from workbench.benchmarks.duplexmpe.streams import MERGE_GAP_S
from workbench.contract import Benchmark, Brought, Column, Trial

COLUMNS = (
    Column("metric", "metric", filter=True, open=True, split=True, table=True, order=rules.METRICS),
    Column("turn_label", "turn", filter=True, open=True, split=True, table=True, order=LABELS),
    Column("condition", "condition", filter=True, open=True, split=True, table=True, order=CONDITIONS),
    Column("scenario", "scenario", filter=True),
    Column("bucket", "position of the request", kind="number", filter=True, split=True),
    Column("speakers", "speakers", kind="number", filter=True, split=True),
    *(Column(name, name, filter=True, split=True) for name in ATTRIBUTES),
    Column("onset_s", "onset", kind="seconds", unit="s"),
    Column("active_at_start", "speaking as T ends", kind="flag"),
    Column("speech_s", "speech in the window", kind="seconds", unit="s"),
    Column("most_s", "most possible speech", kind="seconds", unit="s"),
    Column("quiet_question", "silent during the question", kind="flag"),
    Column("began_in_gap", "began in the gap", kind="flag"),
    Column("speaking_at_resolution", "speaking as N4_R begins", kind="flag"),
    Column("release_s", "last heard", kind="seconds", unit="s"),
    Column("resume_s", "speaks again", kind="seconds", unit="s"),
    Column("resume_end_s", "until", kind="seconds", unit="s"),
    Column("window_s", "window of the turn", kind="seconds", unit="s"),
    Column("known_s", "recorded", kind="seconds", unit="s"),
)

AGENTS = {
    "name-spotter": Entry(
        "workbench.benchmarks.duplexmpe.reference:NameSpotter",
        "reference: told the words of each turn, answers every turn that says its name",
        "input",
    ),
    "text-reference": Entry(
        "workbench.benchmarks.duplexmpe.reference:TextReference",
        "reference: reads each turn as it ends and decides by rules or a chat endpoint whether to speak",
        "input",
    ),
}

DEMO = Trial(
    limit=None,
    systems={name: (name, {}) for name in ("oracle", "contrary", "silent", "babble", *AGENTS)},
    judges=tuple(judge.name for judge in judging.JUDGES),
)


def _author(out, **options):
    from workbench.benchmarks.duplexmpe.authoring import author_scripts

    return author_scripts(out, **options)


BENCHMARK = Benchmark(
    name=BENCHMARK_NAME,
    title="Duplex-MPE",
    about="An assistant among several humans, asked by name and by context: when it speaks, stays silent and stops.",
    cases=check.CASES,
    columns=COLUMNS,
    thresholds=rules.THRESHOLDS,
    rules=rules.RULES,
    reasons=rules.REASONS,
    build=check.build,
    validate_authored=check.validate_authored,
    validate=check.validate,
    recompute=check.recompute,
    counts=check.tally,
    measure=measure.measure,
    unmeasured=measure.unmeasured,
    merge_gap_s=MERGE_GAP_S,
    scores=tables.scores,
    ranking="fresh_onset",
    tables=tables.tables,
    sections=tables.SECTIONS,
    notes=tables.NOTES,
    marks=tables.marks,
    steps=rules.steps,
    speakers=speakers,
    moves=moves,
    agents=AGENTS,
    judges=judging.JUDGES,
    brought=Brought(measure.BroughtStream, measure.measure_brought, measure.answer, measure.spoilt),
    author=_author,
    demo=DEMO,
)
