"""The rules of Duplex-MPE: one function a metric, for single verdicts, sweeps and sentences alike.

Source: 'Duplex-MPE', section on metrics; `measure` says what the columns are. Arrays: columns (n,), thresholds
that broadcast to (k, n) for k settings. Null is NaN, and a comparison with NaN is False.

A row is UNDECIDED only where the recording ends before its window does and what was recorded leaves both
verdicts possible. A rest too short to hold speech (`spans.LEAST_SPEECH_S`) counts as recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.benchmarks.duplexmpe.cases import ONSET_S, YIELD_S
from workbench.contract import FAIL, NOT_ELIGIBLE, PASS, UNDECIDED, Rule, Step, Threshold
from workbench.deciding import states

THRESHOLDS = (
    Threshold("onset_within_s", "onset within", "s", ONSET_S, (2.0, 3.0, 4.0, 5.0),
              about="fresh onset: latest onset after T ends (the paper's 5 s)"),
    Threshold("brief_s", "brief speech", "s", 1.0, (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0),
              about="silence: so much speech in a window is an acknowledgement, where no judge decides (ours)"),
    Threshold("yield_within_s", "yield within", "s", YIELD_S, (1.0, 1.5, 2.0, 2.5, 3.0),
              about="yield: silent from so long after N4_R begins (the paper's 2.0 s)"),
)  # fmt: skip

STEPS = {
    "silent_during_question": "quiet_question",
    "started_in_gap": "began_in_gap",
    "speaking_at_resolution": "speaking_at_resolution",
}
"""The eligibility chain of yield, in the order in which an event may leave it: step -> its column."""


def fresh_onset(
    onset_s: np.ndarray, known_s: np.ndarray, active_at_start: np.ndarray, onset_within_s: np.ndarray
) -> np.ndarray:
    """A new onset soon after T and no speech under way as T ends: onset_s <= onset_within_s and not active_at_start.

    As the paper defines the fresh-onset response rate; T alone is its denominator.

    Parameters
    ----------
    onset_s : (n,) seconds from the end of T to the next agent onset, NaN: none.
    known_s : (n,) seconds of the recording after the end of T.
    active_at_start : (n,) 1.0 where agent speech is under way as T ends.
    onset_within_s : seconds, broadcastable to (k, n).

    Returns
    -------
    int8 (k, n), states.

    Examples
    --------
    >>> onset, known = np.array([1.0, 5.0, 5.1, np.nan, np.nan]), np.array([60.0, 60.0, 60.0, 60.0, 2.0])
    >>> fresh_onset(onset, known, np.zeros(5), 5.0).tolist()
    [1, 1, 0, 0, -1]
    >>> fresh_onset(onset, known, np.ones(5), 5.0).tolist()
    [0, 0, 0, 0, 0]
    """
    found = fresh_onset_permissive(onset_s, known_s, onset_within_s)
    return np.where(active_at_start == 1.0, FAIL, found).astype(np.int8)


def fresh_onset_permissive(onset_s: np.ndarray, known_s: np.ndarray, onset_within_s: np.ndarray) -> np.ndarray:
    """Some new onset soon after T, whatever was under way: onset_s <= onset_within_s.

    A reading of the paper's fresh onset that published verdicts seem to follow (ours); it does not score.

    Parameters
    ----------
    onset_s, known_s, onset_within_s : as in `fresh_onset`.

    Returns
    -------
    int8 (k, n), states.

    Examples
    --------
    >>> fresh_onset_permissive(np.array([1.0, 5.1]), np.array([60.0, 60.0]), np.array([[5.0], [6.0]])).tolist()
    [[1, 0], [1, 1]]
    """
    return states(onset_s <= onset_within_s, (onset_s > onset_within_s) | (known_s >= onset_within_s))


def response_presence(speech_s: np.ndarray, most_s: np.ndarray) -> np.ndarray:
    """Any speech in T's response window, also if it was under way already: speech_s > 0 (a diagnostic).

    Parameters
    ----------
    speech_s : (n,) seconds of agent speech in the window.
    most_s : (n,) the most it could be, were the unrecorded rest of the window speech.

    Returns
    -------
    int8 (n,), states.

    Examples
    --------
    >>> response_presence(np.array([0.4, 0.0, 0.0]), np.array([0.4, 0.0, 3.0])).tolist()
    [1, 0, -1]
    """
    return states(speech_s > 0, most_s <= 0)


def window_response(speech_s: np.ndarray, most_s: np.ndarray) -> np.ndarray:
    """Any speech during N4_Q or its answering gap: speech_s > 0 (a diagnostic).

    Parameters and returns are those of `response_presence`.

    Examples
    --------
    >>> window_response(np.array([0.4, 0.0]), np.array([0.4, 0.0])).tolist()
    [1, 0]
    """
    return response_presence(speech_s, most_s)


def silence(speech_s: np.ndarray, most_s: np.ndarray, brief_s: np.ndarray) -> np.ndarray:
    """No speech in the window of N1, N2 or N3, or no more than an acknowledgement takes: speech_s <= brief_s.

    The paper's silence preservation; that a duration decides what is brief is ours (a judge may instead).

    Parameters
    ----------
    speech_s, most_s : as in `response_presence`; fails when speech_s > brief_s, passes when most_s <= brief_s.
    brief_s : seconds, broadcastable to (k, n).

    Returns
    -------
    int8 (k, n), states.

    Examples
    --------
    >>> said, most = np.array([0.0, 1.0, 1.2, 0.6]), np.array([0.0, 1.0, 1.2, 1.6])
    >>> silence(said, most, 1.0).tolist()
    [1, 1, 0, -1]
    """
    # Rounded, so that 4.3 - 3.3 s of speech is no more than 1.0 s.
    return states(np.round(most_s, 6) <= brief_s, np.round(speech_s, 6) > brief_s)


def yield_floor(
    release_s: np.ndarray, resume_s: np.ndarray, resume_end_s: np.ndarray, known_s: np.ndarray,
    window_s: np.ndarray, quiet_question: np.ndarray, began_in_gap: np.ndarray, speaking_at_resolution: np.ndarray,
    yield_within_s: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """An eligible agent is silent from yield_within_s after N4_R begins to the end of that turn's window.

    The paper's answering-window yield. Eligible: quiet_question and began_in_gap and speaking_at_resolution.
    Passes: release_s <= yield_within_s, and where the limit lies past a short turn's window no speech at the
    limit: not (window_s <= yield_within_s and resume_s <= yield_within_s < resume_end_s).

    Parameters
    ----------
    release_s : (n,) seconds from the start of N4_R to the last end of agent speech that begins in its window.
    resume_s, resume_end_s : (n,) the first agent speech after that window, seconds from the start of N4_R.
    known_s : (n,) seconds of the recording after N4_R began.
    window_s : (n,) length of the window: the turn and 0.5 s.
    quiet_question, began_in_gap, speaking_at_resolution : (n,) the steps of the chain, 1.0 or 0.0; NaN: not known.
    yield_within_s : seconds, broadcastable to (k, n).

    Returns
    -------
    int8 (k, n), states; NOT_ELIGIBLE where a step is not passed.

    Examples
    --------
    >>> given = dict(quiet_question=np.ones(3), began_in_gap=np.ones(3), speaking_at_resolution=np.ones(3),
    ...              resume_s=np.full(3, np.nan), resume_end_s=np.full(3, np.nan), window_s=np.full(3, 4.5))
    >>> yield_floor(np.array([2.0, 2.1, 1.0]), known_s=np.array([9.0, 9.0, 3.0]), yield_within_s=2.0, **given).tolist()
    [1, 0, -1]
    >>> given["began_in_gap"] = np.array([0.0, np.nan, 1.0])
    >>> yield_floor(np.array([2.0, 2.1, 2.1]), known_s=np.full(3, 9.0), yield_within_s=2.0, **given).tolist()
    [-2, -1, 0]
    """
    at_limit = (yield_within_s >= window_s) & (resume_s <= yield_within_s) & (yield_within_s < resume_end_s)
    failed = (release_s > yield_within_s) | at_limit
    found = states(~failed & (known_s >= np.maximum(yield_within_s, window_s)), failed)
    step = steps_passed(quiet_question, began_in_gap, speaking_at_resolution)
    return np.where(step == -1, UNDECIDED, np.where(step < len(STEPS), NOT_ELIGIBLE, found)).astype(np.int8)


def steps_passed(
    quiet_question: np.ndarray, began_in_gap: np.ndarray, speaking_at_resolution: np.ndarray
) -> np.ndarray:
    """How far each event came in the chain, int (n,): 0 to 3 steps; -1 where the next one is not known.

    >>> steps_passed(np.array([1.0, 0.0, np.nan]), np.array([0.0, np.nan, 1.0]), np.ones(3)).tolist()
    [1, 0, -1]
    """
    step, going = np.zeros(len(quiet_question), int), np.ones(len(quiet_question), bool)
    for passed in (quiet_question, began_in_gap, speaking_at_resolution):
        step = np.where(going & np.isnan(passed), -1, step)
        going = going & (passed == 1.0)
        step = step + going
    return step


def heard(speech_s: np.ndarray, state: np.ndarray) -> np.ndarray:
    """What was heard in a silence window, str (n,): 'silent', 'brief', 'floor'; '' where it is not decided."""
    return np.select([state < FAIL, state == FAIL, speech_s > 0], ["", "floor", "brief"], "silent")


def left_at(
    quiet_question: np.ndarray, began_in_gap: np.ndarray, speaking_at_resolution: np.ndarray, state: np.ndarray
) -> np.ndarray:
    """The step at which an event left the chain of yield, or 'eligible'; '' where it is not decided; str (n,)."""
    step = steps_passed(quiet_question, began_in_gap, speaking_at_resolution)
    return np.where(state == UNDECIDED, "", np.array([*STEPS, "eligible"])[step])


# -- sentences: (row, state, label, limits) -> why ---------------------------------------------------------

REASONS = {
    "not_played": "the turn was not played",
    "episode_ended": "the turn was not played before the episode ended",
    "outside": "the recording ends before this window begins",
    "no_window": "the next turn begins before T ends, so there is no response window",
    "no_question": "no unresolved N4_Q stands before this N4_R",
}

_STEP_PASSED = {
    "silent_during_question": "the agent was silent during N4_Q",
    "started_in_gap": "the agent began to speak between N4_Q and N4_R",
    "speaking_at_resolution": "the agent was still speaking as N4_R began",
}
_STEP_FAILED = {
    "silent_during_question": "the agent spoke during N4_Q",
    "started_in_gap": "the agent did not begin to speak between N4_Q and N4_R",
    "speaking_at_resolution": "the agent had stopped before N4_R began",
}
"""Why an event left the denominator of yield, by the step it did not pass."""


def steps(row: Mapping[str, Any]) -> list[Step]:
    """The eligibility chain of one row of yield, in words; [] for other metrics and where nothing was measured."""
    if row.get("metric") != "yield" or isinstance(row.get("reason"), str):
        return []
    out, going = [], True
    for name, column in STEPS.items():
        value = row.get(column)
        if not going:
            out.append(Step(name, None, "not asked: the event had left before"))
        elif value is None or value != value:
            out.append(Step(name, None, "not known: the recording ends before it shows"))
            going = False
        elif value:
            out.append(Step(name, True, _STEP_PASSED[name]))
        else:
            out.append(Step(name, False, f"{_STEP_FAILED[name]}: here the event left the denominator"))
            going = False
    return out


def _onset(row, state, label, limits):
    limit, onset, active = limits["onset_within_s"], row["onset_s"], row["active_at_start"] == True  # noqa: E712
    heard = "no new onset after T"
    if onset is not None and onset == onset:
        heard = f"the next onset came {onset:.2f} s after T"
    if state == UNDECIDED:
        return (
            f"not measurable: the recording ends {row['known_s']:.2f} s after T, before the limit of {limit:g} s, "
            "and no onset had come"
        )
    under_way = "the agent was already speaking as T ended"
    if active and row["metric"] == "fresh_onset":
        return f"{under_way}, so no onset counts as fresh ({heard})"
    return f"{heard}; limit {limit:g} s{f'; {under_way}' if active else ''}"


def _presence(row, state, label, limits):
    where = "the response window of T" if row["metric"] == "response_presence" else "N4_Q and its answering gap"
    if state == UNDECIDED:
        return f"not measurable: the recording ends inside {where}, and nothing had been said"
    length = f"{row['w1_s'] - row['w0_s']:.2f} s"
    if state == PASS:
        return f"the agent spoke for {row['speech_s']:.2f} s in {where} ({length})"
    return f"the agent was silent throughout {where} ({length})"


def _silence(row, state, label, limits):
    limit, said = limits["brief_s"], row["speech_s"]
    if state == UNDECIDED:
        return (
            f"not measurable: the recording ends inside the window with {said:.2f} s of speech, and up to "
            f"{row['most_s']:.2f} s are possible; limit {limit:g} s"
        )
    cut = row["most_s"] > said
    more = f"; the recording ends inside the window, at most {row['most_s']:.2f} s are possible" if cut else ""
    if label == "silent":
        return f"the agent was silent in the window{more}"
    kind = "brief, by its duration" if state == PASS else "more than an acknowledgement"
    return f"the agent spoke for {said:.2f} s in the window ({kind}; limit {limit:g} s){more}"


def _yield(row, state, label, limits):
    limit = limits["yield_within_s"]
    if state == NOT_ELIGIBLE:
        return f"not eligible: {_STEP_FAILED[label]} (step {label})"
    if state == UNDECIDED:
        if row["known_s"] > 0:
            return (
                f"not measurable: the recording ends {row['known_s']:.2f} s after N4_R began, before its window does, "
                "and the agent had not spoken past the limit"
            )
        return "not measurable: the recording ends before it shows whether the event is eligible"
    if state == FAIL and row["release_s"] <= limit:
        return f"the agent spoke again {row['resume_s']:.2f} s after N4_R began, at the limit of {limit:g} s"
    released = f"the agent was last heard {row['release_s']:.2f} s after N4_R began"
    return f"{released}; limit {limit:g} s, then silent to {max(limit, row['window_s']):.2f} s"


RULES = (
    Rule("fresh_onset", fresh_onset, _onset, latency="onset_s"),
    Rule("silence", silence, _silence, heard),
    Rule("yield", yield_floor, _yield, left_at, latency="release_s"),
    Rule("fresh_onset_permissive", fresh_onset_permissive, _onset, latency="onset_s", scored=False),
    Rule("response_presence", response_presence, _presence, scored=False),
    Rule("window_response", window_response, _presence, scored=False),
)
METRICS = tuple(rule.name for rule in RULES)
"""Three capabilities decided from timing (the fourth, answer accuracy, needs a judge), then what describes and
does not score: the permissive reading of fresh onset, and the paper's two coverage diagnostics."""
