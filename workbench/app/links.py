"""State <-> address. What stands in an address comes from anywhere: unknown names are ignored, and what
cannot be understood is told in a sentence and left out."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import param

from workbench.app.workspace import Workspace

NAMES = {
    "view": "view", "run": "run", "case": "case", "event": "event", "metric": "metric", "q": "words", "sort": "sort",
    "by": "by", "theme": "theme", "t": "at_s", "span": "span", "only": "chosen", "within": "ranges",
    "runs": "together", "set": "thresholds", "rule": "rule", "align": "align", "part": "section",
}  # fmt: skip
"""Name in the address -> param of the workspace."""

_LONGEST = 8_000


def to_query(workspace: Workspace, names: dict[str, str] | None = None) -> str:
    """The address's query, `?...`; what stands at its default is left out."""
    out = []
    for name, attribute in (names or NAMES).items():
        value = getattr(workspace, attribute)
        if value == workspace.param[attribute].default or value in (None, "", [], {}):
            continue
        if isinstance(value, float):
            value = round(value, 3)
        if isinstance(value, list):
            value = [round(entry, 3) if isinstance(entry, float) else entry for entry in value]
        out.append((name, value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))))
    return "?" + urlencode(out, quote_via=quote, safe=",:[]") if out else ""


def read_query(workspace: Workspace, query: str, names: dict[str, str] | None = None) -> list[str]:
    """Apply an address to a workspace in one step; sentences about what could not be used.

    What the address does not name returns to its default.
    """
    names = names or NAMES
    change: dict[str, Any] = {attribute: workspace.param[attribute].default for attribute in names.values()}
    problems = []
    if len(query) > _LONGEST:
        return [f"The link is {len(query)} characters long, where at most {_LONGEST} are read."]
    for name, text in parse_qsl(query.lstrip("?"), keep_blank_values=False):
        if name not in names:
            continue
        try:
            change[names[name]] = _value(workspace.param[names[name]], names[name], text)
        except (ValueError, TypeError, AttributeError, RecursionError):
            problems.append(f"The link's {name!r} cannot be used ({text[:60]!r}), so it was left out.")
    try:
        workspace.param.update(**change)
    except ValueError as error:
        problems.append(f"The link cannot be used: {error}")
    return problems


def _value(kind: param.Parameter, attribute: str, text: str) -> Any:
    if isinstance(kind, param.Selector):
        if text not in kind.objects:
            raise ValueError(text)
        return text
    if isinstance(kind, param.String):
        return text
    value = json.loads(text)
    if isinstance(kind, param.Number):
        return _seconds(value)
    if attribute == "span":
        low, high = (_seconds(entry) for entry in value)
        if not low < high:
            raise ValueError(text)
        return [low, high]
    if attribute == "chosen":
        return {str(name): [str(entry) for entry in _list(values)] for name, values in value.items()}
    if attribute == "ranges":
        return {str(name): [_seconds(low), _seconds(high)] for name, (low, high) in value.items()}
    if attribute == "together":
        return list(dict.fromkeys(str(entry) for entry in _list(value)))
    if attribute == "thresholds":
        return {str(name): _seconds(limit) for name, limit in value.items()}
    raise ValueError(text)


def _list(value: Any) -> list:
    if not isinstance(value, list):
        raise ValueError(value)
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e7:
        raise ValueError(value)
    return float(value)
