"""One case inline: sound and picture are inside, hostile words stay words, what is missing is said."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import soundfile
from inspected_runs import HOSTILE, make_case, record, start_run, stereo

from workbench import episodes
from workbench.errors import InputError
from workbench.pictures.notebook import listen
from workbench.pictures.peaks import encode
from workbench.runs import load_run

CASE = "R1_C2_i1_L1"


@pytest.fixture(scope="module")
def prompt(runs_folder):
    return load_run(runs_folder / "prompt")


class Seen(HTMLParser):
    """Every tag with its attributes, and the text outside of scripts and styles."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text, self._open = "", []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self._open):
            self.text += data

    def of(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]


def sound(html: str) -> tuple[np.ndarray, int]:
    [player] = Seen(html).of("audio")
    head, _, data = player["src"].partition(";base64,")
    assert head.startswith("data:audio/")
    return soundfile.read(io.BytesIO(base64.b64decode(data)))


def test_the_whole_conversation_is_inside_and_small(prompt):
    html = listen(prompt, CASE).html
    samples, rate_hz = sound(html)
    assert samples.shape == (10 * 24_000, 2) and rate_hz == 24_000
    assert len(html) < 200_000
    assert "http" not in html


def voice(pitch_hz: float, start_s: float, end_s: float, seconds: float = 6.0) -> np.ndarray:
    """A buzz with the harmonics of a voice, silent outside of [start_s, end_s]: float32 (samples,)."""
    t = np.arange(round(seconds * 24_000)) / 24_000
    buzz = sum(np.sin(2 * np.pi * pitch_hz * k * t) / k for k in range(1, 20))
    return (0.15 * buzz * ((t >= start_s) & (t < end_s))).astype(np.float32)


def test_opus_keeps_the_sides_and_their_times_apart():
    original = np.column_stack([voice(120, 0.5, 2.5), voice(210, 3.5, 5.0)])
    decoded, _ = soundfile.read(io.BytesIO(encode(original, 24_000)))
    assert decoded.shape == original.shape
    for side in (0, 1):
        edges = [np.flatnonzero(np.abs(signal[:, side]) > 0.02)[[0, -1]] for signal in (original, decoded)]
        assert np.abs(edges[0] - edges[1]).max() <= 0.02 * 24_000  # a frame of Opus
    one_speaks = slice(round(0.6 * 24_000), round(2.4 * 24_000))
    user, agent = (np.sqrt(np.mean(decoded[one_speaks, side] ** 2)) for side in (0, 1))
    assert agent < 0.01 * user  # 40 dB: nothing that could be taken for the agent


def test_flac_is_exact(prompt):
    samples, _ = sound(listen(prompt, CASE, audio="flac").html)
    kept = episodes.load_audio(prompt.episodes, prompt.record(CASE))
    assert np.abs(samples - kept).max() < 1e-4


def test_a_part_is_cut_exactly_and_says_where_it_begins(prompt):
    html = listen(prompt, CASE, start_s=5.5, end_s=8, audio="flac").html
    samples, _ = sound(html)
    whole = episodes.load_audio(prompt.episodes, prompt.record(CASE))
    assert np.allclose(samples, whole[round(5.5 * 24_000) : 8 * 24_000], atol=1e-4)
    assert '"first":5.5,"last":8' in html and "from 5.5 to 8.0 s" in html


def test_the_picture_shows_spans_window_and_limit(prompt):
    html = listen(prompt, CASE).html
    told = re.findall(r"<title>([^<]*)</title>", html)
    assert sum("agent speech (VAD) 1: 6." in text for text in told) == 1
    assert sum("user speech" in text for text in told) == sum("user utterance" in text for text in told) == 2
    assert "scored window, 6.000 to 9.000 s" in told
    assert "limit 2 s" in html
    seen = Seen(html)
    waves = [path for path in seen.of("path") if "wb-wave" in path["class"]]
    assert len(waves) == 2 and all(len(path["d"]) > 1000 for path in waves)
    assert "TAKE_TURN: pass" in seen.text and "onset" in seen.text


def test_words_of_others_stay_words(prompt):
    html = listen(prompt, "R1_C2_i1_L2").html  # its transcript is hostile, and so is every prompt
    seen = Seen(html)
    assert (
        [tag.get("type") for tag in seen.of("script")] == ["application/json", None]
        and not seen.of("img")
        and not seen.of("a")
    )
    assert not [name for _, attributes in seen.tags for name in attributes if name.startswith("on")]
    assert seen.text.count("window.hacked") == 2 * HOSTILE.count("window.hacked")
    assert "\x1b" not in html
    assert "mathjax_ignore" in html  # $$ is no formula


def test_a_hostile_run_name_stays_text(runs_folder, tmp_path):
    folder = start_run(tmp_path / "<img src=x onerror=alert(1)>", [make_case(1)])
    episodes.save(folder / "episodes", record(make_case(1)), stereo(6.5))
    assert not Seen(listen(load_run(folder), make_case(1).id).html).of("img")


def test_blocks_in_one_page_do_not_share_names(prompt):
    html = listen(prompt, CASE).html
    assert not [attributes for _, attributes in Seen(html).tags if "id" in attributes]


def test_what_is_missing_is_said(runs_folder, tmp_path):
    gaps = load_run(runs_folder / "gaps")
    failed, mute = listen(gaps, "R1_C2_i1_L2").html, listen(gaps, "R1_C2_i2_L2").html
    assert "The episode failed (agent_exception)" in failed and "no audio" in failed and not Seen(failed).of("audio")
    assert "The agent gives no text" in mute
    folder = start_run(tmp_path / "new", [make_case(1)])
    episodes.save(folder / "episodes", record(make_case(1)), stereo(6.5))
    html = listen(load_run(folder), make_case(1).id).html
    assert "has not been scored" in html and Seen(html).of("audio")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"case_id": "nobody"}, "no case 'nobody'"),
        ({"audio": "mp3"}, "no kind of audio 'mp3'"),
        ({"start_s": 20.0}, "it lasts 10.0 s"),
        ({"start_s": 4, "end_s": 3}, "from 4 to 3 s"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_a_sentence(prompt, changes, told):
    with pytest.raises(InputError, match=re.escape(told)):
        listen(prompt, **({"case_id": CASE} | changes))


def test_jupyter_gets_the_html(prompt):
    shown = listen(prompt, CASE)
    assert shown._repr_html_() == shown.html


def test_the_picture_alone_holds_no_sound(prompt):
    seen = Seen(listen(prompt, CASE, audio=None).html)
    assert not seen.of("audio") and len(seen.of("path")) == 4
