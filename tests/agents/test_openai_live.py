"""The OpenAI Live adapter over a real socket."""

import numpy as np
import pytest
from faults import check, outcomes, together
from servers.openai_live import running
from talk import case, loud_s, pitch_hz, seamless, talk

from workbench.agents.openai import OpenAILive


def agent(url: str, **options) -> OpenAILive:
    return OpenAILive(**{"model": "live", "base_url": url, "voice": "marin", **options})


async def one(a_case=None, options=None, **behaviour):
    async with running(**behaviour) as (server, url):
        result = await talk(lambda: agent(url, **(options or {})), a_case)
    return result, server.sessions[0]


RUNS = {
    "good": {"a_case": case(prompt="Answer at 520 Hz.")},
    "split samples": {"odd_bytes": True},
    "other rate": {"rate_hz": 16_000},
    "stall": {"stall_at": 12},
}


@pytest.fixture(scope="module")
def runs():
    return together({name: lambda how=how: one(**how) for name, how in RUNS.items()})


def test_continuous_output_is_placed_by_its_sample_count(runs):
    result, heard = runs["good"]
    record = result.record
    assert record.status == "complete"
    assert record.placement == "sample_clock"
    assert record.text == "la la"
    assert loud_s(result) == pytest.approx(0.4, abs=0.03)
    assert seamless(result)
    assert heard.settings["audio"] == {"format": {"type": "audio/pcm", "rate": 24_000}, "output": {"voice": "marin"}}
    assert heard.settings["instructions"] == "Answer at 520 Hz."
    sent = np.frombuffer(bytes(heard.audio), "<i2")
    assert np.array_equal(sent, result.stereo[: sent.size, 0])


@pytest.mark.parametrize("name", ["split samples", "other rate", "stall"])
def test_split_samples_other_rates_and_stalls_leave_no_seam(name, runs):
    result, _ = runs[name]
    record = result.record
    assert record.status == "complete"
    assert seamless(result)
    agent_side = result.stereo[:, 1]
    assert pitch_hz(agent_side) == pytest.approx(440, abs=8)


FAULTS = {
    "no handshake": ({"silent_start": True}, "no_handshake", "did not open a session", True),
    "401": ({"refuse": 401}, "unauthorised", "the words of the server", False),
    "429": ({"refuse": 429}, "busy", "429", True),
    "drop": ({"drop_after": 8}, "connection_lost", "lost", True),
    "expired": ({"closed": "expired"}, "session_closed", "expired", False),
    "upstream lost": ({"closed": "connection_lost"}, "session_closed", "connection_lost", True),
    "error": ({"error": {"type": "invalid_request_error", "code": "odd", "message": "no"}}, "odd", "no", False),
    "garbage": ({"raw": "{"}, "bad_message", "not JSON", False),
}


@pytest.fixture(scope="module")
def results():
    return outcomes(FAULTS, running, lambda url, name: agent(url, handshake_s=0.5 if name == "no handshake" else 20))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_becomes_an_error_with_its_reason(name, results):
    check(FAULTS[name], results[name])
