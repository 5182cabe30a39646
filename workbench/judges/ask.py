"""Asking one item: of a model, with unreadable answers asked again and recorded, or of the offline rules."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from copy import copy
from string import Template
from typing import Any, Literal

from workbench.chat.client import ChatClient, ChatSettings, Reply, ServerFault
from workbench.chat.messages import clean, digest, schema
from workbench.chat.reading import AnswerError, read_reply
from workbench.errors import InputError
from workbench.files import timestamp
from workbench.judges.base import Item, Judge, messages
from workbench.judges.records import Attempt, Judgement, Usage
from workbench.parallel import reaching_dask

OFFLINE = "offline-lexical"
"""The model name by which the offline judge is asked for; it is never used otherwise."""


class Backend(ABC):
    """Who answers: an async context manager. `kind`, `model`, `parameters` and `host` are the identity of the judge."""

    kind: Literal["llm", "offline"]
    model: str
    host: str | None = None
    concurrency = 1
    requests = 0

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}

    async def __aenter__(self) -> Backend:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    @abstractmethod
    async def ask(self, judge: Judge, item: Item, key: str) -> Judgement:
        """What is said of one item. key : of the request, by which it is stored."""


class ModelJudge(Backend):
    """A language model behind `client`; `sleep` and `clock` are there for tests."""

    kind = "llm"

    def __init__(
        self,
        settings: ChatSettings,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.settings, self.parameters = settings, settings.parameters()
        self.model, self.host, self.concurrency = settings.model, settings.host, settings.concurrency
        self.client = ChatClient(settings, sleep=sleep, clock=clock)

    @property
    def requests(self) -> int:
        return self.client.requests

    async def __aexit__(self, *exc: object) -> None:
        await self.client.__aexit__(*exc)

    async def ask(self, judge: Judge, item: Item, key: str) -> Judgement:
        """One judgement; what can't be read after `answer_tries` replies is a judge error.

        Raises
        ------
        ServerFault : a fatal one, since every other request would fail as well.
        """
        sent = messages(judge, item)
        model = judge.answer(item)
        attempts: list[Attempt] = []
        replies: list[Reply] = []
        base: dict[str, Any] = {"case": item.case, "item": item.item, "key": key, "date": timestamp()}
        base |= {"shown": shown(item), "sent": digest(sent)}
        request = list(sent)
        for _ in range(self.settings.answer_tries):
            try:
                await self.client.reach()
                reply = await self.client.complete(request, schema(model), judge.name)
            except ServerFault as fault:
                if fault.fatal:
                    raise
                attempts.append(Attempt(kind=fault.kind, message=str(fault), raw=""))
                break
            replies.append(reply)
            try:
                reading = read_reply(reply, model)
            except AnswerError as error:
                attempts.append(Attempt(kind=error.kind, message=str(error), raw=reply.refusal or reply.text))
                again = Template(judge.prompt["again"]).substitute(problem=error.kind.replace("_", " "))
                request = [*sent, {"role": "user", "content": again.strip()}]
                continue
            values, rationale = judge.read(reading.answer)
            good = {"status": "ok", "values": values, "rationale": clean(rationale), "repairs": reading.repairs}
            good["verdict_first"] = reading.verdict_first
            return Judgement(**base, **good, raw=reply.text, attempts=tuple(attempts), **_served(replies))
        last = attempts[-1]
        bad = {"status": "error", "reason": last.kind, "message": last.message, "raw": last.raw}
        return Judgement(**base, **bad, attempts=tuple(attempts), **_served(replies))


class OfflineJudge(Backend):
    """The lexical baseline of a judge, by documented rules: deterministic, free, and no language model."""

    kind = "offline"
    model = OFFLINE

    async def ask(self, judge: Judge, item: Item, key: str) -> Judgement:
        assert judge.offline is not None, "describe_judge has checked it"
        values, rationale = judge.offline(item)
        good = {"status": "ok", "values": values, "rationale": clean(rationale), "mode": "offline"}
        return Judgement(
            case=item.case, item=item.item, key=key, date=timestamp(), shown=shown(item), model=OFFLINE, **good
        )


def shown(item: Item) -> dict[str, str]:
    """What the judge saw, section by section; clips by title and size only."""
    texts = {section.name: clean(section.text) for section in item.sections}
    return texts | {f"clip: {clip.title}": f"{len(clip.wav)} bytes" for clip in item.clips}


def _served(replies: list[Reply]) -> dict[str, Any]:
    last = replies[-1] if replies else None
    counted = [reply for reply in replies if reply.prompt_tokens is not None and reply.completion_tokens is not None]
    whole = bool(replies) and len(counted) == len(replies)
    usage = Usage(
        prompt_tokens=sum(reply.prompt_tokens for reply in counted) if whole else None,
        completion_tokens=sum(reply.completion_tokens for reply in counted) if whole else None,
        calls=len(replies),
    )
    return {
        "usage": usage,
        "mode": last.mode if last else None,
        "model": last.model if last else None,
        "fingerprint": last.fingerprint if last else None,
    }


class FarBackend(Backend):
    """A judge whose items are asked by the workers of a Dask scheduler; it is the same judge, with the same identity.

    A job carries the item and the judge; keys of servers are read from the environment of the workers.

    Raises
    ------
    InputError : `distributed` is not installed, no scheduler answers, or a rate limit is asked for, which
        no worker alone can keep.
    """

    def __init__(self, backend: Backend, address: str):
        self._backend, self._address = backend, address
        self.kind, self.model, self.host = backend.kind, backend.model, backend.host
        self.parameters, self.concurrency = backend.parameters, backend.concurrency
        self._settings = backend.settings if isinstance(backend, ModelJudge) else None
        if self._settings is not None and self._settings.per_minute is not None:
            raise InputError("--rpm cannot be kept by several workers at once; leave it out, or --dask.")

    async def __aenter__(self) -> FarBackend:
        self._stack = AsyncExitStack()
        with reaching_dask(self._address) as distributed:
            client = distributed.Client(self._address, asynchronous=True, timeout="10s")
            self._client = await self._stack.enter_async_context(client)
        self.concurrency = max(self.concurrency, len(self._client.scheduler_info()["workers"]))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def ask(self, judge: Judge, item: Item, key: str) -> Judgement:
        # A client of a server is made by the worker; the settings are what makes it.
        what = copy(self._backend) if self._settings is None else self._settings
        line, requests, fault = await self._client.submit(_ask, what, judge, item, key, pure=False)
        self.requests += requests
        if fault is not None:
            kind, words, state = fault
            raised = kind.__new__(kind, *words)
            raised.__dict__.update(state)
            raise raised
        return line


def _ask(what: Any, judge: Judge, item: Item, key: str) -> tuple[Judgement | None, int, tuple | None]:
    """On a worker: the judgement, how many requests it took, and what was raised, in parts.

    In parts, since faults of servers are made of more than their words and would not travel whole.
    """
    backend = what if hasattr(what, "ask") else ModelJudge(what)
    before = backend.requests

    async def ask() -> Judgement:
        async with backend:
            return await backend.ask(judge, item, key)

    try:
        return asyncio.run(ask()), backend.requests - before, None
    except Exception as error:
        return None, backend.requests - before, (type(error), error.args, error.__dict__)
