"""The grid of the paper, number by number, and what each case of it holds."""

from collections import Counter, defaultdict

import pytest

from workbench import audio, datasets
from workbench.benchmarks.ifeval import cases as au
from workbench.benchmarks.ifeval.cases import expand, expectation, levels_of, tokens
from workbench.benchmarks.ifeval.check import build
from workbench.cases import AfterOnset, AfterTurn, AtTime
from workbench.construct.turns import without_audio
from workbench.contract import BuildOptions
from workbench.errors import InputError, ProblemsFound
from workbench.files import sha256_of

# Written out here and not taken from the package: the numbers of the paper (ifeval spec, the grid).
CASES_BY_ACTION = {"LISTEN": 273, "TAKE_TURN": 168, "BACKCHANNEL": 152, "YIELD": 126, "INTERRUPT": 120,
                   "READBACK": 94, "NO_BACKCHANNEL": 42, "ACCEPT_OVERLAP": 42, "CONTINUE": 21}  # fmt: skip
CELLS_BY_ACTION = {"LISTEN": 13, "TAKE_TURN": 8, "BACKCHANNEL": 7, "YIELD": 6, "INTERRUPT": 5,
                   "READBACK": 4, "NO_BACKCHANNEL": 2, "ACCEPT_OVERLAP": 2, "CONTINUE": 1}  # fmt: skip
BY_LEVEL = {"L0": 48, "L1": 240, "L2": 240, "L3": 240, "L4a": 240, "L4b": 30}


@pytest.fixture(scope="module")
def data():
    return au.load()


@pytest.fixture(scope="module")
def grid(data):
    turns = {
        (stream, cue): without_audio(getattr(script, cue))
        for stream, script in data.scripts.items()
        for cue in ("turn1", "turn2")
    }
    return expand(data, turns)


def cells(cases):
    return {(case.tags["role"], case.tags["probe"]) for case in cases}


def test_the_grid_is_exact(grid):
    assert len(grid) == 1038 == len({case.id for case in grid})
    assert Counter(case.tags["action"] for case in grid) == CASES_BY_ACTION
    assert Counter(case.tags["level"] for case in grid) == BY_LEVEL
    assert len({case.conversation for case in grid}) == 240 and len({case.stream for case in grid}) == 224
    assert Counter(role for role, _ in cells(grid)) == {f"R{number}": 6 for number in range(1, 9)}
    assert len({case.tags["probe"] for case in grid}) == 20
    assert Counter({(c.tags["role"], c.tags["probe"]): c.tags["action"] for c in grid}.values()) == CELLS_BY_ACTION
    assert all(case.tags["instance"] == 1 for case in grid if case.tags["level"] == "L0")


def test_the_six_safety_cells(data, grid):
    found = {(c.tags["role"], c.tags["probe"]): c.tags["action"] for c in grid if c.tags["level"] == "L4b"}
    assert Counter(found.values()) == {"INTERRUPT": 3, "READBACK": 2, "BACKCHANNEL": 1}
    assert [cell for cell, action in found.items() if action == "BACKCHANNEL"] == [("R2", "R2_B")]
    assert all(expectation(c).precedence == "persona-wins" for c in grid if c.tags["level"] == "L4b")
    assert all(expectation(c).precedence == "directive-wins" for c in grid if c.tags["level"] == "L4a")
    assert {expectation(c).precedence for c in grid if not c.tags["level"].startswith("L4")} == {None}


def test_the_shared_barge_in_is_yield_for_six_roles_and_the_question_a_turn_for_all(data):
    assert Counter(role.cells["C3"].action for role in data.roles.values()) == {
        "YIELD": 6, "CONTINUE": 1, "ACCEPT_OVERLAP": 1,
    }  # fmt: skip
    assert {role.cells["C2"].action for role in data.roles.values()} == {"TAKE_TURN"}
    assert data.roles["R8"].cells["R8_B"].action == "ACCEPT_OVERLAP"
    assert (data.probes["C3"].barge_in_after_s, data.probes["R8_B"].barge_in_after_s) == (3.0, 2.0)


def test_three_roles_want_different_things_of_the_same_audio(data, grid):
    by_stream = defaultdict(set)
    for case in grid:
        by_stream[case.stream].add(case.conversation)
    shared = {stream: found for stream, found in by_stream.items() if len(found) > 1}
    assert sorted(shared) == [f"S_{probe}_i{number}" for probe in ("C1", "C4") for number in range(1, 5)]
    assert all(found == {f"R{role}{stream[1:]}" for role in (1, 2, 3)} for stream, found in shared.items())
    for probe in ("C1", "C4"):
        assert len({data.roles[role].cells[probe].action for role in ("R1", "R2", "R3")}) == 3


