"""Judging many items at once: cached, concurrent, resumable, stopped early when going on is pointless."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from workbench.chat.client import ServerFault
from workbench.chat.messages import Cache
from workbench.errors import InputError
from workbench.files import content_key, timestamp
from workbench.judges.ask import Backend
from workbench.judges.base import Item, Judge, NotJudgeable
from workbench.judges.records import (
    LINES,
    Judgement,
    JudgeRecord,
    Log,
    Session,
    export,
    item_key,
    judge_key,
    read_lines,
    write_record,
)
from workbench.runs import Run
from workbench.version import VERSION

_TRANSPORT = ("timeout", "connection", "server", "rate_limited", "bad_response", "bad_request")
_GIVE_UP_AFTER = 10
"""Failed requests in a row, with not one success between, after which the server counts as broken."""


@dataclass
class Tally:
    """Counts of one sitting; `without_usage` judgements came without token counts."""

    total: int = 0
    judged: int = 0
    cached: int = 0
    errors: int = 0
    not_judgeable: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    without_usage: int = 0
    price_in: float | None = None
    price_out: float | None = None
    modes: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    fingerprints: set[str] = field(default_factory=set)

    @property
    def done(self) -> int:
        return self.judged + self.cached + self.not_judgeable

    @property
    def money(self) -> float | None:
        """Cost in the currency of the prices (per million tokens); None without prices or without counts."""
        if self.price_in is None or self.price_out is None or self.without_usage:
            return None
        return (self.prompt_tokens * self.price_in + self.completion_tokens * self.price_out) / 1e6

    def spent(self) -> str:
        """Errors, tokens and money in a few words."""
        words = []
        if self.errors:
            words.append(f"{self.errors} error{'s' if self.errors > 1 else ''}")
        if self.prompt_tokens or self.completion_tokens:
            words.append(f"{self.prompt_tokens:,} + {self.completion_tokens:,} tokens")
        if self.without_usage:
            words.append(f"{self.without_usage} without token counts")
        if self.money is not None:
            words.append(f"cost {self.money:.4f}")
        return ", ".join(words)

    def add(self, line: Judgement) -> None:
        self.judged += 1
        self.errors += line.status == "error"
        if line.usage.prompt_tokens is None or line.usage.completion_tokens is None:
            self.without_usage += line.usage.calls > 0
        else:
            self.prompt_tokens += line.usage.prompt_tokens
            self.completion_tokens += line.usage.completion_tokens
        for names, name in ((self.modes, line.mode), (self.models, line.model), (self.fingerprints, line.fingerprint)):
            if name:
                names.add(name)


@dataclass(frozen=True)
class Result:
    """Where the judgements lie and what this sitting did. `requests` counts HTTP requests."""

    folder: Path
    record: JudgeRecord
    tally: Tally
    requests: int


def describe_judge(judge: Judge, backend: Backend) -> tuple[str, JudgeRecord]:
    """The key (folder name) of a judge and its record, without sessions."""
    if backend.kind == "offline" and judge.offline is None:
        raise InputError(f"the judge {judge.name!r} has no offline baseline; name a model with --model.")
    rules = judge.rules() if backend.kind == "offline" else None
    parameters = {"rules_sha256": content_key(rules, length=64)} if rules else backend.parameters
    record = JudgeRecord(
        judge=judge.name,
        benchmark=judge.benchmark,
        kind=backend.kind,
        model=backend.model,
        host=backend.host,
        parameters=parameters,
        prompt_sha256=judge.prompt.sha256,
        prompt=judge.prompt.files,
        rules=rules,
    )
    return judge_key(judge, backend.model, backend.host, parameters), record


async def judge_run(
    run: Run,
    judge: Judge,
    backend: Backend,
    *,
    limit: int | None = None,
    shared: Path | None = None,
    keep_errors: bool = False,
    tally: Tally | None = None,
    on_progress: Callable[[Tally], None] = lambda tally: None,
) -> Result:
    """Judge every recorded case of a run, or the first `limit` of them.

    Whatever is judged is on disk at once; a cancelled call loses only what is in flight. Earlier
    errors are asked again unless `keep_errors`. `shared` is a folder for judgements of many runs.

    Raises
    ------
    InputError : nothing is recorded yet, or the server refuses everything or can't be reached; what was
        judged is kept.
    """
    if not run.recorded():
        raise InputError(f"{run.episodes} holds no recorded case, so there is nothing to judge; run an agent first.")
    key, record = describe_judge(judge, backend)
    folder = run.judgements / key
    tally = tally if tally is not None else Tally()
    started, complete = timestamp(), False
    with Log(folder) as log:
        write_record(folder, record)
        cache = Cache(read_lines, folder / LINES, shared / f"{key}.jsonl" if shared else None, keep_errors=keep_errors)
        todo = [(item, 0) for item in _items(run, judge, log, tally, limit)]
        tally.total = len(todo) + tally.not_judgeable
        try:
            async with backend:
                await ask_all(todo, judge, backend, key, log, cache, tally, on_progress)
            complete = True
        finally:
            session = Session(
                started=started, finished=timestamp(), workbench=VERSION, complete=complete, requests=backend.requests,
                **{name: getattr(tally, name) for name in _COUNTS},
                **{name: tuple(sorted(getattr(tally, name))) for name in ("modes", "models", "fingerprints")},
            )  # fmt: skip
            record = write_record(folder, record, session)
            export(folder)
    return Result(folder, record, tally, backend.requests)


_COUNTS = (
    "judged", "cached", "errors", "not_judgeable", "prompt_tokens", "completion_tokens", "without_usage",
    "price_in", "price_out", "money",
)  # fmt: skip


async def ask_all(
    todo: Iterable[tuple[Item, int]],
    judge: Judge,
    backend: Backend,
    key: str,
    log: Log,
    cache: Cache,
    tally: Tally,
    on_progress: Callable[[Tally], None] = lambda tally: None,
) -> None:
    """Ask each (item, repeat) that the cache does not hold, `backend.concurrency` at a time.

    Raises
    ------
    InputError : see `judge_run`.
    """
    queue = iter(list(todo))
    failed_in_a_row = 0

    async def worker() -> None:
        nonlocal failed_in_a_row
        for item, repeat in queue:
            content = item_key(judge, key, item, repeat)
            found = cache.get(content)
            if found is not None:
                tally.cached += 1
                if not _same(log.latest.get((item.case, item.item)), found):
                    log.append(found.model_copy(update={"case": item.case, "item": item.item}))
                on_progress(tally)
                continue
            line = await backend.ask(judge, item, content)
            log.append(line)
            cache.add(line)
            tally.add(line)
            on_progress(tally)
            failed_in_a_row = failed_in_a_row + 1 if line.status == "error" and line.reason in _TRANSPORT else 0
            if failed_in_a_row >= _GIVE_UP_AFTER:
                raise InputError(
                    f"{failed_in_a_row} requests in a row failed at {backend.host} ({line.message}); judging stopped "
                    "and what was judged is kept. Mend the cause and run the same command again."
                )

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, backend.concurrency)):
                group.create_task(worker())
    except ExceptionGroup as group:
        first = group.exceptions[0]
        if isinstance(first, ServerFault):
            raise InputError(f"{first} Judging stopped; what was judged is kept.") from None
        raise first from None


def _same(held: Judgement | None, found: Judgement) -> bool:
    return held is not None and held.key == found.key and held.status == found.status


def _items(run: Run, judge: Judge, log: Log, tally: Tally, limit: int | None) -> list[Item]:
    """The items of the recorded cases; a case that can't be judged gets its line here."""
    items: list[Item] = []
    for case_id in run.recorded()[:limit]:
        try:
            items += judge.items(run.cases[case_id], run.heard(case_id))
            continue
        except NotJudgeable as why:
            reason, message = why.reason, str(why)
        except InputError as error:
            reason, message = "bad_record", str(error)
        tally.not_judgeable += 1
        held = log.latest.get((case_id, ""))
        if held is None or (held.status, held.reason) != ("not_judgeable", reason):
            told = {"status": "not_judgeable", "reason": reason, "message": message}
            log.append(Judgement(case=case_id, key=reason, date=timestamp(), **told))
    return items
