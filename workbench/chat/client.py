"""The one client of language models: any server that speaks OpenAI's chat completions.

Retries are ours and not the library's, so that they are bounded, recorded and alike everywhere; what a
server's refusals mean (worth another try, or the end of a whole batch) is told here too.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
from aiolimiter import AsyncLimiter
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_exponential_jitter

from workbench.chat.messages import clean
from workbench.errors import InputError

HOSTED = "https://api.openai.com/v1"

REACH_S = 5.0
"""So long may it take to find out whether a server is there at all."""

MAX_WAIT_S = 300.0
"""The longest Retry-After that is waited out; a longer one ends the batch, to be resumed later."""


@dataclass(frozen=True)
class ChatSettings:
    """How to reach and ask a language model.

    temperature, seed, max_tokens, extra and schema shape what is said: they are recorded, and belong to the
    key of a judgement. The rest (rate, time-outs, tries) does not change what is asked. None leaves a
    parameter to the server.
    """

    model: str
    base_url: str | None = None
    key_env: str | None = None
    temperature: float | None = 0.0
    seed: int | None = None
    max_tokens: int | None = 1200
    extra: Mapping[str, Any] = field(default_factory=dict)
    schema: bool = True
    concurrency: int = 8
    per_minute: float | None = None
    timeout_s: float = 120.0
    tries: int = 6
    answer_tries: int = 3

    def __post_init__(self) -> None:
        if min(self.concurrency, self.tries, self.answer_tries, self.max_tokens or 1) < 1 or self.max_tokens == 0:
            raise InputError("concurrency, tries, answer tries and max tokens must each be at least 1.")
        if self.timeout_s <= 0 or (self.per_minute is not None and self.per_minute <= 0):
            raise InputError("the time-out and the requests per minute must be above 0.")

    @property
    def url(self) -> str:
        url = self.base_url or os.environ.get("OPENAI_BASE_URL") or HOSTED
        try:
            parts = urlsplit(url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is none, half an IPv6 address
            good = False
        if not good:
            raise InputError("the base URL of the model must look like http://localhost:11434/v1.")
        if parts.username or parts.password or parts.query:
            raise InputError(
                f"the base URL of the model ({parts.hostname}) may hold no credentials and no query, since they "
                "could reach a log; put the key into an environment variable and name it with --key-env."
            )
        return url

    @property
    def host(self) -> str:
        """Name of the server and its port where that is not the usual one, without path: what is recorded."""
        parts = urlsplit(self.url)
        usual = {"http": 80, "https": 443}[parts.scheme]
        return f"{parts.hostname}:{parts.port}" if parts.port not in (None, usual) else str(parts.hostname)

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
                f"the environment variable {name} is not set, and the model at {self.host} needs it; set it, or "
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


class ServerFault(Exception):
    """No usable reply from the server.

    Attributes
    ----------
    kind : auth | not_found | quota | rate_limited | bad_request | timeout | connection | server | bad_response
    detail : the server's own words, without keys.
    retry : another try may help. after_s : seconds the server asked to wait, or None.
    fatal : every other request would fail too, so the batch ends.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        detail: str = "",
        retry: bool = False,
        after_s: float | None = None,
        fatal: bool = False,
    ):
        self.kind, self.detail, self.retry, self.after_s, self.fatal = kind, detail, retry, after_s, fatal
        super().__init__(message)


