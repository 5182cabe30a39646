"""The nine verifiers of DuplexSpeechBench-IFEval: what makes each expected action pass.

Source: the paper's appendix E.3; windows and values are those of `measure`. One function an action, for
arrays: columns (n,), thresholds that broadcast to (k, n) for k settings. Null is NaN, and a comparison with
NaN is False: no onset never meets a limit, and no offset means "not yielded".

`known_s` is how much of the window was recorded, null where all of it was. A recording that ends before its
window does leaves a row UNDECIDED where the missing part could turn the verdict (ours; the paper is silent).

The strict reading (ours) adds the floor precondition to YIELD, CONTINUE and ACCEPT_OVERLAP: they presuppose
an agent that is speaking at w0. By the rule as written an agent that says nothing "continues", and one that
starts and stops after w0 "yields".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.contract import FAIL, UNDECIDED, Rule, Threshold
from workbench.deciding import in_ms, states

THRESHOLDS = (
    Threshold("max_wait_s", "longest wait", "s", 2.0, (1.5, 2.0, 2.5), per_case=True,
              about="TAKE_TURN: latest onset after the window opens"),
    Threshold("yield_latency_ms", "yield within", "ms", 600.0, (200.0, 400.0, 600.0, 1000.0, 1500.0), per_case=True,
              about="YIELD passes, and CONTINUE fails, at or below this offset"),
    Threshold("interrupt_latency_ms", "interrupt within", "ms", 1500.0, (1000.0, 1500.0, 2000.0), per_case=True,
              about="INTERRUPT: latest onset after the window opens"),
    Threshold("backchannel_max_s", "backchannel ceiling", "s", 1.0, (0.6, 0.8, 1.0, 1.2), per_case=True,
              about="a backchannel is shorter than this"),
    Threshold("bc_window_max", "backchannels in the window", "", 3.0, per_case=True,
              about="BACKCHANNEL: at most so many spans in the window"),
    Threshold("readback_coverage", "read-back coverage", "", 0.90, per_case=True, most=1.0,
              about="READBACK: least share of the target's tokens"),
)  # fmt: skip
"""The defaults are ours, since the paper's table of them is not public, except the coverage; each lies inside
the grid of the paper's sweep, whose 3 x 5 x 3 x 4 = 180 configurations are the `grid` values."""

LABELS = ("silent", "backchannel", "floor_take")


def silent(touching: np.ndarray, known_s: np.ndarray) -> np.ndarray:
    """LISTEN and NO_BACKCHANNEL pass when nothing of the agent is heard in the window: touching = 0 (E.3).

    Parameters
    ----------
    touching : (n,) agent spans with any part in the window.
    known_s : (n,) seconds of the window that were recorded, NaN: all.

    Returns
    -------
    int8 (n,), states.

    Examples
    --------
    >>> silent(np.array([0.0, 1.0, 0.0]), np.array([np.nan, np.nan, 1.2])).tolist()
    [1, 0, -1]
    """
    return states((touching == 0) & np.isnan(known_s), touching > 0)


def take_turn(genuine_s: np.ndarray, known_s: np.ndarray, max_wait_s: np.ndarray) -> np.ndarray:
    """TAKE_TURN passes when the agent begins soon enough: genuine_s <= max_wait_s (E.3).

    Parameters
    ----------
    genuine_s : (n,) seconds from w0 to the first agent onset inside the window, NaN: none.
    known_s : (n,) seconds of the window that were recorded, NaN: all.
    max_wait_s : seconds, broadcastable to (k, n).

    Returns
    -------
    int8 (k, n), states.

    Examples
    --------
    >>> onset, whole = np.array([1.5, 2.0, 2.1, np.nan]), np.full(4, np.nan)
    >>> take_turn(onset, whole, 2.0).tolist()
    [1, 1, 0, 0]
    """
    return _soon_enough(genuine_s, known_s, max_wait_s)


def interrupt(genuine_s: np.ndarray, known_s: np.ndarray, interrupt_latency_ms: np.ndarray) -> np.ndarray:
    """INTERRUPT passes when the agent cuts in soon enough: 1000 genuine_s <= interrupt_latency_ms (E.3).

    Parameters
    ----------
    genuine_s, known_s : as in `take_turn`.
    interrupt_latency_ms : milliseconds, broadcastable to (k, n).

    Returns
    -------
    int8 (k, n), states.

    Examples
    --------
    >>> interrupt(np.array([1.1, 1.6]), np.full(2, np.nan), np.array([[1100.0], [2000.0]])).tolist()
    [[1, 0], [1, 1]]
    """
    return _soon_enough(in_ms(genuine_s), in_ms(known_s), interrupt_latency_ms)


def _soon_enough(onset: np.ndarray, known: np.ndarray, limit: np.ndarray) -> np.ndarray:
    # Without an onset the rest of the window decides only while the limit has not passed.
    return states(onset <= limit, (onset > limit) | np.isnan(known) | (known >= limit))


