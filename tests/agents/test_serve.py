"""Local agents behind the Realtime endpoint: a real socket, and the real `openai` client wherever it can say it."""

import asyncio
import base64
import json
from functools import partial

import numpy as np
import pytest
from openai import AsyncOpenAI
from spoken import frames, gap, say
from typer.testing import CliRunner
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from workbench.agents.base import AgentError, AudioOut, Interrupted, Text, Traits, TurnEnd
from workbench.agents.cascade import CascadeAgent
from workbench.agents.openai import OpenAIRealtime
from workbench.agents.realtime import realtime_server
from workbench.agents.registry import factory
from workbench.agents.scripted import EagerAgent
from workbench.cases import AfterOnset, AtTime, Case, Cue, Ending, PromptPart
from workbench.errors import InputError
from workbench.runners.episode import run_episode
from workbench.runners.guard import WallClock

QUESTION = "Is it too early for her to have another dose of it?"
EXPLAIN = "Could you explain how the whole visit goes, every step of it?"
BARGE_IN = "Sorry, my mother just slid off her chair."


class ToneAgent:
    """Says a tone of one second at frame 10 of every hundred, in one burst; keeps what it was told."""

    def __init__(self, log: list | None = None, fault_at: int = 0, burst: int = 50):
        self.traits = Traits("tone", "1", "input")
        self.log, self.fault_at, self.burst = [] if log is None else log, fault_at, burst

    async def open(self, session, emit):
        self.emit, self.session, self.count, self.spoken = emit, session, 0, 0
        self.log.append(self)
        self.prompt, self.heard, self.cancelled, self.closed = session.system_prompt, [], [], 0

    async def send(self, frame):
        self.count += 1
        self.heard.append(frame)
        if self.count == self.fault_at:
            raise AgentError("broken", "The tone has gone out of tune.")
        if self.count % 100 == 10:
            self.spoken += 1
            self.emit(Text("laa ", f"tone_{self.spoken}"))
            self.emit(AudioOut(np.full(480 * self.burst, 1000, np.int16), f"tone_{self.spoken}"))
            self.emit(TurnEnd(f"tone_{self.spoken}"))

    async def cancel(self, item=""):
        self.cancelled.append(item)

    async def close(self):
        self.closed += 1


class Client:
    """Raw messages over the socket, and the events that came back."""

    def __init__(self, socket):
        self.socket, self.events = socket, []

    async def send(self, kind, **fields):
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def append(self, *parts):
        for frame in frames(*parts):
            await self.send("input_audio_buffer.append", audio=base64.b64encode(frame.tobytes()).decode())

    async def until(self, kind):
        """Read up to the next event of this kind; everything read is kept in `events`."""
        while True:
            event = json.loads(await self.socket.recv())
            self.events.append(event)
            if event["type"] == kind:
                return event

    async def settle(self):
        """Read up to the answer to a message sent now: whatever was due before it has been read then."""
        await self.send("input_audio_buffer.clear")
        await self.until("input_audio_buffer.cleared")
        return self

    def of(self, kind):
        return [event for event in self.events if event["type"] == kind]

    def kinds(self):
        return [event["type"] for event in self.events]


def socket_url(url: str) -> str:
    return url.replace("http", "ws", 1) + "/realtime?model=local"


def openai_client(url: str, key: str = "any") -> AsyncOpenAI:
    return AsyncOpenAI(base_url=url, api_key=key, max_retries=0)


# Through the real client --------------------------------------------------------------------------------


