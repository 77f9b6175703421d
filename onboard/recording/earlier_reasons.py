"""Sentences of earlier releases in recordings, and the reasons of today (`onboard/values/reasons.py`)."""

from __future__ import annotations

import re
from functools import lru_cache

from onboard.values import reasons

GOAL = r"(?P<before>.*?(?:goal refused: |reason=))"
EARLIER = tuple(
    (re.compile(pattern, re.DOTALL), row)
    for pattern, row in (
        (
            rf"{GOAL}it came (?P<late_s>\S+) s late, or its clock was set back; at most (?P<limit_s>\S+) s are taken",
            reasons.GOAL_LATE,
        ),
        (rf"{GOAL}(?P<axis>[xy]) is (?P<value>\S+)", reasons.GOAL_NOT_FINITE),
        (
            rf"{GOAL}(?P<away_m>\S+) m away, limit (?P<limit_m>\S+) m \(goal\.max_distance_m\)",
            reasons.GOAL_TOO_FAR,
        ),
        (
            r"(?P<before>(?:localisation_refused: )?)localisation refused: it came before the first odometry",
            reasons.FIX_BEFORE_ODOMETRY,
        ),
        (
            r"(?P<before>(?:speed_limit_refused: )?)it is (?P<value>\S+); the one before stays in force",
            reasons.LIMIT_REFUSED,
        ),
    )
)
"""What a state or an event was, with its details, and its row of today."""


NO_ORIENTATION = (
    "its orientation is no unit quaternion of an upright base (the norm of x, y, z, w must be 0.9 to 1.1): "
    "does its driver leave it empty, or w out?"
)


@lru_cache(maxsize=512)
def today(text: str) -> str:
    """Return a recorded state or event with the sentence of today."""
    for pattern, row in EARLIER:
        if found := pattern.fullmatch(text):
            details = {name: _value(value) for name, value in found.groupdict().items() if name != "before"}
            return found["before"] + row.say(**details)
    return text.replace(NO_ORIENTATION, reasons.NO_ORIENTATION)


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
