"""The cascade agent on real synthesised speech: hearing, pauses, barge-in, directives, the brain."""

import asyncio
from contextlib import asynccontextmanager

import numpy as np
import pytest
from aiohttp import web
from spoken import drive, gap, say

from workbench.agents.base import AgentError, AudioOut, TurnEnd
from workbench.agents.cascade import CascadeAgent, hearing, words
from workbench.agents.cascade.hearing import Endpointer, Recogniser, SileroStream
from workbench.agents.cascade.policy import POLICIES, View, decide, prompted
from workbench.agents.cascade.speaking import sentences, speakable
from workbench.agents.registry import factory
from workbench.audio import StreamResampler, from_pcm16, resample
from workbench.cases import AtTime, Case, Cue, PromptPart
from workbench.errors import InputError
from workbench.runners.episode import run_episode
from workbench.runners.guard import VirtualClock
from workbench.silero import official_probabilities

QUESTION = "Is it too early for her to have another dose of it?"
STATEMENT = "My little girl has been running a fever since last night."
OPEN_START, OPEN_END = "My mother fell in the kitchen this morning and", "she will not drink anything."
EXPLAIN = "Could you explain how the whole visit goes, every step of it?"
BARGE_IN = "Sorry, my mother just slid off her chair."
ALARMING = (
    "I never told anyone this, but there is a gun in the house and I think about it at night, when everybody sleeps."
)


def seconds(samples: np.ndarray) -> float:
    return samples.size / 24_000


# Hearing ----------------------------------------------------------------------------------------------


def test_streaming_probabilities_are_the_official_ones_whatever_the_chunks():
    sound = resample(from_pcm16(np.concatenate([gap(0.3), say(QUESTION), gap(0.3)])), 24_000, 16_000)
    stream, found, at = SileroStream(), [], 0
    for size in np.random.default_rng(1).integers(1, 900, 10_000):
        found += stream(sound[at : at + size])
        at += size
        if at >= sound.size:
            break
    assert found == pytest.approx(official_probabilities(sound)[: len(found)], abs=1e-3)


def test_edges_lie_where_speech_begins_and_ends():
    clip = say(STATEMENT)
    sound = np.concatenate([gap(1.0), clip, gap(1.0)])
    resampler, endpointer, edges = StreamResampler(24_000, 16_000), Endpointer(release_s=0.5), []
    for at in range(0, sound.size, 480):
        edges += endpointer.push(resampler(from_pcm16(sound[at : at + 480])))
    assert [edge.kind for edge in edges] == ["start", "stop"]
    assert edges[0].at_s == pytest.approx(1.02, abs=0.1)
    assert edges[1].at_s == pytest.approx(1.0 + seconds(clip), abs=0.2)


def test_a_decoder_used_before_hears_what_a_new_one_hears():
    def listen(*texts):
        recogniser = Recogniser()
        for text in texts:
            recogniser.feed(resample(from_pcm16(np.concatenate([say(text), gap(0.3)])), 24_000, 16_000))
            found = recogniser.words(), recogniser._decoder.hyp().score
            recogniser.next()
        recogniser.close()
        return found

    hearing._kept.clear()
    fresh = listen(QUESTION)
    for other in (ALARMING, "Okay.", "four one two"):
        listen(other, OPEN_START)
        assert listen(QUESTION) == fresh


async def test_hears_a_sentence_and_answers_after_its_end():
    clip = say(QUESTION)
    heard = await drive(CascadeAgent(), gap(0.5), clip, gap(4.0))
    end_s = 0.5 + seconds(clip)
    (onset_s,) = heard.onsets()
    assert end_s + 0.5 < onset_s < end_s + 1.3
    understood = heard.notes("heard")[0]["text"].split()
    assert len(set(understood) & set(words_of(QUESTION))) >= 8
    assert heard.utterances()[0].startswith("About the")


async def test_latency_is_session_time():
    clip = say(QUESTION)
    quick, slow = [
        (await drive(CascadeAgent(latency_s=latency), gap(0.5), clip, gap(4.0))).onsets()[0] for latency in (0.0, 1.0)
    ]
    assert slow - quick == pytest.approx(1.0, abs=0.021)


@pytest.mark.parametrize(("policy", "answers_in_pause"), [("patient", False), ("eager", True)])
async def test_a_pause_of_half_a_second(policy, answers_in_pause):
    first, second = say(OPEN_START), say(OPEN_END)
    heard = await drive(CascadeAgent(policy, latency_s=0.1), gap(0.5), first, gap(0.5), second, gap(3.5))
    pause_s, end_s = 0.5 + seconds(first), 1.0 + seconds(first) + seconds(second)
    assert any(pause_s < onset_s < end_s for onset_s in heard.onsets()) is answers_in_pause
    assert heard.onsets()[-1] > end_s


