"""`workbench export`: cases as pages to hand on, and what people said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from workbench.app import annotation_files
from workbench.app.export import export_bundle, export_case
from workbench.app.store import Store, key_of
from workbench.errors import InputError
from workbench.progress import meter
from workbench.runs import META


def export(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    out: Annotated[Path, typer.Option(help="Folder to write into; with one --case also a name that ends in .html.")],
    case: Annotated[list[str], typer.Option(help="Case id; may be given again.")] = [],  # noqa: B006
    failed: Annotated[bool, typer.Option("--failed", help="Every case that fails.")] = False,
    annotated: Annotated[
        bool, typer.Option("--annotations", help="What people said: CSV, TextGrid, Audacity.")
    ] = False,
) -> None:
    """Write cases as pages that play without a server: one as a single file, several with an index."""
    if not (run / META).exists():
        raise InputError(
            f"{run} holds no {META}, so it is not a run; give the folder that `workbench run --out` wrote."
        )
    store = Store([run])
    name, frame = next(iter(store.runs)), store.frame
    if not (case or failed or annotated):
        raise InputError("Say what to export: --case ID, --failed or --annotations.")
    if annotated:
        for path in annotation_files.write_run(store, name, out):
            typer.echo(str(path))
    unknown = [each for each in case if not (frame["case"] == each).any()]
    if unknown:
        raise InputError(f"{run} has no case {unknown[0]!r}; see {run / 'cases.jsonl'}.")
    chosen = frame[frame["case"].isin(case) | (failed & frame["verdict"].eq("fail"))]
    keys = [key_of(row) for _, row in chosen.iterrows()]
    if failed and not keys:
        typer.echo("No case fails.")
    elif len(keys) == 1 and not failed:
        typer.echo(f"page in {export_case(store, keys[0], out)}")
    elif keys:
        with meter("exporting", len(keys)) as progress:
            index = export_bundle(store, keys, out, title=f"{name}: {len(keys)} cases", told=progress.step)
        typer.echo(f"{len(keys)} cases in {index}")
