"""The guard of the real robot in whole drives about a room, and what holds of every scan."""

from __future__ import annotations

from dataclasses import replace
from math import cos, inf, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.live.twin.guard.danger import Cause, GuardInputs, Rules, danger, free_ahead_m
from hil.live.twin.guard.rules import Guard, GuardMessages, Phase, advance
from hil.physics.simulated_base import base_at, send_command, step_base
from onboard.perception.collision import BIN_CENTERS_RAD
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import distance
from onboard.values.messages import BINS, STOP, Pose, Scan, Twist
from tests.hil.live.twin.guard_rig import FAST, NOW_NS, PLANT, RULES, SEEN, SLOW, TICK_NS, WATCHING, scan_of

bearings = st.floats(-3.1, 3.1)


@given(bearings, st.floats(0.5, 8.0), st.floats(-0.2, 0.2))
def test_free_ahead_does_not_depend_on_where_ahead_is(bearing: float, range_m: float, off_rad: float) -> None:
    straight = scan_of((range_m * cos(off_rad), range_m * sin(off_rad)))
    turned = scan_of((range_m * cos(off_rad + bearing), range_m * sin(off_rad + bearing)))
    a, b = free_ahead_m(straight, 0.0, 0.3), free_ahead_m(turned, bearing, 0.3)
    assert (a == b == inf) or abs(a - b) < 0.35 or abs(abs(range_m * sin(off_rad)) - 0.3) < 0.02 * range_m + 0.02


DELAY_TICKS = 3
"""From a look to the base hearing what came of it: the guard's own tick, the runtime's, the wire."""
EVERY_SCAN = 3
"""The runtime publishes its scan at 10 Hz."""


class Room:
    """The plant in an empty room, its scan at 10 Hz, orders that arrive late, and a twin that does as it is told."""

    def __init__(self, length_m: float, width_m: float, pose: Pose) -> None:
        self.half = length_m / 2, width_m / 2
        self.base, self.running, self.now_ns, self.frame_ns = base_at(pose), True, NOW_NS, NOW_NS
        self.pauses, self.died_ns = 0, inf
        self._orders = [GuardMessages()] * DELAY_TICKS
        self._scan = self.scan()

    def scan(self) -> Scan:
        pose = self.base.motion.pose
        azimuth = BIN_CENTERS_RAD + pose.yaw_rad
        (a, b), x, y = self.half, pose.x_m, pose.y_m
        with np.errstate(divide="ignore"):
            along_x = np.where(np.cos(azimuth) > 0, a - x, -a - x) / np.cos(azimuth)
            along_y = np.where(np.sin(azimuth) > 0, b - y, -b - y) / np.sin(azimuth)
        return Scan(self.now_ns, np.minimum(along_x, along_y).astype(np.float32), np.ones(BINS, bool))

    def drive(self, guard: Guard, rules: Rules, policy: Twist, ticks: int) -> tuple[Guard, set[Phase]]:
        seen_phases, command = set(), STOP
        for tick in range(ticks):
            self._scan = self.scan() if tick % EVERY_SCAN == 0 else self._scan
            motion = self.base.motion
            heartbeat = self.running if self.now_ns - self.died_ns <= NS_PER_S else None
            seen = GuardInputs(
                self.now_ns, self._scan, command, motion.twist, motion.pose.yaw_rad, heartbeat, self.frame_ns
            )
            guard, order = advance(guard, seen, rules)
            self._orders.append(order)
            command = self._heed(self._orders.pop(0), policy)
            self.base = step_base(send_command(self.base, command, self.now_ns, PLANT), self.now_ns, PLANT)
            self.now_ns += TICK_NS
            self.frame_ns = self.now_ns if self.running and self.now_ns < self.died_ns else self.frame_ns
            seen_phases.add(guard.phase)
            pose = self.base.motion.pose
            clear_m = min(self.half[0] - abs(pose.x_m), self.half[1] - abs(pose.y_m))
            assert clear_m > rules.radius_m, f"{clear_m:.3f} m from a wall, {guard}"
        return guard, seen_phases

    def _heed(self, order: GuardMessages, policy: Twist) -> Twist:
        """Let the twin do as it is told; return what the base is told."""
        shows = self.running and self.now_ns < self.died_ns
        self.pauses += order.pause and shows
        if self.now_ns < self.died_ns:
            self.running = (self.running or order.resume) and not order.pause
        return order.teleop or (policy if shows else STOP)


#   length, width, free_m, policy
ROOMS = [(5.0, 3.0, 2.5, FAST), (5.0, 3.0, 2.5, Twist(0.6, 0.3)), (3.0, 3.0, 2.5, SLOW), (8.0, 8.0, 2.5, FAST)]


@pytest.mark.parametrize(("length_m", "width_m", "free_m", "policy"), ROOMS)
@pytest.mark.parametrize("yaw_rad", [0.0, 2.0, -1.0])
def test_a_policy_that_only_drives_on_is_kept_in_the_room(
    length_m: float, width_m: float, free_m: float, policy: Twist, yaw_rad: float
) -> None:
    room = Room(length_m, width_m, Pose(0.0, 0.0, yaw_rad))
    _, phases = room.drive(WATCHING, replace(RULES, free_m=free_m), policy, 30 * 60)
    assert room.pauses >= 2, "it came to the wall again and again, and got away from it"
    assert phases == set(Phase) - {Phase.WAITING}


@pytest.mark.parametrize("seconds", [1.0, 3.0, 5.0, 7.0, 9.0])
def test_g8_when_the_twin_dies_the_robot_comes_to_rest_and_stays(seconds: float) -> None:
    """Whatever the guard was doing; a recovery under way goes on for as long as the twin's last word counts."""
    room = Room(5.0, 3.0, Pose(0.0, 0.0, 0.0))
    guard, _ = room.drive(WATCHING, RULES, FAST, round(30 * seconds))
    room.died_ns = room.now_ns
    guard, _ = room.drive(guard, RULES, FAST, 30 * 3)
    rested = room.base.motion.pose
    guard, phases = room.drive(guard, RULES, FAST, 30 * 20)
    assert distance(room.base.motion.pose, rested) < 1e-4
    assert guard.phase is Phase.WAITING
    assert phases <= {Phase.STOPPING, Phase.WAITING}


def test_danger_of_standing_is_none_however_near_the_wall() -> None:
    assert danger(replace(SEEN, measured=STOP, scan=scan_of((0.31, 0.0))), STOP, RULES) is Cause.NONE
