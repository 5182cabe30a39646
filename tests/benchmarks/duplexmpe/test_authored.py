"""Scenario pairs: every rule names what breaks it; the shipped set, its cases, and its variations."""

import json

import pytest

from workbench import datasets
from workbench.benchmarks.duplexmpe import cases as au
from workbench.benchmarks.duplexmpe import check
from workbench.benchmarks.duplexmpe.authoring import author_scripts
from workbench.benchmarks.duplexmpe.cases import GAPS_S, TAIL_S, voices_for
from workbench.benchmarks.duplexmpe.varied import in_words, read_slots, vary
from workbench.cases import AfterGap, AfterTurn
from workbench.construct.hibari import HibariEngine
from workbench.contract import BuildOptions
from workbench.errors import InputError, ProblemsFound


@pytest.fixture(scope="module")
def data():
    return au.load()


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mpe") / "set"
    check.build(BuildOptions(folder, audio=False))
    return datasets.load(folder)


def test_the_shipped_set_keeps_every_rule(data):
    assert check.validate_authored() == []
    assert len(data.scenarios) == check.PAIRS
    assert [f"{s.id}: {fault}" for s in data.scenarios.values() for fault in check.style_faults(s)] == []


def changed(scenario, index=None, **changes):
    """A copy with one turn, or a field, changed and validated anew."""
    value = scenario.model_dump(exclude_none=True, mode="json")
    if index is None:
        value |= changes
    else:
        value["turns"][index] = {k: v for k, v in (value["turns"][index] | changes).items() if v is not None}
    return au.Scenario.model_validate(value)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda s: changed(s, bucket=s.bucket % 4 + 1), "bucket"),
        (lambda s: changed(s, speakers=s.speakers[:2]), "three or four"),
        (lambda s: changed(s, people={"Nobody": ("male", "25 to 34")}), "describes Nobody"),
        (lambda s: changed(s, s.target, explicit="And what would that come to, then?"), "does not name Aria"),
        (lambda s: changed(s, s.target, implicit="Aria, what would that come to?"), "the implicit T names Aria"),
        (lambda s: changed(s, s.target, label="N1"), "0 turns labelled T"),
        (lambda s: changed(s, first(s, "N2"), text="Aria, who left the door open?"), "label it N1"),
        (lambda s: changed(s, first(s, "N1"), text="It never forgets the list."), "does not name Aria"),
        (lambda s: changed(s, first(s, "N2"), text="We need 3 of them (or so)."), "cannot be spoken"),
        (lambda s: changed(s, first(s, "N4_R"), speaker=s.turns[first(s, "N4_Q")].speaker), "another human"),
        (lambda s: changed(s, first(s, "N4_R"), label="N2"), "very next turn"),
        (
            lambda s: changed(s, last_n2(s), text=None, explicit="One way.", implicit="Another way."),
            "only T and the turn",
        ),
        (lambda s: changed(s, attributes={**s.attributes, "device": "toaster"}), "not in attributes.yaml"),
        (
            lambda s: changed(s, turns=[t.model_dump(exclude_none=True) for t in s.turns[: s.target + 1]]),
            "the last turn",
        ),
    ],
)
def test_a_pair_that_breaks_a_rule_is_told_why(data, change, words):
    scenario = data.scenarios["lemon_curd_rescue"]
    assert any(words in fault for fault in check.scenario_faults(change(scenario), data.attributes))


def first(scenario, label):
    return next(index for index, turn in enumerate(scenario.turns) if turn.label == label)


def last_n2(scenario):
    return max(index for index, turn in enumerate(scenario.turns) if turn.label == "N2")


def test_a_turn_has_one_text_or_two():
    for given in ({}, {"explicit": "Aria, what?"}, {"text": "a", "explicit": "b", "implicit": "c"}):
        with pytest.raises(ValueError, match="either `text`"):
            au.Turn(speaker="Ann", label="T", **given)


def test_building_a_broken_set_names_the_scenario_and_builds_nothing(tmp_path, data):
    scenario = changed(data.scenarios["lemon_curd_rescue"], bucket=4)
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.yaml").write_text(json.dumps({"scenarios": [scenario.model_dump(exclude_none=True)]}))
    with pytest.raises(ProblemsFound, match="lemon_curd_rescue"):
        check.build(BuildOptions(tmp_path / "out", audio=False, scripts=tmp_path / "s"))
    assert not (tmp_path / "out").exists()


def test_cases_come_in_pairs_that_differ_in_the_request_alone(manifest, data):
    assert len(manifest.cases) == 2 * len(data.scenarios)
    assert check.validate(manifest, True) == []
    for case in manifest.cases[:8]:
        scenario = data.scenarios[case.tags["scenario"]]
        assert [cue.label for cue in case.cues] == ["preamble", *[turn.label for turn in scenario.turns]]
        assert case.cues[0].text == data.preamble and case.conversation == scenario.id and not case.prompt
        assert len(case.windows) == len(scenario.turns)
        for before, cue in zip(case.cues[:-1], case.cues[1:], strict=True):
            if before.label in ("T", "preamble"):
                assert isinstance(cue.start, AfterTurn) and cue.start.by_silence
            else:
                assert isinstance(cue.start, AfterGap)
                assert cue.start.gap_s == 3.0 if cue.label == "N4_R" else cue.start.gap_s in GAPS_S
    assert min(GAPS_S) > TAIL_S, "no window of silence reaches into the next turn"


