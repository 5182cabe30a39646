"""The command line: its fixed words, exit codes, and sentences instead of tracebacks."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from workbench import cli, datasets


def workbench(*arguments, stdin=None):
    done = subprocess.run(
        [sys.executable, "-m", "workbench", *map(str, arguments)], capture_output=True, text=True, input=stdin
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_build_and_validate_the_whole_grid_without_audio(tmp_path):
    assert workbench("build", "ifeval", "--no-audio", "--out", tmp_path / "d").returncode == 0
    done = workbench("validate", tmp_path / "d", "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["cases"] == 1038 and report["audio_streams"] == 224 and report["problems"] == []
    assert report["by_level"] == {"L0": 48, "L1": 240, "L2": 240, "L3": 240, "L4a": 240, "L4b": 30}
    assert report["by_action"]["LISTEN"] == 273 and sum(report["by_action"].values()) == 1038
    done = workbench("run", tmp_path / "d", "--agent", "silent", "--out", tmp_path / "r")
    assert done.returncode == 2 and "--no-audio" in done.stderr


def test_a_grid_with_a_case_missing_does_not_validate(tmp_path):
    workbench("build", "ifeval", "--no-audio", "--limit", "1030", "--out", tmp_path / "d")
    done = workbench("validate", tmp_path / "d", "--json")
    assert done.returncode == 2 and "1030, where the full grid has 1038" in json.loads(done.stdout)["problems"][0]
    assert workbench("validate", tmp_path / "d", "--slice").returncode == 0


def test_run_score_report_and_their_words(tiny_dataset, tmp_path):
    run, out = tmp_path / "run", tmp_path / "report"
    done = workbench("run", tiny_dataset, "--agent", "oracle", "--out", run)
    assert done.returncode == 0 and "12 cases recorded" in done.stdout
    assert "0 cases recorded" in workbench("run", tiny_dataset, "--agent", "oracle", "--out", run).stdout
    done = workbench("score", run)
    assert done.returncode == 0 and '"pass": 12' in done.stdout
    assert '"fail": 2' in workbench("score", run, "--set", "max_wait_s=0.1").stdout
    done = workbench("report", run, "--out", out)
    assert done.returncode == 0 and (out / "report.html").exists()


def test_decide_reads_a_file_or_standard_input(tmp_path):
    items = [{"id": 7, "action": "TAKE_TURN", "window": [10, 15], "user_spans": [[0, 10]], "model_spans": [[11, 12]]}]
    (tmp_path / "f.json").write_text(json.dumps(items))
    done = workbench("decide", "ifeval", tmp_path / "f.json")
    assert done.returncode == 0
    (verdict,) = json.loads(done.stdout)
    assert (verdict["id"], verdict["verdict"], verdict["strict"]) == (7, "pass", "pass")
    assert verdict["evidence"]["genuine_s"] == 1.0 and "limit 2.0 s" in verdict["reason"]
    done = workbench("decide", "ifeval", "-", "--set", "max_wait_s=0.5", stdin=json.dumps(items))
    assert json.loads(done.stdout)[0]["verdict"] == "fail"
    assert json.loads(workbench("decide", "ifeval", "-", stdin="[]").stdout) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["build", "iffy", "--out", "{tmp}/d"], "no benchmark 'iffy'"),
        (["build", "ifeval", "--limit", "0", "--out", "{tmp}/d"], "--limit 0"),
        (["build", "ifeval", "--voices", "robot", "--out", "{tmp}/d"], "no speech engine 'robot'"),
        (["validate", "{tmp}/nowhere"], "is not a folder"),
        (["validate", "{tmp}"], "is not a dataset"),
        (["run", "{tmp}/nowhere", "--agent", "oracle", "--out", "{tmp}/r"], "is not a folder"),
        (["run", "{tiny}", "--agent", "nobody", "--out", "{tmp}/r"], "no agent 'nobody'"),
        (["run", "{tiny}", "--agent", "python:nope:X", "--out", "{tmp}/r"], "cannot be loaded"),
        (["run", "{tiny}", "--agent", "silent", "--set", "volume=11", "--out", "{tmp}/r"], "no option 'volume'"),
        (["run", "{tiny}", "--agent", "silent", "--set", "volume", "--out", "{tmp}/r"], "NAME=VALUE"),
        (["run", "{tiny}", "--agent", "silent", "--policy", "loud", "--out", "{tmp}/r"], "no policy 'loud'"),
        (["score", "{tiny}"], "It is a dataset"),
        (["score", "{tmp}"], "is not a run"),
        (["score", "{tmp}", "--vad-threshold", "nan"], "--vad-threshold"),
        (["build", "ifeval", "--no-audio", "--out", "/dev/null"], "a file stands where a folder is needed"),
        (["report", "{tmp}/nowhere", "--out", "{tmp}/o"], "is not a folder"),
        (["decide", "ifeval", "{tmp}/nowhere.json"], "does not exist"),
        (["decide", "ifeval", "{tmp}/bad.json"], "line 2"),
        (["decide", "ifeval", "{tmp}/object.json"], "object.json: a JSON list is needed"),
        (["decide", "ifeval", "{tmp}/object.json", "--set", "max_wait_s=soon"], "is not a number"),
    ],
)
def test_mistakes_get_a_sentence_and_exit_code_2(tiny_dataset, tmp_path, arguments, said):
    (tmp_path / "bad.json").write_text("[\n{,}]")
    (tmp_path / "object.json").write_text("{}")
    done = workbench(*[argument.format(tmp=tmp_path, tiny=tiny_dataset) for argument in arguments])
    assert done.returncode == 2 and said in " ".join(done.stderr.split()), done.stderr


def test_a_run_folder_of_another_dataset_is_refused(tiny_dataset, tmp_path):
    workbench("run", tiny_dataset, "--agent", "silent", "--out", tmp_path / "run")
    workbench("build", "ifeval", "--limit", "2", "--out", tmp_path / "other")
    done = workbench("run", tmp_path / "other", "--agent", "silent", "--out", tmp_path / "run")
    assert done.returncode == 2 and "another dataset" in done.stderr


def test_every_agent_is_listed():
    done = workbench("agents")
    for name in ("oracle", "contrary", "silent", "babble", "echo", "eager", "cascade", "openai-realtime"):
        assert name in done.stdout


def test_input_that_no_parser_likes_gets_a_sentence(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "long.json").write_text("[" + "9" * 6000 + "]")
    for name in ("deep.json", "long.json"):
        done = workbench("decide", "ifeval", tmp_path / name)
        assert done.returncode == 2 and name in done.stderr
    (tmp_path / "none.json").write_text("[]")
    done = workbench("decide", "ifeval", tmp_path / "none.json", "--set", "max_wait_s=" + "1" * 401)
    assert done.returncode == 2 and "max_wait_s" in done.stderr


@pytest.mark.parametrize(("tag", "value"), [("action", "SING"), ("level", "L9"), ("role", None)])
def test_cases_that_validate_refuses_are_not_run(dataset_copy, tmp_path, tag, value):
    path = dataset_copy / "cases.jsonl"
    lines = path.read_text().splitlines()
    case = json.loads(lines[0])
    case["tags"] = {k: v for k, v in case["tags"].items() if k != tag} | ({tag: value} if value else {})
    path.write_text("\n".join([json.dumps(case), *lines[1:]]) + "\n")
    done = workbench("run", dataset_copy, "--agent", "silent", "--out", tmp_path / "run")
    assert done.returncode == 2 and case["id"] in done.stderr


def test_score_goes_on_past_a_run_that_cannot_be_opened(tiny_dataset, tmp_path):
    workbench("run", tiny_dataset, "--agent", "oracle", "--out", tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    done = workbench("score", tmp_path / "bad", tmp_path / "good")
    assert done.returncode == 2 and "run.json, line 1" in done.stderr and '"pass": 12' in done.stdout


@pytest.mark.parametrize(
    ("number", "said"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "the file system can only be read")]
)
def test_a_disk_that_fails_has_its_own_exit_code(tiny_dataset, tmp_path, monkeypatch, capsys, number, said):
    workbench("run", tiny_dataset, "--agent", "silent", "--out", tmp_path / "run")

    def full(path, *content, **options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(Path, "write_text", full)
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    case_id = datasets.load(tiny_dataset).cases[0].id
    soundfile.write(recordings / f"{case_id}.wav", np.random.default_rng(0).normal(0, 0.1, (48_000, 2)), 24_000)
    for arguments in (
        ["run", tiny_dataset, "--agent", "silent", "--concurrency", "1", "--out", tmp_path / "new"],
        ["import", tiny_dataset, "--recordings", recordings, "--agent-name", "x", "--out", tmp_path / "imported"],
        ["build", "ifeval", "--no-audio", "--out", tmp_path / "built"],
        ["score", tmp_path / "run", "--detector", "energy"],
    ):
        monkeypatch.setattr(sys, "argv", ["workbench", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        told = capsys.readouterr().err
        assert left.value.code == 4 and said in told and "Traceback" not in told, (arguments, told)


def test_scoring_without_a_recording_says_what_the_verdict_rests_on(tiny_dataset, tmp_path):
    run = tmp_path / "run"
    workbench("run", tiny_dataset, "--agent", "silent", "--out", run)
    workbench("score", run, "--detector", "energy")
    sorted((run / "episodes").glob("*.stereo.wav"))[0].unlink()
    done = workbench("score", run, "--detector", "energy")
    assert done.returncode == 0 and "the recordings of 1 case" in " ".join(done.stderr.split()), done.stderr


def test_an_agent_s_words_can_do_nothing_to_the_terminal(tiny_dataset, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}{os.pathsep}{os.environ['PYTHONPATH']}")
    done = workbench("run", tiny_dataset, "--agent", "python:wild_agents:Rude", "--out", tmp_path / "run")
    assert done.returncode == 3 and r"gone\x1b[2J\x1b]0;mine" in done.stderr
    assert not {"\x1b", "\x07"} & set(done.stderr + done.stdout)
