"""Recordings made elsewhere become a run, so that any system's output can be scored.

For each case of a dataset the folder holds, in any format and at any rate that soundfile reads,

    {case}.wav                      one stereo file, its channel roles declared, or
    {case}.user.wav {case}.agent.wav    two mono files
    {case}.json                     optional: {"cues": {cue: start in seconds}, "transcript": "..."}

Where a cue began is taken from the sidecar, else found by matching the dataset's clip with the user
channel. A cue that is not found stays without a time, and the record says why. What makes a whole
recording doubtful (`DOUBTS`) is said by name and kept in the record, so that no benchmark gives a
verdict on it until somebody says that it is meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from workbench import audio, episodes
from workbench.agents.base import FRAME_SAMPLES, AudioOut
from workbench.cases import RATE_HZ, AfterOnset, Case
from workbench.datasets import Dataset
from workbench.episodes import AgentInfo, PlayedCue, Policy, Sends, record_of
from workbench.errors import DISK, InputError
from workbench.files import sha256_of, writing
from workbench.parallel import pmap
from workbench.runners import placing
from workbench.runners.placing import Known
from workbench.runners.recorder import Recorder
from workbench.runs import Run, begin

FORMATS = (".wav", ".flac", ".ogg", ".mp3", ".opus", ".aiff", ".w64")
DOUBTS = ("same_channels", "user_bleed")
"""What makes a recording unmeasurable until it is accepted, by the names that `--accept` takes."""

_OFFSET = 0.003
_IMPORTED = "imported"


@dataclass(frozen=True)
class Source:
    """Where recordings lie and what they are.

    user, agent : their channels in stereo files (0 or 1). policy : whether the agent channel holds
        what was played or all that was delivered. accept : those of `DOUBTS` that are meant.
    """

    dataset: Dataset
    folder: Path
    name: str
    version: str = "recorded"
    user: int = 0
    agent: int = 1
    policy: Policy = "as_played"
    accept: tuple[str, ...] = ()


@dataclass
class Imported:
    """Cases imported now and before, cases without a recording, and sentences.

    unplaced : cues without a time. notes : what was mended or must be known. doubtful : recordings that
    give no verdict. problems : recordings that could not be used.
    """

    cases: int = 0
    kept: int = 0
    absent: list[str] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Job:
    case: Case
    source: Source
    files: tuple[Path, ...]
    folder: Path


@dataclass
class _Told:
    """What one case has to say; `doubts` : name -> sentence."""

    unplaced: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubts: dict[str, str] = field(default_factory=dict)


def import_recordings(source: Source, out: Path, workers: int | None = None) -> Imported:
    """Write a run folder of everything in `source.folder` that belongs to the dataset.

    The same call goes on where it was: what is imported from files that have not changed is kept.

    Raises
    ------
    InputError : no folder, no recording for any case, impossible channels or doubts, or `out` holds
        something else.
    OSError : the disk is full or cannot be written; what was imported is kept.
    """
    if {source.user, source.agent} != {0, 1}:
        raise InputError(f"Channels are 0 and 1, one for each role, not user {source.user} and agent {source.agent}.")
    unknown = sorted(set(source.accept) - set(DOUBTS))
    if unknown:
        raise InputError(f"There is nothing called {unknown[0]!r} to accept; what can be is {', '.join(DOUBTS)}.")
    if not source.folder.is_dir():
        raise InputError(f"{source.folder} is not a folder; give the folder that holds the recordings.")
    with writing(out):
        return _import(source, out, workers)


def _import(source: Source, out: Path, workers: int | None) -> Imported:
    lying: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(source.folder.iterdir()):
        if path.suffix.lower() in FORMATS and path.is_file():
            lying[path.stem].append(path)
    files = {
        case.id: tuple(path for end in ("", ".stereo", ".user", ".agent") for path in lying.pop(case.id + end, ()))
        for case in source.dataset.cases
    }
    there = [case for case in source.dataset.cases if files[case.id]]
    if not there:
        first = source.dataset.cases[0].id
        raise InputError(
            f"{source.folder} holds no recording of any case; name them {first}.wav, or {first}.user.wav and "
            f"{first}.agent.wav."
        )
    settings = {"user_channel": source.user, "agent_channel": source.agent}
    agent = {"name": source.name, "version": source.version, "pacing": "recorded", "turns": "events"}
    agent |= {"placement": "arrival", "privileged": False, "settings": settings}
    run = begin(out, source.dataset, agent, "recorded", source.policy)
    result = Imported(absent=[case.id for case in source.dataset.cases if not files[case.id]])
    strange = [path.name for paths in lying.values() for path in paths]
    if strange:
        result.notes.append(f"{len(strange)} files in {source.folder} belong to no case, such as {strange[0]}.")
    bare = replace(source, dataset=replace(source.dataset, cases=(), problems=()))
    jobs = [_Job(case, bare, files[case.id], run.episodes) for case in there]
    todo = [job for job in jobs if not _is_done(run, job)]
    result.kept = len(jobs) - len(todo)
    for job, told, error in pmap(_import_one, todo, workers=workers):
        name = f"case {job.case.id}"
        if isinstance(error, OSError) and error.errno in DISK:
            raise error
        if error is not None:
            said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            result.problems.append(f"{name}: {said}")
            continue
        result.cases += 1
        result.unplaced += [f"{name}, {line}" for line in told.unplaced]
        result.notes += [f"{name}: {line}" for line in told.notes]
        result.doubtful += [f"{name}: {line}" for doubt, line in told.doubts.items() if doubt not in source.accept]
    return result


def _sidecar_of(job: _Job) -> Path:
    return job.source.folder / f"{job.case.id}.json"


def _origin(job: _Job) -> dict[str, Any]:
    """What an imported case hangs on: its files with their checksums, and what was accepted."""
    beside = _sidecar_of(job)
    files = [*job.files, *([beside] if beside.exists() else [])]
    return {"files": {path.name: sha256_of(path) for path in files}, "accepted": list(job.source.accept)}


def _is_done(run: Run, job: _Job) -> bool:
    record = run.kept(job.case.id)
    first = record.events[0] if record is not None and record.events else None
    if first is None or first.kind != _IMPORTED:
        return False
    try:
        return {key: first.data.get(key) for key in ("files", "accepted")} == _origin(job)
    except OSError:
        return False


# One case --------------------------------------------------------------------------------------------


def _import_one(job: _Job) -> _Told:
    case, source, told = job.case, job.source, _Told()
    stereo, agent_samples = _read(job, told)
    length_s = stereo.shape[0] / RATE_HZ
    known = placing.read_sidecar(_sidecar_of(job), case, length_s)
    played = _place(case, source, stereo, known, told)
    _doubt(stereo, played, told)
    recorder = Recorder(lambda: 0.0, source.policy, "arrival")
    recorder.log(_IMPORTED, **_origin(job), notes=[*told.notes, *told.doubts.values()])
    recorder.receive(AudioOut(stereo[:agent_samples, 1], "recording"))
    record = record_of(
        case,
        played,
        status="complete",
        agent=AgentInfo(name=source.name, version=source.version),
        clock="recorded",
        policy=source.policy,
        placement="arrival",
        duration_s=round(length_s, 6),
        onset_s=_onset(case, played, recorder, length_s),
        transcript=known.transcript,
        sends=Sends(frame_samples=FRAME_SAMPLES, frames=stereo.shape[0] // FRAME_SAMPLES),
        deliveries=recorder.deliveries(),
        events=tuple(recorder.events),
        unmeasurable=next((doubt for doubt in told.doubts if doubt not in source.accept), None),
    )
    episodes.save(job.folder, record, stereo)
    told.unplaced = [f"cue {cue.id}: {cue.reason}" for cue in played.values() if cue.reason]
    return told


def _read(job: _Job, told: _Told) -> tuple[np.ndarray, int]:
    """int16 (samples, 2) at 24 kHz, channel 0 the user; and how many samples the agent's side has."""
    case_id, files = job.case.id, job.files
    roles = {name: [path for path in files if path.stem == f"{case_id}.{name}"] for name in ("user", "agent")}
    whole = [path for path in files if path.stem in (case_id, f"{case_id}.stereo")]
    if len(whole) > 1 or (whole and len(files) > 1) or any(len(paths) > 1 for paths in roles.values()):
        names = ", ".join(path.name for path in files)
        raise InputError(f"{job.source.folder} holds more than one recording of it ({names}); keep one.")
    if whole:
        samples, rate_hz = audio.read_stereo(whole[0])
        samples = _within(samples, whole[0], told)
        sides = [
            audio.resample(samples[:, channel], rate_hz, RATE_HZ) for channel in (job.source.user, job.source.agent)
        ]
    elif len(files) == 2:
        sides = [_mono(roles[name][0], told) for name in roles]
    else:
        raise InputError(f"{files[0]} is alone: the other side ({case_id}.user or {case_id}.agent) is missing.")
    told.notes += [warning for path in files if path.suffix.lower() == ".mp3" and (warning := audio.check_mp3(path))]
    length = max(side.size for side in sides)
    stereo = np.zeros((length, 2), np.int16)
    for channel, side in enumerate(sides):
        offset = float(np.median(side))
        if abs(offset) > _OFFSET:
            told.notes.append(
                f"the {('user', 'agent')[channel]} channel had a DC offset of {offset:.3f}; it was removed."
            )
            side = side - np.float32(offset)
        stereo[: side.size, channel] = audio.to_pcm16(side)
    short_s = (length - sides[1].size) / RATE_HZ
    if short_s > 0.1:
        told.notes.append(f"the agent's file ends {short_s:.2f} s before the user's; silence stands there.")
    return stereo, sides[1].size


