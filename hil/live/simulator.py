"""Runs the simulated robot as a separate process with DDS only: reads commands, writes odometry, fixes and images."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.drive.robot import NO_LASERS, TICK_HZ, Glance, Lasers, SensorSignals, SimulatedRobot
from hil.physics.odometry_noise import FIX_SD
from hil.sensors.image_size import enlarged
from onboard.config.config import DdsSection
from onboard.config.mounts import Mount, Mounts
from onboard.drivers.dds.camera_input import as_sent, lens_topic
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.robot_link import CLAIM_WAIT_S
from onboard.drivers.dds.ros_convert import (
    optical_frame,
    ros_camera_info,
    ros_cloud,
    ros_fix,
    ros_image,
    ros_imu,
    ros_mount_transform,
    ros_odometry,
    ros_placed,
    ros_rays,
    ros_transform,
    twist_from_ros,
)
from onboard.drivers.dds.ros_types import Bool, TFMessage
from onboard.drivers.dds.topics import imu_source, ros_topic, scan_source, type_of
from onboard.perception.laser_scan import Rays
from onboard.system.signals import Signals
from onboard.system.waiting import Waiting
from onboard.values.clock import NS_PER_S, MonotonicClock, grid, wall_ns
from onboard.values.errors import DriverError
from onboard.values.frames import Transform, quaternion_of
from onboard.values.geometry import IDENTITY
from onboard.values.messages import STOP

LASER_FRAME = "laser"
LOOK_TICKS = 60
"""Period of looks at what is missing [ticks]."""
NEEDED_HZ = 5.0
"""Two images within the default `limits.scan_stale_ms`."""
NOTICE_TICKS = 15
"""Period of `/obstacle` [ticks], for readers that join late. A change is published at once."""


class Link:
    """DDS link of the simulated robot."""

    def __init__(
        self,
        wire: Wire,
        mounts: Mounts,
        stops_on_liveliness_lost: bool = False,
        unplugged: Mapping[str, float] = MappingProxyType({}),
        lasers: Lasers = NO_LASERS,
        clouds: Collection[str] = (),
        imu: str = "",
    ) -> None:
        """Open readers and writers. Raises ConfigError, DriverError.

        mounts: the cameras and the sizes of their images on the wire; the robot may render smaller ones
        stops_on_liveliness_lost: stop as soon as DDS reports that no writer of commands is alive. Otherwise only the
                                  command timeout of the plant stops the robot; docs/base.md requires that timeout
        unplugged: camera -> simulated time from which it sends nothing [s]
        clouds: lasers whose ends are sent as PointCloud2
        imu: topic of the IMU, if there is one
        """
        self._silent_from = {name: round(time_s * TICK_HZ) for name, time_s in unplugged.items()}
        self._section: DdsSection = wire.section
        self._stops_on_liveliness_lost = stops_on_liveliness_lost
        self._commands = wire.reader("cmd_vel")
        self._odometry = wire.writer("odom")
        self._fixes = wire.writer("amcl_pose")
        self._imu = wire.writer(imu_source(imu)) if imu else None
        self._obstacle = wire.writer("obstacle")
        self._depth = {name: wire.writer(f"{name}/depth/image") for name in mounts.depth}
        self._mounts = mounts.depth
        taken = [name for name, mount in mounts.depth.items() if mount.lens_taken or mount.pose_taken]
        self._infos = {name: wire.writer(lens_topic(wire.section, name)) for name in taken}
        names = {topic: f"{LASER_FRAME}{number or ''}" for number, topic in enumerate(lasers)}
        if taken or any(pose is not None for pose in lasers.values()):
            places = {names[topic]: pose for topic, pose in lasers.items() if pose is not None}
            self._publish_frames(wire, [mounts.depth[name] for name in taken], places)
        self._color = wire.writer("color/image") if mounts.color else None
        base = wire.section.base_frame
        frames = {topic: base if pose is None else names[topic] for topic, pose in lasers.items()}
        rows = {topic: scan_source(topic, topic in clouds) for topic in frames}
        self._scans = {topic: (wire.writer(rows[topic]), frame) for topic, frame in frames.items()}
        self._clouds = clouds
        self.commands = 0
        self._published_contact: bool | None = None

    def hear(self, robot: SimulatedRobot) -> None:
        """Give the newest command to the robot. Give a stop if no writer is alive and `stops_on_liveliness_lost`."""
        commands = self._commands.take()
        self.commands += len(commands)
        if commands:
            newest = commands[-1].sample
            robot.command(twist_from_ros(newest.twist if self._section.stamped_cmd_vel else newest))
        elif self._stops_on_liveliness_lost and not self._commands.alive():
            robot.command(STOP)

    def publish(self, sensed: SensorSignals, number: int) -> None:
        """Publish odometry, the fix if there is a new fix, and contact. number: number of the tick."""
        stamp_ns, frames = wall_ns(), self._section
        motion = sensed.odometry
        self._odometry.write(ros_odometry(stamp_ns, frames.odom_frame, frames.base_frame, motion.pose, motion.twist))
        if self._imu is not None and sensed.imu_radps is not None:
            self._imu.write(ros_imu(stamp_ns, frames.base_frame, sensed.imu_radps))
        if sensed.fix is not None:
            self._fixes.write(ros_fix(stamp_ns - sensed.fix_age_ns, frames.map_frame, sensed.fix, FIX_SD))
        if sensed.touching != self._published_contact or number % NOTICE_TICKS == 0:
            self._published_contact = sensed.touching
            self._obstacle.write(Bool(sensed.touching))

    def missing(self) -> str:
        """Return whose commands are missing, "" once one was received."""
        if self.commands:
            return ""
        where = f"{ros_topic(self._section, 'cmd_vel')} ({type_of(self._section, 'cmd_vel')})"
        heard = "has a publisher, but no message is received" if self._commands.writers() else "has no publisher"
        return f"{where} {heard}: `onboard run` with this configuration, domain and interface drives the robot"

    def scan(self, robot: SimulatedRobot) -> None:
        """Publish the lidars' scans."""
        stamp_ns = wall_ns()
        for topic, rays in robot.lidars(robot.glance()).items():
            writer, frame = self._scans[topic]
            if topic in self._clouds:
                writer.write(ros_cloud(stamp_ns, frame, ends_of(rays)))
            else:
                writer.write(ros_rays(stamp_ns, frame, rays))

    def show(self, robot: SimulatedRobot, glance: Glance, depth: bool, color: bool) -> None:
        """Render and publish the images of the cameras. depth, color: which images are due."""
        stamp_ns = wall_ns()
        if depth:
            for name, image in robot.depth(glance).items():
                if self._plugged_in(name, glance):
                    image = enlarged(image, self._mounts[name])
                    sample = ros_image(stamp_ns, optical_frame(name, self._section.frame_prefix), "16UC1", image)
                    self._depth[name].write(as_sent(sample, self._section, f"{name}/depth/image"))
                    if name in self._infos:
                        info = ros_camera_info(stamp_ns, self._mounts[name], self._section.frame_prefix)
                        self._infos[name].write(info)
        if color and self._color is not None and self._plugged_in("color", glance):
            seen = robot.color(glance)
            if seen is not None:
                sample = ros_image(stamp_ns, optical_frame("color", self._section.frame_prefix), "rgb8", seen)
                self._color.write(as_sent(sample, self._section, "color/image"))

    def _publish_frames(self, wire: Wire, cameras: Sequence[Mount], lasers: Mapping[str, Transform]) -> None:
        """Publish the poses that a runtime takes from tf. lasers: pose by frame"""
        stamp_ns, base, prefix = wall_ns(), self._section.base_frame, self._section.frame_prefix
        frames = [ros_mount_transform(stamp_ns, base, camera, prefix) for camera in cameras]
        for frame, pose in lasers.items():
            turned = quaternion_of(pose[:3, :3]).tolist()
            frames.append(ros_placed(stamp_ns, base, frame, pose[:3, 3].tolist(), turned))
        floor = ros_transform(stamp_ns, f"{prefix}base_footprint", base, IDENTITY)
        wire.writer("tf_static").write(TFMessage([floor, *frames]))

    def _plugged_in(self, camera: str, glance: Glance) -> bool:
        return camera not in self._silent_from or glance.tick < self._silent_from[camera]


