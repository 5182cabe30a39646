"""Text of others as HTML that shows it and cannot act: what models, servers and files say is hostile.

Everything shown goes through `esc`. Control characters (ANSI codes) and marks that turn the writing
direction are replaced by visible signs, since they could hide or fake words even when escaped.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

_LONGEST = 20_000


def plain(value: Any, limit: int = _LONGEST) -> str:
    """One string with every invisible control made visible; cut, and said so, after `limit` characters."""
    text = "" if value is None else str(value)
    cut = len(text) - limit
    if cut > 0:
        text = text[:limit]
    simple = text.isascii() and text.isprintable()  # most texts are, and this is on the way to every case
    out = text if simple else "".join(_visible(sign) if _hidden(sign) else sign for sign in text)
    return f"{out} [{cut} more characters]" if cut > 0 else out


def _hidden(sign: str) -> bool:
    return sign not in "\n\t" and unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _visible(sign: str) -> str:
    code = ord(sign)
    if code < 0x20:
        return chr(0x2400 + code)  # the picture of the control, such as ␛
    return f"[U+{code:04X}]"


def esc(value: Any, limit: int = _LONGEST) -> str:
    """`plain`, escaped for HTML text and for quoted attributes."""
    return html.escape(plain(value, limit), quote=True)


def block(value: Any) -> str:
    """A block that keeps line breaks."""
    return f'<div class="wb-text">{esc(value)}</div>'


def muted(text: str) -> str:
    """HTML as an aside; nothing of nothing."""
    return f'<div class="wb-muted">{text}</div>' if text else ""


def pairs(entries: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> str:
    """A two-column list; entries that say nothing are left out."""
    entries = entries.items() if isinstance(entries, Mapping) else entries
    lines = [
        f"<dt>{esc(name)}</dt><dd>{esc(rounded(value))}</dd>"
        for name, value in entries
        if not nothing(value)
    ]  # fmt: skip
    return f'<dl class="wb-pairs">{"".join(lines)}</dl>' if lines else ""


def nothing(value: Any) -> bool:
    if value is None or (isinstance(value, str) and not value):
        return True
    return value is pd.NA or (isinstance(value, float) and math.isnan(value))


def rounded(value: Any) -> Any:
    """Floats to at most three decimals; everything else as it is."""
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return value


def cell(value: Any) -> str:
    """A value in a table, as text."""
    return "" if nothing(value) else plain(rounded(value), 300)


_MARK = re.compile(r"<[a-z_]+(:[^<>]*)?>")


def script(value: Any) -> str:
    """A user script with its markers set off; a marker is text like the rest."""
    text, out, at = plain(value), [], 0
    for found in _MARK.finditer(text):
        out.append(html.escape(text[at : found.start()]))
        out.append(f'<span class="wb-mark">{html.escape(found.group(0)[1:-1])}</span>')
        at = found.end()
    out.append(html.escape(text[at:]))
    return f'<div class="wb-text">{"".join(out)}</div>'


def terms(words: str) -> list[str]:
    """What a search looks for: words, and phrases in double quotes; case is folded."""
    found = re.findall(r'"([^"]+)"|([^\s"]+)', words.casefold())
    return [phrase or word for phrase, word in found]


def highlight(value: Any, words: str) -> str:
    """A block with the searched words marked."""
    text = plain(value)
    wanted = [re.escape(word) for word in terms(words)]
    if not wanted:
        return f'<div class="wb-text">{html.escape(text)}</div>'
    out, at = [], 0
    for found in re.finditer("|".join(wanted), text, re.IGNORECASE):
        out.append(html.escape(text[at : found.start()]) + f"<mark>{html.escape(found.group(0))}</mark>")
        at = found.end()
    return f'<div class="wb-text">{"".join(out)}{html.escape(text[at:])}</div>'
