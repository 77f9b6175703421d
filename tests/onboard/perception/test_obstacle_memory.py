"""Memory of nearby obstacles: they stay in place until a camera sees the place again."""

from __future__ import annotations

import json
from dataclasses import replace
from math import cos, hypot, inf, nan, pi, radians, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.config.config import Config
from onboard.perception.collision import BIN_CENTERS_RAD
from onboard.perception.min_range import HEIGHT_STEPS
from onboard.perception.obstacle_memory import (
    BRIEF_NS,
    CAPACITY,
    NOWHERE,
    OFTEN,
    REACH_M,
    SPOT_M,
    SPOT_NS,
    ObstacleMemory,
    Surroundings,
    advance,
    filled,
    surroundings,
)
from onboard.recording.state_snapshot import decode, encode
from onboard.state import RobotState
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import apply, compose, interpolate, inverse
from onboard.values.messages import BINS, Pose, Scan

LONG_NS = round(Config().limits.remember_s * NS_PER_S)
TICK_NS = NS_PER_S // 30
ORIGIN = Pose(0.0, 0.0, 0.0)
AHEAD_DEG = (-37.0, 37.0)


def scan_of(
    *points: tuple[float, float], stamp_ns: int = TICK_NS, looks_deg: tuple[float, float] = (-180.0, 180.0)
) -> Scan:
    """Return a scan of points (x, y) where its cameras look [deg], each in the bin that it falls into."""
    ranges, centers = np.full(BINS, inf, np.float32), np.degrees(BIN_CENTERS_RAD)
    seen = (centers >= looks_deg[0]) & (centers <= looks_deg[1])
    for x, y in points:
        index = int(np.floor((np.degrees(np.arctan2(y, x)) + 180.0) / 2.0)) % BINS
        ranges[index] = hypot(x, y)
    return Scan(stamp_ns, np.where(seen, ranges, np.float32(inf)), seen)


def on_bin(degrees: float, range_m: float) -> tuple[float, float]:
    """Return the point at the centre of the bin of a bearing."""
    bearing = BIN_CENTERS_RAD[int((degrees + 180.0) / 2.0) % BINS]
    return range_m * cos(bearing), range_m * sin(bearing)


def after(*ticks: tuple[Scan, Pose], remember_ns: int = LONG_NS) -> ObstacleMemory:
    """Return the memory after ticks, each at the stamp of its scan."""
    nearby = ObstacleMemory()
    for scan, pose in ticks:
        nearby = advance(nearby, scan, pose, scan.stamp_ns, remember_ns)
    return nearby


def blind(stamp_ns: int = 2 * TICK_NS) -> Scan:
    return scan_of(stamp_ns=stamp_ns, looks_deg=(500.0, 500.0))


@given(
    bearing=st.floats(-36.0, 36.0), range_m=st.floats(0.3, 1.2), x=st.floats(-0.25, 0.25), y=st.floats(-0.25, 0.25),
    yaw=st.floats(-pi, pi), start=st.builds(Pose, st.floats(-50, 50), st.floats(-50, 50), st.floats(-pi, pi)),
)  # fmt: skip
def test_law_a_post_stays_where_it_was_seen_while_the_robot_moves(
    bearing: float, range_m: float, x: float, y: float, yaw: float, start: Pose
) -> None:
    post, moved = on_bin(bearing, range_m), Pose(x, y, yaw)
    nearby = after((scan_of(post, looks_deg=AHEAD_DEG), start), (blind(), compose(start, moved)))
    (place,) = surroundings(nearby, blind(), compose(start, moved)).out_of_view
    assert place == pytest.approx(apply(inverse(moved), post), abs=1e-5)


POST = on_bin(21.0, 0.5)
AHEAD_ONLY = scan_of(stamp_ns=2 * TICK_NS, looks_deg=AHEAD_DEG)

