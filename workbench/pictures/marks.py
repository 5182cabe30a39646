"""What is drawn over a recording, as plain columns: spans, windows, limits, cues, segments, words, events.

Times are seconds on the session clock. Text in these columns comes from outside; it goes into hover
tools (which escape it) and canvas text (which draws it), never into HTML.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.app.detail import Detail
from workbench.cases import Case
from workbench.pictures.texts import plain
from workbench.pictures.theme import Theme

Columns = dict[str, list]

VAD_LANE, UTTERANCE_LANE = (-1.17, -1.05), (-1.33, -1.21)


def span_boxes(detail: Detail, channel: str, theme: Theme) -> Columns:
    """VAD spans and utterances as boxes in two strips below the waveform."""
    out: Columns = {name: [] for name in ("left", "right", "bottom", "top", "colour", "what")}
    colour = theme.user if channel == "user" else theme.agent
    spans = (detail.spans or {}).get(channel, np.empty((0, 2)))
    for what, pairs, lane, paint in (
        ("speech (VAD)", spans, VAD_LANE, theme.muted),
        ("utterance", detail.utterances.get(channel, np.empty((0, 2))), UTTERANCE_LANE, colour),
    ):
        for number, (start, end) in enumerate(pairs, start=1):
            text = f"{channel} {what} {number}: {start:.3f} to {end:.3f} s, {end - start:.3f} s long"
            for name, value in zip(out, (start, end, *lane, paint, text), strict=True):
                out[name].append(value)
    return out


def windows(detail: Detail) -> Columns:
    """The scored window, and the case's other windows faintly."""
    chosen = detail.window
    others = [
        (name, pair) for name, pair in detail.windows.items() if not chosen or not np.allclose(pair, chosen, atol=2e-3)
    ]
    pairs = ([("window", chosen)] if chosen else []) + others
    faint = [place > 0 for place in range(len(pairs))]
    return {"left": [pair[0] for _, pair in pairs], "right": [pair[1] for _, pair in pairs],
            "name": [plain(name, 40) for name, _ in pairs], "alpha": [0.1 if each else 0.45 for each in faint],
            "edge": [0.0 if each else 0.6 for each in faint],
            "map": [0.25 if each else 1.0 for each in faint]}  # fmt: skip


def limit_line(detail: Detail) -> tuple[float, str] | None:
    """Where the verdict's limit lies on the clock, and how it is called; None when it has no place there."""
    name, value, window = detail.row.get("limit"), detail.row.get("limit_value"), detail.window
    if not name or window is None or value is None or np.isnan(value):
        return None
    if name.endswith("_ms"):
        return window[0] + value / 1000, f"limit {value:g} ms"
    if name == "brief_s":
        return None  # a length of speech anywhere in the window
    if name == "backchannel_max_s":
        # The ceiling is on the length of what begins in the window, so it stands after that onset.
        onset = detail.row.get("onset_s")
        return None if onset is None or np.isnan(onset) else (window[0] + onset + value, f"ceiling {value:g} s")
    if name.endswith("_s"):
        return window[0] + value, f"limit {value:g} s"
    return None


def measured_lines(detail: Detail) -> list[tuple[float, str]]:
    """The measured onset and offset on the clock."""
    window, out = detail.window, []
    if window is None:
        return out
    for name, what in (("onset_s", "onset"), ("offset_s", "offset")):
        value = detail.row.get(name)
        if value is not None and not np.isnan(value):
            out.append((window[0] + value, f"{what} {value * 1000:+.0f} ms"))
    return out


def _lines(detail: Detail, theme: Theme) -> list[tuple[float, str, str]]:
    limit = limit_line(detail)
    return [(*pair, theme.ink) for pair in measured_lines(detail)] + ([(*limit, theme.limit)] if limit else [])


def lines(detail: Detail, theme: Theme) -> Columns:
    found = _lines(detail, theme)
    return {"x": [one[0] for one in found], "colour": [one[2] for one in found]}


