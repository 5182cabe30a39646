"""What people say of cases: saved at once, never overwritten, shown, filtered, exported; without a browser."""

import csv
import json
import multiprocessing
import os

import pytest
from inspected_runs import HOSTILE, make_runs
from textgrid import TextGrid

from workbench.app import annotation_files, annotations
from workbench.app.annotations import Change, append, change, columns, fold, of_row, read
from workbench.app.case_view import CaseView
from workbench.app.cases_view import CasesView
from workbench.app.store import Store
from workbench.app.workspace import Workspace
from workbench.contract import get
from workbench.errors import InputError
from workbench.judges.agreement import read_labels

CASE = "R1_C2_i1_L1"
KEY = ("prompt", CASE, "")


@pytest.fixture
def folder(tmp_path):
    return make_runs(tmp_path / "runs")


@pytest.fixture
def space(folder):
    store = Store([folder], readers=[columns])
    store.wait()
    return Workspace(store)


@pytest.fixture
def form(space):
    view = CaseView(space)
    space.select(KEY)
    view.annotate.form.annotator = "Ann"
    return view.annotate


def say(form, kind, value="", key=KEY, who="Ann", **more):
    form.form._handle_msg({"kind": kind, "value": value, "annotator": who, "key": list(key), **more})


def test_statements_add_up_and_the_history_stays(form, space, folder):
    say(form, "verdict", "disagree", saw="pass: onset 0.5 s")
    say(form, "verdict", "agree", saw="pass: onset 0.5 s")
    say(form, "label", "agent cut off")
    say(form, "score", "40")
    say(form, "moment", "", t_s=3.25)
    moment = form.form.own["moments"][0][0]
    say(form, "moment", "cut here", target=moment, t_s=3.25)
    say(form, "note", "a note\nof two lines")
    say(form, "judge", "disagree", target="pas-offline")
    own = form.form.own
    assert (own["verdict"], own["label"], own["score"], own["note"]) == (
        "agree",
        "agent cut off",
        "40",
        "a note\nof two lines",
    )
    assert own["moments"] == [[moment, 3.25, "cut here"]] and own["judges"] == {"pas-offline": "disagree"}
    say(form, "moment", "", target=moment)
    say(form, "judge", "", target="pas-offline")
    assert form.form.own["moments"] == [] and form.form.own["judges"] == {}
    assert len((folder / "prompt" / "annotations.jsonl").read_text().splitlines()) == 10 == len(form.form.history)
    assert form.form.history[-1].endswith("Ann: verdict wrong") and "taken back" in form.form.history[0]
    assert "saved" in form.form.told


def test_a_statement_lands_on_the_row_it_was_made_for(form, space, folder):
    space.step(1)
    say(form, "note", "late", key=KEY)
    assert of_row(folder / "prompt", CASE)[0][0].note == "late" and form.form.own == {}


def test_others_are_shown_and_moments_are_drawn(form, space, folder):
    append(folder / "prompt", change(annotator="Bob", case=CASE, kind="moment", t_s=2.0, value=HOSTILE))
    space.store.read_again(), space.refresh()
    assert form.form.others[0][0] == "Bob" and "\x1b" not in form.form.others[0][1]
    assert form.marks.data["x"] == [2.0] and "\x1b" not in form.marks.data["text"][0]
    space.step(1)
    assert form.marks.data["x"] == [] and form.form.others == []


@pytest.mark.parametrize(
    "wrong",
    [{"annotator": ""}, {"annotator": "  "}, {"kind": "spell"}, {"value": "maybe"}, {"value": "x" * 5000},
     {"key": ["prompt", "../../etc/passwd", ""]}, {"key": ["nothing", CASE, ""]}, {"key": "x"}, {"t_s": -1},
     {"t_s": "1;2"}, {"kind": "moment", "value": "", "t_s": None}, {"t_s": 1e400}],
)  # fmt: skip
def test_what_cannot_be_saved_is_told_and_leaves_no_file(form, folder, wrong):
    form.form._handle_msg({"kind": "verdict", "value": "agree", "annotator": "Ann", "key": list(KEY)} | wrong)
    form.form._handle_msg("nonsense")
    assert form.form.bad and form.form.told and not (folder / "prompt" / "annotations.jsonl").exists()


