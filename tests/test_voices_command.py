"""`workbench voices`: files from a folder or from where they are published, checked, and gone on with."""

import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from typer.testing import CliRunner

from workbench.cli import voices as command
from workbench.construct import kokoro
from workbench.errors import InputError

MODEL = bytes(range(256)) * 4000
VOICE = np.zeros((510, 256), "<f4").tobytes()


def package() -> bytes:
    """Shaped as the npm package is: English voices, others, and a file that tries to leave the folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in ("package/voices/af_heart.bin", "package/voices/jf_alpha.bin", "../../bm_george.bin"):
            entry = tarfile.TarInfo(name)
            entry.size = len(VOICE)
            archive.addfile(entry, io.BytesIO(VOICE))
    return out.getvalue()


class Files(BaseHTTPRequestHandler):
    """Serves files with ranges; `cut` ends the first answer after so many bytes."""

    files: dict
    asked: list
    cut: list

    def do_GET(self):
        type(self).asked.append((self.path, self.headers.get("Range")))
        content = self.files.get(self.path)
        if content is None:
            return self.send_error(404)
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start : start + self.cut.pop()] if self.cut else content[start:])

    def log_message(self, *_):
        pass


@pytest.fixture
def published(monkeypatch):
    """A server with model and voices, whose checksums are the known ones."""
    files = {"/model.onnx": MODEL, "/voices.tgz": package()}
    handler = type("Handler", (Files,), {"files": files, "asked": [], "cut": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(command, "MODEL_URL", f"{url}/model.onnx")
    monkeypatch.setattr(command, "VOICES_URL", f"{url}/voices.tgz")
    monkeypatch.setattr(kokoro, "MODEL_SHA256", hashlib.sha256(MODEL).hexdigest())
    monkeypatch.setattr(command, "VOICES_SHA256", hashlib.sha256(files["/voices.tgz"]).hexdigest())
    monkeypatch.setattr(kokoro, "part_files", list)
    yield handler
    server.shutdown()
    server.server_close()


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setattr(kokoro, "home", lambda: tmp_path / "home")
    monkeypatch.delenv("WORKBENCH_KOKORO", raising=False)
    return tmp_path / "home"


def test_what_is_published_is_fetched_once_checked_and_only_the_voices_needed_are_kept(published, home):
    command.get("kokoro", None)
    assert sorted(path.name for path in home.iterdir()) == ["af_heart.bin", "bm_george.bin", "kokoro-v1.0.int8.onnx"]
    assert (home / "kokoro-v1.0.int8.onnx").read_bytes() == MODEL
    before = len(published.asked)
    command.get("kokoro", None)
    assert len(published.asked) == before == 2
    assert kokoro.KokoroEngine().voices == ("kokoro:af_heart", "kokoro:bm_george")


def test_a_download_that_stopped_goes_on_where_it_was(published, home):
    published.cut.append(100_000)
    with pytest.raises(InputError, match=r"could not be fetched.*goes on where it stopped.*--from FOLDER"):
        command.get("kokoro", None)
    command.get("kokoro", None)
    start = (home / "kokoro-v1.0.int8.onnx.part").exists()
    assert not start and (home / "kokoro-v1.0.int8.onnx").read_bytes() == MODEL
    ranges = [asked for path, asked in published.asked if path == "/model.onnx"]
    assert ranges[0] is None and 0 < int(ranges[1].removeprefix("bytes=").rstrip("-")) <= 100_000


def test_other_content_than_the_known_one_is_thrown_away(published, home, monkeypatch):
    monkeypatch.setattr(kokoro, "MODEL_SHA256", "0" * 64)
    with pytest.raises(InputError, match=r"is not the known file \(sha256 0000.*thrown away"):
        command.get("kokoro", None)
    assert list(home.iterdir()) == []


def test_without_a_connection_a_sentence_says_what_to_do(home, monkeypatch):
    monkeypatch.setattr(kokoro, "part_files", list)
    monkeypatch.setattr(command, "MODEL_URL", "http://127.0.0.1:9/model.onnx")
    with pytest.raises(InputError, match=r"127.0.0.1:9/model.onnx could not be fetched \(.+\).*--from FOLDER"):
        command.get("kokoro", None)


def test_parts_of_installed_packages_and_a_folder_need_no_connection(published, home, monkeypatch, tmp_path):
    for number in range(4):
        (tmp_path / "have" / f"part_{number}").mkdir(parents=True)
        (tmp_path / "have" / f"part_{number}" / "part.bin").write_bytes(
            MODEL[number * 256_000 : (number + 1) * 256_000]
        )
    (tmp_path / "have" / "kokoro-js-1.2.1.tgz").write_bytes(published.files["/voices.tgz"])
    monkeypatch.setattr(command, "VOICES_SHA256", hashlib.sha256(published.files["/voices.tgz"]).hexdigest())
    command.get("kokoro", tmp_path / "have")
    assert published.asked == [] and (home / "kokoro-v1.0.int8.onnx").read_bytes() == MODEL
    (home / "kokoro-v1.0.int8.onnx").unlink()
    monkeypatch.setattr(kokoro, "part_files", lambda: sorted((tmp_path / "have").rglob("part.bin")))
    command.get_model(home, None)
    assert published.asked == [] and (home / "kokoro-v1.0.int8.onnx").read_bytes() == MODEL
    with pytest.raises(InputError, match=r"holds no Kokoro model"):
        command.get_model(tmp_path / "other", home / "nowhere")


def test_voices_are_listed_with_who_they_are_and_said_into_a_file(home, tmp_path):
    listed = CliRunner().invoke(command.app, ["list", "hibari"])
    assert listed.exit_code == 0 and "hibari:low" in listed.output and "male" in listed.output
    assert "not usable" in CliRunner().invoke(command.app, ["list", "kokoro"]).output
    said = CliRunner().invoke(command.app, ["say", "hibari:low", "Right, okay.", "--out", str(tmp_path / "a.wav")])
    assert said.exit_code == 0 and (tmp_path / "a.wav").stat().st_size > 20_000
    with pytest.raises(InputError, match="nothing to get for 'hibari'"):
        command.get("hibari", None)
