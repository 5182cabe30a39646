"""One case to hear and see inside a notebook: a player, the waveform with its spans, and what was said.

Everything is inside the output cell (the sound as Ogg/Opus, the picture as SVG), so it works in JupyterLab
without a network and still plays in a notebook that was exported to HTML. The script that moves the
playhead is the only part that needs JavaScript; without it sound and picture are there all the same.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import soundfile

from workbench import episodes
from workbench.episodes import EpisodeRecord
from workbench.errors import InputError
from workbench.files import read_json
from workbench.pictures import peaks
from workbench.pictures.texts import esc
from workbench.pictures.theme import LIGHT, Theme
from workbench.runs import Run
from workbench.scoring import SCORE, SpanStore, identity_of, load_scores
from workbench.spans import merge
from workbench.vad import VadSettings

FORMATS = {
    "opus": ("audio/ogg; codecs=opus", {"format": "OGG", "subtype": "OPUS", "compression_level": 0.95}),
    "flac": ("audio/flac", {"format": "FLAC", "subtype": "PCM_16"}),
}
"""Opus costs about 6 kB a second of conversation once inlined; FLAC some 30 kB, and is exact to the sample."""

CHANNELS = ("user", "agent")
_HERE = Path(__file__).parent / "browser"
_WIDTH, _LANE, _STRIP, _AXIS, _LEFT = 1000, 64, 18, 22, 46
_COLUMNS = 640


@dataclass(frozen=True)
class Listening:
    """What Jupyter shows; `html` is the same as text, for pages of your own."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def listen(
    run: Run,
    case_id: str,
    *,
    start_s: float = 0.0,
    end_s: float | None = None,
    event: Any = None,
    audio: str = "opus",
    theme: Theme = LIGHT,
) -> Listening:
    """The recording of one case with the speech found in it, the scored window, the verdict and the words.

    start_s, end_s : the part to show and to play; the whole when not given. event : which row of a case
    that is measured more than once; its first when not given. audio : 'opus' (small) or 'flac' (exact).

    Raises
    ------
    InputError : no such case in the run, not recorded, unreadable audio, an unknown kind of audio, or an
        empty part.
    """
    if audio not in FORMATS:
        raise InputError(f"There is no kind of audio {audio!r}; give one of {', '.join(FORMATS)}.")
    record = run.record(case_id)
    row, notes = _row(run, case_id, event)
    if record.error is not None:
        notes.append(f"The episode failed ({record.error.kind}): {record.error.message}")
    path = episodes.stereo_path(run.episodes, case_id)
    recording = peaks.load(path) if path.exists() else None
    if recording is None:
        notes.append("There is no audio of this case, so there is nothing to play.")
    whole_s = recording.duration_s if recording else record.duration_s
    first, last = max(0.0, start_s), min(whole_s, whole_s if end_s is None else end_s)
    if last <= first:
        raise InputError(f"Nothing of {case_id} lies from {start_s:g} to {end_s} s; it lasts {whole_s:.1f} s.")
    picture = _Picture(first, last, theme)
    parts = [
        f'<p class="wb-head"><b>{esc(run.name)}</b> {esc(case_id)}{_verdict(row)}</p>',
        "" if recording is None else _player(recording, first, last, audio, row),
        picture.draw(recording, _spans(run, record), _window(record, row), _limits(row)),
        *(f'<p class="wb-note">{esc(note)}</p>' for note in notes),
        _words(run, record),
    ]
    style, script = ((_HERE / name).read_text(encoding="utf-8") for name in ("listen.css", "listen.js"))
    colours = f"--ink:{theme.ink};--paper:{theme.paper};--muted:{theme.muted};--rule:{theme.grid}"
    # Model text may hold dollar signs: the two classes keep MathJax (of Jupyter and of nbconvert) away.
    return Listening(
        f'<div class="wb-listen tex2jax_ignore mathjax_ignore" style="{escape(colours)}" data-from="{first:.3f}" '
        f'data-to="{last:.3f}" data-left="{_LEFT}" data-width="{_WIDTH}">'
        f"<style>{style}</style>{''.join(parts)}<script>{script}</script></div>"
    )


# -- what is known of the case -----------------------------------------------------------------------


def _row(run: Run, case_id: str, event: Any) -> tuple[dict[str, Any], list[str]]:
    """Measurement and verdict of the case in one dict, empty when the run has not been scored."""
    try:
        measurements, verdicts, _ = load_scores(run)
    except InputError as error:
        return {}, [str(error)]
    rows = []
    for frame in (measurements, verdicts):
        mine = frame[frame["case"] == case_id]
        if event is not None and "event" in frame:
            mine = mine[mine["event"] == event]
        rows.append(mine.iloc[0].to_dict() if len(mine) else {})
    measured, verdict = rows
    if event is not None and not verdict:
        raise InputError(f"The case {case_id} has no event {event!r} in {run.folder}.")
    return measured | verdict, []


