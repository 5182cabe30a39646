"""Several systems on the same cases: how they rank under one metric and under another, and at which threshold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from workbench.analysis.statistics import ranks, tau_b
from workbench.benchmarks.duplexmpe import decide
from workbench.errors import InputError


def _rates(measurements: Mapping[str, pd.DataFrame], metric: str, settings: Mapping | None = None) -> np.ndarray:
    """Rates (settings, systems), NaN where nothing was measured."""
    columns = []
    for frame in measurements.values():
        state = decide.states(decide.as_table(frame[frame["metric"] == metric]), settings)
        passed, measured = (state == decide.PASS).sum(axis=1), (state >= decide.FAIL).sum(axis=1)
        columns.append(np.where(measured > 0, passed / np.maximum(measured, 1), np.nan))
    return np.stack(columns, axis=1)


def _ranks(rates: np.ndarray) -> list[int | None]:
    return [None if np.isnan(rank) else int(rank) for rank in ranks(rates)]


def presence_and_onset(measurements: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Every system's response presence beside its fresh onset, with its rank under each.

    measurements : system -> measurements frame of the same cases. `moves` is how many places a system
    loses when fresh onset ranks instead of presence: one that never stops talking is always 'present'.

    Raises
    ------
    InputError : no system.
    """
    if not measurements:
        raise InputError("A ranking needs the measurements of at least one run.")
    names = ("response_presence", "fresh_onset", "fresh_onset_permissive")
    rates = {name: _rates(measurements, name)[0] for name in names}
    out = pd.DataFrame({"system": list(measurements)})
    for name in names:
        out[name], out[f"{name}_rank"] = rates[name], _ranks(rates[name])
    out["moves"] = out["fresh_onset_rank"] - out["response_presence_rank"]
    return out.sort_values(["response_presence_rank", "system"], ignore_index=True)


def silence_ranking(
    measurements: Mapping[str, pd.DataFrame], limits: Iterable[float] = decide.BRIEF_GRID
) -> pd.DataFrame:
    """Silence preservation and rank of every system under each brief-speech threshold.

    `tau` is Kendall's tau-b of the whole ranking against that at the default threshold.
    """
    if not measurements:
        raise InputError("A ranking needs the measurements of at least one run.")
    limits = np.array(sorted(limits), float)
    rates = _rates(measurements, "silence", {"brief_s": limits})
    base = _rates(measurements, "silence")[0]
    tau = tau_b(rates, base) if len(base) > 1 else np.full(len(limits), np.nan)
    rows = []
    for index, limit in enumerate(limits):
        for system, value, rank in zip(measurements, rates[index], _ranks(rates[index]), strict=True):
            rows.append({"brief_s": float(limit), "system": system, "silence": value, "rank": rank, "tau": tau[index]})
    return pd.DataFrame(rows)
