"""One writer a folder: a run, a dataset or the judgements of one judge."""

from __future__ import annotations

import datetime as dt
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from workbench.errors import InputError
from workbench.files import read_json, write_json

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
        since = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        write_json(folder / HOLDER, {"pid": os.getpid(), "host": socket.gethostname(), "since": since})
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
