"""What the clock's reset of the memory does: conditions that differ by it alone, on the same episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engines.report.differences import code_mark, differences, pairs_of, told_beside
from engines.report.gathered import Evaluated
from hil.evaluate.doors import is_behind

RESET, NEVER = "memory_reset_s", "never"


def reset_words(evaluations: Sequence[Evaluated]) -> list[str]:
    """Return a sentence for each two conditions of which one resets the memory by the clock and the other never does.

    With doors it is of the episodes behind them.
    """
    never = [one for one in evaluations if _values(one).get(RESET) == NEVER]
    pairs = [(reset, other) for other in never for reset in evaluations if _differ_by_the_reset(reset, other)]
    told = [_words(*pair) for pair in sorted(pairs, key=lambda pair: pair[0].condition)]
    return [words for words in told if words]


def _words(reset: Evaluated, never: Evaluated) -> str:
    doors = any(is_behind(row) for row in reset.rows)
    pairs = [pair for pair in pairs_of(reset, never) if not doors or is_behind(pair[0])]
    if not pairs:
        return ""
    named = [f"`{one.condition}`" + (" behind doors" if doors else "") for one in (reset, never)]
    return told_beside(*named, len(pairs), differences(pairs), code_mark(reset, never))


def _values(one: Evaluated) -> dict[str, Any]:
    """Return the values of its condition; nothing of a result of before they were kept."""
    return dict(one.configuration.get("condition_values") or {})


def _differ_by_the_reset(reset: Evaluated, never: Evaluated) -> bool:
    one, other = _values(reset), _values(never)
    alike = (reset.loop, reset.color, reset.unusual) == (never.loop, never.color, never.unusual)
    return alike and reset.is_of_robot(never) and one.pop(RESET, NEVER) != other.pop(RESET, None) and one == other
