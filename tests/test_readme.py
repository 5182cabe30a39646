"""The README's own words work: its example agent runs, its commands exist, its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

from workbench.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_agent_runs(tiny_dataset, tmp_path):
    (example,) = re.findall(r"```python\n# my_agents\.py\n(.*?)```", README, re.S)
    (tmp_path / "my_agents.py").write_text(example)
    done = subprocess.run(
        [str(Path(sys.executable).parent / "workbench"), "run", str(tiny_dataset), "--agent", "python:my_agents:Beeper",
         "--out", str(tmp_path / "run")],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and "12 cases recorded" in done.stdout, done.stderr


def test_every_command_named_exists():
    done = subprocess.run([sys.executable, "-m", "workbench", "--help"], capture_output=True, text=True)
    commands = set(re.findall(r"(?m)^workbench ([a-z-]+)", README))
    assert len(commands) >= 6
    known = {name for names in COMMANDS.values() for name in names}
    assert commands <= known and all(re.search(rf"(?m)^\W*{name}\b", done.stdout) for name in known)


def test_every_file_named_is_there():
    for name in re.findall(r"`((?:docs|notebooks|workbench|data|apps|benchmarks)/[\w./-]*)`", README):
        assert (ROOT / name).exists(), name
