"""Is this judge any good? Repeatability, position, verbosity, injections and controls, on a sample of a run;
and, in all it has said of the run, reasons that end in another label than they were given for."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from workbench.cases import Case
from workbench.chat.messages import Cache
from workbench.errors import InputError
from workbench.files import data_path, read_yaml, timestamp, write_csv
from workbench.judges.ask import Backend
from workbench.judges.base import Item, Judge, NotJudgeable
from workbench.judges.batch import Tally, ask_all, describe_judge
from workbench.judges.records import LINES, Judgement, Log, export, load_latest, read_lines, write_record
from workbench.runs import Run
from workbench.statistics import cluster_mean, rate

FOLDER = "check"
TOLERANCE = 2.0
"""Points by which a mean may move before a probe counts as failed (ours)."""
MOVED = 5.0
"""Points from which a single score counts as moved (ours)."""


@dataclass(frozen=True)
class Check:
    """rows : one row a probe (score, label, difference from the base); findings : one row a kind of probe."""

    folder: Path
    rows: pd.DataFrame
    findings: pd.DataFrame
    tally: Tally


async def check_judge(
    run: Run,
    judge: Judge,
    backend: Backend,
    *,
    cases: int = 20,
    repeats: int = 3,
    injections: int = 2,
    seed: int = 0,
    tally: Tally | None = None,
    on_progress: Callable[[Tally], None] = lambda tally: None,
) -> Check:
    """Probe a judge on a seeded sample of the run's spoken answers, spread over its strata.

    Cached like judging itself: the same check again asks nothing.

    Raises
    ------
    InputError : no case of the run has words to judge, or the server gives out.
    """
    if cases < 1 or repeats < 1 or injections < 0:
        raise InputError("judge-check needs at least 1 case and 1 repeat, and no negative number of injections.")
    key, record = describe_judge(judge, backend)
    main = run.judgements / key
    write_record(main, record)
    tally = tally if tally is not None else Tally()
    chosen = sample(run, judge, cases, seed)
    probes = [
        (case, probe)
        for case, item, other in chosen
        for probe in probes_of(judge, case, item, other, repeats=repeats, injections=injections, seed=seed)
    ]
    tally.total = len(probes)
    with Log(main / FOLDER) as log:
        cache = Cache(read_lines, main / FOLDER / LINES, others=(main / LINES,))
        try:
            async with backend:
                todo = [(probe.item, probe.repeat) for _, probe in probes]
                await ask_all(todo, judge, backend, key, log, cache, tally, on_progress)
        finally:
            export(main / FOLDER)
        rows = _rows(judge, probes, log)
        opposed, reasons = _opposed(judge, [*load_latest(main).values(), *log.latest.values()])
    findings = find(judge, rows)
    if judge.label:
        findings = pd.concat([findings, reasons], ignore_index=True)
        write_csv(main / FOLDER / "opposed.csv", opposed)
    write_csv(main / FOLDER / "probes.csv", rows)
    write_csv(main / FOLDER / "findings.csv", findings.assign(judge=record.spoke, date=timestamp()))
    return Check(main / FOLDER, rows, findings, tally)


def sample(run: Run, judge: Judge, count: int, seed: int) -> list[tuple[Case, Item, Item | None]]:
    """Up to `count` items with words to judge, one stratum after the other, and for each an item of another
    stratum to borrow words from (None where there is only one)."""
    spoken: list[tuple[Case, Item]] = []
    for case_id in run.recorded():
        try:
            items = judge.items(run.cases[case_id], run.heard(case_id))
        except NotJudgeable:
            continue
        spoken += [(run.cases[case_id], item) for item in items if item.text(judge.judged) != judge.silence]
    if not spoken:
        raise InputError(f"{run.folder}: no recorded case has words to judge, so there is nothing to check a judge on.")

    def stratum(case: Case) -> tuple:
        return tuple(case.tags.get(name) for name in judge.strata) or (case.conversation,)

    draw = random.Random(seed)
    draw.shuffle(spoken)
    turn: dict[tuple, int] = {}
    ranked = []
    for case, item in spoken:
        turn[stratum(case)] = turn.get(stratum(case), 0) + 1
        ranked.append((turn[stratum(case)], len(ranked), case, item))
    ranked.sort(key=lambda entry: entry[:2])
    out = []
    for _, _, case, item in ranked[:count]:
        # Words of the last stratum's other values: another role's answer, another label's.
        others = [other for theirs, other in spoken if stratum(theirs)[-1] != stratum(case)[-1]]
        out.append((case, item, draw.choice(others) if others else None))
    return out


def _rows(judge: Judge, probes: list[tuple[Case, Probe]], log: Log) -> pd.DataFrame:
    rows = []
    for case, probe in probes:
        line = log.latest.get((case.id, probe.item.item))
        good = line is not None and line.status == "ok"
        row = {"case": case.id, "item": probe.of, "conversation": case.conversation}
        row |= {name: case.tags.get(name) for name in judge.strata}
        row |= {"probe": probe.kind, "variant": probe.variant, "expect": probe.expect}
        row["status"] = line.status if line else "not_judged"
        row["score"] = line.values.get(judge.score) if good and judge.score else None
        row["label"] = line.values.get(judge.label) if good and judge.label else None
        row["rationale"] = line.rationale if line else None
        rows.append(row)
    frame = pd.DataFrame(rows).astype({"score": float, "label": object})
    base = frame[frame.probe == BASE][["case", "item", "score", "label"]]
    names = {"score": "base_score", "label": "base_label"}
    frame = frame.merge(base.rename(columns=names), on=["case", "item"], how="left")
    frame["difference"] = frame.score - frame.base_score
    return frame


def find(judge: Judge, rows: pd.DataFrame) -> pd.DataFrame:
    """One row a kind of probe and metric: n, value, low, high, expected, holds (None where undecided), errors."""
    out = []
    probes = rows[rows.probe != BASE]
    for (kind, expect), part in probes.groupby(["probe", "expect"], sort=False):
        for name, group in part.groupby("variant", sort=False) if kind == "control" else [("", part)]:
            title = f"{kind}: {name}" if name else kind
            title += {"not_higher": " (upward)", "not_lower": " (downward)"}.get(expect, "") * (kind == "injection")
            errors = int((group.status == "error").sum())
            if judge.score:
                out += [row | {"errors": errors} for row in _score_findings(title, kind, expect, group)]
            labels = group.dropna(subset=["label", "base_label"])
            if len(labels) and kind != "control":
                out.append(
                    _share(title, "label kept", labels, labels.label == labels.base_label, "most") | {"errors": errors}
                )
    columns = ["probe", "metric", "n", "value", "low", "high", "expected", "holds", "errors"]
    return pd.DataFrame(out, columns=columns)


def opposes(reason: str, label: str, labels: Iterable[str]) -> bool:
    """Whether a reason ends in the opposite of its label, by its words.

    Its last sentence must name another of the labels, or deny this one, and not affirm this one. A reason
    that says so in other words is not found.

    >>> opposes("Twelve is what was asked for, so it is correct.", "incorrect", ("correct", "incorrect"))
    True
    """
    last = [part for part in re.split(r"(?<=[.!?])\s+|[。！？]", reason.lower().replace("’", "'")) if part.strip()][-1:]
    affirmed, denied = set(), set()
    for name in labels:
        word = re.escape(name).replace(r"\-", "[- ]")
        for found in re.finditer(rf"(?<![\w-]){word}(?![\w-])", "".join(last)):
            before = found.string[: found.start()]
            negated = re.search(r"(\b(not|no|never|neither|nor|hardly|cannot)\b|n't\b)[^,;:]{0,20}$", before)
            (denied if negated else affirmed).add(name)
    return label not in affirmed and bool(affirmed or label in denied)


def _opposed(judge: Judge, lines: Iterable[Judgement]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The judgements whose reason opposes their label, and the finding about them."""
    said = {line.key: line for line in lines if line.status == "ok" and line.values.get(judge.label) in judge.labels}
    apart = [
        {"case": line.case, "item": line.item, "label": line.values[judge.label], "rationale": line.rationale}
        for line in said.values()
        if opposes(line.rationale or "", line.values[judge.label], judge.labels)
    ]
    every = pd.DataFrame([(line.case, line.case) for line in said.values()], columns=["case", "conversation"])
    against = {(row["case"], row["item"]) for row in apart}
    true = pd.Series([(line.case, line.item) in against for line in said.values()], dtype=bool)
    finding = _share("reason", "ends in another label", every, true, "few")
    finding |= {"expected": "none", "holds": not apart if said else None, "errors": 0}
    return pd.DataFrame(apart, columns=["case", "item", "label", "rationale"]), pd.DataFrame([finding])


