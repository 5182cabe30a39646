"""Building a dataset from a benchmark's authored data, and expanding it again to compare it field by field.

What a build computes is a function of the authored data and of what was measured on the audio: the lengths of
the clips and of their pieces. So everything but those can be computed again from the dataset's own clips, and
those must agree with the script (which pieces, how long a designed silence is) and with the samples.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from workbench import audio, datasets
from workbench.cases import RATE_HZ, Case, Cue, Record, Segment
from workbench.construct.turns import JOIN_S, BuiltTurn, ClipName, TurnJob, build_turns, parse, unbuilt, without_audio
from workbench.construct.voices import Engine, Recorded, engine_for, load_engine
from workbench.datasets import Dataset, Header, describe
from workbench.errors import InputError
from workbench.files import read_yaml
from workbench.progress import meter

if TYPE_CHECKING:
    from workbench.contract import BuildOptions


def pick(key: str, count: int) -> int:
    """A choice in range(count), the same for the same key everywhere."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % count


def validated(model: type[Record], raw: Any, where: str, problems: list[str]) -> Any:
    """The record that `raw` is; None where it is none, and `problems` says so."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problems.append(f"{where}: {describe(error)}.")
        return None


def read_records(folder: Path, listed: str, model: type[Record], problems: list[str]) -> dict[str, Any]:
    """Every record of the lists called `listed` in a folder of YAML files, by id; faults are added to `problems`."""
    one = listed.removesuffix("s")
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder of {one} files (YAML with a list `{listed}`).")
    records: dict[str, Any] = {}
    for path in sorted(folder.glob("*.yaml")):
        raw = read_yaml(path)
        entries = raw.get(listed) if isinstance(raw, dict) else None
        if not isinstance(entries, list):
            problems.append(f"{path}: there is no list `{listed}`; add one.")
            continue
        for number, entry in enumerate(entries, start=1):
            named = entry.get("id") if isinstance(entry, dict) else None
            record = validated(model, entry, f"{path}, {one} {named or number}", problems)
            if record is None:
                continue
            if record.id in records:
                problems.append(f"{path}: the {one} {record.id!r} is defined twice; remove one or give it another id.")
            records.setdefault(record.id, record)
    return records


def tally(cases: Iterable[Case], names: Iterable[str]) -> dict[str, dict[str, int]]:
    """Cases by the values of each tag: name -> 'by_' and the tag, value -> how many."""
    cases = list(cases)
    return {f"by_{name}": dict(Counter(str(case.tags[name]) for case in cases if name in case.tags)) for name in names}


def clip_of_stream(case: Case, cue: Cue) -> ClipName:
    """The clip of a cue that belongs to its case's stream."""
    return case.stream, cue.id


@dataclass(frozen=True)
class Plan:
    """A benchmark's authored data, as building and computing again need it.

    version : of the authored data; a dataset carries that of the data it was built from.
    scripts : the words of each clip. expand(turns) : the cases that built turns give, those without turns left out.
    voice_of(clip, engine) : who says a clip. clip_of(case, cue) : which clip a cue plays.
    chosen(cases, limit) : which cases a limit leaves.
    """

    version: str
    scripts: Mapping[ClipName, str]
    expand: Callable[[Mapping[ClipName, BuiltTurn]], list[Case]]
    voice_of: Callable[[ClipName, Engine | Recorded], str]
    chosen: Callable[[list[Case], int], Iterable[Case]]
    clip_of: Callable[[Case, Cue], ClipName] = clip_of_stream


def build(plan: Plan, options: BuildOptions) -> Header:
    """Build the dataset in `options.out`.

    Raises
    ------
    ProblemsFound : turns could not be spoken; everything else was, and the manifest waits until they can.
    """
    grid = plan.expand({clip: without_audio(text) for clip, text in plan.scripts.items()})
    wanted = {case.id for case in (grid if options.limit is None else plan.chosen(grid, options.limit))}
    speech = None
    if options.audio:
        spec = engine_for(options.engine, full=options.limit is None)
        engine = load_engine(spec)
        clips = dict.fromkeys(plan.clip_of(case, cue) for case in grid if case.id in wanted for cue in case.cues)
        jobs = [TurnJob(*clip, plan.scripts[clip], plan.voice_of(clip, engine), spec, options.out) for clip in clips]
        with meter("building", len(jobs)) as progress:
            turns = build_turns(jobs, workers=options.workers, dask=options.dask, done=lambda job: progress.step())
        grid = plan.expand(turns)
        speech = {"engine": engine.name, "version": engine.version(), "voices": list(engine.voices)}
    cases = [case for case in grid if case.id in wanted]
    author = "shipped" if options.scripts is None else f"scripts in {options.scripts.name}"
    return datasets.write(options.out, cases, version=plan.version, author=author, speech=speech)


