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
coverage         READBACK: matched / target tokens
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from workbench import spans as sp
from workbench.benchmarks.ifeval.cases import TURN2, WINDOW, expectation, tokens
from workbench.cases import Case
from workbench.episodes import EpisodeRecord, unusable

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


def measure_window(
    window: tuple[float, float], user: np.ndarray, agent: np.ndarray, merge_gap_s: float = MERGE_GAP_S
) -> WindowMeasures:
    """Measure one window.

    window : (w0, w1) in seconds; user, agent : spans, float (n, 2).
    """
    w0, w1 = window
    user, agent = sp.merge(user, merge_gap_s), sp.merge(agent, merge_gap_s)
    starting = sp.starts_within(agent, w0, w1)
    touching = agent[(agent[:, 0] <= w1) & (agent[:, 1] > w0)]  # closed at w1, as `starting` is
    offsets = agent[agent[:, 1] >= w0, 1]
    goes_on = None
    if len(starting):
        goes_on = bool((user[:, 1] > starting[-1, 1]).any())
    return WindowMeasures(
        genuine_s=_s(starting[0, 0] - w0) if len(starting) else None,
        off_s=_s(offsets[0] - w0) if len(offsets) else None,
        speaking_at_w0=sp.active_at(agent, w0),
        starting=len(starting),
        touching=len(touching),
        longest_s=_s((touching[:, 1] - touching[:, 0]).max()) if len(touching) else None,
        user_goes_on=goes_on,
        overlap_s=_s(sp.overlap_s(sp.clip(agent, w0, w1), user)),
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
) -> dict[str, Any]:
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
        row |= asdict(measure_window(window, user, agent, merge_gap_s))
        row["spans"] = [[_s(start), _s(end)] for start, end in sp.merge(agent, merge_gap_s)]
        row["user_spans"] = [[_s(start), _s(end)] for start, end in sp.merge(user, merge_gap_s)]
        if expected.action == "READBACK":
            found = coverage(expected.target or "", record.text or "")
            if found is None:
                reason = "empty_target"
            else:
                row |= found.columns()
    row["reason"] = reason
    return row


def unmeasured(case: Case, reason: str) -> dict[str, Any]:
    """The row of a case that has no usable recording."""
    return _row(case, expectation(case).thresholds) | {"reason": reason}


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
    if action == "READBACK" and record.transcript is None:
        return "no_transcript"
    return None


_EMPTY: dict[str, Any] = {
    "w0_s": None,
    "w1_s": None,
    "genuine_s": None,
    "off_s": None,
    "speaking_at_w0": None,
    "starting": None,
    "touching": None,
    "longest_s": None,
    "user_goes_on": None,
    "overlap_s": None,
    "coverage": None,
    "tokens_matched": None,
    "tokens_target": None,
    "tokens_missing": None,
    "agent_speech_s": None,
    "first_words": None,
    "spans": None,
    "user_spans": None,
}


def _row(case: Case, thresholds: dict[str, float]) -> dict[str, Any]:
    labels = {
        name: case.tags[name] for name in ("role", "role_name", "probe", "level", "instance", "speaker", "matched")
    }
    return {
        "case": case.id,
        "conversation": case.conversation,
        **labels,
        "action": case.tags["action"],
        **_EMPTY,
        **{f"own_{name}": value for name, value in thresholds.items()},
        "reason": None,
    }


def _first_words(record: EpisodeRecord, window: tuple[float, float] | None) -> str | None:
    if record.transcript is None or window is None:
        return None
    said = "".join(piece.text for piece in record.transcript if piece.t_s >= window[0])
    return " ".join(re.findall(r"\S+", said)[:FIRST_WORDS])
