"""The simulated robot: true state, and the signals of wheels, localisation, cameras and bumper, tick by tick.

`hil/live/simulator.py` runs the robot as a separate process on the wire. `hil/drive/full_runtime.py` connects the robot
to a runtime on the simulated clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from hil.maps.materials import PLAIN, Appearance
from hil.maps.world_grid import World
from hil.physics.collision_world import Body, SimState, Simulation
from hil.physics.contact import NO_BODIES, Bodies
from hil.physics.kernel_effects import BaseKernels, Effect
from hil.physics.odometry_noise import FIX_PERIOD_S, FIX_SD, Drift, drift_step, next_fix_ns, noisy_fix
from hil.physics.simulated_base import STEP_NS, STEP_S
from hil.physics.state_kernels.kernel_set import KernelSet
from hil.scene.walkers import Crowd, bodies_of, walk
from hil.sensors.camera import Rays, rays_of, render_color, render_depth
from hil.sensors.depth_noise import DepthNoise, load_depth_noise
from hil.sensors.flawed_scan import NONE, CameraTimes, Flaws, camera_times, tilt_rad
from hil.sensors.image_size import resized
from hil.sensors.lidar import lidar_rays, lidar_scan
from onboard.config.mounts import Mounts
from onboard.config.plant_model import Plant
from onboard.perception.laser_scan import Rays as LaserRays
from onboard.values.geometry import IDENTITY, quaternion_from_rpy, rotation_from_quaternion
from onboard.values.images import POLICY_HEIGHT, POLICY_WIDTH
from onboard.values.messages import Motion, Pose, Twist

Lasers = Mapping[str, npt.NDArray[np.float64] | None]
"""Pose of each lidar in the base frame, (4, 4), by its topic; None: it is at the origin (`lasers_of`)."""
NO_LASERS: Lasers = MappingProxyType({})
TICK_HZ = 30
SLIPS = 23
"""Random stream beside a drive's seed."""
IMU_BIAS_RADPS, IMU_SD_RADPS, IMU_STREAM = 0.02, 0.01, 7
"""Bias and noise of a cheap gyroscope, and the number of its random stream."""
LIDAR_EVERY = 3
"""Ticks between two scans of a lidar (10 Hz)."""


@dataclass(frozen=True, slots=True)
class Senses:
    """The senses of the simulated robot, and their quality.

    seed:               seed of all noise
    drift_scale:        factor on the paper's odometry drift; 0 for perfect wheels
    localization:       whether the robot gets fixes (`/amcl_pose`)
    localization_scale: factor on the noise of a fix
    fix_sd:             standard deviations of a fix, x, y [m], yaw [rad]; `FIX_SD` or `PRINTED_FIX_SD`
    fix_period_s:       least and largest time between fixes [s]; `FIX_PERIOD_S` or `TRAINING_FIX_PERIOD_S`
    fix_delay_s:        latency of a fix [s]; the stamp is the time of capture
    depth_noise:        whether depth images and cast scans have the noise and holes of real depth images
    slip:               most that the wheels report beyond the way driven; each drive draws its own share up to it [1]
    flaws:              what the cameras do besides noise
    wheel_slip:         share of each turn that the wheels report in addition, as those of a skid-steer
    imu:                whether the robot has an IMU
    depth_every, color_every: ticks between two images (15 Hz and 6 Hz)
    """

    seed: int = 0
    drift_scale: float = 1.0
    localization: bool = True
    localization_scale: float = 1.0
    fix_sd: tuple[float, float, float] = FIX_SD
    fix_period_s: tuple[float, float] = FIX_PERIOD_S
    fix_delay_s: float = 0.0
    depth_noise: bool = False
    slip: float = 0.0
    flaws: Flaws = NONE
    depth_every: int = 2
    color_every: int = 5
    wheel_slip: float = 0.0
    imu: bool = False

    @property
    def spoils_scans(self) -> bool:
        """Return whether a scan may differ from the direct scan of its tick."""
        return self.depth_noise or self.flaws.any

    def slipping(self, seed: int) -> float:
        """Return the factor of a drive by which the wheels report more than the base moves."""
        return 1.0 + self.slip * float(np.random.default_rng((seed, SLIPS)).uniform()) if self.slip else 1.0

    @property
    def fix_delay_ticks(self) -> int:
        """Return the latency of a fix [ticks]."""
        return round(self.fix_delay_s * TICK_HZ)


@dataclass(frozen=True, slots=True)
class SensorSignals:
    """The signals of a tick.

    odometry: pose and twist in the odom frame; the origin of this frame is the start
    fix:      external localisation in the map frame; None in most ticks
    depth:    camera -> (height, width) uint16; empty in ticks without images
    color:    (144, 256, 3) uint8 RGB, or None
    touching: whether the body is in contact
    fix_age_ns: time since the capture of the fix [ns]
    imu_radps: yaw rate of the IMU, None without one
    """

    odometry: Motion
    fix: Pose | None
    depth: Mapping[str, npt.NDArray[np.uint16]]
    color: npt.NDArray[np.uint8] | None
    touching: bool
    fix_age_ns: int = 0
    imu_radps: float | None = None


