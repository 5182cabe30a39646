"""The shape of the package: imports run one way, and nothing outside a benchmark's folder knows it by name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from workbench import contract

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "workbench"
OUTSIDE = [path for path in sorted(PACKAGE.rglob("*")) if path.suffix in (".py", ".js", ".html", ".css")
           and PACKAGE / "benchmarks" not in path.parents]  # fmt: skip


def test_imports_run_one_way_and_in_no_circle():
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


OF_THE_FIELD = set(
    """metric label speaker speakers instance action condition role level onset_s known_s yield silence register setting
    pairs situation attribute probe device max_wait_s""".split()
)
"""Words that any benchmark may use and that mean other things elsewhere."""


def own_words(name):
    """What only this benchmark knows: its name, columns, thresholds, rules, judges, scores."""
    one = contract.get(name)
    words = {one.name, one.title, one.ranking, *(judge.name for judge in one.judges)}
    words |= {column.name for column in one.columns} | set(one.threshold) | {rule.name for rule in one.rules}
    return words - OF_THE_FIELD


@pytest.mark.parametrize("name", ["ifeval", "duplex-mpe"])
def test_nothing_outside_its_folder_names_a_benchmark_or_what_is_its_own(name):
    words = own_words(name)
    quoted = re.compile("|".join(rf"[\"'`]{re.escape(word)}[\"'`]" for word in sorted(words)))
    package = contract.get(name).build.__module__.rsplit(".", 1)[0]
    found = []
    for path in OUTSIDE:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if quoted.search(line) or package in line:
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)
