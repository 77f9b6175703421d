"""Moving parts of the scene: robot, path and goal; the twin and its path."""

from __future__ import annotations

import numpy as np
import rerun as rr

from hil.view.draw_scene import BASE, HERE, MAP, ODOM, TWIN, planar
from hil.view.draw_sensors import circle
from onboard.config.config import DdsSection
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.ros_convert import pose_from_ros
from onboard.values.geometry import IDENTITY, compose, distance
from onboard.values.messages import Pose

PATH, TWIN_PATH, GOAL, FIX = (70, 150, 255), (255, 130, 70), (60, 210, 110), (190, 120, 255)
PATH_ENTITY, TWIN_PATH_ENTITY = f"{MAP}/path", f"{MAP}/twin_path"
PATHS = (PATH_ENTITY, TWIN_PATH_ENTITY)
"""Entities that are shown from the first piece to now."""
DRAWN_Z_M, LINE_RADIUS_M, POINT_M = 0.03, 0.015, 0.035
STEP_M = 0.05
"""Least length of a drawn piece of a path. A piece longer than JUMP_M is a pose correction and is not drawn."""
JUMP_M = 1.0
POLE_M = 1.5


class PathPainter:
    """Draws a path piece by piece, so that the logged data grows linearly."""

    def __init__(self, recording: rr.RecordingStream, entity: str, color: tuple[int, int, int]) -> None:
        self._recording, self._entity, self._color = recording, entity, color
        self._last: Pose | None = None

    def at(self, here: Pose) -> None:
        """Draw the piece from the last pose if it is long enough."""
        last = self._last
        if last is not None and distance(last, here) < STEP_M:
            return
        self._last = here
        if last is not None and distance(last, here) <= JUMP_M:
            piece = [(pose.x_m, pose.y_m, DRAWN_Z_M) for pose in (last, here)]
            strips = rr.LineStrips3D([piece], radii=LINE_RADIUS_M, colors=[self._color])
            self._recording.log(self._entity, strips)


class RobotPainter:
    """Moves the robot. Keeps its pose, because a goal may be in the base frame."""

    def __init__(
        self, recording: rr.RecordingStream, section: DdsSection, tolerance_m: float, map_from_odom: Pose = IDENTITY
    ) -> None:
        self._recording = recording
        self._section = section
        self._tolerance_m = tolerance_m
        self._map_from_odom, self._odom_from_base = map_from_odom, IDENTITY
        self._placed = self._tf = False
        self._path = PathPainter(recording, PATH_ENTITY, PATH)

    def transforms(self, sample: ros.TFMessage) -> None:
        """Move the robot; other transforms are ignored."""
        frames = self._section
        for moved in sample.transforms:
            at, turned = moved.transform.translation, moved.transform.rotation
            pose = pose_from_ros(ros.Pose(ros.Point(at.x, at.y, at.z), turned))
            edge = moved.header.frame_id.lstrip("/"), moved.child_frame_id.lstrip("/")
            if edge == (frames.odom_frame, frames.base_frame):
                self._tf = True
                self._move(pose)
            elif edge == (frames.map_frame, frames.odom_frame):
                self._place(pose)

    def odometry(self, sample: ros.Odometry) -> None:
        """Move the robot by its odometry if there are no transforms."""
        if not self._tf:
            self._move(pose_from_ros(sample.pose.pose))

    def fix(self, sample: ros.PoseWithCovarianceStamped) -> None:
        """Mark the position of the external localisation."""
        at = sample.pose.pose.position
        self._recording.log(f"{MAP}/fix", rr.Points3D([(at.x, at.y, DRAWN_Z_M)], radii=POINT_M, colors=[FIX]))

    def goal(self, sample: ros.PoseStamped) -> None:
        """Mark the goal in its own frame."""
        pose, frame = pose_from_ros(sample.pose), sample.header.frame_id.lstrip("/")
        if frame == self._section.base_frame:
            pose, frame = compose(self._odom_from_base, pose), self._section.odom_frame
        for name, parent in ((self._section.map_frame, MAP), (self._section.odom_frame, ODOM)):
            if name != frame:
                self._recording.log(f"{parent}/goal", rr.Clear(recursive=True))
            else:
                self._recording.log(f"{parent}/goal", planar(pose))
                self._recording.log(f"{parent}/goal/flag", _flag(self._tolerance_m))

    def _place(self, map_from_odom: Pose) -> None:
        if self._placed and map_from_odom == self._map_from_odom:
            return
        self._placed = True
        self._map_from_odom = map_from_odom
        self._recording.log(ODOM, planar(map_from_odom))

    def _move(self, odom_from_base: Pose) -> None:
        if not self._placed:  # logged with a time, because a static transform would hide later ones
            self._place(self._map_from_odom)
        self._odom_from_base = odom_from_base
        self._recording.log(BASE, planar(odom_from_base))
        here = compose(self._map_from_odom, odom_from_base)
        self._recording.log(HERE, rr.Transform3D(translation=(here.x_m, here.y_m, 0.0)))
        self._path.at(here)


class TwinPainter:
    """Moves the twin by its true pose in the map."""

    def __init__(self, recording: rr.RecordingStream) -> None:
        self._recording = recording
        self._path = PathPainter(recording, TWIN_PATH_ENTITY, TWIN_PATH)

    def pose(self, sample: ros.PoseStamped) -> None:
        """Move the twin."""
        pose = pose_from_ros(sample.pose)
        self._recording.log(TWIN, planar(pose))
        self._path.at(pose)


def _flag(tolerance_m: float) -> rr.LineStrips3D:
    """Return the mark of a goal: the circle of its tolerance and a pole."""
    pole = np.array([(0.0, 0.0, 0.0), (0.0, 0.0, POLE_M)])
    strips = [circle(tolerance_m, DRAWN_Z_M), pole]
    return rr.LineStrips3D(strips, radii=LINE_RADIUS_M, colors=[GOAL], labels=["goal", ""])