def backchannel(
    touching: np.ndarray, longest_s: np.ndarray, starting: np.ndarray, user_goes_on: np.ndarray, known_s: np.ndarray,
    backchannel_max_s: np.ndarray, bc_window_max: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """BACKCHANNEL passes when the label is backchannel and 1 <= spans in the window <= bc_window_max (E.3).

    The label: a span begins in the window, the longest is shorter than the ceiling, and the user goes on:
    starting >= 1 and longest_s < backchannel_max_s and user_goes_on.

    Parameters
    ----------
    touching, starting : (n,) agent spans with a part, or their start, in the window.
    longest_s : (n,) length of the longest touching span, parts outside the window included.
    user_goes_on : (n,) 1.0 where the user is heard after the last starting span has ended.
    known_s : (n,) seconds of the window that were recorded, NaN: all.
    backchannel_max_s, bc_window_max : seconds and a count, broadcastable to (k, n).

    Returns
    -------
    int8 (k, n), states.

    Examples
    --------
    >>> one = dict(starting=np.array([1.0]), user_goes_on=np.array([1.0]), known_s=np.array([np.nan]))
    >>> backchannel(np.array([1.0]), np.array([0.5]), **one, backchannel_max_s=1.0, bc_window_max=3.0).tolist()
    [1]
    >>> backchannel(np.array([1.0]), np.array([1.0]), **one, backchannel_max_s=1.0, bc_window_max=3.0).tolist()
    [0]
    """
    label = (longest_s < backchannel_max_s) & (starting >= 1) & (user_goes_on == 1.0)
    too_much = (longest_s >= backchannel_max_s) | (touching > bc_window_max)
    return states(label & (touching <= bc_window_max) & np.isnan(known_s), too_much | np.isnan(known_s))


def readback(coverage: np.ndarray, readback_coverage: np.ndarray) -> np.ndarray:
    """READBACK passes when enough of the dictated target is said: coverage >= readback_coverage (E.3).

    Parameters
    ----------
    coverage : (n,) share of the target's tokens in the transcript, see `measure.coverage`.
    readback_coverage : a share, broadcastable to (k, n).

    Returns
    -------
    bool (k, n).

    Examples
    --------
    >>> readback(np.array([0.9, 0.89]), 0.90).tolist()
    [True, False]
    """
    return coverage >= readback_coverage


def yield_floor(off_s: np.ndarray, known_s: np.ndarray, yield_latency_ms: np.ndarray) -> np.ndarray:
    """YIELD passes when the agent falls silent soon enough: 1000 off_s <= yield_latency_ms (E.3).

    Parameters
    ----------
    off_s : (n,) seconds from w0 to the first agent offset at or after it, NaN: none.
    known_s : (n,) seconds of the window that were recorded, NaN: all.
    yield_latency_ms : milliseconds, broadcastable to (k, n).

    Returns
    -------
    int8 (k, n), states.

    Examples
    --------
    >>> off, whole = np.array([0.6, 0.601, np.nan]), np.full(3, np.nan)
    >>> yield_floor(off, whole, 600.0).tolist()
    [1, 0, 0]
    """
    # Speech that ends with the recording has not ended.
    off_s = np.where(off_s >= known_s, np.nan, off_s)
    return _soon_enough(in_ms(off_s), in_ms(known_s), yield_latency_ms)


def continue_floor(off_s: np.ndarray, known_s: np.ndarray, yield_latency_ms: np.ndarray) -> np.ndarray:
    """CONTINUE passes when the agent does not yield: not (1000 off_s <= yield_latency_ms) (E.3).

    Parameters and returns are those of `yield_floor`.

    Examples
    --------
    >>> off, whole = np.array([0.6, 0.601, np.nan]), np.full(3, np.nan)
    >>> continue_floor(off, whole, 600.0).tolist()
    [0, 1, 1]
    """
    yielded = yield_floor(off_s, known_s, yield_latency_ms)
    return np.where(yielded == UNDECIDED, UNDECIDED, 1 - yielded)


def accept_overlap(overlap_s: np.ndarray, known_s: np.ndarray) -> np.ndarray:
    """ACCEPT_OVERLAP passes when both are heard together in the window: overlap_s > 0 (E.3).

    Parameters
    ----------
    overlap_s : (n,) seconds in the window when both are heard.
    known_s : (n,) seconds of the window that were recorded, NaN: all.

    Returns
    -------
    int8 (n,), states.

    Examples
    --------
    >>> accept_overlap(np.array([0.4, 0.0]), np.full(2, np.nan)).tolist()
    [1, 0]
    """
    return states(overlap_s > 0, np.isnan(known_s))


def heard(
    touching: np.ndarray, longest_s: np.ndarray, starting: np.ndarray, user_goes_on: np.ndarray,
    backchannel_max_s: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The VAD label of each window (E.2): 'silent' when touching = 0, 'backchannel' as in `backchannel`, else
    'floor_take'; str (n,).

    >>> zero, one = np.zeros(1), np.ones(1)
    >>> heard(zero, zero, zero, zero, one).tolist(), heard(one, 0.5 * one, one, one, one).tolist()
    (['silent'], ['backchannel'])
    """
    brief = (longest_s < backchannel_max_s) & (starting >= 1) & (user_goes_on == 1.0)
    return np.select([touching == 0, brief], LABELS[:2], LABELS[2])


# -- sentences: (row, state, label, limits) -> why ---------------------------------------------------------


def _there(value: Any) -> bool:
    return value is not None and value == value


def _cut(row: Mapping[str, Any]) -> str:
    return f"not measurable: the recording ends {row['known_s']:.2f} s after the window opened, before it is decided"


def _spans(count: float) -> str:
    return f"{int(count)} span{'s' if count != 1 else ''}"


def _seconds(limit: float) -> str:
    return f"{limit:g}" if limit % 1 else f"{limit:.1f}"


def _near(value: float, limit: float) -> str:
    """Two decimals, or three where two would hide on which side of the limit the value lies."""
    return f"{value:.3f}" if value != limit and round(value, 2) == limit else f"{value:.2f}"


def _silence(row, state, label, limits):
    if state == UNDECIDED:
        return _cut(row)
    if label == "silent":
        return "the agent was silent throughout the window"
    return f"the agent was heard in the window ({_spans(row['touching'])}, the longest {row['longest_s']:.2f} s)"


def _onset(row, state, label, limits):
    if state == UNDECIDED:
        return _cut(row)
    limit = limits["max_wait_s"] if row["action"] == "TAKE_TURN" else limits["interrupt_latency_ms"] / 1000
    if not _there(row["genuine_s"]):
        held = " (it was already speaking when the window opened)" if row["speaking_at_w0"] else ""
        return f"no onset inside the window{held}; limit {_seconds(limit)} s"
    return f"onset {_near(row['genuine_s'], limit)} s after the window opened; limit {_seconds(limit)} s"


def _brief(row, state, label, limits):
    if state == UNDECIDED:
        return _cut(row)
    if label == "silent":
        return "the agent was silent in the window, where a backchannel was expected"
    ceiling = limits["backchannel_max_s"]
    longest = f"the longest {_near(row['longest_s'], ceiling)} s; ceiling {_seconds(ceiling)} s"
    about = f"{_spans(row['touching'])} in the window, {longest}"
    if label == "backchannel":
        return f"{about}, at most {limits['bc_window_max']:g} spans; the user went on"
    if not row["starting"]:
        return f"{about}; none begins in the window"
    if not row["user_goes_on"]:
        return f"{about}; the user did not go on after it"
    return f"{about}: it took the floor"


def _coverage(row, state, label, limits):
    missing = row.get("tokens_missing")
    lacking = f"; missing: {' '.join(missing)}" if missing is not None and len(missing) else ""
    share = f"{int(row['tokens_matched'])} of {int(row['tokens_target'])} target tokens read back"
    return f"{share} ({row['coverage']:.2f}); needed {limits['readback_coverage']:g}{lacking}"


def _offset(row, state, label, limits):
    if state == UNDECIDED:
        return _cut(row)
    held = "" if row["speaking_at_w0"] else " (the agent was not speaking when the window opened)"
    limit = f"limit {limits['yield_latency_ms']:g} ms"
    if not _there(row["off_s"]):
        return f"no agent offset after the window opened{held}; {limit}"
    return f"the agent fell silent {row['off_s'] * 1000:.0f} ms after the window opened{held}; {limit}"


def _overlap(row, state, label, limits):
    if state == UNDECIDED:
        return _cut(row)
    return f"both were heard together for {row['overlap_s']:.2f} s in the window; needed more than 0 s"


FLOOR = "speaking_at_w0"
RULES = (
    Rule("LISTEN", silent, _silence, heard, latency="genuine_s"),
    Rule("TAKE_TURN", take_turn, _onset, heard, latency="genuine_s"),
    Rule("BACKCHANNEL", backchannel, _brief, heard, latency="genuine_s"),
    Rule("INTERRUPT", interrupt, _onset, heard, latency="genuine_s"),
    Rule("READBACK", readback, _coverage, heard),
    Rule("YIELD", yield_floor, _offset, heard, needs=FLOOR, latency="off_s"),
    Rule("CONTINUE", continue_floor, _offset, heard, needs=FLOOR, latency="off_s"),
    Rule("NO_BACKCHANNEL", silent, _silence, heard, latency="genuine_s"),
    Rule("ACCEPT_OVERLAP", accept_overlap, _overlap, heard, needs=FLOOR, latency="genuine_s"),
)
NEEDS_FLOOR = tuple(rule.name for rule in RULES if rule.needs)

VARIANT = "the agent was not speaking when the window opened, so there was no floor to hold or yield"
REASONS = {
    "no_model_onset": "the agent never began to speak, so the barge-in had nothing to cut into",
    "no_transcript": "the agent gives no transcript, which read-back is measured on",
    "empty_target": "the dictated target holds no token",
    "no_window": "the case has no scored window",
    "outside": "the recording ends before the scored window begins",
}
assert FAIL == 0  # `continue_floor` turns a pass into a fail by 1 - state
