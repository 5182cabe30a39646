"""Intervals of the whole IFEval grid against a plain bootstrap loop over resamples.

    python benchmarks/bootstrap.py [--resamples 10000] [--loop-resamples 1000] [--seed 0]

Six systems x 1,038 cases over 240 conversations; one rate for every non-empty slice by level, action
and role (alone, in pairs and all three), and the entailment gaps and system differences. The verdicts
are random: the time does not depend on them. The loop draws conversations, adds up their rows and
divides, one resample after another. It is what our formulas replace: where a slice has many
conversations and a middling rate, the two intervals must be as wide as each other within a fifth.
The loop runs fewer resamples, and the ratio compares the seconds of all of them.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np

from workbench.statistics import differences, rates, slice_sums

GOAL_RATIO = 5.0
GOAL_SECONDS = 5.0
N_SYSTEMS = 6
N_ROLES, N_PROBES, N_INSTANCES = 8, 6, 5
CELLS_PER_ACTION = {
    "LISTEN": 13, "TAKE_TURN": 8, "BACKCHANNEL": 7, "YIELD": 6, "INTERRUPT": 5, "READBACK": 4,
    "NO_BACKCHANNEL": 2, "ACCEPT_OVERLAP": 2, "CONTINUE": 1,
}  # fmt: skip
SAFETY_CELLS = {"INTERRUPT": 3, "READBACK": 2, "BACKCHANNEL": 1}


def build_cases() -> list[tuple[str, str, str, int]]:
    """(level, action, role, conversation) of each of the 1,038 cases."""
    actions = [action for action, count in CELLS_PER_ACTION.items() for _ in range(count)]
    left, cases = dict(SAFETY_CELLS), []
    for cell, action in enumerate(actions):
        # A stride that is prime to 8 spreads each action over the roles.
        role = f"R{cell * 5 % N_ROLES + 1}"
        safety = left.get(action, 0) > 0
        left[action] = left.get(action, 0) - 1
        for instance in range(N_INSTANCES):
            levels = ["L1", "L2", "L3", "L4a"] + ["L0"] * (instance == 0) + ["L4b"] * safety
            cases += [(level, action, role, cell * N_INSTANCES + instance) for level in levels]
    return cases


def build_slices(cases) -> tuple[np.ndarray, list[tuple]]:
    """(n_cases, n_slices) membership and a name a slice, such as ("L1", None, "R3")."""
    members: dict[tuple, np.ndarray] = {}
    for row, (*facets, _) in enumerate(cases):
        for kept in itertools.product((True, False), repeat=3):
            name = tuple(facet if keep else None for facet, keep in zip(facets, kept, strict=True))
            members.setdefault(name, np.zeros(len(cases), dtype=bool))[row] = True
    return np.stack(list(members.values()), axis=1), list(members)


def build_differences(sums, names) -> list[tuple[int, int]]:
    """Entailment gaps (L1 - L2) of each system and role, and every two systems overall."""
    index = {name: place for place, name in enumerate(names)}
    roles = [None, *sorted({role for _, _, role in names if role})]
    gaps = [
        (sums.column(system, index["L1", None, role]), sums.column(system, index["L2", None, role]))
        for system in range(N_SYSTEMS)
        for role in roles
    ]
    overall = index[None, None, None]
    pairs = itertools.combinations(range(N_SYSTEMS), 2)
    return gaps + [(sums.column(a, overall), sums.column(b, overall)) for a, b in pairs]


def plain_loop(sums, pairs, n_resamples: int, seed: int) -> np.ndarray:
    """95 % percentile intervals (n_statistics, 2), one resample after another."""
    rng, count = np.random.default_rng(seed), len(sums.numerators)
    first, second = np.array(pairs).T
    samples = []
    for _ in range(n_resamples):
        drawn = rng.integers(count, size=count)
        with np.errstate(invalid="ignore"):
            ratios = sums.numerators[drawn].sum(0) / sums.denominators[drawn].sum(0)
        samples.append(np.concatenate([ratios, ratios[first] - ratios[second]]))
    table = np.array(samples)
    defined = [column[~np.isnan(column)] for column in table.T]
    nothing = (np.nan, np.nan)
    return np.array([np.percentile(one, [2.5, 97.5]) if one.size else nothing for one in defined])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--loop-resamples", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    cases = build_cases()
    slices, names = build_slices(cases)
    rng = np.random.default_rng(options.seed)
    passed = (rng.random((len(cases), N_SYSTEMS)) < 0.6).astype(float)
    passed[rng.random(passed.shape) < 0.01] = np.nan  # not measurable
    conversations = [conversation for *_, conversation in cases]

    start = time.perf_counter()
    sums = slice_sums(passed, slices, conversations)
    pairs = build_differences(sums, names)
    tops = (sums.numerators, sums.denominators)
    found, gaps = rates(*tops), differences(*tops, pairs)
    ours_s = time.perf_counter() - start

    start = time.perf_counter()
    ends = plain_loop(sums, pairs, options.loop_resamples, options.seed)
    loop_whole_s = (time.perf_counter() - start) * options.resamples / options.loop_resamples

    many = [index for index, one in enumerate(found) if one.clusters >= 100]
    many += [len(found) + index for index, one in enumerate(gaps) if one.clusters >= 100]
    ours = np.array([one.interval or (np.nan, np.nan) for one in (*found, *gaps)])
    width = np.diff(ours[many]).ravel() / np.diff(ends[many]).ravel()

    print(f"{len(cases)} cases x {N_SYSTEMS} systems, {len(sums.numerators)} conversations")
    print(f"{len(found)} rates and {len(gaps)} differences, with {sum(one.low is None for one in found)} too small")
    print(f"ours: {ours_s:.2f} s (goal {GOAL_SECONDS:g} s)")
    print(f"plain loop: {options.resamples} resamples take {loop_whole_s:.1f} s (from {options.loop_resamples})")
    print(
        f"width, ours / bootstrap ({len(many)} with 100 conversations or more): {width.min():.2f} to {width.max():.2f}"
    )
    same = len(many) and width.min() >= 0.8 and width.max() <= 1.25
    if not same:
        print("The two disagree, so the times mean nothing.")
    ratio = loop_whole_s / ours_s
    good = same and ratio >= GOAL_RATIO and ours_s < GOAL_SECONDS
    print(f"bootstrap ratio={ratio:.1f} goal={GOAL_RATIO:g} {'ok' if good else 'short'}")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
