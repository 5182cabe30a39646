"""What a server's refusals mean: which are worth another try, and which end the whole batch."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import openai

if TYPE_CHECKING:
    from workbench.judges.client import Settings

MAX_WAIT_S = 300.0
"""The longest Retry-After that is waited out; a longer one ends the batch, to be resumed later."""


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


def translate(error: Exception, scrub: Callable[[str], str], settings: Settings) -> ServerFault:
    """The fault behind an exception of the client library."""
    detail = scrub(" ".join(str(error).split()))[:500]
    if isinstance(error, openai.APITimeoutError | TimeoutError):
        return ServerFault("timeout", f"no answer within {settings.timeout_s:g} s", detail=detail, retry=True)
    if isinstance(error, openai.APIStatusError):
        return _status(error, detail, settings)
    if isinstance(error, openai.APIConnectionError):
        return ServerFault("connection", f"{settings.host} can't be reached ({detail})", detail=detail, retry=True)
    return ServerFault("bad_response", f"the server's reply can't be read ({detail})", detail=detail, retry=True)


def _status(error: openai.APIStatusError, detail: str, settings: Settings) -> ServerFault:
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
