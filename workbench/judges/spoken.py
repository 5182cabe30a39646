"""Which words of an agent's transcript were spoken when.

Servers send the words of an utterance faster than they are played, so the time at which a piece of
text arrives says little. Where an utterance's audio is known, its words are spread over it by their
share of the letters; else a piece stands where it arrived.
"""

from __future__ import annotations

import re

from workbench.cases import RATE_HZ
from workbench.episodes import EpisodeRecord, load_audio, loud_spans, sounded
from workbench.errors import InputError
from workbench.runs import Run

_WORD = re.compile(r"\S+\s*")


def heard(run: Run, case_id: str) -> EpisodeRecord:
    """The record of a case as it is judged: without words where its recording is mute.

    Where the audio is not there (a run shared without it), the words are taken as they stand.
    """
    record = run.record(case_id)
    if not record.text:
        return record
    try:
        stereo = load_audio(run.episodes, record)
    except InputError:
        return record
    return sounded(record, loud_spans(stereo[:, 1]))


def timed_words(record: EpisodeRecord) -> list[tuple[float, str]]:
    """(second on the session clock, word) in order of time; [] when the agent gives no text."""
    heard: dict[str, list[float]] = {}
    for delivery in record.deliveries:
        if delivery.item and delivery.placed is not None and delivery.played:
            start, end = delivery.placed / RATE_HZ, (delivery.placed + delivery.played) / RATE_HZ
            span = heard.setdefault(delivery.item, [start, end])
            span[0], span[1] = min(span[0], start), max(span[1], end)
    texts: dict[str, str] = {}
    for piece in record.transcript or ():
        texts[piece.item] = texts.get(piece.item, "") + piece.text
    out = []
    for item, text in texts.items():
        if item in heard:
            start, end = heard[item]
            out += [
                (start + (end - start) * word.start() / max(1, len(text)), word.group().strip())
                for word in _WORD.finditer(text)
            ]
    for piece in record.transcript or ():
        if piece.item not in heard:
            out += [(piece.t_s, word) for word in piece.text.split()]
    return sorted(out, key=lambda entry: entry[0])


def words_between(words: list[tuple[float, str]], start_s: float, end_s: float) -> str:
    """The words spoken in [start_s, end_s), as one string."""
    return " ".join(word for time_s, word in words if start_s <= time_s < end_s)
