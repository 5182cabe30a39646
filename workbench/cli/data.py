"""The commands that make and check data: build, author, validate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from workbench.cli.shared import complain
from workbench.errors import InputError

Benchmark = Annotated[str, typer.Argument(help="Which benchmark (see `workbench benchmarks`).")]


def build(
    benchmark: Benchmark,
    out: Annotated[Path, typer.Option(help="Folder of the dataset; built again, only what changed is made.")],
    no_audio: Annotated[bool, typer.Option("--no-audio", help="Manifest only, in seconds.")] = False,
    limit: Annotated[int | None, typer.Option(help="At most so many cases, every cell of the grid first.")] = None,
    voices: Annotated[
        str | None,
        typer.Option(
            help="Speech engine: hibari, kokoro, openai or command, with ?options (default: kokoro for a full build "
            "where it is installed, else hibari)."
        ),
    ] = None,
    scripts: Annotated[Path | None, typer.Option(help="Folder of scripts in place of the shipped ones.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes (default: all cores).")] = None,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to build on.")] = None,
) -> None:
    """Build a dataset: scripts -> speech -> alignment -> audio -> manifest.

    Interrupted, the same command goes on; unchanged, it does nothing.
    """
    from workbench import contract
    from workbench.files import writing

    options = contract.BuildOptions(out, not no_audio, limit, voices, scripts, workers, dask)
    chosen = contract.get(benchmark)
    with writing(out):
        header = chosen.build(options)
    print(f"{header.cases} cases of {header.benchmark} in {out} (fingerprint {header.fingerprint[:12]})")


def author(
    benchmark: Benchmark,
    out: Annotated[Path, typer.Option(help="Folder for the new scripts; give it to `build --scripts`.")],
    model: Annotated[str, typer.Option(help="Model at an OpenAI-compatible chat endpoint; shipped copies ours.")],
    base_url: Annotated[
        str | None, typer.Option(help="The endpoint (default: OpenAI's, with the key in OPENAI_API_KEY).")
    ] = None,
    key_env: Annotated[str | None, typer.Option(help="Environment variable that holds another endpoint's key.")] = None,
    concurrency: Annotated[int, typer.Option(help="Requests at a time.")] = 4,
    limit: Annotated[int | None, typer.Option(help="At most so many conversations.")] = None,
    temperature: Annotated[float, typer.Option(help="Sampling temperature.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Seed of variations, where the author takes one.")] = None,
) -> None:
    """Have a language model write a new set of scripts, each checked against its probe.

    Interrupted, the same command goes on where it was.
    """
    from inspect import signature

    from workbench import contract

    author_scripts = contract.get(benchmark).author
    if author_scripts is None:
        raise InputError(f"No new scripts can be written for {benchmark!r}; it has no author.")
    if seed is not None and "seed" not in signature(author_scripts).parameters:
        raise InputError(f"The author of {benchmark!r} takes no seed; leave --seed out.")
    outcome = author_scripts(
        out,
        model=model,
        base_url=base_url,
        key_env=key_env,
        concurrency=concurrency,
        limit=limit,
        temperature=temperature,
        **({} if seed is None else {"seed": seed}),
    )
    print(f"{outcome.written} written, {outcome.kept} kept from before, {len(outcome.problems)} refused, in {out}")
    if outcome.problems:
        complain(outcome.problems)
        raise typer.Exit(3)


def validate(
    dataset: Annotated[Path | None, typer.Argument(help="A dataset folder; without one, the shipped scripts.")] = None,
    benchmark: Annotated[str | None, typer.Option(help="Whose shipped scripts to check (default: all).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print counts and problems as JSON.")] = False,
    full: Annotated[bool | None, typer.Option("--full/--slice", help="Demand the full grid's exact counts.")] = None,
    scripts: Annotated[Path | None, typer.Option(help="The folder of scripts that the dataset was built from.")] = None,
    listen: Annotated[bool, typer.Option("--audio", help="Also align all speech with its text (slow).")] = False,
) -> None:
    """Check leakage gates, structure, counts and audio. Exit code 2 when anything is violated.

    A dataset is expanded again from the authored data and compared case by case, field by field; what
    could not be checked that way is told.

    The exact counts are demanded of a dataset with as many cases as the full grid or nearly so
    (more than nine in ten); --full or --slice says so outright.
    """
    from workbench import contract, datasets

    if dataset is None:
        whose = contract.names() if benchmark is None else (benchmark,)
        problems = [problem for name in whose for problem in contract.get(name).validate_authored()]
        report: dict = {"benchmarks": ", ".join(whose), "problems": problems}
    else:
        loaded = datasets.load(dataset)
        chosen = contract.get(loaded.header.benchmark)
        expected = loaded.header.cases >= 0.9 * chosen.cases if full is None else full
        problems = [*loaded.problems]
        if not problems:
            problems += datasets.check_manifest(loaded) + datasets.twins(loaded.cases)
        problems += chosen.validate_authored() + chosen.validate(loaded, expected) + datasets.check_audio(loaded)
        recomputed = chosen.recompute(loaded, scripts, listen) if chosen.recompute else None
        problems += recomputed.problems if recomputed else []
        report = {
            "cases": len(loaded.cases),
            **chosen.counts(loaded.cases),
            "audio_streams": datasets.streams(loaded.cases),
            "not_checked": recomputed.unchecked if recomputed else ["the dataset was not computed again"],
            "problems": problems,
        }
    if as_json:
        print(json.dumps(report, ensure_ascii=False))
    else:
        for name, value in report.items():
            if name != "problems":
                print(f"{name}: {value}")
        print(f"problems: {len(problems)}" if problems else "no problems")
        complain(problems)
    if problems:
        raise typer.Exit(2)


def benchmarks() -> None:
    """List every benchmark that is installed."""
    from rich.table import Table

    from workbench import contract
    from workbench.cli.shared import out

    table = Table("benchmark", "what it is", "cases", box=None)
    for name in contract.names():
        one = contract.get(name)
        table.add_row(name, f"{one.title}: {one.about}", str(one.cases))
    out.print(table)
