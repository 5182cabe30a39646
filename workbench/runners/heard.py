"""Where words of the agent's transcript stand in its audio, for cues that wait for a word.

Text comes before, with or after the audio that says it. Each piece of text is tied to the audio that had
been delivered of its utterance when it came, the first to its beginning; of several pieces that came at
the same point the first one stands there and the rest follow. Between two such points text is spread
evenly; after the last one at the pace of ordinary speech, until the utterance is complete and its true
pace is known.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from workbench.cases import RATE_HZ

_PER_S = 15.0
"""Letters of ordinary speech a second (about 160 English words a minute). Ours."""
_SYLLABIC = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters that are words by themselves: Chinese characters and kana."""
_TOKEN = re.compile(rf"[{_SYLLABIC}]|[^\W_{_SYLLABIC}]+(?:['’][^\W_{_SYLLABIC}]+)*")
_WEIGHT = 3.0
"""Such a character lasts as long as so many letters. Ours."""


def tokens(text: str) -> list[tuple[str, int, int]]:
    """The words of a text as (word, begin, end): Unicode words, case folded; Chinese by characters."""
    return [
        (unicodedata.normalize("NFKC", found.group()).casefold().replace("’", "'"), found.start(), found.end())
        for found in _TOKEN.finditer(text)
    ]


def duration_s(text: str) -> float:
    """How long ordinary speech takes over a text."""
    return weight(text) / _PER_S


def weight(text: str) -> float:
    """How long a text is, in letters."""
    return len(text) + (_WEIGHT - 1) * len(re.findall(f"[{_SYLLABIC}]", text))


@dataclass
class _Utterance:
    """The text of one utterance, and the points at which it is tied to audio: (letters, samples)."""

    item: str
    text: str = ""
    points: list[tuple[float, int]] = field(default_factory=list)


class Heard:
    """The transcript with its places in the audio; `Recorder` feeds it."""

    def __init__(self) -> None:
        self._utterances: list[_Utterance] = []
        self._found: dict[str, list[tuple[str, int, int, int]]] = {}

    def add(self, text: str, item: str, delivered: int) -> None:
        """A piece of text that came when `delivered` samples of its utterance had come."""
        self._found.clear()
        if not self._utterances or self._utterances[-1].item != item:
            self._utterances.append(_Utterance(item))
        last = self._utterances[-1]
        if not last.points:
            # The first words of an utterance are its beginning, however late their text comes.
            last.points.append((0.0, 0 if item else delivered))
        elif delivered > last.points[-1][1]:
            last.points.append((weight(last.text), delivered))
        last.text += text

    def places(self, word: str) -> list[tuple[str, int, int, int]]:
        """Where `word` (one or several words) stands: (item, index of the utterance, begin, end), in order."""
        if word not in self._found:
            wanted = [token for token, _, _ in tokens(word)]
            self._found[word] = [
                (utterance.item, index, there[at][1], there[at + len(wanted) - 1][2])
                for index, utterance in enumerate(self._utterances)
                for there in [tokens(utterance.text)]
                for at in range(len(there) - len(wanted) + 1)
                if wanted and [token for token, _, _ in there[at : at + len(wanted)]] == wanted
            ]
        return self._found[word]

    def sample(self, index: int, at: int, delivered: int, complete: bool) -> float:
        """The place of character `at` of an utterance in its audio, in samples.

        delivered : samples of it by now. complete : whether all of its audio is there.
        """
        utterance = self._utterances[index]
        letters = weight(utterance.text[:at])
        points = utterance.points
        last = max(k for k, (begin, _) in enumerate(points) if begin <= letters)
        begin, sample = points[last]
        paced = sample + (letters - begin) / _PER_S * RATE_HZ
        if last + 1 < len(points):
            end, until = points[last + 1]
        elif complete and delivered > sample:
            end, until = weight(utterance.text), delivered
        else:
            return paced
        spread = sample + (letters - begin) / (end - begin) * (until - sample)
        # Without a name there are no utterances: silence between two pieces is not part of either.
        return spread if utterance.item else min(spread, paced)

    def is_open(self, index: int, end: int) -> bool:
        """Whether more text may still lengthen the word that ends at character `end`."""
        return index == len(self._utterances) - 1 and end == len(self._utterances[index].text)
