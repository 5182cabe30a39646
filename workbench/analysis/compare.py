"""Comparing runs on the same cases: wins, losses and ties, paired tests, slices, and the evidence side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from workbench.contract import KEYS, Benchmark
from workbench.deciding import keys, latency
from workbench.errors import InputError
from workbench.statistics import holm, mcnemar_exact, paired_counts, paired_difference, rate_columns

_LENGTHS = (0.0, 15.0, 20.0, 25.0, np.inf)


@dataclass(frozen=True)
class Comparison:
    """Two or more runs joined on case ids; the first is the baseline.

    joined : one row a case with the labels and, for each run, verdict, strict, reason and latencies
    in columns such as 'verdict:NAME'. only_in : cases that not every run has, with who has them.
    notes : what a reader must know, such as that the same dataset was built twice.
    """

    names: tuple[str, ...]
    joined: pd.DataFrame
    only_in: pd.DataFrame
    notes: tuple[str, ...] = ()

    def outcome(self, name: str, rule: str = "verdict") -> np.ndarray:
        """Pass 1, fail 0, not measurable NaN, for one run: float (cases,)."""
        return self.joined[f"{rule}:{name}"].map({"pass": 1.0, "fail": 0.0}).to_numpy(float)

    def tests(self, rule: str = "verdict") -> pd.DataFrame:
        """Every other run against the baseline, on rows measured for both; metrics are never pooled.

        A row for each metric of a benchmark that has several (`metric` is '' otherwise). Difference in
        percentage points with an interval over conversations, the exact sign-flip test over conversations, exact
        McNemar (which takes rows as independent: too optimistic over several levels of one conversation), and
        both p values corrected by Holm over the comparisons that have pairs.
        """
        base = self.outcome(self.names[0], rule)
        rows = []
        for metric, at in self.joined.groupby("metric", sort=False).indices.items():
            for name in self.names[1:]:
                other = self.outcome(name, rule)[at]
                pairs = paired_counts(other, base[at])
                test = mcnemar_exact(pairs.only_first, pairs.only_second)
                found = paired_difference(other, base[at], self.joined["conversation"].iloc[at])
                low, high = found.interval or (None, None)
                rows.append(
                    {
                        "metric": metric,
                        "system": name,
                        "baseline": self.names[0],
                        "pairs": pairs.pairs,
                        "excluded": pairs.excluded,
                        "wins": pairs.only_first,
                        "losses": pairs.only_second,
                        "ties": pairs.both + pairs.neither,
                        "difference_pp": None if found.value is None else 100 * found.value,
                        "low_pp": None if low is None else 100 * low,
                        "high_pp": None if high is None else 100 * high,
                        "p_sign_flip": found.p_value,
                        "p_mcnemar": test.p_value if pairs.pairs else None,
                        "odds_ratio": test.odds_ratio,
                        "conversations": found.clusters,
                        "note": found.note,
                    }
                )
        frame = pd.DataFrame(rows)
        for column in ("p_sign_flip", "p_mcnemar"):
            frame[f"{column}_holm"] = list(
                holm(frame[column].astype(object).where(frame[column].notna(), None)).p_values
            )
        return frame

    def by(self, column: str, rule: str = "verdict") -> pd.DataFrame:
        """Rates of every run and wins and losses against the baseline, sliced by a label.

        Columns: the label, cases; for each run rate, passed, measured, low, high, conversations and note (as
        'rate:NAME'), with the interval over conversations; for all but the first also wins and losses.

        Raises
        ------
        InputError : no such label.
        """
        if column not in self.joined:
            known = [name for name in self.joined if ":" not in name]
            raise InputError(f"There is no label {column!r} to slice by; labels are {', '.join(known)}.")
        base = self.outcome(self.names[0], rule)
        rows = []
        for value, index in self.joined.groupby(column, sort=True, observed=True).indices.items():
            row: dict = {column: value, "cases": len(index)}
            for name in self.names:
                outcome = self.outcome(name, rule)[index]
                found = rate_columns(outcome, self.joined["conversation"].iloc[index])
                row |= {f"{key}:{name}": value for key, value in found.items()}
                if name != self.names[0]:
                    row |= {
                        f"wins:{name}": int(((outcome == 1) & (base[index] == 0)).sum()),
                        f"losses:{name}": int(((outcome == 0) & (base[index] == 1)).sum()),
                    }
            rows.append(row)
        return pd.DataFrame(rows)

    def differences(self, rule: str = "verdict") -> pd.DataFrame:
        """The cases on which the runs do not all agree, evidence side by side."""
        verdicts = self.joined[[f"{rule}:{name}" for name in self.names]]
        return self.joined[verdicts.nunique(axis=1) > 1].reset_index(drop=True)


def compare(
    benchmark: Benchmark, runs: Mapping[str, tuple[pd.DataFrame, pd.DataFrame, Mapping]], *, anyway: bool = False
) -> Comparison:
    """Join scored runs on their rows.

    runs : name -> (measurements, verdicts, facts); facts hold `content` and `fingerprint` (of the cases), `scorer`,
    `thresholds` and `vad`. Runs of different datasets or scored differently are refused unless
    `anyway`.

    Raises
    ------
    InputError : fewer than two runs, no common case, or runs that should not be compared.
    """
    if len(runs) < 2:
        raise InputError("Comparing needs at least two runs.")
    names, keyed = tuple(runs), list(KEYS)
    if not anyway:
        _refuse_unlike({name: facts for name, (_, _, facts) in runs.items()})
    joined: pd.DataFrame | None = None
    seen: dict[str, list[str]] = {}
    for name, (measurements, verdicts, _) in runs.items():
        for case in dict.fromkeys(measurements["case"]):
            seen.setdefault(case, []).append(name)
        values = keys(measurements).assign(latency_s=latency(benchmark, measurements)).merge(
            verdicts[[*keyed, "verdict", "strict", "label", "reason"]], on=keyed
        )  # fmt: skip
        values = values.rename(columns={column: f"{column}:{name}" for column in values if column not in keyed})
        if joined is None:
            labels = [
                "conversation",
                *(c.name for c in benchmark.columns if (c.split or c.table) and c.name not in KEYS),
            ]
            own = keys(measurements).join(measurements[[label for label in labels if label in measurements]])
            if "w1_s" in measurements:
                own["length"] = pd.cut(pd.to_numeric(measurements["w1_s"], errors="coerce"), _LENGTHS).astype(str)
            joined = own.merge(values, on=keyed)
        else:
            joined = joined.merge(values, on=keyed)
    if joined.empty:
        raise InputError(f"The runs {', '.join(names)} have no case in common.")
    partial = [{"case": case, "runs": ", ".join(have)} for case, have in seen.items() if len(have) < len(names)]
    notes = built_apart({name: facts.get("fingerprint") for name, (_, _, facts) in runs.items()})
    return Comparison(names, joined, pd.DataFrame(partial, columns=["case", "runs"]), tuple(notes))


def built_apart(fingerprints: Mapping[str, str | None]) -> list[str]:
    """A sentence where runs of one dataset were made on different builds of it, else nothing."""
    if len(set(fingerprints.values())) < 2:
        return []
    told = ", ".join(f"{name} {(sum_ or '?')[:12]}" for name, sum_ in fingerprints.items())
    return [f"The runs are of the same cases in different builds, whose sound differs in its last bits ({told})."]


def _refuse_unlike(facts: Mapping[str, Mapping]) -> None:
    (first, base), *others = facts.items()
    for name, fact in others:
        for key, what in (
            ("content", "cases"),
            ("scorer", "version of the scorer"),
            ("thresholds", "thresholds"),
            ("vad", "detector settings"),
        ):
            if fact.get(key) != base.get(key):
                raise InputError(
                    f"The runs {first!r} and {name!r} have different {what}, so their verdicts cannot be compared; "
                    "score both alike, or insist with anyway=True."
                )