def line_labels(detail: Detail, theme: Theme, start_s: float, end_s: float, width_px: int) -> Columns:
    """Names of the lines in view: below one another, and to the left of lines near the right edge."""
    out: Columns = {name: [] for name in ("x", "y", "text", "colour", "align", "shift")}
    seen = sorted(one for one in _lines(detail, theme) if start_s <= one[0] <= end_s)
    for number, (x, text, colour) in enumerate(seen):
        left = (end_s - x) / (end_s - start_s) * width_px < 7 * len(text)
        for name, value in zip(
            out,
            (x, 1.02 - 0.27 * (number % 3), text, colour, "right" if left else "left", -4 if left else 4),
            strict=True,
        ):
            out[name].append(value)
    return out


def cue_bounds(detail: Detail) -> list[float]:
    cues = detail.record.cues if detail.record else ()
    return [at for cue in cues for at in (cue.start_s, cue.end_s) if at is not None]


def segments(detail: Detail, theme: Theme) -> Columns:
    """The script as constructed: speech and designed silences of every cue that was played.

    `tag` is the label of a cue that has one, where its speech begins.
    """
    out: Columns = {name: [] for name in ("left", "right", "text", "what", "colour", "tag")}
    turns = turns_of(detail.case)
    for cue, start_s in _played(detail):
        label, speaker = turns.get(cue.id, ("", ""))
        about = " ".join(filter(None, (label, speaker)))
        tag = label
        for part in cue.segments:
            if part.start_s is None or part.end_s is None:
                continue
            silent = part.kind == "silence"
            said = f"{part.mark or 'silence'} {part.end_s - part.start_s:.2f} s" if silent else plain(part.text, 400)
            what = f"{cue.id}{f' {about}' if about else ''}, {part.mark or part.kind}: {said}"
            colour = theme.muted if silent else theme.user
            shown = f"{about}: {said}" if tag and not silent else said.replace("_", " ")
            values = (start_s + part.start_s, start_s + part.end_s, shown, what, colour, "" if silent else tag)
            for name, value in zip(out, values, strict=True):
                out[name].append(value)
            tag = tag if silent else ""
    return out


def turns_of(case: Case | None) -> dict[str, tuple[str, str]]:
    """Cue -> (label, speaker) of the cues that have a label besides their name.

    Who speaks is taken from what the case says of its turns, where it does; else it is the cue's voice.
    """
    if case is None:
        return {}
    turns = {
        cue.id: (plain(cue.label, 40), plain(cue.speaker, 40)) for cue in case.cues if cue.label not in ("", cue.id)
    }
    told = case.expect.get("turns")
    for turn in told if isinstance(told, list | tuple) else ():
        if isinstance(turn, dict) and turn.get("cue") in turns and turn.get("speaker"):
            turns[turn["cue"]] = (turns[turn["cue"]][0], plain(turn["speaker"], 40))
    return turns


def _played(detail: Detail) -> list[tuple[Any, float]]:
    if detail.case is None or detail.record is None:
        return []
    places = {cue.id: cue.start_s for cue in detail.record.cues}
    return [(cue, places[cue.id]) for cue in detail.case.cues if places.get(cue.id) is not None]


def user_words(detail: Detail) -> Columns:
    out: Columns = {"left": [], "right": [], "text": []}
    for cue, start_s in _played(detail):
        for word in (word for part in cue.segments for word in part.words):
            out["left"].append(start_s + word.start_s)
            out["right"].append(start_s + word.end_s)
            out["text"].append(f"{plain(word.text, 60)} ({start_s + word.start_s:.3f} to {start_s + word.end_s:.3f} s)")
    return out


def agent_words(detail: Detail) -> Columns:
    """Pieces of the agent's transcript at their arrival, each until the next of its item (at most 1.5 s)."""
    out: Columns = {"left": [], "right": [], "text": []}
    pieces = (detail.record.transcript or ()) if detail.record else ()
    for at, piece in enumerate(pieces):
        after = pieces[at + 1] if at + 1 < len(pieces) else None
        until = after.t_s if after is not None and after.item == piece.item else piece.t_s + 0.4
        out["left"].append(piece.t_s)
        out["right"].append(min(max(until, piece.t_s + 0.05), piece.t_s + 1.5))
        out["text"].append(f"{plain(piece.text, 200).strip()} (arrived {piece.t_s:.3f} s)")
    return out