TOLERANCE_S = 0.0011
"""Two times to the millisecond that mean the same sample."""
QUIET_PEAK = 0.02
"""A clip's speech must come to more than this somewhere: 34 dB below full scale."""

SAID_SCORE, SAID_WORDS = -0.003, 4
"""Speech fits its own words with -0.001 to -0.002 and others with -0.0044 or less (45 pieces of hibari's
voices); so little sound as three words make is left out."""


@dataclass
class Recomputed:
    """What computing a dataset again found: sentences about faults, and about what could not be checked."""

    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


def turns_of(cases: Iterable[Case], clip_of: Callable[[Case, Cue], ClipName]) -> dict[ClipName, BuiltTurn]:
    """Each clip as most of the cases that play it have it, so that the case which deviates is the one named."""
    seen: dict[ClipName, Counter] = defaultdict(Counter)
    for case in cases:
        for cue in case.cues:
            turn = BuiltTurn(key="", script=cue.text, speaker=cue.speaker, audio=cue.audio, segments=cue.segments)
            seen[clip_of(case, cue)][turn.model_dump_json()] += 1
    return {clip: BuiltTurn.model_validate_json(turns.most_common(1)[0][0]) for clip, turns in seen.items()}


def differences(found: Sequence[Case], expected: Iterable[Case]) -> list[str]:
    """Every field of a case that is not what expanding again gives, with both values; and cases that are none."""
    wanted = {case.id: case for case in expected}
    problems = []
    for case in found:
        if case.id not in wanted:
            problems.append(f"case {case.id}: the authored data has no such case; remove it or mend its id.")
            continue
        for name, here, there in _apart("", case.model_dump(), wanted[case.id].model_dump()):
            problems.append(f"case {case.id}, {name}: {_short(here)}, where {_short(there)} is expected; rebuild.")
    return problems


def _apart(name: str, here: Any, there: Any) -> Iterator[tuple[str, Any, Any]]:
    """The smallest parts in which two values differ, each with its path."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key in dict.fromkeys((*here, *there)):
            yield from _apart(f"{name}.{key}" if name else str(key), here.get(key), there.get(key))
    elif isinstance(here, list | tuple) and isinstance(there, list | tuple) and len(here) == len(there):
        for index, pair in enumerate(zip(here, there, strict=True)):
            yield from _apart(f"{name}[{index}]", *pair)
    elif here != there and not _close(here, there):
        yield name, here, there


def _close(here: Any, there: Any) -> bool:
    return isinstance(here, float) and isinstance(there, float) and abs(here - there) < TOLERANCE_S


def _short(value: Any) -> str:
    shown = "nothing" if value is None else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def scripted(turns: Mapping[ClipName, BuiltTurn], scripts: Mapping[ClipName, str]) -> dict[ClipName, BuiltTurn]:
    """The turns with the authored words in place of their own, text and pieces; times and audio stay."""
    out = {}
    for clip, turn in turns.items():
        if clip not in scripts:
            continue
        pieces = unbuilt(parse(scripts[clip]))
        if [segment.kind for segment in pieces] == [segment.kind for segment in turn.segments]:
            pieces = tuple(
                piece.model_copy(update={name: getattr(own, name) for name in ("start_s", "end_s", "words")})
                for piece, own in zip(pieces, turn.segments, strict=True)
            )
        out[clip] = turn.model_copy(update={"script": scripts[clip], "segments": pieces})
    return out


def segment_faults(turn: BuiltTurn, samples: np.ndarray | None) -> list[str]:
    """Whether a clip's segments are its script's, one after another, and the samples what the segments say.

    samples : float32, shape (samples,), of the clip; None where it is not built.
    """
    if turn.audio is None:
        return []
    try:
        pieces = parse(turn.script)
    except ValueError as error:
        return [f"its script cannot be read ({error})."]
    faults, at_s = [], 0.0
    if [(piece.kind, piece.text, piece.mark) for piece in pieces] != [
        (segment.kind, segment.text, segment.mark) for segment in turn.segments
    ]:
        return ["its segments are not the pieces of its script."]
    for index, (piece, segment) in enumerate(zip(pieces, turn.segments, strict=True)):
        name = f"segment {index} ({segment.mark or 'speech'})"
        if segment.start_s is None or segment.end_s is None:
            return [*faults, f"{name} has no times."]
        joined = index > 0 and piece.kind == turn.segments[index - 1].kind == "speech"
        at_s += JOIN_S if joined else 0.0
        if abs(segment.start_s - at_s) > TOLERANCE_S:
            faults.append(f"{name} starts at {segment.start_s:.3f} s, where {at_s:.3f} s follows from those before.")
        length_s = segment.end_s - segment.start_s
        if piece.duration_s is not None and abs(length_s - piece.duration_s) > TOLERANCE_S:
            faults.append(f"{name} lasts {length_s:.3f} s, where the script has {piece.duration_s:.3f} s.")
        at_s = segment.end_s
        times = [time_s for word in segment.words for time_s in (word.start_s, word.end_s)]
        if times != sorted(times) or (times and not segment.start_s <= times[0] <= times[-1] <= at_s):
            faults.append(f"{name} has words that lie outside it or out of order.")
    if abs(at_s - turn.audio.duration_s) > TOLERANCE_S:
        faults.append(f"its segments end at {at_s:.3f} s, and its audio at {turn.audio.duration_s:.3f} s.")
    if not faults and samples is not None:
        faults += _sample_faults(turn.segments, samples)
    return faults


def _sample_faults(segments: Sequence[Segment], samples: np.ndarray) -> list[str]:
    faults = []
    for index, segment in enumerate(segments):
        part = samples[round(segment.start_s * RATE_HZ) : round(segment.end_s * RATE_HZ)]
        peak = float(np.abs(part[24:-24]).max(initial=0))  # times are to the millisecond
        if segment.kind == "silence" and peak > 0:
            faults.append(f"segment {index} ({segment.mark}) is to be exact zeros, and its samples reach {peak:.4f}.")
        if segment.kind == "speech" and peak < QUIET_PEAK:
            faults.append(f"segment {index} ({segment.text[:40]!r}) is to be speech, and its samples reach {peak:.4f}.")
    return faults


def text_faults(turn: BuiltTurn, samples: np.ndarray) -> list[str]:
    """Whether each piece of speech of `SAID_WORDS` or more fits its words, by the aligner's score."""
    from workbench.construct.alignment import score

    faults = []
    for index, segment in enumerate(turn.segments):
        if segment.kind == "speech" and len(segment.text.split()) >= SAID_WORDS:
            part = samples[round(segment.start_s * RATE_HZ) : round(segment.end_s * RATE_HZ)]
            if score(part, RATE_HZ, segment.text) < SAID_SCORE:
                faults.append(f"segment {index} does not sound like its text {segment.text[:50]!r}; rebuild.")
    return faults


