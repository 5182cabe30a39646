"""HoloViews with its Bokeh backend, loaded when a picture first needs it: importing it takes seconds."""

from __future__ import annotations

from typing import Any


def holoviews() -> Any:
    import holoviews as hv

    if hv.Store.current_backend != "bokeh":
        hv.extension("bokeh", logo=False)
    return hv
