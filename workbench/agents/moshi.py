"""Moshi and its kin: over the WebSocket of a server, or in this process.

A server gets one kind byte, then Ogg/Opus at 24 kHz or a piece of text. Either way the model answers
frame by frame, 80 ms at a time, so output is placed by its sample count.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import httpx
import numpy as np

from workbench.agents.base import AgentError, AudioOut, Emit, Note, Session, Text, Traits
from workbench.agents.link import Json, Link, ServerAgent, tls
from workbench.audio import from_pcm16
from workbench.cases import RATE_HZ
from workbench.errors import InputError
from workbench.files import read_json

FLAVOURS = ("moshi", "personaplex", "flm-audio")
PACKET_SAMPLES = 1920
OPUS_DELAY_SAMPLES = 154
"""By how much Opus, as sphn runs it, delays what it codes (6.4 ms, measured); taken off the output."""
HANDSHAKE, AUDIO, TEXT, METADATA, ERROR = 0, 1, 2, 4, 5
PADDING = (0, 3)
"""Text tokens of the model that stand for no text."""


class _Packets:
    """The user's frames joined to packets of at least `size` samples."""

    def __init__(self, size: int):
        self._size, self._frames = size, []

    def __call__(self, frame: np.ndarray) -> np.ndarray | None:
        """float32 (samples,) when a packet is whole."""
        self._frames.append(from_pcm16(frame))
        if sum(part.size for part in self._frames) < self._size:
            return None
        packet, self._frames = np.concatenate(self._frames), []
        return packet


@dataclass(eq=False)
class Moshi(ServerAgent):
    """A client of a Moshi server ('moshi'), a PersonaPlex one, or an FLM-Audio one.

    url : 'ws://host:8998/api/chat'. flavour : which of the three.
    voice_prompt : PersonaPlex's voice file, which it insists on. PersonaPlex alone takes a system
        prompt; with the others it is left out, and the record says so.
    settings : FLM-Audio's generation settings, as JSON, set before the session opens.
    query : more URL parameters, as JSON. verify : refuse a certificate that cannot be checked.
    handshake_s : seconds until the server says it is ready. It speaks to one client at a time, and
        PersonaPlex reads its prompts first.
    """

    url: str = "ws://localhost:8998/api/chat"
    flavour: str = "moshi"
    voice_prompt: str = "NATF0.pt"
    settings: Json = None
    query: Json = None
    verify: bool = True
    handshake_s: float = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.flavour not in FLAVOURS:
            raise InputError(f"There is no flavour {self.flavour!r}; flavours are {', '.join(FLAVOURS)}.")
        try:
            import sphn
        except ImportError:
            raise InputError("This agent needs the package `sphn`; install duplex-workbench[moshi].") from None
        self._opus = sphn
        self._link = Link(f"The {self.flavour} server at {self.url}")
        own = ["voice_prompt"] if self.flavour == "personaplex" else []
        settings = self._shown("url", "settings", "query", *own)
        self.traits = Traits(
            self.flavour, "server", "wall", turns="continuous", placement="sample_clock", settings=settings
        )

    async def open(self, session: Session, emit: Emit) -> None:
        self._emit = emit
        self._writer = self._opus.OpusStreamWriter(RATE_HZ)
        self._reader = self._opus.OpusStreamReader(RATE_HZ)
        self._packets = _Packets(PACKET_SAMPLES)
        self._skip = OPUS_DELAY_SAMPLES
        if session.system_prompt and self.flavour != "personaplex":
            emit(Note("system_prompt_not_sent", {"reason": f"{self.flavour} takes none"}))
        async with self._link.opening(self.handshake_s):
            if self.settings and self.flavour == "flm-audio":
                await self._apply_settings()
            await self._connect(self._address(session.system_prompt), verify=self.verify)
            self._listen()
            await self._opened

    def _address(self, prompt: str) -> str:
        query = dict(self.query)
        if self.flavour == "personaplex":
            # Both are required, also when empty.
            query = {"text_prompt": prompt, "voice_prompt": self.voice_prompt} | query
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(query="&".join(filter(None, [parts.query, urlencode(query)]))))

    async def _apply_settings(self) -> None:
        parts = urlsplit(self.url)
        address = urlunsplit((parts.scheme.replace("ws", "http", 1), parts.netloc, "/api/settings", "", ""))
        try:
            async with httpx.AsyncClient(verify=tls(self.verify), timeout=self.handshake_s) as client:
                answer = await client.post(address, json=self.settings)
        except httpx.HTTPError as error:
            raise self._link.unreachable(error) from None
        if answer.status_code != 200:
            raise self._link.refused(answer.status_code, answer.text)

    async def send(self, frame: np.ndarray) -> None:
        packet = self._packets(frame)
        coded = self._writer.append_pcm(packet) if packet is not None else b""
        if coded:
            await self._write(bytes([AUDIO]) + coded)

    async def _receive(self) -> None:
        async for message in self._connection:
            if not isinstance(message, bytes) or not message:
                raise self._link.bad("a message that is not binary", message)
            kind, payload = message[0], message[1:]
            if kind == AUDIO:
                self._audio(payload)
            elif kind == HANDSHAKE:
                self._ready()
            elif kind == TEXT:
                self._emit(Text(payload.decode("utf-8", "replace")))
            elif kind == METADATA:
                self._report(metadata=self._link.words(payload.decode("utf-8", "replace"), 2000))
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


