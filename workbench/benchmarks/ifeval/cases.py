"""DuplexSpeechBench-IFEval: roles, probes and scripts, read from data/ifeval/, and the 1,038 cases they give.

Source: the appendix of 'DuplexSpeechBench-IFEval: Evaluating Implicit Instruction Following in Full-Duplex Voice
Agents' (grid, levels, episode, matched audio, markers). Roles R1-R3 are those the benchmark names (ER triage nurse,
grief counselor, 911 dispatcher); R4-R8 and every text are this project's own. What the appendix's missing tables
leave open is settled in data/ifeval/ and marked there as ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from workbench.cases import AfterOnset, AfterTurn, AtTime, Case, Cue, Ending, PromptPart, Record, Segment, Window
from workbench.construct.building import pick, read_records, validated
from workbench.construct.turns import BuiltTurn, ClipName, ScriptPiece, parse
from workbench.construct.voices import Age, Person, Sex
from workbench.errors import ProblemsFound
from workbench.files import data_path, read_yaml
from workbench.text import words

ROLES = tuple(f"R{number}" for number in range(1, 9))
SHARED_PROBES = ("C1", "C2", "C3", "C4")
INSTANCES = (1, 2, 3, 4, 5)
MATCHED_ROLES = ("R1", "R2", "R3")
MATCHED_PROBES = ("C1", "C4")
MATCHED_INSTANCES = (1, 2, 3, 4)
ACTIONS = (
    "LISTEN", "TAKE_TURN", "BACKCHANNEL", "YIELD", "INTERRUPT", "READBACK", "NO_BACKCHANNEL", "ACCEPT_OVERLAP",
    "CONTINUE",
)  # fmt: skip
LEVELS = ("L0", "L1", "L2", "L3", "L4a", "L4b")


class Cell(Record):
    """What a role expects of a probe, and which contradiction L4a sets against it."""

    action: str
    contradiction: str


class Role(Record):
    """A role: its texts by level, its six cells, its thresholds where they differ from the defaults."""

    id: str
    name: str
    domain: str
    persona: str
    directive: str
    content_rule: str
    contradictions: dict[str, tuple[str, ...]]
    cells: dict[str, Cell]
    l4b: dict[str, str] = {}
    thresholds: dict[str, float] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Role:
        expected = {*SHARED_PROBES, f"{self.id}_A", f"{self.id}_B"}
        if set(self.cells) != expected:
            raise ValueError(f"the cells must be {sorted(expected)}, found {sorted(self.cells)}")
        for probe, cell in self.cells.items():
            if cell.action not in ACTIONS:
                raise ValueError(f"cell {probe} expects {cell.action!r}; actions are {', '.join(ACTIONS)}")
            if len(self.contradictions.get(cell.contradiction, ())) != 5:
                raise ValueError(f"cell {probe} needs five variants of the contradiction {cell.contradiction!r}")
        unknown = set(self.l4b) - set(self.cells)
        if unknown:
            raise ValueError(f"l4b names {sorted(unknown)}, which are not cells of {self.id}")
        return self


class Probe(Record):
    """A probe: the structure of turn 2 and where the scored window lies (see data/ifeval/probes.yaml)."""

    title: str
    structure: tuple[str, ...]
    structure_for: dict[str, tuple[str, ...]] = {}
    repeat: tuple[str, ...] = ()
    barge_in_after_s: float | None = None
    window: tuple[str, str]
    window_for: dict[str, tuple[str, str]] = {}
    l4b_window: tuple[str, str] | None = None

    def shape_for(self, actions: Iterable[str]) -> tuple[str, ...]:
        """The structure of a script that is heard by roles which expect `actions`."""
        return next((self.structure_for[action] for action in actions if action in self.structure_for), self.structure)

    def fits(self, shape: list[str], actions: Iterable[str] = ()) -> bool:
        """Whether the pieces of a script are this probe's, one optional repeat included."""
        wanted = self.shape_for(actions)
        return tuple(shape) in (wanted, wanted + self.repeat)


class Script(Record):
    """The user side of one conversation. `id` is ROLE_PROBE_iN, or S_PROBE_iN for the shared ones.

    sex, age : who speaks, as the words have it; the voice is chosen by them. None where nobody said.
    """

    id: str
    situation: str
    sex: Sex | None = None
    age: Age | None = None
    turn1: str
    turn2: str

    @property
    def speaker(self) -> Person:
        return Person(self.sex, self.age)


@dataclass(frozen=True)
class Authored:
    """Everything authored: roles and probes by id, scripts by stream id."""

    roles: dict[str, Role]
    probes: dict[str, Probe]
    scripts: dict[str, Script]
    attributes: tuple[str, ...]


def conversations() -> list[tuple[str, str, int]]:
    """The 240 (role, probe, instance) triples in canonical order."""
    return [
        (role, probe, instance)
        for role in ROLES
        for probe in (*SHARED_PROBES, f"{role}_A", f"{role}_B")
        for instance in INSTANCES
    ]


def stream_of(role: str, probe: str, instance: int) -> str:
    """The script a conversation plays: its own, or the one that R1-R3 share (matched audio)."""
    matched = role in MATCHED_ROLES and probe in MATCHED_PROBES and instance in MATCHED_INSTANCES
    return f"{'S' if matched else role}_{probe}_i{instance}"


def actions_of(authored: Authored, stream: str) -> tuple[str, ...]:
    """What the roles that hear a stream expect of it, each action once."""
    heard = [(role, probe) for role, probe, instance in conversations() if stream_of(role, probe, instance) == stream]
    return tuple(dict.fromkeys(authored.roles[role].cells[probe].action for role, probe in heard))


