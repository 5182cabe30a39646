"""The Gemini Live adapter over a real socket."""

import numpy as np
import pytest
from faults import check, outcomes, together
from servers.gemini_live import running
from talk import case, loud_s, pitch_hz, talk

from workbench.agents.gemini_live import GeminiLive
from workbench.errors import InputError


async def one(a_case=None, options=None, **behaviour):
    async with running(**behaviour) as (server, url):
        result = await talk(lambda: GeminiLive("live", base_url=url, **(options or {})), a_case)
    return result, server.sessions[0]


async def test_a_whole_turn(monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", "very-secret")
    result, heard = await one(case(prompt="Answer at 600 Hz."), {"voice": "Puck"})
    record = result.record
    assert record.status == "complete"
    assert record.text == "la la"
    assert loud_s(result) == pytest.approx(0.4, abs=0.03)
    assert pitch_hz(result.stereo[:, 1]) == pytest.approx(600, abs=5)
    assert heard.setup["model"] == "models/live"
    assert heard.setup["systemInstruction"] == {"parts": [{"text": "Answer at 600 Hz."}]}
    detection = heard.setup["realtimeInputConfig"]["automaticActivityDetection"]
    assert detection == {"prefixPaddingMs": 300, "silenceDurationMs": 800}
    assert heard.headers["x-goog-api-key"] == "very-secret"
    assert "very-secret" not in heard.path + record.model_dump_json()
    # 16 kHz, and no longer under way than the filter's 2.5 ms.
    sent = np.frombuffer(bytes(heard.audio), "<i2")
    assert sent.size == record.sends.frames * 320
    begins = np.flatnonzero(np.abs(sent) > 500)[0] / 16_000
    assert begins == pytest.approx(record.cue("first").start_s + 0.0025, abs=0.002)


RUNS = {
    "barge-in": {"a_case": case(barge_in_s=0.3), "answer_s": 3.0},
    "split samples": {"odd_bytes": True},
    "early": {"early": True},
    "other rate": {"rate_hz": 16_000},
}


@pytest.fixture(scope="module")
def runs():
    return together({name: lambda how=how: one(**how) for name, how in RUNS.items()})


def test_a_barge_in_cuts_and_the_next_turn_is_heard(runs):
    result, _ = runs["barge-in"]
    record = result.record
    assert record.status == "complete"
    assert record.cut_samples > 24_000
    items = {d.item for d in record.deliveries if d.placed is not None}
    assert len(items) == 2, "the answer to the second turn is another utterance"


@pytest.mark.parametrize("name", ["split samples", "early", "other rate"])
def test_split_samples_early_audio_and_another_rate(name, runs):
    result, _ = runs[name]
    assert result.record.status == "complete"
    assert pitch_hz(result.stereo[:, 1]) == pytest.approx(440, abs=8)


FAULTS = {
    "no handshake": ({"no_handshake": True}, "no_handshake", "did not open a session", True),
    "401": ({"refuse": 401}, "unauthorised", "the words of the server", False),
    "429": ({"refuse": 429}, "busy", "429", True),
    "key refused": ({"close": (1008, "API key not valid")}, "rejected", "API key not valid", False),
    "quota": ({"close": (1011, "You exceeded your current quota")}, "connection_lost", "quota", True),
    "drop": ({"drop_after": 1}, "connection_lost", "lost", True),
    "garbage": ({"raw": b"\xff\xfe"}, "bad_message", "not JSON", False),
    "wrong shape": ({"raw": b'{"serverContent": 3}'}, "bad_message", "int", False),
}


@pytest.fixture(scope="module")
def results():
    def make(url, name):
        return GeminiLive("live", base_url=url, handshake_s=0.5 if name == "no handshake" else 20)

    return outcomes(FAULTS, running, make)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_becomes_an_error_with_its_reason(name, results):
    check(FAULTS[name], results[name])


def test_without_a_key_it_says_which_is_missing(monkeypatch):
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    with pytest.raises(InputError, match="GEMINI_API_KEY"):
        GeminiLive("live")
