"""Files that are whole or absent: atomic writes, checksums, JSON."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
import yaml
from filelock import FileLock, Timeout

from workbench.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


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
    text = _read_text(path, "JSON")
    try:
        return json.loads(text, object_pairs_hook=unique)
    except DuplicateKey as error:
        raise InputError(f"{path}: the key {error} stands twice in one object; keep one.") from None
    except RecursionError:
        raise InputError(f"{path} is nested too deeply to be read; it should be a list of objects.") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: not valid JSON ({error.msg}); mend or remove it.") from None
    except ValueError as error:
        raise InputError(f"{path} holds a number that cannot be read ({error}); mend it.") from None


def read_yaml(path: Path) -> Any:
    """Read one YAML document.

    Raises
    ------
    InputError : naming the file, and the line where the parser gives one.
    """
    text = _read_text(Path(path), "YAML")
    try:
        # LibYAML's loader is some eight times as fast; wheels have it, a build of one's own may not.
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not valid YAML: {' '.join(str(error).split())}.") from None


def _read_text(path: Path, kind: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the path.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, where a {kind} file is needed.") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8."
        ) from None


def timestamp() -> str:
    """The time now, to the second, in UTC."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


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


LOCK, HOLDER = ".lock", ".holder.json"


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Be the only process that writes into `folder`, which is made when it is not there.

    The system gives the lock up with the process that holds it, so one that was killed stands in
    nobody's way.

    Raises
    ------
    InputError : another process writes there; it is named by number, machine and since when.
    """
    folder = Path(folder)
    fresh = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise InputError(f"{folder} is being written by {_holder(folder)}; let it finish, or end it.") from None
    try:
        write_json(folder / HOLDER, {"pid": os.getpid(), "host": socket.gethostname(), "since": timestamp()})
        yield
    finally:
        # A waiting process that has the removed file open is refused it by filelock, and opens the new one.
        for name in (HOLDER, LOCK):
            with suppress(OSError):
                (folder / name).unlink()
        lock.release()
        if fresh:
            with suppress(OSError):
                folder.rmdir()  # where nothing came of it


def _holder(folder: Path) -> str:
    try:
        held = read_json(folder / HOLDER)
        return f"process {held['pid']} on {held['host']} since {held['since']}"
    except (InputError, OSError, KeyError, TypeError):
        return "another process"  # it has only just begun


def is_empty(folder: Path, *left: str) -> bool:
    """Whether nothing of anybody's lies in `folder`; locks and what a kill leaves (`left`) count as nothing."""
    nothing = (LOCK, HOLDER, ".part-", *left)
    return not folder.exists() or all(path.name.startswith(nothing) for path in folder.iterdir())


_PACKAGE = Path(__file__).parent


def data_path(*parts: str) -> Path:
    """Path of a shipped data file or folder, such as data_path('judges', 'red_team.yaml')."""
    inside = _PACKAGE / "_data"
    root = inside if inside.is_dir() else _PACKAGE.parent / "data"
    return root.joinpath(*parts)


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(path: Path, rows: pd.DataFrame) -> None:
    """Write a CSV in which no text can act as a spreadsheet formula (such cells get a leading ')."""
    safe = rows.map(lambda cell: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell)
    write_atomically(path, lambda part: safe.to_csv(part, index=False))
