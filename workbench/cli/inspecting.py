"""`workbench inspect` and `workbench export`: runs in a browser, and cases as pages to hand on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from workbench.app import annotation_files
from workbench.app.export import export_bundle, export_case
from workbench.app.store import Store, key_of
from workbench.errors import InputError
from workbench.progress import meter
from workbench.runs import META, read_scores


def inspect(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders of runs.")],
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 5006,
    address: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for other machines.")] = "localhost",
    origin: Annotated[
        list[str], typer.Option("--allow-websocket-origin", help="Host by which a browser reaches it.")
    ] = [],  # noqa: B006
    basic_auth: Annotated[str | None, typer.Option(help="Password, or a JSON file of users, to log in with.")] = None,
    prefix: Annotated[str, typer.Option(help="First part of its address, behind a proxy.")] = "",
    show: Annotated[bool, typer.Option(help="Open a browser.")] = True,
) -> None:
    """Look at runs in a browser: every case by ear and eye, comparisons, thresholds, annotations."""
    from workbench.app.inspecting import serve

    options = {"websocket_origin": origin} if origin else {}
    serve(runs, port=port, address=address, basic_auth=basic_auth, prefix=prefix, show=show, **options)


def export(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    out: Annotated[Path, typer.Option(help="Folder to write into; for one page also a name that ends in .html.")],
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
    problem = read_scores(run).problem
    if problem:
        typer.echo(f"- {problem}", err=True)
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
    elif keys and out.suffix.lower() == ".html":
        raise InputError(f"{len(keys)} pages are to be written, one a row; give a folder as --out, not {out}.")
    elif keys:
        with meter("exporting", len(keys)) as progress:
            index = export_bundle(store, keys, out, title=f"{name}: {len(keys)} cases", told=progress.step)
        typer.echo(f"{len(keys)} cases in {index}")
