"""The episode: one case played to one agent, the same code on either clock.

Every 20 ms one frame of user audio leaves, silence included, when its last sample would have been
captured. Cues start on that grid by their own rules; what the agent does never changes the user's
samples, only, where a rule says so, when a cue starts. Nothing the agent says is held back.

An agent is foreign code: its faults, of whatever kind and wherever they arise, become the record's error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.agents import door
from workbench.agents.base import FRAME_S, FRAME_SAMPLES, Agent, AgentError, Session, Traits
from workbench.cases import RATE_HZ, AfterGap, AfterOnset, AfterTurn, AtTime, AtWord, Case, Cue
from workbench.episodes import LATE_S, AgentInfo, EpisodeRecord, Failure, PlayedCue, Policy, Sends, Stall, record_of
from workbench.files import timestamp
from workbench.runners.guard import Clock, Guard, Stuck
from workbench.runners.recorder import Recorder

_SILENCE = np.zeros(FRAME_SAMPLES, np.int16)
_SLACK_S = 1e-9
STUCK_S = 300.0
"""An agent that takes longer than this over one call (of real time, on either clock) is given up."""
CLOSE_S = 10.0
"""As much is given to closing a session; by then its recording is whole."""
_LOOK_TICKS = 25

BATCH_WAIT_S = 60.0
"""How long a turn-based agent may take to answer a whole turn."""


@dataclass(frozen=True)
class Result:
    """An episode in memory: stereo int16 (samples, 2); delivered int16 or None when nothing was cut.

    retry : the agent failed in a way that another attempt may mend.
    """

    record: EpisodeRecord
    stereo: np.ndarray | None
    delivered: np.ndarray | None
    retry: bool = False


class _Episode:
    def __init__(
        self, case: Case, clips: dict[str, np.ndarray], agent: Agent, traits: Traits, clock: Clock, policy: Policy
    ):
        self.case, self.clips, self.agent, self.traits, self.clock = case, clips, agent, traits, clock
        self.guard = Guard(f"the agent {traits.name!r} in case {case.id}")
        # What an agent says before the first user frame is placed at the session's beginning.
        self.streaming = False
        self.recorder = Recorder(lambda: clock.now() if self.streaming else 0.0, policy, traits.placement)
        self.stalls: list[Stall] = []
        self.tick = 0
        self.pending: list[Cue] = list(case.cues)
        self.playing: list[tuple[Cue, int]] = []
        self.played: dict[str, PlayedCue] = {}
        self.previous_end_s = 0.0
        self.onset_s: float | None = None
        self.finished_s: float | None = None
        self.tells_cues = (traits.privileged or traits.turns == "batch") and hasattr(agent, "cue")

    @property
    def now_s(self) -> float:
        return self.tick * FRAME_S

    # The stream ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Open the agent and stream until the ending is over.

        Raises
        ------
        AgentError : the agent reported a fault. Whatever else the agent raises.
        """
        self.clock.start()
        session = Session(
            case_id=self.case.id,
            system_prompt=self.case.system_prompt,
            played_samples=self.recorder.played_samples,
            case=self.case if self.traits.privileged else None,
        )
        with self.guard:
            await self.agent.open(session, self.recorder.receive)
        self.clock.start()
        self.streaming = True
        over_at_s = None
        while True:
            await self._start_due_cues()
            if not self.pending and not self.playing:
                over_at_s = self._over_at_s()
                if over_at_s is not None and self.now_s >= over_at_s - _SLACK_S:
                    await asyncio.sleep(0)  # tasks of the agent's own may not have had a turn on a virtual clock
                    return self._check(last=True)
            await self._send(self._mix())
            self._check()

    async def close(self) -> None:
        with self.guard:
            await self.agent.close()

    def _check(self, last: bool = False) -> None:
        fault = self.recorder.fault
        if fault is not None:
            raise AgentError(fault.kind, fault.message, retry=fault.retry)
        if last or self.tick % _LOOK_TICKS == 0:
            unseen = self.guard.unseen(last)
            if unseen is not None:
                raise unseen

    async def _send(self, frame: np.ndarray) -> None:
        self.tick += 1
        late_s = await self.clock.sleep_until(self.tick * FRAME_S)
        self.recorder.user.append(frame)
        if self.clock.kind == "wall":
            self.recorder.late_s.append(round(late_s, 5))
            if late_s > LATE_S:
                self._stalled(late_s)
        with self.guard:
            await self.agent.send(frame.copy())  # its own: what it does to it is not recorded
        for cue, at in [entry for entry in self.playing if entry[1] >= self.clips[entry[0].id].size]:
            self.playing.remove((cue, at))
            # The cue's end is its last sample, not the end of the frame that carried it.
            self.previous_end_s = max(self.previous_end_s, self.played[cue.id].end_s)
            self.finished_s = None
            await self._tell(cue, "end")

    async def _tell(self, cue: Cue, phase: str) -> None:
        if self.tells_cues:
            with self.guard:
                await self.agent.cue(cue.id, phase)

    def _stalled(self, late_s: float) -> None:
        """Note a late frame, as part of the stall before it where that goes on."""
        due_s = self.tick * FRAME_S
        not_own_s, by = self.guard.blame(late_s)
        own = not_own_s <= LATE_S
        now = Stall(
            start_s=round(due_s, 3),
            end_s=round(due_s + late_s, 3),
            late_s=round(late_s, 3),
            by=self.guard.who if own else by,
            own=own,
        )
        if self.stalls and (last := self.stalls[-1]).own == own and due_s <= last.end_s + FRAME_S:
            worst = max(last, now, key=lambda stall: stall.late_s)
            self.stalls[-1] = last.model_copy(
                update={"end_s": now.end_s, "late_s": worst.late_s, "by": last.by or now.by}
            )
        else:
            self.stalls.append(now)

    def _mix(self) -> np.ndarray:
        if not self.playing:
            return _SILENCE
        frame = np.zeros(FRAME_SAMPLES, np.int32)
        for index, (cue, at) in enumerate(self.playing):
            part = self.clips[cue.id][at : at + FRAME_SAMPLES]
            frame[: part.size] += part
            self.playing[index] = (cue, at + FRAME_SAMPLES)
        return np.clip(frame, -32768, 32767).astype(np.int16)

    # When cues start -----------------------------------------------------------------------------

    async def _start_due_cues(self) -> None:
        while self.pending:
            cue = self.pending[0]
            if any(other.track == cue.track for other, _ in self.playing):
                return
            due_s, reason = self._due(cue)
            if reason:
                self.pending.pop(0)
                self.played[cue.id] = PlayedCue(id=cue.id, reason=reason)
                self.recorder.log("cue_missed", cue=cue.id, reason=reason)
                continue
            if due_s is None or due_s > self.now_s + _SLACK_S:
                return
            self.pending.pop(0)
            self.playing.append((cue, 0))
            end_s = self.now_s + self.clips[cue.id].size / RATE_HZ
            self.played[cue.id] = PlayedCue(id=cue.id, start_s=round(self.now_s, 3), end_s=round(end_s, 3))
            self.recorder.log("cue", cue=cue.id)
            await self._tell(cue, "start")

    def _due(self, cue: Cue) -> tuple[float | None, str | None]:
        """When the cue is due (None: not known yet), or why it can never be played."""
        waited_s = self.now_s - self.previous_end_s
        match cue.start:
            case AtTime(time_s=time_s):
                return time_s, None
            case AfterGap(gap_s=gap_s):
                return (None if self.playing else self.previous_end_s + gap_s), None
            case AfterTurn() as rule:
                return (None if self.playing else self._after_turn(rule)), None
            case AfterOnset(delay_s=delay_s, max_wait_s=max_wait_s):
                self.onset_s = self.recorder.onset_after(self.previous_end_s, self.now_s)
                if self.onset_s is not None:
                    return self.onset_s + delay_s, None
                return None, "no_model_onset" if waited_s >= max_wait_s else None
            case AtWord(word=word, delay_s=delay_s, max_wait_s=max_wait_s):
                played_s = self.recorder.word_after(word, self.previous_end_s, self.now_s)
                if played_s is not None:
                    return played_s + delay_s, None
                return None, "word_not_heard" if waited_s >= max_wait_s else None

    def _after_turn(self, rule: AfterTurn) -> float | None:
        if self.traits.turns == "continuous" and rule.fixed_gap_s is not None:
            return self.previous_end_s + rule.fixed_gap_s
        longest_s = BATCH_WAIT_S if self.traits.turns == "batch" else rule.max_wait_s
        finished_s = self._agent_finished(rule.quiet_s, longest_s, rule.give_up_s, rule.by_silence)
        return None if finished_s is None else finished_s + rule.settle_s

    def _agent_finished(
        self, quiet_s: float, max_wait_s: float, give_up_s: float | None = None, by_silence: bool = False
    ) -> float | None:
        """When the agent's turn after the previous cue was over; None while it is not.

        With turn events: the turn has ended and all of it has been played. Without, or `by_silence`:
        speech was heard and `quiet_s` of silence followed. Either way the wait is bounded.
        """
        if self.finished_s is not None:
            return self.finished_s
        since_s = self.previous_end_s
        last_loud_s = self.recorder.last_loud_s(self.now_s)
        spoke = last_loud_s is not None and last_loud_s > since_s
        if by_silence or self.traits.turns == "continuous":
            done = spoke and self.now_s - last_loud_s >= quiet_s
        else:
            ended = self.recorder.last_turn_end_s >= since_s or (spoke and not self.recorder.turn_open)
            done = ended and not self.recorder.turn_open and self.recorder.drained(self.now_s)
        waited_s = self.now_s - since_s
        if done:
            self.finished_s = self.now_s
        elif waited_s >= max_wait_s - _SLACK_S or (give_up_s is not None and not spoke and waited_s >= give_up_s):
            self.finished_s = self.now_s
            self.recorder.log("wait_over", waited_s=round(waited_s, 3), spoke=spoke)
        return self.finished_s

    def _over_at_s(self) -> float | None:
        ending, turns = self.case.ending, self.traits.turns
        if turns == "continuous" and ending.continuous_s is not None:
            return self.previous_end_s + ending.continuous_s
        waits_s = BATCH_WAIT_S if turns == "batch" else ending.tail_s + ending.max_wait_s
        if self.now_s < self.previous_end_s + ending.tail_s:
            return None
        finished_s = self._agent_finished(ending.quiet_s, waits_s)
        if finished_s is None:
            return None
        return finished_s + (ending.batch_s if turns == "batch" else ending.flush_s)


