"""Variations of an item whose effect on a sound judge is known beforehand."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from workbench.cases import Case
from workbench.judges.base import Item, Judge
from workbench.shipped import data_path, read_yaml

BASE = "base"
"""The unchanged item: what every variation is compared with."""


@dataclass(frozen=True)
class Probe:
    """One variation. `expect` is what a sound judge does to the score: same | not_higher | not_lower | lower.

    of : the name of the item that is varied ('' where a case has one); the variation's own is `item.item`.
    """

    kind: str
    variant: str
    item: Item
    expect: str
    repeat: int = 0
    of: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.variant}" if self.variant else self.kind


def attacks() -> list[dict[str, str]]:
    """The red-team set: {id, aim, text}."""
    return read_yaml(data_path("judges", "red_team.yaml"))["attacks"]


def fillers() -> list[str]:
    return read_yaml(data_path("judges", "fillers.yaml"))["fillers"]


def probes_of(
    judge: Judge, case: Case, item: Item, other: Item | None, *, repeats: int, injections: int, seed: int
) -> list[Probe]:
    """Every variation of one item.

    other : an item of another stratum, whose words are borrowed; None leaves that control out.
    repeats : times the item is asked unchanged (the first counts as the base). injections : attacks
    tried on this item, drawn by case so that the whole set is used over many cases.
    """
    said = item.text(judge.judged) or ""
    out = [Probe(BASE, "", item, "same")]
    out += [Probe("repeat", str(number), item, "same", number) for number in range(1, repeats)]
    out.append(Probe("position", "", item.reordered(), "same"))
    padded = " ".join([*fillers()[:2], said, *fillers()[2:]])
    out.append(Probe("verbosity", "", item.with_text(judge.judged, padded), "not_higher"))
    out.append(Probe("control", "empty", item.with_text(judge.judged, judge.silence), "lower"))
    if other is not None:
        borrowed = item.with_text(judge.judged, other.text(judge.judged) or judge.silence)
        out.append(Probe("control", "other-case", borrowed, "lower"))
    for name, text in judge.controls(case).items():
        expect = "not_lower" if name == "reference" else "lower"
        out.append(Probe("control", name, item.with_text(judge.judged, text), expect))
    chosen = random.Random(f"{seed} {case.id} {item.item}".strip()).sample(attacks(), min(injections, len(attacks())))
    for attack in chosen:
        expect = {"up": "not_higher", "down": "not_lower"}.get(attack["aim"], "same")
        out.append(Probe("injection", attack["id"], item.with_text(judge.judged, f"{said} {attack['text']}"), expect))
    named = f"{item.item}/" if item.item else ""
    return [replace(probe, item=replace(probe.item, item=f"{named}{probe.name}"), of=item.item) for probe in out]
