"""Recordings made elsewhere become a run: roles, rates, formats, and where the cues are."""

import errno
import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from workbench import audio, cli, datasets, episodes
from workbench.agents.registry import factory
from workbench.cases import RATE_HZ, AfterOnset, AtTime, AudioRef, Case, Cue, PromptPart, Window
from workbench.errors import InputError
from workbench.files import sha256_of
from workbench.runners import batch
from workbench.runners import replay as importing
from workbench.runners.placing import MATCH, places
from workbench.runners.recorder import replay
from workbench.runners.replay import Source, import_recordings
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
    (place,), _ = places(CLIPS["turn_2"], audio.to_pcm16(channel.astype(np.float32)))
    assert place.start_s == pytest.approx(2.6, abs=0.003)


def test_somebody_elses_speech_is_not_taken_for_the_clip():
    found, best = places(speechlike(0.8, 9), audio.to_pcm16(recording()[:, 0]))
    assert found == [] and best < MATCH / 2


def test_a_sidecar_gives_times_and_words(dataset, tmp_path):
    write(tmp_path / "theirs", "one.wav", recording())
    given = {"cues": {"turn_1": 0.55, "turn_2": None}, "transcript": [{"t_s": 2.0, "text": "Yes, "}]}
    (tmp_path / "theirs" / "one.json").write_text(json.dumps(given))
    _, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    record = run.record("one")
    assert record.cue("turn_1").start_s == 0.55
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
    assert "one.json: field 'cues.turn_1': 99 is not inside the recording" in result.problems[0]


def test_what_makes_no_sense_is_refused(dataset, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match=r"holds no recording of any case; name them one\.wav"):
        import_recordings(Source(dataset, empty, "x"), tmp_path / "run")
    with pytest.raises(InputError, match="one for each role"):
        import_recordings(Source(dataset, empty, "x", user=0, agent=0), tmp_path / "run")
    with pytest.raises(InputError, match="is not a folder"):
        import_recordings(Source(dataset, tmp_path / "nowhere", "x"), tmp_path / "run")
    with pytest.raises(InputError, match="nothing called 'noise' to accept"):
        import_recordings(Source(dataset, empty, "x", accept=("noise",)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    write(tmp_path / "theirs", "one.wav", recording())
    with pytest.raises(InputError, match="is not empty"):
        import_recordings(Source(dataset, tmp_path / "theirs", "x"), dataset.folder)


# Sidecars --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ('{"cues": {"turn_1": "0.5"}}', "field 'cues.turn_1': a number is needed (found '0.5')"),
        ('{"cues": {"turn_1": true}}', "field 'cues.turn_1'"),
        ('{"cues": {"turn_1": NaN}}', "field 'cues.turn_1'"),
        ('{"cues": {"turn_1": 1e999}}', "field 'cues.turn_1'"),
        ('{"cues": {"turn_1": -0.5}}', "field 'cues.turn_1': -0.5 is not inside the recording"),
        ('{"cues": {"turn_1": 500}}', "field 'cues.turn_1': 500 is not inside the recording, which lasts 5.000 s; give "
                                      "seconds; these look like milliseconds"),
        ('{"cues": {"turn_9": 1}}', "the case has no cue 'turn_9'; its cues: turn_1, turn_2"),
        ('{"cues": [1]}', "field 'cues'"),
        ('{"cues": {"turn_1": 2.6, "turn_2": 0.5}}', "field 'cues.turn_2': 0.5 s lies before the cue 'turn_1' at"),
        ('{"cues": {"turn_1": 0.5, "turn_2": 3.9}}', "field 'cues.turn_2': the user channel is silent"),
        ('{"words": "Yes"}', "unknown field 'words'; remove it"),
        ('{"transcript": 5}', "field 'transcript'"),
        ('{"transcript": [{"text": "Yes"}]}', "field 'transcript.0.t_s' is missing"),
        ('{"transcript": [{"t_s": null, "text": "Yes"}]}', "field 'transcript.0.t_s'"),
        ('{"transcript": [{"t_s": 1, "text": null}]}', "field 'transcript.0.text'"),
        ('{"transcript": [{"t_s": 1, "text": "Yes"}, {"t_s": 2100, "text": "sir"}]}',
         "field 'transcript.1.t_s': 2100 is not inside the recording, which lasts 5.000 s; give seconds; these look"),
        ('{"transcript": [{"t_s": 5.4, "text": "late"}]}', "field 'transcript.0.t_s': 5.4 is not inside"),
        ('{"transcript": [{"t_s": 1, "text": "\\ud800"}]}', "one.json: "),
        ("[]", "one.json: "),
        ('{"cues": {', "one.json, line 1: not valid JSON"),
        ("\ufeff{}", "one.json, line 1"),
    ],
)  # fmt: skip
def test_a_bad_sidecar_names_its_file_and_field_and_the_rest_is_imported(dataset, tmp_path, told, said):
    for name in ("one", "two"):
        write(tmp_path / "theirs", f"{name}.wav", recording())
    (tmp_path / "theirs" / "one.json").write_text(told, encoding="utf-8")
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    (problem,) = result.problems
    assert problem.startswith("case one: ") and str(tmp_path / "theirs" / "one.json") in problem and said in problem
    assert run.recorded() == ["two"]


