"""What must hold in every tick of a whole runtime, whatever comes in: each rule stated plainly once more, not called.

Numbers, ramps and the two ticks to a stop are judged by `hil.faults.monitor`; latch, stop zone, blindness and recovery
here, from what the tick took in and sent out.
"""

from __future__ import annotations

import numpy as np

from hil.faults.monitor import Monitor
from hil.faults.steps import step_of
from onboard.config import Config
from onboard.limits import bounds_of
from onboard.messages import BINS, STOP, Scan, Twist
from onboard.motion import Plant
from onboard.scheduler import NS_PER_S
from onboard.tick import TickRecord

CENTERS_RAD = np.deg2rad(np.arange(BINS) * 2.0 - 179.0)
STANDS_MPS = 1e-3
SAMPLES = 40
ROUNDING_M = 2e-3
"""The limits take an arc that is straight to 1 mm as straight."""
SLACK = 1.5
"""A try may go back by so much more than its speed times its time, by the wheels (recovery R4)."""
REAR_NOISE_M = 0.05


class Watch:
    """Watches one run, tick by tick, and fails with what is broken."""

    def __init__(self, config: Config, plant: Plant) -> None:
        self._config, self._monitor = config, Monitor(config, plant)
        self._bounds = bounds_of(config.limits, plant, config.robot.footprint_radius_m, config.odometry.stale_ms)
        self._latched = False
        self._began: tuple[int, float] | None = None
        self._tries_ns: list[int] = []
        self._episode = 0
        self._sent = STOP

    def see(self, tick: TickRecord) -> None:
        """Judge one tick."""
        assert self._monitor.watch(step_of(tick)) == []
        self._judge_latch(tick)
        self._judge_way(tick)
        self._judge_recovery(tick)
        self._sent = tick.command

    def _judge_latch(self, tick: TickRecord) -> None:
        """E-stopped: zero in the same tick, until it is released *and* a goal is accepted after that."""
        pressed = tick.inputs.e_stop is True
        accepted = any(event.startswith("goal_accepted") for event in tick.events)
        assert not (pressed and accepted)
        self._latched = pressed or (self._latched and not accepted)
        assert (tick.reason == "e_stop") == self._latched
        if self._latched:
            assert tick.command == STOP

    def _judge_way(self, tick: TickRecord) -> None:
        """What the command sweeps until the robot stands is looked at, and nothing seen comes nearer within it."""
        command = tick.command
        if abs(command.v_mps) < STANDS_MPS:
            return
        if tick.reason != "teleop" and not self._operated(tick):
            assert ("front" if command.v_mps > 0.0 else "rear") in tick.inputs.depth
        way_m = command.v_mps**2 / (2.0 * self._bounds.braking_mps2) + abs(command.v_mps) * self._bounds.reaction_s
        points = points_of(tick.limits_scan)
        if len(points) == 0:
            return
        apart_m = np.linalg.norm(points[:, np.newaxis] - along(command, way_m), axis=2)
        allowed_m = np.minimum(self._bounds.swept_radius_m, apart_m[:, 0])
        assert (apart_m.min(axis=1) >= allowed_m - ROUNDING_M).all(), (command, tick.reason)

    def _judge_recovery(self, tick: TickRecord) -> None:
        """Backing is bounded in time, distance and tries, straight back, and only where somebody looks."""
        section, now_ns = self._config.recovery, tick.inputs.now_ns
        if tick.episode != self._episode:
            self._episode, self._tries_ns = tick.episode, []
        window_ns = section.window_s * NS_PER_S
        self._tries_ns = [when_ns for when_ns in self._tries_ns if now_ns - when_ns < window_ns]
        if not tick.recovery:
            self._began = None
            return
        travelled_m = tick.after.wheels.travelled_m
        if self._began is None:
            self._began = now_ns, travelled_m
            self._tries_ns.append(now_ns)
        began_ns, began_m = self._began
        whole_m = section.backward_mps * section.backward_s
        assert now_ns - began_ns < section.backward_s * NS_PER_S
        assert travelled_m - began_m < SLACK * whole_m
        assert len(self._tries_ns) <= section.tries
        if not self._operated(tick):
            assert tick.wanted == Twist(-section.backward_mps, 0.0)
        # Where the limits ramp the set point, it comes down from the last one first; it never goes up.
        assert -section.backward_mps <= tick.command.v_mps <= max(0.0, self._sent.v_mps)
        assert abs(tick.command.w_radps) <= abs(self._sent.w_radps)
        assert "rear" in tick.inputs.depth
        rest_m = max(0.0, whole_m - (travelled_m - began_m))
        ahead_of_us = behind_m(tick.limits_scan, self._bounds.swept_radius_m)
        assert ahead_of_us >= section.rear_clearance_m + rest_m - REAR_NOISE_M - ROUNDING_M

    def _operated(self, tick: TickRecord) -> bool:
        teleop = tick.inputs.teleop
        return teleop is not None and abs(tick.inputs.now_ns - teleop.arrival_ns) <= self._bounds.dead_man_ns


def points_of(scan: Scan) -> np.ndarray:
    """Return (n, 2) [m] of what is seen, in the base frame."""
    ranges_m = scan.ranges_m.astype(np.float64)
    there = np.isfinite(ranges_m)
    return np.stack([np.cos(CENTERS_RAD[there]), np.sin(CENTERS_RAD[there])], axis=1) * ranges_m[there, np.newaxis]


def along(command: Twist, way_m: float) -> np.ndarray:
    """Return (SAMPLES, 2) [m] where the base's origin comes within `way_m` of its arc, the start first."""
    signed_m = np.linspace(0.0, way_m, SAMPLES) * np.sign(command.v_mps)
    yaw_rad = signed_m * command.w_radps / command.v_mps
    chord_m = signed_m * np.sinc(yaw_rad / (2.0 * np.pi))
    return np.stack([chord_m * np.cos(yaw_rad / 2.0), chord_m * np.sin(yaw_rad / 2.0)], axis=1)


def behind_m(scan: Scan, radius_m: float) -> float:
    """Return how far a circle of `radius_m` goes straight back before it meets a point seen."""
    points = points_of(scan)
    met = points[(points[:, 0] < 0.0) & (np.abs(points[:, 1]) < radius_m)]
    free_m = -met[:, 0] - np.sqrt(radius_m**2 - met[:, 1] ** 2)
    return max(0.0, float(free_m.min(initial=np.inf)))
