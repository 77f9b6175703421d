"""What viewers show of a drive beside the scan: paths, arc of the command, footprint, markers, the typed state.

Rates are low, and no tick makes these messages: a thread of its own publishes them (`onboard/service/viewers.py`), the
recorder's thread records them.

| topic | frame | what it is |
|---|---|---|
| map | map | the building (`map.file`), once |
| reasons | | the table of reasons: sentence and what clears it, by code, once |
| path | odom | where the robot was, a pose every `STEP_M`; with `MOST_POSES` every second pose is dropped |
| plan | odom | the path to the goal that the policy plans by (`planned_path.py`); without one it has no poses |
| arc | base | where the newest command leads in `ARC_S` |
| footprint | base | outline of the robot |
| markers | base, odom, map | goals, stop and slow zone, obstacles remembered, keep-out edge, blind sectors, places |
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from cyclonedds.idl import IdlStruct

from onboard.config.config import Config
from onboard.config.footprint import Footprint
from onboard.config.places import load_places, places_file
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_convert import header, ros_diagnostics, ros_pose
from onboard.navigation.mission import Mission, state_word
from onboard.navigation.odometry import integrate
from onboard.navigation.start_frame import Start
from onboard.perception import collision, obstacle_memory
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.recording.planned_path import PlannedPath
from onboard.safety.keepout_zones import MapZones, zone_of
from onboard.safety.limits import Reason
from onboard.state import TickRecord
from onboard.values import reasons
from onboard.values.errors import OnboardError
from onboard.values.geometry import apply, compose, distance, inverse
from onboard.values.interfaces import Diagnostic
from onboard.values.messages import Pose
from onboard.values.reasons import JOIN, TABLE, Row, in_words, rows_in

STEP_M, MOST_POSES = 0.1, 400
ARC_S, ARC_POSES = 1.5, 10
TURN_RAD = math.radians(15.0)
OUTLINE = 72
"""Corners of the drawn outline of a zone."""
BLIND_M = 1.5
"""Radius of a drawn blind sector."""
MOST_PLACES = 300
"""Remembered obstacles and points of a keep-out edge that are drawn; of more, every second, third and so on."""
LIFETIME_S = 3
"""A marker that is not repeated goes: a dead runtime leaves no zones behind."""
CYLINDER, LINE_STRIP, POINTS, TRIANGLES, TEXT = 3, 4, 8, 11, 9
"""Types of a visualization_msgs/Marker."""
CODE, CLEARS, WHY, SENTENCE = "code", "clears", "why", "sentence"

Points = npt.NDArray[np.float64]
Color = tuple[float, float, float, float]
GREEN, RED, AMBER, BLUE, GREY = (
    (0.1, 0.6, 0.2, 0.9), (0.85, 0.1, 0.1, 0.9), (0.9, 0.6, 0.0, 0.9), (0.1, 0.4, 0.9, 0.9), (0.5, 0.5, 0.5, 0.35),
)  # fmt: skip
QUIET = frozenset({Reason.NONE.value, Reason.IDLE.value, Reason.TELEOP.value})
"""Reasons of a command that hinder nobody."""

Made = tuple[str, Callable[[], IdlStruct]]
"""A topic by our name, and what makes its message."""


class Scene:
    """Follows a drive and makes its messages. One thread uses it."""

    def __init__(
        self,
        config: Config,
        zones: MapZones | None = None,
        building: OccupancyGrid | None = None,
        planned: PlannedPath | None = None,
    ) -> None:
        """zones: masks of the map, as in `Robot`; building: its map, None without one; planned: None: no such path"""
        self._config, self._zones, self._building, self._planned = config, zones, building, planned
        self._path: list[Pose] = []
        self._step_m = STEP_M
        self._named: list[ros.Marker] = []
        self._named_ns = 0
        footprint, margins = config.robot.footprint, config.limits
        self._footprint = outline(footprint)
        self._zone_lines = {
            "stop_zone": (outline(footprint.grown(margins.stop_margin_m)), RED),
            "slow_zone": (outline(footprint.grown(margins.slow_margin_m)), AMBER),
        }

    def lasting(self, stamp_ns: int) -> Iterator[tuple[str, IdlStruct]]:
        """Yield what stays for a run, each with our name of its topic. stamp_ns: wall time"""
        table: dict[str, object] = {row.code: f"{row.general}. {row.clears}".strip() for row in TABLE.values()}
        yield "reasons", ros_diagnostics(stamp_ns, "", [("reasons", 0, "", table)])
        if self._building is not None:
            yield "map", self._map(self._building, stamp_ns)

    def _map(self, grid: OccupancyGrid, stamp_ns: int) -> ros.OccupancyGrid:
        at = header(stamp_ns, self._config.dds.map_frame)
        rows, columns = grid.percent.shape
        info = ros.MapMetaData(at.stamp, grid.cell_m, columns, rows, ros_pose(grid.map_from_grid))
        return ros.OccupancyGrid(at, info, grid.percent.tobytes())

    def note(self, record: TickRecord) -> None:
        """Add the pose of a tick to the driven path, if it is far enough from the last one."""
        pose = record.odometry.pose
        if self._path and distance(self._path[-1], pose) < self._step_m:
            return
        self._path.append(pose)
        if len(self._path) > MOST_POSES:
            self._path, self._step_m = self._path[::2], 2.0 * self._step_m

    def messages(self, record: TickRecord, stamp_ns: int, topics: Container[str]) -> Iterator[Made]:
        """Yield the messages of some topics after a tick. stamp_ns: wall time"""
        frames = self._config.dds
        made: dict[str, Callable[[], IdlStruct]] = {
            "path": partial(_path, header(stamp_ns, frames.odom_frame), [*self._path, record.odometry.pose]),
            "plan": partial(self._plan, record, stamp_ns),
            "arc": partial(_path, header(stamp_ns, frames.base_frame), arc(record)),
            "footprint": partial(_polygon, header(stamp_ns, frames.base_frame), self._footprint),
            "markers": partial(self._markers, record, stamp_ns),
        }
        yield from ((name, make) for name, make in made.items() if name in topics)

    def _plan(self, record: TickRecord, stamp_ns: int) -> ros.Path:
        places = [] if self._planned is None else self._planned.places(record)
        thinned = places[:: 1 + len(places) // MOST_POSES]
        poses = [Pose(x_m, y_m, 0.0) for x_m, y_m in [*thinned, *places[-1:]]]
        return _path(header(stamp_ns, self._config.dds.odom_frame), poses)

    def _markers(self, record: TickRecord, stamp_ns: int) -> ros.MarkerArray:
        frames, base = self._config.dds, header(stamp_ns, self._config.dds.base_frame)
        found = [_marker(base, name, LINE_STRIP, color, line) for name, (line, color) in self._zone_lines.items()]
        blind = _sectors(collision.blind_sectors_deg(record.limits_scan.seen))
        found.append(_marker(base, "blind", TRIANGLES, GREY, blind))
        if (after := record.after) is not None:
            surroundings = obstacle_memory.surroundings(after.nearby, record.limits_scan, record.odometry.pose)
            found.append(_marker(base, "remembered", POINTS, BLUE, surroundings.out_of_view))
            edge_m = zone_of(self._zones, after.localization).edge_m
            found.append(_marker(base, "keep_out", POINTS, RED, edge_m))
            goals = goals_left(after.mission)
            if goals and after.start is not None:
                frame, frame_from_start = _placed(after.start, record, frames.map_frame, frames.odom_frame)
                places = np.array([apply(frame_from_start, goal) for goal in goals])
                at = header(stamp_ns, frame)
                found.append(_marker(at, "goal", CYLINDER, GREEN, places[:1], 2.0 * self._config.goal.tolerance_m))
                found.append(_marker(at, "goals", LINE_STRIP, GREEN, places))
        sentence = _marker(base, "state", TEXT, BLUE, np.zeros((1, 2)), 0.25)
        sentence.text, sentence.pose.position.z = record.state, 1.0
        drawn = [one for one in found if one.points or one.type == CYLINDER]
        named = [] if record.map_from_odom is None else self._places(stamp_ns)
        return ros.MarkerArray([*drawn, sentence, *named])

    def _places(self, stamp_ns: int) -> list[ros.Marker]:
        """Return a text for each named place, as the file says now; none where it cannot be read."""
        if self._config.map.file is None:
            return []
        try:
            changed_ns = places_file(self._config).stat().st_mtime_ns
            if changed_ns != self._named_ns:
                self._named, self._named_ns = [], changed_ns
                for name, place in load_places(places_file(self._config)).items():
                    marker = _marker(ros.Header(), "places", TEXT, GREY, np.array([[place.x_m, place.y_m]]), 0.25)
                    marker.id, marker.text = len(self._named), name
                    self._named.append(marker)
        except (OSError, OnboardError):
            self._named = []
        for marker in self._named:
            marker.header = header(stamp_ns, self._config.dds.map_frame)
        return self._named


def outline(footprint: Footprint) -> Points:
    """Return (n, 2) a closed line around a footprint [m]; of a polygon with a margin the line around its hull."""
    if footprint.radius_m == 0.0:
        return footprint.outline_m()
    angle = np.linspace(0.0, 2.0 * math.pi, OUTLINE + 1)
    towards, corners = np.column_stack([np.cos(angle), np.sin(angle)]), np.array(footprint.corners_m)
    farthest = corners[np.argmax(towards @ corners.T, axis=1)]
    return np.asarray(farthest + footprint.radius_m * towards)


def arc(record: TickRecord) -> list[Pose]:
    """Return where the command of a tick leads, in the base frame."""
    steps = np.linspace(0.0, ARC_S, ARC_POSES)
    return [integrate(Pose(0.0, 0.0, 0.0), record.command, float(step_s)) for step_s in steps]


def goals_left(mission: Mission) -> list[tuple[float, float]]:
    """Return this goal and the goals after it, in the start frame [m]; none without a drive."""
    return [mission.goal_xy_m, *mission.then_xy_m] if mission.driving and mission.goal_xy_m is not None else []


def _placed(start: Start, record: TickRecord, map_frame: str, odom_frame: str) -> tuple[str, Pose]:
    """Return the frame in which a goal stands still, and the start frame's pose in it."""
    if start.start_from_map is not None and record.map_from_odom is not None:
        return map_frame, inverse(start.start_from_map)
    return odom_frame, inverse(start.start_from_odom)


