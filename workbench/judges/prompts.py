"""Prompts as files under data/, and the messages made from them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cached_property
from string import Template
from typing import TYPE_CHECKING, Any

from workbench.chat.messages import boundary_of, clean, describe_keys, fence
from workbench.errors import InputError
from workbench.files import content_key
from workbench.shipped import data_path

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
