"""Reference agents that follow a script: they speak real synthesised audio, frame by frame.

`oracle`, `contrary` and `wavering` carry out the moves that a benchmark writes for a case; they are
privileged (told the case and when its cues start) and every record says so. `silent`, `babble`, `echo`
and `eager` know nothing but the audio they are sent.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from workbench.agents.base import FRAME_SAMPLES, AudioOut, Emit, Session, Text, Traits, TurnEnd
from workbench.audio import to_pcm16
from workbench.cases import RATE_HZ, Case, Moment, Move
from workbench.construct.speech import SpeechCache
from workbench.errors import InputError
from workbench.version import VERSION

VOICE = "hibari:mid"
DIRECTIVE = "directive"
"""The part of a prompt that states the rule; without it the rule is at most implied."""
_FADE = RATE_HZ // 200
_LOUD_RMS = 32768.0 * 10 ** (-45 / 20)

Planner = Callable[[Case, str], tuple[Move, ...]]


@lru_cache(maxsize=512)
def say(text: str, voice: str = VOICE) -> np.ndarray:
    """`text` as int16 (samples,) at 24 kHz, without pauses longer than 0.12 s inside (read-only)."""
    samples = _tighten(to_pcm16(_speech().render(text, voice).samples))
    samples.flags.writeable = False
    return samples


@lru_cache(maxsize=1)
def _speech() -> SpeechCache:
    return SpeechCache(engine="hibari")


def _tighten(samples: np.ndarray) -> np.ndarray:
    """Shorten pauses inside to 0.12 s: a speaker who holds the floor must be heard to hold it."""
    block = RATE_HZ // 100
    whole = samples[: samples.size // block * block].reshape(-1, block)
    quiet = np.sqrt(np.mean(whole.astype(np.float32) ** 2, axis=1)) < _LOUD_RMS
    run = np.zeros(len(quiet), int)
    for index, is_quiet in enumerate(quiet):
        run[index] = (run[index - 1] if index else 0) + 1 if is_quiet else 0
    return np.concatenate([whole[run <= 12].ravel(), samples[whole.size :]])


class Voice:
    """Emits one utterance at a time in 20 ms frames, its words as they are said."""

    def __init__(self, emit: Emit):
        self._emit = emit
        self._count = 0
        self._samples: np.ndarray | None = None
        self._words: list[str] = []
        self._at = self._said = self._stop = 0

    @property
    def speaking(self) -> bool:
        return self._samples is not None

    def begin(self, text: str) -> None:
        if self.speaking:
            self.end()
        self._count += 1
        self._samples, self._words = say(text), text.split()
        self._at = self._said = 0

    def frame(self, loop: bool, left: int | None = None) -> None:
        """Emit the next frame; `left` samples are all that may still be said (None: no limit)."""
        samples, item = self._samples, f"utterance_{self._count}"
        last = left is not None and left <= FRAME_SAMPLES
        take = left if last else FRAME_SAMPLES
        index = np.arange(self._at, self._at + take)
        frame = samples[index % samples.size if loop else index[index < samples.size]]
        if last and frame.size:
            fade = min(_FADE, frame.size)
            frame[-fade:] = (frame[-fade:] * np.linspace(1, 0, fade)).astype(np.int16)
        if frame.size:
            self._emit(AudioOut(frame, item))
        self._at += take
        # A word is given when it begins, by its share of the utterance; a looped text starts again.
        share = self._at / samples.size
        while self._said < (share if loop else min(share, 1.0)) * len(self._words):
            self._emit(Text(self._words[self._said % len(self._words)] + " ", item))
            self._said += 1
        if last or (not loop and self._at >= samples.size):
            self.end()

    def end(self) -> None:
        self._samples = None
        self._emit(TurnEnd(f"utterance_{self._count}"))


class MovesAgent:
    """Carries out moves: 'oracle' does what the case expects, 'contrary' the opposite."""

    def __init__(self, style: str, planner: Planner):
        self._style, self._planner = style, planner
        self.traits = Traits(style, VERSION, "input", privileged=True, settings={"voice": VOICE})

    async def open(self, session: Session, emit: Emit) -> None:
        self._case = session.case
        self._waiting = list(self._planner(session.case, self._style))
        self._move: Move | None = None
        self._starts: dict[str, int] = {}
        self._position = 0
        self._speaker = Voice(emit)
        for move in self._waiting:
            say(move.text)

    async def cue(self, cue_id: str, phase: str) -> None:
        if phase == "start":
            self._starts[cue_id] = self._position

    async def send(self, frame: np.ndarray) -> None:
        self._position += frame.size
        if self._waiting:
            begin = self._at(self._waiting[0].begin)
            if begin is not None and self._position >= begin:
                self._move = self._waiting.pop(0)
                self._speaker.begin(self._move.text)
        if self._speaker.speaking:
            until = None if self._move.until is None else self._at(self._move.until)
            left = None if until is None else max(0, until - self._position)
            self._speaker.frame(loop=self._move.until is not None, left=left)

    def _at(self, moment: Moment) -> int | None:
        """The moment as a sample position; None while its cue has not started."""
        start = self._starts.get(moment.cue)
        if start is None:
            return None
        length = self._case.cue(moment.cue).audio.samples if moment.of == "end" else 0
        return start + length + round(moment.offset_s * RATE_HZ)

    async def close(self) -> None: ...


class WaveringAgent(MovesAgent):
    """Does what the case expects with a stated probability, or else the opposite, both after a random delay.

    Analyses can be tried on it before any real system is at hand: its true rates, and so its true
    Entailment Gap, are what it was told, and every miss or delay of the tables can be traced to them.

    stated, implied : probability of doing what is expected when the prompt holds a directive, and
    when it does not. The luck is drawn once a conversation, so whoever manages a conversation at
    the lower probability also manages it at the higher.
    late_s : mean of the delay before each move, exponential and drawn once a case.
    seed : another seed is another agent of the same skill.
    """

    def __init__(self, planner: Planner, stated: float = 0.9, implied: float = 0.7, late_s: float = 0.0, seed: int = 0):
        for name, value in (("stated", stated), ("implied", implied)):
            if not 0 <= value <= 1:
                raise InputError(f"The agent 'wavering' cannot have {name}={value!r}; give a probability, 0 to 1.")
        if not (late_s >= 0 and math.isfinite(late_s)):
            raise InputError(f"The agent 'wavering' cannot have late_s={late_s!r}; give seconds of at least 0.")
        super().__init__("wavering", self._moves)
        self._benchmark_moves = planner
        self._stated, self._implied, self._late_s, self._seed = stated, implied, late_s, seed
        settings = {"voice": VOICE, "stated": stated, "implied": implied, "late_s": late_s, "seed": seed}
        self.traits = Traits("wavering", VERSION, "input", privileged=True, settings=settings)

    def _moves(self, case: Case, _style: str) -> tuple[Move, ...]:
        told = any(part.name == DIRECTIVE for part in case.prompt)
        good = self._luck(case.conversation) < (self._stated if told else self._implied)
        delay_s = -self._late_s * math.log(1 - self._luck(case.id))
        moves = self._benchmark_moves(case, "oracle" if good else "contrary")
        return tuple(
            move.model_copy(update={"begin": _later(move.begin, delay_s), "until": _later(move.until, delay_s)})
            for move in moves
        )

    def _luck(self, of: str) -> float:
        """A number in [0, 1) that depends on the seed and `of` alone."""
        digest = hashlib.sha256(f"{self._seed}:{of}".encode()).digest()
        return int.from_bytes(digest[:6], "big") / 2**48


def _later(moment: Moment | None, delay_s: float) -> Moment | None:
    return moment and moment.model_copy(update={"offset_s": round(moment.offset_s + delay_s, 3)})


class SilentAgent:
    """Never makes a sound; what the others below are made from."""

    traits = Traits("silent", VERSION, "input")

    async def open(self, session: Session, emit: Emit) -> None: ...

    async def send(self, frame: np.ndarray) -> None: ...

    async def close(self) -> None: ...


class EchoAgent(SilentAgent):
    """Gives back what it hears, half a second later; it has no words of its own."""

    DELAY_FRAMES = 25
    traits = Traits("echo", VERSION, "input", turns="continuous", text=False, settings={"delay_s": 0.5})

    async def open(self, session: Session, emit: Emit) -> None:
        self._emit, self._heard = emit, []

    async def send(self, frame: np.ndarray) -> None:
        self._heard.append(frame)
        if len(self._heard) > self.DELAY_FRAMES:
            self._emit(AudioOut(self._heard.pop(0)))


class BabbleAgent(SilentAgent):
    """Talks from the first frame to the last, whatever is said to it."""

    TEXT = "and then there was this other thing I meant to bring up because it really does matter a great deal"
    traits = Traits("babble", VERSION, "input", settings={"voice": VOICE})

    async def open(self, session: Session, emit: Emit) -> None:
        self._speaker = Voice(emit)

    async def send(self, frame: np.ndarray) -> None:
        if not self._speaker.speaking:
            self._speaker.begin(self.TEXT)
        self._speaker.frame(loop=True)


class EagerAgent(SilentAgent):
    """Answers at every pause of 0.3 s, whatever the pause means, and talks to the end of its line."""

    TEXT = "Right, so what I would do in your place is this."
    PAUSE_FRAMES = 15
    traits = Traits("eager", VERSION, "input", settings={"voice": VOICE, "pause_s": 0.3})

    async def open(self, session: Session, emit: Emit) -> None:
        self._speaker = Voice(emit)
        self._quiet, self._heard = 0, False

    async def send(self, frame: np.ndarray) -> None:
        if np.sqrt(np.mean(frame.astype(np.float32) ** 2)) >= _LOUD_RMS:
            self._quiet, self._heard = 0, True
        else:
            self._quiet += 1
        if self._heard and self._quiet >= self.PAUSE_FRAMES and not self._speaker.speaking:
            self._heard = False
            self._speaker.begin(self.TEXT)
        if self._speaker.speaking:
            self._speaker.frame(loop=False)
