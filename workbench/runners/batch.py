"""A run: every case of a dataset once, in parallel, resumable, each case whole or absent.

Agents paced by their input run on a virtual clock in worker processes (or on Dask). Agents that live
in real time run as concurrent sessions: our own adapters, which never block, on one event loop; a
user's own code in a process a session, where it can hold up or end nobody but itself.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tenacity import AsyncRetrying, retry_if_result, stop_after_attempt, wait_random_exponential

from workbench import episodes
from workbench.agents import door
from workbench.agents.base import Agent, Traits
from workbench.agents.registry import Factory
from workbench.cases import Case
from workbench.datasets import Dataset
from workbench.episodes import EpisodeRecord, Failure, Policy
from workbench.errors import DISK, InputError
from workbench.files import writing
from workbench.parallel import NotPortable, WorkerDied, cores, pmap
from workbench.progress import Meter, meter
from workbench.runners.episode import Result, run_episode, without_recording
from workbench.runners.guard import CLOCKS
from workbench.runs import Run, begin

WALL_CONCURRENCY = 4
ATTEMPTS = 3
KILLED = "killed"
KILLS_MAX = 2
"""A case that ended the process running it so often is left alone."""
_KEPT = ("name", "version", "pacing", "turns", "placement", "privileged", "settings")
"""Of an agent's traits, what a run keeps."""


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
    """What a run came to: cases recorded now, kept from before, failed (kind -> count, and the words of one).

    stalls : who made frames leave late -> in how many cases ('' where it was the machine).
    """

    recorded: int = 0
    kept: int = 0
    failed: Counter = field(default_factory=Counter)
    words: dict[str, str] = field(default_factory=dict)
    audio_s: float = 0.0
    wall_s: float = 0.0
    problems: list[str] = field(default_factory=list)
    stalls: Counter = field(default_factory=Counter)


def run(plan: Plan) -> Outcome:
    """Run what is still to be run.

    Raises
    ------
    InputError : clock and agent do not fit, the dataset has no audio, or `out` holds another run.
    KeyboardInterrupt : after which the same call goes on where it stopped.
    """
    agent, traits = _first(plan.factory)
    clock = plan.clock or ("virtual" if traits.pacing == "input" else "wall")
    if clock not in CLOCKS:
        raise InputError(f"There is no clock {clock!r}; clocks are {', '.join(CLOCKS)}.")
    if clock == "virtual" and traits.pacing == "wall":
        raise InputError(f"The agent {traits.name!r} lives in real time; run it with --clock wall.")
    if plan.dask and clock == "wall":
        raise InputError("Real time cannot be run on Dask; leave --dask out, or use an agent paced by its input.")
    with writing(plan.out):
        about = {name: getattr(traits, name) for name in _KEPT}
        made, outcome = begin(plan.out, plan.dataset, about, clock, plan.policy), Outcome()
        jobs = [
            _Job(case, plan.dataset, plan.factory, plan.out / "episodes", plan.policy, clock, traits, kills)
            for case, kills in _remaining(plan, made, outcome)
        ]
        began = time.monotonic()
        with meter("running", len(jobs)) as progress:
            if clock == "wall" and _is_ours(agent):
                _await(_run_sessions(jobs, plan, outcome, progress))
            else:
                _run_apart(jobs, plan, outcome, progress, isolate=not _is_ours(agent))
        outcome.wall_s = time.monotonic() - began
    return outcome


def _first(make: Factory) -> tuple[Agent, Traits]:
    """An agent, to be looked at and not run: what is wrong with all of them is said before the run."""
    try:
        agent = make()
        traits = door.traits(agent.traits)
        calls = ("open", "send", "close")
        lacking = [f"it has no `{name}`" for name in calls if not callable(getattr(agent, name, None))]
    except InputError:
        raise
    except door.Refused as error:
        raise InputError(f"{error}.") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's own class may do anything, sys.exit and cancelling included
        lacking = [door.words(error)]
    if lacking:
        raise InputError(
            f"The agent cannot be made: {lacking[0]}. It must be a class with `traits`, `open`, `send` and `close` "
            "(docs/agents.md)."
        )
    return agent, traits


def _is_ours(agent: Agent) -> bool:
    """Whether the agent runs only code of this package that neither blocks nor can end the process."""
    made = type(agent)
    return made.__module__.startswith("workbench.agents.") and made.__name__ not in ("MoshiLocal", "TurnBased")


