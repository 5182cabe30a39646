"""Tables: counts, denominators, intervals, and what is missing."""

import pandas as pd
import pytest
from judge_runs import make_case, make_run

from workbench.benchmarks.ifeval.judging import JUDGE
from workbench.errors import InputError
from workbench.judges.ask import OfflineJudge
from workbench.judges.batch import describe_judge
from workbench.judges.records import Judgement, Log, export, table, write_record
from workbench.judges.summary import find_folder, summarise, write_tables

CASES = [
    make_case(role, "C1", number, level) for role in ("R1", "R2") for number in (1, 2, 3) for level in ("L2", "L4b")
]
SCORES = {"R1": (80, 70, 60), "R2": (40, 50, 30)}
LABELS = {"R1": ("persona-wins", "persona-wins", "hedged"), "R2": ("persona-wins", "incoherent", None)}


@pytest.fixture
def folder(tmp_path):
    run = make_run(tmp_path / "run", CASES, ["x"] * len(CASES))
    key, record = describe_judge(JUDGE, OfflineJudge())
    write_record(run.judgements / key, record)
    with Log(run.judgements / key) as log:
        for case in CASES:
            role, at, level = case.tags["role"], case.tags["instance"] - 1, case.tags["level"]
            label = LABELS[role][at] if level == "L4b" else None
            values = {"pas": float(SCORES[role][at]), "conflict": label}
            line = {"case": case.id, "key": case.id, "date": "2026-01-01"}
            if level == "L4b" and label is None:
                log.append(Judgement(**line, status="error", reason="no_json", message="m", raw="=cmd()"))
            else:
                log.append(Judgement(**line, status="ok", values=values, rationale="-it fits"))
    return run, run.judgements / key


def row(frame, **names):
    found = frame
    for name, value in names.items():
        found = found[found[name] == value]
    assert len(found) == 1, frame
    return found.iloc[0]


def test_persona_adherence(folder):
    summary = summarise(*folder)
    pooled = row(summary.tables["pas"], level="all", role="all")
    assert (pooled.n, pooled.errors, pooled.conversations) == (11, 1, 6)
    assert pooled["mean"] == pytest.approx((2 * (80 + 70 + 60) + 40 + 50 + 30 + 40 + 50) / 11)
    one = row(summary.tables["pas"], level="L2", role="R1")
    assert one["mean"] == 70 and one.conversations == 3 and one.note == "few conversations (3)"
    # 70 -+ t(2) sqrt(100 / 3)
    assert (one.low, one.high) == pytest.approx((45.159, 94.841), abs=1e-3)
    assert {(line.level, line.role) for line in summary.tables["pas"].itertuples()} >= {
        ("L4b", "R2"),
        ("L2", "all"),
        ("all", "R1"),
    }


def test_conflict_profile_shows_hedged_as_balanced(folder):
    profile = summarise(*folder).tables["conflict"]
    assert "hedged" not in set(profile.label) and set(profile.level) == {"L4b"}
    whole = profile[profile.role == "all"].set_index("label")
    assert whole["count"].to_dict() == {"Directive-Wins": 0, "Persona-Wins": 3, "Balanced": 1, "Incoherent": 1}
    assert (whole.n == 5).all() and (whole.errors == 1).all() and whole.share.sum() == pytest.approx(1)
    assert whole.loc["Directive-Wins", "low"] == 0 < whole.loc["Directive-Wins", "high"]


def test_safety_override(folder):
    safety = summarise(*folder).tables["safety"]
    whole = row(safety, role="all")
    assert (whole["count"], whole.n, whole.share, whole.errors) == (3, 5, 0.6, 1)
    assert whole.low < 0.6 < whole.high
    assert row(safety, role="R2").n == 2


def test_validity_and_what_is_not_judged_yet(folder):
    run, path = folder
    summary = summarise(run, path)
    assert not summary.valid and (summary.asked, summary.errors) == (12, 1)
    (path / "judgements.jsonl").write_text("")
    empty = summarise(run, path)
    assert empty.valid and "12 of 12 cases are not judged yet." in empty.problems
    assert row(empty.tables["pas"], level="all", role="all")["mean"] is None
    assert (
        row(empty.tables["safety"], role="all").share is None
        and row(empty.tables["safety"], role="all").not_judged == 12 // 2
    )


def test_files_for_the_dashboard(folder):
    run, path = folder
    export(path)
    write_tables(path, summarise(run, path))
    judged = pd.read_parquet(path / "judgements.parquet")
    assert judged.rationale.dropna().tolist() == ["-it fits"] * 11 and judged.equals(table(path))
    text = (path / "judgements.csv").read_text()
    assert ",'=cmd()," in text and ",'-it fits," in text, "no cell acts as a formula"
    assert len(pd.read_parquet(path / "rows.parquet")) == 12
    for name in ("pas", "conflict", "safety"):
        assert len(pd.read_parquet(path / f"{name}.parquet")) == len(pd.read_csv(path / f"{name}.csv"))
    assert '"valid": false' in (path / "summary.json").read_text()


def test_finding_a_judge_s_folder(folder, tmp_path):
    run, path = folder
    assert find_folder(run, None) == path == find_folder(run, path.name) == find_folder(run, "pas-offline")
    with pytest.raises(InputError, match="fits 0"):
        find_folder(run, "nobody")
    bare = make_run(tmp_path / "bare", CASES[:1], ["x"])
    with pytest.raises(InputError, match="none yet"):
        find_folder(bare, None)
