"""Engines: the registry, hibari's speakers, OpenAI's endpoint against a real server, command lines, Kokoro."""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import librosa
import numpy as np
import pytest

from workbench.construct.hibari import VARIANTS
from workbench.construct.voices import ENGINES, Person, Recorded, cast, engine_for, load_engine
from workbench.errors import InputError

SENTENCE = "I wanted to ask about the billing statement I received last Tuesday, because the amount looks wrong to me."


def median_f0_hz(samples, rate_hz):
    """Median pitch of the loud frames."""
    pitch_hz = librosa.yin(samples, fmin=70, fmax=400, sr=rate_hz, frame_length=2048, hop_length=256)
    level = librosa.feature.rms(y=samples, frame_length=2048, hop_length=256)[0]
    return float(np.median(pitch_hz[level > 0.4 * level.max()]))


def test_every_engine_is_in_the_registry_and_an_unknown_one_is_named():
    assert set(ENGINES) == {"hibari", "kokoro", "openai", "command"}
    with pytest.raises(InputError, match=r"no speech engine 'nope'.*hibari"):
        load_engine("nope")
    with pytest.raises(InputError, match=r"no option 'pitch'"):
        load_engine("openai?pitch=2")
    with pytest.raises(InputError, match=r"'fast'.*option=value"):
        load_engine("openai?fast")


def test_hibari_says_the_same_samples_again_and_others_on_another_attempt():
    engine = load_engine("hibari")
    first, rate_hz = engine.say(SENTENCE, "hibari:low")
    again, _ = engine.say(SENTENCE, "low")
    assert rate_hz == 24_000 and first.dtype == np.float32 and first.ndim == 1
    assert np.array_equal(first, again)
    other, _ = engine.say(SENTENCE, "hibari:low", attempt=1)
    assert len(other) != len(first)


def test_hibari_speaks_as_four_women_and_four_men_with_adult_pitches():
    engine = load_engine("hibari")
    pitches = {voice: median_f0_hz(*engine.say(SENTENCE, voice)) for voice in engine.voices}
    assert set(engine.people) == set(engine.voices)
    for sex, low, high in (("male", 85, 150), ("female", 145, 245)):
        own = sorted(pitch for voice, pitch in pitches.items() if engine.people[voice].sex == sex)
        assert len(own) == 4 and low < own[0] and own[-1] < high, own
        assert np.diff(np.log2(own)).min() * 12 > 0.3, f"{sex} speakers are {own} Hz"
    # A vocal tract beyond these sizes is no adult's.
    assert all(0.8 <= variant.size <= 1.08 for variant in VARIANTS.values())


def test_an_unknown_voice_and_unreadable_text_are_refused_with_a_sentence():
    engine = load_engine("hibari")
    with pytest.raises(InputError, match=r"no voice 'baritone'.*hibari:mid"):
        engine.say("Hello.", "baritone")
    with pytest.raises(InputError, match=r"nothing to say"):
        engine.say(" ", "mid")


# --- casting ---------------------------------------------------------------------------------------


def test_whoever_speaks_gets_a_voice_of_their_sex_and_age_and_always_the_same():
    engine = load_engine("hibari")
    for sex in ("female", "male"):
        for age in ("under 18", "18 to 24", "25 to 34", "35 to 49", "50 to 64", "65 and over"):
            chosen = [cast(f"key {number}", {"user": Person(sex, age)}, engine)["user"] for number in range(20)]
            assert chosen == [cast(f"key {n}", {"user": Person(sex, age)}, engine)["user"] for n in range(20)]
            assert {engine.people[voice].sex for voice in chosen} == {sex}
            best = min(Person(sex, age).distance(person) for person in engine.people.values())
            assert {Person(sex, age).distance(engine.people[voice]) for voice in chosen} == {best}
    anybody = {cast(f"key {number}", {"user": Person()}, engine)["user"] for number in range(100)}
    assert anybody == set(engine.voices)


