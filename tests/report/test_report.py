"""The report over synthetic runs: its page, files and terminal agree, and hostile text stays text."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
import scored_runs as made
from bokeh.models import ColumnDataSource
from inspected_runs import make_runs
from rich.console import Console

from workbench.analysis.detectors import sentence
from workbench.errors import InputError
from workbench.files import read_json, write_json
from workbench.report import gather, write_report
from workbench.report.charts import drawn
from workbench.runs import load_run
from workbench.vad import VadSettings

CASES = 96
"""Every cell at L1 and L2."""


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """Another dataset: every cell at L2 only."""
    return made.dataset(tmp_path_factory.mktemp("small") / "data", limit=48)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    source = made.dataset(root / "data", limit=CASES)
    return {
        "mine": made.run(source, root / "mine", made.mixed, settings={"greeting": made.HOSTILE}),
        "oracle": made.run(source, root / "oracle", made.oracle, agent="oracle", privileged=True),
        "contrary": made.run(source, root / "contrary", made.contrary, agent="contrary", privileged=True),
        "nothing": made.run(source, root / "nothing", made.nothing),
    }


@pytest.fixture(scope="module")
def three(runs, tmp_path_factory) -> tuple[str, Path, str]:
    """The page, the folder and what the terminal showed, of three runs."""
    out = tmp_path_factory.mktemp("report")
    console = Console(file=io.StringIO(), width=100)
    page = write_report([runs["mine"], runs["oracle"], runs["contrary"]], out, console=console)
    return page.read_text(encoding="utf-8"), out, console.file.getvalue()


class Cells(HTMLParser):
    """(table, key, run) -> (passed, measured) of every cell that carries them."""

    def __init__(self, page: str):
        super().__init__()
        self.found: dict[tuple[str, str, str], tuple[int, int]] = {}
        self.tags: list[tuple[str, dict]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if "data-passed" in attributes:
            key = attributes["data-table"], attributes["data-key"], attributes["data-run"]
            self.found[key] = int(attributes["data-passed"]), int(attributes["data-measured"])


def embedded(page: str, name: str):
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S).group(1))


def test_the_numbers_of_page_and_files_are_the_same(three):
    page, out, _ = three
    cells = Cells(page).found
    seen = 0
    for name, label in (
        ("ias_by_level", "level"),
        ("ias_by_action", "action"),
        ("ias_by_role", "role"),
        ("calibration", "action"),
    ):
        for row in pd.read_parquet(out / "tables" / f"{name}.parquet").to_dict("records"):
            assert cells[name, row[label], row["run"]] == (row["passed"], row["measured"]), (name, row)
            seen += 1
    assert seen > 50
    overall = pd.read_parquet(out / "tables" / "ias.parquet").set_index("run")
    assert overall.loc["oracle", "passed"] == overall.loc["oracle", "measured"] == CASES
    assert overall.loc["contrary", "passed"] == 0
    assert 0 < overall.loc["mine", "excluded"] < CASES
    assert f"{100 * overall.loc['mine', 'ias']:.1f} %" in page


def test_every_table_has_its_runs_in_both_formats(three):
    _, out, _ = three
    names = {path.stem for path in (out / "tables").glob("*.parquet")}
    assert names == {path.stem for path in (out / "tables").glob("*.csv")}
    assert {"ias", "ias_by_level", "entailment_gap", "unmeasurable", "floor", "calibration", "cases"} <= names
    for name in names:
        frame = pd.read_parquet(out / "tables" / f"{name}.parquet")
        assert frame.columns[0] == "run"
        assert list(pd.read_csv(out / "tables" / f"{name}.csv").columns) == list(frame.columns)


def test_hostile_text_is_never_markup(three):
    page, out, _ = three
    assert made.HOSTILE not in page
    assert "<script>alert" not in page and "<img src=x" not in page
    assert "&lt;script&gt;alert" in page  # from the agent's settings, in the configuration
    columns = embedded(page, "case-data")["columns"]
    assert made.HOSTILE in columns["first_words"]["values"]
    nonce = re.search(r"script-src 'nonce-([^']+)'", page).group(1)
    scripts = [attributes for tag, attributes in Cells(page).tags if tag == "script"]
    assert all(item.get("nonce") == nonce or item.get("type") == "application/json" for item in scripts)
    assert (pd.read_csv(out / "tables" / "cases.csv")["first_words"] == made.HOSTILE).sum() > 30


def test_the_page_needs_no_network(three):
    page, _, _ = three
    for tag, attributes in Cells(page).tags:
        assert not attributes.get("src"), (tag, attributes)
        assert tag != "link"
        assert not str(attributes.get("href", "#")).startswith(("http", "//"))
    assert "default-src 'none'" in page


def test_the_script_gets_every_case(three):
    page, _, _ = three
    data = embedded(page, "case-data")
    assert data["count"] == 3 * CASES and data["order"][:2] == ["run", "case"]
    assert all(len(column["codes"]) == 3 * CASES for column in data["columns"].values())
    reasons = data["columns"]["reason"]
    assert any("onset 0.40 s after the window opened" in text for text in reasons["values"])


def test_pictures_stand_where_the_page_expects_them(three):
    page, _, _ = three
    items = embedded(page, "bokeh-items")
    wanted = {element for item in items for element in item["roots"].values()}
    placed = {attributes["id"] for tag, attributes in Cells(page).tags if attributes.get("class") == "figure"}
    assert wanted == placed and len(placed) >= 12
    titles = json.dumps(embedded(page, "bokeh-docs"))
    assert "IAS by level: share of measured cases that pass" in titles and "n = " in titles


def test_calibration_states_the_expectation_and_meets_it(three, runs):
    page, _, shown = three
    found = gather([runs["mine"], runs["oracle"], runs["contrary"]]).calibration
    assert found.exceptions.empty
    met = found.matrix[found.matrix["run"] != "mine"]["met"]
    assert met.map(lambda value: value is True).all()
    assert found.matrix.loc[found.matrix["run"] == "mine", "met"].isna().all()
    assert "at least 98 % expected to pass" in page and "at least 98 % expected to pass" in shown
    assert "None: every case of the reference agents came out as expected." in page


def test_exceptions_are_listed_with_their_reason(small, tmp_path):
    odd = "R1_C2_i1_L2"
    bad = made.run(
        small,
        tmp_path / "flawed",
        lambda case: made.SILENT if case.id == odd else made.oracle(case),
        agent="oracle",
        privileged=True,
    )
    found = gather([bad]).calibration
    assert found.exceptions["case"].tolist() == [odd]
    assert "no onset inside the window" in found.exceptions["reason"].item()
    page = write_report([bad], tmp_path / "out").read_text()
    assert odd in page and "not as expected" in page
    named_only = made.run(small, tmp_path / "named", made.contrary, agent="oracle", privileged=False)
    assert gather([named_only]).calibration.exceptions.empty  # an agent of that name that was told nothing


def test_one_run(runs, tmp_path):
    console = Console(file=io.StringIO(), width=80)
    page = write_report([runs["mine"]], tmp_path, console=console).read_text()
    shown = console.file.getvalue()
    assert "Neither reference agent is among these runs" in page
    for words in ("IAS by level", "IAS by expected action", "IAS by role", "IAS on matched audio", "Entailment Gap"):
        assert words in shown and words in page
    assert "no_model_onset" in shown and "no_model_onset" in page
    assert "Published figures" in page and "Conflict Profile" in page  # the notes on reading
    assert "No judge has spoken" in page


def test_nothing_measured(runs, tmp_path):
    page = write_report([runs["nothing"]], tmp_path, console=Console(file=io.StringIO())).read_text()
    overall = pd.read_parquet(tmp_path / "tables" / "ias.parquet")
    assert overall["measured"].item() == 0 and overall["excluded"].item() == CASES
    assert overall["ias"].isna().all()
    assert "not measured" in page and f"0/0, {CASES} excluded" in page
    assert "Nothing was measured." in page


def test_a_judge_is_named_wherever_it_speaks(runs, tmp_path):
    import shutil

    from workbench.judges.records import JudgeRecord, write_record

    judged = tmp_path / "judged"
    shutil.copytree(runs["mine"], judged)
    folder = judged / "judgements" / "pas-someone"
    folder.mkdir(parents=True)
    record = JudgeRecord(
        judge="pas",
        benchmark="ifeval",
        kind="offline",
        model="word-list",
        host=None,
        parameters={},
        prompt_sha256="a" * 64,
        prompt={},
    )
    write_record(folder, record)
    page = write_report([judged], tmp_path / "out").read_text()
    assert "judged by word-list (a lexical baseline, no language model)" in page
    assert f"{CASES} of {CASES} cases are not judged yet." in page
    frame = pd.read_parquet(tmp_path / "out" / "tables" / "judge_pas.parquet")
    assert frame["judge"].str.startswith("word-list").all() and (frame["run"] == "judged").all()
    write_json(folder / "judge.json", {"judge": "pas"})  # damaged: a sentence in the report, not its end
    [broken] = gather([judged]).judged
    assert broken.spoke == "unreadable" and "judge.json" in broken.problems[0]


def test_different_datasets_are_refused(runs, small, tmp_path):
    other = made.run(small, tmp_path / "other", made.oracle)
    with pytest.raises(InputError, match="runs of different datasets"):
        write_report([runs["mine"], other], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bad_requests_are_sentences(runs, tmp_path):
    with pytest.raises(InputError, match="given twice"):
        write_report([runs["mine"], runs["mine"]], tmp_path)
    with pytest.raises(InputError, match="at least one run"):
        write_report([], tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        write_report([tmp_path / "absent"], tmp_path)


def test_settings_that_differ_are_announced(runs, tmp_path):
    import shutil

    other = tmp_path / "mine"
    shutil.copytree(runs["mine"], other)
    score = read_json(other / "scores" / "score.json")
    score["thresholds"]["max_wait_s"] = 2.5
    write_json(other / "scores" / "score.json", score)
    gathered = gather([runs["mine"], other])
    assert any("thresholds" in warning for warning in gathered.warnings)
    assert len(set(gathered.names)) == 2 and all(name.endswith("/mine") for name in gathered.names)


def test_the_bias_of_every_detector_is_stated_on_page_and_terminal(runs, tmp_path):
    import shutil

    other = tmp_path / "other"
    shutil.copytree(runs["mine"], other)
    score = read_json(other / "scores" / "score.json")
    usual = sentence(score["vad"])
    score["vad"] |= {"detector": "silero", "threshold": 0.3}
    write_json(other / "scores" / "score.json", score)
    assert gather([runs["mine"]]).detector_notes == [usual]
    console = Console(record=True, width=400)
    page = write_report([runs["mine"], other], tmp_path / "report", console=console).read_text(encoding="utf-8")
    for said in (f"mine: {usual}", f"other: {sentence(VadSettings(threshold=0.3))}"):
        assert said in page and said in console.export_text(clear=False)


def test_tables_without_a_section_stand_in_their_own_order(runs):
    found = gather([runs["mine"]])
    more = {name: pd.DataFrame({"run": ["mine"]}) for name in ("zeta", "alpha", "mu", "beta", "omega")}
    shown = [section.name for section in replace(found, tables=found.tables | more).sections]
    assert shown[-5:] == list(more) and len(set(shown)) == len(shown)


def test_a_run_scored_with_other_thresholds_shows_those_numbers(runs, tmp_path):
    """What the report shows of a run is what its own tables say, at the thresholds that it was scored with."""
    source = runs["mine"].parent / "data"
    tight = made.run(source, tmp_path / "tight", made.mixed, thresholds={"max_wait_s": 0.1})
    found = gather([tight])
    own = load_run(tight).tables()["ias"].iloc[0]
    [shown] = found.tables["ias"].to_dict("records")
    assert (shown["passed"], shown["measured"], shown["ias"]) == (own["passed"], own["measured"], own["ias"])
    [usual] = gather([runs["mine"]]).tables["ias"].to_dict("records")
    assert shown["passed"] < usual["passed"], "the limit of 0.1 s fails what answers after 0.4 s"


def test_charts_come_from_the_sections_that_the_benchmark_declares(runs):
    found = gather([runs["mine"], runs["oracle"]])
    sections = {section.name: section for section in found.sections}
    titles = [made.title.text for made in drawn(found, sections["entailment_gap"])]
    assert len(titles) == 2 and all("95 % intervals" in title for title in titles)
    heat = drawn(found, sections["ias_by_action_and_level"])
    assert [picture.title.text.rpartition(": ")[2].split()[0] for picture in heat] == ["mine", "oracle"]
    [bars] = drawn(found, sections["ias_by_role"])
    assert any(place.startswith("R1 ") for place in bars.y_range.factors), "with the role's long name"
    assert len(drawn(found, sections["latency"])) == 2 and not drawn(found, sections["unmeasurable"])
    rule = replace(found.benchmark.rule["TAKE_TURN"], latency="genuine_s")
    plain = replace(found.benchmark, latencies=None, rules=(rule,))
    [generic] = drawn(replace(found, benchmark=plain), sections["latency"])
    limits = [source.data["x0"] for source in generic.select({"type": ColumnDataSource}) if "x0" in source.data]
    assert generic.title.text.startswith("genuine: ") and 2.0 in limits[0]


def test_a_failing_case_is_drawn_with_its_marks(tmp_path):
    """The worked example is the recording's own picture, with the window and limit that the benchmark marks."""
    page = write_report([make_runs(tmp_path / "runs") / "slow"], tmp_path / "out").read_text(encoding="utf-8")
    [about, picture] = re.search(
        r'<p class="about">(TAKE_TURN: [^<]*)</p>(<div class="wb-rec.*?</div>)', page, re.S
    ).groups()
    assert "R1_C2_i1_L1 in slow" in about and "onset 2." in about
    assert "scored window, 6.000 to 9.000 s" in picture and ">limit 2 s<" in picture and "wb-wave" in picture
