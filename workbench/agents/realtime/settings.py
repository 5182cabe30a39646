"""A Realtime session's settings, read from and shown in both dialects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RATES_HZ = (8_000, 16_000, 24_000, 48_000)
_BETA_FIELDS = {"modalities", "input_audio_format", "output_audio_format", "turn_detection", "temperature"}


class Refused(Exception):
    """A client's message that cannot be followed; it becomes an error event and the session goes on."""

    def __init__(self, message: str, code: str = "invalid_value", param: str | None = None):
        super().__init__(message)
        self.message, self.code, self.param = message, code, param


def _default_vad() -> dict[str, Any]:
    return {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 500,
        "create_response": True,
        "interrupt_response": True,
    }


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
        """Apply the `session` of a `session.update`; nothing is changed when any of it is refused.

        Raises
        ------
        Refused : a field has another type or a value that this server does not offer.
        """
        session = _mapping(session, "session")
        if session.get("type", "realtime") != "realtime":
            raise Refused(f"Sessions of type {session['type']!r} are not offered.", param="session.type")
        beta = self.beta or ("type" not in session and bool(_BETA_FIELDS & session.keys()))
        changes = self._beta(session) if beta else self._ga(session)
        if "instructions" in session:
            changes["instructions"] = _text(session["instructions"], "session.instructions")
        for name, value in {**changes, "beta": beta}.items():
            setattr(self, name, value)

    def _ga(self, session: Mapping[str, Any]) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        _speaks(session.get("output_modalities"), "session.output_modalities")
        audio = _mapping(session.get("audio", {}), "session.audio")
        given = _mapping(audio.get("input", {}), "session.audio.input")
        returned = _mapping(audio.get("output", {}), "session.audio.output")
        if given.get("format") is not None:
            changes["rate_in_hz"] = _rate(given["format"], "session.audio.input.format")
        if returned.get("format") is not None:
            changes["rate_out_hz"] = _rate(returned["format"], "session.audio.output.format")
        if "turn_detection" in given:
            changes["vad"] = self._vad(given["turn_detection"], "session.audio.input.turn_detection")
        if "transcription" in given:
            changes["transcription"] = _optional(given["transcription"], "session.audio.input.transcription")
        if "voice" in returned:
            changes["voice"] = returned["voice"]
        return changes

    def _beta(self, session: Mapping[str, Any]) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        _speaks(session.get("modalities"), "session.modalities")
        for name in ("input_audio_format", "output_audio_format"):
            if session.get(name, "pcm16") != "pcm16":
                raise Refused(f"The format {session[name]!r} is not offered; use 'pcm16'.", param=f"session.{name}")
        if "turn_detection" in session:
            changes["vad"] = self._vad(session["turn_detection"], "session.turn_detection")
        if "input_audio_transcription" in session:
            given = session["input_audio_transcription"]
            changes["transcription"] = _optional(given, "session.input_audio_transcription")
        if "voice" in session:
            changes["voice"] = _text(session["voice"], "session.voice")
        return changes

    def _vad(self, value: Any, param: str) -> dict[str, Any] | None:
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

    def shown(self, session_id: str) -> dict[str, Any]:
        """The `session` object of `session.created` and `session.updated`."""
        if self.beta:
            return {
                "id": session_id,
                "object": "realtime.session",
                "model": self.model,
                "modalities": ["audio", "text"],
                "instructions": self.instructions,
                "voice": self.voice,
                "input_audio_format": "pcm16",
                "output_audio_format": "pcm16",
                "input_audio_transcription": self.transcription,
                "turn_detection": self.vad,
            }
        return {
            "type": "realtime",
            "object": "realtime.session",
            "id": session_id,
            "model": self.model,
            "output_modalities": ["audio"],
            "instructions": self.instructions,
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": self.rate_in_hz},
                    "transcription": self.transcription,
                    "turn_detection": self.vad,
                },
                "output": {"format": {"type": "audio/pcm", "rate": self.rate_out_hz}, "voice": self.voice},
            },
        }


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


def _rate(value: Any, param: str) -> int:
    form = _mapping(value, param)
    rate_hz = form.get("rate", 24_000)
    if form.get("type", "audio/pcm") != "audio/pcm" or isinstance(rate_hz, bool) or rate_hz not in RATES_HZ:
        offered = ", ".join(map(str, RATES_HZ))
        raise Refused(f"{form!r} is not offered; use audio/pcm at {offered} Hz.", param=param)
    return rate_hz


def _speaks(value: Any, param: str) -> None:
    if value is not None and (not isinstance(value, list) or "audio" not in value):
        raise Refused("This agent only speaks; the modalities must hold 'audio'.", param=param)
