"""An agent's events as a Realtime server's events: one response for each utterance."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.agents.base import AudioOut, Event, Fault, Interrupted, Note, Text, TurnEnd
from workbench.agents.realtime.settings import Refused, SessionSettings
from workbench.audio import StreamResampler, from_pcm16, to_pcm16
from workbench.cases import RATE_HZ

Put = Callable[..., None]


@dataclass
class Response:
    """One utterance on its way. Samples are counted at 24 kHz, `started` on the appended audio.

    delivered : samples sent to the client. samples : those of them that will have been played.
    """

    id: str
    item_id: str
    name: str
    started: int
    samples: int = 0
    delivered: int = 0
    text: list[str] = field(default_factory=list)
    status: str = "in_progress"


class Responses:
    """Turns what the agent emits into server events, and knows what is being played.

    put(type, **fields) : queues a server event. position() : samples at 24 kHz that the client has
    appended, which is the clock of everything here.

    Attributes
    ----------
    gave_way : the agent stopped for the user; whoever acts on it sets it back.
    heard : what the agent understood of the user's turn, if it says so; read and cleared likewise.
    fault : why the agent cannot go on.
    """

    def __init__(self, session_id: str, settings: SessionSettings, put: Put, position: Callable[[], int]):
        self._session_id, self._settings, self._put, self._position = session_id, settings, put, position
        self._made: dict[str, Response] = {}
        self._dropped: set[str] = set()  # utterances whose further audio the client must not get
        self._open: Response | None = None
        self._latest_item: str | None = None
        self._resample: StreamResampler | None = None
        self.gave_way = False
        self.fault: Fault | None = None
        self.heard = ""

    def receive(self, event: Event) -> None:
        """Take one event of the agent (this is its `emit`)."""
        match event:
            case AudioOut():
                self._audio(event)
            case Text(text, item):
                response = self._for(item)
                if response is not None and text:
                    response.text.append(text)
                    self._part("response.output_audio_transcript.delta", response, delta=text)
            case TurnEnd() | Note("utterance_end"):
                if self._open is not None:
                    self._finish("completed")
            case Interrupted(item):
                self.gave_way = True
                self._cut(item, "turn_detected")
            case Note("heard", data):
                self.heard = str(data.get("text", ""))
            case Fault():
                self.fault = self.fault or event

    # What is being played --------------------------------------------------------------------------

    def playing(self) -> bool:
        """Whether the client would still be playing something, had it played in real time."""
        return any(self.played(name) < response.samples for name, response in list(self._made.items())[-2:])

    def played(self, name: str) -> int:
        """Samples of the agent's utterance `name` that have been played by now."""
        response = self._made.get(name) if name else next(reversed(self._made.values()), None)
        return 0 if response is None else max(0, min(response.samples, self._position() - response.started))

    @property
    def active(self) -> Response | None:
        """The response in progress."""
        return self._open

    # What the client asks for ------------------------------------------------------------------------

    def cancel(self) -> str:
        """Give up the response in progress; the agent's name of the utterance."""
        if self._open is None:
            raise Refused("Cancellation failed: no active response found.", "response_cancel_not_active")
        name = self._open.name
        self._cut(name, "client_cancelled")
        return name

    def truncate(self, item_id: Any, content_index: Any, audio_end_ms: Any) -> str:
        """Forget an item's audio after `audio_end_ms`; the agent's name of the utterance."""
        response = next((r for r in self._made.values() if r.item_id == item_id), None)
        if response is None:
            raise Refused(f"There is no item {item_id!r}.", "item_truncate_invalid_item_id", "item_id")
        if content_index != 0 or isinstance(content_index, bool):
            raise Refused(f"The item has no content {content_index!r}; use 0.", param="content_index")
        if isinstance(audio_end_ms, bool) or not isinstance(audio_end_ms, int) or audio_end_ms < 0:
            raise Refused(f"audio_end_ms is {audio_end_ms!r}, where milliseconds are meant.", param="audio_end_ms")
        there_ms = response.delivered * 1000 // RATE_HZ
        if audio_end_ms > there_ms:
            raise Refused(
                f"Audio content of {there_ms}ms is already shorter than {audio_end_ms}ms", param="audio_end_ms"
            )
        response.samples = audio_end_ms * RATE_HZ // 1000
        self._dropped.add(response.name)
        self._put("conversation.item.truncated", item_id=item_id, content_index=0, audio_end_ms=audio_end_ms)
        if self._open is response:
            self._finish("cancelled", "turn_detected")
        return response.name

    def fail(self, message: str) -> None:
        """The agent cannot go on; the response in progress, if any, has failed."""
        if self._open is not None:
            self._finish("failed", error={"type": "server_error", "message": message})

    def user_item(self, item_id: str) -> None:
        """The user's speech has become an item of the conversation."""
        self._put("input_audio_buffer.committed", item_id=item_id, previous_item_id=self._latest_item)
        self._item_added(item_id, "user", [{"type": "input_audio", "transcript": None}], "completed")

    # Out -----------------------------------------------------------------------------------------------

    def _audio(self, event: AudioOut) -> None:
        response = self._for(event.item)
        if response is None:
            return
        samples = event.samples
        if event.rate_hz != self._settings.rate_out_hz:
            floats = from_pcm16(samples) if samples.dtype == np.int16 else samples
            if self._resample is None:
                self._resample = StreamResampler(event.rate_hz, self._settings.rate_out_hz, live=True)
            samples = self._resample(floats)
        if samples.dtype != np.int16:
            samples = to_pcm16(samples)
        response.delivered += event.samples.size * RATE_HZ // event.rate_hz
        response.samples = response.delivered
        audio = base64.b64encode(samples.astype("<i2").tobytes()).decode()
        self._part("response.output_audio.delta", response, delta=audio)

    def _for(self, name: str) -> Response | None:
        """The response for the agent's utterance `name`, begun if need be; None when it was given up."""
        if name in self._dropped:
            return None
        if self._open is not None and self._open.name != name:
            self._finish("completed")
        if self._open is None:
            count = len(self._made) + 1
            ends = f"{self._session_id.removeprefix('sess_')}_{count}"
            # An agent whose utterances have no names gets a new response after each end.
            response = Response(f"resp_{ends}", f"item_{ends}", name, self._position())
            self._made[name or f"#{count}"] = self._open = response
            self._resample = None
            self._put("response.created", response=self._shown(response))
            self._put("response.output_item.added", response_id=response.id, output_index=0, item=self._item(response))
            self._item_added(response.item_id, "assistant", [], "in_progress")
            part = {"type": "audio", "transcript": ""}
            self._part("response.content_part.added", response, part=part)
        return self._open

    def _cut(self, name: str, reason: str) -> None:
        response = self._open
        if name:
            self._dropped.add(name)
        cut = self._made.get(name)
        if cut is not None:
            cut.samples = self.played(name)
        if response is not None and (not name or response.name == name):
            self._finish("cancelled", reason)

    def _finish(self, status: str, reason: str = "", error: dict[str, Any] | None = None) -> None:
        response, self._open = self._open, None
        response.status = status
        transcript = "".join(response.text)
        self._part("response.output_audio.done", response)
        self._part("response.output_audio_transcript.done", response, transcript=transcript)
        self._part("response.content_part.done", response, part={"type": "audio", "transcript": transcript})
        item = self._item(response)
        self._put("response.output_item.done", response_id=response.id, output_index=0, item=item)
        self._put("conversation.item.done", item=item)
        details = {"type": status} | ({"reason": reason} if reason else {}) | ({"error": error} if error else {})
        shown = {**self._shown(response), "output": [item]}
        shown["status_details"] = None if status == "completed" else details
        self._put("response.done", response=shown)

    def _item_added(self, item_id: str, role: str, content: list[dict], status: str) -> None:
        item = {
            "id": item_id,
            "object": "realtime.item",
            "type": "message",
            "status": status,
            "role": role,
            "content": content,
        }
        self._put("conversation.item.added", previous_item_id=self._latest_item, item=item)
        self._latest_item = item_id

    def _part(self, kind: str, response: Response, **fields: Any) -> None:
        where = {"response_id": response.id, "item_id": response.item_id, "output_index": 0, "content_index": 0}
        self._put(kind, **where, **fields)

    def _item(self, response: Response) -> dict[str, Any]:
        status = {"in_progress": "in_progress", "completed": "completed"}.get(response.status, "incomplete")
        kind = "audio" if self._settings.beta else "output_audio"
        content = [{"type": kind, "transcript": "".join(response.text)}] if response.text else []
        return {
            "id": response.item_id,
            "object": "realtime.item",
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }

    def _shown(self, response: Response) -> dict[str, Any]:
        return {
            "id": response.id,
            "object": "realtime.response",
            "status": response.status,
            "status_details": None,
            "output": [],
            "usage": None,
        }