# What is found where ---------------------------------------------------------------------------------


def made_of(folder, clips, tracks=None):
    """A dataset of one case 'one' with these clips as its cues, in order: name -> clip."""
    cues = []
    for name, clip in clips.items():
        path = folder / "audio" / f"{name}.wav"
        audio.write_pcm16(path, clip, RATE_HZ)
        ref = AudioRef(path=f"audio/{name}.wav", sha256=sha256_of(path), samples=clip.size)
        cues.append(Cue(id=name, text="", audio=ref, start=AtTime(time_s=0), track=(tracks or {}).get(name, 0)))
    case = Case(id="one", benchmark="test", conversation="c", stream="s", cues=tuple(cues))
    datasets.write(folder, [case], version="1", author="test", speech=None)
    return datasets.load(folder)


def sides(*plays, length_s=10.0, agent=((6.5, 3),), seed=5):
    """float32 (samples, 2): (start_s, clip, gain) on the user's side, (start_s, seed) of two seconds on the agent's."""
    made = np.random.default_rng(seed).normal(0, 1e-4, (round(length_s * RATE_HZ), 2)).astype(np.float32)
    for start_s, clip, gain in plays:
        at = round(start_s * RATE_HZ)
        made[at : at + clip.size, 0] += gain * audio.from_pcm16(clip)
    for start_s, speech in agent:
        at = round(start_s * RATE_HZ)
        made[at : at + 2 * RATE_HZ, 1] += audio.from_pcm16(speechlike(2.0, speech))[: made.shape[0] - at]
    return made


def started(run):
    return {cue.id: cue.start_s for cue in run.record("one").cues}


def test_clips_that_are_alike_are_found_in_order_and_not_at_the_greatest_peak(tmp_path):
    same, other = speechlike(0.4, 1), speechlike(1.0, 2)
    dataset = made_of(tmp_path / "d", {"a": same, "b": other, "c": same})
    # The second play is the plainer one: the first is half as loud, over noise.
    write(tmp_path / "theirs", "one.wav", sides((1.0, same, 0.05), (3.0, other, 1.0), (5.0, same, 1.0)))
    _, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert started(run) == pytest.approx({"a": 1.0, "b": 3.0, "c": 5.0}, abs=0.002)


def test_three_short_cues_that_are_identical_are_found_one_after_the_other(tmp_path):
    hm = speechlike(0.25, 1)
    dataset = made_of(tmp_path / "d", {"a": hm, "b": hm, "c": hm})
    write(tmp_path / "theirs", "one.wav", sides((1.0, hm, 0.5), (1.25, hm, 0.9), (4.0, hm, 1.0)))
    _, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert started(run) == pytest.approx({"a": 1.0, "b": 1.25, "c": 4.0}, abs=0.002)


