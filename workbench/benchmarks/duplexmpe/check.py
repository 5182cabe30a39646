"""Checks of scenario pairs and of a built dataset, and the building of one; checks return sentences, one a violation.

`scenario_faults` holds the rules of the paper (labels, one T at its bucket, pairing, N4) and those
without which a turn cannot be spoken. `style_faults` holds this project's own bounds for authors:
lengths, and how much talk follows T.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from workbench.benchmarks.duplexmpe import cases as au
from workbench.cases import Case, Cue
from workbench.construct import building
from workbench.construct.turns import ClipName
from workbench.construct.voices import Engine, Recorded
from workbench.contract import BuildOptions
from workbench.datasets import Dataset, Header
from workbench.errors import InputError, ProblemsFound

VERSION = "2"
"""Of the authored data; a dataset carries that of the data it was built from."""
PAIRS = 64
CASES = 2 * PAIRS
TURNS, TURN_WORDS, WORDS = (10, 14), (5, 30), (170, 230)
LONGER = 2
"""So many words at most may one version's T be longer than the other's: length is no cue."""

_NAME = re.compile(rf"\b{au.NAME}\b", re.IGNORECASE)
_UNSAYABLE = re.compile(r"[\d()\[\]{}<>\"“”;*_#/\\]")
_ID = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def names_aria(text: str) -> bool:
    return bool(_NAME.search(text))


def scenario_faults(scenario: au.Scenario, attributes: Mapping[str, tuple[str, ...]] | None = None) -> list[str]:
    """What is wrong with one pair, as sentences without its name."""
    faults = _frame(scenario, attributes)
    labels = [turn.label for turn in scenario.turns]
    faults += _target(scenario, labels) + _events(scenario, labels) + _versions(scenario)
    for index, turn in enumerate(scenario.turns):
        for words in {turn.words(condition) for condition in au.CONDITIONS}:
            odd = sorted(set(_UNSAYABLE.findall(words)))
            if odd or not re.search(r"[A-Za-z]", words):
                what = "holds " + " ".join(odd) if odd else "holds no words"
                faults.append(f"turn {index} ({words[:40]!r}) {what}, which cannot be spoken; write it out in words.")
    return faults


def _frame(scenario: au.Scenario, attributes: Mapping[str, tuple[str, ...]] | None) -> list[str]:
    faults = []
    if not _ID.fullmatch(scenario.id):
        faults.append("its id must be lower-case words joined by '_'.")
    if set(scenario.attributes) != set(au.ATTRIBUTES):
        faults.append(f"its attributes are {sorted(scenario.attributes)}, and {', '.join(au.ATTRIBUTES)} are needed.")
    for name, value in scenario.attributes.items():
        if attributes and name in attributes and value not in attributes[name]:
            faults.append(f"the {name} {value!r} is not in attributes.yaml; take one from there.")
    speakers = scenario.speakers
    if len(speakers) not in (3, 4) or len(set(speakers)) != len(speakers):
        faults.append(f"it has the speakers {', '.join(speakers)}; three or four different ones are needed.")
    if any(names_aria(speaker) for speaker in speakers):
        faults.append(f"{au.NAME} is the assistant and cannot be one of the speakers.")
    for stranger in sorted(set(scenario.people) - set(speakers)):
        faults.append(f"`people` describes {stranger}, who is not among the speakers.")
    said = Counter(turn.speaker for turn in scenario.turns)
    for speaker in speakers:
        if said[speaker] < 2:
            faults.append(f"{speaker} speaks {said[speaker]} times, and everyone speaks at least twice.")
    for stranger in sorted(set(said) - set(speakers)):
        faults.append(f"{stranger} speaks and is not among the speakers.")
    return faults


def _target(scenario: au.Scenario, labels: list[str]) -> list[str]:
    index = scenario.target
    if index is None:
        return [f"it has {labels.count('T')} turns labelled T, and exactly one is needed."]
    faults = []
    if index == 0:
        faults.append("T is the first turn; let others speak before.")
    if index == len(labels) - 1:
        faults.append("T is the last turn; conversation must follow.")
    found = au.bucket_of(index, len(labels))
    if scenario.bucket not in au.BUCKETS or found != scenario.bucket:
        faults.append(
            f"T is turn {index} of {len(labels)}, which is bucket {found}, and {scenario.bucket} is assigned."
        )
    return faults


def _events(scenario: au.Scenario, labels: list[str]) -> list[str]:
    faults = []
    if not set(labels) & set(au.SILENT):
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


def _versions(scenario: au.Scenario) -> list[str]:
    """The pair: same task and sequence, T names Aria or carries a cue, at most the turn before is revised as well."""
    faults = []
    target = scenario.target
    for index, turn in enumerate(scenario.turns):
        if turn.differs and target is not None and index not in (target - 1, target):
            faults.append(f"turn {index} differs between the versions; only T and the turn just before it may.")
        named = [names_aria(turn.words(condition)) for condition in au.CONDITIONS]
        if turn.label in ("N1", "N4_Q") and not all(named):
            faults.append(f"turn {index} is {turn.label} and does not name {au.NAME}.")
        if turn.label in ("N2", "N3") and any(named):
            faults.append(f"turn {index} is {turn.label} and names {au.NAME}; label it N1 or reword it.")
    if target is not None:
        turn = scenario.turns[target]
        if not turn.differs or turn.explicit == turn.implicit:
            faults.append("T has the same words in both versions; give it an explicit and an implicit wording.")
        else:
            if not names_aria(turn.explicit):
                faults.append(f"the explicit T does not name {au.NAME}.")
            if names_aria(turn.implicit):
                faults.append(f"the implicit T names {au.NAME}; let a cue from the context carry the address.")
    return faults


def style_faults(scenario: au.Scenario) -> list[str]:
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
        explicit, implicit = (len(scenario.turns[scenario.target].words(name).split()) for name in au.CONDITIONS)
        if abs(explicit - implicit) > LONGER:
            faults.append(f"T has {explicit} words and {implicit} in its versions; {LONGER} more at most are wanted.")
    for condition in au.CONDITIONS:
        total = 0
        for index, turn in enumerate(scenario.turns):
            words = len(turn.words(condition).split())
            total += words
            if not TURN_WORDS[0] <= words <= TURN_WORDS[1]:
                faults.append(f"turn {index} has {words} words; {TURN_WORDS[0]} to {TURN_WORDS[1]} are wanted.")
        if not WORDS[0] <= total <= WORDS[1]:
            faults.append(f"the {condition} version has {total} words; {WORDS[0]} to {WORDS[1]} are wanted.")
    return list(dict.fromkeys(faults))


def structure(scenarios: Iterable[au.Scenario], attributes: Mapping[str, tuple[str, ...]] | None) -> list[str]:
    """Every scenario's faults, led by its name; a pair that breaks a rule is rejected by name."""
    return [f"{scenario.id}: {fault}" for scenario in scenarios for fault in scenario_faults(scenario, attributes)]


