"""The picture of the path as plain numbers: the driven path, the goals, and where something went wrong.

Around the path it shows the places that the robot's scans hit, and the scan wherever a command was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hil.report.charts import AZIMUTHS_RAD, nice
from hil.report.events import BAD, MISS, ZONE, TickEvent, row_of, runs
from hil.report.timeline import Floats, Timeline
from onboard.values.messages import GoalRequest

# ---- Poses and goals of a session in one frame

FARTHEST_M = 1e6
GOAL_ANSWERS = ("goal_accepted", "goal_refused")


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal request in the frame of the path. accepted: the robot took it."""

    row: int
    x_m: float
    y_m: float
    accepted: bool


@dataclass(frozen=True, slots=True)
class DrivenPath:
    """Poses and goals of a session in one frame.

    frame: "map" once the robot was localised, else "odom"
    poses: (n, 3) x, y, yaw [m, rad], NaN before the first odometry
    note:  remark on the frame for the reader, or ""
    """

    frame: str
    poses: Floats
    goals: tuple[Goal, ...]
    note: str


def path_of(timeline: Timeline) -> DrivenPath:
    """Return the path of a session."""
    localised = np.isfinite(timeline.map_from_odom).all(axis=1)
    if not localised.any():
        note = "There was no localisation: positions are from wheel odometry alone and drift."
        poses = timeline.odometry[:, :3]
        return DrivenPath("odom", poses, _goals(timeline, "odom", poses), note)
    first = int(np.argmax(localised))
    note = f"The robot was localised from {timeline.t_s[first]:.1f} s on; that fix places the earlier path too."
    poses = _composed(_corrections(timeline), timeline.odometry[:, :3])
    return DrivenPath("map", poses, _goals(timeline, "map", poses), note if first > 0 else "")


def _corrections(timeline: Timeline) -> Floats:
    """Return the newest correction of every tick; before the first correction, that first correction."""
    known = np.isfinite(timeline.map_from_odom).all(axis=1)
    newest = np.maximum.accumulate(np.where(known, np.arange(timeline.ticks), int(np.argmax(known))))
    return np.asarray(timeline.map_from_odom[newest])


def _composed(correction: Floats, poses: Floats) -> Floats:
    """Return poses of the odom frame in the map frame."""
    c, s = np.cos(correction[:, 2]), np.sin(correction[:, 2])
    x = correction[:, 0] + c * poses[:, 0] - s * poses[:, 1]
    y = correction[:, 1] + s * poses[:, 0] + c * poses[:, 1]
    return np.column_stack([x, y, correction[:, 2] + poses[:, 2]])


def _goals(timeline: Timeline, frame: str, poses: Floats) -> tuple[Goal, ...]:
    """Return the goals that can be placed. A goal in an unknown frame was refused; only the event list has it."""
    found = []
    for row, requests in timeline.goals.items():
        answers = [event for event in timeline.events.get(row, ()) if event.startswith(GOAL_ANSWERS)]
        for number, request in enumerate(requests):
            at = _placed_goal(timeline, frame, poses[row], row, request)
            if at is not None:
                accepted = number < len(answers) and answers[number].startswith(GOAL_ANSWERS[0])
                found.append(Goal(row, float(at[0]), float(at[1]), accepted))
    return tuple(found)


def _placed_goal(timeline: Timeline, frame: str, robot: Floats, row: int, request: GoalRequest) -> Floats | None:
    """Return x, y of a goal in the frame of the path, or None. robot: its pose in that frame."""
    pose, section = np.array([request.pose.x_m, request.pose.y_m, request.pose.yaw_rad]), timeline.config.dds
    if not np.isfinite(pose).all():
        return None
    asked = request.frame_id.strip("/")
    ours = section.map_frame if frame == "map" else section.odom_frame
    if asked == ours.strip("/"):
        placed = pose
    elif asked == section.base_frame.strip("/"):
        placed = _composed(robot[None], pose[None])[0]
    elif asked == section.odom_frame.strip("/"):
        placed = _composed(_corrections(timeline)[[row]], pose[None])[0]
    else:
        return None
    return placed[:2] if np.isfinite(placed).all() else None


# ---- The picture

WIDTH = 640.0
MARGIN_PX = 30.0
HEIGHTS = 0.5, 1.0
"""Least and greatest height of the picture, as a share of its width."""
LEAST_M = 4.0
"""Least extent of the picture."""
BESIDE_M = 1.0
"""Surroundings that the picture shows on each side of the path."""
POINT_PX = 1.0
"""Distance between the drawn points of a path."""
APART_PX, LATE_APART_PX = 6.0, 26.0
"""Distance between signs of one kind, and between late decisions, which are many."""
LEAST_GOAL_PX = 4.0
MOST_NAMED = 12
"""With more goals, labels are numbers only."""
LABEL_ROOM_PX = 100.0


