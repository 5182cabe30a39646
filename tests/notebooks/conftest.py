"""One small dataset for every notebook: the tiny dataset's conversations at two levels, audio shared."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def notebook_data(tiny_dataset, tmp_path_factory):
    """Folder with `dataset/`: twelve conversations at L1 and at L2, which the Entailment Gap needs.

    The notebooks make their runs beside it; whoever comes second finds them there.
    """
    from workbench import datasets

    folder = tmp_path_factory.mktemp("notebooks")
    shutil.copytree(tiny_dataset, folder / "dataset")
    built = datasets.load(tiny_dataset)
    spoken = {case.conversation: case for case in built.cases}
    cases = [_at_level_of(case, spoken[case.conversation]) for case in _grid(spoken)]
    header = built.header
    datasets.write(folder / "dataset", cases, version=header.version, author=header.author, speech=header.speech)
    before = os.environ.get("WORKBENCH_NOTEBOOK_DATA")
    os.environ["WORKBENCH_NOTEBOOK_DATA"] = str(folder)
    yield Path(folder)
    if before is None:
        del os.environ["WORKBENCH_NOTEBOOK_DATA"]
    else:
        os.environ["WORKBENCH_NOTEBOOK_DATA"] = before


def _at_level_of(silent, spoken):
    """The spoken case with the prompt of the silent one: levels differ in nothing else."""
    return spoken.model_copy(update={name: getattr(silent, name) for name in ("id", "prompt", "expect", "tags")})


def _grid(conversations) -> list:
    from workbench.benchmarks.ifeval import cases as au
    from workbench.benchmarks.ifeval.cases import TURN1, TURN2, expand
    from workbench.construct.turns import without_audio

    data = au.load()
    turns = {
        (stream, cue): without_audio(text)
        for stream, script in data.scripts.items()
        for cue, text in ((TURN1, script.turn1), (TURN2, script.turn2))
    }
    return [
        case
        for case in expand(data, turns)
        if case.conversation in conversations and case.tags["level"] in ("L1", "L2")
    ]
