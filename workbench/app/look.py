"""The page's style sheet from the shared palette: custom properties, so that shadow roots see them too."""

from __future__ import annotations

from pathlib import Path

from workbench.pictures.theme import FONT, Theme

_BY_THEME = {
    "light": {"page": "#f4f6f8", "raised": "#ffffff", "head": "#eef1f4", "line": "#c9d0d6", "hover": "#eef4f8",
              "chosen": "#dbeaf5", "focus": "#0072b2", "pass": "#00714f", "mark": "#fff1bf"},
    "dark": {"page": "#101316", "raised": "#1a1f24", "head": "#222930", "line": "#3b454e", "hover": "#232b33",
             "chosen": "#1f3a4f", "focus": "#5fb4ea", "pass": "#3fcea2", "mark": "#5c5230"},
}  # fmt: skip


def css(name: str) -> str:
    """A style sheet of browser/; its colours are the properties that `page_css` sets."""
    return (Path(__file__).parent / "browser" / f"{name}.css").read_text(encoding="utf-8")


def variables(theme: Theme) -> str:
    """Declarations of every `--wb-...` property."""
    shared = {"ink": theme.ink, "muted": theme.muted, "grid": theme.grid, "user": theme.user, "agent": theme.agent,
              "fail": theme.failed, "limit": theme.limit, "font": FONT}  # fmt: skip
    return "".join(f"--wb-{name}: {value}; " for name, value in (_BY_THEME[theme.name] | shared).items())


def page_css(theme: Theme) -> str:
    """For the document itself."""
    return (
        f":root {{ {variables(theme)} color-scheme: {theme.name}; }}"
        "html, body { margin: 0; background: var(--wb-page); color: var(--wb-ink); font: 13px/1.45 var(--wb-font); }"
    )


TEXT_CSS = css("text")
"""For HTML panes, which live in shadow roots."""

WIDGET_CSS = css("widgets")
"""For Panel's own widgets."""