def _mono(path: Path, told: _Told) -> np.ndarray:
    samples, rate_hz = audio.read(path)
    if samples.shape[1] != 1:
        raise InputError(f"{path} has {samples.shape[1]} channels, where a file for one side has one; split it.")
    return audio.resample(_within(samples, path, told)[:, 0], rate_hz, RATE_HZ)


def _within(samples: np.ndarray, path: Path, told: _Told) -> np.ndarray:
    """Samples a little beyond [-1, 1] scaled down, as clipping would make square waves of them."""
    peak = float(np.abs(samples).max())
    if peak <= 1.0:
        return samples
    if path.suffix.lower() in (".wav", ".w64", ".aiff"):  # lossy decoders pass 1.0 by themselves
        told.notes.append(f"{path.name} holds samples up to {peak:.2f}, beyond full scale; all of it was scaled down.")
    return samples / np.float32(peak)


# Where the cues are, and which channel is whose -------------------------------------------------------


def _place(case: Case, source: Source, stereo: np.ndarray, known: Known, told: _Told) -> dict[str, PlayedCue]:
    user = stereo[:, 0]
    given = {name: start_s for name, start_s in known.cues.items() if start_s is not None}
    for name, start_s in given.items():
        end_s = start_s + (case.cue(name).duration_s or 0.0)
        heard_dbfs = placing.peak_dbfs(user[round(start_s * RATE_HZ) : round(end_s * RATE_HZ)])
        if heard_dbfs < placing.SILENT_DBFS:
            raise InputError(
                f"{known.path}: field 'cues.{name}': the user channel is silent from {start_s:g} s to {end_s:.3f} s, "
                "where it places that cue; mend the time, or give null if it was not played."
            )
    clips = source.dataset.clips(case)
    sought = [cue.id for cue in case.cues if cue.id not in known.cues]
    found = {name: placing.places(clips[name], user) for name in sought}
    placed = placing.in_order(case.cues, {name: places for name, (places, _) in found.items()}, given)
    here = [name for name in sought if name in placed]
    if sought and not here and not placing.same_signal(stereo):
        crossed = [name for name in sought if placing.places(clips[name], stereo[:, 1])[0]]
        if 2 * len(crossed) > len(sought):
            remedy = f"give --user-channel {source.agent}, or swap the names of two mono files"
            raise InputError(f"its channels are swapped: the user's clips are found in the agent's channel; {remedy}.")
    if here and sum(placed[name].likeness < 0 for name in here) * 2 > len(here):
        told.notes.append("the user channel has inverted polarity; the clips were found all the same.")
    played = {}
    for cue in case.cues:
        place = placed.get(cue.id)
        if place is None:
            reason = "the sidecar says that it was not played"
            if cue.id in found:
                places, best = found[cue.id]
                reason = f"its clip is not found in the user channel (best match {best:.2f} of 1)"
                if places:
                    reason = "its clip is found only where the order of the cues leaves no room for it"
                elif not user.any():
                    reason = "the user channel is silent, so the clip cannot be found in it"
            played[cue.id] = PlayedCue(id=cue.id, reason=reason)
        else:
            end_s = place.start_s + clips[cue.id].size / RATE_HZ
            played[cue.id] = PlayedCue(id=cue.id, start_s=round(place.start_s, 3), end_s=round(end_s, 3))
    return played


