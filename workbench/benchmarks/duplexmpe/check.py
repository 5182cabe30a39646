"""Checks of scenario pairs and of a built dataset; every function returns sentences, one a violation.

`scenario_faults` holds the rules of the paper (labels, one T at its bucket, pairing, N4) and those
without which a turn cannot be spoken. `style_faults` holds this project's own bounds for authors:
lengths, and how much talk follows T.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from workbench.benchmarks.duplexmpe.authored import (
    ATTRIBUTES,
    BUCKETS,
    CONDITIONS,
    LABELS,
    NAME,
    SILENT,
    Scenario,
    bucket_of,
)
from workbench.cases import Case

PAIRS = 64
CASES = 2 * PAIRS
TURNS, TURN_WORDS, WORDS = (10, 14), (5, 30), (170, 230)
LONGER = 2
"""So many words at most may one version's T be longer than the other's: length is no cue."""

_NAME = re.compile(rf"\b{NAME}\b", re.IGNORECASE)
_UNSAYABLE = re.compile(r"[\d()\[\]{}<>\"“”;*_#/\\]")
_ID = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def names_aria(text: str) -> bool:
    return bool(_NAME.search(text))


def scenario_faults(scenario: Scenario, attributes: Mapping[str, tuple[str, ...]] | None = None) -> list[str]:
    """What is wrong with one pair, as sentences without its name."""
    faults = _frame(scenario, attributes)
    labels = [turn.label for turn in scenario.turns]
    faults += _target(scenario, labels) + _events(scenario, labels) + _versions(scenario)
    for index, turn in enumerate(scenario.turns):
        for words in {turn.words(condition) for condition in CONDITIONS}:
            odd = sorted(set(_UNSAYABLE.findall(words)))
            if odd or not re.search(r"[A-Za-z]", words):
                what = "holds " + " ".join(odd) if odd else "holds no words"
                faults.append(f"turn {index} ({words[:40]!r}) {what}, which cannot be spoken; write it out in words.")
    return faults


def _frame(scenario: Scenario, attributes: Mapping[str, tuple[str, ...]] | None) -> list[str]:
    faults = []
    if not _ID.fullmatch(scenario.id):
        faults.append("its id must be lower-case words joined by '_'.")
    if set(scenario.attributes) != set(ATTRIBUTES):
        faults.append(f"its attributes are {sorted(scenario.attributes)}, and {', '.join(ATTRIBUTES)} are needed.")
    for name, value in scenario.attributes.items():
        if attributes and name in attributes and value not in attributes[name]:
            faults.append(f"the {name} {value!r} is not in attributes.yaml; take one from there.")
    speakers = scenario.speakers
    if len(speakers) not in (3, 4) or len(set(speakers)) != len(speakers):
        faults.append(f"it has the speakers {', '.join(speakers)}; three or four different ones are needed.")
    if any(names_aria(speaker) for speaker in speakers):
        faults.append(f"{NAME} is the assistant and cannot be one of the speakers.")
    said = Counter(turn.speaker for turn in scenario.turns)
    for speaker in speakers:
        if said[speaker] < 2:
            faults.append(f"{speaker} speaks {said[speaker]} times, and everyone speaks at least twice.")
    for stranger in sorted(set(said) - set(speakers)):
        faults.append(f"{stranger} speaks and is not among the speakers.")
    return faults


def _target(scenario: Scenario, labels: list[str]) -> list[str]:
    index = scenario.target
    if index is None:
        return [f"it has {labels.count('T')} turns labelled T, and exactly one is needed."]
    faults = []
    if index == 0:
        faults.append("T is the first turn; let others speak before.")
    if index == len(labels) - 1:
        faults.append("T is the last turn; conversation must follow.")
    found = bucket_of(index, len(labels))
    if scenario.bucket not in BUCKETS or found != scenario.bucket:
        faults.append(
            f"T is turn {index} of {len(labels)}, which is bucket {found}, and {scenario.bucket} is assigned."
        )
    return faults


def _events(scenario: Scenario, labels: list[str]) -> list[str]:
    faults = []
    if not set(labels) & set(SILENT):
        faults.append("it has no turn on which to stay silent (N1, N2, N3).")
    questions = [index for index, label in enumerate(labels) if label == "N4_Q"]
    answers = [index for index, label in enumerate(labels) if label == "N4_R"]
    if len(questions) > 1:
        faults.append("it has more than one N4_Q; at most one is allowed.")
    if answers != [index + 1 for index in questions]:
        faults.append("every N4_Q needs its N4_R as the very next turn, and no N4_R stands without one.")
    for index in questions:
        if index == 0:
            faults.append("N4_Q is the first turn; let others speak before.")
        if index + 1 < len(labels) and scenario.turns[index].speaker == scenario.turns[index + 1].speaker:
            faults.append("N4_R is said by the speaker of N4_Q; another human resolves it.")
        if scenario.target is not None and scenario.target in (index - 1, index + 2):
            faults.append("N4 stands next to T; put at least one turn between.")
    return faults


def _versions(scenario: Scenario) -> list[str]:
    """The pair: same task and sequence, T names Aria or carries a cue, at most the turn before is revised as well."""
    faults = []
    target = scenario.target
    for index, turn in enumerate(scenario.turns):
        if turn.differs and target is not None and index not in (target - 1, target):
            faults.append(f"turn {index} differs between the versions; only T and the turn just before it may.")
        named = [names_aria(turn.words(condition)) for condition in CONDITIONS]
        if turn.label in ("N1", "N4_Q") and not all(named):
            faults.append(f"turn {index} is {turn.label} and does not name {NAME}.")
        if turn.label in ("N2", "N3") and any(named):
            faults.append(f"turn {index} is {turn.label} and names {NAME}; label it N1 or reword it.")
    if target is not None:
        turn = scenario.turns[target]
        if not turn.differs or turn.explicit == turn.implicit:
            faults.append("T has the same words in both versions; give it an explicit and an implicit wording.")
        else:
            if not names_aria(turn.explicit):
                faults.append(f"the explicit T does not name {NAME}.")
            if names_aria(turn.implicit):
                faults.append(f"the implicit T names {NAME}; let a cue from the context carry the address.")
    return faults


def style_faults(scenario: Scenario) -> list[str]:
    """This project's bounds for authors, on top of `scenario_faults`."""
    faults = []
    count = len(scenario.turns)
    if not TURNS[0] <= count <= TURNS[1]:
        faults.append(f"it has {count} turns, and {TURNS[0]} to {TURNS[1]} are wanted.")
    if scenario.target is not None and scenario.target > count - 3:
        faults.append("fewer than two turns follow T.")
    if "N2" not in {turn.label for turn in scenario.turns}:
        faults.append("nobody speaks to another human (N2).")
    if scenario.target is not None and scenario.turns[scenario.target].differs:
        explicit, implicit = (len(scenario.turns[scenario.target].words(name).split()) for name in CONDITIONS)
        if abs(explicit - implicit) > LONGER:
            faults.append(f"T has {explicit} words and {implicit} in its versions; {LONGER} more at most are wanted.")
    for condition in CONDITIONS:
        total = 0
        for index, turn in enumerate(scenario.turns):
            words = len(turn.words(condition).split())
            total += words
            if not TURN_WORDS[0] <= words <= TURN_WORDS[1]:
                faults.append(f"turn {index} has {words} words; {TURN_WORDS[0]} to {TURN_WORDS[1]} are wanted.")
        if not WORDS[0] <= total <= WORDS[1]:
            faults.append(f"the {condition} version has {total} words; {WORDS[0]} to {WORDS[1]} are wanted.")
    return list(dict.fromkeys(faults))


