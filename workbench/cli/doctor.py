"""`workbench doctor`: what this machine has. Each check is quick and says what to do."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import typer

from workbench.cli.shared import out
from workbench.version import VERSION

PACKAGES = ("numpy", "pandas", "torch", "silero-vad", "onnxruntime", "soundfile", "soxr", "hibari-tts", "pocketsphinx",
            "openai", "bokeh", "holoviews", "panel")  # fmt: skip
EXTRAS = {"jupyterlab": "lab", "distributed": "dask", "sphn": "moshi"}


def doctor() -> None:
    """Check this machine: packages, voices, detector, cache, data. Exit code 2 when something is missing."""
    failed = 0
    for name, ok, detail in checks():
        out.print(f"{'[green]ok[/]' if ok else '[red]--[/]':12} {name}: ", end="")
        out.print(detail, markup=False, highlight=False)
        failed += not ok
    if failed:
        raise typer.Exit(2)


def checks() -> Iterator[tuple[str, bool, str]]:
    """Yield (name, is it well, detail or remedy)."""
    python = ".".join(map(str, sys.version_info[:3]))
    yield "python", (3, 11) <= sys.version_info[:2] <= (3, 13), f"{python} (3.11 to 3.13 are supported)"
    yield "workbench", True, VERSION
    for name in PACKAGES:
        found = _version(name)
        yield name, found is not None, found or "missing: install the project again (see README)"
    for name, extra in EXTRAS.items():
        yield name, True, _version(name) or f"not installed; optional, comes with the extra [{extra}]"
    for name, check in _WORKS:
        try:
            yield name, True, check()
        except Exception as error:
            yield name, False, f"{type(error).__name__}: {error}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _voices() -> str:
    from workbench.construct.speech import SpeechCache

    with tempfile.TemporaryDirectory() as folder:
        clip = SpeechCache(folder).render("One, two, three.", "hibari:mid")
    return f"hibari speaks ({clip.duration_s:.2f} s)"


def _detector() -> str:
    from workbench.construct.speech import SpeechCache
    from workbench.vad import detect

    with tempfile.TemporaryDirectory() as folder:
        clip = SpeechCache(folder).render("One, two, three.", "hibari:mid")
    silence = np.zeros(12_000, np.float32)
    channel = np.concatenate([silence, clip.samples, silence])
    spans = dict(detect([("check", channel, clip.rate_hz)]))["check"]
    if len(spans) == 0:
        raise RuntimeError("Silero hears nothing in a clear sentence; install silero-vad again")
    return f"Silero hears speech from {spans[0, 0]:.2f} s to {spans[-1, 1]:.2f} s (put there from 0.50 s)"


def _cache() -> str:
    from workbench.files import cache_root

    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=root):
        pass
    free_gb = shutil.disk_usage(root).free / 1e9
    return f"{root} is writable, {free_gb:.0f} GB free (a full run takes about 2.5 GB beside its dataset's 0.2 GB)"


def _data() -> str:
    from workbench import contract

    problems = [problem for name in contract.names() for problem in contract.get(name).validate_authored()]
    if problems:
        raise RuntimeError(f"{len(problems)} problems, the first: {problems[0]}")
    return f"authored data of {', '.join(contract.names())} is whole"


def _browser() -> str:
    found = next((path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))), None)
    return Path(found).name if found else "none found; only the browser tests need one"


_WORKS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("voices", _voices),
    ("detector", _detector),
    ("cache", _cache),
    ("data", _data),
    ("browser", _browser),
)
