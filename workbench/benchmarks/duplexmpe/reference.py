"""The reference agents of Duplex-MPE: the moves of the oracle and its contrary, and two that are told the words.

The moves use only the case: times relative to its cues. Whoever carries them out goes through the same runner,
detector and scorer as any other agent.

`NameSpotter` listens for its name and `TextReference` reads the turns. Both are privileged (they are given the case
and told when its cues start and end) and every record says so. They show what can be had from words alone: how far a
name goes, and how far reading goes.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from pydantic import Field

from workbench.agents.base import FRAME_SAMPLES, AgentError, Emit, Note, Session, Traits
from workbench.agents.scripted import VOICE, Voice
from workbench.benchmarks.duplexmpe.cases import ONSET_S, SILENT, YIELD_S, expectation
from workbench.cases import Case, Cue, Moment, Move
from workbench.chat.client import ChatClient, ChatSettings, ServerFault
from workbench.chat.messages import boundary_of, fence, schema
from workbench.chat.reading import Answer, AnswerError, read_reply
from workbench.errors import InputError
from workbench.files import data_path
from workbench.version import VERSION

TRYING = (
    "Let me see what I can find on that for you, it should not take me long at all, I am going through "
    "everything that I have on it right now and one of these is sure to tell us what you want to know"
)
CHATTER = (
    "and that reminds me of something else entirely that I would like to tell all of you about, because it "
    "has been on my mind the whole day and nobody has asked me about it so far"
)
WRONG = "nobody could possibly know a thing like that, so I would rather sing you a song about penguins"

ANSWER_S, TRY_S, YIELDED_S = 0.6, 0.5, 1.0
"""The oracle answers T so long after it, begins so long after N4_Q, stops so long into N4_R."""


def moves(case: Case, style: str) -> tuple[Move, ...]:
    """The moves of the 'oracle' (does what the case expects) or the 'contrary' agent (its opposite)."""
    return _oracle(case) if style == "oracle" else _contrary(case)


def _start(cue: Cue, offset_s: float = 0.0) -> Moment:
    return Moment(cue=cue.id, offset_s=offset_s)


def _end(cue: Cue, offset_s: float = 0.0) -> Moment:
    return Moment(cue=cue.id, of="end", offset_s=offset_s)


def _oracle(case: Case) -> tuple[Move, ...]:
    """Answers T with the gold answer, begins to answer N4_Q and gives way to N4_R; otherwise silent."""
    out, cues = [], case.cues
    for cue, after in zip(cues, (*cues[1:], None), strict=True):
        if cue.label == "T":
            out.append(Move(begin=_end(cue, ANSWER_S), text=expectation(case).gold))
        elif cue.label == "N4_Q" and after is not None:
            out.append(Move(begin=_end(cue, TRY_S), text=TRYING, until=_start(after, YIELDED_S)))
    return tuple(out)


def _contrary(case: Case) -> tuple[Move, ...]:
    """Talks into every turn that wants silence, is already talking (nonsense) as T ends and stops too
    late for anything new to begin in time, and talks on through N4_R."""
    out, cues = [], case.cues
    for cue, after in zip(cues, (*cues[1:], None), strict=True):
        if cue.label in SILENT:
            # Ends well before the next turn: N4_Q must find silence for its event to be eligible.
            out.append(Move(begin=_start(cue, 0.1), text=CHATTER, until=_end(cue, 0.3)))
        elif cue.label == "T":
            out.append(Move(begin=_end(cue, -0.6), text=WRONG, until=_end(cue, ONSET_S - 1.5)))
        elif cue.label == "N4_Q" and after is not None:
            last = max(after.duration_s + 0.4, YIELD_S + 0.4)
            out.append(Move(begin=_end(cue, TRY_S), text=CHATTER, until=_start(after, last)))
    return tuple(out)


# -- told the words ----------------------------------------------------------------------------------------

_DELAY_FRAMES = 20
"""Both begin 0.4 s after the end of the turn that they answer."""
_STOP_FRAMES = 25
"""The reader stops 0.5 s into a turn that somebody else begins."""


def words_of(cue: Cue) -> list[str]:
    """The words of a cue as they were aligned, else as they are written; lower case."""
    aligned = [word.text for segment in cue.segments for word in segment.words]
    return re.findall(r"[a-z']+", " ".join(aligned or [cue.text]).lower())


class NameSpotter:
    """Answers every turn in which its name is said, whatever is said about it, and no other.

    name : the word it listens for. text : what it says. It does not stop for anybody.
    """

    def __init__(self, name: str = "Aria", text: str = "Yes, I heard my name, here is what I can tell you about it."):
        if not re.fullmatch(r"[A-Za-z']+", name):
            raise InputError(f"The name {name!r} is not one word; give a word such as Aria.")
        self._name, self._text = name.lower(), text
        settings = {"voice": VOICE, "name": name, "hears": "the words of each turn, as built"}
        self.traits = Traits("name-spotter", VERSION, "input", privileged=True, settings=settings)

    async def open(self, session: Session, emit: Emit) -> None:
        self._case, self._speaker, self._wait = session.case, Voice(emit), -1

    async def cue(self, cue_id: str, phase: str) -> None:
        if phase == "end" and self._name in words_of(self._case.cue(cue_id)) and not self._speaker.speaking:
            self._wait = _DELAY_FRAMES

    async def send(self, frame: np.ndarray) -> None:
        self._wait -= 1
        if self._wait == 0:
            self._speaker.begin(self._text)
        if self._speaker.speaking:
            self._speaker.frame(loop=False)

    async def close(self) -> None: ...


class Decision(Answer):
    """What the reader decides after each turn."""

    speak: bool = Field(description="true to speak now, false to stay silent")
    words: str = Field(description="what to say, briefly; an empty string when silent")


class TextReference:
    """Reads each turn as it ends, with its speaker's name, and decides to speak or to stay silent.

    model : 'rules' (speaks when its name is used as an address in a question or a command; it knows no
        answers and says so), or a model at an OpenAI-compatible chat endpoint.
    base_url, key_env, temperature, max_tokens, timeout_s : of that endpoint, as for a judge.

    It stops half a second into somebody else's turn. On a virtual clock the time that a model takes to
    decide does not pass: it is a reference for decisions, not for latency.
    """

    def __init__(
        self,
        model: str = "rules",
        name: str = "Aria",
        base_url: str | None = None,
        key_env: str | None = None,
        temperature: float | None = 0.0,
        max_tokens: int = 200,
        timeout_s: float = 60.0,
    ):
        self._name, self._model = name, model
        settings: dict[str, Any] = {"voice": VOICE, "name": name, "model": model, "reads": "each turn as it ends"}
        self._settings = None
        if model != "rules":
            self._settings = ChatSettings(
                model=model, base_url=base_url, key_env=key_env, temperature=temperature, max_tokens=max_tokens,
                timeout_s=timeout_s, concurrency=1,
            )  # fmt: skip
            settings |= {"host": self._settings.host, **self._settings.parameters()}
        self.traits = Traits("text-reference", VERSION, "input", privileged=True, settings=settings)

    async def open(self, session: Session, emit: Emit) -> None:
        self._case, self._emit, self._speaker = session.case, emit, Voice(emit)
        self._read: list[str] = []
        self._wait, self._stop, self._words = -1, -1, ""
        turns = session.case.expect.get("turns") or ()
        self._who = {turn["cue"]: turn["speaker"] for turn in turns if isinstance(turn, dict)}
        self._client = ChatClient(self._settings) if self._settings else None

    async def cue(self, cue_id: str, phase: str) -> None:
        cue = self._case.cue(cue_id)
        if phase == "start":
            self._stop = _STOP_FRAMES
            self._wait = -1  # what was not begun is not begun over somebody
            return
        who = self._who.get(cue_id)
        self._read.append(f"{who}: {cue.text}" if who else cue.text)
        if who is None:
            return  # the duty preamble asks nothing
        said = await self._ask() if self._client else rule(cue.text, self._name)
        self._emit(Note("decided", {"cue": cue_id, "speaks": bool(said)}))
        if said and not self._speaker.speaking:
            self._words, self._wait = said, _DELAY_FRAMES

    async def _ask(self) -> str:
        text = "\n".join(self._read)
        boundary = boundary_of(text)
        prompt = data_path("duplexmpe", "prompts", "reference.md").read_text(encoding="utf-8")
        messages = [
            {"role": "system", "content": prompt.strip()},
            {"role": "user", "content": fence(text, boundary)},
        ]
        try:
            reply = await self._client.complete(messages, schema(Decision), "decision")
            given = read_reply(reply, Decision).answer
        except ServerFault as fault:
            raise AgentError("model_failed", str(fault), retry=not fault.fatal) from None
        except AnswerError as error:
            raise AgentError("model_unreadable", f"{self._model}: {error}", retry=True) from None
        return " ".join(given.words.split()) if given.speak else ""

    async def send(self, frame: np.ndarray) -> None:
        self._wait -= 1
        self._stop -= 1
        if self._wait == 0:
            self._speaker.begin(self._words)
        if self._speaker.speaking:
            left = max(0, self._stop) * FRAME_SAMPLES if self._stop >= 0 else None
            self._speaker.frame(loop=False, left=left)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.__aexit__(None, None, None)


_COMMANDS = frozenset(
    """add call check convert count find give help list look make multiply name open order play put read remind repeat
    search set show spell start stop tell time translate turn what when where which who how is are can could do does
    will would should add subtract divide""".split()
)


def rule(text: str, name: str) -> str:
    """What the rules say to one turn: a stock sentence, or '' to stay silent.

    The name is an address where it opens a sentence or stands between commas, a colon or the sentence's
    end; there must be a question mark after it or before it in the same turn, or a command word next to it.
    """
    lead = r"(?:hey|okay|so|please|um|uh|oh,? and)\s+"
    address = rf"(?:^|[.?!,;:-]\s*|\b{lead}){name}\s*[,.?!:-]|,\s*{name}\s*(?:$|[.?!])"
    found = re.search(address, text, re.IGNORECASE)
    if not found:
        return ""
    sentence = re.findall(r"[^.!?]+[.!?]?", text[max(0, found.start() - 200) :])
    after = re.findall(r"[a-z']+", text[found.end() :].lower())[:3]
    asks = any("?" in part for part in sentence) or bool(set(after) & _COMMANDS)
    return "I heard the question, but I only follow rules and do not know the answer." if asks else ""
