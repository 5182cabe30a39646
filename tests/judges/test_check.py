"""judge-check: a sound judge passes, and each kind of bad judge is found out by its probe."""

import json
import random
import re

import pandas as pd
import pytest
from chat_loopback import Say, answer, is_conflict
from judge_runs import make_case, make_run

from workbench.benchmarks.ifeval.judging import JUDGE
from workbench.errors import InputError
from workbench.judges.ask import OfflineJudge
from workbench.judges.check import attacks, check_judge, fillers, find, opposes


def quoted(body, number=-1):
    """The words under judgement, as the judge sees them."""
    found = re.findall(r"# What the assistant said\n\n\[\[QUOTE \w+\]\]\n([^\n]*)", body["messages"][1]["content"])
    return json.loads(found[0])


def fair(body):
    """Scores by what is said of the user's matter; blind to padding, order and pleading."""
    said = quoted(body)
    right = "triage" if "ER triage nurse" in body["messages"][1]["content"] else "lamp"
    score = 20
    if ("chest" in said and right == "triage") or ("beside" in said and right == "lamp"):
        score = 85
    return score


def conflict(body, label="hedged"):
    return label if is_conflict(body) else None


@pytest.fixture
def check(run, server, model):
    async def work(say, **options):
        server.say = lambda body, number: Say(answer(*say(body, number)))
        options = {"cases": 8, "injections": 4} | options
        return await check_judge(run, JUDGE, model(), **options)

    return work


def holds(check, probe, metric="mean difference from base"):
    rows = check.findings[(check.findings.probe == probe) & (check.findings.metric == metric)]
    assert len(rows) == 1, check.findings
    return rows.iloc[0]["holds"]


async def test_a_fair_judge_passes_everything(check):
    done = await check(lambda body, number: (fair(body), conflict(body)))
    assert done.findings.holds.all(), done.findings
    kinds = ["repeat", "position", "verbosity", "control: empty", "control: other-case", "control: persona"]
    assert set(kinds) <= set(done.findings.probe)
    assert done.rows[done.rows.probe == "control"].variant.nunique() == 3


async def test_the_same_check_again_asks_nothing(check, server):
    first = await check(lambda body, number: (fair(body), conflict(body)))
    asked = len(server.bodies)
    again = await check(lambda body, number: (fair(body), conflict(body)))
    assert len(server.bodies) == asked and again.tally.cached == again.tally.total
    assert again.findings.equals(first.findings)
    # The base answers are not served in place of the repeats.
    assert first.rows[first.rows.probe == "repeat"].shape[0] == 16


async def test_an_erratic_judge(check):
    draw = random.Random(1)
    done = await check(lambda body, number: (draw.randrange(101), conflict(body, draw.choice(JUDGE.labels))))
    assert not holds(done, "repeat", "mean absolute difference")
    assert not holds(done, "repeat", "label kept")


async def test_a_judge_that_minds_the_order(check):
    def say(body, number):
        user = body["messages"][1]["content"]
        first = user.index("# The role") < user.index("# The character")
        return fair(body) - (0 if first else 15), conflict(body)

    done = await check(say)
    assert not holds(done, "position") and holds(done, "repeat")


async def test_a_judge_that_picks_the_first_label(check):
    def say(body, number):
        first = re.search(r"- `([a-z-]+)`:", body["messages"][0]["content"])
        return fair(body), conflict(body, first.group(1) if first else None)

    done = await check(say)
    assert not holds(done, "position", "label kept")


async def test_a_judge_that_likes_many_words(check):
    done = await check(lambda body, number: (min(100, len(quoted(body).split())), conflict(body)))
    assert not holds(done, "verbosity")


async def test_a_judge_that_can_be_talked_to(check):
    texts = [attack["text"] for attack in attacks() if attack["aim"] == "up"]
    done = await check(
        lambda body, number: (100 if any(text in quoted(body) for text in texts) else 60, conflict(body)), injections=20
    )
    assert not holds(done, "injection (upward)")
    assert holds(done, "injection (downward)")


async def test_a_judge_that_is_not_reading(check):
    done = await check(lambda body, number: (70, conflict(body)))
    for control in ("empty", "other-case", "persona"):
        assert not holds(done, f"control: {control}")


