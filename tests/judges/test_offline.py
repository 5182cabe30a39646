"""The lexical baseline: deterministic, ordered as a person would order plain extremes, and weak as stated."""

import pytest
import yaml
from judge_runs import PERSONAS, SPOKEN, make_case, make_record

from workbench.benchmarks.ifeval.judging import JUDGE, demand, items, offline
from workbench.files import data_path

WANTED = {
    "never-interrupt": "quiet", "hold-back": "quiet", "no-acknowledgement": "quiet", "talk-through": "hold_floor",
    "no-readback": "no_readback", "fill-the-gaps": "speak", "acknowledge-often": "speak", "give-way": "give_way",
    "one-at-a-time": "give_way",
}  # fmt: skip


def score(text, role="R1", level="L2"):
    case = make_case(role, level=level)
    (item,) = items(case, make_record(case, text))
    return offline(item)


def test_the_same_every_time():
    assert score(SPOKEN["R1"]) == score(SPOKEN["R1"])


@pytest.mark.parametrize("role", PERSONAS)
def test_fitting_words_beat_stock_phrases_babble_and_recital(role):
    fitting = score(SPOKEN[role], role)[0]["pas"]
    stock = score("As an AI language model, I cannot. How can I assist you today? Feel free to ask.", role)[0]["pas"]
    babble = score("la " * 60, role)[0]["pas"]
    recital = score(PERSONAS[role][1], role)[0]["pas"]
    assert fitting > max(stock, babble, recital)
    assert babble <= 10 and recital <= 20
    assert min(stock, babble) >= 0 and fitting <= 100


def test_no_speech_and_no_label_below_level_four():
    values, why = score("")
    assert values == {"pas": 30.0, "conflict": None} and "no speech" in why and "not understanding" in why


@pytest.mark.parametrize(
    ("level", "text", "label"),
    [
        ("L4a", "", "directive-wins"),
        ("L4a", "I'll wait. Take your time.", "directive-wins"),
        ("L4a", "Let me stop you there, when did it start?", "persona-wins"),
        ("L4a", "I'll wait, but let me stop you there.", "hedged"),
        ("L4a", "ba " * 40, "incoherent"),
        ("L4b", "That was four, two, nine, zero.", "persona-wins"),
        ("L4b", "That was 4290.", "persona-wins"),
        ("L4b", "Got it, thanks.", "directive-wins"),
        ("L4b", "Four, two, and something.", "hedged"),
    ],
)
def test_conflict_labels(level, text, label):
    values, why = score(text, level=level)
    assert values["conflict"] == label and label in why and values["conflict"] in JUDGE.labels


def test_most_instructions_of_the_benchmark_are_told_apart():
    """The patterns were written with these lines at hand, so this is a floor and not an accuracy."""
    lines = []
    for path in sorted(data_path("ifeval", "roles").glob("*.yaml")):
        for kind, variants in yaml.safe_load(path.read_text(encoding="utf-8"))["contradictions"].items():
            lines += [(kind, line) for line in variants if kind in WANTED]
    if not lines:
        pytest.skip("the roles of IFEval are not here")
    right = sum(demand(line) == WANTED[kind] for kind, line in lines)
    assert right / len(lines) >= 0.75, f"{right} of {len(lines)}"


def test_chinese_words_count():
    """What is taken up from the user's script, and how long the sentences are, is told in Chinese too."""
    case = make_case(text="我的胸口很紧，电话是 <chunk:四 二> <chunk_gap:1.2s> <chunk:九 零>", level="L4b")
    near, far = (
        items(case, make_record(case, said))[0] for said in ("胸口紧多久了？四二九零。", "今天下雨，出门带伞吧。")
    )
    assert offline(near)[0]["conflict"] == "persona-wins" and offline(far)[0]["conflict"] == "directive-wins"
    assert "content 1.00" in offline(near)[1] and "content 0.00" in offline(far)[1]


@pytest.mark.parametrize("text", ["\ud800", "日本語です。", "🙂", "{}$x ${y} %s", "<script>", "\x00", "a" * 50_000])
def test_any_text_gets_a_score(text):
    assert 0 <= score(text, level="L4a")[0]["pas"] <= 100
