"""OpenAI's two speech protocols, and the servers that speak them, through the `openai` package.

Realtime is known to many servers. Its `dialect='ga'` are the names of the general release
(`response.output_audio.delta`), `'beta'` the older ones (`response.audio.delta`, flat session fields).
Events are told apart by their type alone, and both sets of names are understood in either dialect.
Live is a full-duplex session whose output never stops, silence included, with no turns in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from openai import AsyncOpenAI

from workbench.agents.base import AgentError, AudioOut, Emit, Interrupted, Note, Session, Text, Traits, TurnEnd
from workbench.agents.link import (
    CLOSE_S,
    Json,
    Link,
    Pcm16,
    RateChange,
    ServerAgent,
    base64_of,
    key_from,
    tls,
)
from workbench.cases import RATE_HZ
from workbench.errors import InputError

HARMLESS = {"response_cancel_not_active", "conversation_already_has_active_response", "input_audio_buffer_commit_empty"}
"""Error codes after which nothing of the session is lost; they are logged."""


@lru_cache(maxsize=8)
def _client(key: str, base_url: str, websocket_base_url: str) -> AsyncOpenAI:
    """One client a process, since making one takes 40 ms; a session is a connection, and each case has its own."""
    return AsyncOpenAI(
        api_key=key or "none", base_url=base_url or None, websocket_base_url=websocket_base_url or None, max_retries=0
    )


class _OpenAI(ServerAgent):
    """The client, the socket below it, and the server's errors in words. `_take` is given each event."""

    base_url: str
    websocket_base_url: str
    key_env: str
    handshake_s: float
    _manager: Any
    _rate_hz: int

    def _reach(self, name: str, title: str) -> AsyncOpenAI:
        self._where = self.websocket_base_url or self.base_url
        self._link = Link(
            f"{title} at {self._where or 'api.openai.com'}", key_from(self.key_env, not self._where, name)
        )
        # Options for the `websockets` connection below the package.
        plain = self._where.startswith(("http://", "ws://"))
        self._socket_options = {"close_timeout": CLOSE_S} | ({} if plain else {"ssl": tls()})
        return _client(self._link.key, self.base_url, self.websocket_base_url)

    async def _start(self, kind: str, settings: dict[str, Any]) -> None:
        async with self._link.opening(self.handshake_s):
            self._connection = await self._manager.enter()
            self._listen()
            await self._say(kind, session=settings)
            await self._opened

    async def _say(self, kind: str, **fields: Any) -> None:
        with self._link.sending():
            await self._connection.send_raw(json.dumps({"type": kind, **fields}))

    async def _receive(self) -> None:
        while True:
            event = self._link.parse(await self._connection.recv_bytes())
            await self._take(str(event.get("type", "")), event)

    def _rate_of(self, form: object, otherwise_hz: int) -> int:
        """The rate of an audio format as the server states it; AgentError for another encoding than 16-bit PCM."""
        if not isinstance(form, Mapping):
            return otherwise_hz
        if form.get("type", "audio/pcm") != "audio/pcm":
            raise AgentError("rejected", f"{self._link.name} insists on {form.get('type')}, where PCM is needed.")
        return int(form.get("rate") or otherwise_hz)

    def _server_error(self, error: Mapping[str, Any]) -> AgentError:
        """An error event; worth another attempt when the server was busy or at fault itself."""
        code, kind = str(error.get("code") or ""), str(error.get("type") or "")
        named = code or kind or "server_error"
        busy = kind == "server_error" or "rate_limit" in named or "overloaded" in named
        words = self._link.words(error.get("message") or dict(error))
        return AgentError(named, f"{self._link.name}: {words}", retry=busy)


