"""The speech cache: what a clip is, and that it is made once, whole, and the same for everyone."""

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import soundfile

from workbench.construct import speech
from workbench.construct.speech import SpeechCache, process, trim
from workbench.errors import InputError
from workbench.files import sha256_of

RATE_HZ = 24_000


class Counting:
    """An engine that counts its work: a tone as long as the text, with silence around it."""

    name = "counting"
    voices = ("counting:a", "counting:b")

    def __init__(self, release="1", noise=False):
        self.release, self.noise, self.said = release, noise, []

    def version(self):
        return self.release

    def say(self, text, voice, *, attempt=0):
        self.said.append((text, voice, attempt))
        tone = 0.1 * np.sin(2 * np.pi * 200 * np.arange(1600 * len(text)) / 16_000)
        if self.noise:
            tone += 0.05 * np.random.default_rng().standard_normal(len(tone))
        silence = np.zeros(4800)
        return np.concatenate([silence, tone, silence]).astype(np.float32), 16_000


def test_a_clip_is_trimmed_levelled_and_exactly_what_the_file_holds(tmp_path):
    clip = SpeechCache(tmp_path).render("Fish soup, please. Thanks.", "hibari:mid")
    assert clip.rate_hz == RATE_HZ and clip.samples.dtype == np.float32 and clip.samples.ndim == 1
    stored, rate_hz = soundfile.read(clip.path, dtype="float32")
    assert rate_hz == RATE_HZ and np.array_equal(stored, clip.samples)
    assert soundfile.info(clip.path).subtype == "PCM_16" and sha256_of(clip.path) == clip.sha256
    rms_dbfs = 20 * np.log10(np.sqrt(np.mean(clip.samples**2)))
    assert rms_dbfs == pytest.approx(-23.0, abs=0.2) and np.abs(clip.samples).max() < 10 ** (-1 / 20)
    # The guard is quiet, and speech stands right behind it.
    guard = round(speech.GUARD_S * RATE_HZ)
    level = np.abs(clip.samples).max()
    assert np.abs(clip.samples[:guard]).max() < 0.02 * level and np.abs(clip.samples[-guard:]).max() < 0.02 * level
    assert np.abs(clip.samples[guard : 3 * guard]).max() > 0.02 * level
    assert np.abs(clip.samples[[0, -1]]).max() == 0.0
    with pytest.raises(ValueError):
        clip.samples[0] = 1.0


def test_the_second_time_nothing_is_synthesised_and_the_bytes_are_the_same(tmp_path):
    engine = Counting()
    first = SpeechCache(tmp_path, engine).render("One two three.", "counting:a")
    content = first.path.read_bytes()
    again = SpeechCache(tmp_path, engine).render("  One two\nthree. ", "a")
    assert len(engine.said) == 1
    assert again.key == first.key and again.path.read_bytes() == content
    assert np.array_equal(again.samples, first.samples)


def test_two_folders_get_the_same_bytes(tmp_path):
    one, two = (SpeechCache(tmp_path / name).render("Right, okay.", "hibari:deep") for name in "ab")
    assert one.key == two.key and one.path.read_bytes() == two.path.read_bytes()


def test_whatever_changes_the_sound_changes_the_key(tmp_path, monkeypatch):
    def key(text="Hello.", voice="a", release="1", attempt=0):
        return SpeechCache(tmp_path, Counting(release)).render(text, voice, attempt=attempt).key

    keys = [key(), key(text="Hello!"), key(voice="b"), key(release="2"), key(attempt=1)]
    monkeypatch.setattr(speech, "PROCESSING_VERSION", 99)
    assert len({*keys, key()}) == 6


@pytest.mark.parametrize("damage", ["cut", "flipped", "no wav", "no json", "cut json", "alien json"])
def test_a_damaged_entry_is_made_again(tmp_path, damage):
    engine = Counting()
    cache = SpeechCache(tmp_path, engine)
    clip = cache.render("Hello.", "a")
    good, entry = clip.path.read_bytes(), cache.entry(clip.key)
    if damage == "cut":
        clip.path.write_bytes(good[:1000])
    elif damage == "flipped":
        clip.path.write_bytes(good[:1000] + bytes([good[1000] ^ 255]) + good[1001:])
    elif damage == "no wav":
        clip.path.unlink()
    elif damage == "no json":
        entry.unlink()
    elif damage == "cut json":
        entry.write_text(entry.read_text()[:20])
    else:
        entry.write_text(json.dumps({"wav": "../../etc/passwd", "sha256": 3}))
    healed = cache.render("Hello.", "a")
    assert len(engine.said) == 2 and healed.path.read_bytes() == good
    cache.render("Hello.", "a")
    assert len(engine.said) == 2
    assert not [path for path in tmp_path.rglob(".*")], "no temporary file is left"


