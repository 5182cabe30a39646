"""When each word of a clip is said: forced alignment with pocketsphinx.

English only, as its acoustic model is. Words that its dictionary lacks, numbers, abbreviations and
acronyms get the phones that hibari's grapheme-to-phoneme step gives them, mapped to ARPAbet, so any
text that the default engine can read can be aligned.
"""

from __future__ import annotations

import functools
import re
import threading

import numpy as np

from workbench import audio
from workbench.cases import Word
from workbench.construct import hibari
from workbench.construct.speech import Clip, SpeechCache
from workbench.construct.voices import Engine
from workbench.errors import InputError
from workbench.files import read_json, write_json

ALIGNER_VERSION = 2  # raise when anything below changes a time: cached alignments carry it

MODEL_HZ = 16_000
FRAME_S = 0.010
# Frame i is a window of 25.6 ms beginning at i * 10 ms, so what it says holds 7.8 ms later than its
# slot. Measured against words joined by exact silences: median -8 ms before this correction.
OFFSET_S = (0.0256 - FRAME_S) / 2
PAD_S = 0.1  # zeros on both sides: without room for silence the outer words would swallow the guard

# Voices far from an adult's are sometimes misplaced; played slower or faster (pitch and formants
# move along) they are not. Tried in this order until one is plausible.
SIZES = (1.0, 0.87, 1.15)

# Before a silence the model ends a word early: a fading vowel or a released [t] counts as silence to
# it. The end moves to the last frame this loud (relative to the clip's loudest), but not far, nor
# across more silence than a stop's closure.
FADING_DB = -35.0
FADING_S = 0.2
CLOSURE_S = 0.08

# An alignment that leaves this much loud sound outside every word is a wrong one.
LOUD_DB = -25.0
WORD_MARGIN_S = 0.06
MAX_UNCLAIMED_S = 0.15


class AlignmentFailed(InputError):
    """The words were not found in the sound; the message says which text and why."""


def tokens(text: str) -> list[str]:
    """The whitespace tokens of `text` that contain a letter or digit, as written."""
    return [token for token in text.split() if any(character.isalnum() for character in token)]


def align(samples: np.ndarray, rate_hz: int, text: str) -> list[Word]:
    """Find the words of `text` in speech that says exactly that.

    Parameters
    ----------
    samples : float32, shape (samples,).
    rate_hz : any rate from 8000 up.

    Returns
    -------
    One word for each of `tokens(text)`, in order, disjoint, inside [0, duration], to the millisecond.

    Raises
    ------
    AlignmentFailed : a token has no pronunciation, or the sound does not fit the words.
    """
    written = tokens(text)
    if not written:
        return []
    duration_s = len(samples) / rate_hz
    reason = "the aligner found no path through the sound"
    with _LOCK:
        spoken = [_dictionary_words(token) for token in written]
        for size in SIZES:
            found = _segments(samples, rate_hz, [word for words in spoken for word in words], size)
            if found is None:
                continue
            level_db = _levels_db(samples, rate_hz)
            words = _to_tokens(written, spoken, _with_endings(found, level_db, duration_s), duration_s)
            unclaimed_s = _longest_unclaimed_s(level_db, words)
            if unclaimed_s <= MAX_UNCLAIMED_S:
                return words
            reason = f"{unclaimed_s:.2f} s of loud sound belong to none of the words found"
    raise AlignmentFailed(
        f"The words of {text!r} could not be aligned with {duration_s:.2f} s of sound: {reason}; "
        "check that the sound says this text, or reword it."
    )


def score(samples: np.ndarray, rate_hz: int, text: str) -> float:
    """How well speech fits a text: the log score a frame of the best path, 0 at most; -inf where there is none.

    Only scores of the same samples compare: the higher one fits better.
    """
    try:
        with _LOCK:
            spoken = [word for token in tokens(text) for word in _dictionary_words(token)]
            if not _best_path(samples, rate_hz, spoken, 1.0):
                return -np.inf
            decoder = _decoder()
            return float(np.log(max(decoder.hyp().score, np.finfo(float).tiny))) / decoder.n_frames()
    except AlignmentFailed:
        return -np.inf


def aligned_words(cache: SpeechCache, clip: Clip) -> list[Word]:
    """`align` for a cached clip; the words are kept beside it and found again."""
    kept = cache.entry(clip.key).with_name(f"{clip.key}.words.json")
    stamp = {"aligner_version": ALIGNER_VERSION, "sha256": clip.sha256}
    try:
        record = read_json(kept)
        if {name: record[name] for name in stamp} == stamp:
            return [Word(**word) for word in record["words"]]
    except (InputError, OSError, KeyError, TypeError, ValueError):
        pass  # absent, damaged or of another version: align again
    words = align(clip.samples, clip.rate_hz, clip.text)
    write_json(kept, {**stamp, "words": [word.model_dump() for word in words]})
    return words


