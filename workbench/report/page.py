"""The page: one HTML file that needs no network, with Bokeh's scripts and all data inside.

Text that came from models or users reaches the page through Jinja's autoescape, or as JSON whose
angle brackets are escaped; a content security policy with a nonce keeps anything else from running.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pandas as pd
from bokeh.core.json_encoder import serialize_json
from bokeh.embed.util import OutputDocumentFor, standalone_docs_json_and_render_items
from bokeh.resources import Resources
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from workbench.pictures import as_figure
from workbench.pictures.theme import exchange
from workbench.report import shown
from workbench.report.gather import Gathered, extras, plain
from workbench.report.intervals import is_gap, is_rate, keys
from workbench.report.terminal import ordered
from workbench.version import SCORER, VERSION

CASE_COLUMNS = (
    "run",
    "case",
    "event",
    "condition",
    "metric",
    "role",
    "probe",
    "level",
    "action",
    "verdict",
    "strict",
    "label",
    "reason",
    "first_words",
)
FILTERS = ("run", "verdict", "strict", "condition", "metric", "level", "action", "role", "label")


def render(gathered: Gathered) -> str:
    """The whole page as text."""
    more = extras(gathered.benchmark)
    titles = getattr(more, "TITLES", {})
    drawn = more.figures(gathered.tables, gathered.cases) if more else {}
    figures: list[Any] = []

    def places(pictures: list[Any]) -> list[int]:
        figures.extend(as_figure(picture) for picture in pictures)
        return list(range(len(figures) - len(pictures), len(figures)))

    sections = [
        {
            "id": name,
            "title": titles.get(name, shown.heading(name)),
            "about": getattr(more, "ABOUT", {}).get(name, ""),
            "figures": places(drawn.get(name, [])),
            "folded": name in getattr(more, "DETAIL", ()),
            "table": table_of(gathered.tables.get(name), gathered.names),
        }
        for name in section_names(gathered, titles, drawn)
    ]
    examples = places(_examples(gathered, more))
    context = {
        "title": f"{gathered.benchmark.title}: {', '.join(gathered.names)}",
        "benchmark": gathered.benchmark.title,
        "runs": _run_lines(gathered),
        "warnings": gathered.warnings,
        "notes": getattr(more, "NOTES", ()),
        "sections": sections,
        "calibration": _calibration(gathered),
        "judged": _judged(gathered),
        "examples": examples,
        "configuration": configuration(gathered),
        "cases": packed(gathered.cases),
        "filters": [name for name in FILTERS if name in gathered.cases],
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": VERSION,
        "nonce": secrets.token_urlsafe(12),
        "bokeh_js": [Markup(text) for text in Resources(mode="inline", components=["bokeh"]).js_raw],
        **_embedded(figures),
    }
    environment = Environment(
        loader=PackageLoader("workbench.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("report.html").render(context)


def section_names(gathered: Gathered, titles: Mapping[str, str], drawn: Mapping[str, list]) -> list[str]:
    """Tables and pictures in the benchmark's order; then tables that it does not name."""
    wanted = set(ordered(gathered, titles)) | {name for name, pictures in drawn.items() if pictures}
    return [name for name in titles if name in wanted] + [name for name in gathered.tables if name not in titles]


def table_of(frame: pd.DataFrame | None, runs: tuple[str, ...]) -> dict[str, Any] | None:
    """A table for the template. Rates and gaps have a column a run; other tables stand as they are."""
    if frame is None or frame.empty:
        return None
    if not (is_rate(frame) or is_gap(frame)):
        columns = [column for column in frame.columns if len(runs) > 1 or column != "run"]
        if len(runs) > 1:
            frame = beside(frame)
        rows = [[shown.number(value) for value in row] for row in frame[columns].itertuples(index=False)]
        numeric = [frame[column].dtype.kind in "if" for column in columns]
        return {"kind": "plain", "heads": [shown.heading(c) for c in columns], "numeric": numeric, "rows": rows}
    found: dict[tuple[str, ...], dict[str, shown.Figure]] = {}
    ids: dict[tuple[str, ...], str] = {}
    for row in frame.to_dict("records"):
        key = shown.key_of(row, frame)
        found.setdefault(key, {})[row["run"]] = shown.figure_of(row, frame)
        ids[key] = "|".join(str(row[name]) for name in keys(frame) if name != "name")
    rows = [{"key": key, "id": ids[key], "cells": [cells.get(run) for run in runs]} for key, cells in found.items()]
    return {"kind": "figures", "heads": shown.key_heads(frame), "runs": runs, "rows": rows, "gap": is_gap(frame)}