def test_a_slice_takes_whole_pairs_of_every_bucket_and_size_first(tmp_path):
    check.build(BuildOptions(tmp_path, audio=False, limit=17))
    cases = datasets.load(tmp_path).cases
    assert len(cases) == 16
    assert {(c.tags["bucket"], c.tags["speakers"]) for c in cases} == {(b, s) for b in (1, 2, 3, 4) for s in (3, 4)}
    with pytest.raises(InputError, match="at least 2"):
        check.build(BuildOptions(tmp_path / "x", audio=False, limit=1))


def test_voices_fit_who_speaks_and_are_always_the_same(data):
    engine, used = HibariEngine(), set()
    for scenario in data.scenarios.values():
        chosen = voices_for(scenario, engine)
        assert chosen == voices_for(scenario, engine) and len(set(chosen.values())) == len(scenario.speakers) + 1
        assert set(scenario.people) == set(scenario.speakers)
        assert all(engine.people[chosen[name]].sex == sex for name, (sex, _) in scenario.people.items())
        used |= set(chosen.values())
    assert used == set(engine.voices)


def test_neither_the_name_nor_the_length_nor_a_device_word_gives_t_away(data):
    turns = [scenario.turns[scenario.target] for scenario in data.scenarios.values()]
    longer = [len(turn.implicit.split()) - len(turn.explicit.split()) for turn in turns]
    assert max(map(abs, longer)) <= check.LONGER and abs(sum(longer)) / len(longer) < 1
    named = sum(
        any(word in turn.implicit.lower() for word in scenario.attributes["device"].split() if len(word) > 3)
        for scenario, turn in zip(data.scenarios.values(), turns, strict=True)
    )
    assert named <= 0.4 * len(turns)
    # The same sentence with the name always at the same place is told.
    always = [
        scenario.model_copy(
            update={
                "turns": tuple(
                    turn.model_copy(update={"text": f"Aria, {turn.text}"}) if turn.label == "N4_Q" else turn
                    for turn in scenario.turns
                )
            }
        )
        for scenario in data.scenarios.values()
    ]
    assert any("N4_Q turns; vary it" in problem for problem in check.spread(always))
    others = [turn.text for s in data.scenarios.values() for turn in s.turns if turn.label == "N2" and turn.text]
    assert sum(any(name in text for name in ("Juno,", "Marlow,", "Beacon,", "Otto,")) for text in others) >= 10


def test_variations_keep_the_rules_and_name_their_source(data):
    made = list(vary(data.scenarios, 3 * len(data.scenarios), seed=5))
    again = list(vary(data.scenarios, 3 * len(data.scenarios), seed=5))
    assert made == again and len({scenario.id for scenario in made}) == len(made)
    assert {scenario.varied_from for scenario in made} <= set(data.scenarios)
    assert [fault for scenario in made for fault in check.scenario_faults(scenario)] == []
    slots = read_slots()
    couch = [scenario for scenario in made if scenario.varied_from == "moving_couch_stairs"]
    for scenario in couch:
        inches = next(n for n in slots["moving_couch_stairs"].values if in_words(n) in scenario.gold.lower())
        assert f"{in_words(inches // 12)} feet" in scenario.gold
        assert scenario.turns[scenario.target].explicit.lower().count(in_words(inches)) == 1
    for slot in slots.values():
        assert slot.said in " ".join(turn.words("explicit") for turn in data.scenarios[slot.id].turns).lower()
        assert all(slot.answer(value) for value in slot.values)


@pytest.mark.parametrize(
    "number, words",
    [
        (0, "zero"), (19, "nineteen"), (21, "twenty-one"), (100, "one hundred"), (168, "one hundred and sixty-eight"),
        (2043, "two thousand and forty-three"),
    ],
)  # fmt: skip
def test_numbers_in_words(number, words):
    assert in_words(number) == words


def test_the_combinatorial_author_goes_on_and_builds(tmp_path):
    first = author_scripts(tmp_path / "a", model="combinatorial", limit=5, seed=2)
    more = author_scripts(tmp_path / "a", model="combinatorial", limit=8, seed=2)
    assert (first.written, more.written, more.kept) == (5, 3, 5)
    summary = json.loads((tmp_path / "a" / "author.json").read_text())
    assert summary["pairs"] == 8 and summary["authors"] == ["combinatorial"]
    assert all(item["varied_from"] and not item["edited"] for item in summary["items"])
    check.build(BuildOptions(tmp_path / "set", audio=False, scripts=tmp_path / "a"))
    cases = datasets.load(tmp_path / "set").cases
    assert len(cases) == 16 and all(not case.conversation.endswith("_v1") for case in cases)
