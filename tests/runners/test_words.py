"""Cues at words: whole words of the joined transcript, when they are played and not when their text comes."""

import asyncio

import numpy as np
import pytest

from workbench.agents.base import AudioOut, Interrupted, Text, Traits, TurnEnd
from workbench.cases import AtTime, AtWord, AudioRef, Case, Cue, Ending
from workbench.runners.episode import run_episode
from workbench.runners.guard import VirtualClock

RATE = 24_000
CLIPS = {"first": np.full(2400, 900, np.int16), "second": np.full(2400, 901, np.int16)}


def case(word, max_wait_s=6.0, delay_s=0.0):
    ref = AudioRef(path="x.wav", sha256="0" * 64, samples=2400)
    rule = AtWord(word=word, delay_s=delay_s, max_wait_s=max_wait_s)
    starts = {"first": AtTime(time_s=0), "second": rule}
    cues = tuple(Cue(id=name, text="", start=start, audio=ref) for name, start in starts.items())
    return Case(id="c", benchmark="t", conversation="c", stream="s", cues=cues, ending=Ending())


class Follows:
    """Emits each event of a script at its time: (seconds, event); audio given in seconds streams frame by frame."""

    def __init__(self, script, turns="events"):
        self.traits = Traits("follows", "1", "input", turns=turns)
        self.script = []
        for at_s, event in script:
            if isinstance(event, tuple):
                seconds, item = event
                frames = round(seconds / 0.02)
                self.script += [(at_s + 0.02 * k, speech(0.02, item)) for k in range(frames)]
            else:
                self.script.append((at_s, event))
        self.script.sort(key=lambda entry: entry[0])

    async def open(self, session, emit):
        self.emit, self.now_s = emit, 0.0

    async def send(self, frame):
        self.now_s += 0.02
        while self.script and self.script[0][0] <= self.now_s + 1e-9:
            self.emit(self.script.pop(0)[1])

    async def close(self): ...


def speech(seconds, item="a"):
    return AudioOut(np.full(round(seconds * RATE), 3000, np.int16), item)


def second(word, *script, **options):
    """When the second cue starts, or why it does not."""
    agent = Follows(script)
    cue = asyncio.run(run_episode(case(word, **options), CLIPS, lambda: agent, VirtualClock)).record.cues[1]
    return cue.reason if cue.start_s is None else cue.start_s


def said(*pieces, item="a"):
    """The pieces as text with the first of one second of speech, all at 1 s."""
    return [(1.0, speech(1.0, item)), *((1.0, Text(piece, item)) for piece in pieces), (1.0, TurnEnd(item))]


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("wait", ["please wait."]),
        ("wait", ["Please WAIT!"]),
        ("wait", ["please wa", "it now"]),
        ("hold on", ["hold", "\n", "on"]),
        ("Hold on", ["so hold-on, will you"]),
        ("don't", ["I don’t know"]),
        ("ﬁne", ["fine"]),
        ("straße", ["die STRASSE hier"]),
        ("等", ["请等一下"]),
        ("等一下", ["请等", "一下。"]),
    ],
)
def test_whole_words_over_the_joined_transcript(word, pieces):
    assert isinstance(second(word, *said(*pieces)), float)


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("wait", ["the waiter came"]),
        ("wait", ["wait", "er, please"]),
        ("wait", ["await"]),
        ("on", ["only"]),
        ("don", ["I don't"]),
        ("hold on", ["hold the line on"]),
        ("等二", ["请等一下"]),
        ("...", ["well ... yes"]),
    ],
)
def test_parts_of_words_are_no_words(word, pieces):
    assert second(word, *said(*pieces)) == "word_not_heard"


def test_text_that_comes_before_its_audio_waits_for_it():
    script = [(1.0, Text("Wait, please.", "a")), (4.0, (2.0, "a")), (6.0, TurnEnd("a"))]
    # Placed from 4.0 s on; the cue falls on the next frame.
    assert second("wait", *script) == pytest.approx(4.0, abs=0.021)
    assert second("wait", *script, delay_s=0.5) == pytest.approx(4.5, abs=0.021)


def test_a_later_word_of_text_that_comes_early_is_placed_by_the_pace_of_speech():
    script = [(1.0, Text("One two three four wait please.", "a")), (4.0, (2.5, "a")), (6.5, TurnEnd("a"))]
    assert second("wait", *script) == pytest.approx(4.0 + len("One two three four ") / 15, abs=0.021)
    chinese = [(1.0, Text("一二三四等一下", "a")), (4.0, (2.5, "a")), (6.5, TurnEnd("a"))]
    assert second("等", *chinese) == pytest.approx(4.0 + 4 * 3 / 15, abs=0.021)


def test_a_burst_is_placed_by_its_share_of_the_whole_utterance():
    script = [(1.0, Text("abcd wait abcd abcd ", "a")), (1.0, speech(4.0)), (1.0, TurnEnd("a"))]
    assert second("wait", *script) == pytest.approx(1.0 + 4.0 * 5 / 20, abs=0.041)


def test_text_that_comes_after_its_audio_is_placed_in_what_is_still_to_be_played():
    script = [(1.0, speech(4.0)), (1.1, Text("abcd wait abcd abcd ", "a")), (1.1, TurnEnd("a"))]
    assert second("wait", *script) == pytest.approx(1.0 + 4.0 * 5 / 20, abs=0.041)


def test_text_that_comes_with_its_audio_is_where_it_comes():
    script = [(1.0, (3.0, "a")), (1.0, Text("one ", "a")), (2.0, Text("wait ", "a")), (3.0, Text("two ", "a"))]
    assert second("wait", *script) == pytest.approx(2.0, abs=0.041)


def test_without_names_the_place_is_where_the_stream_stands():
    script = [(0.0, (4.0, "")), (2.0, Text("please wait now")), (3.0, Text(" and go"))]
    assert second("wait", *script) == pytest.approx(2.0 + 7 / 15, abs=0.061)


def test_an_unfinished_word_is_waited_for():
    script = [(1.0, (3.0, "a")), (1.5, Text("wait", "a")), (1.7, Text("er", "a")), (2.5, Text(" wait", "a"))]
    # The last piece is complete once a word of its length has been said.
    assert second("wait", *script) == pytest.approx(2.5 + 5 / 15, abs=0.061)


def test_only_what_is_played_after_the_cue_before_counts():
    script = [(0.0, speech(0.05)), (0.0, Text("wait ", "a")), (0.0, TurnEnd("a"))]
    assert second("wait", *script, max_wait_s=1.0) == "word_not_heard"
    later = [*script, (2.0, speech(1.0, "b")), (2.0, Text("wait ", "b")), (2.0, TurnEnd("b"))]
    assert second("wait", *later) == pytest.approx(2.0, abs=0.041)


def test_what_was_cut_was_not_heard():
    script = [(1.0, Text("One two three four wait please.", "a")), (1.0, speech(4.0)), (1.2, Interrupted("a"))]
    assert second("wait", *script) == "word_not_heard"
