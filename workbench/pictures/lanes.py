"""What is drawn of a recording: one `Lane` a system, read from its run, and what lies over it as plain columns.

Times are seconds on the session clock. Text in these columns comes from outside; it goes into hover
tools (which escape it), canvas text (which draws it) and through `texts.esc`, never into HTML as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from workbench import episodes
from workbench.cases import RATE_HZ, Case, Cue
from workbench.contract import Benchmark, Mark
from workbench.episodes import EpisodeRecord, Piece
from workbench.errors import InputError
from workbench.files import read_json
from workbench.pictures import peaks
from workbench.pictures.texts import plain
from workbench.pictures.theme import Theme
from workbench.runs import JUDGED, MEASUREMENTS, SCORE, VERDICTS, Run
from workbench.scoring import CHANNELS, identity_of, same_recording
from workbench.spans import merge
from workbench.version import SCORER

Columns = dict[str, list]
NO_SPANS = np.empty((0, 2))
VAD_STRIP, UTTERANCE_STRIP = (-1.17, -1.05), (-1.33, -1.21)
"""Below a waveform, which lies in [-1, 1]."""


@dataclass
class Lane:
    """One recording with what is known of it; what is missing is said in `missing`.

    measurement : the row that is shown, with its verdict; {} where nothing was scored. spans, utterances :
    channel -> float (n, 2). windows : the record's own, by name. speakers : cue -> who speaks. limits : the
    thresholds in force.
    """

    case: Case | None = None
    record: EpisodeRecord | None = None
    recording: peaks.Recording | None = None
    measurement: dict[str, Any] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    spans: dict[str, np.ndarray] = field(default_factory=dict)
    utterances: dict[str, np.ndarray] = field(default_factory=dict)
    windows: dict[str, tuple[float, float]] = field(default_factory=dict)
    speakers: Mapping[str, str] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def duration_s(self) -> float:
        if self.recording is not None:
            return max(self.recording.duration_s, 0.1)
        return max(self.record.duration_s, 0.1) if self.record else 10.0

    @property
    def window(self) -> tuple[float, float] | None:
        """The scored window: as measured, else the record's first."""
        found = [(mark.start_s, float(mark.end_s)) for mark in self.marks if mark.kind == "window" and mark.end_s]
        return next(iter(found or self.windows.values()), None)

    def gain(self, channel: str) -> float:
        """How much larger the channel is drawn than it sounds."""
        return self.recording.gain(CHANNELS.index(channel)) if self.recording else 1.0

    @property
    def loudness(self) -> str:
        """What is said of channels that are drawn larger than they are, or hold nothing."""
        if self.recording is None:
            return ""
        peak = dict(zip(CHANNELS, map(float, self.recording.peak), strict=True))
        larger = [f"{name} {self.gain(name):.1f}× (peak {20 * np.log10(peak[name]):.0f} dBFS)"
                  for name in CHANNELS if self.gain(name) >= 1.5]  # fmt: skip
        silent = [f"{name} is exact silence" for name in CHANNELS if peak[name] == 0]
        return "; ".join(([f"drawn larger than it sounds: {', '.join(larger)}"] if larger else []) + silent)


L = TypeVar("L", bound=Lane)


def read(
    lane: L, folder: Path, case_id: str, benchmark: Benchmark | None, event: Any = None, metric: str | None = None
) -> L:
    """Fill a lane, whose `case` may be given, from the run in `folder`. Never raises for what is wrong with a run.

    benchmark : None where it is not known here, so that there is nothing but the recording. event, metric : which
    row of a case that has several; the first that fits where None.
    """
    run = Run(folder, None, {})  # only its paths are used: reading every case would cost seconds
    path = episodes.record_path(run.episodes, case_id)
    try:
        lane.record = record = episodes.load_record(path)
        lane.windows = {name: tuple(pair) for name, pair in record.windows.items() if pair is not None}
        if record.error is not None:
            lane.missing.append(f"The episode failed ({record.error.kind}): {record.error.message}")
        if record.transcript is None:
            lane.missing.append("The agent gives no text of what it says.")
    except InputError as error:
        lane.missing.append(str(error) if path.exists() else "This case has not been recorded yet.")
    audio = episodes.stereo_path(run.episodes, case_id)
    if audio.exists():
        try:
            lane.recording = peaks.load(audio)
        except InputError as error:
            lane.missing.append(str(error))
    elif lane.record is not None:
        lane.missing.append("There is no audio of this case, so there is nothing to draw or to play.")
    if benchmark is not None:
        _read_scores(lane, run, case_id, benchmark, event, metric)
    return lane