#   what                            the second scan, where from                                 still remembered
SECONDS = [
    ("nobody looks there",          blind(),                                    ORIGIN,                True),
    ("seen again",                  scan_of(POST, stamp_ns=2 * TICK_NS),        ORIGIN,                False),
    ("looked at, and it is gone",   scan_of(stamp_ns=2 * TICK_NS),              ORIGIN,                False),
    ("out of view to the left",     AHEAD_ONLY,             Pose(0.0, 0.0, radians(-20)), True),
    ("looks at it from elsewhere",  AHEAD_ONLY,             Pose(0.2, -0.1, radians(30)), False),
    ("too far away now",            blind(),                                    Pose(-REACH_M, 0, 0),  False),
    ("after 60 s, the default",     blind(60 * NS_PER_S + TICK_NS),             ORIGIN,                True),
    ("after more",                  blind(60 * NS_PER_S + 2 * TICK_NS),         ORIGIN,                False),
    ("before it was seen",          blind(-LONG_NS),                            ORIGIN,                False),
]  # fmt: skip


@pytest.mark.parametrize(("what", "scan", "pose", "kept"), SECONDS, ids=[row[0] for row in SECONDS])
def test_how_long_it_is_remembered(what: str, scan: Scan, pose: Pose, kept: bool) -> None:
    nearby = after((scan_of(POST), ORIGIN), (scan, pose))
    assert len(surroundings(nearby, scan, pose).out_of_view) == kept


EDGE = on_bin(37.0, 0.5)

#   what stands at the edge of the view          the second scan there                  still remembered
AT_THE_EDGE = [
    ("a hole in the image where the post is",    scan_of(stamp_ns=2 * TICK_NS, looks_deg=AHEAD_DEG),               1),
    ("seen again, a little farther",             scan_of(on_bin(37.0, 0.6), stamp_ns=2 * TICK_NS,
                                                         looks_deg=AHEAD_DEG),                                     1),
    ("only what is behind it",                   scan_of(on_bin(37.0, 5.0), stamp_ns=2 * TICK_NS,
                                                         looks_deg=AHEAD_DEG),                                     0),
    ("a hole, well within the view",             scan_of(stamp_ns=2 * TICK_NS, looks_deg=(-60.0, 60.0)),           0),
]  # fmt: skip


@pytest.mark.parametrize(("what", "scan", "places"), AT_THE_EDGE, ids=[row[0] for row in AT_THE_EDGE])
def test_an_empty_bin_at_the_edge_of_the_view_clears_nothing(what: str, scan: Scan, places: int) -> None:
    nearby = after((scan_of(EDGE, looks_deg=AHEAD_DEG), ORIGIN), (scan, ORIGIN))
    assert len(nearby.places_m) == places


LOOKS_DEG = (-59.0, 59.0)

#   where it stands, repeatedly seen                        what the next scan shows there         still remembered
NEAR_THE_EDGE = [
    ("near the edge, only what is behind it",        45.0, OFTEN,     on_bin(45.0, 3.0),                       True),
    ("near the edge, nothing",                       45.0, OFTEN,     None,                                    True),
    ("near the edge, a little farther",              45.0, OFTEN,     on_bin(45.0, 1.04),                      False),
    ("near the edge, something before it",           45.0, OFTEN,     on_bin(45.0, 0.5),                       False),
    ("near the edge, noise, as it was not repeated", 45.0, OFTEN - 1, on_bin(45.0, 3.0),                       False),
    ("well within the view",                         41.0, OFTEN,     on_bin(41.0, 3.0),                       False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "bearing", "times", "shown", "kept"), NEAR_THE_EDGE, ids=[row[0] for row in NEAR_THE_EDGE]
)
def test_low_rows_near_the_edge_of_the_view_look_below_a_table(
    what: str, bearing: float, times: int, shown: tuple[float, float] | None, kept: bool
) -> None:
    """A pitched camera sees floor there, but not a table's edge: the table is kept."""
    seen = often(scan_of(on_bin(bearing, 1.0), looks_deg=LOOKS_DEG), times)
    points = () if shown is None else (shown,)
    nearby = after(*seen, (scan_of(*points, stamp_ns=2 * TICK_NS, looks_deg=LOOKS_DEG), ORIGIN))
    place = on_bin(bearing, 1.0)
    assert any(hypot(x - place[0], y - place[1]) < 1e-4 for x, y in nearby.places_m) is kept


HIGH_UP = np.tile(np.array([0.05, 0.7] * 2, np.float32), (BINS, HEIGHT_STEPS, 1))
TABLE = on_bin(21.0, 1.0)


def looking_up(range_m: float | None, tick: int, high_m: float) -> Scan:
    """Return a scan of something at 21 deg, by cameras that see up to a height there."""
    points = () if range_m is None else (on_bin(21.0, range_m),)
    heights_m = np.where(np.arange(4) % 2, np.float32(high_m), HIGH_UP)
    return replace(scan_of(*points, stamp_ns=tick * TICK_NS), heights_m=heights_m)


