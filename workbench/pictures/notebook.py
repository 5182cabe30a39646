"""Pictures in Jupyter without a network: Bokeh's scripts go into the notebook's own output.

from workbench.pictures import notebook
from workbench import pictures
notebook.start()                     # once, in a cell of its own
notebook.show(pictures.gap_bars(...))
"""

from __future__ import annotations

from typing import Any

from bokeh.io import output_notebook
from bokeh.io import show as bokeh_show
from bokeh.resources import Resources

from workbench.pictures import as_figure
from workbench.pictures.theme import LIGHT, Theme


def start() -> None:
    """Load BokehJS into the output of this cell; every picture below needs that output to stay."""
    # Only the core: tables, widgets and WebGL would add megabytes that no picture here uses.
    output_notebook(Resources(mode="inline", components=["bokeh"]), hide_banner=True)


def show(*shown: Any, theme: Theme = LIGHT) -> None:
    """Show pictures (Bokeh figures or HoloViews objects) below the cell, one under the other."""
    for picture in shown:
        bokeh_show(as_figure(picture, theme))
