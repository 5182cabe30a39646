"""Clocks: the wall's, with absolute deadlines, and a virtual one that is moved by the stream itself."""

from __future__ import annotations

import asyncio
import time
from typing import Literal, Protocol


class Clock(Protocol):
    """Seconds since the episode's first sample; `sleep_until` returns how late it woke (seconds)."""

    kind: Literal["wall", "virtual"]

    def start(self) -> None: ...

    def now(self) -> float: ...

    async def sleep_until(self, time_s: float) -> float: ...


class WallClock:
    """Real time. Deadlines are absolute, so a late tick never delays the ones after it."""

    kind: Literal["wall"] = "wall"

    def __init__(self) -> None:
        self._zero_s = time.monotonic()

    def start(self) -> None:
        self._zero_s = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._zero_s

    async def sleep_until(self, time_s: float) -> float:
        # sleep(0) when late: other sessions in this process must get their turn as well.
        await asyncio.sleep(max(0.0, time_s - self.now()))
        return max(0.0, self.now() - time_s)


class VirtualClock:
    """Time that advances only when the stream does, for agents paced by their input.

    The same episode code runs as fast as the CPU allows and gives the same recording each time.
    """

    kind: Literal["virtual"] = "virtual"

    def __init__(self) -> None:
        self._now_s = 0.0

    def start(self) -> None:
        self._now_s = 0.0

    def now(self) -> float:
        return self._now_s

    async def sleep_until(self, time_s: float) -> float:
        self._now_s = time_s
        return 0.0


CLOCKS = {"wall": WallClock, "virtual": VirtualClock}