#   what                                          seen so often  then from         up to [m]  shows   places, they stop
OUT_OF_HEIGHT = [
    ("nearer, its top went out of view",          OFTEN,         0.1,              0.6,       None,   1, 1),
    ("nearer, the wall behind it is seen",        OFTEN,         0.1,              0.6,       3.0,    1, 1),
    ("nearer, its underside is seen",             OFTEN,         0.1,              0.6,       0.94,   1, 1),
    ("nearer, all heights in view, and gone",     OFTEN,         0.1,              0.7,       None,   0, 0),
    ("nearer, as high in view as where it was",   OFTEN,         0.1,              0.9,       3.0,    0, 0),
    ("farther, less in view",                     OFTEN,        -0.1,              0.6,       None,   1, 1),
    ("from the same place, somebody has left",    OFTEN,         0.0,              0.6,       None,   0, 0),
    ("noise, as it was not repeated",             OFTEN - 1,     0.1,              0.6,       None,   0, 0),
    ("nearer, and still seen",                    OFTEN,         0.1,              0.6,       0.9,    1, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "times", "nearer_m", "high_m", "shown_m", "places", "stops"),
    OUT_OF_HEIGHT,
    ids=[row[0] for row in OUT_OF_HEIGHT],
)
def test_a_camera_that_sees_past_a_place_does_not_clear_it(
    what: str, times: int, nearer_m: float, high_m: float, shown_m: float | None, places: int, stops: int
) -> None:
    """The camera must see the heights at which it saw the place: near by, a table's top is above its view."""
    seen = [(looking_up(1.0, tick, 0.7), ORIGIN) for tick in range(1, times + 1)]
    c, s = TABLE
    pose = Pose(nearer_m * c, nearer_m * s, 0.0)
    scan = looking_up(shown_m, times + 1, high_m)
    nearby = after(*seen, (scan, pose))
    near = np.hypot(*(nearby.places_m - [c, s]).T) < 0.06
    assert (int(near.sum()), len(surroundings(nearby, scan, pose).out_of_view)) == (places, stops)


def test_the_policy_is_told_of_a_place_that_its_cameras_see_past() -> None:
    index = int((21.0 + 180.0) / 2.0)
    assert filled(looking_up(3.0, 2, 0.6), np.array([TABLE])).ranges_m[index] == pytest.approx(1.0)


FROM_M = 0.6
NEAR_BY = np.full(BINS, FROM_M, np.float32)


def often(scan: Scan, times: int = OFTEN) -> list[tuple[Scan, Pose]]:
    """Return ticks with a repeated scan, the last at its stamp."""
    return [(replace(scan, stamp_ns=scan.stamp_ns - n * TICK_NS), ORIGIN) for n in reversed(range(times))]


FAR = on_bin(21.0, 0.7)

#   what                                    place  the second scan there                            remembered, unseen
TOO_NEAR = [
    ("nothing comes back from it",          POST,  scan_of(stamp_ns=2 * TICK_NS),                       1, 1),
    ("the wall behind it, seen past it",    POST,  scan_of(on_bin(21.0, 3.0), stamp_ns=2 * TICK_NS),    1, 1),
    ("something else, well behind it",      POST,  scan_of(on_bin(21.0, 0.58), stamp_ns=2 * TICK_NS),   2, 1),
    ("it is seen after all",                POST,  scan_of(on_bin(21.0, 0.51), stamp_ns=2 * TICK_NS),   1, 0),
    ("something before it",                 POST,  scan_of(on_bin(21.0, 0.3), stamp_ns=2 * TICK_NS),    1, 0),
    ("beyond it, and gone",                 FAR,   scan_of(stamp_ns=2 * TICK_NS),                       0, 0),
    ("beyond it, what is behind is seen",   FAR,   scan_of(on_bin(21.0, 3.0), stamp_ns=2 * TICK_NS),    0, 0),
]  # fmt: skip


