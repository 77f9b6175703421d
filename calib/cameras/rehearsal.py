"""A calibration session in simulation: the robot turns in place and drives short arcs in a furnished room.

The rendered images have the noise and holes of real ones. The wheels are imperfect: the scale of distance, the scale of
turning and a random part. The robot believes in mounts that are wrong; the recording holds these, never the truth.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from calib.cameras.mounts_file import mounts_text, placed
from calib.cameras.session import Session, recorded_session, start_pose
from hil.drive.robot import Senses, SimulatedRobot
from hil.maps.cell_kernels import room_for_circle
from hil.maps.load import load_map
from hil.maps.world_grid import World
from hil.physics.collision_world import Body, blocked_cells, body_of
from hil.physics.free_space import indoor_cells
from hil.physics.simulated_base import STEP_NS, STEP_S
from hil.scene.furniture import furnish
from hil.sensors.camera import cast_scan
from onboard.config.config import Config, load_config
from onboard.config.mounts import Mounts, load_mounts
from onboard.config.plant_model import load_plant
from onboard.navigation.odometry import integrate
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import distance, wrap
from onboard.values.messages import STOP, DepthFrame, Inputs, Motion, OdometryMessage, Pose, Twist

# ---- The drive

Way = Literal["all", "straight"]
STOPS_A_TURN = 24
TURN_RADPS = 0.5
ARC = Twist(0.25, 0.5)
STRAIGHT = Twist(0.25, 0.0)
LEG_M = 0.22
LEGS = 3
REACH_M = LEG_M * LEGS
REST_TICKS = 10
"""The base stands this many ticks before its images count."""
IMAGES_A_STOP = 2
LONGEST_LEG_S = 20.0


@dataclass(frozen=True, slots=True)
class Leg:
    """A command that holds until the odometry has moved by a distance [m] or a turn [rad]."""

    command: Twist
    distance_m: float = math.inf
    turn_rad: float = math.inf


def legs_of(way: Way, leg_m: float) -> list[Leg]:
    """Return the drive: full turns in both directions, and arcs and straight lines out and back between them."""

    def there_and_back(twist: Twist) -> list[Leg]:
        back = Twist(-twist.v_mps, -twist.w_radps)
        return [Leg(one, distance_m=leg_m) for one in (*[twist] * LEGS, *[back] * LEGS)]

    def turn(w_radps: float, stops: int) -> list[Leg]:
        return [Leg(Twist(0.0, w_radps), turn_rad=2.0 * math.pi / STOPS_A_TURN)] * stops

    straight = there_and_back(STRAIGHT)
    if way == "straight":
        return straight * 4
    right = Twist(ARC.v_mps, -ARC.w_radps)
    quarter = STOPS_A_TURN // 4
    return [
        *turn(TURN_RADPS, STOPS_A_TURN), *there_and_back(ARC), *there_and_back(right),
        *turn(-TURN_RADPS, STOPS_A_TURN), *straight, *turn(TURN_RADPS, quarter), *there_and_back(right),
        *there_and_back(ARC), *straight,
    ]  # fmt: skip


# ---- Imperfect wheels

DISTANCE_SD = 0.01
"""Standard deviation of the scale of distance."""
TURN_SD = 1.0 / 360.0
"""Standard deviation of the scale of turning: a degree a turn."""
RANDOM_M = 0.005
RANDOM_RAD = math.radians(0.5)
"""Standard deviations of the random part after 1 m and after a turn."""


class Wheels:
    """Odometry that is wrong by scales, drawn once, and by noise that grows with the root of the distance."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._distance, self._turn = 1.0 + rng.normal(0.0, (DISTANCE_SD, TURN_SD))
        self.motion = start_pose()

    def step(self, moved: Twist) -> Motion:
        """Return the odometry after a tick. moved: the twist that the base reports, before these errors."""
        way_m, turn_rad = abs(moved.v_mps) * STEP_S, abs(moved.w_radps) * STEP_S
        noise = self._rng.normal(0.0, 1.0, 2)
        measured = Twist(
            moved.v_mps * self._distance + float(noise[0]) * RANDOM_M * math.sqrt(way_m) / STEP_S,
            moved.w_radps * self._turn + float(noise[1]) * RANDOM_RAD * math.sqrt(turn_rad / (2.0 * math.pi)) / STEP_S,
        )
        self.motion = Motion(integrate(self.motion.pose, measured, STEP_S), measured)
        return self.motion


