"""The Episode: what happened when an agent met a case, on one clock.

`{case}.stereo.wav` (channel 0 user, channel 1 agent, 24 kHz PCM16) holds the sound and
`{case}.rec.json` everything else. Times are seconds on the session clock, rounded to milliseconds;
positions are samples at 24 kHz.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import soundfile
from pydantic import Field

from workbench import audio
from workbench.cases import RATE_HZ, Case, Record, Versioned
from workbench.datasets import read_record
from workbench.errors import InputError
from workbench.files import sha256_of, timestamp, write_text
from workbench.spans import touching
from workbench.version import VERSION

FORMAT = 1

MUTE_PEAK = 10 ** (-60 / 20)
"""Below this peak a channel is mute: under any speech that a detector hears, over dither and codec noise (ours)."""

Policy = Literal["as_played", "as_delivered"]


class AgentInfo(Record):
    """Who was recorded: settings as used, without keys; `reported` is what the server said of itself."""

    name: str
    version: str
    settings: dict[str, Any] = {}
    reported: dict[str, Any] = {}
    privileged: bool = Field(default=False, description="the agent was told the case (reference agents)")


class PlayedCue(Record):
    """A cue on the clock, or why it was not played (`reason`)."""

    id: str
    start_s: float | None = None
    end_s: float | None = None
    reason: str | None = None


class Piece(Record):
    """A piece of the agent's own transcript and when it arrived."""

    t_s: float
    text: str
    item: str = ""


LATE_S = 0.100
"""A frame that left later than this puts the times around it in doubt. Ours: half the shortest latency limit."""


class Stall(Record):
    """A stretch in which frames left more than `LATE_S` late, and whose doing it was."""

    start_s: float = Field(description="when its first frame was due")
    end_s: float = Field(description="when its last frame left")
    late_s: float = Field(description="the worst lateness in it")
    by: str = Field(default="", description="who held the process up; '' when nobody in it did: the machine was busy")
    own: bool = Field(default=False, description="it was the agent's own call that did not come back")


class Sends(Record):
    """Every frame sent: `late_s` is how far behind its deadline it left (zeros on a virtual clock).

    Frame k holds the samples [k, k + 1) * `frame_samples` and is due when its last sample has been
    captured, at (k + 1) * frame_samples / 24000 s.
    """

    frame_samples: int
    frames: int
    late_s: tuple[float, ...] = Field(default=(), description="one value a frame; empty on a virtual clock")
    stalls: tuple[Stall, ...] = ()


class Delivery(Record):
    """A chunk of agent audio: when it arrived, where it was placed, what was cut from its end."""

    t_s: float
    item: str
    samples: int
    placed: int | None = Field(description="first sample on the agent channel; null when nothing was played")
    played: int = Field(description="samples of this chunk that stand on the channel")


class LogEvent(Record):
    """Anything else worth a line on the clock: interruptions, turn ends, server notes, waits that ran out."""

    t_s: float
    kind: str
    data: dict[str, Any] = {}


class Failure(Record):
    """The agent's or transport's fault, in its own words."""

    kind: str
    message: str
    times: int = Field(default=1, description="how often in a row: a case that kills its process twice is left alone")


class EpisodeRecord(Versioned):
    """The record of one episode, complete or failed."""

    format: int = FORMAT
    case: str
    benchmark: str
    status: Literal["complete", "error"]
    error: Failure | None = None
    agent: AgentInfo
    clock: Literal["wall", "virtual", "recorded"]
    policy: Policy
    placement: Literal["arrival", "sample_clock"]
    system_prompt: str
    duration_s: float
    cues: tuple[PlayedCue, ...]
    windows: dict[str, tuple[float, float] | None] = {}
    onset_s: float | None = Field(default=None, description="the agent onset that a barge-in waited for")
    transcript: tuple[Piece, ...] | None = Field(default=None, description="null: the agent gives no text")
    sends: Sends
    deliveries: tuple[Delivery, ...] = ()
    cut_samples: int = 0
    delivered_audio: str | None = Field(
        default=None, description="file with every delivered sample in order, kept when some were cut"
    )
    events: tuple[LogEvent, ...] = ()
    unmeasurable: str | None = Field(
        default=None, description="why no verdict may rest on this recording, whatever the benchmark: a short code"
    )
    audio_sha256: str | None = Field(default=None, description="of the stereo file; null in older records")
    workbench: str
    started: str

    @property
    def text(self) -> str | None:
        """The agent's whole transcript as one string; null when the agent gives no text."""
        return None if self.transcript is None else "".join(piece.text for piece in self.transcript).strip()

    def cue(self, cue_id: str) -> PlayedCue | None:
        return next((cue for cue in self.cues if cue.id == cue_id), None)


