"""A telephone agent, reached the way Twilio Media Streams reaches it: the workbench plays Twilio's side.

It connects to the agent's media-stream address and speaks mu-law at 8 kHz in packets of 20 ms. The
call carries neither transcripts nor turn ends: a turn counts as over when everything sent has been
played and nothing has followed for `quiet_s`.
"""

from __future__ import annotations

import base64
import json
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosedOK

from workbench.agents.base import FRAME_S, AgentError, AudioOut, Emit, Interrupted, Note, Session, Traits, TurnEnd
from workbench.agents.link import Json, Link, RateChange, ServerAgent
from workbench.cases import RATE_HZ
from workbench.errors import InputError

LINE_HZ = 8_000
_TOLERANCE_SAMPLES = RATE_HZ // 100
_ACCOUNT = "AC" + "0" * 32
_BIAS, _CLIP = 132, 32635  # of G.711


def mulaw_encode(samples: np.ndarray) -> bytes:
    """int16 (samples,) to one byte a sample, by the definition in ITU-T G.711 (no tables)."""
    value = samples.astype(np.int32)
    sign = np.where(value < 0, 0x80, 0)
    size = np.minimum(np.abs(value), _CLIP) + _BIAS
    # The segment is the place of the highest bit above the seventh; four bits below it follow.
    segment = np.clip(np.floor(np.log2(size)).astype(np.int32) - 7, 0, 7)
    step = (size >> (segment + 3)) & 0x0F
    return (~(sign | (segment << 4) | step) & 0xFF).astype(np.uint8).tobytes()


def mulaw_decode(data: bytes) -> np.ndarray:
    """One byte a sample to int16 (samples,)."""
    code = ~np.frombuffer(data, np.uint8).astype(np.int32) & 0xFF
    size = (((code & 0x0F) << 3) + _BIAS << ((code >> 4) & 0x07)) - _BIAS
    return np.where(code & 0x80, -size, size).astype(np.int16)


@dataclass(eq=False)
class Twilio(ServerAgent):
    """One call a case.

    url : the agent's media-stream address ('wss://host/media').
    parameters : custom parameters of the call, as JSON. prompt_parameter : the name under which the
        system prompt is given among them; '' keeps it back, and the record says so.
    quiet_s : silence after which the agent's turn counts as over. turns : 'events' (that rule) or
        'continuous' (for agents that send silence without end).
    verify : refuse a certificate that cannot be checked. handshake_s : seconds until the connection
        must stand.
    """

    url: str
    parameters: Json = None
    prompt_parameter: str = "system_prompt"
    quiet_s: float = 0.8
    turns: str = "events"
    verify: bool = True
    handshake_s: float = 15.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.turns not in ("events", "continuous"):
            raise InputError(f"The option 'turns' is 'events' or 'continuous', not {self.turns!r}.")
        self._link = Link(f"The telephone agent at {self.url}")
        settings = self._shown("url", "parameters", "prompt_parameter", "quiet_s")
        self.traits = Traits("twilio", "call", "wall", turns=self.turns, text=False, settings=settings)

    async def open(self, session: Session, emit: Emit) -> None:
        self._session, self._emit = session, emit
        self._stream, self._call = f"MZ{uuid.uuid4().hex}", f"CA{uuid.uuid4().hex}"
        self._to_line = RateChange(RATE_HZ, LINE_HZ)
        self._sequence = self._chunk = 0
        self._talk, self._received, self._quiet = 1, 0, 0
        self._marks: list[tuple[str, int]] = []
        given = dict(self.parameters)
        if session.system_prompt and self.prompt_parameter:
            given[self.prompt_parameter] = session.system_prompt
        elif session.system_prompt:
            emit(Note("system_prompt_not_sent", {"reason": "prompt_parameter is empty"}))
        async with self._link.opening(self.handshake_s):
            await self._connect(self.url, verify=self.verify)
        self._listen()
        self._ready()
        await self._write(json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"}))
        start = {
            "streamSid": self._stream,
            "callSid": self._call,
            "accountSid": _ACCOUNT,
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": LINE_HZ, "channels": 1},
            "customParameters": given,
        }
        await self._say("start", start=start)

    async def send(self, frame: np.ndarray) -> None:
        media = {
            "track": "inbound",
            "chunk": str(self._chunk + 1),
            "timestamp": str(round(self._chunk * FRAME_S * 1000)),
            "payload": base64.b64encode(mulaw_encode(self._to_line(frame))).decode(),
        }
        self._chunk += 1
        await self._say("media", media=media)
        if self._marks or self._received:
            await self._follow_playout()

    async def _follow_playout(self) -> None:
        """Echo the marks that have been played; end the turn when all is played and nothing follows."""
        heard = self._session.played_samples(self._item) + _TOLERANCE_SAMPLES
        while self._marks and heard >= self._marks[0][1]:
            await self._say("mark", mark={"name": self._marks.pop(0)[0]})
        if heard >= self._received:
            self._quiet += 1
            if self._quiet >= round(self.quiet_s / FRAME_S):
                self._emit(TurnEnd(self._item))
                self._next_talk()

    async def _say(self, event: str, **fields: Any) -> None:
        self._sequence += 1
        message = {"event": event, "sequenceNumber": str(self._sequence), "streamSid": self._stream, **fields}
        await self._write(json.dumps(message))

    async def _write(self, message: str) -> None:
        with self._link.sending():
            try:
                await self._connection.send(message)
            except ConnectionClosedOK:
                raise self._hung_up() from None

    def _hung_up(self) -> AgentError:
        return AgentError("hung_up", f"{self._link.name} hung up before the case was over.")

    async def _farewell(self) -> None:
        with suppress(AgentError):  # the line may be down already
            await self._say("stop", stop={"accountSid": _ACCOUNT, "callSid": self._call})

    @property
    def _item(self) -> str:
        return f"talk_{self._talk}"

    def _next_talk(self) -> None:
        self._talk, self._received, self._quiet = self._talk + 1, 0, 0

    async def _receive(self) -> None:
        async for raw in self._connection:
            message = self._link.parse(raw)
            match message.get("event"):
                case "media":
                    samples = mulaw_decode(self._link.audio((message.get("media") or {}).get("payload")))
                    self._received += samples.size * RATE_HZ // LINE_HZ
                    self._quiet = 0
                    if samples.size:
                        self._emit(AudioOut(samples, self._item, LINE_HZ))
                case "mark":
                    self._marks.append((str((message.get("mark") or {}).get("name", "")), self._received))
                case "clear":
                    self._emit(Interrupted())
                    # Twilio sends back every mark that was still waiting.
                    waiting, self._marks = self._marks, []
                    self._next_talk()
                    for name, _ in waiting:
                        await self._say("mark", mark={"name": name})
        raise self._hung_up()
