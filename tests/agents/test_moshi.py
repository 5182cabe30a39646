"""The Moshi adapter over a real socket, with real Opus both ways."""

import asyncio

import numpy as np
import pytest

pytest.importorskip("sphn")

from faults import check, outcomes, together
from servers.moshi import running
from talk import CLIPS, case, loud_s, pitch_hz, seamless, talk

from workbench.agents.moshi import Moshi
from workbench.errors import InputError


async def one(a_case=None, options=None, **behaviour):
    async with running(**behaviour) as (server, url):
        result = await talk(lambda: Moshi(url, **(options or {})), a_case)
    return result, server


PLEX = {"flavour": "personaplex", "voice_prompt": "NATM1.pt"}
FIELDS = ("text_prompt", "voice_prompt")
RUNS = {
    "good": {},
    "echo": {"echo": True},
    "plex": {"a_case": case(prompt="You are a clerk."), "options": PLEX, "required": FIELDS},
    "plex, no prompt": {"a_case": case(prompt=""), "options": PLEX, "required": FIELDS},
    "flm": {"options": {"flavour": "flm-audio", "settings": '{"temp_text": 0.1}'}},
    "metadata": {"metadata": '{"build": "rust-1"}'},
    "early": {"early": True},
    "stall": {"stall_at": 4},
}


@pytest.fixture(scope="module")
def runs():
    return together({name: lambda how=how: one(**how) for name, how in RUNS.items()})


def test_answers_and_is_placed_by_its_sample_count(runs):
    result, _ = runs["good"]
    record = result.record
    assert record.status == "complete"
    assert record.text == "la"
    assert record.placement == "sample_clock"
    assert loud_s(result) == pytest.approx(0.4, abs=0.03)
    assert pitch_hz(result.stereo[:, 1]) == pytest.approx(440, abs=10)
    assert any(event.kind == "system_prompt_not_sent" for event in record.events)


def test_the_delay_of_opus_is_taken_off(runs):
    # The server gives back what it decodes. On the way out Opus delays by 154 samples, which cannot
    # be undone; on the way back it delays by as many again, and those are taken off.
    result, _ = runs["echo"]
    user, agent = result.stereo[:, 0].astype(float), result.stereo[:, 1].astype(float)
    first = result.record.deliveries[0].placed
    agent = agent[first:][: user.size - first]
    likeness = [np.dot(agent[lag : lag + 20000], user[:20000]) for lag in range(0, 700)]
    assert int(np.argmax(likeness)) == pytest.approx(154, abs=3)


def test_what_the_server_hears_is_the_user(runs):
    _, server = runs["good"]
    heard = np.concatenate(server.sessions[0].pcm)
    loud = np.flatnonzero(np.abs(heard) > 0.05)
    assert (loud[-1] - loud[0]) / 24000 == pytest.approx(CLIPS["first"].size / 24000, abs=0.02)


def test_personaplex_gets_both_its_fields_and_the_prompt(runs):
    result, server = runs["plex"]
    assert result.record.status == "complete"
    assert server.sessions[0].query == {"text_prompt": "You are a clerk.", "voice_prompt": "NATM1.pt"}
    _, server = runs["plex, no prompt"]
    assert server.sessions[0].query["text_prompt"] == "", "required also when empty"


def test_flm_audio_gets_its_settings_first(runs):
    result, server = runs["flm"]
    assert result.record.status == "complete"
    assert server.settings == {"temp_text": 0.1}
    assert result.record.agent.name == "flm-audio"


def test_metadata_before_the_handshake_is_reported(runs):
    result, _ = runs["metadata"]
    assert "rust-1" in result.record.agent.reported["metadata"]


async def test_a_second_client_waits_and_then_gives_up():
    async with running() as (server, url):
        first = asyncio.create_task(talk(lambda: Moshi(url), case(then_s=1.0)))
        while not server.sessions:
            await asyncio.sleep(0.01)
        second = await talk(lambda: Moshi(url, handshake_s=0.2))
        first = await first
    assert first.record.status == "complete"
    assert second.record.error.kind == "no_handshake"
    assert "busy with another" in second.record.error.message
    assert second.retry


@pytest.mark.parametrize("name", ["early", "stall"])
def test_early_frames_and_a_stall_leave_no_seam(name, runs):
    result, _ = runs[name]
    record = result.record
    assert record.status == "complete"
    assert seamless(result)


FAULTS = {
    "no handshake": ({"no_handshake": True}, "no_handshake", "did not open a session", True),
    "401": ({"refuse": 401}, "unauthorised", "the words of the server", False),
    "429": ({"refuse": 429}, "busy", "429", True),
    "fields missing": ({"required": ("seed",)}, "busy", "500", True),
    "drop": ({"drop_after": 5}, "connection_lost", "lost", True),
    "error": ({"error": "out of memory"}, "server_error", "out of memory", True),
    "garbage": ({"raw": b"\x01" + bytes(range(200)) * 9}, "bad_message", "Ogg/Opus", False),
}


@pytest.fixture(scope="module")
def results():
    return outcomes(FAULTS, running, lambda url, name: Moshi(url, handshake_s=0.5 if name == "no handshake" else 20))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_becomes_an_error_with_its_reason(name, results):
    check(FAULTS[name], results[name])


def test_an_unknown_flavour_is_refused():
    with pytest.raises(InputError, match="flavours are moshi, personaplex, flm-audio"):
        Moshi(flavour="mochi")
