"""Spacing of requests: an even rate, and a common hold when the server asks for one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class Pace:
    """Lets requests through at most `per_minute` (None: unlimited), evenly, never in a burst.

    `sleep` and `clock` are there for tests; seconds.
    """

    def __init__(
        self,
        per_minute: float | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._interval_s = 60 / per_minute if per_minute else 0.0
        self._sleep, self._clock = sleep, clock
        self._next = self._held_until = float("-inf")

    async def turn(self) -> None:
        """Wait for this request's turn."""
        now = self._clock()
        at = max(now, self._next, self._held_until)
        self._next = at + self._interval_s
        if at > now:
            await self._sleep(at - now)
        while (left := self._held_until - self._clock()) > 0:
            await self._sleep(left)

    def hold(self, seconds: float) -> None:
        """Let nothing through for `seconds`: one request was told to wait, so all wait."""
        self._held_until = max(self._held_until, self._clock() + seconds)
