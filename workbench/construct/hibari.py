"""The engine that is always there: hibari-tts, one American woman's voice in the package, and variants of it.

The model gives pitch and spectrum apart, so a variant has a pitch, a size (formants, as a longer or shorter
vocal tract would move them) and a tempo of its own, all within what adults have: a man's formants lie about
15 % below a woman's, and nobody's are far above those of the voice as it is. The variants still share its
accent and manner: where speakers must differ as people do, take an engine with real voices (Kokoro).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import metadata

import numpy as np

from workbench.audio import resample
from workbench.construct.voices import Person, own_voice
from workbench.errors import InputError

NAME = "hibari"
RATE_HZ = 24_000
VARIANTS_VERSION = 3  # raise when VARIANTS or their making changes: it is part of the cache key


PACE = 0.78
"""The model reads at about 200 words a minute; this brings it to about the 160 of relaxed conversation."""


@dataclass(frozen=True)
class Variant:
    """`pitch` and `size` relate to the voice as it is; `tempo` is the speech rate relative to `PACE`."""

    person: Person
    pitch: float = 1.0
    size: float = 1.0
    tempo: float = 1.0


VARIANTS: dict[str, Variant] = {
    "mid": Variant(Person("female", "35 to 49")),
    "light": Variant(Person("female", "18 to 24"), pitch=1.17, size=1.05, tempo=1.05),
    "clear": Variant(Person("female", "25 to 34"), pitch=1.08, size=0.97),
    "warm": Variant(Person("female", "65 and over"), pitch=0.86, size=0.94, tempo=0.92),
    "low": Variant(Person("male", "35 to 49"), pitch=0.62, size=0.84, tempo=0.94),
    "young": Variant(Person("male", "18 to 24"), pitch=0.72, size=0.88, tempo=1.0),
    "deep": Variant(Person("male", "50 to 64"), pitch=0.52, size=0.81, tempo=0.92),
    "low-slow": Variant(Person("male", "65 and over"), pitch=0.67, size=0.82, tempo=0.87),
}

# What another attempt changes (besides the noise seed here; Kokoro has none): the durations, hence the alignment.
TEMPO_NUDGES = (1.0, 0.95, 1.05, 0.9, 1.1)


@functools.lru_cache(maxsize=2)
def model(british: bool = False):
    """The synthesiser, loaded once a process; its phonemes also serve the aligner and Kokoro.

    Raises
    ------
    InputError : hibari-tts is not installed.
    """
    try:
        from hibari import Hibari
        from hibari.g2p import G2P
    except ImportError as error:
        raise InputError(
            f"The speech engine 'hibari' is not installed ({error}); run: pip install hibari-tts"
        ) from None
    return Hibari(threads=1, g2p=G2P(british=british))


def phonemes(text: str, british: bool = False) -> list[str]:
    """misaki-style phoneme strings of `text`, one a sentence, numbers and abbreviations read out."""
    return model(british).phonemize(text)


class HibariEngine:
    """See the module's text; `voices` are the variants above, first the voice as it is."""

    name = NAME
    voices = tuple(f"{NAME}:{name}" for name in VARIANTS)
    people = {f"{NAME}:{name}": variant.person for name, variant in VARIANTS.items()}

    def version(self) -> str:
        model()  # for the sentence that says how to install it
        return f"hibari-tts {metadata.version('hibari-tts')}, variants {VARIANTS_VERSION}"

    def say(self, text: str, voice: str, *, attempt: int = 0) -> tuple[np.ndarray, int]:
        variant = VARIANTS[own_voice(self, voice)]
        speed = PACE * variant.tempo * TEMPO_NUDGES[attempt % len(TEMPO_NUDGES)] / variant.size
        noise = np.random.default_rng(attempt)
        parts = [_say(model().ids(spoken), speed, variant.pitch / variant.size, noise) for spoken in phonemes(text)]
        if not sum(map(len, parts)):
            raise InputError(f"hibari found nothing to say in {text!r}; give it English words.")
        # Reading the samples as if taken at size * rate is what scales the formants.
        return resample(np.concatenate(parts), round(RATE_HZ * variant.size), RATE_HZ), RATE_HZ


def _say(ids: list[int], speed: float, pitch: float, noise: np.random.Generator) -> np.ndarray:
    """One sentence, its pitch contour multiplied; as `Hibari.from_ids` does it, which keeps the contour to itself."""
    from hibari import dsp

    if len(ids) < 3:
        return np.zeros(0, np.float32)
    feed = {"ids": np.asarray([ids], np.int64), "speed": np.asarray([speed], np.float32)}
    *spectra, f0_hz = (output[0] for output in model().sess.run(None, feed))
    return dsp.synth(*spectra, f0_hz * np.float32(pitch), noise)
