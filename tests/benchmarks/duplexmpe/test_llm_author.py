"""The three steps of a pair against a real chat server on loopback that writes well, or badly as told."""

import asyncio
import json
import random
import re
import threading

import pytest
from aiohttp import web

from workbench import datasets
from workbench.benchmarks.duplexmpe import cases as au
from workbench.benchmarks.duplexmpe import check
from workbench.benchmarks.duplexmpe.authoring import as_draft, author_scripts
from workbench.contract import BuildOptions
from workbench.errors import InputError

WORDS = """apple river window morning paper yellow garden letter kitchen winter table station pocket music
corner shadow bottle ladder market silver engine pepper basket island thunder marble feather copper walnut
meadow lantern harbor violin saddle candle bucket orchard pebble ribbon tunnel""".split()
PEOPLE = {
    "Ann": {"sex": "female", "age": "25 to 34"}, "Bob": {"sex": "male", "age": "65 and over"},
    "Cleo": {"sex": "female", "age": "under 18"}, "Dov": {"sex": "male", "age": "35 to 49"},
}  # fmt: skip
NAMES = tuple(PEOPLE)


class Server:
    """Writes conversations of random words that keep every rule. `mislabel(number)` spoils a labelling."""

    def __init__(self):
        self.bodies, self.written, self.spoil = [], {}, lambda kind, number: False
        self.counts = {"draft": 0, "pair": 0, "label": 0}
        self.broken_after = None

    def __enter__(self):
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(ready)), daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *exc):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _main(self, ready):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _chat(self, request):
        body = await request.json()
        self.bodies.append(body)
        if self.broken_after is not None and len(self.bodies) > self.broken_after:
            return web.json_response({"error": {"message": "no such key"}}, status=401)
        system, asked = body["messages"][0]["content"], body["messages"][1]["content"]
        kind = "draft" if "You write short" in system else "pair" if "second version" in system else "label"
        self.counts[kind] += 1
        said = getattr(self, kind)(asked, self.spoil(kind, self.counts[kind]))
        message = {"role": "assistant", "content": json.dumps(said)}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return web.json_response({"id": "1", "object": "chat.completion", "created": 0, "model": "loop-1",
                                  "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                                  "usage": usage})  # fmt: skip

    def draft(self, asked, spoilt):
        draw = random.Random(len(self.bodies))
        speakers = int(re.search(r"- (\d) people", asked).group(1))
        place, count = re.search(r"as turn number (\d+)(?: or \d+)? of (\d+)", asked).groups()
        target, count = int(place) - 1, int(count)
        labels = ["N2"] * count
        labels[target] = "T"
        free = [i for i in range(1, count - 1) if not {i, i + 1} & {target - 1, target, target + 1}]
        at = free[-1]
        labels[at], labels[at + 1] = "N4_Q", "N4_R"
        rest = [i for i, label in enumerate(labels) if label == "N2"]
        labels[rest[0]], labels[rest[1]] = "N1", "N3"
        turns = []
        for index, label in enumerate(labels):
            text = " ".join(draw.choice(WORDS) for _ in range(195 // count))
            text = f"Aria, {text}" if label in ("T", "N4_Q") and not spoilt else text
            text = f"{text} and Aria too" if label == "N1" else text
            turns.append({"speaker": NAMES[index % speakers], "label": label, "text": text})
        self.written[turns[0]["text"]] = turns
        people = [{"name": name, **PEOPLE[name]} for name in NAMES[:speakers]]
        return {"speakers": people, "turns": turns, "gold": "It is seven.", "accept": ["seven", "7"]}

    def find(self, asked):
        return next(turns for text, turns in self.written.items() if text in asked)

    def pair(self, asked, spoilt):
        turns = self.find(asked)
        target = next(turn["text"] for turn in turns if turn["label"] == "T")
        return {
            "implicit": ("Well then, Aria, " if spoilt else "Kind speaker, ") + target.removeprefix("Aria, "),
            "before": "",
        }

    def label(self, asked, spoilt):
        labels = [turn["label"] for turn in self.find(asked)]
        return {"labels": ["N2" if label == "N3" and spoilt else label for label in labels]}


@pytest.fixture
def server():
    with Server() as running:
        yield running


def write(server, out, **more):
    return author_scripts(out, model="loop", base_url=server.url, concurrency=2, **more)


def test_a_set_is_written_labelled_twice_and_builds(server, tmp_path):
    outcome = write(server, tmp_path / "a", limit=8, seed=1)
    assert (outcome.written, outcome.problems) == (8, ())
    assert server.counts == {"draft": 8, "pair": 8, "label": 16}
    blind = [b["messages"][1]["content"] for b in server.bodies if "You label" in b["messages"][0]["content"]]
    assert not any(re.search(r"\b(N1|N4_Q)\b", text) for text in blind), "the second pass is not told the labels"
    check.build(BuildOptions(tmp_path / "set", audio=False, scripts=tmp_path / "a"))
    cases = datasets.load(tmp_path / "set").cases
    assert {(c.tags["bucket"], c.tags["speakers"]) for c in cases} == {(b, s) for b in (1, 2, 3, 4) for s in (3, 4)}
    people = au.load(tmp_path / "a").scenarios["s0001"].people
    assert people["Bob"] == ("male", "65 and over") and set(people) <= set(NAMES), "voices are chosen by who speaks"
    about = json.loads((tmp_path / "a" / "author" / "s0001.json").read_text())
    assert about["model"] == "loop" and set(about["steps"]) == {"draft", "pair", "explicit.labels", "implicit.labels"}
    again = write(server, tmp_path / "a", limit=8, seed=1)
    assert (again.written, again.kept) == (0, 8) and sum(server.counts.values()) == 32


def test_a_pair_whose_labels_the_second_pass_disagrees_with_is_rejected_and_written_anew(server, tmp_path):
    server.spoil = lambda kind, number: kind == "label" and number == 1
    outcome = write(server, tmp_path / "a", limit=2)
    assert (outcome.written, outcome.problems) == (2, ()) and server.counts["draft"] == 3
    rejected = [json.loads(path.read_text()) for path in (tmp_path / "a" / "author" / "work").glob("*.rejected.json")]
    assert len(rejected) == 1 and "is N3 and was read as N2" in rejected[0][0]["why"]


def test_what_never_agrees_is_given_up_by_name(server, tmp_path):
    server.spoil = lambda kind, number: kind == "label"
    outcome = write(server, tmp_path / "a", limit=1)
    assert outcome.written == 0 and outcome.problems[0].startswith("s0001: rejected")
    assert server.counts["draft"] == 3 and not list((tmp_path / "a").glob("*.yaml"))


def test_a_broken_rule_is_shown_to_the_model_again(server, tmp_path):
    server.spoil = lambda kind, number: kind in ("draft", "pair") and number == 1
    assert write(server, tmp_path / "a", limit=1).written == 1
    shown = [body["messages"][-1]["content"] for body in server.bodies if len(body["messages"]) > 2]
    assert any("does not name Aria" in text for text in shown) and any(
        "implicit T names Aria" in text for text in shown
    )


def test_a_server_that_gives_out_keeps_every_finished_step(server, tmp_path):
    server.broken_after = 5
    with pytest.raises(InputError, match="the same command goes on"):
        write(server, tmp_path / "a", limit=4)
    server.broken_after = None
    assert write(server, tmp_path / "a", limit=4).written == 4
    assert server.counts == {"draft": 4, "pair": 4, "label": 8}, "no step was done twice"


def test_a_copy_of_the_example_is_not_accepted(server, tmp_path):
    shipped = next(s for s in au.load().scenarios.values() if (s.bucket, len(s.speakers)) == (2, 3))
    real = server.draft

    def copied(asked, spoilt):
        if server.counts["draft"] == 1:
            return as_draft(shipped).model_dump(mode="json")
        return real(asked, spoilt)

    server.draft = copied
    assert write(server, tmp_path / "a", limit=1).written == 1
    assert any("too much like" in b["messages"][-1]["content"] for b in server.bodies)
