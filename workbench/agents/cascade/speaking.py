"""What to say and saying it: the brain, an utterance on its way, and the voice.

Time is counted in samples of the user's stream. An utterance begins to play with the frame in which
its first sample is delivered.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from workbench.agents.base import FRAME_SAMPLES, AgentError, AudioOut, Emit, Interrupted, Note, Text, TurnEnd
from workbench.agents.cascade import words as language
from workbench.audio import to_pcm16
from workbench.cases import RATE_HZ
from workbench.construct.speech import SpeechCache
from workbench.errors import InputError
from workbench.files import data_path, read_yaml

LONGEST_CHARACTERS = 1200
GUIDANCE = (
    "You are on a live voice call. Answer in one to three short spoken sentences unless a longer explanation is asked "
    "for; plain words only, no lists, no markup. The user's words come from a speech recogniser and may be misheard."
)
BREAKING_IN = "(The user is still talking. You break in now: one short sentence.)"
GAP_S = 0.12
"""Silence between two sentences of one utterance."""
_BURST_SAMPLES = RATE_HZ // 10
_rendering = threading.Lock()  # the synthesiser is shared by all sessions of the process


@lru_cache(maxsize=1)
def replies() -> dict:
    return read_yaml(data_path("cascade", "replies.yaml"))


@dataclass(frozen=True)
class Turn:
    """What a brain answers: the user's words in this turn, why it is asked, and what went before.

    history : (role, text) with role 'user' or 'assistant', oldest first; what was cut is not in it.
    """

    words: Sequence[str]
    kind: Literal["answer", "interrupt"]
    system_prompt: str
    history: Sequence[tuple[str, str]]


class RuleBrain:
    """Canned sentences chosen by the form of what was heard. It understands nothing.

    A brain's `settings` go into every record; `reported` is what an endpoint said about itself.
    """

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {"brain": "built-in rules (canned sentences, no language model)"}
        self.reported: dict[str, Any] = {}

    async def reply(self, turn: Turn) -> str:
        known = replies()[self._kind(turn)]
        lines = known if isinstance(known, list) else [known]
        line = lines[len(turn.history) // 2 % len(lines)]
        return line.format(topic=language.topic(turn.words), danger=language.danger_in(turn.words))

    def _kind(self, turn: Turn) -> str:
        if turn.kind == "interrupt":
            return "danger"
        if not turn.words:
            return "not_heard"
        if language.asks_for_explanation(turn.words):
            return "explanation"
        if language.is_question(turn.words):
            return "question"
        return "greeting" if not turn.history and len(turn.words) < 4 else "statement"

    async def close(self) -> None: ...


class ChatBrain:
    """A chat completion for each turn, tried twice at most: a caller waits.

    model, base_url : an empty base_url is OPENAI_BASE_URL's, else OpenAI's own.
    key_env : name of the environment variable that holds the key; '' sends OPENAI_API_KEY, to OpenAI only.
    timeout_s : seconds for one answer.
    """

    def __init__(self, model: str, base_url: str, key_env: str, timeout_s: float):
        from workbench.chat.client import ChatClient, ChatSettings  # takes a while, and most cascades need none

        settings = ChatSettings(
            model, base_url or None, key_env or None, temperature=None, max_tokens=None, schema=False,
            timeout_s=timeout_s, tries=2,
        )  # fmt: skip
        self._client, self._model, self._where = ChatClient(settings), model, settings.url
        self.settings: dict[str, Any] = {"brain": "chat", "model": model, "base_url": base_url, "timeout_s": timeout_s}
        self.reported: dict[str, Any] = {}

    async def reply(self, turn: Turn) -> str:
        from workbench.chat.client import ServerFault

        heard = " ".join(turn.words) or "(speech that could not be made out)"
        if turn.kind == "interrupt":
            heard += f" ...\n{BREAKING_IN}"
        said = [("system", f"{turn.system_prompt}\n\n{GUIDANCE}".strip()), *turn.history, ("user", heard)]
        try:
            answer = await self._client.complete([{"role": role, "content": text} for role, text in said])
        except ServerFault as fault:
            raise self._failed(str(fault), fault.retry) from None
        self.reported = {"model": answer.model}
        text = speakable(answer.text)
        if not text:
            raise self._failed("gave an answer with no words in it", False)
        return text

    def _failed(self, what: str, retry: bool) -> AgentError:
        message = f"The chat model {self._model!r} at {self._where} failed: {what}"
        return AgentError("brain_failed", message, retry=retry)

    async def close(self) -> None:
        await self._client.__aexit__(None, None, None)


def speakable(text: str) -> str:
    """Model output as plain sentences: markup and characters that no voice reads are dropped."""
    text = re.sub(r"[*_`#>|~\[\]{}<]+", " ", text)
    text = "".join(c for c in text if c.isalnum() or c.isspace() or c in ".,!?;:'\"%$&()/-\u2019\u2013\u2014")
    text = " ".join(text.split())
    return text[:LONGEST_CHARACTERS] if any(c.isalnum() for c in text) else ""


def sentences(text: str, longest: int = 160) -> list[str]:
    """The text in pieces that can be synthesised one by one; long sentences part at commas."""
    found = []
    for sentence in re.split(r"(?<=[.!?])\s+", text.strip()):
        while len(sentence) > longest:
            at = max(sentence.rfind(mark, 0, longest) for mark in (", ", "; ", " "))
            if at <= 0:
                break
            found.append(sentence[: at + 1].strip())
            sentence = sentence[at + 1 :].strip()
        found.append(sentence)
    return [sentence for sentence in found if any(c.isalnum() for c in sentence)]


class Speaker:
    """Says one utterance at a time: sentences rendered one ahead, delivered on the stream's time.

    lead_s : how far delivery runs ahead of playing: 0 gives 20 ms each frame, more gives bursts as
        hosted services send them.

    Attributes
    ----------
    saying : the kind of the utterance that is playing ('' when none is).
    started : position, in samples of the stream, at which it began to play.
    delivered : whether all of it has been delivered.
    """

    def __init__(self, emit: Emit, cache: SpeechCache, voice: str, lead_s: float):
        self._emit, self._cache, self._voice = emit, cache, voice
        self._lead = round(lead_s * RATE_HZ)
        self._count = 0
        self.saying = ""
        self.started = 0
        self.delivered = True
        self._waiting: list[str] = []
        self._next: asyncio.Task | None = None

    @property
    def item(self) -> str:
        return f"utterance_{self._count}"

    async def render(self, text: str) -> np.ndarray:
        """Int16 (samples,) at 24 kHz, read-only. Raises AgentError when the voice cannot say it."""
        try:
            return await asyncio.to_thread(self._render, text)
        except InputError as error:
            raise AgentError("speech_failed", str(error)) from None

    def _render(self, text: str) -> np.ndarray:
        with _rendering:
            return to_pcm16(self._cache.render(text, self._voice).samples)

    def begin(self, kind: str, pieces: list[str], first: np.ndarray, position: int) -> None:
        """Start saying `pieces` (sentences), of which `first` is rendered already, at `position`."""
        self._count += 1
        self.saying, self.started, self.delivered = kind, position, False
        self._samples = np.zeros(0, np.int16)
        self._words: list[tuple[int, str]] = []  # with the sample at which each is said, by its share of the sentence
        self._sent = self._told = 0
        self._append(pieces[0], first)
        self._waiting = list(pieces[1:])
        self._prefetch()

    def _append(self, sentence: str, samples: np.ndarray) -> None:
        gap = round(GAP_S * RATE_HZ) if self._samples.size else 0
        begin, length, said = self._samples.size + gap, max(1, len(sentence)), 0
        for word in sentence.split():
            self._words.append((begin + round(samples.size * said / length), word + " "))
            said += len(word) + 1
        self._samples = np.concatenate([self._samples, np.zeros(gap, np.int16), samples])

    def _prefetch(self) -> None:
        self._next = asyncio.ensure_future(self.render(self._waiting[0])) if self._waiting else None

    async def frame(self, position: int) -> None:
        """Deliver what is due at `position` (the end of the latest frame of the stream)."""
        if not self.saying:
            return
        due = position - self.started + FRAME_SAMPLES + self._lead
        while self._next is not None and due > self._samples.size:
            rendered = await self._next
            self._append(self._waiting.pop(0), rendered)
            self._prefetch()
        while self._sent < min(due, self._samples.size):
            size = min(_BURST_SAMPLES if self._lead else FRAME_SAMPLES, due - self._sent)
            part = self._samples[self._sent : self._sent + size]
            self._sent += part.size
            while self._told < len(self._words) and self._words[self._told][0] < self._sent:
                self._emit(Text(self._words[self._told][1], self.item))
                self._told += 1
            self._emit(AudioOut(part, self.item))
        if not self.delivered and self._next is None and self._sent >= self._samples.size:
            self.delivered = True
            # A backchannel is no turn: whoever waits for the agent's turn must go on waiting.
            backchannel = self.saying == "backchannel"
            self._emit(Note("utterance_end", {"item": self.item}) if backchannel else TurnEnd(self.item))
        if self.delivered and position - self.started >= self._samples.size:
            self.saying = ""

    async def stop(self, position: int) -> str:
        """Fall silent at once; give the words of the utterance that had begun to play by `position`."""
        self._emit(Interrupted(self.item))
        self.saying = ""
        await self.close()
        played = position - self.started
        return "".join(word for at, word in self._words if at < played).strip()

    async def close(self) -> None:
        self._waiting = []
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
            self._next = None


class Pending:
    """A reply being prepared, from the decision to speak to its first sound, at sample `due` of the stream.

    dictated : what is read back instead of asking the brain ('' for nothing).
    work : gives the sentences to say, and the first of them as sound.
    """

    def __init__(self, brain: RuleBrain | ChatBrain, speaker: Speaker, turn: Turn, dictated: str, due: int):
        self.kind, self.words, self.due = turn.kind, list(turn.words), due

        async def prepare() -> tuple[list[str], np.ndarray]:
            text = replies()["readback"].format(items=dictated) if dictated else await brain.reply(turn)
            pieces = sentences(text)
            if not pieces:
                raise AgentError("brain_failed", f"There is nothing in {text!r} that could be said.")
            return pieces, await speaker.render(pieces[0])

        self.work = asyncio.ensure_future(prepare())

    async def drop(self) -> None:
        """Give it up, the user having gone on talking; a failure that is already known still counts."""
        if self.work.done() and not self.work.cancelled() and isinstance(self.work.exception(), AgentError):
            raise self.work.exception()
        await self.close()

    async def close(self) -> None:
        self.work.cancel()
        await asyncio.gather(self.work, return_exceptions=True)
