"""The inspector without a browser: params are set, sources and texts are read."""

import html
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from inspected_runs import ENERGY, HOSTILE, make_case, make_runs, record, start_run, stereo

from workbench import episodes
from workbench.analysis.detectors import sentence
from workbench.app import case_texts, files, filters
from workbench.app.case_view import CaseView
from workbench.app.cases_view import CasesView, strip
from workbench.app.detail import load_detail
from workbench.app.shell import Shell
from workbench.app.store import Store, key_of
from workbench.app.workspace import Workspace, read_query, to_query
from workbench.errors import InputError
from workbench.pictures import peaks, texts
from workbench.pictures.recording import Picture
from workbench.pictures.theme import DARK, LIGHT
from workbench.runs import load_run, read_folder, read_scores
from workbench.scoring import score_run

FIRST = ("prompt", "R1_C2_i1_L1", "")


@pytest.fixture
def space(store):
    return Workspace(store)


# -- reading runs --------------------------------------------------------------------------------


def test_one_frame_of_all_runs_keyed_by_run_case_and_event(store):
    assert len(store.frame) == 6 + 6 + 5
    assert not store.frame.duplicated(["run", "case", "event"]).any()
    row = store.row(FIRST)
    assert (row.verdict, row.level, row.action, row.judge_score) == ("pass", "L1", "TAKE_TURN", 62.5)
    assert row.latency_s == pytest.approx(0.5, abs=0.08)
    assert store.row(("slow", *FIRST[1:])).verdict == "fail"


def test_gaps_are_named_and_never_raise(store):
    rows = store.frame[store.frame.run == "gaps"].set_index("case")
    assert rows.verdict.tolist() == ["not scored"] * 4 + ["not recorded"]
    assert rows.error["R1_C2_i1_L2"] == "agent_exception" and rows.error["R1_C2_i4_L2"] == "unreadable record"
    assert "4 of 5 cases are recorded." in store.runs["gaps"].problems
    missing = {case: " ".join(load_detail(store, ("gaps", case, "")).missing) for case in rows.index}
    assert "The episode failed (agent_exception)" in missing["R1_C2_i1_L2"]
    assert "no audio" in missing["R1_C2_i2_L2"] and "gives no text" in missing["R1_C2_i2_L2"]
    assert "No speech spans" in missing["R1_C2_i3_L2"] and "No judge" in missing["R1_C2_i3_L2"]
    assert "not valid JSON" in missing["R1_C2_i4_L2"]
    assert "not been recorded" in missing["R1_C2_i5_L2"]
    assert "choose a row" in " ".join(load_detail(store, ("gaps", "nothing", "")).missing)


def test_every_gap_opens_in_the_case_view(space):
    view = CaseView(space)
    for _, row in space.frame[space.frame.run == "gaps"].iterrows():
        space.select(("gaps", row.case, ""))
        assert "Missing" in view.side.object
        view.press("s"), view.press("w"), view.press("s")


def test_a_run_that_is_being_written_is_read_again(tmp_path):
    cases = [make_case(1), make_case(2)]
    folder = start_run(tmp_path / "runs" / "growing", cases)
    store = Store([tmp_path / "runs"])
    space = Workspace(store)
    view = CasesView(space)
    assert store.frame.verdict.tolist() == ["not recorded"] * 2 and store.refresh(force=False) is False
    episodes.save(folder / "episodes", record(cases[0], "hello"), stereo(6.5))
    store._looked = 0
    assert space.refresh() and store.frame.verdict.tolist() == ["not scored", "not recorded"]
    store.wait()
    score_run(load_run(folder), ENERGY, workers=1)
    store._looked = 0
    assert space.refresh() and store.frame.verdict.tolist() == ["pass", "not recorded"]
    assert view.table.rows[0][view_columns(view).index("verdict")] == "pass"
    store._looked = 0
    assert not space.refresh()


def test_damaged_lines_and_dangerous_ids_are_left_out_and_said(tmp_path):
    folder = start_run(tmp_path / "run", [make_case(1)])
    with (folder / "cases.jsonl").open("a") as stream:
        stream.write(make_case(2).model_dump_json().replace("R1_C2_i2_L2", "../../etc/passwd") + "\n{broken\n")
    store = Store([folder])
    assert len(store.frame) == 1 and len([p for p in store.runs["run"].problems if "cases.jsonl, line" in p]) == 2


