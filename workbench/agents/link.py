"""What every adapter shares: opening a connection, naming its faults in words, listening beside the stream.

A fault is worth another attempt (`retry`) when the server was busy (429, 5xx), could not be reached
or dropped the line, and not when it refused what it was asked (400, 401, 403).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from workbench.agents.base import AgentError, Emit, Fault
from workbench.errors import InputError

CLOSE_S = 1.0
"""How long a server may take to answer a closing handshake."""

# Close codes by which a server says that the request itself was wrong: RFC 6455, and 3000 to 3999,
# which are registered for libraries (3000: unauthorised, 3003: forbidden).
_REFUSALS = {1002, 1003, 1007, 1008, 1009, 1010, *range(3000, 4000)}


@dataclass(frozen=True)
class Link:
    """The other end, as it is named in errors; `key` never appears in one."""

    name: str
    key: str = ""

    def words(self, text: object, limit: int = 300) -> str:
        """The server's own words on one line, cut to `limit` characters, without the key."""
        line = " ".join(str(text).split())
        line = line.replace(self.key, "[key]") if self.key else line
        return line if len(line) <= limit else line[: limit - 1] + "…"

    def refused(self, status: int, words: object) -> AgentError:
        """The error for an HTTP status other than success."""
        said = self.words(words)
        message = f"{self.name} answered {status}" + (f": {said}" if said else ".")
        if status == 429 or status >= 500:
            return AgentError("busy", message, retry=True)
        kind = "unauthorised" if status in (401, 403) else "rejected"
        return AgentError(kind, message)

    def lost(self, error: BaseException | None) -> AgentError:
        """The error for a connection that ended while it was needed."""
        received = error.rcvd if isinstance(error, ConnectionClosed) else None
        if received is not None:
            said = f" (code {received.code}{': ' + self.words(received.reason) if received.reason else ''})"
            retry = received.code not in _REFUSALS
            return AgentError(
                "connection_lost" if retry else "rejected", f"{self.name} closed the line{said}.", retry=retry
            )
        said = f": {self.words(error)}" if error is not None and str(error) else "."
        return AgentError("connection_lost", f"The connection to {self.name} was lost{said}", retry=True)

    def bad(self, what: str, raw: object = "") -> AgentError:
        """The error for a message that is not what the protocol says."""
        said = f": {self.words(repr(raw), 120)}" if raw != "" else "."
        return AgentError("bad_message", f"{self.name} sent {what}{said}")

    def parse(self, raw: str | bytes) -> dict[str, Any]:
        """One JSON object.

        Raises
        ------
        AgentError : not JSON, or not an object.
        """
        try:
            value = json.loads(raw)
        except ValueError:
            raise self.bad("something that is not JSON", raw) from None
        if not isinstance(value, dict):
            raise self.bad("JSON that is not an object", raw)
        return value

    def audio(self, text: object) -> bytes:
        """The bytes behind base64 text.

        Raises
        ------
        AgentError : not base64.
        """
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise self.bad("audio that is not base64", text) from None

    @asynccontextmanager
    async def opening(self, timeout_s: float) -> AsyncIterator[None]:
        """Turn whatever goes wrong while a session is opened into an AgentError.

        timeout_s : how long connecting and the handshake may take together.
        """
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError:
            raise AgentError(
                "no_handshake",
                f"{self.name} did not open a session within {timeout_s:g} s; it may be busy with another one.",
                retry=True,
            ) from None
        except InvalidStatus as error:
            response = error.response
            raise self.refused(response.status_code, (response.body or b"").decode("utf-8", "replace")) from None
        except InvalidURI as error:
            raise AgentError("rejected", f"{self.name}: {self.words(error)}") from None
        except (ConnectionClosed, InvalidHandshake, EOFError) as error:
            raise self.lost(error) from None
        except OSError as error:
            unknown = isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN
            raise AgentError(
                "unreachable", f"{self.name} cannot be reached: {self.words(error)}", retry=not unknown
            ) from None


class Listener:
    """Runs `receive` beside the stream until `stop`; whatever ends it earlier becomes a Fault.

    `ready` is for adapters whose session opens by messages: while it is not done, an end is raised
    from it rather than reported as a fault.
    """

    def __init__(self, link: Link, emit: Emit, receive: Callable[[], Awaitable[None]]):
        self._link, self._emit, self._receive = link, emit, receive
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run())

    def opened(self) -> None:
        if not self.ready.done():
            self.ready.set_result(None)

    async def _run(self) -> None:
        try:
            await self._receive()
            error = self._link.lost(None)
        except AgentError as found:
            error = found
        except (ConnectionClosed, OSError) as found:
            error = self._link.lost(found)
        except Exception as found:  # a message with a shape that nobody foresaw
            error = self._link.bad(f"a message that cannot be used ({type(found).__name__}: {found})")
        if self.ready.done():
            self._emit(Fault(error.kind, error.message, error.retry))
        else:
            self.ready.set_exception(error)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self.ready.done() and not self.ready.cancelled():
            self.ready.exception()  # seen, so that nobody warns of it


class Pcm16:
    """Bytes of 16-bit samples, in pieces of any length, to int16 arrays; half a sample waits for its rest."""

    def __init__(self) -> None:
        self._rest = b""

    def __call__(self, data: bytes) -> np.ndarray:
        data = self._rest + data
        whole = len(data) // 2 * 2
        self._rest = data[whole:]
        return np.frombuffer(data[:whole], "<i2").astype(np.int16)


def key_from(variable: str, needed: bool, agent: str) -> str:
    """The key that an environment variable holds; '' where none is needed.

    Raises
    ------
    InputError : a key is needed and the variable is not set.
    """
    key = os.environ.get(variable, "").strip() if variable else ""
    if not key and needed:
        raise InputError(f"The agent {agent!r} needs a key in the environment variable {variable}; set it first.")
    return key


def mapping(value: Mapping[str, Any] | str | None, option: str) -> dict[str, Any]:
    """An option that holds names and values, given as a mapping or as JSON text.

    Raises
    ------
    InputError : anything else.
    """
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except ValueError as error:
            raise InputError(f"The option {option!r} is not valid JSON ({error}): {value!r}.") from None
    if not value:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f'The option {option!r} must be a JSON object, such as {{"name": "value"}}.')
    return dict(value)


def number(value: object, option: str, least: float = 0.0) -> float:
    """An option that is a number of at least `least`.

    Raises
    ------
    InputError : anything else.
    """
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = float("nan")
    if isinstance(value, bool) or not least <= found < float("inf"):
        raise InputError(f"The option {option!r} must be a number of at least {least:g}, not {value!r}.")
    return found


def rate(value: object, option: str) -> int:
    """An option that is a sample rate in Hz."""
    return int(number(value, option, 4000))


@lru_cache(maxsize=2)
def tls(verify: bool = True) -> ssl.SSLContext:
    """One TLS context a process: making one takes 40 ms, in which every other session would wait."""
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
