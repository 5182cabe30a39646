"""Authors: whoever writes the items of a benchmark, one by one.

There are two behind one interface: the shipped texts, and any OpenAI-compatible chat endpoint. Items
are validated by a function handed in, land one at a time, and a batch that stopped goes on with
what is missing: what counts as there is the caller's to say, by leaving it out of `tasks`. What is
finished stands on a `Shelf`: a folder that `build --scripts` takes.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any, Protocol

import yaml
from pydantic import BaseModel

from workbench.chat.client import ChatClient, ChatSettings, Reply, ServerFault
from workbench.chat.messages import digest, schema
from workbench.chat.reading import AnswerError, Reading, read_reply
from workbench.errors import InputError
from workbench.files import content_key, read_json, write_json, write_text
from workbench.progress import Meter, meter

TRIES = 4
"""How often a model may write one item before the item is given up."""

GIVE_UP_AFTER = 5
"""So many items in a row without a usable reply from the server end the batch: the rest would fail too."""


LONGEST_SHOWN = 4000
"""So many characters of a useless reply are shown to the model again."""


class Refused(Exception):
    """This item could not be had; the message says why. `by_server`: no usable reply came at all."""

    def __init__(self, message: str, *, by_server: bool = False):
        self.by_server = by_server
        super().__init__(message)


@dataclass(frozen=True)
class Request:
    """What is asked for: `messages` for a model, `again` to show it its faults (placeholder $faults)."""

    id: str
    messages: tuple[dict[str, str], ...] = ()
    again: str = "$faults"
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """An accepted item and where it comes from (goes into a file; never holds a key)."""

    answer: BaseModel
    provenance: dict[str, Any]


Faults = Callable[[BaseModel], list[str]]
"""What is wrong with an answer, as sentences; none means that it is accepted."""


class Author(Protocol):
    """Writes one item at a time."""

    name: str

    async def write(self, request: Request, answer: type[BaseModel], faults: Faults) -> Written:
        """Raises Refused for this item, InputError when no other item can be had either."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class ShippedAuthor:
    """Hands out texts that are there already, by id; they are checked like any other's."""

    texts: Mapping[str, Mapping[str, Any]]
    name: str = "shipped"

    async def write(self, request: Request, answer: type[BaseModel], faults: Faults) -> Written:
        if request.id not in self.texts:
            raise Refused("it is not among the shipped texts")
        value = answer.model_validate(self.texts[request.id])
        wrong = faults(value)
        if wrong:
            raise Refused(" ".join(wrong))
        return Written(value, {"author": self.name, "date": _now(), **request.about})

    async def close(self) -> None: ...


class ChatAuthor:
    """A language model at a chat endpoint. The key comes from the environment only (see `ChatSettings`).

    tries : how often it may write one item; after each fault it is shown what was wrong.
    sleep, clock : for tests.
    """

    def __init__(
        self,
        settings: ChatSettings,
        *,
        tries: int = TRIES,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.name = settings.model
        self.settings, self.tries = settings, tries
        self.client = ChatClient(settings, sleep=sleep, clock=clock)

    async def close(self) -> None:
        await self.client.__aexit__(None, None, None)

    async def write(self, request: Request, answer: type[BaseModel], faults: Faults) -> Written:
        replies: list[Reply] = []
        refused: list[str] = []
        messages = list(request.messages)
        for _ in range(self.tries):
            reply = await self._complete(messages, answer)
            replies.append(reply)
            try:
                reading = read_reply(reply, answer)
                wrong = faults(reading.answer)
            except AnswerError as error:
                wrong = [f"{error}."]
            if not wrong:
                return Written(reading.answer, self._provenance(request, replies, refused, reading))
            refused.append(" ".join(wrong))
            # Only the last try is shown: a growing list of failures teaches a model to fail.
            again = Template(request.again).safe_substitute(faults="\n".join(f"- {fault}" for fault in wrong))
            said = reply.text.strip()[:LONGEST_SHOWN] or "(nothing)"
            messages = [
                *request.messages,
                {"role": "assistant", "content": said},
                {"role": "user", "content": again.strip()},
            ]
        raise Refused(f"not one of {self.tries} tries could be used; the last: {refused[-1]}")

    async def _complete(self, messages: list[dict[str, str]], answer: type[BaseModel]) -> Reply:
        try:
            await self.client.reach()
            return await self.client.complete(messages, schema(answer), "item")
        except ServerFault as fault:
            if fault.fatal or fault.kind == "connection":
                raise InputError(_sentence(str(fault))) from None
            raise Refused(str(fault), by_server=True) from None

    def _provenance(
        self, request: Request, replies: list[Reply], refused: list[str], reading: Reading
    ) -> dict[str, Any]:
        last = replies[-1]
        counted = all(reply.prompt_tokens is not None and reply.completion_tokens is not None for reply in replies)
        return {
            "author": "chat",
            "model": self.settings.model,
            "served": last.model,
            "fingerprint": last.fingerprint,
            "host": self.settings.host,
            "parameters": self.settings.parameters(),
            "mode": last.mode,
            "sent": digest(list(request.messages)),
            "date": _now(),
            "usage": {
                "calls": len(replies),
                "prompt_tokens": sum(reply.prompt_tokens for reply in replies) if counted else None,
                "completion_tokens": sum(reply.completion_tokens for reply in replies) if counted else None,
            },
            "refused": refused,
            "repairs": list(reading.repairs),
            **request.about,
        }


@dataclass(frozen=True)
class Task:
    """One item to write. Tasks of one `group` are written in order, each knowing those before it."""

    id: str
    group: str


@dataclass(frozen=True)
class Work:
    """What a benchmark hands in.

    request : made when the item's turn comes, so that it can say what was written before.
    faults : what is wrong with an answer to a task. keep : lands an accepted item, whole or not at all.
    """

    answer: type[BaseModel]
    request: Callable[[Task], Request]
    faults: Callable[[Task, BaseModel], list[str]]
    keep: Callable[[Task, Written], None]


async def write_all(
    author: Author, tasks: Sequence[Task], work: Work, title: str, concurrency: int = 4
) -> dict[str, str]:
    """Have every task written, `concurrency` groups at a time: id -> reason of those refused.

    title : above the progress that is shown. Each accepted item is kept before the next is asked for; whatever ends
    the batch, kept items stay.

    Raises
    ------
    InputError : the author can give no more (wrong key, no such model, no server).
    """
    if concurrency < 1:
        raise InputError(f"A concurrency of {concurrency} writes nothing; give at least 1.")
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.group, []).append(task)
    waiting = iter(list(groups.values()))
    refused: dict[str, str] = {}
    in_a_row = 0

    async def one(task: Task, progress: Meter) -> None:
        nonlocal in_a_row
        try:
            written = await author.write(work.request(task), work.answer, lambda answer: work.faults(task, answer))
        except Refused as reason:
            refused[task.id] = str(reason)
            in_a_row = in_a_row + 1 if reason.by_server else 0
            if in_a_row >= GIVE_UP_AFTER:
                last = _sentence(str(reason))
                raise InputError(f"{in_a_row} requests in a row failed, the last with: {last}") from None
        else:
            # Nothing is awaited between the check of an answer and this, so two equal ones cannot both pass.
            work.keep(task, written)
            in_a_row = 0
        progress.step()

    async def worker(progress: Meter) -> None:
        for group in waiting:
            for task in group:
                await one(task, progress)

    try:
        with meter(title, len(tasks)) as progress:
            async with asyncio.TaskGroup() as crew:
                for _ in range(min(concurrency, len(groups))):
                    crew.create_task(worker(progress))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    finally:
        await author.close()
    return refused


