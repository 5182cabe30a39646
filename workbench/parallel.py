"""One map for all work that is independent: processes here by default, Dask when an address is given."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any, TypeVar

from workbench.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pmap(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int | None = None,
    dask: str | None = None,
) -> Iterator[tuple[Item, Result | None, Exception | None]]:
    """Apply `function` to every item, yielding (item, result, error) as they complete.

    An exception of one item is handed back, never raised, so a bad item does not end a batch. At
    most a few items a worker are in flight, so memory stays flat however many there are. Work that
    was started when the caller stops iterating is abandoned.

    workers : processes on this machine (all cores when None; 1 runs in this process).
    dask : address of a Dask scheduler, such as 'tcp://host:8786'; needs the `dask` extra.
    """
    workers = min(workers or cores(), max(1, len(items)))
    if dask:
        yield from _on_dask(function, items, dask)
    elif workers == 1:
        for item in items:
            yield (item, *_attempt(function, item))
    else:
        yield from _on_processes(function, items, workers)


def _attempt(function: Callable[[Item], Result], item: Item) -> tuple[Result | None, Exception | None]:
    try:
        return function(item), None
    except Exception as error:
        return None, error


def _one_thread_each() -> None:
    # Workers already use every core; numeric libraries that also start a thread a core would only
    # get in each other's way.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def _on_processes(function: Callable, items: Sequence, workers: int) -> Iterator[tuple[Any, Any, Any]]:
    # 'spawn' because forking a process that already runs threads (onnxruntime, torch) can deadlock.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_one_thread_each)
    waiting = iter(items)
    flying: dict[Future, Any] = {}
    whole = False
    try:
        while True:
            while len(flying) < 2 * workers:
                item = next(waiting, _END)
                if item is _END:
                    break
                flying[pool.submit(function, item)] = item
            if not flying:
                whole = True
                return
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                item = flying.pop(future)
                error = future.exception()
                if error is not None and not isinstance(error, Exception):
                    raise error
                yield item, (None if error else future.result()), error
    finally:
        # With nothing left to do waiting takes milliseconds; not waiting can break the exit of the process.
        pool.shutdown(wait=whole, cancel_futures=True)


_END = object()


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


def _on_dask(function: Callable, items: Sequence, address: str) -> Iterator[tuple[Any, Any, Any]]:
    try:
        from distributed import Client, as_completed
        from distributed.protocol.pickle import dumps
    except ImportError:
        raise InputError("--dask needs the package `distributed`; install duplex-workbench[dask].") from None
    try:
        client = Client(address, timeout="10s")
    except OSError as error:
        raise InputError(
            f"No Dask scheduler answers at {address} ({error}); start one with `dask scheduler`."
        ) from None
    with client:
        here = os.getcwd()
        futures = {client.submit(_attempt_there, dumps((function, item)), here, pure=False): item for item in items}
        for future in as_completed(list(futures)):
            error = future.exception()
            result, fault = (None, error) if error is not None else future.result()
            yield futures.pop(future), result, fault
            future.release()