def test_a_conversation_has_as_many_voices_as_speakers_and_an_engine_with_fewer_is_refused():
    engine = load_engine("hibari")
    women = {name: Person("female", "25 to 34") for name in "abcd"}
    chosen = cast("key", women | {"narrator": Person()}, engine)
    assert len(set(chosen.values())) == 5 and list(chosen) == [*"abcd", "narrator"]
    assert all(engine.people[chosen[name]].sex == "female" for name in "abcd")
    with pytest.raises(InputError, match=r"key needs 9 voices.*'hibari' has 8.*take an engine with more"):
        cast("key", dict.fromkeys("abcdefghi", Person()), engine)


def test_a_header_is_enough_to_cast_again():
    engine = load_engine("hibari")
    recorded = Recorded.of({"engine": "hibari", "version": "1", "voices": list(engine.voices)})
    people = {"a": Person("male", "65 and over"), "b": Person("female")}
    assert cast("key", people, recorded) == cast("key", people, engine)


def test_kokoro_is_the_engine_of_a_full_build_where_it_is_installed(monkeypatch, tmp_path):
    monkeypatch.delenv("WORKBENCH_KOKORO", raising=False)
    assert engine_for(None, full=True) == engine_for(None, full=False) == "hibari"
    install(tmp_path, "af_heart", "bm_george")
    monkeypatch.setenv("WORKBENCH_KOKORO", str(tmp_path))
    assert engine_for(None, full=True) == "kokoro" and engine_for(None, full=False) == "hibari"
    assert engine_for("command?template=x", full=True) == "command?template=x"


# --- OpenAI's endpoint -----------------------------------------------------------------------------


