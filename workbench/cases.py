"""The Case: one trial as data.

A case says what is played (cues), under which system prompt, what is expected and where the
annotated windows lie. It is immutable, validated on load, and knows nothing of agents or results.
All times are seconds as floats. Times inside a cue count from the first sample of that cue, since
its place on the session clock is only known once an agent has been run.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

RATE_HZ = 24_000
"""Rate of the session clock and of every built clip."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}")


def check_id(value: str) -> str:
    """Return `value` if it is safe as a file name; ids are joined to paths, so nothing else may pass.

    Raises
    ------
    ValueError : when the id holds a separator, starts with a dot, or is longer than 128 characters.
    """
    if not _ID.fullmatch(value):
        raise ValueError(
            f"the id {value!r} may hold only letters, digits, '_', '-', '+' and '.', must start with "
            "a letter or digit and be at most 128 characters long"
        )
    return value


SafeId = Annotated[str, Field(min_length=1)]


class Record(BaseModel):
    """Base of everything that is read from or written to a file: frozen, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Versioned(Record):
    """Base of what opens a file: one that a newer workbench wrote is refused by its number, not by its fields."""

    format: int = 1

    @model_validator(mode="before")
    @classmethod
    def _not_from_the_future(cls, raw: Any) -> Any:
        known, found = cls.model_fields["format"].default, raw.get("format") if isinstance(raw, dict) else None
        if isinstance(found, int) and found > known:
            raise ValueError(f"its format {found} is of a newer workbench than this one (it reads {known}); update it")
        return raw


class AtTime(Record):
    """Start at a time on the session clock."""

    kind: Literal["at_time"] = "at_time"
    time_s: float = Field(ge=0)


class AfterTurn(Record):
    """Start once the agent's turn is over: a bounded wait, then silence to settle.

    An agent that announces its turns is waited for at most `max_wait_s` after the previous cue.
    `quiet_s` is how long an agent without turn events must have been silent, after having spoken,
    to count as finished; where `fixed_gap_s` is given such an agent gets that gap instead (frame-
    synchronous systems in DuplexSpeechBench-IFEval: 3.0 s). `give_up_s` shortens the wait for an
    agent that has said nothing at all. With `by_silence` only what is heard counts, for every agent
    alike: one that announces its turns is waited for until it has been silent for `quiet_s` too.
    """

    kind: Literal["after_turn"] = "after_turn"
    max_wait_s: float = Field(ge=0)
    settle_s: float = Field(default=0.0, ge=0)
    quiet_s: float = Field(default=1.0, ge=0)
    fixed_gap_s: float | None = Field(default=None, ge=0)
    give_up_s: float | None = Field(default=None, ge=0)
    by_silence: bool = False


class AfterOnset(Record):
    """Start `delay_s` after the agent's detected speech onset, while it speaks (barge-in)."""

    kind: Literal["after_onset"] = "after_onset"
    delay_s: float = Field(ge=0)
    max_wait_s: float = Field(ge=0, description="how long to wait for an onset after the previous cue")


class AtWord(Record):
    """Start when a word of the agent's transcript is played after the previous cue.

    `word` is one whole word or several, whatever their case and what stands between them; Chinese is
    matched by characters. Where in its audio the agent says it is estimated (see `runners.recorder`).
    """

    kind: Literal["at_word"] = "at_word"
    word: str = Field(min_length=1)
    delay_s: float = Field(default=0.0, ge=0)
    max_wait_s: float = Field(ge=0)


class AfterGap(Record):
    """Start a fixed gap after the end of the previous cue."""

    kind: Literal["after_gap"] = "after_gap"
    gap_s: float = Field(ge=0)


Start = Annotated[AtTime | AfterTurn | AfterOnset | AtWord | AfterGap, Field(discriminator="kind")]


class Word(Record):
    """A word of a cue with its place in the cue, from forced alignment (never used for scoring)."""

    text: str
    start_s: float = Field(ge=0)
    end_s: float = Field(ge=0)


class Segment(Record):
    """One stretch of a cue as it was constructed: speech, or a designed silence of exact zeros.

    `mark` says which marker of the script it came from ('' for plain text). `start_s` and `end_s`
    are null until the audio is built.
    """

    kind: Literal["speech", "silence"]
    text: str = ""
    mark: str = ""
    start_s: float | None = Field(default=None, ge=0)
    end_s: float | None = Field(default=None, ge=0)
    words: tuple[Word, ...] = ()


