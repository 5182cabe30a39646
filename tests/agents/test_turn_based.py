"""Turn-based systems: an HTTP endpoint and a Python callable."""

import numpy as np
import pytest
from faults import check, outcomes
from servers.common import tone
from servers.turns import running
from talk import CLIPS, case, loud_s, pitch_hz, talk

from workbench.agents.turn_based import Answer, TurnBased
from workbench.errors import InputError


async def one(a_case=None, options=None, **behaviour):
    async with running(**behaviour) as (server, url):
        result = await talk(lambda: TurnBased(url=url, **(options or {})), a_case)
    return result, server


async def test_gets_the_whole_turn_at_its_rate_and_answers_after_it(monkeypatch):
    monkeypatch.setenv("TURN_BASED_API_KEY", "very-secret")
    result, server = await one(case(prompt="Answer at 520 Hz."), think_s=0.2)
    record = result.record
    assert record.status == "complete"
    assert record.text == "la la"
    (turn,) = server.turns
    assert turn["rate_hz"] == 16_000
    assert turn["samples"].size == pytest.approx(CLIPS["first"].size * 2 / 3, abs=400)
    assert turn["system_prompt"] == "Answer at 520 Hz."
    assert turn["headers"]["Authorization"] == "Bearer very-secret"
    assert "very-secret" not in record.model_dump_json()
    assert loud_s(result) == pytest.approx(0.4, abs=0.03)
    assert pitch_hz(result.stereo[:, 1]) == pytest.approx(520, abs=8)
    assert record.deliveries[0].t_s >= record.cue("first").end_s + 0.2


async def test_two_turns_share_a_session_and_two_cases_do_not():
    _, server = await one(case(then_s=0.3), think_s=0.0)
    assert [turn["turn"] for turn in server.turns] == [1, 2]
    assert server.turns[0]["session"] == server.turns[1]["session"]
    _, other = await one(think_s=0.0)
    assert other.turns[0]["session"] != server.turns[0]["session"]


async def test_an_answer_may_be_the_audio_itself():
    result, _ = await one(bare=True, rate_hz=44_100)
    assert loud_s(result) == pytest.approx(0.4, abs=0.03)
    assert pitch_hz(result.stereo[:, 1]) == pytest.approx(440, abs=8)


FAULTS = {
    "401": ({"status": 401}, "unauthorised", "the words of the server", False),
    "429": ({"status": 429}, "busy", "429", True),
    "503": ({"status": 503}, "busy", "503", True),
    "garbage": ({"raw": "{"}, "bad_message", "not JSON", False),
    "not base64": ({"raw": '{"audio": "*"}'}, "bad_message", "not base64", False),
    "not audio": ({"raw": '{"audio": "AAAA"}'}, "bad_message", "neither WAV", False),
    "too slow": ({"think_s": 3.0}, "no_answer", "did not answer within 0.3 s", True),
}


@pytest.fixture(scope="module")
def results():
    return outcomes(FAULTS, running, lambda url, name: TurnBased(url, timeout_s=0.3 if name == "too slow" else 20))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_becomes_an_error_with_its_reason(name, results):
    check(FAULTS[name], results[name])


# Callables, named as a user would name them ----------------------------------------------------------


def plain(turn):
    return Answer(tone(0.2, 16_000, 330), 16_000, f"turn {turn.index}")


async def later(turn):
    return Answer(tone(0.2, 24_000, 330), 24_000)


class Counts:
    """State of its own for every case."""

    def __init__(self):
        self.turns = 0

    def __call__(self, turn):
        self.turns += 1
        return Answer(np.zeros(240, np.float32), 24_000, f"heard {self.turns}")


def breaks(turn):
    raise RuntimeError("no model loaded")


def nonsense(turn):
    return "hello"


@pytest.fixture
def here(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "my_model", sys.modules[__name__])


@pytest.mark.parametrize("name", ["plain", "later"])
async def test_a_callable_answers(here, name):
    result = await talk(lambda: TurnBased(call=f"my_model:{name}"))
    assert result.record.status == "complete"
    assert loud_s(result) == pytest.approx(0.2, abs=0.03)


async def test_a_class_is_made_anew_for_every_case(here):
    results = [await talk(lambda: TurnBased(call="my_model:Counts"), case(then_s=0.2)) for _ in range(2)]
    assert [result.record.text for result in results] == ["heard 1 heard 2"] * 2


@pytest.mark.parametrize(("name", "words"), [("breaks", "no model loaded"), ("nonsense", "returned str")])
async def test_what_a_callable_does_wrong_is_said(here, name, words):
    result = await talk(lambda: TurnBased(call=f"my_model:{name}"))
    assert words in result.record.error.message


def test_what_is_missing_is_said():
    with pytest.raises(InputError, match="needs either"):
        TurnBased()
    with pytest.raises(InputError, match="cannot be loaded"):
        TurnBased(call="no_such_module:answer")
