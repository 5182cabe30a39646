"""Agents, and work for the map, that end processes or hold them up: a module, for worker processes import it."""

import asyncio
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from workbench.agents.base import AudioOut, Note, Text, Traits, TurnEnd
from workbench.errors import InputError
from workbench.parallel import expect_within

WAYS = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "os._exit": lambda: os._exit(3),
    "sys.exit": lambda: sys.exit(4),
    "raises": lambda: 1 / 0,
    "spoils": lambda: (_ for _ in ()).throw(InputError("the file x.wav is no audio")),
}


class Mild:
    """Says a tenth of a second after ten frames, on either clock."""

    def __init__(self, pacing="input", **settings):
        self.traits = Traits("mild", "1", pacing, settings=settings)

    async def open(self, session, emit):
        self.case, self.emit, self.frames = session.case_id, emit, 0
        emit(Note("reported", {"pid": os.getpid()}))

    async def send(self, frame):
        self.frames += 1
        if self.frames == 10:
            self.emit(AudioOut(np.full(2400, 3000, np.int16), "a"))
            self.emit(Text("Yes. ", "a"))
            self.emit(TurnEnd("a"))

    async def close(self): ...


class Ends(Mild):
    """Ends its process in some cases (`how`: case -> in which way); `log` lists the sessions by case."""

    def __init__(self, how, pacing="input", log=""):
        super().__init__(pacing, how=how)
        self.how, self.log = how, log

    async def open(self, session, emit):
        await super().open(session, emit)
        with Path(self.log).open("a") as stream:
            stream.write(f"{session.case_id}\n")

    async def send(self, frame):
        await super().send(frame)
        if self.case in self.how and self.frames == 5:
            WAYS[self.how[self.case]]()


def work(job):
    """(what to do, value) -> value."""
    how, value = job
    if how == "hangs":
        expect_within(0.2)
        time.sleep(600)
    if how in WAYS:
        WAYS[how]()
    if how == "own argument":
        raise Awkward(1, 2)
    return value * 2, os.getpid()


def build_turn(job):
    return work((job.script, 1))


def linger(job):
    """Leaves its process id, and lasts as long as anybody lets it."""
    Path(job).write_text(str(os.getpid()))
    time.sleep(600)


def work_or_linger(job):
    return linger(job[1]) if job[0] == "linger" else work(job)


class Awkward(Exception):
    """Cannot be pickled back."""

    def __init__(self, first, second):
        super().__init__("awkward")


class Waits(Mild):
    """Never comes back from `send`."""

    async def send(self, frame):
        await asyncio.Event().wait()


class Rude(Mild):
    """Fails with words that would clear a terminal and rename its window."""

    async def send(self, frame):
        raise RuntimeError("gone\x1b[2J\x1b]0;mine\x07")
