"""One map for all work that is independent: processes here by default, Dask when an address is given.

A process that dies takes its own item with it and nothing else: that item comes back with `WorkerDied`,
another process takes its place, and all others are done. No process outlives the one that started it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from multiprocessing import connection
from types import ModuleType
from typing import Any, TypeVar

from workbench.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

_STUCK = 86
"""Exit code of a worker that ended itself because its item held it for longer than it was given."""


class WorkerDied(InputError):
    """The process that ran an item ended before it answered; the message says how."""


class NotPortable(InputError):
    """The work cannot be sent to another process, such as a function that was defined on the fly."""


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pmap(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int | None = None,
    dask: str | None = None,
    isolate: bool = False,
) -> Iterator[tuple[Item, Result | None, Exception | None]]:
    """Apply `function` to every item, yielding (item, result, error) as they complete.

    An exception of one item is handed back, never raised, so a bad item does not end a batch; an item
    that ends its process comes back with `WorkerDied`, one that cannot be sent with `NotPortable`. At
    most a few items a worker are in flight, so memory stays flat however many there are. Work that
    was started when the caller stops iterating is ended.

    workers : processes on this machine (all cores when None; 1 runs in this process, unless `isolate`).
    dask : address of a Dask scheduler, such as 'tcp://host:8786'; needs the `dask` extra.
    isolate : never in this process, for work that may end it.
    """
    if dask:
        yield from _on_dask(function, items, dask)
    elif workers == 1 and not isolate:
        for item in items:
            yield (item, *_attempt(function, item))
    elif items:
        yield from _on_processes(function, items, min(workers or cores(), len(items)))


def _attempt(function: Callable[[Item], Result], item: Item) -> tuple[Result | None, Exception | None]:
    try:
        return function(item), None
    except KeyboardInterrupt:
        raise
    except Exception as error:
        return None, error
    except BaseException as error:  # sys.exit and the like: meant for the process, suffered by one item
        return None, WorkerDied(f"it raised {type(error).__name__}({error})")


# A worker process -------------------------------------------------------------------------------------

_give_up_at_s = float("inf")


def expect_within(seconds: float) -> None:
    """Say that the item at hand will give a sign of life, by another call, within `seconds`.

    A worker process that gives none is ended, whatever holds it; elsewhere nothing happens.
    """
    global _give_up_at_s
    _give_up_at_s = time.monotonic() + seconds


def _serve(pipe: connection.Connection) -> None:
    # Ctrl-C is the parent's to handle. Workers already use every core; numeric libraries that also
    # start a thread a core would only get in each other's way.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    threading.Thread(target=_watch, daemon=True).start()
    pipe.send_bytes(b"ready")
    while True:
        try:
            job = pipe.recv_bytes()
        except EOFError:
            os._exit(0)  # threads that an item left behind must not keep the process
        try:
            function, item = pickle.loads(job)
        except BaseException as error:
            answer = None, NotPortable(f"a worker process cannot load it ({type(error).__name__}: {error})")
        else:
            answer = _attempt(function, item)
        expect_within(float("inf"))
        pipe.send_bytes(_pickled(answer))


def _pickled(answer: tuple[Any, Exception | None]) -> bytes:
    try:
        data = pickle.dumps(answer)
        if answer[1] is not None:
            pickle.loads(data)  # exceptions with arguments of their own may only fail here
        return data
    except Exception as fault:
        error = answer[1] or fault
        return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))


def _watch() -> None:
    """End this process with its parent, or when its item holds it for too long."""
    parent = multiprocessing.parent_process()
    while not connection.wait([parent.sentinel], timeout=1.0):
        if time.monotonic() > _give_up_at_s:
            os._exit(_STUCK)
    os._exit(1)


_starting = threading.Lock()


@contextmanager
def _without_script() -> Iterator[None]:
    """Processes started inside do not run the user's script again, as they would to have what it defines."""
    with _starting:
        script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script


