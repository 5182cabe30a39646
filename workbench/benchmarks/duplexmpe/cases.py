"""Duplex-MPE: scenario pairs, read from data/duplexmpe/, and the cases they give, one a version.

One entry is one explicit/implicit pair: a turn holds one `text` for both versions, or an `explicit` and an
`implicit` wording. Source: 'Duplex-MPE' (labels, pairing, buckets, one T, 3 s answering window, deterministic
voices, spoken duty preamble, model-dependent wait after T). Every text is this project's, and what the paper
leaves open is marked as ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from workbench.cases import AfterGap, AfterTurn, AtTime, Case, Cue, Ending, Record, Window
from workbench.construct.building import pick, read_records
from workbench.construct.turns import BuiltTurn, ClipName
from workbench.construct.voices import Age, Engine, Person, Recorded, Sex, cast
from workbench.errors import ProblemsFound
from workbench.files import data_path, read_yaml

NAME = "Aria"
CONDITIONS = ("explicit", "implicit")
ATTRIBUTES = ("setting", "activity", "relationship", "device", "register")
LABELS = ("T", "N1", "N2", "N3", "N4_Q", "N4_R")
SILENT = ("N1", "N2", "N3")
"""Labels on which the assistant is to stay silent."""

BUCKETS = (1, 2, 3, 4)
Label = Literal["T", "N1", "N2", "N3", "N4_Q", "N4_R"]


class Turn(Record):
    """One turn: the same words in both versions (`text`), or one wording for each."""

    speaker: str
    label: Label
    text: str | None = None
    explicit: str | None = None
    implicit: str | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Turn:
        wordings = sum(words is not None for words in (self.explicit, self.implicit))
        if wordings != (2 if self.text is None else 0):
            raise ValueError(f"a turn of {self.speaker} needs either `text`, or both `explicit` and `implicit`")
        return self

    @property
    def differs(self) -> bool:
        return self.text is None

    def words(self, condition: str) -> str:
        """What is said in one version."""
        return self.text if self.text is not None else getattr(self, condition)


class Scenario(Record):
    """One scenario pair. `people` says who the speakers are; their voices are chosen by it.

    `varied_from` names the authored scenario that a varied one was made from.
    """

    id: str
    attributes: dict[str, str]
    speakers: tuple[str, ...]
    people: dict[str, tuple[Sex, Age]] = {}
    bucket: int
    gold: str = Field(min_length=1)
    accept: tuple[str, ...] = Field(min_length=1)
    turns: tuple[Turn, ...] = Field(min_length=1)
    varied_from: str | None = None

    @property
    def target(self) -> int | None:
        """Index of the T turn; None unless there is exactly one."""
        found = [index for index, turn in enumerate(self.turns) if turn.label == "T"]
        return found[0] if len(found) == 1 else None

    @property
    def source(self) -> str:
        """The unit of resampling: varied scenarios are no new conversations."""
        return self.varied_from or self.id


@dataclass(frozen=True)
class Authored:
    """Everything authored: scenarios by id, the attribute values, the spoken duty preamble."""

    scenarios: dict[str, Scenario]
    attributes: Mapping[str, tuple[str, ...]]
    preamble: str


def bucket_of(index: int, turns: int) -> int:
    """The quarter of the turn list, 1 to 4, in which the 0-based `index` lies."""
    return 4 * index // turns + 1


def read_attributes() -> dict[str, tuple[str, ...]]:
    raw = read_yaml(data_path("duplexmpe", "attributes.yaml"))
    return {name: tuple(raw[name]) for name in ATTRIBUTES}


def read_preamble() -> str:
    return " ".join(read_yaml(data_path("duplexmpe", "preamble.yaml"))["text"].split())


def load(scripts: Path | None = None) -> Authored:
    """Read the authored data; `scripts` replaces the shipped scenarios (a folder of YAML files).

    Raises
    ------
    ProblemsFound : naming every file, entry and field that is wrong.
    """
    problems: list[str] = []
    found = read_scenarios(scripts or data_path("duplexmpe", "scenarios"), problems)
    if problems:
        raise ProblemsFound(problems)
    return Authored(found, read_attributes(), read_preamble())


def read_scenarios(folder: Path, problems: list[str]) -> dict[str, Scenario]:
    """Every scenario of a folder of YAML files by id; faults are added to `problems`."""
    scenarios = read_records(Path(folder), "scenarios", Scenario, problems)
    if not scenarios and not problems:
        problems.append(f"{folder} holds no scenario; add a YAML file with a list `scenarios`.")
    return scenarios


# -- cases -------------------------------------------------------------------------------------------------

BENCHMARK_NAME = "duplex-mpe"
PREAMBLE = "preamble"

ANSWER_GAP_S = 3.0
"""From the end of N4_Q to the start of N4_R (paper)."""
ONSET_S = 5.0
"""A fresh onset comes within this after T (paper)."""
RESPONSE_S = 60.0
"""The response window of T lasts at most so long (read off public clips)."""
TAIL_S = 0.5
"""N windows and the window of N4_R reach this far past the turn (N4_R: paper; N: ours)."""
YIELD_S = 2.0
"""Silent from this long after N4_R begins (paper)."""

GAPS_S = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2)
"""Silence between other turns (ours): longer than TAIL_S, so that no N window reaches into the next
turn, and varied by scenario and turn, so that nobody can count time. Both versions have the same."""

AFTER_T = AfterTurn(max_wait_s=RESPONSE_S, quiet_s=2.0, give_up_s=6.0, by_silence=True)
"""The wait for the answer: over 2 s after the agent falls silent, 60 s at most (read off public
clips). An agent that says nothing is waited for 6 s (ours): the onset window of 5 s closes before
the next human speaks, so nobody's reaction to that turn can pass for an answer."""
AFTER_PREAMBLE = AfterTurn(max_wait_s=10.0, quiet_s=1.0, give_up_s=2.0, by_silence=True)
"""Ours: an agent that says it has understood its duty may finish before the conversation starts."""
ENDING = Ending(tail_s=2.5, max_wait_s=0.0, flush_s=0.0, quiet_s=0.5, continuous_s=2.5, batch_s=0.0)
"""Ours: enough for the window of a last turn, even an N4_R shorter than 2 s."""


