"""The calibration matrix: verifier x agent, and every exception to what reference agents should show.

A verifier can be trusted when the oracle, which does what each case expects, passes (nearly) always,
and the contrary agent, which does the opposite, (nearly) never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from workbench.runs import Run

EXPECTED = {"oracle": ("at least", 0.98), "contrary": ("at most", 0.02)}
"""Reference agent -> bound on the share that passes, for every verifier."""

_EXCEPTION = {"oracle": "pass", "contrary": "fail"}


@dataclass(frozen=True)
class Calibration:
    """matrix : one row a verifier and run: passed, measured, excluded, rate, expected, met (None where
    nothing is expected or nothing was measured). exceptions : one row a case that departs from what
    its reference agent should show, with the reason. kinds : run -> what kind of agent it is."""

    matrix: pd.DataFrame
    exceptions: pd.DataFrame
    kinds: dict[str, str]


def reference(run: Run) -> str | None:
    """'oracle' or 'contrary' when the run is of that reference agent, which is told the case."""
    name = run.meta.agent.get("name")
    return name if run.meta.agent.get("privileged") and name in EXPECTED else None


def kind(run: Run) -> str:
    """What the run's agent is, in words, read from run.json."""
    word = reference(run)
    if word:
        bound, share = EXPECTED[word]
        return f"reference, told the case: {bound} {100 * share:.0f} % expected to pass"
    return "told the case" if run.meta.agent.get("privileged") else "no expectation"


def calibrate(
    names: Sequence[str], runs: Sequence[Run], cases: pd.DataFrame, verifier: str, free: Sequence[str] = ()
) -> Calibration:
    """Count every verifier of every run and list the exceptions.

    free : verifiers of which nothing is expected, since they describe and do not score. `excluded`
    counts what has neither a pass nor a fail.
    """
    rows, exceptions = [], []
    order = list(dict.fromkeys(cases[verifier]))
    for name, run in zip(names, runs, strict=True):
        own, word = cases[cases["run"] == name], reference(run)
        for action in order:
            part = own[own[verifier] == action]
            passed = int((part["verdict"] == "pass").sum())
            measured = int(part["verdict"].isin(["pass", "fail"]).sum())
            excluded = len(part) - measured
            rate = passed / measured if measured else None
            row = {
                "run": name,
                verifier: action,
                "rate": rate,
                "passed": passed,
                "measured": measured,
                "excluded": excluded,
                "expected": None,
                "met": None,
            }
            if word and action not in free:
                bound, share = EXPECTED[word]
                row["expected"] = f"{bound} {100 * share:.0f} %"
                if rate is not None:
                    row["met"] = rate >= share if bound == "at least" else rate <= share
            rows.append(row)
        if word:
            odd = own[(own["verdict"] != _EXCEPTION[word]) & ~own[verifier].isin(list(free))]
            exceptions.append(odd.reindex(columns=["run", "case", verifier, "verdict", "reason"]))
    listed = pd.concat(exceptions, ignore_index=True) if exceptions else None
    if listed is None:
        listed = pd.DataFrame(columns=["run", "case", verifier, "verdict", "reason"])
    return Calibration(pd.DataFrame(rows), listed, {name: kind(run) for name, run in zip(names, runs, strict=True)})
