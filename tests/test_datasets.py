"""What bad datasets get: one sentence with file, field, value and remedy, and the good cases still usable."""

import json
import shutil
import sys

import numpy as np
import pytest
import soundfile

from workbench import cli, datasets
from workbench.cases import AudioRef
from workbench.errors import InputError
from workbench.files import sha256_of

RATE_HZ = 24_000


def records(folder):
    return [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]


def save(folder, found):
    (folder / "cases.jsonl").write_text("".join(json.dumps(record) + "\n" for record in found))


def edit(folder, number, change):
    """Change one record in place by `change(record)`."""
    found = records(folder)
    change(found[number])
    save(folder, found)


def first_clip(folder):
    """Path of a clip of the third case, which no other case shares, and that case's id."""
    record = records(folder)[2]
    return folder / record["cues"][1]["audio"]["path"], record["id"]


def all_problems(folder):
    dataset = datasets.load(folder)
    return [*dataset.problems, *datasets.check_audio(dataset)]


def validate(monkeypatch, capsys, *arguments):
    """Exit code, standard output and standard error of `workbench validate`."""
    monkeypatch.setattr(sys, "argv", ["workbench", "validate", *map(str, arguments)])
    try:
        cli.main()
        code = 0
    except SystemExit as left:
        code = left.code or 0
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_good_dataset_has_no_problems(tiny_dataset):
    assert all_problems(tiny_dataset) == []
    dataset = datasets.load(tiny_dataset)
    assert len(dataset.cases) == dataset.header.cases == 12 and datasets.streams(dataset.cases) == 10
    assert dataset.header.fingerprint == sha256_of(tiny_dataset / "cases.jsonl")


# --- records ---


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda r: r.update(mood="sad"), "unknown field 'mood'; remove it or check its spelling"),
        (lambda r: r["cues"][0].update(tempo=3), "unknown field 'cues.0.tempo'"),
        (lambda r: r.pop("stream"), "field 'stream' is missing"),
        (lambda r: r.update(id="../x"), "the id '../x' may hold only letters"),
        (lambda r: r.update(id="a/b"), "the id 'a/b' may hold only letters"),
        (lambda r: r.update(cues=[]), "field 'cues'"),
        (lambda r: r["cues"][1].update(id="turn1"), "the cue id 'turn1' stands twice"),
        (lambda r: r["cues"][0]["start"].update(time_s=-1), "(found -1)"),
        (lambda r: r["cues"][0]["start"].update(kind="whenever"), "whenever"),
        (lambda r: r["cues"][0]["audio"].update(sha256="beef"), "field 'cues.0.audio.sha256'"),
        (lambda r: r["cues"][0]["audio"].update(samples=0), "field 'cues.0.audio.samples'"),
        (lambda r: r["cues"][0]["audio"].update(path="../out.wav"), "must be relative and stay inside the dataset"),
        (lambda r: r["cues"][0]["audio"].update(path="/etc/out.wav"), "must be relative and stay inside the dataset"),
        (lambda r: r["cues"][0]["audio"].update(path="audio\\..\\x.wav"), "must be relative and stay inside"),
        (lambda r: r["windows"]["trigger"].update(cue="turn9"), "is fixed to the cue 'turn9'"),
        (lambda r: r["windows"]["trigger"].update(start_s=9.0, end_s=8.0), "ends (8.0 s) before it starts (9.0 s)"),
        (lambda r: r["windows"]["trigger"].update(end_s=None), "has only one of start_s and end_s"),
    ],
)
def test_a_bad_record_is_named_by_file_line_and_field(dataset_copy, change, told):
    edit(dataset_copy, 2, change)
    dataset = datasets.load(dataset_copy)
    assert len(dataset.problems) == 1 and len(dataset.cases) == 11
    assert dataset.problems[0].startswith(f"{dataset_copy / 'cases.jsonl'}, line 3: ") and told in dataset.problems[0]


def test_broken_lines_and_other_bytes_leave_the_rest(dataset_copy):
    path = dataset_copy / "cases.jsonl"
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], b'{"id": "x"', b"\xff\xfe", b"", b"[]", *lines[1:], lines[5][:200]]))
    dataset = datasets.load(dataset_copy)
    assert len(dataset.cases) == 12 and len(dataset.problems) == 4
    assert [int(problem.split("line ")[1].split(":")[0]) for problem in dataset.problems] == [2, 3, 5, 17]