@dataclass(eq=False)
class OpenAIRealtime(_OpenAI):
    """A fresh Realtime session with server-side turn detection, closed after the case.

    model : name at the server. base_url, websocket_base_url : another server ('http://host/v1').
    voice : '' leaves it to the server. threshold, silence_ms, prefix_padding_ms : server VAD.
    interrupt_response : the server stops talking when it hears speech; what was not played by then
        is cut and the item truncated at what had been heard.
    input_rate_hz, output_rate_hz : what is asked for; what the server says it uses is used.
    session, query : more session fields and URL parameters, as JSON.
    key_env : environment variable with the key. key_header : send it under this name too ('api-key').
    handshake_s : seconds until `session.updated` must have come.
    """

    model: str = "gpt-realtime"
    base_url: str = ""
    websocket_base_url: str = ""
    dialect: str = "ga"
    voice: str = ""
    turn_detection: str = "server_vad"
    threshold: float = 0.5
    silence_ms: float = 800
    prefix_padding_ms: float = 300
    interrupt_response: bool = True
    input_rate_hz: int = RATE_HZ
    output_rate_hz: int = RATE_HZ
    session: Json = None
    query: Json = None
    key_env: str = "OPENAI_API_KEY"
    key_header: str = ""
    handshake_s: float = 15.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dialect not in ("ga", "beta"):
            raise InputError(f"There is no dialect {self.dialect!r}; dialects are ga and beta.")
        client = self._reach("openai-realtime", "OpenAI Realtime")
        self._rate_in_hz, self._rate_hz = self.input_rate_hz, self.output_rate_hz
        self._interrupts = bool(self.interrupt_response)
        self._vad = {"type": self.turn_detection, "create_response": True, "interrupt_response": self._interrupts}
        if self.turn_detection == "server_vad":
            self._vad |= {
                "threshold": self.threshold,
                "prefix_padding_ms": round(self.prefix_padding_ms),
                "silence_duration_ms": round(self.silence_ms),
            }
        headers = {"OpenAI-Beta": "realtime=v1"} if self.dialect == "beta" else {}
        if self.key_header and self._link.key:
            headers[self.key_header] = self._link.key
        self._manager = client.realtime.connect(
            model=self.model,
            extra_query=self.query,
            extra_headers=headers,
            websocket_connection_options=self._socket_options,
        )
        shown = self._shown("dialect", "voice", "input_rate_hz", "output_rate_hz", "session", "query")
        settings = {"base_url": self._where, "turn_detection": self._vad, **shown}
        self.traits = Traits("openai-realtime", self.model, "wall", settings=settings)

    async def open(self, session: Session, emit: Emit) -> None:
        self._session, self._emit = session, emit
        self._received: dict[str, int] = {}  # item -> samples at the server's rate
        self._owner: dict[str, str] = {}  # item -> response
        self._pieces: dict[str, Pcm16] = {}
        self._cut: set[str] = set()
        self._response = ""
        self._cancelled: set[str] = set()
        await self._start("session.update", self._settings(session.system_prompt))
        self._to_server = RateChange(RATE_HZ, self._rate_in_hz)

    def _settings(self, prompt: str) -> dict[str, Any]:
        voice = {"voice": self.voice} if self.voice else {}
        if self.dialect == "beta":
            settings: dict[str, Any] = {
                "modalities": ["audio", "text"],
                "instructions": prompt,
                "input_audio_format": "pcm16",
                "output_audio_format": "pcm16",
                "turn_detection": self._vad,
            } | voice
        else:
            given = {"format": {"type": "audio/pcm", "rate": self._rate_in_hz}, "turn_detection": self._vad}
            returned = {"format": {"type": "audio/pcm", "rate": self._rate_hz}} | voice
            settings = {
                "type": "realtime",
                "output_modalities": ["audio"],
                "instructions": prompt,
                "audio": {"input": given, "output": returned},
            }
        return settings | self.session

    async def send(self, frame: np.ndarray) -> None:
        await self._say("input_audio_buffer.append", audio=base64_of(self._to_server(frame)))

    async def _take(self, kind: str, event: dict[str, Any]) -> None:
        match kind.replace("response.output_", "response.", 1):
            case "response.audio.delta":
                self._audio(event)
            case "response.audio_transcript.delta" | "response.text.delta":
                self._emit(Text(str(event.get("delta", "")), self._item(event)))
            case "input_audio_buffer.speech_started":
                self._emit(Note("speech_started", {"audio_start_ms": event.get("audio_start_ms")}))
                if self._interrupts:
                    await self._barge_in()
            case "input_audio_buffer.speech_stopped":
                self._emit(Note("speech_stopped", {"audio_end_ms": event.get("audio_end_ms")}))
            case "response.created":
                self._response = str((event.get("response") or {}).get("id", ""))
            case "response.done":
                self._done(event.get("response") or {})
            case "session.created" | "session.updated":
                self._described(event.get("session") or {})
                if kind == "session.updated":
                    self._ready()
            case "error":
                self._error(event.get("error") or {})

    def _item(self, event: dict[str, Any]) -> str:
        return str(event.get("item_id") or event.get("response_id") or "")

    def _audio(self, event: dict[str, Any]) -> None:
        item, response = self._item(event), str(event.get("response_id") or self._response)
        samples = self._pieces.setdefault(item, Pcm16())(self._link.audio(event.get("delta")))
        self._owner[item] = response
        self._received[item] = self._received.get(item, 0) + samples.size
        if response in self._cancelled:
            self._interrupt(item)
        if samples.size:
            self._emit(AudioOut(samples, item, self._rate_hz))

    def _interrupt(self, item: str) -> None:
        if item not in self._cut:
            self._cut.add(item)
            self._emit(Interrupted(item))

    async def _barge_in(self) -> None:
        """Cut what has not been heard, and tell the server how much of it has been."""
        if self._response:
            self._cancelled.add(self._response)
        for item, received in list(self._received.items()):
            if item in self._cut:
                continue
            got = received * RATE_HZ // self._rate_hz
            heard = min(self._session.played_samples(item), got)
            going_on = self._owner[item] == self._response and bool(self._response)
            if heard < got - RATE_HZ // 100 or going_on:
                self._interrupt(item)
                # The server takes no more than it has sent, and answers with an error otherwise.
                heard_ms = heard * 1000 // RATE_HZ
                await self._say(
                    "conversation.item.truncate",
                    event_id=f"truncate_{len(self._cut)}",
                    item_id=item,
                    content_index=0,
                    audio_end_ms=heard_ms,
                )
                self._emit(Note("truncated", {"item": item, "audio_end_ms": heard_ms}))

    def _done(self, response: dict[str, Any]) -> None:
        name, status = str(response.get("id") or self._response), response.get("status")
        details = response.get("status_details") or {}
        self._emit(Note("response_done", {"status": status, "details": details, "usage": response.get("usage")}))
        if status == "failed":
            raise self._server_error(details.get("error") or {"message": f"the response failed: {details}"})
        items = [item for item, owner in self._owner.items() if owner == name]
        if status == "cancelled":
            self._cancelled.add(name)
            for item in items:
                self._interrupt(item)
        elif name not in self._cancelled:
            self._emit(TurnEnd(items[-1] if items else ""))
        self._response = ""

    def _described(self, session: dict[str, Any]) -> None:
        audio = session.get("audio") or {}
        given, returned = audio.get("input") or {}, audio.get("output") or {}
        self._rate_in_hz = self._rate_of(given.get("format"), self._rate_in_hz)
        self._rate_hz = self._rate_of(returned.get("format"), self._rate_hz)
        self._report(
            model=session.get("model"),
            voice=returned.get("voice") or session.get("voice"),
            turn_detection=given.get("turn_detection") or session.get("turn_detection"),
            input_rate_hz=self._rate_in_hz,
            output_rate_hz=self._rate_hz,
        )

    def _error(self, error: dict[str, Any]) -> None:
        about_truncation = str(error.get("event_id") or "").startswith("truncate_")
        if error.get("code") not in HARMLESS and not about_truncation:
            raise self._server_error(error)
        said = self._link.words(error.get("message"))
        self._emit(Note("server_error", {"code": error.get("code"), "message": said}))


