"""The judges of Duplex-MPE, and what they add: answer accuracy, and silence preservation decided by the words.

mpe_answer reads what the assistant said in T's response window: the request, the conversation before it, the
gold answer with phrasings that are right, and the assistant's words. mpe_brief reads each N1, N2 or N3 window
in which the assistant has words: brief means phatic, it adds no information and leaves the floor where it is.
Times, verdicts and the version (explicit or implicit) are withheld, though a request's wording shows the last.

Offline, by words and not understanding: an answer is correct when one of the phrasings, or the gold answer,
stands in it whole and in order, and it does not guess (data/duplexmpe/judge_answer_offline.yaml); speech is
brief when it is at most six words, all of them acknowledgements
(data/duplexmpe/judge_brief_offline.yaml).

Accuracy is conditional: its denominator is the T requests with any spoken response (response presence by the
detector) that a judge has read. Silence windows without speech pass without a judge; those with speech pass
when the judge calls it brief. What no judge has read is excluded and counted.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from workbench.benchmarks.duplexmpe.cases import BUCKETS, SILENT, TAIL_S
from workbench.benchmarks.duplexmpe.tables import VERSIONS, in_version, joined, pair_tests, rate_tables
from workbench.cases import Case
from workbench.chat.reading import Answer
from workbench.episodes import EpisodeRecord, timed_words, words_between
from workbench.errors import InputError
from workbench.files import data_path, read_yaml
from workbench.judges.base import Item, Judge, NotJudgeable, Part, load_prompt, refuse_unusable
from workbench.runs import Run
from workbench.statistics.slices import Slice, outcomes
from workbench.text import phrase

SILENCE = "(the assistant produced no speech)"
_BEFORE_ANSWER, _BEFORE_BRIEF = 6, 4
"""So many turns before the one in question are shown."""


class AnswerVerdict(Answer):
    reason: str = Field(description="one sentence naming the words that decided it", min_length=1)
    answer: Literal["correct", "incorrect"] = Field(description="whether the answer is right")


class BriefVerdict(Answer):
    reason: str = Field(description="one sentence naming the words that decided it", min_length=1)
    kind: Literal["brief", "floor"] = Field(description="brief acknowledgement, or taking the floor")


def answer_items(case: Case, record: EpisodeRecord) -> list[Item]:
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
    sections = (
        Part("before", "What was said before", _before(case, index, _BEFORE_ANSWER), quoted=True),
        Part("request", "The request", spoken(case, index), quoted=True),
        Part("gold", "The right answer", case.expect["gold"]),
        Part("accept", "Phrasings that are right", "\n".join(f"- {text}" for text in case.expect["accept"])),
        Part("transcript", "What the assistant said", said, quoted=True),
    )
    return [Item(case.id, sections, item=str(index))]


def brief_items(case: Case, record: EpisodeRecord) -> list[Item]:
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
        if turn["label"] not in SILENT or cue is None or cue.start_s is None:
            continue
        said = words_between(words, cue.start_s, cue.end_s + TAIL_S)
        if said:
            before = _before(case, index, _BEFORE_BRIEF)
            sections = (
                Part("before", "What was said before", before or "(nothing)", quoted=True),
                Part("turn", "The turn during which the assistant spoke", spoken(case, index), quoted=True),
                Part("transcript", "What the assistant said", said, quoted=True),
            )
            out.append(Item(case.id, sections, item=str(index)))
    if not out:
        raise NotJudgeable("nothing_said", "the assistant has no words in any window of silence")
    return out


def target_of(case: Case) -> int:
    """The position of T among the turns."""
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


def _before(case: Case, index: int, count: int) -> str:
    return "\n".join(spoken(case, place) for place in range(max(0, index - count), index))


# -- without a model ---------------------------------------------------------------------------------------


def answer_offline(item: Item) -> tuple[dict[str, Any], str]:
    """Correct when one of the phrasings, or the gold answer, stands in the words, and they do not name others of
    its kind (weekdays, months, numbers) besides those of the conversation: who names all seven days knows none."""
    said = phrase(item.text("transcript") or "")
    accept = [line.removeprefix("- ") for line in (item.text("accept") or "").splitlines()]
    answers = [*accept, item.text("gold") or ""]
    known = set(phrase(" ".join([*answers, item.text("request") or "", item.text("before") or ""])).split())
    for answer in answers:
        wanted = phrase(answer)
        if not wanted or f" {wanted} " not in f" {said} ":
            continue
        most, all_kinds = _kinds()
        for kind in all_kinds:
            others = kind & set(said.split()) - known
            if len(others) > most and kind & set(wanted.split()):
                why = f"{answer!r} is there, and so are {len(others)} others of its kind."
                return {"answer": "incorrect"}, f"By words, not understanding: {why}"
        return {"answer": "correct"}, f"By words, not understanding: {answer!r} is there."
    return {"answer": "incorrect"}, "By words, not understanding: none of the phrasings is there."


@cache
def _kinds() -> tuple[int, tuple[frozenset[str], ...]]:
    """How many others of one kind of word an answer may name, and the kinds."""
    raw = read_yaml(data_path("duplexmpe", "judge_answer_offline.yaml"))
    return int(raw["most_others"]), tuple(frozenset(phrase(names).split()) for names in raw["kinds"])


def brief_offline(item: Item) -> tuple[dict[str, Any], str]:
    """Brief when it is few words and all of them acknowledgements."""
    most, known = _lexicon()
    said = phrase(item.text("transcript") or "").split()
    strange = [word for word in said if word not in known]
    if len(said) <= most and not strange:
        return {"kind": "brief"}, f"By word lists, not understanding: {len(said)} words, all acknowledgements."
    why = f"{len(said)} words" if not strange else f"{strange[0]!r} is no acknowledgement"
    return {"kind": "floor"}, f"By word lists, not understanding: {why}."


@cache
def _lexicon() -> tuple[int, frozenset[str]]:
    raw = read_yaml(data_path("duplexmpe", "judge_brief_offline.yaml"))
    return int(raw["most_words"]), frozenset(phrase(raw["words"]).split())


def rules() -> str:
    """The rules of both offline baselines, in full."""
    files = (data_path("duplexmpe", f"judge_{name}_offline.yaml") for name in ("answer", "brief"))
    return "\n".join((__doc__ or "", *(path.read_text(encoding="utf-8") for path in files)))


# -- tables ------------------------------------------------------------------------------------------------


def answer_tables(run: Run, rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """accuracy (by version and by bucket) and accuracy_pairs (explicit against implicit).

    rows : one row an item of the judge mpe_answer (see `judges.summary.case_rows`). Presence is decided under
    the run's own thresholds. A T without a spoken response is not eligible: outside the denominator by
    definition; one whose response no judge has read is unmeasurable.
    """
    frame, given = _with_word(run, rows, "response_presence", "answer")
    presence = frame["verdict"].to_numpy(str)
    read = given.map({"correct": "pass", "incorrect": "fail"}).fillna("unmeasurable").to_numpy(str)
    verdict = np.select([presence == "pass", presence == "fail"], [read, "not_eligible"], "unmeasurable")
    frame = _with_outcome(frame.assign(metric="answer_accuracy"), verdict)
    slices = [Slice("accuracy", {"metric": "answer_accuracy", "version": version}, in_version(frame, version))
              for version in VERSIONS]  # fmt: skip
    buckets = frame["bucket"].to_numpy()
    slices += [
        Slice("accuracy_by_bucket", {"bucket": f"quarter {bucket}"}, buckets == bucket)
        for bucket in BUCKETS
        if (buckets == bucket).any()
    ]
    return {**rate_tables(frame, slices), "accuracy_pairs": pair_tests(frame)}


def silence_tables(run: Run, rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """judged_silence (by version), judged_silence_by_label, and how often the run's own duration rule agrees.

    rows : one row an item of the judge mpe_brief.
    """
    frame, given = _with_word(run, rows, "silence", "kind")
    read = given.map({"brief": "pass", "floor": "fail"}).fillna("unmeasurable").to_numpy(str)
    speech, most = (pd.to_numeric(frame[name]).to_numpy(float) for name in ("speech_s", "most_s"))
    verdict = np.select([np.isnan(speech), most == 0], ["unmeasurable", "pass"], read)
    frame = _with_outcome(frame.assign(by_duration=frame["verdict"]), verdict)
    label = frame["turn_label"].to_numpy(str)
    slices = [Slice("judged_silence", {"metric": "silence", "version": version}, in_version(frame, version))
              for version in VERSIONS]  # fmt: skip
    slices += [Slice("judged_silence_by_label", {"turn_label": name}, label == name) for name in SILENT]
    made = rate_tables(frame, slices)
    both = frame[frame["outcome"].notna() & frame["by_duration"].isin(["pass", "fail"]) & (frame["speech_s"] > 0)]
    judged = both["outcome"].map({1.0: "brief", 0.0: "floor"})
    duration = both["by_duration"].map({"pass": "brief", "fail": "floor"})
    counts = pd.crosstab(judged, duration).reindex(index=["brief", "floor"], columns=["brief", "floor"], fill_value=0)
    counts = counts.rename_axis(index="by the judge").rename(columns=lambda name: f"{name} by duration").reset_index()
    return {**made, "judge_and_duration": counts.rename_axis(None, axis=1), "silence_pairs": pair_tests(frame)}


def _with_word(run: Run, rows: pd.DataFrame, metric: str, value: str) -> tuple[pd.DataFrame, pd.Series]:
    """The run's rows of one metric with their verdicts, and what the judge said of each; null: nothing."""
    frame = joined(run.measurements, run.verdicts())
    frame = frame[frame["metric"] == metric].reset_index(drop=True)
    good = rows[(rows["status"] == "ok") & rows[value].notna()]
    said = dict(zip(zip(good["case"], good["item"], strict=True), good[value], strict=True))
    return frame, pd.Series([said.get(key) for key in zip(frame["case"], frame["event"], strict=True)], dtype=object)


