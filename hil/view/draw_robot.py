"""What moves in the picture: the robot, its way, its goal; and the way of its twin."""

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
WAY, TWIN_WAY = f"{MAP}/path", f"{MAP}/twin_path"
PATHS = (WAY, TWIN_WAY)
"""Entities whose pieces are all to be seen, from the first to now."""
DRAWN_Z_M, LINE_RADIUS_M, POINT_M = 0.03, 0.015, 0.035
STEP_M = 0.05
"""A way is drawn in pieces of at least this; one longer than JUMP_M is a correction, and is left out."""
JUMP_M = 1.0
POLE_M = 1.5


class Way:
    """Draws where something went, piece by piece, so that what is logged grows with the way and not with its square."""

    def __init__(self, recording: rr.RecordingStream, entity: str, color: tuple[int, int, int]) -> None:
        self._recording, self._entity, self._color = recording, entity, color
        self._last: Pose | None = None

    def at(self, here: Pose) -> None:
        """Draw the piece from the last pose to this one, once it is long enough."""
        last = self._last
        if last is not None and distance(last, here) < STEP_M:
            return
        self._last = here
        if last is not None and distance(last, here) <= JUMP_M:
            piece = [(pose.x_m, pose.y_m, DRAWN_Z_M) for pose in (last, here)]
            strips = rr.LineStrips3D([piece], radii=LINE_RADIUS_M, colors=[self._color])
            self._recording.log(self._entity, strips)


class RobotPainter:
    """Moves the robot. Holds where it is, since a goal may be told in its own frame."""

    def __init__(
        self, recording: rr.RecordingStream, section: DdsSection, tolerance_m: float, map_from_odom: Pose = IDENTITY
    ) -> None:
        self._recording = recording
        self._section = section
        self._tolerance_m = tolerance_m
        self._map_from_odom, self._odom_from_base = map_from_odom, IDENTITY
        self._placed = self._tf = False
        self._way = Way(recording, WAY, PATH)

    def transforms(self, sample: ros.TFMessage) -> None:
        """Move the robot; transforms of others are left out."""
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
        """Move the robot by what its base reports, where nobody tells transforms."""
        if not self._tf:
            self._move(pose_from_ros(sample.pose.pose))

    def fix(self, sample: ros.PoseWithCovarianceStamped) -> None:
        """Mark where the external localisation sees the robot."""
        at = sample.pose.pose.position
        self._recording.log(f"{MAP}/fix", rr.Points3D([(at.x, at.y, DRAWN_Z_M)], radii=POINT_M, colors=[FIX]))

    def goal(self, sample: ros.PoseStamped) -> None:
        """Mark the goal, in the frame that it was told in."""
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
        if not self._placed:  # with a time, like all that moves: what has none holds for ever
            self._place(self._map_from_odom)
        self._odom_from_base = odom_from_base
        self._recording.log(BASE, planar(odom_from_base))
        here = compose(self._map_from_odom, odom_from_base)
        self._recording.log(HERE, rr.Transform3D(translation=(here.x_m, here.y_m, 0.0)))
        self._way.at(here)


class TwinPainter:
    """Moves the twin, which tells its true pose in the map."""

    def __init__(self, recording: rr.RecordingStream) -> None:
        self._recording = recording
        self._way = Way(recording, TWIN_WAY, TWIN_PATH)

    def pose(self, sample: ros.PoseStamped) -> None:
        """Move it."""
        pose = pose_from_ros(sample.pose)
        self._recording.log(TWIN, planar(pose))
        self._way.at(pose)


def _flag(tolerance_m: float) -> rr.LineStrips3D:
    """Return a goal: the circle of its tolerance, and a pole."""
    pole = np.array([(0.0, 0.0, 0.0), (0.0, 0.0, POLE_M)])
    strips = [circle(tolerance_m, DRAWN_Z_M), pole]
    return rr.LineStrips3D(strips, radii=LINE_RADIUS_M, colors=[GOAL], labels=["goal", ""])
