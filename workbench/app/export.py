"""Cases as files to hand on: one HTML page that plays offline, or a folder of pages with an index.

A page holds what the Case view shows: sound (Ogg/Opus), waveforms at 5 ms, spans, window, verdict, judges,
annotations, prompt, scripts and transcript. It needs no server and asks no host for anything; text of
models is escaped, and a content security policy with a nonce keeps everything but the page's own script
from running.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from workbench.app import annotations, case_texts
from workbench.app.components import css
from workbench.app.detail import Detail, load_detail
from workbench.app.store import Key, Store
from workbench.errors import InputError
from workbench.files import write_atomically, write_text
from workbench.pictures import standalone
from workbench.pictures.peaks import encode
from workbench.pictures.texts import block, cell, esc, nothing, plain
from workbench.pictures.theme import DARK, LIGHT, variables
from workbench.scoring import CHANNELS
from workbench.version import VERSION

_NOT_LISTED = ("case", "latency_s", "judge_score", "error", "annotation")
"""Columns of Cases that an index leaves out: the case stands first, the rest is on its page."""


def case_page(store: Store, key: Key, *, audio: dict[str, str] | None = None, back: str = "") -> str:
    """The page of one row as text, its audio inside unless `audio` names files (both, user, agent).

    Raises
    ------
    InputError : there is no such row.
    """
    detail = _detail(store, key)
    people, _ = annotations.of_row(store.runs[key[0]].folder, *key[1:])
    inline = ""
    if audio is None and detail.recording is not None:
        inline = detail.recording.data_url()
    moments = [(t_s, plain(text or said.annotator, 60)) for said in people for t_s, text in said.moments.values()]
    nonce = secrets.token_urlsafe(12)
    context = {
        "title": plain(f"{' '.join(key[1:]).strip()} in {key[0]}: {detail.row['verdict']}"),
        "css": _css(),
        "head": Markup(case_texts.head(detail, 0, 1).partition('<span class="wb-muted">·')[0]),
        "picture": Markup(standalone.block(detail, audio=audio or {}, inline=inline, moments=moments, keys=True,
                                           nonce=nonce)),
        "beside": Markup(case_texts.beside(replace(detail, files=[]), store)),
        "below": Markup(case_texts.below(detail)),
        "people": Markup(_people(people)),
        "about": f"Exported by Duplex Workbench {VERSION}, {datetime.now(UTC):%Y-%m-%d %H:%M UTC}. Keys: space plays, "
                 "arrows move by a second, w and f zoom, l loops the window; the wheel zooms, a click seeks.",
        "nonce": nonce, "back": back,
    }  # fmt: skip
    return standalone.template("workbench.app", "case.html").render(context)


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
    shown = {name: column for name, column in store.table.shown().items() if name not in _NOT_LISTED}
    columns = {name: column.heading for name, column in shown.items() if any(not nothing(r["row"][name]) for r in rows)}
    for row in rows:
        row["cells"] = [cell(row["row"][name]) for name in columns]
    context = {
        "title": plain(title), "rows": rows, "heads": ["case", *columns.values()], "nonce": secrets.token_urlsafe(12),
        "verdict_at": list(columns).index("verdict") if "verdict" in columns else -1,
        "css": _css(),
        "about": f"Exported by Duplex Workbench {VERSION}, {datetime.now(UTC):%Y-%m-%d %H:%M UTC}.",
    }  # fmt: skip
    write_text(out / "index.html", standalone.template("workbench.app", "index.html").render(context))
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
    return encode(samples, detail.recording.rate_hz)


def _detail(store: Store, key: Key) -> Detail:
    detail = load_detail(store, key)
    if not detail.row:
        raise InputError(" ".join(detail.missing))
    return detail


def _people(people: list[annotations.Said]) -> str:
    """What people said of the case, with the note as it was written."""
    out = []
    for said in people:
        note = block(said.note) if said.note else ""
        out.append(f'<div class="wb-part"><b>{esc(said.annotator)}</b> {esc("; ".join(said.facts))}{note}</div>')
    return f"<section><h3>Annotations</h3>{''.join(out)}</section>" if out else ""


def _css() -> Markup:
    light, dark = (f"{variables(theme)} color-scheme: {theme.name};" for theme in (LIGHT, DARK))
    own = (Path(__file__).parent / "templates" / "case.css").read_text(encoding="utf-8")
    shared = css("text").replace(":host", "body") + standalone.style()
    return Markup(f":root {{ {light} }} :root[data-theme=dark] {{ {dark} }}\n{shared}\n{own}")