async def test_a_conversation_through_the_openai_client():
    question, first, second = say(QUESTION), say(EXPLAIN), say(BARGE_IN)
    parts = [gap(0.5), question, gap(8.0), first, gap(4.5), second, gap(2.0)]
    seen = []
    async with realtime_server(lambda: CascadeAgent(lead_s=60.0)) as url:
        async with openai_client(url).realtime.connect(model="cascade") as connection:
            settings = {
                "type": "realtime",
                "instructions": "You are a nurse.",
                "output_modalities": ["audio"],
                "audio": {"input": {"transcription": {"model": "any"}, "turn_detection": {"type": "server_vad"}}},
            }
            await connection.session.update(session=settings)
            for frame in frames(*parts):
                await connection.input_audio_buffer.append(audio=base64.b64encode(frame.tobytes()).decode())
            await connection.input_audio_buffer.clear()
            async for event in connection:
                seen.append(event)
                if event.type == "input_audio_buffer.cleared":
                    break

    def of(kind):
        return [event for event in seen if event.type == kind]

    assert seen[0].type == "session.created" and seen[0].session.model == "cascade"
    assert of("session.updated")[0].session.instructions == "You are a nurse."
    ends = np.cumsum([part.size for part in parts]) / 24.0  # milliseconds
    starts = [event.audio_start_ms for event in of("input_audio_buffer.speech_started")]
    assert starts[0] == pytest.approx(500 - 300, abs=150)
    assert starts[-1] == pytest.approx(ends[4] - 300, abs=150)
    stops = [event.audio_end_ms for event in of("input_audio_buffer.speech_stopped")]
    assert stops[0] == pytest.approx(ends[1] + 500, abs=200)
    answer, long_answer = of("response.done")[:2]
    assert answer.response.status == long_answer.response.status == "completed"
    item = answer.response.output[0]
    deltas = [event for event in of("response.output_audio.delta") if event.item_id == item.id]
    assert sum(len(base64.b64decode(event.delta)) for event in deltas) > 2 * 24_000
    assert deltas[0].response_id == answer.response.id
    text = "".join(e.delta for e in of("response.output_audio_transcript.delta") if e.item_id == item.id)
    assert text == item.content[0].transcript and text.startswith("About the")
    heard = of("conversation.item.input_audio_transcription.completed")[0].transcript
    assert "early for her" in heard
    # The barge-in is reported while the long answer plays, not the answer's own start.
    order = [event.type for event in seen]
    assert order.index("response.created") < order.index("response.output_audio.delta")
    assert "error" not in order


async def test_a_wrong_key_is_refused():
    async with realtime_server(ToneAgent, key="sesame") as url:
        with pytest.raises(InvalidStatus) as caught:
            async with openai_client(url, "wrong").realtime.connect(model="local"):
                pass
        assert caught.value.response.status_code == 401
        assert b"invalid_api_key" in caught.value.response.body
        async with openai_client(url, "sesame").realtime.connect(model="local") as connection:
            assert (await connection.recv()).type == "session.created"
        async with connect(socket_url(url), additional_headers={"api-key": "sesame"}) as socket:
            assert "session.created" in await socket.recv()
        async with connect(socket_url(url), subprotocols=["realtime", "openai-insecure-api-key.sesame"]) as socket:
            assert socket.subprotocol == "realtime"


async def test_the_workbench_own_adapter_end_to_end():
    case = Case(
        id="case",
        benchmark="test",
        conversation="c",
        stream="s",
        prompt=(PromptPart(name="role", text="You are a nurse."),),
        cues=(
            Cue(id="first", text=EXPLAIN, start=AtTime(time_s=0.1)),
            Cue(id="second", text=BARGE_IN, start=AfterOnset(delay_s=0.8, max_wait_s=6)),
        ),
        ending=Ending(tail_s=0.1, max_wait_s=0.2, flush_s=0.1),
    )
    clips = {"first": say(EXPLAIN), "second": say(BARGE_IN)}
    async with realtime_server(lambda: CascadeAgent(lead_s=60.0, live=True)) as url:
        result = await run_episode(case, clips, lambda: OpenAIRealtime(base_url=url, model="cascade"), WallClock)
    record = result.record
    assert record.status == "complete", record.error
    assert record.text.startswith("Of course")
    assert record.agent.reported["model"] == "cascade"
    kinds = [event.kind for event in record.events]
    assert "interrupted" in kinds and "truncated" in kinds and "server_error" not in kinds
    assert record.cut_samples > 5 * 24_000  # delivered in a burst, given up at the barge-in


# Protocol -----------------------------------------------------------------------------------------------


async def test_one_response_in_the_order_of_the_protocol():
    async with realtime_server(ToneAgent) as url, connect(socket_url(url)) as socket:
        client = Client(socket)
        await client.append(gap(0.4))
        await client.settle()
    assert client.kinds() == [
        "session.created",
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
        "input_audio_buffer.cleared",
    ]
    assert len({event["event_id"] for event in client.events}) == len(client.events)
    assert base64.b64decode(client.of("response.output_audio.delta")[0]["delta"]) == b"\xe8\x03" * 24_000


