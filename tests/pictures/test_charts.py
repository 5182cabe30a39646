"""Pictures from small frames: they draw what they are given, say n, and bear having nothing to draw."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from bokeh.embed import file_html
from bokeh.models import ColumnDataSource, FactorRange
from bokeh.plotting import figure

from workbench import pictures
from workbench.pictures import theme
from workbench.pictures.sweeps import SweepMaps


def rates(run: str = "a", *, none: bool = False) -> pd.DataFrame:
    rows = [("L1", 0.75, 3, 4, 1, 0.3, 0.95), ("L2", 0.5, 2, 4, 0, None, None), ("L3", None, 0, 0, 5, None, None)]
    columns = ["level", "ias", "passed", "measured", "excluded", "low", "high"]
    frame = pd.DataFrame(rows, columns=columns).assign(run=run)
    return frame.assign(ias=None, passed=0, measured=0) if none else frame


def sources(made: figure) -> list[dict]:
    return [model.data for model in made.select({"type": ColumnDataSource})]


def drawn(made: figure) -> figure:
    """The figure, after it has been through the whole of Bokeh's serialisation."""
    assert file_html(made, resources="cdn", title="t")
    return made


@pytest.mark.parametrize("horizontal", [False, True])
def test_rates_draw_every_run_and_name_what_is_missing(horizontal):
    frame = pd.concat([rates("a"), rates("b")])
    made = drawn(
        pictures.rates_with_intervals(frame, "level", value="ias", order=("L1", "L2", "L3"), horizontal=horizontal)
    )
    assert "n = 8 in each run" in made.title.text
    data = {source["run"][0]: source for source in sources(made)}
    assert data["a"]["passed"] == [3, 2, 0] and data["b"]["measured"] == [4, 4, 0]
    assert data["a"]["absent"] == ["", "", "not measured"]
    assert data["a"]["low"][0] == 0.3 and data["a"]["interval"][1] == "none"
    places = made.y_range if horizontal else made.x_range
    assert isinstance(places, FactorRange) and len(places.factors) == 3
    assert sorted(item.label.value for legend in made.legend for item in legend.items) == ["a", "b"]


@pytest.mark.parametrize("frame", [rates(none=True), rates().iloc[:0]])
def test_no_rates_make_a_sentence(frame):
    made = drawn(pictures.rates_with_intervals(frame, "level", value="ias"))
    assert "Nothing was measured." in str(sources(made))


def test_heatmap_has_counts_on_cells_and_hatches_the_unmeasured():
    frame = pd.DataFrame(
        {
            "action": ["YIELD", "YIELD", "LISTEN"],
            "level": ["L1", "L2", "L1"],
            "ias": [0.25, None, 1.0],
            "passed": [1, 0, 4],
            "measured": [4, 0, 4],
            "excluded": [0, 6, 0],
        }
    )
    made = drawn(pictures.rate_heatmap(frame, "level", "action", value="ias", run="mine", y_order=("LISTEN", "YIELD")))
    assert "n = 8" in made.title.text and "mine" in made.title.text
    texts = [text for source in sources(made) for text in source.get("text", [])]
    assert sorted(texts) == ["0 of 6", "1/4", "4/4"]
    [cells] = [source for source in sources(made) if "hatch" in source]
    assert dict(zip(cells["text"], cells["hatch"], strict=True)) == {"1/4": " ", "4/4": " ", "0 of 6": theme.HATCH}
    assert cells["about"][1] == "L2, YIELD: 0 of 6" and cells["about"][0] == "L1, YIELD: 25.0 %, 1/4"
    assert made.y_range.factors == ["YIELD", "LISTEN"]  # drawn from below, so the first action is on top


def test_gap_bars_are_in_points_with_intervals():
    frame = pd.DataFrame(
        {"run": ["a", "b", "c"], "gap": [0.1, -0.2, None], "low": [0.05, None, None], "high": [0.15, None, None]}
    )
    made = drawn(pictures.gap_bars(frame, "run", title="Gap (n = 3 runs)"))
    values = {source["run"][0]: source["value"][0] for source in sources(made) if source.get("value")}
    assert values == pytest.approx({"a": 10.0, "b": -20.0, "c": np.nan}, nan_ok=True)
    assert made.x_range.start < -20 < 15 < made.x_range.end
    assert "Neither side" in str(sources(pictures.gap_bars(frame.assign(gap=None))))


