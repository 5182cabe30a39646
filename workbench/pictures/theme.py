"""Colours, markers and figure defaults of every picture: one module, light and dark.

The palette is Okabe and Ito's (2008), safe for the common colour blindnesses; on dark paper its
colours are lightened. Nothing is told by colour alone: runs also differ in marker, missing values
are hatched or named. Each colour is unique within its theme, so that a stored picture can be turned
from one theme into the other by exchanging colours (see `exchange`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from bokeh.models import Axis, Legend
from bokeh.palettes import cividis
from bokeh.plotting import figure

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "hex", "star", "plus")
HATCH = "right_diagonal_line"


@dataclass(frozen=True)
class Theme:
    """The colours of one theme. `series` are for runs, in order; they repeat after the last."""

    name: str
    paper: str
    ink: str
    muted: str
    grid: str
    series: tuple[str, ...]
    failed: str
    missing: str
    limit: str
    window: str

    def run_colour(self, index: int) -> str:
        return self.series[index % len(self.series)]

    @property
    def user(self) -> str:
        return self.series[0]

    @property
    def agent(self) -> str:
        return self.series[1]


LIGHT = Theme(
    name="light",
    paper="#fefefe",
    ink="#1c2126",
    muted="#5a636c",
    grid="#dde1e5",
    series=("#0072b2", "#d55e00", "#009e73", "#b0538a", "#c98700", "#3f94c4", "#6b5bb0", "#7a7a1f"),
    failed="#bd3a12",
    missing="#b6bcc2",
    limit="#a3123f",
    window="#ead9a6",
)
DARK = Theme(
    name="dark",
    paper="#15191d",
    ink="#e8ebee",
    muted="#a5aeb7",
    grid="#323a42",
    series=("#5fb4ea", "#f59a57", "#3fcea2", "#e6a3ca", "#f2c14e", "#9bd9fb", "#b3a6f0", "#cfcf6a"),
    failed="#f2835f",
    missing="#59636d",
    limit="#ff7a9c",
    window="#5c5230",
)

_PAGE = {
    "light": {"page": "#f4f6f8", "raised": "#ffffff", "head": "#eef1f4", "line": "#c9d0d6", "hover": "#eef4f8",
              "chosen": "#dbeaf5", "focus": "#0072b2", "pass": "#00714f", "mark": "#fff1bf"},
    "dark": {"page": "#101316", "raised": "#1a1f24", "head": "#222930", "line": "#3b454e", "hover": "#232b33",
             "chosen": "#1f3a4f", "focus": "#5fb4ea", "pass": "#3fcea2", "mark": "#5c5230"},
}  # fmt: skip
"""Further colours of pages, as properties of their style sheets."""

HEAT = tuple(cividis(256))
"""Sequential colours of rates, dark blue (0) to yellow (1): perceptually even, safe, and alike in both themes."""


def on_heat(value: float) -> str:
    """Colour of text on a heat cell of `value` in [0, 1]."""
    return "#fffffe" if value < 0.55 else "#101011"


def exchange() -> dict[str, str]:
    """Light colour -> dark colour, for turning a stored picture."""
    pairs: dict[str, str] = {}
    for field in fields(Theme):
        light, dark = getattr(LIGHT, field.name), getattr(DARK, field.name)
        if field.name == "series":
            pairs |= dict(zip(light, dark, strict=True))
        elif field.name != "name":
            pairs[light] = dark
    return pairs


def variables(theme: Theme) -> str:
    """Declarations of every `--wb-...` property, for style sheets of pages and of blocks in them."""
    shared = {"ink": theme.ink, "muted": theme.muted, "grid": theme.grid, "user": theme.user, "agent": theme.agent,
              "fail": theme.failed, "limit": theme.limit, "window": theme.window, "moment": theme.series[3],
              "font": FONT}  # fmt: skip
    return "".join(f"--wb-{name}: {value}; " for name, value in (_PAGE[theme.name] | shared).items())


def new_figure(theme: Theme = LIGHT, **options) -> figure:
    """An empty figure in the theme: stretches to the page, no logo, wheel zoom off until chosen."""
    defaults = {"sizing_mode": "stretch_width", "height": 320, "tools": "pan,box_zoom,save,reset"}
    made = figure(**(defaults | options))
    made.toolbar.logo = None
    made.toolbar.autohide = True
    made.background_fill_color = made.border_fill_color = None
    made.outline_line_color = None
    made.title.text_color = theme.ink
    made.title.text_font = FONT
    made.title.text_font_size = "14px"
    made.title.text_font_style = "bold"
    for axis in made.axis:
        quiet_axis(axis, theme)
    made.grid.grid_line_color = theme.grid
    for legend in made.legend:
        style_legend(legend, theme)
    return made


def quiet_axis(axis: Axis, theme: Theme, ink: str | None = None) -> None:
    """Lines and words of an axis. ink : of the numbers."""
    axis.axis_label_text_color, axis.major_label_text_color = theme.muted, ink or theme.ink
    axis.axis_label_text_font = axis.major_label_text_font = FONT
    axis.axis_label_text_font_style = "normal"
    axis.axis_label_text_font_size = axis.major_label_text_font_size = "12px"
    axis.axis_line_color = axis.major_tick_line_color = theme.muted
    axis.minor_tick_line_color = None


def style_legend(legend: Legend, theme: Theme) -> None:
    legend.background_fill_color = legend.border_line_color = None
    legend.label_text_color, legend.label_text_font, legend.label_text_font_size = theme.ink, FONT, "12px"
    legend.click_policy = "mute"
    legend.padding = legend.margin = 2


def legend_above(made: figure, theme: Theme, wanted: bool = True) -> None:
    """The legend in one line above the picture, where a click mutes a run; none where it is not wanted."""
    for legend in list(made.legend):
        legend.orientation, legend.visible = "horizontal", wanted
        style_legend(legend, theme)
        made.add_layout(legend, "above")


def empty(title: str, message: str, theme: Theme = LIGHT) -> figure:
    """A picture that says why there is nothing to see."""
    made = new_figure(theme, title=title, height=120, x_range=(0, 1), y_range=(0, 1), tools="")
    made.axis.visible = made.grid.visible = False
    made.text(x=[0.5], y=[0.5], text=[message], text_align="center", text_baseline="middle", text_color=theme.muted,
              text_font={"value": FONT}, text_font_size="13px")  # fmt: skip
    return made
