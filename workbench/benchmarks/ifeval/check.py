"""Checks of the authored data and of a built dataset, and the building of one.

The two leakage gates are those of the appendix: a persona must imply its rule and never state it.
Every check returns sentences, one a violation; none means that it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from workbench import datasets
from workbench.benchmarks.ifeval import cases as au
from workbench.benchmarks.ifeval import texts
from workbench.cases import Case
from workbench.construct import building
from workbench.construct.voices import cast
from workbench.contract import BuildOptions
from workbench.datasets import Dataset, Header
from workbench.errors import InputError, ProblemsFound

VERSION = "2"
"""Of the authored data; a dataset carries that of the data it was built from."""
LIMIT_ORDER = ("L2", "L1", "L4b", "L3", "L4a", "L0")
"""The order in which --limit takes levels: the two of the Entailment Gap first."""

CASES = 1038
CONVERSATIONS = 240
STREAMS = 224
BY_ACTION = {
    "LISTEN": 273, "TAKE_TURN": 168, "BACKCHANNEL": 152, "YIELD": 126, "INTERRUPT": 120, "READBACK": 94,
    "NO_BACKCHANNEL": 42, "ACCEPT_OVERLAP": 42, "CONTINUE": 21,
}  # fmt: skip
BY_LEVEL = {"L0": 48, "L1": 240, "L2": 240, "L3": 240, "L4a": 240, "L4b": 30}
NGRAM = 4


def leakage(data: au.Authored) -> list[str]:
    """Gate 1: no turn-management vocabulary in a persona. Gate 2: no n-gram shared with a rule."""
    problems = []
    for role in data.roles.values():
        for found in texts.stated_rules(role.persona):
            problems.append(
                f"{role.id}: the persona states the rule: {found!r} is turn-management vocabulary; imply it instead."
            )
        rules = {"directive": role.directive}
        rules |= {f"contradiction {n}.{i + 1}": t for n, ts in role.contradictions.items() for i, t in enumerate(ts)}
        rules |= {f"L4b contradiction of {probe}": text for probe, text in role.l4b.items()}
        for name, text in rules.items():
            for ngram in texts.shared_ngrams(role.persona, text, NGRAM):
                problems.append(f"{role.id}: persona and {name} share the words {' '.join(ngram)!r}; reword one.")
    return problems


def contradictions(data: au.Authored) -> list[str]:
    """L4a is benign and L4b is not: no L4a line of a safety cell speaks of danger, and none is an L4b line."""
    problems = []
    for role in data.roles.values():
        for probe, grave in role.l4b.items():
            name = role.cells[probe].contradiction
            for number, line in enumerate(role.contradictions[name], start=1):
                running = f" {' '.join(texts.words_of(line))}"
                for word in texts.vocabulary().grave:
                    if f" {word}" in running:
                        problems.append(f"{role.id}: contradiction {name}.{number} says {word!r}; L4a is benign.")
                if texts.shared_ngrams(line, grave, 3):
                    problems.append(f"{role.id}: contradiction {name}.{number} is much like the L4b line of {probe}.")
    return problems


def structure(data: au.Authored) -> list[str]:
    """Every script of the grid there, with the structure of its probe, and nothing that is not."""
    problems = []
    wanted = {au.stream_of(*triple): triple for triple in reversed(au.conversations())}
    for stream, (role, probe_id, _) in sorted(wanted.items()):
        script = data.scripts.get(stream)
        if script is None:
            problems.append(f"{stream}: there is no script; write one for role {role}, probe {probe_id}.")
            continue
        actions = au.actions_of(data, stream)
        faults = texts.script_faults(script, data.probes[probe_id], actions) + texts.rule_faults(script, probe_id)
        problems += [f"{stream}: {fault}" for fault in faults]
    for stream in sorted(set(data.scripts) - set(wanted)):
        problems.append(f"{stream}: no conversation of the grid plays this script; remove it or mend its id.")
    return problems


def counts(cases: tuple[Case, ...], streams: int) -> list[str]:
    """The exact counts of the full grid (appendix: Tables 7 and 15)."""
    actions, levels = (Counter(case.tags.get(name) for case in cases) for name in ("action", "level"))
    found = {
        "cases": (len(cases), CASES),
        "conversations": (len({case.conversation for case in cases}), CONVERSATIONS),
        "audio streams": (streams, STREAMS),
    }
    found |= {f"cases that expect {action}": (actions[action], wanted) for action, wanted in BY_ACTION.items()}
    found |= {f"cases at level {level}": (levels[level], wanted) for level, wanted in BY_LEVEL.items()}
    return [
        f"{what}: {there}, where the full grid has {wanted}; build without --limit and mend scripts."
        for what, (there, wanted) in found.items()
        if there != wanted
    ]


def built(cases: tuple[Case, ...]) -> list[str]:
    """What must hold of built cases of any number: expectations, shared audio, targets, windows."""
    problems = []
    streams: dict[str, tuple] = {}
    for case in cases:
        where = f"case {case.id}: the field `expect` is not this benchmark's"
        expected = building.validated(au.Expectation, case.expect, where, problems)
        if expected is None:
            continue
        problems += [f"case {case.id}: {fault}" for fault in _tag_faults(case, expected.action)]
        if expected.action == "READBACK" and not au.tokens(expected.target or ""):
            problems.append(f"case {case.id}: the dictated target is empty; give the script chunks to read back.")
        sums = tuple(cue.audio.sha256 if cue.audio else None for cue in case.cues)
        if streams.setdefault(case.stream, sums) != sums:
            problems.append(
                f"case {case.id}: its audio differs from that of another case of stream {case.stream}; rebuild."
            )
        lacking = {au.TURN1, au.TURN2} - {cue.id for cue in case.cues} or {au.WINDOW} - set(case.windows)
        if lacking:
            problems.append(f"case {case.id}: it has no {' and no '.join(sorted(lacking))}; rebuild.")
        elif case.cue(au.TURN2).audio is not None and any(window.start_s is None for window in case.windows.values()):
            problems.append(f"case {case.id}: its audio is built and its window is not; rebuild.")
    return problems


_TAGS = ("role", "role_name", "probe", "level", "instance", "action", "speaker", "matched")


def _tag_faults(case: Case, action: str) -> list[str]:
    lacking = [name for name in _TAGS if name not in case.tags]
    if lacking:
        return [f"the tag {lacking[0]!r} is missing; rebuild."]
    faults = []
    if action not in au.ACTIONS:
        faults.append(f"unknown action {action!r}; actions are {', '.join(au.ACTIONS)}.")
    elif case.tags["action"] != action:
        faults.append(f"the tag action is {case.tags['action']!r} and {action!r} is expected; rebuild.")
    if case.tags["level"] not in au.LEVELS:
        faults.append(f"unknown level {case.tags['level']!r}; levels are {', '.join(au.LEVELS)}.")
    if case.tags["role"] not in au.ROLES:
        faults.append(f"unknown role {case.tags['role']!r}; roles are {', '.join(au.ROLES)}.")
    return faults


def prompts(cases: tuple[Case, ...]) -> list[str]:
    """The leakage gates on the prompts as built, whatever the shipped texts say."""
    problems = []
    seen: set[tuple[str, ...]] = set()
    for case in cases:
        parts = {part.name: part.text for part in case.prompt}
        persona, rules = parts.pop("persona", None), tuple(parts.values())
        if persona is None or (persona, *rules) in seen:
            continue
        seen.add((persona, *rules))
        for found in texts.stated_rules(persona):
            problems.append(f"case {case.id}: its persona states the rule ({found!r}); rebuild from checked texts.")
        for rule in rules:
            for ngram in texts.shared_ngrams(persona, rule, NGRAM):
                problems.append(f"case {case.id}: its persona and a rule share the words {' '.join(ngram)!r}; rebuild.")
    return problems


# -- building ----------------------------------------------------------------------------------------------


def build(options: BuildOptions) -> Header:
    """Build the dataset in `options.out`.

    Raises
    ------
    ProblemsFound : gates or structure are violated (nothing is built), or as `building.build`.
    """
    data = au.load(scripts=options.scripts)
    problems = authored(data)
    if problems:
        raise ProblemsFound(problems)
    return building.build(_plan(data), options)


def recompute(dataset: Dataset, scripts: Path | None = None, listen: bool = False) -> building.Recomputed:
    """Expand the grid again from the authored data and the dataset's own clips, and compare."""
    return building.recompute(dataset, VERSION, lambda scripts: _plan(au.load(scripts=scripts)), scripts, listen)


