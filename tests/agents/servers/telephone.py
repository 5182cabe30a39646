"""A telephone agent behind Twilio Media Streams: what a deployed agent is to the call."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from talk import SettledClock

from servers.common import Ears, pitch_in, quietly, serving, tone
from workbench.agents.twilio import mulaw_decode, mulaw_encode


@dataclass
class Behaviour:
    """Every default is good behaviour."""

    answer_s: float = 0.4
    gap_s: float = 0.0  # between packets of 20 ms; 0 is a burst
    packet: int = 160
    refuse: int = 0
    hang_up_after: int = -1  # packets
    drop_after: int = -1
    raw: str = ""
    early: bool = False
    marks: bool = True
    clock: SettledClock = field(default_factory=SettledClock)  # the caller's


@dataclass
class Heard:
    start: dict = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    packets: list[int] = field(default_factory=list)
    audio: bytearray = field(default_factory=bytearray)
    marks: list[tuple[str, float]] = field(default_factory=list)  # as echoed, with when
    sent: dict[str, float] = field(default_factory=dict)  # when they were asked for


class Server:
    def __init__(self, behaviour: Behaviour):
        self.how, self.sessions = behaviour, []

    async def handle(self, socket) -> None:
        heard = Heard()
        self.sessions.append(heard)
        await quietly(self.session(socket, heard))

    async def session(self, socket, heard: Heard) -> None:
        ears, answer = Ears(8_000), None
        async for raw in socket:
            message = json.loads(raw)
            heard.events.append(message["event"])
            match message["event"]:
                case "start":
                    heard.start = message["start"]
                    if self.how.early:
                        await self.answer(socket, heard)
                case "mark":
                    heard.marks.append((message["mark"]["name"], self.how.clock.now()))
                case "media":
                    data = base64.b64decode(message["media"]["payload"])
                    heard.packets.append(len(data))
                    heard.audio += data
                    edge = ears.push(mulaw_decode(data))
                    if edge == "started" and answer is not None:
                        answer.cancel()
                        await self.say(socket, heard, "clear")
                    elif edge == "stopped":
                        answer = asyncio.create_task(quietly(self.answer(socket, heard)))

    async def say(self, socket, heard: Heard, event: str, **fields) -> None:
        await socket.send(json.dumps({"event": event, "streamSid": heard.start["streamSid"], **fields}))

    async def answer(self, socket, heard: Heard) -> None:
        how = self.how
        if how.raw:
            await socket.send(how.raw)
            return
        pitch_hz = pitch_in(heard.start["customParameters"].get("system_prompt", ""))
        begin_s = how.clock.now()
        data = mulaw_encode(tone(how.answer_s, 8_000, pitch_hz))
        for index, at in enumerate(range(0, len(data), how.packet)):
            if index == how.hang_up_after:
                await socket.close()
                return
            if index == how.drop_after:
                socket.transport.abort()
                return
            payload = base64.b64encode(data[at : at + how.packet]).decode()
            await self.say(socket, heard, "media", media={"payload": payload})
            await how.clock.reach(begin_s + (index + 1) * how.gap_s)
        if how.marks:
            heard.sent["end"] = how.clock.now()
            await self.say(socket, heard, "mark", mark={"name": "end"})


@asynccontextmanager
async def running(**behaviour):
    """Yields (server, media-stream address)."""
    how = Behaviour(**behaviour)
    server = Server(how)
    async with serving(server.handle, how.refuse, "the words of the server") as url:
        yield server, url + "/media"
