"""Spans: the algebra against a slow model on a fine grid, and the refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import InputError
from workbench.spans import active_at, as_spans, clip, merge, overlap_s, starts_within, total_s, touching

CELLS = 64
STEP_S = 0.25  # exact in binary, so the grid model is exact too

pairs = st.tuples(st.integers(0, CELLS - 1), st.integers(1, 12)).map(
    lambda p: (p[0] * STEP_S, min(p[0] + p[1], CELLS) * STEP_S)
)
spans = st.lists(pairs, max_size=12).map(as_spans)
times = st.integers(0, CELLS).map(lambda i: i * STEP_S)


def cells(value: np.ndarray) -> np.ndarray:
    """Which grid cells are covered; the plain model that the functions are compared with."""
    covered = np.zeros(CELLS, bool)
    for start, end in value:
        covered[round(start / STEP_S) : round(end / STEP_S)] = True
    return covered


@settings(deadline=None)
@given(st.lists(pairs, max_size=12))
def test_as_spans_covers_the_same_time_sorted_and_disjoint(value):
    result = as_spans(value)
    assert result.dtype == np.float64 and result.shape[1:] == (2,)
    assert (cells(result) == cells(np.array(value).reshape(-1, 2))).all()
    assert (result[:, 0] < result[:, 1]).all() and (result[1:, 0] >= result[:-1, 1]).all()
    assert np.array_equal(as_spans(result), result)


@settings(deadline=None)
@given(spans, spans)
def test_overlap_and_total_count_each_moment_once(a, b):
    assert total_s(a) == cells(a).sum() * STEP_S
    assert overlap_s(a, b) == overlap_s(b, a) == (cells(a) & cells(b)).sum() * STEP_S
    assert overlap_s(a, a) == total_s(a)


@settings(deadline=None)
@given(spans, times, times)
def test_clip_keeps_what_is_inside(value, w0, w1):
    inside = np.arange(CELLS) * STEP_S
    assert (cells(clip(value, w0, w1)) == (cells(value) & (inside >= w0) & (inside < w1))).all()
    assert np.isclose(total_s(clip(value, w0, w1)), overlap_s(value, np.array([[w0, w1]])) if w0 < w1 else 0)


@settings(deadline=None)
@given(spans, times, times)
def test_windows_select_whole_spans(value, w0, w1):
    assert starts_within(value, w0, w1).tolist() == [s for s in value.tolist() if w0 <= s[0] <= w1]
    assert touching(value, w0, w1).tolist() == [s for s in value.tolist() if min(s[1], w1) - max(s[0], w0) > 0]


@settings(deadline=None)
@given(spans, st.lists(times, max_size=5))
def test_active_at_is_half_open(value, asked):
    expected = [any(start <= t < end for start, end in value) for t in asked]
    assert active_at(value, asked).tolist() == expected
    assert all(active_at(value, t) is e for t, e in zip(asked, expected, strict=True))


@settings(deadline=None)
@given(spans, st.integers(0, 8).map(lambda i: i * STEP_S))
def test_merge_joins_exactly_the_smaller_gaps(value, gap_s):
    merged = merge(value, gap_s)
    assert ((merged[1:, 0] - merged[:-1, 1]) >= gap_s).all()
    gaps = value[1:, 0] - value[:-1, 1]
    assert len(merged) == len(value) - int((gaps < gap_s).sum())
    assert np.isclose(total_s(merged), total_s(value) + gaps[gaps < gap_s].sum())
    assert np.array_equal(merge(merged, gap_s), merged)


def test_a_gap_of_exactly_the_limit_survives_float_rounding():
    for first_end_s in np.arange(0.1, 50, 0.1):
        two = as_spans([[0, first_end_s], [first_end_s + 0.3, first_end_s + 1]])
        assert len(merge(two, 0.3)) == 2
        assert len(merge(two, 0.301)) == 1


def test_touching_spans_stay_two_and_nested_ones_become_one():
    assert as_spans([[1, 2], [0, 1]]).tolist() == [[0, 1], [1, 2]]
    assert as_spans([[0, 5], [1, 2], [4, 6]]).tolist() == [[0, 6]]


def test_empty_spans_work_everywhere():
    none = as_spans([])
    one = as_spans([[0, 1]])
    assert none.shape == merge(none, 1).shape == clip(none, 0, 1).shape == touching(none, 0, 1).shape == (0, 2)
    assert total_s(none) == overlap_s(none, one) == overlap_s(one, none) == 0
    assert active_at(none, 0.5) is False


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([[0, float("nan")]], "not finite"),
        ([[0, float("inf")]], "not finite"),
        ([[-0.1, 1]], "negative"),
        ([[0, 1], [2, 2]], r"Span 1 \[2, 2\] does not end after"),
        ([[3, 2]], "does not end after"),
        ([[0, 1, 2]], "shape"),
        ([0, 1], "shape"),
        ([["a", "b"]], "pairs"),
        ([[0, 1], [2]], "pairs"),
        (None, "shape|pairs"),
    ],
)
def test_bad_spans_are_refused_by_a_sentence(value, says):
    with pytest.raises(InputError, match=says):
        as_spans(value)


@pytest.mark.parametrize("gap_s", [-0.1, float("nan"), float("inf")])
def test_a_senseless_gap_is_refused(gap_s):
    with pytest.raises(InputError, match="gap"):
        merge(as_spans([[0, 1]]), gap_s)