def spread(scenarios: Iterable[au.Scenario]) -> list[str]:
    """What must hold of the shipped set as a whole: size, speaker counts, buckets, how many have which label."""
    scenarios = list(scenarios)
    problems = []
    if len(scenarios) < 60:
        problems.append(f"the set has {len(scenarios)} pairs; at least 60 are shipped.")
    buckets = Counter(scenario.bucket for scenario in scenarios)
    sizes = Counter(len(scenario.speakers) for scenario in scenarios)
    for what, counts, values in (("bucket", buckets, au.BUCKETS), ("speaker count", sizes, (3, 4))):
        for value in values:
            if counts[value] < 0.7 * len(scenarios) / len(values):
                problems.append(f"{what} {value} has {counts[value]} of {len(scenarios)} pairs; spread them evenly.")
    for label, share in (("N1", 0.8), ("N2", 1.0), ("N3", 0.8), ("N4_Q", 0.9)):
        having = sum(any(turn.label == label for turn in scenario.turns) for scenario in scenarios)
        if having < share * len(scenarios):
            problems.append(f"{label} occurs in {having} of {len(scenarios)} pairs; at least {share:.0%} need it.")
    return problems + _names(scenarios)


def _names(scenarios: list[au.Scenario]) -> list[str]:
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
    labels = Counter(cue.label for case in cases for cue in case.cues)
    turns = {name: labels[name] for name in au.LABELS if labels[name]}
    return building.tally(cases, ("condition", "bucket")) | {"turns_by_label": turns}


def _place(text: str) -> str:
    words = [names_aria(word) for word in text.split()]
    return "first" if words[0] else "last" if words[-1] else "inside"


def built(cases: tuple[Case, ...]) -> list[str]:
    """What must hold of built cases: both versions there, alike but for T and the turn before, windows placed."""
    problems = []
    pairs: dict[str, dict[str, Case]] = {}
    for case in cases:
        where = f"case {case.id}: the field `expect` is not this benchmark's"
        if building.validated(au.Expectation, case.expect, where, problems) is None:
            continue
        pairs.setdefault(str(case.tags.get("scenario")), {})[str(case.tags.get("condition"))] = case
        if case.cues[0].audio is not None and any(window.start_s is None for window in case.windows.values()):
            problems.append(f"case {case.id}: its audio is built and its windows are not; rebuild.")
    for scenario, versions in pairs.items():
        if set(versions) != set(au.CONDITIONS):
            problems.append(f"scenario {scenario}: only the {', '.join(versions)} version is there; rebuild.")
        else:
            problems += [f"scenario {scenario}: {fault}" for fault in paired_faults(*versions.values())]
    return problems