def attribute_of(authored: Authored, stream: str) -> str:
    """The persona attribute that an author is to tint a stream's script with, such as 'age band: 18 to 24'.

    Chosen by the stream, since conversations that share one share its wording.
    """
    return authored.attributes[pick("attribute " + stream, len(authored.attributes))]


def load(folder: Path | None = None, scripts: Path | None = None) -> Authored:
    """Read the authored data; `scripts` replaces the shipped scripts (a folder of YAML files).

    Raises
    ------
    ProblemsFound : naming every file, field and value that is wrong.
    """
    folder = folder or data_path("ifeval")
    problems: list[str] = []
    roles = {}
    for name in ROLES:
        path = folder / "roles" / f"{name}.yaml"
        roles[name] = validated(Role, read_yaml(path), str(path), problems)
    path = folder / "probes.yaml"
    probes = {name: validated(Probe, raw, f"{path}, {name}", problems) for name, raw in read_yaml(path).items()}
    found = read_scripts(scripts or folder / "scripts", problems)
    if problems:
        raise ProblemsFound(problems)
    attributes = read_yaml(folder / "attributes.yaml").items()
    return Authored(
        roles,
        probes,
        found,
        tuple(f"{kind.replace('_', ' ')}: {value}" for kind, values in attributes for value in values),
    )


def read_scripts(folder: Path, problems: list[str]) -> dict[str, Script]:
    """Every script of a folder of YAML files by id; faults are added to `problems`."""
    return read_records(folder, "conversations", Script, problems)


# -- markers -----------------------------------------------------------------------------------------------

SILENCES = ("pause", "chunk_gap")
SPEECHES = ("chunk", "check", "flag", "barge_in")
"""What may be marked in a script: the appendix names pause, chunk_gap, check and barge_in; a dictated chunk, and
the words that carry a red flag, are ours."""


def pieces_of(script: str) -> list[ScriptPiece]:
    """A script's pieces.

    Raises
    ------
    ValueError : as `parse`, and for a marker that is unknown or holds the wrong kind of content.
    """
    pieces = parse(script)
    for piece in pieces:
        shown = repr(f"<{piece.mark}:{piece.text or f'{piece.duration_s:g}s'}>")
        if piece.mark and piece.mark not in SILENCES + SPEECHES:
            known = ", ".join(SILENCES + SPEECHES)
            raise ValueError(f"the marker {shown} is unknown; markers are {known}")
        if piece.mark in SILENCES and piece.kind == "speech":
            raise ValueError(f"the marker {shown} needs a duration such as 1.5s")
        if piece.mark in SPEECHES and piece.kind == "silence":
            raise ValueError(f"the marker {shown} holds a duration, where words are needed")
    return pieces


def shape_of(pieces: Iterable[ScriptPiece]) -> list[str]:
    """How a probe's structure names the pieces: 'text', 'chunk', 'pause:2.5' ..."""
    return [
        f"{piece.mark}:{piece.duration_s:.1f}" if piece.kind == "silence" else piece.mark or "text" for piece in pieces
    ]


def spoken(script: str) -> str:
    """The words alone, as a listener hears them."""
    return " ".join(piece.text for piece in pieces_of(script) if piece.kind == "speech")


def anchor_s(anchor: str, segments: tuple[Segment, ...]) -> float:
    """Resolve an anchor such as 'pause.1.start', 'chunk_gap.last.end', 'turn.end' or 'turn.end+8.0'.

    segments : those of one built cue. Returns seconds after the cue's start.
    The end of the turn is the end of its last speech segment.

    Raises
    ------
    ValueError : when no segment fits the anchor.
    """
    base, _, plus = anchor.partition("+")
    offset_s = float(plus) if plus else 0.0
    name, *rest = base.split(".")
    if name == "turn":
        speech = [segment for segment in segments if segment.kind == "speech"]
        return round((0.0 if rest == ["start"] else speech[-1].end_s) + offset_s, 3)
    nth, edge = rest
    marked = [segment for segment in segments if segment.mark == name]
    try:
        segment = marked[-1] if nth == "last" else marked[int(nth) - 1]
    except IndexError:
        raise ValueError(f"the anchor {anchor!r} finds no {nth} segment marked {name!r}") from None
    return round((segment.start_s if edge == "start" else segment.end_s) + offset_s, 3)


# -- cases -------------------------------------------------------------------------------------------------

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


DIGITS = dict(zip("zero oh one two three four five six seven eight nine".split(), "00123456789", strict=True))


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


def expand(authored: Authored, turns: Mapping[ClipName, BuiltTurn]) -> list[Case]:
    """The whole grid in canonical order.

    turns : (stream, cue id) -> the built (or unbuilt) clip of that turn. Conversations whose stream
    is not in `turns` are left out.
    """
    return [
        _case(authored, authored.roles[role], probe, instance, level, turns)
        for role, probe, instance in conversations()
        if (stream_of(role, probe, instance), TURN2) in turns
        for level in levels_of(authored.roles[role], probe, instance)
    ]


def _case(
    authored: Authored, role: Role, probe_id: str, instance: int, level: str, turns: Mapping[ClipName, BuiltTurn]
) -> Case:
    probe, action = authored.probes[probe_id], role.cells[probe_id].action
    conversation, stream = f"{role.id}_{probe_id}_i{instance}", stream_of(role.id, probe_id, instance)
    script, first, second = authored.scripts[stream], turns[stream, TURN1], turns[stream, TURN2]
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
            "situation": script.situation,
            **{name: value for name in ("sex", "age") if (value := getattr(script, name))},
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
