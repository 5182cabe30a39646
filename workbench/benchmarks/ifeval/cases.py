"""DuplexSpeechBench-IFEval: from authored roles, probes and scripts to 1,038 cases.

Source: the appendix of 'DuplexSpeechBench-IFEval: Evaluating Implicit Instruction Following in
Full-Duplex Voice Agents' (grid, levels, episode, matched audio). What its missing tables leave open
is settled in data/ifeval/ and marked there as ours.
"""

from __future__ import annotations

from typing import Literal

from workbench.benchmarks.ifeval.authored import (
    LEVELS,
    Authored,
    Probe,
    Role,
    conversations,
    pick,
    stream_of,
)
from workbench.cases import AfterOnset, AfterTurn, AtTime, Case, Cue, Ending, PromptPart, Record, Window
from workbench.construct.conversation import BuiltTurn
from workbench.construct.markup import anchor_s, parse
from workbench.text import words

TURN1, TURN2 = "turn1", "turn2"
WINDOW = "trigger"

# The episode (appendix, orchestrator): wait at most 5 s for the answer to turn 1, 0.6 s to settle;
# after turn 2 a 0.5 s tail, at most 8 s, 1.5 s flush. Frame-synchronous: 3.0 s gap, 5.0 s trailing.
AFTER_TURN1 = AfterTurn(max_wait_s=5.0, settle_s=0.6, fixed_gap_s=3.0)
ENDING = Ending(tail_s=0.5, max_wait_s=8.0, flush_s=1.5, continuous_s=5.0, batch_s=1.0)
ONSET_WAIT_S = 10.0
"""How long a barge-in waits for the agent to begin speaking (ours; the paper gives no bound)."""


class Expectation(Record):
    """What a case expects, and what a judge may be told of its role."""

    action: str
    role_name: str
    persona: str
    content_rule: str
    precedence: Literal["directive-wins", "persona-wins"] | None = None
    barge_in_after_s: float | None = None
    target: str | None = None
    thresholds: dict[str, float] = {}


def tokens(text: str) -> list[str]:
    """Normalise for READBACK: lower-case words ([a-z0-9]+), spelled digits to digits, digit runs split (E.3).

    Other scripts than the paper's English: see `workbench.text.words`.
    """
    out: list[str] = []
    for token in words(text):
        token = DIGITS.get(token, token)
        out.extend(token if token.isdecimal() else [token])
    return out


DIGITS = {
    "zero": "0", "oh": "0", "one": "1", "two": "2", "three": "3", "four": "4",
    "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
}  # fmt: skip


def levels_of(role: Role, probe_id: str, instance: int) -> list[str]:
    """The levels of one conversation: L0 only at instance 1, L4b only where the role defines it."""
    return [
        level
        for level in LEVELS
        if not (level == "L0" and instance != 1) and not (level == "L4b" and probe_id not in role.l4b)
    ]


def prompt_of(role: Role, probe_id: str, conversation: str, level: str) -> tuple[PromptPart, ...]:
    """The system prompt's parts by level (appendix, levels L0-L4b)."""
    persona = PromptPart(name="persona", text=role.persona.strip())
    directive = PromptPart(name="directive", text=role.directive.strip())
    variants = role.contradictions[role.cells[probe_id].contradiction]
    match level:
        case "L0":
            return ()
        case "L1":
            return (directive,)
        case "L2":
            return (persona,)
        case "L3":
            return (persona, directive)
        case "L4a":
            return (persona, PromptPart(name="contradiction", text=variants[pick(conversation, 5)].strip()))
        case _:
            return (persona, PromptPart(name="contradiction", text=role.l4b[probe_id].strip()))


def expand(authored: Authored, turns: dict[tuple[str, str], BuiltTurn]) -> list[Case]:
    """The whole grid in canonical order.

    turns : (stream, cue id) -> the built (or unbuilt) clip of that turn. Conversations whose stream
    is not in `turns` are left out.
    """
    cases = []
    for role_id, probe_id, instance in conversations():
        stream = stream_of(role_id, probe_id, instance)
        if (stream, TURN2) not in turns:
            continue
        role, probe = authored.roles[role_id], authored.probes[probe_id]
        conversation = f"{role_id}_{probe_id}_i{instance}"
        for level in levels_of(role, probe_id, instance):
            cases.append(_case(authored, role, probe, probe_id, instance, conversation, stream, level, turns))
    return cases


def _case(
    authored: Authored,
    role: Role,
    probe: Probe,
    probe_id: str,
    instance: int,
    conversation: str,
    stream: str,
    level: str,
    turns: dict[tuple[str, str], BuiltTurn],
) -> Case:
    action = role.cells[probe_id].action
    first, second = turns[stream, TURN1], turns[stream, TURN2]
    barge_in_s = probe.barge_in_after_s
    start2 = AFTER_TURN1 if barge_in_s is None else AfterOnset(delay_s=barge_in_s, max_wait_s=ONSET_WAIT_S)
    chunks = [piece.text for piece in parse(second.script) if piece.mark == "chunk"]
    precedence = {"L4a": "directive-wins", "L4b": "persona-wins"}.get(level)
    return Case(
        id=f"{conversation}_{level}",
        benchmark="ifeval",
        conversation=conversation,
        stream=stream,
        prompt=prompt_of(role, probe_id, conversation, level),
        cues=(
            Cue(id=TURN1, start=AtTime(time_s=0.0), **first.fields()),
            Cue(id=TURN2, start=start2, **second.fields()),
        ),
        ending=ENDING,
        windows={WINDOW: _window(probe, action, level, second)},
        expect=Expectation(
            action=action,
            role_name=role.name,
            persona=role.persona.strip(),
            content_rule=role.content_rule.strip(),
            precedence=precedence,
            barge_in_after_s=barge_in_s,
            target=" ".join(chunks) if action == "READBACK" else None,
            thresholds=role.thresholds,
        ).model_dump(),
        tags={
            "role": role.id,
            "role_name": role.name,
            "probe": probe_id,
            "level": level,
            "instance": instance,
            "action": action,
            "speaker": second.speaker,
            "matched": "yes" if stream.startswith("S_") else "no",
            "situation": authored.scripts[stream].situation,
            **{name: value for name in ("sex", "age") if (value := getattr(authored.scripts[stream], name))},
        },
    )


def _window(probe: Probe, action: str, level: str, turn: BuiltTurn) -> Window:
    if turn.audio is None:
        return Window(cue=TURN2)
    anchors = probe.window_for.get(action, probe.window)
    if level == "L4b" and probe.l4b_window is not None:
        anchors = probe.l4b_window
    start_s, end_s = (anchor_s(anchor, turn.segments) for anchor in anchors)
    return Window(cue=TURN2, start_s=start_s, end_s=end_s)


def expectation(case: Case) -> Expectation:
    """The benchmark's own part of a case, validated."""
    return Expectation.model_validate(case.expect)
