"""Benchmarks with several rows a case: Duplex-MPE in the store, in a case and in Cases, without a browser."""

import re

import numpy as np
import pandas as pd
import pytest
from inspected_runs import ENERGY, make_case, start_run
from inspected_runs import record as ifeval_record
from inspected_runs import stereo as ifeval_stereo

from workbench import episodes
from workbench.app import annotation_files, annotations, case_texts
from workbench.app.case_view import CaseView
from workbench.app.cases_view import CasesView
from workbench.app.detail import load_detail
from workbench.app.store import KEY, Store
from workbench.app.workspace import Workspace, read_query, to_query
from workbench.benchmarks.duplexmpe.rules import steps as chain
from workbench.cases import RATE_HZ, AfterGap, AtTime, AudioRef, Case, Cue, Segment, Window
from workbench.contract import get
from workbench.episodes import AgentInfo, EpisodeRecord, PlayedCue, Sends
from workbench.files import read_json, write_json
from workbench.judges.agreement import read_labels
from workbench.runs import load_run
from workbench.scoring import score_run

TURNS = (("t00", "N2", "Ann", 1, 3), ("t01", "T", "<b>Bo</b>", 4, 6), ("t02", "N4_Q", "Ann", 14, 16),
         ("t03", "N4_R", "Bo", 19, 22))  # fmt: skip
ROWS = [("0", "silence"), ("1", "fresh_onset"), ("1", "fresh_onset_permissive"), ("1", "response_presence"),
        ("2", "window_response"), ("3", "yield")]  # fmt: skip


def mpe_case(condition: str) -> Case:
    cues = [
        Cue(id=cue, text=f"Words of {cue}.", label=label, speaker="hibari:low",
            start=AtTime(time_s=start) if cue == "t00" else AfterGap(gap_s=1),
            audio=AudioRef(path=f"audio/{cue}.wav", sha256="0" * 64, samples=(end - start) * RATE_HZ),
            segments=(Segment(kind="speech", text=f"Words of {cue}.", start_s=0, end_s=end - start),))
        for cue, label, _, start, end in TURNS
    ]  # fmt: skip
    return Case(
        id=f"s1_{condition}", benchmark="duplex-mpe", conversation="s1", stream=f"s1_{condition}", cues=tuple(cues),
        windows={"onset.01": Window(cue="t01", start_s=2, end_s=7),
                 "silence.00": Window(cue="t00", start_s=0, end_s=2.5)},
        expect={"gold": "Three hours.", "accept": ("three",), "speakers": ("Ann", "<b>Bo</b>"),
                "turns": [{"cue": cue, "label": label, "speaker": who} for cue, label, who, _, _ in TURNS]},
        tags={"scenario": "s1", "condition": condition, "bucket": 2, "speakers": 3, "setting": "kitchen"},
    )  # fmt: skip


def mpe_record(case: Case) -> EpisodeRecord:
    return EpisodeRecord(
        case=case.id, benchmark="duplex-mpe", status="complete", clock="virtual", policy="as_played",
        agent=AgentInfo(name="made", version="1"), placement="arrival", system_prompt="", duration_s=26.0,
        windows={"onset.01": (6.0, 11.0), "silence.00": (1.0, 3.5)}, workbench="0",
        started="2026-01-01T00:00:00+00:00", sends=Sends(frame_samples=480, frames=1300), transcript=(),
        cues=tuple(PlayedCue(id=cue, start_s=start, end_s=end) for cue, _, _, start, end in TURNS),
    )  # fmt: skip


def sound(spans) -> np.ndarray:
    noise = np.random.default_rng(0).uniform(-1, 1, 26 * RATE_HZ)
    out = np.zeros((len(noise), 2))
    for channel, pairs in enumerate(([turn[3:] for turn in TURNS], spans)):
        for start, end in pairs:
            out[round(start * RATE_HZ) : round(end * RATE_HZ), channel] = 0.5
    return (out * noise[:, None] * 32767).astype(np.int16)


@pytest.fixture(scope="module")
def mpe(tmp_path_factory):
    """A run whose explicit case yields, and whose implicit one speaks during the question; and an IFEval run."""
    root = tmp_path_factory.mktemp("mpe")
    cases = [mpe_case("explicit"), mpe_case("implicit")]
    folder = start_run(root / "streams", cases)
    meta = read_json(folder / "run.json")
    write_json(folder / "run.json", meta | {"benchmark": "duplex-mpe"})
    for case, spans in zip(cases, ([(7, 9), (17, 20)], [(7, 9), (15, 20)]), strict=True):
        episodes.save(folder / "episodes", mpe_record(case), sound(spans))
    score_run(load_run(folder), ENERGY, workers=1)
    other = start_run(root / "single", [make_case(1)])
    episodes.save(other / "episodes", ifeval_record(make_case(1)), ifeval_stereo(6.5))
    score_run(load_run(other), ENERGY, workers=1)
    store = Store([root])
    store.wait()
    return store


YIELD = ("streams", "s1_explicit", "3", "yield")


def test_each_metric_of_a_turn_is_a_row_of_its_own(mpe):
    assert len(mpe.frame) == 2 * len(ROWS) + 1 and not mpe.frame.duplicated(list(KEY)).any()
    rows = mpe.frame[mpe.frame.case == "s1_explicit"]
    assert list(zip(rows.event, rows.metric, strict=True)) == ROWS
    assert rows.turn_label.tolist() == ["N2", "T", "T", "T", "N4_Q", "N4_R"] and (rows.verdict == "pass").all()
    row = mpe.row(("streams", "s1_explicit", "1", "fresh_onset"))
    assert row.latency_s == pytest.approx(1.0, abs=0.1)
    assert mpe.row(YIELD).latency_s == pytest.approx(1.0, abs=0.1)
    assert mpe.row(("streams", "s1_explicit")) is None
    assert mpe.row(("single", "R1_C2_i1_L2")).metric == "" and mpe.row(("single", "R1_C2_i1_L2", "", "")).level == "L2"


