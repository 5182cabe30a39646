"""The page: one HTML file that needs no network, with Bokeh's scripts and all data inside.

Text that came from models or users reaches the page through Jinja's autoescape, or as JSON whose
angle brackets are escaped; a content security policy with a nonce keeps anything else from running.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from bokeh.core.json_encoder import serialize_json
from bokeh.embed.util import OutputDocumentFor, standalone_docs_json_and_render_items
from bokeh.plotting import figure
from bokeh.resources import Resources
from markupsafe import Markup

from workbench.contract import KEYS
from workbench.pictures import DARK, LIGHT, lanes, standalone
from workbench.pictures.theme import exchange, variables
from workbench.report import figures as shown
from workbench.report.charts import drawn
from workbench.report.gather import Gathered
from workbench.version import SCORER, VERSION


def render(gathered: Gathered) -> str:
    """The whole page as text."""
    pictures: list[figure] = []
    sections = []
    for section in gathered.sections:
        made = drawn(gathered, section)
        places = list(range(len(pictures), len(pictures) + len(made)))
        pictures += made
        table = shown.table_of(gathered.tables.get(section.name), section, gathered.names)
        sections.append({"id": section.name, "title": section.title, "about": section.about, "figures": places,
                         "folded": section.folded, "table": table})  # fmt: skip
    light, dark = variables(LIGHT), variables(DARK)
    context = {
        "title": f"{gathered.benchmark.title}: {', '.join(gathered.names)}",
        "benchmark": gathered.benchmark.title,
        "runs": _run_lines(gathered),
        "warnings": gathered.warnings,
        "notes": (*gathered.detector_notes, *gathered.benchmark.notes),
        "sections": sections,
        "calibration": _calibration(gathered),
        "judged": [{"one": one, "tables": [(title, shown.table_of(frame, None, (one.run,)))
                                           for title, frame in one.tables.items()]} for one in gathered.judged],
        "examples": _examples(gathered),
        "configuration": configuration(gathered),
        "cases": packed(gathered),
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": VERSION,
        "nonce": secrets.token_urlsafe(12),
        "style": Markup(f":root {{ {light} }} @media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
                        f"{standalone.style()}"),
        "bokeh_js": [Markup(text) for text in Resources(mode="inline", components=["bokeh"]).js_raw],
        **_embedded(pictures),
    }  # fmt: skip
    return standalone.template("workbench.report", "report.html").render(context)


def packed(gathered: Gathered) -> dict[str, Any]:
    """The cases for the script: columns of codes into lists of distinct values, which keeps the page small."""
    cases, declared = gathered.cases, gathered.benchmark.columns
    headings = {name: name for name in ("run", *KEYS, "verdict", "strict", "label", "reason")}
    headings |= {column.name: column.heading for column in declared}
    filters = ["run", "verdict", "strict", *(column.name for column in declared if column.filter), "label"]
    long_names = {column.names for column in declared}
    texts = [column.name for column in declared if column.kind == "text" and column.name not in long_names]
    labels = [column.name for column in declared if column.table or column.filter]
    order = dict.fromkeys(("run", *KEYS, *labels, "verdict", "strict", "label", "reason", *texts))
    columns = {}
    for name in order:
        if name not in cases or (name in KEYS and (cases[name] == "").all()):
            continue
        values = [shown.written(value) for value in cases[name]]
        distinct = list(dict.fromkeys(values))
        where = {value: code for code, value in enumerate(distinct)}
        columns[name] = {"heading": headings[name], "values": distinct, "codes": [where[value] for value in values],
                         "filter": name in filters, "text": name == "reason" or name in texts}  # fmt: skip
    return {"count": len(cases), "order": list(columns), "columns": columns}


def configuration(gathered: Gathered) -> dict[str, Any]:
    """Everything run.json and score.json say, one row a field and one column a run; `apart` marks differences."""
    described: list[dict[str, str]] = []
    for run, score in zip(gathered.runs, gathered.scores, strict=True):
        meta = run.meta.model_dump()
        fields = {name: meta.pop(name) for name in ("agent", "clock", "policy")}
        fields |= {
            "thresholds": score.get("thresholds", {}), "detector": score.get("vad", {}), "dataset": meta.pop("dataset"),
            "cases.jsonl sha256": run.fingerprint, "scorer": score.get("scorer"),
            "workbench that ran": meta.pop("workbench"), "workbench that scored": score.get("workbench"),
        } | meta  # fmt: skip
        described.append(dict(_flat(fields)) | {"this report": f"workbench {VERSION}, scorer {SCORER}"})
    rows = []
    for name in dict.fromkeys(name for fields in described for name in fields):
        values = [fields.get(name, shown.NONE) for fields in described]
        rows.append({"name": name, "values": values, "apart": len(set(values)) > 1})
    return {"runs": gathered.names, "rows": rows}


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [pair for key, item in value.items() for pair in _flat(item, f"{prefix} {key}".strip())]
    if isinstance(value, list | tuple):
        return [(prefix, ", ".join(shown.written(item) for item in value))]
    return [(prefix, f"{value:g}" if isinstance(value, float) else shown.written(value))]


def _run_lines(gathered: Gathered) -> list[dict[str, str]]:
    lines = []
    for name, run in zip(gathered.names, gathered.runs, strict=True):
        counts = gathered.cases.loc[gathered.cases["run"] == name, "verdict"].value_counts()
        order = dict.fromkeys(("pass", "fail", "unmeasurable", *sorted(counts.index)))
        agent = f"{run.meta.agent.get('name', 'unnamed')} {run.meta.agent.get('version', '')}".strip()
        words = ", ".join(f"{int(counts.get(word, 0))} {shown.heading(word)}" for word in order)
        lines.append({"name": name, "agent": agent, "clock": run.meta.clock, "policy": run.meta.policy,
                      "started": run.meta.started, "verdicts": words})  # fmt: skip
    return lines


def _calibration(gathered: Gathered) -> dict[str, Any]:
    found, column = gathered.calibration, gathered.benchmark.rule_column
    rows = []
    for rule, part in found.matrix.groupby(column, sort=False):
        cells = [row | {"rate": shown.percent(row["rate"]), "spread": shown.between(row) if row["measured"] else "",
                        "met": "" if (met := shown.bare(row["met"])) is None else "met" if met else "short"}
                 for row in part.to_dict("records")]  # fmt: skip
        rows.append({"rule": rule, "cells": cells})
    exceptions = [{name: shown.written(value) for name, value in row.items()} | {"rule": shown.written(row[column])}
                  for row in found.exceptions.to_dict("records")]  # fmt: skip
    known = gathered.benchmark.column.get(column)
    return {"head": known.heading if known else shown.heading(column), "runs": gathered.names, "rows": rows,
            "kinds": [found.kinds[name] for name in gathered.names], "exceptions": exceptions,
            "references": found.references}  # fmt: skip


def _examples(gathered: Gathered) -> list[tuple[str, Markup]]:
    """One failing case of each rule, of the first run whose agent was not told the case."""
    run = next((run for run in gathered.runs if not run.meta.agent.get("privileged")), gathered.runs[0])
    name, column = gathered.names[gathered.runs.index(run)], gathered.benchmark.rule_column
    failed = gathered.cases[(gathered.cases["run"] == name) & (gathered.cases["verdict"] == "fail")]
    out = []
    for row in failed.drop_duplicates(column).to_dict("records"):
        case, event, metric = (row[key] for key in KEYS)
        lane = lanes.Lane(case=run.cases[case])
        lanes.read(lane, run.folder, case, gathered.benchmark, event, metric)
        if lane.record is not None:
            about = " ".join(filter(None, (case, str(event))))
            picture = Markup(f'<div class="wb-recording">{standalone.picture(lane)}</div>')
            out.append((f"{row[column]}: {about} in {name}, {row['reason']}", picture))
    return out


def _embedded(pictures: list[figure]) -> dict[str, Any]:
    """The figures as one Bokeh document, and the ids of the elements that they are drawn into."""
    if not pictures:
        return {"elements": [], "bokeh_docs": "", "bokeh_items": [], "exchange": exchange()}
    with OutputDocumentFor(pictures, always_new=True):
        documents, items = standalone_docs_json_and_render_items(pictures)
    roots = [item.to_json() for item in items]
    elements = [element for item in items for element in item.roots.to_json().values()]
    text = standalone.for_script(serialize_json(documents))
    return {"elements": elements, "bokeh_docs": Markup(text), "bokeh_items": roots, "exchange": exchange()}
