"""Every contact of the true robot, with what was known when it happened. Each is a broken rule.

Nothing excuses one: no fault of the table may make the robot drive into something, and nobody in this world walks
nearer to the robot than `strides.ROBOT_M`, so that the last of the way is always the robot's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hil.faults.fault import Fault
from hil.robot import SimulatedRobot
from hil.soak.ground import Ground
from onboard import zones
from onboard.messages import Scan, Twist
from onboard.tick import TickRecord

NEAR_M = 0.12
"""What is seen so near before the body, and then touched, is what was seen: a tick's way and the noise of a scan."""
TOWARDS = 0.3
"""Cosine of the angle between the way and what lies before it."""
WALKER_M = 0.06
"""Somebody who moves is touched when he is so near."""


@dataclass(frozen=True, slots=True)
class Contact:
    """One contact.

    v_mps, w_radps: the true motion just before
    seen:    whether the scan of the limits had something just there
    mover:   whether somebody who moves was beside it
    fault:   that was there just then, or just before, "" for none
    """

    at_s: float
    building: str
    v_mps: float
    w_radps: float
    seen: bool
    mover: bool
    fault: str

    @property
    def what(self) -> str:
        """Return what it was, in words."""
        known = "something seen" if self.seen else "something that the scan did not show"
        return f"with {known}{', beside somebody' if self.mover else ''}"


class Contacts:
    """Looks for contacts, tick by tick."""

    def __init__(self, ground: Ground, radius_m: float) -> None:
        self._ground, self._radius_m = ground, radius_m
        self._count = ground.contacts
        self._scan: Scan | None = None
        self._twist = Twist(0.0, 0.0)

    def look(self, record: TickRecord, fault: Fault | None, at_s: float) -> Contact | None:
        """Return the contact of the last tick, if there was one. fault: that was there then or just before."""
        robot, count = self._ground.robot, self._ground.contacts
        found = None
        if count > self._count:
            found = Contact(
                at_s=at_s,
                building=self._ground.building.name,
                v_mps=self._twist.v_mps,
                w_radps=self._twist.w_radps,
                seen=self._scan is not None and seen_before(self._scan, self._twist.v_mps, self._radius_m),
                mover=_beside_mover(robot, self._radius_m),
                fault=fault.name if fault is not None else "",
            )
        self._count, self._scan, self._twist = count, record.limits_scan, robot.state.twist
        return found


def seen_before(scan: Scan, v_mps: float, radius_m: float) -> bool:
    """Return whether a scan has something just before the body, on the side to which it drives."""
    points = zones.obstacles(scan)
    away_m = np.hypot(points[:, 0], points[:, 1])
    ahead = points[:, 0] * math.copysign(1.0, v_mps) >= TOWARDS * away_m
    return bool((ahead & (away_m <= radius_m + NEAR_M)).any())


def _beside_mover(robot: SimulatedRobot, radius_m: float) -> bool:
    """Return whether somebody who moves stands at the body."""
    pose, bodies = robot.state.pose, robot.glance().bodies
    return any(
        math.hypot(x_m - pose.x_m, y_m - pose.y_m) - radius <= radius_m + WALKER_M for x_m, y_m, radius in bodies[:, :3]
    )
