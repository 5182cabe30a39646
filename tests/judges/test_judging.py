"""A whole run judged over real HTTP: every misbehaviour, the cache, resuming, the record, the key."""

import asyncio
import json
import os

import numpy as np
import pytest
from chat_loopback import KEY, Say, answer, error, is_conflict, sound
from judge_runs import AGENT, make_case, make_record, make_run, write_record

from workbench import episodes
from workbench.audio import to_pcm16
from workbench.benchmarks.ifeval.judging import JUDGE
from workbench.episodes import Delivery, Piece
from workbench.errors import InputError
from workbench.judges.ask import OfflineJudge
from workbench.judges.batch import Tally, judge_run
from workbench.judges.records import LINES, Log, load_latest, load_record, table
from workbench.judges.summary import summarise


async def judged(run, backend, **options):
    return await judge_run(run, JUDGE, backend, **options)


def bad(content, **changes):
    return lambda body: Say(content, **changes)


MISBEHAVIOURS = {
    "fraction": (bad('{"reason": "r", "role_score": "4/5"}'), "bad_value"),
    "small decimal": (bad('{"reason": "r", "role_score": 0.8}'), "bad_value"),
    "off the scale": (bad('{"reason": "r", "role_score": 185}'), "bad_value"),
    "NaN": (bad('{"reason": "r", "role_score": NaN}'), "bad_value"),
    "missing key": (bad('{"reason": "r"}'), "missing_key"),
    "wrong label": (lambda body: Say(answer(70, "persona wins")), "bad_value"),
    "truncated": (bad('{"reason": "r", "role_sc', finish="length"), "truncated"),
    "whole but cut by the limit": (lambda body: Say(answer(70, "hedged"), finish="length"), "truncated"),
    "empty": (bad(""), "empty"),
    "null": (bad(None), "empty"),
    "no choices": (lambda body: Say("x", choices=False), "empty"),
    "refusal": (bad(None, refusal="I can't judge this."), "refusal"),
    "refusal in words": (bad("I'm sorry, I can't help with that."), "no_json"),
    "filtered": (bad("", finish="content_filter"), "refusal"),
    "two answers": (lambda body: Say(answer(10, "hedged") + answer(90, "hedged")), "ambiguous"),
}

REPAIRED = {
    "fence": lambda text: f"```json\n{text}\n```",
    "prose": lambda text: f"Here is my answer: {text} That's all.",
    "trailing comma": lambda text: text[:-1] + ",}",
    "single quotes": lambda text: text.replace('"', "'"),
    "a fence inside a string": lambda text: text.replace("plain", "```json plain```"),
    "reasoning": lambda text: f"<think>Hm.</think>{text}",
    "a numeral in quotes": lambda text: text.replace("80", '"80"'),
}


@pytest.fixture
def single(tmp_path):
    return make_run(tmp_path / "one", [make_case(level="L4a")], ["Okay, go on."])


@pytest.mark.parametrize("name", MISBEHAVIOURS)
async def test_what_cannot_be_read_is_an_error_with_its_text(single, server, model, name):
    make, kind = MISBEHAVIOURS[name]
    server.say = lambda body, number: make(body)
    result = await judged(single, model(answer_tries=2))
    line = load_latest(result.folder)["R1_C1_i1_L4a", ""]
    assert (line.status, line.reason, line.values) == ("error", kind, {})
    assert len(line.attempts) == 2 == len(server.bodies)
    said = make(server.bodies[0])
    assert line.raw == (said.refusal or (said.content if said.choices else "") or "")
    assert "could not be read" in server.bodies[1]["messages"][-1]["content"]
    summary = summarise(single, result.folder)
    assert not summary.valid and summary.problems[0].startswith("INVALID")
    assert (
        summary.tables["pas"].iloc[0]["n"] == 0
        and summary.tables["pas"].iloc[0]["mean"] is None
        and summary.tables["pas"].iloc[0]["errors"] == 1
    )


@pytest.mark.parametrize("name", REPAIRED)
async def test_what_is_surely_meant_is_read(single, server, model, name):
    server.say = lambda body, number: Say(REPAIRED[name](answer(80, "hedged")))
    line = load_latest((await judged(single, model())).folder)["R1_C1_i1_L4a", ""]
    assert line.values == {"pas": 80.0, "conflict": "hedged"} and len(server.bodies) == 1