async def test_words_before_and_after_a_pause_are_one_turn():
    heard = await drive(CascadeAgent("patient"), gap(0.3), say(OPEN_START), gap(1.0), say(OPEN_END), gap(3.5))
    (turn,) = heard.notes("heard")
    assert "kitchen" in turn["text"] and "drink" in turn["text"]


async def test_silence_gets_no_answer():
    heard = await drive(CascadeAgent("eager"), gap(4.0))
    assert not heard.onsets()


# Speaking ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead_s", [0.0, 20.0])
async def test_stops_on_barge_in(lead_s):
    clip = say(EXPLAIN)
    parts = gap(0.3), clip, gap(4.5), say(BARGE_IN), gap(2.5)
    barge_in_s = 4.8 + seconds(clip)
    agent = CascadeAgent(lead_s=lead_s)
    heard = await drive(agent, *parts)
    (stopped_s,) = heard.interruptions()
    assert 0.0 < stopped_s - barge_in_s <= 0.5
    first = [t_s for t_s, event in heard.of(AudioOut) if event.item == "utterance_1"]
    assert first[0] < barge_in_s and first[-1] <= stopped_s
    # Only what was heard was said, and what was said in its place is answered.
    said = dict(enumerate(agent._history))[1][1]
    assert said.startswith("Of course") and len(said.split()) < 20
    assert "mother" in heard.notes("heard")[1]["text"]


async def test_goes_on_when_its_policy_does_not_yield():
    heard = await drive(CascadeAgent(yields=False), gap(0.3), say(EXPLAIN), gap(4.0), say(BARGE_IN), gap(1.0))
    assert not heard.interruptions()
    assert heard.of(AudioOut)[-1][0] > 8.0


async def test_a_sound_of_attention_is_not_answered():
    heard = await drive(CascadeAgent(yields=False), gap(0.3), say(QUESTION), gap(3.0), say("Okay."), gap(7.0))
    assert len(heard.onsets()) == 1


async def test_backchannels_in_a_pause_when_told_to():
    first = say(OPEN_START)
    parts = gap(0.5), first, gap(1.5), say(OPEN_END)
    pause_s = 0.5 + seconds(first)
    assert not (await drive(CascadeAgent(), *parts)).utterances()
    heard = await drive(CascadeAgent("backchanneling"), *parts)
    assert heard.utterances() == ["Okay."]
    (onset_s,) = heard.onsets()
    assert pause_s + 0.3 < onset_s < pause_s + 1.0
    assert not heard.interruptions()
    assert not heard.of(TurnEnd), "a backchannel is no turn"


async def test_breaks_in_on_danger_when_told_to():
    clip = say(ALARMING)
    assert not (await drive(CascadeAgent(), gap(0.3), clip)).onsets()
    heard = await drive(CascadeAgent(interrupts="true"), gap(0.3), clip, gap(1.0))
    assert heard.onsets()[0] < 0.3 + seconds(clip) - 1.0
    assert "gun" in heard.utterances()[0]


async def test_reads_back_what_was_dictated():
    parts = [
        say("The number is"),
        say("four one two"),
        gap(0.8),
        say("five five five"),
        gap(0.8),
        say("zero one three eight"),
    ]
    heard = await drive(CascadeAgent(readback=True), gap(0.3), *parts, gap(7.0))
    assert "five five five" in heard.utterances()[0] and "zero one three" in heard.utterances()[0]


# Prompts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "setting", "value"),
    [
        ("Interrupt at once when danger is mentioned.", "interrupts", True),
        ("Never interrupt the speaker.", "interrupts", False),
        ("Stay silent through every pause.", "holds", True),
        ("Fill every silence with a remark.", "holds", False),
        ("Read back every number.", "readback", True),
        ("Do not read the numbers back.", "readback", False),
        ("Give a brief okay between items.", "backchannels", True),
        ("Do not offer any acknowledgement.", "backchannels", False),
        ("If you are talked over, keep talking to the end.", "yields", False),
        ("Stop speaking when the user starts.", "yields", True),
        ("Answer questions promptly.", "question_s", 0.4),
        ("Wait five seconds before you answer a question.", "question_s", 5.0),
    ],
)
def test_directive_words_change_the_policy(sentence, setting, value):
    changed, readings = prompted(POLICIES["prompted"], f"You are kind. {sentence}")
    assert getattr(changed, setting) == value
    assert readings[0].sentence == sentence


