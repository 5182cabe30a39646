"""Audio from anywhere is read, or refused in a sentence."""

import numpy as np
import pytest
import soundfile

from workbench import audio
from workbench.errors import InputError

TONE = (0.3 * np.sin(np.arange(2400) * 0.1)).astype(np.float32)


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT", "DOUBLE", "ULAW", "PCM_U8"])
@pytest.mark.parametrize("rate_hz", [8000, 24000, 44100, 48000])
def test_wav_of_any_subtype_and_rate(tmp_path, subtype, rate_hz):
    path = tmp_path / "x.wav"
    soundfile.write(path, np.column_stack([TONE, -TONE]), rate_hz, subtype=subtype)
    samples, found_hz = audio.read_stereo(path)
    assert found_hz == rate_hz and samples.dtype == np.float32
    assert np.abs(samples[:, 0] - TONE).max() < 0.02 and np.abs(samples[:, 1] + TONE).max() < 0.02


@pytest.mark.parametrize("suffix", ["flac", "ogg", "mp3"])
def test_other_containers(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    soundfile.write(path, np.tile(TONE, 10), 24000)
    assert audio.read(path)[1] == 24000


def test_extensible_header(tmp_path):
    path = tmp_path / "x.wav"
    soundfile.write(path, TONE, 24000, format="WAVEX", subtype="PCM_24")
    assert audio.read_mono(path, 24000).size == TONE.size


def test_placeholder_data_size_of_a_streaming_writer(tmp_path):
    path = tmp_path / "x.wav"
    soundfile.write(path, TONE, 24000)
    raw = bytearray(path.read_bytes())
    at = raw.find(b"data") + 4
    raw[at : at + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(raw)
    assert audio.read_mono(path, 24000).size == TONE.size


def test_refusals_name_file_and_remedy(tmp_path):
    cases = {
        "missing.wav": None,
        "empty.wav": b"",
        "text.wav": b"this is no audio at all",
    }
    for name, content in cases.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            audio.read(tmp_path / name)


def test_no_samples_truncation_and_nan(tmp_path):
    soundfile.write(tmp_path / "none.wav", np.zeros(0, np.float32), 24000)
    with pytest.raises(InputError, match="no samples"):
        audio.read(tmp_path / "none.wav")
    soundfile.write(tmp_path / "cut.wav", TONE, 24000)
    whole = (tmp_path / "cut.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="truncated"):
        audio.read(tmp_path / "cut.wav")
    broken = TONE.copy()
    broken[1200] = np.nan
    soundfile.write(tmp_path / "nan.wav", broken, 24000, subtype="FLOAT")
    with pytest.raises(InputError, match=r"NaN.*0\.050 s"):
        audio.read(tmp_path / "nan.wav")


def test_roles_need_two_channels_and_clips_one(tmp_path):
    soundfile.write(tmp_path / "mono.wav", TONE, 24000)
    with pytest.raises(InputError, match="1 channel, where two are needed"):
        audio.read_stereo(tmp_path / "mono.wav")
    soundfile.write(tmp_path / "stereo.wav", np.column_stack([TONE, TONE]), 24000)
    with pytest.raises(InputError, match="mono clip"):
        audio.read_mono(tmp_path / "stereo.wav", 24000)
    with pytest.raises(InputError, match="24000 Hz, where 16000 Hz"):
        audio.read_mono(tmp_path / "mono.wav", 16000)


def test_pcm16_keeps_zeros_and_clips():
    assert audio.to_pcm16(np.array([0.0, 1.0, -1.0, 2.0], np.float32)).tolist() == [0, 32767, -32768, 32767]


@pytest.mark.parametrize("from_hz", [8000, 16000, 44100, 48000])
def test_stream_resampling_has_no_drift_and_no_seams(from_hz):
    seconds = 3.0
    source = np.sin(2 * np.pi * 440 * np.arange(int(from_hz * seconds)) / from_hz).astype(np.float32)
    stream = audio.StreamResampler(from_hz, 24000)
    random = np.random.default_rng(1)
    parts, at = [], 0
    while at < source.size:
        step = int(random.integers(1, 2000))
        parts.append(stream(source[at : at + step], last=at + step >= source.size))
        at += step
    out = np.concatenate(parts)
    wanted = np.sin(2 * np.pi * 440 * np.arange(out.size) / 24000)
    assert abs(out.size - seconds * 24000) <= 2
    inside = slice(1000, -1000)  # a filter has no past at the first sample and no future at the last
    assert np.abs(out[inside] - wanted[inside]).max() < 1e-4


@pytest.mark.parametrize("kind", ["AIFF", "W64", "RF64", "AU", "OGG OPUS", "FLAC", "WAV far"])
def test_any_container_that_was_cut_is_refused(tmp_path, kind):
    name, _, how = kind.partition(" ")
    path = tmp_path / f"x.{name.lower()}"
    noise = np.random.default_rng(0).normal(0, 0.1, 72_000)
    soundfile.write(path, noise, 24_000, format=name, subtype="OPUS" if how == "OPUS" else None)
    whole = path.read_bytes()
    if how == "far":  # a chunk of nine thousand bytes stands before the sound, and holds its name many times
        at = whole.index(b"data")
        whole = whole[:at] + b"JUNK" + (9000).to_bytes(4, "little") + b"data" * 2250 + whole[at:]
        path.write_bytes(whole)
    assert audio.read(path)[0].shape[0] == pytest.approx(72_000, abs=10)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"is truncated|cannot be read as audio"):
        audio.read(path)


@pytest.mark.parametrize("rate_hz", [1, 2_000, 2_000_000_000])
def test_a_rate_at_which_nobody_records_is_refused(tmp_path, rate_hz):
    path = tmp_path / "x.wav"
    soundfile.write(path, TONE, 24_000)
    raw = bytearray(path.read_bytes())
    raw[24:28] = rate_hz.to_bytes(4, "little")
    path.write_bytes(raw)
    with pytest.raises(InputError, match=f"a rate of {rate_hz} Hz"):
        audio.read(path)


def test_integers_written_as_floats_are_refused_and_a_little_too_loud_is_not(tmp_path):
    soundfile.write(tmp_path / "int.wav", TONE * 32768, 24_000, subtype="FLOAT")
    with pytest.raises(InputError, match=r"samples up to 98\d\d.*divide by the full scale"):
        audio.read(tmp_path / "int.wav")
    soundfile.write(tmp_path / "loud.wav", TONE * 4, 24_000, subtype="FLOAT")
    assert audio.read(tmp_path / "loud.wav")[0].max() == pytest.approx(1.2, abs=0.01)
