"""Every run of a folder as one frame, read again while runs are being written.

A row is keyed by (run, case, event, metric); the last two are '' for benchmarks with one row a case.
Only what tables and filters need is held: a case, a record or spans are read when somebody looks at
them (see `detail`). One store serves all sessions of a process.

Every row has the columns of `run_rows.CORE`, and those that its benchmark declares. A verdict is 'pass', 'fail',
'not_eligible', 'unmeasurable', 'not scored' or 'not recorded'.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from workbench.app.filters import Table
from workbench.app.run_rows import CORE, RunRows, columns_of, read_run, signature
from workbench.contract import KEYS, Column
from workbench.errors import InputError
from workbench.files import content_key

Key = tuple[str, str, str, str]
KEY = ("run", *KEYS)
ROUTE = "wb-files"
"""Under which `files` serves the files of runs."""

_LOOK_AGAIN_S = 2.0
"""Sessions share one look at the disk in this time."""


def key_of(row: pd.Series, names: Iterable[str] = KEY) -> Key:
    return tuple(row[name] for name in names)


def whole_key(key: Iterable[str]) -> Key:
    """A key whose last parts may be left out."""
    return (*key, "", "", "", "")[: len(KEY)]


class Store:
    """The runs below one or more folders.

    readers : functions run -> frame with columns case, event, perhaps metric and further ones
    (annotations, say), joined to the rows of that run; a column that `CORE` has already is overwritten where not null.
    """

    def __init__(self, folders: Iterable[str | Path], readers: Iterable[Callable[[RunRows], pd.DataFrame]] = ()):
        self.folders = [Path(folder).resolve() for folder in folders]
        self.readers = list(readers)
        for folder in self.folders:
            if not folder.is_dir():
                raise InputError(f"{folder} is not a folder; give a folder of runs, or one run.")
        self.token = content_key(*map(str, self.folders), length=10)
        self.version = 0
        self.runs: dict[str, RunRows] = {}
        self.problems: list[str] = []
        self.frame = pd.DataFrame(columns=list(CORE))
        self.texts = pd.Series([], dtype=str)
        self._lock = threading.RLock()
        self._looked = 0.0
        self._table: Table | None = None
        self._where: dict[Key, int] = {}
        self._reading: threading.Thread | None = None
        self.refresh()

    # -- reading -------------------------------------------------------------------------------

    def refresh(self, *, force: bool = False) -> bool:
        """Look at the disk; True when something changed. Cheap when nothing has."""
        with self._lock:
            if not force and time.monotonic() - self._looked < _LOOK_AGAIN_S and self.version:
                return False
            found, problems = self._find()
            runs, changed = {}, set(found) != set(self.runs) or problems != self.problems or not self.version
            for name, folder in found.items():
                now = signature(folder)
                old = self.runs.get(name)
                if old is None or old.signature != now or force:
                    changed = True
                    runs[name] = read_run(name, folder, now, known=old.records if old else {})
                else:
                    runs[name] = old
            self.runs, self.problems = runs, problems
            if changed:
                self._assemble()
            self._looked = time.monotonic()
        if self.unread:
            self._read_records()
        return changed

    def _find(self) -> tuple[dict[str, Path], list[str]]:
        found: dict[str, Path] = {}
        problems: list[str] = []
        for root in self.folders:
            candidates = [root] if (root / "run.json").exists() else [
                path.parent for pattern in ("*/run.json", "*/*/run.json") for path in sorted(root.glob(pattern))
            ]  # fmt: skip
            for folder in candidates:
                name = folder.name if folder == root else folder.relative_to(root).as_posix()
                if not folder.resolve().is_relative_to(root):
                    problems.append(f"{folder} is a link out of {root}; name that folder itself to look at it.")
                    continue
                while name in found:
                    name += "'"  # two folders may each hold a run of the same name
                found[name] = folder
        if not found:
            problems.append(f"There is no run in {', '.join(map(str, self.folders))} yet: `workbench run` makes one.")
        return found, problems

    def _assemble(self) -> None:
        parts = []
        for run in self.runs.values():
            rows = run.rows
            for reader in self.readers:
                rows = _joined(rows, reader(run))
            parts.append(rows)
        frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(CORE))
        for name in set(frame) - set(CORE):
            # Counts stay counts where another benchmark has no such tag.
            if frame[name].dtype.kind == "f" and all(part[name].dtype.kind == "i" for part in parts if name in part):
                frame[name] = frame[name].astype("Int64")
        self.texts = frame.pop("text") if "text" in frame else pd.Series([], dtype=str)
        self.frame = frame
        self._table = None
        self._where = {key: row for row, key in enumerate(zip(*(frame[name] for name in KEY), strict=True))}
        self.version += 1

    # -- transcripts, read in the background ---------------------------------------------------

    @property
    def unread(self) -> int:
        """Records whose transcript is not read yet, so that a search does not reach it."""
        return sum(len(run.unread) for run in self.runs.values())

    def _read_records(self) -> None:
        if self._reading is None or not self._reading.is_alive():
            self._reading = threading.Thread(target=self._read_all, name="transcripts", daemon=True)
            self._reading.start()

    def _read_all(self) -> None:
        while True:
            with self._lock:
                runs = [run for run in self.runs.values() if run.unread]
            if not runs:
                return
            for run in runs:
                for case_id in list(run.unread):
                    run.read_record(case_id)
                    time.sleep(0)  # a browser waits for the same interpreter
                run.fill_records()
            with self._lock:
                self._assemble()

    def wait(self, timeout_s: float = 60.0) -> None:
        """Wait until every transcript is read (tests and notebooks; the app does not wait)."""
        if self._reading is not None:
            self._reading.join(timeout_s)

    def read_again(self) -> None:
        """Call the readers again, after an annotation say."""
        with self._lock:
            self._assemble()

    # -- looking up ----------------------------------------------------------------------------

    @property
    def table(self) -> Table:
        """The frame prepared for filtering, made once a version for all sessions."""
        with self._lock:
            if self._table is None:
                self._table = Table(self.frame, self.texts, self.columns)
            return self._table

    @property
    def columns(self) -> dict[str, Column]:
        """What is declared of the columns of these runs, in the order of tables."""
        return columns_of(list(dict.fromkeys(run.benchmark for run in self.runs.values())))

    def position(self, key: Key) -> int | None:
        """The row of a key in `frame`, or None."""
        return self._where.get(whole_key(key))

    def row(self, key: Key) -> pd.Series | None:
        at = self.position(key)
        return None if at is None else self.frame.iloc[at]

    def address(self, run: str, relative: str) -> str:
        """The address of a run's file, relative to the page, so that it holds behind any prefix or proxy."""
        return f"{ROUTE}/{self.token}/{self.runs[run].token}/{quote(relative)}"

    def by_token(self, token: str) -> RunRows | None:
        return next((run for run in self.runs.values() if run.token == token), None)


def _joined(rows: pd.DataFrame, extra: pd.DataFrame) -> pd.DataFrame:
    if extra is None or extra.empty:
        return rows
    names = [name for name in KEY if name in extra and name != "run"]
    extra = extra.drop_duplicates(names, keep="last").set_index(names)
    keys = pd.MultiIndex.from_frame(rows[names])
    rows = rows.copy()
    for name in extra:
        fresh = extra[name].reindex(keys).to_numpy()
        rows[name] = pd.Series(fresh, index=rows.index).where(pd.notna(fresh), rows.get(name))
    return rows
