"""A run: every case of a dataset once, in parallel, resumable, each case whole or absent.

Agents paced by their input run on a virtual clock in worker processes (or on Dask); agents that
live in real time run as concurrent sessions on one event loop.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import gc
import platform
import time
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenacity import AsyncRetrying, retry_if_result, stop_after_attempt, wait_random_exponential

from workbench import episodes
from workbench.agents.base import Traits
from workbench.agents.registry import Factory
from workbench.cases import Case
from workbench.datasets import Dataset
from workbench.episodes import Failure, Policy
from workbench.errors import InputError
from workbench.locks import writing
from workbench.parallel import cores, pmap
from workbench.progress import meter
from workbench.runners.clocks import CLOCKS
from workbench.runners.episode import Result, run_episode
from workbench.runs import Run, RunMeta, begin
from workbench.version import VERSION

WALL_CONCURRENCY = 4
ATTEMPTS = 3


@dataclass(frozen=True)
class Plan:
    """How a run is to be made. `clock` and `concurrency` default by the agent's pacing."""

    dataset: Dataset
    factory: Factory
    out: Path
    clock: str | None = None
    policy: Policy = "as_played"
    concurrency: int | None = None
    keep_errors: bool = False
    dask: str | None = None


@dataclass
class Outcome:
    """What a run came to: cases recorded now, kept from before, failed (kind -> count, and the words of one)."""

    recorded: int = 0
    kept: int = 0
    failed: Counter = field(default_factory=Counter)
    words: dict[str, str] = field(default_factory=dict)
    audio_s: float = 0.0
    wall_s: float = 0.0
    problems: list[str] = field(default_factory=list)


def run(plan: Plan) -> Outcome:
    """Run what is still to be run.

    Raises
    ------
    InputError : clock and agent do not fit, the dataset has no audio, or `out` holds another run.
    KeyboardInterrupt : after which the same call goes on where it stopped.
    """
    traits = _traits(plan.factory)
    clock = plan.clock or ("virtual" if traits.pacing == "input" else "wall")
    if clock not in CLOCKS:
        raise InputError(f"There is no clock {clock!r}; clocks are {', '.join(CLOCKS)}.")
    if clock == "virtual" and traits.pacing == "wall":
        raise InputError(f"The agent {traits.name!r} lives in real time; run it with --clock wall.")
    with writing(plan.out):
        todo, kept = _remaining(plan, prepare(plan, traits, clock))
        outcome = Outcome(kept=kept)
        began = time.monotonic()
        if clock == "virtual":
            _run_virtual(plan, todo, outcome)
        else:
            _await(_run_wall(plan, todo, outcome))
        outcome.wall_s = time.monotonic() - began
    return outcome


def _traits(factory: Factory) -> Traits:
    try:
        made = factory()
        traits = made.traits
    except InputError:
        raise
    except Exception as error:  # a user's own class may do anything
        raise InputError(
            f"The agent cannot be made: {type(error).__name__}: {error}. It must be a class with `traits`, `open`, "
            "`send` and `close` (docs/agents.md)."
        ) from None
    if not isinstance(traits, Traits):
        raise InputError(f"The agent's `traits` must be workbench.agents.base.Traits, found {traits!r:.80}.")
    return traits


def _await(work: Coroutine[Any, Any, Result | None]) -> Result | None:
    """Run to the end; in a thread of its own where a loop already runs here, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as apart:
        return apart.submit(asyncio.run, work).result()


def prepare(plan: Plan, traits: Traits, clock: str) -> Run:
    """Create the run folder, or check that the one there is this very run, to be resumed."""
    header = plan.dataset.header
    meta = RunMeta(
        benchmark=header.benchmark,
        dataset=header.brief(),
        agent={
            "name": traits.name,
            "version": traits.version,
            "pacing": traits.pacing,
            "turns": traits.turns,
            "placement": traits.placement,
            "privileged": traits.privileged,
            "settings": traits.settings,
        },
        clock=clock,
        policy=plan.policy,
        workbench=VERSION,
        platform={"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()},
        started=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    )
    return begin(plan.out, meta, plan.dataset)


def _remaining(plan: Plan, run: Run) -> tuple[list[Case], int]:
    todo, kept = [], 0
    for case in plan.dataset.cases:
        record = run.kept(case.id)
        status = None if record is None else record.status
        if status == "complete" or (status == "error" and plan.keep_errors):
            kept += 1
        else:
            todo.append(case)
    return todo, kept


@dataclass(frozen=True)
class _Job:
    case: Case
    dataset: Dataset
    factory: Factory
    folder: Path
    policy: Policy


async def _attempts(job: _Job, clips: dict, make_clock) -> Result:
    """Try a case again, with growing random pauses, while the agent says that may help."""
    retrying = AsyncRetrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.5, max=20),
        retry=retry_if_result(lambda result: result.retry),
        retry_error_callback=lambda state: state.outcome.result(),
    )
    return await retrying(run_episode, job.case, clips, job.factory, make_clock, job.policy)


def _virtual_case(job: _Job) -> tuple[Failure | None, float]:
    clips = job.dataset.clips(job.case)
    result = _await(_attempts(job, clips, CLOCKS["virtual"]))
    episodes.save(job.folder, result.record, result.stereo, result.delivered)
    return result.record.error, result.record.duration_s


def _count(outcome: Outcome, failed: Failure | None, audio_s: float) -> str:
    outcome.recorded += 1
    outcome.audio_s += audio_s
    if failed:
        outcome.failed[failed.kind] += 1
        outcome.words.setdefault(failed.kind, failed.message)
    return f"{outcome.failed.total()} errors" if outcome.failed else ""


def _run_virtual(plan: Plan, todo: list[Case], outcome: Outcome) -> None:
    # Workers get the dataset without its cases: each job carries the one it needs.
    bare = Dataset(plan.dataset.folder, plan.dataset.header, ())
    jobs = [_Job(case, bare, plan.factory, plan.out / "episodes", plan.policy) for case in todo]
    with meter("running", len(jobs)) as progress:
        workers = plan.concurrency or cores()
        for job, done, error in pmap(_virtual_case, jobs, workers=workers, dask=plan.dask):
            if error is None:
                progress.step(_count(outcome, *done))
            elif isinstance(error, InputError):
                outcome.problems.append(f"case {job.case.id}: {error}")
                progress.step()
            else:
                raise error


async def _run_wall(plan: Plan, todo: list[Case], outcome: Outcome) -> None:
    # A collection that walks every case and module takes tens of milliseconds, which sessions would
    # feel: what lives as long as the run is taken out of its way.
    gc.collect()
    gc.freeze()
    slots = asyncio.Semaphore(plan.concurrency or WALL_CONCURRENCY)

    async def one(case: Case, progress) -> None:
        async with slots:
            job = _Job(case, plan.dataset, plan.factory, plan.out / "episodes", plan.policy)
            try:
                # Files are read and written in threads: the pacing of other sessions must not wait.
                clips = await asyncio.to_thread(plan.dataset.clips, case)
            except InputError as error:
                outcome.problems.append(f"case {case.id}: {error}")
                progress.step()
                return
            result = await _attempts(job, clips, CLOCKS["wall"])
            await asyncio.to_thread(episodes.save, job.folder, result.record, result.stereo, result.delivered)
            progress.step(_count(outcome, result.record.error, result.record.duration_s))

    with meter("running", len(todo)) as progress:
        async with asyncio.TaskGroup() as group:
            for case in todo:
                group.create_task(one(case, progress))
