"""The command line: parses, calls the library, prints. Exit codes: 0 done; 1 judged
metrics are invalid; 2 the input needs mending; 3 done, but agents or authors failed on some cases;
4 the disk is full or cannot be written (what was finished is kept); 130 interrupted (the same command goes on)."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from workbench.errors import DISK, InputError, ProblemsFound
from workbench.version import VERSION

app = typer.Typer(
    name="workbench",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help=(
        "Build spoken test conversations, run voice agents on them, score and judge what they did.\n\n"
        "A first round:  \n"
        "`workbench build ifeval --limit 96 --out datasets/small`  \n"
        "`workbench run datasets/small --agent oracle --out runs/oracle`  \n"
        "`workbench score runs/oracle`  \n"
        "`workbench report runs/oracle --out report`"
    ),
)
out = Console()
err = Console(stderr=True)

Settings = Annotated[list[str], typer.Option("--set", metavar="NAME=VALUE", help="A setting; may be given again.")]


def _settings(pairs: list[str], *, numbers: bool) -> dict:
    settings: dict = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--set {pair!r} is not NAME=VALUE.")
        try:
            settings[name] = json.loads(value)
        except ValueError:  # not JSON: plain text
            settings[name] = value
        if numbers:
            settings[name] = _number(name, settings[name])
    return settings


def _number(name: str, value: object) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"--set {name}: {str(value)[:40]!r} is not a number that can be used.") from None


def _complain(problems: list[str]) -> None:
    for problem in problems:
        err.print(f"- {problem}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def build(
    benchmark: Annotated[str, typer.Argument(help="Which benchmark, such as ifeval.")],
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
    from workbench.locks import writing

    options = contract.BuildOptions(out, not no_audio, limit, voices, scripts, workers, dask)
    chosen = contract.get(benchmark)
    with writing(out):
        header = chosen.build(options)
    print(f"{header.cases} cases of {header.benchmark} in {out} (fingerprint {header.fingerprint[:12]})")


@app.command()
def author(
    benchmark: Annotated[str, typer.Argument(help="Which benchmark, such as ifeval.")],
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
        _complain(outcome.problems)
        raise typer.Exit(3)


@app.command()
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
        _complain(problems)
    if problems:
        raise typer.Exit(2)


@app.command()
def run(
    dataset: Annotated[Path, typer.Argument(help="A built dataset.")],
    agent: Annotated[str, typer.Option(help="An agent (see `workbench agents`) or python:module:Class.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; an unfinished one is resumed.")],
    settings: Settings = [],  # noqa: B006  (typer reads the default)
    clock: Annotated[str | None, typer.Option(help="wall or virtual (default: by the agent's pacing).")] = None,
    policy: Annotated[str, typer.Option(help="as_played or as_delivered: what of cut audio stays.")] = "as_played",
    concurrency: Annotated[int | None, typer.Option(help="Cases at a time.")] = None,
    keep_errors: Annotated[bool, typer.Option(help="On resuming, leave failed cases as they are.")] = False,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler (virtual clock only).")] = None,
) -> None:
    """Run an agent on every case, both sides recorded on one clock.

    Each case lands whole or not at all; killed at any moment, the same command goes on.
    """
    from workbench import contract, datasets
    from workbench.agents.registry import factory
    from workbench.runners import batch

    loaded = datasets.load(dataset)
    _check_policy(policy)
    if concurrency is not None and concurrency < 1:
        raise InputError(f"--concurrency {concurrency} runs nothing; give at least 1.")
    if all(cue.audio is None for case in loaded.cases for cue in case.cues):
        raise InputError(f"{dataset} was built with --no-audio and cannot be run; build it again without that option.")
    chosen = contract.get(loaded.header.benchmark)
    unfit = datasets.check_manifest(loaded) + chosen.validate(loaded, False)
    if unfit:
        raise ProblemsFound(unfit)
    make = factory(agent, _settings(settings, numbers=False), chosen)
    plan = batch.Plan(loaded, make, out.absolute(), clock, policy, concurrency, keep_errors, dask)
    outcome = batch.run(plan)
    speed = f", {outcome.audio_s / outcome.wall_s:.0f} times real time" if outcome.recorded and outcome.wall_s else ""
    print(
        f"{outcome.recorded} cases recorded in {outcome.wall_s:.1f} s{speed}; {outcome.kept} kept from before; in {out}"
    )
    for reason, count in outcome.failed.most_common():
        err.print(f"- {count} cases failed: {reason}, such as: {outcome.words[reason]}", markup=False)
    for culprit, count in outcome.stalls.most_common(3):
        who = culprit or "the machine, busy with other work,"
        err.print(f"- {who} held up {count} recordings: what it made late there is not measured.", markup=False)
    problems = [*loaded.problems, *outcome.problems]
    if problems:
        _complain(problems)
        raise typer.Exit(2)
    if outcome.failed:
        raise typer.Exit(3)


@app.command("import")
def import_(
    dataset: Annotated[Path, typer.Argument(help="The dataset whose cases were recorded.")],
    recordings: Annotated[Path, typer.Option(help="Folder with {case}.wav (stereo), or {case}.user/.agent.wav.")],
    agent_name: Annotated[str, typer.Option(help="Who was recorded.")],
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    agent_version: Annotated[str, typer.Option(help="Which version of it.")] = "recorded",
    user_channel: Annotated[int, typer.Option(min=0, max=1, help="Channel of the user in stereo files.")] = 0,
    policy: Annotated[str, typer.Option(help="as_played or as_delivered: what the agent channel holds.")] = "as_played",
    accept: Annotated[
        list[str], typer.Option(help="A doubt that is meant: same_channels or user_bleed; may be given again.")
    ] = [],  # noqa: B006
    workers: Annotated[int | None, typer.Option(help="Processes (default: all cores).")] = None,
) -> None:
    """Turn recordings made elsewhere into a run, so that they can be scored, judged and inspected.

    Interrupted, or with recordings added or mended, the same command goes on.
    """
    from workbench import datasets
    from workbench.runners.replay import Source, import_recordings

    loaded = datasets.load(dataset)
    _check_policy(policy)
    source = Source(
        loaded, recordings, agent_name, agent_version, user_channel, 1 - user_channel, policy, tuple(accept)
    )
    done = import_recordings(source, out, workers)
    kept = f", {done.kept} kept from before" if done.kept else ""
    print(f"{done.cases} cases imported{kept}, {len(done.absent)} have no recording; in {out}")
    _complain([*done.notes, *done.unplaced, *done.doubtful, *done.problems, *loaded.problems])
    if done.doubtful or done.problems or loaded.problems:
        raise typer.Exit(2)


def _check_policy(policy: str) -> None:
    if policy not in ("as_played", "as_delivered"):
        raise InputError(f"There is no policy {policy!r}; policies are as_played, as_delivered.")


@app.command()
def score(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.")],
    settings: Settings = [],  # noqa: B006
    detector: Annotated[str, typer.Option(help="silero or energy.")] = "silero",
    vad_threshold: Annotated[float, typer.Option(help="Speech probability that opens a span.")] = 0.5,
    min_speech_ms: Annotated[int, typer.Option(help="Shortest span.")] = 90,
    min_silence_ms: Annotated[int, typer.Option(help="Shortest gap between spans.")] = 90,
    workers: Annotated[int | None, typer.Option(help="Threads (default: all cores).")] = None,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to find speech on.")] = None,
) -> None:
    """Find speech, measure, decide. `--set` changes thresholds, such as --set max_wait_s=2.5."""
    from workbench.datasets import describe
    from workbench.runs import load_run
    from workbench.scoring import score_run, summary_line
    from workbench.vad import VadSettings

    try:
        vad = VadSettings(
            detector=detector, threshold=vad_threshold, min_speech_ms=min_speech_ms, min_silence_ms=min_silence_ms
        )
    except ValueError as error:
        raise InputError(f"The detector settings cannot be used: {describe(error)}.") from None
    problems = []
    limits = _settings(settings, numbers=True)
    for folder in runs:
        try:
            loaded = load_run(folder)
            loaded.benchmark.limits(limits)
            scored = score_run(loaded, vad, limits, workers, dask)
        except InputError as error:
            problems.append(str(error))
            continue
        print(f"{folder}: {summary_line(scored.verdicts)}")
        waiting = int(scored.measurements["reason"].eq("not_recorded").sum())
        if waiting:
            err.print(
                f"- {folder}: {waiting} cases are not recorded yet; `workbench run` with the same options goes on."
            )
        problems += scored.problems
    if problems:
        _complain(problems)
        raise typer.Exit(2)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Scored run folders.")],
    out: Annotated[Path, typer.Option(help="Folder for report.html and the tables.")],
) -> None:
    """Tables, intervals and one self-contained HTML page for one or several runs."""
    from workbench.report import write_report

    page = write_report([Path(folder) for folder in runs], out, console=globals()["out"])
    print(f"report in {page}")


@app.command()
def decide(
    benchmark: Annotated[str, typer.Argument(help="Which benchmark, such as ifeval.")],
    file: Annotated[Path, typer.Argument(help="JSON list of cases with windows and spans; - for standard input.")],
    settings: Settings = [],  # noqa: B006
) -> None:
    """Verdicts for segments that you bring (own detector, own annotations); JSON on standard output."""
    from workbench import brought, contract
    from workbench.files import read_json

    chosen = contract.get(benchmark)
    if str(file) == "-":
        try:
            items = json.loads(sys.stdin.read())
        except json.JSONDecodeError as error:
            raise InputError(f"Standard input, line {error.lineno}: not valid JSON ({error.msg}).") from None
    else:
        items = read_json(file)
    verdicts, problems = brought.decide(chosen, items, _settings(settings, numbers=True))
    print(json.dumps(verdicts, ensure_ascii=False, indent=1))
    if problems:
        _complain([f"{file}, {problem}" for problem in problems])
        raise typer.Exit(2)


@app.command()
def agents() -> None:
    """List every agent, the benchmarks' own reference agents included."""
    from workbench import contract
    from workbench.agents.registry import AGENTS

    table = Table("agent", "what it is", "clock", box=None)
    own = {name: entry for each in contract.names() for name, entry in contract.get(each).agents.items()}
    for name, entry in (AGENTS | own).items():
        table.add_row(name, entry.about, "virtual or wall" if entry.pacing == "input" else "wall")
    table.add_row("python:module:Class", "your own class (docs/agents.md)", "by its traits")
    out.print(table)


