"""G.711 mu-law, the eight-bit code of the telephone, from its definition in ITU-T G.711 (no tables)."""

from __future__ import annotations

import numpy as np

_BIAS, _CLIP = 132, 32635


def encode(samples: np.ndarray) -> bytes:
    """int16 (samples,) to one byte a sample."""
    value = samples.astype(np.int32)
    sign = np.where(value < 0, 0x80, 0)
    size = np.minimum(np.abs(value), _CLIP) + _BIAS
    # The segment is the place of the highest bit above the seventh; four bits below it follow.
    segment = np.clip(np.floor(np.log2(size)).astype(np.int32) - 7, 0, 7)
    step = (size >> (segment + 3)) & 0x0F
    return (~(sign | (segment << 4) | step) & 0xFF).astype(np.uint8).tobytes()


def decode(data: bytes) -> np.ndarray:
    """One byte a sample to int16 (samples,)."""
    code = ~np.frombuffer(data, np.uint8).astype(np.int32) & 0xFF
    size = (((code & 0x0F) << 3) + _BIAS << ((code >> 4) & 0x07)) - _BIAS
    return np.where(code & 0x80, -size, size).astype(np.int16)
