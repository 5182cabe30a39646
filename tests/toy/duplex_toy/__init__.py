"""Toy: a whole benchmark in one file, by another hand than the workbench's. It proves the contract.

A user says good morning or asks a question; the agent shall answer soon, and kindly. Two metrics a case:

prompt   the agent begins within `answer_within_s` of the end of the user's turn (a hasty case sets its own)
kind     it speaks for at most `most_said_s`, and a judge calls its words kind
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field, StrictStr

from workbench import spans as sp
from workbench.brought import Interval, Segments, given, name_of
from workbench.cases import AtTime, Case, Cue, Ending, Moment, Move, PromptPart, Record, Window
from workbench.chat.reading import Answer
from workbench.construct import building
from workbench.construct.building import Plan
from workbench.contract import (
    FAIL,
    NOT_JUDGED,
    Benchmark,
    Brought,
    Chart,
    Column,
    Mark,
    Rule,
    Score,
    Section,
    Threshold,
    Trial,
)
from workbench.deciding import states
from workbench.judges.base import Item, Judge, NotJudgeable, Part, Prompt

GREETINGS = ("Good morning to you.", "Hello there, nice to see you.", "Good evening, my friend.")
QUESTIONS = ("Could you tell me the time?", "Where is the station, please?", "Is the shop still open?")
MOODS = ("calm", "hasty")
HASTY_S = 1.2


def scripts() -> dict[str, tuple[str, str, str]]:
    """Id -> (mood, kind of turn, words): 2 x 2 x 3 = 12 cases."""
    return {
        f"{mood}_{kind}_{number}": (mood, kind, text)
        for mood in MOODS
        for kind, texts in (("greeting", GREETINGS), ("question", QUESTIONS))
        for number, text in enumerate(texts, start=1)
    }


def build(options):
    plan = Plan(
        version="1",
        scripts={(name, "turn"): text for name, (_, _, text) in scripts().items()},
        expand=lambda turns: [_case(name, turns[name, "turn"]) for name in scripts() if (name, "turn") in turns],
        voice_of=lambda clip, engine: engine.voices[0],
        chosen=lambda cases, limit: cases[:limit],
    )
    return building.build(plan, options)


def _case(name: str, turn: Any) -> Case:
    mood, kind, _ = scripts()[name]
    end_s = None if turn.audio is None else turn.audio.duration_s
    return Case(
        id=name,
        benchmark="toy",
        conversation=name,
        stream=name,
        prompt=(PromptPart(name="manner", text="Answer kindly, and be brief."),),
        cues=(Cue(id="turn", label=kind, start=AtTime(time_s=0.5), **turn.fields()),),
        ending=Ending(max_wait_s=4.0, continuous_s=4.0),
        windows={"answer": Window(cue="turn", start_s=end_s, end_s=None if end_s is None else end_s + 4.0)},
        expect={"answer_within_s": HASTY_S} if mood == "hasty" else {},
        tags={"mood": mood, "kind": kind},
    )


def validate(dataset, complete):
    problems = [
        f"case {case.id}: its mood is {case.tags.get('mood')!r}; moods are {', '.join(MOODS)}."
        for case in dataset.cases
        if case.tags.get("mood") not in MOODS
    ]
    return problems + (
        [f"{len(dataset.cases)} cases, and there are 12."] if complete and len(dataset.cases) != 12 else []
    )


def prompt(onset_s: np.ndarray, answer_within_s: np.ndarray) -> np.ndarray:
    """prompt passes when onset_s <= answer_within_s; bool (k, n).

    >>> prompt(np.array([0.5, 3.0, np.nan]), 2.0).tolist()
    [True, False, False]
    """
    return onset_s <= answer_within_s


def kind(said_s: np.ndarray, kindness: np.ndarray, most_said_s: np.ndarray) -> np.ndarray:
    """kind passes when 0 < said_s <= most_said_s and the judge says so; too long fails whatever was said.

    >>> kind(np.array([1.0, 9.0, 1.0]), np.array(["kind", "", ""]), np.array([[3.0]])).tolist()
    [[1, 0, -3]]
    """
    fits = (said_s > 0) & (said_s <= most_said_s)
    return np.where(~fits, FAIL, np.where(kindness == "", NOT_JUDGED, states(kindness == "kind"))).astype(np.int8)


def _prompt_sentence(row, state, label, limits):
    if row["onset_s"] != row["onset_s"] or row["onset_s"] is None:
        return f"it never answered; limit {limits['answer_within_s']:g} s"
    return f"it answered {row['onset_s']:.2f} s after the turn; limit {limits['answer_within_s']:g} s"


def _kind_sentence(row, state, label, limits):
    said = f"it spoke for {row['said_s']:.2f} s; limit {limits['most_said_s']:g} s"
    return said if state == FAIL and not row.get("kindness") else f"{said}; the judge calls it {row.get('kindness')}"


def _heard(said_s):
    return np.where(said_s > 0, "spoke", "silent")


def measure(case, record, user, agent, merge_gap_s=0.3):
    window = record.windows.get("answer")
    if record.status == "error" or window is None:
        return unmeasured(case, f"error: {record.error.kind}" if record.error else "no_window")
    w0, w1 = window
    return [row | {"w0_s": w0, "w1_s": w1, **_values(agent, w0, w1, merge_gap_s)} for row in unmeasured(case, None)]


def _values(agent, w0, w1, merge_gap_s):
    agent = sp.merge(agent, merge_gap_s)
    starting = sp.starts_within(agent, w0, w1)
    onset = round(float(starting[0, 0] - w0), 6) if len(starting) else None
    return {"onset_s": onset, "said_s": round(sp.total_s(sp.clip(agent, w0, w1)), 6)}


def unmeasured(case, reason):
    base = {"case": case.id, "event": "", "conversation": case.conversation, **case.tags, "w0_s": None, "w1_s": None,
            "onset_s": None, "said_s": None, "own_answer_within_s": case.expect.get("answer_within_s")}  # fmt: skip
    return [base | {"metric": metric, "reason": reason} for metric in ("prompt", "kind")]


def join(measurements, judgements):
    rows = judgements.get("kindness")
    said = {} if rows is None else dict(zip(rows["case"], rows["kindness"], strict=True))
    return measurements.assign(kindness=measurements["case"].map(said))


def scores(frame):
    metric = frame["metric"].to_numpy(str)
    return {"prompt": Score("prompt", metric == "prompt"), "kind": Score("kind", metric == "kind")}


def tables(measurements, verdicts):
    frame = measurements[["case", "metric", "mood"]].assign(verdict=verdicts["verdict"].to_numpy())
    out = []
    for (metric, mood), part in frame.groupby(["metric", "mood"], sort=False):
        passed, measured = int((part.verdict == "pass").sum()), int(part.verdict.isin(["pass", "fail"]).sum())
        out.append({"metric": metric, "mood": mood, "rate": passed / measured if measured else None, "passed": passed,
                    "measured": measured, "excluded": len(part) - measured, "low": None, "high": None})  # fmt: skip
    return {"by_mood": pd.DataFrame(out)}


def marks(row):
    def number(name):
        value = row.get(name)
        return None if value is None or value != value else float(value)

    w0, w1, onset, limit = (number(name) for name in ("w0_s", "w1_s", "onset_s", "limit_value"))
    if w0 is None:
        return []
    out = [Mark("window", w0, "answer window", w1)]
    out += [] if onset is None else [Mark("onset", w0 + onset, f"answer {onset:.2f} s")]
    if row.get("limit") == "answer_within_s" and limit is not None:
        out.append(Mark("limit", w0 + limit, f"limit {limit:g} s", None, "answer_within_s", w0))
    return out


ANSWER_S, LATE_S = 0.4, 3.0


def moves(case, style):
    begin = Moment(cue="turn", of="end", offset_s=ANSWER_S if style == "oracle" else LATE_S)
    if style == "oracle":
        return (Move(begin=begin, text="Thank you, gladly."),)
    return (Move(begin=begin, text="Go away.", until=Moment(cue="turn", of="end", offset_s=LATE_S + 0.9)),)


class Kindness(Answer):
    reason: str = Field(description="the words that decided it", min_length=1)
    kindness: Literal["kind", "rude"] = Field(description="whether the words are kind")


def items(case, record):
    if record.status == "error" or record.text is None:
        raise NotJudgeable("no_transcript", "there are no words to judge")
    words = record.text or SILENCE
    return [
        Item(
            case.id,
            (Part("user", "The user", case.cues[0].text, True), Part("transcript", "The answer", words, True)),
        )
    ]


SILENCE = "(nothing was said)"


def offline(item):
    words = (item.text("transcript") or "").lower()
    label = "kind" if "thank" in words else "rude"
    return {"kindness": label}, f"By words: {'thanks are' if label == 'kind' else 'no thanks is'} there."


JUDGE = Judge(
    name="kindness",
    benchmark="toy",
    heading="Kindness of the answer",
    prompt=Prompt({"system.md": "Say whether the answer is kind.", "quoted.md": "Quoted text: $boundary",
                   "answer.md": "$keys", "again.md": "Again: $problem"}),
    items=items,
    answer=lambda item: Kindness,
    read=lambda answer: ({"kindness": answer.kindness}, answer.reason),
    score=None,
    label="kindness",
    labels=("kind", "rude"),
    reported={"kind": "Kind", "rude": "Rude"},
    silence=SILENCE,
    shown=("user",),
    offline=offline,
    rules=lambda: "Thanks are kind.",
    controls=lambda case: {"insult": "Go away."},
    strata=("mood", "kind"),
)  # fmt: skip


class BroughtAnswer(Record):
    id: StrictStr
    window: Interval
    model_spans: Segments


def measure_brought(items, merge_gap_s):
    return [
        {"item": place, "case": one.id, "event": "", "metric": "prompt", "reason": None, "w0_s": one.window[0],
         "w1_s": one.window[1], **_values(sp.as_spans(one.model_spans), *one.window, merge_gap_s)}
        for place, one in enumerate(items)
    ]  # fmt: skip


BENCHMARK = Benchmark(
    name="toy",
    title="Toy",
    about="Twelve turns that want a prompt and kind answer.",
    cases=12,
    columns=(
        Column("mood", "mood", filter=True, open=True, split=True, table=True, order=MOODS),
        Column("kind", "kind of turn", filter=True, split=True, table=True),
        Column("metric", "metric", filter=True, open=True, split=True, table=True, order=("prompt", "kind")),
        Column("onset_s", "answer after", kind="seconds", unit="s"),
        Column("said_s", "said", kind="seconds", unit="s"),
        Column("kindness", "kindness", table=True),
    ),
    thresholds=(
        Threshold("answer_within_s", "answer within", "s", 2.0, (1.0, 2.0, 3.0), per_case=True),
        Threshold("most_said_s", "said at most", "s", 3.0, (1.0, 3.0)),
    ),
    rules=(
        Rule("prompt", prompt, _prompt_sentence, _heard, latency="onset_s"),
        Rule("kind", kind, _kind_sentence, _heard),
    ),
    build=build,
    validate_authored=lambda: [] if len(scripts()) == 12 else ["There are not 12 scripts; write the rest."],
    validate=validate,
    counts=lambda cases: {"by_mood": {mood: sum(case.tags["mood"] == mood for case in cases) for mood in MOODS}},
    measure=measure,
    unmeasured=unmeasured,
    join=join,
    scores=scores,
    ranking="prompt",
    tables=tables,
    sections=(
        Section("by_mood", "Rates by mood", "Hasty users wait less.", kind="rates",
                charts=(Chart("rates", "mood", where={"metric": "prompt"}, order=MOODS),)),
    ),
    marks=marks,
    moves=moves,
    reasons={"no_window": "the case has no window for an answer"},
    judges=(JUDGE,),
    brought=Brought(
        BroughtAnswer,
        measure_brought,
        lambda row, verdict: {"id": row["case"], "verdict": verdict["verdict"], "reason": verdict["reason"],
                              "evidence": given(row, ("onset_s",))},
        lambda item, why: [{"id": name_of(item), "verdict": "unmeasurable", "reason": why, "evidence": {}}],
    ),
    demo=Trial(None, {"oracle": ("oracle", {}), "contrary": ("contrary", {})}, ("kindness",)),
    practice=Trial(12, {"oracle": ("oracle", {}), "contrary": ("contrary", {}), "silent": ("silent", {})}),
)  # fmt: skip
