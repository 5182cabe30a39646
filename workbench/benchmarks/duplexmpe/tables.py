"""Tables of one Duplex-MPE run: every metric on its own denominator, by version, label, bucket and more.

Rates carry passed, measured (the denominator), excluded (not measurable) and not_eligible (yield: outside
the denominator by its own chain). Intervals go by scenarios, since a scenario's windows and versions
share its audio. Everything is decided under the thresholds of the verdicts that are handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench.benchmarks.duplexmpe import rules
from workbench.benchmarks.duplexmpe.cases import ATTRIBUTES, BUCKETS, CONDITIONS, SILENT
from workbench.benchmarks.duplexmpe.rules import METRICS, STEPS
from workbench.contract import KEYS, WORDS, Chart, Mark, Score, Section
from workbench.deciding import number, window_marks
from workbench.statistics import mcnemar_exact, paired_counts, paired_difference, slices
from workbench.statistics.agreement import ranks
from workbench.statistics.slices import Slice

if TYPE_CHECKING:
    from workbench.analysis.sweep import Sweep

VERSIONS = ("both", *CONDITIONS)
SLICED = ("fresh_onset", "response_presence", "silence", "yield")
"""The metrics shown by attribute; all six would say little more and make the table long."""


def tables(measurements: pd.DataFrame, verdicts: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Every table of one run. measurements, verdicts : as scoring wrote them, one row a measured event."""
    frame = joined(measurements, verdicts)
    result = rate_tables(frame, _slices(frame))
    result["pairs"] = pair_tests(frame)
    result["yield_chain"] = yield_chain(frame)
    result["silence_thresholds"] = silence_thresholds(frame)
    result["unmeasurable"] = _unmeasurable(frame)
    return result


def joined(measurements: pd.DataFrame, verdicts: pd.DataFrame) -> pd.DataFrame:
    """Measurements with `verdict`, `label`, `limit_value` and `outcome` (pass 1, fail 0, else NaN)."""
    frame = measurements.merge(
        verdicts[[*KEYS, "verdict", "label", "limit_value"]], on=list(KEYS), validate="one_to_one"
    )
    return frame.assign(outcome=slices.outcomes(frame["verdict"]))


def rate_tables(frame: pd.DataFrame, parts: Iterable[Slice]) -> dict[str, pd.DataFrame]:
    """One row a slice, grouped by table. frame : see `joined`; needs verdict and conversation."""
    beside = slices.EXCLUDED | {"not_eligible": "not_eligible"}
    return slices.rate_tables(parts, {"": frame["verdict"]}, frame["conversation"], beside=beside, always=("metrics",))


def _slices(frame: pd.DataFrame) -> list[Slice]:
    metric, label = (frame[name].to_numpy(str) for name in ("metric", "turn_label"))
    buckets, speakers = (pd.to_numeric(frame[name]).to_numpy(float) for name in ("bucket", "speakers"))
    versions = {version: in_version(frame, version) for version in VERSIONS}
    of = {name: metric == name for name in METRICS}
    values = {name: frame[name].astype(str).to_numpy() for name in ATTRIBUTES}
    return [
        *(Slice("metrics", {"metric": name, "version": version}, of[name] & mask)
          for name in METRICS for version, mask in versions.items()),
        *(Slice("silence_by_label", {"turn_label": name, "version": version}, of["silence"] & (label == name) & mask)
          for name in SILENT for version, mask in versions.items()),
        *(Slice("by_bucket", {"metric": name, "bucket": f"quarter {bucket}"}, of[name] & (buckets == bucket))
          for name in METRICS for bucket in BUCKETS),
        *(Slice("by_speakers", {"metric": name, "speakers": f"{count} speakers"}, of[name] & (speakers == count))
          for name in METRICS for count in sorted(set(speakers[~np.isnan(speakers)].astype(int)))),
        *(Slice("by_attribute", {"metric": name, "attribute": attribute, "value": value}, of[name] & (found == value))
          for attribute, found in values.items() for name in SLICED for value in sorted(set(found))),
    ]  # fmt: skip


