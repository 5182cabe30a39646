"""The inspector under load: a slider that decides 6 systems x 1,038 cases again, and 20 sessions at once.

    python benchmarks/inspector_load.py [--sessions 20] [--rounds 6] [--repeats 9] [--only slider|sessions]

Six runs of the full grid are made with measurements drawn at random (no audio). The slider's figure runs from
the input event in Chromium to the second animation frame after the answer has been applied, the median over
the repeats. Sessions are pulled over websockets, each with another view; memory is the server's resident set
after each round, once its sessions have been discarded. Growth is the median of the last third of the rounds
over that of the first third after two rounds of warming up.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

from workbench import contract, datasets
from workbench.deciding import Decider
from workbench.files import write_json
from workbench.runs import MEASUREMENTS, SCORE, VERDICTS, RunMeta, save_meta
from workbench.vad import VadSettings
from workbench.version import SCORER, VERSION

ARGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
SLIDER_GOAL_S, GROWTH_GOAL = 0.3, 1.03
VIEWS = ("cases", "case", "compare", "sweep", "overview", "share")
FIXED = {
    "w0_s": 10.0, "w1_s": 14.0, "speaking_at_w0": True, "starting": 1, "user_goes_on": True, "overlap_s": 0.2,
    "tokens_matched": 8, "tokens_target": 8, "user_spans": [[1.0, 4.0]],
}  # fmt: skip
_FAULTS = ("Traceback", "ERROR", "Error ")


def make_runs(root: Path, systems: int = 6) -> None:
    """Runs of the full grid; the later a system stands, the slower and the more affected by the level."""
    benchmark, vad = contract.default(), VadSettings()
    benchmark.build(contract.BuildOptions(root.parent / "dataset", audio=False))
    loaded = datasets.load(root.parent / "dataset")
    for system in range(systems):
        rng = np.random.default_rng(system)
        rows = []
        for case in loaded.cases:
            [row] = benchmark.unmeasured(case, None)
            late = 0.25 + 0.2 * system + (0.15 * system if case.tags["level"] == "L2" else 0.0)
            onset = float(rng.gamma(3.0, late))
            drawn = {"genuine_s": onset, "longest_s": onset, "off_s": float(rng.gamma(2.0, late))}
            drawn |= {"touching": int(rng.integers(0, 3)), "coverage": float(rng.uniform(0.8, 1.0))}
            rows.append(row | FIXED | drawn | {"spans": [[10.0 + onset, 12.0]]})
        measurements = pd.DataFrame(rows)
        folder = root / f"system{system}"
        (folder / "scores").mkdir(parents=True)
        (folder / "episodes").mkdir()
        shutil.copy(root.parent / "dataset" / "cases.jsonl", folder / "cases.jsonl")
        measurements.to_parquet(folder / "scores" / MEASUREMENTS, index=False)
        Decider(benchmark, measurements).verdicts().to_parquet(folder / "scores" / VERDICTS, index=False)
        write_json(folder / "scores" / SCORE, {
            "workbench": VERSION, "scorer": SCORER, "vad": vad.model_dump() | {"key": vad.key()},
            "thresholds": benchmark.limits(), "cases": len(rows), "verdicts": {}, "problems": [],
        })  # fmt: skip
        meta = {"benchmark": benchmark.name, "dataset": {}, "clock": "virtual", "policy": "as_played"}
        agent = {"name": folder.name}
        save_meta(folder, RunMeta(**meta, agent=agent, workbench=VERSION, started="2026-01-01T00:00:00+00:00"))


class Server:
    """`panel serve` on a folder; discards sessions half a second after they closed."""

    def __init__(self, folder: Path):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        self.log = folder.parent / "server.log"
        app = Path(__file__).parents[1] / "apps" / "inspector.py"
        briefly = [
            "--plugins",
            "workbench.app.files",
            "--unused-session-lifetime",
            "500",
            "--check-unused-sessions",
            "500",
        ]
        command = [
            sys.executable,
            "-m",
            "panel",
            "serve",
            str(app),
            "--port",
            str(port),
            *briefly,
            "--args",
            str(folder),
        ]
        self.process = subprocess.Popen(command, stdout=self.log.open("w"), stderr=subprocess.STDOUT)
        self.address = f"http://localhost:{port}/inspector"
        while True:
            if self.process.poll() is not None:
                raise SystemExit(f"panel serve ended before it answered:\n{self.log.read_text()}")
            try:
                urllib.request.urlopen(self.address, timeout=120).read()
                return
            except OSError:
                time.sleep(0.2)

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            raise SystemExit("Memory is read from /proc, which this system does not have.")
        return int(status.read_text().split("VmRSS:")[1].split()[0]) / 1000

    def faults(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if any(sign in line for sign in _FAULTS)]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


TIMES = """
window.took = () => {
  const walk = (node) => { for (const each of node.querySelectorAll('*')) {
    if (each.dataset && each.dataset.answered) return each.dataset;
    const inside = each.shadowRoot && walk(each.shadowRoot); if (inside) return inside; } return null; };
  const found = walk(document);
  return found ? [Number(found.answered), Number(found.took)] : [0, 0];
};
"""


def slider(address: str, chromium: str, repeats: int) -> tuple[float, float]:
    """Median and greatest seconds of a slider move."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGS)
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.add_init_script(TIMES)
        page.goto(f"{address}?view=sweep")
        moved = page.get_by_role("slider", name="max_wait_s")
        moved.wait_for(timeout=120_000)
        page.wait_for_timeout(3000)
        for number in range(repeats + 2):
            before = page.evaluate("took()[0]")
            moved.fill(str(round(0.5 + 0.25 * number, 2)))
            page.wait_for_function("before => took()[0] > before", arg=before)
            times.append(page.evaluate("took()[1]") / 1000)
            page.wait_for_timeout(150)
        browser.close()
    return statistics.median(times[2:]), max(times[2:])


