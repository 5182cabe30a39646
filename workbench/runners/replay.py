"""Recordings made elsewhere become a run, so that any system's output can be scored.

For each case of a dataset the folder holds, in any format and at any rate that soundfile reads,

    {case}.wav                      one stereo file, its channel roles declared, or
    {case}.user.wav {case}.agent.wav    two mono files
    {case}.json                     optional: {"cues": {cue: start in seconds}, "transcript": "..."}

Where a cue began is taken from the sidecar, else found by matching the dataset's clip with the user
channel. A cue that is not found stays without a time, and the record says why.
"""

from __future__ import annotations

import datetime as dt
import platform
import shutil
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.signal import fftconvolve

from workbench import audio, datasets, episodes
from workbench.agents.base import FRAME_SAMPLES, AudioOut
from workbench.cases import RATE_HZ, AfterOnset, Case, Cue
from workbench.datasets import Dataset
from workbench.episodes import AgentInfo, EpisodeRecord, Piece, PlayedCue, Policy, Sends
from workbench.errors import InputError
from workbench.files import read_json, sha256_of
from workbench.parallel import pmap
from workbench.runners.episode import place_windows
from workbench.runners.recorder import Recorder
from workbench.runs import RunMeta, save_meta
from workbench.version import VERSION

FORMATS = (".wav", ".flac", ".ogg", ".mp3", ".opus", ".aiff", ".w64")
MATCH = 0.5
"""The least correlation (1: the very clip) at which a cue counts as found in the user channel."""
_MATCH_HZ = 8_000


@dataclass(frozen=True)
class Source:
    """Where recordings lie and what they are.

    user, agent : their channels in stereo files (0 or 1). policy : whether the agent channel holds
        what was played or all that was delivered.
    """

    dataset: Dataset
    folder: Path
    name: str
    version: str = "recorded"
    user: int = 0
    agent: int = 1
    policy: Policy = "as_played"


@dataclass
class Imported:
    """Cases imported, cases without a recording, and a sentence for each that could not be used."""

    cases: int = 0
    absent: list[str] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def import_recordings(source: Source, out: Path, workers: int | None = None) -> Imported:
    """Write a run folder of everything in `source.folder` that belongs to the dataset.

    Raises
    ------
    InputError : no folder, no recording for any case, impossible channels, or `out` is not empty.
    """
    if {source.user, source.agent} != {0, 1}:
        raise InputError(f"Channels are 0 and 1, one for each role, not user {source.user} and agent {source.agent}.")
    if not source.folder.is_dir():
        raise InputError(f"{source.folder} is not a folder; give the folder that holds the recordings.")
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; give a new or empty folder.")
    result = Imported()
    there = [case for case in source.dataset.cases if _files(source.folder, case.id)]
    result.absent = [case.id for case in source.dataset.cases if case not in there]
    if not there:
        first = source.dataset.cases[0].id
        raise InputError(
            f"{source.folder} holds no recording of any case; name them {first}.wav, or {first}.user.wav and "
            f"{first}.agent.wav."
        )
    _prepare(source, out)
    jobs = [(case, source, out / "episodes") for case in there]
    for (case, *_), unplaced, error in pmap(_import_one, jobs, workers=workers):
        if error is None:
            result.cases += 1
            result.unplaced += [f"case {case.id}, {line}" for line in unplaced]
        elif isinstance(error, InputError):
            result.problems.append(f"case {case.id}: {error}")
        else:
            raise error
    return result