def said(detail: Detail, theme: Theme) -> Columns:
    """The agent's transcript by item, from the first piece's arrival to the last's."""
    items: dict[str, list] = {}
    for piece in (detail.record.transcript or ()) if detail.record else ():
        items.setdefault(piece.item, []).append(piece)
    out: Columns = {name: [] for name in ("left", "right", "text", "what", "colour")}
    for pieces in items.values():
        text = plain("".join(piece.text for piece in pieces).strip(), 600)
        left, right = pieces[0].t_s, max(pieces[-1].t_s + 0.4, pieces[0].t_s + 0.6)
        what = f"agent text, arrived {left:.2f} s: {text}"
        for name, value in zip(out, (left, right, text, what, theme.agent), strict=True):
            out[name].append(value)
    return out


def events(detail: Detail) -> Columns:
    """Event marks: cues, interruptions, turn ends, server notes, cut audio, the awaited onset."""
    out: Columns = {"x": [], "kind": [], "text": [], "short": []}
    record = detail.record
    if record is None:
        return out
    found: list[tuple[float, str, str]] = []
    starts = {cue.id: cue.start.kind for cue in detail.case.cues} if detail.case else {}
    turns = turns_of(detail.case)
    for event in record.events:
        about = ", ".join(f"{name} {value}" for name, value in event.data.items())
        kind = event.kind
        if kind == "cue" and starts.get(event.data.get("cue")) == "after_onset":
            kind = "barge-in"
        if event.kind == "cue":
            cue = event.data.get("cue", "")
            kind = " ".join(turns[cue]) if cue in turns else f"{kind} {cue}"
        found.append((event.t_s, kind, about))
    if record.onset_s is not None:
        found.append((record.onset_s, "onset waited for", ""))
    cut = [one for one in record.deliveries if one.played < one.samples]
    if cut:
        lost = sum(one.samples - one.played for one in cut)
        found.append((cut[0].t_s, "audio cut", f"{lost / 24000:.3f} s of agent audio not played"))
    if record.error is not None:
        found.append((record.duration_s, "error", f"{record.error.kind}: {record.error.message}"))
    for t_s, kind, about in sorted(found):
        out["x"].append(t_s)
        out["kind"].append(plain(kind, 40))
        out["short"].append(plain(kind, 24).replace("_", " "))
        out["text"].append(plain(f"{kind.replace('_', ' ')} at {t_s:.3f} s" + (f" ({about})" if about else ""), 300))
    return out


def fitted(columns: Columns, start_s: float, end_s: float, width_px: int, px_a_sign: float = 6.3) -> Columns:
    """Label columns for boxes: text cut to what fits into each box at this zoom, placed inside the view.

    Where a box is too small for more than its `tag`, that may reach to the next box.
    """
    per_s = width_px / max(end_s - start_s, 1e-6)
    x, label = [], []
    tags = columns.get("tag", [""] * len(columns["left"]))
    after = [*columns["left"], end_s][1:] if columns["left"] else []
    rows = zip(columns["left"], columns["right"], columns["text"], tags, after, strict=True)
    for left, right, text, tag, free in rows:
        left, right = max(left, start_s), min(right, end_s)
        room = int((right - left) * per_s / px_a_sign) - 1
        text = " ".join(text.split())
        x.append(left)
        if tag and room < len(tag) + 4:
            label.append(tag if right > left and len(tag) * px_a_sign <= (free - left) * per_s + 2 else "")
        else:
            label.append("" if room < 3 else text if len(text) <= room else text[: room - 1] + "…")
    return {"x": x, "label": label}


def event_labels(columns: Columns, start_s: float, end_s: float, width_px: int) -> Columns:
    """Names of the events in view, where there is room before the next one."""
    xs = columns["x"]
    if not xs:
        return {"x": [], "label": []}
    boxes = {"left": xs, "right": [*xs[1:], end_s + 10 * (end_s - start_s)], "text": columns["short"]}
    labels = fitted(boxes, start_s, end_s + 0.1 * (end_s - start_s), width_px)["label"]
    return {"x": xs, "label": [text if start_s <= x <= end_s else "" for x, text in zip(xs, labels, strict=True)]}