def test_one_reader_says_what_the_strict_one_refuses(runs_folder, tmp_path):
    folder = Path(shutil.copytree(runs_folder / "prompt", tmp_path / "prompt"))
    whole = read_folder(folder)
    assert not whole.problems and len(whole.recorded) == len(whole.cases) == 6 and not read_scores(folder).problem
    (folder / "scores" / "verdicts.parquet").write_bytes(b"nothing")
    with (folder / "cases.jsonl").open("a") as stream:
        stream.write("{broken\n")
    assert "verdicts.parquet cannot be read" in read_scores(folder).problem
    assert len(read_folder(folder).cases) == 6 and "line 7" in read_folder(folder).problems[0]
    with pytest.raises(InputError, match="line 7"):
        load_run(folder)
    shutil.rmtree(folder)
    assert len(read_folder(folder).problems) == 2 and "has not been scored" in read_scores(folder).problem


def test_a_server_without_the_route_gets_the_sound_itself(space):
    view = CaseView(space)
    space.select(FIRST)
    assert view.player.systems[0]["src"].startswith("wb-files/") and "wb-files" in view.side.object
    Shell(space)._unserved()
    assert view.player.systems[0]["src"].startswith("data:audio/flac;base64,") and "wb-files" not in view.side.object
    assert "workbench inspect RUNS" in space.message


def test_an_empty_folder_says_so_and_a_missing_one_is_refused(tmp_path):
    space = Workspace(Store([tmp_path]))
    assert "no run" in CasesView(space).notes.object and not len(space.rows)
    CaseView(space)
    with pytest.raises(InputError, match="not a folder"):
        Store([tmp_path / "nothing"])


def test_readers_add_columns_such_as_annotations(runs_folder):
    def reader(run):
        return pd.DataFrame({"case": ["R1_C2_i1_L1"], "event": [""], "annotation": [f"agree {run.name}"]})

    store = Store([runs_folder], readers=[reader])
    assert store.row(FIRST).annotation == "agree prompt" and store.row(("prompt", "R1_C2_i1_L2", "")).annotation == ""


# -- filters -------------------------------------------------------------------------------------


def test_filters_narrow_rows_and_counts_follow_the_other_filters(space):
    space.chosen = {"run": ["prompt", "slow"], "verdict": ["fail"]}
    assert len(space.rows) == 6 and set(space.frame.run.iloc[space.rows]) == {"slow"}
    counts = {name: dict(pairs) for name, pairs in space.table.counts(space.filters).items()}
    assert counts["run"] == {"gaps": 0, "prompt": 0, "slow": 6}
    assert counts["verdict"]["pass"] == 6 and counts["verdict"]["fail"] == 6
    assert counts["level"] == {"L1": 3, "L2": 3}
    space.ranges = {"latency_s": [0.0, 1.0]}
    assert len(space.rows) == 0
    space.clear()
    assert len(space.rows) == 17


def test_search_reaches_transcripts_and_rationales(space):
    space.words = 'right "NUMBER 3"'
    assert {case for case in space.frame.case.iloc[space.rows]} == {"R1_C2_i2_L2"}
    space.words = "kept the tone"
    assert {case for case in space.frame.case.iloc[space.rows]} == {"R1_C2_i1_L1"}
    space.words = "no such words (["
    assert len(space.rows) == 0


def test_rows_are_walked_in_the_order_shown(space):
    space.chosen, space.sort = {"run": ["prompt", "slow"]}, "-latency_s"
    values = space.frame.latency_s.iloc[space.rows].to_numpy()
    assert (np.diff(values) <= 0).all()
    space.step(1)
    assert space.position == 0 and space.run == "slow"
    space.step(1), space.step(1)
    assert space.position == 2
    for _ in range(30):
        space.step(1)
    assert space.position == len(space.rows) - 1
    space.chosen = {"run": ["prompt"], "level": ["L1"]}
    keys = [key_of(space.frame.iloc[row]) for row in space.rows]
    space.select(keys[0])
    space.step(-1)
    assert space.key == keys[0]


def test_missing_values_sort_last_both_ways(space):
    for sort in ("latency_s", "-latency_s"):
        space.sort = sort
        values = space.frame.latency_s.iloc[space.rows].to_numpy()
        assert np.isnan(values[-5:]).all() and not np.isnan(values[:12]).any()


def test_pass_rates_follow_the_filter(space):
    rates = filters.pass_rates(space.frame, ["run"]).set_index("run")
    assert rates.loc["prompt", ["passed", "measured"]].tolist() == [6, 6] and rates.loc["gaps", "measured"] == 0
    assert np.isnan(rates.loc["gaps", "rate"])
    assert "6/6" in strip(space.frame, "level") and "none of 5 measured" in strip(space.frame, "level")


