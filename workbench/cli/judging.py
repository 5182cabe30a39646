"""The commands `judge` and `judge-check`: read options, call the library, print."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.table import Table
from rich.text import Text

from workbench.chat.client import ChatSettings
from workbench.cli.shared import out
from workbench.errors import InputError
from workbench.files import write_csv
from workbench.judges.agreement import agree, agreement, disagreements, pair_up, read_labels
from workbench.judges.ask import OFFLINE, Backend, FarBackend, ModelJudge, OfflineJudge
from workbench.judges.base import Judge, judge_of
from workbench.judges.batch import Tally, describe_judge, judge_run
from workbench.judges.check import check_judge
from workbench.judges.summary import Summary, case_rows, find_folder, rejoin, short, summarise, write_tables
from workbench.progress import Meter, Screen, meter
from workbench.runs import Run, load_run

_EXTRA_HINT = "give one such as '{\"top_p\": 1}'."


def model_options(
    model: Annotated[
        str, typer.Option(help=f"Model of the judge, or '{OFFLINE}' for the lexical baseline (no model).")
    ],
    base_url: Annotated[
        str | None, typer.Option(help="OpenAI-compatible server, such as http://localhost:11434/v1.")
    ] = None,
    key_env: Annotated[str | None, typer.Option(help="Environment variable that holds the key of that server.")] = None,
    temperature: Annotated[str, typer.Option(help="Sampling temperature, or 'none' to send none.")] = "0",
    sampling_seed: Annotated[int | None, typer.Option("--seed", help="Seed sent to the server.")] = None,
    max_tokens: Annotated[int, typer.Option(help="Most tokens of an answer, reasoning included.")] = 1200,
    extra: Annotated[str, typer.Option(help="More request fields as a JSON object (recorded: no secrets).")] = "{}",
    schema: Annotated[bool, typer.Option("--schema/--no-schema", help="Ask the server for structured output.")] = True,
    concurrency: Annotated[int, typer.Option(help="Requests at once.")] = 8,
    rpm: Annotated[float | None, typer.Option("--rpm", help="Most requests a minute.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = 120.0,
    tries: Annotated[int, typer.Option(help="Tries when the server is busy or fails.")] = 6,
    answer_tries: Annotated[int, typer.Option(help="Tries when an answer can't be read.")] = 3,
    price_in: Annotated[float | None, typer.Option(help="Price of a million prompt tokens.")] = None,
    price_out: Annotated[float | None, typer.Option(help="Price of a million answer tokens.")] = None,
) -> tuple[Backend, Tally]:
    """Who judges and what it costs, from the options of both commands.

    Raises
    ------
    InputError : an option that cannot be meant.
    """
    try:
        warmth = None if temperature.lower() == "none" else float(temperature)
    except ValueError:
        raise InputError(f"--temperature {temperature!r} is neither a number nor 'none'.") from None
    settings = ChatSettings(
        model=model, base_url=base_url, key_env=key_env, temperature=warmth, seed=sampling_seed,
        max_tokens=max_tokens, extra=_extra(extra), schema=schema, concurrency=concurrency, per_minute=rpm,
        timeout_s=timeout, tries=tries, answer_tries=answer_tries,
    )  # fmt: skip
    # The offline judge if and only if it is asked for by its name, else a model.
    backend = OfflineJudge() if model == OFFLINE else ModelJudge(settings)
    return backend, Tally(price_in=price_in, price_out=price_out)


def _with_model(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes `backend` and `tally` as one that takes the options of `model_options` in their place."""
    shared = inspect.signature(model_options, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True).parameters
    first, *rest = (parameter for name, parameter in own.items() if name not in ("backend", "tally"))

    @functools.wraps(command)
    def called(**given: Any) -> None:
        backend, tally = model_options(**{name: given.pop(name) for name in shared})
        command(backend=backend, tally=tally, **given)

    parameters = [first, *shared.values(), *rest]
    called.__signature__ = inspect.Signature(parameters)
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


RunFolder = Annotated[Path, typer.Argument(help="The run folder.")]
JudgeName = Annotated[str | None, typer.Option("--judge", help="Which judge; the benchmark's own by default.")]


@_with_model
def judge(
    run: RunFolder,
    backend: Backend,
    tally: Tally,
    judge_name: JudgeName = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many cases.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder of judgements shared between runs.")] = None,
    keep_errors: Annotated[bool, typer.Option(help="Do not ask again where the judge erred before.")] = False,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler whose workers ask.")] = None,
) -> None:
    """Judge the content of every recorded case; whatever is judged already is not asked again.

    Exit code 0 when the judged metrics are valid, 1 when more than 5 % of the judgements are errors.
    """
    opened = load_run(run)
    which = judge_of(opened.benchmark, judge_name)
    if dask:
        backend = FarBackend(backend, dask)
    with meter("judging") as progress:
        work = judge_run(
            opened,
            which,
            backend,
            limit=limit,
            shared=cache,
            keep_errors=keep_errors,
            tally=tally,
            on_progress=_showing(progress),
        )
        result = _run(work, tally)
    summary = summarise(opened, result.folder)
    write_tables(result.folder, summary)
    rejoin(opened)
    typer.echo(f"{result.requests} requests, {tally.judged} judged, {tally.cached} known already; {tally.spent()}")
    print_summary(summary)
    typer.echo(f"Judgements: {result.folder}")
    if not summary.valid:
        raise typer.Exit(1)


