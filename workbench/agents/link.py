"""What the adapters share: one connection a case, faults named in words, options read, audio in pieces.

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
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from workbench.agents.base import AgentError, Emit, Fault, Note
from workbench.audio import StreamResampler, from_pcm16, to_pcm16
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
        return AgentError("unauthorised" if status in (401, 403) else "rejected", message)

    def unreachable(self, error: Exception) -> AgentError:
        """The error for a request over HTTP that was never answered."""
        return AgentError("unreachable", f"{self.name}: {self.words(error)}", retry=True)

    def lost(self, error: BaseException | None) -> AgentError:
        """The error for a connection that ended while it was needed."""
        received = error.rcvd if isinstance(error, ConnectionClosed) else None
        if received is None:
            said = f": {self.words(error)}" if error is not None and str(error) else "."
            return AgentError("connection_lost", f"The connection to {self.name} was lost{said}", retry=True)
        said = f"code {received.code}" + (f": {self.words(received.reason)}" if received.reason else "")
        retry = received.code not in _REFUSALS
        kind = "connection_lost" if retry else "rejected"
        return AgentError(kind, f"{self.name} closed the line ({said}).", retry=retry)

    def bad(self, what: str, raw: object = "") -> AgentError:
        """The error for a message that is not what the protocol says."""
        said = f": {self.words(repr(raw), 120)}" if raw != "" else "."
        return AgentError("bad_message", f"{self.name} sent {what}{said}")

    def parse(self, raw: str | bytes) -> dict[str, Any]:
        """One JSON object; anything else raises AgentError."""
        try:
            value = json.loads(raw)
        except ValueError:
            raise self.bad("something that is not JSON", raw) from None
        if not isinstance(value, dict):
            raise self.bad("JSON that is not an object", raw)
        return value

    def audio(self, text: object) -> bytes:
        """The bytes behind base64 text; anything else raises AgentError."""
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise self.bad("audio that is not base64", text) from None

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Whatever goes wrong while something is sent, as the error for a lost connection."""
        try:
            yield
        except AgentError:
            raise
        except Exception as error:
            raise self.lost(error) from None

    @asynccontextmanager
    async def opening(self, timeout_s: float) -> AsyncIterator[None]:
        """Turn whatever goes wrong while a session is opened, within `timeout_s` in all, into an AgentError."""
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
            message = f"{self.name} cannot be reached: {self.words(error)}"
            raise AgentError("unreachable", message, retry=not unknown) from None


Json = Mapping[str, Any] | str | None
"""An option that holds names and values: a mapping, or JSON text."""


class Options:
    """For dataclasses whose fields are an agent's options, read as their types say: float, Json, or a rate in Hz."""

    def __post_init__(self) -> None:
        for option in fields(self):  # type: ignore[arg-type]
            value = getattr(self, option.name)
            if option.type == "float":
                setattr(self, option.name, _number(value, option.name))
            elif option.name.endswith("_hz"):
                setattr(self, option.name, int(_number(value, option.name, least=4000)))
            elif option.type == "Json":
                setattr(self, option.name, _mapping(value, option.name))

    def _shown(self, *options: str) -> dict[str, Any]:
        """Options as they go into the record."""
        return {option: getattr(self, option) for option in options}


class ServerAgent(Options):
    """One connection a case, with `_receive` running beside the stream until `close`.

    An adapter has `_receive` and sets `_link`, connects, calls `_listen`, and where its session opens by
    messages awaits `_opened`, which `_receive` sets by `_ready`. Whatever ends `_receive` before `close`
    is raised from `_opened` while that is not set, and is a Fault afterwards.
    """

    _link: Link
    _emit: Emit
    _connection: Any = None
    _listening: asyncio.Task | None = None

    async def _connect(self, address: str, *, verify: bool = True, headers: Mapping[str, str] | None = None) -> None:
        self._connection = await connect(
            address,
            additional_headers=headers,
            ssl=tls(verify) if address.startswith("wss") else None,
            max_size=None,
            compression=None,
            close_timeout=CLOSE_S,
        )

    def _listen(self) -> None:
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._receive_to_the_end())

    def _ready(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    async def _receive_to_the_end(self) -> None:
        try:
            await self._receive()
            error = self._link.lost(None)
        except AgentError as found:
            error = found
        except (ConnectionClosed, OSError) as found:
            error = self._link.lost(found)
        except Exception as found:  # a message with a shape that nobody foresaw
            error = self._link.bad(f"a message that cannot be used ({type(found).__name__}: {found})")
        if self._opened.done():
            self._emit(Fault(error.kind, error.message, error.retry))
        else:
            self._opened.set_exception(error)

    def _report(self, **said: Any) -> None:
        """Log what the server says of itself, as far as it says so."""
        self._emit(Note("reported", {name: value for name, value in said.items() if value is not None}))

    async def _write(self, message: str | bytes) -> None:
        with self._link.sending():
            await self._connection.send(message)

    async def _farewell(self) -> None:
        """Send what the protocol wants last; nothing is listened to any more."""

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
            if self._opened.done() and not self._opened.cancelled():
                self._opened.exception()  # seen, so that nobody warns of it
        if self._connection is not None:
            await self._farewell()
            await self._connection.close()


class Pcm16:
    """Bytes of 16-bit samples, in pieces of any length, to int16 arrays; half a sample waits for its rest."""

    def __init__(self) -> None:
        self._rest = b""

    def __call__(self, data: bytes) -> np.ndarray:
        data = self._rest + data
        whole = len(data) // 2 * 2
        self._rest = data[whole:]
        return np.frombuffer(data[:whole], "<i2").astype(np.int16)


class RateChange:
    """A stream of int16 samples at another rate, each chunk given in full at once."""

    def __init__(self, from_hz: int, to_hz: int):
        self._resample = StreamResampler(from_hz, to_hz, live=True)

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        if self._resample.from_hz == self._resample.to_hz:
            return samples
        return to_pcm16(self._resample(from_pcm16(samples)))


def base64_of(samples: np.ndarray) -> str:
    """int16 (samples,) as base64 of little-endian samples."""
    return base64.b64encode(samples.astype("<i2").tobytes()).decode()


def key_from(variable: str, needed: bool, agent: str) -> str:
    """The key that an environment variable holds; '' where none is needed, InputError where it is."""
    key = os.environ.get(variable, "").strip() if variable else ""
    if not key and needed:
        raise InputError(f"The agent {agent!r} needs a key in the environment variable {variable}; set it first.")
    return key


def _mapping(value: Json, option: str) -> dict[str, Any]:
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


def _number(value: object, option: str, least: float = 0.0) -> float:
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = float("nan")
    if isinstance(value, bool) or not least <= found < float("inf"):
        raise InputError(f"The option {option!r} must be a number of at least {least:g}, not {value!r}.")
    return found


@lru_cache(maxsize=2)
def tls(verify: bool = True) -> ssl.SSLContext:
    """One TLS context a process: making one takes 40 ms, in which every other session would wait."""
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