def _doubt(stereo: np.ndarray, played: Mapping[str, PlayedCue], told: _Told) -> None:
    """Name what makes the whole recording doubtful."""
    if placing.same_signal(stereo):
        told.doubts["same_channels"] = (
            "both channels hold the same signal, so whatever the user says counts as the agent's; export each side by "
            "itself, or say that it is meant with --accept same_channels."
        )
        return
    heard = placing.bleed(stereo, [(cue.start_s, cue.end_s) for cue in played.values() if cue.start_s is not None])
    if heard is not None:
        told.doubts["user_bleed"] = (
            f"the user is heard in the agent's channel, {-heard.gain_db:.0f} dB down and {1000 * heard.delay_s:.0f} ms "
            "late, and may count as the agent's speech; cancel the echo or record the sides apart, or say that it is "
            "meant with --accept user_bleed."
        )


def _onset(case: Case, played: dict[str, PlayedCue], recorder: Recorder, length_s: float) -> float | None:
    """The agent onset that a barge-in will have waited for: the last before its cue began."""
    for before, cue in pairwise(case.cues):
        there = played[cue.id].start_s is not None and played[before.id].end_s is not None
        if isinstance(cue.start, AfterOnset) and there:
            onset_s = recorder.onset_after(played[before.id].end_s, length_s)
            return None if onset_s is None or onset_s > played[cue.id].start_s else round(onset_s, 3)
    return None