# ---- Where the robot stands, and what it believes

HALL_M = 3.0
"""A map whose floor lies mostly farther than this from any wall is a hall: it stays empty."""
ROOMS_M = (1.2, 1.05, 0.9, 0.8, 0.7)
"""Radius of the free circle about the start; the first that some places have."""
NEAR_M = 3.5
PLACES = 60
BELIEF_DEG, BELIEF_M = 5.0, 0.05
"""Largest error, an axis, of mounts that are drawn as the robot's belief."""


def is_hall(world: World) -> bool:
    """Return whether most of a map's floor is far from any wall."""
    inside = indoor_cells(world)
    return bool(inside.any()) and float(np.median(world.gap[inside])) * world.cell_m > HALL_M


def start_of(world: World, body: Body, rng: np.random.Generator, hall: bool = False) -> tuple[Pose, float]:
    """Return a start with free floor about it, and the radius of that [m]. Raises InputError without a place.

    Of some places drawn, the one with surfaces near by in most directions. In a hall it is as far from walls as it can.
    """
    blocked, inside = blocked_cells(world, body), indoor_cells(world)
    for room_m in ROOMS_M:
        cells = np.argwhere(inside & np.asarray(room_for_circle(room_m / world.cell_m, blocked, world.gap)))
        if len(cells):
            break
    else:
        raise InputError(f"map {world.name}: no place with {ROOMS_M[-1]} m of free floor in all directions")
    drawn = [(int(row), int(column)) for row, column in cells[rng.integers(len(cells), size=PLACES)]]
    yaw = wrap(float(rng.uniform(-math.pi, math.pi)))
    poses = [Pose(*world.centre_of(cell), yaw) for cell in drawn]
    near = [int((cast_scan(world, pose) < NEAR_M).sum()) for pose in poses]
    gaps = [int(world.gap[cell]) for cell in drawn]
    return poses[int(np.argmax(gaps if hall else near))], room_m


def believed_text(true: Path, rng: np.random.Generator) -> str:
    """Return a mounts file whose depth cameras are off by up to `BELIEF_DEG` and `BELIEF_M` an axis."""
    changed = {}
    for name, mount in load_mounts(true).depth.items():
        pose = mount.base_from_camera.copy()
        pose[:3, :3] = (
            Rotation.from_euler("xyz", rng.uniform(-BELIEF_DEG, BELIEF_DEG, 3), degrees=True).as_matrix()
            @ (pose[:3, :3])
        )
        pose[:3, 3] += rng.uniform(-BELIEF_M, BELIEF_M, 3)
        changed[name] = placed(pose)
    return mounts_text(true, changed, "What the robot of a rehearsal believes: not measured.")


