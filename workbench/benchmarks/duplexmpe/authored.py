"""The authored part of Duplex-MPE: scenario pairs, read from data/duplexmpe/ and checked.

One entry is one explicit/implicit pair: a turn holds one `text` for both versions, or an `explicit`
and an `implicit` wording. Labels, pairing and buckets are the paper's; every text is this project's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from workbench.cases import Record
from workbench.construct.voices import Age, Sex
from workbench.datasets import describe
from workbench.errors import InputError, ProblemsFound
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
        both, neither = (
            self.explicit is not None and self.implicit is not None,
            self.explicit is None and self.implicit is None,
        )
        if (self.text is None) != both or (self.text is not None) != neither:
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


def pick(key: str, count: int) -> int:
    """A choice in range(count), the same for the same key everywhere."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % count


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
    if not Path(folder).is_dir():
        raise InputError(f"{folder} is not a folder of scenarios (YAML files with a list `scenarios`).")
    scenarios: dict[str, Scenario] = {}
    for path in sorted(Path(folder).glob("*.yaml")):
        raw = read_yaml(path)
        listed = raw.get("scenarios") if isinstance(raw, dict) else None
        if not isinstance(listed, list):
            problems.append(f"{path}: there is no list `scenarios`; add one.")
            continue
        for number, entry in enumerate(listed, start=1):
            try:
                scenario = Scenario.model_validate(entry)
            except ValidationError as error:
                named = entry.get("id") if isinstance(entry, dict) else None
                problems.append(f"{path}, scenario {named or number}: {describe(error)}.")
                continue
            if scenario.id in scenarios:
                problems.append(f"{path}: the scenario {scenario.id!r} is defined twice; give one another id.")
                continue
            scenarios[scenario.id] = scenario
    if not scenarios and not problems:
        problems.append(f"{folder} holds no scenario; add a YAML file with a list `scenarios`.")
    return scenarios
