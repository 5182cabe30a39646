"""Do the 95 % intervals cover? Rates, differences and the paired test, simulated.

    python benchmarks/coverage.py [--draws 4000] [--seed 0] [--all]

Conversations of 3 or 4 cases; a conversation's chance of passing is drawn from a beta distribution with
the mean p and the intracluster correlation r (0: every case by itself; 1: a conversation passes whole or
fails whole). A slice of that many conversations stands alone, or inside a larger set whose other rows
belong to other conversations. Differences are of two rules or systems on the same conversations, whose
chances have a part in common; the paired test has two systems that are equally good, and what it is
measured by is how seldom it finds a difference at 5 %. Kappa's interval stands beside, outside the goal.
A cell is one combination; each line shows the worst coverage and the mean width of its cells. The last
line is `coverage ratio=<worst cell's coverage / 0.95> goal=0.98 ok|short`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from workbench.statistics import cohen_kappa, differences, rates, sign_flip

LEVEL, GOAL = 0.95, 0.98
CONVERSATIONS = (2, 5, 8, 10, 20, 48, 240)
SIZES = (3, 4)
CHANCES = (0.5, 0.8, 0.95, 0.99)
CORRELATIONS = (0.0, 0.3, 1.0)


@dataclass(frozen=True)
class Cell:
    """coverage : share of the draws whose interval holds the truth; None where there is no interval."""

    kind: str
    conversations: int
    size: int
    chance: str
    correlation: float
    coverage: float | None
    width: float | None
    note: str | None = None


def passes(rng: np.random.Generator, shape: tuple[int, int], size: int, chance: float, correlation: float):
    """Cases passed, whole numbers (conversations, draws)."""
    if correlation == 0:
        return rng.binomial(size, chance, shape)
    if correlation == 1:
        return size * rng.binomial(1, chance, shape)
    rest = (1 - correlation) / correlation
    return rng.binomial(size, rng.beta(chance * rest, (1 - chance) * rest, shape))


def alike(rng, shape: tuple[int, int], size: int, chances: tuple[float, float], correlation: float, shared: float):
    """Cases passed by two systems, (2, conversations, draws): normal scores, of which a part is shared."""

    def scores(more: tuple[int, ...]) -> np.ndarray:
        common = rng.normal(size=(*shape, *more))
        return np.sqrt(abs(shared)) * np.stack([common, np.sign(shared) * common]) + np.sqrt(
            1 - abs(shared)
        ) * rng.normal(size=(2, *shape, *more))

    whole = np.sqrt(correlation) * scores((1,)) + np.sqrt(1 - correlation) * scores((size,))
    return (whole < norm.ppf(chances).reshape(2, 1, 1, 1)).sum(-1)


def rate_cells(draws: int, seed: int, conversations: tuple[int, ...] = CONVERSATIONS) -> Iterator[Cell]:
    for place, (count, size, chance, r) in enumerate(itertools.product(conversations, SIZES, CHANCES, CORRELATIONS)):
        rng = np.random.default_rng([seed, place])
        for kind, others in (("rate, alone", 0), ("rate, inside a larger set", max(CONVERSATIONS) - count // 2)):
            top = passes(rng, (count, draws), size, chance, r)
            outside = np.zeros((others, draws), int)  # of the slice's own columns
            below = np.vstack([np.full(top.shape, size), outside])
            found = rates(np.vstack([top, outside]), below)
            yield cell(kind, count, size, f"{chance:g}", r, found, chance)


def difference_cells(draws: int, seed: int, conversations: tuple[int, ...] = CONVERSATIONS) -> Iterator[Cell]:
    pairs = ((0.5, 0.5), (0.95, 0.95), (0.99, 0.99), (0.95, 0.8))
    cells = itertools.product(conversations, (1, 4), pairs, CORRELATIONS, (-0.6, 0.0, 0.9))
    for place, (count, size, (one, other), r, shared) in enumerate(cells):
        rng = np.random.default_rng([seed, 1, place])
        first, second = alike(rng, (count, draws), size, (one, other), r, shared)
        columns = [(at, draws + at) for at in range(draws)]
        found = differences(np.hstack([first, second]), np.full((count, 2 * draws), size), columns)
        yield cell("difference", count, size, f"{one:g}-{other:g}", r, found, one - other)


def test_cells(draws: int, seed: int, conversations: tuple[int, ...] = CONVERSATIONS) -> Iterator[Cell]:
    for place, (count, chance, r) in enumerate(itertools.product(conversations, CHANCES, CORRELATIONS)):
        rng = np.random.default_rng([seed, 2, place])
        first, second = alike(rng, (count, draws), 4, (chance, chance), r, 0.3)
        kept = np.mean([sign_flip(column) > 1 - LEVEL for column in (first - second).T])
        yield Cell("paired test, no alarm", count, 4, f"{chance:g}", r, float(kept), None)


def kappa_cells(draws: int, seed: int) -> Iterator[Cell]:
    """Two raters who are each wrong on one item in ten, more often in hard conversations."""
    for place, (count, r) in enumerate(itertools.product((5, 10, 20, 48), (0.0, 0.8))):
        rng = np.random.default_rng([seed, 3, place])

        def labels(count: int, rng=rng, r=r) -> np.ndarray:
            common, hard = rng.random((2, count, 1))
            truth = np.where(rng.random((count, 4)) < r, common, rng.random((count, 4))) < 0.35
            wrong = np.where(rng.random((count, 1)) < r, 0.2 * hard, 0.1)
            return truth ^ (rng.random((2, count, 4)) < wrong)

        true = cohen_kappa(*labels(40_000).reshape(2, -1)).value
        found = [
            cohen_kappa(*labels(count).reshape(2, -1), clusters=np.repeat(np.arange(count), 4)) for _ in range(draws)
        ]
        yield cell("kappa", count, 4, "", r, [one for one in found if one.interval], true)


def cell(kind: str, count: int, size: int, chance: str, correlation: float, found: list, truth: float) -> Cell:
    if not found or found[0].interval is None:
        return Cell(kind, count, size, chance, correlation, None, None, found[0].note if found else None)
    low, high = np.array([one.interval for one in found]).T
    # The truth of 0.5 - 0.5 is 0, and so on: a hair for floating point.
    covered = (low <= truth + 1e-12) & (truth <= high + 1e-12)
    return Cell(kind, count, size, chance, correlation, float(covered.mean()), float((high - low).mean()))


def worst(cells: list[Cell]) -> Cell:
    return min((one for one in cells if one.coverage is not None), key=lambda one: one.coverage)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="print every cell")
    options = parser.parse_args()

    cells = list(rate_cells(options.draws, options.seed))
    cells += difference_cells(options.draws, options.seed)
    cells += test_cells(options.draws, options.seed)
    beside = list(kappa_cells(max(options.draws // 10, 200), options.seed))
    print(f"{'':<26}{'conversations':>14}{'correlation':>12}{'worst':>8}{'width':>8}   of the cells p x cases")
    for (kind, count, r), group in itertools.groupby(
        sorted(cells + beside, key=lambda one: (one.kind, one.conversations, one.correlation)),
        lambda one: (one.kind, one.conversations, one.correlation),
    ):
        part = list(group)
        if part[0].coverage is None:
            print(f"{kind:<26}{count:>14}{r:>12g}{'none':>8}           {part[0].note}")
            continue
        least = worst(part)
        wide = "" if least.width is None else f"{np.mean([one.width for one in part]):.3f}"
        of = f"worst at p {least.chance}, {least.size} cases" if least.chance else ""
        print(f"{kind:<26}{count:>14}{r:>12g}{least.coverage:>8.3f}{wide:>8}   {of}")
        for one in part if options.all else ():
            wide = "" if one.width is None else f"{one.width:.3f}"
            print(f"{'':<52}{one.coverage:>8.3f}{wide:>8}   p {one.chance}, {one.size} cases")
    least = worst(cells)
    counted = [one for one in cells if one.coverage is not None]
    print(
        f"{len(counted)} cells with an interval or a test, {len(cells) - len(counted)} without; worst: {least.kind}, "
        f"{least.conversations} conversations x {least.size} cases, p {least.chance}, correlation {least.correlation:g}"
    )
    ratio = least.coverage / LEVEL
    print(f"coverage ratio={ratio:.3f} goal={GOAL:g} {'ok' if ratio >= GOAL else 'short'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
