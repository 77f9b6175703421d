"""The tracker: fits to the map, and what map and scan tell of a robot that is lost."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hil.sensors.direct_scan import direct_scan
from onboard.config.config import Config, OdometrySection
from onboard.navigation import ekf, map_tracking
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.map_tracking import LOST_S, MapTracking, lost_text
from onboard.navigation.odometry import OdometryState, Sample
from onboard.perception.building import map_fit
from onboard.perception.building.map_fit import Agreement
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.perception.building.reach import reach_in
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, compose, distance, wrap
from onboard.values.messages import STOP, Fix, Motion, Pose, Scan
from onboard.values.reasons import row_of
from tests.rigs.rooms import drawn
from tests.rigs.runtime_bench import MOUNTS

WORLD = drawn(
    """
    ################
    #..............#
    #..............#
    #.....##.......#
    #.....##.......#
    #..............#
    #.........######
    #..............#
    ################
    """,
    0.5,
)
PERCENT = np.where(WORLD.overlapping(0.0, 1.0), 100, 0).astype(np.int8).repeat(10, axis=0).repeat(10, axis=1)
GRID = OccupancyGrid(0.05, WORLD.map_from_grid, PERCENT)
REACH = reach_in(GRID, 0.25)
SIGHT = direct_scan(WORLD, MOUNTS, Config().scan, "lidar")
PLACE = Pose(2.1, 1.7, 0.7)
SECTION = OdometrySection()


def seen(place: Pose = PLACE, at_s: float = 1.0) -> Scan:
    return Scan(round(at_s * NS_PER_S), np.asarray(SIGHT.ranges(place)), np.ones(180, np.bool_))


def wheels(at_s: float) -> OdometryState:
    now_ns = round(at_s * NS_PER_S)
    return OdometryState(stamp_ns=now_ns, arrival_ns=now_ns, history=(Sample(now_ns, Motion(IDENTITY, STOP), 0.0),))


def started(at: Pose, at_s: float = 0.5) -> tuple[MapTracking, LocalizationState]:
    fix = Fix(round(at_s * NS_PER_S), round(at_s * NS_PER_S), at, np.diag([0.04, 0.04, 0.02]))
    return map_tracking.begin(MapTracking(), LocalizationState(), (fix,), wheels(at_s), SECTION)


def tracked(at: Pose, true: Pose, slots: int, *, tracks: bool = True) -> tuple[MapTracking, LocalizationState]:
    """Return the states after some slots at rest at a true place, begun at another."""
    state, localization = started(at)
    for slot in range(slots):
        at_s = 1.0 + slot / 3.0
        known = ekf.predict(localization, wheels(at_s))
        state, localization = map_tracking.advance(
            state, known, seen(true, at_s), wheels(at_s), REACH, SECTION, tracks=tracks
        )
    return state, localization


@pytest.mark.parametrize("corner", [Pose(0.0, 0.0, 0.0), Pose(3.0, -1.0, 2.0)])
def test_a_scan_is_fitted_from_a_rough_place(corner: Pose) -> None:
    reach = reach_in(OccupancyGrid(GRID.cell_m, corner, GRID.percent), 0.25)
    off = WORLD.map_from_grid
    true, rough = (compose(corner, compose(Pose(-off.x_m, -off.y_m, 0.0), one)) for one in (PLACE, Pose(2.3, 1.5, 0.8)))
    found = map_fit.fit(seen(), reach, rough, np.diag([0.04, 0.04, 0.01]))
    assert found is not None
    for pose in (found.likely, found.measured):
        assert distance(pose, true) < 0.03
        assert abs(wrap(pose.yaw_rad - true.yaw_rad)) < 0.01
    assert np.linalg.eigvalsh(found.covariance).min() > 0.0


def test_a_corridor_does_not_tell_how_far_along_it_the_robot_is() -> None:
    percent = np.zeros((60, 600), np.int8)
    percent[[0, -1]] = 100
    reach = reach_in(OccupancyGrid(0.05, IDENTITY, percent), 0.25)
    ranges = np.full(180, np.inf, np.float32)
    angles = np.radians(np.arange(180) * 2.0 - 179.0)
    ranges[:] = np.minimum(1.45 / np.maximum(np.abs(np.sin(angles)), 1e-6), 20.0)
    scan = Scan(1, np.where(ranges < 8.0, ranges, np.inf).astype(np.float32), np.ones(180, np.bool_))
    found = map_fit.fit(scan, reach, Pose(15.0, 1.45, 0.05), np.diag([0.04, 0.04, 0.01]))
    assert found is not None
    assert math.sqrt(found.covariance[0, 0]) > 0.3
    assert math.sqrt(found.covariance[1, 1]) < 0.03


def test_it_starts_at_an_initial_pose_and_corrects_it() -> None:
    state, localization = tracked(Pose(2.3, 1.6, 0.8), PLACE, 10)
    assert not state.lost
    assert localization.map_from_base is not None
    assert distance(localization.map_from_base, PLACE) < 0.03
    assert ekf.localised(localization)
    assert state.newest.explained > 0.9


@pytest.mark.parametrize("tracks", [True, False])
def test_a_robot_that_was_carried_is_lost_and_found_again_where_it_is_put(tracks: bool) -> None:
    elsewhere = Pose(6.0, 3.3, wrap(PLACE.yaw_rad + math.pi / 2))
    state, localization = tracked(elsewhere, PLACE, math.ceil(3 * LOST_S) + 5, tracks=tracks)
    assert state.lost
    assert ekf.localised(localization) is not tracks
    assert map_tracking.to_do(state, localization).startswith("lost in the map") is tracks
    row = row_of(lost_text(state))
    assert row is not None
    assert row.code == ("lost" if tracks else "map_disagrees")
    state, localization = tracked(PLACE, PLACE, 3, tracks=tracks)
    assert not state.lost
    assert lost_text(state) == ""


@pytest.mark.parametrize("direction_deg", [-170, -10, 0, 10, 170])
def test_a_robot_carried_by_3_m_and_turned_is_lost_within_5_s(direction_deg: int) -> None:
    angle = math.radians(direction_deg)
    place = compose(WORLD.map_from_grid, Pose(4.2, 2.9, 0.3))
    carried = Pose(place.x_m + 3.0 * math.cos(angle), place.y_m + 3.0 * math.sin(angle), wrap(0.3 + math.pi / 2))
    state, _ = tracked(place, carried, 15)
    assert state.lost


def test_people_and_furniture_before_the_walls_are_no_reason_to_be_lost() -> None:
    scan = seen()
    ranges = scan.ranges_m.copy()
    ranges[20:110] = np.minimum(ranges[20:110], 0.8)
    newest = map_fit.agreement(replace(scan, ranges_m=ranges), REACH, PLACE)
    assert newest.explained < 0.7
    assert not map_tracking.disagrees(newest)


def test_a_search_about_a_rough_place_finds_the_robot() -> None:
    pose, agreed = map_fit.search(seen(), REACH, Pose(3.0, 1.0, -0.4), 1.5, math.pi)
    assert distance(pose, PLACE) < 0.05
    assert abs(wrap(pose.yaw_rad - PLACE.yaw_rad)) < 0.02
    assert agreed.explained > 0.9


def test_without_a_place_or_a_new_scan_nothing_changes() -> None:
    known = LocalizationState()
    state, after = map_tracking.advance(MapTracking(), known, seen(), wheels(1.0), REACH, SECTION, tracks=True)
    assert (after, state.fits) == (known, 0)
    assert map_tracking.to_do(state, after).startswith("not located")
    bad = replace(Fix(1, 1, PLACE), pose=Pose(math.nan, 0.0, 0.0))
    _, refused = map_tracking.begin(state, known, (bad,), wheels(1.0), SECTION)
    assert refused.refusal
    assert refused.map_from_base is None


#   what                                                       agreement                              disagrees
AGREEMENTS = [
    ("at a wrong place among walls at right angles", Agreement(145, 0.44, 91, 0.077, 145), True),
    ("a quarter of the furniture has moved", Agreement(150, 0.8, 142, 0.1, 150), False),
    ("behind furniture, walls in range", Agreement(140, 0.15, 142, 0.0, 130), True),
    ("furniture of a hall whose walls are out of range", Agreement(134, 0.18, 104, 0.0, 60), False),
    ("nothing in range", Agreement(0, 1.0, 142, 0.0, 0), False),
]


@pytest.mark.parametrize(("what", "newest", "disagrees"), AGREEMENTS)
def test_map_and_scan_disagree(what: str, newest: Agreement, *, disagrees: bool) -> None:
    assert map_tracking.disagrees(newest) is disagrees, what
