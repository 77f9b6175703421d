"""No progress towards the goal ends the attempt."""

from __future__ import annotations

import pytest

from onboard.config.config import GoalSection
from onboard.navigation.mission import Progress, advance, begin
from onboard.values.clock import NS_PER_S

SECTION = GoalSection(progress_timeout_s=60.0)
REASON = "no progress towards the goal for 60 s"
START = begin(5.0, 0)

#   what                           distance  held   now [s]  since [s]  best  reason
LOOKS = [
    ("nearer", 4.0, False, 59.0, 59.0, 4.0, ""),
    ("just near enough", 4.95, False, 30.0, 30.0, 4.95, ""),
    ("hardly nearer", 4.96, False, 30.0, 0.0, 5.0, ""),
    ("farther", 9.0, False, 30.0, 0.0, 5.0, ""),
    ("not yet", 5.0, False, 59.9, 0.0, 5.0, ""),
    ("too long", 5.0, False, 60.0, 0.0, 5.0, REASON),
    ("nearer at the last moment", 4.0, False, 60.0, 60.0, 4.0, ""),
    ("held", 5.0, True, 100.0, 100.0, 5.0, ""),
    ("clock went back", 5.0, False, -1.0, -1.0, 5.0, ""),
]


@pytest.mark.parametrize(
    ("what", "distance_m", "held", "now_s", "since_s", "best_m", "reason"), LOOKS, ids=[row[0] for row in LOOKS]
)
def test_looks(
    what: str, distance_m: float, held: bool, now_s: float, since_s: float, best_m: float, reason: str
) -> None:
    got = advance(START, distance_m, held, SECTION, round(now_s * NS_PER_S))
    assert got == (Progress(best_m, round(since_s * NS_PER_S)), reason)


def test_a_detour_within_the_time_is_progress_in_the_end() -> None:
    progress, reasons = START, []
    for second in range(200):
        away_m = 5.0 + (second % 50) * 0.1 - second // 50
        progress, reason = advance(progress, away_m, False, SECTION, second * NS_PER_S)
        reasons.append(reason)
    assert set(reasons) == {""}
