"""The cascade agent: hears, decides, thinks and speaks, all of it inside `send`.

It is paced by its input, so the virtual clock runs it as fast as the CPU allows and the same case
gives the same recording. Computing costs no session time there, although it does in any real system:
`latency_s` stands for it, the time from the decision to speak to the first sound.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import numpy as np

from workbench.agents.base import AgentError, Emit, Note, Session, Traits
from workbench.agents.cascade import policy as policies
from workbench.agents.cascade import words
from workbench.agents.cascade.hearing import TRAIL_S, Ears, Recogniser
from workbench.agents.cascade.policy import View, decide
from workbench.agents.cascade.speaking import ChatBrain, Pending, RuleBrain, Speaker, Turn, replies
from workbench.cases import RATE_HZ
from workbench.construct.speech import SpeechCache
from workbench.errors import InputError
from workbench.version import VERSION


class CascadeAgent:
    """See docs/cascade.md for policies and options; `policy.Policy` for the policies' own numbers.

    Parameters
    ----------
    policy : patient, balanced, eager, backchanneling or prompted.
    model, base_url, key_env, timeout_s : a chat endpoint as the brain; without a model, built-in rules.
    voice : `engine:voice` or a voice of hibari.
    latency_s : session time from the decision to answer to the first sound.
    lead_s : how far audio is delivered ahead of playing.
    live : while the brain takes longer than `latency_s`, go on listening (for real time); otherwise
        the stream stands still meanwhile, which is what keeps a recording repeatable.
    changes : any field of `Policy`, such as `interrupts=true`; under `prompted` they are the start.
    """

    def __init__(
        self,
        policy: str = "balanced",
        *,
        model: str = "",
        base_url: str = "",
        key_env: str = "",
        timeout_s: float = 20.0,
        voice: str = "hibari:mid",
        latency_s: float = 0.35,
        lead_s: float = 0.0,
        live: bool = False,
        **changes: Any,
    ):
        if base_url and not model:
            raise InputError(f"The chat endpoint {base_url} needs the name of a model; give model=NAME as well.")
        self._base = self._policy = policies.make(policy, changes)
        self._latency = round(policies.read("latency_s", latency_s, float) * RATE_HZ)
        self._live = policies.read("live", live, bool)
        self._voice, self._lead_s = voice, policies.read("lead_s", lead_s, float)
        chat = (model, base_url, key_env, policies.read("timeout_s", timeout_s, float))
        self._brain = ChatBrain(*chat) if model else RuleBrain()
        settings = {
            **asdict(self._base),
            "latency_s": self._latency / RATE_HZ,
            "lead_s": self._lead_s,
            "live": self._live,
            "voice": voice,
            **self._brain.settings,
        }
        settings["policy"] = settings.pop("name")
        self.traits = Traits("cascade", VERSION, "input", settings=settings)
        self._recogniser: Recogniser | None = None
        self._speaker: Speaker | None = None
        self._pending: Pending | None = None

    async def open(self, session: Session, emit: Emit) -> None:
        self._emit = emit
        try:
            cache = SpeechCache(engine=self._voice.partition(":")[0] if ":" in self._voice else "hibari")
            self._recogniser = await asyncio.to_thread(Recogniser)
            self._ears = Ears(self._recogniser)
            self._speaker = Speaker(emit, cache, self._voice, self._lead_s)
            self._short = [await self._speaker.render(text) for text in replies()["backchannels"]]
        except InputError as error:
            raise AgentError("cannot_open", str(error)) from None
        self._position = 0
        self._history: list[tuple[str, str]] = []
        self._sounds = self._taken = 0
        self._backchannelled = self._interrupted = self._over = False
        emit(Note("reported", {"recogniser": self._recogniser.name, "speech": cache.engine.version()}))
        await self.instruct(session.system_prompt)

    async def instruct(self, prompt: str) -> None:
        """Take another system prompt, from now on."""
        self._prompt = prompt
        if self._base.name == "prompted":
            self._policy, found = policies.prompted(self._base, prompt)
            read = [{"sentence": reading.sentence, "about": reading.about, **reading.set} for reading in found]
            self._emit(Note("prompt_read", {"directives": read}))
            self._emit(Note("reported", {"policy_in_force": asdict(self._policy)}))

    async def send(self, frame: np.ndarray) -> None:
        self._position += frame.size
        self._listen(frame)
        await self._act()
        await self._speaker.frame(self._position)

    @property
    def _now_s(self) -> float:
        return self._position / RATE_HZ

    def _listen(self, frame: np.ndarray) -> None:
        for edge in self._ears.push(frame, self._now_s):
            if edge.kind == "start":
                self._over = self._speaker.saying in ("answer", "interrupt")
                self._backchannelled = False
            self._emit(Note(f"user_speech_{edge.kind}", {"at_s": round(edge.at_s, 3)}))

    def _view(self) -> View:
        speaker, ears = self._speaker, self._ears
        began_s, overlap_s = speaker.started / RATE_HZ, 0.0
        # Whoever breaks in talks over the user's sentence on purpose: only a new one counts against it.
        counts = ears.started_s >= began_s or speaker.saying == "answer"
        if speaker.saying and ears.talking and counts:
            overlap_s = self._now_s - max(ears.started_s, began_s)
        return View(
            saying=speaker.saying,
            overlap_s=overlap_s,
            heard=ears.heard,
            talking=ears.talking,
            silence_s=ears.silence_s(self._now_s),
            words=ears.words,
            backchannelled=self._backchannelled or bool(speaker.saying),
            interrupted=self._interrupted,
            chunks=ears.chunks,
        )

    async def _act(self) -> None:
        if self._pending is not None:
            await self._go_on()
            return
        view = self._view()
        if self._turn_is_over(view):
            self._next_turn()
            return
        action = decide(self._policy, view)
        if action == "none":
            return
        about = {"action": action, "silence_s": round(view.silence_s, 3), "heard": " ".join(view.words)}
        self._emit(Note("decided", about))
        match action:
            case "stop":
                await self._stop()
            case "backchannel":
                at = self._sounds % len(self._short)
                self._sounds += 1
                self._backchannelled = True
                self._speaker.begin("backchannel", [replies()["backchannels"][at]], self._short[at], self._position)
            case "answer" | "interrupt":
                self._prepare(action, list(view.words)[self._taken :], self._latency)

    def _turn_is_over(self, view: View) -> bool:
        """Whether the user's turn ended without asking for an answer."""
        if not view.heard or view.talking or view.silence_s < TRAIL_S:
            return False
        if view.saying == "interrupt":  # they gave way, and the agent is just saying what it would
            return True
        # A "mm-hm" while the agent spoke.
        return self._over and not view.saying and words.only_acknowledges(view.words)

    def _next_turn(self) -> None:
        self._ears.next_turn()
        self._interrupted = self._over = False
        self._taken = 0

    def _prepare(self, kind: str, heard: list[str], latency: int) -> None:
        self._interrupted = self._interrupted or kind == "interrupt"
        reads_back = self._policy.readback and kind == "answer"
        dictated = words.dictated(heard, self._ears.chunks) if reads_back else ""
        turn = Turn(heard, kind, self._prompt, tuple(self._history))
        self._pending = Pending(self._brain, self._speaker, turn, dictated, self._position + latency)

    async def _go_on(self) -> None:
        pending = self._pending
        if pending.kind == "answer" and self._ears.talking:
            self._pending = None  # the user was not done
            await pending.drop()
            return
        if self._position < pending.due or self._speaker.saying or (self._live and not pending.work.done()):
            return
        await self._begin()

    async def _begin(self) -> None:
        pending, self._pending = self._pending, None
        pieces, first = await pending.work
        if self._brain.reported:
            self._emit(Note("reported", self._brain.reported))
        self._emit(Note("heard", {"text": " ".join(pending.words)}))
        self._history.append(("user", " ".join(pending.words)))
        self._history.append(("assistant", " ".join(pieces)))
        self._speaker.begin(pending.kind, pieces, first, self._position)
        if pending.kind == "answer":
            self._next_turn()
        else:
            self._taken = len(pending.words)

    async def _stop(self) -> None:
        spoken = self._speaker.saying in ("answer", "interrupt")
        said = await self._speaker.stop(self._position)
        if spoken:
            self._history[-1] = ("assistant", said)  # only what was heard was said
        self._over = False

    async def respond(self) -> None:
        """Answer now, whatever the policy would wait for (a client asked for it)."""
        if self._speaker.saying and not self._speaker.delivered:
            return
        if self._pending is None:
            self._prepare("answer", self._ears.latest_words()[self._taken :], 0)
        await self._begin()
        await self._speaker.frame(self._position)

    async def cancel(self, item: str = "") -> None:
        """Stop speaking (a client asked for it); `item` limits it to that utterance."""
        if self._speaker.saying and item in ("", self._speaker.item):
            await self._stop()

    async def close(self) -> None:
        if self._pending is not None:
            await self._pending.close()
        if self._speaker is not None:
            await self._speaker.close()
        if self._recogniser is not None:
            self._recogniser.close()
        await self._brain.close()
