"""The picture of a recording for pages without a server: SVG, and a block of sound, picture and script around it.

Exported cases, notebooks and the report use it. Everything is inside; picture and sound need no script, which
adds zoom, the playhead and single channels. In the picture x is seconds, so that a zoom is another viewBox.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from workbench.pictures import lanes
from workbench.pictures.lanes import CHANNELS, Lane
from workbench.pictures.texts import esc
from workbench.pictures.theme import LIGHT

STEP_S = 0.005
"""Of the peaks that a page holds for zooming."""

_BROWSER = Path(__file__).parent / "browser"
_LEFT, _WIDTH, _HEIGHT, _AXIS = 46, 948, 206, 22
_WAVE, _TOP, _LANE = 62, 14, 86
"""Height of a waveform, where the first begins, and from one to the next."""

_COLUMNS = 640
_STEPS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60)


def style() -> str:
    return controls_style() + (_BROWSER / "page.css").read_text(encoding="utf-8")


def controls_style() -> str:
    return (_BROWSER / "recording.css").read_text(encoding="utf-8")


def player_script() -> str:
    """What every player's script begins with."""
    return (_BROWSER / "transport.js").read_text(encoding="utf-8")


def script() -> str:
    """The script of a block, which looks for the block that it stands in."""
    return f"(() => {{\n{player_script()}\n{(_BROWSER / 'page.js').read_text(encoding='utf-8')}}})();"


def template(package: str, name: str) -> Template:
    """A page of a package's templates/; whatever is put into it is escaped."""
    environment = Environment(loader=PackageLoader(package), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                              undefined=StrictUndefined)  # fmt: skip
    return environment.get_template(name)


def picture(lane: Lane, first_s: float = 0.0, last_s: float | None = None, moments: Iterable = ()) -> str:
    """The SVG of [first_s, last_s]. moments : (seconds, text) that people marked."""
    last_s = lane.duration_s if last_s is None else last_s
    bottom, shapes, labels = _HEIGHT - _AXIS, [], []
    for left, right, name, alpha, *_ in zip(*lanes.windows(lane).values(), strict=True):
        kind = "window" if alpha > 0.1 else "other"
        shapes.append(_box(kind, left, right, 0, bottom, f"{name}, {left:.3f} to {right:.3f} s"))
    for number, channel in enumerate(CHANNELS):
        top = _TOP + number * _LANE
        labels.append(f'<text x="4" y="{top + _WAVE / 2 + 4}">{channel}</text>')
        if lane.recording is not None:
            middle, scale = top + _WAVE / 2, _WAVE / 2 * lane.gain(channel)
            path = _wave(lane.recording.columns(number, first_s, last_s, _COLUMNS), middle, scale)
            shapes.append(f'<path class="wb-wave wb-{channel}" data-channel="{number}" data-middle="{middle}" '
                          f'data-scale="{_WAVE / 2}" d="{path}"/>')  # fmt: skip
        for left, right, _, above, _, what in zip(*lanes.boxes(lane, channel, LIGHT).values(), strict=True):
            vad = above == lanes.VAD_STRIP[1]
            if right > first_s and left < last_s:
                shapes.append(_box("vad" if vad else channel, left, right, top + _WAVE + (3 if vad else 10), 5, what))
    shapes += [_line(at, "cue", bottom) for at in lanes.cue_bounds(lane)]
    marks = [(mark.start_s, mark.words, "limit" if mark.kind == "limit" else "ink", 11)
             for mark in sorted(lane.marks, key=lambda mark: mark.start_s) if mark.kind != "window"]  # fmt: skip
    marks += [(at, text, "moment", bottom - 4) for at, text in moments]
    for number, (at, text, kind, y) in enumerate(marks):
        x, y = _x(at, first_s, last_s), y + (14 * (number % 3) if y == 11 else 0)
        side, by = ("end", -5) if x > _LEFT + _WIDTH - 7 * len(text) else ("start", 5)
        there = "" if first_s <= at <= last_s else ' visibility="hidden"'
        shapes.append(_line(at, kind, bottom))
        labels.append(f'<text class="wb-at wb-{kind}" data-t="{at:.4f}" x="{x + by:.1f}" y="{y}" text-anchor="{side}"'
                      f"{there}>{esc(text)}</text>")  # fmt: skip
    step = next((step for step in _STEPS if (last_s - first_s) / step <= 14), 120)
    for at in np.arange(np.ceil(first_s / step - 1e-9), np.floor(last_s / step + 1e-9) + 1) * step:
        x = min(_x(at, first_s, last_s), _LEFT + _WIDTH - 12)
        labels.append(f'<text class="wb-tick" x="{x:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{at:g} s</text>')
    seen = f'viewBox="{first_s:.4f} 0 {last_s - first_s:.4f} {_HEIGHT}" preserveAspectRatio="none"'
    about = f"user and agent with speech spans from {first_s:.1f} to {last_s:.1f} s"
    return (
        f'<svg class="wb-picture" viewBox="0 0 {_LEFT + _WIDTH + 6} {_HEIGHT}" role="img" aria-label="{about}">'
        f'<svg class="wb-inside" x="{_LEFT}" y="0" width="{_WIDTH}" height="{_HEIGHT}" {seen}>{"".join(shapes)}'
        f"{_line(first_s, 'head', bottom)}</svg>{''.join(labels)}</svg>"
    )


