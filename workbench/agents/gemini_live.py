"""Gemini Live over its own JSON protocol: 16 kHz in, 24 kHz out, faster than real time.

A plain WebSocket rather than the vendor's package, which insists on TLS with a key and so could not
be tested against a server on this computer. Field names are those of BidiGenerateContent (v1beta).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.agents.base import AudioOut, Emit, Interrupted, Note, Session, Text, Traits, TurnEnd
from workbench.agents.link import Json, Link, Pcm16, RateChange, ServerAgent, base64_of, key_from
from workbench.cases import RATE_HZ

HOST = "wss://generativelanguage.googleapis.com"
PATH = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
IN_HZ = 16_000


@dataclass(eq=False)
class GeminiLive(ServerAgent):
    """One Live session a case, with the server's own activity detection.

    model : such as 'gemini-live-...' (with or without 'models/'). voice : '' leaves it to the server.
    silence_ms, prefix_padding_ms : of its activity detection; 0 leaves them to the server.
    setup : more fields of the setup message, as JSON. base_url : another server ('ws://host:port').
    key_env : environment variable with the key, which travels in a header and never in an address.
    handshake_s : seconds until `setupComplete` must have come.
    """

    model: str
    voice: str = ""
    silence_ms: float = 800
    prefix_padding_ms: float = 300
    setup: Json = None
    base_url: str = ""
    key_env: str = "GEMINI_API_KEY"
    handshake_s: float = 15.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._address = (self.base_url or HOST).rstrip("/") + PATH
        key = key_from(self.key_env, not self.base_url, "gemini-live")
        self._link = Link(f"Gemini Live at {self.base_url or HOST}", key)
        detection = {
            "prefixPaddingMs": round(self.prefix_padding_ms),
            "silenceDurationMs": round(self.silence_ms),
        }
        self._detection = {name: value for name, value in detection.items() if value}
        settings = self._shown("base_url", "voice", "setup") | {"activity_detection": self._detection}
        self.traits = Traits("gemini-live", self.model, "wall", settings=settings)

    async def open(self, session: Session, emit: Emit) -> None:
        self._emit = emit
        self._turn, self._said, self._pcm = 1, False, Pcm16()
        self._to_server = RateChange(RATE_HZ, IN_HZ)
        async with self._link.opening(self.handshake_s):
            headers = {"x-goog-api-key": self._link.key} if self._link.key else None
            await self._connect(self._address, headers=headers)
            self._listen()
            await self._connection.send(json.dumps({"setup": self._setup(session.system_prompt)}))
            await self._opened

    def _setup(self, prompt: str) -> dict[str, Any]:
        generation: dict[str, Any] = {"responseModalities": ["AUDIO"]}
        if self.voice:
            generation["speechConfig"] = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": self.voice}}}
        setup: dict[str, Any] = {
            "model": self.model if "/" in self.model else f"models/{self.model}",
            "generationConfig": generation,
            "outputAudioTranscription": {},
            "realtimeInputConfig": {"automaticActivityDetection": self._detection},
        }
        if prompt:
            setup["systemInstruction"] = {"parts": [{"text": prompt}]}
        return setup | self.setup

    async def send(self, frame: np.ndarray) -> None:
        audio = {"mimeType": f"audio/pcm;rate={IN_HZ}", "data": base64_of(self._to_server(frame))}
        await self._write(json.dumps({"realtimeInput": {"audio": audio}}))

    async def _receive(self) -> None:
        async for raw in self._connection:
            message = self._link.parse(raw)
            if "setupComplete" in message:
                self._report(model=self.model, session=(message["setupComplete"] or {}).get("sessionId"))
                self._ready()
            if "serverContent" in message:
                self._content(message["serverContent"])
            if "goAway" in message:
                self._emit(Note("go_away", {"time_left": str((message["goAway"] or {}).get("timeLeft", ""))}))
            if "usageMetadata" in message:
                self._emit(Note("usage", dict(message["usageMetadata"])))
            if "error" in message:
                error = message["error"] or {}
                raise self._link.refused(int(error.get("code") or 500), error.get("message") or error)

    @property
    def _item(self) -> str:
        return f"turn_{self._turn}"

    def _content(self, content: dict[str, Any]) -> None:
        for part in (content.get("modelTurn") or {}).get("parts") or []:
            data = part.get("inlineData")
            if data and str(data.get("mimeType", "")).startswith("audio/"):
                self._audio(data)
        if content.get("outputTranscription"):
            self._emit(Text(str(content["outputTranscription"].get("text", "")), self._item))
        if content.get("inputTranscription"):
            self._emit(Note("heard", {"text": str(content["inputTranscription"].get("text", ""))}))
        if content.get("interrupted"):
            # Whatever is still playing stops, also of a turn that was delivered in full; the server
            # generates no more of this one, and what comes next is another.
            self._emit(Interrupted())
            self._next_turn()
        if content.get("turnComplete") or content.get("generationComplete"):
            if self._said:
                self._emit(TurnEnd(self._item))
            self._said = False
            if content.get("turnComplete"):
                self._next_turn()

    def _next_turn(self) -> None:
        self._turn, self._said, self._pcm = self._turn + 1, False, Pcm16()

    def _audio(self, data: dict[str, Any]) -> None:
        rate = re.search(r"rate=(\d+)", str(data.get("mimeType")))
        samples = self._pcm(self._link.audio(data.get("data")))
        self._said = True
        if samples.size:
            self._emit(AudioOut(samples, self._item, int(rate.group(1)) if rate else RATE_HZ))