def test_duplicate_ids_are_named_with_both_lines(dataset_copy):
    found = records(dataset_copy)
    save(dataset_copy, [*found, found[3]])
    dataset = datasets.load(dataset_copy)
    assert len(dataset.cases) == 12
    assert dataset.problems == (
        f"{dataset_copy / 'cases.jsonl'}, line 13: the case id {found[3]['id']!r} stands already in line 4; give one "
        "of them another id.",
    )


def test_cases_of_another_benchmark_are_left_out(dataset_copy):
    edit(dataset_copy, 2, lambda record: record.update(benchmark="other"))
    dataset = datasets.load(dataset_copy)
    assert len(dataset.cases) == 11 and "of another benchmark than 'ifeval'" in dataset.problems[0]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda f: shutil.rmtree(f), "is not a folder"),
        (lambda f: (f / "dataset.json").unlink(), "holds no dataset.json, so it is not a dataset"),
        (lambda f: (f / "dataset.json").write_text("{"), "dataset.json, line 1: not valid JSON"),
        (lambda f: (f / "dataset.json").write_text("[]"), "dataset.json"),
        (lambda f: (f / "dataset.json").write_text('{"benchmark": "ifeval", "bpm": 1}'), "dataset.json: "),
        (lambda f: (f / "cases.jsonl").unlink(), "cases.jsonl does not exist; build the dataset first"),
        (lambda f: (f / "cases.jsonl").write_text(""), "holds no usable case"),
        (lambda f: (f / "cases.jsonl").write_text("{}\n"), "holds no usable case"),
    ],
)
def test_what_is_no_dataset_is_one_sentence(dataset_copy, spoil, told):
    spoil(dataset_copy)
    with pytest.raises(InputError) as error:
        datasets.load(dataset_copy)
    assert told in str(error.value) and str(dataset_copy) in str(error.value)


# --- identity ---


def built_elsewhere(record):
    """The record as a machine whose synthesis differs in the last bits would write it."""
    for cue in record["cues"]:
        cue["audio"].update(sha256="1" * 64, samples=cue["audio"]["samples"] + 120)
        for segment in cue["segments"]:
            segment["end_s"] += 0.005
            segment["words"] = [word | {"end_s": word["end_s"] + 0.01} for word in segment["words"]]
    for window in record["windows"].values():
        window["end_s"] += 0.005


def identities(folder):
    header, loaded = json.loads((folder / "dataset.json").read_text()), datasets.load(folder)
    written = datasets.write(
        folder, list(loaded.cases), **{key: header[key] for key in ("version", "author", "speech")}
    )
    return written.content, written.fingerprint


def test_the_content_of_a_dataset_is_the_same_on_every_machine_and_its_bytes_are_not(dataset_copy):
    content, fingerprint = identities(dataset_copy)
    found = records(dataset_copy)
    for record in found:
        built_elsewhere(record)
    save(dataset_copy, found)
    assert identities(dataset_copy)[0] == content and identities(dataset_copy)[1] != fingerprint


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r["cues"][1].update(text="Something else."),
        lambda r: r["prompt"][0].update(text="Be somebody else."),
        lambda r: r["windows"]["trigger"].update(cue="turn1"),
        lambda r: r["cues"][1].update(start={"kind": "at_time", "time_s": 3.0}),
        lambda r: r["tags"].update(level="L9"),
    ],
)
def test_another_script_prompt_rule_or_grid_is_another_content(dataset_copy, change):
    content, _ = identities(dataset_copy)
    found = records(dataset_copy)
    change(found[2])
    save(dataset_copy, found)
    assert identities(dataset_copy)[0] != content


def test_another_engine_or_version_is_another_content_and_old_headers_have_one_too(tiny_dataset):
    dataset = datasets.load(tiny_dataset)
    about = dataset.header.brief()
    older = {key: value for key, value in about.items() if key != "content"}
    assert datasets.content_of(dataset.cases, older) == dataset.header.content
    for change in ({"version": "9"}, {"speech": about["speech"] | {"version": "9"}}, {"speech": None}):
        assert datasets.content_of(dataset.cases, older | change) != dataset.header.content


