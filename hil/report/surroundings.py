"""Where a session was: its path in the map frame or in that of its odometry, what it saw there, and the building."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.maps import load_map
from hil.report.story import Floats, Story
from onboard.drivers.onboard_types import GoalInput
from onboard.messages import BINS, Pose

MARGIN_M = 3.0
"""Map shown around the path and what was seen."""
SEEN_CELL_M = 0.05
SEEN_AT_MOST = 60_000
MAP_CELLS_AT_MOST = 1_000_000
NEARLY_ALL = 0.5
"""A map on which less of the path lies is likely another one."""
GOAL_ANSWERS = ("goal_accepted", "goal_refused")
AZIMUTHS_RAD = np.deg2rad(-180.0 + 360.0 / BINS * (np.arange(BINS) + 0.5))

Cells = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Building:
    """Part of a map: walls (rows, columns) of cells, and the pose of the corner of row 0 and column 0 in the map."""

    name: str
    cell_m: float
    corner: Pose
    walls: npt.NDArray[np.bool_]


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
    notes: what a reader should know of the placing
    """

    frame: str
    poses: Floats
    goals: tuple[Goal, ...]
    seen: Cells
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
                f"The robot was localised from {story.t_s[first]:.1f} s on; what was before is placed by that first fix."
            )
        poses = _composed(_corrections(story), story.odometry[:, :3])
    else:
        poses = story.odometry[:, :3]
        notes.append("There was no localisation: positions are those of the wheels alone, and drift with them.")
    seen, cell_m = _seen(story, poses)
    building = None
    if map_name is not None:
        building = _building(story, map_name, poses, seen * cell_m)
        if frame == "odom":
            notes.append(f"So the map {building.name} cannot be placed, and is not shown.")
            building = None
        elif (share := _within(building, poses)) < NEARLY_ALL:
            notes.append(f"Only {100.0 * share:.0f} % of the path lie on the map {building.name}: is it the right one?")
    return Surroundings(frame, poses, _goals(story, frame, poses), seen, cell_m, building, tuple(notes))


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


def _seen(story: Story, poses: Floats) -> tuple[Cells, float]:
    """Return the cells that scans hit, and their size: twice as large until there are few enough."""
    found = [np.empty((0, 2), np.int32)]
    for start in range(0, story.ticks, 512):  # so that memory does not grow with the drive
        ranges, at = story.scans[start : start + 512], poses[start : start + 512]
        hit = np.isfinite(ranges) & np.isfinite(at[:, :1])
        row, column = np.nonzero(hit)
        bearing = at[row, 2] + AZIMUTHS_RAD[column]
        xy = at[row, :2] + ranges[row, column, None] * np.column_stack([np.cos(bearing), np.sin(bearing)])
        found.append(_cells(xy, SEEN_CELL_M))
    cells, cell_m = np.unique(np.concatenate(found), axis=0), SEEN_CELL_M
    while len(cells) > SEEN_AT_MOST:
        cells, cell_m = np.unique(np.floor_divide(cells, 2), axis=0), 2.0 * cell_m
    return cells, cell_m


def _cells(xy_m: Floats, cell_m: float) -> Cells:
    limit = np.iinfo(np.int32).max * cell_m
    cells = np.floor(np.clip(xy_m, -limit, limit) / cell_m).astype(np.int32)
    return np.asarray(np.unique(cells, axis=0) if len(cells) else cells.reshape(0, 2))


def _building(story: Story, map_name: str, poses: Floats, seen_m: Floats) -> Building:
    """Return the part of a map around the path and what was seen, with cells twice as large until they are few."""
    world, section = load_map(map_name), story.config.scan
    walls = world.overlapping(section.z_min_m, section.z_max_m)
    corner, cell_m = world.map_from_grid, world.cell_m
    shown = np.concatenate([poses[np.isfinite(poses[:, 0]), :2], seen_m.reshape(-1, 2)])
    if len(shown):
        c, s = math.cos(corner.yaw_rad), math.sin(corner.yaw_rad)
        grid = (shown - [corner.x_m, corner.y_m]) @ np.array([[c, -s], [s, c]])
        low, high = np.floor((grid.min(axis=0) - MARGIN_M) / cell_m), np.ceil((grid.max(axis=0) + MARGIN_M) / cell_m)
        (left, bottom), (right, top) = ([int(np.clip(one, 0, size)) for one, size in zip(edge, walls.shape[::-1])]
                                        for edge in (low, high))  # fmt: skip
        if right > left and top > bottom:
            walls = walls[bottom:top, left:right]
            x, y = left * cell_m, bottom * cell_m
            corner = Pose(corner.x_m + c * x - s * y, corner.y_m + s * x + c * y, corner.yaw_rad)
    while walls.size > MAP_CELLS_AT_MOST:
        padded = np.pad(walls, [(0, size % 2) for size in walls.shape])
        walls = padded[::2, ::2] | padded[1::2, ::2] | padded[::2, 1::2] | padded[1::2, 1::2]
        cell_m *= 2.0
    return Building(world.name, cell_m, corner, walls)


def _within(building: Building, poses: Floats) -> float:
    """Return which part of the poses lies on the part of the map."""
    at = poses[np.isfinite(poses[:, 0]), :2]
    if not len(at):
        return 1.0
    corner = building.corner
    c, s = math.cos(corner.yaw_rad), math.sin(corner.yaw_rad)
    grid = (at - [corner.x_m, corner.y_m]) @ np.array([[c, -s], [s, c]]) / building.cell_m
    return float(((grid >= 0) & (grid <= building.walls.shape[::-1])).all(axis=1).mean())


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