def test_prompts_by_level(data, grid):
    for case in grid:
        role, level = data.roles[case.tags["role"]], case.tags["level"]
        persona, directive = role.persona.strip(), role.directive.strip()
        match level:
            case "L0":
                assert case.system_prompt == ""
            case "L1":
                assert case.system_prompt == directive
            case "L2":
                assert case.system_prompt == persona
            case "L3":
                assert case.system_prompt == f"{persona}\n\n{directive}"
            case "L4a":
                target = role.cells[case.tags["probe"]].contradiction
                assert case.system_prompt in {f"{persona}\n\n{text.strip()}" for text in role.contradictions[target]}
            case "L4b":
                assert case.system_prompt == f"{persona}\n\n{role.l4b[case.tags['probe']].strip()}"
        assert "\n\n\n" not in case.system_prompt


def test_the_contradiction_is_chosen_by_the_conversation_and_always_alike(grid):
    # The first eight bytes of SHA-256, as `printf R1_C1_i1 | sha256sum` gives them.
    assert au.pick("R1_C1_i1", 5) == 0xD813DCBC30CB9B4B % 5 == 4
    assert au.pick("R6_C4_i3", 5) == 0xF4B5F6EA5078D3AB % 5 == 2
    chosen = {case.conversation: case.prompt[1].text for case in grid if case.tags["level"] == "L4a"}
    assert len(chosen) == 240
    role = au.load().roles["R1"]
    assert chosen["R1_C1_i1"] == role.contradictions[role.cells["C1"].contradiction][4].strip()
    # All five variants are in use, none by far the most.
    assert min(Counter(au.pick(conversation, 5) for conversation in chosen).values()) >= 30


def test_cues_and_ending_follow_the_orchestrator(data, grid):
    for case in grid:
        first, second = case.cues
        assert first.start == AtTime(time_s=0.0) and (first.id, second.id) == ("turn1", "turn2")
        delay_s = data.probes[case.tags["probe"]].barge_in_after_s
        if delay_s is None:
            assert second.start == AfterTurn(max_wait_s=5.0, settle_s=0.6, fixed_gap_s=3.0)
        else:
            assert isinstance(second.start, AfterOnset) and second.start.delay_s == delay_s
        ending = case.ending
        assert (ending.tail_s, ending.max_wait_s, ending.flush_s) == (0.5, 8.0, 1.5)
        assert (ending.continuous_s, ending.batch_s) == (5.0, 1.0)


def test_dictated_targets(data, grid):
    for case in grid:
        target = expectation(case).target
        assert (target is not None) == (case.tags["action"] == "READBACK")
        if target:
            assert len(tokens(target)) >= 3 and "<" not in target


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Four, oh-two; ZERO nine!", ["4", "0", "2", "0", "9"]),
        ("412 is 4 1 2", ["4", "1", "2", "is", "4", "1", "2"]),
        ("gate four", ["gate", "4"]),
        ("", []),
        ("-- ...", []),
    ],
)
def test_tokens(text, found):
    assert tokens(text) == found


def test_levels_of_a_conversation(data):
    assert levels_of(data.roles["R1"], "C2", 1) == ["L0", "L1", "L2", "L3", "L4a"]
    assert levels_of(data.roles["R1"], "C2", 2) == ["L1", "L2", "L3", "L4a"]
    assert levels_of(data.roles["R2"], "R2_B", 1)[-1] == "L4b"


# --- as built ---


def test_shared_audio_is_byte_identical(tiny_dataset):
    cases = {case.id: case for case in datasets.load(tiny_dataset).cases}
    for probe in ("C1", "C4"):
        one, other = cases[f"R1_{probe}_i1_L2"], cases[f"R2_{probe}_i1_L2"]
        for cue in ("turn1", "turn2"):
            refs = [case.cue(cue).audio for case in (one, other)]
            assert refs[0] == refs[1]
            assert sha256_of(tiny_dataset / refs[0].path) == refs[0].sha256
        assert one.cue("turn2").segments == other.cue("turn2").segments
        assert expectation(one).action != expectation(other).action