def test_a_cue_that_was_not_played_does_not_take_a_later_ones_place(tmp_path):
    same, other = speechlike(0.4, 1), speechlike(1.0, 2)
    dataset = made_of(tmp_path / "d", {"a": same, "b": other, "c": same})
    write(tmp_path / "theirs", "one.wav", sides((3.0, other, 1.0), (5.0, same, 1.0)))
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    found = started(run)
    assert found.pop("a") is None and found == pytest.approx({"b": 3.0, "c": 5.0}, abs=0.002)
    assert "only where the order of the cues leaves no room" in result.unplaced[0]


def test_a_time_that_is_given_stands_and_the_others_are_found_around_it(tmp_path):
    hm, other = speechlike(0.25, 1), speechlike(1.0, 2)
    dataset = made_of(tmp_path / "d", {"a": hm, "b": other, "c": hm})
    write(tmp_path / "theirs", "one.wav", sides((1.0, hm, 0.5), (2.0, other, 1.0), (4.0, hm, 1.0)))
    (tmp_path / "theirs" / "one.json").write_text('{"cues": {"b": 2.02}}')
    _, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert started(run) == pytest.approx({"a": 1.0, "b": 2.02, "c": 4.0}, abs=0.002)


@pytest.fixture
def pair(tmp_path):
    """A dataset of two cues, and where they are played."""
    clips = {"a": speechlike(1.5, 1), "b": speechlike(1.0, 2)}
    return made_of(tmp_path / "d", clips), sides((1.0, clips["a"], 1.0), (4.0, clips["b"], 1.0))


def both_the_same(made):
    made[:, 1] = made[:, 0] = made.sum(axis=1)


def bleeding(made):
    late = round(0.080 * RATE_HZ)
    made[late:, 1] += 0.1 * made[:-late, 0]


@pytest.mark.parametrize(
    ("harm", "code", "said"),
    [
        (both_the_same, "same_channels", "both channels hold the same signal"),
        (bleeding, "user_bleed", "in the agent's channel, 20 dB down and 80 ms late"),
    ],
)
def test_doubtful_channels_are_named_and_give_no_verdict_until_they_are_meant(pair, tmp_path, harm, code, said):
    dataset, made = pair
    harm(made)
    write(tmp_path / "theirs", "one.wav", made, subtype="FLOAT")
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    (doubt,) = result.doubtful
    assert said in doubt and f"--accept {code}" in doubt and not result.problems
    assert run.record("one").unmeasurable == code
    assert started(run) == pytest.approx({"a": 1.0, "b": 4.0}, abs=0.002)
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path, accept=(code,))
    assert (result.cases, result.doubtful) == (1, []) and run.record("one").unmeasurable is None


def test_a_good_pair_of_channels_is_not_doubted_even_where_both_speak_at_once(pair, tmp_path):
    dataset, made = pair
    made[:, 1] += sides(agent=((0.5, 7), (4.2, 8)), seed=9)[:, 1]
    write(tmp_path / "theirs", "one.wav", made)
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert result.doubtful == result.notes == result.problems == [] and run.record("one").unmeasurable is None


def test_swapped_channels_are_named_with_the_remedy(pair, tmp_path):
    dataset, made = pair
    write(tmp_path / "theirs", "one.wav", made[:, ::-1])
    result, _ = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert "its channels are swapped" in result.problems[0] and "give --user-channel 1" in result.problems[0]
    result = import_recordings(
        Source(dataset, tmp_path / "theirs", "x", user=1, agent=0), tmp_path / "again", workers=1
    )
    assert (result.cases, result.problems, result.unplaced) == (1, [], [])


def test_inverted_polarity_and_an_offset_are_told_and_cost_nothing(pair, tmp_path):
    dataset, made = pair
    made[:, 0] = -made[:, 0] * 0.5 + 0.2
    write(tmp_path / "theirs", "one.wav", made)
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert started(run) == pytest.approx({"a": 1.0, "b": 4.0}, abs=0.002)
    assert "the user channel had a DC offset of 0.200; it was removed" in result.notes[0]
    assert "inverted polarity" in result.notes[1]
    stereo = episodes.load_audio(run.episodes, run.record("one"))
    assert abs(np.median(stereo[:, 0])) < 1e-3


