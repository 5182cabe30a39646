"""What to say: any OpenAI-compatible chat endpoint, or a few built-in rules that say so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Protocol

from workbench.agents.base import AgentError
from workbench.agents.cascade import words as language
from workbench.files import data_path, read_yaml

LONGEST_CHARACTERS = 1200
GUIDANCE = (
    "You are on a live voice call. Answer in one to three short spoken sentences unless a longer explanation is asked "
    "for; plain words only, no lists, no markup. The user's words come from a speech recogniser and may be misheard."
)
BREAKING_IN = "(The user is still talking. You break in now: one short sentence.)"


@dataclass(frozen=True)
class Turn:
    """What a brain answers: the user's words in this turn, why it is asked, and what went before.

    history : (role, text) with role 'user' or 'assistant', oldest first; what was cut is not in it.
    """

    words: Sequence[str]
    kind: Literal["answer", "interrupt"]
    system_prompt: str
    history: Sequence[tuple[str, str]]


class Brain(Protocol):
    """`settings` goes into every record; `reported` is what an endpoint said about itself."""

    settings: dict[str, Any]
    reported: dict[str, Any]

    async def reply(self, turn: Turn) -> str:
        """The text to say, never empty. Raises AgentError when there is none."""

    async def close(self) -> None: ...


@lru_cache(maxsize=1)
def replies() -> dict:
    return read_yaml(data_path("cascade", "replies.yaml"))


class RuleBrain:
    """Canned sentences chosen by the form of what was heard. It understands nothing."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {"brain": "built-in rules (canned sentences, no language model)"}
        self.reported: dict[str, Any] = {}

    async def reply(self, turn: Turn) -> str:
        known, count = replies(), len(turn.history)
        kind = self._kind(turn)
        lines = known[kind] if isinstance(known[kind], list) else [known[kind]]
        line = lines[count // 2 % len(lines)]
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

        try:
            answer = await self._client.complete(self._messages(turn))
        except ServerFault as fault:
            raise self._failed(str(fault), fault.retry) from None
        self.reported = {"model": answer.model}
        text = speakable(answer.text)
        if not text:
            raise self._failed("gave an answer with no words in it", False)
        return text

    def _messages(self, turn: Turn) -> list[dict[str, str]]:
        heard = " ".join(turn.words) or "(speech that could not be made out)"
        if turn.kind == "interrupt":
            heard += f" ...\n{BREAKING_IN}"
        system = f"{turn.system_prompt}\n\n{GUIDANCE}".strip()
        past = [{"role": role, "content": text} for role, text in turn.history]
        return [{"role": "system", "content": system}, *past, {"role": "user", "content": heard}]

    def _failed(self, what: str, retry: bool) -> AgentError:
        return AgentError(
            "brain_failed", f"The chat model {self._model!r} at {self._where} failed: {what}", retry=retry
        )

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
