"""A benchmark of another hand in every view of the inspector, in a browser: columns, thresholds, metrics, judge."""

import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from browsing import ARGS, chromium, serve

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium is installed (apt-get install chromium, or set WORKBENCH_CHROMIUM)"
)
VIEWS = {
    "cases": ["kind of turn", "hasty", "kindness", "24"],
    "case&run=oracle&case=calm_greeting_1&metric=prompt": ["✓ pass", "All rows of this case", "Kindness of the answer"],
    "compare&runs=[%22oracle%22,%22contrary%22]": [
        "contrary against oracle",
        "Rows on which they differ: 24 of 24",
        "metric",
    ],
    "sweep&runs=[%22oracle%22,%22contrary%22]": ["answer within", "said at most", "No verdict has turned."],
    "overview&runs=[%22oracle%22,%22contrary%22]": ["Rates by mood", "Hasty users wait less."],
    "share&run=oracle&case=calm_greeting_1&metric=prompt": ["download this case"],
}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    command = [sys.executable, "-m", "workbench", "demo", "--benchmark", "toy", "--out", str(folder / "demo")]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with serve(folder / "demo" / "runs", how="command") as url:
        yield url


@pytest.fixture
def page(address):
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGS)
        opened = browser.new_page(viewport={"width": 1280, "height": 900})
        faults, hosts = [], set()
        opened.on("pageerror", lambda error: faults.append(str(error)))
        opened.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
        opened.set_default_timeout(60_000)
        yield opened
        browser.close()
        assert faults == [] and hosts - {None, "localhost"} == set()


def test_every_view_speaks_its_words(page, address):
    for view, words in VIEWS.items():
        page.goto(f"{address}?view={view}")
        for each in words:
            page.get_by_text(each).locator("visible=true").first.wait_for()


def test_a_threshold_of_its_own_turns_rows_and_one_opens(page, address):
    page.goto(f"{address}?view=sweep&runs=[%22oracle%22,%22contrary%22]")
    slider = page.get_by_role("slider", name="answer within")
    slider.wait_for()
    page.get_by_text("No verdict has turned.").wait_for()
    slider.fill("0.1")
    # Six cases carry a limit of their own, which the general one does not move.
    page.get_by_text("1–6 of 6 rows").wait_for()
    page.locator("tbody tr[data-place]").locator("visible=true").first.click()
    page.get_by_text("All rows of this case").wait_for()
    page.wait_for_function("() => decodeURIComponent(location.href).includes('metric=prompt')")


def test_rows_that_differ_are_named_by_metric(page, address):
    page.goto(f"{address}?view=compare&runs=[%22oracle%22,%22contrary%22]")
    page.get_by_text("Rows on which they differ: 24 of 24").wait_for()
    page.locator("tbody tr[data-place]").locator("visible=true").nth(1).click()
    page.get_by_text("under each system").wait_for()
    page.wait_for_function("() => decodeURIComponent(location.href).includes('metric=')")
