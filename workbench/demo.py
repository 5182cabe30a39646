"""The demo: a small real slice of IFEval, from scripts to a report, offline, through the public commands."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from workbench.errors import InputError

LIMIT = 102
"""All 48 cells at levels L2 and L1, and the six safety cells at L4b: one instance each."""

AGENTS = (
    ("oracle", "oracle", ()),
    ("contrary", "contrary", ()),
    ("eager", "eager", ()),
    ("cascade", "cascade", ("--set", "policy=prompted")),
)
JUDGE = "offline-lexical"

_out = Console()


def run_demo(folder: Path) -> None:
    """Build, run, score, judge and report in `folder`; run again, it goes on or does nothing.

    Raises
    ------
    InputError : a step failed; the message names it.
    """
    began = time.monotonic()
    dataset, runs, report = folder / "dataset", folder / "runs", folder / "report"
    _step("Build", "build", "ifeval", "--limit", str(LIMIT), "--out", str(dataset))
    _step("Validate", "validate", str(dataset))
    for name, agent, options in AGENTS:
        _step(f"Run {name}", "run", str(dataset), "--agent", agent, *options, "--out", str(runs / name))
    folders = [str(runs / name) for name, _, _ in AGENTS]
    _step("Score", "score", *folders)
    for name in folders:
        _step(f"Judge {Path(name).name}", "judge", name, "--model", JUDGE, quiet=True)
    _step("Report", "report", *folders, "--out", str(report))
    _out.rule(f"Done in {time.monotonic() - began:.0f} s")
    workbench = Path(sys.executable).parent / "panel"
    _out.print(
        f"Report:      {report / 'report.html'}\n"
        f"Recordings:  {runs}/*/episodes/*.stereo.wav (left the user, right the agent)\n"
        f"Dashboard:   {workbench} serve apps/inspector.py --show --args {runs}\n"
        f"Judged by:   {JUDGE}, a lexical baseline and no language model (docs/judges.md has the recipes)",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _step(title: str, *arguments: str, quiet: bool = False) -> None:
    _out.rule(title)
    command = [sys.executable, "-m", "workbench", *arguments]
    done = subprocess.run(command, stdout=subprocess.DEVNULL if quiet else None)
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode:
        raise InputError(
            f"The demo stopped at '{title}' (exit code {done.returncode}): workbench {' '.join(arguments)}. "
            "Mend what it named above; the same command goes on from there."
        )
