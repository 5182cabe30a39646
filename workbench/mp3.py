"""Whether an MP3 holds what it announces: its frames walked one by one, since decoders pass over such faults.

Source: ISO/IEC 11172-3 and 13818-3 (frame headers); the Xing, Info and VBRI frames are conventions of encoders.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.errors import InputError

_RATES_HZ = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_KBPS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}


_DELAY_SAMPLES = 1105
"""What the commonest encoder and every decoder put before the first sample: 576 + 529."""


@dataclass(frozen=True)
class _Frame:
    """A frame: its length in bytes and samples; `announced` where it is an info frame (0: without a count)."""

    size: int
    samples: int
    rate_hz: int
    announced: int | None


def _frame(data: bytes, at: int) -> _Frame | None:
    """The layer III frame that begins at `at`, or None."""
    head = int.from_bytes(data[at : at + 4], "big")
    version, layer, kbps, rate, pad = (head >> s & m for s, m in ((19, 3), (17, 3), (12, 15), (10, 3), (9, 1)))
    if head >> 21 != 0x7FF or version == 1 or layer != 1 or kbps in (0, 15) or rate == 3:
        return None
    first = version == 3
    rate_hz, mono = _RATES_HZ[version][rate], (head >> 6 & 3) == 3
    size = (144 if first else 72) * _KBPS[first][kbps] * 1000 // rate_hz + pad
    announced, tag = None, at + 4 + ((17 if mono else 32) if first else (9 if mono else 17))
    if data[tag : tag + 4] in (b"Xing", b"Info"):
        announced = int.from_bytes(data[tag + 8 : tag + 12], "big") if data[tag + 7] & 1 else 0
    elif data[at + 36 : at + 40] == b"VBRI":
        announced = int.from_bytes(data[at + 50 : at + 54], "big")
    return _Frame(size, 1152 if first else 576, rate_hz, announced)


def check(path: Path) -> str | None:
    """What a reader must know of an MP3 file, as a sentence, or None.

    Raises
    ------
    InputError : less is there than is announced, or more, as in two files joined, of which decoders
        give only the first.
    """
    data = path.read_bytes()
    at, frames, infos, cut = 0, 0, [], False
    each_s = delay_s = 0.0
    while at < len(data) - 4:
        if data[at : at + 3] == b"ID3":
            at += 10 + sum((data[at + 6 + place] & 127) << 21 - 7 * place for place in range(4))
            continue
        frame = _frame(data, at)
        if frame is None:
            at = data.find(b"\xff", at + 1)
            if at < 0:
                break
            continue
        each_s, delay_s = frame.samples / frame.rate_hz, _DELAY_SAMPLES / frame.rate_hz
        cut = at + frame.size > len(data)
        if frame.announced is not None:
            infos.append((frames, frame.announced))
        elif not cut:
            frames += 1
        at += frame.size
    if len(infos) > 1:
        raise InputError(
            f"{path} is {len(infos)} MP3 files joined (another begins at {infos[1][0] * each_s:.2f} s), of which "
            "decoders give only the first; decode each and join the sound."
        )
    announced = infos[0][1] if infos else 0
    if announced > frames + 1:
        raise InputError(
            f"{path} is truncated: its header announces {announced * each_s:.2f} s and {frames * each_s:.2f} s are "
            "there; copy it again."
        )
    if announced and frames > announced + 1:
        raise InputError(
            f"{path} holds {frames * each_s:.2f} s and its header announces {announced * each_s:.2f} s, after which "
            "decoders stop; were two files joined? Decode each and join the sound."
        )
    if frames and not infos:
        ending = "; it ends inside a frame, so its end may be missing" if cut else ""
        return (
            f"{path.name} has no info frame, so the encoder's delay, usually {delay_s:.3f} s, stays in and all of it "
            f"is late by that{ending}; send WAV or FLAC where times matter."
        )
    return None