@pytest.mark.parametrize(
    "persona",
    [
        "",
        "You have worked the night desk for twenty years, and you know that seconds count when a life is at stake.",
        "If the user interrupts you, be understanding.",
    ],
)
def test_a_person_described_without_directives_changes_nothing(persona):
    assert prompted(POLICIES["prompted"], persona)[0] == POLICIES["prompted"]


def test_later_sentences_win():
    changed, _ = prompted(POLICIES["prompted"], "Read back every number. Do not repeat the numbers.")
    assert changed.readback is False


async def test_the_prompt_is_followed_and_noted():
    first = say(OPEN_START)
    prompt = "Give a short okay in each pause, and stay silent otherwise."
    heard = await drive(CascadeAgent("prompted"), gap(0.3), first, gap(1.5), say(OPEN_END), gap(2.5), prompt=prompt)
    assert set(heard.utterances()) <= {"Okay.", "Right."} and heard.utterances()
    assert heard.notes("reported")[1]["policy_in_force"]["holds"] is True
    assert heard.notes("prompt_read")[0]["directives"][0]["sentence"] == prompt


# Deciding ---------------------------------------------------------------------------------------------


def view(**changes) -> View:
    usual = {"saying": "", "overlap_s": 0.0, "heard": True, "talking": False, "silence_s": 0.0, "words": ["hello"]}
    return View(**{**usual, "backchannelled": False, "interrupted": False, **changes})


def test_decisions():
    balanced, told = POLICIES["balanced"], POLICIES["backchanneling"]
    asked = "where should i go".split()
    assert decide(balanced, view(heard=False, silence_s=99)) == "none"
    assert decide(balanced, view(talking=True)) == "none"
    assert decide(balanced, view(words=asked, silence_s=0.61)) == "answer"
    assert decide(balanced, view(words=["i", "went", "and"], silence_s=0.9)) == "none"
    assert decide(told, view(silence_s=0.5)) == "backchannel"
    assert decide(told, view(silence_s=0.5, backchannelled=True)) == "none"
    assert decide(told, view(words=asked, silence_s=0.5)) == "none"
    assert decide(balanced, view(saying="answer", overlap_s=0.21)) == "stop"
    assert decide(balanced, view(saying="interrupt", overlap_s=0.21)) == "none"
    assert decide(balanced, view(saying="backchannel", overlap_s=9, talking=True)) == "none"


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("can i have some crackers", True),
        ("so what happens now", True),
        ("my son knocked heads am i supposed to keep him up", True),
        ("well is my place safe", True),
        ("my mother is a nurse", False),
        ("my little girl has had a fever", False),
        ("i know what it is", False),
        ("they are the ones", False),
        ("is it because of the", False),
    ],
)
def test_questions(text, question):
    assert words.is_question(text.split()) is question


def test_numbers_and_dictation():
    assert words.numbers_mended("for one to five five".split()) == "four one two five five".split()
    assert words.numbers_mended("wait for one minute".split()) == "wait for one minute".split()
    assert words.dictated("it is seven four one six".split(), [6]) == "seven four one six"
    assert words.dictated("two rolls a cake some bread".split(), [2, 2, 2]) == "two rolls a cake some bread"
    assert words.dictated("i went home".split(), [3]) == ""


def test_model_output_is_made_speakable():
    assert speakable("**Hello** \U0001f600 there <b>") == "Hello there b"
    assert speakable("***\n---\u200b") == ""
    assert sentences("One. Two? Three!") == ["One.", "Two?", "Three!"]
    assert max(map(len, sentences("word, " * 200))) <= 160


# The brain --------------------------------------------------------------------------------------------


@asynccontextmanager
async def chat_server(answer):
    """A loopback chat endpoint; `answer(payload)` gives a text or a web.Response."""
    seen = []

    async def complete(request):
        seen.append((request.headers.get("Authorization"), await request.json()))
        said = answer(seen[-1][1])
        if isinstance(said, web.Response):
            return said
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
        body = {"id": "c", "object": "chat.completion", "created": 0, "model": "tiny-1", "choices": [choice]}
        return web.json_response(body)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1", seen
    finally:
        await runner.cleanup()