def _spans(run: Run, record: EpisodeRecord) -> dict[str, np.ndarray]:
    """Utterances by channel, as the run's own scoring found them; none when it has not been scored."""
    path = run.scores / SCORE
    if not path.exists():
        return {}
    vad = {name: value for name, value in read_json(path).get("vad", {}).items() if name != "key"}
    found = SpanStore(run, VadSettings(**vad)).get(record.case, identity_of(run, record.case)) or {}
    return {channel: merge(spans, run.benchmark.merge_gap_s) for channel, spans in found.items()}


def _number(value: Any) -> float | None:
    return None if value is None or isinstance(value, str) or pd.isna(value) else float(value)


def _window(record: EpisodeRecord, row: dict[str, Any]) -> tuple[float, float] | None:
    w0, w1 = _number(row.get("w0_s")), _number(row.get("w1_s"))
    if w0 is not None and w1 is not None:
        return w0, w1
    return next((pair for pair in record.windows.values() if pair is not None), None)


def _limits(row: dict[str, Any]) -> dict[str, float]:
    """The limit that the verdict rests on, where it has a place on the clock."""
    name, value, w0 = row.get("limit"), _number(row.get("limit_value")), _number(row.get("w0_s"))
    if not isinstance(name, str) or value is None or w0 is None or name == "backchannel_max_s":
        return {}
    if name.endswith("_ms"):
        return {f"limit {value:g} ms": w0 + value / 1000}
    return {f"limit {value:g} s": w0 + value} if name.endswith("_s") else {}


def _verdict(row: dict[str, Any]) -> str:
    if "verdict" not in row:
        return ""
    action = f"{esc(row['action'])} expected, " if isinstance(row.get("action"), str) else ""
    reason = f": {esc(row['reason'])}" if isinstance(row.get("reason"), str) else ""
    return f'<br>{action}<b class="wb-{esc(row["verdict"])}">{esc(row["verdict"])}</b>{reason}'


# -- sound -------------------------------------------------------------------------------------------


def encode(samples: np.ndarray, rate_hz: int, kind: str = "opus") -> str:
    """Audio as a data URL. samples : (samples, channels), int16 or float32; kind : see `FORMATS`."""
    mime, options = FORMATS[kind]
    out = io.BytesIO()
    soundfile.write(out, samples, rate_hz, **options)
    return f"data:{mime.replace(' ', '')};base64,{base64.b64encode(out.getvalue()).decode()}"


def _player(recording: peaks.Recording, first: float, last: float, kind: str, row: dict[str, Any]) -> str:
    rate_hz = recording.rate_hz
    url = encode(recording.samples[round(first * rate_hz) : round(last * rate_hz)], rate_hz, kind)
    buttons = "".join(
        f'<button type="button" data-hear="{who}"{" aria-pressed=true" if who == "both" else ""}>{who}</button>'
        for who in ("both", *CHANNELS)
    )
    w0 = _number(row.get("w0_s"))
    jump = ""
    if w0 is not None and first <= w0 < last:
        jump = f'<button type="button" data-jump="{max(first, w0 - 2) - first:.3f}">from 2 s before the window</button>'
    speeds = "".join(
        f'<option value="{speed}"{" selected" if speed == 1 else ""}>{speed:g}x</option>'
        for speed in (0.5, 0.75, 1, 1.5, 2)
    )
    return (
        f'<div class="wb-bar"><audio controls preload="metadata" src="{escape(url)}"></audio>'
        f'<span role="group" aria-label="whom to hear">{buttons}</span>'
        f'<select aria-label="speed">{speeds}</select>{jump}</div>'
    )


# -- picture -----------------------------------------------------------------------------------------


