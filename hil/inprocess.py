"""A runtime and a simulated robot in one process on the simulated clock: no wire, no waiting, every run the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hil.outcome import MAX_S, Outcome
from hil.robot import TICK_HZ, SimulatedRobot
from hil.routes import Episode
from hil.setting import Setting
from onboard.assembly import build_rigs
from onboard.config import Config
from onboard.inference import InlineInference
from onboard.interfaces import Policy
from onboard.messages import STOP, ColorFrame, DepthFrame, Fix, GoalRequest, Inputs, OdometryMessage, Pose, Twist
from onboard.mission import DRIVING
from onboard.motion import Plant
from onboard.mounts import Mounts
from onboard.runtime import Listener, Robot, Runtime
from onboard.scheduler import NS_PER_S, SimulatedClock
from onboard.tick import TickRecord

STEP_NS = round(NS_PER_S / TICK_HZ)
SETTLE_S = 2.5
"""Time before the goal, in which the first fixes come."""


class SimulatedInbox:
    """`interfaces.Inbox` over a simulated robot, which lives on as time is asked for. Also its `Drive`."""

    def __init__(self, robot: SimulatedRobot, start_ns: int) -> None:
        self._robot = robot
        self._time_ns = start_ns
        self._number = 0
        self._newest = Inputs(start_ns)
        self.asked: list[GoalRequest] = []
        self.sent: list[Twist] = []

    def take(self, now_ns: int) -> Inputs:
        """Let the robot live until `now_ns` and return what it sensed."""
        odometry: list[OdometryMessage] = []
        fixes: list[Fix] = []
        while self._time_ns + STEP_NS <= now_ns:
            self._time_ns += STEP_NS
            self._step(odometry, fixes)
        goals, self.asked = tuple(self.asked), []
        return replace(self._newest, now_ns=now_ns, odometry=tuple(odometry), fixes=tuple(fixes), goals=goals)

    def send(self, command: Twist) -> None:
        """Pass a command to the base."""
        self.sent.append(command)
        self._robot.command(command)

    def close(self) -> None:
        """Stop the base."""
        if not self.sent or self.sent[-1] != STOP:
            self.send(STOP)

    def _step(self, odometry: list[OdometryMessage], fixes: list[Fix]) -> None:
        sensed, stamp_ns = self._robot.step(), self._time_ns
        self._number += 1
        odometry.append(OdometryMessage(stamp_ns, stamp_ns, sensed.odometry.pose, sensed.odometry.twist))
        if sensed.fix is not None:
            fixes.append(Fix(stamp_ns, stamp_ns, sensed.fix))
        if sensed.depth:
            frames = {name: DepthFrame(name, self._number, stamp_ns, image) for name, image in sensed.depth.items()}
            self._newest = replace(self._newest, depth=frames)
        if sensed.color is not None:
            self._newest = replace(self._newest, color=ColorFrame(self._number, stamp_ns, sensed.color))
        self._newest = replace(self._newest, obstacle=sensed.touching)


@dataclass(frozen=True, slots=True)
class Drive:
    """How a drive ended: the runtime's state text, seconds from the goal to the end, and every tick."""

    state: str
    time_s: float
    ticks: Sequence[TickRecord]


class InProcess:
    """A whole runtime on the simulated clock, driving a simulated robot. For one drive."""

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
        rig, limits_rig = build_rigs(config, mounts)
        described = Robot(config, rig, limits_rig, plant, policy.initial_memory(), policy.memory_reset_s)
        self.runtime = Runtime(described, self._clock, self.inbox, inference, self.inbox, (*listeners, self._script))

    def drive_to(self, goal: Pose, frame_id: str = "map", limit_s: float = 100.0) -> Drive:
        """Stand for `SETTLE_S`, ask for a goal, and tick until the drive has ended or time is over."""
        self._script.begin(self.runtime, goal, frame_id, limit_s)
        asyncio.run(self.runtime.run())
        ticks = tuple(self._script.ticks)
        return Drive(self.runtime.state.mission.text(), self._script.driven_s, ticks)


class _Script:
    """A listener that keeps every tick, asks for the goal when its time has come, and stops the runtime at the end."""

    def __init__(self, inbox: SimulatedInbox) -> None:
        self._inbox = inbox
        self.ticks: list[TickRecord] = []
        self.driven_s = 0.0

    def begin(self, runtime: Runtime, goal: Pose, frame_id: str, limit_s: float) -> None:
        self._runtime, self._goal, self._frame_id, self._limit_s = runtime, goal, frame_id, limit_s
        self._asked_ns: int | None = None

    def tick(self, record: TickRecord, counters: object) -> None:
        """Keep the tick and do what its time asks for."""
        self.ticks.append(record)
        now_ns = record.slot.start_ns
        if self._asked_ns is None:
            if now_ns - self.ticks[0].slot.start_ns >= SETTLE_S * NS_PER_S:
                self._asked_ns = now_ns
                self._inbox.asked.append(GoalRequest(now_ns, now_ns, self._frame_id, self._goal))
            return
        self.driven_s = (now_ns - self._asked_ns) / NS_PER_S
        ended = not record.state.startswith(tuple(state.value for state in DRIVING))
        if (ended and now_ns - self._asked_ns > STEP_NS) or self.driven_s > self._limit_s:
            self._runtime.stop()


def drive_runtime(
    setting: Setting, episode: Episode, policy: Policy, seed: int, rendered: bool = False, max_s: float = MAX_S
) -> Outcome:
    """Return how a drive of the whole runtime went on the simulated clock."""
    raise NotImplementedError