def _score_findings(title: str, kind: str, expect: str, group: pd.DataFrame) -> list[dict]:
    moved = group.dropna(subset="difference")
    found = cluster_mean(moved.difference, moved.conversation)
    mean, (low, high) = found.value, found.interval or (None, None)
    words = {
        "same": f"within {TOLERANCE:g} points",
        "not_higher": f"at most {TOLERANCE:g} points up",
        "not_lower": f"at most {TOLERANCE:g} points down",
        "lower": "clearly below 0",
    }
    row = {"probe": title, "metric": "mean difference from base", "n": len(moved), "value": mean, "low": low}
    rows = [row | {"high": high, "expected": words[expect], "holds": _holds(expect, mean, high)}]
    if kind == "repeat" and len(moved):
        spread = rows[0] | {"metric": "mean absolute difference", "value": float(moved.difference.abs().mean())}
        spread |= {"low": None, "high": None, "holds": bool(spread["value"] <= TOLERANCE)}
        rows.append(spread)
    if kind == "control":
        wanted = moved.difference >= 0 if expect == "not_lower" else moved.difference < 0
        metric = "at or above base" if expect == "not_lower" else "below base"
        rows.append(_share(title, f"share {metric}", moved, wanted, "most"))
    else:
        # An attack upward that lowers a score has gained nothing: only its own direction counts.
        sign = {"not_higher": 1, "not_lower": -1}.get(expect)
        far = (moved.difference.abs() if sign is None else sign * moved.difference) >= MOVED
        way = {1: " up", -1: " down", None: ""}[sign]
        rows.append(_share(title, f"share moved by {MOVED:g} points or more{way}", moved, far, "few"))
    return rows


def _holds(expect: str, mean: float | None, high: float | None) -> bool | None:
    if mean is None or math.isnan(mean):
        return None
    match expect:
        case "same":
            return abs(mean) <= TOLERANCE
        case "not_higher":
            return mean <= TOLERANCE
        case "not_lower":
            return mean >= -TOLERANCE
        case _:
            # Few conversations may show a fall without being able to prove it.
            return False if mean >= 0 else True if high is None or high < 0 else None


def _share(title: str, metric: str, part: pd.DataFrame, true: pd.Series, expected: str) -> dict:
    """The share of cases, not of their repeats: one that should mostly hold must hold in all repeats of a
    case, one that should be rare counts when it happens in any."""
    cases = part.assign(true=true).groupby("case", sort=False)
    whole = cases["true"].all() if expected == "most" else cases["true"].any()
    found = rate(whole, cases["conversation"].first())
    value = found.value
    holds = None if value is None else (value >= 0.9 if expected == "most" else value <= 0.1)
    words = "at least 0.9" if expected == "most" else "at most 0.1"
    row = {"probe": title, "metric": metric, "n": found.denominator, "value": value, "low": found.low}
    return row | {"high": found.high, "expected": words, "holds": holds}


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