def _write(path, who, count):
    for number in range(count):
        append(path, change(annotator=who, case=CASE, kind="note", value=f"{who} {number} {'x' * 2000}"))


def test_two_sessions_that_write_at_once_lose_nothing(folder):
    writers = [
        multiprocessing.get_context("spawn").Process(target=_write, args=(folder / "prompt", who, 40)) for who in "abc"
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    history, problems = read(folder / "prompt")
    assert len(history) == 120 and not problems
    assert [said.note[:4] for said in sorted(of_row(folder / "prompt", CASE)[0], key=lambda s: s.annotator)] == [
        "a 39",
        "b 39",
        "c 39",
    ]


def test_a_line_cut_short_costs_only_itself(folder):
    path = folder / "prompt" / annotations.NAME
    append(folder / "prompt", change(annotator="a", case=CASE, kind="note", value="one"))
    with path.open("a") as stream:
        stream.write('{"format": 1, "annotator": "a", "ca')
    append(folder / "prompt", change(annotator="a", case=CASE, kind="note", value="two"))
    history, problems = read(folder / "prompt")
    assert [each.value for each in history] == ["one", "two"] and len(problems) == 1 and "line 2" in problems[0]
    store = Store([folder], readers=[columns])
    assert any("annotations.jsonl, line 2" in problem for problem in store.runs["prompt"].problems)


def test_a_folder_that_cannot_be_written_is_said(form, folder, monkeypatch):
    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    say(form, "verdict", "agree")
    assert form.form.bad and "cannot be written" in form.form.told


def test_annotations_are_filters_and_are_searched(form, space):
    say(form, "verdict", "disagree")
    say(form, "note", "The WINDOW is misplaced")
    say(form, "label", "odd")
    view = CasesView(space)
    counts = dict(space.table.counts(space.filters)["annotation"])
    assert counts["disagrees with verdict, labelled, note"] == 1
    assert dict(space.table.counts(space.filters)["own_label"])["odd"] == 1
    space.chosen = {"annotation": ["disagrees with verdict, labelled, note"]}
    assert len(space.rows) == 1 and view.table.rows[0][1] == CASE
    space.chosen, space.words = {}, "window misplaced"
    assert len(space.rows) == 1
    space.words = "all right"
    assert len(space.rows) > 1, "transcripts are still searched"


def test_annotating_does_not_read_the_run_again(form, space, folder):
    rows = space.store.runs["prompt"]
    say(form, "verdict", "agree")
    space.store._looked = 0
    assert space.store.refresh() is False and space.store.runs["prompt"] is rows
    append(folder / "prompt", change(annotator="another process", case=CASE, kind="note", value="x"))
    space.store._looked = 0
    assert space.store.refresh() is True


def test_annotating_does_not_stop_the_player(form, space):
    view = form.view
    playing = view.player.systems
    say(form, "verdict", "agree")
    assert view.player.systems == playing and view.detail.row["annotation"] == "agrees with verdict"


# -- files that others read ----------------------------------------------------------------------


def test_csv_feeds_the_check_of_a_judge(form, space, folder, tmp_path):
    benchmark = get("ifeval")
    judge = benchmark.judges[0]
    say(form, "label", judge.labels[0])
    say(form, "score", "40")
    say(form, "label", "something of my own", who="Bob")
    say(form, "verdict", "agree", key=("prompt", "R1_C2_i2_L1", ""))
    say(form, "note", "=HYPERLINK(evil)", key=("prompt", "R1_C2_i2_L1", ""))
    path = tmp_path / "labels.csv"
    annotation_files.write_table(path, annotation_files.table("prompt", folder / "prompt", benchmark))
    people = read_labels(path, judge, dict.fromkeys([CASE, "R1_C2_i2_L1"]))
    said = {"case": CASE, "item": "", "annotator": "Ann", "score": 40.0, "label": judge.labels[0]}
    assert people.to_dict("records") == [said]
    rows = list(csv.DictReader(path.open()))
    assert [row["own_label"] for row in rows if row["annotator"] == "Bob"] == ["something of my own"]
    assert [row["note"] for row in rows if row["note"]] == ["'=HYPERLINK(evil)"]
    assert [row["verdict"] for row in rows if row["case"] == "R1_C2_i2_L1"] == ["agree"]


def test_textgrid_and_audacity_labels_can_be_read(form, space, folder, tmp_path):
    say(form, "moment", 'He said "stop"\tthere\n', t_s=3.25)
    say(form, "moment", "again", t_s=3.25, who="Bob")
    written = {path.name: path for path in annotation_files.write_run(space.store, "prompt", tmp_path / "out")}
    assert set(written) == {"annotations.csv", f"{CASE}.TextGrid", f"{CASE}.labels.txt"}
    labels = [line.split("\t") for line in written[f"{CASE}.labels.txt"].read_text().splitlines()]
    assert all(len(line) == 3 and float(line[0]) <= float(line[1]) for line in labels)
    assert ["3.250000", "3.250000", 'Ann: He said "stop" there'] in labels
    assert ["6.000000", "9.000000", "window"] in labels
    grid = TextGrid.fromFile(str(written[f"{CASE}.TextGrid"]))
    tiers = {tier.name: tier for tier in grid.tiers}
    assert set(tiers) == {"user", "agent", "window", "moments Ann", "moments Bob"}
    assert [(each.time, each.mark) for each in tiers["moments Ann"]] == [(3.25, 'He said "stop" there')]
    assert [round(each.minTime, 3) for each in tiers["window"] if each.mark == "window"] == [6.0]
    assert tiers["window"][0].minTime == 0 and tiers["window"][-1].maxTime == pytest.approx(10.0, abs=0.01)


@pytest.mark.parametrize(
    "label",
    ["item [2]:", "points [1]:", '"', 'a "IntervalTier" b', 'text = "x"', 'mark = "', "<exists>", "ä 中"],
)
def test_a_textgrid_holds_any_label_at_full_precision(label, tmp_path):
    points = {f"moments {label}": [(1.0000123456, label), (1.0000123457, label), (1.0000123457, "again")]}
    made = annotation_files.textgrid(10.123456789, points, {"user": [(1.25, 1.7512345678, label), (3.0, 4.0, label)]})
    made.write(str(tmp_path / "x.TextGrid"))
    read = TextGrid()
    read.read(str(tmp_path / "x.TextGrid"), round_digits=12)
    user, moments = read.tiers
    found = [(each.minTime, each.maxTime, each.mark) for each in user]
    assert found == [(0.0, 1.25, ""), (1.25, 1.7512345678, label), (1.7512345678, 3.0, ""), (3.0, 4.0, label),
                     (4.0, 10.123456789, "")]  # fmt: skip
    both = ", ".join(sorted([label, "again"]))
    assert [(each.time, each.mark) for each in moments] == [(1.0000123456, label), (1.0000123457, both)]
    assert moments.name == f"moments {label}".replace('"', "'")


def test_nothing_to_export_is_said(space, tmp_path):
    with pytest.raises(InputError, match="annotated yet"):
        annotation_files.write_run(space.store, "slow", tmp_path)


def test_lines_are_plain_json_and_a_person_speaks_for_themselves():
    lines = [change(annotator=who, case=CASE, kind="verdict", value=value) for who, value in
             (("a", "agree"), ("b", "disagree"), ("a", ""))]  # fmt: skip
    assert json.loads(lines[0].model_dump_json())["annotator"] == "a"
    assert Change.model_validate_json(lines[0].model_dump_json()) == lines[0]
    assert [said.annotator for said in fold(lines)[CASE, "", ""]] == ["b"]
