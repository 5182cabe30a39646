"""The page's style sheet from the shared palette: custom properties, so that shadow roots see them too."""

from __future__ import annotations

from pathlib import Path

from workbench.pictures.theme import Theme, variables


def css(name: str) -> str:
    """A style sheet of browser/; its colours are the properties that `page_css` sets."""
    return (Path(__file__).parent / "browser" / f"{name}.css").read_text(encoding="utf-8")


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
