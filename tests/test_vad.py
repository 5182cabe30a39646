"""Voice activity: the same spans as the library's own call, for any length, and clear refusals."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from silero_vad import get_speech_timestamps, get_speech_timestamps_from_probs, load_silero_vad

from workbench import silero, vad
from workbench.errors import InputError
from workbench.vad import RATE_HZ, VadSettings, detect, spans_from_probabilities, speech_probabilities


def arguments(settings: VadSettings) -> dict:
    return {
        "threshold": settings.threshold,
        "min_speech_duration_ms": settings.min_speech_ms,
        "min_silence_duration_ms": settings.min_silence_ms,
        "speech_pad_ms": settings.speech_pad_ms,
    }


def in_samples(spans: np.ndarray) -> list[dict]:
    return [{"start": round(a * RATE_HZ), "end": round(b * RATE_HZ)} for a, b in spans]


def one(samples: np.ndarray, rate_hz: int = RATE_HZ, settings: VadSettings | None = None) -> np.ndarray:
    [(name, spans)] = detect([("clip", samples, rate_hz)], settings, workers=1)
    assert name == "clip" and spans.dtype == np.float64 and spans.shape[1:] == (2,)
    return spans


@pytest.fixture(scope="module")
def official():
    model = load_silero_vad()

    def call(samples: np.ndarray, settings: VadSettings) -> list[dict]:
        return get_speech_timestamps(torch.from_numpy(samples), model, **arguments(settings))

    return call


@pytest.fixture(scope="module")
def clips() -> dict[str, np.ndarray]:
    """Synthesised speech at 16 kHz in the situations that detectors get wrong."""
    import soxr
    from hibari import Hibari

    voice = Hibari()
    first, second = (
        soxr.resample(voice(text, seed=1), 24_000, RATE_HZ).astype(np.float32)
        for text in ("Hello there, could you help me plan a trip?", "Okay, yeah, that sounds right to me.")
    )
    rng = np.random.default_rng(3)
    silence = np.zeros(2 * RATE_HZ, np.float32)
    sentence = np.concatenate([silence[:8000], first, silence[:9001], 0.2 * second, silence])
    noisy = sentence + rng.normal(0, 0.02, len(sentence)).astype(np.float32)
    tone = 0.3 * np.sin(2 * np.pi * 220 * np.arange(RATE_HZ) / RATE_HZ).astype(np.float32)
    return {
        "speech then digital silence": sentence,
        "noisy, not a multiple of 512": noisy[: 512 * 90 + 77],
        "ends in speech": first[: RATE_HZ + 5],
        "ends in speech by one sample": first[: 512 * 40 + 1],
        "late onset after long silence": np.concatenate([np.zeros(12 * RATE_HZ, np.float32), second]),
        "longer than two blocks": np.concatenate([noisy, sentence, 0.01 * noisy, np.clip(8 * sentence, -1, 1)]),
        "quiet": 0.003 * sentence,
        "digital silence": silence,
        "noise": rng.normal(0, 0.1, RATE_HZ).astype(np.float32),
        "tone": tone,
        "shorter than a window": first[6000:6100],
        "one sample": np.ones(1, np.float32),
    }


@pytest.mark.parametrize(
    "settings",
    [VadSettings(), VadSettings(threshold=0.2, min_speech_ms=250, min_silence_ms=100, speech_pad_ms=200)],
    ids=["defaults", "other settings"],
)
def test_spans_equal_the_official_call_to_the_sample(official, clips, settings):
    found = dict(detect(((name, samples, RATE_HZ) for name, samples in clips.items()), settings))
    assert list(found) == list(clips)
    for name, samples in clips.items():
        assert in_samples(found[name]) == official(samples, settings), name
    assert len(found["speech then digital silence"]) >= 2
    assert len(found["digital silence"]) == 0
    assert found["ends in speech"][-1, 1] == len(clips["ends in speech"]) / RATE_HZ


def test_probabilities_agree_within_the_stated_rounding(clips):
    given_order = [(name, samples, RATE_HZ) for name, samples in clips.items()]
    for (name, values, n_samples), (_, samples, _) in zip(
        speech_probabilities(given_order, 2), given_order, strict=True
    ):
        reference = silero.official_probabilities(samples)
        assert n_samples == len(samples) and values.dtype == np.float32 and values.shape == reference.shape
        assert np.abs(values - reference).max() < silero.ROUNDING, name


def test_quiet_speech_stays_within_the_rounding_and_its_spans_are_official(official, clips):
    """Quiet speech rounds worst: differences of 1.8e-4 were seen, so the stated bound must leave room for them."""
    assert silero.ROUNDING >= 2 * 1.8e-4
    for gain in (1e-2, 2e-3, 3e-4):
        quiet = (gain * clips["speech then digital silence"]).astype(np.float32)
        difference = silero.window_probabilities(quiet) - silero.official_probabilities(quiet)
        assert np.abs(difference).max() < silero.ROUNDING / 2
        near = float(silero.official_probabilities(quiet).max())  # a threshold on the very edge
        for settings in (VadSettings(), VadSettings(threshold=min(max(near, 0.02), 0.99))):
            assert in_samples(one(quiet, settings=settings)) == official(quiet, settings)


def test_a_doubtful_window_is_settled_by_the_official_model(monkeypatch, clips):
    samples = clips["ends in speech"]
    exact = silero.official_probabilities(samples)
    at = int(np.argmax(exact >= 0.5))  # the onset: its side of the threshold moves the span's start
    settings = VadSettings(threshold=float(exact[at]))
    assert silero.doubtful_windows(exact, (settings.threshold, settings.exit_threshold)).tolist() == [at]

    def spans_if_off_by(share: float) -> np.ndarray:
        off = exact.copy()
        off[at] += share * silero.ROUNDING
        monkeypatch.setattr(silero, "window_probabilities", lambda _: off)
        return one(samples, settings=settings)

    start_s = max(0.0, at * 512 / RATE_HZ - 0.03)
    assert spans_if_off_by(-0.5)[0, 0] == spans_if_off_by(0.5)[0, 0] == pytest.approx(start_s)
    assert spans_if_off_by(-1.5)[0, 0] > start_s  # beyond the stated rounding nothing is settled


def test_the_official_model_is_not_asked_where_no_span_depends_on_it(monkeypatch):
    values = np.array([0.9, 0.9, 0.9, 0.9, 0.50001, 0.9, 0.9, 0.0, 0.0, 0.0, 0.0], np.float32)
    monkeypatch.setattr(silero, "window_probabilities", lambda _: values)
    monkeypatch.setattr(silero, "official_probabilities", lambda _: pytest.fail("asked"))
    assert len(one(np.zeros(512 * len(values), np.float32))) == 1


def test_another_model_falls_back_to_the_library_s_sequence_model(monkeypatch, clips):
    samples = clips["ends in speech"]
    expected = silero.window_probabilities(samples)
    monkeypatch.setattr(silero, "_STRIDES", (1, 2, 2, 1, 1))
    with pytest.warns(UserWarning, match="another model than expected"):
        forward = silero._forward.__wrapped__()
    assert np.abs(forward(samples) - expected).max() < silero.ROUNDING


levels = st.sampled_from([0.0, 0.005, 0.01, 0.1, 0.2, 0.35, 0.4, 0.5, 0.6, 0.9, 1.0])


@hypothesis_settings(deadline=None)
@given(
    probabilities=st.lists(levels, max_size=60),
    short_by=st.integers(0, 511),
    settings=st.builds(
        VadSettings,
        threshold=st.sampled_from([0.02, 0.1, 0.16, 0.35, 0.5, 0.9]),
        min_speech_ms=st.integers(0, 200),
        min_silence_ms=st.integers(0, 200),
        speech_pad_ms=st.integers(0, 200),
    ),
)
def test_segmentation_equals_the_official_loop(probabilities, short_by, settings):
    n_samples = max(0, 512 * len(probabilities) - short_by)
    expected = get_speech_timestamps_from_probs(probabilities, audio_length_samples=n_samples, **arguments(settings))
    assert in_samples(spans_from_probabilities(np.array(probabilities), n_samples, settings)) == expected


def test_probabilities_must_fit_the_length():
    with pytest.raises(InputError, match="2 windows"):
        spans_from_probabilities(np.zeros(3), 1000, VadSettings())


@pytest.mark.parametrize("rate_hz", [8_000, 22_050, 24_000, 44_100, 48_000])
def test_times_do_not_depend_on_the_rate(clips, rate_hz):
    import soxr

    reference = clips["speech then digital silence"]
    spans = one(soxr.resample(reference, RATE_HZ, rate_hz), rate_hz)
    assert spans.shape == one(reference).shape
    assert np.abs(spans - one(reference)).max() <= 0.065  # two windows


def test_no_span_outlasts_its_channel(clips):
    speech_48k = np.repeat(clips["ends in speech"], 3)
    for cut in range(4):
        channel = speech_48k[: len(speech_48k) - cut]
        assert one(channel, 48_000)[-1, 1] <= len(channel) / 48_000


@pytest.mark.parametrize("detector", ["silero", "energy"])
@pytest.mark.parametrize("rate_hz", [16_000, 24_000])
@pytest.mark.parametrize("n_samples", [0, 1, 2, 100, 24_000])
def test_empty_short_and_zero_channels_hold_no_speech(detector, rate_hz, n_samples):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spans = one(np.zeros(n_samples, np.float32), rate_hz, VadSettings(detector=detector))
    assert spans.shape == (0, 2)


def test_the_energy_gate_finds_what_is_there():
    rng = np.random.default_rng(0)
    samples = rng.normal(0, 0.001, 4 * RATE_HZ)
    samples[RATE_HZ : 2 * RATE_HZ] += rng.normal(0, 0.1, RATE_HZ)
    samples[2 * RATE_HZ + 1000 : 2 * RATE_HZ + 2000] += 0.1  # after 62.5 ms, inside the hangover
    samples[3 * RATE_HZ : 3 * RATE_HZ + 480] += 0.1  # 30 ms, too short to be speech
    settings = VadSettings(detector="energy", speech_pad_ms=0)
    assert np.allclose(one(samples, RATE_HZ, settings), [[1.0, 2.13]], atol=0.011)
    padded = one(samples, RATE_HZ, VadSettings(detector="energy", speech_pad_ms=30))
    assert np.allclose(padded, [[0.97, 2.16]], atol=0.011)


def test_the_energy_gate_hears_an_agent_that_never_pauses(clips):
    speech = np.tile(clips["ends in speech"][1600:], 4)
    spans = one(speech, RATE_HZ, VadSettings(detector="energy"))
    assert (spans[:, 1] - spans[:, 0]).sum() > 0.7 * len(speech) / RATE_HZ


@pytest.mark.parametrize(
    ("samples", "rate_hz", "says"),
    [
        (np.array([0, np.nan, np.inf], np.float32), 16_000, "2 NaN or infinite samples"),
        (np.zeros((10, 2), np.float32), 16_000, "shape"),
        (np.zeros(10, np.int16), 16_000, "int16"),
        (np.zeros(10, np.float32), 0, "rate"),
        (np.zeros(10, np.float32), float("nan"), "rate"),
    ],
)
@pytest.mark.parametrize("detector", ["silero", "energy"])
def test_bad_channels_are_refused_by_name(samples, rate_hz, says, detector):
    with pytest.raises(InputError, match=f"Channel case-7.user .*{says}"):
        list(detect([("case-7.user", samples, rate_hz)], VadSettings(detector=detector)))


def test_results_before_a_bad_channel_are_kept():
    good, bad = np.zeros(600, np.float32), np.full(600, np.nan, np.float32)
    results = detect([("a", good, 16_000), ("b", bad, 16_000), ("c", good, 16_000)])
    assert next(results)[0] == "a"
    with pytest.raises(InputError, match="Channel b"):
        next(results)


def test_channels_are_read_as_results_are_taken():
    read = 0

    def channels():
        nonlocal read
        for i in range(1000):
            read += 1
            yield str(i), np.zeros(600, np.float32), 16_000

    results = detect(channels(), workers=2)
    for i in range(20):
        assert next(results)[0] == str(i)
        assert read <= i + 8
    results.close()


def test_settings_are_checked_and_keyed():
    assert VadSettings().key() == VadSettings().key() != VadSettings(threshold=0.4).key()
    assert VadSettings(detector="energy").key() != VadSettings().key()
    assert VadSettings(threshold=0.1).exit_threshold == 0.01
    for wrong in ({"threshold": 0.01}, {"threshold": 1.0}, {"min_speech_ms": -1}, {"thresh": 0.5}):
        with pytest.raises(ValueError):
            VadSettings(**wrong)


def test_the_key_follows_the_library_s_version(monkeypatch):
    before = VadSettings().key()
    monkeypatch.setattr(vad, "version", lambda _: "0.0")
    assert VadSettings().key() != before
