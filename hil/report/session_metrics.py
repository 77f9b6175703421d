"""Metrics of a session: drives, counts and times over all ticks, and its headline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hil.report.events import (
    OPERATOR,
    ZONE,
    lost_spans,
    missed_decisions,
    never_seen,
    row_of,
    runs,
    with_code,
)
from hil.report.timeline import Floats, Timeline
from onboard.counters import BUDGET_MS
from onboard.navigation.mission import DRIVING, State, state_word

QUANTILES = (50.0, 90.0, 99.0, 99.9)
REACHED = State.REACHED.value
MOVING = tuple(state.value for state in DRIVING)


@dataclass(frozen=True, slots=True)
class Drive:
    """One goal: rows of its first and last driving tick, how it ended, path length and distance left [m]."""

    episode: int
    first: int
    last: int
    ended: str
    took_s: float
    path_m: float
    left_m: float | None


@dataclass(frozen=True, slots=True)
class Times:
    """A distribution of durations [ms]. limit_ms: their limit, None without a limit."""

    name: str
    what: str
    values: Floats
    limit_ms: float | None
    quantiles: tuple[float, ...]
    largest: float
    over: int


def drives_of(timeline: Timeline) -> list[Drive]:
    """Return one drive for each accepted goal, and for a goal that was active when the recording began."""
    found = []
    steps = np.nan_to_num(np.hypot(*np.diff(timeline.odometry[:, :2], axis=0).T))
    for first, last, episode in runs(timeline.episode.tolist()):
        in_progress = [row for row in range(first, last + 1) if state_word(timeline.state[row]) in MOVING]
        if not isinstance(episode, int) or episode == 0 or not in_progress:
            continue
        begin, end = in_progress[0], in_progress[-1]
        after = min(end + 1, timeline.ticks - 1)
        ended = timeline.state[after]
        if after > last:
            ended = "another goal"
        elif state_word(ended) in MOVING:
            ended = "the recording ends"
        elif state_word(ended) == State.IDLE.value:
            ended = "cancelled"
        left = timeline.goal_distance_m[end]
        found.append(
            Drive(
                episode,
                begin,
                end,
                ended,
                timeline.end_s(end) - float(timeline.t_s[begin]),
                float(steps[begin:after].sum()),
                float(left) if np.isfinite(left) else None,
            )
        )
    return found


def times_of(timeline: Timeline) -> list[Times]:
    """Return the distributions of times. Those of a simulated clock are all zero and are left out."""
    rates = timeline.config.rates
    period_ms = 1e3 / rates.control_hz
    delay_ms = rates.delay_ticks * period_ms
    policy = f"the policy, from its observation to its action{_without(timeline)}"
    found = [
        ("a tick began late by", "after its slot in the grid of ticks", timeline.late_ms, None),
        ("a tick took", "all stages up to the command, without its wait", timeline.took_ms, period_ms),
        ("a decision took", policy, timeline.decision_ms, BUDGET_MS),
        ("from sensing to acting", f"by design constant: {delay_ms:.0f} ms", timeline.delay_ms, None),
    ]  # fmt: skip
    return [times(*one) for one in found if np.nan_to_num(one[2]).any()]


def _without(timeline: Timeline) -> str:
    """Return the remark that missed decisions have no time, or ""."""
    missed = int(missed_decisions(timeline).sum())
    return f"; without the {missed:,} that came too late or not at all" if missed else ""


def times(name: str, what: str, values: Floats, limit_ms: float | None) -> Times:
    """Return the statistics of a distribution; NaN values are ignored."""
    kept = values[np.isfinite(values)]
    quantiles = tuple(float(one) for one in np.percentile(kept, QUANTILES)) if len(kept) else ()
    largest = float(kept.max()) if len(kept) else 0.0
    return Times(name, what, kept, limit_ms, quantiles, largest, int((kept > limit_ms).sum()) if limit_ms else 0)


def headline(timeline: Timeline, drives: Sequence[Drive]) -> str:
    """Return the outcome of a session in one sentence."""
    return f"{_outcome(timeline, drives)}: {', '.join(_counts(timeline))}"


def _outcome(timeline: Timeline, drives: Sequence[Drive]) -> str:
    if not drives:
        return f"Stood without a goal for {timeline.end_s(timeline.ticks - 1):.1f} s"
    if len(drives) > 1:
        reached = sum(state_word(one.ended) == REACHED for one in drives)
        return f"Reached {reached} of {len(drives)} goals in {sum(one.took_s for one in drives):.1f} s of driving"
    drive = drives[0]
    took = f"{drive.took_s:.1f} s"
    if state_word(drive.ended) == REACHED:
        return f"Reached the goal in {took}"
    short = "" if drive.left_m is None else f", {drive.left_m:.2f} m from the goal"
    if drive.ended == "cancelled":
        return f"Cancelled after {took}{short}"
    if state_word(drive.ended) == State.STOPPED.value:
        return f"Stopped after {took}{short}, reason: {with_code(drive.ended.partition(': ')[2])}"
    return f"Still driving after {took}{short} when the recording ends"


def endings(drives: Sequence[Drive]) -> str:
    """Return how the drives without success ended, the most frequent end first; "" if all succeeded."""
    ends = [
        drive.ended.removeprefix(f"{State.STOPPED.value}: ") for drive in drives if state_word(drive.ended) != REACHED
    ]
    others = Counter(map(with_code, ends))
    return ", ".join(f"{'once' if count == 1 else f'{count:,} times'} {ended}" for ended, count in others.most_common())


def _counts(timeline: Timeline) -> list[str]:
    kinds = np.array([row_of(reason).kind for reason in timeline.reason])
    missed = int(missed_decisions(timeline).sum())
    texts = [f"{plural(int((kinds == ZONE).sum()), 'command')} cut by collision zones", plural(missed, "deadline miss")]
    if timeline.faults:
        texts.append(plural(len(timeline.faults), "engine fault"))
    if presses := sum(bool(value) for _, _, value in runs((timeline.e_stop == 1).tolist())):
        texts.append(plural(presses, "e-stop"))
    if tries := sum(bool(value) for _, _, value in runs(timeline.recovery)):
        texts.append(plural(tries, "recovery"))
    if (kinds == OPERATOR).any():
        texts.append(f"an operator drove for {(kinds == OPERATOR).sum() * timeline.period_s:.1f} s")
    lost = [name for name in timeline.cameras if lost_spans(timeline, name)] + never_seen(timeline)
    if lost:
        texts.append(f"lost: {', '.join(lost)}")
    if skipped := int(timeline.missed.sum()):
        texts.append(f"{plural(skipped, 'tick')} skipped")
    if gaps := int(timeline.gap.sum()):
        texts.append(f"{plural(gaps, 'gap')} in the recording")
    return texts


def plural(count: int, word: str) -> str:
    """Return a count with its word, as in "1,203 ticks"."""
    if count != 1:
        word = f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("ss") else f"{word}s"
    return f"{count:,} {word}"
