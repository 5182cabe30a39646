"""The sweep's ranking as an escaped HTML table, and its sliders as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workbench.app.redecide import Answer, Redecide, bounds, ranks, shown
from workbench.contract import Benchmark
from workbench.pictures.texts import esc


def rank_table(engine: Redecide, answer: Answer, score: str, settings: Mapping[str, float]) -> str:
    """Every score of every run now, with its change since the default, ranked by one of them."""
    before, now = ranks(engine.base[score][0]), ranks(answer.scores[score])
    heads = "".join(f"<th>{esc(name)}</th>" for name in engine.score_names)
    lines = []
    for at in sorted(range(len(engine.names)), key=lambda at: now[at]):
        moved = before[at] - now[at]
        arrow = f"▲{moved}" if moved > 0 else f"▼{-moved}" if moved < 0 else ""
        cells = []
        for name in engine.score_names:
            value, change = answer.scores[name][at], answer.scores[name][at] - engine.base[name][0][at]
            aside = f' <span class="wb-muted">({100 * change:+.1f})</span>' if abs(change) > 5e-4 else ""
            cells.append(f"<td>{shown(value)}{aside}</td>")
        run, turned = engine.names[at], len(answer.flips[engine.names[at]])
        title = f'<th scope="row" title="{esc(run)}">{now[at]} {arrow} {esc(run, 40)}</th>'
        lines.append(f"<tr>{title}{''.join(cells)}<td>{turned or '–'}</td></tr>")
    moved = ", ".join(f"{name} {value:g}" for name, value in settings.items()) or "none; these are the defaults"
    tau = (
        "not defined, since all runs tie at the default or now"
        if math.isnan(answer.tau)
        else f"{answer.tau:.2f} (1: the same order, −1: reversed)"
    )
    rule = "strict variant" if engine.rule == "strict" else "rule as published"
    return (
        f'<div class="wb-wide"><table class="wb-strip"><tr><th scope="row">rank by {esc(score)}</th>{heads}'
        f"<th>turned</th></tr>{''.join(lines)}</table></div>"
        f'<div class="wb-muted">In percent of measured cases, {rule}; in brackets the change since the default. '
        f"Moved: {esc(moved)}. Kendall's tau-b against the default ranking: {esc(tau)}.</div>"
    )


def slider(benchmark: Benchmark, name: str, value: float) -> dict[str, Any]:
    """One threshold, for `choosers.Sliders`."""
    low, high, step = bounds(benchmark, name)
    return {
        "name": name,
        "value": value,
        "low": low,
        "high": max(high, value),
        "step": step,
        "unit": "ms" if name.endswith("_ms") else "s" if name.endswith("_s") else "",
        "usual": float(benchmark.defaults[name]),
        "ticks": list(benchmark.decider.preset.get(name, ())),
    }