@pytest.mark.parametrize("by", ["header", "fields"])
async def test_the_beta_dialect(by):
    headers = {"OpenAI-Beta": "realtime=v1"} if by == "header" else {}
    async with realtime_server(ToneAgent) as url, connect(socket_url(url), additional_headers=headers) as socket:
        client = Client(socket)
        flat = {"modalities": ["audio", "text"], "instructions": "Sing.", "input_audio_format": "pcm16"}
        await client.send("session.update", session=flat)
        await client.append(gap(0.4))
        await client.settle()
    assert client.of("session.updated")[0]["session"]["input_audio_format"] == "pcm16"
    assert client.of("session.updated")[0]["session"]["instructions"] == "Sing."
    kinds = client.kinds()
    assert {"response.audio.delta", "response.audio_transcript.delta", "conversation.item.created"} <= set(kinds)
    assert not any("output_audio" in kind or (kind.endswith("item.added") and "conversation" in kind) for kind in kinds)


async def test_the_own_adapter_in_beta_dialect_and_at_another_rate():
    case = Case(
        id="case",
        benchmark="test",
        conversation="c",
        stream="s",
        cues=(Cue(id="turn", text="", start=AtTime(time_s=0.1)),),
        ending=Ending(tail_s=0.05, max_wait_s=1.5, flush_s=0.05),
    )
    for options in ({"dialect": "beta"}, {"input_rate_hz": 16_000, "output_rate_hz": 16_000}):
        log = []
        async with realtime_server(lambda log=log: ToneAgent(log)) as url:
            make = partial(OpenAIRealtime, base_url=url, model="tone", **options)
            result = await run_episode(case, {"turn": say("Okay.")}, make, WallClock)
        assert result.record.status == "complete", result.record.error
        assert result.record.text == "laa"
        assert np.abs(result.stereo[:, 1]).max() == pytest.approx(1000, abs=150)
        delivered = sum(delivery.samples for delivery in result.record.deliveries)
        assert delivered == pytest.approx(24_000, abs=200)
        heard = np.concatenate(log[-1].heard)
        assert np.abs(heard).max() == pytest.approx(np.abs(say("Okay.")).max(), rel=0.1)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("not json", "invalid_json"),
        (b"\x00\x01", "invalid_json"),
        ("[1]", "missing_required_parameter"),
        ('{"type": 3}', "missing_required_parameter"),
        ('{"type": "no.such.thing", "event_id": "mine"}', "invalid_event"),
        ('{"type": "input_audio_buffer.append"}', "invalid_type"),
        ('{"type": "input_audio_buffer.append", "audio": "%%%"}', "invalid_value"),
        ('{"type": "input_audio_buffer.append", "audio": "AAAA"}', "invalid_value"),
        ('{"type": "session.update", "session": 3}', "invalid_type"),
        ('{"type": "session.update", "session": {"type": "transcription"}}', "invalid_value"),
        ('{"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text"]}}', "invalid_value"),
        ('{"type": "session.update", "session": {"input_audio_format": "g711_ulaw"}}', "invalid_value"),
        ('{"type": "session.update", "session": {"turn_detection": {"threshold": 7}}}', "invalid_value"),
        (
            '{"type": "session.update", "session": {"type": "realtime", "audio": {"input": {"format":'
            ' {"type": "audio/pcmu"}}}}}',
            "invalid_value",
        ),
        ('{"type": "response.cancel"}', "response_cancel_not_active"),
        ('{"type": "response.create"}', "unsupported"),
        ('{"type": "conversation.item.truncate", "item_id": "none"}', "item_truncate_invalid_item_id"),
    ],
)
async def test_malformed_input_is_answered_and_survived(message, code):
    async with realtime_server(ToneAgent) as url, connect(socket_url(url)) as socket:
        client = Client(socket)
        await socket.send(message)
        error = (await client.until("error"))["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", code)
        assert error["message"].endswith(".")
        assert error["event_id"] == ("mine" if b"mine" in str(message).encode() else None)
        await client.append(gap(0.4))
        assert (await client.until("response.done"))["response"]["status"] == "completed"


async def test_chunks_of_any_size_reach_the_agent_whole():
    log = []
    sound = np.random.default_rng(2).integers(-3000, 3000, 9_600).astype(np.int16)
    async with realtime_server(lambda: ToneAgent(log)) as url, connect(socket_url(url)) as socket:
        client, at = Client(socket), 0
        for size in (1, 7, 480, 479, 2_000, 6_633):
            audio = base64.b64encode(sound[at : at + size].tobytes()).decode()
            await client.send("input_audio_buffer.append", audio=audio)
            at += size
        await client.settle()
    agent = log[-1]
    assert at == sound.size and np.array_equal(np.concatenate(agent.heard), sound)
    assert agent.closed == 1