def _prepare(source: Source, out: Path) -> None:
    (out / "episodes").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source.dataset.folder / datasets.CASES, out / datasets.CASES)
    header = source.dataset.header
    save_meta(
        out,
        RunMeta(
            benchmark=header.benchmark,
            dataset=header.model_dump(include={"version", "author", "speech", "cases", "fingerprint"}),
            agent={
                "name": source.name,
                "version": source.version,
                "pacing": "recorded",
                "turns": "events",
                "placement": "arrival",
                "privileged": False,
                "settings": {"user_channel": source.user, "agent_channel": source.agent},
            },
            clock="recorded",
            policy=source.policy,
            workbench=VERSION,
            platform={"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()},
            started=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        ),
    )


# One case --------------------------------------------------------------------------------------------


def _import_one(job: tuple[Case, Source, Path]) -> list[str]:
    case, source, folder = job
    stereo, files = _read(source, case)
    sidecar = _sidecar(source.folder / f"{case.id}.json")
    clips = source.dataset.clips(case)
    played = _place(case, clips, stereo[:, 0], sidecar.get("cues", {}))
    recorder = Recorder(lambda: 0.0, source.policy, "arrival")
    recorder.receive(AudioOut(stereo[:, 1], "recording"))
    recorder.log("imported", files={path.name: sha256_of(path) for path in files})
    record = EpisodeRecord(
        case=case.id,
        benchmark=case.benchmark,
        status="complete",
        agent=AgentInfo(name=source.name, version=source.version),
        clock="recorded",
        policy=source.policy,
        placement="arrival",
        system_prompt=case.system_prompt,
        duration_s=round(stereo.shape[0] / RATE_HZ, 6),
        cues=tuple(played[cue.id] for cue in case.cues),
        windows=place_windows(case, played),
        onset_s=_onset(case, played, recorder, stereo.shape[0] / RATE_HZ),
        transcript=_transcript(sidecar),
        sends=Sends(frame_samples=FRAME_SAMPLES, frames=stereo.shape[0] // FRAME_SAMPLES),
        deliveries=recorder.deliveries(),
        events=tuple(recorder.events),
        workbench=VERSION,
        started=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    )
    episodes.save(folder, record, stereo)
    return [f"cue {cue.id}: {cue.reason}" for cue in played.values() if cue.reason]


def _files(folder: Path, case_id: str) -> list[Path]:
    """The case's recording: [stereo], or [user, agent], or [] when there is none."""

    def find(stem: str) -> Path | None:
        return next((folder / (stem + end) for end in FORMATS if (folder / (stem + end)).is_file()), None)

    both = find(case_id) or find(f"{case_id}.stereo")
    if both is not None:
        return [both]
    return [path for path in (find(f"{case_id}.user"), find(f"{case_id}.agent")) if path is not None]


def _read(source: Source, case: Case) -> tuple[np.ndarray, list[Path]]:
    """int16 (samples, 2) at 24 kHz, channel 0 the user, and the files it came from."""
    files = _files(source.folder, case.id)
    if files[0].stem in (case.id, f"{case.id}.stereo"):
        samples, rate_hz = audio.read_stereo(files[0])
        sides = [audio.resample(samples[:, channel], rate_hz, RATE_HZ) for channel in (source.user, source.agent)]
    elif len(files) == 2:
        sides = [_mono(path) for path in files]
    else:
        raise InputError(f"{files[0]} is alone: the other side ({case.id}.user or {case.id}.agent) is missing.")
    length = max(side.size for side in sides)
    stereo = np.zeros((length, 2), np.int16)
    for channel, side in enumerate(sides):
        stereo[: side.size, channel] = audio.to_pcm16(side)
    return stereo, files


def _mono(path: Path) -> np.ndarray:
    samples, rate_hz = audio.read(path)
    if samples.shape[1] != 1:
        raise InputError(f"{path} has {samples.shape[1]} channels, where a file for one side has one; split it.")
    return audio.resample(samples[:, 0], rate_hz, RATE_HZ)


def _sidecar(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    value = read_json(path)
    if not isinstance(value, dict) or not isinstance(value.get("cues", {}), dict):
        raise InputError(f'{path} must be an object such as {{"cues": {{"turn2": 8.4}}, "transcript": "..."}}.')
    return value


def _transcript(sidecar: dict[str, Any]) -> tuple[Piece, ...] | None:
    """The agent's words: one text, or pieces with times; None when the sidecar has none."""
    said = sidecar.get("transcript")
    if isinstance(said, str):
        return (Piece(t_s=0.0, text=said),)
    if isinstance(said, list):
        return tuple(Piece(t_s=float(piece["t_s"]), text=str(piece["text"])) for piece in said)
    return None


# Where the cues are ----------------------------------------------------------------------------------


def _place(case: Case, clips: dict[str, np.ndarray], user: np.ndarray, given: dict[str, Any]) -> dict[str, PlayedCue]:
    unknown = sorted(set(given) - {cue.id for cue in case.cues})
    if unknown:
        known = ", ".join(cue.id for cue in case.cues)
        raise InputError(f"the sidecar places a cue {unknown[0]!r}, which the case does not have; its cues: {known}.")
    placed: dict[str, PlayedCue] = {}
    from_s = 0.0
    for cue in case.cues:
        length_s = clips[cue.id].size / RATE_HZ
        if cue.id in given:
            start_s, reason = _given(cue, given[cue.id], user.size / RATE_HZ)
        else:
            start_s, reason = find_clip(clips[cue.id], user, from_s)
        if start_s is None:
            placed[cue.id] = PlayedCue(id=cue.id, reason=reason)
            continue
        end_s = start_s + length_s
        placed[cue.id] = PlayedCue(id=cue.id, start_s=round(start_s, 3), end_s=round(end_s, 3))
        from_s = start_s if cue.track else end_s
    return placed


def _given(cue: Cue, value: Any, length_s: float) -> tuple[float | None, str | None]:
    if value is None:
        return None, "the sidecar says that it was not played"
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= length_s:
        raise InputError(f"the sidecar starts cue {cue.id!r} at {value!r}; give seconds between 0 and {length_s:.3f}.")
    return float(value), None


def find_clip(clip: np.ndarray, channel: np.ndarray, from_s: float = 0.0) -> tuple[float | None, str | None]:
    """Where `clip` begins in `channel`, both int16 at 24 kHz: (seconds, None), or (None, why not).

    The normalised cross-correlation at 8 kHz finds the place, whatever the levels; its peak must
    reach `MATCH`. `from_s` is the earliest place that counts.
    """
    needle = audio.resample(audio.from_pcm16(clip), RATE_HZ, _MATCH_HZ)
    hay = audio.resample(audio.from_pcm16(channel), RATE_HZ, _MATCH_HZ)
    skip = max(0, round((from_s - 0.05) * _MATCH_HZ))
    # A recording that stops inside the clip still shows where it began.
    hay = np.concatenate([hay[skip:], np.zeros(needle.size, np.float32)])
    energy = float(np.sum(needle.astype(np.float64) ** 2))
    if energy == 0 or not np.any(hay):
        return None, "the user channel is silent, so the clip cannot be found in it"
    product = fftconvolve(hay, needle[::-1], mode="valid").astype(np.float64)
    sums = np.concatenate([[0.0], np.cumsum(hay.astype(np.float64) ** 2)])
    power = sums[needle.size :] - sums[: -needle.size]
    likeness = product / np.sqrt(np.maximum(power, energy * 1e-6) * energy)
    best = int(np.argmax(likeness))
    if likeness[best] < MATCH:
        return None, f"its clip is not found in the user channel (best match {max(0.0, likeness[best]):.2f} of 1)"
    return (best + skip) / _MATCH_HZ, None


def _onset(case: Case, played: dict[str, PlayedCue], recorder: Recorder, length_s: float) -> float | None:
    """The agent onset that a barge-in will have waited for: the last before its cue began."""
    for before, cue in pairwise(case.cues):
        there = played[cue.id].start_s is not None and played[before.id].end_s is not None
        if isinstance(cue.start, AfterOnset) and there:
            onset_s = recorder.onset_after(played[before.id].end_s, length_s)
            return None if onset_s is None or onset_s > played[cue.id].start_s else round(onset_s, 3)
    return None
