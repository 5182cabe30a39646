"""HoloViews with its Bokeh backend, loaded when a picture first needs it: importing it takes seconds."""

from __future__ import annotations

from typing import Any


def holoviews() -> Any:
    import holoviews as hv

    if hv.Store.current_backend != "bokeh":
        # Not hv.extension: in a notebook it would write scripts from a CDN into the cell's output.
        import holoviews.plotting.bokeh  # registers it

        hv.Store.set_current_backend("bokeh")
    return hv
