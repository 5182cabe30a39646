"""Words as they are compared, in any script: one normalisation for READBACK and for judging by words."""

from __future__ import annotations

import re
import unicodedata

_HAN_DIGITS = "零〇一二三四五六七八九"
_ALONE = "\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters of scripts that are written without spaces: each is a word."""


def words(text: str, tail: str = "") -> list[str]:
    """The words of a text: lower case, letters and digits only, full-width forms and other digits made plain.

    Chinese and Japanese are taken by characters; a run of Chinese digits is one number, as 12 is. Plain ASCII
    gives exactly [a-z0-9]+ in lower case (DuplexSpeechBench-IFEval, E.3).

    Parameters
    ----------
    text : words as written or recognised.
    tail : regular expression of what a word may go on with, such as (?:[.:][0-9]+)* for times and decimals.

    Examples
    --------
    >>> words("It's 3.5, Ｔｏｍ！")
    ['it', 's', '3', '5', 'tom']
    >>> words("星期四，电话一三八")
    ['星', '期', '4', '电', '话', '138']
    """
    plain = "".join(_digit(char) for char in unicodedata.normalize("NFKC", text).lower())
    return [
        "".join(str(_HAN_DIGITS.index(char) - (char != "零")) for char in word) if word[0] in _HAN_DIGITS else word
        for word in re.findall(rf"[{_HAN_DIGITS}]+|[{_ALONE}]|(?:(?![{_ALONE}])[^\W_])+{tail}", plain)
    ]


def phrase(text: str) -> str:
    """The words of a text in one line, apostrophes dropped, times and decimals kept whole ('5:10', '3.5')."""
    return " ".join(words(text.replace("'", "").replace("\u2019", ""), r"(?:[.:][0-9]+)*"))


def _digit(char: str) -> str:
    """A decimal digit of any script as one of 0-9, anything else as it is."""
    return char if char.isascii() or not char.isdecimal() else str(unicodedata.decimal(char))


_TOKEN = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+(?:['’][^\W_{_ALONE}]+)*")
_WEIGHT = 3.0
"""Such a character lasts as long as so many letters. Ours."""
LETTERS_PER_S = 15.0
"""Letters of ordinary speech a second (about 160 English words a minute). Ours."""


def tokens(text: str) -> list[tuple[str, int, int]]:
    """The words of a text as (word, begin, end): Unicode words, case folded; Chinese by characters."""
    return [
        (unicodedata.normalize("NFKC", found.group()).casefold().replace("’", "'"), found.start(), found.end())
        for found in _TOKEN.finditer(text)
    ]


def duration_s(text: str) -> float:
    """How long ordinary speech takes over a text."""
    return weight(text) / LETTERS_PER_S


def weight(text: str) -> float:
    """How long a text is, in letters."""
    return len(text) + (_WEIGHT - 1) * len(re.findall(f"[{_ALONE}]", text))


def several(count: int, noun: str) -> str:
    """A number of things in words.

    >>> several(1, "case"), several(12, "case")
    ('1 case', '12 cases')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""The text as a terminal may show it: what would move its cursor or turn its direction stands as a code.

    Examples
    --------
    >>> printable("gone\x1b[2J")
    'gone\\x1b[2J'
    """
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text)