def _read_scores(lane: Lane, run: Run, case_id: str, benchmark: Benchmark, event: Any, metric: str | None) -> None:
    this, vad = [("case", "==", case_id)], ""
    if benchmark.speakers and lane.case is not None:
        lane.speakers = benchmark.speakers(lane.case)
    try:
        score = read_json(run.scores / SCORE)
        if not isinstance(score, dict) or not isinstance(score["thresholds"], dict) or score["scorer"] != SCORER:
            raise ValueError
        for name in (MEASUREMENTS, JUDGED, VERDICTS):
            if name == JUDGED and not (run.scores / name).exists():
                continue
            frame = pd.read_parquet(run.scores / name, filters=this)
            for key, value in (("event", event), ("metric", metric)):
                frame = frame[frame[key] == value] if value is not None and key in frame else frame
            # Both tables have a reason: the code of the measurement, the sentence of the verdict.
            frame = frame.rename(columns={"reason": "code"} if name == MEASUREMENTS else {})
            lane.measurement |= next(iter(frame.to_dict("records")), {})
        vad = str(score["vad"]["key"])
        lane.limits = {name: score["thresholds"].get(name, usual) for name, usual in benchmark.limits().items()}
        lane.marks = benchmark.marks(lane.measurement)
    except (InputError, OSError, ValueError, KeyError):
        lane.missing.append("The run has not been scored, so there is no verdict and no window to show.")
    try:
        frame = pd.read_parquet(run.spans / f"{Path(vad).name}.parquet", filters=this)
        now = identity_of(run, case_id)
        lane.spans = {row.channel: np.array([list(pair) for pair in row.spans], float).reshape(-1, 2)
                      for row in frame.itertuples() if same_recording(row.identity, now)}  # fmt: skip
    except (OSError, ValueError, AttributeError):
        lane.spans = {}
    if not lane.spans:
        lane.missing.append("No speech spans are kept for this case: `workbench score` finds them.")
    lane.utterances = {name: merge(spans, benchmark.merge_gap_s) for name, spans in lane.spans.items()}


# -- columns -----------------------------------------------------------------------------------------


def _columns(names: str, rows: Iterable[tuple]) -> Columns:
    rows = list(rows)
    return {name: [row[at] for row in rows] for at, name in enumerate(names.split())}


def boxes(lane: Lane, channel: str, theme: Theme) -> Columns:
    """VAD spans and utterances as boxes in two strips below the waveform."""
    colour = theme.user if channel == "user" else theme.agent
    strips = (
        ("speech (VAD)", lane.spans, VAD_STRIP, theme.muted),
        ("utterance", lane.utterances, UTTERANCE_STRIP, colour),
    )
    return _columns("left right bottom top colour what", (
        (start, end, *strip, paint, f"{channel} {what} {number}: {start:.3f} to {end:.3f} s, {end - start:.3f} s long")
        for what, spans, strip, paint in strips
        for number, (start, end) in enumerate(spans.get(channel, NO_SPANS), start=1)
    ))  # fmt: skip


def windows(lane: Lane) -> Columns:
    """The scored window, and the case's other windows faintly."""
    chosen = lane.window
    scored = [mark for mark in lane.marks if mark.kind == "window" and mark.end_s]
    named = [(mark.words, (mark.start_s, mark.end_s), at > 0) for at, mark in enumerate(scored)]
    pairs = named or ([("window", chosen, False)] if chosen else [])
    pairs += [(name, pair, True) for name, pair in lane.windows.items()
              if not chosen or not np.allclose(pair, chosen, atol=2e-3)]  # fmt: skip
    return _columns("left right name alpha edge map", (
        (*pair, plain(name, 40), 0.1 if faint else 0.45, 0.0 if faint else 0.6, 0.25 if faint else 1.0)
        for name, pair, faint in pairs
    ))  # fmt: skip


