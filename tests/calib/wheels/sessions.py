"""Sessions of the whole runtime with a simulated robot that is, or no longer is, as it was calibrated."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hil.drive.robot import Senses, SimulatedRobot
from hil.drive.sensing import SimulatedInbox
from hil.maps.world_grid import World
from hil.physics.collision_world import body_of
from hil.physics.odometry_noise import FIX_SD
from onboard.assembly.robot import build_rigs, robot_of
from onboard.config.mounts import Mounts
from onboard.config.plant_model import Plant
from onboard.counters import Counters
from onboard.navigation.mission import drives
from onboard.policy.dwa.dynamic_window import ReactivePolicy
from onboard.policy.inference import InlineInference
from onboard.runtime import Listener, Runtime
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S, SimulatedClock
from onboard.values.interfaces import Policy
from onboard.values.messages import GoalRequest, Inputs, Pose, Twist
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT, plain_config

CONFIG = plain_config()
GOALS = ((6.5, 1.0), (6.5, 5.0), (3.9, 4.6), (1.0, 5.0), (1.0, 1.0))


def hall() -> World:
    world = room(7.5, 6.0)
    for x, y in (
        ((2.0, 3.2), (2.2, 3.4)),
        ((5.0, 5.4), (0.2, 0.9)),
        ((4.6, 5.6), (2.6, 3.2)),
        ((0.1, 0.5), (2.4, 3.4)),
    ):
        world = with_box(world, x, y, (0.0, 0.8))
    return world


class WrongWheels(SimulatedInbox):
    """An inbox whose base reports `speed` times what its wheels did."""

    speed = 1.0

    def take(self, now_ns: int) -> Inputs:
        inputs = super().take(now_ns)
        scaled = [replace(one, twist=Twist(self.speed * one.twist.v_mps, one.twist.w_radps)) for one in inputs.odometry]
        return replace(inputs, odometry=tuple(scaled))


class Tour:
    """A listener that asks for one goal after the other and ends the run after `seconds`."""

    def __init__(self, inbox: SimulatedInbox, seconds: float) -> None:
        self._inbox, self._seconds = inbox, seconds
        self._asked = 0
        self.runtime: Runtime

    def tick(self, record: TickRecord, counters: Counters) -> None:
        now_ns = record.slot.start_ns
        if now_ns > self._seconds * NS_PER_S:
            self.runtime.stop()
        if record.slot.number % 30 == 29 and not drives(record.state):
            goal = GOALS[self._asked % len(GOALS)]
            self._inbox.requests.append(GoalRequest(now_ns, now_ns, "map", Pose(*goal, 0.0)))
            self._asked += 1


def drive(
    listeners: Sequence[Listener],
    seed: int,
    seconds: float = 60.0,
    *,
    mounts: Mounts = MOUNTS,
    plant: Plant = PLANT,
    speed: float = 1.0,
    depth_every: int = 5,
    policy: Policy | None = None,
) -> SimulatedRobot:
    """Drive a tour. mounts, plant, speed: what is true, while the runtime believes in the default robot.

    policy: who drives; `reactive` without one
    """
    senses = Senses(seed=seed, drift_scale=0.0, fix_sd=FIX_SD, depth_noise=True, depth_every=depth_every)
    robot = SimulatedRobot(hall(), plant, body_of(CONFIG.robot), mounts, Pose(1.0, 1.0, 0.3), senses)
    clock = SimulatedClock()
    inbox = WrongWheels(robot, clock.now_ns())
    inbox.speed = speed
    policy = policy or ReactivePolicy(PLANT, CONFIG.robot, CONFIG.rates, CONFIG.goal)
    described = robot_of(CONFIG, build_rigs(CONFIG, MOUNTS), PLANT, policy, None)
    tour = Tour(inbox, seconds)
    runtime = Runtime(described, clock, inbox, InlineInference(policy, clock.now_ns), inbox, (*listeners, tour))
    tour.runtime = runtime
    asyncio.run(runtime.run())
    return robot


def tilted(camera: str, axis: str, angle_deg: float, mounts: Mounts = MOUNTS) -> Mounts:
    """Return mounts with one camera turned about an axis of the base frame, at its place."""
    c, s = math.cos(math.radians(angle_deg)), math.sin(math.radians(angle_deg))
    turn = {
        "x": [[1, 0, 0], [0, c, -s], [0, s, c]],
        "y": [[c, 0, s], [0, 1, 0], [-s, 0, c]],
        "z": [[c, -s, 0], [s, c, 0], [0, 0, 1]],
    }[axis]
    moved = mounts.depth[camera].base_from_camera.copy()
    moved[:3, :3] = np.array(turn) @ moved[:3, :3]
    return replace(mounts, depth={**mounts.depth, camera: replace(mounts.depth[camera], base_from_camera=moved)})


def slower(ratio: float) -> Plant:
    """Return the plant with its natural frequencies times `ratio`."""
    axes = {
        name: getattr(PLANT, name).model_copy(
            update={key: ratio * getattr(getattr(PLANT, name), key) for key in ("f_up", "f_down")}
        )
        for name in ("linear", "angular")
    }
    return PLANT.model_copy(update=axes)
