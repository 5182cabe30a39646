"""Progress of long work: a bar with rate and time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderableType
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
from rich.segment import Segment
from rich.text import Text

from workbench.text import printable


class Screen(Console):
    """A console on which words from outside (an agent's, a server's) can do nothing but be read."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


console = Screen(stderr=True)
_LINE_EVERY_S = 15.0


class _Rate(ProgressColumn):
    def render(self, task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.1f}/s", style="dim")


class Meter:
    """Counts finished items; `note` is shown beside the bar (errors so far, seconds of audio ...)."""

    def __init__(self, total: int):
        self.done, self.total, self.note = 0, total, ""
        self._show: Callable[[], object] = lambda: None

    def step(self, note: str = "") -> None:
        self.at(self.done + 1, self.total, note)

    def at(self, done: int, total: int, note: str = "") -> None:
        """Say how much is done of how much, where both are only known on the way."""
        self.done, self.total, self.note = done, total, note or self.note
        self._show()


@contextmanager
def meter(label: str, total: int = 0) -> Iterator[Meter]:
    """Show progress on standard error while the block runs."""
    here = Meter(total)
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
            here._show = lambda: progress.update(task, completed=here.done, total=here.total, note=here.note)
            yield here
        return

    began_s = shown_s = time.monotonic()

    def line() -> None:
        spent_s = time.monotonic() - began_s
        rate = here.done / spent_s if spent_s else 0.0
        left = f", about {(here.total - here.done) / rate:.0f} s left" if rate and here.done < here.total else ""
        note = f", {here.note}" if here.note else ""
        print(f"{label}: {here.done}/{here.total} in {spent_s:.0f} s ({rate:.1f}/s{left}{note})", file=sys.stderr)

    def now_and_then() -> None:
        nonlocal shown_s
        if time.monotonic() - shown_s >= _LINE_EVERY_S:
            shown_s = time.monotonic()
            line()

    here._show = now_and_then
    yield here
    if here.total:
        line()
