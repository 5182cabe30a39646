"""Files that are whole or absent: atomic writes, checksums, JSON."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs

from workbench.errors import InputError


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it over `path`.

    A reader, or a run killed at any moment, sees the old file, the new file or none. The temporary
    name keeps the suffix, since audio writers choose the format by it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".part-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        write(part)
        os.chmod(part, 0o644)
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, name):
            error.filename = str(path)  # a full disk names none, and nobody knows the temporary one
        raise


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))


def write_json(path: Path, value: Any, *, indent: int | None = 2) -> None:
    write_text(path, json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False) + "\n")


class DuplicateKey(ValueError):
    """A JSON object holds one key twice; which value is meant cannot be known."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of a JSON text, for `json.loads(..., object_pairs_hook=unique)`.

    Raises
    ------
    DuplicateKey : a key stands twice.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise DuplicateKey(repr(key))
        found[key] = value
    return found


def read_json(path: Path) -> Any:
    """Read one JSON document.

    Raises
    ------
    InputError : when the file is missing, is not UTF-8, or is not JSON; the message gives the line.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the path.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, where a JSON file is needed.") from None
    except DuplicateKey as error:
        raise InputError(f"{path}: the key {error} stands twice in one object; keep one.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}).") from None
    except RecursionError:
        raise InputError(f"{path} is nested too deeply to be read; it should be a list of objects.") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: not valid JSON ({error.msg}); mend or remove it.") from None
    except ValueError as error:
        raise InputError(f"{path} holds a number that cannot be read ({error}); mend it.") from None


def sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def content_key(*parts: object, length: int = 24) -> str:
    """A short, stable name for content: the SHA-256 of the parts as canonical JSON."""
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def cache_root() -> Path:
    """`$WORKBENCH_CACHE`, else the user's cache folder."""
    named = os.environ.get("WORKBENCH_CACHE")
    return Path(named).expanduser() if named else platformdirs.user_cache_path("duplex-workbench", appauthor=False)