def test_floats_beyond_full_scale_are_scaled_and_other_scales_refused(pair, tmp_path):
    dataset, made = pair
    write(tmp_path / "theirs", "one.wav", made * (1.5 / np.abs(made).max()), subtype="FLOAT")
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert "samples up to 1.50, beyond full scale; all of it was scaled down" in result.notes[0]
    stereo = episodes.load_audio(run.episodes, run.record("one"))
    assert (np.abs(stereo) > 0.999).sum() <= 2  # nothing is clipped
    write(tmp_path / "theirs", "one.wav", made * 32768, subtype="FLOAT")
    result, _ = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert "where floats lie in [-1, 1]" in result.problems[0]


def test_a_rate_of_one_hertz_is_a_sentence(pair, tmp_path):
    dataset, made = pair
    write(tmp_path / "theirs", "one.wav", made)
    raw = bytearray((tmp_path / "theirs" / "one.wav").read_bytes())
    raw[24:28] = (1).to_bytes(4, "little")
    (tmp_path / "theirs" / "one.wav").write_bytes(raw)
    result, _ = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert "gives a rate of 1 Hz" in result.problems[0]


@pytest.mark.parametrize("names", ["one.wav one.flac", "one.wav one.user.wav", "one.user.wav one.user.flac"])
def test_two_recordings_of_one_case_are_named(dataset, tmp_path, names):
    for name in names.split():
        write(tmp_path / "theirs", name, recording()[:, 0] if "user" in name else recording())
    result, _ = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert "more than one recording of it" in result.problems[0] and all(
        name in result.problems[0] for name in names.split()
    )


def test_files_of_no_case_and_an_agents_side_that_ends_early_are_told(dataset, tmp_path):
    made = recording()
    write(tmp_path / "theirs", "onee.wav", made)
    write(tmp_path / "theirs", "one.user.wav", made[:, 0])
    write(tmp_path / "theirs", "one.agent.wav", made[: 3 * RATE_HZ, 1])
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert "belong to no case, such as onee.wav" in result.notes[0]
    assert "the agent's file ends 2.00 s before the user's" in result.notes[1]
    assert run.record("one").deliveries[0].samples == 3 * RATE_HZ


# MP3 -------------------------------------------------------------------------------------------------


def frames_of(path):
    """An MP3's info frame, and all the rest."""
    raw = path.read_bytes()
    size = raw.index(b"\xff\xf3", 4)
    return raw[:size], raw[size:]


