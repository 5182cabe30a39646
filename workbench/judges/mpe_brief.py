"""The Duplex-MPE acknowledgement judge: is speech in a silence window brief, or does it take the floor?

One item for each N1, N2 or N3 window in which the assistant has words. Brief means phatic: it adds no
information and leaves the floor where it is. How long it lasted is measured elsewhere and withheld.
'offline-lexical': at most six words, all of them acknowledgements (data/judges/offline/mpe_brief.yaml).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from pydantic import Field

from workbench.cases import Case
from workbench.chat.reading import Answer
from workbench.episodes import EpisodeRecord
from workbench.judges.base import Item, Judge, NotJudgeable, Section
from workbench.judges.mpe_answer import normal, refuse_unusable, spoken
from workbench.judges.prompts import load_prompt
from workbench.judges.spoken import timed_words, words_between
from workbench.shipped import data_path, read_yaml

LABELS = ("brief", "floor")
TAIL_S = 0.5
"""The window of a silent turn reaches this far past it."""
_BEFORE = 4


class BriefVerdict(Answer):
    reason: str = Field(description="one sentence naming the words that decided it", min_length=1)
    kind: Literal["brief", "floor"] = Field(description="brief acknowledgement, or taking the floor")


def items(case: Case, record: EpisodeRecord) -> list[Item]:
    """One item for each silence window with words, named by the turn's position.

    Raises
    ------
    NotJudgeable : episode_error, no_transcript, or nothing_said in any of the windows.
    """
    refuse_unusable(record)
    words = timed_words(record)
    out = []
    for index, turn in enumerate(case.expect["turns"]):
        cue = record.cue(turn["cue"])
        if turn["label"] not in ("N1", "N2", "N3") or cue is None or cue.start_s is None:
            continue
        said = words_between(words, cue.start_s, cue.end_s + TAIL_S)
        if said:
            before = [spoken(case, place) for place in range(max(0, index - _BEFORE), index)]
            sections = (
                Section("before", "What was said before", "\n".join(before) or "(nothing)", quoted=True),
                Section("turn", "The turn during which the assistant spoke", spoken(case, index), quoted=True),
                Section("transcript", "What the assistant said", said, quoted=True),
            )
            out.append(Item(case.id, sections, item=str(index)))
    if not out:
        raise NotJudgeable("nothing_said", "the assistant has no words in any window of silence")
    return out


def read(given: BriefVerdict) -> tuple[dict[str, Any], str]:
    return {"kind": given.kind}, given.reason


@cache
def lexicon() -> tuple[int, frozenset[str]]:
    raw = read_yaml(data_path("judges", "offline", "mpe_brief.yaml"))
    return int(raw["most_words"]), frozenset(normal(raw["words"]).split())


def offline(item: Item) -> tuple[dict[str, Any], str]:
    most, known = lexicon()
    said = normal(item.text("transcript") or "").split()
    strange = [word for word in said if word not in known]
    if len(said) <= most and not strange:
        return {"kind": "brief"}, f"By word lists, not understanding: {len(said)} words, all acknowledgements."
    why = f"{len(said)} words" if not strange else f"{strange[0]!r} is no acknowledgement"
    return {"kind": "floor"}, f"By word lists, not understanding: {why}."


def rules() -> str:
    return f"{__doc__}\n{data_path('judges', 'offline', 'mpe_brief.yaml').read_text(encoding='utf-8')}"


def _tables(run: Any, rows: Any) -> dict[str, Any]:
    from workbench.benchmarks.duplexmpe.judged import silence_tables

    return silence_tables(run, rows)


JUDGE = Judge(
    name="mpe_brief",
    benchmark="duplex-mpe",
    prompt=load_prompt("mpe_brief"),
    items=items,
    answer=lambda item: BriefVerdict,
    read=read,
    score=None,
    label="kind",
    labels=LABELS,
    silence="(the assistant produced no speech)",
    offline=offline,
    rules=rules,
    controls=lambda case: {"answer": str(case.expect["gold"])},
    tables=_tables,
)
