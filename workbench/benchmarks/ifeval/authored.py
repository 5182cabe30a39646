"""The authored part of DuplexSpeechBench-IFEval: roles, probes, scripts, read from data/ and checked.

Roles R1-R3 are those the benchmark names (ER triage nurse, grief counselor, 911 dispatcher); R4-R8
and every text are this project's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError, model_validator

from workbench.cases import Record
from workbench.construct.voices import Age, Person, Sex
from workbench.datasets import describe
from workbench.errors import InputError, ProblemsFound
from workbench.files import data_path, read_yaml

ROLES = tuple(f"R{number}" for number in range(1, 9))
SHARED_PROBES = ("C1", "C2", "C3", "C4")
INSTANCES = (1, 2, 3, 4, 5)
MATCHED_ROLES = ("R1", "R2", "R3")
MATCHED_PROBES = ("C1", "C4")
MATCHED_INSTANCES = (1, 2, 3, 4)
ACTIONS = (
    "LISTEN",
    "TAKE_TURN",
    "BACKCHANNEL",
    "YIELD",
    "INTERRUPT",
    "READBACK",
    "NO_BACKCHANNEL",
    "ACCEPT_OVERLAP",
    "CONTINUE",
)
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


def pick(key: str, count: int) -> int:
    """A choice in range(count), the same for the same key everywhere."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % count


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
    roles: dict[str, Role] = {}
    for role_id in ROLES:
        path = folder / "roles" / f"{role_id}.yaml"
        role = _validated(Role, path, read_yaml(path), problems)
        if role is not None:
            roles[role_id] = role
    probes = {}
    for name, raw in read_yaml(folder / "probes.yaml").items():
        probe = _validated(Probe, folder / "probes.yaml", raw, problems, name)
        if probe is not None:
            probes[name] = probe
    found = read_scripts(scripts or folder / "scripts", problems)
    attributes = tuple(
        f"{kind.replace('_', ' ')}: {value}"
        for kind, values in read_yaml(folder / "attributes.yaml").items()
        for value in values
    )
    if problems:
        raise ProblemsFound(problems)
    return Authored(roles, probes, found, attributes)


def read_scripts(folder: Path, problems: list[str]) -> dict[str, Script]:
    """Every script of a folder of YAML files by id; faults are added to `problems`."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder of scripts (YAML files with a list `conversations`).")
    scripts: dict[str, Script] = {}
    for path in sorted(folder.glob("*.yaml")):
        raw = read_yaml(path)
        listed = raw.get("conversations") if isinstance(raw, dict) else None
        if not isinstance(listed, list):
            problems.append(f"{path}: there is no list `conversations`; add one.")
            continue
        for index, entry in enumerate(listed):
            script = _validated(Script, path, entry, problems, f"conversation {index + 1}")
            if script is None:
                continue
            if script.id in scripts:
                problems.append(f"{path}: the script {script.id!r} is defined twice; remove one.")
            scripts[script.id] = script
    return scripts


def _validated(model: type, path: Path, raw: object, problems: list[str], what: str = ""):
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problems.append(f"{path}{', ' + what if what else ''}: {describe(error)}.")
        return None
