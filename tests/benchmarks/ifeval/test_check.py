"""Every gate and every structural fault, violated on purpose, is named; the shipped data violates none."""

from collections import Counter
from dataclasses import replace

import pytest

from workbench import datasets
from workbench.benchmarks.ifeval import cases as au
from workbench.benchmarks.ifeval import check
from workbench.benchmarks.ifeval.check import validate, validate_authored

LONG = "I was going to say that"


@pytest.fixture(scope="module")
def data():
    return au.load()


@pytest.fixture
def faulty(data):
    """faulty('R1_C1_i5', turn2='...'): the faults of the authored data with that one script changed."""

    def faults(stream, **changes):
        script = data.scripts[stream].model_copy(update=changes)
        return check.structure(replace(data, scripts={**data.scripts, stream: script}))

    return faults


def test_the_shipped_data_violates_nothing(data):
    assert check.structure(data) == check.leakage(data) == validate_authored() == []


# --- leakage ---


@pytest.mark.parametrize(
    ("added", "named"),
    [
        ("You never interrupt.", "'interrupt'"),
        ("She waits it out.", "'waits'"),
        ("Pauses are hers.", "'pauses'"),
        ("Repeat back what is dictated.", "'repeat'"),
        ("Let them finish.", "'let them finish'"),
        ("A soft mm-hm will do.", "'mm-hm'"),
    ],
)
def test_gate_1_names_role_and_word(data, added, named):
    role = data.roles["R4"]
    spoilt = replace(data, roles={**data.roles, "R4": role.model_copy(update={"persona": f"{role.persona} {added}"})})
    found = check.leakage(spoilt)
    assert any(f"R4: the persona states the rule: {named}" in problem for problem in found)
    assert all(problem.startswith("R4: ") for problem in found)


@pytest.mark.parametrize("rule", ["directive", "contradiction fill-the-gaps.3", "L4b contradiction of R2_B"])
def test_gate_2_names_role_rule_and_words(data, rule):
    words = "crimson lanterns drifted beyond quiescent harbors"
    role = data.roles["R2"]
    changes = {"persona": f"{role.persona} Like {words}."}
    match rule:
        case "directive":
            changes["directive"] = f"{role.directive} As {words}."
        case "contradiction fill-the-gaps.3":
            variants = list(role.contradictions["fill-the-gaps"])
            variants[2] += f" As {words}."
            changes["contradictions"] = {**role.contradictions, "fill-the-gaps": tuple(variants)}
        case _:
            changes["l4b"] = {"R2_B": role.l4b["R2_B"] + f" As {words}."}
    found = check.leakage(replace(data, roles={**data.roles, "R2": role.model_copy(update=changes)}))
    assert found and all(problem.startswith(f"R2: persona and {rule} share the words ") for problem in found)
    assert "'crimson lanterns drifted beyond'" in found[0]


# --- structure ---


@pytest.mark.parametrize(
    ("stream", "changes", "told"),
    [
        ("R1_C1_i5", {"turn2": f"{LONG} it hurts."}, "turn2 has the structure [text], where its probe"),
        ("R1_C1_i5", {"turn2": f"{LONG} <pause:2.0s> it hurts."}, "[text, pause:2.0]".replace("]", ", text]")),
        ("R1_C1_i5", {"turn2": f"{LONG} <pause:2.5s>"}, "[text, pause:2.5]"),
        ("R1_C1_i5", {"turn2": f"{LONG} <puase:2.5s> it hurts."}, "turn2: the marker '<puase:2.5s>' is unknown"),
        ("R1_C1_i5", {"turn2": f"{LONG} <pause:2.5> it hurts."}, "needs a duration"),
        ("R1_C1_i5", {"turn2": ""}, "turn2: the script holds no spoken text"),
        ("R1_C1_i5", {"turn1": "Hello <pause:1.0s> there."}, "turn1 is context and may hold no marker"),
        ("R1_C1_i5", {"turn1": "<flag:Hello>"}, "turn1 is context and may hold no marker"),
        ("R1_C1_i5", {"turn1": "Hello <pause> there."}, "turn1: there is a stray angle bracket"),
        ("R1_C1_i5", {"turn1": "Hello > there."}, "turn1: there is a stray angle bracket"),
        ("R1_C1_i5", {"turn1": " "}, "turn1: the script holds no spoken text"),
        ("R1_C1_i5", {"turn1": "I am 35."}, "a digit stands in the spoken text"),
        ("R1_C2_i1", {"turn2": "Is it 5?"}, "a digit stands in the spoken text"),
        ("R3_R3_A_i1", {"turn2": f"{LONG} there is gas and then I left."}, "structure [text]"),
        ("R2_R2_B_i1", {"turn2": f"{LONG} <check:You there?> <pause:1.5s> and so on."}, "where its probe"),
        ("R1_C3_i1", {"turn2": "Stop."}, "needs [barge_in]"),
        (
            "R1_C4_i5",
            {"turn2": "It's <chunk:four> <chunk_gap:1.2s> <chunk:five> <chunk_gap:1.2s> <chunk:twenty>"},
            "the dictated chunk 'twenty' holds 'twenty', which can be transcribed in more than one way",
        ),
        (
            "R1_C4_i5",
            {"turn2": "It's <chunk:four> <chunk_gap:1.2s> <chunk:55> <chunk_gap:1.2s> <chunk:six>"},
            "holds '55'",
        ),
        ("R1_C4_i5", {"turn2": "It's <chunk:four> <chunk_gap:1.2s> <chunk:five>"}, "where its probe"),
    ],
)
def test_a_structural_fault_is_named_with_its_script(faulty, stream, changes, told):
    found = faulty(stream, **changes)
    assert found and all(problem.startswith(f"{stream}: ") for problem in found)
    assert any(told in problem for problem in found), found


