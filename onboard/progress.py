"""Whether the robot still gets nearer to its goal. One behind a wall cannot be known at once; this ends the attempt."""

from __future__ import annotations

from dataclasses import dataclass

from onboard.config import GoalSection
from onboard.scheduler import NS_PER_S

IMPROVEMENT_M = 0.05
"""Less than this nearer than ever before is no progress."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The nearest that the robot came to the goal in this episode, and when."""

    best_m: float
    since_ns: int


def begin(distance_m: float, now_ns: int) -> Progress:
    """Return the progress at the start of an episode."""
    return Progress(distance_m, now_ns)


def advance(
    progress: Progress, distance_m: float, held: bool, section: GoalSection, now_ns: int
) -> tuple[Progress, str]:
    """Return the progress and "" or why to stop. While `held` (e-stop, operator) the time does not count."""
    if distance_m <= progress.best_m - IMPROVEMENT_M:
        return Progress(distance_m, now_ns), ""
    if held or now_ns < progress.since_ns:
        return Progress(progress.best_m, now_ns), ""
    if now_ns - progress.since_ns >= section.progress_timeout_s * NS_PER_S:
        return progress, f"no progress towards the goal for {section.progress_timeout_s:g} s"
    return progress, ""
