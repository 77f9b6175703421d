"""Fixes after a refused one: honest ones bring the filter back, false ones do not lead it astray unnoticed."""

from __future__ import annotations

import numpy as np
import pytest
from filtered_drive import FIRST_JUDGED_S, Alteration, Moment, ahead, at_rest, filtered_drive

from onboard import localization
from onboard.geometry import compose, distance
from onboard.localization import OUTLIERS_TO_DOUBT, localised
from onboard.messages import Pose

DRIVES = 24
BAD_WHEELS = 3.0
RARELY_S = (8 / 3, 4.0)
"""As often as the paper has fixes: every 8 to 12 decisions."""
EACH_SECOND_S = (1.0, 1.0)
FAR = Pose(50.0, 0.0, 0.0)
FALSE_FROM_S = 20.0
LOST_M = 1.0


def with_bad_wheels() -> list[list[Moment]]:
    return [filtered_drive(seed, BAD_WHEELS, RARELY_S, rests_s=9) for seed in range(DRIVES)]


def lost(runs: list[list[Moment]]) -> float:
    """Return the share of moving time in which the estimate was off by more than `LOST_M`."""
    return float(np.mean([moment.off_m > LOST_M for run in runs for moment in run if moment.moving]))


def test_honest_fixes_bring_back_who_has_wheels_three_times_as_bad_as_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter is too sure of itself and refuses some: without the doubt it refuses what would put it right."""
    runs = with_bad_wheels()
    assert sum(run[-1].state.rejected for run in runs) >= 3
    assert max(run[-1].off_m for run in runs) < 0.15
    assert all(localised(run[-1].state) for run in runs)
    monkeypatch.setattr(localization, "DOUBT", 1.0)
    sure_of_itself = with_bad_wheels()
    assert lost(runs) < 0.6 * lost(sure_of_itself)
    restarts, before = (sum(run[-1].state.restarts for run in each) for each in (runs, sure_of_itself))
    assert restarts < before


def false_from(*offsets: Pose) -> Alteration:
    """Return an alteration: the fixes from `FALSE_FROM_S` on are off by these, one after the other, then honest."""
    left = list(offsets)

    def altered(time_s: float, true: Pose, fix: Pose) -> Pose:
        return compose(true, left.pop(0)) if time_s >= FALSE_FROM_S and left else fix

    return altered


@pytest.mark.parametrize("aside_m", [0.8, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_two_false_fixes_on_the_way_do_not_lead_it_astray_unnoticed(aside_m: float, seed: int) -> None:
    """One far away, which is refused, and one aside, which the doubt may let in: but nothing is localised by it."""
    altered = false_from(FAR, Pose(0.0, aside_m, 0.0))
    moments = filtered_drive(seed, 1.0, EACH_SECOND_S, ahead, altered)
    astray = [moment for moment in moments if moment.time_s >= FALSE_FROM_S and moment.off_m > 0.25]
    assert not [moment.time_s for moment in astray if localised(moment.state)]
    assert moments[-1].off_m < 0.15
    assert localised(moments[-1].state)


def test_a_fix_that_only_the_doubt_lets_in_is_counted_with_those_refused() -> None:
    runs = [filtered_drive(seed, 1.0, EACH_SECOND_S, ahead, false_from(FAR, Pose(0.0, 0.8, 0.0))) for seed in range(4)]
    refused = [moment.state for run in runs for moment in run if moment.state.rejected == 1]
    led_astray = [state for state in refused if state.rejected_in_row and not state.outliers]
    assert {state.rejected_in_row for state in led_astray} == {OUTLIERS_TO_DOUBT}


def test_a_robot_that_stands_is_moved_by_no_false_fix() -> None:
    """Every second fix is far away, on one side and the other; those between are off by little, or by much."""
    for aside_m in (0.3, 0.6, 1.0):
        offsets = [FAR, Pose(0.0, aside_m, 0.0), Pose(-50.0, 0.0, 0.0), Pose(0.0, -aside_m, 0.0)] * 2
        moments = filtered_drive(0, 1.0, EACH_SECOND_S, at_rest, false_from(*offsets), rests_s=15)
        assert max(moment.off_m for moment in moments if moment.time_s > FIRST_JUDGED_S) < 0.05


def test_the_doubt_is_of_the_way_since_the_newest_fix_that_was_believed() -> None:
    moments = filtered_drive(0, 1.0, EACH_SECOND_S, ahead, false_from(FAR))
    refused = next(moment.state for moment in moments if moment.state.rejected_in_row)
    odom_then, moving_s_then = refused.believed
    assert refused.moving_s - moving_s_then == pytest.approx(1.0, abs=0.1)
    assert distance(odom_then, refused.odom_from_base) == pytest.approx(1.0, abs=0.2)
