"""Asking one item: of a model, with unreadable answers asked again and recorded, or of the offline rules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from string import Template
from typing import Any, Literal, Protocol

from workbench.chat.client import ChatClient, ChatSettings, Reply, ServerFault
from workbench.chat.messages import clean, digest, schema
from workbench.chat.reading import AnswerError, read_reply
from workbench.judges.base import Item, Judge
from workbench.judges.prompts import messages
from workbench.judges.records import Attempt, Judgement, Usage

OFFLINE = "offline-lexical"
"""The model name by which the offline judge is asked for; it is never used otherwise."""


class Backend(Protocol):
    """Who answers. `parameters` and `host` belong to the identity of the judge."""

    kind: Literal["llm", "offline"]
    model: str
    host: str | None
    parameters: dict[str, Any]
    concurrency: int
    requests: int

    async def __aenter__(self) -> Backend: ...
    async def __aexit__(self, *exc: object) -> None: ...
    async def ask(self, judge: Judge, item: Item, key: str) -> Judgement: ...


@dataclass
class ModelJudge:
    """A language model behind `client`; `sleep` and `clock` are there for tests."""

    settings: ChatSettings
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    client: ChatClient = field(init=False)
    kind: Literal["llm"] = "llm"

    def __post_init__(self) -> None:
        self.client = ChatClient(self.settings, sleep=self.sleep, clock=self.clock)

    @property
    def model(self) -> str:
        return self.settings.model

    @property
    def host(self) -> str:
        return self.settings.host

    @property
    def parameters(self) -> dict[str, Any]:
        return self.settings.parameters()

    @property
    def concurrency(self) -> int:
        return self.settings.concurrency

    @property
    def requests(self) -> int:
        return self.client.requests

    async def __aenter__(self) -> ModelJudge:
        await self.client.__aenter__()
        return self

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
        base: dict[str, Any] = {"case": item.case, "item": item.item, "key": key, "date": now()}
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


@dataclass
class OfflineJudge:
    """The lexical baseline of a judge, by documented rules: deterministic, free, and no language model."""

    kind: Literal["offline"] = "offline"
    model: str = OFFLINE
    host: None = None
    concurrency: int = 1
    requests: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)

    async def __aenter__(self) -> OfflineJudge:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    async def ask(self, judge: Judge, item: Item, key: str) -> Judgement:
        assert judge.offline is not None, "describe_judge has checked it"
        values, rationale = judge.offline(item)
        good = {"status": "ok", "values": values, "rationale": clean(rationale), "mode": "offline"}
        return Judgement(case=item.case, item=item.item, key=key, date=now(), shown=shown(item), model=OFFLINE, **good)


def shown(item: Item) -> dict[str, str]:
    """What the judge saw, section by section; clips by title and size only."""
    texts = {section.name: clean(section.text) for section in item.sections}
    return texts | {f"clip: {clip.title}": f"{len(clip.wav)} bytes" for clip in item.clips}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


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
