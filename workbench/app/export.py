"""Cases as files to hand on: one HTML page that plays offline, or a folder of pages with an index.

A page holds what the Case view shows: sound (Ogg/Opus), waveforms at 5 ms, spans, window, verdict, judges,
annotations, prompt, scripts and transcript. It needs no server and asks no host for anything; text of
models is escaped, and a content security policy with a nonce keeps everything but the page's own script
from running.
"""

from __future__ import annotations

import base64
import io
import json
import os
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from workbench.app import annotations, case_texts
from workbench.app.detail import CHANNELS, Detail, load_detail
from workbench.app.look import css, variables
from workbench.app.store import Key, Store
from workbench.errors import InputError
from workbench.files import write_atomically, write_text
from workbench.pictures import marks
from workbench.pictures.texts import esc, plain
from workbench.pictures.theme import DARK, LIGHT, Theme
from workbench.version import VERSION

STEP_S = 0.005
_COMPRESSION = 0.94
"""libsndfile's scale: about 15 kbit/s a channel, and silence costs next to nothing."""

_BLOCK = 24_000
INDEX_COLUMNS = ("run", "event", "turn_label", "metric", "condition", "level", "action", "verdict", "label", "reason")


def case_page(store: Store, key: Key, *, audio: dict[str, str] | None = None, back: str = "") -> str:
    """The page of one row as text, its audio inside unless `audio` names files (both, user, agent).

    Raises
    ------
    InputError : there is no such row.
    """
    detail = _detail(store, key)
    people, _, _ = annotations.of_row(store.runs[key[0]].folder, *key[1:])
    if audio is None:
        sound = ogg(detail, "both")
        audio = {"both": f"data:audio/ogg;base64,{base64.b64encode(sound).decode()}"} if sound else {}
    nonce = secrets.token_urlsafe(12)
    context = {
        "title": plain(f"{' '.join(key[1:]).strip()} in {key[0]}: {detail.row['verdict']}"),
        "css": Markup(_css() + css_file("case.css")),
        "head": Markup(case_texts.head(detail, 0, 1).partition('<span class="wb-muted">·')[0]),
        "note": _note(detail),
        "beside": Markup(case_texts.beside(replace(detail, files=[]), store)),
        "below": Markup(case_texts.below(detail)),
        "people": Markup(_people(people)),
        "about": f"Exported by Duplex Workbench {VERSION}, {datetime.now(UTC):%Y-%m-%d %H:%M UTC}. Keys: space plays, "
                 "arrows move by a second, w and f zoom, l loops the window; the wheel zooms, a click seeks.",
        "data": Markup(_json(_data(detail, audio, people))),
        "js": Markup(css_file("case.js")), "nonce": nonce, "back": back,
    }  # fmt: skip
    return _environment().get_template("case.html").render(context)


def export_case(store: Store, key: Key, out: Path) -> Path:
    """Write the page of one row; `out` is a folder, or the page's own name when it ends in .html.

    Raises
    ------
    InputError : there is no such row.
    """
    text = case_page(store, key)
    page = out if out.suffix.lower() == ".html" else out / f"{page_name(key)}.html"
    write_text(page, text)
    return page


def export_bundle(
    store: Store, keys: Sequence[Key], out: Path, *, title: str = "Cases", told: Callable[[], None] | None = None
) -> Path:
    """Write index.html, a page a row and audio files below `out`; returns the index. told : called after each row.

    Raises
    ------
    InputError : no row, or one that does not exist.
    """
    if not keys:
        raise InputError("No case is chosen, so there is nothing to export.")
    several = len({key[0] for key in keys}) > 1
    names: dict[Key, str] = {}
    for key in keys:
        name = page_name(key, with_run=several)
        names[key] = f"{name}_{len(names)}" if name in names.values() else name  # 'a.b' and 'a_b' are two cases

    def write(key: Key) -> dict[str, Any]:
        detail, name = _detail(store, key), names[key]
        files = {}
        for side in ("both", *CHANNELS):
            sound = ogg(detail, side)
            if sound is not None:
                files[side] = f"audio/{name}.{side}.ogg"
                write_atomically(out / files[side], lambda part, data=sound: part.write_bytes(data))
        write_text(out / f"{name}.html", case_page(store, key, audio=files, back="index.html"))
        if told is not None:
            told()
        return {"page": f"{name}.html", "case": plain(key[1]), "row": detail.row}

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # encoding leaves the interpreter free
        rows = list(pool.map(write, keys))
    columns = [name for name in INDEX_COLUMNS if any(str(row["row"].get(name, "") or "") for row in rows)]
    for row in rows:
        row["cells"] = [plain(row["row"].get(name, ""), 300) for name in columns]
    context = {
        "title": plain(title), "rows": rows, "heads": ["case", *columns], "nonce": secrets.token_urlsafe(12),
        "verdict_at": columns.index("verdict") if "verdict" in columns else -1,
        "css": Markup(_css() + css_file("case.css")),
        "about": f"Exported by Duplex Workbench {VERSION}, {datetime.now(UTC):%Y-%m-%d %H:%M UTC}.",
    }  # fmt: skip
    write_text(out / "index.html", _environment().get_template("index.html").render(context))
    return out / "index.html"


