"""The whole runtime and a simulated robot in the same process, on the simulated clock. No wire, no wait, repeatable.

`drive_runtime` drives an episode and judges the drive by the true state, like `drive_fast` without the runtime.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np

from hil.drive.robot import SimulatedRobot
from hil.drive.sensing import (
    LIMITS_TOPIC,
    POLICY_TOPIC,
    STEP_NS,
    Cameras,
    CamerasAndLidars,
    Caster,
    SensorSource,
    SimulatedInbox,
    without_cameras,
)
from hil.drive.setting import (
    MAX_S,
    REACHED_M,
    Outcome,
    Setting,
    flawed,
    goal_request,
    goal_tick,
    how_ended,
    wants_color,
)
from hil.maps.materials import PLAIN
from hil.physics.collision_world import Simulation
from hil.physics.free_space import Episode
from hil.sensors.direct_scan import direct_scan
from onboard.assembly.robot import build_rigs, lasers_of, lidars_of, robot_of, zones_of
from onboard.config.config import LIDARS
from onboard.policy.contract import ACTIONS
from onboard.policy.inference import InlineInference
from onboard.runtime import Runtime
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S, SimulatedClock
from onboard.values.errors import InputError
from onboard.values.interfaces import Policy


def drive_runtime(
    setting: Setting, episode: Episode, policy: Policy, seed: int, rendered: bool = False, max_s: float = MAX_S
) -> Outcome:
    """Return the outcome of a drive with the whole runtime. The same seed gives the same outcome, bit for bit.

    rendered: whether the runtime fuses its scan from rendered depth images; otherwise it gets the direct scan, in the
              same ticks as in `drive_fast`

    Raises InputError if the start is not free, and for a rendered lidar. Raises InputError also for a setting without
    limits: only `drive_fast` can leave the limits out.
    """
    if not setting.limits:
        raise InputError("the whole runtime cannot leave the limits out")
    if rendered and setting.scan == "lidar" and not setting.config.scan.topic:
        raise InputError(
            "--scan lidar is cast, and not from this robot's configuration: leave --rendered or --scan out"
        )
    config = setting.config if rendered else without_cameras(setting.config)
    look = PLAIN if setting.look is None else setting.look
    senses = replace(setting.senses, seed=seed, imu=bool(config.odometry.imu))
    robot = SimulatedRobot(
        setting.world, setting.base_plant, setting.body, setting.mounts, episode.start,
        senses, setting.crowd, look, setting.kernels, lasers_of(setting.config),
    )  # fmt: skip
    clock = SimulatedClock()
    inbox = SimulatedInbox(robot, clock.now_ns(), _sensors(setting, robot, policy, rendered, seed))
    described = robot_of(config, build_rigs(config, setting.mounts), setting.plant, policy, zones_of(config))
    described = replace(described, reach=setting.reach)
    judge = _Judge(setting, episode, inbox, robot, math.floor(max_s * NS_PER_S / STEP_NS))
    judge.runtime = runtime = Runtime(described, clock, inbox, _Kept(policy, clock.now_ns), inbox, (judge,))
    asyncio.run(runtime.run())
    return judge.outcome()


def _sensors(setting: Setting, robot: SimulatedRobot, policy: Policy, rendered: bool, seed: int) -> SensorSource:
    """Return the source of images and scans for the runtime."""
    if rendered:
        section = lidars_of(setting.config)
        fused = section.sources if section.topic == LIDARS else ()
        return CamerasAndLidars(robot, lasers_of(setting.config), wants_color(policy), fused)
    cameras = Cameras(robot, wants_color(policy))
    config = setting.config
    sections = {POLICY_TOPIC: config.scan} | ({} if config.own_scan is None else {LIMITS_TOPIC: config.own_scan})
    scans = {
        topic: flawed(direct_scan(setting.world, setting.mounts, section, setting.scan), setting, section, seed)
        for topic, section in sections.items()
    }
    return Caster(scans, cameras, seed if setting.senses.depth_noise else None)


class _Kept(InlineInference):
    """An inference whose policy the caller owns."""

    def close(self) -> None:
        """Leave the policy open."""


class _Judge:
    """A listener that requests the goal in its tick, records the true state, and stops the runtime at the end."""

    runtime: Runtime

    def __init__(
        self, setting: Setting, episode: Episode, inbox: SimulatedInbox, robot: SimulatedRobot, most_ticks: int
    ) -> None:
        self._setting, self._episode, self._inbox, self._robot = setting, episode, inbox, robot
        self._simulation = Simulation(setting.world, setting.base_plant, setting.body)
        self._began = goal_tick(setting.config.rates.ticks_per_decision)
        self._most = most_ticks
        self._rows: list[tuple[float, ...]] = []
        self._actions = np.zeros(len(ACTIONS), np.int64)
        self._clear_m = math.inf
        self._ended = ""

    def tick(self, record: TickRecord, counters: object) -> None:
        """Request the goal in its tick, then record the tick. Stop the runtime at the end of the drive."""
        ticks = record.slot.number - self._began
        if ticks == -1:
            self._inbox.requests.append(goal_request(self._setting, self._episode, record.slot.start_ns))
        if ticks < 0 or self._ended:
            return
        self._keep(record, ticks)
        self._ended = how_ended(self.runtime.state.mission) or ("time" if ticks >= self._most else "")
        if self._ended:
            self.runtime.stop()

    def outcome(self) -> Outcome:
        """Return the outcome of the drive."""
        state, goal = self._robot.state, self._episode.goal_xy_m
        distance_m = math.hypot(state.pose.x_m - goal[0], state.pose.y_m - goal[1])
        return Outcome(
            reached=self._ended == "stop" and distance_m <= REACHED_M,
            ended=self._ended,
            contacts=state.contacts,
            time_s=self._rows[-1][0],
            path_m=state.path_m,
            distance_m=distance_m,
            min_clearance_m=self._clear_m,
            actions=self._actions,
            trace=np.array(self._rows),
            bumps=state.bumps,
            set_by_kernels=self._robot.poses_set,
            touched_m=tuple(self._robot.trace.contacts),
        )

    def _keep(self, record: TickRecord, ticks: int) -> None:
        state = self._robot.state
        pose, twist = state.pose, state.twist
        bodies = self._robot.glance().bodies
        self._clear_m = self._simulation.clearance_m(state, bodies, self._clear_m)
        self._rows.append((ticks * STEP_NS / NS_PER_S, pose.x_m, pose.y_m, pose.yaw_rad, twist.v_mps, twist.w_radps))
        if record.acted is not None and record.acted.decision is not None:
            self._actions[record.acted.decision.action] += 1