def _path(at: ros.Header, poses: Sequence[Pose]) -> ros.Path:
    return ros.Path(at, [ros.PoseStamped(at, ros_pose(pose)) for pose in poses])


def _polygon(at: ros.Header, line: Points) -> ros.PolygonStamped:
    return ros.PolygonStamped(at, ros.Polygon([ros.Point32(x, y) for x, y in line[:-1].tolist()]))


def _marker(at: ros.Header, name: str, kind: int, color: Color, points: Points, size_m: float = 0.05) -> ros.Marker:
    """Return a marker; a cylinder and a text are at the first point."""
    marker = ros.Marker(
        at, name, type=kind, scale=ros.Vector3(size_m, size_m, size_m), color=ros.ColorRGBA(*color),
        lifetime=ros.Duration(LIFETIME_S), frame_locked=True,
    )  # fmt: skip
    if kind in (CYLINDER, TEXT):
        x_m, y_m = points[0].tolist()
        marker.pose = ros_pose(Pose(x_m, y_m, 0.0))
        return marker
    if kind == POINTS:
        points = points[:: 1 + len(points) // MOST_PLACES]
    if kind == TRIANGLES:
        marker.scale = ros.Vector3(1.0, 1.0, 1.0)
    marker.points = [ros.Point(x, y) for x, y in points.tolist()]
    return marker


def _sectors(sectors_deg: Sequence[tuple[float, float]]) -> Points:
    """Return (3 n, 2) triangles that fill the blind sectors [m]."""
    corners: list[tuple[float, float]] = []
    for first_deg, last_deg in sectors_deg:
        count = max(1, math.ceil(math.radians(last_deg - first_deg) / TURN_RAD))
        rim = [math.radians(first_deg + (last_deg - first_deg) * n / count) for n in range(count + 1)]
        at = [(BLIND_M * math.cos(angle), BLIND_M * math.sin(angle)) for angle in rim]
        for one, following in itertools.pairwise(at):
            corners += [(0.0, 0.0), one, following]
    return np.array(corners).reshape(-1, 2)


# ---- The typed state


def why(state: str, reason: str) -> tuple[Row, ...]:
    """Return the rows of what a published state says, and of what shapes the command now, each once."""
    said = (*rows_in(state), *(() if reason in QUIET else rows_in(reason)))
    return tuple(dict.fromkeys(said))


def sentence_of(state: str, rows: Sequence[Row]) -> str:
    """Return a published state in words; behind a mere word the sentences of these reasons."""
    said = JOIN.join(row.general for row in rows)
    return f"{state}: {said}" if said and state == state_word(state) else in_words(state)


def clears(rows: Sequence[Row]) -> str:
    """Return what clears these reasons, each sentence once."""
    return " ".join(dict.fromkeys(row.clears for row in rows if row.clears))


def is_e_stopped(row: Mapping[str, str]) -> bool:
    """Return whether the e-stop is pressed, or no goal was accepted since, by a row of `/onboard/drive`."""
    return reasons.E_STOP.code in row.get(WHY, "").split(", ")


def is_lost(row: Mapping[str, str]) -> bool:
    """Return whether the tracker is lost, so that the pose of this row of `/onboard/drive` counts for nothing."""
    return reasons.LOST_STANDS.code in row.get(WHY, "").split(", ")


def drive_row(record: TickRecord, mission: Mission, recoveries: int | str, state: str = "") -> Diagnostic:
    """Return the row of `/onboard/drive`. A sender finds its goal by the stamp of its message.

    goal, refused:  stamp of the request that is driven or was driven last, and of the newest refused one [ns]
    state, reason:  of that goal; refusal: of the refused one
    sentence:       the published state, with sentences in place of codes
    why, clears:    codes of all that the published state names or that shapes the command, and what clears them
    goals_left:     in a sequence this goal and those after it, 0 without a drive
    frame, x_m, y_m, yaw_rad: the robot's pose in the map, or in the odometry frame while it is not localised

    state: as it is published; "" for the record's
    """
    state = state or record.state
    pose, localised = record.odometry.pose, record.map_from_odom is not None
    pose = pose if record.map_from_odom is None else compose(record.map_from_odom, pose)
    hinders = why(state, record.reason)
    values: dict[str, object] = {
        "goal": mission.asked_ns,
        "state": mission.state.value,
        "reason": mission.reason,
        CODE: ", ".join(row.code for row in rows_in(mission.reason)),
        SENTENCE: sentence_of(state, hinders),
        WHY: ", ".join(row.code for row in hinders),
        CLEARS: clears(hinders),
        "refused": mission.refused_ns,
        "refusal": mission.refusal,
        "paused": mission.paused,
        "goals_left": len(mission.then_xy_m) + 1 if mission.driving else 0,
        "distance_m": "" if record.goal_distance_m is None else round(record.goal_distance_m, 3),
        "recoveries": recoveries,
        "frame": "map" if localised else "odom",
        "x_m": round(pose.x_m, 3),
        "y_m": round(pose.y_m, 3),
        "yaw_rad": round(pose.yaw_rad, 3),
    }
    return ("drive", 0, record.state, values)
