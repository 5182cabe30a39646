"""An OpenAI Realtime server: energy-based turn detection, and a tone as its answer.

As a program (`python openai_realtime.py`) it prints its address and serves until its input ends.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from servers.common import Ears, pitch_in, quietly, serving, tone


@dataclass
class Behaviour:
    """How the server behaves; every default is good behaviour. Seconds, Hz, samples."""

    beta: bool = False
    answer_s: float = 0.4
    chunk_s: float = 0.1
    gap_s: float = 0.0  # between chunks: 0 is a burst, as fast as the line takes it
    silence_s: float = 0.1
    rate_hz: int = 24_000
    refuse: int = 0
    words: str = "the words of the server"  # of a refusal
    no_handshake: bool = False
    drop_after: int = -1  # chunks of the answer, then the line is dropped
    close_code: int = 0  # of an orderly close instead of a drop
    error: dict | None = None  # sent instead of an answer
    fail: dict | None = None  # the response ends as failed with this error
    raw: str = ""  # sent instead of an answer: garbage
    late_deltas: int = 0  # of a cancelled response
    stall_s: float = 0.0  # after the first chunk, then the rest at once
    early: bool = False  # speaks before it has heard anything
    odd_bytes: bool = False  # chunks that split a sample
    chunk_samples: tuple[int, ...] = ()  # odd chunk sizes, in turn
    endless: bool = False
    truncate_error: bool = False


@dataclass
class Heard:
    """What the server got in one session."""

    path: str
    headers: dict
    settings: dict = field(default_factory=dict)
    audio: bytearray = field(default_factory=bytearray)
    truncations: list[dict] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)  # item -> samples


class Server:
    def __init__(self, behaviour: Behaviour):
        self.behaviour, self.sessions, self._count = behaviour, [], 0

    async def handle(self, socket) -> None:
        heard = Heard(socket.request.path, dict(socket.request.headers))
        self.sessions.append(heard)
        if self.behaviour.no_handshake:
            await socket.wait_closed()
            return
        await quietly(_Session(self, socket, heard).run())

    def name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"


class _Session:
    def __init__(self, server: Server, socket, heard: Heard):
        self.server, self.how, self.socket, self.heard = server, server.behaviour, socket, heard
        self.ears = Ears(24_000, self.how.silence_s)
        self.answer: asyncio.Task | None = None
        self.response = self.item = ""

    async def say(self, kind: str, **fields) -> None:
        if self.how.beta:
            kind = kind.replace("output_audio", "audio")
        await self.socket.send(json.dumps({"type": kind, "event_id": self.server.name("event"), **fields}))

    async def run(self) -> None:
        await self.say("session.created", session={"model": "loopback-1"})
        async for raw in self.socket:
            event = json.loads(raw)
            match event["type"]:
                case "session.update":
                    await self.update(event["session"])
                case "input_audio_buffer.append":
                    data = base64.b64decode(event["audio"])
                    self.heard.audio += data
                    await self.edge(self.ears.push(np.frombuffer(data, "<i2")))
                case "conversation.item.truncate":
                    self.heard.truncations.append(event)
                    if self.how.truncate_error:
                        error = {"type": "invalid_request_error", "code": "invalid_value", "message": "too long"}
                        await self.say("error", error=error | {"event_id": event["event_id"]})

    async def update(self, settings: dict) -> None:
        self.heard.settings = settings
        self.pitch_hz = pitch_in(settings.get("instructions", ""))
        said = {"model": "loopback-1", "voice": "tone"}
        if not self.how.beta:
            said["audio"] = {
                "input": {"format": {"type": "audio/pcm", "rate": 24_000}},
                "output": {"format": {"type": "audio/pcm", "rate": self.how.rate_hz}},
            }
        await self.say("session.updated", session=said)
        if self.how.early:
            await self.respond()

    async def edge(self, edge: str | None) -> None:
        at_ms = round(self.ears.heard / 24)
        if edge == "started":
            await self.say("input_audio_buffer.speech_started", audio_start_ms=at_ms, item_id="user")
            await self.cancel()
        elif edge == "stopped":
            await self.say("input_audio_buffer.speech_stopped", audio_end_ms=at_ms, item_id="user")
            self.answer = asyncio.create_task(quietly(self.respond()))

    async def cancel(self) -> None:
        if self.answer is None or self.answer.done():
            return
        self.answer.cancel()
        await asyncio.gather(self.answer, return_exceptions=True)
        for _ in range(self.how.late_deltas):
            await self.delta(tone(self.how.chunk_s, self.how.rate_hz, 2000).tobytes())
        details = {"type": "cancelled", "reason": "turn_detected"}
        await self.say(
            "response.done", response={"id": self.response, "status": "cancelled", "status_details": details}
        )

    async def delta(self, data: bytes) -> None:
        audio = base64.b64encode(data).decode()
        await self.say("response.output_audio.delta", response_id=self.response, item_id=self.item, delta=audio)
        self.heard.sent[self.item] = self.heard.sent.get(self.item, 0) + len(data) // 2

    async def respond(self) -> None:
        how = self.how
        self.response, self.item = self.server.name("response"), self.server.name("item")
        if how.error:
            return await self.say("error", error=how.error)
        if how.raw:
            return await self.socket.send(how.raw)
        await self.say("response.created", response={"id": self.response})
        text = {"response_id": self.response, "item_id": self.item, "delta": "la la"}
        await self.say("response.output_audio_transcript.delta", **text)
        for index, chunk in enumerate(self.chunks()):
            if index == how.drop_after:
                return await self.drop()
            await self.delta(chunk)
            if how.stall_s and index == 0:
                await asyncio.sleep(how.stall_s)
            # A server that never yields would not hear the user either.
            await asyncio.sleep(how.gap_s)
        status = {"status": "failed", "status_details": {"error": how.fail}} if how.fail else {"status": "completed"}
        await self.say("response.done", response={"id": self.response, **status})

    def chunks(self):
        how = self.how
        whole = tone(how.answer_s, how.rate_hz, self.pitch_hz).tobytes()
        sizes = [2 * size for size in how.chunk_samples] or [2 * round(how.chunk_s * how.rate_hz)]
        at = index = 0
        while at < len(whole) or how.endless:
            size = sizes[index % len(sizes)] + (1 if how.odd_bytes and index % 2 == 0 else 0)
            if at >= len(whole):
                at = 0
            yield whole[at : at + size]
            at, index = at + size, index + 1

    async def drop(self) -> None:
        if self.how.close_code:
            await self.socket.close(self.how.close_code, "session hit its limit of 60 minutes")
        else:
            self.socket.transport.abort()


@asynccontextmanager
async def running(**behaviour):
    """Yields (server, base_url)."""
    how = Behaviour(**behaviour)
    server = Server(how)
    async with serving(server.handle, how.refuse, how.words) as url:
        yield server, url.replace("ws://", "http://") + "/v1"


async def _main() -> None:
    async with running(gap_s=0.05, answer_s=0.6, silence_s=0.3) as (_, url):
        print(url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
