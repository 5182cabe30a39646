"""Compare, Sweep, Annotate, Overview, Share and exported pages in a real browser."""

import json
import re
from urllib.parse import urlsplit

import pytest
from browsing import ARGS, chromium, serve
from inspected_runs import HOSTILE, make_runs

from workbench.app import annotations
from workbench.app.export import export_bundle, export_case
from workbench.app.store import Store

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium is installed (apt-get install chromium, or set WORKBENCH_CHROMIUM)"
)
CASE = "R1_C2_i1_L1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def address(folder):
    with serve(folder) as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=ARGS)
        yield running
        running.close()


@pytest.fixture
def page(browser):
    """A page at 1280 px; fails the test on script errors and on any request to another host."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    faults, hosts = [], set()
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
    opened.set_default_timeout(30_000)
    yield opened
    wide = opened.evaluate("document.documentElement.scrollWidth")
    opened.close()
    assert faults == [] and hosts - {None, "localhost"} == set() and wide <= 1280


def until_address(page, part):
    page.wait_for_function("part => decodeURIComponent(location.href).includes(part)", arg=part)


DATA = """name => {
  const walk = (node) => {
    for (const each of node.querySelectorAll('*')) {
      if (each.dataset && each.dataset[name] !== undefined) return each.dataset[name];
      const inside = each.shadowRoot && walk(each.shadowRoot);
      if (inside !== null && inside !== undefined) return inside;
    }
    return null;
  };
  return walk(document);
}"""


def test_a_slider_turns_cases_and_a_click_opens_one(page, address):
    page.goto(f"{address}?view=sweep")
    slider = page.get_by_role("slider", name="max_wait_s")
    slider.wait_for()
    page.get_by_text("No verdict has turned.").wait_for()
    slider.focus()
    for _ in range(12):  # by keyboard: 2.0 to 2.6 s, past the answer at 2.6 s
        page.keyboard.press("ArrowRight")
    slider.fill("3")
    page.get_by_text("1–6 of 6 rows").wait_for()
    until_address(page, 'set={"max_wait_s":3')
    linked = page.url
    page.get_by_role("button", name="reset (r)").click()
    page.get_by_text("No verdict has turned.").wait_for()
    page.goto(linked)
    page.get_by_text("1–6 of 6 rows").wait_for()
    page.locator("tbody tr[data-place]").first.click()
    page.get_by_text("System prompt").wait_for()
    until_address(page, "run=slow")


def test_systems_are_stacked_and_heard_one_after_the_other(page, address):
    page.goto(f"{address}?view=compare&runs=[%22prompt%22,%22slow%22]")
    page.locator("tbody tr[data-place]").first.click()
    page.get_by_text("under each system").wait_for()
    page.get_by_text(re.compile(r"onset 2\.\d+ s after the window opened")).last.wait_for()
    second = page.get_by_role("radio", name="2 slow").or_(page.get_by_role("radio", name="hear slow (2)"))
    second.wait_for()
    page.keyboard.press(" ")
    page.wait_for_function(f"() => Number(({DATA})('time')) > 0.6")
    page.keyboard.press("2")
    until_address(page, "run=slow")
    page.wait_for_timeout(600)
    before = float(page.evaluate(DATA, "time"))
    assert before > 0.6, "the moment is kept"
    page.wait_for_function(f"t => Number(({DATA})('time')) > t + 0.2", arg=before)
    page.keyboard.press(" ")
    page.keyboard.press("w")
    until_address(page, "span=[4.2")
    page.keyboard.press("n")
    until_address(page, "case=R1_C2_i1_L2")


def test_annotations_are_saved_at_once_and_come_back(page, address, folder):
    page.goto(f"{address}?view=case&run=prompt&case={CASE}&t=2.5")
    page.get_by_text("System prompt").wait_for()
    page.get_by_role("button", name="agree with verdict", exact=True).click()
    page.get_by_text("Write your name first").wait_for()
    page.get_by_label("annotator's name").fill("Ann")
    page.get_by_label("annotator's name").press("Tab")
    page.get_by_role("button", name="disagree with verdict", exact=True).click()
    page.get_by_text(re.compile("saved .*verdict wrong")).wait_for()
    page.keyboard.press("a")
    page.get_by_text(re.compile("saved .*verdict right")).wait_for()
    page.wait_for_function(f"() => ({DATA})('time') === '2.500'")
    page.keyboard.press("m")
    page.get_by_role("button", name="2.50 s").wait_for()
    page.get_by_label("note", exact=True).fill(HOSTILE)
    page.get_by_label("note", exact=True).press("Control+Enter")
    page.get_by_text(re.compile("saved .*note")).wait_for()
    lines = [json.loads(line) for line in (folder / "prompt" / "annotations.jsonl").read_text().splitlines()]
    assert [(line["kind"], line["value"]) for line in lines[:2]] == [("verdict", "disagree"), ("verdict", "agree")]
    assert lines[2]["t_s"] == pytest.approx(2.5, abs=0.01) and lines[3]["value"] == HOSTILE
    assert lines[0]["saw"].startswith("pass: onset") and {line["annotator"] for line in lines} == {"Ann"}
    page.reload()
    page.get_by_role("button", name="2.50 s").wait_for()
    assert page.get_by_label("annotator's name").input_value() == "Ann"
    assert page.get_by_role("button", name="agree with verdict", exact=True).get_attribute("aria-pressed") == "true"
    page.goto(address)
    page.get_by_text("annotation", exact=True).first.wait_for()
    assert page.evaluate("typeof window.hacked") == "undefined" and page.locator("img[src=x]").count() == 0


def test_every_part_of_the_overview_opens(page, address):
    page.goto(f"{address}?view=overview&runs=[%22prompt%22,%22slow%22]")
    page.get_by_text("6/6").first.wait_for()
    page.get_by_role("button", name="IAS by level").click()
    page.locator("canvas").first.wait_for()
    page.get_by_role("button", name="Calibration matrix").click()
    page.get_by_text("verifier by run").wait_for()
    until_address(page, "part=calibration")


def test_share_gives_a_link_and_a_page(page, address, tmp_path):
    page.goto(f"{address}?view=share&run=prompt&case={CASE}")
    link = page.get_by_label("link to this view")
    link.wait_for()
    page.wait_for_function("() => true")
    assert link.input_value().startswith(address) and "view=case" in link.input_value()
    with page.expect_download() as got:
        page.get_by_role("button", name="download this case").or_(
            page.get_by_role("link", name="download this case")
        ).click()
    text = tmp_path / "case.html"
    got.value.save_as(text)
    assert "System prompt" in text.read_text()


@pytest.mark.parametrize("kind", ["single", "bundle"])
def test_an_exported_page_plays_without_a_server(page, folder, tmp_path, kind):
    annotations.append(
        folder / "prompt", annotations.change(annotator="Bob", case="R1_C2_i1_L2", kind="moment", t_s=7.0, value="here")
    )
    store, key = Store([folder]), ("prompt", "R1_C2_i1_L2", "")
    if kind == "single":
        path = export_case(store, key, tmp_path)
    else:
        index = export_bundle(store, [key, ("slow", CASE, "")], tmp_path)
        page.goto(index.as_uri())
        page.get_by_label("filter rows").fill("fail")
        assert page.locator("tbody tr:visible").count() == 1
        path = index.parent / "prompt__R1_C2_i1_L2.html"
    page.goto(path.as_uri())
    page.keyboard.press(" ")
    page.wait_for_function(f"() => Number(({DATA})('time')) > 0.5")
    page.get_by_label("channels to hear").select_option("agent")
    page.wait_for_timeout(500)
    reached = float(page.evaluate(DATA, "time"))
    page.wait_for_function(f"t => Number(({DATA})('time')) > t + 0.1", arg=reached)
    page.keyboard.press(" ")
    drawn = "document.querySelector('path.wb-agent').getAttribute('d')"
    before = page.evaluate(drawn)
    page.keyboard.press("w")
    page.wait_for_function(f"before => {drawn} !== before", arg=before)
    assert page.evaluate(drawn).count("L") > 1000, "the waveform is drawn again at the zoom"
    page.mouse.click(400, 100)
    page.wait_for_function(f"() => Number(({DATA})('time')) > 5")
    page.get_by_text("<script>window.hacked = 1</script>").first.wait_for()
    assert page.evaluate("typeof window.hacked") == "undefined" and page.locator("img").count() == 0
    assert page.get_by_text("Bob").count() >= 1


def test_a_recording_in_a_notebook_cell_plays_and_seeks(page, folder, tmp_path):
    from workbench.pictures.notebook import listen
    from workbench.runs import load_run

    html = listen(load_run(folder / "prompt"), "R1_C2_i1_L2", start_s=2.0).html
    cells = tmp_path / "cells.html"
    cells.write_text(f'<meta charset="utf-8"><body>{html}{html}</body>', encoding="utf-8")
    page.goto(cells.as_uri())
    second = page.locator(".wb-recording").nth(1)
    second.get_by_role("button", name="play or pause (space)").click()
    page.wait_for_function("() => Number(document.querySelectorAll('.wb-recording')[1].dataset.time) > 2.4")
    second.get_by_label("channels to hear").select_option("user")
    second.get_by_role("button", name="play or pause (space)").click()
    box = second.locator(".wb-picture").bounding_box()
    page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 60)
    page.wait_for_function("() => Number(document.querySelectorAll('.wb-recording')[1].dataset.time) > 8")
    assert page.evaluate("document.querySelector('.wb-recording').dataset.time") == "2.000", "the first is another"
    head = second.locator("line.wb-head").first.get_attribute("x1")
    assert 8 < float(head) < 10


UNNAMED = """() => {
  const walk = (node) => [...node.querySelectorAll('*')].some((each) =>
    each.matches('.noUi-handle:not([aria-label])') || (each.shadowRoot && walk(each.shadowRoot)));
  return !walk(document) && document.querySelector('[role=main]') !== null;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("view", "words"),
    [("cases", "1–17 of 17 rows"), ("case", "System prompt"), ("compare", "Rows on which they differ"),
     ("sweep", "No verdict has turned."), ("overview", "Configuration"), ("share", "What people said")],
)  # fmt: skip
def test_axe_finds_nothing_to_mend(page, address, view, words, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page.goto(f"{address}?view={view}&theme={theme}&runs=[%22prompt%22,%22slow%22]")
    page.get_by_text(words).locator("visible=true").first.wait_for()
    page.wait_for_function(UNNAMED)
    found = axe.run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:100]) for each in found] == []