class ChatClient:
    """Sends messages, waits and retries as the server's answers allow; use as an async context manager.

    `requests` counts every request for a completion. `sleep` and `clock` are there for tests.
    """

    def __init__(
        self,
        settings: ChatSettings,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.settings = settings
        self.requests = 0
        self._sleep, self._clock = sleep, clock
        # One a period, so that requests are spaced evenly and never come in a burst.
        self._pace = AsyncLimiter(1, 60 / settings.per_minute) if settings.per_minute else None
        self._held_until_s = float("-inf")
        self._reaching, self._reached = asyncio.Lock(), False
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

    async def reach(self) -> None:
        """Find out, once and within `REACH_S`, whether anybody is there; any answer will do, a late one too.

        Raises
        ------
        ServerFault : nobody is (fatal), in words.
        """
        async with self._reaching:
            if self._reached:
                return
            try:
                async with (
                    asyncio.timeout(REACH_S),
                    httpx.AsyncClient(timeout=httpx.Timeout(REACH_S, read=REACH_S / 5)) as http,
                    http.stream("GET", f"{self.settings.url.rstrip('/')}/models"),
                ):
                    pass
            except (TimeoutError, httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
                why = " ".join(str(error).split()) or f"no answer within {REACH_S:g} s"
                message = f"{self.settings.host} can't be reached ({why}); start the server, or mend the address."
                raise ServerFault("connection", message, fatal=True) from None
            except httpx.HTTPError:
                pass  # a connection stood, so somebody is there
            self._reached = True

    async def complete(
        self, messages: list[dict[str, Any]], schema: dict[str, Any] | None = None, name: str = ""
    ) -> Reply:
        """One answer to `messages`; with a `schema`, called `name`, as JSON after it where the server can hold to it.

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

    async def _adapted(self, messages: list[dict[str, Any]], schema: dict[str, Any] | None, name: str) -> Reply:
        """One request; where the server refuses the schema or the name of the token limit, the other
        way, which is remembered for all later requests."""
        while True:
            with_schema, limit = self._schema and schema is not None, self._max_tokens
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
        body: dict[str, Any] = {"model": self.settings.model, "messages": messages}
        if self.settings.max_tokens is not None:
            body[limit] = self.settings.max_tokens
        if self.settings.temperature is not None:
            body["temperature"] = self.settings.temperature
        if self.settings.seed is not None:
            body["seed"] = self.settings.seed
        if schema is not None:
            form = {"name": name, "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        await self._turn()
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
                # One request was told to wait, so all wait.
                self._held_until_s = max(self._held_until_s, self._clock() + fault.after_s)
            raise fault from None
        return self._reply(completion, "json_schema" if schema is not None else "text")

    async def _turn(self) -> None:
        """Wait for this request's turn: the even rate first, then what the server asked all to wait."""
        if self._pace is not None:
            await self._pace.acquire()
        while (left_s := self._held_until_s - self._clock()) > 0:
            await self._sleep(left_s)

    def _reply(self, completion: Any, mode: str) -> Reply:
        choices = getattr(completion, "choices", None)
        if not isinstance(choices, list):
            raise ServerFault("bad_response", "the server's reply is not a chat completion", retry=True)
        if len(choices) > 1:
            raise ServerFault("bad_response", f"the server gave {len(choices)} answers where one was asked for")
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


def translate(error: Exception, scrub: Callable[[str], str], settings: ChatSettings) -> ServerFault:
    """The fault behind an exception of the client library."""
    detail = scrub(" ".join(str(error).split()))[:500]
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        return ServerFault("timeout", f"no answer within {settings.timeout_s:g} s", detail=detail, retry=True)
    if isinstance(error, openai.APIStatusError):
        return _status(error, detail, settings)
    if isinstance(error, openai.APIConnectionError):
        return ServerFault("connection", f"{settings.host} can't be reached ({detail})", detail=detail, retry=True)
    return ServerFault("bad_response", f"the server's reply can't be read ({detail})", detail=detail, retry=True)


def _status(error: openai.APIStatusError, detail: str, settings: ChatSettings) -> ServerFault:
    status, host = error.status_code, settings.host
    if status in (401, 403):
        message = f"{host} refuses the key or its rights (HTTP {status}: {detail}); check the environment variable."
        return ServerFault("auth", message, detail=detail, fatal=True)
    if status == 404:
        message = f"{host} knows no model {settings.model!r} at this address (HTTP 404: {detail}); check both."
        return ServerFault("not_found", message, detail=detail, fatal=True)
    if status == 429 and "insufficient_quota" in (getattr(error, "code", None), getattr(error, "type", None)):
        return ServerFault("quota", f"the account at {host} has no credit left ({detail}).", detail=detail, fatal=True)
    if status in (408, 409, 429) or status >= 500:
        kind = "rate_limited" if status == 429 else "server"
        after_s = retry_after_s(error.response.headers)
        if after_s is not None and after_s > MAX_WAIT_S:
            message = f"{host} asks to wait {after_s:.0f} s (HTTP {status}); run the same command again after that."
            return ServerFault(kind, message, detail=detail, fatal=True)
        return ServerFault(kind, f"HTTP {status}: {detail}", detail=detail, retry=True, after_s=after_s)
    hint = ""
    if "temperature" in detail.lower():
        hint = " This model may take no temperature: give --temperature none."
    return ServerFault("bad_request", f"HTTP {status}: {detail}{hint}", detail=detail)


def retry_after_s(headers: object) -> float | None:
    """Seconds from a Retry-After header (a number or an HTTP date), or retry-after-ms; None if unreadable."""
    get = headers.get  # type: ignore[attr-defined]
    milliseconds, value = get("retry-after-ms"), get("retry-after")
    for text, scale in ((milliseconds, 0.001), (value, 1.0)):
        if text and re.fullmatch(r"\d{1,9}(\.\d+)?", text.strip()):
            return float(text) * scale
    if not value:
        return None
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def names_schema(detail: str) -> bool:
    """Whether a refusal is about structured output."""
    return bool(re.search(r"response_format|json_schema|structured|schema|grammar|guided", detail, re.IGNORECASE))


def names_max_tokens(detail: str) -> bool:
    """Whether a refusal asks for the newer name of the token limit."""
    return "max_completion_tokens" in detail
