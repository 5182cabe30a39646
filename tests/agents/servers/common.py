"""What the loopback servers share: serving on a free port, refusing, hearing speech, making tones."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

import numpy as np
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response


@asynccontextmanager
async def serving(handler: Callable[[ServerConnection], Awaitable[None]], refuse: int = 0, words: str = ""):
    """Yields 'ws://127.0.0.1:port'; `refuse` answers every handshake with that HTTP status."""

    def process(connection: ServerConnection, request) -> Response | None:
        return connection.respond(HTTPStatus(refuse), words) if refuse else None

    async with serve(handler, "127.0.0.1", 0, process_request=process, max_size=None, close_timeout=0.2) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def quietly(work: Awaitable[None]) -> None:
    """Await `work`; the other end may leave in the middle of it."""
    with suppress(ConnectionClosed):
        await work


def tone(seconds: float, rate_hz: int, pitch_hz: float = 440.0, level: float = 0.3) -> np.ndarray:
    """int16 (samples,)"""
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    return (32767 * level * np.sin(2 * np.pi * pitch_hz * t)).astype(np.int16)


def pitch_in(text: str) -> float:
    """The pitch that a system prompt asks for ('answer at 523 Hz'), so that every case has its own."""
    found = re.search(r"(\d+) Hz", text)
    return float(found.group(1)) if found else 440.0


class Ears:
    """Speech edges by energy, in samples heard: push() gives 'started', 'stopped' or None."""

    def __init__(self, rate_hz: int, silence_s: float = 0.1):
        self._silence, self._speaking, self._quiet = silence_s * rate_hz, False, 0
        self.heard = 0

    def push(self, samples: np.ndarray) -> str | None:
        self.heard += samples.size
        loud = samples.size and np.sqrt(np.mean(samples.astype(np.float64) ** 2)) > 500
        self._quiet = 0 if loud else self._quiet + samples.size
        if loud and not self._speaking:
            self._speaking = True
            return "started"
        if self._speaking and self._quiet >= self._silence:
            self._speaking = False
            return "stopped"
        return None
