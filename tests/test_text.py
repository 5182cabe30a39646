"""One normalisation of words: English exactly as the paper's rule has it, other scripts at all."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.benchmarks.ifeval.cases import tokens
from workbench.text import phrase, words


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_the_paper_s_rule(text):
    assert words(text) == re.findall(r"[a-z0-9]+", text.lower())
    old = re.findall(r"[a-z0-9]+(?:[.:][0-9]+)*", text.lower().replace("'", ""))
    assert phrase(text) == " ".join(old)


@given(st.text())
def test_any_text_has_words_that_stay_as_they_are(text):
    once = words(text)
    assert words(" ".join(once)) == once and all(once)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Don’t — stop…", ["don", "t", "stop"]),
        ("ＡＢＣ１２３", ["abc123"]),
        ("星期四", ["星", "期", "4"]),
        ("一三八零〇二", ["138002"]),
        ("一三八，零零", ["138", "00"]),
        ("٤٢", ["42"]),
        ("ひらカナ", ["ひ", "ら", "カ", "ナ"]),
        ("Привет, мир", ["привет", "мир"]),
        ("café", ["café"]),
        ("电话138号", ["电", "话", "138", "号"]),
        ("，。！", []),
    ],
)
def test_words(text, found):
    assert words(text) == found


def test_readback_in_english_and_in_chinese():
    assert tokens("Four-two, NINE oh; code B7") == ["4", "2", "9", "0", "code", "b7"]
    assert tokens("It's 4290") == ["it", "s", "4", "2", "9", "0"]
    assert tokens("四二九零") == tokens("４２９０") == tokens("four two nine oh") == ["4", "2", "9", "0"]
    assert tokens("房号三〇一，王") == ["房", "号", "3", "0", "1", "王"]
