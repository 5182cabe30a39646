"""What the commands share: the two consoles, `--set`, and how problems are told."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from workbench.errors import InputError
from workbench.progress import Screen

out = Screen()
err = Screen(stderr=True)

Settings = Annotated[list[str], typer.Option("--set", metavar="NAME=VALUE", help="A setting; may be given again.")]


def read_settings(pairs: list[str], *, numbers: bool) -> dict:
    """The pairs of `--set` as a dict; values are JSON where they can be, text otherwise.

    Raises
    ------
    InputError : not NAME=VALUE, or no number where `numbers` are wanted.
    """
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


def complain(problems: list[str]) -> None:
    """A line a problem on standard error; nothing in it is read as markup."""
    for problem in problems:
        err.print(f"- {problem}", markup=False, highlight=False, soft_wrap=True)
