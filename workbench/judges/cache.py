"""Judgements found by their content, so that nothing is asked twice.

The key of an item holds everything that shapes the answer: judge, prompt, model, host, parameters,
messages. The lines of a judge's own folder are such a cache; a shared folder (one file a judge) can
serve many runs.
"""

from __future__ import annotations

from pathlib import Path

from workbench.judges.records import Judgement
from workbench.judges.store import read_lines


class Cache:
    """An index over judgement files; errors are left out, since they are to be asked again.

    `own` is the file that the caller writes, `shared` one that this class adds to, `read` are others.
    """

    def __init__(
        self, own: Path, shared: Path | None = None, *, read: tuple[Path, ...] = (), keep_errors: bool = False
    ):
        self._shared = shared
        self._found: dict[str, Judgement] = {}
        for path in (shared, *read, own):
            if path is not None:
                for line in read_lines(path):
                    if line.status == "ok" or (keep_errors and path == own):
                        self._found[line.key] = line

    def get(self, key: str) -> Judgement | None:
        return self._found.get(key)

    def add(self, judgement: Judgement) -> None:
        """Remember a good judgement, and write it to the shared file when there is one."""
        if judgement.status != "ok":
            return
        self._found[judgement.key] = judgement
        if self._shared is not None:
            self._shared.parent.mkdir(parents=True, exist_ok=True)
            with self._shared.open("ab+") as stream:
                # A line cut off by a killed process is closed first, so that this one stands alone.
                stream.seek(0, 2)
                if stream.tell():
                    stream.seek(-1, 2)
                    if stream.read(1) != b"\n":
                        stream.write(b"\n")
                stream.write(judgement.model_dump_json().encode() + b"\n")
