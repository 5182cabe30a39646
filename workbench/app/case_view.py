"""One case: its sound and picture, and beside them why the verdict is what it is."""

from __future__ import annotations

import panel as pn
import param
from panel.viewable import Viewer

from workbench.app import case_texts
from workbench.app.annotate_form import AnnotateForm
from workbench.app.components import TEXT_CSS, Player, RowsTable, button, head, system, text_pane
from workbench.app.detail import Detail, load_detail
from workbench.app.store import Key, key_of
from workbench.app.workspace import Workspace
from workbench.contract import KEYS
from workbench.pictures.recording import Picture
from workbench.pictures.texts import cell, esc, muted

SIDE_PX = 380
_NOT_LISTED = ("run", "case", "latency_s", "error")


class CaseView(Viewer):
    """Shows the row chosen in the workspace. `keys` are those it answers to (see `press`)."""

    workspace: Workspace = param.ClassSelector(class_=Workspace)
    detail: Detail = param.ClassSelector(class_=Detail, allow_None=True)
    active = param.Boolean(True, doc="whether the view is on screen; it loads nothing while it is not")
    keys = ("w", "f", "s", "l", "1", "2", "3", "[", "]", "ArrowLeft", "ArrowRight")

    def __init__(self, workspace: Workspace, **params):
        super().__init__(workspace=workspace, **params)
        self.wave = Picture(workspace.look, tall=True, width_px=800)
        self.player = Player(heads=self.wave.heads, range=self.wave.range.name, sizing_mode="stretch_width")
        self.head, self.note, self.under, self.side = (text_pane(0) for _ in range(4))
        self._shown = None
        self._keys: list[Key] = []
        self.buttons = [
            button("fit (f)", self.wave.fit), button("window (w)", self.wave.zoom_to_window),
            button("spectrogram (s)", self._spectrum),
            button("↑ (k)", lambda: workspace.step(-1), width=58), button("↓ (j)", lambda: workspace.step(1), width=58),
        ]  # fmt: skip
        self.player.param.watch(lambda event: self.wave.see(event.new), "viewport")
        self.player.param.watch(lambda *events: self._moved(), "time")
        self.wave.param.watch(lambda *events: workspace.param.update(span=self.wave.zoom), "span")
        workspace.param.watch(lambda *events: self.load(), ["run", "case", "event", "metric"])
        workspace.param.watch(lambda *events: self._reread(), "version")
        workspace.param.watch(lambda *events: self.load(again=True), "served")
        workspace.param.watch(lambda *events: self._place(), ["rows"])
        self.param.watch(lambda *events: self.load(), "active")
        self.others = RowsTable(size=1000, follow=False, sizing_mode="stretch_width")
        self.about_others = pn.Column(
            pn.pane.HTML("<h3>All rows of this case (a click shows one)</h3>", stylesheets=[TEXT_CSS], margin=0),
            self.others, sizing_mode="stretch_width", margin=(0, 0, 8, 0), visible=False,
        )  # fmt: skip
        self.others.param.watch(lambda event: self._other(event.new), "opened")
        self.annotate = AnnotateForm(workspace, self)
        self.load()

    # -- state -> picture ----------------------------------------------------------------------

    def load(self, *, again: bool = False) -> None:
        """Read the chosen row and show it; nothing happens while the view is off screen or the row is the same."""
        space = self.workspace
        if not self.active or (space.key == self._shown and not again):
            return
        same = space.key == self._shown
        self._shown = space.key
        detail = load_detail(space.store, space.key)
        if not space.served:
            detail.files = []
        with pn.io.hold():
            self.wave.show([detail])
            if not same:
                self.wave.view(*(space.span or self.wave.whole))
            self.detail = detail
            window = detail.window
            source = space.sound(space.run, detail)
            self.player.param.update(start=space.at_s or 0.0, window=list(window or (0.0, detail.duration_s)))
            self.player.systems = [system(space.run, detail, source)]
            self.under.object = case_texts.below(detail, space.words)
            self.side.object = case_texts.beside(detail, space.store, space.words)
            self.note.object = muted(esc(detail.loudness))
            self._place()
            self._list()

    def _list(self) -> None:
        """The rows of the case, where there are several."""
        rows = self.workspace.others()
        several = len(rows) > 1
        self._keys = [key_of(row) for _, row in rows.iterrows()] if several else []
        columns = [column for name, column in self.workspace.table.shown(rows["benchmark"].unique()).items()
                   if name not in _NOT_LISTED and (name in (*KEYS, "verdict") or rows[name].nunique() > 1)]  # fmt: skip
        at = self._keys.index(self.workspace.key) if self.workspace.key in self._keys else -1
        self.others.fill(len(self._keys), map(head, columns), lambda part: [
            [cell(row[column.name]) for column in columns] for _, row in rows.iloc[part].iterrows()
        ], at)  # fmt: skip
        self.about_others.visible = several

    def _other(self, place: int) -> None:
        if 0 <= place < len(self._keys):
            span, at_s = self.workspace.span, self.workspace.at_s
            self.workspace.select(self._keys[place])
            self.workspace.param.update(span=span, at_s=at_s)

    def _reread(self) -> None:
        """The store was read again: show it only if this row changed."""
        row = self.workspace.store.row(self.workspace.key)
        before = self.detail.row if self.detail else {}
        if row is not None and row.astype(str).to_dict() != {name: str(value) for name, value in before.items()}:
            self.load(again=True)

    def _place(self) -> None:
        if self.active and self.detail is not None:
            self.head.object = case_texts.head(self.detail, self.workspace.position, len(self.workspace.rows))

    # -- browser -> state ----------------------------------------------------------------------

    def _moved(self) -> None:
        self.workspace.at_s = float(self.player.time) or None

    def _spectrum(self) -> None:
        self.wave.spectrogram = not self.wave.spectrogram

    def press(self, key: str) -> None:
        """Answer a key."""
        player = self.player
        match key:
            case "w":
                self.wave.zoom_to_window()
            case "f":
                self.wave.fit()
            case "s":
                self._spectrum()
            case "1" | "2" | "3":
                player.channel = ("both", "user", "agent")[int(key) - 1]
            case _:
                player.press(key)

    def __panel__(self):
        row = {"margin": (0, 0, 6, 0), "sizing_mode": "stretch_width"}
        left = pn.Column(
            pn.Row(self.head, *self.buttons, **row),
            pn.pane.Bokeh(self.wave.layout, sizing_mode="stretch_width", margin=0),
            self.note,
            pn.Row(self.player, margin=(6, 0, 8, 0), sizing_mode="stretch_width"),
            self.about_others,
            self.annotate,
            self.under,
            sizing_mode="stretch_width",
            margin=(0, 12, 0, 0),
        )
        return pn.Row(left, pn.Column(self.side, width=SIDE_PX, margin=0), sizing_mode="stretch_width")
