"""The calibration matrix: rule x agent, and every exception to what reference agents should show.

A rule can be trusted when the oracle, which does what each case expects, passes (nearly) always,
and the contrary agent, which does the opposite, (nearly) never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from workbench.contract import Benchmark
from workbench.runs import Run
from workbench.statistics import outcomes, rate_columns

EXPECTED = {"oracle": ("at least", 0.98, "pass"), "contrary": ("at most", 0.02, "fail")}
"""Reference agent -> bound on the share that passes, for every rule that scores, and the verdict of each case."""


@dataclass(frozen=True)
class Calibration:
    """matrix : one row a rule and run: rate with passed, measured, low, high and note, excluded, expected, met (None
    where nothing is expected or nothing was measured). exceptions : one row a case that departs from what
    its reference agent should show, with the reason. kinds : run -> what kind of agent it is. references : those
    of a reference agent."""

    matrix: pd.DataFrame
    exceptions: pd.DataFrame
    kinds: dict[str, str]
    references: tuple[str, ...]


def reference(run: Run) -> str | None:
    """'oracle' or 'contrary' when the run is of that reference agent, which is told the case."""
    name = run.meta.agent.get("name")
    return name if run.meta.agent.get("privileged") and name in EXPECTED else None


def kind(run: Run) -> str:
    """What the run's agent is, in words, read from run.json."""
    word = reference(run)
    if word:
        bound, share, _ = EXPECTED[word]
        return f"reference, told the case: {bound} {100 * share:.0f} % expected to pass"
    return "told the case" if run.meta.agent.get("privileged") else "no expectation"


def calibrate(names: Sequence[str], runs: Sequence[Run], cases: pd.DataFrame, benchmark: Benchmark) -> Calibration:
    """Count every rule of every run and list the exceptions.

    Of rules that describe and do not score nothing is expected. `excluded` counts what has neither a pass
    nor a fail.
    """
    column, rows, exceptions = benchmark.rule_column, [], []
    free = [rule.name for rule in benchmark.rules if not rule.scored]
    for name, run in zip(names, runs, strict=True):
        own, word = cases[cases["run"] == name], reference(run)
        for rule in dict.fromkeys(cases[column]):
            part = own[own[column] == rule]
            found, bound, met = rate_columns(outcomes(part["verdict"]), part["conversation"]), None, None
            if word and rule not in free:
                side, share, _ = EXPECTED[word]
                bound = f"{side} {100 * share:.0f} %"
                if found["rate"] is not None:
                    met = found["rate"] >= share if side == "at least" else found["rate"] <= share
            rows.append({"run": name, column: rule, **found, "excluded": len(part) - found["measured"],
                         "expected": bound, "met": met})  # fmt: skip
        if word:
            exceptions.append(own[(own["verdict"] != EXPECTED[word][2]) & ~own[column].isin(free)])
    shown = ["run", "case", column, "verdict", "reason"]
    listed = pd.concat(exceptions or [cases.iloc[:0]], ignore_index=True)[shown]
    kinds = {name: kind(run) for name, run in zip(names, runs, strict=True)}
    told = tuple(name for name, run in zip(names, runs, strict=True) if reference(run))
    return Calibration(pd.DataFrame(rows), listed, kinds, told)