@_with_model
def judge_check(
    run: RunFolder,
    backend: Backend,
    tally: Tally,
    judge_name: JudgeName = None,
    cases: Annotated[int, typer.Option(min=0, help="Cases to probe; 0 leaves the probes out.")] = 20,
    repeats: Annotated[int, typer.Option(min=1, help="Times each case is asked unchanged.")] = 3,
    injections: Annotated[int, typer.Option(min=0, help="Red-team attacks tried on each case.")] = 2,
    sample_seed: Annotated[int, typer.Option(help="Which cases and attacks are drawn.")] = 0,
    against: Annotated[str | None, typer.Option(help="Compare with this judge of the run (its folder's name).")] = None,
    human: Annotated[Path | None, typer.Option(help="CSV of human labels: case, label, item, annotator.")] = None,
) -> None:
    """Check a judge: repeatability, bias, controls, another judge, people."""
    opened = load_run(run)
    which = judge_of(opened.benchmark, judge_name)
    key, record = describe_judge(which, backend)
    typer.echo(f"Judge: {record.spoke} ({key})")
    people = read_labels(human, which, opened.cases) if human else None
    other = find_folder(opened, against) if against else None
    if other is not None and other.name == key:
        raise InputError(f"--against {against} is the judge that is checked; name another one of the run.")
    if cases:
        with meter("judging") as progress:
            work = check_judge(
                opened, which, backend, cases=cases, repeats=repeats, injections=injections, seed=sample_seed,
                tally=tally, on_progress=_showing(progress),
            )  # fmt: skip
            check = _run(work, tally)
        print_table("Probes", check.findings)
        typer.echo(f"{tally.judged} asked, {tally.cached} known already; {tally.spent()}")
        typer.echo(f"Every probe: {check.folder / 'probes.csv'}")
    if other is not None or people is not None:
        own = judged_rows(opened, find_folder(opened, key), which)
        folder = opened.judgements / key / "check"
        if other is not None:
            pairs = pair_up(own, judged_rows(opened, other, which))
            _report(f"Against {other.name}", agree(f"{key} and {other.name}", pairs, which), folder / "judges.csv")
            apart = disagreements(pairs)
            write_csv(folder / "disagreements.csv", apart)
            typer.echo(f"{len(apart)} of {len(pairs)} cases disagree: {folder / 'disagreements.csv'}")
        if people is not None:
            _report("Against people", agreement(own, people, which), folder / "people.csv")


def judged_rows(run: Run, folder: Path, which: Judge) -> pd.DataFrame:
    """Columns case, item, conversation, score, label, rationale of what was judged well."""
    rows = case_rows(run, folder, which)
    rows = rows[rows.status == "ok"]
    names = {which.score: "score", which.label: "label"}
    rows = rows.rename(columns={old: new for old, new in names.items() if old})
    if rows.empty:
        raise InputError(f"{folder} holds no good judgement; run `workbench judge` with the same options first.")
    return rows.reindex(columns=["case", "item", "conversation", "score", "label", "rationale"])


def print_summary(summary: Summary) -> None:
    """Which judge spoke, whether its figures are valid, and the tables over all roles."""
    typer.echo(f"Judge: {summary.record.spoke}; prompt {summary.record.prompt_sha256[:12]}")
    for problem in summary.problems:
        out.print(problem, markup=False, highlight=False, soft_wrap=True)
    title = "" if summary.valid else " (INVALID)"
    for name, frame in summary.tables.items():
        heading = summary.judge.titles.get(name, name.replace("_", " ").capitalize())
        print_table(f"{heading}{title}", short(summary.judge, frame))


def print_table(title: str, frame: pd.DataFrame) -> None:
    """A data frame as a plain table; what models wrote is never read as markup."""
    if frame.empty:
        typer.echo(f"{title}: no cases")
        return
    table = Table(title=title)
    for name in frame.columns:
        table.add_column(str(name))
    for row in frame.itertuples(index=False):
        table.add_row(*[Text(_cell(value)) for value in row])
    Screen(width=160).print(table)


def _cell(value: Any) -> str:
    if value is None or value is pd.NA or value != value:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _report(title: str, table: pd.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_csv(path, table)
    print_table(title, table)


def _extra(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"--extra is not valid JSON ({error.msg}); {_EXTRA_HINT}") from None
    if not isinstance(value, dict):
        raise InputError(f"--extra is not a JSON object; {_EXTRA_HINT}")
    return value


def _showing(progress: Meter) -> Callable[[Tally], None]:
    return lambda tally: progress.at(tally.done, tally.total, tally.spent())


def _run(work: Coroutine[Any, Any, Any], tally: Tally) -> Any:
    """Run to the end; on Ctrl-C say what is kept and leave with the shell's code for it."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        typer.echo(f"Stopped: {tally.done} of {tally.total} are done and kept; the same command goes on.", err=True)
        raise typer.Exit(130) from None