# -- what is finished --------------------------------------------------------------------------------------

PROVENANCE, SUMMARY = "author", "author.json"
GRAM, SAME_SHARE = 5, 0.2
"""Two texts are the same when they share this much of the shorter one's runs of GRAM words. The closest two
shipped IFEval scripts share 0.10, which is the exchange of two telephone numbers."""

_PLAIN = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": " -- ", "\u2014": " -- ", "\u2026": "..."}
)

Grams = frozenset[tuple[str, ...]]


def plain_text(text: str) -> str:
    """Typographic quotes and dashes made plain, white space single."""
    return " ".join(text.translate(_PLAIN).split())


def grams(text: str) -> Grams:
    """The runs of GRAM words of a text."""
    words = re.findall(r"[a-z']+", text.lower())
    return frozenset(tuple(words[at : at + GRAM]) for at in range(len(words) - GRAM + 1))


def alike(one: Grams, other: Grams) -> bool:
    """Whether two texts are too much the same."""
    return len(one & other) > SAME_SHARE * max(1, min(len(one), len(other)))


@dataclass(frozen=True)
class Outcome:
    """What a call did: items written now, kept from before, and a sentence for each it could not have."""

    written: int
    kept: int
    problems: tuple[str, ...]


class Shelf:
    """The folder of finished items: a YAML file each, `author/` with where each comes from, `author.json`.

    listed : the list that each file holds its item in. items : what is there, by id. An item mended by hand stays
    as it is, and is marked as edited.

    Raises
    ------
    InputError : `out` is a file.
    """

    def __init__(self, out: Path, listed: str):
        if out.exists() and not out.is_dir():
            raise InputError(f"{out} is a file, where a folder for the {listed} is needed; give another --out.")
        self.out, self.listed = out, listed
        self.items: dict[str, Any] = {}

    def keep(self, item: Any, about: Mapping[str, Any]) -> None:
        """Land one item and where it comes from: provenance first, so that an item is never without."""
        write_json(self.out / PROVENANCE / f"{item.id}.json", {"id": item.id, "text": _print_of(item), **about})
        value = {self.listed: [item.model_dump(exclude_none=True, mode="json")]}
        page = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
        write_text(self.out / f"{item.id}.yaml", page)
        self.items[item.id] = item

    def origins(self, keys: Iterable[str]) -> list[dict[str, Any]]:
        """Where the items come from, and whether their texts were changed since."""
        out = []
        for key in keys:
            item = self.items[key]
            try:
                origin = read_json(self.out / PROVENANCE / f"{key}.json")
                edited = origin.get("text") != _print_of(item)
            except (InputError, AttributeError):
                origin, edited = {"id": key, "author": "unknown"}, False
            out.append({**origin, "edited": edited})
        return out

    def sum_up(self, summary: Mapping[str, Any], origins: Sequence[Mapping[str, Any]]) -> None:
        """Gather what is there in `author.json`."""
        write_json(self.out / SUMMARY, {**summary, "items": origins})


def writers(origins: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every model or author that wrote something."""
    return sorted({str(origin.get("model") or origin.get("author")) for origin in origins})


def read_prompts(folder: Path) -> dict[str, str]:
    """The texts of a folder of prompts, by file name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.*"))}


def messages(system: str, user: str) -> tuple[dict[str, str], dict[str, str]]:
    """What a request for one item says."""
    return {"role": "system", "content": system.strip()}, {"role": "user", "content": user.strip()}


def _print_of(item: BaseModel) -> str:
    return content_key(item.model_dump(), length=64)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
