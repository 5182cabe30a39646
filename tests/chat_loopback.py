"""An OpenAI-compatible model on loopback that answers, or misbehaves, as it is told. Real HTTP."""

import asyncio
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field

import pytest
from aiohttp import web

KEY = "sk-loopback-0123456789abcdef"


@dataclass
class Say:
    """One reply. `body` replaces the whole HTTP body; `hang` never answers; `drop` closes the connection;
    `trickle_s` is the time between two pieces of the body."""

    content: str | None = None
    finish: str = "stop"
    refusal: str | None = None
    status: int = 200
    headers: dict = field(default_factory=dict)
    body: str | None = None
    usage: bool = True
    fingerprint: str | None = "fp_loopback"
    choices: bool = True
    hang: bool = False
    drop: bool = False
    trickle_s: float | None = None


def answer(score=80, conflict=None, reason="It is plain and short."):
    value = {"reason": reason, "role_score": score}
    return json.dumps(value | ({"conflict": conflict} if conflict else {}))


def is_conflict(body):
    return "`directive-wins`" in body["messages"][0]["content"]


def sound(body, number):
    """A judge that answers well, always the same for the same messages."""
    digest = hashlib.sha256(json.dumps(body["messages"][:2]).encode()).digest()
    labels = ("directive-wins", "persona-wins", "hedged", "incoherent")
    return Say(answer(digest[0] % 101, labels[digest[1] % 4] if is_conflict(body) else None))


def outside_quotes(body):
    """Everything in the messages that does not stand in a quotation, the boundary itself left out."""
    text = "\n".join(message["content"] for message in body["messages"])
    boundary = re.search(r"exactly `([0-9a-f]{16})`", text).group(1)
    text = re.sub(rf"\[\[QUOTE {boundary}\]\]\n[^\n]*\n\[\[END {boundary}\]\]", "", text)
    return text.replace(boundary, "")


def gullible(body, number):
    """A judge that obeys anything outside the quotations: a single character there changes its score."""
    digest = hashlib.sha256(outside_quotes(body).encode()).digest()
    return Say(answer(digest[0] % 101, "hedged" if is_conflict(body) else None))


def error(status, message, code=None, **headers):
    return Say(status=status, body=json.dumps({"error": {"message": message, "code": code}}), headers=headers)


class LoopbackModel:
    """`bodies` and `headers` hold every request; `say(body, number)` decides what is answered."""

    def __init__(self):
        self.say = sound
        self.bodies, self.headers = [], []
        self.open = self.most_open = 0
        self.arrived = threading.Event()

    def script(self, *replies, then=sound):
        """Give these replies in order, then what `then` says."""
        self.say = lambda body, number: replies[number] if number < len(replies) else then(body, number)

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *exc):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _serve(self, ready):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main(ready))
        self._loop.close()

    async def _main(self, ready):
        self._stop = asyncio.Event()
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _chat(self, request):
        body = await request.json()
        number = len(self.bodies)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        self.arrived.set()
        try:
            await asyncio.sleep(0)
            return await self._reply(request, self.say(body, number), body)
        finally:
            self.open -= 1

    async def _reply(self, request, say, body):
        if say.hang:
            await self._stop.wait()
        if say.drop:
            request.transport.close()
            return web.Response()
        if say.trickle_s is not None:
            response = web.StreamResponse(status=say.status, headers={"Content-Type": "application/json"})
            await response.prepare(request)
            for piece in (say.body or "")[:3]:
                await response.write(piece.encode("utf-8", "replace"))
                await asyncio.sleep(say.trickle_s)
            await response.write((say.body or "")[3:].encode("utf-8", "replace"))
            return response
        if say.body is not None:
            kind = "application/json" if say.body.startswith("{") else "text/html"
            return web.Response(status=say.status, text=say.body, content_type=kind, headers=say.headers)
        message = {"role": "assistant", "content": say.content, "refusal": say.refusal}
        reply = {
            "id": "1", "object": "chat.completion", "created": 0, "model": "loopback-1-0613",
            "system_fingerprint": say.fingerprint,
            "choices": [{"index": 0, "finish_reason": say.finish, "message": message}] if say.choices else [],
        }  # fmt: skip
        if say.usage:
            reply["usage"] = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
        return web.json_response(reply)


@pytest.fixture
def server():
    with LoopbackModel() as running:
        yield running


@pytest.fixture
def slept():
    """Seconds that a client meant to sleep: noted instead of slept, and what its clock shows."""
    return []
