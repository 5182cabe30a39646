"""Building turns: exact sample counts, built once, only what changed, and good ones kept when one fails."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import wild_agents

from workbench import audio, datasets
from workbench.benchmarks.ifeval.authoring import author_scripts
from workbench.benchmarks.ifeval.check import build
from workbench.construct import turns
from workbench.construct.turns import JOIN_S, TurnJob, assemble, build_turns, parse
from workbench.contract import BuildOptions
from workbench.errors import ProblemsFound

RATE_HZ = 24_000
UNSAYABLE = "\u4f60\u597d"


@pytest.fixture
def jobs(tmp_path):
    scripts = {
        ("A", "turn1"): "Hello there.",
        ("A", "turn2"): "I was, <pause:0.7s> <flag:it was late> <check:Hm?>",
        ("B", "turn2"): "The gate is <chunk:four two> <chunk_gap:0.5s> <chunk:one>",
    }
    return [
        TurnJob(stream, cue, text, "hibari:mid", "hibari", tmp_path / "built")
        for (stream, cue), text in scripts.items()
    ]


@pytest.fixture
def assembled(monkeypatch):
    """Scripts that were assembled, in order; and `said`, the texts that the engine was asked for."""
    made = []

    def counting(pieces, voice, cache):
        made.append(" ".join(piece.text for piece in pieces if piece.text))
        return assemble(pieces, voice, cache)

    monkeypatch.setattr(turns, "assemble", counting)
    return made


@pytest.fixture
def said(monkeypatch):
    engine, texts = turns._cache("hibari").engine, []
    say = engine.say

    def noting(text, voice, *, attempt=0):
        texts.append(text)
        return say(text, voice, attempt=attempt)

    monkeypatch.setattr(engine, "say", noting)
    return texts


def states(folder):
    """Every file with its time and content."""
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def built(jobs, **options):
    return build_turns(jobs, workers=1, **options)


def test_segments_lie_where_their_samples_are_and_silences_are_exact_zeros(tmp_path):
    cache = turns._cache("hibari")
    pieces = parse("I was, <pause:0.7s> <flag:it was late> <check:Hm?> <pause:1.234s> All right.")
    made = assemble(pieces, "hibari:mid", cache)
    at = 0
    for before, segment in zip([None, *made.segments], made.segments, strict=False):
        if before is not None and before.kind == segment.kind == "speech":
            gap = made.samples[at : at + round(JOIN_S * RATE_HZ)]
            assert not gap.any()
            at += gap.size
        if segment.kind == "silence":
            length = round(pieces[made.segments.index(segment)].duration_s * RATE_HZ)
            assert not made.samples[at : at + length].any()
        else:
            clip = audio.to_pcm16(cache.render(segment.text, "hibari:mid").samples)
            length = clip.size
            assert np.array_equal(made.samples[at : at + length], clip)
        assert segment.start_s == round(at / RATE_HZ, 3) and segment.end_s == round((at + length) / RATE_HZ, 3)
        at += length
    assert at == made.samples.size and made.samples.dtype == np.int16


def test_every_clip_of_a_dataset_is_sound(tiny_dataset):
    seen = 0
    for case in datasets.load(tiny_dataset).cases:
        for cue in case.cues:
            samples = audio.to_pcm16(audio.read_mono(tiny_dataset / cue.audio.path, RATE_HZ))
            assert samples.size == cue.audio.samples and cue.segments[0].start_s == 0.0
            assert cue.segments[-1].end_s == pytest.approx(cue.duration_s, abs=0.0006)
            for before, after in itertools.pairwise(cue.segments):
                both = before.kind == after.kind == "speech"
                assert after.start_s - before.end_s == pytest.approx(JOIN_S if both else 0.0, abs=0.0011)
            pieces = parse(cue.text)
            for piece, segment in zip(pieces, cue.segments, strict=True):
                inside = samples[round(segment.start_s * RATE_HZ) + 24 : round(segment.end_s * RATE_HZ) - 24]
                if segment.kind == "silence":
                    assert not inside.any()
                    assert segment.end_s - segment.start_s == pytest.approx(piece.duration_s, abs=0.0011)
                    continue
                assert np.abs(inside).max() > 1000
                assert [word.text for word in segment.words] == [
                    token for token in piece.text.split() if any(letter.isalnum() for letter in token)
                ]
                times = [time for word in segment.words for time in (word.start_s, word.end_s)]
                assert times == sorted(times)
                assert segment.start_s <= times[0] and times[-1] <= segment.end_s + 0.001
                seen += 1
    assert seen >= 24


def test_unchanged_nothing_is_built_and_no_file_touched(jobs, assembled):
    first = built(jobs)
    before, made = states(jobs[0].folder), list(assembled)
    assert len(made) == 3 and built(jobs) == first
    assert states(jobs[0].folder) == before and assembled == made


def test_a_changed_script_rebuilds_only_what_hangs_on_it(jobs, assembled, said):
    built(jobs)
    before = states(jobs[0].folder)
    assembled.clear(), said.clear()
    changed = [replace(job, script=job.script.replace("I was", "She was")) for job in jobs]
    built(changed)
    assert assembled == ["She was, it was late Hm?"] and said == ["She was,"]
    after = states(jobs[0].folder)
    assert {str(path) for path in after if after[path] != before[path]} == {"audio/A.turn2.wav", "build/A.turn2.json"}


def test_another_voice_rebuilds(jobs, assembled):
    built(jobs[:1])
    turn = built([replace(jobs[0], voice="hibari:low")])["A", "turn1"]
    assert turn.speaker == "hibari:low" and len(assembled) == 2


@pytest.mark.parametrize("harm", ["delete", "alter", "truncate", "spoil the entry", "delete the entry"])
def test_a_deleted_or_altered_file_is_healed(jobs, assembled, said, harm):
    first = built(jobs)
    wav, entry = (jobs[0].folder / name for name in ("audio/A.turn2.wav", "build/A.turn2.json"))
    whole, content = wav.read_bytes(), states(jobs[0].folder)
    assembled.clear(), said.clear()
    match harm:
        case "delete":
            wav.unlink()
        case "alter":
            wav.write_bytes(whole[:-100] + bytes(100))
        case "truncate":
            wav.write_bytes(whole[:1000])
        case "spoil the entry":
            entry.write_text('{"key": ')
        case _:
            entry.unlink()
    assert built(jobs) == first and len(assembled) == 1
    assert said == []  # its speech is in the cache
    assert {path: text for path, (_, text) in states(jobs[0].folder).items()} == {
        path: text for path, (_, text) in content.items()
    }


def test_a_turn_that_fails_is_named_and_the_rest_is_built(jobs):
    bad = [replace(jobs[0], script=UNSAYABLE), *jobs[1:], replace(jobs[0], stream="C", script=f"Hm <flag:{UNSAYABLE}>")]
    with pytest.raises(ProblemsFound) as told:
        built(bad)
    assert len(told.value.problems) == 2
    assert told.value.problems[0].startswith("A, turn1: ") and UNSAYABLE in told.value.problems[0]
    assert told.value.problems[1].startswith("C, turn1: ")
    assert sorted(path.name for path in (jobs[0].folder / "audio").iterdir()) == ["A.turn2.wav", "B.turn2.wav"]


def test_interrupted_it_goes_on_where_it_was(jobs, assembled):
    def interrupt(job):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        built(jobs, done=interrupt)
    assert len(assembled) == 1 and not list(jobs[0].folder.rglob(".part-*"))
    assert len(built(jobs)) == 3 and len(assembled) == 3


def test_processes_build_the_same(jobs, tmp_path):
    elsewhere = [replace(job, folder=tmp_path / "elsewhere") for job in jobs]
    assert build_turns(elsewhere, workers=2) == built(jobs)


SAID = [
    "I was, <pause:0.3s> It was late.",
    "Please repeat the seven digits.",
    "Okay.",
    "Was it the bill?",
    "No, Tuesday.",
]


def test_one_worker_or_two_killed_or_not_the_dataset_is_the_same(tmp_path, monkeypatch):
    """Each build with a cache of its own, so that everything is synthesised and aligned anew."""

    def fresh(name, order, **options):
        monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / f"{name}.cache"))
        turns._cache.cache_clear()
        voices = ["hibari:mid", "hibari:deep", "hibari:low"]
        jobs = [
            TurnJob("A", f"turn{index}", SAID[index], voices[index % 3], "hibari", tmp_path / name) for index in order
        ]
        return build_turns(jobs, **options)

    def killed(job):
        if job.cue == "turn3":
            raise KeyboardInterrupt

    try:
        one = fresh("one", range(5), workers=1)
        assert fresh("two", range(5), workers=2) == one
        with pytest.raises(KeyboardInterrupt):
            fresh("resumed", [4, 3, 2, 1, 0], workers=1, done=killed)
        assert fresh("resumed", range(5), workers=1) == one
    finally:
        turns._cache.cache_clear()


# --- a whole dataset ---


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """A set of scripts that tests may change: the shipped ones, one file each."""
    folder = tmp_path_factory.mktemp("scripts") / "set"
    author_scripts(folder, model="shipped")
    return folder


def with_change(scripts, tmp_path, stream, old, new):
    folder = tmp_path / "changed"
    folder.mkdir()
    for path in scripts.glob("*.yaml"):
        (folder / path.name).write_text(path.read_text())
    text = (folder / f"{stream}.yaml").read_text()
    assert old in text
    (folder / f"{stream}.yaml").write_text(text.replace(old, new))
    return folder


def test_building_a_dataset_again_does_nothing(dataset_copy, assembled):
    before = states(dataset_copy)
    build(BuildOptions(dataset_copy, limit=12, workers=1))
    assert states(dataset_copy) == before and assembled == []


def test_a_changed_script_changes_its_turn_and_the_manifest(dataset_copy, scripts, tmp_path, assembled):
    before = states(dataset_copy)
    changed = with_change(scripts, tmp_path, "R1_C3_i1", "Oh my God, sorry", "Oh no, sorry")
    build(BuildOptions(dataset_copy, limit=12, workers=1, scripts=changed))
    after = states(dataset_copy)
    touched = {str(path) for path in after if after[path] != before[path]}
    assert len(assembled) == 1
    assert touched == {"audio/R1_C3_i1.turn2.wav", "build/R1_C3_i1.turn2.json", "cases.jsonl", "dataset.json"}
    old, new = (text.splitlines() for text in (before[next(p for p in before if p.name == "cases.jsonl")][1],
                                              (dataset_copy / "cases.jsonl").read_bytes()))  # fmt: skip
    assert sum(one != other for one, other in zip(old, new, strict=True)) == 1
    assert datasets.check_audio(datasets.load(dataset_copy)) == []


def test_a_turn_that_cannot_be_said_leaves_the_manifest_as_it_was(dataset_copy, scripts, tmp_path):
    before = states(dataset_copy)
    changed = with_change(scripts, tmp_path, "R1_C3_i1", "Oh my God, sorry", f"{UNSAYABLE}, sorry")
    with pytest.raises(ProblemsFound, match=r"R1_C3_i1[:,] turn2"):
        build(BuildOptions(dataset_copy, limit=12, workers=1, scripts=changed))
    assert states(dataset_copy) == before


def test_a_turn_that_ends_its_process_is_named_and_all_others_are_built(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "build_turn", wild_agents.build_turn)
    jobs = [TurnJob("s", f"t{k}", "killed" if k == 1 else "hello", "v", "e", tmp_path) for k in range(4)]
    built, where = [], "s, t1: the process running it was killed, signal 9"
    with pytest.raises(ProblemsFound, match=where) as problems:
        build_turns(jobs, workers=2, done=built.append)
    assert len(problems.value.problems) == 1 and len(built) == 4
