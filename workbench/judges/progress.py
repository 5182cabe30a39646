"""A line that shows how judging goes: rate, time left, errors, tokens, money."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from workbench.judges.batch import Tally


@contextmanager
def progress(console: Console) -> Iterator[Callable[[Tally], None]]:
    """Show progress on `console` while the context lasts; yields the callback for `judge_run`."""
    columns = (
        TextColumn("judging"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[spent]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("judging", total=None, rate="", spent="")

        def update(tally: Tally) -> None:
            elapsed_s = bar.tasks[0].elapsed or 0
            rate = f"{60 * tally.judged / elapsed_s:.0f}/min" if elapsed_s >= 1 and tally.judged else ""
            bar.update(task, total=tally.total, completed=tally.done, rate=rate, spent=spent(tally))

        yield update


def spent(tally: Tally) -> str:
    """Errors, tokens and money in a few words."""
    words = []
    if tally.errors:
        words.append(f"{tally.errors} error{'s' if tally.errors > 1 else ''}")
    if tally.prompt_tokens or tally.completion_tokens:
        words.append(f"{tally.prompt_tokens:,} + {tally.completion_tokens:,} tokens")
    if tally.without_usage:
        words.append(f"{tally.without_usage} without token counts")
    if tally.money is not None:
        words.append(f"cost {tally.money:.4f}")
    return ", ".join(words)