class _Worker:
    """One process, from here: answers one item at a time. script : whether it needs what the user's script defines."""

    def __init__(self, script: bool):
        # 'spawn' because forking a process that already runs threads (onnxruntime, torch) can deadlock.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,))
        with nullcontext() if script else _without_script():
            self._process.start()
        theirs.close()

    def ready(self) -> bool:
        try:
            return self._receive() == b"ready"
        except (EOFError, OSError):
            return False

    def answer(self, job: bytes) -> tuple[Any, Exception | None]:
        try:
            self._pipe.send_bytes(job)
            return pickle.loads(self._receive())
        except (EOFError, OSError):
            return None, WorkerDied(self.fate())

    def _receive(self) -> bytes:
        # Asked for its life as well: a child of its own may keep the pipe of a dead process open.
        while not self._pipe.poll(1.0):
            if not self._process.is_alive() and not self._pipe.poll(0):
                raise EOFError
        return self._pipe.recv_bytes()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def fate(self) -> str:
        """How the process ended, in words."""
        self._process.join()
        code = self._process.exitcode
        if code == _STUCK:
            return "it did not come back and the process running it was ended"
        if code >= 0:
            return f"the process running it ended by itself, exit code {code}"
        hint = ", as the system does when memory runs out" if code == -9 else ""
        return f"the process running it was killed, signal {-code}{hint}"

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _on_processes(function: Callable, items: Sequence, workers: int) -> Iterator[tuple[Any, Any, Any]]:
    first = _packed(function, items[0])
    if isinstance(first, NotPortable):
        yield from ((item, None, first) for item in items)
        return
    script = b"__main__" in first
    team: list[_Worker] = []
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    over = threading.Event()

    def call(job: bytes | NotPortable) -> tuple[Any, Exception | None]:
        if isinstance(job, NotPortable):
            return None, job
        worker = idle.get()
        if not worker.alive and not over.is_set():
            team.append(worker := _Worker(script))
            if not worker.ready():
                idle.put(worker)
                return None, WorkerDied(f"no process could be started for it: {worker.fate()}")
        answer = worker.answer(job)
        idle.put(worker)
        return answer

    calls = ThreadPoolExecutor(workers)
    try:
        team += [_Worker(script) for _ in range(workers)]
        # All are there before any begins: starting a process takes a core, which work in real time would feel.
        for worker in team:
            if not worker.ready():
                raise InputError(
                    "The worker processes could not be started. A script that defines what they are to run needs "
                    "`if __name__ == '__main__':` around what it does; or give workers=1."
                )
            idle.put(worker)
        waiting = iter(items)
        flying: dict[Future, Any] = {}
        while True:
            while len(flying) < 2 * workers:
                item = next(waiting, _END)
                if item is _END:
                    break
                flying[calls.submit(call, _packed(function, item))] = item
            if not flying:
                return
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                yield (flying.pop(future), *future.result())
    finally:
        over.set()
        calls.shutdown(wait=False, cancel_futures=True)
        for worker in team:
            worker.end()


_END = object()


def _packed(function: Callable, item: Any) -> bytes | NotPortable:
    try:
        return pickle.dumps((function, item))
    except Exception as error:
        return NotPortable(f"it cannot be sent to another process ({type(error).__name__}: {error})")


def _attempt_there(job: bytes, folder: str) -> tuple[Any, Exception | None]:
    """`_attempt` on a Dask worker, which may have been started in another folder than the command.

    The job travels as bytes, since the scheduler would open it and need the user's modules too.
    """
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        function, item = pickle.loads(job)
    except ImportError as error:
        return None, InputError(
            f"A Dask worker on {socket.gethostname()} lacks the module {error.name!r}; install it, or put it where "
            f"that machine can read it, such as {folder}."
        )
    return _attempt(function, item)


@contextmanager
def reaching_dask(address: str) -> Iterator[ModuleType]:
    """Gives the package `distributed`, to make a client of the scheduler at `address` inside.

    Raises
    ------
    InputError : it is not installed, or no scheduler answers.
    """
    try:
        import distributed
    except ImportError:
        raise InputError("--dask needs the package `distributed`; install duplex-workbench[dask].") from None
    try:
        yield distributed
    except OSError as error:
        raise InputError(
            f"No Dask scheduler answers at {address} ({error}); start one with `dask scheduler`."
        ) from None


def _on_dask(function: Callable, items: Sequence, address: str) -> Iterator[tuple[Any, Any, Any]]:
    with reaching_dask(address) as distributed:
        client = distributed.Client(address, timeout="10s")
    dumps, killed = distributed.protocol.pickle.dumps, distributed.KilledWorker
    with client:
        here = os.getcwd()

        def submit(item: Any) -> Any:
            return client.submit(_attempt_there, dumps((function, item)), here, pure=False)

        futures = {submit(item): item for item in items}
        suspects = []
        for future in distributed.as_completed(list(futures)):
            item, error = futures.pop(future), future.exception()
            if isinstance(error, killed):
                suspects.append(item)
            else:
                yield (item, *((None, error) if error is not None else future.result()))
            future.release()
        # What stood beside it in a worker that died is suspected too: each is tried again, alone.
        for item in suspects:
            future = submit(item)
            error = future.exception()
            if isinstance(error, killed):
                error = WorkerDied("the process running it was killed, on a Dask worker and again on another")
            yield (item, *((None, error) if error is not None else future.result()))
            future.release()