def structure(scenarios: Iterable[Scenario], attributes: Mapping[str, tuple[str, ...]] | None) -> list[str]:
    """Every scenario's faults, led by its name; a pair that breaks a rule is rejected by name."""
    return [f"{scenario.id}: {fault}" for scenario in scenarios for fault in scenario_faults(scenario, attributes)]


def spread(scenarios: Iterable[Scenario]) -> list[str]:
    """What must hold of the shipped set as a whole: size, speaker counts, buckets, how many have which label."""
    scenarios = list(scenarios)
    problems = []
    if len(scenarios) < 60:
        problems.append(f"the set has {len(scenarios)} pairs; at least 60 are shipped.")
    buckets = Counter(scenario.bucket for scenario in scenarios)
    sizes = Counter(len(scenario.speakers) for scenario in scenarios)
    for what, counts, values in (("bucket", buckets, BUCKETS), ("speaker count", sizes, (3, 4))):
        for value in values:
            if counts[value] < 0.7 * len(scenarios) / len(values):
                problems.append(f"{what} {value} has {counts[value]} of {len(scenarios)} pairs; spread them evenly.")
    for label, share in (("N1", 0.8), ("N2", 1.0), ("N3", 0.8), ("N4_Q", 0.9)):
        having = sum(any(turn.label == label for turn in scenario.turns) for scenario in scenarios)
        if having < share * len(scenarios):
            problems.append(f"{label} occurs in {having} of {len(scenarios)} pairs; at least {share:.0%} need it.")
    return problems + _names(scenarios)


