"""Expanding a dataset again from its authored data, and comparing case by case, field by field.

What a build computes is a function of the authored data and of what was measured on the audio: the lengths of
the clips and of their pieces. So everything but those can be computed again from the dataset's own clips, and
those must agree with the script (which pieces, how long a designed silence is) and with the samples.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench import audio
from workbench.cases import RATE_HZ, Case, Cue, Segment
from workbench.construct.assemble import JOIN_S, unbuilt
from workbench.construct.conversation import BuiltTurn
from workbench.construct.markup import parse
from workbench.datasets import Dataset
from workbench.errors import InputError

Clip = tuple[str, str]
"""(stream, cue id): what names a built turn."""

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


def turns_of(cases: Iterable[Case], clip_of: Callable[[Case, Cue], Clip]) -> dict[Clip, BuiltTurn]:
    """Each clip as most of the cases that play it have it, so that the case which deviates is the one named."""
    seen: dict[Clip, Counter] = defaultdict(Counter)
    for case in cases:
        for cue in case.cues:
            turn = BuiltTurn(
                key="", script=cue.text, speaker=cue.speaker, audio=cue.audio, segments=cue.segments
            ).model_dump_json()
            seen[clip_of(case, cue)][turn] += 1
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


def scripted(turns: Mapping[Clip, BuiltTurn], scripts: Mapping[Clip, str]) -> dict[Clip, BuiltTurn]:
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


def shared_faults(cases: Iterable[Case], clip_of: Callable[[Case, Cue], Clip]) -> list[str]:
    """Whether every case that plays a clip has the same bytes, and no two clips have the same."""
    by_clip: dict[Clip, dict[str, str]] = defaultdict(dict)
    by_sum: dict[str, dict[Clip, str]] = defaultdict(dict)
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
    *,
    clip_of: Callable[[Case, Cue], Clip],
    scripts: Mapping[Clip, str] | None,
    expand: Callable[[Mapping[Clip, BuiltTurn]], Iterable[Case]] | None,
    voice_of: Callable[[Clip], str] | None = None,
    listen: bool = False,
) -> Recomputed:
    """Check a dataset against what its authored data and its own audio give again.

    Parameters
    ----------
    clip_of : which clip a cue plays.
    scripts, expand : the authored words of each clip, and the cases that built turns give; None for a dataset
        whose authored data is not here.
    voice_of : who says a clip; None where the engine is not known here.
    listen : also align every piece of speech with its text, which takes about as long as building did.
    """
    done = Recomputed()
    if expand is None:
        done.unchecked.append("scripts, prompts, expectations and windows: this dataset's authored data is not here")
    if not listen:
        done.unchecked.append("whether the audio says its text (--audio checks that)")
    turns = turns_of(dataset.cases, clip_of)
    done.problems += shared_faults(dataset.cases, clip_of)
    if expand is not None and scripts is not None:
        expected = scripted(turns, scripts)
        if voice_of is not None:
            expected = {
                clip: turn.model_copy(update={"speaker": voice_of(clip) if turn.audio else ""})
                for clip, turn in expected.items()
            }
        try:
            done.problems += differences(dataset.cases, expand(expected))
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
