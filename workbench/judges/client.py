"""The one client for every model judge: any server that speaks OpenAI's chat completions.

Retries are ours and not the library's, so that they are bounded, recorded and alike everywhere.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_exponential_jitter

from workbench.errors import InputError
from workbench.judges.faults import MAX_WAIT_S, ServerFault, names_max_tokens, names_schema, translate
from workbench.judges.fencing import clean
from workbench.judges.pacing import Pace

HOSTED = "https://api.openai.com/v1"


@dataclass(frozen=True)
class Settings:
    """How to reach and ask a model judge.

    temperature, seed, max_tokens, extra and schema are parameters of the judgement: they are
    recorded and belong to its key. The rest (rate, time-outs, tries) does not change what is asked.
    """

    model: str
    base_url: str | None = None
    key_env: str | None = None
    temperature: float | None = 0.0
    seed: int | None = None
    max_tokens: int = 1200
    extra: Mapping[str, Any] = field(default_factory=dict)
    schema: bool = True
    concurrency: int = 8
    per_minute: float | None = None
    timeout_s: float = 120.0
    tries: int = 6
    answer_tries: int = 3

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.tries < 1 or self.answer_tries < 1 or self.max_tokens < 1:
            raise InputError("concurrency, tries, answer tries and max tokens must each be at least 1.")
        if self.timeout_s <= 0 or (self.per_minute is not None and self.per_minute <= 0):
            raise InputError("the time-out and the requests per minute must be above 0.")

    @property
    def url(self) -> str:
        url = self.base_url or os.environ.get("OPENAI_BASE_URL") or HOSTED
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError("the base URL of the judge must look like http://localhost:11434/v1.")
        if parts.username or parts.password or parts.query:
            raise InputError(
                f"the base URL of the judge ({parts.hostname}) may hold no credentials and no query, since they "
                "could reach a log; put the key into an environment variable and name it with --key-env."
            )
        return url

    @property
    def host(self) -> str:
        """Name of the server, without port, path or credentials: what is recorded."""
        return urlsplit(self.url).hostname or ""

    def parameters(self) -> dict[str, Any]:
        return {
            "temperature": self.temperature,
            "seed": self.seed,
            "max_tokens": self.max_tokens,
            "schema": self.schema,
            "extra": dict(self.extra),
        }

    def key(self) -> str:
        """The API key, from the environment only.

        OPENAI_API_KEY goes to OpenAI's own host alone, so that it can't leak to another server by
        accident; for any other host name the variable. A local server that needs none gets a dummy.

        Raises
        ------
        InputError : the variable is needed or named, and not set.
        """
        own = self.host == urlsplit(HOSTED).hostname
        name = self.key_env or ("OPENAI_API_KEY" if own else None)
        if name is None:
            return "none"
        value = os.environ.get(name, "").strip()
        if not value:
            raise InputError(
                f"the environment variable {name} is not set, and the judge at {self.host} needs it; set it, or "
                "name a local server with --base-url."
            )
        return value


@dataclass(frozen=True)
class Reply:
    """What the server said. Token counts are None where the server gives none."""

    text: str
    refusal: str | None
    finish: str | None
    model: str | None
    fingerprint: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    mode: str


class ChatClient:
    """Sends messages, waits and retries as the server's answers allow; use as an async context manager.

    `requests` counts every HTTP request. `sleep` and `clock` are there for tests.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.settings = settings
        self.requests = 0
        self._sleep = sleep
        self._pace = Pace(settings.per_minute, sleep, clock)
        self._key = settings.key()
        self._schema = settings.schema
        self._max_tokens = "max_completion_tokens" if settings.url == HOSTED else "max_tokens"
        self._client = openai.AsyncOpenAI(
            api_key=self._key, base_url=settings.url, max_retries=0, timeout=settings.timeout_s
        )

    async def __aenter__(self) -> ChatClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._client.close()

    async def complete(self, messages: list[dict[str, Any]], schema: dict[str, Any], name: str) -> Reply:
        """One answer to `messages`, as JSON after `schema` where the server can hold to it.

        Raises
        ------
        ServerFault : nothing more to try; `fatal` when every other request would fail as well.
        """
        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(self.settings.tries),
            wait=_wait,
            retry=retry_if_exception(lambda error: isinstance(error, ServerFault) and error.retry),
            sleep=self._sleep,
            reraise=True,
        ):
            with attempt:
                return await self._adapted(messages, schema, name)
        raise AssertionError("unreachable")

    async def _adapted(self, messages: list[dict[str, Any]], schema: dict[str, Any], name: str) -> Reply:
        """One request; where the server refuses the schema or the name of the token limit, the other
        way, which is remembered for all later requests."""
        while True:
            with_schema, limit = self._schema, self._max_tokens
            try:
                return await self._once(messages, schema if with_schema else None, limit, name)
            except ServerFault as fault:
                if fault.kind != "bad_request":
                    raise
                if limit != "max_completion_tokens" and names_max_tokens(fault.detail):
                    self._max_tokens = "max_completion_tokens"
                elif with_schema and names_schema(fault.detail):
                    self._schema = False
                else:
                    raise

    async def _once(
        self, messages: list[dict[str, Any]], schema: dict[str, Any] | None, limit: str, name: str
    ) -> Reply:
        body: dict[str, Any] = {"model": self.settings.model, "messages": messages, limit: self.settings.max_tokens}
        if self.settings.temperature is not None:
            body["temperature"] = self.settings.temperature
        if self.settings.seed is not None:
            body["seed"] = self.settings.seed
        if schema is not None:
            form = {"name": name, "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        await self._pace.turn()
        self.requests += 1
        try:
            # The library's time-out restarts with every byte; this one holds for the whole answer.
            async with asyncio.timeout(self.settings.timeout_s):
                completion = await self._client.chat.completions.create(
                    **body, extra_body=dict(self.settings.extra) or None
                )
        except (openai.APIError, TimeoutError, ValueError) as error:
            fault = translate(error, self._scrub, self.settings)
            if fault.retry and fault.after_s:
                self._pace.hold(fault.after_s)
            raise fault from None
        return self._reply(completion, "json_schema" if schema is not None else "text")

    def _reply(self, completion: Any, mode: str) -> Reply:
        choices = getattr(completion, "choices", None)
        if not isinstance(choices, list):
            raise ServerFault("bad_response", "the server's reply is not a chat completion", retry=True)
        message = getattr(choices[0], "message", None) if choices else None
        content, refusal = getattr(message, "content", None), getattr(message, "refusal", None)
        usage = getattr(completion, "usage", None)
        return Reply(
            text=self._scrub(content) if isinstance(content, str) else "",
            refusal=self._scrub(refusal) if isinstance(refusal, str) and refusal else None,
            finish=getattr(choices[0], "finish_reason", None) if choices else None,
            model=_text_or_none(getattr(completion, "model", None)),
            fingerprint=_text_or_none(getattr(completion, "system_fingerprint", None)),
            prompt_tokens=_count_or_none(getattr(usage, "prompt_tokens", None)),
            completion_tokens=_count_or_none(getattr(usage, "completion_tokens", None)),
            mode=mode,
        )

    def _scrub(self, text: str) -> str:
        """`text` without the key, should a server echo it."""
        text = clean(text)
        return text.replace(self._key, "[key]") if len(self._key) >= 8 else text


_backoff = wait_exponential_jitter(initial=1, max=60, jitter=1)


def _wait(state: RetryCallState) -> float:
    """Seconds to wait: exponential with jitter, and never less than the server asked for."""
    error = state.outcome.exception() if state.outcome else None
    asked_s = getattr(error, "after_s", None) or 0.0
    return min(max(_backoff(state), asked_s + random.uniform(0, 1) if asked_s else 0.0), MAX_WAIT_S + 1)


def _text_or_none(value: Any) -> str | None:
    return clean(value)[:200] if isinstance(value, str) and value else None


def _count_or_none(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
