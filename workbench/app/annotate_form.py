"""The annotation form of the Case view, and people's moments in its picture. Everything is saved at once."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import panel as pn
import param
from panel.custom import JSComponent
from panel.viewable import Viewer

from workbench.app import annotations
from workbench.app.annotation_files import labelling
from workbench.app.annotations import Change, Said
from workbench.app.components import css
from workbench.app.detail import Detail
from workbench.app.run_rows import Opinion, RunRows, benchmark_of, signature
from workbench.app.store import KEY
from workbench.app.workspace import Workspace
from workbench.errors import InputError
from workbench.pictures.texts import plain

_HERE = Path(__file__).parent / "browser"
_MOST_HISTORY = 100
_OWN = ("agent cut off", "user audio faulty", "window misplaced")
"""Labels that no judge has."""


class Form(JSComponent):
    """The fields. subject : key, verdict, judges, labels, scale. own : what the annotator says now."""

    subject = param.Dict({})
    own = param.Dict({})
    others = param.List([])
    history = param.List([])
    annotator = param.String("")
    head = param.String("", doc="name of the playhead, which marks moments")
    range = param.String("", doc="name of the picture's range, for going to a moment")
    told = param.String("")
    bad = param.Boolean(False)
    stamp = param.Integer(0)
    arrived = param.Event()
    sent = param.Dict({}, doc="the statement behind `arrived`")

    _esm = _HERE / "annotate.js"
    _stylesheets = [css("controls"), css("annotate")]

    def _handle_msg(self, data: dict) -> None:
        if isinstance(data, dict):
            self.sent = data
            self.param.trigger("arrived")


class AnnotateForm(Viewer):
    """Belongs to a view with `detail` (param) and `wave`; writes into the run of the row that is shown."""

    workspace: Workspace = param.ClassSelector(class_=Workspace)

    def __init__(self, workspace: Workspace, view: Any, **params):
        super().__init__(workspace=workspace, **params)
        picture = view.wave
        user = getattr(pn.state, "user", None)
        self.form = Form(head=picture.heads[0], range=picture.range.name, sizing_mode="stretch_width", margin=0,
                         annotator=user if isinstance(user, str) and user not in ("", "guest") else "")  # fmt: skip
        self.marks = picture.lanes[0].sources["moments"]
        self.view = view
        self.form.param.watch(lambda *events: self._save(self.form.sent), "arrived")
        self.form.param.watch(lambda *events: self.show(), "annotator")
        view.param.watch(lambda *events: self.show(), "detail")
        workspace.param.watch(lambda *events: self.show(), "version")
        self.show()

    def show(self) -> None:
        """What people say of the row that the view shows."""
        detail: Detail | None = self.view.detail
        if detail is None or not detail.row:
            self.form.param.update(subject={}, own={}, others=[], history=[], stamp=self.form.stamp + 1)
            self.marks.data = {name: [] for name in self.marks.data}
            return
        run = self.workspace.store.runs.get(detail.key[0])
        if run is None:
            return
        people, history = annotations.of_row(run.folder, *detail.key[1:])
        own = next((said for said in people if said.annotator == self.form.annotator), None)
        judges = labelling(benchmark_of(run.benchmark))
        subject = {
            "key": list(detail.key),
            "verdict": plain(f"{detail.row['verdict']}: {detail.row['reason']}", 600),
            "judges": [[one.folder, plain(one.spoke, 80), _values(one)] for one in detail.opinions],
            "labels": [*(label for judge in judges for label in judge.labels), *_OWN],
            "scale": next((list(judge.scale) for judge in judges if judge.score), []),
        }
        with pn.io.hold():
            self.form.param.update(
                subject=subject, own=_fields(own), stamp=self.form.stamp + 1,
                others=[[plain(said.annotator, 80), summary(said)] for said in people if said is not own],
                history=[line(each) for each in history[::-1][:_MOST_HISTORY]],
            )  # fmt: skip
            moments = [(t_s, text, said.annotator) for said in people for t_s, text in said.moments.values()]
            self.marks.data = {
                "x": [each[0] for each in moments],
                "text": [plain(f"{each[1] or 'moment'} ({each[2]}, {each[0]:.3f} s)", 200) for each in moments],
                "short": [plain(each[1] or each[2], 28) for each in moments],
            }

    def _save(self, data: dict) -> None:
        """Write one statement that the browser sent; what cannot be used is told and not saved."""
        space, form = self.workspace, self.form
        try:
            key = tuple(str(part) for part in data.get("key") or ())
            run = space.store.runs.get(key[0]) if len(key) in (3, 4) else None
            if run is None or space.store.position(key) is None:
                raise InputError("That case is no longer here; nothing was saved.")
            fields = {name: data[name] for name in ("annotator", "kind", "target", "value", "saw") if name in data}
            made = annotations.change(**dict(zip(KEY[1:], key[1:], strict=False)), t_s=data.get("t_s"), **fields)
            if made.kind == "moment" and not made.target and made.t_s is None:
                raise InputError("A moment needs a time.")
            annotations.append(run.folder, made)
        except InputError as error:
            form.param.update(bad=True, told="")
            form.told = plain(error, 300)
            return
        with pn.io.hold():
            form.param.update(bad=False)
            form.told = f"saved {datetime.now():%H:%M:%S}: {line(made)}"
            _seen(run)
            space.store.read_again()
            space.refresh()
            self.show()

    def __panel__(self):
        return self.form


def _seen(run: RunRows) -> None:
    """Take note that only the annotations changed, so that the store does not read the whole run again."""
    fresh = signature(run.folder)
    if [each for each in fresh if each[0] != annotations.NAME] == [
        each for each in run.signature if each[0] != annotations.NAME
    ]:
        run.signature = fresh


def _values(opinion: Opinion) -> str:
    """What a judge said of this row."""
    return plain(
        ", ".join(f"{name} {each}" for name, each in opinion.judgement.values.items() if each is not None), 300
    )


def _fields(said: Said | None) -> dict[str, Any]:
    if said is None:
        return {}
    moments = sorted([where, t_s, text] for where, (t_s, text) in said.moments.items())
    return {
        "verdict": said.verdict, "judges": said.judges, "label": said.label, "score": said.score, "note": said.note,
        "moments": sorted(moments, key=lambda each: each[1]),
    }  # fmt: skip


def summary(said: Said) -> str:
    """What one person says, in one line."""
    return plain("; ".join(filter(None, (*said.facts, said.note))), 1500)


def line(each: Change) -> str:
    """One line of the history."""
    what = {"verdict": "verdict", "judge": f"judge {each.target}", "moment": "moment"}.get(each.kind, each.kind)
    if each.kind == "moment":
        gone = each.target and each.t_s is None and not each.value
        said = "taken back" if gone else f"{'' if each.t_s is None else f'{each.t_s:.2f} s'} {each.value}".strip()
    else:
        said = annotations.IN_WORDS.get(each.value, each.value) if each.value else "taken back"
    return plain(f"{each.date.replace('T', ' ')} {each.annotator}: {what} {said}", 400)