def pair_tests(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a metric: how often both, only one or neither version passes, and the difference.

    frame : see `joined`. A pair counts when both halves have a verdict; the rest is `incomplete`. The exact McNemar
    test is the paper's. It takes pairs as independent, which holds for metrics with one event a scenario (all but
    silence); the interval of the difference and the exact sign-flip test beside it go by whole scenarios.
    """
    order = [name for name in METRICS if (frame["metric"] == name).any()]
    order += [name for name in dict.fromkeys(frame["metric"]) if name not in order]
    return pd.DataFrame([_pair_test(name, frame[frame["metric"] == name]) for name in order])


def _pair_test(metric: str, rows: pd.DataFrame) -> dict:
    wide = rows.pivot(index=["conversation", "scenario", "event"], columns="condition", values="outcome")
    wide = wide.reindex(columns=["explicit", "implicit"])
    explicit, implicit = wide["explicit"].to_numpy(float), wide["implicit"].to_numpy(float)
    counts = paired_counts(explicit, implicit)
    found = paired_difference(explicit, implicit, np.asarray(wide.index.get_level_values("conversation")))
    low, high = found.interval or (None, None)
    return {
        "metric": metric,
        "pairs": counts.pairs,
        "incomplete": counts.excluded,
        "both": counts.both,
        "only_explicit": counts.only_first,
        "only_implicit": counts.only_second,
        "neither": counts.neither,
        "explicit_rate": (counts.both + counts.only_first) / counts.pairs if counts.pairs else None,
        "implicit_rate": (counts.both + counts.only_second) / counts.pairs if counts.pairs else None,
        "difference_pp": _points(found.value),
        "low_pp": _points(low),
        "high_pp": _points(high),
        "p_mcnemar": mcnemar_exact(counts.only_first, counts.only_second).p_value if counts.pairs else None,
        "p_sign_flip": found.p_value,
        "conversations": found.clusters,
        "note": found.note,
    }


def _points(fraction: float | None) -> float | None:
    return None if fraction is None else 100 * fraction


def yield_chain(frame: pd.DataFrame) -> pd.DataFrame:
    """Where each N4 event stands in the chain of yield, by version. frame : see `joined`.

    Columns: version, events (N4_R turns), not_measurable, then how many are left after each step, and of
    those that came through (`eligible`) how many passed.
    """
    rows = frame[frame["metric"] == "yield"]
    verdict = rows["verdict"].to_numpy(str)
    known = verdict != "unmeasurable"
    passed = rows["label"].map({name: place for place, name in enumerate((*STEPS, "eligible"))}).to_numpy(float)
    out = []
    for version in VERSIONS:
        mask = in_version(rows, version)
        left = [int((mask & known & (passed > place)).sum()) for place in range(len(STEPS))]
        out.append(
            {"version": version, "events": int(mask.sum()), "not_measurable": int((mask & ~known).sum())}
            | dict(zip(STEPS, left, strict=True))
            | {"eligible": left[-1], "yielded": int((mask & (verdict == "pass")).sum())}
        )
    return pd.DataFrame(out)


def silence_thresholds(frame: pd.DataFrame) -> pd.DataFrame:
    """Silence preservation under several brief-speech thresholds, the one in force among them, by version.

    Columns: those of `rate_tables`, by brief (the threshold) and version. frame : see `joined`.
    """
    rows = frame[(frame["metric"] == "silence") & frame["reason"].isna()]
    [brief] = (threshold for threshold in rules.THRESHOLDS if threshold.name == "brief_s")
    limits = np.union1d(brief.grid, rows["limit_value"].dropna())
    said, most = (rows[name].to_numpy(float) for name in ("speech_s", "most_s"))
    state = rules.silence(said, most, limits[:, None])
    found = []
    for limit, states in zip(limits, state, strict=True):
        parts = [Slice("at", {"brief": brief.words(limit), "version": version}, in_version(rows, version))
                 for version in VERSIONS]  # fmt: skip
        now = rows.assign(verdict=pd.Series(states, rows.index).map(WORDS))
        found += rate_tables(now, parts).values()
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def in_version(frame: pd.DataFrame, version: str) -> np.ndarray:
    """The rows of one of `VERSIONS`, bool (n,)."""
    return np.ones(len(frame), bool) if version not in CONDITIONS else frame["condition"].to_numpy(str) == version


def _unmeasurable(frame: pd.DataFrame) -> pd.DataFrame:
    missing = frame[frame["verdict"] == "unmeasurable"]
    reason = missing["reason"].fillna("the recording ends inside the window")
    counted = missing.assign(reason=reason).groupby(["reason", "metric"], sort=True).size()
    return counted.rename("turns").reset_index().sort_values("turns", ascending=False, ignore_index=True)


def presence_and_onset(swept: Sweep) -> pd.DataFrame:
    """Every system's response presence beside its fresh onset, with its rank under each, at the thresholds in force.

    swept : see `workbench.sweep`. `moves` is how many places a system loses when fresh onset ranks instead of
    presence: one that never stops talking is always 'present'. What is not measured has no rank.
    """
    out = pd.DataFrame({"system": swept.systems})
    for name in ("response_presence", "fresh_onset", "fresh_onset_permissive"):
        rates = swept.scores[name][swept.default]
        out[name], out[f"{name}_rank"] = rates, ranks(rates)
    out["moves"] = out["fresh_onset_rank"] - out["response_presence_rank"]
    return out.sort_values(["response_presence_rank", "system"], ignore_index=True)


# -- what is shown -----------------------------------------------------------------------------------------

_HEADINGS = {"fresh_onset": "fresh onset", "silence": "silence preservation", "yield": "answering-window yield",
             "fresh_onset_permissive": "fresh onset, permissive", "response_presence": "response presence",
             "window_response": "window response"}  # fmt: skip


def scores(frame: pd.DataFrame) -> dict[str, Score]:
    """Every metric over both versions; fresh onset ranks."""
    metric = frame["metric"].to_numpy(str)
    return {name: Score(_HEADINGS[name], metric == name) for name in METRICS}


def marks(row: Mapping[str, Any]) -> list[Mark]:
    """The scored window, the measured onset, the end of speech and the limit, on the session clock.

    The limit of brief speech has no place there: it is a length of speech anywhere in the window.
    """
    out = window_marks(row, "onset_s", "release_s")
    w0, limit, name = number(row, "w0_s"), number(row, "limit_value"), row.get("limit")
    if out and name in ("onset_within_s", "yield_within_s") and limit is not None:
        out.append(Mark("limit", w0 + limit, f"limit {limit:g} s", None, name, w0))
    return out


SECTIONS = (
    Section("metrics", "The metrics, explicit and implicit",
            "Each metric has a denominator of its own. fresh_onset, silence and yield are scored; the fourth "
            "capability, answer accuracy, needs a judge and stands with the judged tables. fresh_onset is strict, as "
            "written: a new onset within 5 s after the request and no speech active as it ends. fresh_onset_permissive "
            "asks for some new onset only. response_presence and window_response are diagnostics: they say how much "
            "speech there is to judge, and an agent that never stops talking has both.",
            kind="rates",
            charts=tuple(Chart("rates", "metric", f"{name} version", where={"version": name}, order=METRICS,
                               horizontal=True) for name in CONDITIONS)),
    Section("pairs", "Explicit against implicit, in pairs",
            "Both versions of a scenario have the same turns; the same event is compared. The exact McNemar test takes "
            "pairs as independent (several silence windows of one scenario are not); the interval of the difference "
            "goes by scenarios."),
    Section("yield_chain", "Yield: where events leave the denominator",
            "An event counts for yield only if the agent was silent during the question, began to speak in the 3 s gap "
            "and was still speaking when a human resolved it. The columns say how many events are left after each "
            "step."),
    Section("silence_by_label", "Silence preservation by label",
            "N1: Aria is mentioned, nothing is asked. N2: somebody or something else is addressed. N3: nobody is. "
            "Without a judge speech no longer than the threshold brief_s (1.0 s by default) counts as a brief "
            "acknowledgement.",
            kind="rates", charts=(Chart("rates", "turn_label", "silence", where={"version": "both"}, order=SILENT),)),
    Section("silence_thresholds", "Silence preservation under brief-speech thresholds",
            "The duration rule is this workbench's own; a ranking that hangs on it shows here.",
            kind="rates", folded=True),
    Section("by_bucket", "By position of the request", "The quarter of the turn list in which the request stands.",
            kind="rates", charts=(Chart("rates", "bucket", "fresh onset", where={"metric": "fresh_onset"}),)),
    Section("by_speakers", "By number of speakers", kind="rates"),
    Section("by_attribute", "By attribute of the scenario", kind="rates", folded=True),
    Section("unmeasurable", "Turns that could not be measured", always=True),
)  # fmt: skip

NOTES = (
    "A rate is passed / measured. Excluded turns could not be measured; events that are not eligible for yield are "
    "outside its denominator by definition.",
    "Published figures were measured on other audio and other scenarios, and are not mixed in.",
)
