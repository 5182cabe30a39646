"""Pictures and recordings in Jupyter without a network: everything goes into the notebook's own output.

from workbench import pictures
from workbench.pictures import notebook
notebook.start()                               # once, in a cell of its own
notebook.show(pictures.gap_bars(...))
notebook.listen(run, "R1_C2_i1_L1")            # the sound too, which still plays in a notebook exported to HTML
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from bokeh.io import output_notebook
from bokeh.io import show as bokeh_show
from bokeh.plotting import figure
from bokeh.resources import Resources

from workbench.errors import InputError
from workbench.pictures import lanes, peaks, standalone
from workbench.pictures.lanes import Lane
from workbench.pictures.texts import esc
from workbench.pictures.theme import LIGHT, Theme, variables
from workbench.runs import Run


def start() -> None:
    """Load BokehJS into the output of this cell; every picture below needs that output to stay."""
    # Only the core: tables, widgets and WebGL would add megabytes that no picture here uses.
    output_notebook(Resources(mode="inline", components=["bokeh"]), hide_banner=True)


def show(*pictures: figure) -> None:
    """Show pictures below the cell, one under the other."""
    for picture in pictures:
        bokeh_show(picture)


@dataclass(frozen=True)
class Listening:
    """What Jupyter shows; `html` is the same as text, for pages of your own."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def listen(
    run: Run, case_id: str, *, start_s: float = 0.0, end_s: float | None = None, event: Any = None,
    metric: str | None = None, audio: str | None = "opus", theme: Theme = LIGHT,
) -> Listening:  # fmt: skip
    """The recording of one case with the speech found in it, the scored window, the verdict and the words.

    start_s, end_s : the part to show and to play; the whole when not given. event, metric : which row of a
    case that is measured more than once; its first when not given. audio : 'opus' (small, some 6 kB a second),
    'flac' (exact to the sample, some 30 kB), or None for the picture alone.

    Raises
    ------
    InputError : no such case in the run, not recorded, an unknown kind of audio, or an empty part.
    """
    if audio is not None and audio not in peaks.FORMATS:
        raise InputError(f"There is no kind of audio {audio!r}; give one of {', '.join(peaks.FORMATS)}.")
    run.record(case_id)
    lane = lanes.read(Lane(case=run.cases[case_id]), run.folder, case_id, run.benchmark, event, metric)
    if event is not None and lane.limits and not lane.measurement:
        raise InputError(f"The case {case_id} has no event {event!r} in {run.folder}.")
    first, last = max(0.0, start_s), min(lane.duration_s, lane.duration_s if end_s is None else end_s)
    if last <= first:
        raise InputError(f"Nothing of {case_id} lies from {start_s:g} to {end_s} s; it lasts {lane.duration_s:.1f} s.")
    row, inline = lane.measurement, ""
    if lane.recording is not None and audio is not None:
        inline = lane.recording.data_url(kind=audio, start_s=first, end_s=last)
    expected = f"{esc(row[run.benchmark.rule_column])}: " if row else ""
    verdict = f"<br>{expected}<b>{esc(row['verdict'])}</b>, {esc(row['reason'])}" if row else ""
    # Model text may hold dollar signs: the two classes keep MathJax (of Jupyter and of nbconvert) away.
    style = f"{variables(theme)} max-width: 1040px; padding: 8px; font: 13px/1.45 var(--wb-font); color: var(--wb-ink)"
    notes = "".join(f"<p>{esc(note)}</p>" for note in lane.missing)
    return Listening(
        f'<div class="tex2jax_ignore mathjax_ignore" style="{escape(style)}; background: var(--wb-raised)">'
        f"<style>{standalone.style()}</style><p><b>{esc(run.name)}</b> {esc(case_id)}{verdict}</p>"
        f"{standalone.block(lane, first, last, inline=inline)}{notes}{_words(lane)}</div>"
    )


def _words(lane: Lane) -> str:
    """What was said, in order of time: the user's script by cue, the agent's transcript by utterance."""
    lines = [(at, "user", cue.text) for cue, at in lanes.played(lane)]
    lines += [(first, "agent", text) for first, _, text in lanes.items(lane)]
    rows = "".join(
        f"<span>{at:.2f} s</span><span>{who}</span><div>{esc(text)}</div>" for at, who, text in sorted(lines)
    )
    # Not a table: Jupyter and nbconvert have styles of their own for those.
    prompt = esc(lane.record.system_prompt or "(no system prompt)")
    return (f'<div class="wb-said">{rows}</div><details><summary>system prompt</summary>'
            f'<div class="wb-prompt">{prompt}</div></details>')  # fmt: skip