def test_one_repeat_of_the_chunks_is_allowed_and_two_are_not(faulty):
    gap = " <chunk_gap:1.2s> "
    chunks = [f"<chunk:{word} two>" for word in ("one", "three", "four", "five", "six")]
    for count, fits in ((2, False), (3, True), (4, True), (5, False)):
        assert (faulty("R1_C4_i5", turn2="I've got it right here, it's " + gap.join(chunks[:count])) == []) == fits


def test_a_missing_and_a_stray_script_are_named(data):
    scripts = {key: script for key, script in data.scripts.items() if key != "S_C1_i3"}
    scripts["R9_C1_i1"] = data.scripts["R1_C1_i5"].model_copy(update={"id": "R9_C1_i1"})
    scripts["R1_C1_i1"] = data.scripts["R1_C1_i5"]  # R1-R3 play the shared one there
    found = check.structure(replace(data, scripts=scripts))
    assert len(found) == 3
    assert found[0].startswith("S_C1_i3: there is no script; write one for role R1, probe C1")
    assert {problem.partition(":")[0] for problem in found[1:]} == {"R9_C1_i1", "R1_C1_i1"}


def test_a_script_that_is_there_twice_is_named(tmp_path):
    entry = "- {id: R1_C2_i1, situation: s, turn1: a, turn2: b}\n"
    (tmp_path / "some.yaml").write_text("conversations:\n" + entry + entry)
    problems = []
    au.read_scripts(tmp_path, problems)
    assert len(problems) == 1 and "'R1_C2_i1' is defined twice" in problems[0] and "some.yaml" in problems[0]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cells": {"C1": {"action": "LISTEN", "contradiction": "x"}}}, "the cells must be"),
        ({"l4b": {"R9_B": "text"}}, "which are not cells of R1"),
        ({"mood": "sad"}, "mood"),
    ],
)
def test_a_role_that_does_not_hold_together_is_refused(data, changes, told):
    raw = data.roles["R1"].model_dump() | changes
    with pytest.raises(ValueError, match=told):
        au.Role.model_validate(raw)


def test_a_cell_with_an_unknown_action_or_too_few_contradictions_is_refused(data):
    raw = data.roles["R1"].model_dump()
    raw["cells"]["C2"]["action"] = "SHOUT"
    with pytest.raises(ValueError, match="cell C2 expects 'SHOUT'; actions are LISTEN"):
        au.Role.model_validate(raw)
    raw = data.roles["R1"].model_dump()
    name = raw["cells"]["C2"]["contradiction"]
    raw["contradictions"][name] = raw["contradictions"][name][:4]
    with pytest.raises(ValueError, match="needs five variants"):
        au.Role.model_validate(raw)


# --- a built dataset ---


def test_a_slice_is_sound_and_is_not_the_full_grid(tiny_dataset):
    dataset = datasets.load(tiny_dataset)
    assert validate(dataset, complete=False) == []
    found = validate(dataset, complete=True)
    assert any(problem.startswith("cases: 12, where the full grid has 1038") for problem in found)
    assert any(problem.startswith("cases that expect CONTINUE: 0") for problem in found)
    assert any(problem.startswith("cases at level L4b: 0") for problem in found)
    assert any(problem.startswith("audio streams: 10, where the full grid has 224") for problem in found)


def test_counts_of_the_grid_are_consistent_in_themselves():
    assert sum(check.BY_ACTION.values()) == sum(check.BY_LEVEL.values()) == check.CASES == 1038


def spoil(cases, number, **changes):
    return tuple(case.model_copy(update=changes) if index == number else case for index, case in enumerate(cases))


def test_faults_of_built_cases_are_named(tiny_dataset):
    cases = datasets.load(tiny_dataset).cases
    assert check.built(cases) == []
    first = cases[0]
    other_sum = first.cues[1].audio.model_copy(update={"sha256": "0" * 64})
    other_cue = first.cues[1].model_copy(update={"audio": other_sum})
    window = first.windows["trigger"].model_copy(update={"start_s": None, "end_s": None})
    readback = next(index for index, case in enumerate(cases) if case.tags["action"] == "READBACK")
    empty = cases[readback].expect | {"target": " ... "}
    for number, changes, told in (
        (0, {"cues": (first.cues[0], other_cue)}, f"audio differs from that of another case of stream {first.stream}"),
        (0, {"expect": {"action": "LISTEN"}}, "the field `expect` is not this benchmark's"),
        (0, {"expect": first.expect | {"action": "SHOUT"}}, "unknown action 'SHOUT'; actions are LISTEN"),
        (0, {"windows": {"trigger": window}}, "its window is not"),
        (0, {"windows": {}}, "it has no trigger"),
        (2, {"cues": cases[2].cues[:1], "windows": {}}, "it has no turn2"),
        (readback, {"expect": empty}, "the dictated target is empty"),
    ):
        found = check.built(spoil(cases, number, **changes))
        assert len(found) == 1 and told in found[0], found


def test_cases_without_tags_are_counted_as_missing(tiny_dataset):
    cases = datasets.load(tiny_dataset).cases
    bare = tuple(case.model_copy(update={"tags": {}}) for case in cases)
    assert Counter(problem.partition(":")[0] for problem in check.counts(bare, 10))["cases at level L2"] == 1
