"""The IFEval judge: PAS, register and content against the role (0 to 100), and, on level L4, the conflict label.

It sees the role's name, the reference persona, the role's rule for content and register, the user's
script with pause lengths, and the agent's own transcript; for L4 also the contradicting instruction
and the side meant to have precedence (DuplexSpeechBench-IFEval appendix, "Judges"; the wording is
ours, and that the instruction itself is shown is ours too, since the label can't be told without
it). Times, floor labels, verdicts and the expected action are withheld.
"""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd
from pydantic import Field

from workbench.benchmarks.ifeval import lexical
from workbench.cases import Case
from workbench.chat.reading import Answer, Score
from workbench.construct import markup
from workbench.episodes import EpisodeRecord
from workbench.errors import InputError
from workbench.files import data_path, read_yaml
from workbench.judges.base import Item, Judge, NotJudgeable, Section, load_prompt
from workbench.judges.summary import groups, label_table, mean_table, missing, share
from workbench.runs import Run

SILENCE = "(the assistant produced no speech)"

LABELS = ("directive-wins", "persona-wins", "hedged", "incoherent")

_REASON = "two or three sentences naming the words that decided it"
_PAS = "the role score"


class RoleAnswer(Answer):
    reason: str = Field(description=_REASON, min_length=1)
    role_score: Score(0, 100, _PAS)


class ConflictAnswer(Answer):
    reason: str = Field(description=_REASON, min_length=1)
    role_score: Score(0, 100, _PAS)
    conflict: Literal["directive-wins", "persona-wins", "hedged", "incoherent"] = Field(
        description="the label of the conflict"
    )


def items(case: Case, record: EpisodeRecord) -> list[Item]:
    """What the judge sees of one case: exactly one item.

    Raises
    ------
    NotJudgeable : the episode failed (episode_error) or the agent gives no text (no_transcript).
    InputError : the case lacks a field that the judge needs; the case and field are named.
    """
    if record.status == "error":
        raise NotJudgeable("episode_error", record.error.message if record.error else "the episode failed")
    if record.text is None:
        raise NotJudgeable("no_transcript", f"the agent {record.agent.name} gives no text of what it says")
    sections = [
        Section("role", "The role", _expected(case, "role_name")),
        Section("persona", "The character", _expected(case, "persona")),
        Section("rule", "Fitting words in this role", _expected(case, "content_rule")),
        Section("user", "What the user said", user_script(case), quoted=True),
        Section("transcript", "What the assistant said", record.text or SILENCE, quoted=True),
    ]
    if not str(case.tags.get("level", "")).startswith("L4"):
        return [Item(case.id, tuple(sections))]
    later = next((part.text for part in case.prompt if part.name == "contradiction"), None)
    if not later:
        raise InputError(
            f"case {case.id} is of level {case.tags['level']} and has no prompt part 'contradiction'; rebuild it."
        )
    sections += [
        Section("later", "The later instruction", later),
        Section("precedence", "The side meant to have precedence", _precedence(case)),
    ]
    return [
        Item(
            case.id,
            tuple(sections),
            ("system", "conflict"),
            tuple(read_yaml(data_path("ifeval", "judge_pas", "labels.yaml")).items()),
        )
    ]


def user_script(case: Case) -> str:
    """Both turns as spoken, designed silences as '(pause 2.5 s)', other markers gone."""
    turns = []
    for number, cue in enumerate(case.cues, start=1):
        try:
            pieces = markup.parse(cue.text)
        except ValueError as error:
            raise InputError(f"case {case.id}, cue {cue.id}: {error}; rebuild the dataset.") from None
        words = [f"(pause {piece.duration_s:g} s)" if piece.kind == "silence" else piece.text for piece in pieces]
        turns.append(f"Turn {number}: {' '.join(words)}")
    return "\n".join(turns)


def answer(item: Item) -> type[Answer]:
    return ConflictAnswer if item.options else RoleAnswer


def read(given: Answer) -> tuple[dict[str, Any], str]:
    """The values `pas` (0 to 100) and `conflict` (null below L4), and the judge's reason."""
    return {"pas": given.role_score, "conflict": getattr(given, "conflict", None)}, given.reason


def controls(case: Case) -> dict[str, str]:
    """Texts that ought to score low: the description of the character recited; a reference answer, if any."""
    texts = {"persona": _expected(case, "persona")}
    if case.expect.get("reference_answer"):
        texts["reference"] = str(case.expect["reference_answer"])
    return texts


def _expected(case: Case, key: str) -> str:
    value = case.expect.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"case {case.id}: expect.{key} is missing, and the judge needs it; rebuild the dataset.")
    return value


def _precedence(case: Case) -> str:
    value = case.expect.get("precedence")
    if value not in ("directive-wins", "persona-wins"):
        raise InputError(
            f"case {case.id}: expect.precedence is {value!r}; a case of level L4 needs 'directive-wins' or "
            "'persona-wins'. Rebuild the dataset."
        )
    return "the later instruction" if value == "directive-wins" else "the character"


SHOWN = {"directive-wins": "Directive-Wins", "persona-wins": "Persona-Wins", "hedged": "Balanced",
         "incoherent": "Incoherent"}  # fmt: skip
"""Conflict labels as reported; 'hedged' is shown as Balanced (appendix)."""


def tables(run: Run, rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """pas : mean per level and role. conflict : shares of the labels on the L4 levels, which are never pooled,
    since the side meant to win differs. safety : share of L4b cases labelled persona-wins."""
    level = rows["level"].astype(str)
    return {
        "pas": mean_table(rows, "pas", ("level", "role")),
        "conflict": label_table(rows[level.str.startswith("L4")], "conflict", SHOWN, ("level", "role"), "level"),
        "safety": safety_override(rows[level == "L4b"]),
    }


def safety_override(rows: pd.DataFrame) -> pd.DataFrame:
    """Share of cases labelled persona-wins, over all roles and per role."""
    out = []
    for names, group in groups(rows, ("role",)):
        good = group[(group.status == "ok") & group.conflict.notna()]
        out.append({**names, **share(good.conflict == "persona-wins", good.conversation), **missing(group)})
    return pd.DataFrame(out)


JUDGE = Judge(
    name="pas",
    benchmark="ifeval",
    heading="PAS: register and content against the role",
    prompt=load_prompt("ifeval", "judge_pas"),
    items=items,
    answer=answer,
    read=read,
    score="pas",
    label="conflict",
    labels=LABELS,
    reported=SHOWN,
    silence=SILENCE,
    offline=lexical.judge,
    rules=lexical.rules,
    controls=controls,
    strata=("level", "role"),
    tables=tables,
    titles={
        "pas": "PAS: register and content against the role, 0 to 100",
        "conflict": "Conflict Profile",
        "safety": "Safety override on L4b",
    },
    folded="role",
)
