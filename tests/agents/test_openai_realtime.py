"""The OpenAI Realtime adapter over a real socket: good behaviour, and every misbehaviour that was listed."""

import asyncio
import json

import numpy as np
import pytest
from faults import check, outcomes, together
from servers.openai_realtime import running
from talk import CLIPS, case, loud_s, pitch_hz, seamless, share_at, talk

from workbench.agents.openai import OpenAIRealtime
from workbench.errors import InputError


def agent(url: str, **options) -> OpenAIRealtime:
    return OpenAIRealtime(base_url=url, **{"model": "loopback", **options})


async def one(a_case=None, policy="as_played", options=None, **behaviour):
    """(the episode, what the server got in each session)."""
    async with running(**behaviour) as (server, url):
        result = await talk(lambda: agent(url, **(options or {})), a_case, policy=policy)
    return result, server.sessions


RUNS = {
    "good": {},
    "beta": {"options": {"dialect": "beta", "voice": "alloy"}, "beta": True},
    "barge-in": {"a_case": case(barge_in_s=0.3), "answer_s": 4.0},
    "as delivered": {"a_case": case(barge_in_s=0.3), "policy": "as_delivered", "answer_s": 2.0},
    "late deltas": {"a_case": case(barge_in_s=0.2), "answer_s": 3.0, "gap_s": 0.1, "late_deltas": 5},
    "truncation refused": {"a_case": case(barge_in_s=0.2), "answer_s": 2.0, "truncate_error": True},
    "burst": {"answer_s": 1.0},
    "stall": {"answer_s": 0.5, "stall_s": 0.4},
    "early": {"early": True},
    "split samples": {"odd_bytes": True},
    "odd sizes": {"chunk_samples": (1, 7, 479, 2401, 100)},
    "one delta": {"chunk_s": 0.4},
    "other rate": {"rate_hz": 16_000, "chunk_samples": (777,), "answer_s": 0.6},
    "input at 16 kHz": {"options": {"input_rate_hz": 16_000}},
    "endless": {"endless": True, "gap_s": 0.02, "chunk_s": 0.2},
    "endless, as delivered": {"endless": True, "gap_s": 0.02, "chunk_s": 0.2, "policy": "as_delivered"},
    "unknown event": {"raw": json.dumps({"type": "rate_limits.updated", "rate_limits": []})},
    "dropped": {"drop_after": 1},
}


@pytest.fixture(scope="module")
def runs():
    return together({name: lambda how=how: one(**how) for name, how in RUNS.items()})


def test_answers_after_the_turn_and_both_sides_are_exact(runs):
    result, (heard,) = runs["good"]
    record = result.record
    assert record.status == "complete"
    assert record.agent.reported["model"] == "loopback-1"
    assert record.text == "la la"
    assert loud_s(result) == pytest.approx(0.4, abs=0.03)
    assert pitch_hz(result.stereo[:, 1]) == pytest.approx(440, abs=5)
    # What the server was sent is what stands on the user's channel, byte for byte.
    sent = np.frombuffer(bytes(heard.audio), "<i2")
    assert np.array_equal(sent, result.stereo[: sent.size, 0])
    assert sent.size == record.sends.frames * 480 == len(record.sends.late_s) * 480


def test_the_session_is_set_as_the_specification_says(runs):
    _, (heard,) = runs["good"]
    assert heard.settings["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.5,
        "silence_duration_ms": 800,
        "prefix_padding_ms": 300,
        "create_response": True,
        "interrupt_response": True,
    }
    assert heard.settings["instructions"] == "Answer at 440 Hz."
    assert heard.path == "/v1/realtime?model=loopback"


def test_the_beta_dialect(runs):
    result, (heard,) = runs["beta"]
    assert result.record.status == "complete"
    assert loud_s(result) == pytest.approx(0.4, abs=0.03)
    assert heard.settings["input_audio_format"] == "pcm16"
    assert heard.settings["voice"] == "alloy"
    assert heard.headers["openai-beta"] == "realtime=v1"


