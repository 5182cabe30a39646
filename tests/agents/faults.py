"""Running many short cases at once, for they spend their time waiting; and what a fault must come to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from talk import talk

AT_ONCE = 8


def together(jobs: dict[str, Callable[[], Awaitable[Any]]]) -> dict[str, Any]:
    """name -> what the job of that name returned; a few at a time."""

    async def all_of_them():
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(job):
            async with slots:
                return await job()

        return await asyncio.gather(*(one(job) for job in jobs.values()))

    return dict(zip(jobs, asyncio.run(all_of_them()), strict=True))


def outcomes(faults: dict, running, make) -> dict:
    """name -> Result. `faults` is name -> (server behaviour, kind, words, retry); `make(url, name)` an agent."""

    async def one(name: str):
        async with running(**faults[name][0]) as (_, url):
            return await talk(lambda: make(url, name))

    return together({name: lambda name=name: one(name) for name in faults})


def check(fault: tuple, result) -> None:
    _, kind, words, retry = fault
    assert result.record.status == "error"
    assert (result.record.error.kind, result.retry) == (kind, retry), result.record.error
    assert words in result.record.error.message
