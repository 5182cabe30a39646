"""Set up the project in .venv and run one job. Needs nothing but Python 3.11 to 3.13.

    python3 bootstrap.py demo     set up, then build -> run -> score -> judge -> report, offline
    python3 bootstrap.py test     set up, then run the tests
    python3 bootstrap.py setup    set up only, with every extra

Exact versions come from constraints.txt. Set up once, it is only checked again when pyproject.toml
or constraints.txt change.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
EXTRAS = {"demo": "lab,dask", "test": "lab,dask,test,moshi", "setup": "lab,dask,test,moshi"}


def set_up(extras: str) -> None:
    """Create .venv and install the project in it, unless that was done from the same files before."""
    files = b"".join((ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt"))
    wanted = hashlib.sha256(files).hexdigest()
    stamp = VENV / "installed"
    lines = stamp.read_text().split("\n") if stamp.exists() else []
    done = set(lines[1].split(",")) if len(lines) > 1 and lines[0] == wanted else set()
    if PYTHON.exists() and set(extras.split(",")) <= done:
        return
    if not PYTHON.exists():
        print(f"creating {VENV}", flush=True)
        venv.EnvBuilder(with_pip=True).create(VENV)
    print("installing packages (a few minutes and about 2 GB the first time)", flush=True)
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    together = ",".join(sorted(done | set(extras.split(","))))
    run([*pip, "--constraint", "constraints.txt", "--editable", f".[{together}]"])
    if "moshi" in together:
        # Its own pins on torch and numpy are older than ours; the extra brings what it needs of them.
        run([*pip, "--no-deps", "--constraint", "constraints.txt", "moshi"])
    stamp.write_text(f"{wanted}\n{together}")


def run(command: list[str]) -> None:
    code = subprocess.run(command, cwd=ROOT).returncode
    if code:
        raise SystemExit(code)


def main() -> None:
    job = sys.argv[1] if len(sys.argv) > 1 else ""
    if job not in EXTRAS:
        raise SystemExit(__doc__)
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        found = ".".join(map(str, sys.version_info[:2]))
        raise SystemExit(f"This is Python {found}; the workbench needs 3.11, 3.12 or 3.13. Run it with one of those.")
    set_up(EXTRAS[job])
    if job == "demo":
        run([str(PYTHON), "-m", "workbench", "demo", *sys.argv[2:]])
    elif job == "test":
        # A file's tests stay in one process, which builds their data once; beyond four, building it again costs more.
        several = ["-n", str(min(4, os.cpu_count() or 1)), "--dist", "loadfile"]
        run([str(PYTHON), "-m", "pytest", *several, *sys.argv[2:]])


if __name__ == "__main__":
    main()
