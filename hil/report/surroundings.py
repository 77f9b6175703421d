"""Where a session was: its path in the map frame or in that of its odometry, what it saw there, and the building."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hil.report.building import Building, building_around, share_within
from hil.report.story import Flags, Floats, Ints, Story
from onboard.drivers.onboard_types import GoalInput
from onboard.messages import BINS

SEEN_CELL_M = 0.05
SEEN_AT_MOST = 60_000
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
