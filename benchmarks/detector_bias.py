"""How far detected onsets and offsets lie from those of the sound: data/detector_bias.json.

    python benchmarks/detector_bias.py [--write]

Synthesised sentences between silences, at full level and 20 dB down, as they are (24 kHz) and through
16 kHz and 8 kHz. Edges of the sound lie 35 dB below its loudest 10 ms. Needs no other machine and no
download; --write keeps the figures where reports read them.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version

import numpy as np
import soxr
from hibari import Hibari

from workbench.analysis.detectors import BELOW_PEAK_DB, bias, settings_key, usual_settings
from workbench.files import data_path
from workbench.vad import VadSettings

SPEECH_HZ = 24_000
RATES_HZ = (24_000, 16_000, 8_000)
SETTINGS = {settings_key(vad): vad for vad in (*(one.vad for one in usual_settings()), VadSettings(speech_pad_ms=0))}
"""Those that `sensitivity` compares, and no padding."""
SENTENCES = (
    "Hello there, could you help me plan a trip to Lisbon next month?",
    "Sure, I can do that.",
    "What is the weather like in the spring, and do I need a coat?",
    "Okay, yeah, that sounds right to me.",
    "Wait, actually, can you stop for a second?",
    "The quick brown fox jumps over the lazy dog near the river bank.",
    "Please list three reasons to learn a second language.",
    "My number is four two seven, nine one six, five five.",
)
SEEDS, GAINS_DB = (0, 1, 2), (0.0, -20.0)


def clips(rate_hz: int) -> list[tuple[np.ndarray, int]]:
    """Every sentence, seed and gain with 0.7 s of silence on either side, through one rate."""
    voice, silence = Hibari(), np.zeros(round(0.7 * SPEECH_HZ), np.float32)
    out = []
    for text in SENTENCES:
        for seed in SEEDS:
            clip = np.concatenate([silence, voice(text, seed=seed), silence])
            at_rate = soxr.resample(clip, SPEECH_HZ, rate_hz).astype(np.float32)
            out += [(at_rate * np.float32(10 ** (gain_db / 20)), rate_hz) for gain_db in GAINS_DB]
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    print(f"{'settings':<22}{'rate, Hz':>9}{'edge':>8}{'median':>8}{'p10':>8}{'p90':>8}{'most, ms':>10}{'clips':>7}")
    for rate_hz in RATES_HZ:
        spoken = clips(rate_hz)
        for key, settings in SETTINGS.items():
            for edge, found in bias(spoken, settings).items():
                rows.append({"settings": key, "rate_hz": rate_hz, "edge": edge, **found})
                figures = "".join(f"{found[name]:>+8.1f}" for name in ("median_ms", "p10_ms", "p90_ms"))
                line = (
                    f"{key or 'default':<22}{rate_hz:>9}{edge:>8}{figures}{found['most_ms']:>+10.1f}{found['clips']:>7}"
                )
                print(line + (f"  {found['missed']} missed" if found["missed"] else ""))
    if options.write:
        kept = {
            "measured_by": "benchmarks/detector_bias.py",
            "speech": f"{len(SENTENCES)} sentences x {len(SEEDS)} seeds x gains of 0 and -20 dB, hibari-tts "
            f"{version('hibari-tts')}",
            "edges": f"{BELOW_PEAK_DB:g} dB below the loudest 10 ms",
            "silero_vad": version("silero-vad"),
            "rows": rows,
        }
        data_path("detector_bias.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
