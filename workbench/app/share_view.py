"""Handing on: links, cases as pages that play offline, what people said in open formats."""

from __future__ import annotations

import io
import tempfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import panel as pn
import param
from panel.custom import JSComponent
from panel.viewable import Viewer

from workbench.app import annotation_files, annotations
from workbench.app.components import TEXT_CSS, WIDGET_CSS, button, css, text_pane
from workbench.app.detail import load_detail
from workbench.app.export import case_page, export_bundle, page_name
from workbench.app.run_rows import benchmark_of
from workbench.app.store import Key, key_of
from workbench.app.workspace import IN_LINK, Workspace, to_query
from workbench.errors import InputError
from workbench.pictures.texts import esc, muted, plain

MOST_CASES = 60
"""A larger bundle would go through the browser's memory twice; the command line writes any number."""


class CopyLink(JSComponent):
    """The page's address with `query`."""

    query = param.String("")

    _esm = Path(__file__).parent / "browser" / "copy_link.js"
    _stylesheets = [css("controls"), css("copy_link")]


class ShareView(Viewer):
    """Offers what the workspace points at: its state, its case, its filtered rows, its runs' annotations."""

    workspace: Workspace = param.ClassSelector(class_=Workspace)
    active = param.Boolean(True)
    keys = ()

    def __init__(self, workspace: Workspace, **params):
        super().__init__(workspace=workspace, **params)
        css = {"stylesheets": [WIDGET_CSS], "margin": (0, 8, 0, 0)}
        self.of = pn.widgets.RadioButtonGroup(options={"…": ""}, height=28, **(css | {"margin": (0, 0, 8, 0)}))
        self.link = CopyLink(sizing_mode="stretch_width", margin=(0, 0, 12, 0))
        self.case, self.rows, self.people, self.told = (text_pane() for _ in range(4))
        self.page = _download("download this case", "case.html", self._case_page, **css)
        self.prepare = button("prepare the bundle", self.make_bundle, width=170, **css)
        self.bundle = _download("download the bundle", "cases.zip", lambda: io.BytesIO(self._zip), visible=False, **css)
        self.labels = _download("download TextGrid and Audacity labels", "case.zip", self._case_labels, **css)
        self.run = pn.widgets.Select(name="run", options=[], width=260, **css)
        self.table = _download("download CSV", "annotations.csv", self._table, align="end", **css)
        self.all_labels = _download(
            "download all of the run (zip)", "annotations.zip", self._run_zip, align="end", **css
        )
        self._zip, self._zip_of = b"", []
        self._working: threading.Thread | None = None
        self.of.param.watch(lambda *events: self.update(), "value")
        self.run.param.watch(lambda *events: self.update(), "value")
        watched = [*dict.fromkeys(IN_LINK.values()), "rows", "version"]
        workspace.param.watch(lambda *events: self.update(), watched)
        self.param.watch(lambda *events: self.update(), "active")
        self.update()

    def update(self) -> None:
        """Say what would be exported; nothing while off screen."""
        if not self.active:
            return
        space = self.workspace
        with pn.io.hold():
            self._link()
            there = space.store.position(space.key) is not None
            name = " ".join(space.key[1:]).strip()
            self.case.object = f"<h3>This case: {esc(name)} in {esc(space.run)}</h3>" + muted(
                "One HTML file with sound, picture, verdict, judges, prompt and annotations. It plays without a server "
                "or a network."
            ) if there else "<h3>This case</h3>" + muted("No case is chosen; open one in Cases.")  # fmt: skip
            self.page.disabled = self.labels.disabled = not there
            file = page_name(space.key) or "case"
            self.page.filename, self.labels.filename = f"{file}.html", f"{file}.zip"
            count = len(space.rows)
            more = f" At most {MOST_CASES} here: narrow the filters, or use <code>workbench export RUN --failed</code>."
            about = muted(f"A zip with index.html, a page a case and audio files.{more if count > MOST_CASES else ''}")
            self.rows.object = f"<h3>The {count:,} filtered rows of Cases</h3>{about}"
            self.prepare.disabled = not 0 < count <= MOST_CASES
            if self._zip and self._zip_of != self.keys_of_rows():
                self._made(b"", "The rows have changed; prepare the bundle again.", [])
            runs = [run for run in space.store.runs if (space.store.runs[run].folder / "annotations.jsonl").exists()]
            if list(self.run.options) != runs:
                self.run.options = runs
                self.run.value = space.run if space.run in runs else runs[0] if runs else None
            self.table.disabled = self.all_labels.disabled = not runs
            self.people.object = "<h3>What people said</h3>" + muted(
                "The CSV is what <code>workbench judge-check --human</code> reads." if runs else
                "No case has been annotated yet; the form stands below the player of a case."
            )  # fmt: skip

    def _link(self) -> None:
        space = self.workspace
        options = {"this case": "case", "the filtered table": "cases", "the comparison": "compare",
                   "the sweep": "sweep", "the overview": "overview"}  # fmt: skip
        if self.of.options != options:
            self.of.param.update(options=options, value="case" if space.case else "cases")
        self.link.query = to_query(space, view=self.of.value)

    # -- making files --------------------------------------------------------------------------

    def _case_page(self) -> io.BytesIO:
        return io.BytesIO(case_page(self.workspace.store, self.workspace.key).encode())

    def keys_of_rows(self) -> list[Key]:
        frame = self.workspace.frame
        return [key_of(frame.iloc[row]) for row in self.workspace.rows[:MOST_CASES]]

    def make_bundle(self) -> None:
        """Make the zip away from the server's loop, and offer it when it is there."""
        if self._working is not None and self._working.is_alive():
            return
        store, keys, document = self.workspace.store, self.keys_of_rows(), pn.state.curdoc
        self.bundle.visible = False
        self.told.object = muted(f"Making {len(keys)} pages …")
        served = document is not None and document.session_context

        def work() -> None:
            try:
                made = _zipped(lambda out: export_bundle(store, keys, out, title=f"{len(keys)} cases")).getvalue()
                said = ""
            except InputError as error:
                made, said = b"", str(error)
            finish = lambda: self._made(made, said, keys)  # noqa: E731
            document.add_next_tick_callback(finish) if served else finish()

        if not served:
            work()
            return
        self._working = threading.Thread(target=work, name="bundle", daemon=True)
        self._working.start()

    def _made(self, made: bytes, said: str, keys: list[Key]) -> None:
        self._zip, self._zip_of = made, keys
        self.bundle.visible = bool(made)
        self.told.object = muted(f"{len(made) / 1e6:.1f} MB, ready." if made else esc(said, 300))

    def _case_labels(self) -> io.BytesIO:
        key, store = self.workspace.key, self.workspace.store
        people, _ = annotations.of_row(store.runs[key[0]].folder, *key[1:])
        return _zipped(lambda out: annotation_files.write_case(out, load_detail(store, key), people))

    def _table(self) -> io.BytesIO:
        run = self.workspace.store.runs[self.run.value]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "annotations.csv"
            annotation_files.write_table(
                path, annotation_files.table(run.name, run.folder, benchmark_of(run.benchmark))
            )
            return io.BytesIO(path.read_bytes())

    def _run_zip(self) -> io.BytesIO:
        def write(out: Path) -> None:
            try:
                annotation_files.write_run(self.workspace.store, self.run.value, out)
            except InputError as error:
                (out / "nothing.txt").write_text(plain(error), encoding="utf-8")

        return _zipped(write)

    def __panel__(self):
        wide = {"sizing_mode": "stretch_width", "margin": (0, 0, 18, 0)}
        link = pn.pane.HTML("<h3>Link to</h3>", stylesheets=[TEXT_CSS], margin=0)
        return pn.Column(
            pn.Column(link, self.of, self.link, sizing_mode="stretch_width", margin=0),
            pn.Column(self.case, pn.Row(self.page, self.labels, margin=0), **wide),
            pn.Column(self.rows, pn.Row(self.prepare, self.bundle, margin=0), self.told, **wide),
            pn.Column(self.people, pn.Row(self.run, self.table, self.all_labels, margin=0), **wide),
            sizing_mode="stretch_width", max_width=900, margin=0,
        )  # fmt: skip


def _zipped(write: Callable[[Path], Any]) -> io.BytesIO:
    """A zip of what `write` puts into the folder that it is given."""
    stream = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        write(Path(folder))
        for path in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
            archive.write(path, path.relative_to(folder))
    stream.seek(0)
    return stream


def _download(label: str, file: str, make: Callable[[], io.BytesIO], **options) -> pn.widgets.FileDownload:
    return pn.widgets.FileDownload(callback=make, label=label, filename=file, embed=False, height=32,
                                   width=40 + 7 * len(label), icon=None, **options)  # fmt: skip
