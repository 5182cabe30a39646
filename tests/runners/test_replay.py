"""Recordings made elsewhere become a run: roles, rates, formats, and where the cues are."""

import json

import numpy as np
import pytest
import soundfile

from workbench import audio, datasets, episodes
from workbench.cases import RATE_HZ, AfterOnset, AtTime, AudioRef, Case, Cue, PromptPart, Window
from workbench.errors import InputError
from workbench.files import sha256_of
from workbench.runners.recorder import replay
from workbench.runners.replay import MATCH, Source, find_clip, import_recordings
from workbench.runs import load_run


def speechlike(seconds: float, seed: int) -> np.ndarray:
    """Noise with a slow envelope: matches itself in one place only. int16 (samples,) at 24 kHz."""
    rng = np.random.default_rng(seed)
    n = round(seconds * RATE_HZ)
    noise = np.convolve(rng.standard_normal(n + 30), np.hanning(30) / 15, "same")[:n]
    steps = np.arange(0, n + 2400, 2400)
    envelope = np.interp(np.arange(n), steps, rng.uniform(0.2, 1, steps.size))
    return audio.to_pcm16(0.2 * noise * envelope)


CLIPS = {"turn_1": speechlike(1.0, 1), "turn_2": speechlike(0.8, 2)}
STARTS = {"turn_1": 0.5, "turn_2": 2.6}


@pytest.fixture
def dataset(tmp_path):
    folder = tmp_path / "dataset"
    cues = []
    for name, start in (("turn_1", AtTime(time_s=0)), ("turn_2", AfterOnset(delay_s=0.4, max_wait_s=5))):
        path = folder / "audio" / f"{name}.wav"
        audio.write_pcm16(path, CLIPS[name], RATE_HZ)
        ref = AudioRef(path=f"audio/{name}.wav", sha256=sha256_of(path), samples=CLIPS[name].size)
        cues.append(Cue(id=name, text="", audio=ref, start=start))
    cases = [
        Case(
            id=name,
            benchmark="test",
            conversation=name,
            stream="s",
            prompt=(PromptPart(name="role", text="Be brief."),),
            cues=tuple(cues),
            windows={"answer": Window(cue="turn_2", start_s=0.1, end_s=0.6)},
        )
        for name in ("one", "two")
    ]
    datasets.write(folder, cases, version="1", author="test", speech=None)
    return datasets.load(folder)


def recording(agent_from_s: float = 2.0) -> np.ndarray:
    """float32 (samples, 2): the user where STARTS says, the agent from `agent_from_s` for two seconds."""
    sides = np.zeros((5 * RATE_HZ, 2), np.float32)
    for name, start_s in STARTS.items():
        at = round(start_s * RATE_HZ)
        sides[at : at + CLIPS[name].size, 0] = audio.from_pcm16(CLIPS[name])
    at = round(agent_from_s * RATE_HZ)
    sides[at : at + 2 * RATE_HZ, 1] = audio.from_pcm16(speechlike(2.0, 3))
    return sides


def bring_in(dataset, folder, tmp_path, **options):
    out = tmp_path / "run"
    result = import_recordings(Source(dataset, folder, "theirs", **options), out, workers=1)
    return result, load_run(out)


def write(folder, name, samples, rate_hz=RATE_HZ, **how):
    folder.mkdir(exist_ok=True)
    soundfile.write(folder / name, audio.resample(samples, RATE_HZ, rate_hz), rate_hz, **how)