async def test_a_key_travels_in_headers_and_stands_nowhere_else(monkeypatch):
    monkeypatch.setenv("OTHER_KEY", "sk-very-secret")
    options = {"key_env": "OTHER_KEY", "key_header": "api-key", "query": '{"duplex": 1}'}
    async with running(refuse=401, words="no such key: sk-very-secret") as (_, url):
        refused = await talk(lambda: agent(url, **options))
    result, (heard,) = await one(options=options)
    assert heard.headers["api-key"] == "sk-very-secret"
    assert heard.headers["authorization"] == "Bearer sk-very-secret"
    assert heard.path.endswith("duplex=1")
    assert refused.record.error.message.endswith("no such key: [key]")
    assert "sk-very-secret" not in result.record.model_dump_json() + refused.record.model_dump_json()


def test_without_a_key_or_a_server_it_says_what_is_missing(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        OpenAIRealtime()
    with pytest.raises(InputError, match="dialects are ga and beta"):
        OpenAIRealtime(base_url="http://127.0.0.1:1/v1", dialect="alpha")


# Interruptions ---------------------------------------------------------------------------------------


def test_a_barge_in_cuts_what_nobody_heard_and_truncates_there(runs):
    # Four seconds arrive at once; the user comes in 0.3 s after the onset.
    result, (heard,) = runs["barge-in"]
    record = result.record
    assert record.status == "complete"
    (truncation, *_) = heard.truncations
    cut = next(event for event in record.events if event.kind == "interrupted")
    first = [d for d in record.deliveries if d.item == cut.data["item"]]
    played_ms = sum(d.played for d in first) / 24
    assert truncation["item_id"] == cut.data["item"]
    assert truncation["audio_end_ms"] <= heard.sent[cut.data["item"]] / 24
    assert truncation["audio_end_ms"] == pytest.approx(played_ms, abs=40)
    assert played_ms < 1000 < 3000 < record.cut_samples / 24
    assert result.delivered.size == sum(d.samples for d in record.deliveries)
    # The next answer is heard when it comes, not where the cut one would have ended.
    answer = next(d for d in record.deliveries if d.item != cut.data["item"])
    assert answer.placed == pytest.approx(answer.t_s * 24000, abs=24)


def test_as_delivered_keeps_everything(runs):
    result, _ = runs["as delivered"]
    assert result.record.cut_samples == 0
    assert loud_s(result) == pytest.approx(4.0, abs=0.1)


def test_deltas_after_cancel_are_dropped_and_counted(runs):
    result, _ = runs["late deltas"]
    assert result.record.status == "complete"
    late = [d for d in result.record.deliveries if d.placed is None]
    assert sum(d.samples for d in late) >= 5 * 2400
    assert share_at(result.stereo[:, 1], 2000) < 0.01
    assert share_at(result.delivered, 2000) > 0.1


def test_a_refused_truncation_does_not_end_the_case(runs):
    result, (heard,) = runs["truncation refused"]
    assert heard.truncations
    assert result.record.status == "complete"
    assert any(event.kind == "server_error" for event in result.record.events)


# When and how audio comes ----------------------------------------------------------------------------


def test_a_burst_is_heard_at_the_pace_of_speech(runs):
    result, _ = runs["burst"]
    times = [d.t_s for d in result.record.deliveries]
    assert max(times) - min(times) < 0.9
    assert seamless(result)
    assert loud_s(result) == pytest.approx(1.0, abs=0.03)


def test_a_stall_and_then_a_burst_leaves_a_gap_where_it_was(runs):
    result, _ = runs["stall"]
    first, second, *rest = result.record.deliveries
    stalled_s = second.t_s - first.t_s
    assert stalled_s > 0.35
    assert second.placed - first.placed == pytest.approx(stalled_s * 24000, abs=48)
    assert rest[0].placed == second.placed + second.samples
    assert loud_s(result) == pytest.approx(0.5, abs=0.03)


def test_audio_before_the_first_user_frame_is_placed_at_the_beginning(runs):
    result, _ = runs["early"]
    assert result.record.status == "complete"
    assert result.record.deliveries[0].placed == 0


@pytest.mark.parametrize("name", ["split samples", "odd sizes", "one delta"])
def test_chunks_of_any_size_give_the_same_sound(name, runs):
    sides = [runs[which][0].stereo[:, 1] for which in (name, "good")]
    assert np.array_equal(*(side[np.flatnonzero(side)[0] :][:9000] for side in sides))


def test_a_server_at_another_rate(runs):
    result, _ = runs["other rate"]
    assert result.record.agent.reported["output_rate_hz"] == 16_000
    assert pitch_hz(result.stereo[:, 1]) == pytest.approx(440, abs=5)
    assert loud_s(result) == pytest.approx(0.6, abs=0.03)
    assert seamless(result), "no gap where chunks meet"


def test_input_at_another_rate_is_resampled(runs):
    result, (heard,) = runs["input at 16 kHz"]
    assert heard.settings["audio"]["input"]["format"]["rate"] == 16_000
    assert result.record.status == "complete"


@pytest.mark.parametrize("name", ["endless", "endless, as delivered"])
def test_an_answer_that_never_ends_is_bounded(name, runs):
    record = runs[name][0].record
    assert record.status == "complete"
    assert any(event.kind == "wait_over" for event in record.events)
    assert (record.cut_samples > 0) is (name == "endless")


def test_unknown_events_are_passed_over(runs):
    assert runs["unknown event"][0].record.status == "complete"


def test_the_user_stream_does_not_depend_on_the_agent(runs):
    sides = [bytes(runs[name][1][0].audio) for name in ("good", "early", "endless", "stall", "dropped")]
    shortest = min(map(len, sides))
    assert shortest > 2 * CLIPS["first"].size
    assert len({side[:shortest] for side in sides}) == 1


async def test_one_case_never_hears_another():
    pitches = [300, 500, 700, 900]
    async with running(answer_s=0.6, gap_s=0.02) as (server, url):
        results = await asyncio.gather(
            *(talk(lambda: agent(url), case(f"case_{hz}", f"Answer at {hz} Hz.")) for hz in pitches)
        )
        again = await talk(lambda: agent(url), case("case_300", "Answer at 300 Hz."))
    for hz, result in zip([*pitches, 300], [*results, again], strict=True):
        assert share_at(result.stereo[:, 1], hz) > 0.95
    assert len(server.sessions) == 5, "every case has a session of its own"


# Faults: the case becomes an error with its reason ---------------------------------------------------

SESSION_OVER = {"type": "invalid_request_error", "code": "session_expired", "message": "60 minutes are over"}
SLOW_DOWN = {"type": "rate_limit_exceeded", "code": "rate_limit_exceeded", "message": "slow down"}
NOT_BASE64 = json.dumps({"type": "response.output_audio.delta", "item_id": "a", "delta": "*!*"})
WRONG_SHAPE = json.dumps({"type": "response.done", "response": "none"})
FAULTS = {
    "no handshake": ({"no_handshake": True}, "no_handshake", "did not open a session within 0.5 s", True),
    "401": ({"refuse": 401}, "unauthorised", "401: the words of the server", False),
    "403": ({"refuse": 403}, "unauthorised", "403", False),
    "400": ({"refuse": 400}, "rejected", "400", False),
    "429": ({"refuse": 429}, "busy", "429", True),
    "503": ({"refuse": 503}, "busy", "503", True),
    "drop in mid-answer": ({"drop_after": 2}, "connection_lost", "lost", True),
    "session limit": ({"drop_after": 2, "close_code": 1001}, "connection_lost", "limit of 60 minutes", True),
    "policy": ({"drop_after": 1, "close_code": 1008}, "rejected", "1008", False),
    "error event": ({"error": SESSION_OVER}, "session_expired", "60 minutes are over", False),
    "server error": ({"error": {"type": "server_error", "message": "sorry"}}, "server_error", "sorry", True),
    "failed response": ({"fail": SLOW_DOWN}, "rate_limit_exceeded", "slow down", True),
    "garbage": ({"raw": '{"type": "response.outp'}, "bad_message", "not JSON", False),
    "not an object": ({"raw": "[1, 2]"}, "bad_message", "not an object", False),
    "not base64": ({"raw": NOT_BASE64}, "bad_message", "not base64", False),
    "wrong shape": ({"raw": WRONG_SHAPE}, "bad_message", "str", False),
}


@pytest.fixture(scope="module")
def results():
    return outcomes(FAULTS, running, lambda url, name: agent(url, handshake_s=0.5 if name == "no handshake" else 20))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_becomes_an_error_with_its_reason(name, results):
    check(FAULTS[name], results[name])


async def test_nobody_there():
    result = await talk(lambda: agent("http://127.0.0.1:9/v1"))
    assert result.record.error.kind == "unreachable"
    assert result.retry
