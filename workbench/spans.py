"""Spans: sorted, disjoint speech intervals of one channel.

Spans are a float64 array of shape (n, 2): columns start and end, in seconds from the first sample
of the channel. Intervals are half-open, [start, end), so two that merely touch are disjoint and
stay two. `as_spans` is the only way in; the other functions take its result and return the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from workbench.errors import InputError

TOLERANCE_S = 1e-9
"""Float rounding allowed when a gap is compared: 1.3 - 1.0 is a gap of 0.3 s, not less."""
LEAST_SPEECH_S = 0.09
"""The detector's shortest span: a scored window that lacks less than this at its end was recorded whole."""


def as_spans(value: Any) -> np.ndarray:
    """Validate pairs of seconds as Spans: float64, shape (n, 2), sorted; overlapping ones become one.

    Raises
    ------
    InputError : not pairs of numbers, not finite, negative, or an interval that ends before or as it starts.
    """
    try:
        spans = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{_short(value)} is not a list of [start, end] pairs in seconds; give numbers.") from None
    if spans.size == 0 and spans.ndim <= 2:
        return np.empty((0, 2))
    if spans.ndim != 2 or spans.shape[1] != 2:
        raise InputError(
            f"{_short(value)} has shape {spans.shape}, where spans have shape (n, 2); "
            "give [start, end] pairs in seconds."
        )
    for wrong, why in (
        (~np.isfinite(spans).all(axis=1), "is not finite; give both ends in seconds"),
        ((spans < 0).any(axis=1), "has a negative time; count seconds from the start of the channel"),
        (spans[:, 0] >= spans[:, 1], "does not end after it starts; check the order and the unit of its ends"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(f"Span {row} [{spans[row, 0]:g}, {spans[row, 1]:g}] {why}.")
    return _join(spans[np.argsort(spans[:, 0], kind="stable")], 0.0)


def merge(spans: np.ndarray, gap_s: float) -> np.ndarray:
    """Make one span of those that are less than `gap_s` seconds apart; a gap of exactly `gap_s` stays.

    Raises
    ------
    InputError : `gap_s` is negative or not finite.
    """
    if not (np.isfinite(gap_s) and gap_s >= 0):
        raise InputError(f"A merging gap of {gap_s} s makes no sense; give seconds, 0 or more.")
    return _join(spans, gap_s - TOLERANCE_S)


def clip(spans: np.ndarray, start_s: float, end_s: float) -> np.ndarray:
    """The part of the spans inside [start_s, end_s); times keep counting from the channel's start."""
    cut = np.clip(spans, start_s, max(start_s, end_s))
    return cut[cut[:, 0] < cut[:, 1]]


def total_s(spans: np.ndarray) -> float:
    """Seconds covered."""
    return float(np.sum(spans[:, 1] - spans[:, 0]))


def overlap_s(a: np.ndarray, b: np.ndarray) -> float:
    """Seconds covered by both; each moment counts once."""
    return float(np.sum(_covered_before(a, b[:, 1]) - _covered_before(a, b[:, 0])))


def starts_within(spans: np.ndarray, w0: float, w1: float) -> np.ndarray:
    """The spans (whole, shape (m, 2)) that start in [w0, w1], both bounds included, in seconds."""
    return spans[(spans[:, 0] >= w0) & (spans[:, 0] <= w1)]


def touching(spans: np.ndarray, w0: float, w1: float) -> np.ndarray:
    """The spans (whole, shape (m, 2)) that share more than an instant with [w0, w1], in seconds."""
    return spans[np.minimum(spans[:, 1], w1) > np.maximum(spans[:, 0], w0)]


def active_at(spans: np.ndarray, t: ArrayLike) -> np.ndarray | bool:
    """Whether start <= t < end for some span: a bool for one time in seconds, else a bool array like `t`."""
    times = np.asarray(t, dtype=np.float64)
    # In disjoint spans the number of starts passed exceeds the number of ends passed exactly inside one.
    inside = np.searchsorted(spans[:, 0], times, "right") > np.searchsorted(spans[:, 1], times, "right")
    return bool(inside) if times.ndim == 0 else inside


def _join(spans: np.ndarray, gap_s: float) -> np.ndarray:
    """Join spans sorted by start wherever one begins less than `gap_s` after all earlier ones ended."""
    if len(spans) == 0:
        return np.empty((0, 2))
    reach = np.maximum.accumulate(spans[:, 1])
    apart = spans[1:, 0] - reach[:-1] >= gap_s
    return np.column_stack([spans[np.append(True, apart), 0], reach[np.append(apart, True)]])


def _covered_before(spans: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Seconds of the spans that lie before each time."""
    if len(spans) == 0:
        return np.zeros(len(times))
    lengths = spans[:, 1] - spans[:, 0]
    passed = np.searchsorted(spans[:, 0], times, "right")  # spans that have started
    whole = np.append(0.0, np.cumsum(lengths))[np.maximum(passed - 1, 0)]
    latest = np.maximum(passed - 1, 0)
    return whole + np.clip(times - spans[latest, 0], 0.0, lengths[latest])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