def one_session(address: str, number: int) -> str:
    """Open one view as a browser does (page, websocket, document), stay a moment, close; '' or what went wrong."""
    from websockets.sync.client import connect

    view = VIEWS[number % len(VIEWS)]
    more = f"&run=system{number % 6}&case=R1_C1_i1_L1" if view in ("case", "compare", "share") else ""
    try:
        page = urllib.request.urlopen(f"{address}?view={view}{more}", timeout=120).read().decode()
        token = re.search(r'"token":"([^"]+)"', page).group(1)
        url = address.replace("http", "ws", 1) + "/ws"
        with connect(
            url, subprotocols=["bokeh", token], max_size=None, open_timeout=120, origin=address[: -len("/inspector")]
        ) as ws:
            for _ in range(3):
                ws.recv(timeout=120)  # the acknowledgement: header, metadata, content
            for part in ({"msgid": f"{number}", "msgtype": "PULL-DOC-REQ"}, {}, {}):
                ws.send(json.dumps(part))
            answer = ""
            while '"roots"' not in answer:
                answer = str(ws.recv(timeout=120))
            time.sleep(1.0)
        return "" if len(answer) > 10_000 else f"{view}: an empty page"
    except Exception as error:  # whatever it is, it is reported
        return f"{view}: {error!r}"


def load(server: Server, sessions: int, rounds: int) -> tuple[list[float], list[str], list[float]]:
    """Memory after each round, faults, and seconds a round."""
    memory, faults, took = [], [], []
    for _ in range(rounds):
        began = time.perf_counter()
        with ThreadPoolExecutor(sessions) as pool:
            faults += [said for said in pool.map(lambda n: one_session(server.address, n), range(sessions)) if said]
        took.append(time.perf_counter() - began)
        time.sleep(4.0)
        memory.append(server.memory_mb())
        print(f"  round of {sessions} sessions: {took[-1]:.1f} s, server {memory[-1]:.0f} MB", flush=True)
    return memory, faults + server.faults(), took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", choices=("slider", "sessions"), default=None)
    options = parser.parse_args()
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("WORKBENCH_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    good = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        make_runs(root)
        server = Server(root)
        try:
            if options.only != "sessions":
                if chromium is None:
                    raise SystemExit("No Chromium is installed: apt-get install chromium, or set WORKBENCH_CHROMIUM.")
                middle, most = slider(server.address, chromium, options.repeats)
                good.append(SLIDER_GOAL_S / middle)
                print(
                    f"slider move, 6 x 1,038 cases, s   {middle:8.3f}   (greatest {most:.3f})   goal {SLIDER_GOAL_S:g}"
                )
            if options.only != "slider":
                memory, faults, _ = load(server, options.sessions, options.rounds)
                warm = memory[2:] or memory
                third = max(1, len(warm) // 3)
                growth = statistics.median(warm[-third:]) / statistics.median(warm[:third])
                good.append(min(1.0, GROWTH_GOAL / growth) if not faults else 0.0)
                print(f"memory, last rounds over first    {growth:8.3f}   goal {GROWTH_GOAL:g}")
                print(f"errors in {options.sessions * options.rounds} sessions            {len(faults):8d}   goal 0")
                for fault in faults[:10]:
                    print(f"  {fault}")
        finally:
            server.stop()
    load_average, cores = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan"), os.cpu_count()
    print(f"load average {load_average:.1f} on {cores} cores (figures are worse on a busy machine)")
    print(f"inspector_load ratio={min(good):.2f} goal=1 {'ok' if min(good) >= 1 else 'short'}")


if __name__ == "__main__":
    main()
