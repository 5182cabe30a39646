"""A dataset of six cases that last half a second each, for runs that are about agents and not about speech."""

import numpy as np
import pytest
import soundfile

from workbench import datasets
from workbench.cases import AtTime, AudioRef, Case, Cue, Ending
from workbench.files import sha256_of


def short_case(name: str, ref: AudioRef) -> Case:
    ending = Ending(tail_s=0.04, max_wait_s=0.1, flush_s=0.04, quiet_s=0.04, continuous_s=0.1, batch_s=0.02)
    cue = Cue(id="turn", text="", start=AtTime(time_s=0.1), audio=ref)
    return Case(id=name, benchmark="ifeval", conversation=name, stream="s", cues=(cue,), ending=ending)


@pytest.fixture(scope="session")
def six_cases(tmp_path_factory):
    """A dataset of the cases c0 to c5, to be read only."""
    folder = tmp_path_factory.mktemp("six")
    (folder / "audio").mkdir()
    path = folder / "audio" / "turn.wav"
    soundfile.write(path, np.full(4800, 900, np.int16), 24000)
    ref = AudioRef(path="audio/turn.wav", samples=4800, sha256=sha256_of(path))
    datasets.write(folder, [short_case(f"c{i}", ref) for i in range(6)], version="1", author="x", speech=None)
    return datasets.load(folder)