def test_racing_threads_agree_on_one_clip_even_when_the_engine_is_not_exact(tmp_path):
    cache, clips = SpeechCache(tmp_path, Counting(noise=True)), []
    threads = [threading.Thread(target=lambda: clips.append(cache.render("Hello.", "a"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(clips) == 8
    settled = SpeechCache(tmp_path, Counting()).render("Hello.", "a")
    assert {clip.sha256 for clip in clips} == {settled.sha256}


PROCESS = """
import sys
sys.path.insert(0, sys.argv[2])
from test_speech import Counting
from workbench.construct.speech import SpeechCache
cache = SpeechCache(sys.argv[1], Counting(noise=True))
print(" ".join(cache.render(f"Text {n}.", "a").sha256 for n in range(40)))
"""


def test_racing_processes_agree_on_every_clip(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", PROCESS, str(tmp_path), os.path.dirname(__file__)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(3)]
    said = [process.communicate()[0].split() for process in running]
    assert all(process.returncode == 0 for process in running)
    assert len(said[0]) == 40 and said[0] == said[1] == said[2]


def test_trimming_drops_long_breath_and_keeps_weak_onsets():
    rng = np.random.default_rng(0)
    tone = 0.3 * np.sin(2 * np.pi * 200 * np.arange(12_000) / RATE_HZ)
    weak = lambda seconds, db: 0.3 * 10 ** (db / 20) * rng.standard_normal(round(seconds * RATE_HZ)) / np.sqrt(2)  # noqa: E731
    whole = np.concatenate([np.zeros(7200), weak(0.08, -32), tone, weak(0.6, -32), np.zeros(7200)]).astype(np.float32)
    kept = trim(whole)
    assert len(kept) / RATE_HZ == pytest.approx(0.02 + 0.08 + 0.5 + speech.WEAK_S + 0.02, abs=0.011)


def test_speech_that_touches_the_ends_still_gets_its_guard():
    tone = (0.3 * np.sin(2 * np.pi * 200 * np.arange(12_000) / RATE_HZ)).astype(np.float32)
    kept = trim(tone)
    assert len(kept) == 12_000 + 2 * 480
    assert not kept[:480].any() and not kept[-480:].any() and np.array_equal(kept[480:-480], tone)


def test_a_peaky_clip_stays_below_the_peak_limit():
    spikes = np.full(24_000, 0.001, np.float32)
    spikes[::2400] = 0.9
    assert np.abs(process(spikes, RATE_HZ)).max() <= 32768 * 10 ** (-1 / 20) + 1


@pytest.mark.parametrize(
    "samples, told",
    [
        (np.zeros(2400, np.float32), "silence"),
        (np.zeros(0, np.float32), "shape"),
        (np.zeros((100, 2), np.float32), "mono"),
        (np.array([0.1, np.nan] * 100, np.float32), "NaN"),
    ],
)
def test_what_is_not_speech_is_refused(samples, told):
    with pytest.raises(InputError, match=told):
        process(samples, RATE_HZ)


def test_empty_text_is_refused_and_a_mute_engine_is_named(tmp_path, monkeypatch):
    engine = Counting()
    with pytest.raises(InputError, match=r"nothing to say"):
        SpeechCache(tmp_path, engine).render("  \n", "a")
    monkeypatch.setattr(engine, "say", lambda *_, **__: (np.zeros(2400, np.float32), RATE_HZ))
    with pytest.raises(InputError, match=r"counting:a did not say 'Hello.'"):
        SpeechCache(tmp_path, engine).render("Hello.", "a")


def test_the_default_folder_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "mine"))
    assert SpeechCache(engine=Counting()).folder == tmp_path / "mine" / "speech"
    monkeypatch.delenv("WORKBENCH_CACHE")
    assert SpeechCache(engine=Counting()).folder.parts[-2:] == ("duplex-workbench", "speech")


def test_no_pause_inside_a_clip_is_longer_than_what_a_synthesiser_may_decide():
    tone = (0.2 * np.sin(np.arange(12_000) * 0.2)).astype(np.float32)
    samples = np.concatenate([tone, np.zeros(30_000, np.float32), tone, np.zeros(6_000, np.float32), tone])
    finished = speech.process(samples, 24_000)
    quiet = np.flatnonzero(np.diff(np.flatnonzero(np.abs(finished) > 100)) > 1_000)
    gaps = np.diff(np.flatnonzero(np.abs(finished) > 100))[quiet] / 24_000
    assert gaps == pytest.approx([speech.PAUSE_S, 0.25], abs=0.02)


@pytest.mark.parametrize("spike_s", [0.001, 0.03])
def test_a_spike_of_the_synthesiser_lowers_nothing_but_itself(spike_s):
    tone = 0.1 * np.sin(2 * np.pi * 200 * np.arange(2 * RATE_HZ) / RATE_HZ).astype(np.float32)
    spoilt = tone.copy()
    spoilt[RATE_HZ : RATE_HZ + round(spike_s * RATE_HZ)] = 0.95
    plain, spiked = (process(samples, RATE_HZ).astype(float) for samples in (tone, spoilt))
    assert len(plain) == len(spiked)
    away = np.abs(np.arange(len(plain)) - RATE_HZ) > 0.06 * RATE_HZ
    assert np.sqrt(np.mean(spiked[away] ** 2) / np.mean(plain[away] ** 2)) == pytest.approx(1.0, abs=0.06)
    assert np.abs(spiked).max() <= 10 ** (speech.PEAK_DBFS / 20) * 32768 + 1