async def test_a_second_answer_may_be_read(single, server, model):
    server.script(Say("I think it is fine."))
    line = load_latest((await judged(single, model())).folder)["R1_C1_i1_L4a", ""]
    assert line.status == "ok" and [attempt.kind for attempt in line.attempts] == ["no_json"]
    assert line.usage.calls == 2 and line.usage.prompt_tokens == 2000


async def test_a_rerun_calls_nothing(run, server, model):
    first = await judged(run, model())
    assert first.requests == len(server.bodies) == 16 and first.tally.judged == 16
    before = table(first.folder)
    size = (first.folder / LINES).stat().st_size
    second = await judged(run, model())
    assert second.requests == 0 and len(server.bodies) == 16 and second.tally.cached == 16
    assert table(second.folder).equals(before) and (first.folder / LINES).stat().st_size == size


async def test_only_changed_words_are_asked_again(run, server, model):
    await judged(run, model())
    case = run.cases["R1_C1_i1_L2"]
    write_record(run, case, "Something else.")
    result = await judged(run, model())
    assert len(server.bodies) == 17
    assert load_latest(result.folder)[case.id, ""].shown["transcript"] == "Something else."


async def test_other_parameters_are_another_judge(run, server, model):
    first, second = await judged(run, model()), await judged(run, model(temperature=0.5))
    assert first.folder != second.folder and len(server.bodies) == 32
    third = await judged(run, model(concurrency=1, tries=2))
    assert third.folder == first.folder and len(server.bodies) == 32


async def test_errors_are_asked_again_unless_kept(run, server, model):
    server.say = lambda body, number: Say("no")
    first = await judged(run, model(answer_tries=1))
    assert first.tally.errors == 16
    kept = await judged(run, model(answer_tries=1), keep_errors=True)
    assert kept.requests == 0
    server.say = sound
    again = await judged(run, model(answer_tries=1))
    assert again.requests == 16 and again.tally.errors == 0 and summarise(run, again.folder).valid


async def test_a_shared_folder_serves_other_runs(run, tmp_path, server, model):
    shared = tmp_path / "shared"
    await judged(run, model(), shared=shared)
    twin = make_run(tmp_path / "twin")
    result = await judged(twin, model(), shared=shared)
    assert result.requests == 0 and len(load_latest(result.folder)) == 16
    assert summarise(twin, result.folder).tables["pas"].iloc[0]["n"] == 16


async def test_five_per_cent(tmp_path, server, model):
    cases = [make_case(instance=number, level="L1") for number in range(40)]
    run = make_run(tmp_path / "many", cases, [f"word {number}" for number in range(40)])
    wrong = {"word 0", "word 1"}

    def say(body, number):
        said = body["messages"][1]["content"]
        return Say("no") if any(f'"{text}"' in said for text in wrong) else sound(body, number)

    server.say = say
    result = await judged(run, model(answer_tries=1))
    assert summarise(run, result.folder).valid, "2 of 40 is 5 %, which is allowed"
    wrong.add("word x")
    write_record(run, cases[3], "word x")
    summary = summarise(run, (await judged(run, model(answer_tries=1))).folder)
    assert not summary.valid and "3 of 40" in summary.problems[0]


async def test_requests_run_at_once_but_not_more(run, server, model):
    async def reply(request, say, body, inner=server._reply):
        while server.most_open < 3:  # nobody is answered before three have come
            await asyncio.sleep(0.005)
        return await inner(request, say, body)

    server._reply = reply
    await judged(run, model(concurrency=3))
    assert server.most_open == 3


async def test_cancelled_and_resumed(run, server, model):
    server.say = lambda body, number: sound(body, number) if number < 5 else Say(hang=True)
    task = asyncio.ensure_future(judged(run, model(concurrency=2)))
    while len(server.bodies) < 7:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (folder,) = run.judgements.iterdir()
    assert len(load_latest(folder)) == 5
    record = load_record(folder)
    assert (record.sessions[0].complete, record.sessions[0].judged) == (False, 5)
    server.say = sound
    result = await judged(run, model())
    assert result.requests == 11 and result.tally.cached == 5 and len(load_latest(folder)) == 16
    assert [session.complete for session in load_record(folder).sessions] == [False, True]


async def test_killed_in_the_middle_of_a_line(run, server, model):
    result = await judged(run, model())
    path = result.folder / LINES
    content = path.read_bytes()
    path.write_bytes(content[:-40])
    again = await judged(run, model())
    assert again.requests == 1 and len(load_latest(again.folder)) == 16
    assert len(path.read_bytes().splitlines()) == 16
    path.write_bytes(b'{"half": \n' + path.read_bytes())
    with pytest.raises(InputError, match="line 1"):
        await judged(run, model())