def _names(scenarios: list[Scenario]) -> list[str]:
    """Where the name stands must tell nothing: first, inside and last in T as in N4_Q, none of them the rule."""
    problems = []
    for label in ("T", "N4_Q"):
        turns = [turn.words("explicit") for scenario in scenarios for turn in scenario.turns if turn.label == label]
        places = Counter(_place(text) for text in turns)
        for place in ("first", "inside", "last"):
            if not 0.15 * len(turns) <= places[place] <= 0.6 * len(turns):
                problems.append(f"the name stands {place} in {places[place]} of {len(turns)} {label} turns; vary it.")
    return problems


def tally(cases: tuple[Case, ...]) -> dict[str, dict[str, int]]:
    """Cases by version and by quarter of the request, and turns by label."""
    labels = Counter(cue.label for case in cases for cue in case.cues if cue.label in LABELS)
    by_tag = {
        f"by_{name}": dict(Counter(str(case.tags[name]) for case in cases if name in case.tags))
        for name in ("condition", "bucket")
    }
    return by_tag | {"turns_by_label": {name: labels[name] for name in LABELS if labels[name]}}


def _place(text: str) -> str:
    words = [names_aria(word) for word in text.split()]
    return "first" if words[0] else "last" if words[-1] else "inside"


def built(cases: tuple[Case, ...]) -> list[str]:
    """What must hold of built cases: both versions there, alike but for T and the turn before, windows placed."""
    from workbench.benchmarks.duplexmpe.cases import expectation, paired_faults

    problems = []
    pairs: dict[str, dict[str, Case]] = {}
    for case in cases:
        try:
            expectation(case)
        except ValueError as error:
            problems.append(
                f"case {case.id}: the field `expect` is not this benchmark's: {str(error).splitlines()[0]}."
            )
            continue
        pairs.setdefault(str(case.tags.get("scenario")), {})[str(case.tags.get("condition"))] = case
        if case.cues[0].audio is not None and any(window.start_s is None for window in case.windows.values()):
            problems.append(f"case {case.id}: its audio is built and its windows are not; rebuild.")
    for scenario, versions in pairs.items():
        if set(versions) != set(CONDITIONS):
            problems.append(f"scenario {scenario}: only the {', '.join(versions)} version is there; rebuild.")
        else:
            problems += [f"scenario {scenario}: {fault}" for fault in paired_faults(*versions.values())]
    return problems
