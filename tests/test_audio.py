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