async def test_two_at_once_are_refused(run, server, model):
    result = await judged(run, model())
    with Log(result.folder), pytest.raises(InputError, match="is being written by process"):
        await judged(run, model())


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refused_key_stops_at_once(run, server, model, slept, status):
    server.say = lambda body, number: sound(body, number) if number < 3 else error(status, "no")
    with pytest.raises(InputError, match=f"HTTP {status}"):
        await judged(run, model(concurrency=1))
    assert len(server.bodies) == 4 and slept == []
    (folder,) = run.judgements.iterdir()
    assert len(load_latest(folder)) == 3, "what was judged is kept, and no error is invented"


async def test_a_server_that_dies_stops_the_batch(run, server, model):
    server.say = lambda body, number: Say(drop=True)
    with pytest.raises(InputError, match="10 requests in a row"):
        await judged(run, model(tries=1))


async def test_nobody_there_is_found_before_the_batch(run, model, slept):
    with pytest.raises(InputError, match=r"127\.0\.0\.1:9 can't be reached.*start the server"):
        await judged(run, model(base_url="http://127.0.0.1:9/v1"))
    (folder,) = run.judgements.iterdir()
    assert slept == [] and load_latest(folder) == {}, "no request was tried again, and no error is invented"


async def test_a_verdict_before_its_reason_is_counted(run, server, model):
    """A server that sorts keys: conflict, reason, role_score."""

    def say(body, number):
        return Say(json.dumps(json.loads(sound(body, number).content), sort_keys=True))

    server.say = say
    result = await judged(run, model())
    latest = load_latest(result.folder)
    assert {line.verdict_first for line in latest.values() if "conflict" in line.raw} == {True}
    summary = summarise(run, result.folder)
    assert summary.verdicts_first == 8 and any("8 of 16 verdicts" in problem for problem in summary.problems)
    assert table(result.folder).verdict_first.sum() == 8


async def test_a_case_refused_by_the_server_is_an_error_of_that_case(run, server, model, slept):
    def say(body, number):
        return error(400, "too long") if "That is 3." in body["messages"][1]["content"] else sound(body, number)

    server.say = say
    result = await judged(run, model())
    assert (result.tally.errors, len(server.bodies), slept) == (1, 16, [])


async def test_cases_without_words_to_judge(tmp_path, server, model):
    cases = [make_case(instance=number) for number in range(4)]
    run = make_run(tmp_path / "odd", cases[:3], ["Hello.", None, ""])
    write_record(run, cases[0], "Hello.", error="the socket closed")
    result = await judged(run, model())
    latest = load_latest(result.folder)
    assert latest[cases[0].id, ""].reason == "episode_error"
    assert latest[cases[1].id, ""].reason == "no_transcript"
    assert latest[cases[2].id, ""].status == "ok" and len(server.bodies) == 1
    assert "(the assistant produced no speech)" in server.bodies[0]["messages"][1]["content"]
    row = summarise(run, result.folder).tables["pas"].iloc[0]
    assert (row["n"], row["not_judgeable"], row["errors"]) == (1, 2, 0)
    write_record(run, cases[1], "Now there is text.")
    assert (await judged(run, model())).requests == 1


async def test_the_record_says_who_judged_how(run, server, model):
    tally = Tally(price_in=2.0, price_out=10.0)
    result = await judged(run, model(seed=3, extra={"top_p": 1}), tally=tally)
    record = json.loads((result.folder / "judge.json").read_text())
    assert (record["kind"], record["model"], record["host"]) == ("llm", "loopback-1", server.url.split("/")[2])
    assert record["parameters"] == {"temperature": 0.0, "seed": 3, "max_tokens": 1200, "schema": True,
                                    "extra": {"top_p": 1}}  # fmt: skip
    assert len(record["prompt_sha256"]) == 64 and "Register" in record["prompt"]["system.md"]
    (session,) = record["sessions"]
    assert session["fingerprints"] == ["fp_loopback"] and session["models"] == ["loopback-1-0613"]
    assert session["prompt_tokens"] == 16_000 and session["requests"] == 16
    assert session["money"] == pytest.approx((16_000 * 2 + 800 * 10) / 1e6)
    assert session["started"].endswith("+00:00") and session["modes"] == ["json_schema"]