class Role(Record):
    """One turn as a judge or a reference may be told of it."""

    cue: str
    label: Label
    speaker: str


class Expectation(Record):
    """What a case expects: the answer to T, phrasings that make one right, and who says what."""

    gold: str
    accept: tuple[str, ...]
    speakers: tuple[str, ...]
    turns: tuple[Role, ...]


def expectation(case: Case) -> Expectation:
    """The benchmark's own part of a case, validated."""
    return Expectation.model_validate(case.expect)


def speakers(case: Case) -> dict[str, str]:
    """Cue -> the human who speaks it; the preamble is nobody's."""
    turns = case.expect.get("turns")
    return {turn["cue"]: turn["speaker"] for turn in turns or () if {"cue", "speaker"} <= set(turn)}


def cue_id(index: int) -> str:
    return f"t{index:02d}"


def voices_for(scenario: Scenario, engine: Engine | Recorded) -> dict[str, str]:
    """Speaker -> voice, and PREAMBLE -> another one: always the same for the same scenario and engine.

    Raises
    ------
    InputError : the engine has fewer voices than the conversation needs.
    """
    people = {speaker: Person(*scenario.people.get(speaker, ())) for speaker in scenario.speakers}
    return cast(scenario.id, people | {PREAMBLE: Person()}, engine)


def stream_of(scenario: Scenario, index: int, condition: str) -> str:
    """Whose clip a turn is: the pair's, or one version's where the wording differs."""
    return f"{scenario.id}_{condition}" if scenario.turns[index].differs else scenario.id


def expand(data: Authored, turns: Mapping[ClipName, BuiltTurn]) -> list[Case]:
    """Both versions of every scenario, in order.

    turns : (stream, cue id) -> the built (or unbuilt) clip; a scenario's preamble is (scenario id,
    PREAMBLE). Scenarios whose preamble is not in `turns` are left out.
    """
    return [
        _case(scenario, condition, turns)
        for scenario in data.scenarios.values()
        if (scenario.id, PREAMBLE) in turns
        for condition in CONDITIONS
    ]


def _case(scenario: Scenario, condition: str, turns: Mapping[ClipName, BuiltTurn]) -> Case:
    cues = [Cue(id=PREAMBLE, label=PREAMBLE, start=AtTime(time_s=0.5), **turns[scenario.id, PREAMBLE].fields())]
    windows: dict[str, Window] = {}
    before = PREAMBLE
    for index, turn in enumerate(scenario.turns):
        built = turns[stream_of(scenario, index, condition), cue_id(index)]
        cues.append(Cue(id=cue_id(index), label=turn.label, start=_start(scenario, index, before), **built.fields()))
        windows |= _windows(index, turn.label, built.audio.duration_s if built.audio else None)
        before = turn.label
    return Case(
        id=f"{scenario.id}_{condition}",
        benchmark=BENCHMARK_NAME,
        conversation=scenario.source,
        stream=f"{scenario.id}_{condition}",
        cues=tuple(cues),
        ending=ENDING,
        windows=windows,
        expect=Expectation(
            gold=scenario.gold,
            accept=scenario.accept,
            speakers=scenario.speakers,
            turns=tuple(
                Role(cue=cue_id(index), label=turn.label, speaker=turn.speaker)
                for index, turn in enumerate(scenario.turns)
            ),
        ).model_dump(),
        tags={
            "scenario": scenario.id,
            "condition": condition,
            "bucket": scenario.bucket,
            "speakers": len(scenario.speakers),
            **scenario.attributes,
        },
    )


def _start(scenario: Scenario, index: int, before: str):
    if before == PREAMBLE:
        return AFTER_PREAMBLE
    if before == "T":
        return AFTER_T
    if scenario.turns[index].label == "N4_R":
        return AfterGap(gap_s=ANSWER_GAP_S)
    return AfterGap(gap_s=GAPS_S[pick(f"gap {scenario.source} {index}", len(GAPS_S))])


def _windows(index: int, label: str, duration_s: float | None) -> dict[str, Window]:
    """The turn's scored window, named by what is scored in it. That of T's whole answer ends with the next cue."""
    name, start_s, end_s = {
        "T": ("onset", duration_s, (duration_s or 0) + ONSET_S),
        "N4_Q": ("answering", 0.0, (duration_s or 0) + ANSWER_GAP_S),
        "N4_R": ("yield", 0.0, max(YIELD_S, (duration_s or 0) + TAIL_S)),
    }.get(label, ("silence", 0.0, (duration_s or 0) + TAIL_S))
    window = Window(cue=cue_id(index))
    if duration_s is not None:
        window = Window(cue=cue_id(index), start_s=round(float(start_s), 6), end_s=round(float(end_s), 6))
    return {f"{name}.{index:02d}": window}
