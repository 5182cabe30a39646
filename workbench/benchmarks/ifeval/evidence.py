"""Verdicts with their evidence: one row a case, with numbers, limit and a sentence a person can check."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field, StrictInt, StrictStr, ValidationError

from workbench import spans as sp
from workbench.benchmarks.base import with_defaults
from workbench.benchmarks.ifeval import decide
from workbench.benchmarks.ifeval.authored import ACTIONS
from workbench.benchmarks.ifeval.measure import MERGE_GAP_S, coverage, measure_window
from workbench.cases import Record
from workbench.datasets import describe
from workbench.errors import InputError

LIMITS = {
    "TAKE_TURN": "max_wait_s",
    "YIELD": "yield_latency_ms",
    "CONTINUE": "yield_latency_ms",
    "INTERRUPT": "interrupt_latency_ms",
    "BACKCHANNEL": "backchannel_max_s",
    "READBACK": "readback_coverage",
}

REASONS = {
    "no_model_onset": "the agent never began to speak, so the barge-in had nothing to cut into",
    "no_transcript": "the agent gives no transcript, which read-back is measured on",
    "empty_target": "the dictated target holds no token",
    "no_window": "the case has no scored window",
    "not_recorded": "the case has not been recorded",
    "no_audio": "the recording of the case cannot be read",
    "bad_record": "the record of the case cannot be read or is of another case",
    "same_channels": "both channels of the recording hold the same signal",
    "user_bleed": "the user is heard in the agent's channel",
}


def verdicts(frame: pd.DataFrame, settings: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Decide every row of a measurements frame.

    Returns one row a case: case, verdict and strict ('pass', 'fail', 'unmeasurable'), label, limit
    (the threshold's name) and limit_value, reason (a sentence).
    """
    values = decide.DEFAULTS | dict(settings or {})
    table = decide.as_table(frame)
    paper = decide.passes(table, values)[0]
    strict = decide.passes(table, values, strict=True)[0]
    label = decide.labels(table, values)
    rows = []
    for index, row in enumerate(frame.to_dict("records")):
        measured = bool(table.measured[index])
        name = LIMITS.get(row["action"])
        value = None if name is None else float(table.own.get(name, _NAN(len(table)))[index])
        if name is not None and math.isnan(value):
            value = float(values[name])
        rows.append(
            {
                "case": row["case"],
                "verdict": _word(measured, paper[index]),
                "strict": _word(measured, strict[index]),
                "label": label[index] or None,
                "limit": name,
                "limit_value": value,
                "reason": sentence(row, label[index], value, bool(paper[index]), bool(strict[index]), values),
            }
        )
    return pd.DataFrame(rows)


def _NAN(count: int) -> np.ndarray:
    return np.full(count, np.nan)


def _word(measured: bool, passed: bool) -> str:
    return "unmeasurable" if not measured else "pass" if passed else "fail"