def record_of(case: Case, played: Mapping[str, PlayedCue], **rest: Any) -> EpisodeRecord:
    """The record of a case: its cues as they were `played`, its windows on the clock, and the `rest` of the fields.

    A window has no time where its cue has none.
    """
    cues = {cue.id: played.get(cue.id) or PlayedCue(id=cue.id, reason="episode_ended") for cue in case.cues}
    windows: dict[str, tuple[float, float] | None] = {}
    for name, window in case.windows.items():
        from_s, windows[name] = cues[window.cue].start_s, None
        if from_s is not None and window.start_s is not None:
            windows[name] = round(from_s + window.start_s, 3), round(from_s + window.end_s, 3)
    about = {"case": case.id, "benchmark": case.benchmark, "system_prompt": case.system_prompt}
    usual = {"workbench": VERSION, "started": timestamp()}
    return EpisodeRecord(**(usual | about | rest), cues=tuple(cues.values()), windows=windows)


def unusable(record: EpisodeRecord, start_s: float = 0.0, end_s: float = math.inf) -> str | None:
    """Why nothing may be measured between two times of a recording; None when it may. Every benchmark asks.

    The agent failed, or frames left more than `LATE_S` late and it was not the agent's own call that kept
    them: what the agent did then, it did on another clock than the recording's.
    """
    if record.status == "error":
        return f"error: {record.error.kind}"
    sends, frame_s = record.sends, record.sends.frame_samples / RATE_HZ
    for index, late_s in enumerate(sends.late_s):
        due_s = (index + 1) * frame_s
        if late_s > LATE_S and due_s <= end_s and due_s + late_s >= start_s:
            stalls = [stall for stall in sends.stalls if stall.start_s - frame_s / 2 <= due_s <= stall.end_s]
            if not any(stall.own for stall in stalls):
                return (
                    f"late frames: {stalls[0].by if stalls and stalls[0].by else 'the machine'} held up the recording"
                )
    return None


def stereo_path(folder: Path, case_id: str) -> Path:
    return folder / f"{case_id}.stereo.wav"


def record_path(folder: Path, case_id: str) -> Path:
    return folder / f"{case_id}.rec.json"


def save(folder: Path, record: EpisodeRecord, stereo: np.ndarray | None, delivered: np.ndarray | None = None) -> None:
    """Write an episode so that the record's presence means it is whole: audio first, record last.

    stereo : int16, shape (samples, 2), or None when nothing was recorded. delivered : int16 (samples,).
    """
    if stereo is not None:
        audio.write_pcm16(stereo_path(folder, record.case), stereo, RATE_HZ)
        record = record.model_copy(update={"audio_sha256": sha256_of(stereo_path(folder, record.case))})
    if delivered is not None and record.delivered_audio:
        audio.write_pcm16(folder / record.delivered_audio, delivered, RATE_HZ)
    write_text(record_path(folder, record.case), record.model_dump_json() + "\n")


def load_record(path: Path) -> EpisodeRecord:
    """Read a `.rec.json`.

    Raises
    ------
    InputError : naming the file and the first wrong field, or that it is the record of another case.
    """
    record = read_record(EpisodeRecord, path, "; run the case again")
    if record_path(path.parent, record.case) != path:
        raise InputError(f"{path} is the record of another case, {record.case!r}; run the case again.")
    return record