class _Picture:
    """The SVG: a lane and a strip of spans for each channel, the window, the limit, a clock."""

    def __init__(self, first: float, last: float, theme: Theme):
        self.first, self.last, self.theme = first, last, theme

    def x(self, t_s: float) -> float:
        share = (t_s - self.first) / (self.last - self.first)
        return round(_LEFT + min(max(share, 0.0), 1.0) * (_WIDTH - _LEFT - 6), 1)

    def draw(
        self,
        recording: peaks.Recording | None,
        spans: dict[str, np.ndarray],
        window: tuple[float, float] | None,
        limits: dict[str, float],
    ) -> str:
        theme, height = self.theme, 2 * (_LANE + _STRIP) + _AXIS + 16
        bottom = height - _AXIS
        out = []
        if window and window[1] > self.first and window[0] < self.last:
            left, right = self.x(window[0]), self.x(window[1])
            told = f"scored window, {window[0]:.3f} to {window[1]:.3f} s"
            out.append(
                f'<rect x="{left}" y="0" width="{right - left:.1f}" height="{bottom}" fill="{theme.window}" '
                f'fill-opacity=".55"><title>{told}</title></rect>'
            )
        for number, channel in enumerate(CHANNELS):
            top = 14 + number * (_LANE + _STRIP)
            colour = theme.user if channel == "user" else theme.agent
            out.append(f'<text x="4" y="{top + _LANE / 2 + 4}" fill="{theme.ink}">{channel}</text>')
            if recording is not None:
                out.append(f'<path d="{self._wave(recording, number, top)}" fill="{colour}"/>')
            out += self._boxes(spans.get(channel), channel, top + _LANE + 4, colour)
        out += self._clock(bottom)
        for text, at in limits.items():
            if self.first <= at <= self.last:
                x, right = self.x(at), self.x(at) < _WIDTH - 110
                out.append(
                    f'<line x1="{x}" x2="{x}" y1="0" y2="{bottom}" stroke="{theme.limit}" stroke-width="1.5" '
                    f'stroke-dasharray="5 4"/><text x="{x + (5 if right else -5)}" y="10" fill="{theme.limit}" '
                    f'text-anchor="{"start" if right else "end"}">{escape(text)}</text>'
                )
        out.append(
            f'<line class="wb-playhead" x1="{_LEFT}" x2="{_LEFT}" y1="0" y2="{bottom}" stroke="{theme.ink}" '
            'stroke-width="1.5"/>'
        )
        return (
            f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="waveforms of user and agent with speech '
            f'spans from {self.first:.1f} to {self.last:.1f} s">{"".join(out)}</svg>'
        )

    def _wave(self, recording: peaks.Recording, number: int, top: float) -> str:
        columns = recording.columns(number, self.first, self.last, _COLUMNS)
        middle, scale = top + _LANE / 2, _LANE / 2 * recording.gain(number)
        # Half a unit at least, so that silence is a line.
        highs = np.round(middle - np.maximum(columns["high"] * scale, 0.25), 1)
        lows = np.round(middle - np.minimum(columns["low"] * scale, -0.25), 1)
        xs = [self.x(float(t)) for t in columns["x"]]
        points = [*zip(xs, highs, strict=True), *zip(xs[::-1], lows[::-1], strict=True)]
        return "M" + "L".join(f"{x:g},{y:g}" for x, y in points) + "Z" if points else ""

    def _boxes(self, spans: np.ndarray | None, channel: str, top: float, colour: str) -> list[str]:
        out = []
        for start, end in spans if spans is not None else ():
            if end <= self.first or start >= self.last:
                continue
            left, right = self.x(start), self.x(end)
            out.append(
                f'<rect x="{left}" y="{top}" width="{max(right - left, 1):.1f}" height="8" fill="{colour}" rx="2">'
                f"<title>{channel} speech, {start:.3f} to {end:.3f} s ({end - start:.3f} s)</title></rect>"
            )
        return out

    def _clock(self, bottom: float) -> list[str]:
        length, theme = self.last - self.first, self.theme
        step = next((step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60) if length / step <= 14), 120)
        out = [f'<line x1="{_LEFT}" x2="{_WIDTH - 6}" y1="{bottom}" y2="{bottom}" stroke="{theme.muted}"/>']
        for at in np.arange(np.ceil(self.first / step), np.floor(self.last / step) + 1) * step:
            x = self.x(at)
            out.append(f'<line x1="{x}" x2="{x}" y1="{bottom}" y2="{bottom + 4}" stroke="{theme.muted}"/>')
            side = "middle" if x < _WIDTH - 20 else "end"
            out.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="{side}" fill="{theme.muted}">{at:g} s</text>')
        return out


# -- words -------------------------------------------------------------------------------------------


def _words(run: Run, record: EpisodeRecord) -> str:
    """What was said, in order of time: the user's script by cue, the agent's transcript by utterance."""
    case, lines = run.cases[record.case], []
    for played in record.cues:
        cue = next((cue for cue in case.cues if cue.id == played.id), None)
        if cue is not None and played.start_s is not None:
            lines.append((played.start_s, "user", cue.text))
    items: dict[str, list] = {}
    for piece in record.transcript or ():
        items.setdefault(piece.item, []).append(piece)
    for pieces in items.values():
        lines.append((pieces[0].t_s, "agent", "".join(piece.text for piece in pieces).strip()))
    rows = "".join(
        f"<span>{at:.2f} s</span><span>{who}</span><div>{esc(text)}</div>"
        for at, who, text in sorted(lines, key=lambda line: line[0])
    )
    silent = "" if record.transcript is not None else '<p class="wb-note">The agent gives no text of what it says.</p>'
    prompt = record.system_prompt or "(no system prompt)"
    return (
        # Not a table: Jupyter and nbconvert have styles of their own for those.
        f'<div class="wb-said">{rows}</div>{silent}'
        f'<details><summary>system prompt</summary><div class="wb-prompt">{esc(prompt)}</div></details>'
    )