def _box(kind: str, left: float, right: float, y: float, height: float, title: str) -> str:
    return (f'<rect class="wb-{kind}" x="{left:.4f}" y="{y}" width="{right - left:.4f}" height="{height}">'
            f"<title>{esc(title)}</title></rect>")  # fmt: skip


def _x(at: float, first_s: float, last_s: float) -> float:
    return _LEFT + (at - first_s) / (last_s - first_s) * _WIDTH


def _line(at: float, kind: str, bottom: float) -> str:
    return f'<line class="wb-{kind}" x1="{at:.4f}" x2="{at:.4f}" y1="0" y2="{bottom}"/>'


def _wave(columns: Mapping[str, np.ndarray], middle: float, scale: float) -> str:
    """A closed outline, half a unit high at least so that silence is a line."""
    xs = [f"{x:.4g}" if x < 10 else f"{x:.3f}" for x in columns["x"]]
    ups = [f"{x},{y:.1f}" for x, y in zip(xs, middle - np.maximum(columns["high"] * scale, 0.25), strict=True)]
    downs = [f"{x},{y:.1f}" for x, y in zip(xs, middle - np.minimum(columns["low"] * scale, -0.25), strict=True)]
    return f"M{'L'.join(ups + downs[::-1])}Z" if ups else ""


def _minimap(lane: Lane, first_s: float, last_s: float) -> str:
    seen, long = f'viewBox="{first_s:.4f} 0 {last_s - first_s:.4f} 36"', f"{last_s - first_s:.4f}"
    paths = ""
    for at, channel in enumerate(CHANNELS if lane.recording is not None else ()):
        columns = lane.recording.columns(at, first_s, last_s, 250)
        paths += f'<path class="wb-{channel}" d="{_wave(columns, 9 + 18 * at, 9 * lane.gain(channel))}"/>'
    return (
        f'<svg class="wb-map" {seen} preserveAspectRatio="none" aria-hidden="true">{paths}'
        f'<rect class="wb-seen" x="{first_s}" y="0" width="{long}" height="36"/>{_line(first_s, "head", 36)}</svg>'
    )


def block(
    lane: Lane, first_s: float = 0.0, last_s: float | None = None, *, audio: Mapping[str, str] = {},
    inline: str = "", moments: Iterable = (), keys: bool = False, nonce: str = "",
) -> str:  # fmt: skip
    """Sound and picture as HTML that plays by itself, once `style` is in the page.

    audio : addresses of files, 'both' and perhaps 'user' and 'agent'. inline : a data URL that the element
    itself holds, so that it plays without the script too. keys : whether the page's keys are this block's.
    """
    last_s = lane.duration_s if last_s is None else last_s
    recording, moments = lane.recording, list(moments)
    data = {
        "first": first_s, "last": last_s, "left": _LEFT, "width": _WIDTH, "height": _HEIGHT, "step": STEP_S,
        "audio": dict(audio), "window": list(lane.window) if lane.window else None, "note": lane.loudness,
        "peaks": [_peaks(lane, at, first_s, last_s) for at in range(2)] if recording is not None else [],
    }  # fmt: skip
    signed = f' nonce="{nonce}"' if nonce else ""
    return (
        f'<div class="wb-recording"{" data-keys" if keys else ""}>{picture(lane, first_s, last_s, moments)}'
        f"{_minimap(lane, first_s, last_s)}"
        + (f'<audio controls preload="metadata" src="{esc(inline, len(inline))}"></audio>' if inline else "")
        + f'<div class="wb-controls"></div><script type="application/json"{signed}>{as_json(data)}</script>'
        f"<script{signed}>{script()}</script></div>"
    )


def _peaks(lane: Lane, channel: int, first_s: float, last_s: float) -> str:
    """Least and greatest value of every 5 ms, as large as they are drawn, as base64 of int8 pairs."""
    rate, gain = lane.recording.rate_hz, lane.gain(CHANNELS[channel]) / 258
    samples, hop = lane.recording.samples[round(first_s * rate) : round(last_s * rate), channel], round(rate * STEP_S)
    edges = np.arange(0, len(samples), hop)
    low, high = np.minimum.reduceat(samples, edges), np.maximum.reduceat(samples, edges)
    pairs = np.stack([np.floor(low * gain), np.ceil(high * gain)], axis=1).clip(-127, 127).astype(np.int8)
    return base64.b64encode(pairs.tobytes()).decode()


def as_json(value: Any) -> str:
    """JSON that can stand in a script element."""
    return for_script(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def for_script(text: str) -> str:
    """JSON text in which nothing can end the script element that it stands in."""
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
