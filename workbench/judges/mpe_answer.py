"""The Duplex-MPE answer judge: is what the assistant said in T's response window right?

It sees the request, the conversation before it, the gold answer with phrasings that are right, and
the assistant's words. Times, verdicts and the version (explicit or implicit) are withheld, though the
request's wording shows the last. 'offline-lexical' looks for one of the phrasings, whole and in order.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field

from workbench.cases import Case
from workbench.chat.reading import Answer
from workbench.episodes import EpisodeRecord
from workbench.errors import InputError
from workbench.judges.base import Item, Judge, NotJudgeable, Section
from workbench.judges.prompts import load_prompt
from workbench.judges.spoken import timed_words, words_between

LABELS = ("correct", "incorrect")
_BEFORE = 6


class AnswerVerdict(Answer):
    reason: str = Field(description="one sentence naming the words that decided it", min_length=1)
    answer: Literal["correct", "incorrect"] = Field(description="whether the answer is right")


def items(case: Case, record: EpisodeRecord) -> list[Item]:
    """The response to T as one item, named by the turn's position.

    Raises
    ------
    NotJudgeable : episode_error, no_transcript, not_played, or no_answer when nothing was said after T.
    InputError : the case is not of this benchmark's making.
    """
    refuse_unusable(record)
    index = target_of(case)
    turns = case.expect["turns"]
    cue, later = record.cue(turns[index]["cue"]), turns[index + 1 : index + 2]
    if cue is None or cue.end_s is None:
        raise NotJudgeable("not_played", "the request was not played")
    after = record.cue(later[0]["cue"]) if later else None
    end_s = after.start_s if after is not None and after.start_s is not None else record.duration_s
    said = words_between(timed_words(record), cue.end_s, end_s)
    if not said:
        raise NotJudgeable("no_answer", "the assistant said nothing after the request")
    before = [spoken(case, place) for place in range(max(0, index - _BEFORE), index)]
    sections = (
        Section("before", "What was said before", "\n".join(before), quoted=True),
        Section("request", "The request", spoken(case, index), quoted=True),
        Section("gold", "The right answer", case.expect["gold"]),
        Section("accept", "Phrasings that are right", "\n".join(f"- {text}" for text in case.expect["accept"])),
        Section("transcript", "What the assistant said", said, quoted=True),
    )
    return [Item(case.id, sections, item=str(index))]


def refuse_unusable(record: EpisodeRecord) -> None:
    if record.status == "error":
        raise NotJudgeable("episode_error", record.error.message if record.error else "the episode failed")
    if record.transcript is None:
        raise NotJudgeable("no_transcript", f"the agent {record.agent.name} gives no text of what it says")


def target_of(case: Case) -> int:
    turns = case.expect.get("turns")
    if not isinstance(turns, list | tuple) or not {"gold", "accept"} <= set(case.expect):
        raise InputError(f"case {case.id}: expect lacks turns, gold or accept, which the judge needs; rebuild it.")
    found = [index for index, turn in enumerate(turns) if turn["label"] == "T"]
    if len(found) != 1:
        raise InputError(f"case {case.id} has {len(found)} turns labelled T, and the judge needs one; rebuild it.")
    return found[0]


def spoken(case: Case, index: int) -> str:
    """One turn with its speaker's name."""
    turn = case.expect["turns"][index]
    return f"{turn['speaker']}: {case.cue(turn['cue']).text}"


def read(given: AnswerVerdict) -> tuple[dict[str, Any], str]:
    return {"answer": given.answer}, given.reason


def offline(item: Item) -> tuple[dict[str, Any], str]:
    """Correct when one of the phrasings, or the gold answer, stands in the words."""
    said = normal(item.text("transcript") or "")
    phrasings = [line.removeprefix("- ") for line in (item.text("accept") or "").splitlines()]
    for phrasing in (*phrasings, item.text("gold") or ""):
        wanted = normal(phrasing)
        if wanted and f" {wanted} " in f" {said} ":
            return {"answer": "correct"}, f"By words, not understanding: {phrasing!r} is there."
    return {"answer": "incorrect"}, "By words, not understanding: none of the phrasings is there."


def normal(text: str) -> str:
    """Lower case, letters, digits and inner decimal points; everything else is a space."""
    return " ".join(re.findall(r"[a-z0-9]+(?:[.:][0-9]+)*", text.lower().replace("'", "").replace("\u2019", "")))


def _tables(run: Any, rows: Any) -> dict[str, Any]:
    from workbench.benchmarks.duplexmpe.judged import answer_tables

    return answer_tables(run, rows)


JUDGE = Judge(
    name="mpe_answer",
    benchmark="duplex-mpe",
    prompt=load_prompt("mpe_answer"),
    items=items,
    answer=lambda item: AnswerVerdict,
    read=read,
    score=None,
    label="answer",
    labels=LABELS,
    silence="(the assistant produced no speech)",
    offline=offline,
    rules=lambda: f"{__doc__}\n{offline.__doc__}",
    controls=lambda case: {"request": spoken(case, target_of(case))},
    tables=_tables,
)
