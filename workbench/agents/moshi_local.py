"""Moshi in this process, through the `moshi` package: frame by frame, paced by what it is sent.

No server and no network delay: on a virtual clock a case takes as long as the model needs, and the
recording is that of a machine which answers every 80 ms frame at once.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from workbench.agents.base import AudioOut, Emit, Note, Session, Text, Traits
from workbench.audio import from_pcm16
from workbench.cases import RATE_HZ
from workbench.errors import InputError
from workbench.files import read_json

PADDING = (0, 3)
"""Text tokens that stand for no text."""


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
    """A Moshi checkpoint run here, with fresh state for every case.

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
        self.traits = Traits(
            "moshi-local",
            Path(folder).name if folder else repo,
            "input",
            turns="continuous",
            placement="sample_clock",
            settings={"device": device or "auto", "dtype": dtype, "seed": seed},
        )

    async def open(self, session: Session, emit: Emit) -> None:
        self._emit, self._frames, self._steps = emit, [], 0
        model = _load(*self._source, self._device, self._dtype)
        await model.free.acquire()
        self._model = model
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
        self._frames.append(from_pcm16(frame))
        needed = int(self._model.mimi.sample_rate / self._model.mimi.frame_rate)
        if sum(part.size for part in self._frames) < needed:
            return
        packet, self._frames = np.concatenate(self._frames), []
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
