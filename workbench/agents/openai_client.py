"""What the two OpenAI adapters share: the client, the socket below it, and the server's errors in words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from openai import AsyncOpenAI

from workbench.agents.base import AgentError
from workbench.agents.link import CLOSE_S, Link, tls


@lru_cache(maxsize=8)
def client_for(key: str, base_url: str, websocket_base_url: str) -> AsyncOpenAI:
    """One client a process, since making one takes 40 ms; a session is a connection, and each case has its own."""
    return AsyncOpenAI(
        api_key=key or "none", base_url=base_url or None, websocket_base_url=websocket_base_url or None, max_retries=0
    )


def socket_options(base_url: str, websocket_base_url: str) -> dict[str, Any]:
    """Options for the `websockets` connection below the `openai` package."""
    plain = (websocket_base_url or base_url).startswith(("http://", "ws://"))
    return {"close_timeout": CLOSE_S} | ({} if plain else {"ssl": tls()})


def rate_of(form: object, otherwise_hz: int, link: Link) -> int:
    """The rate of an audio format as a server states it; `otherwise_hz` where it states none.

    Raises
    ------
    AgentError : another encoding than 16-bit PCM.
    """
    if not isinstance(form, Mapping):
        return otherwise_hz
    if form.get("type", "audio/pcm") != "audio/pcm":
        raise AgentError("rejected", f"{link.name} insists on {form.get('type')}, where PCM is needed.")
    return int(form.get("rate") or otherwise_hz)


def server_error(error: Mapping[str, Any], link: Link) -> AgentError:
    """The error event of a server; worth another attempt when it was busy or at fault itself."""
    code, kind = str(error.get("code") or ""), str(error.get("type") or "")
    named = code or kind or "server_error"
    busy = kind == "server_error" or "rate_limit" in named or "overloaded" in named
    return AgentError(named, f"{link.name}: {link.words(error.get('message') or dict(error))}", retry=busy)
