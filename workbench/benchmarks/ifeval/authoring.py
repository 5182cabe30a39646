"""New scripts for DuplexSpeechBench-IFEval, written by a language model or copied from the shipped ones.

`out` then holds one YAML file a script (`build --scripts OUT` takes the folder), `author/` with where
each script comes from, and `author.json`, which gathers that. Scripts that are there are kept, so the
same call goes on after a stop; one mended by hand stays as it is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from string import Template

from pydantic import Field

from workbench.benchmarks.ifeval import cases as au
from workbench.benchmarks.ifeval.texts import briefs, rule_faults, script_faults
from workbench.cases import Record
from workbench.chat.client import ChatSettings
from workbench.construct import authors
from workbench.construct.building import pick
from workbench.construct.voices import Age, Sex
from workbench.errors import InputError, ProblemsFound
from workbench.files import content_key, data_path

SHIPPED = "shipped"
"""The model name that asks for the shipped scripts: a set to start from."""

MAX_TOKENS = 4000
"""An answer takes about 200; the rest is for models that think first."""


class Conversation(Record):
    """What a model is asked for: one conversation."""

    situation: str = Field(description="the scene in one lower-case phrase of six to sixteen words")
    sex: Sex = Field(description="of the caller")
    age: Age = Field(description="of the caller: the age band that the words suit")
    turn1: str = Field(description="the caller's first turn, plain words without markers")
    turn2: str = Field(description="the caller's second turn, with exactly the markers of the pattern")


def author_scripts(
    out: Path,
    *,
    model: str,
    base_url: str | None = None,
    key_env: str | None = None,
    concurrency: int = 4,
    limit: int | None = None,
    temperature: float | None = 1.0,
) -> authors.Outcome:
    """Have `model` at `base_url` write the scripts that `out` lacks; 'shipped' copies the shipped ones.

    key_env : environment variable with the key; OPENAI_API_KEY goes to OpenAI's own host alone.
    limit : at most so many conversations, one of each cell before any second.

    Raises
    ------
    InputError : no key, no such model, no server, or `out` cannot be used. What was written is kept.
    """
    author: authors.Author
    if model == SHIPPED and base_url is None:
        texts = {key: script.model_dump(exclude={"id"}) for key, script in au.load().scripts.items()}
        author = authors.ShippedAuthor(texts)
    else:
        author = authors.ChatAuthor(ChatSettings(
            model=model, base_url=base_url, key_env=key_env, temperature=temperature, max_tokens=MAX_TOKENS,
            concurrency=concurrency,
        ))  # fmt: skip
    return asyncio.run(write_scripts(out, author, concurrency=concurrency, limit=limit))


async def write_scripts(
    out: Path, author: authors.Author, *, concurrency: int = 4, limit: int | None = None
) -> authors.Outcome:
    """`author_scripts` for any author, to be awaited where a loop runs already."""
    tasks = _tasks(limit)
    desk = Desk(Path(out))
    spoilt = {task.id for task in tasks} & desk.spoilt.keys()
    todo = [task for task in tasks if task.id not in desk.items and task.id not in spoilt]
    kept, before = len(tasks) - len(todo) - len(spoilt), len(desk.items)
    work = authors.Work(Conversation, desk.request, desk.faults, desk.land)
    try:
        refused = await authors.write_all(author, todo, work, f"writing ({author.name})", concurrency)
    except InputError as error:
        written = len(desk.items) - before
        raise InputError(f"{error} {written} scripts were written; the same command goes on from there.") from None
    finally:
        desk.summarise()
    problems = [desk.spoilt[key] for key in sorted(spoilt)]
    problems += [f"{task.id}: {refused[task.id]}" for task in todo if task.id in refused]
    return authors.Outcome(len(desk.items) - before, kept, tuple(problems))


def _tasks(limit: int | None) -> list[authors.Task]:
    """The 224 streams, first instances first; those of one cell are written one after another."""
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit} leaves no conversation; give at least 1.")
    streams = {au.stream_of(*triple): triple for triple in sorted(au.conversations(), key=lambda triple: triple[2])}
    tasks = [authors.Task(stream, f"{stream.partition('_')[0]}_{probe}") for stream, (_, probe, _) in streams.items()]
    return tasks[:limit]


class Desk(authors.Shelf):
    """The folder that is written to, and what an author is told and checked by."""

    def __init__(self, out: Path):
        super().__init__(out, "conversations")
        self.data = au.load()
        self.prompts = authors.read_prompts(data_path("ifeval", "prompts"))
        self.prompt_sha256 = content_key(self.prompts, length=64)
        self.streams: dict[str, tuple[str, str, int]] = {}
        for triple in au.conversations():
            self.streams.setdefault(au.stream_of(*triple), triple)
        self.spoilt: dict[str, str] = {}
        if out.is_dir():
            self._read()

    def _read(self) -> None:
        """Take what is there; a file that cannot be used is named and left alone."""
        problems: list[str] = []
        found = au.read_scripts(self.out, problems)
        if problems:
            raise ProblemsFound([f"{problem} Remove the file to have it written anew." for problem in problems])
        for key, script in sorted(found.items()):
            if key not in self.streams:
                raise InputError(
                    f"{self.out} holds the script {key!r}, which no conversation of the grid plays; remove it, or "
                    "give another --out."
                )
            faults = script_faults(script, self.data.probes[self.streams[key][1]], au.actions_of(self.data, key))
            if faults:
                self.spoilt[key] = (
                    f"{key}: the script in {self.out} cannot be used: {' '.join(faults)} Or remove it to have it "
                    "written anew."
                )
            else:
                self.items[key] = script

    # --- what is asked ---

    def request(self, task: authors.Task) -> authors.Request:
        """The messages for one script; names the scenes that exist in its cell by now."""
        role_id, probe_id, _ = self.streams[task.id]
        cell, probe, brief = task.group, self.data.probes[probe_id], briefs().probes[probe_id]
        shared = cell.startswith("S_")
        shipped, written = (
            {key: script for key, script in scripts.items() if key.rpartition("_i")[0] == cell}
            for scripts in (self.data.scripts, self.items)
        )
        attribute = au.attribute_of(self.data, task.id)
        example = shipped[sorted(shipped)[pick("example " + task.id, len(shipped))]]
        extra = brief.for_role.get(cell.partition("_")[0], "")
        situations = dict.fromkeys(script.situation for script in (*shipped.values(), *written.values()))
        values = {
            "place": "\n".join(self.data.roles[name].domain for name in (au.MATCHED_ROLES if shared else (role_id,))),
            "title": probe.title,
            "brief": " ".join((brief.brief + " " + extra).split()),
            "pattern": pattern(probe, au.actions_of(self.data, task.id)),
            "turn1_low": briefs().turn1_words[0],
            "turn1_high": briefs().turn1_words[1],
            "turn2_low": brief.turn2_words[0],
            "turn2_high": brief.turn2_words[1],
            "attribute": attribute[:1].upper() + attribute[1:],
            "avoid": "\n".join(f"- {situation}" for situation in situations),
            "example": Conversation(**example.model_dump(exclude={"id"})).model_dump_json(indent=1),
        }
        return authors.Request(
            task.id,
            authors.messages(self.prompts["system.md"], Template(self.prompts["request.md"]).substitute(values)),
            again=self.prompts["again.md"],
            about={"attribute": attribute, "prompt_sha256": self.prompt_sha256},
        )

    # --- what is accepted ---

    def faults(self, task: authors.Task, answer: Conversation) -> list[str]:
        """What is wrong with an answer, as sentences: structure, lengths, letters, sameness."""
        script = _script(task.id, answer)
        probe_id = self.streams[task.id][1]
        faults = script_faults(script, self.data.probes[probe_id], au.actions_of(self.data, task.id))
        kind, _, wanted = au.attribute_of(self.data, task.id).partition(": ")
        if kind == "age band" and answer.age != wanted and script != self.data.scripts.get(task.id):
            faults.append(f"the caller's age is {answer.age!r}, and {wanted!r} is asked for.")
        faults += rule_faults(script, probe_id)
        try:
            return faults + self._sameness_faults(script)
        except ValueError:
            return faults  # its markers cannot be read, as was named above

    def _sameness_faults(self, script: au.Script) -> list[str]:
        mine = _grams(script)
        others = [(f"the shipped {key}", other) for key, other in self.data.scripts.items() if key != script.id]
        others += [(key, other) for key, other in self.items.items()]
        for name, other in others:
            if authors.alike(mine, _grams(other)) or script.situation.lower() == other.situation.lower():
                return [f"it is too much like an existing one ({name}: {other.situation}); write another scene."]
        return []

    # --- what is kept ---

    def land(self, task: authors.Task, written: authors.Written) -> None:
        """Keep one accepted script."""
        self.keep(_script(task.id, written.answer), written.provenance)

    def summarise(self) -> None:
        """Gather the provenance of what is there in `author.json`."""
        if not self.items:
            return
        origins = self.origins(key for key in self.streams if key in self.items)
        usage: Counter[str] = Counter()
        for origin in origins:
            usage.update({name: count or 0 for name, count in (origin.get("usage") or {}).items()})
        summary = {"benchmark": "ifeval", "scripts": len(origins), "of": len(self.streams)}
        self.sum_up(summary | {"models": authors.writers(origins), "usage": usage}, origins)


def pattern(probe: au.Probe, actions: Iterable[str] = ()) -> str:
    """What roles that expect `actions` need of a probe, as a line of markers: `TEXT <pause:2.5s> TEXT`."""

    def line(pieces: tuple[str, ...]) -> str:
        shown = []
        for piece in pieces:
            mark, colon, seconds = piece.partition(":")
            shown.append("TEXT" if piece == "text" else f"<{mark}:{seconds}s>" if colon else f"<{mark}:WORDS>")
        return " ".join(shown)

    more = f"\n\nOnce more may be added at the end: {line(probe.repeat)}" if probe.repeat else ""
    return line(probe.shape_for(actions)) + more


def _script(stream: str, answer: Conversation) -> au.Script:
    """An answer as a script, in plain characters."""
    return au.Script(id=stream, **{name: authors.plain_text(text) for name, text in answer.model_dump().items()})


@lru_cache(maxsize=1024)
def _grams(script: au.Script) -> authors.Grams:
    return authors.grams(f"{script.turn1} {au.spoken(script.turn2)}")