def say_and_align(cache: SpeechCache, engine: Engine, text: str, voice: str, tries: int = 3) -> tuple[Clip, list[Word]]:
    """Render `text` and align it; when that fails, render it anew (another seed and tempo) and try again.

    Raises
    ------
    AlignmentFailed : after `tries` renditions; the message names the segment, the voice and the last reason.
    InputError : the engine cannot say it.
    """
    last: AlignmentFailed | None = None
    for attempt in range(tries):
        clip = cache.render(text, voice, engine=engine, attempt=attempt)
        try:
            return clip, aligned_words(cache, clip)
        except AlignmentFailed as error:
            last = error
    raise AlignmentFailed(f"The segment {text!r} in {voice} could not be aligned in {tries} tries. {last}")


# --- pronunciation ---------------------------------------------------------------------------------

# misaki's phone characters to ARPAbet as in CMU's dictionary; stress and length marks have no entry.
ARPABET = {
    "A": "EY", "I": "AY", "O": "OW", "Q": "OW", "W": "AW", "Y": "OY", "a": "AA", "ɑ": "AA", "ɒ": "AA", "æ": "AE",
    "ɐ": "AH", "ʌ": "AH", "ə": "AH", "ᵊ": "AH", "ɔ": "AO", "e": "EH", "ɛ": "EH", "ɜ": "ER", "ɚ": "ER", "ɪ": "IH",
    "ᵻ": "IH", "ɨ": "IH", "i": "IY", "o": "OW", "ʊ": "UH", "u": "UW", "b": "B", "d": "D", "f": "F", "ɡ": "G",
    "h": "HH", "j": "Y", "k": "K", "l": "L", "m": "M", "n": "N", "ŋ": "NG", "p": "P", "ɹ": "R", "r": "R", "s": "S",
    "ʃ": "SH", "t": "T", "T": "T", "ɾ": "D", "ʔ": "T", "θ": "TH", "ð": "DH", "v": "V", "w": "W", "x": "K", "z": "Z",
    "ʒ": "ZH", "ʤ": "JH", "ʧ": "CH",
}  # fmt: skip

PLAIN_WORD = re.compile(r"[A-Za-z]?[a-z']+|[AI]")
ABBREVIATION = re.compile(r"[A-Z][a-z]{0,4}\.")
DASHES = re.compile(r"[-\u2010-\u2015/_]+")


def phones_of(text: str) -> list[str]:
    """ARPAbet phones of any English text: numbers read out, unknown words by letter-to-sound."""
    characters = "".join(hibari.phonemes(text))
    # [ɜ] and [ə] with a following [ɹ] are one phone in ARPAbet.
    characters = re.sub("[ɜə]ː?ɹ", "ɚ", characters)
    return [ARPABET[character] for character in characters if character in ARPABET]


def _dictionary_words(token: str) -> list[str]:
    """Names of the dictionary entries that spell out one token; missing entries are added."""
    token = token.replace("\u2019", "'")
    if not ABBREVIATION.fullmatch(token):
        parts = [part.strip("'") for part in (re.sub(r"^\W+|\W+$", "", part) for part in DASHES.split(token))]
        parts = [part for part in parts if part]
        if parts and all(PLAIN_WORD.fullmatch(part) for part in parts):
            return [_entry(part.lower(), part) for part in parts]
    # Digits, symbols, acronyms, abbreviations: how they are read depends on all of the token.
    return [_entry(None, token.strip('"()[]{}<>*_\u201c\u201d,;:!?'))]


def _entry(word: str | None, text: str) -> str:
    decoder = _decoder()
    if word is not None and decoder.lookup_word(word) is not None:
        return word
    phones = phones_of(text)
    if not phones:
        raise AlignmentFailed(
            f"{text!r} has no pronunciation, since it is not readable as English; write it as English words."
        )
    name = "_" + "_".join(phones)
    if decoder.lookup_word(name) is None:
        decoder.add_word(name, " ".join(phones))
    return name


# --- the aligner -----------------------------------------------------------------------------------

_LOCK = threading.Lock()  # the decoder holds one utterance at a time


