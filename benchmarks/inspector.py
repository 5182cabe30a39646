"""The inspector in Chromium on this machine's loopback, each figure beside its goal.

    python benchmarks/inspector.py [--rows 100000] [--seconds 100] [--repeats 7]

Two runs are made: one of 100 s stereo recordings, opened case by case, and one of 100,000 rows without
recordings, for the table. Figures are medians over the repeats except the playhead's. The server is warm
(one page was opened before) and the browser has its scripts; audio comes over HTTP and is not part of the bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

from workbench import episodes
from workbench.cases import RATE_HZ, AtTime, Case, Cue, Segment, Word
from workbench.episodes import AgentInfo, EpisodeRecord, LogEvent, Piece, PlayedCue, Sends
from workbench.files import write_text
from workbench.runs import RunMeta, save_meta

ARGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --autoplay-policy=no-user-gesture-required"
).split()

GOALS = {
    "first render of a long case, s": 2.0,
    "case to case, s": 0.5,
    "zoom refill, s": 0.25,
    "websocket bytes a case, kB": 150.0,
    "table page of many rows, s": 0.4,
    "playhead updates a second": 50.0,
}

JS = """
window.wb = {
  source: (ending) => {
    for (const doc of Bokeh.documents) for (const model of doc._all_models.values())
      if (model.name && model.name.endsWith(ending)) return model;
  },
  find: (test, node = document) => {
    for (const each of node.querySelectorAll('*')) {
      if (test(each)) return each;
      const inside = each.shadowRoot && wb.find(test, each.shadowRoot);
      if (inside) return inside;
    }
  },
  player: () => wb.find((each) => each.dataset && each.dataset.updates),
  table: () => wb.find((each) => each.dataset && each.dataset.drawn),
  painted: () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  until: async (test) => { const end = performance.now() + 60000;
    while (!test()) {
      if (performance.now() > end) throw new Error('waited a minute');
      await new Promise((done) => setTimeout(done, 2)); }
    await wb.painted(); },
  timed: async (act, test) => {
    const began = performance.now(); await act(); await wb.until(test); return (performance.now() - began) / 1000;
  },
  press: (key) => document.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, composed: true})),
};
"""


def long_case(number: int, seconds: float) -> tuple[Case, EpisodeRecord]:
    """A case with 26 segments of words, and a record with as many pieces of transcript."""
    starts = np.linspace(1, seconds - 4, 26)
    words = [f"word{n}" for n in range(8)]
    segments = tuple(
        Segment(kind="speech", text=" ".join(words), start_s=float(at), end_s=float(at) + 2.5,
                words=tuple(Word(text=w, start_s=at + 0.3 * n, end_s=at + 0.3 * n + 0.25) for n, w in enumerate(words)))
        for at in starts
    )  # fmt: skip
    cue = Cue(id="turn1", text="words " * 200, segments=segments, start=AtTime(time_s=0))
    case = Case(id=f"long_{number:03d}", benchmark="ifeval", conversation=f"c{number}", stream="s", cues=(cue,),
                tags={"action": "LISTEN", "level": "L1", "role": "R1", "role_name": "desk"})  # fmt: skip
    pieces = tuple(
        Piece(t_s=float(at) + 0.3 * n, text=w + " ", item=f"i{at:.0f}") for at in starts for n, w in enumerate(words)
    )
    record = EpisodeRecord(
        case=case.id, benchmark="ifeval", status="complete", agent=AgentInfo(name="made", version="1"), clock="virtual",
        policy="as_played", placement="arrival", system_prompt="", duration_s=seconds, transcript=pieces,
        cues=(PlayedCue(id="turn1", start_s=0, end_s=seconds - 1),), windows={"trigger": (50.0, 53.0)},
        sends=Sends(frame_samples=480, frames=1), workbench="0", started="2026-01-01T00:00:00+00:00",
        events=tuple(LogEvent(t_s=float(at), kind="turn_end") for at in starts),
    )  # fmt: skip
    return case, record


def make_runs(root: Path, seconds: float, rows: int) -> None:
    meta = RunMeta(benchmark="ifeval", dataset={}, agent={"name": "made"}, clock="virtual", policy="as_played",
                   workbench="0", started="2026-01-01T00:00:00+00:00")  # fmt: skip
    rng = np.random.default_rng(0)
    made = [long_case(number, seconds) for number in range(12)]
    for name in ("long", "many"):
        (root / name / "episodes").mkdir(parents=True)
        save_meta(root / name, meta)
    write_text(root / "long" / "cases.jsonl", "".join(case.model_dump_json() + "\n" for case, _ in made))
    envelope = np.abs(np.sin(np.arange(round(seconds * RATE_HZ)) / RATE_HZ))[:, None] * [0.8, 0.3]
    for _, record in made:
        noise = rng.uniform(-1, 1, (len(envelope), 2)) * envelope
        episodes.save(root / "long" / "episodes", record, (noise * 32767).astype(np.int16))
    cue = Cue(id="a", text="", start=AtTime(time_s=0))
    tags = {"action": "LISTEN", "level": "LEVEL", "role": "R1"}
    small = Case(id="ID", benchmark="ifeval", conversation="CO", stream="s", cues=(cue,), tags=tags)
    line = json.dumps(small.model_dump(mode="json", exclude_defaults=True))
    write_text(
        root / "many" / "cases.jsonl",
        "".join(line.replace("ID", f"case_{n:06d}").replace("LEVEL", f"L{n % 5}") + "\n" for n in range(rows)),
    )


def serve(folder: Path) -> tuple[subprocess.Popen, str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    app = Path(__file__).parents[1] / "apps" / "inspector.py"
    plugin = ["--plugins", "workbench.app.files"]
    command = [sys.executable, "-m", "panel", "serve", str(app), "--port", str(port), *plugin, "--args", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://localhost:{port}/inspector"
    while server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=120).read()
            return server, address
        except OSError:
            time.sleep(0.2)
    raise SystemExit("panel serve ended before it answered.")


def measure(address: str, chromium: str, repeats: int) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    found: dict[str, list[float]] = {name: [] for name in GOALS}
    received = [0]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGS)

        def count_bytes(data) -> None:
            received[0] += len(data)

        context = browser.new_context(viewport={"width": 1280, "height": 900})

        def opened(query: str, ready: str):
            page = context.new_page()
            page.add_init_script(JS)
            page.on(
                "websocket",
                lambda ws: ws.on("framereceived", lambda data: received.__setitem__(0, received[0] + len(data))),
            )
            began = time.perf_counter()
            page.goto(address + query)
            page.evaluate(f"wb.until(() => {{ try {{ return {ready} }} catch (e) {{ return false }} }})")
            return page, time.perf_counter() - began

        drawn = "wb.source('-agent_wave').data.x.length > 100 && Bokeh.documents[0].is_idle && wb.player()"
        opened("", "Bokeh.documents[0].is_idle")[0].close()
        for number in range(repeats):
            page, took = opened(f"?view=case&run=long&case=long_{number:03d}&only=%7B%22run%22:[%22long%22]%7D", drawn)
            found["first render of a long case, s"].append(took)
            if number < repeats - 1:
                page.close()
        page.evaluate("wb.press('k')")
        page.wait_for_timeout(1500)
        for key in ["j", "k"] * ((repeats + 1) // 2):
            received[0] = 0
            took = page.evaluate(
                """key => { const before = wb.source('-agent_wave').data.x, head = wb.player().dataset.updates;
                return wb.timed(() => wb.press(key), () => wb.source('-agent_wave').data.x !== before) }""", key
            )  # fmt: skip
            page.wait_for_timeout(900)
            found["case to case, s"].append(took)
            found["websocket bytes a case, kB"].append(received[0] / 1000)
        canvas = page.locator("canvas").first.bounding_box()
        page.mouse.move(canvas["x"] + canvas["width"] / 2, canvas["y"] + canvas["height"] / 2)
        for _ in range(repeats):
            page.evaluate("""() => { window.filled = 0; const s = wb.source('-agent_wave'), before = s.data.x;
                addEventListener('wheel', () => { const began = performance.now();
                  wb.until(() => s.data.x !== before).then(() => { window.filled = (performance.now() - began) / 1000 })
                }, {once: true, capture: true}) }""")  # fmt: skip
            page.mouse.wheel(0, -240)
            page.wait_for_function("() => window.filled > 0")
            found["zoom refill, s"].append(page.evaluate("window.filled"))
            page.wait_for_timeout(300)
        page.keyboard.press(" ")
        page.wait_for_function("() => Number(wb.player().dataset.time) > 0.2")
        count, began = page.evaluate("[Number(wb.player().dataset.updates), performance.now()]")
        page.wait_for_timeout(3000)
        more, ended = page.evaluate("[Number(wb.player().dataset.updates), performance.now()]")
        found["playhead updates a second"].append((more - count) / (ended - began) * 1000)
        page.close()
        page, _ = opened("?only=%7B%22run%22:[%22many%22]%7D", "wb.table().querySelector && Bokeh.documents[0].is_idle")
        page.wait_for_timeout(1500)
        next_page = "wb.find((each) => each.title === 'next page').click()"
        for _ in range(repeats):
            took = page.evaluate(f"""() => {{ const n = Number(wb.table().dataset.drawn);
                return wb.timed(() => {next_page}, () => Number(wb.table().dataset.drawn) > n) }}""")
            found["table page of many rows, s"].append(took)
        browser.close()
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=100.0)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = os.environ.get("WORKBENCH_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        raise SystemExit("No Chromium is installed: apt-get install chromium, or set WORKBENCH_CHROMIUM.")
    with tempfile.TemporaryDirectory() as folder:
        make_runs(Path(folder), options.seconds, options.rows)
        server, address = serve(Path(folder))
        try:
            figures = measure(address, chromium, options.repeats)
        finally:
            server.terminate()
            server.wait(10)
    ratios = []
    for name, goal in GOALS.items():
        value = figures[name]
        ratios.append(value / goal if "updates" in name else goal / value)
        print(f"{name:34s} {value:8.3f}   goal {goal:g}   {'ok' if ratios[-1] >= 1 else 'short'}")
    worst = min(ratios)
    load, cores = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan"), os.cpu_count()
    print(f"load average {load:.1f} on {cores} cores (figures are worse on a busy machine)")
    print(f"inspector ratio={worst:.2f} goal=1 {'ok' if worst >= 1 else 'short'}")


if __name__ == "__main__":
    main()
