"""A built dataset with a deliberate mistake in it, its checksums renewed as if nothing had happened."""

import json
from pathlib import Path

from workbench import audio, contract, datasets
from workbench.cases import RATE_HZ
from workbench.files import sha256_of


class Spoilt:
    """A dataset folder whose manifest may be changed in `cases`; it is written and checked by `recompute`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.cases = [json.loads(line) for line in (folder / "cases.jsonl").read_text().splitlines()]

    def find(self, **tags):
        """The first case with these tags."""
        return next(case for case in self.cases if tags.items() <= case["tags"].items())

    def rewrite(self, cue, change):
        """Change a clip's samples (int16), and every reference to it."""
        path = self.folder / cue["audio"]["path"]
        samples = change(audio.to_pcm16(audio.read_mono(path, RATE_HZ)).copy())
        audio.write_pcm16(path, samples, RATE_HZ)
        for case in self.cases:
            for other in case["cues"]:
                if other["audio"]["path"] == cue["audio"]["path"]:
                    other["audio"] |= {"sha256": sha256_of(path), "samples": len(samples)}

    def recompute(self, listen=False):
        """What computing again says of the folder, whose checksums all agree."""
        (self.folder / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in self.cases))
        header = json.loads((self.folder / "dataset.json").read_text())
        header |= {"fingerprint": sha256_of(self.folder / "cases.jsonl"), "cases": len(self.cases)}
        (self.folder / "dataset.json").write_text(json.dumps(header))
        loaded = datasets.load(self.folder)
        assert datasets.check_manifest(loaded) == datasets.check_audio(loaded) == []
        return [*loaded.problems, *contract.get(header["benchmark"]).recompute(loaded, listen=listen).problems]


def swap(first, second, *path):
    """Exchange what stands at `path` in two cases."""
    *way, last = path
    for name in way:
        first, second = first[name], second[name]
    first[last], second[last] = second[last], first[last]