@dataclass(frozen=True, slots=True)
class Glance:
    """The scene for the cameras in a tick, as a value that the caller can pass to another thread.

    pose: pose of the base in the map frame; bodies: all moving bodies; tick: number of the tick
    """

    pose: Pose
    bodies: Bodies
    tick: int


@dataclass(slots=True)
class Trace:
    """The true drive so far: rows (time [s], x, y [m], yaw [rad], v, w) at 10 Hz, and the positions of contacts [m]."""

    rows: list[tuple[float, float, float, float, float, float]] = field(default_factory=list)
    contacts: list[tuple[float, float]] = field(default_factory=list)


class SimulatedRobot:
    """A simulated robot in a building: takes velocity commands, returns sensor signals."""

    def __init__(
        self,
        world: World,
        plant: Plant,
        body: Body,
        mounts: Mounts,
        start: Pose,
        senses: Senses | None = None,
        crowd: Crowd | None = None,
        look: Appearance = PLAIN,
        kernels: KernelSet | None = None,
        lasers: Lasers = NO_LASERS,
    ) -> None:
        """Place the robot at `start`.

        crowd: moving characters; look: colours and light of the materials for the colour camera
        kernels: they may set the pose of the base (paper 2)
        Colour images have the policy's size, whatever the mounts say, and the camera's view. Raises InputError if the
        start is not free.
        """
        self._senses = senses or Senses()
        self._simulation = Simulation(world, plant, body)
        self._depth_mounts = mounts.depth
        self._depth_rays = {name: rays_of(mount) for name, mount in mounts.depth.items()}
        self._depth_noise = load_depth_noise() if self._senses.depth_noise else None
        self._lidar_rays = {topic: lidar_rays(pose) for topic, pose in lasers.items()}
        self._color_rays = [rays_of(resized(mount, POLICY_WIDTH, POLICY_HEIGHT)) for mount in mounts.color.values()]
        self._rng = np.random.default_rng(self._senses.seed)
        self._slipping = self._senses.slipping(self._senses.seed)
        self._imu_rng = np.random.default_rng((self._senses.seed, IMU_STREAM))
        self._drift = Drift(IDENTITY)
        self._fix_due_ns = 0
        self._coming: deque[tuple[int, Pose]] = deque()
        self._ticks = 0
        self._crowd = crowd
        self._look = look
        self._bodies = NO_BODIES if crowd is None else bodies_of(crowd)
        overlaps = self._simulation.overlaps
        self._kernels = None if kernels is None else BaseKernels(kernels, self._senses.seed, overlaps)
        self.state: SimState = self._simulation.start(start)
        self.trace = Trace()

    def command(self, twist: Twist) -> None:
        """Send a velocity command to the base."""
        self.state = self._simulation.command(self.state, twist)

    def step(self, images: bool = True) -> SensorSignals:
        """Simulate a tick and return the signals at its end. Without `images`, depth is empty and color is None."""
        began = self._kernels is not None and self._set_by_kernels(self._kernels)
        before = self.state
        if self._crowd is not None:
            self._crowd = walk(self._crowd, STEP_S, (before.pose.x_m, before.pose.y_m), self._simulation.body.radius_m)
            self._bodies = bodies_of(self._crowd)
        self.state = self._simulation.step(before, bodies=self._bodies)
        if began and self._kernels is not None:
            self._kernels.begin(before.pose, before.twist, self.state.base.command)
        moved = self.state.twist if self.state.path_m > before.path_m else Twist(0.0, self.state.twist.w_radps)
        slipping = Twist(moved.v_mps * self._slipping, moved.w_radps * self._slipping * (1.0 + self._senses.wheel_slip))
        self._drift, reported = drift_step(self._drift, slipping, self._senses.drift_scale, self._rng)
        self._note(before)
        sensed = SensorSignals(
            odometry=Motion(self._drift.pose, reported),
            fix=self._fix(),
            depth=self.depth(self.glance()) if images and self.depth_due else {},
            color=self.color(self.glance()) if images and self.color_due else None,
            touching=self.state.touched_at is not None,
            fix_age_ns=self._senses.fix_delay_ticks * STEP_NS,
            imu_radps=self._imu_rate(moved) if self._senses.imu else None,
        )
        self._ticks += 1
        return sensed

    @property
    def effects(self) -> list[Effect] | None:
        """What kernels did so far; None without kernels."""
        return None if self._kernels is None else self._kernels.effects

    @property
    def poses_set(self) -> int | None:
        """How many poses kernels have set so far; None without kernels."""
        return None if self._kernels is None else self._kernels.poses_set

    def _set_by_kernels(self, kernels: BaseKernels) -> bool:
        """Let a kernel set the pose of the base if a period ends now. Return whether one begins."""
        tick = self.state.time_ns // STEP_NS
        if not kernels.due(tick):
            return False
        motion = self.state.base.motion
        motion = replace(motion, pose=kernels.pose_at(tick, motion.pose, motion.twist))
        self.state = replace(self.state, base=replace(self.state.base, motion=motion))
        return True

    @property
    def depth_due(self) -> bool:
        """Whether the depth cameras take an image in this tick."""
        return self._ticks % self._senses.depth_every == 0

    @property
    def color_due(self) -> bool:
        """Whether the colour camera takes an image in this tick."""
        return self._ticks % self._senses.color_every == 0

    @property
    def has_depth(self) -> bool:
        """Whether the robot has depth cameras."""
        return bool(self._depth_rays)

    @property
    def lidar_due(self) -> bool:
        """Whether the lidars take a scan in this tick."""
        return bool(self._lidar_rays) and self._ticks % LIDAR_EVERY == 0

    def glance(self) -> Glance:
        """Return the present scene for the cameras."""
        return Glance(self.state.pose, self._bodies, self._ticks)

    @property
    def has_own_times(self) -> bool:
        """Whether each depth camera takes its images at its own times."""
        return self._senses.flaws.camera_hz is not None

    @property
    def camera_times(self) -> dict[str, CameraTimes]:
        """When each depth camera takes its images."""
        senses = self._senses
        return camera_times(senses.flaws, list(self._depth_rays), senses.seed, senses.depth_every)

    def depth(self, glance: Glance, names: Collection[str] | None = None) -> dict[str, npt.NDArray[np.uint16]]:
        """Return depth images, camera -> (height, width) uint16. Safe in a thread other than the thread of `step`.

        names: of the cameras; None for all
        """
        images = {
            name: render_depth(self._simulation.world, self._tilted(rays, glance.tick), glance.pose, glance.bodies)
            for name, rays in self._depth_rays.items()
            if names is None or name in names
        }
        return images if self._depth_noise is None else self._spoilt(images, self._depth_noise, glance.tick)

    def lidars(self, glance: Glance) -> dict[str, LaserRays]:
        """Return the lidars' scans by topic. Safe in a thread other than the thread of `step`."""
        noise = (self._senses.seed, glance.tick) if self._senses.depth_noise else None
        return {
            topic: lidar_scan(self._simulation.world, rays, glance.pose, glance.bodies, noise)
            for topic, rays in self._lidar_rays.items()
        }

    def color(self, glance: Glance) -> npt.NDArray[np.uint8] | None:
        """Return the colour image, None without a colour camera. Safe in a thread other than the thread of `step`."""
        if not self._color_rays:
            return None
        return render_color(self._simulation.world, self._color_rays[0], glance.pose, self._look, glance.bodies)

    def _tilted(self, rays: Rays, tick: int) -> Rays:
        """Return the rays of a camera on the tilted body."""
        flaws = self._senses.flaws
        if flaws.tilt_deg == 0.0:
            return rays
        pitch, roll = tilt_rad(flaws, self._senses.seed, tick)
        turned = rotation_from_quaternion(quaternion_from_rpy(roll, pitch, 0.0))
        return replace(rays, directions=rays.directions @ turned.T, origin_m=turned @ rays.origin_m)

    def _spoilt(
        self, images: dict[str, npt.NDArray[np.uint16]], noise: DepthNoise, tick: int
    ) -> dict[str, npt.NDArray[np.uint16]]:
        """Return depth images with the noise of real cameras; the same seed and tick give the same images."""
        spoilt = {}
        for number, (name, mount) in enumerate(self._depth_mounts.items()):
            if name in images:
                spoilt[name] = noise.apply(
                    images[name], mount.fx, mount.depth_scale_m, (self._senses.seed, number, tick)
                )
        return spoilt

    def _imu_rate(self, moved: Twist) -> float:
        return moved.w_radps + IMU_BIAS_RADPS + IMU_SD_RADPS * float(self._imu_rng.normal())

    def _fix(self) -> Pose | None:
        """Return the fix that arrives in this tick, None without a fix. It may be captured in an earlier tick."""
        taken = self._take_fix()
        if taken is not None:
            self._coming.append((self._ticks + self._senses.fix_delay_ticks, taken))
        return self._coming.popleft()[1] if self._coming and self._coming[0][0] <= self._ticks else None

    def _take_fix(self) -> Pose | None:
        if not self._senses.localization or self.state.time_ns < self._fix_due_ns:
            return None
        senses = self._senses
        self._fix_due_ns = next_fix_ns(self.state.time_ns, self._rng, senses.fix_period_s)
        return noisy_fix(self.state.pose, senses.localization_scale, self._rng, senses.fix_sd)

    def _note(self, before: SimState) -> None:
        state = self.state
        if state.contacts > before.contacts:
            self.trace.contacts.append((state.pose.x_m, state.pose.y_m))
        if self._ticks % (TICK_HZ // 10) == 0:
            pose, twist = state.pose, state.twist
            self.trace.rows.append((state.time_ns / 1e9, pose.x_m, pose.y_m, pose.yaw_rad, twist.v_mps, twist.w_radps))