@pytest.mark.parametrize(
    ("name", "rate_hz", "how"),
    [
        ("one.wav", 24_000, {"subtype": "PCM_16"}),
        ("one.wav", 48_000, {"subtype": "FLOAT"}),
        ("one.flac", 44_100, {}),
        ("one.stereo.ogg", 16_000, {"format": "OGG", "subtype": "VORBIS"}),
        ("one.mp3", 48_000, {"format": "MP3"}),
    ],
)
def test_a_stereo_file_in_any_format_and_rate(dataset, tmp_path, name, rate_hz, how):
    write(tmp_path / "theirs", name, recording(), rate_hz, **how)
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert (result.cases, result.absent, result.unplaced, result.problems) == (1, ["two"], [], [])
    record = run.record("one")
    assert record.status == "complete"
    assert (record.clock, run.meta.clock) == ("recorded", "recorded")
    # Lossy formats have delays of their own of some milliseconds.
    for cue, start_s in STARTS.items():
        assert record.cue(cue).start_s == pytest.approx(start_s, abs=0.055 if "mp3" in name else 0.002)
    assert record.onset_s == pytest.approx(2.0, abs=0.06)
    start, end = record.windows["answer"]
    assert (start, end) == pytest.approx((record.cue("turn_2").start_s + 0.1, record.cue("turn_2").start_s + 0.6))
    stereo = episodes.load_audio(run.episodes, record)
    assert np.abs(stereo[: RATE_HZ // 2 - 2400, 0]).max() < 0.02
    assert record.system_prompt == "Be brief."
    assert record.transcript is None


def test_the_log_gives_the_recorded_channel(dataset, tmp_path):
    write(tmp_path / "theirs", "one.wav", recording())
    _, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    record = run.record("one")
    agent = audio.to_pcm16(episodes.load_audio(run.episodes, record)[:, 1])
    assert np.array_equal(replay(record.deliveries, agent, agent.size), agent)


def test_two_mono_files_of_different_length_and_rate(dataset, tmp_path):
    sides = recording()
    write(tmp_path / "theirs", "one.user.wav", sides[: 4 * RATE_HZ, 0], 16_000)
    write(tmp_path / "theirs", "one.agent.flac", sides[:, 1], 48_000)
    _, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    record = run.record("one")
    assert record.duration_s == pytest.approx(5.0, abs=0.001)
    assert record.cue("turn_2").start_s == pytest.approx(2.6, abs=0.002)


def test_channel_roles_are_as_declared(dataset, tmp_path):
    write(tmp_path / "theirs", "one.wav", recording()[:, ::-1])
    _, run = bring_in(dataset, tmp_path / "theirs", tmp_path, user=1, agent=0)
    assert run.record("one").cue("turn_1").start_s == pytest.approx(0.5, abs=0.002)


def test_a_cue_that_is_not_there_has_no_time_and_a_reason(dataset, tmp_path):
    sides = recording()
    sides[round(2.5 * RATE_HZ) :, 0] = 0
    write(tmp_path / "theirs", "one.wav", sides)
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    record = run.record("one")
    cue = record.cue("turn_2")
    assert cue.start_s is None
    assert "not found" in cue.reason or "silent" in cue.reason
    assert record.windows["answer"] is None
    assert len(result.unplaced) == 1 and "case one, cue turn_2" in result.unplaced[0]


def test_a_noisy_faint_and_filtered_user_is_still_found():
    rng = np.random.default_rng(0)
    channel = recording()[:, 0] * 0.05
    channel = np.convolve(channel, np.hanning(5) / 3, "same") + rng.normal(0, 0.001, channel.size)
    start_s, reason = find_clip(CLIPS["turn_2"], audio.to_pcm16(channel.astype(np.float32)))
    assert reason is None
    assert start_s == pytest.approx(2.6, abs=0.003)


def test_somebody_elses_speech_is_not_taken_for_the_clip():
    start_s, reason = find_clip(speechlike(0.8, 9), audio.to_pcm16(recording()[:, 0]))
    assert start_s is None
    assert float(reason.split("best match ")[1].split(" ")[0]) < MATCH / 2


def test_a_sidecar_gives_times_and_words(dataset, tmp_path):
    write(tmp_path / "theirs", "one.wav", recording())
    given = {"cues": {"turn_1": 0.25, "turn_2": None}, "transcript": [{"t_s": 2.0, "text": "Yes, "}]}
    (tmp_path / "theirs" / "one.json").write_text(json.dumps(given))
    _, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    record = run.record("one")
    assert record.cue("turn_1").start_s == 0.25
    assert record.cue("turn_2").reason == "the sidecar says that it was not played"
    assert record.text == "Yes,"


@pytest.mark.parametrize(
    ("name", "samples", "words"),
    [
        ("one.wav", np.zeros((100, 1), np.float32), "where two are needed"),
        ("one.user.wav", np.zeros((100, 1), np.float32), "the other side"),
        ("one.wav", b"RIFF, but no more than that", "cannot be read as audio"),
    ],
)
def test_what_cannot_be_used_is_named_and_the_rest_is_imported(dataset, tmp_path, name, samples, words):
    folder = tmp_path / "theirs"
    write(folder, "two.wav", recording())
    if isinstance(samples, bytes):
        (folder / name).write_bytes(samples)
    else:
        write(folder, name, samples)
    result, run = bring_in(dataset, folder, tmp_path)
    assert result.cases == 1
    assert run.recorded() == ["two"]
    (problem,) = result.problems
    assert problem.startswith("case one: ") and words in problem


def test_a_bad_sidecar_is_named(dataset, tmp_path):
    write(tmp_path / "theirs", "one.wav", recording())
    (tmp_path / "theirs" / "one.json").write_text('{"cues": {"turn_1": 99}}')
    result, _ = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert "starts cue 'turn_1' at 99" in result.problems[0]


def test_what_makes_no_sense_is_refused(dataset, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match=r"holds no recording of any case; name them one\.wav"):
        import_recordings(Source(dataset, empty, "x"), tmp_path / "run")
    with pytest.raises(InputError, match="one for each role"):
        import_recordings(Source(dataset, empty, "x", user=0, agent=0), tmp_path / "run")
    with pytest.raises(InputError, match="is not a folder"):
        import_recordings(Source(dataset, tmp_path / "nowhere", "x"), tmp_path / "run")
    with pytest.raises(InputError, match="is not empty"):
        import_recordings(Source(dataset, empty, "x"), dataset.folder)
