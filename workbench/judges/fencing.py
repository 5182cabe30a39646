"""Keeping the words that are judged apart from the words that instruct the judge.

A transcript may hold anything, instructions to its judge included. It is shown as one JSON string
between two marker lines that carry a boundary derived from the content itself, so no text can
contain its own boundary, and the same inputs always give the same message (and cache key).
"""

from __future__ import annotations

import json
import unicodedata

from workbench.files import content_key

MAX_CHARS = 24_000
"""Longest quotation; a longer one is cut and says so (about half an hour of speech)."""

_ESCAPED = "<>[]"
"""Besides what JSON escapes: no tag, chat-template token or marker line can be formed from these."""

_INVISIBLE = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
"""Unicode categories shown as \\u escapes: controls, joiners, bidi overrides, tags, lone surrogates."""


def clean(text: str) -> str:
    """`text` with lone surrogates written out, so that it can be encoded as UTF-8 anywhere."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def boundary_of(*texts: str) -> str:
    """A 16-digit hexadecimal boundary that stands in none of the texts."""
    salt = 0
    while True:
        boundary = content_key("boundary", salt, *[clean(text) for text in texts], length=16)
        if not any(boundary in text for text in texts):
            return boundary
        salt += 1


def quote(text: str) -> str:
    """`text` as one line: a JSON string (decodable by json.loads) without brackets or invisible characters."""
    if len(text) > MAX_CHARS:
        text = text[:MAX_CHARS] + f" ... (cut here; {len(text) - MAX_CHARS} more characters)"
    return "".join(_visible(char) for char in json.dumps(text, ensure_ascii=False))


def fence(text: str, boundary: str) -> str:
    """The quotation between its two marker lines."""
    return f"[[QUOTE {boundary}]]\n{quote(text)}\n[[END {boundary}]]"


def _visible(char: str) -> str:
    if char not in _ESCAPED and unicodedata.category(char) not in _INVISIBLE:
        return char
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
