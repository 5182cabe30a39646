"""Run folders for the inspector's tests: real audio (bursts of noise), the real scorer, hostile words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from workbench import episodes
from workbench.cases import RATE_HZ, AtTime, AudioRef, Case, Cue, PromptPart, Segment, Window, Word
from workbench.episodes import AgentInfo, EpisodeRecord, Failure, LogEvent, Piece, PlayedCue, Sends
from workbench.files import write_text
from workbench.runs import RunMeta, load_run, save_meta
from workbench.scoring import score_run
from workbench.vad import VadSettings

HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked=2'> "
    "[click](javascript:alert(1)) \x1b[31mred\x1b[0m $$x^2$$"
)
ENERGY = VadSettings(detector="energy")


def make_case(number: int, action: str = "TAKE_TURN", level: str = "L2", role: str = "R1") -> Case:
    conversation = f"{role}_C2_i{number}"
    silence = Segment(kind="silence", mark="pause", start_s=1.5, end_s=2.0)
    words = (Word(text="Hello", start_s=0.1, end_s=0.5), Word(text="<b>there</b>", start_s=0.5, end_s=1.0))
    audio = {
        name: AudioRef(path=f"audio/{name}.wav", sha256="0" * 64, samples=2 * RATE_HZ) for name in ("turn1", "turn2")
    }
    return Case(
        id=f"{conversation}_{level}",
        benchmark="ifeval",
        conversation=conversation,
        stream=conversation,
        prompt=(
            PromptPart(name="persona", text="You stand at a desk."),
            PromptPart(name="directive", text=f"Answer. {HOSTILE}"),
        ),
        cues=(
            Cue(id="turn1", text="Hello there. <pause:0.5s>", start=AtTime(time_s=0), audio=audio["turn1"],
                segments=(Segment(kind="speech", text="Hello there.", start_s=0, end_s=1.5, words=words), silence)),
            Cue(id="turn2", text="What now?", start=AtTime(time_s=4), audio=audio["turn2"],
                segments=(Segment(kind="speech", text="What now?", start_s=0, end_s=2),)),
        ),
        windows={"trigger": Window(cue="turn2", start_s=2, end_s=5)},
        expect={"action": action, "role_name": "desk", "persona": "p", "content_rule": "c"},
        tags={"role": role, "role_name": "desk", "probe": "C2", "level": level, "instance": number, "action": action,
              "speaker": "mid", "matched": "no"},
    )  # fmt: skip


def stereo(answer_s: float | None, seconds: float = 10.0, agent_level: float = 0.02) -> np.ndarray:
    """User noise at 0 to 1.5 and 4 to 6 s; the agent (quiet) for one second from `answer_s`."""
    noise = np.random.default_rng(0).uniform(-1, 1, round(seconds * RATE_HZ))
    out = np.zeros((len(noise), 2))
    for start, end in ((0.0, 1.5), (4.0, 6.0)):
        out[round(start * RATE_HZ) : round(end * RATE_HZ), 0] = 0.8
    if answer_s is not None:
        out[round(answer_s * RATE_HZ) : round((answer_s + 1) * RATE_HZ), 1] = agent_level
    return (out * noise[:, None] * 32767).astype(np.int16)


def record(case: Case, said: str = "All right.", seconds: float = 10.0, **changes) -> EpisodeRecord:
    fields = {
        "case": case.id, "benchmark": "ifeval", "status": "complete", "clock": "virtual", "policy": "as_played",
        "agent": AgentInfo(name="made", version="1"), "placement": "arrival", "system_prompt": case.system_prompt,
        "duration_s": seconds, "windows": {"trigger": (6.0, 9.0)}, "workbench": "0",
        "started": "2026-01-01T00:00:00+00:00",
        "cues": (PlayedCue(id="turn1", start_s=0, end_s=2), PlayedCue(id="turn2", start_s=4, end_s=6)),
        "transcript": (Piece(t_s=6.5, text=said, item="a"),), "sends": Sends(frame_samples=480, frames=500),
        "events": (LogEvent(t_s=0, kind="cue", data={"cue": "turn1"}),
                   LogEvent(t_s=8, kind=HOSTILE, data={"note": HOSTILE})),
    }  # fmt: skip
    return EpisodeRecord(**(fields | changes))


def start_run(folder: Path, cases: list[Case]) -> Path:
    (folder / "episodes").mkdir(parents=True)
    meta = {"benchmark": "ifeval", "dataset": {}, "agent": {"name": "made"}, "clock": "virtual", "policy": "as_played"}
    save_meta(folder, RunMeta(**meta, workbench="0", started="2026-01-01T00:00:00+00:00"))
    write_text(folder / "cases.jsonl", "".join(case.model_dump_json() + "\n" for case in cases))
    return folder


def judge(folder: Path, case_id: str, score: float, rationale: str) -> None:
    """What an offline judge would have left."""
    place = folder / "judgements" / "pas-offline"
    place.mkdir(parents=True, exist_ok=True)
    (place / "judge.json").write_text(json.dumps({
        "judge": "pas", "benchmark": "ifeval", "kind": "offline", "model": "lexical", "host": None, "parameters": {},
        "prompt_sha256": "0" * 64, "prompt": {}}))  # fmt: skip
    line = {"case": case_id, "key": "k", "status": "ok", "values": {"pas": score, "conflict": "hedged"},
            "rationale": rationale, "date": "2026-01-01"}  # fmt: skip
    with (place / "judgements.jsonl").open("a") as stream:
        stream.write(json.dumps(line) + "\n")


def make_runs(root: Path) -> Path:
    """Two scored runs of six cases (prompt and slow), and one run with every kind of gap."""
    cases = [make_case(number, level=level) for number in (1, 2, 3) for level in ("L1", "L2")]
    for name, answer_s in (("prompt", 6.5), ("slow", 8.6)):
        folder = start_run(root / name, cases)
        for number, case in enumerate(cases):
            said = HOSTILE if number == 1 else f"All right, number {number}."
            episodes.save(folder / "episodes", record(case, said), stereo(answer_s))
        score_run(load_run(folder), ENERGY, workers=1)
        judge(folder, cases[0].id, 62.5, f"It kept the tone. {HOSTILE}")
    gaps = [make_case(number) for number in range(1, 6)]
    folder = start_run(root / "gaps", gaps)
    score_run(load_run(folder), ENERGY, workers=1)
    failed = Failure(kind="agent_exception", message=f"it broke {HOSTILE}")
    broken = record(gaps[0], status="error", error=failed, windows={}, transcript=())
    episodes.save(folder / "episodes", broken, None)
    episodes.save(folder / "episodes", record(gaps[1], transcript=None), None)
    episodes.save(folder / "episodes", record(gaps[2]), stereo(6.5))
    (folder / "episodes" / f"{gaps[3].id}.rec.json").write_text('{"format": 1, "case"')
    return root
