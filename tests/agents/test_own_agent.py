"""The example of docs/agents.md, as it stands there, through the registry; and what the registry says."""

import re
from pathlib import Path

import numpy as np
import pytest
from talk import CLIPS, case, talk

from workbench.agents.base import Traits
from workbench.agents.registry import AGENTS, factory
from workbench.errors import InputError

DOCS = Path(__file__).parents[2] / "docs" / "agents.md"


@pytest.fixture
def parrot(tmp_path, monkeypatch):
    (source,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    (tmp_path / "parrot_of_the_docs.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "python:parrot_of_the_docs:Parrot"


async def test_the_example_runs_as_it_stands(parrot):
    result = await talk(factory(parrot, {"delay_s": 0.2}), case(then_s=0.6), clock="virtual")
    record = result.record
    assert record.status == "complete", record.error
    assert record.agent.settings == {"delay_s": 0.2}
    assert record.text == "(what you said) (what you said)"
    agent = result.stereo[:, 1]
    said = agent[np.flatnonzero(agent)[0] :][: CLIPS["first"].size - 480]
    assert np.array_equal(said, CLIPS["first"][np.flatnonzero(CLIPS["first"])[0] :][: said.size])


def test_options_of_ones_own_class_are_checked(parrot):
    with pytest.raises(InputError, match="has no option 'delay'; its options: delay_s"):
        factory(parrot, {"delay": 1})


@pytest.mark.parametrize("name", ["openai-realtime", "openai-live", "gemini-live", "twilio", "turn-based", "moshi"])
def test_every_agent_is_one_line_and_says_what_it_is(name):
    options = {
        "openai-realtime": {"base_url": "http://127.0.0.1:1/v1"},
        "openai-live": {"base_url": "http://127.0.0.1:1/v1"},
        "gemini-live": {"model": "m", "base_url": "ws://127.0.0.1:1"},
        "twilio": {"url": "ws://127.0.0.1:1"},
        "turn-based": {"url": "http://127.0.0.1:1"},
        "moshi": {},
    }[name]
    if name == "moshi":
        pytest.importorskip("sphn")
    traits = factory(name, options)().traits
    assert isinstance(traits, Traits)
    assert traits.pacing == AGENTS[name].pacing == "wall"
    assert name in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("twilio", {}, "needs the option 'url'"),
        ("gemini-live", {"base_url": "ws://x", "model": "m", "silence_ms": "long"}, "silence_ms"),
        ("openai-realtime", {"base_url": "http://x", "session": "{"}, "not valid JSON"),
        ("openai-realtime", {"base_url": "http://x", "query": [1]}, "must be a JSON object"),
        ("openai-realtime", {"base_url": "http://x", "input_rate_hz": 5}, "input_rate_hz"),
        ("twilio", {"url": "ws://x", "turns": "often"}, "'events' or 'continuous'"),
    ],
)
def test_what_is_wrong_with_an_option_is_said(name, options, words):
    with pytest.raises(InputError, match=words):
        factory(name, options)()