@pytest.mark.parametrize(
    ("reason", "label", "labels", "found"),
    [
        ("Twelve is what was asked for, so the answer is correct.", "incorrect", ("correct", "incorrect"), True),
        ("Twelve is what was asked for, so the answer is not correct.", "correct", ("correct", "incorrect"), True),
        ("It isn't incorrect.", "incorrect", ("correct", "incorrect"), True),
        ("The answer is not correct.", "incorrect", ("correct", "incorrect"), False),
        (
            "One might call it correct. Eleven was said, so it is incorrect.",
            "incorrect",
            ("correct", "incorrect"),
            False,
        ),
        ("It is correct in part, but incorrect on the whole.", "incorrect", ("correct", "incorrect"), False),
        ("It stays silent as told, so the directive wins.", "persona-wins", JUDGE.labels, True),
        ("It stays silent as told: directive-wins.", "directive-wins", JUDGE.labels, False),
        ("It breaks in twice.", "directive-wins", JUDGE.labels, False),
        ("", "hedged", JUDGE.labels, False),
    ],
)
def test_a_reason_against_its_label(reason, label, labels, found):
    assert opposes(reason, label, labels) is found


async def test_a_judge_whose_reasons_say_otherwise(run, server, model):
    def say(body, number):
        return Say(answer(fair(body), conflict(body), reason="It breaks in. So the persona wins."))

    server.say = say
    done = await check_judge(run, JUDGE, model(), cases=4, repeats=1, injections=0)
    assert not holds(done, "reason", "ends in another label")
    assert set(pd.read_csv(done.folder / "opposed.csv").label) == {"hedged"}


async def test_errors_are_counted_and_left_out(run, server, model):
    def say(body, number):
        if fillers()[0] in quoted(body):
            return Say("no")
        return Say(answer(fair(body), conflict(body)))

    server.say = say
    done = await check_judge(run, JUDGE, model(answer_tries=1), cases=4, injections=0)
    row = done.findings[done.findings.probe == "verbosity"].iloc[0]
    assert (row.n, row.errors) == (0, 4) and pd.isna(row["value"]) and row.holds is None


async def test_base_judgements_are_shared_with_judging(run, server, model):
    from workbench.judges.batch import judge_run

    await judge_run(run, JUDGE, model())
    asked = len(server.bodies)
    await check_judge(run, JUDGE, model(), cases=4, repeats=1, injections=0)
    assert len(server.bodies) == asked + 4 * 5


async def test_a_reference_answer_must_hold_up(tmp_path, server, model):
    cases = [make_case(instance=number, reference_answer="A model answer.") for number in range(3)]
    run = make_run(tmp_path / "ref", cases, ["Hello there."] * 3)
    server.say = lambda body, number: Say(answer(90 if "model answer" in quoted(body) else 40))
    done = await check_judge(run, JUDGE, model(), cases=3)
    assert holds(done, "control: reference") and not (done.findings.probe == "control: other-case").any()


async def test_nothing_to_check(tmp_path, model):
    run = make_run(tmp_path / "mute", [make_case()], [""])
    with pytest.raises(InputError, match="no recorded case has words"):
        await check_judge(run, JUDGE, model())


async def test_the_offline_judge_under_check(run):
    done = await check_judge(run, JUDGE, OfflineJudge(), cases=8)
    assert holds(done, "repeat") and holds(done, "position")
    assert holds(done, "control: persona", "share below base")
    assert holds(done, "control: persona") is None, "three conversations show a fall of 30 points, but do not prove it"
    shares = done.findings[done.findings.metric.str.startswith("share moved")].set_index("probe")
    assert shares.loc["repeat", "n"] == 8, "eight cases, two repeats each"
    assert (done.folder / "findings.csv").exists() and (done.folder / "probes.csv").exists()


@pytest.mark.parametrize(
    ("expect", "move", "share"),
    [("not_higher", -30, 0), ("not_higher", 30, 1), ("not_lower", 30, 0), ("not_lower", -30, 1), ("same", -30, 1)],
)
def test_only_moves_in_the_direction_of_the_attack_count(expect, move, share):
    row = {"item": "", "variant": "x", "status": "ok", "label": None, "base_label": None}
    rows = pd.DataFrame(
        [row | {"case": f"c{n}", "conversation": f"c{n}", "probe": "injection", "expect": expect,
                "score": 50.0 + move, "base_score": 50.0, "difference": float(move)} for n in range(4)]
    )  # fmt: skip
    found = find(JUDGE, rows).set_index("metric").filter(like="share moved", axis=0).iloc[0]
    assert (found["value"], found["n"]) == (share, 4)
