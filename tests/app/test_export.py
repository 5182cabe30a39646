"""Cases as pages, links and bundles; the overview; the notebook's door. Without a browser."""

import base64
import io
import json
import re
import socket
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from inspected_runs import HOSTILE, make_runs
from typer import Typer
from typer.testing import CliRunner

from workbench.app import annotations
from workbench.app.detail import load_detail
from workbench.app.export import case_page, export_bundle, export_case, ogg, page_name
from workbench.app.inspecting import inspect
from workbench.app.overview_view import OverviewView
from workbench.app.share_view import ShareView
from workbench.app.store import Store
from workbench.app.workspace import Workspace
from workbench.cli.inspecting import export
from workbench.errors import InputError
from workbench.runs import load_run

FIRST = ("prompt", "R1_C2_i1_L1", "")


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S).group(1))


def test_a_page_holds_everything_and_asks_nobody(store):
    page = case_page(store, FIRST)
    assert (
        not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", page) and "http:" not in page and "https://" not in page
    )
    assert "default-src 'none'" in page and "System prompt" in page and "All right" not in page.split("<main>")[0]
    assert len(page) < 400_000
    data = data_of(page)
    sound, rate = soundfile.read(
        io.BytesIO(base64.b64decode(re.search(r'<audio[^>]* src="data:[^,]*,([^"]*)"', page).group(1)))
    )
    assert sound.shape[1] == 2 and abs(len(sound) / rate - data["last"]) < 0.05
    loud = np.abs(sound[int(6.6 * rate) : int(7.4 * rate)]).max(axis=0)
    assert loud[1] > 0.005 > loud[0], "the agent speaks on channel 1, the user does not"
    peaks = [np.frombuffer(base64.b64decode(text), np.int8).reshape(-1, 2) for text in data["peaks"]]
    assert [len(each) for each in peaks] == [2000, 2000] and peaks[0][900].tolist()[1] > 60 > 0 > peaks[0][900][0]
    assert data["window"] == [6.0, 9.0] and "limit 2 s" in page
    assert page.count("agent speech (VAD)") == 1


def test_hostile_words_are_text_in_a_page(tmp_path):
    folder = make_runs(tmp_path / "runs")
    annotations.append(
        folder / "prompt", annotations.change(annotator=HOSTILE[:60], case=FIRST[1], kind="note", value=HOSTILE)
    )
    annotations.append(
        folder / "prompt", annotations.change(annotator="a", case=FIRST[1], kind="moment", t_s=1.0, value=HOSTILE)
    )
    store = Store([folder])
    for case in ("R1_C2_i1_L1", "R1_C2_i1_L2"):
        page = case_page(store, ("prompt", case, ""))
        assert "<img" not in page and "\x1b" not in page and "window.hacked = 1&lt;/script" in page
        scripts = re.findall(r"<script([^>]*)>", page)
        nonce = re.search(r"'nonce-([^']+)'", page).group(1)
        assert len(scripts) == 3 and all(nonce in attributes for attributes in scripts)
        data_of(page)


@pytest.mark.parametrize("number", range(1, 6))
def test_cases_with_gaps_make_pages_too(store, number):
    page = case_page(store, ("gaps", f"R1_C2_i{number}_L2", ""))
    assert "Missing" in page and ("<audio" not in page) == (number != 3)


def test_a_bundle_has_an_index_pages_and_sound(store, tmp_path):
    keys = [FIRST, ("slow", "R1_C2_i2_L1", "")]
    done = []
    index = export_bundle(store, keys, tmp_path / "out", title=HOSTILE, told=lambda: done.append(1))
    text = index.read_text()
    assert "<script>window" not in text and len(done) == 2
    links = re.findall(r'<td><a href="([^"]+)"', text)
    assert links == ["prompt__R1_C2_i1_L1.html", "slow__R1_C2_i2_L1.html"]
    for link in links:
        page = (index.parent / link).read_text()
        for side, where in data_of(page)["audio"].items():
            sound, _ = soundfile.read(index.parent / where)
            assert (sound.ndim == 2) == (side == "both")
        assert 'href="index.html"' in page
    with pytest.raises(InputError, match="nothing to export"):
        export_bundle(store, [], tmp_path)


def test_names_of_pages_are_safe():
    assert page_name(("../run", "a.b", "e:1/2"), with_run=True) == "___run__a_b__e_1_2"
    assert page_name(FIRST) == "R1_C2_i1_L1" and len(page_name(("r", "c" * 400, ""))) <= 150


