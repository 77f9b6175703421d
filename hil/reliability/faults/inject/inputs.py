"""Faults of odometry, localisation, goals, notices and operator commands, injected into the inputs of a tick."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hil.reliability.faults.inject.schedule import Injection
from hil.reliability.faults.inject.sensors import LATE_NS
from onboard.drivers.dds.ros_convert import header, ns_from_time
from onboard.drivers.dds.ros_types import Header, Image, LaserScan
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import compose
from onboard.values.messages import STOP, Fix, GoalRequest, Inputs, OdometryMessage, Pose, Teleop, Twist

HOUR_NS = 3600 * NS_PER_S
OFF_M = 2.0
"""Distance of an injected jump."""
MAD_TWISTS = (1e9, -1e9, math.nan, math.inf, -math.inf)


class SilentNetwork(Injection):
    """No message arrives from any sender, as with a broken network. The last inputs turn stale."""

    def image(self, camera: str, sample: Image, now_ns: int) -> None:
        """Drop the message."""
        return

    def scan(self, topic: str, sample: LaserScan, now_ns: int) -> None:
        """Drop the message."""
        return

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs without a message."""
        return replace(inputs, odometry=(), fixes=(), goals=(), cancel=False)


class NoOdometry(Injection):
    """No odometry arrives."""

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs without odometry."""
        return replace(inputs, odometry=())


class Wheels(Injection):
    """Changes each odometry message. change: gets the message and the number of messages before it in this fault."""

    def __init__(self, change: Callable[[OdometryMessage, int], OdometryMessage]) -> None:
        self._change = change
        self._count = 0

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with changed odometry."""
        changed = []
        for message in inputs.odometry:
            changed.append(self._change(message, self._count))
            self._count += 1
        return replace(inputs, odometry=tuple(changed))


def wheels_jump() -> Injection:
    """Return a base whose own pose jumps by 2 m at the onset, as if a person had carried the base."""
    return Wheels(lambda one, count: replace(one, pose=None if one.pose is None else _moved(one.pose)))


def wheels_nan() -> Injection:
    """Return a base that measures NaN."""
    return Wheels(lambda one, count: replace(one, twist=Twist(math.nan, math.nan)))


def wheels_too_fast(speed_mps: float) -> Injection:
    """Return a base that measures an impossible speed."""
    return Wheels(lambda one, count: replace(one, twist=Twist(speed_mps, 0.0)))


def wheels_repeat() -> Injection:
    """Return a base that repeats its first message of the fault."""
    held: list[OdometryMessage] = []

    def again(message: OdometryMessage, count: int) -> OdometryMessage:
        held[:] = held or [message]
        return replace(held[0], arrival_ns=message.arrival_ns)

    return Wheels(again)


def wheels_zero() -> Injection:
    """Return a base with frozen encoders: new stamps, zero twist, constant pose."""
    held: list[Pose | None] = []

    def still(message: OdometryMessage, count: int) -> OdometryMessage:
        held[:] = held or [message.pose]
        return replace(message, pose=held[0], twist=STOP)

    return Wheels(still)


class LateWheels(Injection):
    """Odometry arrives `LATE_NS` late; its content and stamps do not change."""

    def __init__(self) -> None:
        self._in_progress: deque[OdometryMessage] = deque()

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with the delayed odometry that is due."""
        self._in_progress.extend(inputs.odometry)
        arrived = []
        while self._in_progress and self._in_progress[0].arrival_ns + LATE_NS <= inputs.now_ns:
            arrived.append(replace(self._in_progress.popleft(), arrival_ns=inputs.now_ns))
        return replace(inputs, odometry=tuple(arrived))


class ClockStep(Injection):
    """The clock of all senders (cameras, scans, odometry, localisation) jumps by `step_ns`."""

    def __init__(self, step_ns: int) -> None:
        self._step_ns = step_ns

    def image(self, camera: str, sample: Image, now_ns: int) -> Image:
        """Return the image with a shifted stamp."""
        return replace(sample, header=self._stepped(sample.header))

    def scan(self, topic: str, sample: LaserScan, now_ns: int) -> LaserScan:
        """Return the scan with a shifted stamp."""
        return replace(sample, header=self._stepped(sample.header))

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with shifted stamps."""
        return replace(
            inputs,
            odometry=tuple(replace(one, stamp_ns=one.stamp_ns + self._step_ns) for one in inputs.odometry),
            fixes=tuple(replace(fix, stamp_ns=fix.stamp_ns + self._step_ns) for fix in inputs.fixes),
        )

    def _stepped(self, given: Header) -> Header:
        return header(ns_from_time(given.stamp) + self._step_ns, given.frame_id)


