"""The whole runtime drives a simulated robot to a goal, in this process, and every tick is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from hil.drive.robot import SimulatedRobot
from hil.drive.sensing import (
    STEP_NS,
    SimulatedInbox,
)
from hil.drive.setting import (
    SETTLE_S,
)
from onboard.assembly.robot import build_rigs, building_of, robot_of, zones_of
from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.config.plant_model import Plant
from onboard.navigation.mission import drives
from onboard.policy.inference import InlineInference
from onboard.runtime import Listener, Runtime
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S, SimulatedClock
from onboard.values.interfaces import Policy
from onboard.values.messages import GoalRequest, Pose


@dataclass(frozen=True, slots=True)
class Drive:
    """A finished drive: the runtime's state text, time from goal request to end [s], and every tick."""

    state: str
    time_s: float
    ticks: Sequence[TickRecord]


class InProcess:
    """A whole runtime on the simulated clock that drives a simulated robot. For a single drive."""

    def __init__(
        self,
        config: Config,
        mounts: Mounts,
        plant: Plant,
        robot: SimulatedRobot,
        policy: Policy,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._clock = SimulatedClock()
        self.inbox = SimulatedInbox(robot, self._clock.now_ns())
        self._script = _Script(self.inbox)
        inference = InlineInference(policy, self._clock.now_ns)
        described = robot_of(config, build_rigs(config, mounts), plant, policy, zones_of(config), building_of(config))
        self.runtime = Runtime(described, self._clock, self.inbox, inference, self.inbox, (*listeners, self._script))

    def drive_to(self, goal: Pose, frame_id: str = "map", limit_s: float = 100.0) -> Drive:
        """Stand for `SETTLE_S`, request a goal, and run until the drive ends, at most `limit_s` after the goal."""
        self._script.begin(self.runtime, goal, frame_id, limit_s)
        asyncio.run(self.runtime.run())
        ticks = tuple(self._script.ticks)
        return Drive(self.runtime.state.mission.text(), self._script.driven_s, ticks)


class _Script:
    """A listener that keeps every tick, requests the goal after `SETTLE_S`, and stops the runtime at the end."""

    def __init__(self, inbox: SimulatedInbox) -> None:
        self._inbox = inbox
        self.ticks: list[TickRecord] = []
        self.driven_s = 0.0

    def begin(self, runtime: Runtime, goal: Pose, frame_id: str, limit_s: float) -> None:
        self._runtime, self._goal, self._frame_id, self._limit_s = runtime, goal, frame_id, limit_s
        self._goal_ns: int | None = None

    def tick(self, record: TickRecord, counters: object) -> None:
        """Keep the tick. Request the goal after `SETTLE_S`, and stop the runtime at the end of the drive."""
        self.ticks.append(record)
        now_ns = record.slot.start_ns
        if self._goal_ns is None:
            if now_ns - self.ticks[0].slot.start_ns >= SETTLE_S * NS_PER_S:
                self._goal_ns = now_ns
                self._inbox.requests.append(GoalRequest(now_ns, now_ns, self._frame_id, self._goal))
            return
        self.driven_s = (now_ns - self._goal_ns) / NS_PER_S
        ended = not drives(record.state)
        if (ended and now_ns - self._goal_ns > STEP_NS) or self.driven_s > self._limit_s:
            self._runtime.stop()