def sounded(record: EpisodeRecord, sound: np.ndarray) -> EpisodeRecord:
    """The record with only those words of the agent where the recording holds sound: a mute agent says nothing.

    An utterance whose audio was placed is asked for sound there, and one of which nothing was played was never
    said. Words whose place is not known need any sound at all.

    Parameters
    ----------
    sound : spans (n, 2) in seconds in which the agent's channel is not silent, as a speech detector or
        `loud_spans` gives them.
    """
    if not record.transcript:
        return record
    there: dict[str, bool] = {}
    for delivery in record.deliveries:
        if delivery.item:
            start = delivery.placed or 0
            end = start + delivery.played if delivery.placed is not None else start
            sounds = len(touching(sound, start / RATE_HZ, end / RATE_HZ)) > 0
            there[delivery.item] = there.get(delivery.item, False) or sounds
    pieces = tuple(piece for piece in record.transcript if there.get(piece.item, len(sound) > 0))
    return record.model_copy(update={"transcript": pieces})


def loud_spans(samples: np.ndarray) -> np.ndarray:
    """Spans (n, 2) in seconds, to 10 ms, in which a channel (samples,) at 24 kHz is louder than `MUTE_PEAK`."""
    block = RATE_HZ // 100
    whole = np.pad(np.abs(samples), (0, -len(samples) % block)).reshape(-1, block)
    edges = np.flatnonzero(np.diff(whole.max(axis=1, initial=0) > MUTE_PEAK, prepend=False, append=False))
    return edges.reshape(-1, 2) * (block / RATE_HZ)


def timed_words(record: EpisodeRecord) -> list[tuple[float, str]]:
    """(second on the session clock, word) in order of time; [] when the agent gives no text.

    Servers send the words of an utterance faster than they are played. Where its audio is known they are
    spread over it by their share of the letters; else a piece stands where it arrived.
    """
    heard: dict[str, list[float]] = {}
    for delivery in record.deliveries:
        if delivery.item and delivery.placed is not None and delivery.played:
            start, end = delivery.placed / RATE_HZ, (delivery.placed + delivery.played) / RATE_HZ
            span = heard.setdefault(delivery.item, [start, end])
            span[0], span[1] = min(span[0], start), max(span[1], end)
    texts: dict[str, str] = {}
    for piece in record.transcript or ():
        texts[piece.item] = texts.get(piece.item, "") + piece.text
    out = []
    for item, text in texts.items():
        if item in heard:
            start, end = heard[item]
            out += [
                (start + (end - start) * word.start() / max(1, len(text)), word.group().strip())
                for word in re.finditer(r"\S+\s*", text)
            ]
    for piece in record.transcript or ():
        if piece.item not in heard:
            out += [(piece.t_s, word) for word in piece.text.split()]
    return sorted(out, key=lambda entry: entry[0])


def words_between(words: list[tuple[float, str]], start_s: float, end_s: float) -> str:
    """The words spoken in [start_s, end_s), as one string."""
    return " ".join(word for time_s, word in words if start_s <= time_s < end_s)


def audio_is_whole(folder: Path, record: EpisodeRecord) -> bool:
    """Whether the recording is the one its record was written for, by its checksum (length in older records)."""
    if record.duration_s == 0:
        return True  # failed before anything was recorded
    path = stereo_path(folder, record.case)
    try:
        if record.audio_sha256 is not None:
            return sha256_of(path) == record.audio_sha256
        about = soundfile.info(path)
    except (soundfile.LibsndfileError, OSError):
        return False
    whole = about.frames == round(record.duration_s * RATE_HZ) and about.channels == 2
    return whole and path.stat().st_size >= about.frames * 4


def load_audio(folder: Path, record: EpisodeRecord) -> np.ndarray:
    """Read the stereo recording as float32 (samples, 2) at 24 kHz and check it against the record."""
    path = stereo_path(folder, record.case)
    samples, rate_hz = audio.read_stereo(path)
    if rate_hz != RATE_HZ:
        raise InputError(f"{path} is at {rate_hz} Hz; recordings are at {RATE_HZ} Hz. Import it with `replay`.")
    expected = round(record.duration_s * RATE_HZ)
    if abs(samples.shape[0] - expected) > RATE_HZ // 100:
        raise InputError(
            f"{path} lasts {samples.shape[0] / RATE_HZ:.3f} s and its record says {record.duration_s:.3f} s; "
            "the two do not belong together: run the case again."
        )
    if not audio_is_whole(folder, record):
        raise InputError(
            f"{path} has changed since it was recorded: it is not what its record was written for; run the case again."
        )
    return samples
