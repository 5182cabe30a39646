"""A system that works in whole turns: it gets all of what the user said, then answers.

It is an HTTP endpoint or a Python callable. It neither hears while it speaks nor stops when the
user begins: that is what such a system does, and the recording shows it.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import io
import uuid
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import httpx
import numpy as np
import soundfile

from workbench.agents.base import AgentError, AudioOut, Emit, Fault, Note, Session, Text, Traits, TurnEnd
from workbench.agents.link import Json, Link, Options, key_from
from workbench.audio import from_pcm16, resample
from workbench.cases import RATE_HZ
from workbench.errors import InputError


@dataclass(frozen=True)
class UserTurn:
    """What the callable gets: float32 (samples,) at `rate_hz`; `session` is the same for all turns of a case."""

    audio: np.ndarray
    rate_hz: int
    index: int
    session: str
    system_prompt: str


@dataclass(frozen=True)
class Answer:
    """What it gives back: float32 or int16 (samples,) at `rate_hz`, and its transcript if it has one."""

    audio: np.ndarray
    rate_hz: int
    text: str = ""


@dataclass(eq=False)
class TurnBased(Options):
    """Answers after each whole user turn.

    url : an endpoint that is sent JSON by POST: {"session", "turn" (from 1), "system_prompt", "audio"
        (base64 of a mono 16-bit WAV)}; it answers {"audio": base64 of any WAV, FLAC or OGG, "text"},
        or with the audio file itself.
    call : instead of it, 'module:function', which gets a UserTurn and returns an Answer; a class is
        made anew for every case and its instance called.
    rate_hz : of what it is sent. headers : more HTTP headers, as JSON, for settings, not for keys.
    key_env : environment variable with a key, sent as a bearer token. timeout_s : of one answer.
    """

    url: str = ""
    call: str = ""
    rate_hz: int = 16_000
    headers: Json = None
    key_env: str = "TURN_BASED_API_KEY"
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.url) == bool(self.call):
            raise InputError("The agent 'turn-based' needs either --set url=... or --set call=module:function.")
        self._call = _callable(self.call) if self.call else None
        name = f"The endpoint {self.url}" if self.url else f"The callable {self.call}"
        self._link = Link(name, key_from(self.key_env, False, "turn-based"))
        self._client: httpx.AsyncClient | None = None
        self._worker: asyncio.Task | None = None
        settings = self._shown("rate_hz", "headers", "timeout_s")
        self.traits = Traits("turn-based", self.call or self.url, "wall", turns="batch", settings=settings)

    async def open(self, session: Session, emit: Emit) -> None:
        self._session, self._emit, self._name = session, emit, f"{session.case_id}-{uuid.uuid4().hex[:8]}"
        self._heard: list[np.ndarray] = []
        self._sounding: set[str] = set()
        self._turns: asyncio.Queue[np.ndarray] = asyncio.Queue()
        if self._call is not None:
            self._ask = self._call() if inspect.isclass(self._call) else self._call
        else:
            bearer = {"Authorization": f"Bearer {self._link.key}"} if self._link.key else {}
            self._client = httpx.AsyncClient(headers={**self.headers, **bearer}, timeout=self.timeout_s)
        self._worker = asyncio.create_task(self._work())

    async def cue(self, cue_id: str, phase: str) -> None:
        if phase == "start":
            self._sounding.add(cue_id)
            return
        self._sounding.discard(cue_id)
        if not self._sounding and self._heard:
            self._turns.put_nowait(np.concatenate(self._heard))
            self._heard = []

    async def send(self, frame: np.ndarray) -> None:
        if self._sounding:
            self._heard.append(frame)

    async def close(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    async def _work(self) -> None:
        index = 0
        while True:
            heard = await self._turns.get()
            index += 1
            try:
                audio = await asyncio.to_thread(resample, from_pcm16(heard), RATE_HZ, self.rate_hz)
                turn = UserTurn(audio, self.rate_hz, index, self._name, self._session.system_prompt)
                answer = await (self._post(turn) if self._client is not None else self._ask_here(turn))
            except AgentError as error:
                self._emit(Fault(error.kind, error.message, error.retry))
                return
            self._say(answer, f"turn_{index}")

    def _say(self, answer: Answer, item: str) -> None:
        samples = np.asarray(answer.audio)
        if answer.text:
            self._emit(Text(answer.text + " ", item))
        if samples.size:
            samples = samples if samples.dtype == np.int16 else samples.astype(np.float32)
            self._emit(AudioOut(samples, item, answer.rate_hz))
        self._emit(Note("answered", {"item": item, "rate_hz": answer.rate_hz}))
        self._emit(TurnEnd(item))

    async def _ask_here(self, turn: UserTurn) -> Answer:
        try:
            async with asyncio.timeout(self.timeout_s):
                # In a thread, for the sessions beside this one must keep their pace.
                answer = await asyncio.to_thread(self._ask, turn)
                if inspect.isawaitable(answer):
                    answer = await answer
        except TimeoutError:
            raise self._too_slow() from None
        except Exception as error:
            raise AgentError("agent_exception", f"{self._link.name} raised {type(error).__name__}: {error}") from None
        if not isinstance(answer, Answer):
            raise AgentError("bad_message", f"{self._link.name} returned {type(answer).__name__}, not an Answer.")
        if np.asarray(answer.audio).ndim != 1:
            raise AgentError("bad_message", f"{self._link.name} returned audio that is not mono (samples,).")
        return answer

    def _too_slow(self) -> AgentError:
        return AgentError("no_answer", f"{self._link.name} did not answer within {self.timeout_s:g} s.", retry=True)

    async def _post(self, turn: UserTurn) -> Answer:
        body = {
            "session": turn.session,
            "turn": turn.index,
            "system_prompt": turn.system_prompt,
            "audio": base64.b64encode(_wav(turn.audio, turn.rate_hz)).decode(),
        }
        try:
            response = await self._client.post(self.url, json=body)
        except httpx.TimeoutException:
            raise self._too_slow() from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._link.unreachable(error) from None
        if response.status_code != 200:
            raise self._link.refused(response.status_code, response.text)
        if response.headers.get("content-type", "").startswith("audio/"):
            return self._read(response.content, "")
        fields = self._link.parse(response.content)
        return self._read(self._link.audio(fields.get("audio") or ""), str(fields.get("text") or ""))

    def _read(self, data: bytes, text: str) -> Answer:
        if not data:
            return Answer(np.zeros(0, np.float32), RATE_HZ, text)
        try:
            samples, rate_hz = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
        except (soundfile.LibsndfileError, RuntimeError):
            raise self._link.bad("audio that is neither WAV, FLAC nor OGG") from None
        return Answer(samples.mean(axis=1), rate_hz, text)


def _wav(samples: np.ndarray, rate_hz: int) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate_hz, format="WAV", subtype="PCM_16")
    return buffer.getvalue()


def _callable(target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"The callable {target!r} cannot be loaded: {error}. Give module:function.") from None
