"""Any synthesiser with a command line: espeak-ng, flite, piper, say.

Options: `template` (the command line), `voices` (comma-separated), `timeout_s` (60). The template is split
into arguments first and filled in afterwards, and no shell reads it, so text cannot become a command.

    espeak-ng -v {voice} -w {out} {text}
    flite -voice {voice} -t {text} -o {out}
    piper -m /models/{voice}.onnx -f {out}

`{out}` is where the command must write a WAV (or FLAC, OGG). Text goes to standard input where the
template has no `{text}`.
"""

from __future__ import annotations

import functools
import shlex
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from workbench import audio
from workbench.construct.voices import Person, own_voice
from workbench.errors import InputError
from workbench.files import content_key


class CommandEngine:
    """See the module's text."""

    name = "command"
    people: dict[str, Person] = {}

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
        self.voices = tuple(f"{self.name}:{voice.strip()}" for voice in voices.split(",") if voice.strip())
        try:
            self.timeout_s = float(timeout_s)
        except ValueError:
            raise InputError(f"The speech engine 'command' needs a number, not timeout_s={timeout_s}.") from None

    @functools.cached_property
    def _version(self) -> str:
        # What the program calls itself, so that an upgrade renders anew; some programs do not say.
        try:
            asked = subprocess.run(
                [self.arguments[0], "--version"],
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=5,
            )
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
            filled = [
                _fill(argument, {"{voice}": own, "{out}": str(out), "{text}": text}) for argument in self.arguments
            ]
            shown = shlex.join(filled[:1])
            try:
                done = subprocess.run(
                    filled,
                    check=False,
                    input=b"" if takes_text else text.encode(),
                    capture_output=True,
                    timeout=self.timeout_s,
                )
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


def _fill(argument: str, values: dict[str, str]) -> str:
    """Replace the placeholders in one pass, so that braces in the text stay as they are."""
    filled, rest = "", argument
    while rest:
        found = [(rest.find(name), name) for name in values if name in rest]
        if not found:
            return filled + rest
        at, name = min(found)
        filled, rest = filled + rest[:at] + values[name], rest[at + len(name) :]
    return filled
