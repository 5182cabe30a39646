"""Folders and sidecars with any content: sentences, never a traceback, and what is good is kept.

The examples are few and fixed by their seed, so that the suite is quick and the same everywhere.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench import audio, cli, contract, datasets
from workbench.agents.registry import factory
from workbench.cases import RATE_HZ, AtTime, AudioRef, Case, Cue
from workbench.files import sha256_of
from workbench.runners import batch
from workbench.runners.replay import Source, import_recordings
from workbench.runs import load_run

bounded = settings(
    max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("\ud800")
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


# Sidecars --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A dataset of two cases with one short clip, and a recording of each."""
    folder = tmp_path_factory.mktemp("sidecars")
    clip = audio.to_pcm16(np.random.default_rng(1).normal(0, 0.1, 6000).astype(np.float32))
    path = folder / "d" / "audio" / "a.wav"
    audio.write_pcm16(path, clip, RATE_HZ)
    ref = AudioRef(path="audio/a.wav", sha256=sha256_of(path), samples=clip.size)
    cue = Cue(id="a", text="", audio=ref, start=AtTime(time_s=0))
    cases = [Case(id=name, benchmark="test", conversation=name, stream="s", cues=(cue,)) for name in ("one", "two")]
    datasets.write(folder / "d", cases, version="1", author="test", speech=None)
    sides = np.zeros((RATE_HZ, 2), np.int16)
    sides[4800 : 4800 + clip.size, 0] = clip
    (folder / "theirs").mkdir()
    for case in cases:
        soundfile.write(folder / "theirs" / f"{case.id}.wav", sides, RATE_HZ)
    return datasets.load(folder / "d"), folder / "theirs"


times = st.floats() | st.integers() | scalars
pieces = st.lists(st.dictionaries(st.sampled_from(["t_s", "text", "x"]), scalars, max_size=3), max_size=3)
sidecars = (
    st.binary(max_size=60)
    | anything.map(lambda value: json.dumps(value).encode())
    | st.fixed_dictionaries(
        {},
        optional={
            "cues": st.dictionaries(st.sampled_from(["a", "b"]), times, max_size=2) | anything,
            "transcript": pieces | st.text(max_size=9) | anything,
            "words": anything,
        },
    ).map(lambda value: json.dumps(value).encode())
)


@bounded
@given(content=sidecars)
def test_a_sidecar_of_any_content_is_taken_or_named_and_costs_no_other_case(recorded, tmp_path_factory, content):
    dataset, theirs = recorded
    (theirs / "one.json").write_bytes(content)
    out = tmp_path_factory.mktemp("out") / "run"
    result = import_recordings(Source(dataset, theirs, "theirs"), out, workers=1)
    assert result.cases + len(result.problems) == 2 and "two" in load_run(out).recorded()
    for problem in result.problems:
        assert problem.startswith(f"case one: {theirs / 'one.json'}"), problem
    if result.cases == 2:
        record = load_run(out).record("one")
        assert all(0 <= piece.t_s <= record.duration_s for piece in record.transcript or ())


# Run folders -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tiny_dataset, tmp_path_factory):
    """A dataset of three cases, and a run of them that is scored and judged."""
    folder = tmp_path_factory.mktemp("whole")
    shutil.copytree(tiny_dataset, folder / "d")
    header = datasets.load(tiny_dataset).header
    first = list(datasets.load(tiny_dataset).cases[:3])
    datasets.write(folder / "d", first, version=header.version, author=header.author, speech=header.speech)
    make = factory("oracle", benchmark=contract.get("ifeval"))
    batch.run(batch.Plan(datasets.load(folder / "d"), make, folder / "run", concurrency=1))
    assert call("score", folder / "run", "--detector", "energy") == 0
    assert call("judge", folder / "run", "--model", "offline-lexical") in (0, 1)
    return folder


def call(*arguments):
    """Exit code of a command; anything that is no exit is a traceback to a user."""
    before = sys.argv
    sys.argv = ["workbench", *map(str, arguments)]
    try:
        cli.main()
    except SystemExit as left:
        return left.code or 0
    finally:
        sys.argv = before
    return 0


def other_version(content: bytes) -> bytes:
    try:
        value = json.loads(content.splitlines()[0] if content.count(b"\n") > 1 and content[:2] == b'{"' else content)
    except (ValueError, IndexError):
        return content[:40] + b"\x00\x01" + content[40:]
    return json.dumps(value | {"format": 99, "moods": []} if isinstance(value, dict) else [value]).encode()


def harmed(draw, run: Path) -> str:
    """Harm one file of a run; returns which and how."""
    files = sorted(path for path in run.rglob("*") if path.is_file())
    path = draw(st.sampled_from(files))
    how = draw(
        st.sampled_from(["truncated", "removed", "swapped", "of another version", "changed", "empty", "a folder"])
    )
    content = path.read_bytes()
    match how:
        case "truncated":
            path.write_bytes(content[: draw(st.integers(0, max(0, len(content) - 1)))])
        case "removed":
            path.unlink()
        case "swapped":
            path.write_bytes(draw(st.sampled_from(files)).read_bytes())
        case "other_version":
            path.write_bytes(other_version(content))
        case "changed" if path.suffix == ".json":
            value = json.loads(content)
            value[draw(st.sampled_from(sorted(value)))] = draw(anything)
            path.write_text(json.dumps(value))
        case "changed":
            at = draw(st.integers(0, max(0, len(content) - 1)))
            path.write_bytes(content[:at] + draw(st.binary(min_size=1, max_size=8)) + content[at + 1 :])
        case "empty":
            path.write_bytes(b"")
        case _:
            path.unlink()
            path.mkdir()
    return f"{path.relative_to(run)} {how}"


@bounded
@given(data=st.data())
def test_a_run_folder_with_any_file_harmed_gives_sentences_and_is_mended_by_the_same_commands(
    whole, tmp_path_factory, data
):
    run = Path(shutil.copytree(whole / "run", tmp_path_factory.mktemp("harmed") / "run"))
    what = harmed(data.draw, run)
    commands = {
        "score": ["score", run, "--detector", "energy"],
        "judge": ["judge", run, "--model", "offline-lexical"],
        "report": ["report", run, "--out", run.parent / "report"],
        "run": ["run", whole / "d", "--agent", "oracle", "--concurrency", "1", "--out", run],
    }
    order = data.draw(st.permutations(sorted(commands)))
    for name in order[:2]:
        code = call(*commands[name])
        assert code in (0, 1, 2, 3), (what, name, code)


def test_what_was_harmed_alone_is_made_again(whole, tmp_path):
    run = Path(shutil.copytree(whole / "run", tmp_path / "run"))
    names = load_run(run).recorded()
    (run / "episodes" / f"{names[0]}.rec.json").write_text("{")
    (run / "episodes" / f"{names[1]}.stereo.wav").write_bytes(b"")
    make = factory("oracle", benchmark=contract.get("ifeval"))
    outcome = batch.run(batch.Plan(datasets.load(whole / "d"), make, run, concurrency=1))
    assert (outcome.recorded, outcome.kept) == (2, 1)
    assert call("score", run, "--detector", "energy") == 0
