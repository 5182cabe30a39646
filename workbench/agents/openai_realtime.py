"""OpenAI Realtime, and the many servers that speak its protocol, through the `openai` package.

`dialect='ga'` are the names of the general release (`response.output_audio.delta`), `'beta'` the
older ones (`response.audio.delta`, flat session fields). Events are told apart by their type alone,
and both sets of names are understood whatever the dialect of the session.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.agents.base import AudioOut, Emit, Interrupted, Note, Session, Text, Traits, TurnEnd
from workbench.agents.link import Link, Listener, Pcm16, key_from, mapping, number, rate
from workbench.agents.openai_client import client_for, rate_of, server_error, socket_options
from workbench.audio import StreamResampler, from_pcm16, to_pcm16
from workbench.cases import RATE_HZ
from workbench.errors import InputError

HARMLESS = {"response_cancel_not_active", "conversation_already_has_active_response", "input_audio_buffer_commit_empty"}
"""Error codes after which nothing of the session is lost; they are logged."""


class OpenAIRealtime:
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

    def __init__(
        self,
        model: str = "gpt-realtime",
        base_url: str = "",
        websocket_base_url: str = "",
        dialect: str = "ga",
        voice: str = "",
        turn_detection: str = "server_vad",
        threshold: float = 0.5,
        silence_ms: int = 800,
        prefix_padding_ms: int = 300,
        interrupt_response: bool = True,
        input_rate_hz: int = RATE_HZ,
        output_rate_hz: int = RATE_HZ,
        session: Mapping[str, Any] | str | None = None,
        query: Mapping[str, Any] | str | None = None,
        key_env: str = "OPENAI_API_KEY",
        key_header: str = "",
        handshake_s: float = 15.0,
    ):
        if dialect not in ("ga", "beta"):
            raise InputError(f"There is no dialect {dialect!r}; dialects are ga and beta.")
        own = not (base_url or websocket_base_url)
        key = key_from(key_env, own, "openai-realtime")
        self._dialect, self._interrupts = dialect, bool(interrupt_response)
        self._handshake_s = number(handshake_s, "handshake_s")
        self._rate_in_hz = rate(input_rate_hz, "input_rate_hz")
        self._rate_hz = rate(output_rate_hz, "output_rate_hz")
        self._vad = {"type": turn_detection, "create_response": True, "interrupt_response": self._interrupts}
        if turn_detection == "server_vad":
            self._vad |= {
                "threshold": number(threshold, "threshold"),
                "prefix_padding_ms": round(number(prefix_padding_ms, "prefix_padding_ms")),
                "silence_duration_ms": round(number(silence_ms, "silence_ms")),
            }
        self._voice, self._more, query = voice, mapping(session, "session"), mapping(query, "query")
        headers = ({"OpenAI-Beta": "realtime=v1"} if dialect == "beta" else {}) | (
            {key_header: key} if key_header and key else {}
        )
        self._link = Link(f"OpenAI Realtime at {websocket_base_url or base_url or 'api.openai.com'}", key)
        self._manager = client_for(key, base_url, websocket_base_url).realtime.connect(
            model=model,
            extra_query=query,
            extra_headers=headers,
            websocket_connection_options=socket_options(base_url, websocket_base_url),
        )
        self._connection = self._listener = None
        self.traits = Traits(
            "openai-realtime",
            model,
            "wall",
            settings={
                "base_url": websocket_base_url or base_url,
                "dialect": dialect,
                "voice": voice,
                "turn_detection": self._vad,
                "input_rate_hz": self._rate_in_hz,
                "output_rate_hz": self._rate_hz,
                "session": self._more,
                "query": query,
            },
        )

    # Opening and closing -------------------------------------------------------------------------

    async def open(self, session: Session, emit: Emit) -> None:
        self._session, self._emit = session, emit
        self._received: dict[str, int] = {}  # item -> samples at the server's rate
        self._owner: dict[str, str] = {}  # item -> response
        self._pieces: dict[str, Pcm16] = {}
        self._cut: set[str] = set()
        self._response = ""
        self._cancelled: set[str] = set()
        async with self._link.opening(self._handshake_s):
            self._connection = await self._manager.enter()
            self._listener = Listener(self._link, emit, self._receive)
            await self._say("session.update", session=self._settings(session.system_prompt))
            await self._listener.ready
        self._resample = StreamResampler(RATE_HZ, self._rate_in_hz, live=True)

    def _settings(self, prompt: str) -> dict[str, Any]:
        if self._dialect == "beta":
            settings: dict[str, Any] = {
                "modalities": ["audio", "text"],
                "instructions": prompt,
                "input_audio_format": "pcm16",
                "output_audio_format": "pcm16",
                "turn_detection": self._vad,
            } | ({"voice": self._voice} if self._voice else {})
        else:
            settings = {
                "type": "realtime",
                "output_modalities": ["audio"],
                "instructions": prompt,
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": self._rate_in_hz},
                        "turn_detection": self._vad,
                    },
                    "output": {"format": {"type": "audio/pcm", "rate": self._rate_hz}}
                    | ({"voice": self._voice} if self._voice else {}),
                },
            }
        return settings | self._more

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.stop()
        if self._connection is not None:
            await self._connection.close()

    # Out -----------------------------------------------------------------------------------------

    async def send(self, frame: np.ndarray) -> None:
        if self._rate_in_hz != RATE_HZ:
            frame = to_pcm16(self._resample(from_pcm16(frame)))
        audio = base64.b64encode(frame.astype("<i2").tobytes()).decode()
        await self._write('{"type":"input_audio_buffer.append","audio":"' + audio + '"}')

    async def _say(self, kind: str, **fields: Any) -> None:
        await self._write(json.dumps({"type": kind, **fields}))

    async def _write(self, text: str) -> None:
        try:
            await self._connection.send_raw(text)
        except Exception as error:
            raise self._link.lost(error) from None

    # In ------------------------------------------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            event = self._link.parse(await self._connection.recv_bytes())
            await self._take(str(event.get("type", "")), event)

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
                self._report(event.get("session") or {})
                if kind == "session.updated":
                    self._listener.opened()
            case "error":
                self._error(event.get("error") or {})

    def _item(self, event: dict[str, Any]) -> str:
        return str(event.get("item_id") or event.get("response_id") or "")

    def _audio(self, event: dict[str, Any]) -> None:
        item, response = self._item(event), str(event.get("response_id") or self._response)
        samples = self._pieces.setdefault(item, Pcm16())(self._link.audio(event.get("delta")))
        self._owner[item] = response
        self._received[item] = self._received.get(item, 0) + samples.size
        if response in self._cancelled and item not in self._cut:
            self._interrupted(item)
        if samples.size:
            self._emit(AudioOut(samples, item, self._rate_hz))

    def _interrupted(self, item: str) -> None:
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
                self._interrupted(item)
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
            raise server_error(details.get("error") or {"message": f"the response failed: {details}"}, self._link)
        items = [item for item, owner in self._owner.items() if owner == name]
        cancelled = status == "cancelled" or name in self._cancelled
        if status == "cancelled":
            self._cancelled.add(name)
            for item in items:
                if item not in self._cut:
                    self._interrupted(item)
        if not cancelled:
            self._emit(TurnEnd(items[-1] if items else ""))
        self._response = ""

    # What the server says of itself --------------------------------------------------------------

    def _report(self, session: dict[str, Any]) -> None:
        audio = session.get("audio") or {}
        given, returned = audio.get("input") or {}, audio.get("output") or {}
        self._rate_in_hz = rate_of(given.get("format"), self._rate_in_hz, self._link)
        self._rate_hz = rate_of(returned.get("format"), self._rate_hz, self._link)
        said = {
            "model": session.get("model"),
            "voice": returned.get("voice") or session.get("voice"),
            "turn_detection": given.get("turn_detection") or session.get("turn_detection"),
            "input_rate_hz": self._rate_in_hz,
            "output_rate_hz": self._rate_hz,
        }
        self._emit(Note("reported", {name: value for name, value in said.items() if value is not None}))

    def _error(self, error: dict[str, Any]) -> None:
        about_truncation = str(error.get("event_id") or "").startswith("truncate_")
        if error.get("code") in HARMLESS or about_truncation:
            said = self._link.words(error.get("message"))
            self._emit(Note("server_error", {"code": error.get("code"), "message": said}))
            return
        raise server_error(error, self._link)
