"""The commands from recordings to figures: score, decide, report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from workbench.cli.shared import Settings, complain, read_settings
from workbench.cli.shared import out as console
from workbench.errors import InputError


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
    """Find speech, measure, decide. `--set` changes thresholds; the report names them."""
    from workbench.datasets import describe
    from workbench.episodes import stereo_path
    from workbench.judges.summary import rejoin
    from workbench.runs import load_run
    from workbench.scoring import score_run, summary_line
    from workbench.text import several
    from workbench.vad import VadSettings

    try:
        vad = VadSettings(
            detector=detector, threshold=vad_threshold, min_speech_ms=min_speech_ms, min_silence_ms=min_silence_ms
        )
    except ValueError as error:
        told = describe(error).replace("field 'threshold'", "--vad-threshold")
        raise InputError(f"The detector settings cannot be used: {told}.") from None
    problems = []
    limits = read_settings(settings, numbers=True)
    for folder in runs:
        try:
            loaded = load_run(folder)
            loaded.benchmark.limits(limits)
            scored = score_run(loaded, vad, limits, workers, dask)
            rejoin(loaded)
        except InputError as error:
            problems.append(str(error))
            continue
        print(f"{folder}: {summary_line(scored.verdicts)}")
        waiting = scored.measurements.loc[scored.measurements["reason"] == "not_recorded", "case"].nunique()
        if waiting:
            goes_on = (
                "the command that made the run (`workbench run` or `workbench import`), with the same options, goes on"
            )
            complain([f"{folder}: {several(waiting, 'case')} not recorded yet; {goes_on}."])
        decided = set(scored.measurements.loc[scored.measurements["reason"].isna(), "case"])
        mute = sorted(case_id for case_id in decided if not stereo_path(loaded.episodes, case_id).exists())
        if mute:
            gone = f"the recordings of {several(len(mute), 'case')} ({mute[0]}, ...) are not there"
            complain([f"{folder}: {gone}; their verdicts rest on the speech found in them before."])
        problems += scored.problems
    if problems:
        complain(problems)
        raise typer.Exit(2)


def decide(
    benchmark: Annotated[str, typer.Argument(help="Which benchmark (see `workbench benchmarks`).")],
    file: Annotated[Path, typer.Argument(help="JSON list of cases with windows and spans; - for standard input.")],
    settings: Settings = [],  # noqa: B006
) -> None:
    """Verdicts for segments that you bring (own detector, own annotations); JSON on standard output."""
    from workbench import brought, contract
    from workbench.files import DuplicateKey, read_json, unique

    chosen = contract.get(benchmark)
    if str(file) == "-":
        try:
            items = json.loads(sys.stdin.read(), object_pairs_hook=unique)
        except DuplicateKey as error:
            raise InputError(f"Standard input: the key {error} stands twice in one object; keep one.") from None
        except json.JSONDecodeError as error:
            raise InputError(f"Standard input, line {error.lineno}: not valid JSON ({error.msg}).") from None
    else:
        items = read_json(file)
    limits = read_settings(settings, numbers=True)
    if not isinstance(items, list):
        raise InputError(f"{file}: a JSON list is needed, found {type(items).__name__}; wrap what you have in [ ].")
    verdicts, problems = brought.decide(chosen, items, limits)
    print(json.dumps(verdicts, ensure_ascii=False, indent=1))
    if problems:
        complain([f"{file}, {problem}" for problem in problems])
        raise typer.Exit(2)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Scored run folders.")],
    out: Annotated[Path, typer.Option(help="Folder for report.html and the tables.")],
) -> None:
    """Tables, intervals and one self-contained HTML page for one or several runs."""
    from workbench.report import write_report

    page = write_report([Path(folder) for folder in runs], out, console=console)
    print(f"report in {page}")
