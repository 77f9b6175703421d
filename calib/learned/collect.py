"""Unattended collection (paper 3): sample a pose in a safe rectangle, drive there until reached or stuck, repeat."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calib.dynamics.motion_log import Floats, MotionLog
from hil.maps.world_grid import World, world_of_walls
from hil.physics.collision_world import Body, SimState, Simulation
from onboard.config.plant_model import Plant
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import wrap
from onboard.values.messages import STOP, Pose, Twist

POSE_HZ, COMMAND_HZ = 60, 25
"""Rates of paper 3's recordings."""
POSE_SD = (1e-3, 1e-3, 2e-3)
"""Noise of the external pose, as of a motion capture [m, m, rad]."""
REACHED_M, FACED_RAD = 0.15, 0.1
LEG_S, STUCK_S, STUCK_M, STUCK_RAD = 20.0, 3.0, 0.05, 0.1
"""Longest leg; a robot that moves and turns less than this in `STUCK_S` is stuck."""
ROUND_ROBOT_RAD = 0.6
"""A bearing error above this is turned away on the spot."""
TRIES = 1000


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A safe rectangle in the map frame [m]."""

    x_min_m: float
    y_min_m: float
    x_max_m: float
    y_max_m: float


@dataclass(slots=True)
class Leg:
    """A drive to one pose. v_mps, w_radps: greatest speeds of this leg; backward: whether it drives backward"""

    goal: Pose
    v_mps: float
    w_radps: float
    backward: bool
    began_tick: int
    facing: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """A log with the measured pose, and how its legs ended. The log's v and w are the wheels' twist."""

    log: MotionLog
    reached: int
    stuck: int


def empty_room(rectangle: Rectangle, margin_m: float = 1.0, cell_m: float = 0.1) -> World:
    """Return a room without furniture; its walls stand `margin_m` outside a rectangle."""
    one = rectangle
    rows, columns = (
        math.ceil((most - least + 2.0 * margin_m) / cell_m)
        for least, most in ((one.y_min_m, one.y_max_m), (one.x_min_m, one.x_max_m))
    )
    corner = Pose(one.x_min_m - margin_m, one.y_min_m - margin_m, 0.0)
    return world_of_walls("empty room", cell_m, corner, np.zeros((rows, columns), np.bool_))


class Collector:
    """Drives the simulated robot of a plant in a building."""

    def __init__(self, world: World, plant: Plant, body: Body, rectangle: Rectangle, seed: int) -> None:
        self._simulation = Simulation(world, plant, body)
        self._plant, self._rectangle = plant, rectangle
        self._rng = np.random.default_rng(seed)

    def run(self, seconds: float) -> Iterator[float | Collected]:
        """Yield the time driven [s] each second, and finally the log. Raises InputError without a free pose."""
        ticks = round(seconds * POSE_HZ)
        state = self._simulation.start(self._free_pose())
        rows = np.empty((ticks, 8))
        leg, command, reached, stuck = self._leg(state, 0), STOP, 0, 0
        marks = [state.pose]
        for tick in range(ticks):
            if tick * COMMAND_HZ // POSE_HZ != (tick - 1) * COMMAND_HZ // POSE_HZ:
                command, done = self._command(leg, state.pose)
                marks.append(state.pose)
                held = self._held(marks)
                if done or held or tick - leg.began_tick > LEG_S * POSE_HZ:
                    reached, stuck = reached + done, stuck + (not done)
                    leg, marks = self._leg(state, tick), [state.pose]
            twist, pose = state.twist, state.pose
            rows[tick] = (
                tick / POSE_HZ, command.v_mps, command.w_radps, twist.v_mps, twist.w_radps, pose.x_m, pose.y_m,
                pose.yaw_rad,
            )  # fmt: skip
            state = self._simulation.step(self._simulation.command(state, command), round(NS_PER_S / POSE_HZ))
            if tick % POSE_HZ == 0:
                yield tick / POSE_HZ
        poses = rows[:, 5:] + self._rng.normal(0.0, POSE_SD, (ticks, 3))
        t_s, v_cmd, w_cmd, v, w = (np.ascontiguousarray(column) for column in rows[:, :5].T)
        yield Collected(MotionLog("collected", t_s, v_cmd, w_cmd, v, w, poses), reached, stuck)

    def _leg(self, state: SimState, tick: int) -> Leg:
        """Sample a free pose and how to drive there. Every fourth leg drives backward."""
        linear, angular = self._plant.linear, self._plant.angular
        backward = bool(self._rng.random() < 0.25) and linear.speed_min < 0.0
        greatest = -linear.speed_min if backward else linear.speed_max
        v_mps = float(self._rng.uniform(0.3, 1.0)) * greatest
        w_radps = float(self._rng.uniform(0.2, 0.9)) * angular.speed_max
        return Leg(self._free_pose(), v_mps, w_radps, backward, tick)

    def _free_pose(self) -> Pose:
        one = self._rectangle
        for _ in range(TRIES):
            x, y = self._rng.uniform((one.x_min_m, one.y_min_m), (one.x_max_m, one.y_max_m))
            pose = Pose(float(x), float(y), float(self._rng.uniform(-math.pi, math.pi)))
            if not self._simulation.overlaps(pose):
                return pose
        raise InputError(f"--rectangle: none of {TRIES} sampled poses is free")

    def _command(self, leg: Leg, pose: Pose) -> tuple[Twist, bool]:
        """Return the next command, and whether the pose is reached: drive to the place, then turn on the spot."""
        dx, dy = leg.goal.x_m - pose.x_m, leg.goal.y_m - pose.y_m
        away_m = math.hypot(dx, dy)
        leg.facing = leg.facing or away_m < REACHED_M
        if leg.facing:
            error = wrap(leg.goal.yaw_rad - pose.yaw_rad)
            return Twist(0.0, _within(2.0 * error, leg.w_radps)), abs(error) < FACED_RAD
        error = wrap(math.atan2(dy, dx) - pose.yaw_rad + (math.pi if leg.backward else 0.0))
        speed = 0.0 if abs(error) > ROUND_ROBOT_RAD else min(leg.v_mps, 0.2 + 1.2 * away_m) * math.cos(error)
        return Twist(-speed if leg.backward else speed, _within(2.5 * error, leg.w_radps)), False

    def _held(self, marks: list[Pose]) -> bool:
        """Return whether the robot has hardly moved for `STUCK_S`."""
        most = round(STUCK_S * COMMAND_HZ)
        if len(marks) < most:
            return False
        now, then = marks[-1], marks[-most]
        moved = math.hypot(now.x_m - then.x_m, now.y_m - then.y_m)
        return moved < STUCK_M and abs(wrap(now.yaw_rad - then.yaw_rad)) < STUCK_RAD


def _within(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def csv_text(log: MotionLog) -> str:
    """Return a log as the CSV text that `onboard-calib` reads."""
    assert log.pose is not None
    table: Floats = np.column_stack([log.t_s, log.v_cmd, log.w_cmd, log.v, log.w, log.pose])
    lines = ["t_s,v_cmd,w_cmd,v,w,x_m,y_m,yaw_rad"]
    lines += [",".join(f"{value:.5f}" for value in row) for row in table]
    return "\n".join(lines) + "\n"