def test_one_side_alone_is_mono_and_nothing_is_none(store):
    detail = load_detail(store, FIRST)
    sound, _ = soundfile.read(io.BytesIO(ogg(detail, "agent")))
    assert sound.ndim == 1 and ogg(load_detail(store, ("gaps", "R1_C2_i2_L2", "")), "both") is None
    with pytest.raises(InputError, match="no case"):
        export_case(store, ("prompt", "nothing", ""), Path("unused"))


def test_the_command_exports_a_case_the_failed_and_annotations(tmp_path):
    folder = make_runs(tmp_path / "runs")
    app = Typer()
    app.command()(export)
    run = lambda *words: CliRunner().invoke(app, [*map(str, words)])  # noqa: E731
    assert run(folder / "slow", "--case", "R1_C2_i1_L1", "--out", tmp_path / "one.html").exit_code == 0
    assert (tmp_path / "one.html").stat().st_size > 20_000
    assert run(folder / "slow", "--failed", "--out", tmp_path / "all").exit_code == 0
    assert len(list((tmp_path / "all").glob("*.html"))) == 7 and len(list((tmp_path / "all" / "audio").iterdir())) == 18
    refused = {
        "no case 'nope'": (folder / "slow", "--case", "nope"),
        "Say what to export": (folder / "slow",),
        "not a run": (folder, "--failed"),
        "annotated yet": (folder / "slow", "--annotations"),
    }
    for said, words in refused.items():
        outcome = run(*words, "--out", tmp_path / "x")
        assert isinstance(outcome.exception, InputError) and said in str(outcome.exception)


def test_share_offers_links_the_case_and_the_rows(store):
    space = Workspace(store, run="prompt", case=FIRST[1], chosen={"run": ["slow"], "level": ["L1"]}, theme="dark")
    view = ShareView(space)
    view.of.value = "compare"
    assert view.link.query.startswith("?view=compare&run=prompt&case=R1_C2_i1_L1") and "theme=dark" in view.link.query
    view.of.value = "cases"
    assert "view=" not in view.link.query
    assert b"System prompt" in view._case_page().getvalue() and view.page.filename == "R1_C2_i1_L1.html"
    view.make_bundle()
    names = zipfile.ZipFile(io.BytesIO(view._zip)).namelist()
    assert "index.html" in names and sum(name.endswith(".html") for name in names) == 4 and view.bundle.visible
    space.chosen = {"run": ["slow"]}
    assert not view.bundle.visible and view._zip == b""
    assert set(zipfile.ZipFile(view._case_labels()).namelist()) == {"R1_C2_i1_L1.TextGrid", "R1_C2_i1_L1.labels.txt"}
    assert view.table.disabled


def test_overview_shows_every_part_with_counts(store):
    space = Workspace(store, together=["prompt", "slow"])
    view = OverviewView(space)
    parts = list(view.sections.options.values())
    assert {"ias", "ias_by_action", "unmeasurable", "calibration", "judges", "configuration"} <= set(parts)
    for part in parts:
        space.section = part
        assert "<script" not in view.text.object
    space.section = "ias"
    assert "6/6" in view.text.object and "0/6" in view.text.object
    space.section = "ias_by_level"
    assert len(view.pictures) == 1
    shown = view.pictures[0]
    view.press("n"), view.press("p")
    assert view.pictures[0] is shown, "a picture is made once"
    space.together = ["prompt", "gaps"]
    assert "different datasets" in view.told.object and view.gathered is None


def test_the_notebook_gets_a_frame_that_is_served(runs_folder):
    shown = inspect(load_run(runs_folder / "prompt"), view="sweep", thresholds={"max_wait_s": 3.0})
    try:
        assert "view=sweep" in shown.url and "<iframe" in shown._repr_html_() and repr(shown).startswith("Inspector at")
        assert b"Duplex Workbench" in urllib.request.urlopen(shown.url, timeout=60).read()
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(shown.url.split("/inspector-")[0] + "/inspector", timeout=20)
    finally:
        shown.stop()
    for wrong in ([], 5, "no such folder"):
        with pytest.raises(InputError):
            inspect(wrong)
    with pytest.raises(InputError, match="cannot open that"):
        inspect(runs_folder, nothing=1)
    with socket.socket() as taken, pytest.raises(InputError, match="cannot be used"):
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        inspect(runs_folder, port=taken.getsockname()[1])
