"""What a perfect and a perfectly wrong agent would do on a case, as moves (for calibration).

The moves use only the case: times relative to its cues. Whoever carries them out goes through the
same runner, detector and scorer as any other agent.
"""

from __future__ import annotations

from workbench.benchmarks.duplexmpe.authored import SILENT
from workbench.benchmarks.duplexmpe.cases import ONSET_S, YIELD_S, expectation
from workbench.cases import Case, Cue, Moment, Move

TRYING = (
    "Let me see what I can find on that for you, it should not take me long at all, I am going through "
    "everything that I have on it right now and one of these is sure to tell us what you want to know"
)
CHATTER = (
    "and that reminds me of something else entirely that I would like to tell all of you about, because it "
    "has been on my mind the whole day and nobody has asked me about it so far"
)
WRONG = "nobody could possibly know a thing like that, so I would rather sing you a song about penguins"

ANSWER_S, TRY_S, YIELDED_S = 0.6, 0.5, 1.0
"""The oracle answers T so long after it, begins so long after N4_Q, stops so long into N4_R."""

STYLES = ("oracle", "contrary")


def moves(case: Case, style: str) -> tuple[Move, ...]:
    """The moves of the 'oracle' (does what the case expects) or the 'contrary' agent (its opposite)."""
    return _oracle(case) if style == "oracle" else _contrary(case)


def _start(cue: Cue, offset_s: float = 0.0) -> Moment:
    return Moment(cue=cue.id, offset_s=offset_s)


def _end(cue: Cue, offset_s: float = 0.0) -> Moment:
    return Moment(cue=cue.id, of="end", offset_s=offset_s)


def _oracle(case: Case) -> tuple[Move, ...]:
    """Answers T with the gold answer, begins to answer N4_Q and gives way to N4_R; otherwise silent."""
    out, cues = [], case.cues
    for cue, after in zip(cues, (*cues[1:], None), strict=True):
        if cue.label == "T":
            out.append(Move(begin=_end(cue, ANSWER_S), text=expectation(case).gold))
        elif cue.label == "N4_Q" and after is not None:
            out.append(Move(begin=_end(cue, TRY_S), text=TRYING, until=_start(after, YIELDED_S)))
    return tuple(out)


def _contrary(case: Case) -> tuple[Move, ...]:
    """Talks into every turn that wants silence, is already talking (nonsense) as T ends and stops too
    late for anything new to begin in time, and talks on through N4_R."""
    out, cues = [], case.cues
    for cue, after in zip(cues, (*cues[1:], None), strict=True):
        if cue.label in SILENT:
            # Ends well before the next turn: N4_Q must find silence for its event to be eligible.
            out.append(Move(begin=_start(cue, 0.1), text=CHATTER, until=_end(cue, 0.3)))
        elif cue.label == "T":
            out.append(Move(begin=_end(cue, -0.6), text=WRONG, until=_end(cue, ONSET_S - 1.5)))
        elif cue.label == "N4_Q" and after is not None:
            last = max(after.duration_s + 0.4, YIELD_S + 0.4)
            out.append(Move(begin=_end(cue, TRY_S), text=CHATTER, until=_start(after, last)))
    return tuple(out)