class ClockBackward(Injection):
    """The clock of the odometry runs backward from the onset."""

    def __init__(self) -> None:
        self._from_ns: int | None = None

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs in which each odometry stamp is earlier than the stamp before it."""
        return replace(inputs, odometry=tuple(self._mirrored(one) for one in inputs.odometry))

    def _mirrored(self, message: OdometryMessage) -> OdometryMessage:
        self._from_ns = message.stamp_ns if self._from_ns is None else self._from_ns
        return replace(message, stamp_ns=2 * self._from_ns - message.stamp_ns)


class Fixes(Injection):
    """Changes or drops each fix. change: gets the fix and the number of fixes before it in this fault."""

    def __init__(self, change: Callable[[Fix, int], Fix | None]) -> None:
        self._change = change
        self._count = 0

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with changed fixes."""
        changed = []
        for fix in inputs.fixes:
            changed.append(self._change(fix, self._count))
            self._count += 1
        return replace(inputs, fixes=tuple(fix for fix in changed if fix is not None))


def localization_jumps(times: float = math.inf) -> Injection:
    """Return a localisation with an error of 2 m in its first `times` fixes."""
    return Fixes(lambda fix, count: replace(fix, pose=_moved(fix.pose)) if count < times else fix)


def localization_nan() -> Injection:
    """Return a localisation that sends NaN."""
    return Fixes(lambda fix, count: replace(fix, pose=Pose(math.nan, math.nan, math.nan)))


def localization_gone() -> Injection:
    """Return a localisation that sends no fix."""
    return Fixes(lambda fix, count: None)


class Cancelled(Injection):
    """The operator cancels the goal once."""

    def __init__(self) -> None:
        self._done = False

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with a cancel in the first call."""
        first, self._done = not self._done, True
        return replace(inputs, cancel=inputs.cancel or first)


class NonFiniteGoal(Injection):
    """A sender asks in every tick for a goal that is not finite."""

    def __init__(self, frame_id: str) -> None:
        self._frame_id = frame_id

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with the additional goal."""
        goal = GoalRequest(inputs.now_ns, inputs.now_ns, self._frame_id, Pose(math.nan, math.inf, 0.0))
        return replace(inputs, goals=(*inputs.goals, goal))


class Notice(Injection):
    """`/obstacle` is always true."""

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with the notice."""
        return replace(inputs, obstacle=True)


class EStop(Injection):
    """A person presses the e-stop."""

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with the e-stop."""
        return replace(inputs, e_stop=True)


class Flood(Injection):
    """An operator sends a random command in every tick: valid, too fast, or not finite."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with a new random command."""
        return replace(inputs, teleop=Teleop(inputs.now_ns, Twist(self._number(), self._number())))

    def _number(self) -> float:
        mad = self._rng.random() < 0.3
        return float(self._rng.choice(MAD_TWISTS)) if mad else float(self._rng.normal(0.0, 2.0))


class NonFiniteSpeedLimit(Injection):
    """`/speed_limit` is NaN."""

    def inputs(self, inputs: Inputs) -> Inputs:
        """Return inputs with the speed limit NaN."""
        return replace(inputs, speed_limit_mps=math.nan)


def _moved(pose: Pose) -> Pose:
    return compose(Pose(OFF_M, 0.0, 0.0), pose)