# ---- The session


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a rehearsal recorded. turned_rad: by the odometry, the sum of both directions; touched: by anything."""

    ticks: int
    stops: int
    seconds: float
    driven_m: float
    turned_rad: float
    touched: bool


def rehearse(
    true: Path,
    map_name: str,
    seed: int,
    out: Path,
    *,
    believed: Path | None = None,
    config: Config | None = None,
    way: Way = "all",
    furniture: float | None = None,
    drift: float = 0.0,
    force: bool = False,
) -> Rehearsal:
    """Drive a session in simulation and write its recording.

    believed: mounts that the robot believes in; None: drawn about the true ones
    way:      the whole drive, or only straight lines, from which no camera can be calibrated
    drift:    times the paper's odometry drift, on top of the imperfect wheels
    Raises InputError, ConfigError.
    """
    config = config or load_config(None)
    mounts, rng = load_mounts(true), np.random.default_rng((seed, 21))
    with tempfile.TemporaryDirectory() as folder:
        belief = Path(folder) / "mounts.toml"
        belief.write_text(believed_text(true, rng) if believed is None else believed.read_text(encoding="utf-8"))
        _check_alike(mounts, load_mounts(belief), believed or true)
        config = config.model_copy(
            update={
                "robot": config.robot.model_copy(update={"mounts": belief}),
                "policy": config.policy.model_copy(update={"model": "reactive"}),
            }
        )
        body, bare = body_of(config.robot), load_map(map_name)
        hall = is_hall(bare)
        world = furnish(bare, seed, float(not hall) if furniture is None else furniture)
        start, room_m = start_of(world, body, rng, hall)
        senses = Senses(seed=seed, drift_scale=drift, localization=False, depth_noise=True)
        robot = SimulatedRobot(world, load_plant(config.robot.plant), body, mounts, start, senses)
        leg_m = LEG_M * min(1.0, (room_m - body.radius_m - 0.1) / REACH_M)
        with recorded_session(config, out, force=force) as session:
            return _Drive(robot, Wheels(rng), session).run(legs_of(way, leg_m))


def _check_alike(true: Mounts, believed: Mounts, path: Path) -> None:
    """Raise InputError if the two mounts have other cameras or image sizes."""
    for name in {**true.depth, **believed.depth}:
        sizes = [(m.depth[name].width, m.depth[name].height) if name in m.depth else None for m in (true, believed)]
        if sizes[0] != sizes[1]:
            sizes_text = ["none" if size is None else f"{size[0]}x{size[1]}" for size in sizes]
            raise InputError(f"{path}: camera {name}: {sizes_text[1]}, {true.path} says {sizes_text[0]}")


class _Drive:
    """The ticks of a session: each takes the newest signals, sends the next command, and is recorded."""

    def __init__(self, robot: SimulatedRobot, wheels: Wheels, session: Session) -> None:
        self._robot, self._wheels, self._session = robot, wheels, session
        self._ticks = self._stops = 0
        self._driven_m = self._turned_rad = 0.0
        self._touching = self._touched = False
        self._depth: dict[str, DepthFrame] = {}

    def run(self, legs: Sequence[Leg]) -> Rehearsal:
        self._stand()
        for leg in legs:
            self._go(leg)
            self._stand()
        return Rehearsal(
            self._ticks, self._stops, self._ticks * STEP_S, self._driven_m, self._turned_rad, self._touched
        )

    def _go(self, leg: Leg) -> None:
        before, turned_rad = self._wheels.motion.pose, 0.0
        for _ in range(round(LONGEST_LEG_S / STEP_S)):
            moved = self._tick(leg.command)
            turned_rad += abs(moved.w_radps) * STEP_S
            if distance(before, self._wheels.motion.pose) >= leg.distance_m or turned_rad >= leg.turn_rad:
                return

    def _stand(self) -> None:
        """Stop, wait until the base rests, and take the images."""
        quiet = 0
        while quiet < REST_TICKS:
            moved = self._tick(STOP)
            quiet = quiet + 1 if abs(moved.v_mps) < 1e-3 and abs(moved.w_radps) < 1e-3 else 0
        for _ in range(IMAGES_A_STOP):
            self._tick(STOP, images=True)
        self._stops += 1

    def _tick(self, command: Twist, images: bool = False) -> Twist:
        """Record what was sensed and the command, then drive by it, as the runtime does. Return the new speed."""
        now_ns, before = NS_PER_S + self._ticks * STEP_NS, self._wheels.motion
        if images:
            self._depth = dict(self._frames(now_ns))
        message = OdometryMessage(now_ns, now_ns, before.pose, before.twist)
        inputs = Inputs(now_ns, depth=self._depth, odometry=(message,), obstacle=self._touching)
        self._session.tick(inputs, before, command, images)
        self._robot.command(command)
        sensed = self._robot.step(images=False)
        self._ticks += 1
        odometry = self._wheels.step(sensed.odometry.twist)
        self._driven_m += distance(before.pose, odometry.pose)
        self._turned_rad += float(abs(odometry.twist.w_radps)) * STEP_S
        self._touching = sensed.touching
        self._touched |= sensed.touching
        return odometry.twist

    def _frames(self, now_ns: int) -> Iterator[tuple[str, DepthFrame]]:
        for name, image in self._robot.depth(self._robot.glance()).items():
            yield name, DepthFrame(name, self._ticks, now_ns, image)
