"""The commands that let agents speak: agents, run, import, serve."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from workbench.cli.shared import Settings, complain, out, read_settings
from workbench.errors import InputError, ProblemsFound
from workbench.text import several


def agents() -> None:
    """List every agent, the benchmarks' own reference agents included."""
    from rich.table import Table

    from workbench import contract
    from workbench.agents.registry import AGENTS

    table = Table("agent", "what it is", "clock", box=None)
    own = {name: entry for each in contract.names() for name, entry in contract.get(each).agents.items()}
    for name, entry in (AGENTS | own).items():
        table.add_row(name, entry.about, "virtual or wall" if entry.pacing == "input" else "wall")
    table.add_row("python:module:Class", "your own class (docs/agents.md)", "by its traits")
    out.print(table)


def run(
    dataset: Annotated[Path, typer.Argument(help="A built dataset.")],
    agent: Annotated[str, typer.Option(help="An agent (see `workbench agents`) or python:module:Class.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; an unfinished one is resumed.")],
    settings: Settings = [],  # noqa: B006  (typer reads the default)
    clock: Annotated[str | None, typer.Option(help="wall or virtual (default: by the agent's pacing).")] = None,
    policy: Annotated[str, typer.Option(help="as_played or as_delivered: what of cut audio stays.")] = "as_played",
    concurrency: Annotated[int | None, typer.Option(help="Cases at a time.")] = None,
    keep_errors: Annotated[bool, typer.Option(help="On resuming, leave failed cases as they are.")] = False,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler (virtual clock only).")] = None,
) -> None:
    """Run an agent on every case, both sides recorded on one clock.

    Each case lands whole or not at all; killed at any moment, the same command goes on.
    """
    from workbench import contract, datasets
    from workbench.agents.registry import factory
    from workbench.runners import batch

    loaded = datasets.load(dataset)
    _check_policy(policy)
    if concurrency is not None and concurrency < 1:
        raise InputError(f"--concurrency {concurrency} runs nothing; give at least 1.")
    if all(cue.audio is None for case in loaded.cases for cue in case.cues):
        raise InputError(f"{dataset} was built with --no-audio and cannot be run; build it again without that option.")
    chosen = contract.get(loaded.header.benchmark)
    unfit = datasets.check_manifest(loaded) + chosen.validate(loaded, False)
    if unfit:
        raise ProblemsFound(unfit)
    make = factory(agent, read_settings(settings, numbers=False), chosen)
    plan = batch.Plan(loaded, make, out.absolute(), clock, policy, concurrency, keep_errors, dask)
    outcome = batch.run(plan)
    speed = f", {outcome.audio_s / outcome.wall_s:.0f} times real time" if outcome.recorded and outcome.wall_s else ""
    done = f"{several(outcome.recorded, 'case')} recorded in {outcome.wall_s:.1f} s{speed}"
    print(f"{done}; {outcome.kept} kept from before; in {out}")
    for reason, count in outcome.failed.most_common():
        complain([f"{several(count, 'case')} failed: {reason}, such as: {outcome.words[reason]}"])
    for culprit, count in outcome.stalls.most_common(3):
        who = culprit or "the machine, busy with other work,"
        complain([f"{who} held up {several(count, 'recording')}: what it made late there is not measured."])
    problems = [*loaded.problems, *outcome.problems]
    if problems:
        complain(problems)
        raise typer.Exit(2)
    if outcome.failed:
        raise typer.Exit(3)


def import_(
    dataset: Annotated[Path, typer.Argument(help="The dataset whose cases were recorded.")],
    recordings: Annotated[Path, typer.Option(help="Folder with {case}.wav (stereo), or {case}.user/.agent.wav.")],
    agent_name: Annotated[str, typer.Option(help="Who was recorded.")],
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    agent_version: Annotated[str, typer.Option(help="Which version of it.")] = "recorded",
    user_channel: Annotated[int, typer.Option(min=0, max=1, help="Channel of the user in stereo files.")] = 0,
    policy: Annotated[str, typer.Option(help="as_played or as_delivered: what the agent channel holds.")] = "as_played",
    accept: Annotated[
        list[str], typer.Option(help="A doubt that is meant: same_channels or user_bleed; may be given again.")
    ] = [],  # noqa: B006
    workers: Annotated[int | None, typer.Option(help="Processes (default: all cores).")] = None,
) -> None:
    """Turn recordings made elsewhere into a run, so that they can be scored, judged and inspected.

    Interrupted, or with recordings added or mended, the same command goes on.
    """
    from workbench import datasets
    from workbench.runners.replay import Source, import_recordings

    loaded = datasets.load(dataset)
    _check_policy(policy)
    source = Source(
        loaded, recordings, agent_name, agent_version, user_channel, 1 - user_channel, policy, tuple(accept)
    )
    done = import_recordings(source, out, workers)
    kept = f", {done.kept} kept from before" if done.kept else ""
    print(f"{several(done.cases, 'case')} imported{kept}, {len(done.absent)} have no recording; in {out}")
    complain([*done.notes, *done.unplaced, *done.doubtful, *done.problems, *loaded.problems])
    if done.doubtful or done.problems or loaded.problems:
        raise typer.Exit(2)


def _check_policy(policy: str) -> None:
    if policy not in ("as_played", "as_delivered"):
        raise InputError(f"There is no policy {policy!r}; policies are as_played, as_delivered.")


# As hosted services do: audio ahead of real time, and listening goes on while the brain thinks.
AS_HOSTED: dict[str, dict[str, Any]] = {"cascade": {"lead_s": 60.0, "live": True}}


def serve(
    agent: Annotated[str, typer.Option(help="Which local agent, or python:module:Class.")] = "cascade",
    settings: Settings = [],  # noqa: B006
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback need a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8765,
    key_env: Annotated[
        str, typer.Option(help="Environment variable with the key that clients must send; unset, any will do.")
    ] = "WORKBENCH_SERVE_KEY",
) -> None:
    """Put a local agent behind a loopback OpenAI Realtime endpoint, until interrupted."""
    options = {**AS_HOSTED.get(agent, {}), **read_settings(settings, numbers=False)}
    try:
        asyncio.run(_serve(agent, options, host, port, os.environ.get(key_env, "")))
    except KeyboardInterrupt:
        print("Stopped.")


async def _serve(agent: str, options: dict[str, Any], host: str, port: int, key: str) -> None:
    from workbench.agents.realtime import realtime_server
    from workbench.agents.registry import factory

    async with realtime_server(factory(agent, options), host=host, port=port, key=key) as url:
        print(f"{agent} answers at {url}/realtime ({'with the key' if key else 'no key needed'}); Ctrl-C stops it.")
        print(f'openai package: AsyncOpenAI(base_url="{url}", api_key="...").realtime.connect(model="{agent}")')
        print(f"this workbench: workbench run DATASET --agent openai-realtime --set base_url={url}", flush=True)
        await asyncio.Event().wait()