def test_a_rate_has_the_interval_of_the_report(runs_folder, space):
    run = load_run(runs_folder / "slow")
    told = run.tables({"max_wait_s": 9.0})["ias_by_level"].set_index("level")
    decided = run.verdicts({"max_wait_s": 9.0})["verdict"].tolist()
    rows = space.frame[space.frame["run"] == "slow"].assign(verdict=decided)
    found = filters.pass_rates(rows, ["level"]).set_index("level")
    for level in ("L1", "L2"):
        assert found.loc[level, ["passed", "measured"]].tolist() == told.loc[level, ["passed", "measured"]].tolist()
        assert found.loc[level, ["low", "high"]].tolist() == pytest.approx(told.loc[level, ["low", "high"]].tolist())


def view_columns(view):
    return [name for name, _, _ in view.table.columns]


def test_table_pages_and_opens_the_row_that_was_clicked(space):
    view = CasesView(space)
    view.table.size = 5
    space.sort = "case"
    view.table.page = 2
    case = view.table.rows[1][view_columns(view).index("case")]
    view.table._handle_msg({"open": 11})
    assert space.view == "case" and space.case == case and view.table.selected == 11
    space.step(-1), space.step(-1)
    assert view.table.page == 1 and view.table.selected == 9
    view.table._handle_msg({"open": 999})
    view.table._handle_msg({"open": "x"})
    assert space.position == 9
    view.facets.chosen = {"run": ["prompt"]}
    assert view.table.total == 6 and view.table.page <= 1


# -- links ---------------------------------------------------------------------------------------


def test_state_survives_a_link(store, space):
    space.param.update(view="case", run="slow", case="R1_C2_i2_L1", words="a b&c", sort="-latency_s",
                       theme="dark", at_s=3.25, span=[1.0, 2.5], chosen={"level": ["L1"]},
                       ranges={"latency_s": [0.5, 3.0]})  # fmt: skip
    other = Workspace(store)
    assert read_query(other, to_query(space)) == []
    assert to_query(other) == to_query(space) and other.chosen == space.chosen and other.span == [1.0, 2.5]
    assert to_query(Workspace(store)) == ""


@pytest.mark.parametrize(
    "query",
    ["?span=[2,1]", "?span=5", "?t=null1", "?only=[1]", "?only={%22a%22:1}", "?within={%22a%22:[1]}", "?theme=red",
     "?t=1e99", "?only=" + "[" * 3000, "?t=true", "?x=" + "y" * 9000],
)  # fmt: skip
def test_bad_links_are_told_and_change_nothing(space, query):
    before = to_query(space)
    assert read_query(space, query)
    assert to_query(space) == before


def test_unknown_names_and_facets_in_a_link_are_harmless(space):
    assert read_query(space, "?evil=1&only={%22nothing%22:[%22x%22]}&sort=nothing&view=nothing&by=nothing") == []
    assert len(space.rows) == 17
    assert Shell(space).open is not None


# -- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["../slow/run.json", "episodes/../run.json", "/etc/passwd", "episodes//etc/passwd", "..", "", ".", "episodes",
     "episodes/..%2f..%2frun.json", "episodes/.hidden.json", "episodes\\..\\run.json", "cases.json", "notes.txt",
     "episodes/a.html", "scores/score.json\x00.wav", "secret/run.json", "~/x.json", "C:/x.json"],
)  # fmt: skip
def test_paths_outside_a_run_are_refused(runs_folder, path):
    with pytest.raises(InputError):
        files.safe_path(runs_folder / "prompt", path)


def test_links_out_of_a_run_are_refused_and_real_files_served(tmp_path):
    folder = start_run(tmp_path / "runs" / "run", [make_case(1)])
    outside = tmp_path / "secret.json"
    outside.write_text("{}")
    os.symlink(outside, folder / "episodes" / "leak.json")
    os.symlink(tmp_path, folder / "scores")
    for path in ("episodes/leak.json", "scores/secret.json"):
        with pytest.raises(InputError, match="leads out"):
            files.safe_path(folder, path)
    assert files.safe_path(folder, "run.json") == (folder / "run.json").resolve()


def test_a_run_that_is_a_link_out_of_the_folder_is_not_opened(tmp_path):
    start_run(tmp_path / "elsewhere" / "run", [make_case(1)])
    (tmp_path / "runs").mkdir()
    os.symlink(tmp_path / "elsewhere" / "run", tmp_path / "runs" / "linked")
    store = Store([tmp_path / "runs"])
    assert not store.runs and "is a link out of" in store.problems[0]


# -- hostile words -------------------------------------------------------------------------------


