"""Judging on Dask: each item is asked by a worker, everything else stays where it was."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from copy import copy
from typing import Any

from workbench.errors import InputError
from workbench.judges.ask import Backend, ModelJudge
from workbench.judges.base import Item, Judge
from workbench.judges.records import Judgement


class FarBackend:
    """A judge whose items are asked by the workers of a Dask scheduler; it is the same judge, with the same identity.

    A job carries the item and the judge; keys of servers are read from the environment of the workers.

    Raises
    ------
    InputError : `distributed` is not installed, no scheduler answers, or a rate limit is asked for, which
        no worker alone can keep.
    """

    def __init__(self, backend: Backend, address: str):
        self._backend, self._address = backend, address
        self.kind, self.model, self.host = backend.kind, backend.model, backend.host
        self.parameters: dict[str, Any] = backend.parameters
        self.concurrency = backend.concurrency
        self.requests = 0
        self._settings = backend.settings if isinstance(backend, ModelJudge) else None
        if self._settings is not None and self._settings.per_minute is not None:
            raise InputError("--rpm cannot be kept by several workers at once; leave it out, or --dask.")

    async def __aenter__(self) -> FarBackend:
        try:
            from distributed import Client
        except ImportError:
            raise InputError("--dask needs the package `distributed`; install duplex-workbench[dask].") from None
        self._stack = AsyncExitStack()
        try:
            client = Client(self._address, asynchronous=True, timeout="10s")
            self._client = await self._stack.enter_async_context(client)
        except OSError as error:
            raise InputError(
                f"No Dask scheduler answers at {self._address} ({error}); start one with `dask scheduler`."
            ) from None
        self.concurrency = max(self.concurrency, len(self._client.scheduler_info()["workers"]))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def ask(self, judge: Judge, item: Item, key: str) -> Judgement:
        # A client of a server is made by the worker; the settings are what makes it.
        what = copy(self._backend) if self._settings is None else self._settings
        line, requests, fault = await self._client.submit(_ask, what, judge, item, key, pure=False)
        self.requests += requests
        if fault is not None:
            kind, words, state = fault
            raised = kind.__new__(kind, *words)
            raised.__dict__.update(state)
            raise raised
        return line


def _ask(what: Any, judge: Judge, item: Item, key: str) -> tuple[Judgement | None, int, tuple | None]:
    """On a worker: the judgement, how many requests it took, and what was raised, in parts.

    In parts, since faults of servers are made of more than their words and would not travel whole.
    """
    backend = what if hasattr(what, "ask") else ModelJudge(what)
    before = backend.requests

    async def ask() -> Judgement:
        async with backend:
            return await backend.ask(judge, item, key)

    try:
        return asyncio.run(ask()), backend.requests - before, None
    except Exception as error:
        return None, backend.requests - before, (type(error), error.args, error.__dict__)
