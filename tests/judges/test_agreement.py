"""Two judges, a judge and people, people among themselves."""

import numpy as np
import pandas as pd
import pytest

from workbench.benchmarks.ifeval.judging import JUDGE
from workbench.errors import InputError, ProblemsFound
from workbench.judges.agreement import agree, agreement, band, disagreements, pair_up, pool, read_labels


def frame(scores, labels):
    names = [f"c{number}" for number in range(len(scores))]
    return pd.DataFrame({"case": names, "conversation": names, "score": scores, "label": labels})


def value(table, metric, comparison=None):
    rows = table[table.metric.str.startswith(metric)]
    if comparison:
        rows = rows[rows.comparison == comparison]
    assert len(rows) == 1, table
    return rows.iloc[0]


LABELS = ["hedged", "persona-wins", "directive-wins", "hedged", "persona-wins", "directive-wins"]


def test_a_judge_agrees_with_itself():
    one = frame([10.0, 30, 55, 75, 95, 50], LABELS)
    table = agree("same", pair_up(one, one), JUDGE)
    assert value(table, "score: rank").value == pytest.approx(1)
    assert value(table, "score: mean").value == 0
    assert value(table, "score: quadratic").value == pytest.approx(1)
    assert value(table, "label: share").value == 1
    assert value(table, "label: Cohen").value == pytest.approx(1)
    assert value(table, "label: share").low < 1, "an interval is not a point"


def test_figures_worked_by_hand():
    first = frame([10.0, 20, 30, 40], ["hedged", "hedged", "persona-wins", "persona-wins"])
    second = frame([20.0, 10, 40, 30], ["hedged", "persona-wins", "persona-wins", "persona-wins"])
    table = agree("two", pair_up(first, second), JUDGE)
    assert value(table, "score: rank").value == pytest.approx(0.6)  # 1 - 6 * 4 / (4 * 15)
    assert value(table, "label: share").value == 0.75
    assert value(table, "label: Cohen").value == pytest.approx(0.5)  # (0.75 - 0.5) / (1 - 0.5)


def test_missing_halves_are_left_out():
    first, second = (
        frame([10.0, None, 30], ["hedged", None, "hedged"]),
        frame([10.0, 20, None], ["hedged", "hedged", None]),
    )
    table = agree("holes", pair_up(first, second), JUDGE)
    assert set(table.n) == {1}
    assert value(table, "score: rank").value is None or np.isnan(value(table, "score: rank").value)
    assert "two items" in value(table, "score: rank").reason


def test_nothing_in_common():
    table = agree("none", pair_up(frame([1.0], ["hedged"]), frame([], [])), JUDGE)
    assert set(table.n) == {0} and table.value.isna().all() and table.reason.notna().all()


def test_bands_are_the_rubric_s():
    assert [band(score, JUDGE.bands) for score in (0, 24.9, 25, 50, 69.9, 70, 90, 100)] == [0, 0, 1, 2, 2, 3, 4, 4]


def test_disagreements_come_widest_first():
    first = frame([10.0, 50, 90, 40], ["hedged", "hedged", "hedged", None])
    second = frame([12.0, 90, 20, 41], ["persona-wins", "hedged", "hedged", "hedged"])
    apart = disagreements(pair_up(first, second))
    assert apart.case.tolist() == ["c0", "c2", "c1"] and apart.apart.tolist() == [2, 70, 40]


def test_people(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(
        "case,label,annotator,note\n"
        "c0,12,ann,\nc0,hedged,ann,\nc1,40,ann,x\nc1,persona-wins,ann,\nc2,80,ann,\nc2,Balanced,ann,\nc3,,ann,\n"
        "c0,20,bob,\nc0,hedged,bob,\nc1,44,bob,\nc1,persona-wins,bob,\nc2,70,bob,\nc2,Directive-wins,bob,\n",
        encoding="utf-8",
    )
    judged = frame([10.0, 41, 78, 3], ["hedged", "persona-wins", "hedged", None])
    people = read_labels(path, JUDGE, dict.fromkeys(judged.case))
    assert people[people.annotator == "ann"].label.tolist() == ["hedged", "persona-wins", "hedged"]
    table = agreement(judged, people, JUDGE)
    assert value(table, "label: share", "judge and ann").value == 1
    assert value(table, "label: share", "judge and bob").value == pytest.approx(2 / 3)
    assert value(table, "label: share", "ann and bob").value == pytest.approx(2 / 3)
    together = value(table, "label: share", "judge and people together")
    assert together.n == 2, "a tie is no label"
    assert pool(people).score.tolist() == [16, 42, 75]
    assert value(table, "score: rank", "judge and people together").value == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("case,label\nzzz,50\n", "line 2: the run has no case 'zzz'"),
        ("case,label\nc0,50\nc1,fine\n", "line 3: the label 'fine'"),
        ("case,label\nc0,150\n", "not on the scale of 0 to 100"),
        ("case,label\nc0,nan\n", "not on the scale"),
        ("case,label\nc0,50\nc0,60\n", "already"),
    ],
)
def test_lines_that_cannot_be_used_are_all_named(tmp_path, text, words):
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(ProblemsFound, match=words):
        read_labels(path, JUDGE, {"c0": 1, "c1": 1})


@pytest.mark.parametrize(
    ("text", "words"), [("id,label\n", "no column 'case'"), ("case,label\nc0,\n", "holds no label")]
)
def test_files_that_cannot_be_used(tmp_path, text, words):
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_labels(path, JUDGE, {"c0": 1})
    with pytest.raises(InputError, match="does not exist"):
        read_labels(tmp_path / "none.csv", JUDGE, {})