def with_audio(run, case, level):
    """A recording of `case` in which the agent's channel holds a tone of `level` from 4 s to 6 s."""
    record = run.record(case.id)
    at = np.arange(round(record.duration_s * 24_000))
    agent = level * np.sin(at / 20) * ((at >= 96_000) & (at < 144_000))
    episodes.save(run.episodes, record, to_pcm16(np.stack([0 * agent, agent], axis=1)))


@pytest.mark.parametrize(("level", "words"), [(0.0, False), (0.0001, False), (0.0032, True), (0.5, True)])
async def test_a_mute_agent_has_said_nothing(tmp_path, level, words):
    """Zeros with a transcript are silence; speech at -50 dBFS is speech."""
    run = make_run(tmp_path / "run", [make_case()], ["Okay, when did it start?"])
    with_audio(run, run.cases["R1_C1_i1_L2"], level)
    line = load_latest((await judged(run, OfflineJudge())).folder)["R1_C1_i1_L2", ""]
    assert ("when did it start" in line.shown["transcript"]) is words
    assert line.values["pas"] != 30 if words else line.values["pas"] == 30


def test_words_sound_where_their_utterance_was_placed():
    record = make_record(make_case(), "").model_copy(
        update={
            "transcript": tuple(Piece(t_s=0.0, text=name, item=name) for name in ("one", "two", "cut", "free", "")),
            "deliveries": (
                Delivery(t_s=0.0, item="one", samples=24_000, placed=0, played=24_000),
                Delivery(t_s=1.0, item="two", samples=24_000, placed=48_000, played=24_000),
                Delivery(t_s=1.0, item="cut", samples=24_000, placed=None, played=0),
            ),
        }
    )
    sound = np.array([[2.5, 2.6]])
    assert [piece.text for piece in episodes.sounded(record, sound).transcript] == ["two", "free", ""]
    assert episodes.sounded(record, np.empty((0, 2))).text == ""
    assert episodes.sounded(make_record(make_case(), None), sound).text is None


async def test_unknown_costs_are_not_zero(run, server, model):
    server.say = lambda body, number: Say(answer(50, "hedged" if is_conflict(body) else None), usage=False)
    tally = Tally(price_in=2.0, price_out=10.0)
    await judged(run, model(), tally=tally)
    assert tally.money is None and tally.without_usage == 16


async def test_no_key_and_no_system_name_reach_file_or_judge(run, server, model, caplog):
    caplog.set_level("DEBUG")
    server.script(Say(f"{KEY} is your key"), error(400, f"bad key {KEY}"))
    result = await judged(run, model())
    for folder, _, names in os.walk(run.folder):
        for name in names:
            with open(os.path.join(folder, name), "rb") as stream:
                assert KEY.encode() not in stream.read(), name
    assert KEY not in caplog.text
    assert not any(AGENT in json.dumps(body) for body in server.bodies)
    assert str(server.url) not in (result.folder / "judge.json").read_text()


async def test_changed_fingerprints_are_reported(run, server, model):
    def say(body, number):
        said = sound(body, number)
        said.fingerprint = f"fp_{number % 2}"
        return said

    server.say = say
    summary = summarise(run, (await judged(run, model())).folder)
    assert any("2 system fingerprints" in problem for problem in summary.problems)


async def test_the_offline_judge_is_named_as_what_it_is(run):
    result = await judged(run, OfflineJudge())
    record = load_record(result.folder)
    assert record.kind == "offline" and "no language model" in record.spoke
    assert "not a language model" in record.rules and "weights" in record.rules
    again = await judged(run, OfflineJudge())
    assert again.tally.cached == 16


async def test_nothing_recorded(run):
    for path in run.episodes.iterdir():
        path.unlink()
    with pytest.raises(InputError, match="nothing to judge"):
        await judged(run, OfflineJudge())
    assert not run.judgements.exists()


def test_a_record_that_cannot_be_read_is_not_judgeable_and_the_rest_is_judged(tmp_path):
    run = make_run(tmp_path / "run")
    first, second, *_ = run.recorded()
    path = run.episodes / f"{first}.rec.json"
    path.write_text(path.read_text().replace('"duration_s":12.345', '"duration_s":NaN'))
    (run.episodes / f"{second}.rec.json").write_text("{")
    result = asyncio.run(judged(run, OfflineJudge()))
    assert (result.tally.judged, result.tally.not_judgeable) == (14, 2)
    lines = load_latest(result.folder)
    assert lines[first, ""].reason == lines[second, ""].reason == "bad_record"
    assert "field 'duration_s'" in lines[first, ""].message
    assert not summarise(run, result.folder).problems