def test_a_case_that_is_there_twice_under_two_ids_is_found(dataset_copy, monkeypatch, capsys):
    found = records(dataset_copy)
    save(dataset_copy, [*found, found[3] | {"id": "copy"}])
    code, out, _ = validate(monkeypatch, capsys, dataset_copy, "--json")
    said = f"case copy is case {found[3]['id']} under another id"
    assert code == 2 and any(said in problem for problem in json.loads(out)["problems"])


def test_a_dataset_of_the_future_is_refused_by_its_number(dataset_copy):
    header = json.loads((dataset_copy / "dataset.json").read_text())
    (dataset_copy / "dataset.json").write_text(json.dumps(header | {"format": 2, "moods": []}))
    with pytest.raises(InputError, match=r"dataset.json: .*its format 2 is of a newer workbench than this one"):
        datasets.load(dataset_copy)


@pytest.mark.parametrize("command", ["run", "import"])
def test_a_manifest_that_was_cut_is_found_before_anything_is_run(dataset_copy, tmp_path, monkeypatch, capsys, command):
    path = dataset_copy / "cases.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    (tmp_path / "recordings").mkdir()
    case_id = records(dataset_copy)[0]["id"]
    soundfile.write(tmp_path / "recordings" / f"{case_id}.wav", tone(48_000, 2), RATE_HZ)
    options = {
        "run": ["--agent", "silent"],
        "import": ["--recordings", str(tmp_path / "recordings"), "--agent-name", "theirs"],
    }
    arguments = ["workbench", command, str(dataset_copy), "--out", str(tmp_path / "run"), *options[command]]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as left:
        cli.main()
    said = capsys.readouterr().err
    assert left.value.code == 2 and "is not the one that dataset.json was written for" in said
    assert not (tmp_path / "run").exists()


# --- audio ---


def tone(samples, channels=1):
    wave = 0.1 * np.sin(np.arange(samples) / 10)
    return np.repeat(wave[:, None], channels, axis=1) if channels > 1 else wave


def outside(path):
    """The clip moved out of the dataset, and a link to it in its place."""
    real = path.parent.parent.parent / "elsewhere.wav"
    shutil.move(path, real)
    path.symlink_to(real)


def outside_by_folder(path):
    """The whole audio folder moved out, and a link to it in its place."""
    real = path.parent.parent.parent / "elsewhere"
    shutil.move(path.parent, real)
    path.parent.symlink_to(real)


def with_nan(path):
    wave = tone(5000).astype(np.float32)
    wave[2400] = np.nan
    soundfile.write(path, wave, RATE_HZ, subtype="FLOAT")


