"""Scripts with markers: what they are taken apart into, and what is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.benchmarks.ifeval.cases import anchor_s, pieces_of, shape_of, spoken
from workbench.cases import Segment


def test_a_script_is_taken_apart_at_its_markers():
    pieces = pieces_of(
        "So I, <pause:2.5s> well. <check:You there?><pause:1.50s> <chunk:four two>\n <barge_in: Stop  it! >"
    )
    assert [(piece.kind, piece.mark, piece.text, piece.duration_s) for piece in pieces] == [
        ("speech", "", "So I,", None),
        ("silence", "pause", "", 2.5),
        ("speech", "", "well.", None),
        ("speech", "check", "You there?", None),
        ("silence", "pause", "", 1.5),
        ("speech", "chunk", "four two", None),
        ("speech", "barge_in", "Stop it!", None),
    ]
    assert shape_of(pieces_of("a <chunk_gap:1.2s> <flag:b>")) == ["text", "chunk_gap:1.2", "flag"]
    assert spoken("a <chunk_gap:1.2s> <flag:b c> d") == "a b c d"


def test_punctuation_after_a_marker_is_not_a_piece():
    assert shape_of(pieces_of("It is <chunk:four two>.")) == ["text", "chunk"]


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("a <pause:2.5> b", "'<pause:2.5>' needs a duration such as 1.5s"),
        ("a <pause:0s> b", "needs a duration"),
        ("a <pause:-1s> b", "needs a duration"),
        ("a <pause:nans> b", "needs a duration"),
        ("a <pause:> b", "no duration such as 1.5s"),
        ("a <chunk:2s> b", "holds a duration, where words are needed"),
        ("a <chunk:> b", "holds no words"),
        ("a <flag: ... > b", "holds no words"),
        ("a <silence:2s> b", "is unknown; markers are pause, chunk_gap, chunk, check, flag, barge_in"),
        ("a <pause 2s> b", "stray angle bracket"),
        ("a <pause:2s b", "stray angle bracket"),
        ("a > b", "stray angle bracket"),
        ("a <flag:b <chunk:c>> d", "stray angle bracket"),
        ("<pause:1.0s>", "no spoken text"),
        ("", "no spoken text"),
        ("...", "no spoken text"),
    ],
)
def test_what_cannot_be_read_is_quoted(script, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        pieces_of(script)


@given(st.text(alphabet="ab <>:._spauechnk1", max_size=60))
def test_any_text_is_pieces_or_one_sentence(script):
    try:
        pieces = pieces_of(script)
    except ValueError as error:
        assert str(error)
        return
    assert any(piece.kind == "speech" for piece in pieces)
    for piece in pieces:
        assert (piece.duration_s is not None and piece.duration_s > 0) == (piece.kind == "silence")
        assert piece.kind == "silence" or re.search(r"\w", piece.text)


SEGMENTS = (
    Segment(kind="speech", start_s=0.0, end_s=1.0),
    Segment(kind="silence", mark="pause", start_s=1.0, end_s=2.5),
    Segment(kind="speech", mark="chunk", start_s=2.5, end_s=3.0),
    Segment(kind="silence", mark="pause", start_s=3.0, end_s=4.0),
)


@pytest.mark.parametrize(
    ("anchor", "seconds"),
    [
        ("turn.start", 0.0),
        ("turn.end", 3.0),  # the end of the last speech, not of the silence after it
        ("turn.start+3.0", 3.0),
        ("turn.end+8.0", 11.0),
        ("pause.1.start", 1.0),
        ("pause.1.end", 2.5),
        ("pause.2.start", 3.0),
        ("pause.last.end", 4.0),
        ("chunk.1.end", 3.0),
    ],
)
def test_anchors(anchor, seconds):
    assert anchor_s(anchor, SEGMENTS) == seconds


@pytest.mark.parametrize("anchor", ["flag.1.end", "pause.3.start", "chunk_gap.last.end"])
def test_an_anchor_without_a_segment_is_named(anchor):
    with pytest.raises(ValueError, match=re.escape(repr(anchor))):
        anchor_s(anchor, SEGMENTS)
