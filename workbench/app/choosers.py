"""Browser components of the views that show several runs: which runs, which thresholds."""

from __future__ import annotations

from pathlib import Path

import param
from panel.custom import JSComponent

from workbench.app.look import css

_HERE = Path(__file__).parent / "browser"
_CONTROLS = css("controls")


class RunPicker(JSComponent):
    """Runs to set side by side; `chosen` keeps the order, the baseline first. `colours` are the theme's."""

    options = param.List([])
    chosen = param.List([])
    colours = param.List([])
    most = param.Integer(4, bounds=(1, None))
    baseline = param.Boolean(True, doc="whether the first run is a baseline, and says so")
    shown: list[str] = []  # what the view last put into `chosen` itself

    _esm = _HERE / "run_picker.js"
    _stylesheets = [_CONTROLS, css("run_picker")]


class Sliders(JSComponent):
    """Thresholds. sliders : dicts with name, value, low, high, step, usual (the default), unit, ticks.

    `moved` is triggered with the new `values`; raise `answered` when their effect has been drawn, since
    the browser sends the next values only then.
    """

    sliders = param.List([])
    answered = param.Integer(0)
    values = param.Dict({})
    moved = param.Event()

    _esm = _HERE / "sliders.js"
    _stylesheets = [_CONTROLS, css("sliders")]

    def _handle_msg(self, data: dict) -> None:
        values = data.get("values") if isinstance(data, dict) else None
        known = {slider["name"]: slider for slider in self.sliders}
        if not isinstance(values, dict) or not set(values) <= set(known):
            return
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values.values()):
            self.values = {
                name: float(min(max(value, known[name]["low"]), known[name]["high"])) for name, value in values.items()
            }
            self.param.trigger("moved")
