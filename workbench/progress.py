"""Progress of long work: a bar with rate and time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

console = Console(stderr=True)
_LINE_EVERY_S = 15.0


class _Rate(ProgressColumn):
    def render(self, task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f}/s", style="dim")


class Meter:
    """Counts finished items; `note` is shown beside the bar (errors so far, seconds of audio ...)."""

    def __init__(self, advance, describe):
        self._advance, self._describe = advance, describe

    def step(self, note: str = "") -> None:
        self._advance(1)
        if note:
            self._describe(note)


@contextmanager
def meter(label: str, total: int) -> Iterator[Meter]:
    """Show progress on standard error while the block runs."""
    if console.is_terminal:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[note]}"),
        )
        with Progress(*columns, console=console, refresh_per_second=5) as progress:
            task = progress.add_task(label, total=total, note="")
            yield Meter(
                lambda count: progress.advance(task, count),
                lambda note: progress.update(task, note=note),
            )
        return

    state = {"done": 0, "note": "", "shown": time.monotonic(), "began": time.monotonic()}

    def advance(count: int) -> None:
        state["done"] += count
        if time.monotonic() - state["shown"] >= _LINE_EVERY_S:
            show()

    def show() -> None:
        state["shown"] = time.monotonic()
        spent_s = state["shown"] - state["began"]
        rate = state["done"] / spent_s if spent_s else 0.0
        left = f", about {(total - state['done']) / rate:.0f} s left" if rate and state["done"] < total else ""
        note = f", {state['note']}" if state["note"] else ""
        print(f"{label}: {state['done']}/{total} in {spent_s:.0f} s ({rate:.1f}/s{left}{note})", file=sys.stderr)

    yield Meter(advance, lambda note: state.update(note=note))
    if total:
        show()
