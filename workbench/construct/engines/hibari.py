"""The default engine: hibari-tts, one English voice in the package, and variants of it.

The package carries one voice. The other speakers here are that voice played faster or slower: a
resampling by `size` moves pitch and formants together, as a smaller or larger speaker would, and the
model's own speed control takes the tempo back to where it was. Nothing is vocoded, so the variants
sound as clean as the original, but they share its accent and manner: they are variants of one
speaker, not other people. Where that matters, use an engine with real voices.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import metadata

import numpy as np

from workbench.audio import resample
from workbench.construct.voices import own_voice
from workbench.errors import InputError

NAME = "hibari"
RATE_HZ = 24_000
VARIANTS_VERSION = 2  # raise when VARIANTS or their making changes: it is part of the cache key


PACE = 0.82
"""The model reads at about 200 words a minute; this brings it to the 165 of relaxed conversation."""


@dataclass(frozen=True)
class Variant:
    """`size` multiplies pitch and formants; `tempo` is the speech rate relative to `PACE`."""

    size: float
    tempo: float


# Neighbours differ by about 8 % in pitch (1.3 semitones) and, where named so, in tempo. Beyond these
# ends the voice stops sounding like an adult.
VARIANTS: dict[str, Variant] = {
    "mid": Variant(1.00, 1.00),
    "deep": Variant(0.77, 1.00),
    "low-slow": Variant(0.84, 0.88),
    "low": Variant(0.91, 1.00),
    "high": Variant(1.09, 1.00),
    "high-brisk": Variant(1.16, 1.14),
    "bright": Variant(1.24, 1.00),
}

# What another attempt changes besides the noise seed: the durations, hence the alignment.
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
    voices = tuple(f"{NAME}:{variant}" for variant in VARIANTS)

    def version(self) -> str:
        model()  # for the sentence that says how to install it
        return f"hibari-tts {metadata.version('hibari-tts')}, variants {VARIANTS_VERSION}"

    def say(self, text: str, voice: str, *, attempt: int = 0) -> tuple[np.ndarray, int]:
        variant = VARIANTS[own_voice(self, voice)]
        tempo = PACE * variant.tempo * TEMPO_NUDGES[attempt % len(TEMPO_NUDGES)]
        samples = model()(text, speed=tempo / variant.size, seed=attempt)
        if samples.size == 0:
            raise InputError(f"hibari found nothing to say in {text!r}; give it English words.")
        # Reading the samples as if taken at size * rate is what scales pitch and formants.
        return resample(samples, round(RATE_HZ * variant.size), RATE_HZ), RATE_HZ
