"""The demo: a benchmark from scripts to a report, offline, through the public commands.

IFEval in a small real slice, Duplex-MPE with its whole shipped set.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Plan:
    """What a demo does: at most `limit` cases, (name, agent, options) of each run, judges by name."""

    limit: int | None
    agents: tuple[tuple[str, str, tuple[str, ...]], ...]
    judges: tuple[str, ...]


PLANS = {
    "ifeval": Plan(LIMIT, AGENTS, ("pas",)),
    "duplex-mpe": Plan(
        None,
        tuple((n, n, ()) for n in ("oracle", "contrary", "silent", "babble", "name-spotter", "text-reference")),
        ("mpe_answer", "mpe_brief"),
    ),
}

_out = Console()


def run_demo(folder: Path, benchmark: str = "ifeval") -> None:
    """Build, run, score, judge and report in `folder`; run again, it goes on or does nothing.

    Raises
    ------
    InputError : there is no demo of that benchmark, or a step failed; the message names it.
    """
    if benchmark not in PLANS:
        raise InputError(f"There is no demo of {benchmark!r}; there are {', '.join(PLANS)}.")
    plan = PLANS[benchmark]
    limit = () if plan.limit is None else ("--limit", str(plan.limit))
    began = time.monotonic()
    dataset, runs, report = folder / "dataset", folder / "runs", folder / "report"
    _step("Build", "build", benchmark, *limit, "--out", str(dataset))
    _step("Validate", "validate", str(dataset))
    for name, agent, options in plan.agents:
        _step(f"Run {name}", "run", str(dataset), "--agent", agent, *options, "--out", str(runs / name))
    folders = [str(runs / name) for name, _, _ in plan.agents]
    _step("Score", "score", *folders)
    for name in folders:
        for judge in plan.judges:
            _step(f"Judge {Path(name).name}", "judge", name, "--judge", judge, "--model", JUDGE, quiet=True)
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