class SpeechServer(BaseHTTPRequestHandler):
    """POST /v1/audio/speech as OpenAI documents it: JSON in, `pcm` out; the first request is refused for load."""

    requests: list
    behaviour = "tone"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).requests.append((self.path, self.headers["Authorization"], asked))
        if self.behaviour == "refuse":
            told = self.headers["Authorization"].removeprefix("Bearer ")
            return self.answer(401, json.dumps({"error": {"message": f"bad key {told}"}}).encode(), "application/json")
        if len(self.requests) == 1:
            return self.answer(503, b'{"error": {"message": "busy"}}', "application/json")
        if self.behaviour == "wav":
            return self.answer(200, b"RIFF" + bytes(40), "audio/wav")
        frequency_hz = 100 + len(asked["voice"]) * 10
        tone = 0.25 * np.sin(2 * np.pi * frequency_hz * np.arange(2400 * len(asked["input"])) / 24_000)
        return self.answer(200, (tone * 32767).astype("<i2").tobytes(), "audio/pcm")

    def answer(self, status, body, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def speech_server():
    handler = type("Handler", (SpeechServer,), {"requests": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield handler, f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def test_openai_engine_speaks_to_a_server_and_the_client_retries(speech_server, monkeypatch):
    handler, url = speech_server
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-123")
    engine = load_engine(f"openai?base_url={url}&model=tts-x&voices=alloy,my-own")
    assert engine.voices == ("openai:alloy", "openai:my-own")
    samples, rate_hz = engine.say("Hello there.", "openai:my-own")
    assert rate_hz == 24_000 and samples.dtype == np.float32 and len(samples) == 2400 * 12
    assert np.abs(samples).max() == pytest.approx(0.25, abs=0.001)
    assert len(handler.requests) == 2, "the refused request is sent once more by the client"
    path, authorization, asked = handler.requests[-1]
    assert path == "/v1/audio/speech" and authorization == "Bearer secret-key-123"
    assert asked == {"model": "tts-x", "voice": "my-own", "input": "Hello there.", "response_format": "pcm"}
    assert "secret" not in engine.version() and "secret" not in repr(vars(engine))
    assert load_engine(f"openai?base_url={url}&model=tts-y").version() != engine.version()


def test_openai_engine_words_a_refusal_without_the_key(speech_server, monkeypatch):
    handler, url = speech_server
    handler.behaviour = "refuse"
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key-123")
    with pytest.raises(InputError, match=r"did not say 'Hello.'") as caught:
        load_engine(f"openai?base_url={url}").say("Hello.", "alloy")
    assert "secret-key-123" not in str(caught.value) and "(key)" in str(caught.value)


def test_openai_engine_refuses_what_is_not_pcm(speech_server):
    handler, url = speech_server
    handler.behaviour = "wav"
    with pytest.raises(InputError, match=r"not 16-bit PCM"):
        load_engine(f"openai?base_url={url}").say("Hello.", "alloy")


def test_openai_engine_without_a_key_says_which_variable(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InputError, match=r"set OPENAI_API_KEY"):
        load_engine("openai").say("Hello.", "alloy")


# --- commands --------------------------------------------------------------------------------------

TOOL = """
import sys, numpy as np, soundfile
voice, out = sys.argv[1:3]
text = sys.argv[3] if len(sys.argv) > 3 else sys.stdin.read()
if voice == "broken":
    sys.exit("no such voice")
seconds = len(text) / 10
pitch_hz = {"low": 110, "high": 220}[voice]
soundfile.write(out, 0.3 * np.sin(2 * np.pi * pitch_hz * np.arange(round(8000 * seconds)) / 8000), 8000)
"""


@pytest.fixture
def tool(tmp_path):
    path = tmp_path / "my tool.py"
    path.write_text(TOOL)
    return f"'{sys.executable}' '{path}'"


def test_command_engine_passes_text_as_one_argument_without_a_shell(tool, tmp_path):
    engine = load_engine(f"command?template={tool} {{voice}} {{out}} {{text}}&voices=low,high,broken")
    text = f"Don't; touch '{tmp_path}/owned' $(id) {{out}}"
    samples, rate_hz = engine.say(text, "command:high")
    assert rate_hz == 8000 and len(samples) == pytest.approx(800 * len(text), abs=1)
    assert median_f0_hz(samples, rate_hz) == pytest.approx(220, rel=0.03)
    assert not (tmp_path / "owned").exists()
    with pytest.raises(InputError, match=r"ended with 1 for 'Hi.': no such voice"):
        engine.say("Hi.", "broken")


def test_command_engine_gives_the_text_on_standard_input_where_the_template_has_none(tool):
    engine = load_engine(f"command?template={tool} {{voice}} {{out}}&voices=low")
    samples, rate_hz = engine.say("Hello.", "low")
    assert len(samples) / rate_hz == pytest.approx(0.6, abs=0.01)


def test_command_engine_refuses_a_template_without_out_and_a_missing_program():
    with pytest.raises(InputError, match=r"has no {out}"):
        load_engine("command?template=espeak-ng {text}")
    with pytest.raises(InputError, match=r"cannot be started"):
        load_engine("command?template=no-such-program-here {out}").say("Hi.", "default")


# --- Kokoro ----------------------------------------------------------------------------------------


def install(folder, *voices, model=b"x"):
    for voice in voices:
        np.zeros((510, 256), np.float32).tofile(folder / f"{voice}.bin")
    (folder / "model.onnx").write_bytes(model)


def test_kokoro_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.delenv("WORKBENCH_KOKORO", raising=False)
    with pytest.raises(InputError, match=r"has no voice files such as af_heart.bin. Run `workbench voices get kokoro`"):
        load_engine("kokoro")
    install(tmp_path, "af_heart", "am_santa")
    with pytest.raises(InputError, match=r"has no af_nobody.bin"):
        load_engine(f"kokoro?folder={tmp_path}&voices=af_nobody")
    engine = load_engine(f"kokoro?folder={tmp_path}")
    assert engine.voices == ("kokoro:af_heart",) and engine.people["kokoro:af_heart"].sex == "female"
    assert load_engine(f"kokoro?folder={tmp_path}&voices=am_santa").people["kokoro:am_santa"].sex == "male"


@pytest.mark.skipif("WORKBENCH_KOKORO" not in os.environ, reason="WORKBENCH_KOKORO names no folder with Kokoro voices")
def test_kokoro_speaks_when_it_is_installed():
    engine = load_engine("kokoro")
    low, rate_hz = engine.say("Hello there.", "am_michael")
    high, _ = engine.say("Hello there.", "af_heart")
    assert rate_hz == 24_000
    assert median_f0_hz(low, rate_hz) < 160 < median_f0_hz(high, rate_hz)
