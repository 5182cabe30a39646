"""The user's speech as a server with `turn_detection` reports it."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.agents.cascade.endpointing import Endpointer
from workbench.agents.realtime.responses import Put, Responses
from workbench.agents.realtime.settings import SessionSettings
from workbench.audio import StreamResampler, from_pcm16
from workbench.cases import RATE_HZ
from workbench.silero import RATE_HZ as VAD_HZ


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