@pytest.mark.parametrize(("what", "place", "scan", "places", "unseen"), TOO_NEAR, ids=[row[0] for row in TOO_NEAR])
def test_below_the_minimum_range_an_empty_bin_clears_nothing(
    what: str, place: tuple[float, float], scan: Scan, places: int, unseen: int
) -> None:
    scan = replace(scan, from_m=np.full(BINS, FROM_M, np.float32))
    nearby = after(*often(scan_of(place)), (scan, ORIGIN))
    assert (len(nearby.places_m), len(surroundings(nearby, scan, ORIGIN).out_of_view)) == (places, unseen)


def test_after_backing_off_the_camera_clears_the_place() -> None:
    scans = [replace(scan_of(stamp_ns=n * TICK_NS), from_m=np.full(BINS, FROM_M, np.float32)) for n in (2, 3)]
    assert len(after((scan_of(POST), ORIGIN), (scans[0], ORIGIN)).places_m) == 1
    assert len(after((scan_of(POST), ORIGIN), (scans[1], Pose(-0.2, 0.0, 0.0))).places_m) == 0


#   what                                       seen from  in so many scans  after             it holds the robot
VOUCHED = [
    ("in one image, near by",                     FROM_M, 1,         TICK_NS,                False),
    ("in two",                                    FROM_M, OFTEN - 1, TICK_NS,                False),
    ("a hand",                                    FROM_M, OFTEN,     TICK_NS,                True),
    ("a hand that was there, in time",            FROM_M, OFTEN,     BRIEF_NS,               True),
    ("a hand that was there some time ago",       FROM_M, OFTEN,     BRIEF_NS + TICK_NS,     False),
    ("a hand that was there for ten seconds",     FROM_M, 300,       BRIEF_NS + TICK_NS,     False),
    ("in one image, in full view",                0.0,    1,         TICK_NS,                False),
    ("in two, in full view",                      0.0,    OFTEN - 1, TICK_NS,                False),
    ("a post",                                    0.0,    OFTEN,     TICK_NS,                True),
    ("a post, almost a minute ago",               0.0,    OFTEN,     LONG_NS,                True),
    ("a post, more than a minute ago",            0.0,    OFTEN,     LONG_NS + TICK_NS,      False),
]  # fmt: skip


@pytest.mark.parametrize(("what", "from_m", "times", "after_ns", "holds"), VOUCHED, ids=[row[0] for row in VOUCHED])
def test_below_the_minimum_range_only_good_evidence_stops_the_robot(
    what: str, from_m: float, times: int, after_ns: int, holds: bool
) -> None:
    seen = replace(scan_of(POST), from_m=np.full(BINS, from_m, np.float32))
    empty = replace(scan_of(stamp_ns=TICK_NS + after_ns), from_m=NEAR_BY)
    nearby = after(*often(seen, times), (empty, ORIGIN))
    assert len(surroundings(nearby, empty, ORIGIN).out_of_view) == holds


@pytest.mark.parametrize(("apart_ns", "holds"), [(SPOT_NS, True), (SPOT_NS + TICK_NS, False)])
def test_repeated_noise_is_no_good_evidence(apart_ns: int, holds: bool) -> None:
    stamps = [TICK_NS + n * apart_ns for n in range(OFTEN)]
    ticks = [(replace(scan_of(POST, stamp_ns=stamp_ns), from_m=NEAR_BY), ORIGIN) for stamp_ns in stamps]
    empty = replace(scan_of(stamp_ns=stamps[-1] + TICK_NS), from_m=NEAR_BY)
    assert len(surroundings(after(*ticks, (empty, ORIGIN)), empty, ORIGIN).out_of_view) == holds


def test_an_approaching_obstacle_is_no_good_evidence_at_its_last_place() -> None:
    """The obstacle stops well below the minimum range and leaves later."""
    ticks = [
        (replace(scan_of(on_bin(21.0, range_m), stamp_ns=n * TICK_NS), from_m=NEAR_BY), ORIGIN)
        for n, range_m in enumerate(np.arange(0.9, 0.3, -0.2 * SPOT_M), start=1)
    ]
    empty = replace(scan_of(stamp_ns=len(ticks) * TICK_NS + BRIEF_NS + TICK_NS), from_m=NEAR_BY)
    assert len(surroundings(after(*ticks, (empty, ORIGIN)), empty, ORIGIN).out_of_view) == 0


