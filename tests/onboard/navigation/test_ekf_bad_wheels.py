"""With worse wheels than assumed, outliers agree and restart the filter; false fixes need three in a row."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onboard.navigation import fix_gating
from onboard.navigation.ekf import OUTLIERS_TO_RESTART, localised
from onboard.navigation.fix_gating import AGREE_M, AGREE_RAD, WheelsAtFix, odometry_explains
from onboard.navigation.odometry import OdometryState
from onboard.values.geometry import IDENTITY, compose
from onboard.values.messages import Pose
from tests.onboard.navigation.filtered_drive import (
    DRIVEN_S,
    FIRST_JUDGED_S,
    Alteration,
    Moment,
    ahead,
    at_rest,
    filtered_drive,
)

DRIVES = 20
BAD_WHEELS = 3.0
RARELY_S = (8 / 3, 4.0)
"""As often as the paper has fixes: every 8 to 12 decisions."""
EACH_SECOND_S = (1.0, 1.0)
LOST_M = 1.0
ASTRAY_M = 0.4
FALSE_FROM_S = 12.0


def with_bad_wheels() -> list[list[Moment]]:
    return [filtered_drive(seed, BAD_WHEELS, RARELY_S, rests_s=15) for seed in range(DRIVES)]


def lost(runs: list[list[Moment]]) -> float:
    """Return the share of moving time in which the estimate was off by more than `LOST_M`."""
    return float(np.mean([moment.off_m > LOST_M for run in runs for moment in run if moment.moving]))


def test_good_fixes_recover_a_robot_with_three_times_the_assumed_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The overconfident filter rejects some fixes; the next fixes agree within the error of such wheels."""
    runs = with_bad_wheels()
    assert sum(run[-1].state.restarts for run in runs) >= 3
    assert max(run[-1].off_m for run in runs) < 0.15
    assert all(localised(run[-1].state) for run in runs)
    monkeypatch.setattr(fix_gating, "DOUBT", 0.0)
    assert lost(runs) < 0.8 * lost(with_bad_wheels())


def pattern(false: str, place: Pose) -> Alteration:
    """Return an alteration: from `FALSE_FROM_S` on, an f of the pattern is a fix with this offset, an h a good fix."""
    left = list(false)

    def altered(time_s: float, true: Pose, fix: Pose) -> Pose:
        off = time_s >= FALSE_FROM_S and left and left.pop(0) == "f"
        return compose(true, place) if off else fix

    return altered


ASIDE = Pose(0.0, 0.8, 0.0)
PATTERNS = {
    "one": "f",
    "two": "ff",
    "two and another": "ffhf",
    "two and two": "ffhff",
    "two of three": "ffh" * 4,
    "every second": "fh" * 6,
}
PLACES = {"aside": ASIDE, "ahead": Pose(1.0, 0.0, 0.0), "turned": Pose(0.0, 0.0, 0.8), "far": Pose(50.0, 0.0, 0.0)}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("false", PATTERNS)
def test_fewer_than_three_false_fixes_in_a_row_move_nothing(false: str, place: str) -> None:
    moments = filtered_drive(0, 1.0, EACH_SECOND_S, ahead, pattern(PATTERNS[false], PLACES[place]))
    rejected = moments[-1].state.rejected
    assert rejected == PATTERNS[false].count("f")
    assert max(moment.off_m for moment in moments if moment.time_s > FIRST_JUDGED_S) < ASTRAY_M


@pytest.mark.parametrize("seed", range(3))
def test_three_in_a_row_that_agree_restart_the_filter(seed: int) -> None:
    moments = filtered_drive(seed, 1.0, EACH_SECOND_S, ahead, pattern("f" * 12, ASIDE))
    end = next(moment for moment in moments if moment.time_s > DRIVEN_S - 1)
    assert end.state.restarts == 1
    assert end.error_m == pytest.approx((0.0, 0.8), abs=0.15)


def test_a_robot_that_stands_is_moved_by_no_false_fixes_that_disagree() -> None:
    for aside_m in (0.3, 0.6, 1.0):
        left = [Pose(0.0, aside_m * part, 0.0) for part in (1.0, -1.0)] * 8

        def altered(time_s: float, true: Pose, fix: Pose, left: list[Pose] = left) -> Pose:
            return compose(true, left.pop()) if time_s >= FALSE_FROM_S and left else fix

        moments = filtered_drive(0, 1.0, EACH_SECOND_S, at_rest, altered)
        assert max(moment.off_m for moment in moments if moment.time_s > FIRST_JUDGED_S) < 0.05


def led(off: Pose, way_m: float, moving_s: float) -> bool:
    """Return whether a fix with this offset from the odometry, straight ahead, agrees with the fix before."""
    wheels = OdometryState(Pose(way_m, 0.0, 0.0), moving_s=moving_s)
    return odometry_explains(wheels.pose, WheelsAtFix(IDENTITY, 0.0), compose(wheels.pose, off), wheels)


#   what                     off                            way    moving   agree
LED = [
    ("at rest, near", Pose(0.0, 0.98 * AGREE_M, 0.0), 0.0, 0.0, True),
    ("at rest, too far", Pose(1.02 * AGREE_M, 0.0, 0.0), 0.0, 0.0, False),
    ("at rest, hardly turned", Pose(0.0, 0.0, 0.98 * AGREE_RAD), 0.0, 0.0, True),
    ("at rest, turned", Pose(0.0, 0.0, -1.02 * AGREE_RAD), 0.0, 0.0, False),
    ("across half a turn", Pose(0.0, 0.0, 2.0 * math.pi - 0.1), 0.0, 0.0, True),
    ("on the way, aside and turned alike", Pose(0.0, 0.75, 0.5), 3.0, 3.0, True),
    ("on the way, aside and turned the other way", Pose(0.0, 0.75, -0.5), 3.0, 3.0, False),
    ("on the way, much further aside", Pose(0.0, 4.0, 0.5), 3.0, 3.0, False),
    ("on the way, ahead", Pose(0.6, 0.0, 0.0), 3.0, 3.0, True),
    ("on the way, much further ahead", Pose(1.5, 0.0, 0.0), 3.0, 3.0, False),
]


@pytest.mark.parametrize(("what", "off", "way_m", "moving_s", "expected"), LED, ids=[row[0] for row in LED])
def test_outliers_agree_as_far_apart_as_bad_wheels_lead(
    what: str, off: Pose, way_m: float, moving_s: float, expected: bool
) -> None:
    assert led(off, way_m, moving_s) is expected


def test_what_counts_is_the_way_since_the_newest_outlier() -> None:
    moments = filtered_drive(0, 1.0, EACH_SECOND_S, ahead, pattern("f" * OUTLIERS_TO_RESTART, PLACES["far"]))
    rows = {moment.state.rejected: moment.state for moment in reversed(moments)}
    for count in (1, 2):
        assert rows[count].refused_at == WheelsAtFix(rows[count].odom_from_base, rows[count].moving_s)
    assert rows[2].moving_s - rows[1].moving_s == pytest.approx(1.0, abs=0.1)
