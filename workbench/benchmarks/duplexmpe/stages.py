"""How a language model writes a pair: the explicit conversation, its implicit version, a blind labelling of both.

Each step of each pair is a file in the work folder, so a batch that stopped goes on with the step that is
missing. A pair whose labels the second pass disagrees with is rejected: its steps are removed, what was
wrong is kept, and it is written anew, three times in one call at most.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

from pydantic import Field, ValidationError

from workbench.benchmarks.duplexmpe import authored as au
from workbench.benchmarks.duplexmpe.check import TURN_WORDS, TURNS, WORDS, scenario_faults, style_faults
from workbench.cases import Record
from workbench.chat.messages import boundary_of, fence
from workbench.construct.authors import (
    Author,
    Grams,
    Request,
    Task,
    Work,
    Written,
    alike,
    grams,
    plain,
    write_all,
)
from workbench.errors import InputError
from workbench.files import content_key, data_path, read_json, write_json
from workbench.progress import meter

ROUNDS = 3


class DraftTurn(Record):
    speaker: str = Field(description="first name")
    label: au.Label = Field(description="the turn's label")
    text: str = Field(description="what is said")


class Draft(Record):
    """The explicit conversation."""

    speakers: tuple[str, ...] = Field(description="first names, in order of appearance")
    turns: tuple[DraftTurn, ...] = Field(description="the turns in order")
    gold: str = Field(description="the answer to T as one short sentence")
    accept: tuple[str, ...] = Field(description="two to five phrasings that make an answer right")


class Rewrite(Record):
    """What is different in the implicit version."""

    implicit: str = Field(description="the request without the name, with a cue")
    before: str = Field(description="another wording of the turn just before it, or an empty string")


class Labelling(Record):
    """The labels that a second pass gives."""

    labels: tuple[au.Label, ...] = Field(description="one label a turn, in order")


def as_draft(scenario: au.Scenario) -> Draft:
    turns = tuple(
        DraftTurn(speaker=turn.speaker, label=turn.label, text=turn.words("explicit")) for turn in scenario.turns
    )
    return Draft(speakers=scenario.speakers, turns=turns, gold=scenario.gold, accept=scenario.accept)


def _grams(scenario: au.Scenario) -> Grams:
    return grams(" ".join(turn.words("explicit") for turn in scenario.turns))


class Desk:
    """The work folder, and what the author is told at each step. The same seed gives the same assignments."""

    def __init__(self, folder: Path, seed: int):
        self.folder, self.seed = folder, seed
        self.shipped = list(au.load().scenarios.values())
        self.attributes = au.read_attributes()
        names = ("draft.md", "draft_request.md", "pair.md", "pair_request.md", "label.md", "again.md")
        self.prompts = {name: data_path("duplexmpe", "prompts", name).read_text(encoding="utf-8") for name in names}
        self.prompt_sha256 = content_key(self.prompts, length=64)
        self.known = {scenario.id: _grams(scenario) for scenario in self.shipped}

    def learn(self, scenarios: Iterable[au.Scenario]) -> None:
        """Finished pairs that a new one must not repeat."""
        self.known |= {scenario.id: _grams(scenario) for scenario in scenarios}

    def path(self, name: str, step: str) -> Path:
        return self.folder / f"{name}.{step}.json"

    def has(self, name: str, step: str) -> bool:
        return self.path(name, step).exists()

    def answer(self, name: str, step: str, kind: type[Record]) -> Any:
        try:
            return kind.model_validate(read_json(self.path(name, step))["answer"])
        except (ValidationError, KeyError, TypeError):
            raise InputError(f"{self.path(name, step)} is damaged; remove it to have that step done again.") from None

    def keep(self, name: str, step: str, written: Written) -> None:
        value = {"answer": written.answer.model_dump(mode="json"), "provenance": written.provenance}
        write_json(self.path(name, step), value)

    # --- what is assigned ---

    def assigned(self, name: str) -> tuple[dict[str, str], int, int]:
        """Attributes, bucket and number of speakers: the last two take turns, so that any set is even."""
        number = int(re.sub(r"\D", "", name) or 0)
        draw = random.Random(f"{self.seed} {name}")
        attributes = {key: draw.choice(values) for key, values in self.attributes.items()}
        return attributes, number % 4 + 1, 3 + number // 4 % 2

    # --- what is asked ---

    def draft(self, name: str) -> Request:
        attributes, bucket, speakers = self.assigned(name)
        lengths = range(TURNS[0], TURNS[1] + 1)
        places = [
            f"{min(at)} or {max(at)} of {length}" if len(at) > 1 else f"{at[0]} of {length}"
            for length in lengths
            if (at := [i + 1 for i in range(1, length - 2) if au.bucket_of(i, length) == bucket])
        ]
        example = self.shipped[au.pick(f"example {self.seed} {name}", len(self.shipped))]
        values = {
            "attributes": "\n".join(f"- {key}: {value}" for key, value in attributes.items()),
            "speakers": speakers,
            "low": TURNS[0], "high": TURNS[1], "words_low": WORDS[0], "words_high": WORDS[1],
            "turn_low": TURN_WORDS[0], "turn_high": TURN_WORDS[1],
            "places": "; ".join(places),
            "example": as_draft(example).model_dump_json(indent=1),
        }  # fmt: skip
        return self._request(name, "draft", values, {"attributes": attributes, "bucket": bucket})

    def pair(self, name: str) -> Request:
        scenario = self.explicit(name, self.answer(name, "draft", Draft))
        target = scenario.target
        turns = [f"{i + 1}. {turn.speaker}: {turn.words('explicit')}" for i, turn in enumerate(scenario.turns)]
        values = {
            "device": scenario.attributes["device"], "turns": "\n".join(turns), "number": target + 1,
            "text": scenario.turns[target].explicit, "gold": scenario.gold,
            "turn_low": TURN_WORDS[0], "turn_high": TURN_WORDS[1],
        }  # fmt: skip
        return self._request(name, "pair", values)

    def label(self, name: str, condition: str) -> Request:
        scenario = self.scenario(name)
        turns = [f"{i + 1}. {turn.speaker}: {turn.words(condition)}" for i, turn in enumerate(scenario.turns)]
        text = "\n".join(turns)
        device, quoted = scenario.attributes["device"], fence(text, boundary_of(text))
        asked = f"Device: {device}\n\n{quoted}\n\nLabel all {len(turns)} turns."
        messages = ({"role": "system", "content": self.prompts["label.md"].strip()}, {"role": "user", "content": asked})
        return Request(f"{name}.{condition}", messages, again=self.prompts["again.md"])

    def _request(self, name: str, step: str, values: dict, about: dict | None = None) -> Request:
        asked = Template(self.prompts[f"{step}_request.md"]).substitute(values).strip()
        messages = (
            {"role": "system", "content": self.prompts[f"{step}.md"].strip()},
            {"role": "user", "content": asked},
        )
        return Request(name, messages, again=self.prompts["again.md"], about=about or {})

    # --- what is made of the answers, and what is wrong with them ---

    def explicit(self, name: str, draft: Draft) -> au.Scenario:
        """A draft as a scenario; the implicit T is a stand-in until the pair is written."""
        attributes, bucket, _ = self.assigned(name)
        turns = []
        for turn in draft.turns:
            text = plain(turn.text)
            if turn.label == "T":
                stand_in = re.sub(rf"\b{au.NAME}\b", "assistant", text)
                turns.append(au.Turn(speaker=turn.speaker, label="T", explicit=text, implicit=stand_in))
            else:
                turns.append(au.Turn(speaker=turn.speaker, label=turn.label, text=text))
        return au.Scenario(
            id=name, attributes=attributes, speakers=draft.speakers, bucket=bucket, gold=plain(draft.gold),
            accept=tuple(plain(text) for text in draft.accept), turns=tuple(turns),
        )  # fmt: skip

    def paired(self, name: str, rewrite: Rewrite) -> au.Scenario:
        scenario = self.explicit(name, self.answer(name, "draft", Draft))
        turns, target = list(scenario.turns), scenario.target
        turns[target] = turns[target].model_copy(update={"implicit": plain(rewrite.implicit)})
        before = plain(rewrite.before)
        if before and before != turns[target - 1].text:
            old = turns[target - 1]
            turns[target - 1] = au.Turn(speaker=old.speaker, label=old.label, explicit=old.text, implicit=before)
        return scenario.model_copy(update={"turns": tuple(turns)})

    def scenario(self, name: str) -> au.Scenario:
        return self.paired(name, self.answer(name, "pair", Rewrite))

    def draft_faults(self, name: str, draft: Draft) -> list[str]:
        try:
            scenario = self.explicit(name, draft)
        except ValidationError as error:
            return [str(error.errors()[0]["msg"])]
        faults = scenario_faults(scenario) + style_faults(scenario)
        wanted = self.assigned(name)[2]
        if len(draft.speakers) != wanted:
            faults.append(f"it has {len(draft.speakers)} speakers, and {wanted} are wanted.")
        return faults or self._sameness(name, scenario)

    def _sameness(self, name: str, scenario: au.Scenario) -> list[str]:
        mine = _grams(scenario)
        for other, theirs in self.known.items():
            if other != name and alike(mine, theirs):
                return [f"it is too much like an existing conversation ({other}); write another one."]
        self.known[name] = mine
        return []

    def pair_faults(self, name: str, rewrite: Rewrite) -> list[str]:
        scenario = self.paired(name, rewrite)
        return scenario_faults(scenario) + style_faults(scenario)

    def label_faults(self, name: str, labelling: Labelling) -> list[str]:
        count = len(self.scenario(name).turns)
        given = len(labelling.labels)
        return [] if given == count else [f"there are {given} labels for {count} turns; give one a turn."]

    def disagreement(self, name: str) -> str | None:
        """Where the second pass labels a turn otherwise, as a sentence; None when it agrees."""
        scenario = self.scenario(name)
        apart = []
        for condition in au.CONDITIONS:
            given = self.answer(name, f"{condition}.labels", Labelling).labels
            for index, (turn, label) in enumerate(zip(scenario.turns, given, strict=True)):
                if turn.label != label:
                    apart.append(f"turn {index} of the {condition} version is {turn.label} and was read as {label}")
        return "; ".join(apart) or None

    def reject(self, name: str, why: str) -> None:
        """Keep what was wrong, and clear the way for another attempt."""
        kept = read_json(self.path(name, "rejected")) if self.has(name, "rejected") else []
        kept.append({"why": why, "pair": self.scenario(name).model_dump(mode="json")})
        write_json(self.path(name, "rejected"), kept)
        for step in STEPS:
            self.path(name, step).unlink(missing_ok=True)

    def provenance(self, name: str) -> dict[str, Any]:
        steps = {step: read_json(self.path(name, step))["provenance"] for step in STEPS}
        rejected = len(read_json(self.path(name, "rejected"))) if self.has(name, "rejected") else 0
        about = {"author": "chat", "model": steps["draft"].get("model"), "prompt_sha256": self.prompt_sha256}
        return {**about, "rejected": rejected, "steps": steps}


STEPS = ("draft", "pair", *(f"{condition}.labels" for condition in au.CONDITIONS))


async def write_stages(
    desk: Desk,
    names: Sequence[str],
    make: Callable[[], Author],
    concurrency: int,
    finished: Callable[[au.Scenario, dict[str, Any]], None],
) -> dict[str, str]:
    """Take every pair through the steps that it lacks; returns why those that are not finished are not.

    make : a fresh author a stage. finished : lands a pair and where it comes from.

    Raises
    ------
    InputError : the author can give no more; what was written is kept.
    """
    open_names, refused = list(names), dict[str, str]()
    for _ in range(ROUNDS):
        if not open_names:
            break
        stages = (
            ("draft", Draft, desk.draft, desk.draft_faults),
            ("pair", Rewrite, desk.pair, desk.pair_faults),
            *((f"{c}.labels", Labelling, partial(desk.label, condition=c), desk.label_faults) for c in au.CONDITIONS),
        )
        refused = {}
        for step, kind, request, faults in stages:
            todo = [name for name in open_names if name not in refused and not desk.has(name, step)]
            refused |= await _stage(desk, step, kind, todo, make, concurrency, request, faults)
        again = []
        for name in (name for name in open_names if name not in refused):
            why = desk.disagreement(name)
            if why is None:
                finished(desk.scenario(name), desk.provenance(name))
            else:
                desk.reject(name, why)
                refused[name] = f"rejected, since the second pass disagrees: {why}."
                again.append(name)
        open_names = again
    return refused


async def _stage(
    desk: Desk,
    step: str,
    kind: type[Record],
    names: list[str],
    make: Callable[[], Author],
    concurrency: int,
    request: Callable[[str], Request],
    faults: Callable[[str, Any], list[str]],
) -> dict[str, str]:
    if not names:
        return {}
    work = Work(
        kind,
        lambda task: request(task.id),
        lambda task, answer: faults(task.id, answer),
        lambda task, written: desk.keep(task.id, step, written),
    )
    with meter(f"writing ({step})", len(names)) as progress:
        return await write_all(
            make(), [Task(name, name) for name in names], work, concurrency=concurrency,
            done=lambda task: progress.step(),
        )  # fmt: skip
