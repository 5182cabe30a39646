"""Verdicts with their evidence: one row a measurement, with the limit and a sentence a person can check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from workbench.benchmarks.duplexmpe import decide
from workbench.benchmarks.duplexmpe.decide import FAIL, NOT_ELIGIBLE, PASS, STEPS, UNDECIDED, VERDICTS
from workbench.contract import Step

LIMITS = {
    "fresh_onset": "onset_within_s",
    "fresh_onset_permissive": "onset_within_s",
    "silence": "brief_s",
    "yield": "yield_within_s",
}

REASONS = {
    "not_recorded": "the case has not been recorded",
    "no_audio": "the recording of the case cannot be read",
    "not_played": "the turn was not played",
    "episode_ended": "the turn was not played before the episode ended",
    "outside": "the recording ends before this window begins",
    "no_window": "the next turn begins before T ends, so there is no response window",
    "no_question": "no unresolved N4_Q stands before this N4_R",
}

STEP_WORDS = {
    "silent_during_question": "the agent spoke during N4_Q",
    "started_in_gap": "the agent did not begin to speak between N4_Q and N4_R",
    "speaking_at_resolution": "the agent had stopped before N4_R began",
}
"""Why an event left the denominator of yield, by the step it did not pass."""


_STEP_PASSED = {
    "silent_during_question": "the agent was silent during N4_Q",
    "started_in_gap": "the agent began to speak between N4_Q and N4_R",
    "speaking_at_resolution": "the agent was still speaking as N4_R began",
}


def chain(row: Mapping[str, Any]) -> list[Step]:
    """The eligibility chain of one row of yield, in words; [] for other metrics and where nothing was measured."""
    if row.get("metric") != "yield" or isinstance(row.get("reason"), str):
        return []
    out, going = [], True
    for name, column in decide.STEP_COLUMNS.items():
        value = row.get(column)
        known = value is not None and value == value
        if not going:
            out.append(Step(name, None, "not asked: the event had left before"))
        elif not known:
            out.append(Step(name, None, "not known: the recording ends before it shows"))
            going = False
        elif value:
            out.append(Step(name, True, _STEP_PASSED[name]))
        else:
            out.append(Step(name, False, f"{STEP_WORDS[name]}: here the event left the denominator"))
            going = False
    return out


def verdicts(frame: pd.DataFrame, settings: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Decide every row of a measurements frame.

    Returns one row a measurement: case, event, metric, verdict and strict ('pass', 'fail',
    'not_eligible', 'unmeasurable'; the two are the same here), label, limit (the threshold's name),
    limit_value and reason (a sentence). `label` is 'silent', 'brief' or 'floor' for silence and for
    yield the step at which an event left the chain, or 'eligible'.
    """
    values = decide.DEFAULTS | dict(settings or {})
    table = decide.as_table(frame)
    state = decide.states(table, values)[0]
    label = labels(table, state)
    columns = {name: frame[name].tolist() for name in _READ if name in frame}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    words = [VERDICTS[int(code)] for code in state]
    limits = [LIMITS.get(metric) for metric in frame["metric"]]
    return pd.DataFrame(
        {
            "case": frame["case"],
            "event": frame["event"],
            "metric": frame["metric"],
            "verdict": words,
            "strict": words,
            "label": label,
            "limit": limits,
            "limit_value": [None if name is None else values[name] for name in limits],
            "reason": [
                sentence(row, int(code), name, values) for row, code, name in zip(rows, state, label, strict=True)
            ],
        }
    )


_READ = (
    "metric", "reason", "onset_s", "active_at_start", "known_s", "speech_s", "most_s", "release_s", "resume_s",
    "w0_s", "w1_s", "window_s", "turn_label",
)  # fmt: skip


def labels(table: decide.Table, state: Any) -> list[str | None]:
    """What was heard: see `verdicts`."""
    out: list[str | None] = []
    speech = table.values["speech_s"]
    for metric, code, step, said in zip(table.metric, state, table.step, speech, strict=True):
        if metric == "yield" and (code == NOT_ELIGIBLE or (code >= FAIL and step >= 0)):
            out.append("eligible" if step == len(STEPS) else STEPS[step])
        elif metric == "silence" and code >= FAIL:
            out.append("floor" if code == FAIL else "brief" if said > 0 else "silent")
        else:
            out.append(None)
    return out


def sentence(row: Mapping[str, Any], state: int, label: str | None, values: Mapping[str, float]) -> str:
    """Why the verdict is what it is, with the numbers it rests on."""
    reason = row.get("reason")
    if isinstance(reason, str):
        return f"not measurable: {REASONS.get(reason, reason)}"
    return _SENTENCES[row["metric"]](row, state, label, values)


def _onset(row, state, label, values):
    limit = values["onset_within_s"]
    strict = row["metric"] == "fresh_onset"
    active = "the agent was already speaking as T ended"
    onset = row["onset_s"]
    none = onset is None or onset != onset
    heard = "no new onset after T" if none else f"the next onset came {onset:.2f} s after T"
    if state == UNDECIDED:
        return (
            f"not measurable: the recording ends {row['known_s']:.2f} s after T, before the limit of {limit:g} s, "
            "and no onset had come"
        )
    if strict and row["active_at_start"]:
        return f"{active}, so no onset counts as fresh ({heard})"
    also = f"; {active}" if row["active_at_start"] else ""
    return f"{heard}; limit {limit:g} s{also}"


def _presence(row, state, label, values):
    where = "the response window of T" if row["metric"] == "response_presence" else "N4_Q and its answering gap"
    if state == UNDECIDED:
        return f"not measurable: the recording ends inside {where}, and nothing had been said"
    length = f"{row['w1_s'] - row['w0_s']:.2f} s"
    if state == PASS:
        return f"the agent spoke for {row['speech_s']:.2f} s in {where} ({length})"
    return f"the agent was silent throughout {where} ({length})"


def _silence(row, state, label, values):
    limit, said = values["brief_s"], row["speech_s"]
    cut = row["most_s"] > said
    if state == UNDECIDED:
        return (
            f"not measurable: the recording ends inside the window with {said:.2f} s of speech, and up to "
            f"{row['most_s']:.2f} s are possible; limit {limit:g} s"
        )
    more = f"; the recording ends inside the window, at most {row['most_s']:.2f} s are possible" if cut else ""
    if state == PASS and not said:
        return f"the agent was silent in the window{more}"
    kind = "brief, by its duration" if state == PASS else "more than an acknowledgement"
    return f"the agent spoke for {said:.2f} s in the window ({kind}; limit {limit:g} s){more}"


def _yield(row, state, label, values):
    limit = values["yield_within_s"]
    if state == NOT_ELIGIBLE:
        return f"not eligible: {STEP_WORDS[label]} (step {label})"
    if state == UNDECIDED:
        if row["known_s"] > 0:
            return (
                f"not measurable: the recording ends {row['known_s']:.2f} s after N4_R began, before its window does, "
                "and the agent had not spoken past the limit"
            )
        return "not measurable: the recording ends before it shows whether the event is eligible"
    released = f"the agent was last heard {row['release_s']:.2f} s after N4_R began"
    if state == FAIL and row["release_s"] <= limit:
        return f"the agent spoke again {row['resume_s']:.2f} s after N4_R began, at the limit of {limit:g} s"
    return f"{released}; limit {limit:g} s, then silent to {max(limit, row['window_s']):.2f} s"


_SENTENCES = {
    "fresh_onset": _onset,
    "fresh_onset_permissive": _onset,
    "response_presence": _presence,
    "window_response": _presence,
    "silence": _silence,
    "yield": _yield,
}
