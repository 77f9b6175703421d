"""A robot in MuJoCo with real wheel contacts and ray-cast depth cameras, in place of `hil.drive.robot.SimulatedRobot`.

22 kg, two driven wheels, two casters, a ramp in its driver, encoders with a wrong wheel radius, cameras at 7.5 Hz that
are not synchronised and 100 ms late, with the disparity noise of a stereo camera. Nothing of `hil.physics` is in it.
Its wheels are spheres, which touch the floor in one point; with them it is 0.25 m wide to each side.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from hil.drive.robot import TICK_HZ, Glance, SensorSignals
from hil.physics.contact import NO_BODIES
from hil.sensors.flawed_scan import CameraTimes
from onboard.config.mounts import Mounts
from onboard.values.messages import STOP, Motion, Pose, Twist
from tests.foreign.scenes import WALL_HEIGHT_M, WALL_M, Scene

RADIUS_M, WHEEL_M, TRACK_M = 0.23, 0.08, 0.34
BELIEVED = 1.0025, 0.342
"""Wheel radius of the driver by the true one, and the track that the driver believes [m]."""
ROTOR_KGM2 = 0.02
"""Inertia of motor and gears at the wheel. Without it the contacts let the body turn ahead of its wheels, by 12 deg."""
TICK_RAD = 2.0 * math.pi / 8192
MPS2, RADPS2 = 1.2, 5.0
SUBSTEPS = 16
FIX_TICKS, FIX_SD = 21, (0.03, 0.03, 0.02)
CAMERA_TICKS, LATE_TICKS = 4, 3
NOISE_PER_M, STEP_PER_M = 0.0074, 0.0029
NEAR_M, FAR_M, HOLES = 0.105, 8.0, 0.01
AGAIN_TICKS = 10
"""A contact that is back sooner is the same."""

Floats = npt.NDArray[np.float64]


def mjcf(scene: Scene) -> str:
    """Return the scene and the robot as MJCF."""
    width, height = scene.size_m
    walls = [
        ((-WALL_M, 0.0), (0.0, height)), ((width, width + WALL_M), (0.0, height)),
        ((0.0, width), (-WALL_M, 0.0)), ((0.0, width), (height, height + WALL_M)),
    ]  # fmt: skip
    boxes = [*scene.boxes, *((x, y, (0.0, WALL_HEIGHT_M)) for x, y in walls)]
    geoms = "".join(
        f'<geom type="box" pos="{" ".join(str((low + high) / 2.0) for low, high in box)}" '
        f'size="{" ".join(str((high - low) / 2.0) for low, high in box)}"/>'
        for box in boxes
    )
    wheel = (
        '<body name="{name}" pos="0 {y} 0">'
        '<joint name="{name}" type="hinge" axis="0 1 0" damping="0.01" armature="{rotor}"/>'
        f'<geom type="sphere" size="{WHEEL_M}" mass="0.6" condim="3" friction="1 0.005 0.0001"/></body>'
    )
    caster = '<geom name="caster{x}" type="sphere" size="0.03" pos="{x} 0 -0.0497" mass="0.2" condim="1"/>'
    return (
        f'<mujoco><option timestep="{1.0 / (TICK_HZ * SUBSTEPS)}" integrator="implicitfast"/><worldbody>'
        f'<geom name="floor" type="plane" size="50 50 1" condim="1"/>{geoms}'
        f'<body name="robot" pos="0 0 {WHEEL_M}"><freejoint/>'
        f'<geom name="base" type="cylinder" size="{RADIUS_M} 0.1" pos="0 0 0.09" mass="18"/>'
        f'<geom name="torso" type="cylinder" size="{RADIUS_M} 0.29" pos="0 0 0.48" mass="2"/>'
        f"{wheel.format(name='left', y=TRACK_M / 2, rotor=ROTOR_KGM2)}"
        f"{wheel.format(name='right', y=-TRACK_M / 2, rotor=ROTOR_KGM2)}"
        f"{caster.format(x=0.17)}{caster.format(x=-0.17)}</body></worldbody>"
        '<actuator><velocity joint="left" kv="8"/><velocity joint="right" kv="8"/></actuator></mujoco>'
    )


@dataclass(frozen=True)
class Truth:
    """The true state, as far as a judge needs it."""

    pose: Pose
    twist: Twist
    contacts: int
    path_m: float


class ForeignRobot:
    """The interface of `SimulatedRobot` that an inbox and its cameras use."""

    color_due, depth_due, has_own_times = False, False, True

    def __init__(self, scene: Scene, start: Pose, mounts: Mounts, seed: int) -> None:
        self._model = mujoco.MjModel.from_xml_string(mjcf(scene))
        self._data = mujoco.MjData(self._model)
        self._rng = np.random.default_rng(seed)
        self._mounts, self._rays = mounts.depth, {name: _rays(mount) for name, mount in mounts.depth.items()}
        self.camera_times = {
            name: CameraTimes(CAMERA_TICKS, 1 + number % CAMERA_TICKS, LATE_TICKS)
            for number, name in enumerate(mounts.depth)
        }
        model, body = self._model, self._model.body("robot").id
        own = {geom for geom in range(model.ngeom) if model.body_rootid[model.geom_bodyid[geom]] == body}
        self._own, self._floor, self._body = own, model.geom("floor").id, body
        self._data.qpos[:7] = (
            start.x_m,
            start.y_m,
            WHEEL_M,
            math.cos(start.yaw_rad / 2),
            0,
            0,
            math.sin(start.yaw_rad / 2),
        )
        mujoco.mj_forward(model, self._data)
        self._command, self._ramped = STOP, Twist(0.0, 0.0)
        self._encoders, self._odom = (0, 0), Pose(0.0, 0.0, 0.0)
        self._ticks, self._touched_tick, self._contacts, self._path_m = 0, -AGAIN_TICKS, 0, 0.0
        self._late_fixes: deque[tuple[int, Pose]] = deque()

    def command(self, twist: Twist) -> None:
        """Send a velocity command to the base."""
        self._command = twist

    @property
    def state(self) -> Truth:
        """The true state."""
        x, y, _, w, _, _, z = self._data.qpos[:7]
        speed = math.hypot(*self._data.qvel[:2])
        pose = Pose(float(x), float(y), 2.0 * math.atan2(float(z), float(w)))
        return Truth(pose, Twist(speed, float(self._data.qvel[5])), self._contacts, self._path_m)

    def glance(self) -> Glance:
        """Return the present scene for the cameras."""
        return Glance(self.state.pose, NO_BODIES, self._ticks)

    def step(self, images: bool = False) -> SensorSignals:
        """Simulate a tick and return its signals."""
        before, dt = self.state.pose, 1.0 / (TICK_HZ * SUBSTEPS)
        for _ in range(SUBSTEPS):
            v = self._ramped.v_mps + float(np.clip(self._command.v_mps - self._ramped.v_mps, -MPS2 * dt, MPS2 * dt))
            w = self._ramped.w_radps + float(
                np.clip(self._command.w_radps - self._ramped.w_radps, -RADPS2 * dt, RADPS2 * dt)
            )
            self._ramped = Twist(v, w)
            self._data.ctrl[:] = (v - w * TRACK_M / 2.0) / WHEEL_M, (v + w * TRACK_M / 2.0) / WHEEL_M
            mujoco.mj_step(self._model, self._data)
            self._note_contacts()
        self._ticks += 1
        after = self.state.pose
        self._path_m += math.hypot(after.x_m - before.x_m, after.y_m - before.y_m)
        touching = self._touched_tick == self._ticks - 1
        return SensorSignals(self._odometry(), self._fix(after), {}, None, touching, 2 * 10**9 // TICK_HZ)

    def depth(self, glance: Glance, names: Collection[str] = ()) -> dict[str, npt.NDArray[np.uint16]]:
        """Return depth images of the present scene; the glance must be of this tick."""
        return {name: self._image(name) for name in names}

    def color(self, glance: Glance) -> None:
        """Return no colour image."""

    def _note_contacts(self) -> None:
        for contact in self._data.contact[: self._data.ncon]:
            one, other = int(contact.geom1), int(contact.geom2)
            if (one in self._own) != (other in self._own) and self._floor not in (one, other):
                if self._ticks - self._touched_tick >= AGAIN_TICKS:
                    self._contacts += 1
                self._touched_tick = self._ticks

    def _odometry(self) -> Motion:
        radius, track = WHEEL_M * BELIEVED[0], BELIEVED[1]
        now = tuple(math.floor(self._data.joint(side).qpos[0] / TICK_RAD) for side in ("left", "right"))
        left, right = ((end - begin) * TICK_RAD * radius for begin, end in zip(self._encoders, now, strict=True))
        self._encoders = now
        ahead, turned = (left + right) / 2.0, (right - left) / track
        x, y, yaw = self._odom.x_m, self._odom.y_m, self._odom.yaw_rad + turned / 2.0
        self._odom = Pose(
            x + ahead * math.cos(yaw), y + ahead * math.sin(yaw), math.remainder(yaw + turned / 2.0, math.tau)
        )
        return Motion(self._odom, Twist(ahead * TICK_HZ, turned * TICK_HZ))

    def _fix(self, pose: Pose) -> Pose | None:
        if self._ticks % FIX_TICKS == 1:
            x, y, yaw = self._rng.normal((pose.x_m, pose.y_m, pose.yaw_rad), FIX_SD)
            self._late_fixes.append((self._ticks + 2, Pose(x, y, math.remainder(yaw, math.tau))))
        late = self._late_fixes
        return late.popleft()[1] if late and late[0][0] <= self._ticks else None

    def _image(self, name: str) -> npt.NDArray[np.uint16]:
        """Return (height, width) uint16, cast at the present state."""
        mount, (origin, rays) = self._mounts[name], self._rays[name]
        rotation = self._data.xmat[self._body].reshape(3, 3)
        eye = self._data.xpos[self._body] + rotation @ (origin - [0.0, 0.0, WHEEL_M])
        count = len(rays)
        lengths = np.linalg.norm(rays, axis=1)
        directions = np.ascontiguousarray((rays / lengths[:, np.newaxis]) @ rotation.T)
        hit, metres = np.empty(count, np.int32), np.empty(count)
        mujoco.mj_multiRay(
            self._model, self._data, eye, directions.ravel(), None, 1, self._body, hit, metres, None, count, FAR_M + 2.0
        )
        depth = np.where(hit >= 0, metres, np.inf) / lengths
        per_m = 1.0 / np.maximum(depth, 0.03) + NOISE_PER_M * self._rng.standard_normal(count)
        noisy = 1.0 / np.maximum(np.round(per_m / STEP_PER_M) * STEP_PER_M, 1e-3)
        lost = (noisy < NEAR_M) | (noisy > FAR_M) | (self._rng.random(count) < HOLES)
        units = np.where(lost, 0.0, noisy / mount.depth_scale_m)
        return units.astype(np.uint16).reshape(mount.height, mount.width)


def _rays(mount) -> tuple[Floats, Floats]:
    """Return the camera's place (3,) and its rays (n, 3) in the base frame, 1 along the optical axis."""
    v, u = np.mgrid[0 : mount.height, 0 : mount.width]
    optical = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.shape)], axis=-1).reshape(-1, 3)
    return mount.base_from_camera[:3, 3].copy(), optical @ mount.base_from_camera[:3, :3].T
