"""A real server and a real browser for end-to-end tests of the inspector."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --autoplay-policy=no-user-gesture-required"
).split()


def chromium() -> str | None:
    """The installed Chromium (or Chrome), or None."""
    named = os.environ.get("WORKBENCH_CHROMIUM")
    found = [named] if named else map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    return next((path for path in found if path), None)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


PLUGIN = ("--plugins", "workbench.app.files")


@contextlib.contextmanager
def serve(folder: Path, *options: str, how: str = "plugin") -> Iterator[str]:
    """The inspector on a folder of runs; gives the address of the page.

    how : 'plugin' and 'plain', `panel serve` with and without `PLUGIN`; 'command', `workbench inspect`.
    """
    port = free_port()
    panel = [sys.executable, "-m", "panel", "serve", str(ROOT / "apps" / "inspector.py"), "--port", str(port)]
    command = {
        "plugin": [*panel, *PLUGIN, *options, "--args", str(folder)],
        "plain": [*panel, *options, "--args", str(folder)],
        "command": [
            sys.executable,
            "-m",
            "workbench",
            "inspect",
            str(folder),
            "--port",
            str(port),
            "--no-show",
            *options,
        ],
    }[how]
    with open(os.devnull, "w") as nowhere:
        server = subprocess.Popen(command, cwd=ROOT, stdout=nowhere, stderr=subprocess.STDOUT)
        try:
            address = f"http://localhost:{port}/inspector"
            _wait(address, server)
            yield address
        finally:
            server.terminate()
            server.wait(60)


def _wait(address: str, server: subprocess.Popen, patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"panel serve ended with {server.returncode} before it answered.")
        try:
            urllib.request.urlopen(address, timeout=30).read()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"{address} did not answer within {patience_s:.0f} s.")
