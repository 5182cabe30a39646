"""What is kept of judging: one line a judgement, and one record a judge."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from workbench.cases import Record
from workbench.chat.messages import schema
from workbench.files import content_key
from workbench.judges.base import Item, Judge
from workbench.judges.prompts import messages

FORMAT = 1


class Attempt(Record):
    """An answer that could not be read, kept as it came."""

    kind: str
    message: str
    raw: str


class Usage(Record):
    """Tokens of all calls behind one judgement; null when the server counts none. `calls` are HTTP answers."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    calls: int = 0


class Judgement(Record):
    """What a judge said of one item.

    `status` ok: `values` and `rationale` are set. error: `reason` is the kind of error and `raw` the
    last reply. not_judgeable: `reason` says why there was nothing to ask. `shown` is what the judge
    saw, section by section; `sent` is the hash of the messages. `verdict_first`: it was written before its reason.
    """

    format: int = FORMAT
    case: str
    item: str = ""
    key: str
    status: Literal["ok", "error", "not_judgeable"]
    values: dict[str, Any] = {}
    rationale: str | None = None
    reason: str | None = None
    message: str | None = None
    raw: str | None = None
    attempts: tuple[Attempt, ...] = ()
    repairs: tuple[str, ...] = ()
    verdict_first: bool = False
    mode: str | None = None
    usage: Usage = Usage()
    model: str | None = None
    fingerprint: str | None = None
    date: str
    shown: dict[str, str] = {}
    sent: str | None = None


class Session(Record):
    """One sitting of a judge: what it did and which server answered."""

    started: str
    finished: str
    workbench: str
    complete: bool
    judged: int
    cached: int
    errors: int
    not_judgeable: int
    requests: int
    prompt_tokens: int
    completion_tokens: int
    without_usage: int
    price_in: float | None = None
    price_out: float | None = None
    money: float | None = None
    modes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()


class JudgeRecord(Record):
    """Everything needed to ask the same judge again; never a key.

    `kind` is 'llm' or 'offline'; `host` is the server's name, with its port where that is not the usual one.
    """

    format: int = FORMAT
    judge: str
    benchmark: str
    kind: Literal["llm", "offline"]
    model: str
    host: str | None
    parameters: dict[str, Any]
    prompt_sha256: str
    prompt: dict[str, str]
    rules: str | None = None
    sessions: tuple[Session, ...] = ()

    @property
    def spoke(self) -> str:
        """Which judge spoke, for reports."""
        if self.kind == "offline":
            return f"{self.model} (a lexical baseline, no language model)"
        return f"{self.model} at {self.host}"


def judge_key(judge: Judge, model: str, host: str | None, parameters: Mapping[str, Any]) -> str:
    """Name of a judge's folder: judge, model, and a hash of prompt, host, model and parameters."""
    slug = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:40]
    return f"{judge.name}-{slug}-{content_key(judge.name, judge.prompt.sha256, model, host, dict(parameters))[:10]}"


def item_key(judge: Judge, folder: str, item: Item, repeat: int = 0) -> str:
    """Content of one call: the judge (by `folder`, its key), the messages as sent, the answer's schema."""
    return content_key(folder, messages(judge, item), schema(judge.answer(item)), repeat)
