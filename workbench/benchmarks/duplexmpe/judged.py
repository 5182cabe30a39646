"""What the judges add: answer accuracy, and silence preservation decided by the words.

Accuracy is conditional: its denominator is the T requests with any spoken response (response presence
by the detector) that a judge has read. Silence windows without speech pass without a judge; those with
speech pass when the judge calls it brief. What no judge has read is excluded and counted.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from workbench.analysis.slices import Slice, outcomes
from workbench.benchmarks.duplexmpe.authored import CONDITIONS, SILENT
from workbench.benchmarks.duplexmpe.pairs import pair_tests
from workbench.benchmarks.duplexmpe.summary import VERSIONS, rate_tables
from workbench.runs import Run


def answer_tables(run: Run, rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """accuracy (by version) and accuracy_pairs (explicit against implicit).

    rows : one row an item of the judge mpe_answer (see `judges.summary.case_rows`).
    """
    frame = answers(run, rows)
    condition = frame["condition"].to_numpy(str)
    slices = [Slice("accuracy", {"metric": "answer_accuracy", "version": version}, _of(condition, version))
              for version in VERSIONS]  # fmt: skip
    slices += [
        Slice("accuracy_by_bucket", {"bucket": f"quarter {bucket}"}, frame["bucket"].to_numpy() == bucket)
        for bucket in sorted(set(frame["bucket"]))
    ]
    made = rate_tables(frame, slices)
    return {**made, "accuracy_pairs": pair_tests(frame)}


def silence_tables(run: Run, rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """judged_silence (by version), judged_silence_by_label, and how often the duration rule agrees."""
    frame = silences(run, rows)
    condition, label = frame["condition"].to_numpy(str), frame["turn_label"].to_numpy(str)
    slices = [Slice("judged_silence", {"metric": "silence", "version": version}, _of(condition, version))
              for version in VERSIONS]  # fmt: skip
    slices += [Slice("judged_silence_by_label", {"turn_label": name}, label == name) for name in SILENT]
    made = rate_tables(frame, slices)
    both = frame[frame["outcome"].notna() & frame["by_duration"].isin(["pass", "fail"]) & (frame["speech_s"] > 0)]
    judged = both["outcome"].map({1.0: "brief", 0.0: "floor"})
    duration = both["by_duration"].map({"pass": "brief", "fail": "floor"})
    counts = pd.crosstab(judged, duration).reindex(index=["brief", "floor"], columns=["brief", "floor"], fill_value=0)
    counts = counts.rename_axis(index="by the judge").rename(columns=lambda name: f"{name} by duration").reset_index()
    return {**made, "judge_and_duration": counts.rename_axis(None, axis=1), "silence_pairs": pair_tests(frame)}


def answers(run: Run, rows: pd.DataFrame) -> pd.DataFrame:
    """One row a T request: conversation, scenario, condition, verdict and outcome of its answer.

    verdict : pass, fail; not_eligible where nothing was said (outside the denominator by definition);
    unmeasurable where something was said and no judge has read it.
    """
    measured = run.measurements
    target = measured[measured["metric"] == "response_presence"].reset_index(drop=True)
    verdicts = run.verdicts()
    presence = verdicts.loc[verdicts["metric"] == "response_presence", "verdict"].to_numpy(str)
    judged = _by_key(rows, "answer")
    given = [judged.get((case, event)) for case, event in zip(target["case"], target["event"], strict=True)]
    read = np.array([{"correct": "pass", "incorrect": "fail"}.get(word, "unmeasurable") for word in given], object)
    verdict = np.where(presence == "pass", read, np.where(presence == "fail", "not_eligible", "unmeasurable"))
    return _with_outcome(target.assign(metric="answer_accuracy"), verdict)


def silences(run: Run, rows: pd.DataFrame) -> pd.DataFrame:
    """One row a silence window: verdict and outcome by the judge, `by_duration` the verdict without one."""
    measured = run.measurements
    windows = measured[measured["metric"] == "silence"].reset_index(drop=True)
    verdicts = run.verdicts()
    duration = verdicts.loc[verdicts["metric"] == "silence", "verdict"].to_numpy(str)
    judged = _by_key(rows, "kind")
    given = [judged.get((case, event)) for case, event in zip(windows["case"], windows["event"], strict=True)]
    read = np.array([{"brief": "pass", "floor": "fail"}.get(word, "unmeasurable") for word in given], object)
    speech, most = (pd.to_numeric(windows[name]).to_numpy(float) for name in ("speech_s", "most_s"))
    verdict = np.where(np.isnan(speech), "unmeasurable", np.where(most == 0, "pass", read))
    return _with_outcome(windows.assign(by_duration=duration), verdict)


def _by_key(rows: pd.DataFrame, column: str) -> dict[tuple[str, str], str]:
    good = rows[(rows["status"] == "ok") & rows[column].notna()]
    return {(row.case, row.item): getattr(row, column) for row in good.itertuples()}


def _with_outcome(frame: pd.DataFrame, verdict: np.ndarray) -> pd.DataFrame:
    return frame.assign(verdict=verdict, outcome=outcomes(verdict))


def _of(condition: np.ndarray, version: str) -> np.ndarray:
    return np.ones(len(condition), bool) if version not in CONDITIONS else condition == version
