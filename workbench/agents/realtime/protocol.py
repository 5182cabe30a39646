"""What a Realtime client may set, and what it is told: settings in both dialects, utterances as responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.agents.base import AudioOut, Event, Fault, Interrupted, Note, Text, TurnEnd
from workbench.agents.link import RateChange, base64_of
from workbench.audio import to_pcm16
from workbench.cases import RATE_HZ

Put = Callable[..., None]
RATES_HZ = (8_000, 16_000, 24_000, 48_000)
_BETA_FIELDS = {"modalities", "input_audio_format", "output_audio_format", "turn_detection", "temperature"}
_UNCHANGED: Any = object()


class Refused(Exception):
    """A client's message that cannot be followed; it becomes an error event and the session goes on."""

    def __init__(self, message: str, code: str = "invalid_value", param: str | None = None):
        super().__init__(message)
        self.message, self.code, self.param = message, code, param


def _mapping(value: Any, param: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Refused(f"{param} must be an object.", "invalid_type", param)
    return value


def _optional(value: Any, param: str) -> dict[str, Any] | None:
    return None if value is None else dict(_mapping(value, param))


def _text(value: Any, param: str) -> str:
    if not isinstance(value, str):
        raise Refused(f"{param} must be a text.", "invalid_type", param)
    return value


def _anything(value: Any, _param: str) -> Any:
    return value


def _rate(value: Any, param: str) -> int:
    if value is None:
        return _UNCHANGED
    form = _mapping(value, param)
    rate_hz = form.get("rate", 24_000)
    if form.get("type", "audio/pcm") != "audio/pcm" or isinstance(rate_hz, bool) or rate_hz not in RATES_HZ:
        offered = ", ".join(map(str, RATES_HZ))
        raise Refused(f"{form!r} is not offered; use audio/pcm at {offered} Hz.", param=param)
    return rate_hz


def _pcm16(value: Any, param: str) -> Any:
    if value != "pcm16":
        raise Refused(f"The format {value!r} is not offered; use 'pcm16'.", param=param)
    return _UNCHANGED


def _speaks(value: Any, param: str) -> Any:
    if value is not None and (not isinstance(value, list) or "audio" not in value):
        raise Refused("This agent only speaks; the modalities must hold 'audio'.", param=param)
    return _UNCHANGED


def _default_vad() -> dict[str, Any]:
    levels = {"threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}
    return {"type": "server_vad", **levels, "create_response": True, "interrupt_response": True}


def _vad(value: Any, param: str) -> dict[str, Any] | None:
    if value is None:
        return None
    given = _mapping(value, param)
    if given.get("type", "server_vad") not in ("server_vad", "semantic_vad"):
        raise Refused(f"There is no turn detection {given['type']!r}.", param=f"{param}.type")
    vad = {**_default_vad(), **given}
    for name, highest in (("threshold", 1), ("prefix_padding_ms", 10_000), ("silence_duration_ms", 10_000)):
        number = vad[name]
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= highest:
            raise Refused(f"{name} is {number!r}, where 0 to {highest} is meant.", param=f"{param}.{name}")
    return vad


# Where a dialect has a field, how it is read, and what it sets ('' for nothing).
_GA = (
    ("output_modalities", _speaks, ""),
    ("audio.input.format", _rate, "rate_in_hz"),
    ("audio.output.format", _rate, "rate_out_hz"),
    ("audio.input.turn_detection", _vad, "vad"),
    ("audio.input.transcription", _optional, "transcription"),
    ("audio.output.voice", _anything, "voice"),
    ("instructions", _text, "instructions"),
)
_BETA = (
    ("modalities", _speaks, ""),
    ("input_audio_format", _pcm16, ""),
    ("output_audio_format", _pcm16, ""),
    ("turn_detection", _vad, "vad"),
    ("input_audio_transcription", _optional, "transcription"),
    ("voice", _text, "voice"),
    ("instructions", _text, "instructions"),
)


@dataclass
class SessionSettings:
    """What a client can set. `vad` None: speech is not reported. Fields not named here are ignored.

    beta : the dialect of the names; set by the client's header, or by its first `session.update`.
    """

    model: str
    beta: bool
    instructions: str = ""
    voice: str = ""
    rate_in_hz: int = 24_000
    rate_out_hz: int = 24_000
    vad: dict[str, Any] | None = field(default_factory=_default_vad)
    transcription: dict[str, Any] | None = None

    def update(self, session: Any) -> None:
        """Apply the `session` of a `session.update`; nothing is changed when any of it is refused."""
        session = _mapping(session, "session")
        if session.get("type", "realtime") != "realtime":
            raise Refused(f"Sessions of type {session['type']!r} are not offered.", param="session.type")
        beta = self.beta or ("type" not in session and bool(_BETA_FIELDS & session.keys()))
        changes = {"beta": beta}
        for place, read, name in _BETA if beta else _GA:
            *folders, last = place.split(".")
            inside, param = session, "session"
            for folder in folders:
                param += f".{folder}"
                inside = _mapping(inside.get(folder, {}), param)
            value = read(inside[last], f"session.{place}") if last in inside else _UNCHANGED
            if value is not _UNCHANGED:
                changes[name] = value
        for name, value in changes.items():
            setattr(self, name, value)

    def shown(self, session_id: str) -> dict[str, Any]:
        """The `session` object of `session.created` and `session.updated`."""
        about = {"id": session_id, "object": "realtime.session", "model": self.model}
        about["instructions"] = self.instructions
        if self.beta:
            return about | {
                "modalities": ["audio", "text"],
                "voice": self.voice,
                "input_audio_format": "pcm16",
                "output_audio_format": "pcm16",
                "input_audio_transcription": self.transcription,
                "turn_detection": self.vad,
            }
        given = {
            "format": {"type": "audio/pcm", "rate": self.rate_in_hz},
            "transcription": self.transcription,
            "turn_detection": self.vad,
        }
        returned = {"format": {"type": "audio/pcm", "rate": self.rate_out_hz}, "voice": self.voice}
        audio = {"input": given, "output": returned}
        return about | {"type": "realtime", "output_modalities": ["audio"], "audio": audio}


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
        self._change_rate: RateChange | None = None
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

    def _audio(self, event: AudioOut) -> None:
        response = self._for(event.item)
        if response is None:
            return
        if self._change_rate is None:
            self._change_rate = RateChange(event.rate_hz, self._settings.rate_out_hz)
        samples = event.samples if event.samples.dtype == np.int16 else to_pcm16(event.samples)
        response.delivered += samples.size * RATE_HZ // event.rate_hz
        response.samples = response.delivered
        self._part("response.output_audio.delta", response, delta=base64_of(self._change_rate(samples)))

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
            self._change_rate = None
            self._put("response.created", response=self._shown(response, [], None))
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
        shown = self._shown(response, [item], None if status == "completed" else details)
        self._put("response.done", response=shown)

    def _item_added(self, item_id: str, role: str, content: list[dict], status: str) -> None:
        item = _item(item_id, role, content, status)
        self._put("conversation.item.added", previous_item_id=self._latest_item, item=item)
        self._latest_item = item_id

    def _part(self, kind: str, response: Response, **fields: Any) -> None:
        where = {"response_id": response.id, "item_id": response.item_id, "output_index": 0, "content_index": 0}
        self._put(kind, **where, **fields)

    def _item(self, response: Response) -> dict[str, Any]:
        status = response.status if response.status in ("in_progress", "completed") else "incomplete"
        kind = "audio" if self._settings.beta else "output_audio"
        content = [{"type": kind, "transcript": "".join(response.text)}] if response.text else []
        return _item(response.item_id, "assistant", content, status)

    def _shown(self, response: Response, output: list[dict], details: dict[str, Any] | None) -> dict[str, Any]:
        shown = {"id": response.id, "object": "realtime.response", "status": response.status}
        return shown | {"status_details": details, "output": output, "usage": None}


def _item(item_id: str, role: str, content: list[dict], status: str) -> dict[str, Any]:
    about = {"id": item_id, "object": "realtime.item", "type": "message"}
    return about | {"status": status, "role": role, "content": content}
