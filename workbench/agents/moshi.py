"""Moshi and its kin over their WebSocket: one kind byte, then Ogg/Opus at 24 kHz or a piece of text.

The server answers frame by frame, 80 ms at a time, so its output is placed by its sample count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import httpx
import numpy as np
from websockets.asyncio.client import connect

from workbench.agents.base import AgentError, AudioOut, Emit, Note, Session, Text, Traits
from workbench.agents.link import CLOSE_S, Link, Listener, mapping, number, tls
from workbench.audio import from_pcm16
from workbench.cases import RATE_HZ
from workbench.errors import InputError

FLAVOURS = ("moshi", "personaplex", "flm-audio")
PACKET_SAMPLES = 1920
OPUS_DELAY_SAMPLES = 154
"""By how much Opus, as sphn runs it, delays what it codes (6.4 ms, measured); taken off the output."""
HANDSHAKE, AUDIO, TEXT, METADATA, ERROR = 0, 1, 2, 4, 5


class Moshi:
    """A client of a Moshi server ('moshi'), a PersonaPlex one, or an FLM-Audio one.

    url : 'ws://host:8998/api/chat'. flavour : which of the three.
    voice_prompt : PersonaPlex's voice file, which it insists on. PersonaPlex alone takes a system
        prompt; with the others it is left out, and the record says so.
    settings : FLM-Audio's generation settings, as JSON, set before the session opens.
    query : more URL parameters, as JSON. verify : refuse a certificate that cannot be checked.
    handshake_s : seconds until the server says it is ready. It speaks to one client at a time, and
        PersonaPlex reads its prompts first.
    """

    def __init__(
        self,
        url: str = "ws://localhost:8998/api/chat",
        flavour: str = "moshi",
        voice_prompt: str = "NATF0.pt",
        settings: Mapping[str, Any] | str | None = None,
        query: Mapping[str, Any] | str | None = None,
        verify: bool = True,
        handshake_s: float = 60.0,
    ):
        if flavour not in FLAVOURS:
            raise InputError(f"There is no flavour {flavour!r}; flavours are {', '.join(FLAVOURS)}.")
        self._opus = _sphn()
        self._url, self._flavour, self._voice, self._verify = url, flavour, voice_prompt, verify
        self._settings, self._query = mapping(settings, "settings"), mapping(query, "query")
        self._handshake_s = number(handshake_s, "handshake_s")
        self._link = Link(f"The {flavour} server at {url}")
        self._socket = self._listener = None
        own = {"voice_prompt": voice_prompt} if flavour == "personaplex" else {}
        self.traits = Traits(
            flavour,
            "server",
            "wall",
            turns="continuous",
            placement="sample_clock",
            settings={"url": url, "settings": self._settings, "query": self._query} | own,
        )

    async def open(self, session: Session, emit: Emit) -> None:
        self._emit = emit
        self._writer = self._opus.OpusStreamWriter(RATE_HZ)
        self._reader = self._opus.OpusStreamReader(RATE_HZ)
        self._frames: list[np.ndarray] = []
        self._skip = OPUS_DELAY_SAMPLES
        if session.system_prompt and self._flavour != "personaplex":
            emit(Note("system_prompt_not_sent", {"reason": f"{self._flavour} takes none"}))
        async with self._link.opening(self._handshake_s):
            if self._settings and self._flavour == "flm-audio":
                await self._apply_settings()
            self._socket = await connect(
                self._address(session.system_prompt),
                ssl=tls(self._verify) if self._url.startswith("wss") else None,
                max_size=None,
                compression=None,
                close_timeout=CLOSE_S,
            )
            self._listener = Listener(self._link, emit, self._receive)
            await self._listener.ready

    def _address(self, prompt: str) -> str:
        query = dict(self._query)
        if self._flavour == "personaplex":
            # Both are required, also when empty.
            query = {"text_prompt": prompt, "voice_prompt": self._voice} | query
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(query="&".join(filter(None, [parts.query, urlencode(query)]))))

    async def _apply_settings(self) -> None:
        parts = urlsplit(self._url)
        address = urlunsplit((parts.scheme.replace("ws", "http", 1), parts.netloc, "/api/settings", "", ""))
        try:
            async with httpx.AsyncClient(verify=tls(self._verify), timeout=self._handshake_s) as client:
                answer = await client.post(address, json=self._settings)
        except httpx.HTTPError as error:
            raise AgentError("unreachable", f"{self._link.name}: {self._link.words(error)}", retry=True) from None
        if answer.status_code != 200:
            raise self._link.refused(answer.status_code, answer.text)

    async def send(self, frame: np.ndarray) -> None:
        self._frames.append(from_pcm16(frame))
        if sum(part.size for part in self._frames) < PACKET_SAMPLES:
            return
        packet, self._frames = np.concatenate(self._frames), []
        coded = self._writer.append_pcm(packet)
        if coded:
            try:
                await self._socket.send(bytes([AUDIO]) + coded)
            except Exception as error:
                raise self._link.lost(error) from None

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.stop()
        if self._socket is not None:
            await self._socket.close()

    async def _receive(self) -> None:
        async for message in self._socket:
            if not isinstance(message, bytes) or not message:
                raise self._link.bad("a message that is not binary", message)
            kind, payload = message[0], message[1:]
            if kind == AUDIO:
                self._audio(payload)
            elif kind == TEXT:
                self._emit(Text(payload.decode("utf-8", "replace")))
            elif kind == HANDSHAKE:
                self._listener.opened()
            elif kind == METADATA:
                self._emit(Note("reported", {"metadata": self._link.words(payload.decode("utf-8", "replace"), 2000)}))
            elif kind == ERROR:
                said = self._link.words(payload.decode("utf-8", "replace"))
                raise AgentError("server_error", f"{self._link.name}: {said}", retry=True)

    def _audio(self, payload: bytes) -> None:
        try:
            samples = self._reader.append_bytes(payload)
        except Exception as error:  # sphn raises plain errors of its own
            raise self._link.bad(f"audio that is not Ogg/Opus ({error})") from None
        cut = min(self._skip, samples.size)
        self._skip -= cut
        if samples.size > cut:
            self._emit(AudioOut(samples[cut:].astype(np.float32)))


def _sphn() -> Any:
    try:
        import sphn
    except ImportError:
        raise InputError("This agent needs the package `sphn`; install duplex-workbench[moshi].") from None
    return sphn
