"""The page around the views: header, navigation, keys, theme, link; and which views there are.

A view is a class that takes a `Workspace` and has `active` (bool param), `keys` and `press(key)`. To add
one, write it in a module of its own and add a line to `VIEWS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import panel as pn
import param
from panel.viewable import Viewer

from workbench.app import annotations, files
from workbench.app.case_view import CaseView
from workbench.app.cases_view import CasesView
from workbench.app.compare_view import CompareView
from workbench.app.components import TEXT_CSS, WIDGET_CSS, Address, Keys, button
from workbench.app.overview_view import OverviewView
from workbench.app.share_view import ShareView
from workbench.app.store import Store
from workbench.app.sweep_view import SweepView
from workbench.app.workspace import IN_LINK, Workspace, read_query, to_query
from workbench.errors import InputError
from workbench.pictures.texts import esc
from workbench.pictures.theme import variables

VIEWS: dict[str, Callable[[Workspace], Any]] = {
    "cases": CasesView, "case": CaseView, "compare": CompareView, "sweep": SweepView, "overview": OverviewView,
    "share": ShareView,
}  # fmt: skip
"""Name in the address -> view, made when it is first opened, in the order of the navigation."""

SHARED_KEYS = ("j", "k", "ArrowDown", "ArrowUp", "Escape", "/", "?")
REFRESH_MS = 3000

_KEYS = {
    "j ↓": "next row", "k ↑": "previous row", "Enter": "open", "Esc": "back to the table", "/": "search",
    "space": "play or pause", "← →": "one second", "[ ]": "speed", "1 2 3": "both, user, agent",
    "l": "loop the window", "w": "zoom to the window", "f": "fit", "s": "spectrogram", "m": "mark the moment",
    "a d": "verdict right, wrong", "e": "note", "n p": "next, previous difference (Compare)", "?": "this list",
}  # fmt: skip
HELP = (
    "<section><h3>Keys</h3>"
    + " · ".join(f"<kbd>{keys}</kbd> {what}" for keys, what in _KEYS.items())
    + ". In the picture the wheel zooms, a drag moves, a click seeks.</section>"
)


class Shell(Viewer):
    """Shows one view at a time and keeps the ones that were opened."""

    workspace: Workspace = param.ClassSelector(class_=Workspace)
    help = param.Boolean(False)

    def __init__(self, workspace: Workspace, **params):
        super().__init__(workspace=workspace, **params)
        self.views: dict[str, Any] = {}
        self._panels: dict[str, Any] = {}
        css = {"height": 30, "margin": (0, 8, 0, 0), "stylesheets": [WIDGET_CSS]}
        titles = {name.capitalize(): name for name in VIEWS}
        self.tabs = pn.widgets.RadioButtonGroup(options=titles, value=self._name(), **css)
        self.dark = button("light" if workspace.theme == "dark" else "dark", self.toggle_theme, width=64, **css)
        self.ask = button("keys ?", lambda: self.param.update(help=not self.help), width=64, **css)
        self.told = pn.pane.HTML("", margin=(0, 8), sizing_mode="stretch_width", stylesheets=[TEXT_CSS])
        self.guide = pn.pane.HTML(HELP, visible=False, sizing_mode="stretch_width", stylesheets=[TEXT_CSS])
        self.keys = Keys(keys=self._keys(), width=0, height=0, margin=0)
        first = next(iter(workspace.store.runs), None)
        probe = workspace.store.address(first, "run.json") if first else ""
        self.address = Address(state=[workspace.view, to_query(workspace)], probe=probe, width=0, height=0, margin=0)
        self.address.param.watch(lambda *events: self._went(), "went")
        self.address.param.watch(lambda *events: self._unserved(), "unserved")
        workspace.param.watch(lambda *events: self._write_address(), list(IN_LINK.values()))
        self.body = pn.Column(sizing_mode="stretch_width", margin=0)
        self.tabs.param.watch(lambda event: workspace.param.update(view=event.new), "value")
        self.keys.param.watch(lambda *events: self.press(self.keys.last), "pressed")
        workspace.param.watch(lambda *events: self._show(), "view")
        workspace.param.watch(lambda *events: self._tell(), "message")
        self.param.watch(lambda event: self.guide.param.update(visible=event.new), "help")
        self._tell()
        self._show()

    def _name(self) -> str:
        return self.workspace.view if self.workspace.view in VIEWS else next(iter(VIEWS))

    @property
    def open(self) -> Any:
        """The view on screen."""
        return self.views[self._name()]

    def _show(self) -> None:
        name = self._name()
        if name == "case" and not self.workspace.case and len(self.workspace.rows):
            self.workspace.step(1)
        with pn.io.hold():
            for other, view in self.views.items():
                view.active = other == name
            if name not in self.views:
                self.views[name] = VIEWS[name](self.workspace)
                # For screen readers; the eye has the tabs.
                heading = pn.pane.HTML(f'<h2 class="wb-unseen">{name}</h2>', height=0, margin=0, stylesheets=[TEXT_CSS])
                view = self.views[name].__panel__()
                self._panels[name] = pn.Column(heading, view, sizing_mode="stretch_width", margin=0)
                self.body.append(self._panels[name])
            self.tabs.value = name
            # Views stay in the page and only change visibility: building figures again would cost a second.
            for other, panel in self._panels.items():
                panel.visible = other == name
        self.keys.keys = self._keys()

    def _tell(self) -> None:
        self.told.object = (
            f'<span class="wb-fail">{esc(self.workspace.message, 600)}</span>' if self.workspace.message else ""
        )

    def _keys(self) -> list[str]:
        own = getattr(self.views.get(self._name()), "keys", ())
        return [*SHARED_KEYS, *own]

    def press(self, key: str) -> None:
        """Answer a key: the shared ones here, the rest in the open view."""
        if key in ("j", "ArrowDown"):
            self.workspace.step(1)
        elif key in ("k", "ArrowUp"):
            self.workspace.step(-1)
        elif key in ("Escape", "/"):
            self.workspace.view = "cases"
        elif key == "?":
            self.help = not self.help
        else:
            self.open.press(key)

    def toggle_theme(self) -> None:
        """Turn the page's colours: the page is loaded again, which keeps everything that the link holds."""
        self.workspace.theme = "light" if self.workspace.theme == "dark" else "dark"
        self.address.reload += 1

    def _write_address(self) -> None:
        self.address.state = [self.workspace.view, to_query(self.workspace)]

    def _went(self) -> None:
        """The browser's Back and Forward."""
        theme = self.workspace.theme
        problems = read_query(self.workspace, self.address.to)
        self.workspace.param.update(theme=theme, message=" ".join(problems))  # colours turn only with the page

    def _unserved(self) -> None:
        """The server has no routes for files."""
        said = (
            "This server was started without `--plugins workbench.app.files`: sound comes through the page itself, "
            "which takes longer, and files cannot be opened. `workbench inspect RUNS` serves them."
        )
        self.workspace.param.update(served=False, message=self.workspace.message or said)

    def __panel__(self):
        brand = pn.pane.HTML("<h1>Duplex Workbench</h1>", margin=(5, 16, 0, 0), stylesheets=[TEXT_CSS])
        parts = (brand, self.tabs, self.told, self.ask, self.dark, self.keys, self.address)
        head = pn.Row(*parts, sizing_mode="stretch_width", margin=(0, 0, 8, 0))
        return pn.Column(head, self.guide, self.body, sizing_mode="stretch_width", margin=(8, 16))


