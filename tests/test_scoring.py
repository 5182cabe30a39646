"""Scoring: calibrated reference agents, cached spans, every unusable case with its reason."""

import json
import shutil
import warnings

import numpy as np
import pandas as pd
import pytest
import soundfile

import workbench as wb
from workbench import contract, datasets, episodes
from workbench.agents.registry import factory
from workbench.errors import InputError
from workbench.report.gather import gather
from workbench.runners import batch
from workbench.runs import MEASUREMENTS, load_run, load_scores
from workbench.scoring import SpanStore, find_spans, score_run
from workbench.vad import VadSettings


@pytest.fixture(scope="module")
def recorded(tiny_dataset, tmp_path_factory):
    """Runs of the reference agents on the tiny dataset: name -> folder (read only)."""
    folders = {}
    for name in ("oracle", "contrary", "silent", "echo"):
        folder = tmp_path_factory.mktemp("runs") / name
        make = factory(name, benchmark=contract.get("ifeval"))
        batch.run(batch.Plan(datasets.load(tiny_dataset), make, folder, concurrency=1))
        folders[name] = folder
    return folders


@pytest.fixture
def oracle(recorded, tmp_path):
    ignored = shutil.ignore_patterns("spans", "scores")
    return load_run(shutil.copytree(recorded["oracle"], tmp_path / "oracle", ignore=ignored))


def test_the_oracle_passes_and_contrary_fails_every_verifier(recorded):
    right = score_run(load_run(recorded["oracle"])).verdicts
    wrong = score_run(load_run(recorded["contrary"])).verdicts
    assert right["verdict"].eq("pass").all() and right["strict"].eq("pass").all(), right[right["verdict"] != "pass"]
    assert wrong["verdict"].eq("fail").all(), wrong[wrong["verdict"] != "fail"]


def test_a_silent_agent_is_not_measurable_where_there_was_nothing_to_barge_into(recorded):
    scored = score_run(load_run(recorded["silent"]))
    frame = scored.measurements.merge(scored.verdicts, on="case")
    barge = frame["action"] == "YIELD"
    assert frame[barge]["verdict"].eq("unmeasurable").all()
    assert frame[barge]["reason_x"].eq("no_model_onset").all()
    assert frame[barge]["genuine_s"].isna().all()  # null, not zero
    assert frame[frame["action"] == "LISTEN"]["verdict"].eq("pass").all()


def test_without_a_transcript_readback_is_not_measurable(recorded):
    scored = score_run(load_run(recorded["echo"]))
    readback = scored.measurements["action"] == "READBACK"
    assert readback.any() and scored.measurements[readback]["reason"].eq("no_transcript").all()


def test_scores_are_kept_and_spans_are_detected_once(oracle, monkeypatch):
    first = score_run(oracle)
    measurements, verdicts, score = load_scores(oracle)
    pd.testing.assert_frame_equal(verdicts, first.verdicts, check_dtype=False)
    assert len(measurements) == 12 and score["verdicts"] == {"pass": 12} and score["vad"]["min_speech_ms"] == 90
    monkeypatch.setattr("workbench.scoring.detect", lambda *_: pytest.fail("audio was read again"))
    score_run(oracle, thresholds={"max_wait_s": 0.1})
    assert load_scores(oracle)[2]["thresholds"]["max_wait_s"] == 0.1


def test_other_settings_have_their_own_spans_and_a_new_recording_is_detected_again(oracle):
    score_run(oracle)
    score_run(oracle, VadSettings(min_silence_ms=200))
    assert len(list(oracle.spans.glob("*.parquet"))) == 2
    case_id = oracle.recorded()[0]
    record = oracle.record(case_id)
    length = round(record.duration_s * 24000)
    shorter = record.model_copy(update={"duration_s": (length - 24000) / 24000})
    stereo, _ = soundfile.read(episodes.stereo_path(oracle.episodes, case_id), dtype="int16")
    episodes.save(oracle.episodes, shorter, stereo[:-24000] // 50 * 0)
    assert all(len(spans) == 0 for spans in find_spans(oracle, VadSettings())[0][case_id].values())


def test_a_damaged_span_cache_is_made_anew(oracle):
    score_run(oracle)
    store = SpanStore(oracle, VadSettings())
    store.path.write_bytes(b"garbage")
    assert score_run(oracle).verdicts["verdict"].eq("pass").all()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.unlink(), "does not exist"),
        (lambda path: path.write_bytes(b""), "cannot be read as audio"),
        (lambda path: path.write_bytes(path.read_bytes()[:20000]), "truncated"),
        (lambda path: soundfile.write(path, np.zeros(48000, np.int16), 24000), "1 channel, where two are needed"),
        (lambda path: soundfile.write(path, np.zeros((48000, 2), np.int16), 16000), "16000 Hz"),
        (lambda path: soundfile.write(path, np.zeros((48000, 2), np.int16), 24000), "do not belong together"),
        (
            lambda path: soundfile.write(path, np.full((48000, 2), np.nan, np.float32), 24000, subtype="FLOAT"),
            "NaN",
        ),
    ],
)
def test_an_unusable_recording_is_named_and_the_rest_scored(oracle, spoil, said):
    case_id = oracle.recorded()[0]
    spoil(episodes.stereo_path(oracle.episodes, case_id))
    scored = score_run(oracle)
    assert len(scored.problems) == 1 and said in scored.problems[0] and case_id in scored.problems[0]
    verdict = scored.verdicts.set_index("case")["verdict"]
    assert verdict[case_id] == "unmeasurable" and verdict.drop(case_id).eq("pass").all()


