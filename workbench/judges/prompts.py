"""Prompts as files under data/judges/, and the messages made from them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cache, cached_property
from string import Template
from typing import TYPE_CHECKING, Any

from workbench.chat.messages import boundary_of, clean, describe_keys, fence
from workbench.errors import InputError
from workbench.files import content_key
from workbench.shipped import data_path, read_yaml

if TYPE_CHECKING:
    from workbench.judges.base import Item, Judge

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


def load_prompt(name: str) -> Prompt:
    """The prompt files in data/judges/{name}/ and data/judges/shared/.

    Raises
    ------
    InputError : the folder is missing or holds no system.md.
    """
    files = {}
    for folder in (SHARED, name):
        for path in sorted(data_path("judges", folder).glob("*")):
            if path.suffix in (".md", ".yaml"):
                files[path.name] = path.read_text(encoding="utf-8")
    if "system.md" not in files:
        raise InputError(f"{data_path('judges', name)} holds no system.md, so {name!r} has no prompt; add that file.")
    return Prompt(files)


@cache
def load_labels(name: str) -> dict[str, str]:
    """The labels of a judge and what each means, from its labels.yaml."""
    return read_yaml(data_path("judges", name, "labels.yaml"))


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