def test_filters_come_from_tags_and_counts_stay_counts(mpe):
    space = Workspace(mpe)
    assert {"metric", "turn_label", "condition", "bucket", "speakers", "level"} <= set(space.table.facets)
    assert space.table.values("bucket") == ["", "2"] and space.table.values("condition") == ["", "explicit", "implicit"]
    space.chosen = {"metric": ["yield"], "bucket": ["2"]}
    assert mpe.frame.verdict.iloc[space.rows].tolist() == ["pass", "not_eligible"]
    view = CasesView(space)
    shown = [name for name, _, _ in view.table.columns]
    assert shown[:3] == ["run", "case", "event"] and {"metric", "turn_label", "condition"} < set(shown)
    space.param.update(chosen={"run": ["streams"]}, by="condition")
    assert "streams · yield" in view.strip.object and "1/1" in view.strip.object
    space.by = "metric"
    assert "12 rows of several metrics" in view.strip.object


def test_the_key_with_its_metric_survives_a_link(mpe):
    space, other = Workspace(mpe), Workspace(mpe)
    space.select(YIELD, open_case=True)
    assert "metric=yield" in to_query(space) and read_query(other, to_query(space)) == []
    assert other.key == YIELD and other.position == space.position is not None


def test_a_case_lists_its_rows_and_a_click_shows_one(mpe):
    space = Workspace(mpe)
    space.select(YIELD)
    view = CaseView(space)
    assert view.about_others.visible and len(view.others.rows) == len(ROWS) and view.others.selected == 5
    space.span = [1.0, 20.0]
    view.others._handle_msg({"open": 3})
    assert (
        space.key == ("streams", "s1_explicit", "1", "response_presence") and view.detail.row["metric"] == space.metric
    )
    assert space.span == [1.0, 20.0] and view.others.selected == 3
    view.others._handle_msg({"open": 6})
    space.select(("single", "R1_C2_i1_L2", "", ""))
    assert not view.about_others.visible and not view.others.rows


def test_turns_windows_and_chain_are_shown(mpe):
    space = Workspace(mpe)
    space.select(YIELD)
    view = CaseView(space)
    data = {name: source.data for name, source in view.wave.lanes[0].sources.items()}
    assert data["windows"]["left"][0] == pytest.approx(19.0) and len(data["windows"]["left"]) == 3
    assert data["windows"]["alpha"][0] > 0.4 and max(data["windows"]["alpha"][1:]) < 0.2
    labels = data["user_labels"]["label"]
    assert labels[0].startswith("N2") and labels[3].startswith("N4_R") and "t03 N4_R Bo" in data["user_text"]["what"][3]
    said = view.side.object
    assert "Does this event count?" in said and "The event counts." in said and "Three hours." in said
    assert "<b>Bo</b>" not in said + view.under.object and "<dd>N4_R</dd>" in said
    assert "t03 N4_R Bo" in view.under.object
    left = case_texts.beside(load_detail(mpe, ("streams", "s1_implicit", "3", "yield")), mpe)
    assert "here the event left the denominator" in left and left.count("not asked") == 2
    assert len(re.findall("not eligible", left)) == 1
    silence = load_detail(mpe, ("streams", "s1_explicit", "0", "silence"))
    assert silence.window == pytest.approx((1.0, 3.5)) and not silence.steps


def test_the_chain_says_what_a_cut_recording_leaves_open():
    row = {"metric": "yield", "reason": None, "quiet_question": True, "began_in_gap": None}
    assert [step.passed for step in chain(row)] == [True, None, None]
    assert [step.words.split(":")[0] for step in chain(row)][1:] == ["not known", "not asked"]
    assert chain(row | {"reason": "outside"}) == [] and chain({"metric": "silence"}) == []


def test_labels_of_several_rows_of_an_event_go_to_each_judge(mpe, tmp_path):
    benchmark = get("duplex-mpe")
    first, second = annotation_files.labelling(benchmark)[:2]
    folder = mpe.runs["streams"].folder
    for metric, label, date in (
        ("fresh_onset", first.labels[0], "2026-01-01"),
        ("response_presence", first.labels[1], "2026-01-02"),
        ("fresh_onset_permissive", next(each for each in second.labels if each not in first.labels), "2026-01-03"),
    ):
        where = {"case": "s1_explicit", "event": "1", "metric": metric}
        annotations.append(folder, annotations.change(annotator="Ann", kind="label", value=label, date=date, **where))
    written = {path.name: path for path in annotation_files.write_run(mpe, "streams", tmp_path)}
    for judge, label in ((first, first.labels[1]), (second, None)):
        frame = pd.read_csv(written[f"annotations.{judge.name}.csv"], keep_default_na=False)
        assert len(frame) == 3 and set(frame["metric"]) == {
            "fresh_onset",
            "response_presence",
            "fresh_onset_permissive",
        }
        people = read_labels(written[f"annotations.{judge.name}.csv"], judge, {"s1_explicit": None})
        assert len(people) == 1 and (label is None or people["label"].tolist() == [label])
    assert first.labels[0] in pd.read_csv(written[f"annotations.{first.name}.csv"])["own_label"].tolist()
