"""The inbox of a runtime on the simulated clock, over a simulated robot in the same process."""

from __future__ import annotations

from dataclasses import replace

from hil.eyes import Cameras, Eyes
from hil.robot import TICK_HZ, SimulatedRobot
from onboard.messages import STOP, Fix, GoalRequest, Inputs, OdometryMessage, Twist
from onboard.scheduler import NS_PER_S

STEP_NS = round(NS_PER_S / TICK_HZ)


class SimulatedInbox:
    """`interfaces.Inbox` over a simulated robot, which lives on as time is asked for. Also its `Drive`."""

    def __init__(self, robot: SimulatedRobot, start_ns: int, eyes: Eyes | None = None) -> None:
        self._robot = robot
        self._eyes = eyes or Cameras(robot)
        self._time_ns = start_ns
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
        robot, stamp_ns = self._robot, self._time_ns
        due = robot.depth_due, robot.color_due
        sensed = robot.step(images=False)
        odometry.append(OdometryMessage(stamp_ns, stamp_ns, sensed.odometry.pose, sensed.odometry.twist))
        if sensed.fix is not None:
            fixes.append(Fix(stamp_ns - sensed.fix_age_ns, stamp_ns, sensed.fix))
        seen = self._eyes.look(self._newest, robot.glance(), stamp_ns, *due)
        self._newest = replace(seen, obstacle=sensed.touching)
