"""The command line: parses, calls the library, prints.

Exit codes: 0 done; 1 judged metrics are invalid; 2 the input needs mending; 3 done, but agents or authors
failed on some cases; 4 the disk is full or read-only; 130 interrupted (the same command goes on).

A command's module is imported when it is called. The list of help takes the first line of each docstring from
the source, so that it does not wait for what the commands need.
"""

from __future__ import annotations

import ast
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

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
        "`workbench build BENCHMARK --limit 96 --out datasets/small`  \n"
        "`workbench run datasets/small --agent oracle --out runs/oracle`  \n"
        "`workbench score runs/oracle`  \n"
        "`workbench report runs/oracle --out report`"
    ),
)

COMMANDS = {
    "data": ("benchmarks", "build", "author", "validate"),
    "voices": ("voices",),
    "running": ("agents", "run", "import", "serve"),
    "scoring": ("score", "decide", "report"),
    "doctor": ("doctor",),
    "demo": ("demo",),
    "judging": ("judge", "judge-check"),
    "inspecting": ("inspect", "export"),
}
"""Module of this package -> its commands, in the order of the list of help."""


def _register(arguments: list[str]) -> None:
    """Add the command that is called; for the list of help and for completion, a stand-in or all of them."""
    called = next((argument for argument in arguments if not argument.startswith("-")), None)
    completing = "_WORKBENCH_COMPLETE" in os.environ
    for module, names in COMMANDS.items():
        lines = {} if completing or called in names else _first_lines(module)
        for name in names:
            if name == "voices" and (completing or called == name):
                app.add_typer(import_module(f"{__name__}.{module}").app, name=name)
            elif completing or called == name:
                app.command(name)(getattr(import_module(f"{__name__}.{module}"), _function(name)))
            elif called not in names:
                app.command(name, help=lines.get(_function(name)))(lambda: None)


def _function(name: str) -> str:
    return "import_" if name == "import" else name.replace("-", "_")


def _first_lines(module: str) -> dict[str, str]:
    """Function -> first line of its docstring, read from the source, and the module's own under its name."""
    tree = ast.parse((Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8"))
    found = {node.name: ast.get_docstring(node) for node in tree.body if isinstance(node, ast.FunctionDef)}
    found.setdefault(module, ast.get_docstring(tree))
    return {name: text.split("\n\n")[0] for name, text in found.items() if text}


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


def main() -> None:
    """Run the command line; what is wrong is told in sentences."""
    from workbench.cli.shared import complain, err

    _register(sys.argv[1:])
    try:
        app()
    except InputError as error:
        problems = error.problems if isinstance(error, ProblemsFound) else [str(error)]
        complain(problems)
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
            complain([f"{error.filename}: {DISK[error.errno]}. What was finished is kept; the same command goes on."])
            raise SystemExit(4) from None
        what = error.filename or type(error).__name__
        no_folder = isinstance(error, FileExistsError | NotADirectoryError)
        why = "a file stands where a folder is needed" if no_folder else error.strerror or error
        complain([f"{what}: {why}; give another path, or mend this one."])
        raise SystemExit(2) from None
