"""The result of a replay as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from hil.replay.compare import Comparison, Mismatch
from hil.replay.other_policy import PolicyComparison
from onboard.policy.contract import ACTIONS

MOST_SHOWN = 3
"""Number of action pairs and of moments in the lines; the JSON has more."""
CUT_OFF = "cut off: what is left was replayed from a repaired copy"


def compared_line(found: Comparison) -> str:
    """Return the result of a file: amounts, tolerance, and the first difference."""
    parts = [f"{found.source}: {found.outcome}", *_amounts(found), f"judged {_judged(found)}"]
    if found.recorded_s > 0.0 and found.took_s > 0.0:
        parts.append(f"{found.recorded_s / found.took_s:.1f} times real time")
    if found.cut_off:
        parts.append(CUT_OFF)
    if found.first is not None:
        parts.append(first_line(found.first))
    return ", ".join(parts)


def _amounts(found: Comparison) -> Iterator[str]:
    of_all = f" of {found.ticks + found.skipped:,}" if found.skipped else ""
    yield f"{found.ticks:,}{of_all} ticks"
    if found.gaps:
        yield f"{found.gaps:,} gaps"
    yield f"{found.decisions:,} decisions"
    yield f"{found.fused:,} scans fused again"
    for why, count in found.unfused.items():
        yield f"{count:,} not ({why})"


def _judged(found: Comparison) -> str:
    return " and ".join(dict.fromkeys(session.measure.description for session in found.sessions))


def first_line(found: Mismatch) -> str:
    """Return the first difference in words."""
    one = found.difference
    place = (
        f"first difference at tick {found.tick} ({found.t_s:.3f} s), stage {one.stage}, field {one.field}{one.place}"
    )
    return f"{place}, recorded {_shown(one.recorded)}, now {_shown(one.replayed)}"


def opinion_lines(found: PolicyComparison) -> Iterator[str]:
    """Yield how often another policy agrees, its most frequent other actions, and its largest disagreements."""
    same = f"would have done the same in {found.same:,} of {found.decisions:,} decisions"
    yield ", ".join([f"{found.source}: {found.policy} {same}", *([CUT_OFF] if found.cut_off else [])])
    otherwise = [(pair, count) for pair, count in found.pairs.most_common() if pair[0] != pair[1]]
    if otherwise:
        shown = (f"{_change(*pair)} {count:,} times" for pair, count in otherwise[:MOST_SHOWN])
        yield f"  most often otherwise: {'; '.join(shown)}"
    moments = sorted(found.moments, reverse=True)[:MOST_SHOWN]
    if moments:
        shown = (
            f"tick {moment.tick} ({moment.t_s:.3f} s) {_change(moment.recorded, moment.decided)}" for moment in moments
        )
        yield f"  disagrees most at {'; '.join(shown)}"


def _change(recorded: int, decided: int) -> str:
    return f"{_twist(decided)} for {_twist(recorded)}"


def _twist(action: int) -> str:
    twist = ACTIONS[action]
    return f"{twist.v_mps:g} m/s {twist.w_radps:g} rad/s"


def _shown(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
