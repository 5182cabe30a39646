"""Measurements of DuplexSpeechBench-IFEval: continuous values, one row a case, no threshold inside.

Conventions
-----------
Spans are sorted, disjoint intervals in seconds; before anything else spans less than 0.3 s apart
merge into utterances (E.2). The window is [w0, w1]. Latencies are seconds after w0.

Columns
-------
genuine_s        first agent onset inside the window, minus w0; null when none starts there
off_s            first agent offset at or after w0, minus w0; null when there is none
speaking_at_w0   the floor precondition: an agent span covers w0
starting         agent spans that start inside the window
touching         agent spans with any part inside the window
longest_s        length of the longest touching span, its parts outside the window included
user_goes_on     the user is heard after the last starting span has ended
overlap_s        time in the window when both are heard
known_s          seconds of the window that were recorded; null where all of it was, but for a rest too
                 short to hold speech (the detector's least)
coverage         READBACK: matched / target tokens
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pydantic import StrictInt, StrictStr, model_validator

from workbench import spans as sp
from workbench.benchmarks.ifeval.cases import ACTIONS, TURN2, WINDOW, expectation, tokens
from workbench.brought import Interval, Seconds, Segments, given, name_of
from workbench.cases import Case, Record
from workbench.episodes import EpisodeRecord, sounded, unusable

MERGE_GAP_S = 0.3
FIRST_WORDS = 8
_DECIMALS = 6
"""Values are rounded to a microsecond, so that 12.3 - 10.3 meets a limit of 2.0 exactly."""


@dataclass(frozen=True)
class WindowMeasures:
    """What the two channels show in and around one window."""

    genuine_s: float | None
    off_s: float | None
    speaking_at_w0: bool
    starting: int
    touching: int
    longest_s: float | None
    user_goes_on: bool | None
    overlap_s: float
    known_s: float | None


def measure_window(
    window: tuple[float, float],
    user: np.ndarray,
    agent: np.ndarray,
    merge_gap_s: float = MERGE_GAP_S,
    stop_s: float = math.inf,
) -> WindowMeasures:
    """Measure one window.

    window : (w0, w1) in seconds; user, agent : spans, float (n, 2); stop_s : where the recording ends.
    """
    w0, w1 = window
    user, agent = sp.merge(user, merge_gap_s), sp.merge(agent, merge_gap_s)
    starting = sp.starts_within(agent, w0, w1)
    touching = agent[(agent[:, 0] <= w1) & (agent[:, 1] > w0)]  # closed at w1, as `starting` is
    offsets = agent[agent[:, 1] >= w0, 1]
    return WindowMeasures(
        genuine_s=_s(starting[0, 0] - w0) if len(starting) else None,
        off_s=_s(offsets[0] - w0) if len(offsets) else None,
        speaking_at_w0=sp.active_at(agent, w0),
        starting=len(starting),
        touching=len(touching),
        longest_s=_s((touching[:, 1] - touching[:, 0]).max()) if len(touching) else None,
        user_goes_on=bool((user[:, 1] > starting[-1, 1]).any()) if len(starting) else None,
        overlap_s=_s(sp.overlap_s(sp.clip(agent, w0, w1), user)),
        known_s=_s(stop_s - w0) if w1 - stop_s >= sp.LEAST_SPEECH_S else None,
    )


def _s(value: float) -> float:
    return round(float(value), _DECIMALS)


@dataclass(frozen=True)
class Coverage:
    """READBACK: `matched` of `target` tokens, and the target tokens that were not found."""

    matched: int
    target: int
    missing: tuple[str, ...]

    @property
    def value(self) -> float:
        return self.matched / self.target

    def columns(self) -> dict[str, Any]:
        return {
            "coverage": self.value,
            "tokens_matched": self.matched,
            "tokens_target": self.target,
            "tokens_missing": list(self.missing),
        }


def coverage(target: str, transcript: str) -> Coverage | None:
    """Share of target tokens matched against a decrementing multiset of transcript tokens (E.3).

    None when the target holds no token, since then nothing can be measured.
    """
    wanted = tokens(target)
    if not wanted:
        return None
    left = Counter(tokens(transcript))
    missing = []
    for token in wanted:
        if left[token] > 0:
            left[token] -= 1
        else:
            missing.append(token)
    return Coverage(len(wanted) - len(missing), len(wanted), tuple(missing))


def measure(
    case: Case, record: EpisodeRecord, user: np.ndarray, agent: np.ndarray, merge_gap_s: float = MERGE_GAP_S
) -> list[dict[str, Any]]:
    """One row: the case's labels, its measurements, or the reason why there are none.

    user, agent : spans of the two channels over the whole recording, not yet merged.
    """
    expected = expectation(case)
    window = record.windows.get(WINDOW)
    row = _row(case, expected.thresholds)
    row["w0_s"], row["w1_s"] = window if window else (None, None)
    row["agent_speech_s"] = _s(sp.total_s(agent))
    row["first_words"] = _first_words(record, window)
    reason = unmeasurable(record, expected.action)
    if reason is None:
        row |= asdict(measure_window(window, user, agent, merge_gap_s, record.duration_s))
        for name, spans in (("spans", agent), ("user_spans", user)):
            row[name] = [[_s(start), _s(end)] for start, end in sp.merge(spans, merge_gap_s)]
        if expected.action == "READBACK":
            # Words that were not heard were not said.
            found = coverage(expected.target or "", sounded(record, agent).text or "")
            if found is None:
                reason = "empty_target"
            else:
                row |= found.columns()
    row["reason"] = reason
    return [row]


def unmeasured(case: Case, reason: str) -> list[dict[str, Any]]:
    """The row of a case that has no usable recording."""
    return [_row(case, expectation(case).thresholds) | {"reason": reason}]


def unmeasurable(record: EpisodeRecord, action: str) -> str | None:
    """Why the case cannot be measured, as a short code; None when it can."""
    window = record.windows.get(WINDOW)
    reason = unusable(record, end_s=window[1] if window else math.inf)
    if reason is not None:
        return reason
    cue = record.cue(TURN2)
    if cue is None or cue.start_s is None:
        return cue.reason if cue is not None and cue.reason else "turn2_not_played"
    if window is None:
        return "no_window"
    if action != "READBACK" and record.duration_s <= window[0]:
        return "outside"
    if action == "READBACK" and record.transcript is None:
        return "no_transcript"
    return None


MEASURED = (
    "genuine_s", "off_s", "speaking_at_w0", "starting", "touching", "longest_s", "user_goes_on", "overlap_s",
    "known_s", "coverage", "tokens_matched", "tokens_target", "tokens_missing",
)  # fmt: skip
_EMPTY = dict.fromkeys(("w0_s", "w1_s", *MEASURED, "agent_speech_s", "first_words", "spans", "user_spans"))
_TAGS = ("role", "role_name", "probe", "level", "instance", "speaker", "matched", "action")


def _row(case: Case, thresholds: dict[str, float]) -> dict[str, Any]:
    labels = {"case": case.id, "event": "", "metric": "", "conversation": case.conversation}
    own = {f"own_{name}": value for name, value in thresholds.items()}
    return labels | {name: case.tags[name] for name in _TAGS} | _EMPTY | own | {"reason": None}


def _first_words(record: EpisodeRecord, window: tuple[float, float] | None) -> str | None:
    if record.transcript is None or window is None:
        return None
    said = "".join(piece.text for piece in record.transcript if piece.t_s >= window[0])
    return " ".join(re.findall(r"\S+", said)[:FIRST_WORDS])


# -- segments that a user brings ---------------------------------------------------------------------------


class BroughtCase(Record):
    """A case as a user brings it to `workbench decide`: segments, no audio. READBACK rests on its words alone."""

    id: StrictStr | StrictInt
    action: StrictStr
    window: Interval | None = None
    user_spans: Segments = ()
    model_spans: Segments | None = None
    end_s: Seconds | None = None
    target: StrictStr | None = None
    transcript: StrictStr | None = None

    @model_validator(mode="after")
    def _whole(self) -> BroughtCase:
        if self.action not in ACTIONS:
            raise ValueError(f"{self.action!r} is not an action; actions are {', '.join(ACTIONS)}")
        if self.model_spans is None and self.action != "READBACK":
            raise ValueError("model_spans is missing; give [] for an agent that said nothing")
        return self


def measure_brought(items: list[BroughtCase], merge_gap_s: float) -> list[dict[str, Any]]:
    """One row an item."""
    return [{**_brought_row(item, merge_gap_s), "item": place} for place, item in enumerate(items)]


def _brought_row(item: BroughtCase, merge_gap_s: float) -> dict[str, Any]:
    row: dict[str, Any] = {**_EMPTY, "case": item.id, "action": item.action, "reason": None}
    if item.action == "READBACK":
        if item.transcript is None:
            return row | {"reason": "no_transcript"}
        found = coverage(item.target or "", item.transcript)
        if found is None:
            return row | {"reason": "empty_target"}
        row |= found.columns()
    if item.window is None:
        return row if item.action == "READBACK" else row | {"reason": "no_window"}
    w0, w1 = item.window
    if item.end_s is not None and item.end_s <= w0 and item.action != "READBACK":
        return row | {"reason": "outside"}
    end_s = math.inf if item.end_s is None else item.end_s
    # What a detector places after the recording's end (its padding, say) has not been recorded.
    user, agent = (sp.clip(sp.as_spans(spans or ()), 0.0, end_s) for spans in (item.user_spans, item.model_spans))
    measures = measure_window((w0, w1), user, agent, merge_gap_s, end_s)
    merged = {"spans": sp.merge(agent, merge_gap_s).tolist(), "user_spans": sp.merge(user, merge_gap_s).tolist()}
    return row | {"w0_s": w0, "w1_s": w1} | merged | asdict(measures)


def answer(row: Mapping[str, Any], verdict: Mapping[str, Any]) -> dict[str, Any]:
    """What `workbench decide` gives back for one row; what is null is left out of the evidence."""
    evidence = given(row, MEASURED)
    if given(row, ("w0_s",)):
        evidence |= {"window": [row["w0_s"], row["w1_s"]], "user_spans": row["user_spans"], "model_spans": row["spans"]}
    if verdict["verdict"] != "unmeasurable":
        renamed = {"label": "label", "limit": "threshold", "limit_value": "limit"}
        evidence |= {renamed[name]: value for name, value in given(verdict, renamed).items()}
    said = {name: verdict[name] for name in ("verdict", "strict", "reason")}
    return {"id": row["case"], **said, "evidence": evidence}


def spoilt(item: Any, why: str) -> list[dict[str, Any]]:
    """The place of an item that cannot be read."""
    said = {"verdict": "unmeasurable", "strict": "unmeasurable", "reason": f"not measurable: bad input: {why}"}
    return [{"id": name_of(item), **said, "evidence": {}}]
