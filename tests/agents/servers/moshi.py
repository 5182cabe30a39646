"""A Moshi server: the byte protocol, one client at a time, an 80 ms frame out for each one in."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qs

import numpy as np
import sphn
from aiohttp import WSMsgType, web

from servers.common import Ears

FRAME = 1920


@dataclass
class Behaviour:
    """Every default is good behaviour."""

    refuse: int = 0
    no_handshake: bool = False
    metadata: str = ""  # sent before the handshake, as the Rust server does
    early: bool = False  # a frame before anything was heard
    drop_after: int = -1  # frames
    error: str = ""  # sent as kind 5 instead of an answer
    raw: bytes = b""  # sent instead of an answer
    stall_at: int = -1  # frame at which 0.4 s of frames are held back, then sent at once
    echo: bool = False  # gives back what it decodes
    required: tuple[str, ...] = ()  # query fields without which the handler fails


@dataclass
class Heard:
    query: dict
    pcm: list[np.ndarray] = field(default_factory=list)


class Server:
    def __init__(self, behaviour: Behaviour):
        self.how, self.sessions, self.settings = behaviour, [], None
        self.lock = asyncio.Lock()

    async def set(self, request: web.Request) -> web.Response:
        self.settings = await request.json()
        return web.json_response({"status": "success"})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        if self.how.refuse:
            return web.Response(status=self.how.refuse, text="the words of the server")
        query = {name: values[0] for name, values in parse_qs(request.query_string, keep_blank_values=True).items()}
        if any(name not in query for name in self.how.required):
            return web.Response(status=HTTPStatus.INTERNAL_SERVER_ERROR, text="KeyError")
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        heard = Heard(query)
        self.sessions.append(heard)
        async with self.lock:
            with suppress(ConnectionError, RuntimeError):  # the client may leave
                await self.session(request, socket, heard)
        return socket

    async def session(self, request, socket: web.WebSocketResponse, heard: Heard) -> None:
        how = self.how
        writer, reader = sphn.OpusStreamWriter(24_000), sphn.OpusStreamReader(24_000)
        if how.no_handshake:
            await socket.receive()
            return
        if how.metadata:
            await socket.send_bytes(b"\x04" + how.metadata.encode())
        await socket.send_bytes(b"\x00")
        await socket.send_bytes(b"\x09 a kind that nobody knows")
        ears, waiting, held, answering, count = Ears(24_000), np.zeros(0, np.float32), [], 0, 0
        at = 0

        async def out(frame: np.ndarray) -> None:
            held.append(b"\x01" + writer.append_pcm(frame.astype(np.float32)))
            if not (0 <= how.stall_at <= count < how.stall_at + 5):
                for message in held:
                    await socket.send_bytes(message)
                held.clear()

        if how.early:
            await out(np.zeros(FRAME, np.float32))
        async for message in socket:
            if message.type != WSMsgType.BINARY:
                break
            if message.data[:1] != b"\x01":
                continue
            pcm = reader.append_bytes(message.data[1:])
            heard.pcm.append(pcm)
            waiting = np.concatenate([waiting, pcm])
            while waiting.size >= FRAME:
                frame, waiting, count = waiting[:FRAME], waiting[FRAME:], count + 1
                if count == how.drop_after:
                    request.transport.abort()
                    return
                if ears.push((frame * 32767).astype(np.int16)) == "stopped":
                    answering = 5
                    await socket.send_bytes(b"\x02 la")
                    if how.error:
                        await socket.send_bytes(b"\x05" + how.error.encode())
                    if how.raw:
                        await socket.send_bytes(how.raw)
                t = (at + np.arange(FRAME)) / 24_000
                at += FRAME
                said = 0.3 * np.sin(2 * np.pi * 440 * t) * (answering > 0)
                answering -= 1
                await out(frame if how.echo else said)


@asynccontextmanager
async def running(**behaviour):
    """Yields (server, 'ws://.../api/chat')."""
    server = Server(Behaviour(**behaviour))
    app = web.Application()
    app.router.add_get("/api/chat", server.chat)
    app.router.add_post("/api/settings", server.set)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    try:
        yield server, f"ws://127.0.0.1:{port}/api/chat"
    finally:
        await runner.cleanup()
