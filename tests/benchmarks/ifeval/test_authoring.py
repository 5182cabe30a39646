"""The language-model author against a real chat server on loopback that answers well, or badly as told."""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading

import pytest
import yaml
from aiohttp import web
from chat_loopback import LoopbackModel

from workbench import cli, datasets
from workbench.benchmarks.ifeval import authoring
from workbench.benchmarks.ifeval import cases as au
from workbench.benchmarks.ifeval.check import build
from workbench.benchmarks.ifeval.texts import briefs
from workbench.chat.client import ChatSettings
from workbench.construct import authors
from workbench.construct.authors import ChatAuthor
from workbench.construct.turns import parse
from workbench.contract import BuildOptions
from workbench.errors import InputError, ProblemsFound

KEY = "sk-author-0123456789abcdef"
WORDS = """apple river window morning paper yellow garden letter kitchen winter table station pocket music
corner shadow bottle ladder market silver engine pepper basket island thunder marble feather copper walnut
meadow lantern harbor violin saddle candle bucket orchard pebble ribbon tunnel""".split()


def section(body, title):
    found = re.search(rf"^# {title}[^\n]*\n\n(.*?)(?=\n\n# |\Z)", body["messages"][1]["content"], re.M | re.S)
    return found.group(1)


def good(body, number):
    """A script that fits what was asked for, another one each time."""
    # Seeded by the number of the request, so never the same twice.
    draw = random.Random(number)
    asked = section(body, "The pattern of turn2")
    line = asked.splitlines()[0]
    low, high = map(int, re.search(r"turn2 between (\d+) and (\d+)", asked).groups())
    shape = re.findall(r"TEXT|<[^>]+>", line)
    texts = shape.count("TEXT") or 1
    fixed = {"chunk": 2, "flag": 6, "check": 3}
    spent = sum(fixed.get(re.sub(r"\W.*", "", piece[1:]), 0) for piece in shape)
    each = min(40, ((low + high) // 2 - spent) // texts)

    def words(count):
        return " ".join(draw.choice(WORDS) for _ in range(count))

    said = []
    for piece in shape:
        if piece == "TEXT":
            said.append(words(each))
        elif piece == "<chunk:WORDS>":
            said.append(f"<chunk:{draw.choice(['one', 'two', 'three'])} {draw.choice(['four', 'five', 'six'])}>")
        elif "WORDS" in piece:
            mark = piece[1:].partition(":")[0]
            said.append(f"<{mark}:{words(fixed.get(mark, (low + high) // 2))}>")
        else:
            said.append(piece)
    turn2 = " ".join(said) + ("?" if shape[-1] == "TEXT" else "")
    age = re.search(r"Age band: ([^.]+)\.", section(body, "The caller"))
    who = {"sex": draw.choice(["female", "male"]), "age": age.group(1) if age else "35 to 49"}
    return {"situation": words(8), **who, "turn1": words(20) + ".", "turn2": turn2}


class Server(LoopbackModel):
    """Writes scripts. `say(body, number)` gives a dict (the answer), or a `web.Response` or
    (content, finish, refusal)."""

    def __init__(self):
        super().__init__()
        self.keys, self.say = [], good
        self.hang_after = None
        self.hanging = threading.Event()

    def first(self, *replies):
        """Give these, then good ones."""
        self.say = lambda body, number: replies[number] if number < len(replies) else good(body, number)

    async def _chat(self, request):
        body = await request.json()
        number = len(self.bodies)
        self.bodies.append(body)
        self.keys.append(request.headers.get("Authorization"))
        if self.hang_after is not None and number >= self.hang_after:
            self.hanging.set()
            await self._stop.wait()
        said = self.say(body, number)
        if isinstance(said, web.Response):
            return said
        content, finish, refusal = (json.dumps(said), "stop", None) if isinstance(said, dict) else said
        message = {"role": "assistant", "content": content, "refusal": refusal}
        return web.json_response(
            {
                "id": "1", "object": "chat.completion", "created": 0, "model": "loopback-0613",
                "choices": [{"index": 0, "finish_reason": finish, "message": message}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
            }
        )  # fmt: skip


def failing(status, message="no", **headers):
    return web.Response(
        status=status,
        text=json.dumps({"error": {"message": message}}),
        content_type="application/json",
        headers=headers,
    )


@pytest.fixture
def server():
    with Server() as running:
        yield running


@pytest.fixture
def write(server, tmp_path, monkeypatch):
    """write(limit=1): have scripts written into tmp_path/'new', with waits noted in `write.slept` instead of slept."""
    monkeypatch.setenv("AUTHOR_KEY", KEY)
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    def run(limit=1, concurrency=1, **changes):
        settings = ChatSettings(model="loopback", base_url=server.url, key_env="AUTHOR_KEY", temperature=1.0, **changes)
        author = ChatAuthor(settings, sleep=sleep, clock=lambda: sum(slept))
        return asyncio.run(authoring.write_scripts(tmp_path / "new", author, limit=limit, concurrency=concurrency))

    run.slept, run.out = slept, tmp_path / "new"
    return run


def summary(out):
    return json.loads((out / "author.json").read_text())


def run_cli(monkeypatch, *arguments):
    """Exit code of the command line, in this process."""
    monkeypatch.setattr(sys, "argv", ["workbench", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return left.value.code or 0


# --- a whole set ---


def test_a_whole_set_is_written_that_builds(server, write):
    outcome = write(limit=None, concurrency=16)
    assert (outcome.written, outcome.kept, outcome.problems) == (224, 0, ())
    assert build(BuildOptions(write.out.parent / "dataset", audio=False, scripts=write.out)).cases == 1038
    found = summary(write.out)
    assert found["scripts"] == found["of"] == 224 and found["models"] == ["loopback"]
    assert found["usage"] == {
        "calls": len(server.bodies),
        "prompt_tokens": 100 * len(server.bodies),
        "completion_tokens": 20 * len(server.bodies),
    }
    # Whoever was asked for an age speaks in a script of that age, and the case says so.
    asked = {item["id"]: item["attribute"].partition(": ") for item in found["items"]}
    built = {case.stream: case.tags for case in datasets.load(write.out.parent / "dataset").cases}
    assert all(built[key]["age"] == value for key, (kind, _, value) in asked.items() if kind == "age band")
    assert {tags["sex"] for tags in built.values()} == {"female", "male"}


def test_what_is_asked_holds_place_pattern_person_and_the_scenes_to_avoid(server, write):
    write(limit=45)  # S_C1_i1 first, and after every cell's first instance S_C1_i2
    first, data = server.bodies[0], au.load()
    assert first["response_format"]["json_schema"]["strict"] is True and first["temperature"] == 1.0
    assert section(first, "The pattern of turn2").startswith("TEXT <flag:WORDS> <pause:2.5s> TEXT")
    assert all(data.roles[role].domain in section(first, "The place") for role in ("R1", "R2", "R3"))
    assert data.scripts["S_C1_i1"].situation in section(first, "Be new")
    assert au.attribute_of(data, "S_C1_i1").partition(": ")[2] in section(first, "The caller")
    again = next(body for body in server.bodies[1:] if section(body, "The place") == section(first, "The place")
                 and "pause:2.5s" in section(body, "The pattern of turn2"))  # fmt: skip
    written = yaml.safe_load((write.out / "S_C1_i1.yaml").read_text())["conversations"][0]
    assert written["situation"] in section(again, "Be new") and written["situation"] not in section(first, "Be new")


def test_provenance_of_each_item_and_no_key_anywhere(server, write):
    write(limit=2)
    item = json.loads((write.out / "author" / "S_C1_i1.json").read_text())
    assert (
        item["model"] == "loopback" and item["served"] == "loopback-0613" and server.url == f"http://{item['host']}/v1"
    )
    assert item["parameters"]["temperature"] == 1.0 and re.fullmatch(r"[0-9a-f]{64}", item["prompt_sha256"])
    assert item["usage"] == {"calls": 1, "prompt_tokens": 100, "completion_tokens": 20} and item["date"]
    assert server.keys[0] == f"Bearer {KEY}"
    assert not [path for path in write.out.rglob("*") if path.is_file() and KEY in path.read_text()]


def test_typographic_marks_become_plain(server, write):
    def fancy(body, number):
        answer = good(body, number)
        return answer | {"turn1": "\u201cIt\u2019s  the kitchen\u201d \u2014 again\u2026 " + answer["turn1"]}

    server.say = fancy
    assert write().problems == ()
    turn1 = yaml.safe_load((write.out / "S_C1_i1.yaml").read_text())["conversations"][0]["turn1"]
    assert turn1.startswith('"It\'s the kitchen" -- again... ')


# --- bad answers: shown to the model, asked again, bounded ---


def changed(**changes):
    def say(body, number):
        return good(body, number) | changes

    return say


LONG = " ".join(WORDS[:10])
BAD = {
    "broken JSON": (lambda b, n: ('{"situation": "a", "turn1": oops}', "stop", None), "not valid JSON"),
    "no JSON": (lambda b, n: ("Sure! Here you go.", "stop", None), "holds no JSON object"),
    "missing key": (lambda b, n: {k: v for k, v in good(b, n).items() if k != "turn2"}, "turn2"),
    "refusal": (lambda b, n: (None, "stop", "I cannot help with that."), "declined"),
    "content filter": (lambda b, n: ("", "content_filter", None), "declined"),
    "truncated": (lambda b, n: ('{"situation": "a man', "length", None), "cut off"),
    "wrong marker": (changed(turn2=f"{LONG} <pause:2.0s> {LONG} {LONG}"), "[text, pause:2.0, text]"),
    "no marker": (changed(turn2=f"{LONG} {LONG} {LONG}"), "has the structure [text]"),
    "unknown marker": (changed(turn2=f"{LONG} <sigh:deep> {LONG}"), "'<sigh:deep>' is unknown"),
    "stray bracket": (changed(turn2=f"{LONG} <pause 2.5s {LONG}"), "stray angle bracket"),
    "marker in turn 1": (changed(turn1=f"{LONG} <pause:1.0s> {LONG}"), "turn1 is context"),
    "bad marker in turn 1": (changed(turn1=f"{LONG} <pause> {LONG}"), "stray angle bracket"),
    "digits": (changed(turn1=f"{LONG} since 1998 {LONG}"), "write numbers as words"),
    "too short": (changed(turn1="Hi."), "turn1 has 1 words"),
    "too long": (changed(turn1=" ".join(WORDS * 3)), "turn1 has 120 words"),
    "closed pause": (changed(turn2=f"{LONG} <flag:{LONG}.> <pause:2.5s> {LONG}"), "ends a sentence before the pause"),
    "odd letters": (changed(turn1=f"(sighs) {LONG} \u4f60\u597d {LONG}"), "cannot be said aloud"),
    "speaker's name": (changed(turn1=f"Caller: {LONG} {LONG}"), "speaker's name"),
    "empty": (changed(turn2=""), "no spoken text"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_shown_and_asked_again(server, write, name):
    bad, told = BAD[name]
    server.say = lambda body, number: (bad if number == 0 else good)(body, number)
    outcome = write()
    assert (outcome.written, outcome.problems, len(server.bodies)) == (1, (), 2)
    shown = server.bodies[1]["messages"]
    assert [message["role"] for message in shown] == ["system", "user", "assistant", "user"]
    assert told in shown[3]["content"]
    item = json.loads((write.out / "author" / "S_C1_i1.json").read_text())
    assert len(item["refused"]) == 1 and told in item["refused"][0] and item["usage"]["calls"] == 2


def test_a_copy_of_a_shipped_script_or_of_a_new_one_is_not_accepted(server, write):
    shipped = au.load().scripts["S_C1_i2"].model_dump(exclude={"id"}) | {
        "situation": "somebody else calls about something",
        "age": "50 to 64",
    }
    server.first(shipped)
    assert write().written == 1
    assert "too much like an existing one (the shipped S_C1_i2" in server.bodies[1]["messages"][3]["content"]
    new = yaml.safe_load((write.out / "S_C1_i1.yaml").read_text())["conversations"][0]
    new.pop("id")

    def copies(body, number):
        fits = "TEXT <flag:WORDS> <pause:2.5s> TEXT" in section(body, "The pattern of turn2")
        return new if fits and len(body["messages"]) == 2 else good(body, number)

    server.say = copies
    outcome = write(limit=50)
    assert not outcome.problems
    told = [body["messages"][3]["content"] for body in server.bodies if len(body["messages"]) == 4]
    assert sum("existing one (S_C1_i1" in text for text in told) >= 2


def test_what_never_fits_is_named_with_its_reason_and_the_rest_is_written(server, write, monkeypatch, capsys):
    def stubborn(body, number):
        wrong = "<barge_in:WORDS>" in section(body, "The pattern of turn2")
        return good(body, number) | ({"turn2": "No markers at all in here, I am afraid."} if wrong else {})

    server.say = stubborn
    code = run_cli(monkeypatch, "author", "ifeval", "--out", write.out, "--model", "loopback", "--base-url", server.url,
                   "--limit", "5")  # fmt: skip
    told = capsys.readouterr()
    assert code == 3 and "4 written, 0 kept from before, 1 refused" in told.out.replace("\n", " ")
    assert "R1_C3_i1: not one of 4 tries could be used; the last: turn2 has the structure [text]" in told.err
    assert not (write.out / "R1_C3_i1.yaml").exists() and (write.out / "S_C1_i1.yaml").exists()
    assert server.keys[0] == "Bearer none"  # a local server gets no key by accident


# --- the server's faults ---


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_faults_are_waited_out(server, write, status):
    server.first(failing(status, **{"Retry-After": "7"}), failing(status))
    outcome = write()
    assert (outcome.written, len(server.bodies)) == (1, 3)
    assert write.slept[0] >= 7 and len(write.slept) >= 2


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_or_model_ends_it_at_once(server, write, status):
    server.say = lambda body, number: good(body, number) if number < 2 else failing(status, f"wrong {KEY}")
    with pytest.raises(InputError, match=rf"HTTP {status}.*2 scripts were written; the same command goes on") as told:
        write(limit=9)
    assert len(server.bodies) == 3 and KEY not in str(told.value)
    assert summary(write.out)["scripts"] == 2


def test_a_server_that_keeps_failing_is_left_alone(server, write):
    server.say = lambda body, number: failing(500)
    with pytest.raises(InputError, match="5 requests in a row failed"):
        write(limit=48, tries=2)
    assert len(server.bodies) == 2 * authors.GIVE_UP_AFTER


def test_an_unreachable_server_is_one_sentence(tmp_path):
    async def sleep(seconds): ...

    author = ChatAuthor(ChatSettings(model="m", base_url="http://127.0.0.1:9/v1", tries=2), sleep=sleep)
    with pytest.raises(InputError, match=r"127.0.0.1:9 can't be reached .* 0 scripts were written"):
        asyncio.run(authoring.write_scripts(tmp_path / "new", author))
    assert not (tmp_path / "new").exists()


def test_a_server_without_structured_output_is_asked_without(server, write):
    server.first(failing(400, "response_format json_schema is not supported"))
    assert write(limit=2).written == 2
    assert "response_format" in server.bodies[0] and "response_format" not in server.bodies[2]
    assert json.loads((write.out / "author" / "S_C1_i1.json").read_text())["mode"] == "text"


def test_a_missing_key_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert run_cli(monkeypatch, "author", "ifeval", "--out", tmp_path / "new", "--model", "some-model") == 2
    assert "OPENAI_API_KEY is not set" in capsys.readouterr().err


# --- going on ---


def test_interrupted_it_goes_on_with_only_what_is_missing(server, tmp_path):
    server.hang_after = 4
    out = tmp_path / "new"
    # One at a time: when the fifth request arrives, the first four scripts have landed.
    command = [sys.executable, "-c", "from workbench.cli import main; main()", "author", "ifeval", "--out", str(out),
               "--model", "loopback", "--base-url", server.url, "--limit", "8", "--concurrency", "1"]  # fmt: skip
    child = subprocess.Popen(command, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.hanging.wait(60)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate()
    assert child.returncode == 130 and "Interrupted" in told and "Traceback" not in told
    there = sorted(path.name for path in out.glob("*.yaml"))
    assert len(there) == 4 == summary(out)["scripts"] and not list(out.rglob(".part-*"))
    asked = len(server.bodies)
    server.hang_after = None
    outcome = authoring.author_scripts(out, model="loopback", base_url=server.url, limit=8)
    assert (outcome.written, outcome.kept, len(server.bodies) - asked) == (4, 4, 4)
    outcome = authoring.author_scripts(out, model="loopback", base_url=server.url, limit=8)
    assert (outcome.written, outcome.kept, len(server.bodies) - asked) == (0, 8, 4)


def test_a_script_mended_by_hand_stays_and_a_spoilt_one_is_named(server, write):
    write(limit=3)
    path = write.out / "S_C1_i1.yaml"
    path.write_text(path.read_text().replace("turn1: ", "turn1: Well, "))
    spoilt = write.out / "R1_C2_i1.yaml"
    spoilt.write_text(spoilt.read_text().replace("turn2: ", "turn2: In 1998 "))
    before, asked = spoilt.read_text(), len(server.bodies)
    outcome = write(limit=3)
    assert (outcome.written, outcome.kept, len(server.bodies)) == (0, 2, asked)
    assert len(outcome.problems) == 1 and "R1_C2_i1" in outcome.problems[0] and "1998" in outcome.problems[0]
    assert spoilt.read_text() == before
    assert {item["id"]: item["edited"] for item in summary(write.out)["items"]} == {"S_C1_i1": True, "R1_C3_i1": False}
    spoilt.unlink()
    assert write(limit=3).written == 1


def test_a_folder_with_something_else_is_refused(write, tmp_path):
    write.out.mkdir()
    (write.out / "mine.yaml").write_text("conversations: [{id: R1_C2_i1, situation: a, turn1: b}]")
    with pytest.raises(ProblemsFound, match=r"mine.yaml, conversation R1_C2_i1: field 'turn2'.*written anew"):
        write()
    (write.out / "mine.yaml").write_text("conversations: [{id: R9_X, situation: a, turn1: b, turn2: c}]")
    with pytest.raises(InputError, match="'R9_X', which no conversation of the grid plays"):
        write()
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="is a file, where a folder"):
        authoring.author_scripts(file, model="shipped")


@pytest.mark.parametrize(("limit", "concurrency"), [(0, 1), (1, 0)])
def test_numbers_that_mean_nothing_are_refused(tmp_path, limit, concurrency):
    with pytest.raises(InputError, match="at least 1"):
        authoring.author_scripts(tmp_path / "new", model="shipped", limit=limit, concurrency=concurrency)


# --- the other author, and the prompts ---


def test_the_shipped_author_hands_out_the_shipped_scripts(tmp_path):
    outcome = authoring.author_scripts(tmp_path / "new", model="shipped")
    assert (outcome.written, outcome.problems) == (224, ())
    assert authoring.author_scripts(tmp_path / "new", model="shipped").kept == 224

    def plain(scripts):
        return {
            key: [" ".join(text.split()) for text in script.model_dump().values()] for key, script in scripts.items()
        }

    assert plain(au.load(scripts=tmp_path / "new").scripts) == plain(au.load().scripts)


def test_the_shipped_scripts_keep_the_bounds_set_for_new_ones(tmp_path):
    desk = authoring.Desk(tmp_path / "none")
    data = au.load()
    faults = {
        task.id: desk.faults(task, authoring.Conversation(**data.scripts[task.id].model_dump(exclude={"id"})))
        for task in authoring._tasks(None)
    }
    assert {key: found for key, found in faults.items() if found} == {}


def test_every_prompt_can_be_made_and_its_pattern_is_the_probes(tmp_path):
    desk, data = authoring.Desk(tmp_path / "none"), au.load()
    assert set(briefs().probes) == set(data.probes)
    for task in authoring._tasks(None):
        sent = desk.request(task).messages
        assert "$" not in sent[0]["content"] + sent[1]["content"]
        probe = data.probes[desk.streams[task.id][1]]
        line = section({"messages": list(sent)}, "The pattern of turn2").splitlines()[0]
        actions = au.actions_of(data, task.id)
        spoken = re.sub(r"TEXT", "some words", line).replace("WORDS", "four words of speech")
        assert tuple(au.shape_of(parse(spoken))) == probe.shape_for(actions)
