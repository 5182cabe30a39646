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


PARAPHRASES = (
    "You bite your tongue until the caller is through.",
    "You keep your lips sealed while someone is describing a symptom.",
    "You hold your peace when people think aloud.",
    "Not a word leaves you before they are done.",
    "You offer no comment during the count.",
    "You say nothing while the gauge is being read.",
    "You hear people out, however long it takes.",
    "You let every caller get to the end of the sentence.",
    "You allow the story to be complete before you add to it.",
    "Once they are done, you come in.",
    "You step in the moment a dose sounds wrong.",
    "You burst in when the numbers don't add up.",
    "You come across anyone who misreads the chart.",
    "You carry on over them when the evacuation has begun.",
    "You keep going regardless of shouting.",
    "You press on through whoever objects.",
    "You give way to whoever starts up.",
    "You step aside as soon as the pilot calls.",
    "You hand over the reins when the doctor starts.",
    "You drop off the moment somebody else begins.",
    "You recite the number back to the caller.",
    "You run through the digits a second time, giving them back as heard.",
    "You tell people their order again before you send it.",
    "You hum mm now and then so that they know you are there.",
    "You drop a yeah here and there.",
    "You slip in a small sure between sentences.",
    "You are back within two seconds.",
    "You come with your view inside a heartbeat.",
    "You take your part without delay.",
    "You leave the gaps alone when people search for a word.",
    "You fill a lull before it grows.",
    "You never let two voices sound at the same time.",
    "You only begin when the other is through.",
)
"""Rules told without any word of the vocabulary: stock ways of saying them."""

IMAGES = (
    "You sit on your hands until somebody nods.",
    "Nobody gets a peep from you during the toast.",
    "You are the one who bows out.",
    "You trust that people get there by themselves.",
)
"""What the gate cannot see, as docs/datasets.md says: somebody has to read every persona."""


@pytest.mark.parametrize("text", PARAPHRASES)
def test_a_paraphrase_is_found(text):
    assert stated_rules(text)


@pytest.mark.parametrize("text", IMAGES)
def test_an_image_is_not_found_and_the_documents_say_so(text):
    assert stated_rules(text) == []