def session(store: Store) -> Shell:
    """The page of one browser session, tied to its address and refreshed while runs are being written."""
    location = pn.state.location
    workspace = Workspace(store)
    query = location.search if location is not None else ""
    problems = read_query(workspace, query)
    if workspace.case and store.position(workspace.key) is None:
        problems.append(f"There is no case {workspace.case!r} in a run {workspace.run!r} here.")
    workspace.message = " ".join(problems)
    look = workspace.look
    # Custom properties of the document itself, so that shadow roots see them too.
    pn.config.raw_css = [
        f":root {{ {variables(look)} color-scheme: {look.name}; }}"
        "html, body { margin: 0; background: var(--wb-page); color: var(--wb-ink); font: 13px/1.45 var(--wb-font); }"
    ]
    pn.config.theme = "dark" if workspace.theme == "dark" else "default"
    shell = Shell(workspace)
    if pn.state.curdoc is not None and pn.state.curdoc.session_context:
        pn.state.add_periodic_callback(workspace.refresh, REFRESH_MS)
    return shell


_opened: dict[tuple[str, ...], Store] = {}
_lock = Lock()


def store_of(folders: Sequence[str]) -> Store:
    """The store of these folders, shared by all sessions of the process and known to `files`.

    Raises
    ------
    InputError : one of them is not a folder.
    """
    key = tuple(map(str, folders))
    with _lock:
        if key not in _opened:
            _opened[key] = made = Store(key, readers=[annotations.columns])
            files.STORES[made.token] = made
        return _opened[key]


def open_inspector(folders: Sequence[str]) -> Any:
    """The page of this session, or a sentence about why there is none."""
    try:
        return session(store_of(folders)).__panel__()
    except InputError as error:
        return pn.pane.HTML(f"<section>{esc(error)}</section>", stylesheets=[TEXT_CSS], margin=20)
