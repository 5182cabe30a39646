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
from workbench.agents.realtime.responses import Responses
from workbench.agents.realtime.settings import Refused, SessionSettings
from workbench.agents.realtime.speech import SpeechReports
from workbench.audio import StreamResampler, from_pcm16, to_pcm16
from workbench.cases import RATE_HZ

Deliver = Callable[[dict[str, Any]], Awaitable[None]]

_BETA_NAMES = (("response.output_audio", "response.audio"), ("conversation.item.added", "conversation.item.created"))
_NOT_IN_BETA = {"conversation.item.done"}


class ClientGone(Exception):
    """`deliver` found the connection closed."""


class SessionOver(Exception):
    """The agent cannot go on; the client has been told why."""


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
        self._from_client: StreamResampler | None = None
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

    # In --------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._put("session.created", session=self._settings.shown(self._id))
        await self._flush()

    async def handle(self, message: str | bytes) -> None:
        """Follow one message; what is wrong with it becomes an error event.

        Raises
        ------
        SessionOver : the agent failed.
        """
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

    # Settings --------------------------------------------------------------------------------------

    async def _update(self, event: dict[str, Any]) -> None:
        before = self._settings.rate_in_hz, self._settings.instructions
        self._settings.update(event.get("session"))
        if self._settings.rate_in_hz != before[0]:
            self._from_client = None
        self._speech.configure()
        if self._agent is None:
            await self._open()
        elif self._settings.instructions != before[1]:
            instruct = getattr(self._agent, "instruct", None)
            if instruct is None:
                raise Refused("This agent takes its instructions only before the first audio.", param="instructions")
            await instruct(self._settings.instructions)
        self._put("session.updated", session=self._settings.shown(self._id))

    async def _open(self) -> None:
        self._agent = self._make_agent()
        session = Session(self._id, self._settings.instructions, self._responses.played)
        await self._agent.open(session, self._responses.receive)

    # Audio in --------------------------------------------------------------------------------------

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
        samples = np.frombuffer(data, "<i2").astype(np.int16)
        if self._settings.rate_in_hz != RATE_HZ:
            if self._from_client is None:
                self._from_client = StreamResampler(self._settings.rate_in_hz, RATE_HZ, live=True)
            samples = to_pcm16(self._from_client(from_pcm16(samples)))
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

    # Responses -------------------------------------------------------------------------------------

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

    # Out -------------------------------------------------------------------------------------------

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