@dataclass(frozen=True, slots=True)
class Place:
    """A labelled place [px]. kind: "start", "goal", "refused" or "first"; radius: tolerance of a goal."""

    x: float
    y: float
    kind: str
    label: str
    radius: float = 0.0

    @property
    def leftward(self) -> bool:
        """Whether the label stands on the left, because there is no room on the right."""
        return self.x > WIDTH - LABEL_ROOM_PX


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The picture; x of the frame points right, y up.

    walls: SVG path of the places that scans hit; cuts: the scan at each command that was cut
    ways:  (kind of reason, SVG path) of the robot's centre
    signs: (x, y, kind of moment, text) of bad moments
    bar:   length [px] and text of the scale
    """

    height: float
    walls: str
    cuts: tuple[CutCommand, ...]
    ways: tuple[tuple[str, str], ...]
    signs: tuple[tuple[float, float, str, str], ...]
    places: tuple[Place, ...]
    bar: tuple[float, str]


@dataclass(frozen=True, slots=True)
class _View:
    """The shown part of the frame: x of the left and y of the upper edge [m], and the scale."""

    left_m: float
    top_m: float
    px_per_m: float
    height: float

    def of(self, points_m: Floats) -> Floats:
        """Return points (n, 2) [m] as pixels."""
        return np.asarray((points_m - [self.left_m, self.top_m]) * [self.px_per_m, -self.px_per_m])


def trajectory_of(timeline: Timeline, path: DrivenPath, moments: Sequence[TickEvent], first: int | None) -> Trajectory:
    """Return the picture. first: row of a replay's first difference."""
    accepted = [[goal.x_m, goal.y_m] for goal in path.goals if goal.accepted]
    centres = np.clip(path.poses[:, :2], -FARTHEST_M, FARTHEST_M)
    placed = np.concatenate([centres, np.array(accepted, np.float64).reshape(-1, 2).clip(-FARTHEST_M, FARTHEST_M)])
    view = _view(placed[np.isfinite(placed).all(axis=1)])
    at = view.of(centres)
    poses = np.column_stack([centres, path.poses[:, 2]])
    bar_m = nice(WIDTH / view.px_per_m / 8.0)
    return Trajectory(
        view.height, walls_of(timeline, poses, view.of), tuple(cuts_of(timeline, poses, view.of)),
        _ways(timeline, at), tuple(_signs(timeline, at, moments)),
        tuple(_places(timeline, path, view, at, first)), (bar_m * view.px_per_m, f"{bar_m:g} m"),
    )  # fmt: skip


def _view(points_m: Floats) -> _View:
    """Return the view of all points with a margin; without points, of the origin."""
    low, high = (points_m.min(axis=0), points_m.max(axis=0)) if len(points_m) else (np.zeros(2), np.zeros(2))
    wide_m, high_m = np.maximum(high - low + 2.0 * BESIDE_M, LEAST_M).tolist()
    height = min(max(high_m / wide_m, HEIGHTS[0]), HEIGHTS[1]) * WIDTH
    px_per_m = min((WIDTH - 2.0 * MARGIN_PX) / wide_m, (height - 2.0 * MARGIN_PX) / high_m)
    middle = (low + high) / 2.0
    return _View(middle[0] - WIDTH / 2.0 / px_per_m, middle[1] + height / 2.0 / px_per_m, px_per_m, height)


def _ways(timeline: Timeline, at: Floats) -> tuple[tuple[str, str], ...]:
    """Return the path in pieces of one kind of reason; each piece begins where the previous piece ended."""
    found: dict[str, list[str]] = {}
    kinds = [row_of(reason).kind for reason in timeline.reason]
    for first, last, kind in runs(kinds):
        points = at[max(first - 1, 0) : last + 1]
        points = points[np.isfinite(points).all(axis=1)]
        if not len(points):
            continue
        way_px = np.floor(np.cumsum(np.r_[0.0, np.hypot(*np.diff(points, axis=0).T)]) / POINT_PX)
        points = points[np.r_[True, np.diff(way_px) > 0][: len(points)] | (np.arange(len(points)) == len(points) - 1)]
        text = " ".join(f"{x:.1f} {y:.1f}" for x, y in points.tolist())
        found.setdefault(str(kind), []).append(f"M{text}")
    return tuple((kind, "".join(pieces)) for kind, pieces in found.items())


def _signs(timeline: Timeline, at: Floats, moments: Sequence[TickEvent]) -> Iterator[tuple[float, float, str, str]]:
    """Yield the bad moments, late decisions first and so below the others; one of each kind per place."""
    taken = set()
    bad = [moment for moment in moments if moment.weight == BAD and np.isfinite(at[moment.row]).all()]
    for one in sorted(bad, key=lambda one: one.kind != MISS):
        x, y = at[one.row].tolist()
        apart = LATE_APART_PX if one.kind == MISS else APART_PX
        place = one.kind, round(x / apart), round(y / apart)
        if place not in taken:
            taken.add(place)
            yield x, y, one.kind, f"{timeline.t_s[one.row]:.2f} s: {one.text}"


