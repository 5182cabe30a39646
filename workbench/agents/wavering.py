"""A reference agent whose skill is known: it does what a case expects with a stated probability.

Analyses can be tried on it before any real system is at hand: its true rates, and so its true
Entailment Gap, are what it was told, and every miss or delay of the tables can be traced to them.
"""

from __future__ import annotations

import hashlib
import math

from workbench.agents.base import Traits
from workbench.agents.scripted import VOICE, MovesAgent, Planner
from workbench.cases import Case, Moment, Move
from workbench.errors import InputError
from workbench.version import VERSION

DIRECTIVE = "directive"
"""The part of a prompt that states the rule; without it the rule is at most implied."""


class WaveringAgent(MovesAgent):
    """Does what the case expects, or else the opposite, both after a random delay.

    stated, implied : probability of doing what is expected when the prompt holds a directive, and
    when it does not. The luck is drawn once a conversation, so whoever manages a conversation at
    the lower probability also manages it at the higher.
    late_s : mean of the delay before each move, exponential and drawn once a case.
    seed : another seed is another agent of the same skill.
    """

    def __init__(self, planner: Planner, stated: float = 0.9, implied: float = 0.7, late_s: float = 0.0, seed: int = 0):
        for name, value in (("stated", stated), ("implied", implied)):
            if not 0 <= value <= 1:
                raise InputError(f"The agent 'wavering' cannot have {name}={value!r}; give a probability, 0 to 1.")
        if not (late_s >= 0 and math.isfinite(late_s)):
            raise InputError(f"The agent 'wavering' cannot have late_s={late_s!r}; give seconds of at least 0.")
        super().__init__("wavering", self._moves)
        self._benchmark_moves = planner
        self._stated, self._implied, self._late_s, self._seed = stated, implied, late_s, seed
        settings = {"voice": VOICE, "stated": stated, "implied": implied, "late_s": late_s, "seed": seed}
        self.traits = Traits("wavering", VERSION, "input", privileged=True, settings=settings)

    def _moves(self, case: Case, _style: str) -> tuple[Move, ...]:
        told = any(part.name == DIRECTIVE for part in case.prompt)
        good = self._luck(case.conversation) < (self._stated if told else self._implied)
        delay_s = -self._late_s * math.log(1 - self._luck(case.id))
        moves = self._benchmark_moves(case, "oracle" if good else "contrary")
        return tuple(_later(move, delay_s) for move in moves)

    def _luck(self, of: str) -> float:
        """A number in [0, 1) that depends on the seed and `of` alone."""
        digest = hashlib.sha256(f"{self._seed}:{of}".encode()).digest()
        return int.from_bytes(digest[:6], "big") / 2**48


def _later(move: Move, delay_s: float) -> Move:
    def moved(moment: Moment | None) -> Moment | None:
        return moment and moment.model_copy(update={"offset_s": round(moment.offset_s + delay_s, 3)})

    return move.model_copy(update={"begin": moved(move.begin), "until": moved(move.until)})