def beside(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of a plain table with the runs of one label beside each other: what a reader compares."""
    label = next((column for column in frame.columns if column != "run"), None)
    if label is None:
        return frame
    places = {value: place for place, value in enumerate(dict.fromkeys(frame[label]))}
    return frame.iloc[frame[label].map(places).argsort(kind="stable")]


def packed(cases: pd.DataFrame) -> dict[str, Any]:
    """The cases for the script: columns of codes into lists of distinct values, which keeps the page small."""
    columns = {}
    for name in CASE_COLUMNS:
        if name in cases:
            values = [shown.number(plain(value)) for value in cases[name]]
            distinct = list(dict.fromkeys(values))
            where = {value: code for code, value in enumerate(distinct)}
            columns[name] = {"values": distinct, "codes": [where[value] for value in values]}
    return {"count": len(cases), "order": list(columns), "columns": columns}


def configuration(gathered: Gathered) -> dict[str, Any]:
    """Everything run.json and score.json say, one row a field and one column a run; `apart` marks differences."""
    described: list[dict[str, str]] = []
    for run, score in zip(gathered.runs, gathered.scores, strict=True):
        meta = run.meta.model_dump()
        fields = {
            "agent": meta.pop("agent"),
            "clock": meta.pop("clock"),
            "policy": meta.pop("policy"),
            "thresholds": score.get("thresholds", {}),
            "detector": score.get("vad", {}),
            "dataset": meta.pop("dataset"),
            "cases.jsonl sha256": run.fingerprint,
            "scorer": score.get("scorer"),
            "workbench that ran": meta.pop("workbench"),
            "workbench that scored": score.get("workbench"),
        } | meta
        described.append(dict(_flat(fields)))
    names = list(dict.fromkeys(name for fields in described for name in fields))
    rows = []
    for name in names:
        values = [fields.get(name, shown.NONE) for fields in described]
        rows.append({"name": name, "values": values, "apart": len(set(values)) > 1})
    rows.append(
        {"name": "this report", "values": [f"workbench {VERSION}, scorer {SCORER}"] * len(described), "apart": 0}
    )
    return {"runs": gathered.names, "rows": rows}


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [pair for key, item in value.items() for pair in _flat(item, f"{prefix}{' ' if prefix else ''}{key}")]
    if isinstance(value, list | tuple):
        return [(prefix, ", ".join(shown.number(item) for item in value))]
    return [(prefix, f"{value:g}" if isinstance(value, float) else shown.number(value))]


def _run_lines(gathered: Gathered) -> list[dict[str, str]]:
    lines = []
    for name, run in zip(gathered.names, gathered.runs, strict=True):
        counts = gathered.cases.loc[gathered.cases["run"] == name, "verdict"].value_counts()
        agent = f"{run.meta.agent.get('name', 'unnamed')} {run.meta.agent.get('version', '')}".strip()
        order = dict.fromkeys(("pass", "fail", "unmeasurable", *sorted(counts.index)))
        words = ", ".join(f"{int(counts.get(word, 0))} {word}" for word in order)
        lines.append(
            {
                "name": name,
                "agent": agent,
                "clock": run.meta.clock,
                "policy": run.meta.policy,
                "started": run.meta.started,
                "verdicts": words,
            }
        )
    return lines


def _calibration(gathered: Gathered) -> dict[str, Any] | None:
    found = gathered.calibration
    if found is None:
        return None
    rows = []
    for verifier, part in found.matrix.groupby(gathered.verifier, sort=False):
        cells = []
        for row in part.to_dict("records"):
            met = plain(row["met"])
            cells.append(
                {
                    "rate": shown.percent(row["rate"]),
                    "counts": f"{row['passed']}/{row['measured']}",
                    "excluded": row["excluded"],
                    "passed": row["passed"],
                    "measured": row["measured"],
                    "met": "" if met is None else "met" if met else "short",
                }
            )
        rows.append({"verifier": verifier, "cells": cells})
    references = [name for name, kind in found.kinds.items() if kind.startswith("reference")]
    exceptions = [
        {column: shown.number(value) for column, value in row.items()}
        | {"verifier": shown.number(row[gathered.verifier])}
        for row in found.exceptions.to_dict("records")
    ]
    return {
        "head": gathered.verifier,
        "runs": gathered.names,
        "kinds": [found.kinds[n] for n in gathered.names],
        "rows": rows,
        "exceptions": exceptions,
        "references": references,
    }


def _judged(gathered: Gathered) -> list[dict[str, Any]]:
    """The pooled rows of each judge's tables; every row is in the files."""
    titles = {
        "pas": "PAS: register and content against the role, 0 to 100",
        "conflict": "Conflict Profile",
        "safety": "Safety override on L4b",
    }
    out = []
    for one in gathered.judged:
        tables = []
        for name, frame in one.tables.items():
            if "role" in frame:
                frame = frame[frame["role"] == "all"].drop(columns="role")
            table = table_of(frame.assign(run=one.run), (one.run,))
            if table:
                tables.append({"title": titles.get(name, shown.heading(name)), "table": table})
        out.append(
            {
                "run": one.run,
                "spoke": one.spoke,
                "prompt": one.prompt,
                "valid": one.valid,
                "problems": one.problems,
                "tables": tables,
            }
        )
    return out


def _examples(gathered: Gathered, more: Any) -> list[Any]:
    """One failing case for each verifier, of the first run whose agent was not told the case."""
    if not hasattr(more, "example") or gathered.verifier is None:
        return []
    told = {name for name, run in zip(gathered.names, gathered.runs, strict=True) if run.meta.agent.get("privileged")}
    who = next((name for name in gathered.names if name not in told), gathered.names[0])
    cases = gathered.cases
    failed = cases[(cases["run"] == who) & (cases["verdict"] == "fail") & cases["w0_s"].notna()]
    return [more.example(row) for row in failed.drop_duplicates(gathered.verifier).to_dict("records")]


def _embedded(figures: list[Any]) -> dict[str, Any]:
    """The figures as one Bokeh document, and the ids of the elements that they are drawn into."""
    if not figures:
        return {"elements": [], "bokeh_docs": "", "bokeh_items": [], "exchange": exchange()}
    with OutputDocumentFor(figures, always_new=True):
        documents, items = standalone_docs_json_and_render_items(figures)
    roots = [item.to_json() for item in items]
    elements = [element for item in items for element in item.roots.to_json().values()]
    text = serialize_json(documents)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return {"elements": elements, "bokeh_docs": Markup(text), "bokeh_items": roots, "exchange": exchange()}
