"""What moves in the picture: one robot, its way, its scan and what its cameras see."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import rerun as rr

from hil.view.paint_scene import BASE, HERE, MAP, ODOM, Color, planar
from hil.view.shapes import blind_sectors, circle, scan_points
from onboard.config import DdsSection
from onboard.drivers import ros_types as ros
from onboard.drivers.dds_camera import color_from_ros, depth_from_ros
from onboard.drivers.ros_messages import pose_from_ros
from onboard.geometry import IDENTITY, compose, distance
from onboard.messages import Pose
from onboard.mounts import Mount, Mounts

SCAN_Z_M, LIMITS_SCAN_Z_M, BLIND_Z_M, PATH_Z_M = 0.30, 0.33, 0.02, 0.03
SCAN, LIMITS_SCAN, BLIND, PATH, GOAL, FIX = (
    (255, 70, 60), (255, 190, 40), (150, 90, 160), (70, 150, 255), (60, 210, 110), (190, 120, 255),
)  # fmt: skip
POINT_M, LINE_M, PATH_M = 0.035, 0.012, 0.03
STEP_M = 0.05
"""The way is drawn in pieces of at least this; one longer than JUMP_M is a correction, and is left out."""
JUMP_M = 1.0
POLE_M = 1.5
PATHS = (f"{MAP}/path",)
"""Entities whose pieces are all to be seen, from the first to now."""
FILL = 0.35
"""Size of a depth image's points in the world; 1 is a closed surface."""
FARTHEST_M = 6.0
"""Depth that the last colour stands for."""


class RobotPainter:
    """Draws one robot's spatial messages. Holds where the robot is, since a goal may be told in its own frame."""

    def __init__(
        self,
        recording: rr.RecordingStream,
        section: DdsSection,
        mounts: Mounts,
        tolerance_m: float,
        map_from_odom: Pose = IDENTITY,
    ) -> None:
        self._recording = recording
        self._section = section
        self._depth: Mapping[str, Mount] = mounts.depth
        self._color = next(iter(mounts.color), None)
        self._tolerance_m = tolerance_m
        self._map_from_odom, self._odom_from_base = map_from_odom, IDENTITY
        self._tf = False
        self._path_at: Pose | None = None
        recording.log(ODOM, planar(map_from_odom))

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
                self._map_from_odom = pose
                self._recording.log(ODOM, planar(pose))

    def odometry(self, sample: ros.Odometry) -> None:
        """Move the robot by what its base reports, where nobody tells transforms."""
        if not self._tf:
            self._move(pose_from_ros(sample.pose.pose))

    def fix(self, sample: ros.PoseWithCovarianceStamped) -> None:
        """Mark where the external localisation sees the robot."""
        at = sample.pose.pose.position
        self._recording.log(f"{MAP}/fix", rr.Points3D([(at.x, at.y, PATH_Z_M)], radii=POINT_M, colors=[FIX]))

    def goal(self, sample: ros.PoseStamped) -> None:
        """Mark the goal, in the frame that it was told in."""
        pose, frame = pose_from_ros(sample.pose), sample.header.frame_id.lstrip("/")
        if frame == self._section.base_frame:
            pose, frame = compose(self._odom_from_base, pose), self._section.odom_frame
        parents = {self._section.map_frame: MAP, self._section.odom_frame: ODOM}
        for name, parent in parents.items():
            if name != frame:
                self._recording.log(f"{parent}/goal", rr.Clear(recursive=True))
            else:
                self._recording.log(f"{parent}/goal", planar(pose))
                self._recording.log(f"{parent}/goal/flag", _flag(self._tolerance_m))

    def scan(self, sample: ros.LaserScan, name: str) -> None:
        """Draw a scan: what was seen as points, where no camera looks as outlined sectors."""
        limits = name == "limits_scan"
        color: Color = LIMITS_SCAN if limits else SCAN
        points = scan_points(sample, LIMITS_SCAN_Z_M if limits else SCAN_Z_M)
        self._recording.log(f"{BASE}/{name}/seen", rr.Points3D(points, radii=POINT_M, colors=[color]))
        blind = rr.LineStrips3D(blind_sectors(sample, BLIND_Z_M), radii=LINE_M, colors=[BLIND])
        self._recording.log(f"{BASE}/{name}/blind", blind)

    def depth(self, sample: ros.Image, camera: str) -> None:
        """Hang up a depth image; in the world it is seen as points. Raises InputError when it is not the mount's."""
        mount = self._depth[camera]
        image = depth_from_ros(sample, mount)
        shown = (0.0, FARTHEST_M / mount.depth_scale_m)
        drawn = rr.DepthImage(
            image, meter=1.0 / mount.depth_scale_m, depth_range=shown, colormap="turbo", point_fill_ratio=FILL
        )
        self._recording.log(f"{BASE}/{camera}/depth", drawn)

    def color(self, sample: ros.Image) -> None:
        """Hang up the colour image. Raises InputError when it is none."""
        if self._color is not None:
            self._recording.log(f"{BASE}/{self._color}/image", rr.Image(np.ascontiguousarray(color_from_ros(sample))))

    def _move(self, odom_from_base: Pose) -> None:
        self._odom_from_base = odom_from_base
        self._recording.log(BASE, planar(odom_from_base))
        here = compose(self._map_from_odom, odom_from_base)
        self._recording.log(HERE, rr.Transform3D(translation=(here.x_m, here.y_m, 0.0)))
        last = self._path_at
        if last is None or distance(last, here) >= STEP_M:
            self._path_at = here
            if last is not None and distance(last, here) <= JUMP_M:
                piece = [(pose.x_m, pose.y_m, PATH_Z_M) for pose in (last, here)]
                self._recording.log(f"{MAP}/path", rr.LineStrips3D([piece], radii=PATH_M / 2, colors=[PATH]))


def _flag(tolerance_m: float) -> rr.LineStrips3D:
    """Return a goal: the circle of its tolerance, and a pole."""
    pole = np.array([(0.0, 0.0, 0.0), (0.0, 0.0, POLE_M)])
    return rr.LineStrips3D([circle(tolerance_m, PATH_Z_M), pole], radii=PATH_M / 2, colors=[GOAL], labels=["goal"])