def ends_of(rays: Rays) -> npt.NDArray[np.float32]:
    """Return (n, 3) the hits of a laser in its frame."""
    hit = np.flatnonzero(np.isfinite(rays.ranges_m))
    angle, away_m = rays.angle_min_rad + hit * rays.increment_rad, rays.ranges_m[hit]
    return np.stack([away_m * np.cos(angle), away_m * np.sin(angle), 0.0 * away_m], axis=1).astype(np.float32)


class RenderThread:
    """Renders the images in a separate thread. Slow rendering lowers the image rate, but never the odometry rate."""

    def __init__(self, robot: SimulatedRobot, link: Link) -> None:
        self._robot = robot
        self._link = link
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="render")
        self._busy: Future[None] | None = None
        self._depth_due = self._color_due = False
        self.depth_images = 0

    def start_due(self) -> None:
        """Start to render the due images if the previous images are finished. Raises their error if they failed."""
        self._depth_due |= self._robot.depth_due
        self._color_due |= self._robot.color_due
        if self._busy is not None and not self._busy.done():
            return
        if self._busy is not None:
            self._busy.result()
        self.depth_images += self._depth_due
        due = self._depth_due, self._color_due
        self._busy = self._thread.submit(self._link.show, self._robot, self._robot.glance(), *due)
        self._depth_due = self._color_due = False

    def close(self) -> None:
        """Wait for the images in progress."""
        self._thread.shutdown()