def _places(timeline: Timeline, path: DrivenPath, view: _View, at: Floats, first: int | None) -> Iterator[Place]:
    """Yield the start, the goals in the order of time, and the first difference, if they are in the picture."""
    placed = np.flatnonzero(np.isfinite(at).all(axis=1))
    if len(placed):
        x, y = at[placed[0]].tolist()
        yield Place(x, y, "start", "start")
    radius = max(timeline.config.goal.tolerance_m * view.px_per_m, LEAST_GOAL_PX)
    for number, goal in enumerate(path.goals, start=1):
        ((x, y),) = view.of(np.array([[goal.x_m, goal.y_m]])).tolist()
        if 0.0 <= x <= WIDTH and 0.0 <= y <= view.height:
            name = "goal" if goal.accepted else "refused"
            alone, many = len(path.goals) == 1, len(path.goals) > MOST_NAMED and goal.accepted
            yield Place(x, y, name, name if alone else f"{number}" if many else f"{name} {number}", radius)
    if first is not None and np.isfinite(at[first]).all():
        x, y = at[first].tolist()
        yield Place(x, y, "first", "first difference")


WALL_M = 5.0
"""Scans show walls up to this range; farther points scatter."""
NEAR_M = 3.0
"""The scan at a cut is shown up to this range."""
MOST_SCANS = 1_500
MOST_CELLS = 6_000
LEAST_HITS = 3
CELL_PX = 2.0
MOST_CUTS = 12
HEADING_M = 0.5

Projection = Callable[[Floats], Floats]
"""Points (n, 2) of the path's frame [m] as pixels."""


@dataclass(frozen=True, slots=True)
class CutCommand:
    """A command that the collision zones cut: SVG paths of the scan and of the heading, and the tooltip."""

    scan: str
    heading: str
    text: str


def walls_of(timeline: Timeline, poses: Floats, project: Projection) -> str:
    """Return the known walls as an SVG path of dots: cells that LEAST_HITS scans or more hit, from known poses."""
    known = np.flatnonzero(np.isfinite(poses).all(axis=1))
    rows = known[:: max(1, len(known) // MOST_SCANS)]
    least = min(LEAST_HITS, len(rows))
    hits = [np.floor(project(_points(timeline, poses, row, WALL_M)) / CELL_PX) for row in rows.tolist()]
    cells, counts = np.unique(np.concatenate([np.empty((0, 2)), *hits]), axis=0, return_counts=True)
    cells, counts = cells[counts >= least], counts[counts >= least]
    return _dots((cells[np.argsort(-counts, kind="stable")[:MOST_CELLS]] + 0.5) * CELL_PX)


def cuts_of(timeline: Timeline, poses: Floats, project: Projection) -> list[CutCommand]:
    """Return the largest cuts, at most one a stretch of one reason."""
    taken = np.nan_to_num(np.abs(timeline.wanted - timeline.command)).sum(axis=1)
    worst = [
        first + int(taken[first : last + 1].argmax())
        for first, last, reason in runs(timeline.reason)
        if row_of(str(reason)).kind == ZONE
    ]
    shown = [row for row in worst if taken[row] > 0.0 and np.isfinite(poses[row]).all()]
    return [
        _cut(timeline, poses, row, project) for row in sorted(sorted(shown, key=lambda row: -taken[row])[:MOST_CUTS])
    ]


def _cut(timeline: Timeline, poses: Floats, row: int, project: Projection) -> CutCommand:
    x_m, y_m, yaw_rad = poses[row].tolist()
    ahead = [x_m + HEADING_M * np.cos(yaw_rad), y_m + HEADING_M * np.sin(yaw_rad)]
    begin, end = project(np.array([[x_m, y_m], ahead])).tolist()
    heading = f"M{begin[0]:.1f} {begin[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"
    wanted, sent = (f"{one[row, 0]:.2f} m/s, {one[row, 1]:.2f} rad/s" for one in (timeline.wanted, timeline.command))
    text = f"{timeline.t_s[row]:.2f} s: {row_of(timeline.reason[row]).code}: wanted {wanted}; sent {sent}"
    return CutCommand(_dots(project(_points(timeline, poses, row, NEAR_M))), heading, text)


def _points(timeline: Timeline, poses: Floats, row: int, most_m: float) -> Floats:
    """Return (n, 2) the places that the scan of a tick hit, in the path's frame [m]."""
    ranges = timeline.scans[row].astype(np.float64)
    hit = np.isfinite(ranges) & (ranges < most_m)
    bearing = poses[row, 2] + AZIMUTHS_RAD[hit]
    return np.asarray(poses[row, :2] + ranges[hit, None] * np.column_stack([np.cos(bearing), np.sin(bearing)]))


def _dots(points_px: Floats) -> str:
    return "".join(f"M{x:.0f} {y:.0f}h0" for x, y in points_px.tolist() if abs(x) < 1e4 and abs(y) < 1e4)
