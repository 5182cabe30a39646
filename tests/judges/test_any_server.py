"""Servers that say anything at any speed: every case ends as a verdict or an error, and nothing is raised."""

import asyncio
import json
import tempfile
from pathlib import Path

from chat_loopback import LoopbackModel, Say, answer
from hypothesis import given, settings
from hypothesis import strategies as st
from judge_runs import make_case, make_run

from workbench.benchmarks.ifeval.judging import JUDGE
from workbench.chat.client import ChatSettings
from workbench.errors import InputError
from workbench.judges.ask import ModelJudge
from workbench.judges.batch import judge_run
from workbench.judges.records import load_latest, table
from workbench.judges.summary import summarise

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
GOOD = answer(80, "hedged")
CONTENT = JSON | st.just(GOOD) | st.text(max_size=60) | st.text(max_size=10).map(lambda beside: GOOD + beside)
MESSAGE = st.fixed_dictionaries({"content": CONTENT}, optional={"refusal": JSON, "tool_calls": JSON})
CHOICE = st.fixed_dictionaries({"message": MESSAGE}, optional={"finish_reason": JSON | st.just("stop")})
COMPLETION = st.fixed_dictionaries(
    {"choices": st.lists(CHOICE, max_size=2) | JSON},
    optional={"usage": JSON, "model": JSON, "system_fingerprint": JSON},
)
BODY = COMPLETION.map(json.dumps) | JSON.map(json.dumps) | st.text(max_size=40)
SPEED = st.sampled_from((None, None, 0.0, 0.02, 0.1))
SAY = st.one_of(
    st.builds(Say, body=BODY, status=st.sampled_from((200, 200, 200, 400, 422, 500)), trickle_s=SPEED),
    st.builds(Say, content=st.text(max_size=60) | st.just(GOOD)),
    st.just(Say(drop=True)),
    st.just(Say(hang=True)),
)


async def no_sleep(seconds):
    await asyncio.sleep(0)


@settings(max_examples=25, deadline=None)
@given(st.lists(SAY, min_size=1, max_size=4))
def test_every_case_is_a_verdict_or_an_error(replies):
    with tempfile.TemporaryDirectory() as folder, LoopbackModel() as server:
        server.script(*replies, then=lambda body, number: replies[number % len(replies)])
        cases = [make_case(instance=number, level="L4a") for number in range(2)]
        run = make_run(Path(folder) / "run", cases, ["Okay.", "Go on."])
        asked = ChatSettings("loopback-1", server.url, timeout_s=0.15, tries=2, answer_tries=2, concurrency=2)
        try:
            result = asyncio.run(judge_run(run, JUDGE, ModelJudge(asked, sleep=no_sleep)))
        except InputError as error:  # the batch gave up, in words
            assert str(error).endswith(".")
            return
        lines = load_latest(result.folder)
        assert len(lines) == len(cases) == len(table(result.folder))
        for line in lines.values():
            good = line.status == "ok" and 0 <= line.values["pas"] <= 100 and line.values["conflict"] in JUDGE.labels
            assert good or (line.status == "error" and line.reason and line.message and not line.values)
        assert summarise(run, result.folder).asked == len(cases)
