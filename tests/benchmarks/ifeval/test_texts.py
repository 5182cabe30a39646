"""The two leakage gates on texts that violate them and texts that do not."""

import pytest

from workbench.benchmarks.ifeval.texts import shared_ngrams, stated_rules


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("She never interrupted anybody.", "interrupted"),
        ("You are all patience and WAITING.", "waiting"),
        ("He knows the worth of a pause.", "pause"),
        ("You repeat each figure.", "repeat"),
        ("You know when it is your turn.", "turn"),
        ("You say it back.", "say it back"),
        ("You read\nback the order.", "read back"),
        ("You let them  finish.", "let them finish"),
        ("The floor is theirs.", "floor"),
        ("A soft mm-hm is your whole art.", "mm-hm"),
        ("You murmur uh-huh now and then.", "uh-huh"),
        ("She cuts in, and he was jumping in.", "cut in"),
        ("She cuts in, and he was jumping in.", "jump in"),
        ("You don\u2019t speak over others.", "speak"),
    ],
)
def test_a_stated_rule_is_found(text, found):
    assert found in stated_rules(text)


@pytest.mark.parametrize(
    "text",
    [
        "You are a nurse at the front desk, twenty years in.",
        "Returns and turnips, flooring and stopgaps: words begin alike and mean other things.",  # whole words only
        "In the back room the doctor reads.",
        "",
    ],
)
def test_an_implied_rule_passes(text):
    assert stated_rules(text) == []


def test_shared_runs_of_content_words_are_found_across_function_words():
    persona = "You keep every broken sentence of the widow safe in a drawer."
    rule = "Keep every broken sentence, and the widow's too."
    assert shared_ngrams(persona, rule, 4) == [("keep", "every", "broken", "sentence")]
    assert shared_ngrams(persona, "Keep every sentence broken.", 4) == []
    assert shared_ngrams("Of the and to in", "of the and to in", 4) == []
    assert shared_ngrams("one gate", "gate", 4) == []