class Life:
    """State of the simulation: it runs until `stop` is called. A signal handler may call `stop`.

    kernel_effects: what kernels did to the base, only under kernels
    lived_ns: CLOCK_MONOTONIC at the start of the newest simulated tick
    """

    def __init__(self) -> None:
        self.over = False
        self.lived_ns = 0

    def stop(self) -> None:
        """End the simulation after the current tick."""
        self.over = True


async def simulate(
    robot: SimulatedRobot, link: Link, life: Life, seconds: float | None, say: Callable[[str], object] = lambda _: None
) -> None:
    """Simulate at 30 Hz until `life` is over, or for `seconds`. Missed ticks are simulated at once, without images.

    say: receives what the simulation waits for, and a warning when it renders too slowly
    """
    waiting, slow, images = Waiting(say), Waiting(say), 0
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, life.stop)
    with contextlib.closing(RenderThread(robot, link)) as rendering, contextlib.closing(MonotonicClock()) as clock:
        async for slot in grid(clock, round(NS_PER_S / TICK_HZ)):
            if life.over:
                return
            link.hear(robot)
            for _ in range(slot.missed):
                robot.step(images=False)
            rendering.start_due()
            if robot.lidar_due:
                link.scan(robot)
            link.publish(robot.step(images=False), slot.number)
            life.lived_ns = slot.start_ns
            if slot.number % LOOK_TICKS == 0 and slot.number:
                waiting.note(link.missing())
                hz, images = (rendering.depth_images - images) * TICK_HZ / LOOK_TICKS, rendering.depth_images
                slow.note(slow_images(hz, robot), "images")


def slow_images(hz: float, robot: SimulatedRobot) -> str:
    """Return that depth images are too slow for the limits, "" if they are not."""
    if not robot.has_depth or hz >= NEEDED_HZ:
        return ""
    return (
        f"{hz:.1f} depth images/s of each camera, {NEEDED_HZ:g} needed: the machine is busy, or renders too "
        "many pixels (--full-size)"
    )


def run_sim(
    robot: SimulatedRobot,
    mounts: Mounts,
    section: DdsSection,
    seconds: float | None,
    ready: Callable[[int], None],
    stops_on_liveliness_lost: bool = False,
    unplugged: Mapping[str, float] = MappingProxyType({}),
    lasers: Lasers = NO_LASERS,
    clouds: Collection[str] = (),
    imu: str = "",
    say: Callable[[str], object] = lambda _: None,
) -> dict[str, Any]:
    """Simulate on the configured DDS domain until a signal, or for `seconds`. Return the true result of the drive.

    ready: called with the domain when the link is open; say: as for `simulate`
    stops_on_liveliness_lost, unplugged, lasers, clouds, imu: as for `Link`
    Raises DriverError if another base publishes odometry on the domain.
    """
    life = Life()
    with Signals() as signals, contextlib.closing(Wire(section)) as wire:
        if wire.foreign_writer("odom", CLAIM_WAIT_S):
            raise DriverError(
                f"another base is on domain {wire.domain} already: another process publishes "
                f"{ros_topic(section, 'odom')}"
            )
        robot.depth(robot.glance())  # compiles, before odometry is published
        link = Link(wire, mounts, stops_on_liveliness_lost, unplugged, lasers, clouds, imu)
        signals.stop_with(life.stop)
        ready(wire.domain)
        asyncio.run(simulate(robot, link, life, seconds, say))
    return truth(robot, life)


def truth(robot: SimulatedRobot, life: Life) -> dict[str, Any]:
    """Return the true motion of the robot: final pose and twist, contacts, path and trace, in the map frame.

    bumps:    number of times that a moving body (for example a pedestrian) moved into the robot
    lived_ns: CLOCK_MONOTONIC of the last row of the trace
    """
    state, effects = robot.state, robot.effects
    return {
        **({} if effects is None else {"kernel_effects": [asdict(effect) for effect in effects]}),
        "time_s": state.time_ns / NS_PER_S,
        "pose": [state.pose.x_m, state.pose.y_m, state.pose.yaw_rad],
        "twist": [state.twist.v_mps, state.twist.w_radps],
        "contacts": state.contacts,
        "bumps": state.bumps,
        "contact_points": robot.trace.contacts,
        "path_m": state.path_m,
        "trace": robot.trace.rows,
        "lived_ns": life.lived_ns,
    }
