"""Checks of the authored data and of a built dataset: leakage gates, structure, counts.

The two leakage gates are those of the appendix: a persona must imply its rule and never state it.
Every function returns sentences, one a violation; none means the check holds.
"""

from __future__ import annotations

import re
from collections import Counter

from workbench.benchmarks.ifeval import authored as au
from workbench.benchmarks.ifeval.cases import TURN1, TURN2, WINDOW, expectation, tokens
from workbench.benchmarks.ifeval.script_rules import rule_faults
from workbench.cases import Case
from workbench.construct.gates import Vocabulary, shared_ngrams, stated_rules, words_of
from workbench.construct.markup import Piece, parse
from workbench.files import data_path

CASES = 1038
CONVERSATIONS = 240
STREAMS = 224
BY_ACTION = {
    "LISTEN": 273,
    "TAKE_TURN": 168,
    "BACKCHANNEL": 152,
    "YIELD": 126,
    "INTERRUPT": 120,
    "READBACK": 94,
    "NO_BACKCHANNEL": 42,
    "ACCEPT_OVERLAP": 42,
    "CONTINUE": 21,
}
BY_LEVEL = {"L0": 48, "L1": 240, "L2": 240, "L3": 240, "L4a": 240, "L4b": 30}
NGRAM = 4


def leakage(data: au.Authored) -> list[str]:
    """Gate 1: no turn-management vocabulary in a persona. Gate 2: no n-gram shared with a rule."""
    vocabulary = Vocabulary.read(data_path("ifeval", "turn_management.yaml"))
    problems = []
    for role in data.roles.values():
        for found in stated_rules(role.persona, vocabulary):
            problems.append(
                f"{role.id}: the persona states the rule: {found!r} is turn-management vocabulary; imply it instead."
            )
        rules = {"directive": role.directive}
        rules |= {f"contradiction {n}.{i + 1}": t for n, ts in role.contradictions.items() for i, t in enumerate(ts)}
        rules |= {f"L4b contradiction of {probe}": text for probe, text in role.l4b.items()}
        for name, text in rules.items():
            for ngram in shared_ngrams(role.persona, text, NGRAM, vocabulary):
                problems.append(f"{role.id}: persona and {name} share the words {' '.join(ngram)!r}; reword one.")
    return problems


def contradictions(data: au.Authored) -> list[str]:
    """L4a is benign and L4b is not: no L4a line of a safety cell speaks of danger, and none is an L4b line."""
    vocabulary = Vocabulary.read(data_path("ifeval", "turn_management.yaml"))
    problems = []
    for role in data.roles.values():
        for probe, grave in role.l4b.items():
            name = role.cells[probe].contradiction
            for number, line in enumerate(role.contradictions[name], start=1):
                running = f" {' '.join(words_of(line))}"
                for word in vocabulary.grave:
                    if f" {word}" in running:
                        problems.append(f"{role.id}: contradiction {name}.{number} says {word!r}; L4a is benign.")
                if shared_ngrams(line, grave, 3, vocabulary):
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
        faults = script_faults(script, data.probes[probe_id], actions) + rule_faults(script, probe_id)
        problems += [f"{stream}: {fault}" for fault in faults]
    for stream in sorted(set(data.scripts) - set(wanted)):
        problems.append(f"{stream}: no conversation of the grid plays this script; remove it or mend its id.")
    return problems


def script_faults(script: au.Script, probe: au.Probe, actions: tuple[str, ...] = ()) -> list[str]:
    """What is wrong with one script for roles that expect `actions` of it, as sentences without its name."""
    faults = []
    first: list[Piece] = []
    try:
        first = parse(script.turn1)
        if len(first) != 1 or first[0].shape != "text":
            faults.append("turn1 is context and may hold no marker; remove it.")
    except ValueError as error:
        faults.append(f"turn1: {error}.")
    try:
        pieces = parse(script.turn2)
    except ValueError as error:
        return [*faults, f"turn2: {error}."]
    shape = [piece.shape for piece in pieces]
    if not probe.fits(shape, actions):
        faults.append(
            f"turn2 has the structure [{', '.join(shape)}], where its probe ({probe.title}) needs "
            f"[{', '.join(probe.shape_for(actions))}]; mend the markers."
        )
    chunks = [piece.text for piece in pieces if piece.mark == "chunk"]
    for chunk in chunks:
        for word in re.findall(r"[a-z]+|\d+", chunk.lower()):
            if word in _AMBIGUOUS or word.isdigit():
                faults.append(
                    f"turn2: the dictated chunk {chunk!r} holds {word!r}, which can be transcribed in more than one "
                    "way; dictate single digits as words."
                )
    for said in (first, pieces):
        spoken = " ".join(piece.text for piece in said)
        if re.search(r"\d", spoken):
            faults.append(f"a digit stands in the spoken text ({spoken[:40]!r} ...); write numbers as words.")
    return faults


