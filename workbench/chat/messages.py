"""What is sent to a language model, and finding what it said to the same before.

Words that are read are kept apart from the words that instruct the reader. A transcript may hold
anything, instructions to its judge included: it is shown as one JSON string between two marker lines
that carry a boundary derived from the content itself, so no text can contain its own boundary, and the
same inputs always give the same message, the key by which an answer is found again.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

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


def schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of an answer in the strict form: every key required, none added, order kept."""
    return _strict(model.model_json_schema())


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(value) for value in node]
    if not isinstance(node, dict):
        return node
    kept = {key: _strict(value) for key, value in node.items() if key not in ("title", "default")}
    if "properties" in node:
        kept["properties"] = {key: _strict(value) for key, value in node["properties"].items()}
        kept["required"] = list(node["properties"])
        kept["additionalProperties"] = False
    return kept


def describe_keys(model: type[BaseModel]) -> str:
    """The keys of an answer as a list for the prompt, for servers that take no schema."""
    lines = []
    for key, node in schema(model)["properties"].items():
        kind = node.get("type", "object")
        if "enum" in node:
            kind = "one of " + ", ".join(f'"{value}"' for value in node["enum"])
        elif "minimum" in node:
            kind = f"number from {node['minimum']:g} to {node['maximum']:g}"
        lines.append(f'- "{key}" ({kind}): {node.get("description", "")}'.rstrip(": "))
    return "\n".join(lines)


def digest(sent: list[dict[str, Any]]) -> str:
    """A short hash of messages as sent, clips included."""
    return hashlib.sha256(repr(sent).encode("utf-8", "backslashreplace")).hexdigest()[:24]


class Cache:
    """Answers found by the content of what was asked, so that nothing is asked twice.

    An index over files of lines, pydantic models with a `key` (the content of what was asked) and a `status` that
    is 'ok' where it was answered; errors are left out, since they are to be asked again. `own` is the file that
    the caller writes, `shared` one that this class adds to (it can serve many runs), `others` are more to read.
    """

    def __init__(
        self,
        lines_of: Callable[[Path], Iterable[Any]],
        own: Path,
        shared: Path | None = None,
        *,
        others: tuple[Path, ...] = (),
        keep_errors: bool = False,
    ):
        self._shared = shared
        self._found: dict[str, Any] = {}
        for path in (shared, *others, own):
            if path is not None:
                for line in lines_of(path):
                    if line.status == "ok" or (keep_errors and path == own):
                        self._found[line.key] = line

    def get(self, key: str) -> Any | None:
        return self._found.get(key)

    def add(self, line: Any) -> None:
        """Remember a good answer, and write it to the shared file when there is one."""
        if line.status != "ok":
            return
        self._found[line.key] = line
        if self._shared is not None:
            self._shared.parent.mkdir(parents=True, exist_ok=True)
            with self._shared.open("ab+") as stream:
                # A line cut off by a killed process is closed first, so that this one stands alone.
                stream.seek(0, 2)
                if stream.tell():
                    stream.seek(-1, 2)
                    if stream.read(1) != b"\n":
                        stream.write(b"\n")
                stream.write(line.model_dump_json().encode() + b"\n")