def _info(traits: Traits, **reported: Any) -> AgentInfo:
    own = {name: getattr(traits, name) for name in ("name", "version", "settings", "privileged")}
    return AgentInfo(**own, **reported)


def without_recording(
    case: Case, failure: Failure, clock: str, policy: Policy, traits: Traits | None = None
) -> EpisodeRecord:
    """The record of a case that failed before, or without, anything that could be kept."""
    traits = traits or Traits("unknown", "", "input")
    return record_of(
        case,
        {},
        status="error",
        error=failure,
        agent=_info(traits),
        clock=clock,
        policy=policy,
        placement=traits.placement,
        duration_s=0.0,
        sends=Sends(frame_samples=FRAME_SAMPLES, frames=0),
    )


async def run_episode(
    case: Case,
    clips: dict[str, np.ndarray],
    make_agent: Callable[[], Agent],
    make_clock: Callable[[], Clock],
    policy: Policy = "as_played",
) -> Result:
    """Play `case` to a fresh agent and record both sides.

    clips : cue id -> int16 (samples,) at 24 kHz. A fault of the agent gives a record with status
    'error' and whatever was recorded by then; it never raises for one.
    """
    started = timestamp()
    clock = make_clock()
    try:
        agent = make_agent()
        episode = _Episode(case, clips, agent, door.traits(agent.traits), clock, policy)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit and cancelling included
        failure = Failure(kind="agent_not_made", message=f"The agent could not be made: {door.words(error)}")
        return Result(without_recording(case, failure, clock.kind, policy), None, None)
    failure, retry = await _perform(episode)
    traits, recorder = episode.traits, episode.recorder
    stereo, delivered, cut = recorder.finish()
    record = record_of(
        case,
        episode.played,
        status="error" if failure else "complete",
        error=failure,
        agent=_info(traits, reported=recorder.reported),
        clock=clock.kind,
        policy=policy,
        placement=traits.placement,
        duration_s=round(stereo.shape[0] / RATE_HZ, 6),
        onset_s=None if episode.onset_s is None else round(episode.onset_s, 3),
        transcript=tuple(recorder.pieces) if traits.text else None,
        sends=Sends(
            frame_samples=FRAME_SAMPLES,
            frames=len(recorder.user),
            late_s=tuple(recorder.late_s),
            stalls=tuple(episode.stalls),
        ),
        deliveries=recorder.deliveries(),
        cut_samples=cut,
        delivered_audio=f"{case.id}.delivered.flac" if cut else None,
        events=tuple(recorder.events),
        started=started,
    )
    return Result(record, stereo if stereo.size else None, delivered if cut else None, retry)


async def _perform(episode: _Episode) -> tuple[Failure | None, bool]:
    """Run and close the session: what failed, if anything did, and whether another attempt may help."""
    failure, retry = None, False
    try:
        await episode.guard.run(episode.run(), STUCK_S)
    except Stuck:
        failure = Failure(kind="stuck", message=f"The agent took more than {STUCK_S:g} s over one call.")
    except AgentError as error:
        failure = Failure(kind=door.words(error.kind), message=door.words(error.message))
        retry = bool(error.retry)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise
    except BaseException as error:
        failure = Failure(kind="agent_exception", message=door.words(error))
    finally:
        try:
            await episode.guard.run(episode.close(), CLOSE_S)
        except Stuck:
            episode.recorder.log("close_failed", message=f"The agent took more than {CLOSE_S:g} s to close.")
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise
        except BaseException as error:
            episode.recorder.log("close_failed", message=door.words(error))
        await episode.guard.clear()
    return failure, retry