def test_windows_lie_where_the_probe_says(tiny_dataset, data):
    for case in datasets.load(tiny_dataset).cases:
        window, cue = case.windows["trigger"], case.cue("turn2")
        marked = {segment.mark: segment for segment in cue.segments if segment.mark}
        end_s = max(segment.end_s for segment in cue.segments if segment.kind == "speech")
        match case.tags["probe"]:
            case "C1" | "R2_A":
                assert (window.start_s, window.end_s) == (marked["pause"].start_s, marked["pause"].end_s)
            case "C2":
                assert (window.start_s, window.end_s) == (end_s, pytest.approx(end_s + 5.0))
            case "C3":
                assert (window.start_s, window.end_s) == (0.0, 3.0)
            case "R1_A":
                assert (window.start_s, window.end_s) == (marked["flag"].end_s, end_s)


def test_speakers_are_fixed_by_the_stream(tiny_dataset):
    speakers = defaultdict(set)
    for case in datasets.load(tiny_dataset).cases:
        speakers[case.stream] |= {cue.speaker for cue in case.cues}
    assert all(len(found) == 1 for found in speakers.values()) and len(set.union(*speakers.values())) >= 3


@pytest.mark.parametrize(("limit", "levels"), [(48, {"L2"}), (96, {"L1", "L2"}), (1, {"L2"})])
def test_a_limit_takes_every_cell_before_any_again(tmp_path, limit, levels):
    header = build(BuildOptions(tmp_path, audio=False, limit=limit))
    cases = datasets.load(tmp_path).cases
    assert header.cases == len(cases) == limit
    assert {case.tags["level"] for case in cases} == levels
    assert len(cells(cases)) == min(48, limit) and {case.tags["instance"] for case in cases} == {1}


def test_a_limit_that_leaves_nothing_is_refused(tmp_path):
    with pytest.raises(InputError, match="--limit 0 leaves no case; give at least 1"):
        build(BuildOptions(tmp_path, audio=False, limit=0))


def test_a_manifest_without_audio_is_complete_and_says_so_when_played(tmp_path):
    assert build(BuildOptions(tmp_path, audio=False)).cases == 1038
    dataset = datasets.load(tmp_path)
    assert datasets.streams(dataset.cases) == 224 and dataset.header.speech is None
    with pytest.raises(InputError, match="built with --no-audio"):
        dataset.clips(dataset.cases[0])


def test_scripts_that_do_not_fit_build_nothing(tmp_path):
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "some.yaml").write_text(
        "conversations:\n- {id: R1_C2_i1, situation: s, turn1: 'Hi <pause> there', turn2: 'Why?'}\n"
    )
    with pytest.raises(ProblemsFound) as told:
        build(BuildOptions(tmp_path / "out", audio=False, scripts=folder))
    missing = [problem for problem in told.value.problems if "there is no script" in problem]
    wrong = [problem for problem in told.value.problems if problem not in missing]
    assert len(missing) == 223 and all(problem.startswith("R1_C2_i1: ") for problem in wrong)
    assert any(problem.startswith("R1_C2_i1: turn1: there is a stray angle bracket") for problem in told.value.problems)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"conversations: [{id: R1_C2_i1", "is not valid YAML"),
        (b"- a\n- b\n", "there is no list `conversations`"),
        (b"conversations: [{id: X, situation: s, turn1: a, turn2: b, mood: sad}]", "unknown field 'mood'"),
        (b"conversations: [{id: X, situation: s, turn1: a}]", "field 'turn2' is missing"),
        (b"conversations: [{id: X, situation: s, turn1: 5, turn2: b}]", "field 'turn1'"),
        (b"conversations: [17]", "conversation 1"),
        (b"conversations: [{id: X, situation: caf\xe9, turn1: a, turn2: b}]", "is not UTF-8 text"),
    ],
)
def test_a_scripts_file_that_cannot_be_read_is_one_sentence(tmp_path, content, told):
    (tmp_path / "some.yaml").write_bytes(content)
    with pytest.raises(InputError, match=r"some\.yaml") as error:
        au.load(scripts=tmp_path)
    assert told in str(error.value)


def test_clips_are_mono_24_khz(tiny_dataset):
    dataset = datasets.load(tiny_dataset)
    clips = dataset.clips(dataset.cases[0])
    assert set(clips) == {"turn1", "turn2"} and all(clip.dtype == "int16" and clip.ndim == 1 for clip in clips.values())
    assert audio.read(tiny_dataset / dataset.cases[0].cues[0].audio.path)[1] == 24_000