def _await(work: Coroutine[Any, Any, Result | None]) -> Result | None:
    """Run to the end; in a thread of its own where a loop already runs here, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as apart:
        return apart.submit(asyncio.run, work).result()


def _remaining(plan: Plan, run: Run, outcome: Outcome) -> Iterator[tuple[Case, int]]:
    """The cases still to be run, each with how often it has ended its process; the others are counted as kept."""
    for case in plan.dataset.cases:
        record = run.kept(case.id)
        status = None if record is None else record.status
        kills = record.error.times if record and record.error and record.error.kind == KILLED else 0
        if kills >= KILLS_MAX:
            outcome.kept += 1
            outcome.failed[KILLED] += 1
            path = episodes.record_path(plan.out / "episodes", case.id)
            outcome.words[KILLED] = f"{record.error.message}; it is left alone: remove {path} to try it again"
        elif status == "complete" or (status == "error" and plan.keep_errors):
            outcome.kept += 1
        else:
            yield case, kills


@dataclass(frozen=True)
class _Job:
    case: Case
    dataset: Dataset
    factory: Factory
    folder: Path
    policy: Policy
    clock: str
    traits: Traits
    kills: int = 0

    def failed(self, error: BaseException) -> EpisodeRecord:
        """The record of this case when running it came to nothing."""
        died = isinstance(error, WorkerDied)
        times = self.kills + 1
        message = f"case {self.case.id}: {error}" + (f", {times} times" if times > 1 else "") if died else ""
        failure = Failure(kind=KILLED if died else "failed", message=message or door.words(error), times=times)
        return without_recording(self.case, failure, self.clock, self.policy, self.traits)


async def _attempts(job: _Job, clips: dict) -> Result:
    """Try a case again, with growing random pauses, while the agent says that may help."""
    retrying = AsyncRetrying(
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.5, max=20),
        retry=retry_if_result(lambda result: result.retry),
        retry_error_callback=lambda state: state.outcome.result(),
    )
    return await retrying(run_episode, job.case, clips, job.factory, CLOCKS[job.clock], job.policy)


def _count(outcome: Outcome, record: EpisodeRecord) -> str:
    outcome.recorded += 1
    outcome.audio_s += record.duration_s
    outcome.stalls.update({stall.by for stall in record.sends.stalls})
    if record.error:
        outcome.failed[record.error.kind] += 1
        outcome.words.setdefault(record.error.kind, record.error.message)
    return f"{outcome.failed.total()} errors" if outcome.failed else ""


def _fault(outcome: Outcome, job: _Job, error: Exception) -> str:
    """What is done about a case that came to nothing: it is recorded as that, and the others go on."""
    if isinstance(error, OSError) and error.errno in DISK:
        raise error  # a full or read-only disk is no case's own
    if isinstance(error, InputError) and not isinstance(error, WorkerDied | NotPortable):
        outcome.problems.append(f"case {job.case.id}: {error}")
        return ""
    record = job.failed(error)
    episodes.save(job.folder, record, None)
    return _count(outcome, record)


def _one_case(job: _Job) -> EpisodeRecord:
    """Run and save one case; returns its record, less what is long."""
    clips = job.dataset.clips(job.case)
    result = _await(_attempts(job, clips))
    episodes.save(job.folder, result.record, result.stereo, result.delivered)
    return result.record.model_copy(update={"transcript": None, "deliveries": (), "events": ()})


def _run_apart(jobs: list[_Job], plan: Plan, outcome: Outcome, progress: Meter, isolate: bool) -> None:
    """Each case in a worker process; what cannot be sent to one is run here."""
    # Workers get the dataset without its cases: each job carries the one it needs.
    bare = Dataset(plan.dataset.folder, plan.dataset.header, ())
    workers = plan.concurrency or (cores() if not jobs or jobs[0].clock == "virtual" else WALL_CONCURRENCY)
    bare_jobs = [replace(job, dataset=bare) for job in jobs]
    here = []
    for job, record, error in pmap(_one_case, bare_jobs, workers=workers, dask=plan.dask, isolate=isolate):
        if isinstance(error, NotPortable):
            here.append(job)
        else:
            progress.step(_count(outcome, record) if error is None else _fault(outcome, job, error))
    if here:
        _await(_run_sessions(here, plan, outcome, progress))


async def _run_sessions(jobs: list[_Job], plan: Plan, outcome: Outcome, progress: Meter) -> None:
    """The cases as concurrent sessions on this loop (one at a time on a virtual clock, which never waits)."""
    # A collection that walks every case and module takes tens of milliseconds, which sessions would
    # feel: what lives as long as the run is taken out of its way.
    gc.collect()
    gc.freeze()
    slots = asyncio.Semaphore(plan.concurrency or WALL_CONCURRENCY)

    async def one(job: _Job) -> None:
        async with slots:
            try:
                # Files are read and written in threads: the pacing of other sessions must not wait.
                clips = await asyncio.to_thread(job.dataset.clips, job.case)
                result = await _attempts(job, clips)
                await asyncio.to_thread(episodes.save, job.folder, result.record, result.stereo, result.delivered)
                note = _count(outcome, result.record)
            except Exception as error:
                note = _fault(outcome, job, error)
            progress.step(note)

    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(one(job))
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None
