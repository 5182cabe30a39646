"""An OpenAI Live server: audio out without end at real-time pace, a tone once it has heard speech."""

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

    rate_hz: int = 24_000
    refuse: int = 0
    silent_start: bool = False  # never says session.started
    drop_after: int = -1  # chunks
    closed: str = ""  # the reason of a session.closed instead of an answer
    error: dict | None = None
    raw: str = ""
    stall_at: int = -1  # chunk before which nothing comes for 0.3 s, then what is due, at once
    odd_bytes: bool = False


@dataclass
class Heard:
    settings: dict = field(default_factory=dict)
    audio: bytearray = field(default_factory=bytearray)


class Server:
    CHUNK_S = 0.04

    def __init__(self, behaviour: Behaviour):
        self.how, self.sessions = behaviour, []

    async def handle(self, socket) -> None:
        heard = Heard()
        self.sessions.append(heard)
        await quietly(self.session(socket, heard))

    async def session(self, socket, heard: Heard) -> None:
        ears, speaker = Ears(24_000), None
        self.answering = 0
        try:
            async for raw in socket:
                event = json.loads(raw)
                if event["type"] == "session.start":
                    heard.settings = event["session"]
                    if not self.how.silent_start:
                        form = {"type": "audio/pcm", "rate": self.how.rate_hz}
                        said = {"model": "live-loopback", "audio": {"format": form}}
                        await socket.send(json.dumps({"type": "session.started", "session": said}))
                        speaker = asyncio.create_task(quietly(self.speak(socket, heard)))
                elif event["type"] == "session.input_audio.append":
                    data = base64.b64decode(event["audio"])
                    heard.audio += data
                    if ears.push(np.frombuffer(data, "<i2")) == "stopped":
                        await self.answer(socket)
        finally:
            if speaker:
                speaker.cancel()

    async def answer(self, socket) -> None:
        self.answering = 10
        if self.how.closed:
            await socket.send(json.dumps({"type": "session.closed", "reason": self.how.closed}))
        if self.how.error:
            await socket.send(json.dumps({"type": "error", "error": self.how.error}))
        if self.how.raw:
            await socket.send(self.how.raw)
        words = {"type": "session.output_transcript.delta", "delta": "la la", "start_ms": 0, "end_ms": 400}
        await socket.send(json.dumps(words))

    async def speak(self, socket, heard: Heard) -> None:
        rate_hz, loop = self.how.rate_hz, asyncio.get_running_loop()
        begin, rest = loop.time(), b""
        whole = tone(60, rate_hz, pitch_in(heard.settings.get("instructions", "")))
        for index in range(1500):
            at = begin + index * self.CHUNK_S
            if index == self.how.stall_at:
                await asyncio.sleep(0.3)
            await asyncio.sleep(max(0, at - loop.time()))
            if index == self.how.drop_after:
                socket.transport.abort()
                return
            size = round(self.CHUNK_S * rate_hz)
            now = whole[index * size : (index + 1) * size] * (self.answering > 0)
            data = rest + now.astype(np.int16).tobytes()
            self.answering -= 1
            cut = len(data) - (1 if self.how.odd_bytes and index % 2 == 0 else 0)
            data, rest = data[:cut], data[cut:]
            delta = base64.b64encode(data).decode()
            await socket.send(json.dumps({"type": "session.output_audio.delta", "delta": delta}))


@asynccontextmanager
async def running(**behaviour):
    """Yields (server, base_url)."""
    how = Behaviour(**behaviour)
    server = Server(how)
    async with serving(server.handle, how.refuse, "the words of the server") as url:
        yield server, url.replace("ws://", "http://") + "/v1"