@functools.lru_cache(maxsize=1)
def _decoder():
    from pocketsphinx import Decoder

    # bestpath=False: rescoring the word lattice may end before the last word, the plain Viterbi path
    # cannot. The beams are wide since the grammar is a single line of words and costs little.
    beams = {"beam": 1e-80, "pbeam": 1e-80, "wbeam": 1e-80}
    return Decoder(lm=None, cmn="batch", bestpath=False, loglevel="FATAL", **beams)


def _segments(samples: np.ndarray, rate_hz: int, words: list[str], size: float) -> list[tuple[float, float]] | None:
    """(start_s, end_s) of each dictionary word, or None where no path through the sound was found.

    `size` scales pitch and formants, as in the hibari engine; times are scaled back.
    """
    found = _best_path(samples, rate_hz, words, size)
    if found is None:
        return None
    frame_s, shift_s = FRAME_S * size, OFFSET_S * size - PAD_S
    return [(segment.start_frame * frame_s + shift_s, (segment.end_frame + 1) * frame_s + shift_s) for segment in found]


def _best_path(samples: np.ndarray, rate_hz: int, words: list[str], size: float) -> list | None:
    """The decoder's segments of the words, silences left out; None where it finds no path."""
    decoder = _decoder()
    padded = np.pad(np.asarray(samples, np.float32), round(PAD_S * rate_hz))
    scaled = audio.resample(padded, round(rate_hz * size), MODEL_HZ)
    # The front end tracks noise and means from utterance to utterance: without a fresh one, word times
    # move by up to 60 ms with what was aligned before, and so with the number of workers.
    decoder.reinit_feat()
    try:
        decoder.set_align_text(" ".join(words))
        decoder.start_utt()
        decoder.process_raw(audio.to_pcm16(scaled).tobytes(), full_utt=True)
        decoder.end_utt()
    except RuntimeError as error:
        raise AlignmentFailed(f"pocketsphinx refused {' '.join(words)!r}: {error}.") from None
    found = [segment for segment in decoder.seg() or [] if not segment.word.startswith(("<", "["))]
    return found if [segment.word.partition("(")[0] for segment in found] == words else None


def _to_tokens(
    written: list[str], spoken: list[list[str]], found: list[tuple[float, float]], duration_s: float
) -> list[Word]:
    words, at, earliest_s = [], 0, 0.0
    for token, parts in zip(written, spoken, strict=True):
        start_s, end_s = found[at][0], found[at + len(parts) - 1][1]
        at += len(parts)
        start_s = min(max(start_s, earliest_s), duration_s)
        end_s = min(max(end_s, start_s), duration_s)
        words.append(Word(text=token, start_s=round(start_s, 3), end_s=round(end_s, 3)))
        earliest_s = end_s
    return words


def _levels_db(samples: np.ndarray, rate_hz: int) -> np.ndarray:
    """RMS of each `FRAME_S`, in dB relative to the loudest; the last frame may be a part of one."""
    starts = np.arange(0.0, len(samples), FRAME_S * rate_hz).astype(int)
    energy = np.add.reduceat(np.square(samples, dtype=np.float64), starts) if len(samples) else np.zeros(1)
    return 10.0 * np.log10((energy + 1e-12) / (energy.max() + 1e-12))


def _with_endings(
    found: list[tuple[float, float]], level_db: np.ndarray, duration_s: float
) -> list[tuple[float, float]]:
    """Move the end of each word that a silence follows to where its sound fades out."""
    following_s = [start_s for start_s, _ in found[1:]] + [duration_s]
    moved = []
    for (start_s, end_s), next_s in zip(found, following_s, strict=True):
        first = max(0, round(end_s / FRAME_S))
        past = max(first, int(min(end_s + FADING_S, next_s) / FRAME_S))
        loud = np.flatnonzero(level_db[first:past] > FADING_DB)
        # The gaps before each loud frame; from the first wide one on it is another sound.
        wide = np.flatnonzero(np.diff(loud, prepend=-1) > CLOSURE_S / FRAME_S + 1)
        loud = loud[: wide[0]] if len(wide) else loud
        if len(loud):
            end_s = float((first + loud[-1] + 1) * FRAME_S)
        moved.append((start_s, end_s))
    return moved


def _longest_unclaimed_s(level_db: np.ndarray, words: list[Word]) -> float:
    """The longest run of loud frames that no word covers, to within a margin."""
    unclaimed = level_db > LOUD_DB
    middle_s = (np.arange(len(level_db)) + 0.5) * FRAME_S
    for word in words:
        unclaimed &= (middle_s < word.start_s - WORD_MARGIN_S) | (middle_s > word.end_s + WORD_MARGIN_S)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], unclaimed.astype(np.int8), [0]))))
    return float((edges[1::2] - edges[::2]).max(initial=0)) * FRAME_S