class AudioRef(Record):
    """A clip inside the dataset folder: 24 kHz mono PCM16."""

    path: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    samples: int = Field(gt=0)

    @field_validator("path")
    @classmethod
    def _inside(cls, value: str) -> str:
        parts = value.split("/")
        if value.startswith("/") or "\\" in value or any(part in ("", ".", "..") for part in parts):
            raise ValueError(f"the audio path {value!r} must be relative and stay inside the dataset folder")
        return value

    @property
    def duration_s(self) -> float:
        return self.samples / RATE_HZ


class Cue(Record):
    """A user clip and when it starts.

    `text` is the script with its markers; `label` is free for a benchmark (a turn label, say);
    `track` lets two cues sound at once (a second user stream).
    """

    id: SafeId
    text: str
    speaker: str = ""
    label: str = ""
    track: int = Field(default=0, ge=0)
    audio: AudioRef | None = None
    segments: tuple[Segment, ...] = ()
    start: Start

    _safe = field_validator("id")(check_id)

    @property
    def duration_s(self) -> float | None:
        return self.audio.duration_s if self.audio else None


class Window(Record):
    """A named interval of interest, fixed to a cue: seconds after that cue's first sample.

    Null until the audio is built. `end_s` may lie after the cue's own end.
    """

    cue: str
    start_s: float | None = None
    end_s: float | None = None


class Ending(Record):
    """What is streamed after the last cue.

    Agents that announce turns: `tail_s` of silence, at most `max_wait_s` for the agent to finish,
    then `flush_s`. Continuous (frame-synchronous) agents get `continuous_s` of silence instead, and
    turn-based ones, once their answer has been played, `batch_s`.
    """

    tail_s: float = Field(default=0.5, ge=0)
    max_wait_s: float = Field(default=8.0, ge=0)
    flush_s: float = Field(default=1.5, ge=0)
    quiet_s: float = Field(default=1.0, ge=0)
    continuous_s: float | None = Field(default=5.0, ge=0)
    batch_s: float = Field(default=1.0, ge=0)


class PromptPart(Record):
    """A named part of the system prompt (persona, directive, contradiction, profile ...)."""

    name: str
    text: str


class Case(Record):
    """One trial as data.

    `conversation` groups cases that share a user side: the unit of resampling. `stream` names the
    user audio itself, which several conversations may share. `tags` are the labels by which people
    filter and group; `expect` is the benchmark's own part, validated by the benchmark.
    """

    id: SafeId
    benchmark: str
    conversation: str
    stream: str
    prompt: tuple[PromptPart, ...] = ()
    cues: tuple[Cue, ...] = Field(min_length=1)
    ending: Ending = Ending()
    windows: dict[str, Window] = {}
    expect: dict[str, Any] = {}
    tags: dict[str, str | int | float] = {}

    _safe = field_validator("id")(check_id)

    @model_validator(mode="after")
    def _consistent(self) -> Case:
        cue_ids = [cue.id for cue in self.cues]
        twice = sorted({cue_id for cue_id in cue_ids if cue_ids.count(cue_id) > 1})
        if twice:
            raise ValueError(f"the cue id {twice[0]!r} stands twice")
        for name, window in self.windows.items():
            if window.cue not in cue_ids:
                raise ValueError(f"window {name!r} is fixed to the cue {window.cue!r}, which the case does not have")
            if (window.start_s is None) != (window.end_s is None):
                raise ValueError(f"window {name!r} has only one of start_s and end_s")
            if window.start_s is not None and window.end_s <= window.start_s:
                raise ValueError(f"window {name!r} ends ({window.end_s} s) before it starts ({window.start_s} s)")
        return self

    @property
    def system_prompt(self) -> str:
        """The parts joined by one blank line, as the agent receives them."""
        return "\n\n".join(part.text for part in self.prompt)

    def cue(self, cue_id: str) -> Cue:
        return next(cue for cue in self.cues if cue.id == cue_id)


class Moment(Record):
    """A point relative to a cue: `offset_s` after its start, or after its end when `of` is 'end'."""

    cue: str
    offset_s: float = 0.0
    of: Literal["start", "end"] = "start"


class Move(Record):
    """What a scripted reference agent does: say `text` from `begin`, looped until `until` if given.

    A benchmark writes moves (what a perfect and a perfectly wrong agent would do); it knows nothing
    of the agent that carries them out.
    """

    begin: Moment
    text: str
    until: Moment | None = None