def page_name(key: Key, *, with_run: bool = False) -> str:
    """A file name from ids; everything that is not plainly safe becomes '_'."""
    parts = [part for part in ((key[0] if with_run else ""), *key[1:]) if part]
    safe = (sign if sign.isascii() and (sign.isalnum() or sign in "-_+") else "_" for sign in "__".join(parts))
    return "".join(safe)[:150]


def ogg(detail: Detail, side: str) -> bytes | None:
    """The recording as Ogg/Opus, both sides in stereo or one alone in mono; None where there is no audio."""
    if detail.recording is None:
        return None
    samples = detail.recording.samples if side == "both" else detail.recording.samples[:, [CHANNELS.index(side)]]
    stream = io.BytesIO()
    options: dict[str, Any] = {"format": "OGG", "subtype": "OPUS"}
    try:
        file = soundfile.SoundFile(stream, "w", detail.recording.rate_hz, samples.shape[1],
                                   compression_level=_COMPRESSION, **options)  # fmt: skip
    except TypeError:  # soundfile before 0.13 knows no level; its default is larger and sounds the same
        file = soundfile.SoundFile(stream, "w", detail.recording.rate_hz, samples.shape[1], **options)
    with file:
        for at in range(0, len(samples), _BLOCK):
            file.write(samples[at : at + _BLOCK])
    return stream.getvalue()


def _detail(store: Store, key: Key) -> Detail:
    detail = load_detail(store, key)
    if not detail.row:
        raise InputError(" ".join(detail.missing))
    return detail


def _data(detail: Detail, audio: dict[str, str], people: list) -> dict[str, Any]:
    recording = detail.recording
    lines = [[x, text, "ink"] for x, text in marks.measured_lines(detail)]
    limit = marks.limit_line(detail)
    shown = [detail.window] if detail.window else []
    shown += [pair for pair in detail.windows.values() if pair not in shown]
    return {
        "duration": round(detail.duration_s, 4), "step": STEP_S, "audio": audio,
        "peaks": [_peaks(recording, channel) for channel in (0, 1)] if recording is not None else [],
        "gains": [recording.gain(channel) if recording is not None else 1.0 for channel in (0, 1)],
        "spans": [(detail.spans or {}).get(name, np.empty((0, 2))).round(3).tolist() for name in CHANNELS],
        "windows": [[round(float(end), 4) for end in pair] for pair in shown],
        "lines": lines + ([[*limit, "limit"]] if limit else []),
        "cues": [round(float(x), 3) for x in marks.cue_bounds(detail)],
        "moments": [[t_s, plain(text or said.annotator, 60)] for said in people for t_s, text in said.moments.values()],
    }  # fmt: skip


def _peaks(recording: Any, channel: int) -> str:
    """Least and greatest value of every 5 ms, as base64 of int8 pairs."""
    samples, hop = recording.samples[:, channel], round(recording.rate_hz * STEP_S)
    edges = np.arange(0, len(samples), hop)
    low, high = np.minimum.reduceat(samples, edges), np.maximum.reduceat(samples, edges)
    pairs = np.stack([np.floor(low / 258), np.ceil(high / 258)], axis=1).clip(-127, 127).astype(np.int8)
    return base64.b64encode(pairs.tobytes()).decode()


def _note(detail: Detail) -> str:
    if detail.recording is None:
        return "no audio was recorded"
    gains = [
        f"{name} {detail.recording.gain(at):.1f}×"
        for at, name in enumerate(CHANNELS)
        if detail.recording.gain(at) >= 1.5
    ]
    return f"drawn larger than it sounds: {', '.join(gains)}" if gains else ""


def _people(people: list) -> str:
    """What people said of the case, with the note as it was written."""
    out = []
    for said in people:
        facts = [f"verdict: {said.verdict}"] if said.verdict else []
        facts += [f"judge {name}: {stance}" for name, stance in said.judges.items()]
        facts += [f"label: {said.label}"] if said.label else []
        facts += [f"score: {said.score}"] if said.score else []
        facts += [f"{t_s:.2f} s {text}".strip() for t_s, text in sorted(said.moments.values())]
        note = f'<div class="wb-text">{esc(said.note)}</div>' if said.note else ""
        out.append(f'<div class="wb-part"><b>{esc(said.annotator)}</b> {esc("; ".join(facts))}{note}</div>')
    return f"<section><h3>Annotations</h3>{''.join(out)}</section>" if out else ""


def _css() -> str:
    def of(theme: Theme) -> str:
        more = f"--wb-window: {theme.window}; --wb-moment: {theme.series[3]}; color-scheme: {theme.name};"
        return f"{variables(theme)} {more}"

    return f":root {{ {of(LIGHT)} }} :root[data-theme=dark] {{ {of(DARK)} }}\n{css('text').replace(':host', 'body')}\n"


def css_file(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _environment() -> Environment:
    return Environment(loader=PackageLoader("workbench.app"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                       undefined=StrictUndefined)  # fmt: skip