def _there(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def sentence(
    row: Mapping[str, Any], label: str, limit: float | None, passed: bool, strict: bool, values: Mapping[str, float]
) -> str:
    """Why the verdict is what it is, with the numbers it rests on."""
    reason = row.get("reason")
    if _there(reason):
        return f"not measurable: {REASONS.get(reason, reason)}"
    text = _SENTENCES[row["action"]](row, label, limit, values)
    if passed and not strict:
        text += "; strict: the agent was not speaking when the window opened, so there was no floor to hold or yield"
    return text


def _spans(count: float) -> str:
    return f"{int(count)} span{'s' if count != 1 else ''}"


def _silence(row, label, limit, values):
    if label == "silent":
        return "the agent was silent throughout the window"
    return f"the agent was heard in the window ({_spans(row['touching'])}, the longest {row['longest_s']:.2f} s)"


def _limit_s(limit: float) -> str:
    return f"{limit:g}" if limit % 1 else f"{limit:.1f}"


def _near(value: float, limit: float) -> str:
    """Two decimals, or three where two would hide on which side of the limit the value lies."""
    return f"{value:.3f}" if value != limit and round(value, 2) == limit else f"{value:.2f}"


def _onset(row, label, limit, values):
    if row["action"] == "INTERRUPT":
        limit = limit / 1000
    if not _there(row["genuine_s"]):
        held = " (it was already speaking when the window opened)" if row["speaking_at_w0"] else ""
        return f"no onset inside the window{held}; limit {_limit_s(limit)} s"
    return f"onset {_near(row['genuine_s'], limit)} s after the window opened; limit {_limit_s(limit)} s"


def _backchannel(row, label, limit, values):
    if label == "silent":
        return "the agent was silent in the window, where a backchannel was expected"
    longest = f"the longest {_near(row['longest_s'], limit)} s; ceiling {_limit_s(limit)} s"
    about = f"{_spans(row['touching'])} in the window, {longest}"
    if label == "backchannel":
        return f"{about}, at most {values['bc_window_max']:g} spans; the user went on"
    if not row["starting"]:
        return f"{about}; none begins in the window"
    if not row["user_goes_on"]:
        return f"{about}; the user did not go on after it"
    return f"{about}: it took the floor"


def _coverage(row, label, limit, values):
    missing = row.get("tokens_missing")
    lacking = f"; missing: {' '.join(missing)}" if missing is not None and len(missing) else ""
    share = f"{int(row['tokens_matched'])} of {int(row['tokens_target'])} target tokens read back"
    return f"{share} ({row['coverage']:.2f}); needed {limit:g}{lacking}"


def _offset(row, label, limit, values):
    held = "" if row["speaking_at_w0"] else " (the agent was not speaking when the window opened)"
    if not _there(row["off_s"]):
        return f"no agent offset after the window opened{held}; limit {limit:g} ms"
    return f"the agent fell silent {row['off_s'] * 1000:.0f} ms after the window opened{held}; limit {limit:g} ms"


def _overlap(row, label, limit, values):
    return f"both were heard together for {row['overlap_s']:.2f} s in the window; needed more than 0 s"


_SENTENCES = {
    "LISTEN": _silence,
    "NO_BACKCHANNEL": _silence,
    "TAKE_TURN": _onset,
    "INTERRUPT": _onset,
    "BACKCHANNEL": _backchannel,
    "READBACK": _coverage,
    "YIELD": _offset,
    "CONTINUE": _offset,
    "ACCEPT_OVERLAP": _overlap,
}


class Brought(Record):
    """A case as a user brings it to `workbench decide`: segments, no audio."""

    id: StrictStr | StrictInt
    action: str
    window: tuple[float, float] | None = None
    user_spans: list[tuple[float, float]] = Field(default_factory=list)
    model_spans: list[tuple[float, float]] = Field(default_factory=list)
    target: str | None = None
    transcript: str | None = None


EVIDENCE = (
    "genuine_s", "off_s", "speaking_at_w0", "starting", "touching", "longest_s", "user_goes_on", "overlap_s",
    "coverage", "tokens_matched", "tokens_target", "tokens_missing",
)  # fmt: skip


def decide_brought(items: Any, settings: Mapping[str, float] | None = None) -> tuple[list[dict], list[str]]:
    """Verdicts for segments that a user brings, in their order.

    items : the parsed JSON list. Returns the verdicts, and a sentence for each item that could not
    be used; such an item still has its place in the list, as 'unmeasurable'.

    Raises
    ------
    InputError : not a list, or an unknown threshold.
    """
    settings = dict(settings or {})
    merge_gap_s = settings.pop("merge_gap_s", MERGE_GAP_S)
    with_defaults(decide.DEFAULTS, settings)
    if not isinstance(items, list):
        raise InputError(f"A JSON list of cases is needed, found {type(items).__name__}; wrap the case in [ ].")
    rows, problems, seen = [], [], set()
    for index, item in enumerate(items):
        try:
            row = _brought_row(item, merge_gap_s)
            if row["case"] in seen:
                raise InputError(f"the id {row['case']!r} stands already in an earlier item; give it another")
        except InputError as error:
            named = _name_of(item)
            problems.append(f"item {index}{f' (id {named!r})' if named is not None else ''}: {error}.")
            row = {"case": named, "action": "LISTEN", "reason": f"bad input: {error}"}
        seen.add(row["case"])
        rows.append(row)
    columns = ["case", "action", "reason", "w0_s", "w1_s", *EVIDENCE]
    frame = pd.DataFrame(rows, columns=columns)
    decided = verdicts(frame, settings).to_dict("records") if rows else []
    return [_answer(row, verdict) for row, verdict in zip(rows, decided, strict=True)], problems


def _name_of(item: Any) -> str | int | None:
    """The id by which a bad item can still be named; None where it has none that can be printed."""
    named = item.get("id") if isinstance(item, dict) else None
    if isinstance(named, int) and not isinstance(named, bool):
        return named
    return named if isinstance(named, str) and named.isprintable() else None


def _brought_row(item: Any, merge_gap_s: float) -> dict[str, Any]:
    try:
        brought = Brought.model_validate(item)
    except ValidationError as error:
        raise InputError(describe(error)) from None
    if isinstance(brought.id, str) and not brought.id.isprintable():
        raise InputError("field 'id': it holds characters that cannot be printed; give a plain name")
    if brought.action not in ACTIONS:
        raise InputError(f"field 'action': {brought.action!r} is not an action; actions are {', '.join(ACTIONS)}")
    row: dict[str, Any] = {"case": brought.id, "action": brought.action, "reason": None}
    if brought.action == "READBACK":
        if brought.transcript is None:
            return row | {"reason": "no_transcript"}
        found = coverage(brought.target or "", brought.transcript)
        if found is None:
            return row | {"reason": "empty_target"}
        row |= found.columns()
    if brought.window is None:
        # Read-back rests on the transcript alone; every other verifier needs the window.
        return row if brought.action == "READBACK" else row | {"reason": "no_window"}
    w0, w1 = brought.window
    if not (math.isfinite(w0) and math.isfinite(w1) and 0 <= w0 < w1):
        raise InputError(f"field 'window': [{w0:g}, {w1:g}] is not an interval; give [start, end] in seconds")
    try:
        user, agent = sp.as_spans(brought.user_spans), sp.as_spans(brought.model_spans)
    except InputError as error:
        raise InputError(f"user_spans or model_spans: {str(error).rstrip('.')}") from None
    measures = measure_window((w0, w1), user, agent, merge_gap_s)
    merged = {"spans": sp.merge(agent, merge_gap_s).tolist(), "user_spans": sp.merge(user, merge_gap_s).tolist()}
    return row | {"w0_s": w0, "w1_s": w1} | merged | vars(measures)


def _answer(row: dict[str, Any], verdict: dict[str, Any]) -> dict[str, Any]:
    evidence = {name: row.get(name) for name in EVIDENCE if row.get(name) is not None}
    if row.get("w0_s") is not None:
        evidence |= {"window": [row["w0_s"], row["w1_s"]], "user_spans": row["user_spans"], "model_spans": row["spans"]}
    if verdict["verdict"] != "unmeasurable":
        # A frame holds NaN where there is nothing to say; JSON says it by leaving the field out.
        named = {"label": verdict["label"], "threshold": verdict["limit"], "limit": verdict["limit_value"]}
        evidence |= {name: value for name, value in named.items() if _there(value)}
    return {
        "id": row["case"],
        "verdict": verdict["verdict"],
        "strict": verdict["strict"],
        "reason": verdict["reason"],
        "evidence": evidence,
    }
