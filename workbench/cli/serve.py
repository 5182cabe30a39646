"""The command `serve`: reads options, starts the server, prints how to reach it."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Annotated, Any

import typer

from workbench.agents.realtime import realtime_server
from workbench.agents.registry import factory
from workbench.errors import InputError

# As hosted services do: audio ahead of real time, and listening goes on while the brain thinks.
AS_HOSTED: dict[str, dict[str, Any]] = {"cascade": {"lead_s": 60.0, "live": True}}


def serve(
    agent: Annotated[str, typer.Option(help="Which local agent, or python:module:Class.")] = "cascade",
    settings: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="A setting of the agent; may be given again.")
    ] = [],  # noqa: B006 - typer reads it, nobody changes it
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback need a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8765,
    key_env: Annotated[
        str, typer.Option(help="Environment variable with the key that clients must send; unset, any will do.")
    ] = "WORKBENCH_SERVE_KEY",
) -> None:
    """Put a local agent behind a loopback OpenAI Realtime endpoint, until interrupted."""
    options = {**AS_HOSTED.get(agent, {}), **_read(settings)}
    try:
        asyncio.run(_serve(agent, options, host, port, os.environ.get(key_env, "")))
    except KeyboardInterrupt:
        print("Stopped.")


async def _serve(agent: str, options: dict[str, Any], host: str, port: int, key: str) -> None:
    async with realtime_server(factory(agent, options), host=host, port=port, key=key) as url:
        print(f"{agent} answers at {url}/realtime ({'with the key' if key else 'no key needed'}); Ctrl-C stops it.")
        print(f'openai package: AsyncOpenAI(base_url="{url}", api_key="...").realtime.connect(model="{agent}")')
        print(f"this workbench: workbench run DATASET --agent openai-realtime --set base_url={url}", flush=True)
        await asyncio.Event().wait()


def _read(pairs: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--set {pair!r} is not NAME=VALUE.")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options