def test_the_state_of_a_recording_of_before_there_were_spots_is_read() -> None:
    """All its places count as good evidence."""
    state = json.loads(encode(RobotState(nearby=after((scan_of(POST), ORIGIN)))))
    del state["nearby"]["spots_m"], state["nearby"]["scans"], state["nearby"]["heights_m"]
    nearby = decode(json.dumps(state)).nearby
    empty = replace(scan_of(stamp_ns=LONG_NS), from_m=NEAR_BY)
    assert len(surroundings(advance(nearby, empty, ORIGIN, LONG_NS, LONG_NS), empty, ORIGIN).out_of_view) == 1


def test_a_state_with_arrays_of_different_lengths_is_refused() -> None:
    state = json.loads(encode(RobotState(nearby=after((scan_of(POST), ORIGIN)))))
    state["nearby"]["seen_ns"] = json.loads(encode(RobotState()))["nearby"]["seen_ns"]
    with pytest.raises(InputError, match="not the state of a robot"):
        decode(json.dumps(state))


@given(bearing=st.floats(-180.0, 179.9), range_m=st.floats(0.1, 1.4))
def test_law_in_a_blind_sector_one_scan_is_enough_evidence(bearing: float, range_m: float) -> None:
    seen = replace(scan_of(on_bin(bearing, range_m)), from_m=NEAR_BY)
    assert len(surroundings(after((seen, ORIGIN), (blind(), ORIGIN)), blind(), ORIGIN).out_of_view) == 1


def test_a_return_at_the_edge_of_a_view_counts_as_full_view() -> None:
    """No bin there has a range from which on it is seen: it says nothing of what comes nearer
    (`onboard/perception/min_range.py`)."""
    from_m = NEAR_BY.copy()
    index = int((21.0 + 180.0) / 2.0)
    from_m[index - 1 : index + 2] = inf
    empty = replace(scan_of(stamp_ns=LONG_NS), from_m=from_m)
    nearby = after(*often(replace(scan_of(FAR), from_m=from_m)), (empty, ORIGIN))
    assert len(surroundings(nearby, empty, ORIGIN).out_of_view) == 1


def test_the_policy_sees_remembered_obstacles_below_the_minimum_range() -> None:
    scan = replace(scan_of(), from_m=np.full(BINS, FROM_M, np.float32))
    index = int((21.0 + 180.0) / 2.0)
    assert filled(scan, np.array([POST])).ranges_m[index] == pytest.approx(0.5)
    assert np.isinf(filled(scan, np.array([FAR])).ranges_m).all()


CREPT = Pose(0.3, 0.0, 0.0)


def crept_to(pose: Pose, seconds: float, standing: bool, scan: Scan | None = None) -> Surroundings:
    """Return what lies around after a post ahead went out of view and the odometry went slowly to `pose`."""
    nearby, ticks = after((scan_of((0.5, 0.1)), ORIGIN)), round(seconds * NS_PER_S / TICK_NS)
    for tick in range(1, ticks + 1):
        then, now_ns = interpolate(ORIGIN, pose, tick / ticks), (tick + 1) * TICK_NS
        dark = blind(now_ns) if scan is None or tick < ticks else replace(scan, stamp_ns=now_ns)
        nearby = advance(nearby, dark, then, now_ns, LONG_NS, standing)
    return surroundings(nearby, dark, pose)


#  name                                  seconds  standing  x of the post afterwards
CREEPS = [
    ("told to stand, slow odometry",        10.0,    True, [0.2, 0.5]),
    ("told to drive",                       10.0,   False, [0.2]),
    ("told to stand, pushed",                1.0,    True, [0.2]),
]  # fmt: skip


@pytest.mark.parametrize(("seconds", "standing", "x_m"), [row[1:] for row in CREEPS], ids=[row[0] for row in CREEPS])
def test_odometry_that_creeps_carries_no_place_away(seconds: float, standing: bool, x_m: list[float]) -> None:
    places = crept_to(CREPT, seconds, standing).out_of_view
    assert sorted(places[:, 0].tolist()) == pytest.approx(x_m, abs=2e-3)


#  name                       scan at the end                                                   places
CLEARED = [
    ("both in view",          scan_of((3.0, 0.0)),                                                   0),
    ("one of them in view",   scan_of((3.0, 0.0), looks_deg=(20.0, 180.0)),                          1),
    ("seen again in between", scan_of((0.35, 0.1)),                                                  0),
]  # fmt: skip