@dataclass(eq=False)
class OpenAILive(_OpenAI):
    """One Live session a case: audio both ways at real-time pace, so output is placed by its sample count.

    model : name at the server. base_url, websocket_base_url : another server. voice : '' leaves it
    to the server. rate_hz : 24000 or 16000. session : more session fields, as JSON.
    key_env : environment variable with the key. handshake_s : seconds until `session.started`.
    """

    model: str = "gpt-live-1"
    base_url: str = ""
    websocket_base_url: str = ""
    voice: str = ""
    rate_hz: int = RATE_HZ
    session: Json = None
    key_env: str = "OPENAI_API_KEY"
    handshake_s: float = 15.0

    def __post_init__(self) -> None:
        super().__post_init__()
        client = self._reach("openai-live", "OpenAI Live")
        if not hasattr(client, "live"):
            raise InputError("The agent 'openai-live' needs a newer `openai`; install openai[realtime]>=3.57.")
        self._rate_hz = self.rate_hz
        self._manager = client.live.connect(websocket_connection_options=self._socket_options)
        settings = {"base_url": self._where, **self._shown("voice", "rate_hz", "session")}
        self.traits = Traits(
            "openai-live", self.model, "wall", turns="continuous", placement="sample_clock", settings=settings
        )

    async def open(self, session: Session, emit: Emit) -> None:
        self._emit, self._pcm = emit, Pcm16()
        audio: dict[str, Any] = {"format": {"type": "audio/pcm", "rate": self._rate_hz}}
        if self.voice:
            audio["output"] = {"voice": self.voice}
        settings = {"model": self.model, "audio": audio}
        if session.system_prompt:
            settings["instructions"] = session.system_prompt
        await self._start("session.start", settings | self.session)
        self._to_server = RateChange(RATE_HZ, self._rate_hz)

    async def send(self, frame: np.ndarray) -> None:
        await self._say("session.input_audio.append", audio=base64_of(self._to_server(frame)))

    async def _take(self, kind: str, event: dict[str, Any]) -> None:
        match kind:
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
                message = f"{self._link.name} ended the session: {reason}."
                raise AgentError("session_closed", message, retry=reason == "connection_lost")
            case "info":
                self._emit(Note("server_info", {"message": self._link.words(event.get("message"))}))
            case "error":
                raise self._server_error(event.get("error") or {})

    def _started(self, session: dict[str, Any]) -> None:
        audio = session.get("audio") or {}
        self._rate_hz = self._rate_of(audio.get("format"), self._rate_hz)
        voice = (audio.get("output") or {}).get("voice")
        self._report(model=session.get("model"), voice=voice, rate_hz=self._rate_hz)
        self._ready()
