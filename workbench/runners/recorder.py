"""The recorder: puts what was sent and what came back on one sample clock.

Raw deliveries are kept; the agent channel is derived from them by a declared policy.

placement 'arrival': a chunk starts at its arrival or at the end of the chunk before, whichever is
later, so bursts that come faster than real time unroll to the pace at which they would be heard.
placement 'sample_clock': the first chunk is anchored at its arrival and every later one follows it
without a gap, for transports that count time in samples.

policy 'as_played': at an interruption, audio that was delivered but not yet played is cut (nobody
heard it) and late chunks of that utterance are dropped. policy 'as_delivered': everything stays
(the rule of the DuplexSpeechBench-IFEval appendix). The record counts the samples cut.

Events may come at any time and from any thread; each is checked and copied before it is placed, and
one that cannot be used becomes the session's fault. Audio at another rate is resampled with its place
in time kept: the few samples that the filter holds back never open a gap between two chunks that
follow each other.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from workbench.agents import door
from workbench.agents.base import FRAME_SAMPLES, AudioOut, Event, Fault, Interrupted, Note, Text, TurnEnd
from workbench.audio import LOOK_AHEAD_S, StreamResampler, from_pcm16, to_pcm16
from workbench.cases import RATE_HZ
from workbench.episodes import Delivery, LogEvent, Piece, Policy
from workbench.text import LETTERS_PER_S, duration_s, tokens, weight

ONSET_DBFS = -45.0
ONSET_S = 0.060
_BLOCK = RATE_HZ // 100
_LOUD = 32768.0 * 10 ** (ONSET_DBFS / 20)
_JOIN = int(0.030 * RATE_HZ)
_HELD = math.ceil(LOOK_AHEAD_S * RATE_HZ) + 1
MAX_BACKLOG_S = 600.0
"""Audio delivered further ahead of its playing than this is a fault: no answer lasts that long."""


@dataclass
class _Utterance:
    """The text of one utterance, and the points at which it is tied to audio: (letters, samples)."""

    item: str
    text: str = ""
    points: list[tuple[float, int]] = field(default_factory=list)


class Heard:
    """Where words of the transcript stand in its audio, for cues that wait for a word; `Recorder` feeds it.

    Text comes before, with or after the audio that says it. Each piece of text is tied to the audio that had
    been delivered of its utterance when it came, the first to its beginning; of several pieces that came at
    the same point the first one stands there and the rest follow. Between two such points text is spread
    evenly; after the last one at the pace of ordinary speech, until the utterance is complete and its true
    pace is known.
    """

    def __init__(self) -> None:
        self._utterances: list[_Utterance] = []
        self._found: dict[str, list[tuple[str, int, int, int]]] = {}

    def add(self, text: str, item: str, delivered: int) -> None:
        """A piece of text that came when `delivered` samples of its utterance had come."""
        self._found.clear()
        if not self._utterances or self._utterances[-1].item != item:
            self._utterances.append(_Utterance(item))
        last = self._utterances[-1]
        if not last.points:
            # The first words of an utterance are its beginning, however late their text comes.
            last.points.append((0.0, 0 if item else delivered))
        elif delivered > last.points[-1][1]:
            last.points.append((weight(last.text), delivered))
        last.text += text

    def places(self, word: str) -> list[tuple[str, int, int, int]]:
        """Where `word` (one or several words) stands: (item, index of the utterance, begin, end), in order."""
        if word not in self._found:
            wanted = [token for token, _, _ in tokens(word)]
            self._found[word] = [
                (utterance.item, index, there[at][1], there[at + len(wanted) - 1][2])
                for index, utterance in enumerate(self._utterances)
                for there in [tokens(utterance.text)]
                for at in range(len(there) - len(wanted) + 1)
                if wanted and [token for token, _, _ in there[at : at + len(wanted)]] == wanted
            ]
        return self._found[word]

    def sample(self, index: int, at: int, delivered: int, complete: bool) -> float:
        """The place of character `at` of an utterance in its audio, in samples.

        delivered : samples of it by now. complete : whether all of its audio is there.
        """
        utterance = self._utterances[index]
        letters = weight(utterance.text[:at])
        points = utterance.points
        last = max(k for k, (begin, _) in enumerate(points) if begin <= letters)
        begin, sample = points[last]
        paced = sample + (letters - begin) / LETTERS_PER_S * RATE_HZ
        if last + 1 < len(points):
            end, until = points[last + 1]
        elif complete and delivered > sample:
            end, until = weight(utterance.text), delivered
        else:
            return paced
        spread = sample + (letters - begin) / (end - begin) * (until - sample)
        # Without a name there are no utterances: silence between two pieces is not part of either.
        return spread if utterance.item else min(spread, paced)

    def is_open(self, index: int, end: int) -> bool:
        """Whether more text may still lengthen the word that ends at character `end`."""
        return index == len(self._utterances) - 1 and end == len(self._utterances[index].text)


@dataclass
class _Chunk:
    t_s: float
    item: str
    samples: np.ndarray
    placed: int | None
    played: int

    @property
    def end(self) -> int:
        return 0 if self.placed is None else self.placed + self.played


@dataclass
class _Incoming:
    """An utterance on its way to 24 kHz; `arrived` is when its first chunk came, until it is placed."""

    item: str
    rate_hz: int
    stream: StreamResampler
    arrived: int | None


class Recorder:
    """Collects one episode. `now` gives the session clock in seconds."""

    def __init__(self, now: Callable[[], float], policy: Policy, placement: str):
        self._now, self.policy, self.placement = now, policy, placement
        self.user: list[np.ndarray] = []
        self.late_s: list[float] = []
        self.pieces: list[Piece] = []
        self.events: list[LogEvent] = []
        self.reported: dict = {}
        self.fault: Fault | None = None
        self.last_turn_end_s = -1.0
        self.turn_open = False
        self._chunks: list[_Chunk] = []
        self._cursor = 0
        self._cut_items: set[str] = set()
        self._loud: list[list[int]] = []
        self._incoming: _Incoming | None = None
        self._heard = Heard()
        self._delivered: Counter[str] = Counter()
        self._complete: set[str] = set()
        self._lock = threading.RLock()
        self._finished = False

    # What came back -----------------------------------------------------------------------------

    def receive(self, event: Event) -> None:
        """Take one event from the agent, stamped with the clock's present time.

        Never raises: an agent may emit from a task or thread of its own, where nobody would hear of it.
        """
        with self._lock:
            if self._finished:
                return
            try:
                self._take(self._now(), door.event(event))
            except Exception as error:
                reason = str(error) if isinstance(error, door.Refused) else door.words(error)
                self.fault = self.fault or Fault("bad_event", reason)
                self.log("fault", fault="bad_event", message=reason)

    def _take(self, t_s: float, event: Event) -> None:
        match event:
            case AudioOut():
                self.turn_open = True
                if event.rate_hz != RATE_HZ:
                    self._resample(t_s, event)
                else:
                    at_rate = event.samples if event.samples.dtype == np.int16 else to_pcm16(event.samples)
                    self._place(t_s, event.item, at_rate)
            case Text(text, item):
                if text and not (self.policy == "as_played" and item and item in self._cut_items):
                    self.pieces.append(Piece(t_s=round(t_s, 3), text=text, item=item))
                    named = "" if set(self._delivered) == {""} else item
                    self._heard.add(text, named, self._delivered[named])
                    self._complete.discard("")
            case Interrupted(item):
                cut = self._interrupt(round(t_s * RATE_HZ), item)
                self.turn_open = False
                self.last_turn_end_s = t_s
                self.log("interrupted", item=item, cut_samples=cut)
            case TurnEnd(item):
                self._flush_resampler(t_s)
                self._complete |= {item} if item else set(self._delivered)
                self.turn_open = False
                self.last_turn_end_s = t_s
                self.log("turn_end", item=item)
            case Note(kind, data):
                if kind == "reported":
                    self.reported.update(data)
                self.log(kind, **data)
            case Fault(kind=kind, message=message):
                self.fault = self.fault or event
                self.log("fault", fault=kind, message=message)

    def log(self, kind: str, /, **data: object) -> None:
        self.events.append(LogEvent(t_s=round(self._now(), 3), kind=kind, data=data))

    def _resample(self, t_s: float, event: AudioOut) -> None:
        samples = from_pcm16(event.samples) if event.samples.dtype == np.int16 else event.samples
        arrival = round(t_s * RATE_HZ)
        now = self._incoming
        if now is not None:
            late = self.placement == "arrival" and now.arrived is None and arrival > self._cursor + _HELD
            if late or (now.item, now.rate_hz) != (event.item, event.rate_hz):
                self._flush_resampler(t_s)
        if self._incoming is None:
            stream = StreamResampler(event.rate_hz, RATE_HZ)
            self._incoming = _Incoming(event.item, event.rate_hz, stream, arrival)
        self._follow(t_s, self._incoming, to_pcm16(self._incoming.stream(samples)))

    def _flush_resampler(self, t_s: float) -> None:
        if self._incoming is not None:
            now, self._incoming = self._incoming, None
            self._follow(t_s, now, to_pcm16(now.stream(np.zeros(0, np.float32), last=True)))

    def _follow(self, t_s: float, now: _Incoming, samples: np.ndarray) -> None:
        """Place resampled audio: the first of a stretch by its arrival, the rest right after it."""
        if samples.size:
            self._place(t_s, now.item, samples, self._cursor if now.arrived is None else now.arrived)
            now.arrived = None

    def _place(self, t_s: float, item: str, samples: np.ndarray, arrival: int | None = None) -> None:
        if samples.size == 0:
            return
        if self._chunks and self._chunks[-1].item != item:
            self._complete.add(self._chunks[-1].item)
        self._complete -= {item, ""}
        for name in {item, ""}:
            self._delivered[name] += samples.size
        if self.policy == "as_played" and item and item in self._cut_items:
            self._chunks.append(_Chunk(t_s, item, samples, None, 0))
            return
        arrival = round(t_s * RATE_HZ) if arrival is None else arrival
        anchored = self.placement == "sample_clock" and bool(self._chunks)
        start = self._cursor if anchored else max(arrival, self._cursor)
        self._chunks.append(_Chunk(t_s, item, samples, start, samples.size))
        self._cursor = start + samples.size
        self._mark_loud(start, samples)
        if self._cursor - round(t_s * RATE_HZ) > MAX_BACKLOG_S * RATE_HZ:
            reason = f"The agent delivered more than {MAX_BACKLOG_S:.0f} s of audio ahead of its playing."
            self.fault = self.fault or Fault("too_much_audio", reason)

    def _interrupt(self, at: int, item: str) -> int:
        if self.policy == "as_delivered":
            return 0
        self._incoming = None
        cut = 0
        for chunk in reversed(self._chunks):
            if chunk.placed is None or (item and chunk.item != item):
                continue
            if chunk.end <= at:
                break
            keep = max(0, at - chunk.placed)
            cut += chunk.played - keep
            chunk.played = keep
            if keep == 0:
                chunk.placed = None  # nor may its place keep what comes next waiting
            if chunk.item:
                self._cut_items.add(chunk.item)
        if item:
            self._cut_items.add(item)
        self._cursor = max((chunk.end for chunk in self._chunks[-512:]), default=0)
        self._loud = [[start, min(end, at)] for start, end in self._loud if start < at]
        return cut

    # What can be asked while it runs -------------------------------------------------------------

    def played_samples(self, item: str) -> int:
        """Samples of utterance `item` that have been heard by now ('' for all)."""
        with self._lock:
            now = round(self._now() * RATE_HZ)
            return sum(
                max(0, min(chunk.end, now) - chunk.placed)
                for chunk in self._chunks
                if chunk.placed is not None and (not item or chunk.item == item)
            )

    def drained(self, now_s: float) -> bool:
        """Whether everything placed so far has been played by `now_s`."""
        return self._cursor <= round(now_s * RATE_HZ)

    def onset_after(self, time_s: float, now_s: float) -> float | None:
        """Onset of the first agent speech that is under way at, or begins after, `time_s`.

        Speech is a run of 10 ms blocks above -45 dBFS that lasts at least 60 ms (gaps up to 30 ms
        bridged). Speech already under way counts from `time_s`. Looks no further than `now_s`.
        """
        floor, now = round(time_s * RATE_HZ), round(now_s * RATE_HZ)
        for start, end in list(self._loud):
            start = max(start, floor)
            if min(end, now) - start >= ONSET_S * RATE_HZ:
                return start / RATE_HZ
        return None

    def last_loud_s(self, now_s: float) -> float | None:
        """End of the last audible agent block played by `now_s`; None when there was none."""
        now = round(now_s * RATE_HZ)
        for start, end in list(self._loud)[::-1]:
            if start < now:
                return min(end, now) / RATE_HZ
        return None

    def word_after(self, word: str, time_s: float, now_s: float) -> float | None:
        """When the first `word` of the transcript that is played at or after `time_s` begins; None while not known.

        A word at the very end of what has come is waited for until it cannot be part of a longer one.
        """
        with self._lock:
            for item, index, begin, end in self._heard.places(word):
                named = "" if set(self._delivered) == {""} else item
                complete = named in self._complete
                sample = self._heard.sample(index, begin, self._delivered[named], complete)
                played_s = self._played_at_s(named, sample, complete)
                if played_s is None or played_s < time_s:
                    continue
                whole_s = max(played_s, self.pieces[-1].t_s) + duration_s(word)
                if complete or not self._heard.is_open(index, end) or now_s >= whole_s:
                    return played_s
        return None

    def _played_at_s(self, item: str, sample: float, complete: bool) -> float | None:
        """When a sample of an utterance ('' for all) is played; None when it has not come or was cut."""
        before, end_s = 0, None
        for chunk in self._chunks:
            if item and chunk.item != item:
                continue
            at = sample - before
            before += chunk.samples.size
            if at < chunk.samples.size:
                return None if at >= chunk.played else (chunk.placed + at) / RATE_HZ
            end_s = None if chunk.placed is None else chunk.end / RATE_HZ
        return end_s if complete else None

    def _mark_loud(self, start: int, samples: np.ndarray) -> None:
        blocks = max(1, samples.size // _BLOCK)
        whole = samples[: blocks * _BLOCK].astype(np.float32).reshape(blocks, -1)
        for index in np.flatnonzero(np.sqrt(np.mean(whole * whole, axis=1)) > _LOUD):
            begin = start + int(index) * _BLOCK
            if self._loud and begin - self._loud[-1][1] <= _JOIN:
                self._loud[-1][1] = begin + _BLOCK
            else:
                self._loud.append([begin, begin + _BLOCK])

    # What is kept --------------------------------------------------------------------------------

    def finish(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Close the recording.

        Returns
        -------
        stereo : int16 (samples, 2); delivered : int16 (samples,), every delivered sample in order;
        cut : samples delivered that do not stand on the agent channel.
        """
        with self._lock:
            self._flush_resampler(self._now())
            self._finished = True
        user = np.concatenate(self.user) if self.user else np.zeros(0, np.int16)
        # The last frame's answer begins where the user's side ends: one frame of room for it. Under
        # 'as_delivered' everything is kept, however long it would have gone on playing.
        room = self._cursor if self.policy == "as_delivered" else min(self._cursor, user.size + FRAME_SAMPLES)
        length = max(user.size, room)
        stereo = np.zeros((length, 2), np.int16)
        stereo[: user.size, 0] = user
        for chunk in self._chunks:
            if chunk.placed is None:
                continue
            chunk.played = max(0, min(chunk.played, length - chunk.placed))
            if chunk.played:
                stereo[chunk.placed : chunk.end, 1] = chunk.samples[: chunk.played]
        delivered = np.concatenate([c.samples for c in self._chunks]) if self._chunks else np.zeros(0, np.int16)
        return stereo, delivered, sum(c.samples.size - c.played for c in self._chunks)

    def deliveries(self) -> tuple[Delivery, ...]:
        return tuple(
            Delivery(
                t_s=round(chunk.t_s, 3),
                item=chunk.item,
                samples=int(chunk.samples.size),
                placed=chunk.placed if chunk.played else None,
                played=int(chunk.played),
            )
            for chunk in self._chunks
        )


def replay(deliveries: tuple[Delivery, ...], delivered: np.ndarray, length: int) -> np.ndarray:
    """Recompute the agent channel from the log: int16 (length,), equal to the recorded one.

    deliveries : as recorded; delivered : int16, every delivered sample in order.
    """
    channel = np.zeros(length, np.int16)
    at = 0
    for delivery in deliveries:
        if delivery.placed is not None:
            channel[delivery.placed : delivery.placed + delivery.played] = delivered[at : at + delivery.played]
        at += delivery.samples
    return channel