def shared_faults(cases: Iterable[Case], clip_of: Callable[[Case, Cue], ClipName]) -> list[str]:
    """Whether every case that plays a clip has the same bytes, and no two clips have the same."""
    by_clip: dict[ClipName, dict[str, str]] = defaultdict(dict)
    by_sum: dict[str, dict[ClipName, str]] = defaultdict(dict)
    for case in cases:
        for cue in case.cues:
            if cue.audio is not None:
                by_clip[clip_of(case, cue)].setdefault(cue.audio.sha256, case.id)
                by_sum[cue.audio.sha256].setdefault(clip_of(case, cue), cue.text)
    problems = [
        f"{' and '.join(sums.values())} play other bytes of {'.'.join(clip)}, which is one clip; rebuild."
        for clip, sums in by_clip.items()
        if len(sums) > 1
    ]
    for texts in by_sum.values():
        if len(set(texts.values())) > 1:
            names = " and ".join(".".join(clip) for clip in texts)
            problems.append(f"{names} are the same bytes and have different scripts; rebuild.")
    return problems


def recompute(
    dataset: Dataset,
    version: str,
    plan_of: Callable[[Path | None], Plan],
    scripts: Path | None = None,
    listen: bool = False,
) -> Recomputed:
    """Check a dataset against what its authored data and its own audio give again.

    version : of the authored data that is here. plan_of(scripts) : the plan of it, or of a folder of scripts.
    listen : also align every piece of speech with its text, which takes about as long as building did.
    """
    done, plan = Recomputed(), None
    if dataset.header.version == version and (scripts is not None or dataset.header.author == "shipped"):
        plan = plan_of(scripts)
    else:
        done.unchecked.append("scripts, prompts, expectations and windows: this dataset's authored data is not here")
    if not listen:
        done.unchecked.append("whether the audio says its text (--audio checks that)")
    clip_of = plan.clip_of if plan else clip_of_stream
    turns = turns_of(dataset.cases, clip_of)
    done.problems += shared_faults(dataset.cases, clip_of)
    if plan is not None:
        engine = Recorded.of(dataset.header.speech or {})
        expected = {
            clip: turn.model_copy(update={"speaker": plan.voice_of(clip, engine) if turn.audio else ""})
            for clip, turn in scripted(turns, plan.scripts).items()
        }
        try:
            done.problems += differences(dataset.cases, plan.expand(expected))
        except (ValueError, KeyError) as error:
            done.problems.append(f"The cases cannot be expanded from these clips ({error}); rebuild.")
    for clip, turn in turns.items():
        try:
            samples = audio.read_mono(dataset.folder / turn.audio.path, RATE_HZ) if turn.audio else None
        except InputError as error:
            done.problems.append(str(error))
            continue
        faults = segment_faults(turn, samples)
        if listen and samples is not None and not faults:
            faults = text_faults(turn, samples)
        done.problems += [f"{'.'.join(clip)}: {fault}" for fault in faults]
    return done