def test_a_run_shared_without_its_audio_keeps_its_spans(oracle):
    score_run(oracle)
    for path in oracle.episodes.glob("*.wav"):
        path.unlink()
    scored = score_run(oracle)
    assert not scored.problems and scored.verdicts["verdict"].eq("pass").all()


def test_audio_swapped_after_scoring_is_noticed(oracle):
    score_run(oracle)
    case_id = oracle.recorded()[0]
    soundfile.write(episodes.stereo_path(oracle.episodes, case_id), np.zeros((48000, 2), np.int16), 24000)
    assert "do not belong together" in score_run(oracle).problems[0]


def test_a_case_recorded_again_after_scoring_is_announced_until_scored_again(oracle):
    score_run(oracle)
    assert not any("after scoring" in warning for warning in gather([oracle.folder]).warnings)
    path = episodes.record_path(oracle.episodes, oracle.recorded()[0])
    path.write_text(path.read_text() + " ")
    told = "1 case was recorded after scoring; run `workbench score` again to count it."
    assert any(told in warning for warning in gather([oracle.folder]).warnings)
    with pytest.warns(UserWarning, match="1 case was recorded after scoring"):
        oracle.verdicts()
    assert wb.compare(first=oracle, second=oracle).notes == (f"first: {told}", f"second: {told}")
    score_run(oracle)
    assert not any("after scoring" in warning for warning in gather([oracle.folder]).warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        oracle.verdicts()


def test_a_half_written_run_is_scored_as_far_as_it_goes(oracle):
    gone = oracle.recorded()[3:]
    for case_id in gone:
        episodes.record_path(oracle.episodes, case_id).unlink()
    scored = score_run(oracle)
    reasons = scored.measurements.set_index("case")["reason"]
    assert reasons[gone].eq("not_recorded").all() and scored.verdicts["verdict"].value_counts()["pass"] == 3


def test_an_agents_error_is_not_a_fail(oracle):
    case_id = oracle.recorded()[0]
    path = episodes.record_path(oracle.episodes, case_id)
    raw = json.loads(path.read_text()) | {"status": "error", "error": {"kind": "dropped", "message": "gone"}}
    path.write_text(json.dumps(raw))
    scored = score_run(oracle)
    assert scored.measurements.set_index("case")["reason"][case_id] == "error: dropped"
    assert scored.verdicts.set_index("case")["verdict"][case_id] == "unmeasurable"


def test_a_run_scored_by_another_version_is_refused(oracle):
    score_run(oracle)
    path = oracle.scores / "score.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"scorer": "0"}))
    with pytest.raises(InputError, match="version '0' of the scorer"):
        load_scores(oracle)
    shutil.rmtree(oracle.scores)
    with pytest.raises(InputError, match="has not been scored"):
        load_scores(oracle)


def test_tables_and_csv_agree(oracle):
    score_run(oracle)
    csv = pd.read_csv((oracle.scores / MEASUREMENTS).with_suffix(".csv"))
    assert csv["genuine_s"].notna().sum() == oracle.measurements["genuine_s"].notna().sum()
    assert len(oracle.tables()["ias"]) == 1 and oracle.tables()["ias"].loc[0, "ias"] == 1.0


def test_audio_replaced_at_equal_length_is_found_by_its_checksum_before_and_after_scoring(oracle):
    case_id = oracle.recorded()[0]
    path = episodes.stereo_path(oracle.episodes, case_id)
    whole = path.read_bytes()
    for _ in ("before", "after"):
        path.write_bytes(whole[:5000] + b"\x11" * 2000 + whole[7000:])
        scored = score_run(oracle)
        assert len(scored.problems) == 1 and "has changed since it was recorded" in scored.problems[0]
        assert scored.measurements.set_index("case")["reason"][case_id] == "no_audio"
        path.write_bytes(whole)
        assert score_run(oracle).problems == []


def _changed(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path, other: path.write_bytes(other.read_bytes()), "is the record of another case"),
        (lambda path, other: _changed(path, system_prompt="Another."), "under another prompt or benchmark"),
        (lambda path, other: _changed(path, format=7), "its format 7 is of a newer workbench than this one"),
        (lambda path, other: _changed(path, duration_s=float("nan")), "field 'duration_s'"),
        (lambda path, other: _changed(path, windows={"trigger": [float("nan"), 1.0]}), "field 'windows.trigger.0'"),
        (lambda path, other: path.write_text("{half"), "not valid JSON"),
        (lambda path, other: path.write_text("[]"), "rec.json: "),
    ],
)
def test_a_record_that_cannot_be_this_cases_is_named_and_the_rest_scored(oracle, tiny_dataset, spoil, said):
    case_id, other = oracle.recorded()[:2]
    spoil(*(episodes.record_path(oracle.episodes, name) for name in (case_id, other)))
    scored = score_run(oracle)
    assert len(scored.problems) == 1 and said in scored.problems[0] and case_id in scored.problems[0]
    assert scored.measurements.set_index("case")["reason"][case_id] == "bad_record"
    assert scored.verdicts["verdict"].value_counts().to_dict() == {"pass": 11, "unmeasurable": 1}
    # Running again records that case and no other.
    again = factory("oracle", benchmark=contract.get("ifeval"))
    outcome = batch.run(batch.Plan(datasets.load(tiny_dataset), again, oracle.folder, concurrency=1))
    assert (outcome.recorded, outcome.kept) == (1, 11)
    assert score_run(oracle).verdicts["verdict"].eq("pass").all()