def test_latencies_are_signed_and_limits_are_drawn():
    frame = pd.DataFrame(
        {
            "action": ["TAKE_TURN"] * 3 + ["YIELD"],
            "run": ["a", "a", "b", "b"],
            "latency_s": [-0.5, 1.2, 0.3, None],
            "limit_s": [2.0, 2.0, 1.5, 0.6],
            "case": list("wxyz"),
            "verdict": ["fail", "pass", "pass", "fail"],
        }
    )
    made = drawn(pictures.latency_distributions(frame, lane="action", title="Onset"))
    assert made.title.text == "Onset: 3 latencies, 1 cases without one"
    dots = [source for source in sources(made) if "t" in source]
    assert sorted(value for source in dots for value in source["t"]) == [-0.5, 0.3, 1.2]
    lines = [source["x0"] for source in sources(made) if set(source) == {"x0", "x1", "y0", "y1"}]
    assert [2.0, 1.5] in lines  # a lane whose cases differ in limit shows each of them
    assert "No case has a latency" in str(
        sources(pictures.latency_distributions(frame.assign(latency_s=np.nan), lane="action"))
    )


def test_sweep_pictures():
    grid = pd.DataFrame(
        [(w, y, w * y, run) for w in (1, 2) for y in (0.1, 0.4) for run in "ab"],
        columns=["max_wait_s", "yield_latency_ms", "ias", "run"],
    )
    made = drawn(pictures.sweep_heatmap(grid, "max_wait_s", "yield_latency_ms", "ias"))
    assert "mean of 2 configurations a cell" in made.title.text
    [cells] = [source for source in sources(made) if "hatch" in source]
    assert dict(zip(zip(cells["x"], cells["y"], strict=True), cells["text"], strict=True)) == {
        ("1", "0.1"): "10.0", ("2", "0.1"): "20.0", ("1", "0.4"): "40.0", ("2", "0.4"): "80.0"}  # fmt: skip
    curves = drawn(pictures.threshold_curves(grid, "max_wait_s", "ias", default=2.0))
    assert "2 runs, n = 2 settings" in curves.title.text
    taus = drawn(pictures.tau_histogram([1.0, 1.0, -1.0, None]))
    assert "n = 4 configurations, 1 undefined" in taus.title.text
    [bars] = [source for source in sources(taus) if "top" in source]
    assert sum(bars["top"]) == 3 and bars["top"][-1] == 2
    assert "not defined" in str(sources(pictures.tau_histogram([None])))


def test_slope_chart_ranks_and_shares_places():
    frame = pd.DataFrame(
        {"at": ["default"] * 3 + ["strict"] * 3, "run": list("abc") * 2, "value": [0.9, 0.5, 0.5, 0.1, None, 0.4]}
    )
    made = drawn(pictures.slope_chart(frame, name="IAS"))
    ranks = sorted(list(source["y"]) for source in sources(made) if "text" not in source)
    assert ranks == [[1.0, 2.0], [1.0, 2.0], [2.5], [2.5], [2.5, 1.0], [2.5, 1.0]]  # a line and its marks each
    assert made.x_range.factors == ["default", "strict"]


def test_several_runs_share_one_map_and_are_filled_again():
    made = SweepMaps(theme.LIGHT)
    values = np.array([[[0.1, 0.2]], [[np.nan, -0.4]]])
    axes = {"wait_s": np.array([1.0, 2.0]), "ceiling_s": np.array([0.5])}
    now, usual = {"wait_s": 2.0, "ceiling_s": 0.5}, {"wait_s": 1.0, "ceiling_s": 0.5}
    for _ in range(2):
        made.show(values, ["a", "b"], axes, now, usual, "gap")
    data = made.source.data
    assert data["x"] == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")] and data["text"] == [
        "10.0",
        "20.0",
        "–",
        "-40.0",
    ]
    assert data["edge"] == [theme.LIGHT.ink, theme.LIGHT.limit] * 2 and data["hatch"] == [" ", " ", theme.HATCH, " "]
    assert (made.mapper.low, made.mapper.high) == (-1.0, 1.0) and drawn(made.figure).title.text.startswith(
        "gap by wait_s"
    )


def test_colours_are_unique_so_that_themes_can_be_exchanged():
    pairs = theme.exchange()
    assert len(pairs) == len(theme.LIGHT.series) + 8
    assert len(set(pairs.values())) == len(pairs)
    assert not set(pairs) & set(pairs.values())


@pytest.mark.parametrize("tones", [theme.LIGHT, theme.DARK], ids=lambda tones: tones.name)
def test_text_and_series_stand_out_from_the_paper(tones):
    """WCAG contrast: 4.5 for text, 3 for marks."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))

    def contrast(colour: str) -> float:
        light, dark = sorted((luminance(colour), luminance(tones.paper)), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    assert min(contrast(tones.ink), contrast(tones.muted), contrast(tones.limit)) >= 4.5
    assert all(contrast(colour) >= 2.9 for colour in tones.series)