def _safe(markup: str) -> bool:
    return "<script" not in markup and "<img" not in markup and "\x1b" not in markup


def test_words_of_models_are_escaped_everywhere(store, space):
    space.words = "<script>"
    cases = CasesView(space)
    assert _safe(cases.strip.object + cases.notes.object)
    view = CaseView(space)
    for run, case in (("prompt", "R1_C2_i1_L1"), ("prompt", "R1_C2_i1_L2"), ("gaps", "R1_C2_i1_L2")):
        space.select((run, case, ""))
        shown = view.side.object + view.under.object + view.head.object + view.note.object
        assert _safe(shown) and "&lt;script&gt;" in shown
        drawn = str([dict(source.data) for name, source in view.wave.lanes[0].sources.items() if "wave" not in name])
        assert "\\x1b" not in drawn
    assert "javascript:" not in "".join(re.findall(r'href="([^"]*)"', shown))


def test_controls_and_direction_marks_become_visible():
    assert texts.plain("a\x1b[31mb\x00c\u202ed\n") == "a␛[31mb␀c[U+202E]d\n"
    assert texts.esc("<a href='x'>") == "&lt;a href=&#x27;x&#x27;&gt;"
    assert texts.plain("x" * 30, 10) == "x" * 10 + " [20 more characters]"
    assert texts.highlight("<b> say <b>", "<b>").count("<mark>&lt;b&gt;</mark>") == 2
    assert texts.script("Go <pause:2.5s> <script>").count("wb-mark") == 2
    assert _safe(texts.script(HOSTILE)) and _safe(texts.pairs({HOSTILE: HOSTILE}))


# -- the picture ---------------------------------------------------------------------------------


def test_columns_hold_every_extreme_at_any_zoom():
    rng = np.random.default_rng(1)
    samples = rng.integers(-3000, 3000, (24_000 * 20, 2)).astype(np.int16)
    samples[300_000, 1] = 32767
    recording = peaks.make(samples, 24_000)
    for start, end in ((0, 20), (12, 13), (12.49, 12.51), (12.4999, 12.5001)):
        columns = recording.columns(1, start, end)
        assert columns["high"].max() == pytest.approx(32767 / 32768) and len(columns["x"]) <= peaks.COLUMNS
        part = samples[round(start * 24_000) : round(end * 24_000), 1]
        assert columns["low"].min() <= part.min() / 32768 + 1e-6
    assert len(recording.columns(0, 30, 40)["x"]) == 0
    assert recording.spectrogram(0, 0, 20).shape == (peaks.BANDS, 600)