@dataclass(frozen=True)
class _Model:
    mimi: Any
    language: Any
    settings: dict[str, Any]
    tokenizer: Any
    report: dict[str, Any]
    # The model holds the state of one conversation at a time.
    free: asyncio.Lock = field(default_factory=asyncio.Lock)


class MoshiLocal:
    """A Moshi checkpoint run here through the `moshi` package, with fresh state for every case.

    No server and no network delay: on a virtual clock a case takes as long as the model needs, and the
    recording is that of a machine which answers every 80 ms frame at once.

    repo : a Hugging Face repository. folder : instead of it, a local folder with `config.json` and
        the files that it names. device : 'cpu', 'cuda', or '' for CUDA where there is one.
    dtype : 'bfloat16' or 'float32'. seed : of the sampling, set anew for every case.
    """

    def __init__(
        self,
        repo: str = "kyutai/moshiko-pytorch-bf16",
        folder: str = "",
        device: str = "",
        dtype: str = "bfloat16",
        seed: int = 0,
    ):
        if dtype not in ("bfloat16", "float32", "float16"):
            raise InputError(f"There is no dtype {dtype!r} here; use bfloat16, float16 or float32.")
        self._source, self._device, self._dtype, self._seed = (repo, folder), device, dtype, seed
        self._state = ExitStack()
        self._model: _Model | None = None
        version = Path(folder).name if folder else repo
        shown = {"device": device or "auto", "dtype": dtype, "seed": seed}
        self.traits = Traits(
            "moshi-local", version, "input", turns="continuous", placement="sample_clock", settings=shown
        )

    async def open(self, session: Session, emit: Emit) -> None:
        self._emit, self._steps = emit, 0
        model = _load(*self._source, self._device, self._dtype)
        await model.free.acquire()
        self._model = model
        self._packets = _Packets(int(model.mimi.sample_rate / model.mimi.frame_rate))
        if session.system_prompt:
            emit(Note("system_prompt_not_sent", {"reason": "moshi takes none"}))
        emit(Note("reported", model.report))
        import torch
        from moshi.models import LMGen

        torch.manual_seed(self._seed)
        self._generator = LMGen(model.language, **model.settings)
        self._state.enter_context(torch.no_grad())
        self._state.enter_context(model.mimi.streaming(1))
        self._state.enter_context(self._generator.streaming(1))

    async def send(self, frame: np.ndarray) -> None:
        packet = self._packets(frame)
        if packet is not None:
            self._step(packet)

    def _step(self, packet: np.ndarray) -> None:
        import torch

        model = self._model
        heard = torch.from_numpy(packet).to(next(model.mimi.parameters()).device)[None, None]
        codes = model.mimi.encode(heard)
        for index in range(codes.shape[-1]):
            step = codes[:, :, index : index + 1]
            if self._steps == 0:
                # The very first slice would be replaced by the model's initial tokens.
                self._generator.step(step)
            self._steps += 1
            tokens = self._generator.step(step)
            if tokens is None:
                continue
            said = model.mimi.decode(tokens[:, 1:])[0, 0].float().cpu().numpy()
            self._emit(AudioOut(np.clip(said, -1, 1), rate_hz=int(model.mimi.sample_rate)))
            token = int(tokens[0, 0, 0])
            if token not in PADDING:
                self._emit(Text(model.tokenizer.id_to_piece(token).replace("▁", " ")))

    async def close(self) -> None:
        self._state.close()
        if self._model is not None:
            self._model.free.release()
            self._model = None


@lru_cache(maxsize=1)
def _load(repo: str, folder: str, device: str, dtype: str) -> _Model:
    """The checkpoint, once a process."""
    try:
        import torch

        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        if device == "cpu":
            # Read when `moshi` is imported: compiling costs more there than it ever gives back.
            os.environ.setdefault("NO_TORCH_COMPILE", "1")
        from moshi.models import loaders
    except ImportError as error:
        raise InputError(
            f"The agent 'moshi-local' needs the package `moshi` ({error}); see docs/agents.md for its installation."
        ) from None
    info = loaders.CheckpointInfo.from_hf_repo(repo, **_local(folder))
    return _Model(
        mimi=info.get_mimi(device=device),
        language=info.get_moshi(device=device, dtype=getattr(torch, dtype)),
        settings=info.lm_gen_config,
        tokenizer=info.get_text_tokenizer(),
        report={"model": Path(folder).name if folder else repo, "device": device, "rate_hz": RATE_HZ, **info.model_id},
    )


def _local(folder: str) -> dict[str, Path]:
    if not folder:
        return {}
    config = read_json(Path(folder) / "config.json")
    named = {"moshi_weights": "moshi_name", "mimi_weights": "mimi_name", "tokenizer": "tokenizer_name"}
    files = {"config_path": "config.json"} | {option: config.get(name, "") for option, name in named.items()}
    if config.get("mimi_config_name"):
        files["mimi_config_path"] = config["mimi_config_name"]
    for name in files.values():
        if not name or not (Path(folder) / name).is_file():
            raise InputError(f"{folder} lacks the file {name or 'that config.json should name'!r}.")
    return {option: Path(folder) / name for option, name in files.items()}