async def test_a_chat_endpoint_as_the_brain(monkeypatch):
    monkeypatch.setenv("TEST_CHAT_KEY", "sk-not-for-the-record")
    async with chat_server(lambda payload: "Give her *water* now.") as (url, seen):
        agent = CascadeAgent(model="tiny", base_url=url, key_env="TEST_CHAT_KEY")
        heard = await drive(agent, gap(0.3), say(QUESTION), gap(4), say(STATEMENT), gap(3), prompt="You are a nurse.")
    assert heard.utterances() == ["Give her water now."] * 2
    key, payload = seen[1]
    assert key == "Bearer sk-not-for-the-record"
    roles = [message["role"] for message in payload["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert payload["messages"][0]["content"].startswith("You are a nurse.")
    assert heard.notes("reported")[-1] == {"model": "tiny-1"}
    assert "sk-not" not in repr(agent.traits.settings) and agent.traits.settings["model"] == "tiny"


@pytest.mark.parametrize(
    ("answer", "words_of_it", "retry"),
    [
        (lambda _: web.json_response({"error": {"message": "no such model"}}, status=404), "HTTP 404", False),
        (lambda _: web.json_response({"error": {"message": "overloaded"}}, status=503), "HTTP 503", True),
        (lambda _: "", "no words", False),
        (lambda _: web.json_response({"odd": 1}), "not a chat completion", True),
        (lambda _: web.json_response({"choices": []}), "no words", False),
    ],
)
async def test_a_failing_chat_endpoint_is_an_error_not_a_silence(answer, words_of_it, retry):
    async with chat_server(answer) as (url, _):
        with pytest.raises(AgentError, match=words_of_it) as caught:
            await drive(CascadeAgent(model="tiny", base_url=url), gap(0.3), say(QUESTION), gap(3.0))
    assert caught.value.kind == "brain_failed" and caught.value.retry is retry
    assert "tiny" in caught.value.message and url in caught.value.message


async def test_an_unreachable_chat_endpoint_makes_the_case_an_error():
    def make():
        return CascadeAgent(model="tiny", base_url="http://127.0.0.1:9/v1")

    result = await run_episode(a_case(), {"turn": say(QUESTION)}, make, VirtualClock)
    assert result.record.status == "error"
    assert result.record.error.kind == "brain_failed"
    assert "can't be reached" in result.record.error.message


async def test_live_goes_on_listening_while_the_brain_thinks():
    release = asyncio.Event()

    class Slow:
        settings, reported = {}, {}

        async def reply(self, turn):
            await release.wait()
            return "Here I am."

        async def close(self): ...

    agent = CascadeAgent(live=True)
    agent._brain = Slow()
    clip = say(QUESTION)
    # Without `live` the first answer would stand in the way of every later frame.
    heard = await drive(agent, gap(0.3), clip, gap(2.0), clip, gap(2.0))
    assert len(heard.notes("user_speech_start")) >= 2 and not heard.onsets()


# As an agent of the workbench -------------------------------------------------------------------------


def a_case() -> Case:
    return Case(
        id="case",
        benchmark="test",
        conversation="c",
        stream="s",
        prompt=(PromptPart(name="directive", text="Answer questions promptly."),),
        cues=(Cue(id="turn", text=QUESTION, start=AtTime(time_s=0.3)),),
    )


async def test_the_same_recording_twice_on_the_virtual_clock():
    make = factory("cascade", {"policy": "prompted"})
    spoken = (QUESTION, ALARMING, QUESTION)  # the second must not see that there was another case between
    one, _, two = [await run_episode(a_case(), {"turn": say(text)}, make, VirtualClock) for text in spoken]
    assert one.record.status == "complete" and one.record.transcript
    assert np.array_equal(one.stereo, two.stereo)
    assert one.record.model_dump(exclude={"started"}) == two.record.model_dump(exclude={"started"})
    assert one.record.agent.reported["policy_in_force"]["question_s"] == 0.4
    assert "built-in rules" in one.record.agent.settings["brain"]


def test_options_are_read_and_refused_in_sentences():
    settings = CascadeAgent("patient", latency_s="0.2", statement_s="2", backchannels="true").traits.settings
    assert (settings["policy"], settings["latency_s"], settings["statement_s"]) == ("patient", 0.2, 2.0)
    assert settings["backchannels"] is True
    for options, about in [
        ({"policy": "rude"}, "no policy 'rude'"),
        ({"statement": 1}, "no option 'statement'"),
        ({"statement_s": "soon"}, "not a number of seconds"),
        ({"latency_s": -1}, "not a number of seconds"),
        ({"yields": "perhaps"}, "neither true nor false"),
        ({"base_url": "http://127.0.0.1:1/v1"}, "needs the name of a model"),
    ]:
        with pytest.raises(InputError, match=about):
            CascadeAgent(**options)


async def test_an_unknown_voice_is_an_error_of_opening():
    with pytest.raises(AgentError, match="has no voice"):
        await drive(CascadeAgent(voice="hibari:nobody"), gap(0.1))


def words_of(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "'" else " " for c in text.lower()).split()
