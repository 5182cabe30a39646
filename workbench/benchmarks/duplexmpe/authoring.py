"""New scenario pairs for Duplex-MPE: written by a language model, varied from the shipped ones, or copied.

`out` then holds one YAML file a pair (`build --scripts OUT` takes the folder), `author/` with where each
comes from, and `author.json`, which gathers that. Pairs that are there are kept, so the same call goes
on after a stop; one mended by hand stays as it is.

A model writes a pair in three steps: the explicit conversation, its implicit version, a blind labelling of both.
Each step of each pair is a file in the work folder, so a batch that stopped goes on with the step that is missing.
A pair whose labels the second pass disagrees with is rejected: its steps are removed, what was wrong is kept, and
it is written anew, three times in one call at most.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

from pydantic import Field, ValidationError

from workbench.benchmarks.duplexmpe import cases as au
from workbench.benchmarks.duplexmpe.check import TURN_WORDS, TURNS, WORDS, scenario_faults, style_faults
from workbench.benchmarks.duplexmpe.varied import vary
from workbench.cases import Record
from workbench.chat.client import ChatSettings
from workbench.chat.messages import boundary_of, fence
from workbench.construct import authors
from workbench.construct.building import pick
from workbench.construct.voices import Age, Sex
from workbench.errors import InputError, ProblemsFound
from workbench.files import content_key, data_path, read_json, write_json

SHIPPED, COMBINATORIAL = "shipped", "combinatorial"
"""Names in place of a model: the shipped pairs, and variations of them."""

PAIRS = 2000
"""The size of the published set."""
MAX_TOKENS = 3000
ROUNDS = 3


def author_scripts(
    out: Path,
    *,
    model: str,
    base_url: str | None = None,
    key_env: str | None = None,
    concurrency: int = 4,
    limit: int | None = None,
    temperature: float | None = 1.0,
    seed: int = 0,
) -> authors.Outcome:
    """Fill `out` up to `limit` pairs (2,000; the shipped 64 when they are copied).

    model : 'shipped', 'combinatorial', or a model at the OpenAI-compatible endpoint `base_url`. seed : of the
    variations, and of the attributes that a model is given.

    Raises
    ------
    InputError : no key, no such model, no server, or `out` cannot be used. What was written is kept.
    """
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit} leaves no pair; give at least 1.")
    shelf = Pairs(Path(out))
    if base_url is None and model in (SHIPPED, COMBINATORIAL):
        return _copied(shelf, model, limit, seed)
    settings = ChatSettings(
        model=model, base_url=base_url, key_env=key_env, temperature=temperature, max_tokens=MAX_TOKENS,
        concurrency=concurrency,
    )  # fmt: skip
    return asyncio.run(write_pairs(shelf, lambda: authors.ChatAuthor(settings), limit or PAIRS, concurrency, seed))


def _copied(shelf: Pairs, model: str, limit: int | None, seed: int) -> authors.Outcome:
    sources = au.load().scenarios
    made: Iterable[au.Scenario] = list(sources.values())[:limit]
    if model == COMBINATORIAL:
        made = vary(sources, limit or PAIRS, seed)
    kept, new = [], []
    for scenario in made:
        (kept if scenario.id in shelf.items else new).append(scenario)
    for scenario in new:
        varied = {"seed": seed, "varied_from": scenario.varied_from} if model == COMBINATORIAL else {}
        shelf.keep(scenario, {"author": model, **varied})
    shelf.summarise()
    return authors.Outcome(len(new), len(kept), ())


async def write_pairs(
    shelf: Pairs, make: Callable[[], authors.Author], count: int, concurrency: int = 4, seed: int = 0
) -> authors.Outcome:
    """The three steps for every pair that is missing, with any author."""
    desk = Desk(shelf.out / authors.PROVENANCE / "work", seed)
    desk.known |= {scenario.id: _grams(scenario) for scenario in shelf.items.values()}
    ids = [f"s{number:04d}" for number in range(1, count + 1)]
    todo = [name for name in ids if name not in shelf.items]
    before = len(shelf.items)
    try:
        refused = await write_stages(desk, todo, make, concurrency, shelf.keep)
    except InputError as error:
        raise InputError(
            f"{error} {len(shelf.items) - before} pairs were finished; the same command goes on from there."
        ) from None
    finally:
        shelf.summarise()
    problems = [f"{name}: {reason}" for name, reason in sorted(refused.items())]
    return authors.Outcome(len(shelf.items) - before, len(ids) - len(todo), tuple(problems))


class Pairs(authors.Shelf):
    """The folder of finished pairs."""

    def __init__(self, out: Path):
        super().__init__(out, "scenarios")
        if out.is_dir() and any(out.glob("*.yaml")):
            problems: list[str] = []
            self.items = au.read_scenarios(out, problems)
            problems += [
                f"{name}: {fault}" for name, scenario in self.items.items() for fault in scenario_faults(scenario)
            ]
            if problems:
                raise ProblemsFound([f"{problem} Or remove its file to have it written anew." for problem in problems])

    def summarise(self) -> None:
        """Gather the provenance of what is there in `author.json`; a text changed since is marked as edited."""
        if not self.items:
            return
        origins = self.origins(sorted(self.items))
        sources = {scenario.source for scenario in self.items.values()}
        summary = {"benchmark": "duplex-mpe", "pairs": len(origins), "conversations": len(sources)}
        self.sum_up(summary | {"authors": authors.writers(origins)}, origins)


# -- the three steps ---------------------------------------------------------------------------------------


class DraftTurn(Record):
    speaker: str = Field(description="first name")
    label: au.Label = Field(description="the turn's label")
    text: str = Field(description="what is said")


class DraftSpeaker(Record):
    name: str = Field(description="first name")
    sex: Sex = Field(description="whose voice it is")
    age: Age = Field(description="age in years, as a group")


class Draft(Record):
    """The explicit conversation."""

    speakers: tuple[DraftSpeaker, ...] = Field(description="who talks, in order of appearance")
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
    speakers = tuple(DraftSpeaker(name=name, sex=sex, age=age) for name, (sex, age) in scenario.people.items())
    return Draft(speakers=speakers, turns=turns, gold=scenario.gold, accept=scenario.accept)


def _grams(scenario: au.Scenario) -> authors.Grams:
    return authors.grams(" ".join(turn.words("explicit") for turn in scenario.turns))


class Desk:
    """The work folder, and what the author is told at each step. The same seed gives the same assignments."""

    def __init__(self, folder: Path, seed: int):
        self.folder, self.seed = folder, seed
        self.shipped = list(au.load().scenarios.values())
        self.attributes = au.read_attributes()
        self.prompts = authors.read_prompts(data_path("duplexmpe", "prompts"))
        del self.prompts["reference.md"]  # an agent's, not an author's
        self.prompt_sha256 = content_key(self.prompts, length=64)
        self.known = {scenario.id: _grams(scenario) for scenario in self.shipped}

    def path(self, name: str, step: str) -> Path:
        return self.folder / f"{name}.{step}.json"

    def has(self, name: str, step: str) -> bool:
        return self.path(name, step).exists()

    def answer(self, name: str, step: str, kind: type[Record]) -> Any:
        try:
            return kind.model_validate(read_json(self.path(name, step))["answer"])
        except (ValidationError, KeyError, TypeError):
            raise InputError(f"{self.path(name, step)} is damaged; remove it to have that step done again.") from None

    def keep(self, name: str, step: str, written: authors.Written) -> None:
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

    def draft(self, name: str) -> authors.Request:
        attributes, bucket, speakers = self.assigned(name)
        lengths = range(TURNS[0], TURNS[1] + 1)
        places = [
            f"{min(at)} or {max(at)} of {length}" if len(at) > 1 else f"{at[0]} of {length}"
            for length in lengths
            if (at := [i + 1 for i in range(1, length - 2) if au.bucket_of(i, length) == bucket])
        ]
        example = self.shipped[pick(f"example {self.seed} {name}", len(self.shipped))]
        values = {
            "attributes": "\n".join(f"- {key}: {value}" for key, value in attributes.items()),
            "speakers": speakers,
            "low": TURNS[0], "high": TURNS[1], "words_low": WORDS[0], "words_high": WORDS[1],
            "turn_low": TURN_WORDS[0], "turn_high": TURN_WORDS[1],
            "places": "; ".join(places),
            "example": as_draft(example).model_dump_json(indent=1),
        }  # fmt: skip
        return self._request(name, "draft", values, {"attributes": attributes, "bucket": bucket})

    def pair(self, name: str) -> authors.Request:
        scenario = self.explicit(name, self.answer(name, "draft", Draft))
        target = scenario.target
        turns = [f"{i + 1}. {turn.speaker}: {turn.words('explicit')}" for i, turn in enumerate(scenario.turns)]
        values = {
            "device": scenario.attributes["device"], "turns": "\n".join(turns), "number": target + 1,
            "text": scenario.turns[target].explicit, "gold": scenario.gold,
            "turn_low": TURN_WORDS[0], "turn_high": TURN_WORDS[1],
        }  # fmt: skip
        return self._request(name, "pair", values)

    def label(self, name: str, condition: str) -> authors.Request:
        scenario = self.scenario(name)
        turns = [f"{i + 1}. {turn.speaker}: {turn.words(condition)}" for i, turn in enumerate(scenario.turns)]
        text = "\n".join(turns)
        device, quoted = scenario.attributes["device"], fence(text, boundary_of(text))
        asked = f"Device: {device}\n\n{quoted}\n\nLabel all {len(turns)} turns."
        return authors.Request(
            f"{name}.{condition}", authors.messages(self.prompts["label.md"], asked), again=self.prompts["again.md"]
        )

    def _request(self, name: str, step: str, values: dict, about: dict | None = None) -> authors.Request:
        asked = authors.messages(
            self.prompts[f"{step}.md"], Template(self.prompts[f"{step}_request.md"]).substitute(values)
        )
        return authors.Request(name, asked, again=self.prompts["again.md"], about=about or {})

    # --- what is made of the answers, and what is wrong with them ---

    def explicit(self, name: str, draft: Draft) -> au.Scenario:
        """A draft as a scenario; the implicit T is a stand-in until the pair is written."""
        attributes, bucket, _ = self.assigned(name)
        turns = []
        for turn in draft.turns:
            text = authors.plain_text(turn.text)
            if turn.label == "T":
                stand_in = re.sub(rf"\b{au.NAME}\b", "assistant", text)
                turns.append(au.Turn(speaker=turn.speaker, label="T", explicit=text, implicit=stand_in))
            else:
                turns.append(au.Turn(speaker=turn.speaker, label=turn.label, text=text))
        return au.Scenario(
            id=name, attributes=attributes, speakers=tuple(speaker.name for speaker in draft.speakers),
            people={speaker.name: (speaker.sex, speaker.age) for speaker in draft.speakers}, bucket=bucket,
            gold=authors.plain_text(draft.gold), accept=tuple(authors.plain_text(text) for text in draft.accept),
            turns=tuple(turns),
        )  # fmt: skip

    def paired(self, name: str, rewrite: Rewrite) -> au.Scenario:
        scenario = self.explicit(name, self.answer(name, "draft", Draft))
        turns, target = list(scenario.turns), scenario.target
        turns[target] = turns[target].model_copy(update={"implicit": authors.plain_text(rewrite.implicit)})
        before = authors.plain_text(rewrite.before)
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
            if other != name and authors.alike(mine, theirs):
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
    make: Callable[[], authors.Author],
    concurrency: int,
    finished: Callable[[au.Scenario, dict[str, Any]], None],
) -> dict[str, str]:
    """Take every pair through the steps that it lacks; returns why those that are not finished are not.

    make : a fresh author a stage. finished : lands a pair and where it comes from.

    Raises
    ------
    InputError : the author can give no more; what was written is kept.
    """

    def work(step: str, kind: type[Record], request: Callable, faults: Callable) -> authors.Work:
        return authors.Work(
            kind,
            lambda task: request(task.id),
            lambda task, answer: faults(task.id, answer),
            lambda task, written: desk.keep(task.id, step, written),
        )

    stages = {"draft": work("draft", Draft, desk.draft, desk.draft_faults)}
    stages["pair"] = work("pair", Rewrite, desk.pair, desk.pair_faults)
    for condition in au.CONDITIONS:
        step = f"{condition}.labels"
        stages[step] = work(step, Labelling, partial(desk.label, condition=condition), desk.label_faults)
    open_names, refused = list(names), dict[str, str]()
    for _ in range(ROUNDS):
        if not open_names:
            break
        refused = {}
        for step in STEPS:
            todo = [authors.Task(name, name) for name in open_names if name not in refused and not desk.has(name, step)]
            if todo:
                refused |= await authors.write_all(make(), todo, stages[step], f"writing ({step})", concurrency)
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
