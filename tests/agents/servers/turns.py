"""A turn-based endpoint over HTTP: a whole user turn in, a whole answer out."""

from __future__ import annotations

import asyncio
import base64
import io
from contextlib import asynccontextmanager
from dataclasses import dataclass

import soundfile
from aiohttp import web

from servers.common import pitch_in, tone


@dataclass
class Behaviour:
    """Every default is good behaviour."""

    answer_s: float = 0.4
    think_s: float = 0.1
    rate_hz: int = 22_050
    status: int = 200
    bare: bool = False  # answers with the audio file itself
    raw: str = ""
    form: str = "FLAC"


class Server:
    def __init__(self, behaviour: Behaviour):
        self.how, self.turns = behaviour, []

    async def handle(self, request: web.Request) -> web.Response:
        how, body = self.how, await request.json()
        samples, rate_hz = soundfile.read(io.BytesIO(base64.b64decode(body["audio"])), dtype="int16")
        self.turns.append({**body, "samples": samples, "rate_hz": rate_hz, "headers": dict(request.headers)})
        await asyncio.sleep(how.think_s)
        if how.status != 200:
            return web.Response(status=how.status, text="the words of the server")
        if how.raw:
            return web.Response(text=how.raw, content_type="application/json")
        buffer = io.BytesIO()
        soundfile.write(
            buffer, tone(how.answer_s, how.rate_hz, pitch_in(body["system_prompt"])), how.rate_hz, format=how.form
        )
        if how.bare:
            return web.Response(body=buffer.getvalue(), content_type="audio/flac")
        return web.json_response({"audio": base64.b64encode(buffer.getvalue()).decode(), "text": "la la"})


@asynccontextmanager
async def running(**behaviour):
    """Yields (server, address)."""
    server = Server(Behaviour(**behaviour))
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/turn", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield server, f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/turn"
    finally:
        await runner.cleanup()
