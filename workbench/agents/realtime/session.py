"""One client's session: its messages in, a fresh agent behind it, server events out.

Time is the audio that the client has appended. Everything happens while a message is handled, so a
client that appends in real time gets real-time behaviour, and one that appends faster gets it faster.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from workbench.agents.base import FRAME_SAMPLES, Agent, AgentError, Session
from workbench.agents.cascade.hearing import Endpointer
from workbench.agents.link import RateChange
from workbench.agents.realtime.protocol import Put, Refused, Responses, SessionSettings
from workbench.audio import StreamResampler, from_pcm16
from workbench.cases import RATE_HZ
from workbench.silero import RATE_HZ as VAD_HZ

Deliver = Callable[[dict[str, Any]], Awaitable[None]]

_BETA_NAMES = (("response.output_audio", "response.audio"), ("conversation.item.added", "conversation.item.created"))
_NOT_IN_BETA = {"conversation.item.done"}


class ClientGone(Exception):
    """`deliver` found the connection closed."""


class SessionOver(Exception):
    """The agent cannot go on; the client has been told why."""


class SpeechReports:
    """Watches the appended audio with a detector of its own, whatever the agent behind does.

    `speech_started` makes clients stop playing. While the agent is heard it is therefore held back
    until the agent gives way; speech that the agent talks over to its end is not reported. With
    `interrupt_response` false, clients go on playing, and everything is reported at once.
    """

    def __init__(self, session_id: str, settings: SessionSettings, responses: Responses, put: Put):
        self._name = f"item_{session_id.removeprefix('sess_')}_user"
        self._settings, self._responses, self._put = settings, responses, put
        self._to_vad = StreamResampler(RATE_HZ, VAD_HZ)
        self._endpointer: Endpointer | None = None
        self._turns = 0
        self._held: dict[str, Any] | None = None
        self._told_start = False

    @property
    def turn_id(self) -> str:
        """The item of the user's latest turn."""
        return f"{self._name}_{self._turns}"

    def new_turn(self) -> str:
        self._turns += 1
        return self.turn_id

    def configure(self) -> None:
        """Take over changed settings."""
        vad = self._settings.vad
        if self._endpointer is not None and vad is not None:
            self._endpointer.configure(vad["threshold"], vad["silence_duration_ms"] / 1000)

    def push(self, frame: np.ndarray) -> None:
        """Take int16 (480,) at 24 kHz, after the agent has heard it."""
        vad = self._settings.vad
        gave_way, self._responses.gave_way = self._responses.gave_way, False
        if vad is None:
            return
        if self._endpointer is None:
            self._endpointer = Endpointer(vad["threshold"], vad["silence_duration_ms"] / 1000)
        for edge in self._endpointer.push(self._to_vad(from_pcm16(frame))):
            if edge.kind == "start":
                start_ms = max(0, round(edge.at_s * 1000) - vad["prefix_padding_ms"])
                self._held, self._told_start = {"audio_start_ms": start_ms, "item_id": self.new_turn()}, False
            else:
                self._stopped()
        free = gave_way or not vad["interrupt_response"] or not self._responses.playing()
        if self._held is not None and free:
            self._put("input_audio_buffer.speech_started", **self._held)
            self._held, self._told_start = None, True

    def _stopped(self) -> None:
        self._held = None
        if self._told_start:
            self._told_start = False
            end_ms = round(self._endpointer.heard_s * 1000)
            self._put("input_audio_buffer.speech_stopped", audio_end_ms=end_ms, item_id=self.turn_id)
            self._responses.user_item(self.turn_id)


