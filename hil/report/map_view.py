"""Where a session was: its path in the map frame or in that of its odometry, what it saw there, and the building."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.maps.load import load_map
from hil.report.timeline import Flags, Floats, Ints, Story
from onboard.config.config import ScanSection
from onboard.drivers.dds.tick_types import GoalInput
from onboard.values.messages import BINS, Pose

# ---- The part of a map around what a session went through

MARGIN_M = 3.0
CELLS_AT_MOST = 250_000


@dataclass(frozen=True, slots=True)
class Building:
    """Part of a map: walls (rows, columns) of cells, and the pose of the corner of row 0 and column 0 in the map."""

    name: str
    cell_m: float
    corner: Pose
    walls: npt.NDArray[np.bool_]


def building_around(map_name: str, shown_m: Floats, section: ScanSection) -> Building:
    """Return what of a map's walls stands at the heights of a scan, around points (n, 2) of the map frame [m].

    Cells become twice as large until they are few enough. Raises InputError for a map that cannot be read.
    """
    world = load_map(map_name)
    walls = world.overlapping(section.z_min_m, section.z_max_m)
    whole = Building(world.name, world.cell_m, world.map_from_grid, walls)
    return _coarse(_cut(whole, shown_m))


def share_within(building: Building, points_m: Floats) -> float:
    """Return which part of some points (n, 2) of the map frame lies on the map; all of none."""
    if not len(points_m):
        return 1.0
    cells = _in_grid(building, points_m)
    return float(((cells >= 0) & (cells <= building.walls.shape[::-1])).all(axis=1).mean())


def _in_grid(building: Building, points_m: Floats) -> Floats:
    """Return points of the map frame as column and row."""
    corner = building.corner
    c, s = math.cos(corner.yaw_rad), math.sin(corner.yaw_rad)
    return np.asarray((points_m - [corner.x_m, corner.y_m]) @ np.array([[c, -s], [s, c]]) / building.cell_m)


def _cut(building: Building, shown_m: Floats) -> Building:
    """Return the part around some points; all of it where none of them is near."""
    if not len(shown_m):
        return building
    cells, margin = _in_grid(building, shown_m), MARGIN_M / building.cell_m
    size = np.array(building.walls.shape[::-1])
    left, bottom = np.clip(np.floor(cells.min(axis=0) - margin), 0, size).astype(int).tolist()
    right, top = np.clip(np.ceil(cells.max(axis=0) + margin), 0, size).astype(int).tolist()
    if right <= left or top <= bottom:
        return building
    corner, x, y = building.corner, left * building.cell_m, bottom * building.cell_m
    c, s = math.cos(corner.yaw_rad), math.sin(corner.yaw_rad)
    moved = Pose(corner.x_m + c * x - s * y, corner.y_m + s * x + c * y, corner.yaw_rad)
    return Building(building.name, building.cell_m, moved, building.walls[bottom:top, left:right])


def _coarse(building: Building) -> Building:
    walls, cell_m = building.walls, building.cell_m
    while walls.size > CELLS_AT_MOST:
        even = np.pad(walls, [(0, size % 2) for size in walls.shape])
        walls = even[::2, ::2] | even[1::2, ::2] | even[::2, 1::2] | even[1::2, 1::2]
        cell_m *= 2.0
    return Building(building.name, cell_m, building.corner, walls)


SEEN_CELL_M = 0.05
SEEN_AT_MOST = 20_000
FARTHEST_M = 1e6
CELL_BITS = 32
HALF_CELL_BITS = 1 << (CELL_BITS - 1)
"""Two cell numbers, positive or negative, in one whole number, which sorts much faster than pairs."""
TICKS_AT_ONCE = 512
"""So that memory does not grow with the drive."""
NEARLY_ALL = 0.5
"""A map on which less of the path lies is likely another one."""
GOAL_ANSWERS = ("goal_accepted", "goal_refused")
AZIMUTHS_RAD = np.deg2rad(-180.0 + 360.0 / BINS * (np.arange(BINS) + 0.5))

Cells = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal that was asked for, placed in the frame of the page. accepted: whether the robot took it."""

    row: int
    x_m: float
    y_m: float
    accepted: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where it was.

    frame: "map" or "odom"
    poses: (n, 3) x, y, yaw [m, rad], NaN before the first odometry
    seen:  (k, 2) cells of `seen_cell_m` with something that the scans hit, x and y
    often: (k,) whether they were hit more often than half of them
    notes: what a reader should know of the placing
    """

    frame: str
    poses: Floats
    goals: tuple[Goal, ...]
    seen: Cells
    often: Flags
    seen_cell_m: float
    building: Building | None
    notes: tuple[str, ...]


def surroundings_of(story: Story, map_name: str | None) -> Surroundings:
    """Place a session. map_name: a map that ships, or a file; None for none. Raises InputError for a bad map."""
    localised = np.isfinite(story.correction).all(axis=1)
    notes: list[str] = []
    frame = "map" if localised.any() else "odom"
    if frame == "map":
        first = int(np.argmax(localised))
        if first > 0:
            notes.append(
                f"The robot was localised from {story.t_s[first]:.1f} s on; what was before is placed by that fix."
            )
        poses = _composed(_corrections(story), story.odometry[:, :3])
    else:
        poses = story.odometry[:, :3]
        notes.append("There was no localisation: positions are those of the wheels alone, and drift with them.")
    seen, often, cell_m = _seen(story, poses)
    building = None
    if map_name is not None:
        shown = np.concatenate([poses[np.isfinite(poses[:, 0]), :2], seen[often] * cell_m])
        building = building_around(map_name, shown, story.config.scan)
        if frame == "odom":
            notes.append(f"So the map {building.name} cannot be placed, and is not shown.")
            building = None
        elif (share := share_within(building, poses[np.isfinite(poses[:, 0]), :2])) < NEARLY_ALL:
            notes.append(f"Only {100.0 * share:.0f} % of the path lie on the map {building.name}: is it the right one?")
    return Surroundings(frame, poses, _goals(story, frame, poses), seen, often, cell_m, building, tuple(notes))


def _corrections(story: Story) -> Floats:
    """Return the correction of every tick: the newest so far, the first one before it."""
    known = np.isfinite(story.correction).all(axis=1)
    newest = np.maximum.accumulate(np.where(known, np.arange(story.ticks), int(np.argmax(known))))
    return np.asarray(story.correction[newest])


def _composed(correction: Floats, poses: Floats) -> Floats:
    """Return poses of the odom frame in the map frame."""
    c, s = np.cos(correction[:, 2]), np.sin(correction[:, 2])
    x = correction[:, 0] + c * poses[:, 0] - s * poses[:, 1]
    y = correction[:, 1] + s * poses[:, 0] + c * poses[:, 1]
    return np.column_stack([x, y, correction[:, 2] + poses[:, 2]])


def _seen(story: Story, poses: Floats) -> tuple[Cells, Flags, float]:
    """Return the cells that scans hit, whether often, and their size: twice as large until there are few enough."""
    cells, counts = np.empty((0, 2), np.int32), np.empty(0, np.int64)
    for start in range(0, story.ticks, TICKS_AT_ONCE):
        ranges, at = story.scans[start : start + TICKS_AT_ONCE], poses[start : start + TICKS_AT_ONCE]
        row, column = np.nonzero(np.isfinite(ranges) & np.isfinite(at[:, :1]))
        bearing = at[row, 2] + AZIMUTHS_RAD[column]
        xy = at[row, :2] + ranges[row, column, None] * np.column_stack([np.cos(bearing), np.sin(bearing)])
        hit = np.floor(np.clip(xy, -FARTHEST_M, FARTHEST_M) / SEEN_CELL_M).astype(np.int32)
        cells, counts = _counted(np.concatenate([cells, hit]), np.concatenate([counts, np.ones(len(hit), np.int64)]))
    cell_m = SEEN_CELL_M
    while len(cells) > SEEN_AT_MOST:
        cells, counts = _counted(np.floor_divide(cells, 2), counts)
        cell_m *= 2.0
    return cells, counts > np.median(counts) if len(counts) else counts > 0, cell_m


def _counted(cells: Cells, counts: Ints) -> tuple[Cells, Ints]:
    """Return each cell once, with the sum of its counts."""
    whole, place = np.unique((cells[:, 0].astype(np.int64) << CELL_BITS) + cells[:, 1], return_inverse=True)
    sums = np.bincount(place, weights=counts, minlength=len(whole)).astype(np.int64)
    x = (whole + HALF_CELL_BITS) >> CELL_BITS
    return np.column_stack([x, whole - (x << CELL_BITS)]).astype(np.int32), sums


def _goals(story: Story, frame: str, poses: Floats) -> tuple[Goal, ...]:
    """Return the goals that can be placed; a goal of an unknown frame was refused, and stands among what happened."""
    found = []
    for row, requests in story.goals.items():
        answers = [event for event in story.events.get(row, ()) if event.startswith(GOAL_ANSWERS)]
        for number, request in enumerate(requests):
            at = _placed_goal(story, frame, poses[row], row, request)
            if at is not None:
                accepted = number < len(answers) and answers[number].startswith(GOAL_ANSWERS[0])
                found.append(Goal(row, float(at[0]), float(at[1]), accepted))
    return tuple(found)


def _placed_goal(story: Story, frame: str, robot: Floats, row: int, request: GoalInput) -> Floats | None:
    """Return x, y of a goal in the frame of the page, None where it cannot be placed. robot: its pose in that frame."""
    pose, section = np.array(request.pose, np.float64), story.config.dds
    if pose.shape != (3,) or not np.isfinite(pose).all():
        return None
    asked = request.frame_id.strip("/")
    ours = section.map_frame if frame == "map" else section.odom_frame
    if asked == ours.strip("/"):
        placed = pose
    elif asked == section.base_frame.strip("/"):
        placed = _composed(robot[None], pose[None])[0]
    elif asked == section.odom_frame.strip("/"):
        placed = _composed(_corrections(story)[[row]], pose[None])[0]
    else:
        return None
    return placed[:2] if np.isfinite(placed).all() else None
