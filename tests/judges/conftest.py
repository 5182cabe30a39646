"""Fixtures for the judges' tests: a loopback judge server and small run folders."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from chat_loopback import KEY
from judge_runs import make_run

from workbench.chat.client import ChatSettings
from workbench.judges.ask import ModelJudge


@pytest.fixture
def model(server, slept, monkeypatch):
    """Make a model judge on the loopback server: model(tries=2) and so on."""
    monkeypatch.setenv("JUDGE_KEY", KEY)

    async def sleep(seconds):
        slept.append(seconds)

    def make(**changes):
        options = {"model": "loopback-1", "base_url": server.url, "key_env": "JUDGE_KEY", "timeout_s": 20.0}
        return ModelJudge(ChatSettings(**(options | changes)), sleep=sleep, clock=lambda: sum(slept))

    return make


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run")
