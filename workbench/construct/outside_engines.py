"""Speech engines outside this process: a command line (espeak-ng, flite, piper, say), or a server."""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from workbench import audio
from workbench.construct.voices import Person, own_voice
from workbench.errors import InputError
from workbench.files import content_key

OPENAI_RATE_HZ = 24_000  # what the endpoint's `pcm` format is: 16-bit little-endian mono without a header
OPENAI_URL = "https://api.openai.com/v1"
OPENAI_VOICES = "alloy,ash,coral,echo,fable,nova,onyx,sage,shimmer"


class _Outside:
    """An engine whose voices are named by its options, and about whom nothing is known."""

    name: str
    people: dict[str, Person] = {}

    def _named(self, voices: str) -> tuple[str, ...]:
        return tuple(f"{self.name}:{voice.strip()}" for voice in voices.split(",") if voice.strip())

    def _number(self, option: str, value: str, kind: type = float) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise InputError(f"The speech engine {self.name!r} needs a number, not {option}={value}.") from None


class CommandEngine(_Outside):
    """Any synthesiser with a command line.

    template : the command line. It is split into arguments first and filled in afterwards, and no shell
        reads it, so text cannot become a command. `{out}` is where the command must write a WAV (or FLAC,
        OGG). Text goes to standard input where the template has no `{text}`.
    voices : comma-separated. timeout_s : of one text.

        espeak-ng -v {voice} -w {out} {text}
        flite -voice {voice} -t {text} -o {out}
        piper -m /models/{voice}.onnx -f {out}
    """

    name = "command"

    def __init__(self, template: str = "", voices: str = "default", timeout_s: str = "60"):
        try:
            self.arguments = shlex.split(template)
        except ValueError as error:
            raise InputError(f"The speech command {template!r} cannot be split into arguments: {error}.") from None
        if not self.arguments or not any("{out}" in argument for argument in self.arguments):
            raise InputError(
                f"The speech command {template!r} has no {{out}}; write for example "
                "command?template=espeak-ng -v {voice} -w {out} {text}&voices=en-us,en-gb"
            )
        self.voices, self.timeout_s = self._named(voices), self._number("timeout_s", timeout_s)

    @functools.cached_property
    def _version(self) -> str:
        # What the program calls itself, so that an upgrade renders anew; some programs do not say.
        ask = [self.arguments[0], "--version"]
        try:
            asked = subprocess.run(ask, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=5)
            said = asked.stdout.decode(errors="replace").strip() if asked.returncode == 0 else ""
        except (OSError, subprocess.TimeoutExpired):
            said = ""
        return f"{Path(self.arguments[0]).name} {content_key(self.arguments, said, length=8)}"

    def version(self) -> str:
        return self._version

    def say(self, text: str, voice: str, *, attempt: int = 0) -> tuple[np.ndarray, int]:
        own = own_voice(self, voice)
        takes_text = any("{text}" in argument for argument in self.arguments)
        if takes_text and text.startswith("-"):
            text = " " + text  # a program would take it for an option
        with tempfile.TemporaryDirectory(prefix="speech-") as folder:
            out = Path(folder) / "speech.wav"
            values = {"voice": own, "out": str(out), "text": text}
            # In one pass, so that braces in the text stay as they are.
            filled = [re.sub(r"\{(voice|out|text)\}", lambda at: values[at[1]], each) for each in self.arguments]
            shown = shlex.join(filled[:1])
            given = b"" if takes_text else text.encode()
            try:
                done = subprocess.run(filled, check=False, input=given, capture_output=True, timeout=self.timeout_s)
            except OSError as error:
                raise InputError(f"The speech command {shown} cannot be started ({error}); install it.") from None
            except subprocess.TimeoutExpired:
                raise InputError(
                    f"The speech command {shown} did not finish {text!r} within {self.timeout_s:g} s; raise timeout_s."
                ) from None
            if done.returncode != 0:
                told = done.stderr.decode(errors="replace").strip()[-300:]
                raise InputError(f"The speech command {shown} ended with {done.returncode} for {text!r}: {told}")
            samples, rate_hz = audio.read(out)
        return samples.mean(axis=1, dtype=np.float32), rate_hz


class OpenAIEngine(_Outside):
    """Any server that speaks OpenAI's text-to-speech endpoint (POST {base_url}/audio/speech), by its own client.

    base_url : OpenAI's, or $OPENAI_BASE_URL. voices : comma-separated. instructions : how to speak, for
    models that take them. key_env : the environment variable that holds the key, which is read when a
    request is made and kept nowhere. retries : with backoff, by the client.

    A hosted voice is not deterministic: the speech cache is what makes a build repeatable.
    """

    name = "openai"

    def __init__(
        self,
        model: str = "gpt-4o-mini-tts",
        base_url: str | None = None,
        voices: str = OPENAI_VOICES,
        instructions: str = "",
        key_env: str = "OPENAI_API_KEY",
        timeout_s: str = "60",
        retries: str = "4",
    ):
        self.model, self.instructions, self.key_env = model, instructions, key_env
        self.base_url = (base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL).rstrip("/")
        self.voices, self.timeout_s = self._named(voices), self._number("timeout_s", timeout_s)
        self.retries = self._number("retries", retries, int)

    def version(self) -> str:
        # The same model name on another server is another voice; its address is not worth showing.
        return f"{self.model} at {content_key(self.base_url, self.instructions, length=8)}"

    def say(self, text: str, voice: str, *, attempt: int = 0) -> tuple[np.ndarray, int]:
        from openai import APIError

        own = own_voice(self, voice)
        more = {"instructions": self.instructions} if self.instructions else {}
        try:
            answer = self._client.audio.speech.create(
                model=self.model, voice=own, input=text, response_format="pcm", **more
            )
        except APIError as error:
            key, told = os.environ.get(self.key_env), str(error)[:300].rstrip(".")
            told = told.replace(key, "(key)") if key else told  # a server may repeat it; a log must not
            raise InputError(
                f"{self.base_url} did not say {text!r} in {own!r} (model {self.model}): {told}. "
                "Check the address, the model, the voice and the key."
            ) from None
        content = answer.content
        if len(content) < 2 or len(content) % 2 or content[:4] in (b"RIFF", b"OggS", b"fLaC"):
            raise InputError(
                f"{self.base_url} answered {len(content)} bytes that are not 16-bit PCM for {text!r}; "
                "the server must honour response_format=pcm (24 kHz mono, no header)."
            )
        return audio.from_pcm16(np.frombuffer(content, dtype="<i2")), OPENAI_RATE_HZ

    @functools.cached_property
    def _client(self):
        from openai import OpenAI

        key = os.environ.get(self.key_env)
        if not key and self.base_url == OPENAI_URL:
            raise InputError(
                f"The speech engine 'openai' needs a key: set {self.key_env}, or name another server with base_url."
            )
        # Local servers take any key, but the client insists on one.
        return OpenAI(api_key=key or "none", base_url=self.base_url, timeout=self.timeout_s, max_retries=self.retries)
