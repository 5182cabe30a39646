"""What a judge is: inputs, a prompt, the kind of its answer, and how the answer is read.

A judge turns one case and its episode into items; each item becomes one call. A model judge and the
offline judge see the same item and nothing else: no timing, no verdict, no name of the system.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from string import Template
from typing import TYPE_CHECKING, Any

from workbench.cases import Case
from workbench.chat.messages import boundary_of, clean, describe_keys, fence
from workbench.chat.reading import Answer
from workbench.episodes import EpisodeRecord
from workbench.errors import InputError
from workbench.files import content_key, data_path

if TYPE_CHECKING:
    from workbench.contract import Benchmark


class NotJudgeable(Exception):
    """This case can't be judged, through no fault of the judge's (`reason` is one word, in snake case)."""

    def __init__(self, reason: str, message: str):
        self.reason = reason
        super().__init__(message)


def refuse_unusable(record: EpisodeRecord) -> None:
    """Raise NotJudgeable for an episode that failed (episode_error) or holds no words (no_transcript)."""
    if record.status == "error":
        raise NotJudgeable("episode_error", record.error.message if record.error else "the episode failed")
    if record.transcript is None:
        raise NotJudgeable("no_transcript", f"the agent {record.agent.name} gives no text of what it says")


@dataclass(frozen=True)
class Part:
    """A titled part of what a judge sees. `quoted` text was said by someone and is fenced off."""

    name: str
    title: str
    text: str
    quoted: bool = False


@dataclass(frozen=True)
class Sound:
    """A sound that is shown beside the text: a whole WAV file in memory."""

    title: str
    wav: bytes = field(repr=False)


@dataclass(frozen=True)
class Item:
    """One call's worth of material. `item` tells several items of one case apart ('' when there is one).

    `parts` are the prompt files that make up the system message; `options` are (label, meaning)
    pairs in the order shown.
    """

    case: str
    sections: tuple[Part, ...]
    parts: tuple[str, ...] = ("system",)
    options: tuple[tuple[str, str], ...] = ()
    clips: tuple[Sound, ...] = ()
    item: str = ""

    def text(self, name: str) -> str | None:
        return next((section.text for section in self.sections if section.name == name), None)

    def with_text(self, name: str, text: str) -> Item:
        """A copy in which the section `name` holds `text`."""
        return replace(
            self, sections=tuple(replace(part, text=text) if part.name == name else part for part in self.sections)
        )

    def reordered(self) -> Item:
        """A copy with sections and options in the opposite order: a fair judge does not notice."""
        return replace(self, sections=self.sections[::-1], options=self.options[::-1])


@dataclass(frozen=True)
class Judge:
    """One judge, declared by its benchmark. `heading` is its name for people.

    `score` and `label` name the values that tables and checks use (None when it has none). `scale` is the
    score's, and `bands` the lower ends of the rubric's steps above the lowest. `labels` are all labels, and
    `reported` how some of them are shown to people (label -> word).

    items : case, record -> items; raises NotJudgeable.
    answer : item -> the pydantic model of its answer.
    read : validated answer -> (values, rationale).
    offline : item -> the same, by documented rules, or None when there is no such baseline; `rules` gives
        those rules in full.
    judged : the section that holds the words under judgement (the probes of judge-check vary it), and
        `silence` what stands there when nothing was said.
    shown : sections that people want to see beside the judge's word.
    controls : case -> named texts that ought not to pass for a good answer.
    strata : tags over which a check spreads its sample, and by which the default tables are split.
    tables : (run, rows of the judge's summary) -> its tables by name; None: mean score, shares of labels.
    titles : of these tables. folded : the column whose single values are left out of the short form.
    """

    name: str
    benchmark: str
    heading: str
    prompt: Prompt
    items: Callable[[Case, EpisodeRecord], list[Item]]
    answer: Callable[[Item], type[Answer]]
    read: Callable[[Answer], tuple[dict[str, Any], str]]
    score: str | None
    label: str | None
    labels: tuple[str, ...] = ()
    reported: Mapping[str, str] = field(default_factory=dict)
    scale: tuple[float, float] = (0.0, 100.0)
    bands: tuple[float, ...] = (25.0, 50.0, 70.0, 90.0)
    judged: str = "transcript"
    silence: str = ""
    shown: tuple[str, ...] = ()
    offline: Callable[[Item], tuple[dict[str, Any], str]] | None = None
    rules: Callable[[], str] = str
    controls: Callable[[Case], dict[str, str]] = field(default=lambda case: {})
    strata: tuple[str, ...] = ()
    tables: Callable[[Any, Any], dict[str, Any]] | None = None
    titles: Mapping[str, str] = field(default_factory=dict)
    folded: str | None = None


def judge_of(benchmark: Benchmark, name: str | None = None) -> Judge:
    """The judge called `name` of a benchmark, or its only one when no name is given.

    Raises
    ------
    InputError : none of that name, or none or several to choose from.
    """
    known = {judge.name: judge for judge in benchmark.judges}
    listed = ", ".join(known) or "none"
    if name is None:
        if len(known) != 1:
            raise InputError(f"{benchmark.title} has these judges: {listed}. Name one with --judge.")
        return next(iter(known.values()))
    if name not in known:
        raise InputError(f"{benchmark.title} has no judge {name!r}; its judges: {listed}.")
    return known[name]


SHARED = "shared"


@dataclass(frozen=True)
class Prompt:
    """The files of one judge and those that all share: name -> text."""

    files: dict[str, str]

    @cached_property
    def sha256(self) -> str:
        return content_key(self.files, length=64)

    def __getitem__(self, part: str) -> str:
        return self.files[f"{part}.md"]


def load_prompt(*place: str) -> Prompt:
    """The prompt files in the shipped folder `place`, given by its parts, and in data/judges/shared/.

    Raises
    ------
    InputError : the folder is missing or holds no system.md.
    """
    files = {}
    for folder in (data_path("judges", SHARED), data_path(*place)):
        for path in sorted(folder.glob("*")):
            if path.suffix in (".md", ".yaml"):
                files[path.name] = path.read_text(encoding="utf-8")
    if "system.md" not in files:
        raise InputError(f"{data_path(*place)} holds no system.md, so the judge has no prompt; add that file.")
    return Prompt(files)


def messages(judge: Judge, item: Item) -> list[dict[str, Any]]:
    """The chat messages for one item: rubric, rule about quotations and answer format; then the material.

    The same item always gives the same messages.
    """
    boundary = boundary_of(*[section.text for section in item.sections])
    values = {
        "boundary": boundary,
        "options": "\n".join(f"- `{label}`: {meaning}" for label, meaning in item.options),
        "keys": describe_keys(judge.answer(item)),
    }
    parts = [judge.prompt[part] for part in (*item.parts, "quoted", "answer")]
    system = "\n\n".join(Template(part).substitute(values).strip() for part in parts)
    shown = []
    for section in item.sections:
        text = fence(section.text, boundary) if section.quoted else clean(section.text).strip()
        shown.append(f"# {section.title}\n\n{text}")
    user: str | list[dict[str, Any]] = "\n\n".join(shown)
    if item.clips:
        user = [{"type": "text", "text": user}]
        for clip in item.clips:
            user.append({"type": "text", "text": f"# {clip.title}"})
            data = base64.b64encode(clip.wav).decode()
            user.append({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}})
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]
