"""The detector's own bias: how far the edges that it finds lie from those of the sound.

Every latency and limit is measured from detected edges, so a late edge moves all of them alike. The
figures beside a limit are measured by `benchmarks/detector_bias.py` and kept in data/detector_bias.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import InputError
from workbench.shipped import data_path
from workbench.vad import VadSettings, detect

BELOW_PEAK_DB = 35.0
"""Speech is taken to begin and end where its level passes this far below its loudest 10 ms."""
EDGES = ("onset", "offset")


def level_edges(samples: np.ndarray, rate_hz: int, below_peak_db: float = BELOW_PEAK_DB) -> tuple[float, float]:
    """First and last second at which a clip is within `below_peak_db` of its loudest 10 ms.

    Parameters
    ----------
    samples : float, shape (samples,), one utterance with nothing else in it.

    Returns
    -------
    Onset and offset in seconds, to 1 ms: the level is the root mean square of 10 ms, taken every 1 ms and
    reckoned to the middle.

    Raises
    ------
    InputError : a clip of silence, or one shorter than 10 ms.

    Examples
    --------
    >>> tone = np.sin(2 * np.pi * 200 * np.arange(16_000) / 16_000)
    >>> level_edges(np.concatenate([np.zeros(8_000), tone, np.zeros(8_000)]), 16_000, below_peak_db=3)
    (0.501, 1.499)
    """
    power = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=float))])
    step, frame = rate_hz // 1000, rate_hz // 100
    starts = np.arange(0, len(samples) - frame + 1, step)
    level = power[starts + frame] - power[starts]
    if not len(level) or not level.max() > 0:
        raise InputError("The clip holds no sound of 10 ms, so it has no edges; give one utterance.")
    loud = np.flatnonzero(level >= level.max() * 10 ** (-below_peak_db / 10)) * step + frame / 2
    return round(float(loud[0]) / rate_hz, 3), round(float(loud[-1]) / rate_hz, 3)


def bias(clips: Sequence[tuple[np.ndarray, int]], settings: VadSettings | None = None) -> dict[str, dict[str, Any]]:
    """Detected edges less those of the sound, in milliseconds; positive is late.

    Parameters
    ----------
    clips : (samples (n,), rate in Hz), one utterance each between silences of half a second or more.

    Returns
    -------
    'onset' and 'offset' -> median_ms, p10_ms, p90_ms, most_ms (the farthest from 0, signed), clips (with
    speech found) and missed. An edge is that of the first or last span, so pauses do not matter.
    """
    given = [(str(at), samples, rate_hz) for at, (samples, rate_hz) in enumerate(clips)]
    truth = [level_edges(samples, rate_hz) for samples, rate_hz in clips]
    found = [spans for _, spans in detect(given, settings)]
    heard = [(spans[0, 0], spans[-1, 1], *edges) for spans, edges in zip(found, truth, strict=True) if len(spans)]
    late = 1000 * np.array([(start - onset, end - offset) for start, end, onset, offset in heard]).reshape(-1, 2)
    out = {}
    for name, values in zip(EDGES, late.T, strict=True):
        figures: dict[str, Any] = dict.fromkeys(("median_ms", "p10_ms", "p90_ms", "most_ms"))
        if len(values):
            low, middle, high = np.percentile(values, [10, 50, 90]).round(1).tolist()
            most = round(float(values[np.abs(values).argmax()]), 1)
            figures = {"median_ms": middle, "p10_ms": low, "p90_ms": high, "most_ms": most}
        out[name] = figures | {"clips": len(values), "missed": len(found) - len(values)}
    return out


def stated() -> pd.DataFrame:
    """What was measured: one row a detector, padding, rate and edge, with the figures of `bias`."""
    return pd.DataFrame(_kept()["rows"])


def sentence(settings: VadSettings | Mapping[str, Any], rate_hz: int = 24_000) -> str:
    """What to say beside a latency limit measured by this detector. settings : or the `vad` of a score.json.

    Examples
    --------
    >>> sentence(VadSettings(speech_pad_ms=500))
    'The bias of this detector setting has not been measured; run benchmarks/detector_bias.py.'
    """
    frame = stated()
    rows = frame[(frame["settings"] == settings_key(settings)) & (frame["rate_hz"] == rate_hz)].set_index("edge")
    if rows.empty:
        return "The bias of this detector setting has not been measured; run benchmarks/detector_bias.py."
    words = [
        f"{edge}s {abs(row['median_ms']):.0f} ms {'late' if row['median_ms'] >= 0 else 'early'} "
        f"({row['p10_ms']:+.0f} to {row['p90_ms']:+.0f} ms in 8 of 10 clips)"
        for edge, row in rows.iterrows()
    ]
    return (
        f"The detector itself finds {' and '.join(words)}, median of {rows['clips'].iloc[0]} clips at {rate_hz} Hz "
        f"against {BELOW_PEAK_DB:.0f} dB below the loudest 10 ms."
    )


def settings_key(settings: VadSettings | Mapping[str, Any]) -> str:
    """The settings that differ from the default, as text; '' for the default."""
    given, usual = dict(settings), VadSettings().model_dump()
    return ", ".join(f"{name} {given[name]}" for name in usual if given.get(name, usual[name]) != usual[name])


def _kept() -> Mapping[str, Any]:
    return json.loads(data_path("detector_bias.json").read_text(encoding="utf-8"))
