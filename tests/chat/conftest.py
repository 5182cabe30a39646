"""Fixtures for the tests of the one client: a loopback model and clients of it that note their sleep."""

import pytest
from chat_loopback import KEY

from workbench.chat.client import ChatClient, ChatSettings


@pytest.fixture
def chat(server, slept, monkeypatch):
    """Make a client of the loopback server: chat(tries=2) and so on."""
    monkeypatch.setenv("MODEL_KEY", KEY)

    async def sleep(seconds):
        slept.append(seconds)

    def make(**changes):
        options = {"model": "loopback-1", "base_url": server.url, "key_env": "MODEL_KEY", "timeout_s": 20.0}
        return ChatClient(ChatSettings(**(options | changes)), sleep=sleep, clock=lambda: sum(slept))

    return make
