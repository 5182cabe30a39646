"""Scoring 4,000 Duplex-MPE streams of about 100 s from their spans: array arithmetic against a plain loop.

    python benchmarks/mpe_score.py

Measured is what `workbench score` does once spans are known and records are read: every row measured,
decided and explained in a sentence, stream by stream as scoring calls it. The ratio compares deciding
all streams at once (as sweeps and brought segments do) with a plain loop over streams, turns and spans
that follows the rules as written; both must give the same verdicts. Times are CPU seconds of this
process, which other work on the machine does not lengthen.
"""

from __future__ import annotations

import time

import numpy as np
import pandas as pd

from workbench.benchmarks.duplexmpe import BENCHMARK
from workbench.benchmarks.duplexmpe.measure import measure
from workbench.benchmarks.duplexmpe.streams import OF_LABEL, Stream, measure_streams
from workbench.cases import AtTime, Case, Cue
from workbench.contract import WORDS
from workbench.deciding import Decider
from workbench.episodes import AgentInfo, EpisodeRecord, PlayedCue, Sends

STREAMS = 4000
GOAL = 5
GOAL_S = 10.0
LABELS = ("N2", "N3", "T", "N1", "N2", "N4_Q", "N4_R", "N2", "N3", "N2", "N1", "N2")


def made_up(seed: int) -> list[Stream]:
    """Streams of twelve turns in which an agent speaks at random, in milliseconds as detectors give them."""
    random = np.random.default_rng(seed)
    streams = []
    for _ in range(STREAMS):
        start, at = [], 22.0
        for label in LABELS:
            at += (
                3.0
                if label == "N4_R"
                else random.uniform(0.6, 1.2) + (6.0 if start and LABELS[len(start) - 1] == "T" else 0)
            )
            start.append(at)
            at += random.uniform(2.0, 8.0)
        end = np.array([*start[1:], at + 1.0]) - 0.9
        edges = np.sort(random.uniform(0, at + 3, 2 * random.integers(4, 30)))
        spans = np.round(edges, 3).reshape(-1, 2)
        spans = spans[spans[:, 1] > spans[:, 0]]
        streams.append(Stream(LABELS, np.round(start, 3), np.round(end, 3), spans, round(at + 3, 3)))
    return streams


def as_case(stream: Stream, number: int) -> tuple[Case, EpisodeRecord]:
    cues = tuple(Cue(id=f"t{i:02d}", text="x", label=label, start=AtTime(time_s=0)) for i, label in enumerate(LABELS))
    case = Case(
        id=f"s{number}", benchmark="duplex-mpe", conversation=f"c{number // 2}", stream=f"s{number}", cues=cues,
        tags={"scenario": f"c{number // 2}", "condition": ("explicit", "implicit")[number % 2]},
    )  # fmt: skip
    played = tuple(
        PlayedCue(id=cue.id, start_s=float(s), end_s=float(e))
        for cue, s, e in zip(cues, stream.start_s, stream.end_s, strict=True)
    )
    record = EpisodeRecord(
        case=case.id, benchmark="duplex-mpe", status="complete", agent=AgentInfo(name="made-up", version="1"),
        clock="virtual", policy="as_played", placement="arrival", system_prompt="", duration_s=stream.stop_s,
        cues=played, sends=Sends(frame_samples=480, frames=1), workbench="0", started="",
    )  # fmt: skip
    return case, record


def plain_loop(stream: Stream) -> list[str]:
    """The rules as written, turn by turn and span by span (every recording here is whole)."""
    merged: list[list[float]] = []
    for start, end in stream.agent.tolist():
        if merged and round(start - merged[-1][1], 6) < 0.8:
            merged[-1][1] = end
        else:
            merged.append([start, end])
    merged = [[start, min(end, stream.stop_s)] for start, end in merged if start < stream.stop_s]

    def speech(w0: float, w1: float) -> float:
        return round(sum(max(0.0, min(end, w1) - max(start, w0)) for start, end in merged), 6)

    out = []
    for index, label in enumerate(stream.labels):
        start, end = float(stream.start_s[index]), float(stream.end_s[index])
        if label == "T":
            fresh = any(0 <= round(s - end, 6) <= 5.0 for s, _ in merged)
            active = any(s < end < e for s, e in merged)
            closes = min(float(stream.start_s[index + 1]), end + 60.0)
            out += ["pass" if fresh and not active else "fail", "pass" if fresh else "fail"]
            out.append("pass" if speech(end, closes) > 0 else "fail")
        elif label in ("N1", "N2", "N3"):
            out.append("pass" if speech(start, end + 0.5) <= 1.0 else "fail")
        elif label == "N4_Q":
            out.append("pass" if speech(start, float(stream.start_s[index + 1])) > 0 else "fail")
        else:
            q0, q1 = float(stream.start_s[index - 1]), float(stream.end_s[index - 1])
            began = any(q1 <= s < start for s, _ in merged)
            if speech(q0, q1) > 0 or not began or not any(s < start < e for s, e in merged):
                out.append("not_eligible")
            else:
                a = round(start + 2.0, 6)
                b = round(max(a, end + 0.5), 6)
                out.append("fail" if any(e > a and (s < b or s <= a) for s, e in merged) else "pass")
    return out


def main() -> None:
    streams = made_up(seed=11)
    cases = [as_case(stream, number) for number, stream in enumerate(streams)]
    none = np.empty((0, 2))

    began = time.process_time()
    rows = [row for (case, record), stream in zip(cases, streams, strict=True)
            for row in measure(case, record, none, stream.agent)]  # fmt: skip
    frame = pd.DataFrame(rows)
    decided = Decider(BENCHMARK, frame).verdicts()
    whole_s = time.process_time() - began

    times = []
    for _ in range(5):
        began = time.process_time()
        state = Decider(BENCHMARK, pd.DataFrame(measure_streams(streams))).states()[0]
        times.append(time.process_time() - began)
    ours_s = float(np.median(times))

    began = time.process_time()
    loop = [verdict for stream in streams for verdict in plain_loop(stream)]
    loop_s = time.process_time() - began
    words = [WORDS[int(code)] for code in state]
    if loop != words or decided["verdict"].tolist() != words:
        wrong = next(i for i, (a, b) in enumerate(zip(loop, words, strict=True)) if a != b)
        raise SystemExit(f"the rules differ at row {wrong}: {loop[wrong]} by the loop, {words[wrong]} by arrays")

    per_stream = sum(len(OF_LABEL[label]) for label in LABELS)
    print(f"{STREAMS} streams, {per_stream} rows each, {len(words)} verdicts; all three ways agree")
    print(f"scoring, stream by stream, with evidence  {whole_s:6.2f} s (goal under {GOAL_S:.0f} s)")
    print(f"verdicts of all streams at once           {ours_s * 1000:6.0f} ms (median of {len(times)})")
    print(f"verdicts by a plain loop                  {loop_s * 1000:6.0f} ms")
    ratio = loop_s / ours_s
    fine = ratio >= GOAL and whole_s < GOAL_S
    print(f"mpe_score ratio={ratio:.1f} goal={GOAL} {'ok' if fine else 'short'}")


if __name__ == "__main__":
    main()
