"""`workbench demo`: a benchmark from scripts to a report, offline, through the public commands."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from workbench import contract
from workbench.cli.shared import out
from workbench.errors import InputError

JUDGE = "offline-lexical"


def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where the dataset, runs and report go.")] = Path("demo"),
    name: Annotated[str | None, typer.Option("--benchmark", help="Which benchmark (default: the first).")] = None,
) -> None:
    """Build -> run -> score -> judge -> report on real scripts, offline, in minutes."""
    benchmark = contract.get(name) if name else contract.default()
    plan = benchmark.demo
    if plan is None:
        raise InputError(f"{benchmark.title} has no demo; build, run and score it by the commands of the README.")
    limit = () if plan.limit is None else ("--limit", str(plan.limit))
    began = time.monotonic()
    dataset, runs, report = folder / "dataset", folder / "runs", folder / "report"
    _step("Build", "build", benchmark.name, *limit, "--out", str(dataset))
    _step("Validate", "validate", str(dataset))
    for system, (agent, options) in plan.systems.items():
        given = [word for option, value in options.items() for word in ("--set", f"{option}={json.dumps(value)}")]
        _step(f"Run {system}", "run", str(dataset), "--agent", agent, *given, "--out", str(runs / system))
    folders = [str(runs / system) for system in plan.systems]
    _step("Score", "score", *folders)
    for system in folders:
        for judge in plan.judges:
            _step(f"Judge {Path(system).name}", "judge", system, "--judge", judge, "--model", JUDGE, quiet=True)
    _step("Report", "report", *folders, "--out", str(report))
    out.rule(f"Done in {time.monotonic() - began:.0f} s")
    out.print(
        f"Report:      {report / 'report.html'}\n"
        f"Recordings:  {runs}/*/episodes/*.stereo.wav (left the user, right the agent)\n"
        f"Dashboard:   {Path(sys.executable).parent / 'workbench'} inspect {runs}\n"
        f"Judged by:   {JUDGE}, a lexical baseline and no language model (docs/judges.md has the recipes)",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _step(title: str, *arguments: str, quiet: bool = False) -> None:
    out.rule(title)
    command = [sys.executable, "-m", "workbench", *arguments]
    done = subprocess.run(command, stdout=subprocess.DEVNULL if quiet else None)
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode:
        raise InputError(
            f"The demo stopped at '{title}' (exit code {done.returncode}): workbench {' '.join(arguments)}. "
            "Mend what it named above; the same command goes on from there."
        )