@app.command()
def doctor() -> None:
    """Check this machine: packages, voices, detector, cache, data. Exit code 2 when something is missing."""
    from workbench.doctor import checks

    failed = 0
    for name, ok, detail in checks():
        out.print(f"{'[green]ok[/]' if ok else '[red]--[/]':12} {name}: ", end="")
        out.print(detail, markup=False, highlight=False)
        failed += not ok
    if failed:
        raise typer.Exit(2)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Where the dataset, runs and report go.")] = Path("demo"),
    benchmark: Annotated[str | None, typer.Option(help="Which benchmark (default: the first).")] = None,
) -> None:
    """Build -> run -> score -> judge -> report on real scripts, offline, in minutes."""
    from workbench.demo import run_demo

    run_demo(folder, benchmark)


def _version(wanted: bool) -> None:
    if wanted:
        print(VERSION)
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


# Commands of modules that take seconds to import: loaded only when called, or for the list of help.
_ELSEWHERE = {
    "export": "workbench.cli.inspecting:export",
    "inspect": "workbench.cli.inspecting:inspect",
    "judge": "workbench.cli.judging:judge",
    "judge-check": "workbench.cli.judging:judge_check",
    "serve": "workbench.cli.serve:serve",
}


def _register_elsewhere(arguments: list[str]) -> None:
    called = next((argument for argument in arguments if not argument.startswith("-")), None)
    if called in (None, "voices"):
        app.add_typer(import_module("workbench.construct.voices_command").app, name="voices")
    for name, target in _ELSEWHERE.items():
        if called in (None, name):
            module, _, function = target.partition(":")
            app.command(name)(getattr(import_module(module), function))


def main() -> None:
    _register_elsewhere(sys.argv[1:])
    try:
        app()
    except InputError as error:
        problems = error.problems if isinstance(error, ProblemsFound) else [str(error)]
        _complain(problems)
        raise SystemExit(2) from None
    except SystemExit as left:
        # typer turns Ctrl-C into an exit of its own, without a word.
        if isinstance(getattr(left.__context__, "__cause__", None), KeyboardInterrupt):
            err.print("Interrupted. What was finished is kept; the same command goes on from there.")
        raise
    except KeyboardInterrupt:
        err.print("Interrupted. What was finished is kept; the same command goes on from there.")
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise SystemExit(0) from None
    except OSError as error:
        if error.errno in DISK:
            _complain([f"{error.filename}: {DISK[error.errno]}. What was finished is kept; the same command goes on."])
            raise SystemExit(4) from None
        what = error.filename or type(error).__name__
        _complain([f"{what}: {error.strerror or error}; give another path, or mend this one."])
        raise SystemExit(2) from None