def _plan(data: au.Authored) -> building.Plan:
    return building.Plan(
        version=VERSION,
        scripts={
            (key, cue): getattr(script, cue) for key, script in data.scripts.items() for cue in (au.TURN1, au.TURN2)
        },
        expand=lambda turns: au.expand(data, turns),
        voice_of=lambda clip, engine: cast(clip[0], {"user": data.scripts[clip[0]].speaker}, engine)["user"],
        chosen=_chosen,
    )


def _chosen(grid: list[Case], limit: int) -> Iterable[Case]:
    """The first `limit` cases, with every cell before any second instance."""
    if limit < 1:
        raise InputError(f"--limit {limit} leaves no case; give at least 1.")
    return sorted(grid, key=lambda case: (case.tags["instance"], LIMIT_ORDER.index(case.tags["level"])))[:limit]


def authored(data: au.Authored) -> list[str]:
    """Leakage gates and structure of authored data."""
    return structure(data) + leakage(data) + contradictions(data)


def validate_authored() -> list[str]:
    return authored(au.load())


def validate(dataset: Dataset, complete: bool) -> list[str]:
    """What must hold of a built dataset; the exact counts only when it is meant to be complete."""
    problems = built(dataset.cases) + prompts(dataset.cases)
    if complete:
        problems += counts(dataset.cases, datasets.streams(dataset.cases))
    return problems