@pytest.mark.parametrize(("scan", "places"), [row[1:] for row in CLEARED], ids=[row[0] for row in CLEARED])
def test_a_scan_of_both_places_of_a_creeping_robot_clears_them(scan: Scan, places: int) -> None:
    assert len(crept_to(CREPT, 10.0, True, scan).out_of_view) == places


def test_in_view_the_scan_replaces_the_memory() -> None:
    nearby = after((scan_of(POST), ORIGIN))
    assert len(nearby.places_m) == 1
    assert len(surroundings(nearby, scan_of(POST), ORIGIN).out_of_view) == 0


def test_a_scan_is_entered_once_and_from_where_the_base_stood_at_its_stamp() -> None:
    """The scan comes three ticks late, from a base at 1 m/s, and stays the newest for two more ticks."""
    nearby, scan = ObstacleMemory(), scan_of(stamp_ns=0)
    for tick in range(1, 8):
        if tick >= 5:
            scan = scan_of(POST, stamp_ns=2 * TICK_NS, looks_deg=AHEAD_DEG)
        nearby = advance(nearby, scan, Pose(tick / 30.0, 0.0, 0.0), tick * TICK_NS, LONG_NS)
    assert nearby.places_m == pytest.approx(np.array([(POST[0] + 2.0 / 30.0, POST[1])]), abs=1e-6)
    assert nearby.seen_ns.tolist() == [2 * TICK_NS]


def test_far_obstacles_are_not_remembered_nor_any_for_zero_time() -> None:
    assert len(after((scan_of(POST), ORIGIN), remember_ns=0).places_m) == 0
    assert len(after((scan_of((REACH_M + 0.01, 0.0)), ORIGIN)).places_m) == 0


def test_an_invalid_range_is_not_remembered() -> None:
    scan = scan_of(POST)
    odd = replace(scan, ranges_m=np.where(np.isfinite(scan.ranges_m), np.float32(nan), scan.ranges_m))
    assert len(after((odd, ORIGIN)).places_m) == 0


def test_at_capacity_the_oldest_are_dropped() -> None:
    behind_m = np.stack([np.full(CAPACITY, -0.5), np.linspace(-0.2, 0.2, CAPACITY)], axis=1)
    scans = np.ones((CAPACITY, 2), np.int64)
    full = ObstacleMemory(behind_m, np.full(CAPACITY, TICK_NS), behind_m, scans, TICK_NS)
    scan = scan_of(POST, on_bin(-21.0, 0.5), stamp_ns=2 * TICK_NS, looks_deg=AHEAD_DEG)
    nearby = advance(full, scan, ORIGIN, 2 * TICK_NS, LONG_NS)
    assert (nearby.places_m[: CAPACITY - 2] == behind_m[2:]).all()
    assert nearby.seen_ns[-3:].tolist() == [TICK_NS, 2 * TICK_NS, 2 * TICK_NS]
    assert nearby.spots_m.shape == nearby.scans.shape == (CAPACITY, 2)


#   what               place                looks           in the policy's scan
FILLED = [
    ("ahead",          on_bin(51.0, 0.7),   AHEAD_DEG,      True),
    ("beside",         on_bin(-99.0, 0.7),  AHEAD_DEG,      True),
    ("behind",         on_bin(121.0, 0.7),  AHEAD_DEG,      False),
    ("where it looks", on_bin(11.0, 0.7),   AHEAD_DEG,      False),
]  # fmt: skip


@pytest.mark.parametrize(("what", "place", "looks", "shown"), FILLED, ids=[row[0] for row in FILLED])
def test_the_policy_sees_remembered_obstacles_ahead_in_blind_bins(
    what: str, place: tuple[float, float], looks: tuple[float, float], shown: bool
) -> None:
    scan = scan_of(looks_deg=looks)
    farther = tuple(1.2 * value for value in place)
    got = filled(scan, np.array([farther, place]))
    index = int((np.degrees(np.arctan2(place[1], place[0])) + 180.0) / 2.0)
    assert (got.ranges_m[index] == pytest.approx(0.7), got.seen[index]) == (shown, shown or scan.seen[index])
    others = np.arange(BINS) != index
    assert (got.ranges_m[others] == scan.ranges_m[others]).all()
    assert (got.seen[others] == scan.seen[others]).all()
    assert np.isinf(scan.ranges_m).all()


def test_a_scan_with_nothing_to_fill_is_the_same_one() -> None:
    scan = scan_of(POST)
    assert filled(scan, NOWHERE) is scan
