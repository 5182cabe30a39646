"""New scenario pairs for Duplex-MPE: written by a language model, varied from the shipped ones, or copied.

`out` then holds one YAML file a pair (`build --scripts OUT` takes the folder), `author/` with where each
comes from, and `author.json`, which gathers that. Pairs that are there are kept, so the same call goes
on after a stop; one mended by hand stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from workbench.benchmarks.duplexmpe import authored as au
from workbench.benchmarks.duplexmpe.check import scenario_faults
from workbench.benchmarks.duplexmpe.stages import Desk, write_stages
from workbench.benchmarks.duplexmpe.varied import vary
from workbench.chat.client import ChatSettings
from workbench.construct.authors import PROVENANCE, Author, ChatAuthor, Outcome, Shelf
from workbench.errors import InputError, ProblemsFound

SHIPPED, COMBINATORIAL = "shipped", "combinatorial"
"""Names in place of a model: the shipped pairs, and variations of them."""

PAIRS = 2000
"""The size of the published set."""
MAX_TOKENS = 3000


def author_scripts(
    out: Path,
    *,
    model: str,
    base_url: str | None = None,
    key_env: str | None = None,
    concurrency: int = 4,
    limit: int | None = None,
    temperature: float | None = 1.0,
    seed: int = 0,
) -> Outcome:
    """Fill `out` up to `limit` pairs (2,000; the shipped 64 when they are copied).

    model : 'shipped', 'combinatorial', or a model at the OpenAI-compatible endpoint `base_url`, which
    writes each pair in three steps: the explicit conversation, its implicit version, and a second,
    blind labelling of both; a pair whose labels the second pass disagrees with is rejected and written
    anew. seed : of the variations, and of the attributes that a model is given.

    Raises
    ------
    InputError : no key, no such model, no server, or `out` cannot be used. What was written is kept.
    """
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit} leaves no pair; give at least 1.")
    shelf = Pairs(Path(out))
    if base_url is None and model in (SHIPPED, COMBINATORIAL):
        return _copied(shelf, model, limit, seed)
    settings = ChatSettings(
        model=model, base_url=base_url, key_env=key_env, temperature=temperature, max_tokens=MAX_TOKENS,
        concurrency=concurrency,
    )  # fmt: skip
    return asyncio.run(write_pairs(shelf, lambda: ChatAuthor(settings), limit or PAIRS, concurrency, seed))


def _copied(shelf: Pairs, model: str, limit: int | None, seed: int) -> Outcome:
    sources = au.load().scenarios
    made: Iterable[au.Scenario] = list(sources.values())[:limit]
    if model == COMBINATORIAL:
        made = vary(sources, limit or PAIRS, seed)
    written = kept = 0
    for scenario in made:
        if scenario.id in shelf.scenarios:
            kept += 1
            continue
        about: dict[str, Any] = {"author": model}
        if model == COMBINATORIAL:
            about |= {"seed": seed, "varied_from": scenario.varied_from}
        shelf.keep(scenario, about)
        written += 1
    shelf.summarise()
    return Outcome(written, kept, ())


async def write_pairs(
    shelf: Pairs, make: Callable[[], Author], count: int, concurrency: int = 4, seed: int = 0
) -> Outcome:
    """The three steps for every pair that is missing, with any author."""
    desk = Desk(shelf.out / PROVENANCE / "work", seed)
    desk.learn(shelf.scenarios.values())
    ids = [f"s{number:04d}" for number in range(1, count + 1)]
    kept = [name for name in ids if name in shelf.scenarios]
    before = len(shelf.scenarios)
    try:
        refused = await write_stages(desk, [name for name in ids if name not in shelf.scenarios], make, concurrency,
                                     lambda scenario, about: shelf.keep(scenario, about))  # fmt: skip
    except InputError as error:
        raise InputError(
            f"{error} {len(shelf.scenarios) - before} pairs were finished; the same command goes on from there."
        ) from None
    finally:
        shelf.summarise()
    problems = [f"{name}: {reason}" for name, reason in sorted(refused.items())]
    return Outcome(len(shelf.scenarios) - before, len(kept), tuple(problems))


class Pairs(Shelf):
    """The folder of finished pairs."""

    def __init__(self, out: Path):
        super().__init__(out, "scenarios")
        self.scenarios: dict[str, au.Scenario] = {}
        if out.is_dir() and any(out.glob("*.yaml")):
            problems: list[str] = []
            self.scenarios = au.read_scenarios(out, problems)
            problems += [
                f"{name}: {fault}" for name, scenario in self.scenarios.items() for fault in scenario_faults(scenario)
            ]
            if problems:
                raise ProblemsFound([f"{problem} Or remove its file to have it written anew." for problem in problems])

    def keep(self, scenario: au.Scenario, about: dict[str, Any]) -> None:
        """Land one pair."""
        value = {"scenarios": [scenario.model_dump(exclude_none=True, mode="json")]}
        page = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)
        self.land(scenario.id, scenario, page, about)
        self.scenarios[scenario.id] = scenario

    def summarise(self) -> None:
        """Gather the provenance of what is there in `author.json`; a text changed since is marked as edited."""
        if not self.scenarios:
            return
        items = self.origins(dict(sorted(self.scenarios.items())))
        authors = sorted({str(item.get("model") or item.get("author")) for item in items})
        sources = {scenario.source for scenario in self.scenarios.values()}
        summary = {"benchmark": "duplex-mpe", "pairs": len(items), "conversations": len(sources), "authors": authors}
        self.sum_up(summary, items)