SPOILT_AUDIO = {
    "missing": (lambda p: p.unlink(), "is missing (case {case}, cue turn2); rebuild the dataset"),
    "dangling link": (lambda p: (p.unlink(), p.symlink_to("nowhere.wav")), "is missing (case {case}, cue turn2)"),
    "empty": (lambda p: p.write_bytes(b""), "(0 bytes) cannot be read as audio"),
    "not audio": (lambda p: p.write_text("hello"), "cannot be read as audio"),
    "truncated": (lambda p: p.write_bytes(p.read_bytes()[:5000]), "is truncated"),
    "header only": (lambda p: p.write_bytes(p.read_bytes()[:44]), "no samples"),
    "changed": (lambda p: p.write_bytes(p.read_bytes()[:-2] + b"\x01\x00"), "has changed since it was built"),
    "shorter": (lambda p: soundfile.write(p, tone(5000), RATE_HZ), "holds 5000 samples and the manifest says"),
    "wrong rate": (lambda p: soundfile.write(p, tone(5000), 16_000), "is at 16000 Hz, where 24000 Hz is needed"),
    "stereo": (lambda p: soundfile.write(p, tone(5000, 2), RATE_HZ), "has 2 channels, where a mono clip is needed"),
    "NaN": (with_nan, "holds 1 NaN or infinite samples, the first at 0.100 s"),
    "a folder": (lambda p: (p.unlink(), p.mkdir()), "cannot be read as audio"),
    "link out": (outside, "leads out of the dataset folder"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SPOILT_AUDIO)
def test_a_spoilt_clip_is_named_and_the_others_play(dataset_copy, kind):
    spoil, told = SPOILT_AUDIO[kind]
    path, case_id = first_clip(dataset_copy)
    spoil(path)
    dataset = datasets.load(dataset_copy)
    found = datasets.check_audio(dataset)
    assert len(found) == 1 and found[0].startswith(str(path)) and told.format(case=case_id) in found[0]
    # Playing it is refused with the same sentence; every other case still plays.
    for case in dataset.cases:
        if case.id == case_id:
            with pytest.raises(InputError) as error:
                dataset.clips(case)
            assert str(error.value) == found[0]
        else:
            assert set(dataset.clips(case)) == {"turn1", "turn2"}


def test_an_audio_folder_that_leads_out_is_named(dataset_copy):
    outside_by_folder(first_clip(dataset_copy)[0])
    found = datasets.check_audio(datasets.load(dataset_copy))
    assert len(found) == 20 and all("leads out of the dataset folder" in problem for problem in found)


def test_a_link_inside_is_fine(dataset_copy):
    path, _ = first_clip(dataset_copy)
    real = path.rename(path.with_name("real.wav"))
    path.symlink_to(real)
    assert all_problems(dataset_copy) == []


def test_two_sums_for_one_clip_are_named(dataset_copy):
    shared = [number for number, record in enumerate(records(dataset_copy)) if record["stream"] == "S_C1_i1"]
    edit(dataset_copy, shared[1], lambda record: record["cues"][0]["audio"].update(sha256="0" * 64))
    found = all_problems(dataset_copy)
    assert len(found) == 1 and "another sha256 than an earlier case does" in found[0]


def test_audio_paths_stay_inside():
    for path in ("a/../b.wav", "./a.wav", "a//b.wav", "", "/a.wav", "a\\b.wav", "a/.", ".."):
        with pytest.raises(ValueError, match="must be relative"):
            AudioRef(path=path, sha256="0" * 64, samples=1)
    assert AudioRef(path="audio/..a.wav", sha256="0" * 64, samples=1).path == "audio/..a.wav"


# --- the command ---


def test_validate_says_so_when_all_is_well(tiny_dataset, monkeypatch, capsys):
    code, out, err = validate(monkeypatch, capsys, tiny_dataset, "--json")
    report = json.loads(out)
    assert (code, err) == (0, "") and report["problems"] == []
    assert (report["cases"], report["by_level"], report["audio_streams"]) == (12, {"L2": 12}, 10)
    assert sum(report["by_action"].values()) == 12
    assert validate(monkeypatch, capsys)[0] == 0  # the shipped scripts


def test_validate_exits_2_and_names_everything_in_json_too(dataset_copy, monkeypatch, capsys):
    path, _ = first_clip(dataset_copy)
    path.unlink()
    edit(dataset_copy, 0, lambda record: record.update(mood="sad"))
    code, out, _ = validate(monkeypatch, capsys, dataset_copy, "--json")
    report = json.loads(out)
    assert code == 2 and report["cases"] == 11
    assert any("'mood'" in problem for problem in report["problems"])
    assert any("is missing" in problem for problem in report["problems"])
    code, out, err = validate(monkeypatch, capsys, dataset_copy)
    assert code == 2 and "cases: 11" in out and "'mood'" in err and "is missing" in err


def test_validate_names_a_manifest_that_was_changed_after_it_was_built(dataset_copy, monkeypatch, capsys):
    edit(dataset_copy, 0, lambda record: record["tags"].update(situation="another"))
    code, out, _ = validate(monkeypatch, capsys, dataset_copy, "--json")
    assert code == 2 and any("is not the one that dataset.json" in problem for problem in json.loads(out)["problems"])


def test_validate_of_a_run_folder_or_nothing_is_one_sentence(tmp_path, monkeypatch, capsys):
    (tmp_path / "run.json").write_text("{}")
    code, _, err = validate(monkeypatch, capsys, tmp_path)
    assert code == 2 and "looks like a run folder" in err
    code, _, err = validate(monkeypatch, capsys, tmp_path / "nothing")
    assert code == 2 and "is not a folder" in err


def test_validate_demands_the_full_grid_when_told(tiny_dataset, monkeypatch, capsys):
    code, out, _ = validate(monkeypatch, capsys, tiny_dataset, "--full", "--json")
    assert code == 2 and any("1038" in problem for problem in json.loads(out)["problems"])


def test_an_out_that_is_a_file_is_one_sentence(tmp_path, monkeypatch, capsys):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setattr(sys, "argv", ["workbench", "build", "ifeval", "--no-audio", "--out", str(file)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    told = capsys.readouterr().err
    assert left.value.code == 2 and str(file) in told and "Traceback" not in told
