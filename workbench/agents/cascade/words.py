"""What can be told from words alone: questions, unfinished sentences, danger, dictation.

Plain rules over the lists in data/cascade/words.yaml. The recogniser gives no punctuation, so these
are guesses, and misheard words lead them astray, as in any real cascade.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from workbench.files import data_path, read_yaml

DICTATED_NUMBERS = 3
DICTATED_CHUNKS = 3
CHUNK_WORDS = 5
_QUESTION_REACH = 14  # words; an opener further back belongs to an earlier sentence


@lru_cache(maxsize=1)
def lists() -> dict:
    return read_yaml(data_path("cascade", "words.yaml"))


@lru_cache(maxsize=1)
def _danger() -> re.Pattern:
    phrases = "|".join(sorted(map(re.escape, lists()["danger"]), key=len, reverse=True))
    return re.compile(rf"\b(?:{phrases})\b")


def danger_in(words: Sequence[str]) -> str:
    """The last alarming phrase among the words; '' when there is none."""
    found = _danger().findall(" ".join(words))
    return found[-1] if found else ""


def is_question(words: Sequence[str]) -> bool:
    """Whether the last sentence seems to be a complete question."""
    return not ends_open(words) and _question_at(words) is not None


def _question_at(words: Sequence[str]) -> int | None:
    known = lists()
    first = max(0, len(words) - _QUESTION_REACH)
    for at in range(len(words) - 1, first - 1, -1):
        word, before = words[at], words[at - 1] if at else ""
        after = words[at + 1] if at + 1 < len(words) else ""
        begins = not before or before in known["lead_ins"]
        asks = before in known["question_openers"]
        if word in known["helpers"]:
            # After a pronoun ("they are the", "that is it") a helping verb only states.
            turned = after in known["pronouns"] and before not in known["pronouns"] and before not in known["helpers"]
            if turned or (after in known["subjects"] and (begins or asks)):
                return at
        # "I know what it is" holds an opener, too: it asks only where a clause begins, or before a helping verb.
        if word in known["question_openers"] and (begins or after in known["helpers"]):
            return at
    return None


def asks_for_explanation(words: Sequence[str]) -> bool:
    """Whether a long answer is asked for ("walk me through it")."""
    for first, second in lists()["explain"]:
        for at, word in enumerate(words):
            if word == first and (not second or second in words[at + 1 : at + 7]):
                return True
    return False


def ends_open(words: Sequence[str]) -> bool:
    """Whether the words stop where a sentence cannot."""
    return bool(words) and words[-1] in lists()["unfinished"]


def only_acknowledges(words: Sequence[str]) -> bool:
    """Whether the words do no more than show that somebody listens (true of no words at all)."""
    return len(words) <= 3 and all(word in lists()["acknowledgements"] for word in words)


def numbers_mended(words: Sequence[str]) -> list[str]:
    """The words with 'to', 'for' and the like turned into numbers where they stand next to one."""
    known = lists()
    mended = list(words)
    for at, word in enumerate(words):
        beside = [mended[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""]
        if word not in known["misheard_numbers"] or not any(other in known["numbers"] for other in beside):
            continue
        # "for" and "to" before a single number are mostly meant as they are.
        if word not in ("for", "to") or beside[0] in known["numbers"] or _number_run(words, at + 1) >= 2:
            mended[at] = known["misheard_numbers"][word]
    return mended


def _number_run(words: Sequence[str], at: int) -> int:
    known = lists()
    length = 0
    while at + length < len(words) and words[at + length] in (*known["numbers"], *known["misheard_numbers"]):
        length += 1
    return length


def dictated(words: Sequence[str], chunks: Sequence[int]) -> str:
    """What was dictated, from the first number or short chunk on; '' when nothing was.

    Dictation is `DICTATED_NUMBERS` number words, or `DICTATED_CHUNKS` stretches between pauses, the
    later of them no longer than `CHUNK_WORDS` words.
    """
    mended = numbers_mended(words)
    at = [index for index, word in enumerate(mended) if word in lists()["numbers"]]
    if len(at) >= DICTATED_NUMBERS:
        return " ".join(mended[at[0] :])
    spoken = [count for count in chunks if count]
    if len(spoken) >= DICTATED_CHUNKS and max(spoken[1:]) <= CHUNK_WORDS:
        return " ".join(mended)
    return ""


def dictating(words: Sequence[str]) -> bool:
    """Whether the latest words are numbers, so that more of them may follow."""
    mended = numbers_mended(words)
    return len(mended) >= 2 and all(word in lists()["numbers"] for word in mended[-2:])


def topic(words: Sequence[str]) -> str:
    """The word that a sentence seems to be about: its longest uncommon one, the latest of equals."""
    best = ""
    for word in words:
        if len(word) >= max(4, len(best)) and word not in lists()["common"] and "'" not in word:
            best = word
    return best or "matter"