def test_what_was_imported_in_doubt_has_no_verdict_in_any_row(oracle):
    case_id = oracle.recorded()[0]
    _changed(episodes.record_path(oracle.episodes, case_id), unmeasurable="user_bleed")
    scored = score_run(oracle)
    assert scored.measurements.set_index("case")["reason"][case_id] == "user_bleed"
    row = scored.verdicts.set_index("case").loc[case_id]
    assert row["verdict"] == "unmeasurable" and "heard in the agent's channel" in row["reason"]


@pytest.mark.parametrize("name", ["measurements.parquet", "verdicts.parquet", "score.json"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"[]"])
def test_damaged_scores_are_a_sentence_with_the_remedy(oracle, name, content):
    score_run(oracle)
    (oracle.scores / name).write_bytes(content)
    with pytest.raises(InputError, match=name):
        load_scores(oracle)
    score_run(oracle)
    load_scores(oracle)


def test_a_run_whose_cases_were_cut_is_refused(oracle):
    path = oracle.folder / "cases.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(InputError, match=r"cases.jsonl is not the one that the run was made with"):
        load_run(oracle.folder)


def test_a_run_folder_of_the_future_is_refused_by_its_number(oracle):
    _changed(oracle.folder / "run.json", format=2, moods=["new"])
    with pytest.raises(InputError, match=r"run.json: .*its format 2 is of a newer workbench"):
        load_run(oracle.folder)


def test_a_run_of_an_earlier_version_opens_scores_and_goes_on(oracle, tiny_dataset):
    """Without the identity of content, and with records that know nothing of checksums and doubts."""
    meta = json.loads((oracle.folder / "run.json").read_text())
    content = meta["dataset"].pop("content")
    (oracle.folder / "run.json").write_text(json.dumps(meta))
    for case_id in oracle.recorded():
        path = episodes.record_path(oracle.episodes, case_id)
        raw = json.loads(path.read_text())
        assert raw.pop("audio_sha256") and raw.pop("unmeasurable", None) is None
        path.write_text(json.dumps(raw))
    run = load_run(oracle.folder)
    assert run.content == content and score_run(run).verdicts["verdict"].eq("pass").all()
    make = factory("oracle", benchmark=contract.get("ifeval"))
    outcome = batch.run(batch.Plan(datasets.load(tiny_dataset), make, run.folder, concurrency=1))
    assert (outcome.recorded, outcome.kept) == (0, 12)