def paired_faults(one: Case, other: Case) -> list[str]:
    """How two versions of one scenario differ where they may not."""
    faults = []
    labels = [[cue.label for cue in case.cues] for case in (one, other)]
    if labels[0] != labels[1]:
        return ["its versions have different turns or labels; rebuild."]
    if [cue.speaker for cue in one.cues] != [cue.speaker for cue in other.cues]:
        faults.append("its versions have different voices; rebuild.")
    if [cue.start for cue in one.cues] != [cue.start for cue in other.cues]:
        faults.append("its versions have different gaps; rebuild.")
    if one.expect.get("gold") != other.expect.get("gold"):
        faults.append("its versions have different gold answers; rebuild.")
    target = labels[0].index("T") if "T" in labels[0] else None
    apart = [index for index, (a, b) in enumerate(zip(one.cues, other.cues, strict=True)) if a.text != b.text]
    if target is None or target not in apart or not set(apart) <= {target - 1, target}:
        faults.append("its versions must differ in T, and else at most in the turn before; rebuild.")
    return faults


# -- building ----------------------------------------------------------------------------------------------


def build(options: BuildOptions) -> Header:
    """Build the dataset in `options.out`. Turns that both versions share are one clip.

    Raises
    ------
    ProblemsFound : scenarios break a rule (each named; nothing is built), or as `building.build`.
    """
    data = au.load(options.scripts)
    problems = structure(data.scenarios.values(), data.attributes if options.scripts is None else None)
    if problems:
        raise ProblemsFound(problems)
    return building.build(_plan(data), options)


def recompute(dataset: Dataset, scripts: Path | None = None, listen: bool = False) -> building.Recomputed:
    """Expand every pair again from the authored data and the dataset's own clips, and compare."""
    return building.recompute(dataset, VERSION, lambda scripts: _plan(au.load(scripts)), scripts, listen)


def _plan(data: au.Authored) -> building.Plan:
    said: dict[ClipName, tuple[str, au.Scenario, str]] = {}
    for scenario in data.scenarios.values():
        said[scenario.id, au.PREAMBLE] = data.preamble, scenario, au.PREAMBLE
        for condition in au.CONDITIONS:
            for index, turn in enumerate(scenario.turns):
                clip = au.stream_of(scenario, index, condition), au.cue_id(index)
                said[clip] = turn.words(condition), scenario, turn.speaker

    def clip_of(case: Case, cue: Cue) -> ClipName:
        shared = (str(case.tags.get("scenario")), cue.id)
        return shared if shared in said else (case.stream, cue.id)

    def voice_of(clip: ClipName, engine: Engine | Recorded) -> str:
        _, scenario, speaker = said[clip]
        return au.voices_for(scenario, engine)[speaker]

    texts = {clip: words for clip, (words, _, _) in said.items()}
    return building.Plan(VERSION, texts, lambda turns: au.expand(data, turns), voice_of, _chosen, clip_of)


def _chosen(cases: list[Case], limit: int) -> list[Case]:
    """Whole pairs only: `limit` cases or one less, every bucket and speaker count before any comes twice."""
    if limit < 2:
        raise InputError(f"--limit {limit} leaves no pair, and a pair is two cases; give at least 2.")
    cells: dict[tuple[int, int], dict[str, None]] = {}
    for case in cases:
        cells.setdefault((case.tags["bucket"], case.tags["speakers"]), {})[case.tags["scenario"]] = None
    # First of every cell, then second ...
    ranked = sorted((place, cell, name) for cell, names in cells.items() for place, name in enumerate(names))
    wanted = {name for _, _, name in ranked[: limit // 2]}
    return [case for case in cases if case.tags["scenario"] in wanted]


def validate_authored() -> list[str]:
    """The rules of every shipped pair, and the spread of the set."""
    data = au.load()
    return structure(data.scenarios.values(), data.attributes) + spread(data.scenarios.values())


def validate(dataset: Dataset, complete: bool) -> list[str]:
    """What must hold of a built dataset; the exact count only when it is meant to be the whole shipped set."""
    problems = built(dataset.cases)
    if complete and dataset.header.author == "shipped" and len(dataset.cases) != CASES:
        problems.append(f"{len(dataset.cases)} cases, where the shipped set has {CASES}; build without --limit.")
    return problems