MP3S = {
    "cut": (lambda info, rest: info + rest[: len(rest) // 2], "is truncated: its header announces", None),
    "joined": (lambda info, rest: (info + rest) * 2, "is 2 MP3 files joined (another begins at 5.", None),
    "joined without a second info frame": (lambda info, rest: info + rest + rest, "were two files joined?", None),
    "no info frame": (lambda info, rest: rest, None, "has no info frame, so the encoder's delay, usually 0.046 s"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MP3S)
def test_an_mp3_is_never_half_a_call(dataset, tmp_path, kind):
    make, refused, warned = MP3S[kind]
    write(tmp_path / "theirs", "one.mp3", recording(), 24_000, format="MP3")
    info, rest = frames_of(tmp_path / "theirs" / "one.mp3")
    (tmp_path / "theirs" / "one.mp3").write_bytes(make(info, rest))
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    if refused:
        assert refused in result.problems[0] and result.cases == 0
    else:
        assert warned in result.notes[0] and run.record("one").duration_s > 5
        assert run.record("one").cue("turn_1").start_s == pytest.approx(0.546, abs=0.003)


# Again, and with a disk that fails ------------------------------------------------------------------------


def test_the_same_command_goes_on_and_only_what_changed_is_imported_again(dataset, tmp_path):
    for name in ("one", "two"):
        write(tmp_path / "theirs", f"{name}.wav", recording())
    (tmp_path / "theirs" / "two.wav").write_bytes(b"no sound yet")
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert (result.cases, result.kept, len(result.problems)) == (1, 0, 1)
    before = (run.episodes / "one.rec.json").stat().st_mtime_ns
    write(tmp_path / "theirs", "two.wav", recording())
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert (result.cases, result.kept, result.problems) == (1, 1, [])
    assert (run.episodes / "one.rec.json").stat().st_mtime_ns == before
    (tmp_path / "theirs" / "one.json").write_text('{"transcript": "Yes."}')
    result, run = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert (result.cases, result.kept) == (1, 1) and run.record("one").text == "Yes."
    with pytest.raises(InputError, match="another agent"):
        import_recordings(Source(dataset, tmp_path / "theirs", "somebody else"), tmp_path / "run")


def test_a_full_disk_ends_it_and_any_other_fault_of_one_case_does_not(dataset, tmp_path, monkeypatch):
    for name in ("one", "two"):
        write(tmp_path / "theirs", f"{name}.wav", recording())
    real = episodes.save

    def failing(error):
        def save(folder, record, *sound):
            if record.case == "two":
                raise error
            real(folder, record, *sound)

        monkeypatch.setattr(importing.episodes, "save", save)

    failing(OSError(errno.ENOSPC, "No space left on device", "disk"))
    with pytest.raises(OSError, match="No space"):
        import_recordings(Source(dataset, tmp_path / "theirs", "theirs"), tmp_path / "run", workers=1)
    assert load_run(tmp_path / "run").recorded() == ["one"]
    failing(ZeroDivisionError("what nobody foresaw"))
    result, _ = bring_in(dataset, tmp_path / "theirs", tmp_path)
    assert (result.cases, result.kept) == (0, 1) and "ZeroDivisionError: what nobody foresaw" in result.problems[0]
    monkeypatch.undo()
    assert bring_in(dataset, tmp_path / "theirs", tmp_path)[0].cases == 1


def test_our_own_recordings_come_back_as_they_were_and_in_no_doubt(tiny_dataset, tmp_path):
    whole = datasets.load(tiny_dataset)
    few = replace(whole, cases=whole.cases[:2])
    batch.run(batch.Plan(few, factory("babble"), tmp_path / "first", concurrency=1))  # it talks over every cue
    first = load_run(tmp_path / "first")
    (tmp_path / "theirs").mkdir()
    for case_id in first.recorded():
        shutil.copy(episodes.stereo_path(first.episodes, case_id), tmp_path / "theirs" / f"{case_id}.wav")
    result, again = bring_in(few, tmp_path / "theirs", tmp_path)
    assert (result.cases, result.unplaced, result.doubtful, result.notes, result.problems) == (2, [], [], [], [])
    for case_id in first.recorded():
        assert again.record(case_id).cues == first.record(case_id).cues
        assert again.record(case_id).windows == first.record(case_id).windows


def test_the_command_ends_with_2_until_a_doubt_is_meant(pair, tmp_path, monkeypatch, capsys):
    dataset, made = pair
    bleeding(made)
    write(tmp_path / "theirs", "one.wav", made, subtype="FLOAT")

    def called(*more):
        arguments = ["import", dataset.folder, "--recordings", tmp_path / "theirs", "--agent-name", "x"]
        arguments += ["--out", tmp_path / "run", *more]
        monkeypatch.setattr(sys, "argv", ["workbench", *map(str, arguments)])
        try:
            cli.main()
        except SystemExit as left:
            return left.code or 0, capsys.readouterr()
        return 0, capsys.readouterr()

    code, told = called()
    assert code == 2 and "20 dB down and 80 ms late" in told.err and "1 case imported" in told.out
    code, told = called("--accept", "user_bleed")
    assert code == 0 and told.err == ""
    code, told = called("--accept", "user_bleed")
    assert code == 0 and "0 cases imported, 1 kept from before" in told.out