def lines(lane: Lane, theme: Theme) -> Columns:
    """Onset, offset and limit, in order of time."""
    found = sorted((mark for mark in lane.marks if mark.kind != "window"), key=lambda mark: mark.start_s)
    return _columns("x text colour", (
        (mark.start_s, mark.words, theme.limit if mark.kind == "limit" else theme.ink) for mark in found
    ))  # fmt: skip


def line_labels(columns: Columns, top: float, step: float, start_s: float, end_s: float, width_px: int) -> Columns:
    """Names of the lines in view: below one another from `top`, and to the left of lines near the right edge."""
    seen = [row for row in zip(*columns.values(), strict=True) if start_s <= row[0] <= end_s]
    out = []
    for number, (x, text, colour) in enumerate(seen):
        left = (end_s - x) / (end_s - start_s) * width_px < 7 * len(text)
        out.append((x, top - step * (number % 3), text, colour, "right" if left else "left", -4 if left else 4))
    return _columns("x y text colour align shift", out)


def cue_bounds(lane: Lane) -> list[float]:
    cues = lane.record.cues if lane.record else ()
    return [at for cue in cues for at in (cue.start_s, cue.end_s) if at is not None]


def turns_of(case: Case | None, speakers: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Cue -> (label, speaker) of the cues that have a label besides their name."""
    return {
        cue.id: (plain(cue.label, 40), plain(speakers.get(cue.id) or cue.speaker, 40))
        for cue in (case.cues if case else ())
        if cue.label not in ("", cue.id)
    }


def played(lane: Lane) -> list[tuple[Cue, float]]:
    """The cues that were played, each with its start."""
    if lane.case is None or lane.record is None:
        return []
    places = {cue.id: cue.start_s for cue in lane.record.cues}
    return [(cue, places[cue.id]) for cue in lane.case.cues if places.get(cue.id) is not None]


def segments(lane: Lane, theme: Theme) -> Columns:
    """The script as constructed: speech and designed silences of every cue that was played.

    `tag` is the label of a cue that has one, where its speech begins.
    """
    out, turns = [], turns_of(lane.case, lane.speakers)
    for cue, start_s in played(lane):
        label, speaker = turns.get(cue.id, ("", ""))
        about, tag = " ".join(filter(None, (label, speaker))), label
        for part in cue.segments:
            if part.start_s is None or part.end_s is None:
                continue
            silent = part.kind == "silence"
            said = f"{part.mark or 'silence'} {part.end_s - part.start_s:.2f} s" if silent else plain(part.text, 400)
            what = f"{cue.id}{f' {about}' if about else ''}, {part.mark or part.kind}: {said}"
            label = f"{about}: {said}" if tag and not silent else said.replace("_", " ")
            out.append((start_s + part.start_s, start_s + part.end_s, label, what,
                        theme.muted if silent else theme.user, "" if silent else tag))  # fmt: skip
            tag = tag if silent else ""
    return _columns("left right text what colour tag", out)


def user_words(lane: Lane) -> Columns:
    return _columns("left right text", (
        (at + word.start_s, at + word.end_s,
         f"{plain(word.text, 60)} ({at + word.start_s:.3f} to {at + word.end_s:.3f} s)")
        for cue, at in played(lane) for part in cue.segments for word in part.words
    ))  # fmt: skip


def agent_words(lane: Lane) -> Columns:
    """Pieces of the agent's transcript at their arrival, each until the next of its item (at most 1.5 s)."""
    pieces, out = (lane.record.transcript or ()) if lane.record else (), []
    for piece, after in zip(pieces, [*pieces[1:], None], strict=False):
        until = after.t_s if after is not None and after.item == piece.item else piece.t_s + 0.4
        out.append((piece.t_s, min(max(until, piece.t_s + 0.05), piece.t_s + 1.5),
                    f"{plain(piece.text, 200).strip()} (arrived {piece.t_s:.3f} s)"))  # fmt: skip
    return _columns("left right text", out)


def items(lane: Lane) -> list[tuple[float, float, str]]:
    """The agent's transcript by item: when its first and last pieces arrived, and the text."""
    found: dict[str, list[Piece]] = {}
    for piece in (lane.record.transcript or ()) if lane.record else ():
        found.setdefault(piece.item, []).append(piece)
    return [
        (pieces[0].t_s, pieces[-1].t_s, "".join(piece.text for piece in pieces).strip()) for pieces in found.values()
    ]


def said(lane: Lane, theme: Theme) -> Columns:
    return _columns("left right text what colour", (
        (first, max(last + 0.4, first + 0.6), plain(text, 600), f"arrived {first:.2f} s: {plain(text, 600)}",
         theme.agent)
        for first, last, text in items(lane)
    ))  # fmt: skip


def events(lane: Lane) -> Columns:
    """Event marks: cues, interruptions, turn ends, server notes, cut audio, the awaited onset."""
    record = lane.record
    if record is None:
        return _columns("x text short", ())
    found: list[tuple[float, str, str]] = []
    starts = {cue.id: cue.start.kind for cue in lane.case.cues} if lane.case else {}
    turns = turns_of(lane.case, lane.speakers)
    for event in record.events:
        kind, cue = event.kind, event.data.get("cue", "")
        if kind == "cue":
            barge = "barge-in" if starts.get(cue) == "after_onset" else "cue"
            kind = " ".join(turns[cue]) if cue in turns else f"{barge} {cue}"
        found.append((event.t_s, kind, ", ".join(f"{name} {value}" for name, value in event.data.items())))
    if record.onset_s is not None:
        found.append((record.onset_s, "onset waited for", ""))
    cut = [one for one in record.deliveries if one.played < one.samples]
    if cut:
        lost = sum(one.samples - one.played for one in cut)
        found.append((cut[0].t_s, "audio cut", f"{lost / RATE_HZ:.3f} s of agent audio not played"))
    if record.error is not None:
        found.append((record.duration_s, "error", f"{record.error.kind}: {record.error.message}"))
    return _columns("x text short", (
        (t_s, plain(f"{kind.replace('_', ' ')} at {t_s:.3f} s" + (f" ({about})" if about else ""), 300),
         plain(kind, 24).replace("_", " ")) for t_s, kind, about in sorted(found)
    ))  # fmt: skip


def fitted(columns: Columns, start_s: float, end_s: float, width_px: int, px_a_sign: float = 6.3) -> Columns:
    """Label columns for boxes: text cut to what fits into each box at this zoom, placed inside the view.

    Where a box is too small for more than its `tag`, that may reach to the next box.
    """
    per_s = width_px / max(end_s - start_s, 1e-6)
    out = []
    tags = columns.get("tag", [""] * len(columns["left"]))
    after = [*columns["left"], end_s][1:] if columns["left"] else []
    for left, right, text, tag, free in zip(
        columns["left"], columns["right"], columns["text"], tags, after, strict=True
    ):
        left, right = max(left, start_s), min(right, end_s)
        room, text = int((right - left) * per_s / px_a_sign) - 1, " ".join(text.split())
        if tag and room < len(tag) + 4:
            text = tag if right > left and len(tag) * px_a_sign <= (free - left) * per_s + 2 else ""
        else:
            text = "" if room < 3 else text if len(text) <= room else text[: room - 1] + "…"
        out.append((left, text))
    return _columns("x label", out)


def event_labels(columns: Columns, start_s: float, end_s: float, width_px: int) -> Columns:
    """Names of the events in view, where there is room before the next one."""
    xs = columns["x"]
    shown = {"left": xs, "right": [*xs[1:], end_s + 10 * (end_s - start_s)][: len(xs)], "text": columns["short"]}
    labels = fitted(shown, start_s, end_s + 0.1 * (end_s - start_s), width_px)["label"]
    return {"x": xs, "label": [text if start_s <= x <= end_s else "" for x, text in zip(xs, labels, strict=True)]}
