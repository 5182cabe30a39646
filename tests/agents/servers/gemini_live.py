"""A Gemini Live server: setup, realtime input at 16 kHz, server content at 24 kHz in binary frames."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np

from servers.common import Ears, pitch_in, quietly, serving, tone


@dataclass
class Behaviour:
    """Every default is good behaviour."""

    answer_s: float = 0.4
    gap_s: float = 0.0
    refuse: int = 0
    no_handshake: bool = False
    close: tuple[int, str] | None = None  # code and reason, instead of setupComplete
    drop_after: int = -1
    raw: bytes = b""
    early: bool = False
    odd_bytes: bool = False
    rate_hz: int = 24_000


@dataclass
class Heard:
    headers: dict
    path: str
    setup: dict = field(default_factory=dict)
    audio: bytearray = field(default_factory=bytearray)


class Server:
    def __init__(self, behaviour: Behaviour):
        self.how, self.sessions = behaviour, []

    async def handle(self, socket) -> None:
        heard = Heard(dict(socket.request.headers), socket.request.path)
        self.sessions.append(heard)
        await quietly(self.session(socket, heard))

    async def session(self, socket, heard: Heard) -> None:
        ears, answer = Ears(16_000), None
        async for raw in socket:
            message = json.loads(raw)
            if "setup" in message:
                heard.setup = message["setup"]
                if self.how.no_handshake:
                    continue
                if self.how.close:
                    await socket.close(*self.how.close)
                    return
                await self.send(socket, {"setupComplete": {}})
                if self.how.early:
                    await self.answer(socket, heard)
            else:
                audio = message["realtimeInput"]["audio"]
                assert audio["mimeType"] == "audio/pcm;rate=16000"
                data = base64.b64decode(audio["data"])
                heard.audio += data
                edge = ears.push(np.frombuffer(data, "<i2"))
                if edge == "started":
                    if answer is not None and not answer.done():
                        answer.cancel()
                    if answer is not None:
                        await self.content(socket, interrupted=True)
                        await self.content(socket, turnComplete=True)
                elif edge == "stopped":
                    answer = asyncio.create_task(quietly(self.answer(socket, heard)))

    async def send(self, socket, message: dict) -> None:
        await socket.send(json.dumps(message).encode())

    async def content(self, socket, **content) -> None:
        await self.send(socket, {"serverContent": content})

    async def answer(self, socket, heard: Heard) -> None:
        how = self.how
        if how.raw:
            await socket.send(how.raw)
            return
        prompt = (heard.setup.get("systemInstruction") or {"parts": [{"text": ""}]})["parts"][0]["text"]
        data = tone(how.answer_s, how.rate_hz, pitch_in(prompt)).tobytes()
        await self.content(socket, outputTranscription={"text": "la la"})
        for index, at in enumerate(range(0, len(data), 4801 if how.odd_bytes else 4800)):
            if index == how.drop_after:
                socket.transport.abort()
                return
            part = base64.b64encode(data[at : at + (4801 if how.odd_bytes else 4800)]).decode()
            inline = {"mimeType": f"audio/pcm;rate={how.rate_hz}", "data": part}
            await self.content(socket, modelTurn={"parts": [{"inlineData": inline}]})
            await asyncio.sleep(how.gap_s)
        await self.content(socket, generationComplete=True)
        await self.content(socket, turnComplete=True)
        await self.send(socket, {"usageMetadata": {"totalTokenCount": 7}})


@asynccontextmanager
async def running(**behaviour):
    """Yields (server, base_url)."""
    how = Behaviour(**behaviour)
    server = Server(how)
    async with serving(server.handle, how.refuse, "the words of the server") as url:
        yield server, url
