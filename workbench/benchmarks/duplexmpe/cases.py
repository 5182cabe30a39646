"""Duplex-MPE: from scenario pairs to cases, one a version.

Source: 'Duplex-MPE' (labels, pairing, one T, 3 s answering window, deterministic voices, spoken duty
preamble, model-dependent wait after T). What it leaves open is marked as ours.
"""

from __future__ import annotations

from collections.abc import Mapping

from workbench.benchmarks.duplexmpe.authored import CONDITIONS, Authored, Label, Scenario, pick
from workbench.cases import AfterGap, AfterTurn, AtTime, Case, Cue, Ending, Record, Window
from workbench.construct.conversation import BuiltTurn
from workbench.construct.voices import Engine, Person, Recorded, cast

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


def expand(data: Authored, turns: Mapping[tuple[str, str], BuiltTurn]) -> list[Case]:
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


def _case(scenario: Scenario, condition: str, turns: Mapping[tuple[str, str], BuiltTurn]) -> Case:
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
    if duration_s is None:
        return {f"{name}.{index:02d}": Window(cue=cue_id(index))}
    return {
        f"{name}.{index:02d}": Window(cue=cue_id(index), start_s=round(float(start_s), 6), end_s=round(float(end_s), 6))
    }


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
