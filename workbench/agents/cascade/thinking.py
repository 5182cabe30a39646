"""An utterance on its way, from the decision to speak to its first sound."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np

from workbench.agents.base import AgentError
from workbench.agents.cascade import words as language
from workbench.agents.cascade.brain import Brain, Turn, replies, sentences
from workbench.agents.cascade.speaker import Speaker


@dataclass
class Pending:
    """What is being prepared: `kind` answer or interrupt, to begin at sample `due` of the stream.

    work : gives the sentences to say, and the first of them as sound.
    """

    kind: str
    words: list[str]
    due: int
    work: asyncio.Task[tuple[list[str], np.ndarray]]

    async def drop(self) -> None:
        """Give it up, the user having gone on talking; a failure that is already known still counts."""
        if self.work.done() and not self.work.cancelled() and isinstance(self.work.exception(), AgentError):
            raise self.work.exception()
        await self.close()

    async def close(self) -> None:
        self.work.cancel()
        await asyncio.gather(self.work, return_exceptions=True)


def start(brain: Brain, speaker: Speaker, turn: Turn, dictated: str, due: int) -> Pending:
    """Begin to prepare the reply to `turn`, or the read-back of what was `dictated` ('' for none)."""

    async def work() -> tuple[list[str], np.ndarray]:
        text = replies()["readback"].format(items=dictated) if dictated else await brain.reply(turn)
        pieces = sentences(text)
        if not pieces:
            raise AgentError("brain_failed", f"There is nothing in {text!r} that could be said.")
        return pieces, await speaker.render(pieces[0])

    return Pending(turn.kind, list(turn.words), due, asyncio.ensure_future(work()))


def dictation(words: list[str], chunks: list[int], wanted: bool, kind: str) -> str:
    """What is to be read back ('' for nothing)."""
    return language.dictated(words, chunks) if wanted and kind == "answer" else ""
