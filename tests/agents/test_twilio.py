"""The telephone adapter over a real socket, and the code of the telephone."""

import numpy as np
import pytest
from faults import check, outcomes, together
from servers.telephone import running
from talk import SettledClock, case, loud_s, pitch_hz, talk

from workbench.agents.twilio import Twilio, mulaw_decode, mulaw_encode


async def one(a_case=None, options=None, **behaviour):
    clock = SettledClock()
    async with running(**behaviour, clock=clock) as (server, url):
        result = await talk(lambda: Twilio(url, **{"quiet_s": 0.2, **(options or {})}), a_case, clock)
    return result, server.sessions[0]


RUNS = {
    "good": {"a_case": case(prompt="Answer at 700 Hz."), "options": {"parameters": '{"caller": "+1"}'}},
    "half a second": {"answer_s": 0.5},
    "clear": {"a_case": case(barge_in_s=0.3), "answer_s": 3.0},
    "odd packets": {"packet": 37},
    "real time": {"gap_s": 0.02},
    "early": {"early": True},
}


@pytest.fixture(scope="module")
def runs():
    return together({name: lambda how=how: one(**how) for name, how in RUNS.items()})


def test_a_call_as_twilio_makes_it(runs):
    result, heard = runs["good"]
    record = result.record
    assert record.status == "complete"
    assert record.transcript is None
    assert heard.events[:3] == ["connected", "start", "media"]
    assert heard.events[-1] == "stop"
    assert heard.start["mediaFormat"] == {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
    assert heard.start["customParameters"] == {"caller": "+1", "system_prompt": "Answer at 700 Hz."}
    assert set(heard.packets) == {160}
    assert len(heard.packets) == record.sends.frames
    assert loud_s(result) == pytest.approx(0.4, abs=0.03)
    assert pitch_hz(result.stereo[:, 1]) == pytest.approx(700, abs=8)
    assert any(event.kind == "turn_end" for event in record.events)


def test_the_user_arrives_on_time(runs):
    result, heard = runs["good"]
    sent = mulaw_decode(bytes(heard.audio))
    begins = np.flatnonzero(np.abs(sent) > 1000)[0] / 8_000
    assert begins == pytest.approx(result.record.cue("first").start_s + 0.0025, abs=0.003)


def test_a_mark_comes_back_when_playout_reaches_it(runs):
    _, heard = runs["half a second"]
    ((name, when),) = heard.marks
    assert name == "end"
    # The answer arrives at once and takes half a second to play.
    assert when - heard.sent["end"] == pytest.approx(0.5, abs=0.03)


def test_clear_cuts_and_flushes_the_marks(runs):
    result, heard = runs["clear"]
    assert result.record.status == "complete"
    assert result.record.cut_samples > 24_000
    assert heard.marks[0][1] - heard.sent["end"] < 2.5
    assert len(heard.marks) >= 1


@pytest.mark.parametrize("name", ["odd packets", "real time", "early"])
def test_odd_packets_real_time_and_early_audio(name, runs):
    result, _ = runs[name]
    assert result.record.status == "complete"
    assert pitch_hz(result.stereo[:, 1]) == pytest.approx(440, abs=10)


FAULTS = {
    "401": ({"refuse": 401}, "unauthorised", "the words of the server", False),
    "429": ({"refuse": 429}, "busy", "429", True),
    "hung up": ({"hang_up_after": 3}, "hung_up", "hung up before the case was over", False),
    "drop": ({"drop_after": 3}, "connection_lost", "lost", True),
    "garbage": ({"raw": "beep"}, "bad_message", "not JSON", False),
    "not base64": ({"raw": '{"event": "media", "media": {"payload": 5}}'}, "bad_message", "not base64", False),
}


@pytest.fixture(scope="module")
def results():
    return outcomes(FAULTS, running, lambda url, name: Twilio(url))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_becomes_an_error_with_its_reason(name, results):
    check(FAULTS[name], results[name])


# mu-law ----------------------------------------------------------------------------------------------


def test_the_code_has_the_values_of_the_standard():
    # ITU-T G.711, table 2: decoder output values at the ends of the segments, scaled to 16 bits.
    ends = {0x80: 32124, 0x8F: 16764, 0x9F: 8316, 0xAF: 4092, 0xBF: 1980, 0xCF: 924, 0xDF: 396, 0xEF: 132, 0xFF: 0}
    assert {code: int(mulaw_decode(bytes([code]))[0]) for code in ends} == ends
    assert {code & 0x7F: int(mulaw_decode(bytes([code & 0x7F]))[0]) for code in ends} == {
        code & 0x7F: -value for code, value in ends.items()
    }


def test_every_code_comes_back_and_the_error_is_that_of_the_code():
    codes = bytes(range(256))
    back = mulaw_encode(mulaw_decode(codes))
    assert [code for code, again in zip(codes, back, strict=True) if code != again] == [0x7F], "minus zero is zero"
    samples = np.arange(-32768, 32768).astype(np.int16)
    error = np.abs(mulaw_decode(mulaw_encode(samples)).astype(int) - samples)
    assert np.all(error <= np.maximum(np.abs(samples.astype(int)) / 16, 8) + 132 / 16)
