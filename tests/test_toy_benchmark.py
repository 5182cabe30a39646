"""The proof of the contract: a benchmark of another hand goes through everything that the house offers."""

import json
import subprocess
import sys

import pandas as pd
import pytest

import workbench as wb
from workbench import brought, contract
from workbench.analysis.detectors import Setting
from workbench.errors import InputError
from workbench.runs import load_scores
from workbench.vad import VadSettings


def command(*arguments, cwd, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "workbench", *map(str, arguments)], cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """The folder in which `workbench demo` built, ran, scored, judged and reported the toy benchmark."""
    folder = tmp_path_factory.mktemp("toy")
    command("demo", "--benchmark", "toy", "--out", folder / "demo", cwd=folder)
    return folder / "demo"


@pytest.fixture
def runs(toy):
    return wb.load_run(toy / "runs" / "oracle"), wb.load_run(toy / "runs" / "contrary")


def test_it_is_found_by_its_entry_point():
    assert {"ifeval", "duplex-mpe", "toy"} <= set(contract.names())
    with pytest.raises(InputError, match="There is no benchmark 'tay'"):
        contract.get("tay")


def test_validate_counts_what_it_declares(toy):
    found = json.loads(command("validate", "dataset", "--json", cwd=toy))
    assert found["cases"] == 12 and found["by_mood"] == {"calm": 6, "hasty": 6} and found["problems"] == []


def test_its_oracle_passes_and_its_contrary_fails_every_rule(runs):
    right, wrong = (run.verdicts() for run in runs)
    assert len(right) == 24 and right["verdict"].eq("pass").all() and wrong["verdict"].eq("fail").all()
    assert set(right["metric"]) == {"prompt", "kind"}


def test_a_verdict_that_hangs_on_a_missing_judgement_is_unmeasurable_and_where_it_cannot_change_it_stands(runs):
    measured = load_scores(runs[0])[0].drop(columns="kindness")
    measured.loc[measured["metric"] == "kind", "said_s"] = [9.0] + [1.0] * 11
    from workbench.deciding import Decider

    decided = Decider(runs[0].benchmark, measured).verdicts().query("metric == 'kind'")
    assert decided["verdict"].tolist() == ["fail"] + ["unmeasurable"] * 11
    assert decided["reason"].iloc[1].startswith("not judged")


def test_a_threshold_of_a_case_rules_over_the_general_one(runs):
    found = runs[0].verdicts({"answer_within_s": 0.1}).query("metric == 'prompt'").set_index("case")
    assert found.loc["calm_greeting_1", "verdict"] == "fail"
    assert found.loc["hasty_greeting_1", "verdict"] == "pass" and found.loc["hasty_greeting_1", "limit_value"] == 1.2


def test_sweep_ranking_comparison_and_sensitivity(runs):
    swept = wb.sweep(runs)
    assert len(swept.settings) == 6 and swept.summary()["order_kept"] == 1.0
    flip = wb.ranking_flips(runs, "most_said_s")
    assert flip.threshold == "most_said_s"
    tests = wb.compare(*runs).tests().set_index("metric")
    assert tests["losses"].to_dict() == {"prompt": 12, "kind": 12}
    found = wb.sensitivity(runs[0], (Setting("default"), Setting("energy", VadSettings(detector="energy"))))
    assert set(found["metric"]) == {"prompt", "kind"} and (found["measured"] == 12).all()


def test_flips_name_the_threshold_in_words(runs):
    flips = runs[1].flips()
    late = flips[(flips["metric"] == "prompt") & (flips["case"] == "calm_greeting_1")].iloc[0]
    assert late["threshold"] == "answer_within_s" and late["value"] > 2.0
    assert late["sentence"] == f"passes with answer within at least {late['value']:g} s"


def test_decide_takes_what_it_declares():
    item = {"id": "a", "window": [0, 4], "model_spans": [[1.0, 2.0]]}
    verdicts, problems = brought.decide(contract.get("toy"), [item, {"id": "b"}])
    assert verdicts[0]["verdict"] == "pass" and verdicts[0]["evidence"] == {"onset_s": 1.0}
    assert verdicts[1]["verdict"] == "unmeasurable" and len(problems) == 1


def test_judge_check_and_agreement_with_people(toy):
    people = toy / "people.csv"
    cases = [json.loads(line)["id"] for line in (toy / "dataset" / "cases.jsonl").read_text().splitlines()]
    people.write_text("case,label,annotator\n" + "".join(f"{case},Kind,ann\n" for case in cases))
    told = command("judge-check", "runs/oracle", "--model", "offline-lexical", "--human", people, cwd=toy)
    assert "Probes" in told and "share equal" in told


def test_the_report_shows_its_sections_in_its_words(toy):
    page = (toy / "report" / "report.html").read_text(encoding="utf-8")
    assert "Rates by mood" in page and "Hasty users wait less." in page and "Kindness" in page
    table = pd.read_parquet(toy / "report" / "tables" / "by_mood.parquet")
    assert table["passed"].sum() == 24


def test_a_case_is_exported_as_a_page(toy):
    command("export", "runs/oracle", "--case", "calm_greeting_1", "--out", toy / "pages", cwd=toy)
    pages = [page for page in (toy / "pages").glob("*.html") if page.name != "index.html"]
    assert len(pages) == 2 and all("answer window" in page.read_text(encoding="utf-8") for page in pages)