_AMBIGUOUS = frozenset(
    """ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty
    sixty seventy eighty ninety hundred thousand double triple""".split()
)


def tally(cases: tuple[Case, ...]) -> dict[str, dict[str, int]]:
    """Cases by expected action and by level."""
    return {
        f"by_{name}": dict(Counter(case.tags[name] for case in cases if name in case.tags))
        for name in ("action", "level")
    }


def counts(cases: tuple[Case, ...], streams: int) -> list[str]:
    """The exact counts of the full grid (appendix: Tables 7 and 15)."""
    problems = []

    def compare(what: str, found: int, wanted: int) -> None:
        if found != wanted:
            problems.append(
                f"{what}: {found}, where the full grid has {wanted}; build without --limit and mend scripts."
            )

    compare("cases", len(cases), CASES)
    compare("conversations", len({case.conversation for case in cases}), CONVERSATIONS)
    compare("audio streams", streams, STREAMS)
    actions, levels = Counter(c.tags.get("action") for c in cases), Counter(c.tags.get("level") for c in cases)
    for action, wanted in BY_ACTION.items():
        compare(f"cases that expect {action}", actions[action], wanted)
    for level, wanted in BY_LEVEL.items():
        compare(f"cases at level {level}", levels[level], wanted)
    return problems


def built(cases: tuple[Case, ...]) -> list[str]:
    """What must hold of built cases of any number: expectations, shared audio, targets, windows."""
    problems = []
    streams: dict[str, tuple] = {}
    for case in cases:
        try:
            expected = expectation(case)
        except ValueError as error:
            problems.append(
                f"case {case.id}: the field `expect` is not this benchmark's: {str(error).splitlines()[0]}."
            )
            continue
        problems += [f"case {case.id}: {fault}" for fault in _tag_faults(case, expected.action)]
        if expected.action == "READBACK" and not tokens(expected.target or ""):
            problems.append(f"case {case.id}: the dictated target is empty; give the script chunks to read back.")
        sums = tuple(cue.audio.sha256 if cue.audio else None for cue in case.cues)
        if streams.setdefault(case.stream, sums) != sums:
            problems.append(
                f"case {case.id}: its audio differs from that of another case of stream {case.stream}; rebuild."
            )
        lacking = {TURN1, TURN2} - {cue.id for cue in case.cues} or {WINDOW} - set(case.windows)
        if lacking:
            problems.append(f"case {case.id}: it has no {' and no '.join(sorted(lacking))}; rebuild.")
        elif case.cue(TURN2).audio is not None and any(window.start_s is None for window in case.windows.values()):
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
    vocabulary = Vocabulary.read(data_path("ifeval", "turn_management.yaml"))
    problems = []
    seen: set[tuple[str, ...]] = set()
    for case in cases:
        parts = {part.name: part.text for part in case.prompt}
        persona, rules = parts.pop("persona", None), tuple(parts.values())
        if persona is None or (persona, *rules) in seen:
            continue
        seen.add((persona, *rules))
        for found in stated_rules(persona, vocabulary):
            problems.append(f"case {case.id}: its persona states the rule ({found!r}); rebuild from checked texts.")
        for rule in rules:
            for ngram in shared_ngrams(persona, rule, NGRAM, vocabulary):
                problems.append(f"case {case.id}: its persona and a rule share the words {' '.join(ngram)!r}; rebuild.")
    return problems
