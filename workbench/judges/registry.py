"""The judges there are. A new judge is a module with a `JUDGE` and one line here."""

from __future__ import annotations

from workbench.errors import InputError
from workbench.judges import mpe_answer, mpe_brief, pas
from workbench.judges.base import Judge

JUDGES: dict[str, Judge] = {judge.name: judge for judge in (pas.JUDGE, mpe_answer.JUDGE, mpe_brief.JUDGE)}


def get_judge(name: str | None, benchmark: str) -> Judge:
    """The judge called `name`, or the only one of a benchmark when no name is given.

    Raises
    ------
    InputError : unknown name, a judge of another benchmark, or none or several to choose from.
    """
    own = [judge for judge in JUDGES.values() if judge.benchmark == benchmark]
    if name is None:
        if len(own) != 1:
            choice = ", ".join(judge.name for judge in own) or "none yet"
            raise InputError(f"the benchmark {benchmark!r} has these judges: {choice}. Name one with --judge.")
        return own[0]
    if name not in JUDGES:
        raise InputError(f"there is no judge {name!r}; judges are {', '.join(sorted(JUDGES))}.")
    if JUDGES[name].benchmark != benchmark:
        raise InputError(f"the judge {name!r} belongs to {JUDGES[name].benchmark!r}, and this run is of {benchmark!r}.")
    return JUDGES[name]
