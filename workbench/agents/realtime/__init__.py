"""A local agent behind an OpenAI Realtime endpoint: point any Realtime client at it, without a key.

Each connection is a session of its own with a fresh agent. The address is the loopback one unless
another is asked for; a server that others can reach must have a key.
"""

from __future__ import annotations

import asyncio
import hmac
import http
import ipaddress
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Request, Response, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed

from workbench.agents.base import Agent
from workbench.agents.realtime.session import ClientGone, RealtimeSession, SessionOver
from workbench.errors import InputError

PATH = "/v1/realtime"
LARGEST_MESSAGE = 20 * 2**20  # bytes; the protocol allows appends of 15 MiB
_BROWSER_KEY = "openai-insecure-api-key."


@asynccontextmanager
async def realtime_server(
    make_agent: Callable[[], Agent], *, host: str = "127.0.0.1", port: int = 0, key: str = ""
) -> AsyncIterator[str]:
    """Serve while the context lasts; gives the base URL for clients, such as http://127.0.0.1:8765/v1.

    make_agent : makes a fresh agent for each session (`workbench.agents.registry.factory`).
    port : 0 takes a free one. key : what clients must send as bearer token or `api-key`; '' for any.

    Raises
    ------
    InputError : the agent cannot be served, the address is taken, or it is open to others without a key.
    """
    check_servable(make_agent())
    if not key and not _is_loopback(host):
        raise InputError(f"{host} can be reached from other machines; set a key, or serve on 127.0.0.1.")

    async def handle(connection: ServerConnection) -> None:
        query = parse_qs(urlsplit(connection.request.path).query)
        beta = "realtime=v1" in connection.request.headers.get("OpenAI-Beta", "")

        async def deliver(event: dict) -> None:
            try:
                await connection.send(json.dumps(event))
            except ConnectionClosed:
                raise ClientGone from None

        session = RealtimeSession(make_agent, deliver, query.get("model", ["local"])[0], beta)
        try:
            await session.start()
            async for message in connection:
                await session.handle(message)
        except SessionOver as over:
            closing = asyncio.ensure_future(connection.close(1011, str(over).encode()[:120].decode(errors="ignore")))
            async for _ in connection:  # what the client still sends would hide its answer to the close
                pass
            await closing
        except (ClientGone, ConnectionClosed):
            pass
        finally:
            await session.close()

    def admit(connection: ServerConnection, request: Request) -> Response | None:
        if urlsplit(request.path).path.rstrip("/") != PATH:
            return _refusal(http.HTTPStatus.NOT_FOUND, f"Only {PATH} is served here.", "not_found")
        if key and not hmac.compare_digest(_key_of(request).encode(), key.encode()):
            return _refusal(http.HTTPStatus.UNAUTHORIZED, "Incorrect API key provided.", "invalid_api_key")
        origin = request.headers.get("Origin", "")
        if not key and origin and not _is_loopback(urlsplit(origin).hostname or ""):
            # Without this any web page in the user's browser could talk to the loopback server.
            return _refusal(http.HTTPStatus.FORBIDDEN, "Pages from other hosts need a key.", "forbidden_origin")
        return None

    try:
        server = await serve(
            handle,
            host,
            port,
            process_request=admit,
            select_subprotocol=lambda _, offered: "realtime" if "realtime" in offered else None,
            max_size=LARGEST_MESSAGE,
            compression=None,
        )
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{host}:{port} cannot be served on: {why}; choose another port.") from None
    async with server:
        bound = server.sockets[0].getsockname()[1]
        yield f"http://{f'[{host}]' if ':' in host else host}:{bound}/v1"


def check_servable(agent: Agent) -> None:
    """Refuse (InputError) agents that know the case, or that live in the time of another server."""
    if agent.traits.privileged:
        raise InputError(f"{agent.traits.name!r} follows a case's script and cannot be served; choose another agent.")
    if agent.traits.pacing != "input":
        raise InputError(f"{agent.traits.name!r} is a remote system already; serve a local agent, such as cascade.")


def _key_of(request: Request) -> str:
    headers = request.headers
    bearer = headers.get("Authorization", "").removeprefix("Bearer ").strip()
    offered = [name.strip() for name in headers.get("Sec-WebSocket-Protocol", "").split(",")]
    browser = next((name.removeprefix(_BROWSER_KEY) for name in offered if name.startswith(_BROWSER_KEY)), "")
    return bearer or headers.get("api-key", "") or browser


def _refusal(status: http.HTTPStatus, message: str, code: str) -> Response:
    body = json.dumps({"error": {"type": "invalid_request_error", "code": code, "message": message}}).encode()
    headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"})
    return Response(status.value, status.phrase, headers, body)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
