"""The commands, through typer and over real HTTP; Ctrl-C in a process of its own."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from chat_loopback import KEY, Say, sound
from typer.testing import CliRunner

from workbench.benchmarks.ifeval import BENCHMARK as IFEVAL
from workbench.cli.judging import judge, judge_check
from workbench.errors import InputError
from workbench.judges.base import judge_of
from workbench.judges.records import load_latest

app = typer.Typer(pretty_exceptions_enable=False)
app.command("judge")(judge)
app.command("judge-check")(judge_check)


@pytest.fixture
def call(run, server, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", KEY)

    def work(name, *options, model="loopback-1", code=0):
        server_options = ["--base-url", server.url, "--key-env", "JUDGE_KEY"]
        result = CliRunner().invoke(app, [name, str(run.folder), "--model", model, *server_options, *options])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.output

    return work


def test_judging(call, server, run):
    output = call("judge", "--price-in", "2", "--price-out", "10", "--rpm", "100000")
    assert "16 requests, 16 judged, 0 known already" in output and "cost 0.0400" in output
    assert "Judge: loopback-1 at 127.0.0.1" in output and "Balanced" in output and "Safety override" in output
    output = call("judge")
    assert "0 requests" in output and len(server.bodies) == 16
    (folder,) = run.judgements.iterdir()
    assert {"judge.json", "judgements.jsonl", "judgements.parquet", "judgements.csv", "summary.json", "pas.csv",
            "conflict.csv", "safety.csv"} <= {path.name for path in folder.iterdir()}  # fmt: skip


def test_a_part_first(call, server):
    output = call("judge", "--limit", "3")
    assert "3 requests" in output and "13 of 16 cases are not judged yet." in output
    assert "13 requests, 13 judged, 3 known already" in call("judge")


def test_too_many_errors_are_said_and_give_code_1(call, server):
    server.say = lambda body, number: Say("no")
    output = call("judge", "--answer-tries", "1", code=1)
    assert "INVALID: 16 of 16" in output and "(INVALID)" in output


def test_the_offline_judge_only_by_name(call, server, run):
    output = call("judge", model="offline-lexical")
    assert "a lexical baseline, no language model" in output and server.bodies == []
    with pytest.raises(InputError, match="NO_SUCH_KEY is not set"):
        call("judge", "--key-env", "NO_SUCH_KEY")


def test_checking_against_another_judge_and_people(call, server, run, tmp_path):
    people = tmp_path / "people.csv"
    people.write_text(
        "case,label,annotator\n" + "".join(f"{case},{20 + 5 * at},ann\n" for at, case in enumerate(run.cases))
    )
    call("judge")
    call("judge", model="offline-lexical")
    output = call("judge-check", "--cases", "2", "--repeats", "2", "--injections", "1", "--against", "pas-offline",
                  "--human", str(people))  # fmt: skip
    for words in ("Probes", "Against pas-offline", "Against people", "Spearman", "cases disagree"):
        assert words in output, output
    folder = next(path for path in run.judgements.iterdir() if "loopback" in path.name) / "check"
    assert {"probes.csv", "findings.csv", "judges.csv", "people.csv", "disagreements.csv"} <= set(os.listdir(folder))


def test_comparing_needs_judgements(call):
    call("judge", model="offline-lexical")
    with pytest.raises(InputError, match="judgements by"):
        call("judge-check", "--cases", "0", "--against", "pas-offline")


@pytest.mark.parametrize(("options", "words"), [(["--temperature", "hot"], "neither a number"),
                                                (["--extra", "[1]"], "not a JSON object"),
                                                (["--extra", "{"], "not valid JSON"),
                                                (["--judge", "nobody"], "no judge 'nobody'"),
                                                (["--concurrency", "0"], "at least 1")])  # fmt: skip
def test_options_that_cannot_be(call, options, words):
    with pytest.raises(InputError, match=words):
        call("judge", *options)


def test_judges_are_found_by_benchmark():
    assert judge_of(IFEVAL).name == judge_of(IFEVAL, "pas").name == "pas"
    with pytest.raises(InputError, match="these judges: none"):
        judge_of(replace(IFEVAL, judges=()))
    with pytest.raises(InputError, match="has no judge 'pas'"):
        judge_of(replace(IFEVAL, judges=()), "pas")


def test_ctrl_c_keeps_what_is_judged(run, server):
    server.say = lambda body, number: sound(body, number) if number < 4 else Say(hang=True)
    code = "import typer; from workbench.cli.judging import judge; typer.run(judge)"
    options = [str(run.folder), "--model", "loopback-1", "--base-url", server.url, "--concurrency", "2"]
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", code, *options], stderr=subprocess.PIPE, text=True, cwd=root)
    while len(server.bodies) < 6 and process.poll() is None:
        server.arrived.wait(0.2)
        server.arrived.clear()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert "Stopped: 4 of 16 are done and kept" in " ".join(said.split())
    (folder,) = run.judgements.iterdir()
    assert len(load_latest(folder)) == 4