def _with_outcome(frame: pd.DataFrame, verdict: np.ndarray) -> pd.DataFrame:
    return frame.assign(verdict=verdict, outcome=outcomes(verdict))


_judge = partial(Judge, benchmark="duplex-mpe", score=None, silence=SILENCE, rules=rules, strata=("condition",))

JUDGES = (
    _judge(
        name="mpe_answer", heading="Answers to the request", prompt=load_prompt("duplexmpe", "judge_answer"),
        items=answer_items, answer=lambda item: AnswerVerdict,
        read=lambda given: ({"answer": given.answer}, given.reason), label="answer", labels=("correct", "incorrect"),
        shown=("request", "gold"), offline=answer_offline,
        controls=lambda case: {"request": spoken(case, target_of(case))}, tables=answer_tables,
        titles={
            "accuracy": "Answer accuracy, among requests with any spoken response",
            "accuracy_by_bucket": "Answer accuracy by position of the request",
            "accuracy_pairs": "Answer accuracy, explicit against implicit",
        },
    ),
    _judge(
        name="mpe_brief", heading="Brief acknowledgements in silence windows",
        prompt=load_prompt("duplexmpe", "judge_brief"), items=brief_items, answer=lambda item: BriefVerdict,
        read=lambda given: ({"kind": given.kind}, given.reason), label="kind", labels=("brief", "floor"),
        shown=("turn",), offline=brief_offline, controls=lambda case: {"answer": str(case.expect["gold"])},
        tables=silence_tables,
        titles={
            "judged_silence": "Silence preservation, decided by the words",
            "judged_silence_by_label": "Silence preservation by label, decided by the words",
            "judge_and_duration": "Brief or floor: the judge beside the duration rule",
            "silence_pairs": "Silence preservation by the words, explicit against implicit",
        },
    ),
)  # fmt: skip
