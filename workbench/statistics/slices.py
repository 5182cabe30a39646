"""Tables of rates by slice and of differences between slices: what every benchmark's summary is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from workbench.statistics.rates import Difference, Rate, SliceSums, differences, rate, rates, slice_sums

EXCLUDED = {"excluded": "unmeasurable"}
"""Column of a table of rates -> the verdict that it counts, outside the denominator."""


@dataclass(frozen=True)
class Slice:
    """Some rows of a run: the table they are a row of, what names that row, and which they are, bool (n_rows,)."""

    table: str
    keys: Mapping[str, object]
    mask: np.ndarray


@dataclass(frozen=True)
class Contrast:
    """The rate of some rows less that of others, bool (n_rows,) each, and what names the difference."""

    keys: Mapping[str, object]
    plus: np.ndarray
    minus: np.ndarray


def outcomes(verdicts: Sequence) -> np.ndarray:
    """pass 1, fail 0, anything else NaN: neither unmeasurable nor not eligible is measured."""
    return pd.Series(verdicts, dtype=object).map({"pass": 1.0, "fail": 0.0}).to_numpy(float)


def rate_columns(passed: Sequence, conversations: Sequence) -> dict[str, object]:
    """One rate as columns of a table: rate, passed, measured, low, high, conversations and note.

    passed : (n_rows,) 1, 0, or NaN where not measured; `outcomes` makes them of verdicts.

    Examples
    --------
    >>> found = rate_columns([1, 0, 1, float("nan")], ["a", "b", "c", "d"])
    >>> found["passed"], found["measured"], round(found["low"], 2), found["note"]
    (2, 3, 0.09, 'few conversations (3)')
    """
    found = rate(passed, conversations)
    counts = {"rate": found.value, "passed": int(found.numerator), "measured": int(found.denominator)}
    return counts | _ends("", found) | {"conversations": found.clusters, "note": found.note}


def rate_tables(
    slices: Iterable[Slice],
    verdicts: Mapping[str, Sequence],
    conversations: Sequence,
    *,
    value: str = "rate",
    beside: Mapping[str, str] = EXCLUDED,
    always: Iterable[str] = (),
) -> dict[str, pd.DataFrame]:
    """Rates with counts and intervals, one row a slice, grouped by table.

    Parameters
    ----------
    verdicts : prefix -> words (n_rows,); '' is the main rule, another such as 'strict_' a variant of it.
    conversations : (n_rows,) what shares audio.
    value : name of the column of the rate.
    beside : columns of counts outside the denominator, and the verdict of the main rule that each counts.
    always : tables that keep their empty slices; elsewhere a slice without rows has no row.

    Returns
    -------
    Columns: the keys, rate, passed, measured, those of `beside`, low, high, rate, passed, low and high of
    each variant, conversations (with something measured) and note.
    """
    slices, always = list(slices), set(always)
    slices = [part for part in slices if part.table in always or part.mask.any()]
    if not slices:
        return {}
    sums = _sums(verdicts, [part.mask for part in slices], conversations)
    found = rates(sums.numerators, sums.denominators)
    words = np.asarray(verdicts[""], str)
    out: dict[str, list[dict]] = {}
    for index, part in enumerate(slices):
        main, *variants = (found[sums.column(system, index)] for system in range(len(verdicts)))
        row = dict(part.keys) | {value: main.value, "passed": main.numerator, "measured": main.denominator}
        row |= {name: int((words[part.mask] == word).sum()) for name, word in beside.items()}
        row |= _ends("", main)
        for prefix, other in zip(list(verdicts)[1:], variants, strict=True):
            row |= {f"{prefix}{value}": other.value, f"{prefix}passed": other.numerator} | _ends(prefix, other)
        out.setdefault(part.table, []).append(row | {"conversations": main.clusters, "note": main.note})
    return {name: pd.DataFrame(rows) for name, rows in out.items()}


def difference_table(
    contrasts: Sequence[Contrast],
    verdicts: Mapping[str, Sequence],
    conversations: Sequence,
    *,
    sides: tuple[str, str],
    value: str = "rate",
    difference: str = "difference",
) -> pd.DataFrame:
    """Differences with the counts of both sides and intervals, one row a contrast; arguments as in `rate_tables`.

    Columns: the keys, passed, measured and rate of either side (each with its name from `sides` before it),
    the difference, low, high, the three of each variant, conversations (of the side with fewer) and note.
    """
    masks = [mask for contrast in contrasts for mask in (contrast.plus, contrast.minus)]
    sums = _sums(verdicts, masks, conversations)
    systems = range(len(verdicts))
    pairs = [
        (sums.column(system, 2 * at), sums.column(system, 2 * at + 1))
        for at in range(len(contrasts))
        for system in systems
    ]
    found = rates(sums.numerators, sums.denominators)
    gaps = differences(sums.numerators, sums.denominators, pairs)
    rows = []
    for at, contrast in enumerate(contrasts):
        row = dict(contrast.keys)
        for name, column in zip(sides, (2 * at, 2 * at + 1), strict=True):
            one = found[sums.column(0, column)]
            row |= {f"{name}_passed": one.numerator, f"{name}_measured": one.denominator, f"{name}_{value}": one.value}
        own = gaps[at * len(verdicts) : (at + 1) * len(verdicts)]
        for prefix, gap in zip(verdicts, own, strict=True):
            row |= {f"{prefix}{difference}": gap.value} | _ends(prefix, gap)
        rows.append(row | {"conversations": own[0].clusters, "note": own[0].note})
    return pd.DataFrame(rows)


def _sums(verdicts: Mapping[str, Sequence], masks: Sequence[np.ndarray], conversations: Sequence) -> SliceSums:
    passed = np.column_stack([outcomes(words) for words in verdicts.values()])
    return slice_sums(passed, np.column_stack(masks), conversations)


def _ends(prefix: str, found: Rate | Difference) -> dict[str, float | None]:
    return {f"{prefix}low": found.low, f"{prefix}high": found.high}
