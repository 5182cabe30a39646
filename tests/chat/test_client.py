"""The client against a real server: what is retried, what is not, what is remembered."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from chat_loopback import KEY, Say, answer, error

from workbench.chat.client import ChatSettings, ServerFault, retry_after_s
from workbench.errors import InputError

SCHEMA = {"type": "object", "properties": {}}
ASKED = [{"role": "user", "content": "well?"}]


async def complete(client):
    async with client:
        return await client.complete(ASKED, SCHEMA, "pas")


async def complete_plainly(client):
    async with client:
        return await client.complete(ASKED)


async def fails(client):
    with pytest.raises(ServerFault) as caught:
        await complete(client)
    return caught.value


async def test_sends_what_was_asked_for(server, chat):
    reply = await complete(chat(seed=7, max_tokens=300, extra={"top_p": 0.5}))
    body = server.bodies[0]
    assert (body["model"], body["temperature"], body["seed"], body["max_tokens"]) == ("loopback-1", 0.0, 7, 300)
    assert body["top_p"] == 0.5 and body["messages"] == ASKED
    assert body["response_format"]["json_schema"]["strict"] is True
    assert (reply.mode, reply.model, reply.fingerprint) == ("json_schema", "loopback-1-0613", "fp_loopback")
    assert (reply.prompt_tokens, reply.completion_tokens) == (1000, 50)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(("status", "kind", "fatal"), [(400, "bad_request", False), (401, "auth", True),
                                                      (403, "auth", True), (404, "not_found", True),
                                                      (422, "bad_request", False)])  # fmt: skip
async def test_refusals_are_not_retried(server, chat, slept, status, kind, fatal):
    server.script(error(status, "no"), then=lambda body, number: error(status, "no"))
    fault = await fails(chat())
    assert (fault.kind, fault.fatal, len(server.bodies), slept) == (kind, fatal, 1, [])


@pytest.mark.parametrize("bad", [error(429, "slow down"), error(500, "oops"), error(503, "busy"), error(408, "late"),
                                 Say(drop=True), Say(body="<html>proxy</html>"), Say(body='{"odd": 1}'),
                                 Say(body="{broken")])  # fmt: skip
async def test_passing_faults_are_retried_with_backoff(server, chat, slept, bad):
    server.script(bad, bad)
    reply = await complete(chat())
    assert reply.text and len(server.bodies) == 3
    assert 1 <= slept[0] <= 2 and 2 <= slept[1] <= 3


async def test_tries_are_bounded(server, chat, slept):
    server.say = lambda body, number: error(500, "oops")
    fault = await fails(chat(tries=4))
    assert (fault.kind, fault.fatal, len(server.bodies), len(slept)) == ("server", False, 4, 3)
    assert len(set(slept)) == 3, "jitter and growth"


async def test_a_silent_server_times_out(server, chat):
    server.say = lambda body, number: Say(hang=True)
    fault = await fails(chat(timeout_s=0.2, tries=2))
    assert (fault.kind, len(server.bodies)) == ("timeout", 2)


async def test_nobody_there(chat):
    fault = await fails(chat(base_url="http://127.0.0.1:9/v1", tries=2))
    assert fault.kind == "connection" and "127.0.0.1" in str(fault)


async def test_nobody_there_is_found_at_once(chat, slept):
    async with chat(base_url="http://127.0.0.1:9/v1") as client:
        with pytest.raises(ServerFault, match=r"127\.0\.0\.1:9 can't be reached") as caught:
            await client.reach()
    assert caught.value.fatal and slept == []


async def test_a_door_that_never_opens_is_found_in_bounded_time(chat, monkeypatch):
    """Something listens and says nothing while a secure connection is being made."""
    monkeypatch.setattr("workbench.chat.client.REACH_S", 0.2)
    door = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
    async with door, chat(base_url=f"https://127.0.0.1:{door.sockets[0].getsockname()[1]}/v1") as client:
        with pytest.raises(ServerFault, match="no answer within"):
            await client.reach()
        door.close()


async def test_whoever_answers_is_there_and_is_asked_once(server, chat, monkeypatch):
    monkeypatch.setattr("workbench.chat.client.REACH_S", 0.5)
    heard = []
    door = await asyncio.start_server(lambda reader, writer: heard.append(reader), "127.0.0.1", 0)
    async with door, chat(base_url=f"http://127.0.0.1:{door.sockets[0].getsockname()[1]}/v1") as slow, chat() as client:
        await asyncio.gather(slow.reach(), slow.reach(), client.reach())
        assert len(heard) == 1, "a server that is busy is there"
        door.close()
    assert server.bodies == []


async def test_retry_after_is_honoured(server, chat, slept):
    server.script(error(429, "wait", **{"Retry-After": "17"}))
    await complete(chat())
    assert 17 <= slept[0] <= 18


async def test_a_long_retry_after_ends_the_batch(server, chat, slept):
    server.script(error(429, "wait", **{"Retry-After": "86400"}))
    fault = await fails(chat())
    assert fault.fatal and "86400 s" in str(fault) and slept == []


async def test_an_empty_account_ends_the_batch(server, chat):
    server.script(error(429, "no money", code="insufficient_quota"))
    fault = await fails(chat())
    assert (fault.kind, fault.fatal, len(server.bodies)) == ("quota", True, 1)


def test_retry_after_as_a_date_or_nonsense():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    assert 38 <= retry_after_s({"retry-after": later}) <= 40
    assert retry_after_s({"retry-after-ms": "1500"}) == 1.5
    assert retry_after_s({"retry-after": "soon"}) is None and retry_after_s({}) is None


async def test_a_server_without_schema_is_asked_without_and_this_is_remembered(server, chat):
    def say(body, number):
        if "response_format" in body:
            return error(400, "'response_format' of type 'json_schema' is not supported")
        return Say(answer())

    server.say = say
    client = chat()
    async with client:
        first = await client.complete(ASKED, SCHEMA, "pas")
        await client.complete(ASKED, SCHEMA, "pas")
    assert first.mode == "text"
    assert ["response_format" in body for body in server.bodies] == [True, False, False]


async def test_the_newer_name_of_the_token_limit(server, chat):
    def say(body, number):
        if "max_tokens" in body:
            return error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return Say(answer())

    server.say = say
    await complete(chat(max_tokens=99))
    assert server.bodies[-1]["max_completion_tokens"] == 99


async def test_a_refused_temperature_names_the_remedy(server, chat):
    server.script(error(400, "Unsupported value: 'temperature' must be 1"))
    assert "--temperature none" in str(await fails(chat()))
    await complete(chat(temperature=None))
    assert "temperature" not in server.bodies[-1]


async def test_no_schema_when_told_so(server, chat):
    await complete(chat(schema=False))
    assert "response_format" not in server.bodies[0]


async def test_an_echoed_key_is_blotted_out(server, chat):
    server.script(error(401, f"Incorrect key {KEY}"))
    fault = await fails(chat())
    assert KEY not in str(fault) and KEY not in fault.detail
    server.say = lambda body, number: Say(f"your key is {KEY}")
    assert KEY not in (await complete(chat())).text


def test_keys_come_from_the_environment_and_go_where_they_belong(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OTHER_KEY", raising=False)
    assert ChatSettings("m").key() == "sk-own"
    assert ChatSettings("m", base_url="http://localhost:1/v1").key() == "none", "OpenAI's key goes to OpenAI only"
    with pytest.raises(InputError, match="OTHER_KEY is not set"):
        ChatSettings("m", base_url="http://localhost:1/v1", key_env="OTHER_KEY").key()
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(InputError, match="OPENAI_API_KEY is not set"):
        ChatSettings("m").key()


@pytest.mark.parametrize("url", ["http://me:pass@host/v1", "http://host/v1?key=abc"])
def test_credentials_in_the_address_are_refused_and_not_shown(url):
    with pytest.raises(InputError) as caught:
        _ = ChatSettings("m", base_url=url).url
    assert "pass" not in str(caught.value) and "abc" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["localhost:11434/v1", "ftp://host", "http://", "http://host:99999/v1", "http://[::1/v1"]
)
def test_addresses_that_are_none(url):
    with pytest.raises(InputError, match="must look like"):
        _ = ChatSettings("m", base_url=url).url


@pytest.mark.parametrize(
    ("url", "host"),
    [("http://localhost:11434/v1", "localhost:11434"), ("https://api.openai.com:443/v1", "api.openai.com"),
     ("https://some.host/v1", "some.host"), ("http://some.host:80", "some.host"),
     ("http://some.host:443", "some.host:443")],
)  # fmt: skip
def test_two_servers_on_one_machine_are_two(url, host):
    assert ChatSettings("m", base_url=url).host == host


async def test_several_answers_are_none(server, chat):
    server.say = lambda body, number: Say(body='{"choices": [{"message": {"content": "a"}}, {"message": {}}]}')
    assert "2 answers" in str(await fails(chat()))


async def test_requests_are_spaced_evenly(server, chat):
    times = []

    def say(body, number):
        times.append(time.monotonic())
        return Say(answer())

    server.say = say
    async with chat(per_minute=1200) as client:
        await asyncio.gather(*[client.complete(ASKED, SCHEMA, "pas") for _ in range(5)])
    # Sent no nearer than 50 ms; under load a request may arrive late, and the next one nearer to it.
    assert max(times) - min(times) >= 0.15


async def test_one_told_to_wait_makes_all_wait(server, chat, slept):
    server.script(error(429, "wait", **{"Retry-After": "9"}))
    async with chat(tries=1) as client:
        with pytest.raises(ServerFault):
            await client.complete(ASKED, SCHEMA, "pas")
        assert slept == []
        await client.complete(ASKED, SCHEMA, "pas")
    assert slept == [9]


async def test_plain_words_without_a_schema_and_without_limits(server, chat):
    server.say = lambda body, number: Say("Hello.")
    reply = await complete_plainly(chat(temperature=None, max_tokens=None))
    assert (reply.text, reply.mode, set(server.bodies[0])) == ("Hello.", "text", {"model", "messages"})


def test_settings_that_cannot_be():
    with pytest.raises(InputError):
        ChatSettings("m", concurrency=0)
    with pytest.raises(InputError):
        ChatSettings("m", per_minute=0)


async def test_the_client_closes(server, chat):
    client = chat()
    await complete(client)
    assert client.requests == 1
