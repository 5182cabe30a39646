"""Any server that speaks OpenAI's text-to-speech endpoint (POST {base_url}/audio/speech), by its own client.

Options: `model` (gpt-4o-mini-tts), `base_url` (OpenAI's, or $OPENAI_BASE_URL), `voices` (comma-separated),
`instructions` (how to speak, for models that take them), `key_env` (the environment variable that holds
the key, OPENAI_API_KEY), `timeout_s` (60), `retries` (4, with backoff, by the client).

The key is read when a request is made and is kept nowhere. A hosted voice is not deterministic: the
speech cache is what makes a build repeatable.
"""

from __future__ import annotations

import os

import numpy as np

from workbench.audio import from_pcm16
from workbench.construct.voices import Person, own_voice
from workbench.errors import InputError
from workbench.files import content_key

RATE_HZ = 24_000  # what the endpoint's `pcm` format is: 16-bit little-endian mono without a header
OPENAI_URL = "https://api.openai.com/v1"
VOICES = "alloy,ash,coral,echo,fable,nova,onyx,sage,shimmer"


class OpenAIEngine:
    """See the module's text."""

    name = "openai"
    people: dict[str, Person] = {}

    def __init__(
        self,
        model: str = "gpt-4o-mini-tts",
        base_url: str | None = None,
        voices: str = VOICES,
        instructions: str = "",
        key_env: str = "OPENAI_API_KEY",
        timeout_s: str = "60",
        retries: str = "4",
    ):
        self.model, self.instructions, self.key_env = model, instructions, key_env
        self.base_url = (base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL).rstrip("/")
        self.voices = tuple(f"{self.name}:{voice.strip()}" for voice in voices.split(",") if voice.strip())
        try:
            self.timeout_s, self.retries = float(timeout_s), int(retries)
        except ValueError:
            raise InputError(
                f"The speech engine 'openai' needs numbers, not timeout_s={timeout_s} and retries={retries}."
            ) from None
        self._client = None

    def version(self) -> str:
        # The same model name on another server is another voice; its address is not worth showing.
        return f"{self.model} at {content_key(self.base_url, self.instructions, length=8)}"

    def say(self, text: str, voice: str, *, attempt: int = 0) -> tuple[np.ndarray, int]:
        from openai import APIError

        own = own_voice(self, voice)
        more = {"instructions": self.instructions} if self.instructions else {}
        try:
            answer = self._connected().audio.speech.create(
                model=self.model, voice=own, input=text, response_format="pcm", **more
            )
        except APIError as error:
            raise InputError(
                f"{self.base_url} did not say {text!r} in {own!r} (model {self.model}): {self._without_key(error)}. "
                "Check the address, the model, the voice and the key."
            ) from None
        content = answer.content
        if len(content) < 2 or len(content) % 2 or content[:4] in (b"RIFF", b"OggS", b"fLaC"):
            raise InputError(
                f"{self.base_url} answered {len(content)} bytes that are not 16-bit PCM for {text!r}; "
                "the server must honour response_format=pcm (24 kHz mono, no header)."
            )
        return from_pcm16(np.frombuffer(content, dtype="<i2")), RATE_HZ

    def _without_key(self, error: Exception) -> str:
        """A server may repeat the key in what it answers; a log must not."""
        key = os.environ.get(self.key_env)
        told = str(error)[:300].rstrip(".")
        return told.replace(key, "(key)") if key else told

    def _connected(self):
        if self._client is None:
            from openai import OpenAI

            key = os.environ.get(self.key_env)
            if not key and self.base_url == OPENAI_URL:
                raise InputError(
                    f"The speech engine 'openai' needs a key: set {self.key_env}, or name another server with base_url."
                )
            # Local servers take any key, but the client insists on one.
            self._client = OpenAI(
                api_key=key or "none", base_url=self.base_url, timeout=self.timeout_s, max_retries=self.retries
            )
        return self._client
