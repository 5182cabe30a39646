"""The pictures of a section, from what the benchmark declares of them."""

from __future__ import annotations

import pandas as pd
from bokeh.plotting import figure

from workbench import pictures
from workbench.contract import Benchmark, Chart, Section
from workbench.deciding import in_ms
from workbench.pictures.theme import LIGHT, Theme
from workbench.report.figures import heading
from workbench.report.gather import LATENCY, Gathered


def drawn(gathered: Gathered, section: Section, theme: Theme = LIGHT) -> list[figure]:
    """The figures that stand with a section."""
    if section.name == LATENCY:
        return _latencies(gathered.benchmark, gathered.cases, theme)
    frame = gathered.tables.get(section.name)
    if frame is None or frame.empty:
        return []
    return [made for chart in section.charts for made in _chart(frame, section, chart, theme)]


def _chart(frame: pd.DataFrame, section: Section, chart: Chart, theme: Theme) -> list[figure]:
    for column, value in chart.where.items():
        frame = frame[frame[column] == value]
    if chart.order:
        frame = frame[frame[chart.by].isin(chart.order)]
    labels, title = None, chart.title or section.title
    if chart.names:
        named = frame.drop_duplicates(chart.by)
        labels = {key: f"{key} {name}".strip() for key, name in zip(named[chart.by], named[chart.names], strict=True)}
    usual = {"value": section.value, "labels": labels, "theme": theme}
    if chart.kind == "rates":
        about = f"{title}: share of measured cases that pass, with 95 % intervals ({pictures.counted(frame)})"
        return [pictures.rates_with_intervals(frame, chart.by, title=about, order=chart.order,
                                              horizontal=chart.horizontal, **usual)]  # fmt: skip
    if chart.kind == "gaps":
        most = max((int(frame[f"{side}_measured"].max()) for side in section.sides if len(frame)), default=0)
        about = f"{title}, with 95 % intervals (n = at most {most} cases a side)"
        return [pictures.gap_bars(frame, chart.by, title=about, axis=f"{section.title}, percentage points", **usual)]
    return [
        pictures.rate_heatmap(part, chart.across, chart.by, name=title, run=run, x_order=chart.across_order,
                              y_order=chart.order, **usual)
        for run, part in frame.groupby("run", sort=False)
    ]  # fmt: skip


def _latencies(benchmark: Benchmark, cases: pd.DataFrame, theme: Theme) -> list[figure]:
    found = benchmark.latencies(cases) if benchmark.latencies else _by_rule(benchmark, cases)
    order = [rule.name for rule in benchmark.rules]
    return [
        pictures.latency_distributions(
            part, lane=benchmark.rule_column, order=order, title=heading(str(kind)), theme=theme
        )
        for kind, part in found.groupby("kind", sort=False)
    ]


def _by_rule(benchmark: Benchmark, cases: pd.DataFrame) -> pd.DataFrame:
    """Latencies from the rules' own columns, each with its limit in seconds."""
    parts = []
    for rule in benchmark.rules:
        part = cases[(cases[benchmark.rule_column] == rule.name) & cases["verdict"].isin(["pass", "fail"])]
        if rule.latency in part and len(part):
            unit = part["limit"].map({name: one.unit for name, one in benchmark.threshold.items()})
            limit = pd.to_numeric(part["limit_value"], errors="coerce")
            seconds = limit.where(unit == "s", (limit / in_ms(1.0)).where(unit == "ms"))
            parts.append(part.assign(kind=heading(rule.latency.removesuffix("_s")), latency_s=part[rule.latency],
                                     limit_s=seconds))  # fmt: skip
    return pd.concat(parts) if parts else pd.DataFrame({"kind": []})
