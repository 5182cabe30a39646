"""What a perfect and a perfectly wrong agent would do on a case, as moves (for calibration).

The moves use only the case: times relative to its cues. Whoever carries them out goes through the
same runner, detector and scorer as any other agent.
"""

from __future__ import annotations

from workbench.benchmarks.ifeval.cases import TURN1, TURN2, WINDOW, expectation, pick
from workbench.cases import Case, Moment, Move

BRIEF = "Thank you for telling me, please go on."
ACKNOWLEDGEMENT = "Okay."
INTERVENTION = "Hold on, I need you to look at that right now."
AFTERWARDS = "All right, I have that now, thank you."
LONG = (
    "So the first thing to know is that we take this one step at a time and nobody has to hurry because "
    "each part leads on to the next one and I will go through all of it with you from the beginning to the "
    "end so that nothing is left out and you can see how the whole thing hangs together as we go along"
)

REPLY_S, YIELD_S, ACKNOWLEDGE_S, INTERVENE_S = 0.4, 0.25, 0.3, 0.5
HELD_S = 4.5
"""How long a speaker who keeps the floor talks on after a barge-in: past the 3.0 s window."""


def moves(case: Case, style: str) -> tuple[Move, ...]:
    """The moves of the 'oracle' (does what the case expects) or the 'contrary' agent (its opposite)."""
    return _oracle(case) if style == "oracle" else _contrary(case)


def _after(cue: str, offset_s: float = REPLY_S) -> Moment:
    return Moment(cue=cue, of="end", offset_s=offset_s)


def _in_window(case: Case, offset_s: float) -> Moment:
    window = case.windows[WINDOW]
    return Moment(cue=window.cue, offset_s=window.start_s + offset_s)


def _hold(until_s: float) -> Move:
    """The long answer to turn 1, held until `until_s` after the barge-in starts."""
    return Move(begin=_after(TURN1), text=LONG, until=Moment(cue=TURN2, offset_s=until_s))


def _oracle(case: Case) -> tuple[Move, ...]:
    expected = expectation(case)
    answer1 = Move(begin=_after(TURN1), text=BRIEF)
    answer2 = Move(begin=_after(TURN2), text=AFTERWARDS)
    match expected.action:
        case "YIELD":
            return (_hold(YIELD_S), answer2)
        case "CONTINUE" | "ACCEPT_OVERLAP":
            return (_hold(HELD_S),)
        case "BACKCHANNEL":
            return (answer1, Move(begin=_in_window(case, ACKNOWLEDGE_S), text=ACKNOWLEDGEMENT), answer2)
        case "INTERRUPT":
            return (answer1, Move(begin=_in_window(case, INTERVENE_S), text=INTERVENTION))
        case "READBACK":
            return (answer1, Move(begin=_after(TURN2), text=f"Let me say that back. {expected.target}."))
        case _:  # LISTEN and NO_BACKCHANNEL: nothing until the turn is over; TAKE_TURN: then promptly
            return (answer1, answer2)


def _contrary(case: Case) -> tuple[Move, ...]:
    expected = expectation(case)
    answer1 = Move(begin=_after(TURN1), text=BRIEF)
    match expected.action:
        case "YIELD":
            return (_hold(HELD_S),)
        case "CONTINUE":
            return (_hold(YIELD_S),)
        case "ACCEPT_OVERLAP":
            # Falls silent well before the barge-in, so the two never sound together.
            quiet_s = REPLY_S + expected.barge_in_after_s - 0.7
            return (Move(begin=_after(TURN1), text=LONG, until=_after(TURN1, quiet_s)),)
        case "LISTEN" | "NO_BACKCHANNEL":
            return (answer1, Move(begin=_in_window(case, ACKNOWLEDGE_S), text=INTERVENTION))
        case "BACKCHANNEL":
            # Both ways of being wrong: saying nothing, and taking the floor.
            if pick(case.conversation, 2):
                return (answer1, Move(begin=_after(TURN2), text=AFTERWARDS))
            until = _in_window(case, 3.0)
            return (answer1, Move(begin=_in_window(case, ACKNOWLEDGE_S), text=LONG, until=until))
        case "INTERRUPT" | "READBACK":
            return (answer1, Move(begin=_after(TURN2, 0.8), text=AFTERWARDS))
        case _:
            return (answer1,)