async def test_truncation_tells_the_agent_and_refuses_more_than_there_is():
    log = []
    async with realtime_server(lambda: ToneAgent(log)) as url, connect(socket_url(url)) as socket:
        client = Client(socket)
        await client.append(gap(0.4))
        item = (await client.until("response.output_audio.delta"))["item_id"]
        await client.send("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=1001)
        assert "1000ms" in (await client.until("error"))["error"]["message"]
        await client.send("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=-1)
        assert (await client.until("error"))["error"]["param"] == "audio_end_ms"
        await client.send("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=150)
        assert (await client.until("conversation.item.truncated"))["audio_end_ms"] == 150
    assert log[-1].cancelled == ["tone_1"]
    assert log[-1].session.played_samples("tone_1") == 3_600


async def test_cancel_stops_an_utterance_that_goes_on():
    class Endless(ToneAgent):
        async def send(self, frame):
            self.emit(AudioOut(np.full(480, 500, np.int16), "endless"))

    log = []
    async with realtime_server(lambda: Endless(log)) as url, connect(socket_url(url)) as socket:
        client = Client(socket)
        await client.append(gap(0.1))
        await client.send("response.cancel")
        await client.append(gap(0.1))
        await client.settle()
    done = client.of("response.done")[0]["response"]
    assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "client_cancelled")
    assert len(client.of("response.output_audio.delta")) == 5, "audio went on after the cancellation"
    assert log[-1].cancelled == ["endless"]


async def test_the_agents_own_interruption_cancels_the_response():
    class GivesWay(ToneAgent):
        async def send(self, frame):
            self.count += 1
            if self.count <= 5:
                self.emit(AudioOut(np.full(480, 500, np.int16), "one"))
            if self.count == 5:
                self.emit(Interrupted("one"))

    async with realtime_server(GivesWay) as url, connect(socket_url(url)) as socket:
        client = Client(socket)
        await client.append(gap(0.2))
        await client.settle()
    done = client.of("response.done")[0]["response"]
    assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "turn_detected")


@pytest.mark.parametrize(("yields", "reported"), [(True, True), (False, False)])
async def test_speech_is_reported_during_an_answer_only_if_the_agent_gives_way(yields, reported):
    first, second = say(EXPLAIN), say(BARGE_IN)
    async with realtime_server(lambda: CascadeAgent(lead_s=60.0, yields=yields)) as url:
        async with connect(socket_url(url)) as socket:
            client = Client(socket)
            await client.append(gap(0.3), first, gap(4.0), second, gap(1.0))
            await client.settle()
    late_ms = (0.3 + first.size / 24_000 + 3.5) * 1000
    starts = [event["audio_start_ms"] for event in client.of("input_audio_buffer.speech_started")]
    assert any(start > late_ms for start in starts) is reported


async def test_a_backchannel_is_a_response_of_its_own():
    async with realtime_server(lambda: CascadeAgent("backchanneling")) as url, connect(socket_url(url)) as socket:
        client = Client(socket)
        await client.append(gap(0.3), say("My mother fell in the kitchen this morning, and"), gap(1.5))
        await client.settle()
    (done,) = client.of("response.done")
    assert done["response"]["status"] == "completed"
    assert done["response"]["output"][0]["content"][0]["transcript"] == "Okay. "


async def test_an_answer_on_demand_without_more_audio():
    async with realtime_server(lambda: CascadeAgent(lead_s=60.0)) as url, connect(socket_url(url)) as socket:
        client = Client(socket)
        await client.append(gap(0.3), say(QUESTION), gap(0.1))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        done = (await client.until("response.done"))["response"]
        await client.send("response.create")
        again = (await client.until("response.done"))["response"]
    assert again["id"] != done["id"]
    assert done["status"] == "completed" and done["output"][0]["content"][0]["transcript"].strip()
    assert client.of("input_audio_buffer.committed")


async def test_instructions_reach_the_agent_and_may_change():
    log = []

    class Instructed(ToneAgent):
        async def instruct(self, prompt):
            self.prompt = prompt

    async with realtime_server(lambda: Instructed(log)) as url, connect(socket_url(url)) as socket:
        client = Client(socket)
        for text in ("First.", "Second."):
            await client.send("session.update", session={"type": "realtime", "instructions": text})
            await client.until("session.updated")
            assert log[-1].prompt == text
    async with realtime_server(lambda: ToneAgent(log)) as url, connect(socket_url(url)) as socket:
        client = Client(socket)
        await client.append(gap(0.02))
        await client.send("session.update", session={"type": "realtime", "instructions": "Late."})
        assert "before the first audio" in (await client.until("error"))["error"]["message"]


async def test_an_agent_that_fails_is_reported_and_the_server_goes_on():
    async with realtime_server(lambda: ToneAgent(fault_at=5)) as url:
        async with connect(socket_url(url)) as socket:
            client = Client(socket)
            with pytest.raises(ConnectionClosedError) as caught:
                await client.append(gap(1.0))
                await client.until("never")
        error = client.of("error")[0]["error"]
        assert (error["type"], error["code"]) == ("server_error", "broken")
        assert "out of tune" in error["message"] and caught.value.rcvd.code == 1011
        async with connect(socket_url(url)) as socket:
            assert "session.created" in await socket.recv()


async def test_sessions_run_side_by_side_each_with_its_own_agent():
    log = []

    async def one(url, count):
        async with connect(socket_url(url)) as socket:
            client = Client(socket)
            await client.send("session.update", session={"type": "realtime", "instructions": f"Number {count}."})
            for _ in range(30):
                await client.append(np.full(480, count, np.int16))
                await asyncio.sleep(0)
            await client.settle()
            return client

    async with realtime_server(lambda: ToneAgent(log)) as url:
        clients = await asyncio.gather(*(one(url, count) for count in range(1, 9)))
    agents = {agent.prompt: agent for agent in log if hasattr(agent, "prompt")}
    assert len(agents) == 8
    for count in range(1, 9):
        assert set(np.concatenate(agents[f"Number {count}."].heard)) == {count}
    assert all(len(client.of("response.done")) == 1 for client in clients)


# Addresses and agents -------------------------------------------------------------------------------------


async def test_only_the_endpoint_only_loopback_pages_and_only_safe_addresses():
    async with realtime_server(ToneAgent) as url:
        assert url.startswith("http://127.0.0.1:")
        with pytest.raises(InvalidStatus) as caught:
            await connect(socket_url(url).replace("realtime", "elsewhere"))
        assert caught.value.response.status_code == 404
        with pytest.raises(InvalidStatus) as caught:
            await connect(socket_url(url), origin="https://somewhere.example")
        assert caught.value.response.status_code == 403
        async with connect(socket_url(url), origin="http://localhost:8888"):
            pass
        port = int(url.split(":")[2].split("/")[0])
        with pytest.raises(InputError, match="choose another port"):
            async with realtime_server(ToneAgent, port=port):
                pass
    with pytest.raises(InputError, match="set a key"):
        async with realtime_server(ToneAgent, host="0.0.0.0"):
            pass


async def test_scripted_agents_can_be_served_and_others_are_refused():
    async with realtime_server(factory("eager")) as url, connect(socket_url(url)) as socket:
        client = Client(socket)
        await client.append(say("Okay."), gap(5.0))
        await client.settle()
    said = client.of("response.done")[0]["response"]["output"][0]["content"][0]["transcript"]
    assert said.startswith(EagerAgent.TEXT)
    with pytest.raises(InputError, match="follows a case's script"):
        async with realtime_server(factory("oracle")):
            pass
    with pytest.raises(InputError, match="remote system"):
        async with realtime_server(lambda: OpenAIRealtime(base_url="http://127.0.0.1:1/v1")):
            pass


def test_the_command_prints_how_to_reach_it(monkeypatch):
    import typer

    from workbench.cli import running

    async def stop_at_once(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio.Event, "wait", stop_at_once)
    app = typer.Typer()
    app.command()(running.serve)
    result = CliRunner().invoke(app, ["--agent", "cascade", "--set", "policy=patient", "--port", "0"])
    assert result.exit_code == 0, result.output
    assert "http://127.0.0.1:" in result.output and "no key needed" in result.output and "Stopped." in result.output
    bad = CliRunner().invoke(app, ["--set", "policy"])
    assert isinstance(bad.exception, InputError) and "NAME=VALUE" in str(bad.exception)
