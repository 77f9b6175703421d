"""Fixes after a refused one: honest ones bring the filter back, false ones do not lead it astray unnoticed."""

from __future__ import annotations

import numpy as np
import pytest
from filtered_drive import FIRST_JUDGED_S, Alteration, Moment, ahead, at_rest, filtered_drive

from onboard import localization
from onboard.fix_trust import WheelsThen
from onboard.geometry import compose, distance
from onboard.localization import localised
from onboard.messages import Pose

DRIVES = 24
BAD_WHEELS = 3.0
RARELY_S = (8 / 3, 4.0)
"""As often as the paper has fixes: every 8 to 12 decisions."""
EACH_SECOND_S = (1.0, 1.0)
FAR = Pose(50.0, 0.0, 0.0)
FALSE_FROM_S = 20.0
LOST_M = 1.0
ASTRAY_M = 0.25


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
    assert lost(runs) < 0.35 * lost(sure_of_itself)
    restarts, before = (sum(run[-1].state.restarts for run in each) for each in (runs, sure_of_itself))
    assert restarts < before


def false_from(*offsets: Pose) -> Alteration:
    """Return an alteration: the fixes from `FALSE_FROM_S` on are off by these, one after the other, then honest."""
    left = list(offsets)

    def altered(time_s: float, true: Pose, fix: Pose) -> Pose:
        return compose(true, left.pop(0)) if time_s >= FALSE_FROM_S and left else fix

    return altered


def astray(moments: list[Moment]) -> list[Moment]:
    return [moment for moment in moments if moment.time_s >= FALSE_FROM_S and moment.off_m > ASTRAY_M]


FALSE_ONES = {
    "aside": Pose(0.0, 0.8, 0.0),
    "further aside": Pose(0.0, 1.5, 0.0),
    "far aside": Pose(0.0, 3.5, 0.0),
    "turned": Pose(0.0, 0.0, 0.8),
    "ahead": Pose(1.0, 0.0, 0.0),
}


@pytest.mark.parametrize("period_s", [EACH_SECOND_S, RARELY_S], ids=["each second", "rarely"])
@pytest.mark.parametrize("what", FALSE_ONES)
@pytest.mark.parametrize("seed", range(3))
def test_false_fixes_that_do_not_agree_lead_it_no_further_astray_than_without_the_doubt(
    monkeypatch: pytest.MonkeyPatch, what: str, period_s: tuple[float, float], seed: int
) -> None:
    """One far away, which is refused, and one that is off by what worse wheels would explain."""

    def driven() -> list[Moment]:
        return filtered_drive(seed, 1.0, period_s, ahead, false_from(FAR, FALSE_ONES[what]), rests_s=18)

    moments = driven()
    monkeypatch.setattr(localization, "DOUBT", 1.0)
    without = driven()
    assert max(moment.off_m for moment in moments) <= max(moment.off_m for moment in without) + 1e-9
    unnoticed, before = ([moment for moment in astray(each) if localised(moment.state)] for each in (moments, without))
    assert len(unnoticed) <= len(before)
    assert len(astray(moments)) <= len(astray(without))
    assert moments[-1].off_m < 0.15


@pytest.mark.parametrize("seed", range(4))
def test_two_that_agree_are_believed_and_it_is_localised_by_the_next(seed: int) -> None:
    """The robot is set aside by half a metre and more, say, while its wheels slip: as far as worse ones lead."""
    place = Pose(0.0, 0.8, 0.0)
    moments = filtered_drive(seed, 1.0, EACH_SECOND_S, ahead, false_from(*[place] * 9), rests_s=9)
    counts = [(moment.state.rejected_in_row, moment.state.fixes, localised(moment.state)) for moment in moments]
    first = next(fixes for in_row, fixes, _ in counts if in_row)
    rows = {fixes: (in_row, known) for in_row, fixes, known in counts}
    assert [rows[first + later] for later in range(3)] == [(1, True), (2, False), (0, True)]
    there = next(moment for moment in moments if moment.state.fixes == first + 1)
    forward_m, aside_m = there.error_m
    assert (forward_m, aside_m) == pytest.approx((0.0, 0.8), abs=0.06)


@pytest.mark.parametrize("seed", range(4))
def test_two_false_ones_that_agree_are_noticed_until_honest_ones_bring_it_back(seed: int) -> None:
    false = Pose(0.0, 0.8, 0.0)
    moments = filtered_drive(seed, 1.0, EACH_SECOND_S, ahead, false_from(false, false), rests_s=9)
    assert astray(moments)
    assert not [moment.time_s for moment in astray(moments) if localised(moment.state)]
    assert moments[-1].off_m < 0.15
    assert localised(moments[-1].state)


@pytest.mark.parametrize("seed", range(4))
def test_two_false_ones_that_contradict_each_other_are_not_believed(seed: int) -> None:
    """Worse wheels would explain the newer one by itself, but not the way to it from the older one."""
    false = Pose(0.0, 1.1, 0.0), Pose(0.0, 0.6, 0.0)
    moments = filtered_drive(seed, 1.0, EACH_SECOND_S, ahead, false_from(*false), rests_s=9)
    assert moments[-1].state.rejected == 2
    assert not astray(moments)


def test_a_robot_that_stands_is_moved_by_no_false_fix() -> None:
    """Every second fix is far away, on one side and the other; those between are off by little, or by much."""
    for aside_m in (0.3, 0.6, 1.0):
        offsets = [FAR, Pose(0.0, aside_m, 0.0), Pose(-50.0, 0.0, 0.0), Pose(0.0, -aside_m, 0.0)] * 2
        moments = filtered_drive(0, 1.0, EACH_SECOND_S, at_rest, false_from(*offsets), rests_s=15)
        assert max(moment.off_m for moment in moments if moment.time_s > FIRST_JUDGED_S) < 0.05


def test_the_doubt_is_of_the_way_since_the_newest_fix_that_was_believed() -> None:
    moments = filtered_drive(0, 1.0, EACH_SECOND_S, ahead, false_from(FAR))
    refused = next(moment.state for moment in moments if moment.state.rejected_in_row)
    assert refused.moving_s - refused.believed.moving_s == pytest.approx(1.0, abs=0.1)
    assert distance(refused.believed.odom_from_base, refused.odom_from_base) == pytest.approx(1.0, abs=0.2)
    assert refused.refused_at == WheelsThen(refused.odom_from_base, refused.moving_s)


def test_one_that_starts_the_filter_anew_is_believed() -> None:
    moments = filtered_drive(0, 1.0, EACH_SECOND_S, ahead, false_from(*[FAR] * 3))
    restarted = next(moment.state for moment in moments if moment.state.restarts)
    assert restarted.believed == WheelsThen(restarted.odom_from_base, restarted.moving_s)