def test_a_tone_stands_at_its_frequency_in_the_spectrogram():
    t = np.arange(24_000 * 2) / 24_000
    tone = np.stack([np.sin(2 * np.pi * 2000 * t), 0 * t], axis=1) * 20000
    recording = peaks.make(tone.astype(np.int16), 24_000)
    assert abs(int(recording.spectrogram(0, 0, 2).mean(axis=1).argmax()) - peaks.BANDS // 4) <= 1
    assert recording.spectrogram(1, 0, 2).max() == 0


def test_sources_hold_window_limit_spans_words_and_events(store):
    wave, detail = Picture(LIGHT, tall=True), load_detail(store, FIRST)
    wave.show([detail])
    wave.fit()
    data = {name: source.data for name, source in wave.lanes[0].sources.items()}
    assert data["windows"]["left"] == [6.0] and data["windows"]["right"] == [9.0]
    assert dict(zip(data["lines"]["x"], data["lines"]["text"], strict=True))[8.0] == "limit 2 s"
    assert "onset" in " ".join(data["line_labels"]["text"])
    assert [kind for kind in data["agent_spans"]["what"] if "utterance" in kind]
    assert len(data["user_words"]["left"]) == 2 and data["user_labels"]["label"][0].startswith("Hello")
    assert data["events"]["x"] == [0.0, 8.0] and data["cues"]["x"] == [0.0, 2.0, 4.0, 6.0]
    assert (
        "agent 47" in detail.loudness.replace("agent 48", "agent 47") and np.abs(data["agent_wave"]["high"]).max() > 0.9
    )
    wave.zoom_to_window()
    assert wave.span == [pytest.approx(4.2), pytest.approx(wave.whole[1])] or wave.span[0] == pytest.approx(4.2)
    assert wave.lanes[0].sources["agent_wave"].data["x"].min() > 3


def test_sources_are_light_and_figures_are_not_built_again(space):
    view = CaseView(space)
    space.select(FIRST)
    layout, sources = view.wave.layout, view.wave.lanes[0].sources
    space.step(1)
    assert view.wave.layout is layout and view.wave.lanes[0].sources is sources
    size = sum(np.asarray(column).nbytes for name, source in sources.items() for column in source.data.values())
    assert size < 120_000


def test_viewport_refills_and_lands_in_the_link(space):
    view = CaseView(space)
    space.select(FIRST)
    view.player.viewport = [6.0, 7.0]
    assert view.wave.span == [6.0, 7.0] and space.span == [6.0, 7.0]
    view.player.viewport = [7.0, 6.0]
    assert space.span == [6.0, 7.0]
    view.player.viewport = list(view.wave.whole)
    assert space.span == []
    view.player.time = 2.5
    assert "t=2.5" in to_query(space)
    space.step(1)
    assert space.at_s is None


def test_player_gets_an_address_and_no_sound_in_the_page(space):
    view = CaseView(space)
    space.select(FIRST)
    assert re.fullmatch(
        r"wb-files/[0-9a-f]{10}/[0-9a-f]{12}/episodes/R1_C2_i1_L1\.stereo\.wav", view.player.systems[0]["src"]
    )
    space.select(("gaps", "R1_C2_i2_L2", ""))
    assert view.player.systems[0]["src"] == ""


def test_keys_of_the_case(space):
    view = CaseView(space)
    space.select(FIRST)
    for key in ("2", "l", "]", "]", "]", "]", "s"):
        view.press(key)
    assert (view.player.channel, view.player.loop, view.player.speed, view.wave.spectrogram) == (
        "user",
        True,
        2.0,
        True,
    )
    assert view.wave.lanes[0].images["user"].visible and not view.wave.lanes[0].waves["user"].visible
    assert view.wave.lanes[0].sources["user_image"].data["image"][0].dtype == np.uint8


def test_shell_walks_rows_and_keeps_views(space):
    shell = Shell(space)
    shell.press("j")
    assert space.position == 0
    shell.press("Enter")
    assert space.view == "case" and isinstance(shell.open, CaseView)
    shell.press("ArrowDown")
    assert space.position == 1 and shell.open.detail.key == space.key
    case_view = shell.open
    shell.press("Escape")
    assert space.view == "cases" and not case_view.active
    shell.press("j")
    assert case_view.detail.key != space.key
    space.view = "case"
    assert shell.open is case_view and case_view.detail.key == space.key
    shell.press("?")
    assert shell.guide.visible


def test_verdict_says_why_and_where_it_flips(store):
    detail = load_detail(store, ("slow", *FIRST[1:]))
    said = case_texts.beside(detail, store)
    assert re.search(r"onset 2\.\d+ s after the window opened; limit 2\.0 s", said) and "✗ fail" in said
    assert f'<div class="wb-muted">{html.escape(sentence(ENERGY))}</div>' in said
    assert re.search(r"passes with longest wait at least 2\.\d+ s", said) and "62.5" not in said.split("Judge")[0]
    assert "62.5" in said and "no language model" in said


def test_a_case_is_shown_at_the_thresholds_that_its_run_was_scored_with(tmp_path):
    case = make_case(1)
    folder = start_run(tmp_path / "runs" / "patient", [case])
    episodes.save(folder / "episodes", record(case), stereo(8.6))
    score_run(load_run(folder), ENERGY, {"max_wait_s": 2.8}, workers=1)
    detail = load_detail(Store([tmp_path / "runs"]), ("patient", case.id, ""))
    assert detail.row["verdict"] == "pass" and detail.limits["max_wait_s"] == 2.8
    assert [mark.words for mark in detail.marks if mark.kind == "limit"] == ["limit 2.8 s"]
    assert re.search(r"longest wait at least 2\.\d+ s", detail.flip)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_both_themes_build(store, theme):
    wave = Picture(theme, tall=True)
    wave.show([load_detail(store, FIRST)])
    assert wave.lanes[0].waves["user"].glyph.fill_color == theme.user


def test_a_large_table_is_filtered_as_a_small_one(space):
    frame = pd.concat([space.store.frame] * 1200, ignore_index=True)
    table = filters.Table(frame, pd.Series(["some words"] * len(frame)), space.table.columns)
    assert len(table.keep(filters.Filters({"run": ("slow",)}, {"latency_s": (0, 9)}))) == 1200 * 6
    counts = dict(table.counts(filters.Filters({"run": ("slow",)}))["verdict"])
    assert counts["fail"] == 1200 * 6 and counts["pass"] == 0


def test_made_runs_are_whole(tmp_path):
    assert {path.name for path in make_runs(tmp_path / "again").iterdir()} == {"prompt", "slow", "gaps"}
