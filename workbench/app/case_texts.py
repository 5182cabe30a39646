"""The words beside a case, as escaped HTML: verdict, prompt, scripts, transcript, judges, metadata, files."""

from __future__ import annotations

from typing import Any

from pandas.api.types import is_scalar

from workbench.app.detail import Detail
from workbench.app.run_rows import CORE, benchmark_of, judge_called
from workbench.app.store import Store
from workbench.cases import RATE_HZ
from workbench.contract import KEYS
from workbench.pictures.lanes import items, turns_of
from workbench.pictures.texts import block, esc, highlight, muted, pairs, script

_SIGNS = {"pass": "✓ pass", "fail": "✗ fail"}


def word(verdict: str) -> str:
    """A verdict as a word that does not rest on colour alone."""
    kind = verdict if verdict in _SIGNS else "other"
    said = _SIGNS.get(verdict, verdict.replace("_", " ") or "no verdict")
    return f'<span class="wb-{kind}">{esc(said)}</span>'


def _section(title: str, body: str, kind: str = "") -> str:
    return f'<section class="{kind}"><h3>{esc(title)}</h3>{body}</section>' if body else ""


def _folded(title: str, body: str) -> str:
    return f"<section><details><summary>{esc(title)}</summary>{body}</details></section>" if body else ""


def head(detail: Detail, position: int | None, total: int) -> str:
    run, case, *event = detail.key
    place = f"{position + 1:,} of {total:,}" if position is not None else f"not among the {total:,} filtered rows"
    name = esc(" ".join(part for part in (case, *event) if part))
    return (
        f'<span class="wb-badge">{word(detail.row.get("verdict", ""))}</span><b>{name}</b> '
        f'<span class="wb-muted">in</span> <b>{esc(run)}</b> <span class="wb-muted">· {esc(place)}</span>'
    )


def beside(detail: Detail, store: Store, words: str = "") -> str:
    """The column at the side."""
    parts = (_verdict(detail), _chain(detail), _missing(detail), _judges(detail, words), _prompt(detail))
    return "".join((*parts, _about(detail), _files(detail, store)))


def _verdict(detail: Detail) -> str:
    row = detail.row
    if not row:
        return ""
    reason = row["reason"].removeprefix(f"{row['verdict'].replace('_', ' ')}: ") or "no reason is given"
    lines = [f"<div>{word(row['verdict'])}: {esc(reason)}.</div>"]
    if row["strict"] and row["strict"] != row["verdict"]:
        lines.append(f"<div>Strict variant: {word(row['strict'])}</div>")
    elif row["strict"] in ("pass", "fail"):
        lines.append(muted(f"Strict variant: the same ({esc(row['strict'])})"))
    if detail.flip:
        lines.append(f"<div>Flips: {esc(detail.flip)}.</div>")
    lines.append(muted(esc(detail.bias)))
    benchmark = benchmark_of(row["benchmark"])
    columns = [column for column in (benchmark.columns if benchmark else ()) if column.table and column.kind != "text"]
    facts = {"metric": row["metric"].replace("_", " "), "event": row["event"], "heard as": row["label"]}
    facts |= {column.heading: row.get(column.name) for column in columns if column.name not in KEYS}
    facts["measured"] = ", ".join(mark.words for mark in detail.marks if mark.kind != "window")
    expected = detail.case.expect if detail.case else {}
    told = pairs({name.replace("_", " "): value for name, value in expected.items() if is_scalar(value)})
    return _section("Verdict", "".join(lines) + pairs(facts)) + _folded("What is expected", told)


_PASSED = {True: ("pass", "✓"), False: ("fail", "✗"), None: ("other", "·")}


def _chain(detail: Detail) -> str:
    """The steps by which the row comes to count, and where it left the denominator."""
    out = []
    for step in detail.steps:
        kind, sign = _PASSED[step.passed]
        name = esc(step.name.replace("_", " "))
        out.append(f'<li><span class="wb-{kind}">{sign} {name}</span>: {esc(step.words)}</li>')
    if not out:
        return ""
    inside = all(step.passed for step in detail.steps)
    counts = muted("The event counts." if inside else "The event does not count.")
    return _section("Does this event count?", f"<ol>{''.join(out)}</ol>{counts}")


def _missing(detail: Detail) -> str:
    said = [text for text in detail.missing if not text.startswith("No judge")]
    items = "".join(f"<li>{esc(text)}</li>" for text in said)
    return _section("Missing", f"<ul>{items}</ul>" if items else "", "wb-missing")