class RealtimeSession:
    """Handles one client's messages.

    make_agent : makes the fresh agent. deliver : sends one server event. model : as the client named it.
    beta : whether the client asked for the beta dialect in its header.
    """

    def __init__(self, make_agent: Callable[[], Agent], deliver: Deliver, model: str, beta: bool):
        self._make_agent, self._deliver = make_agent, deliver
        self._id = f"sess_{uuid.uuid4().hex[:20]}"
        self._settings = SessionSettings(model, beta)
        self._outbox: list[dict[str, Any]] = []
        self._events = 0
        self._agent: Agent | None = None
        self._responses = Responses(self._id, self._settings, self._put, lambda: self._position)
        self._position = 0
        self._frames = np.zeros(0, np.int16)
        self._from_client = RateChange(RATE_HZ, RATE_HZ)
        self._speech = SpeechReports(self._id, self._settings, self._responses, self._put)
        self._handlers: dict[str, Callable[[dict[str, Any]], Awaitable[None]]] = {
            "session.update": self._update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
            "response.create": self._create,
            "response.cancel": self._cancel,
            "conversation.item.truncate": self._truncate,
        }

    async def start(self) -> None:
        self._put("session.created", session=self._settings.shown(self._id))
        await self._flush()

    async def handle(self, message: str | bytes) -> None:
        """Follow one message; what is wrong with it becomes an error event, and SessionOver when the agent failed."""
        event_id = None
        try:
            event = _parse(message)
            event_id = event.get("event_id")
            handler = self._handlers.get(event["type"])
            if handler is None:
                raise Refused(f"Messages of type {event['type']!r} are not offered here.", "invalid_event", "type")
            await handler(event)
        except Refused as refused:
            self._error("invalid_request_error", refused.code, refused.message, refused.param, event_id)
        except AgentError as error:
            await self._end(error.kind, error.message)
        except ClientGone:
            raise
        except Exception as error:  # an agent is foreign code; the client is told, the server goes on
            await self._end("agent_exception", f"{type(error).__name__}: {error}")
        if self._responses.fault is not None:
            await self._end(self._responses.fault.kind, self._responses.fault.message)
        await self._flush()

    async def close(self) -> None:
        agent, self._agent = self._agent, None
        if agent is not None:
            await agent.close()

    async def _end(self, kind: str, message: str) -> None:
        self._responses.fail(message)
        self._error("server_error", kind, message, None, None)
        await self._flush()
        raise SessionOver(message)

    async def _update(self, event: dict[str, Any]) -> None:
        rate_hz, instructions = self._settings.rate_in_hz, self._settings.instructions
        self._settings.update(event.get("session"))
        if self._settings.rate_in_hz != rate_hz:
            self._from_client = RateChange(self._settings.rate_in_hz, RATE_HZ)
        self._speech.configure()
        if self._agent is None:
            await self._open()
        elif self._settings.instructions != instructions:
            instruct = getattr(self._agent, "instruct", None)
            if instruct is None:
                raise Refused("This agent takes its instructions only before the first audio.", param="instructions")
            await instruct(self._settings.instructions)
        self._put("session.updated", session=self._settings.shown(self._id))

    async def _open(self) -> None:
        self._agent = self._make_agent()
        session = Session(self._id, self._settings.instructions, self._responses.played)
        await self._agent.open(session, self._responses.receive)

    async def _append(self, event: dict[str, Any]) -> None:
        audio = event.get("audio")
        if not isinstance(audio, str):
            raise Refused("audio must be a text in base64.", "invalid_type", "audio")
        try:
            data = base64.b64decode(audio, validate=True)
        except (binascii.Error, ValueError):
            raise Refused("audio is not valid base64.", param="audio") from None
        if len(data) % 2:
            raise Refused(f"audio holds {len(data)} bytes, where 16-bit samples need an even number.", param="audio")
        if self._agent is None:
            await self._open()
        samples = self._from_client(np.frombuffer(data, "<i2").astype(np.int16))
        self._frames = np.concatenate([self._frames, samples])
        while self._frames.size >= FRAME_SAMPLES:
            frame, self._frames = self._frames[:FRAME_SAMPLES], self._frames[FRAME_SAMPLES:]
            self._position += FRAME_SAMPLES
            await self._agent.send(frame)
            self._speech.push(frame)
            self._transcribed()
            await self._flush()
            await asyncio.sleep(0)  # other sessions must get their turn inside a long append

    def _transcribed(self) -> None:
        heard, self._responses.heard = self._responses.heard, ""
        if heard and self._settings.transcription is not None:
            kind = "conversation.item.input_audio_transcription.completed"
            self._put(kind, item_id=self._speech.turn_id, content_index=0, transcript=heard)

    async def _commit(self, event: dict[str, Any]) -> None:
        self._responses.user_item(self._speech.new_turn())

    async def _clear(self, event: dict[str, Any]) -> None:
        # The agent has heard every whole frame already; only the rest of one can be taken back.
        self._frames = np.zeros(0, np.int16)
        self._put("input_audio_buffer.cleared")

    async def _create(self, event: dict[str, Any]) -> None:
        if self._responses.active is not None:
            code = "conversation_already_has_active_response"
            raise Refused("Conversation already has an active response.", code)
        if self._agent is None:
            await self._open()
        respond = getattr(self._agent, "respond", None)
        if respond is None:
            raise Refused("This agent decides by itself when it speaks.", "unsupported", "type")
        await respond()

    async def _cancel(self, event: dict[str, Any]) -> None:
        await self._silence(self._responses.cancel())

    async def _truncate(self, event: dict[str, Any]) -> None:
        wanted = (event.get(name) for name in ("item_id", "content_index", "audio_end_ms"))
        await self._silence(self._responses.truncate(*wanted))

    async def _silence(self, name: str) -> None:
        """Tell the agent, if it can be told, that this utterance of its is heard no longer."""
        cancel = getattr(self._agent, "cancel", None)
        if cancel is not None and name:
            await cancel(name)

    def _put(self, kind: str, **fields: Any) -> None:
        if self._settings.beta:
            if kind in _NOT_IN_BETA:
                return
            for ga, beta in _BETA_NAMES:
                kind = kind.replace(ga, beta, 1)
        self._events += 1
        self._outbox.append({"type": kind, "event_id": f"event_{self._events}", **fields})

    def _error(self, kind: str, code: str, message: str, param: str | None, event_id: Any) -> None:
        about = {"type": kind, "code": code, "message": message, "param": param, "event_id": event_id}
        self._put("error", error=about)

    async def _flush(self) -> None:
        waiting, self._outbox = self._outbox, []
        for event in waiting:
            await self._deliver(event)


def _parse(message: str | bytes) -> dict[str, Any]:
    if isinstance(message, bytes):
        raise Refused("Messages are JSON texts, not binary.", "invalid_json")
    try:
        event = json.loads(message)
    except (ValueError, RecursionError):
        raise Refused("The message is not valid JSON.", "invalid_json") from None
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        raise Refused("The message must be an object with a text as its type.", "missing_required_parameter", "type")
    return event
