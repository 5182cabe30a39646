"""OpenAI Live: a full-duplex session whose output never stops, silence included, with no turns in it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.agents.base import AgentError, AudioOut, Emit, Note, Session, Text, Traits
from workbench.agents.link import Link, Listener, Pcm16, key_from, mapping, number, rate
from workbench.agents.openai_client import client_for, rate_of, server_error, socket_options
from workbench.audio import StreamResampler, from_pcm16, to_pcm16
from workbench.cases import RATE_HZ
from workbench.errors import InputError


class OpenAILive:
    """One Live session a case: audio both ways at real-time pace, so output is placed by its sample count.

    model : name at the server. base_url, websocket_base_url : another server. voice : '' leaves it
    to the server. rate_hz : 24000 or 16000. session : more session fields, as JSON.
    key_env : environment variable with the key. handshake_s : seconds until `session.started`.
    """

    def __init__(
        self,
        model: str = "gpt-live-1",
        base_url: str = "",
        websocket_base_url: str = "",
        voice: str = "",
        rate_hz: int = RATE_HZ,
        session: Mapping[str, Any] | str | None = None,
        key_env: str = "OPENAI_API_KEY",
        handshake_s: float = 15.0,
    ):
        key = key_from(key_env, not (base_url or websocket_base_url), "openai-live")
        client = client_for(key, base_url, websocket_base_url)
        if not hasattr(client, "live"):
            raise InputError("The agent 'openai-live' needs a newer `openai`; install openai[realtime]>=3.57.")
        self._model, self._voice, self._rate_hz = model, voice, rate(rate_hz, "rate_hz")
        self._more, self._handshake_s = mapping(session, "session"), number(handshake_s, "handshake_s")
        self._link = Link(f"OpenAI Live at {websocket_base_url or base_url or 'api.openai.com'}", key)
        self._manager = client.live.connect(websocket_connection_options=socket_options(base_url, websocket_base_url))
        self._connection = self._listener = None
        self.traits = Traits(
            "openai-live",
            model,
            "wall",
            turns="continuous",
            placement="sample_clock",
            settings={
                "base_url": websocket_base_url or base_url,
                "voice": voice,
                "rate_hz": self._rate_hz,
                "session": self._more,
            },
        )

    async def open(self, session: Session, emit: Emit) -> None:
        self._emit, self._pcm = emit, Pcm16()
        self._resample = StreamResampler(RATE_HZ, self._rate_hz, live=True)
        audio: dict[str, Any] = {"format": {"type": "audio/pcm", "rate": self._rate_hz}}
        if self._voice:
            audio["output"] = {"voice": self._voice}
        settings = {"model": self._model, "audio": audio}
        if session.system_prompt:
            settings["instructions"] = session.system_prompt
        async with self._link.opening(self._handshake_s):
            self._connection = await self._manager.enter()
            self._listener = Listener(self._link, emit, self._receive)
            await self._write(json.dumps({"type": "session.start", "session": settings | self._more}))
            await self._listener.ready

    async def send(self, frame: np.ndarray) -> None:
        if self._rate_hz != RATE_HZ:
            frame = to_pcm16(self._resample(from_pcm16(frame)))
        audio = base64.b64encode(frame.astype("<i2").tobytes()).decode()
        await self._write('{"type":"session.input_audio.append","audio":"' + audio + '"}')

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.stop()
        if self._connection is not None:
            await self._connection.close()

    async def _write(self, text: str) -> None:
        try:
            await self._connection.send_raw(text)
        except Exception as error:
            raise self._link.lost(error) from None

    async def _receive(self) -> None:
        while True:
            event = self._link.parse(await self._connection.recv_bytes())
            match event.get("type"):
                case "session.output_audio.delta":
                    samples = self._pcm(self._link.audio(event.get("delta")))
                    if samples.size:
                        self._emit(AudioOut(samples, rate_hz=self._rate_hz))
                case "session.output_transcript.delta":
                    self._emit(Text(str(event.get("delta", ""))))
                case "session.started":
                    self._started(event.get("session") or {})
                case "session.closed":
                    reason = str(event.get("reason") or "no reason given")
                    raise AgentError(
                        "session_closed",
                        f"{self._link.name} ended the session: {reason}.",
                        retry=reason == "connection_lost",
                    )
                case "info":
                    self._emit(Note("server_info", {"message": self._link.words(event.get("message"))}))
                case "error":
                    raise server_error(event.get("error") or {}, self._link)

    def _started(self, session: dict[str, Any]) -> None:
        audio = session.get("audio") or {}
        rate_hz = rate_of(audio.get("format"), self._rate_hz, self._link)
        if rate_hz != self._rate_hz:
            self._rate_hz = rate_hz
            self._resample = StreamResampler(RATE_HZ, rate_hz, live=True)
        said = {
            "model": session.get("model"),
            "voice": (audio.get("output") or {}).get("voice"),
            "rate_hz": self._rate_hz,
        }
        self._emit(Note("reported", {name: value for name, value in said.items() if value is not None}))
        self._listener.opened()