def _judges(detail: Detail, words: str) -> str:
    out, benchmark = [], benchmark_of(detail.row.get("benchmark", ""))
    for opinion in detail.opinions:
        judgement = opinion.judgement
        values = ", ".join(f"{name} {value}" for name, value in judgement.values.items())
        if judgement.status != "ok":
            values = f"{judgement.status.replace('_', ' ')}: {judgement.message or judgement.reason or ''}"
        said = highlight(judgement.rationale, words) if judgement.rationale else ""
        item = f" ({judgement.item})" if judgement.item else ""
        judge = judge_called(benchmark, opinion.judge)
        said += pairs({name.replace("_", " "): judgement.shown.get(name) for name in (judge.shown if judge else ())})
        named = f"{judge.heading if judge else opinion.judge}{item}"
        out.append(f"<div><b>{esc(values)}</b></div>{said}{muted(f'{esc(named)}, {esc(opinion.spoke)}')}")
    return _section("Judge", "<hr>".join(out) or muted("No judge has judged this case."))


def _prompt(detail: Detail) -> str:
    if detail.case is None:
        return ""
    out = [
        f'<div class="wb-part wb-part-{min(place, 2)}"><b>{esc(part.name)}</b>{block(part.text)}</div>'
        for place, part in enumerate(detail.case.prompt)
    ]
    body = "".join(out) or muted("The system prompt is empty.")
    sent = detail.record.system_prompt if detail.record else None
    if sent is not None and sent != detail.case.system_prompt:
        body += f"<div><b>As sent, which differs:</b>{block(sent)}</div>"
    return _section("System prompt", body)


def _about(detail: Detail) -> str:
    record, case = detail.record, detail.case
    facts: dict[str, Any] = {}
    if case is not None:
        facts |= {"conversation": case.conversation, "stream": case.stream} | dict(case.tags)
    if record is not None:
        told = " (was told the case)" if record.agent.privileged else ""
        facts |= {
            "agent": f"{record.agent.name} {record.agent.version}{told}",
            "clock": record.clock, "placement": record.placement, "policy": record.policy,
            "duration, s": record.duration_s, "started": record.started, "workbench": record.workbench,
            "audio cut, s": record.cut_samples / RATE_HZ or None,
        }  # fmt: skip
        for name, settings in (("setting", record.agent.settings), ("reported", record.agent.reported)):
            facts |= {f"{name} {key}": value for key, value in settings.items()}
    measured = {name: value for name, value in detail.measurement.items() if is_scalar(value) and name not in CORE}
    body = _folded("Case and recording", pairs(facts))
    return body + _folded("Measurements", pairs(measured))


def _files(detail: Detail, store: Store) -> str:
    where = [(esc(store.address(detail.key[0], name)), esc(name)) for name in detail.files]
    items = "".join(f'<li><a href="{to}" target="_blank" rel="noopener">{name}</a></li>' for to, name in where)
    return _folded("Files", f"<ul>{items}</ul>" if items else "")


def below(detail: Detail, words: str = "") -> str:
    """What was said, below the waveforms: the user's script by cue and the agent's own transcript."""
    out = []
    played = {cue.id: cue for cue in detail.record.cues} if detail.record else {}
    turns = turns_of(detail.case, detail.speakers)
    for cue in detail.case.cues if detail.case else ():
        at = played.get(cue.id)
        when = f"{at.start_s:.2f} to {at.end_s:.2f} s" if at and at.start_s is not None and at.end_s is not None else (
            f"not played: {at.reason}" if at and at.reason else "not played yet")  # fmt: skip
        name = " ".join((cue.id, *turns.get(cue.id, ())))
        about = esc(f"{name} · {when} · {cue.speaker}")
        out.append(f'<div class="wb-part"><b>{about}</b>{script(cue.text)}</div>')
    user = _section("User script", "".join(out))
    if detail.record is None:
        return user
    lines = [
        f'<div class="wb-part"><b>arrived from {first:.2f} s</b>{highlight(text, words)}</div>'
        for first, _, text in items(detail)
    ]
    nothing_said = ("The agent gives no text of what it says." if detail.record.transcript is None
                    else "The agent said nothing.")  # fmt: skip
    agent = "".join(lines) or muted(nothing_said)
    return user + _section("Agent transcript", agent)
