"""The guard: runs an agent's code so that it can neither end, nor hold up, nor escape its session.

Everything a session does runs in a task of its own, bounded in time. Tasks that the agent starts are
known by their context: a fault that nobody looked at is the session's, and none is left running.
Where several sessions share a loop, each stretch in which one of them held it is noted, so that a
late frame can be laid at the door of whoever made it late.
"""

from __future__ import annotations

import asyncio
import time
import types
import weakref
from collections import deque
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Literal

from workbench.agents.base import AgentError
from workbench.agents.door import words
from workbench.episodes import LATE_S
from workbench.parallel import expect_within

_CHECK_S = 1.0
_LAST_WORDS_S = 1.0
_HELD_S = LATE_S / 2
"""A loop held for this long by one session is noted."""

_current: ContextVar[Guard | None] = ContextVar("guard", default=None)
_held: deque[tuple[float, float, str]] = deque(maxlen=1000)
"""(began, ended, whose session) by the process's monotonic clock."""


class Stuck(Exception):
    """A call did not come back in time."""


class Guard:
    """Guards one session; a context manager around each call of the agent. who : the session, in words."""

    def __init__(self, who: str):
        self.who = who
        self.limit_s = 0.0
        self._since_s: float | None = None
        self._calls: deque[tuple[float, float]] = deque(maxlen=100)
        self._failed: list[asyncio.Task] = []
        self._suspected: list[asyncio.Task] = []
        self._tasks: weakref.WeakSet[asyncio.Task] = weakref.WeakSet()

    def __enter__(self) -> None:
        self._since_s = time.monotonic()
        expect_within(self.limit_s + 10 * _CHECK_S)

    def __exit__(self, *_: object) -> None:
        since_s, self._since_s = self._since_s, None
        if since_s is not None and time.monotonic() - since_s > _HELD_S:
            self._calls.append((since_s, time.monotonic()))

    async def run(self, work: Coroutine[Any, Any, Any], limit_s: float) -> Any:
        """`work` to its end; no call inside may take longer than `limit_s`.

        Raises
        ------
        Stuck : a call took longer. AgentError : the agent cancelled its session or wanted to exit.
        CancelledError : only where the caller itself was cancelled. Whatever else `work` raises.
        """
        self.limit_s = limit_s
        loop = asyncio.get_running_loop()
        if not isinstance(loop.get_task_factory(), _Tasks):
            loop.set_task_factory(_Tasks(loop.get_task_factory()))
        before = _current.set(self)
        try:
            task = loop.create_task(work)
        finally:
            _current.reset(before)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=min(_CHECK_S, limit_s))
                if self._since_s is not None and time.monotonic() - self._since_s > limit_s:
                    raise Stuck
        finally:
            if not task.done():
                await self._end({task})
        if task.cancelled():
            raise AgentError("agent_exception", "CancelledError: the agent cancelled its own session.")
        return task.result()

    async def _end(self, tasks: set[asyncio.Task]) -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_WORDS_S)

    async def clear(self) -> None:
        """End what the agent left running."""
        await self._end({task for task in self._tasks if not task.done()})
        for task in (*self._failed, *self._suspected):
            if not task.cancelled():
                task.exception()  # seen, so that nobody warns of it

    def unseen(self, last: bool = False) -> BaseException | None:
        """A fault in a task of the agent's that nobody has looked at since the call before (or now, if `last`)."""
        waiting, self._suspected, self._failed = self._suspected, self._failed, []
        for task in [*waiting, *((*self._suspected, *self._tasks) if last else ())]:
            if task.done() and _is_unseen(task):
                return task.exception()
        return None

    def adopt(self, task: asyncio.Task) -> None:
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._failed.append(done) if _is_unseen(done) else None)

    def held(self, began_s: float, ended_s: float) -> None:
        if ended_s - began_s > _HELD_S:
            _held.append((began_s, ended_s, self.who))

    def blame(self, late_s: float) -> tuple[float, str]:
        """How much of being `late_s` late now is not this agent's doing, and whose it is ('' not known)."""
        now_s = time.monotonic()

        def overlap_s(began_s: float, ended_s: float) -> float:
            return max(0.0, min(ended_s, now_s) - max(began_s, now_s - late_s))

        others: dict[str, float] = {}
        for began_s, ended_s, who in _held:
            if who != self.who and (share_s := overlap_s(began_s, ended_s)):
                others[who] = others.get(who, 0.0) + share_s
        # A call of this agent's that lasted while others held the loop lasted because of them.
        own_s = max(0.0, sum(overlap_s(*call) for call in self._calls) - sum(others.values()))
        return max(0.0, late_s - own_s), max(others, key=others.__getitem__, default="")


def _is_unseen(task: asyncio.Task) -> bool:
    # The flag by which asyncio itself decides whether to warn; asking for the exception would clear it.
    return not task.cancelled() and bool(getattr(task, "_log_traceback", False))


class _Tasks:
    """A task factory that contains and times every task of a guarded session."""

    def __init__(self, before: Any):
        self._before = before

    def __call__(self, loop: asyncio.AbstractEventLoop, work: Coroutine, **options: Any) -> asyncio.Task:
        context = options.get("context")
        guard = _current.get() if context is None else context.get(_current)
        if guard is not None:
            work = _contained(work, guard)
        make = self._before or (lambda loop, work, **options: asyncio.Task(work, loop=loop, **options))
        task = make(loop, work, **options)
        if guard is not None:
            guard.adopt(task)
        return task


async def _contained(work: Coroutine, guard: Guard) -> Any:
    try:
        return await _stepped(work, guard)
    except SystemExit as error:  # asyncio would end the whole loop for it
        raise AgentError("agent_exception", words(error)) from None


@types.coroutine
def _stepped(work: Coroutine, guard: Guard) -> Any:
    """Drive `work` step by step, timing each, for the loop stands still while one lasts."""
    fault: BaseException | None = None
    while True:
        began_s = time.monotonic()
        try:
            waits_for = work.send(None) if fault is None else work.throw(fault)
        except StopIteration as done:
            return done.value
        finally:
            guard.held(began_s, time.monotonic())
        fault = None
        try:
            yield waits_for
        except BaseException as raised:
            fault = raised


class WallClock:
    """Real time: seconds since the episode's first sample. Deadlines are absolute, so a late tick delays no other."""

    kind: Literal["wall", "virtual"] = "wall"

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._zero_s = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._zero_s

    async def sleep_until(self, time_s: float) -> float:
        """Wait; returns how late it woke, in seconds."""
        # sleep(0) when late: other sessions in this process must get their turn as well.
        await asyncio.sleep(max(0.0, time_s - self.now()))
        return max(0.0, self.now() - time_s)


class VirtualClock(WallClock):
    """Time that advances only when the stream does, for agents paced by their input.

    The same episode code runs as fast as the CPU allows and gives the same recording each time.
    """

    kind = "virtual"

    def start(self) -> None:
        self._now_s = 0.0

    def now(self) -> float:
        return self._now_s

    async def sleep_until(self, time_s: float) -> float:
        self._now_s = time_s
        return 0.0


Clock = WallClock | VirtualClock
CLOCKS = {"wall": WallClock, "virtual": VirtualClock}
