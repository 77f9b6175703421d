"""Invariants of every tick that need the map, the images or a memory of obstacles, besides those of all ticks.

`hil.reliability.faults.invariants` judges what needs the tick alone. This module adds the path, the map and the way
back
of a recovery, written independently of the code under test. `safety_places` computes the forbidden places.
"""

from __future__ import annotations

import numpy as np

from hil.reliability.faults.invariants import Monitor, operated
from onboard.config.config import Config
from onboard.config.plant_model import Plant
from onboard.safety.keepout_zones import MapZones
from onboard.safety.limits import bounds_of
from onboard.state import TickRecord
from onboard.values.messages import BINS, STOP, Pose, Twist
from tests.onboard.safety.invariants.safety_places import (
    FORBIDDEN,
    Cells,
    Remembered,
    SeenFree,
    missing_floor,
    seen_points,
)

STANDS_MPS = 1e-3
SAMPLES = 40
ROUNDING_M = 2e-3
"""The limits take an arc that is straight to 1 mm as straight."""
ROUNDING_MPS = 1e-9
SLACK = 1.5
"""A try may go back by so much more than its speed times its time, by the wheels (recovery R4)."""
REAR_NOISE_M = 0.05
LOCALISED_SD = 0.5
"""Of x, y [m] and yaw [rad]: zones of the map are in force while the place is known so well."""
DOUBT = 2
"""After so many fixes in a row that contradict it the place is not known."""
GROUND = np.stack(np.meshgrid(*2 * [np.arange(-1.2, 1.2, 0.03)]), axis=-1).reshape(-1, 2)
STRAIGHT = {"front": (BINS // 2 - 1, BINS // 2), "rear": (0, BINS - 1)}
"""Bins straight ahead and straight behind of a scan that comes ready-made."""


def must(rule: str, holds: object, *shown: object) -> None:
    """Raise AssertionError with the rule's name if the rule does not hold."""
    if not holds:
        raise AssertionError(f"{rule}: {shown}")


class Watch:
    """Checks one run tick by tick, and raises the broken rule. masks: the map's zones, if any."""

    def __init__(self, config: Config, plant: Plant, masks: MapZones | None = None) -> None:
        section = config.recovery
        most_back = section.backward_s, SLACK * section.backward_mps * section.backward_s
        self._config, self._monitor, self._masks = config, Monitor(config, plant, most_back), masks
        self._bounds = bounds_of(config.limits, plant, config.robot.footprint, config.odometry.stale_ms)
        self._remembered, self._seen_free = Remembered(config), SeenFree(config)
        self._keep_out = Cells(masks.keep_out) if masks is not None and masks.keep_out is not None else None
        self._slow = Cells(masks.speed) if masks is not None and masks.speed is not None else None
        self._known: tuple[int, int, int] = (0, 0, 0)
        self._contradicted = 0
        self._sent = STOP

    def see(self, tick: TickRecord) -> None:
        """Check one tick."""
        was = self._monitor.tries.began
        broken = self._monitor.watch(tick, tick.after.wheels.travelled_m)
        must(broken[0].rule if broken else "", not broken, broken)
        unseen = self._remembered.see(tick)
        self._seen_free.see(tick)
        base, contradicted = self.known(tick), self._is_contradicted(tick)
        self._judge_speed(tick, base)
        self._judge_way(tick, unseen)
        self._judge_map(tick, base, contradicted)
        self._judge_recovery(tick, unseen, base, was)
        self._sent = tick.command

    def _judge_speed(self, tick: TickRecord, base: Pose | None) -> None:
        """The speed is within the map's speed zones."""
        speed_mps = abs(tick.command.v_mps)
        if self._slow is not None and base is not None and speed_mps > 0.0:
            slowest = self._slow.slowest(base, self._bounds.footprint.reach_m)
            allowed_mps = slowest / FORBIDDEN * self._bounds.v_max_mps
            must("speed zone", speed_mps <= allowed_mps + ROUNDING_MPS, speed_mps, allowed_mps)

    def _judge_way(self, tick: TickRecord, unseen: np.ndarray) -> None:
        """Cameras see the area that the command sweeps until a stop, and no obstacle in it comes nearer."""
        command = tick.command
        if abs(command.v_mps) < STANDS_MPS:
            return
        if not self._operated(tick):
            needed = "front" if command.v_mps > 0.0 else "rear"
            looks = self._looks(tick, needed) or self._was_seen_free(tick)
            must("blind", looks, command, sorted(tick.inputs.depth))
        swept_m = self._bounds.swept.reach_m
        self._keeps_off("stop zone", tick, seen_points(tick.limits_scan), swept_m)
        self._keeps_off("remembered", tick, unseen, swept_m)
        if self._config.scan.drop_m > 0.0:
            missing = missing_floor(tick.inputs.depth, self._config.scan.drop_m)
            self._keeps_off("drop", tick, missing, self._bounds.footprint.reach_m)

    def _was_seen_free(self, tick: TickRecord) -> bool:
        """Return whether the robot goes ahead slowly, only over ground that a scan of the last seconds saw free."""
        command, bounds = tick.command, self._bounds
        if not 0.0 < command.v_mps <= bounds.slow_mps + ROUNDING_MPS or bounds.seen_free_ns == 0:
            return False
        way_m = command.v_mps**2 / (2.0 * bounds.braking_mps2) + command.v_mps * bounds.reaction_s
        reach_m = bounds.footprint.reach_m
        apart_m = np.linalg.norm(GROUND[:, np.newaxis] - along(command, way_m), axis=2)
        swept = (apart_m.min(axis=1) <= reach_m) & (apart_m[:, 0] > reach_m)
        return len(self._seen_free.unknown(tick, GROUND[swept])) == 0

    def _judge_map(self, tick: TickRecord, base: Pose | None, contradicted: bool) -> None:
        """The robot does not enter or move in forbidden ground, nor drive without localisation if zones require it."""
        masks, speed_mps = self._masks, abs(tick.command.v_mps)
        if masks is None or speed_mps < STANDS_MPS:
            return
        if self._operated(tick) and speed_mps <= self._bounds.creep_mps + ROUNDING_MPS:
            return
        must("required zones", (base is not None and not contradicted) or not masks.required, tick.command)
        if self._keep_out is not None and base is not None:
            must("keep-out", not self._keep_out.stands_in(base), tick.command)
            self._keeps_off("keep-out", tick, self._keep_out.forbidden(base), self._bounds.footprint.reach_m)

    def _judge_recovery(
        self, tick: TickRecord, unseen: np.ndarray, base: Pose | None, was: tuple[int, float] | None
    ) -> None:
        """A try backs off straight, and only where somebody looks.

        A try begins only where the whole way is free; what is seen while it backs may seem a little nearer.
        was: `RecoveryBounds.began` before this tick
        """
        section, began = self._config.recovery, self._monitor.tries.began
        if began is None:
            return
        slack_m = 0.0 if was is None else REAR_NOISE_M
        gone_m = tick.after.wheels.travelled_m - began[1]
        if not self._operated(tick):
            must("recovery way", tick.wanted == Twist(-section.backward_mps, 0.0), tick.wanted)
        # Where the limits ramp the set point, it comes down from the last one first; it never goes up.
        speed_mps = tick.command.v_mps
        must("recovery way", -section.backward_mps <= speed_mps <= max(0.0, self._sent.v_mps), tick.command)
        must("recovery way", abs(tick.command.w_radps) <= abs(self._sent.w_radps), tick.command)
        must("recovery rear", self._looks(tick, "rear"), "nobody looks there")
        rest_m = max(0.0, section.backward_mps * section.backward_s - gone_m)
        free_m = behind_m(self._behind(tick, unseen, base), self._bounds.swept.reach_m)
        needed_m = section.rear_clearance_m + rest_m - slack_m - ROUNDING_M
        must("recovery rear", free_m >= needed_m, free_m, needed_m)

    def _behind(self, tick: TickRecord, unseen: np.ndarray, base: Pose | None) -> np.ndarray:
        """Return all points that the robot must not back into."""
        points = [seen_points(tick.limits_scan), unseen]
        if self._keep_out is not None and base is not None:
            must("recovery rear", not self._keep_out.stands_in(base), "it stands in forbidden ground")
            points.append(self._keep_out.forbidden(base))
        return np.concatenate(points)

    def _keeps_off(self, rule: str, tick: TickRecord, points: np.ndarray, radius_m: float) -> None:
        """No point comes nearer than `radius_m`, or than its present distance, until the robot stands."""
        command, bounds = tick.command, self._bounds
        way_m = command.v_mps**2 / (2.0 * bounds.braking_mps2) + abs(command.v_mps) * bounds.reaction_s
        points = points[np.hypot(*points.T) <= way_m + radius_m]
        if len(points) == 0:
            return
        apart_m = np.linalg.norm(points[:, np.newaxis] - along(command, way_m), axis=2)
        allowed_m = np.minimum(radius_m, apart_m[:, 0])
        must(rule, (apart_m.min(axis=1) >= allowed_m - ROUNDING_M).all(), command, tick.reason)

    def _operated(self, tick: TickRecord) -> bool:
        return operated(tick.inputs.teleop, tick.inputs.now_ns, self._config)

    def _looks(self, tick: TickRecord, camera: str) -> bool:
        """Return whether a camera looks straight ahead ("front") or straight behind ("rear")."""
        if not self._config.scan.topic:
            return camera in tick.inputs.depth
        scan = tick.inputs.scans.get(self._config.scan.topic)
        return scan is not None and bool(scan.seen[list(STRAIGHT[camera])].all())

    def _is_contradicted(self, tick: TickRecord) -> bool:
        """Return whether the newest fixes in a row contradict the odometry."""
        known = tick.after.localization
        now = known.fixes, known.rejected, known.restarts
        fixes, rejected, restarts = (after - before for after, before in zip(now, self._known, strict=True))
        if restarts > 0 or fixes > rejected:
            self._contradicted = 0
        else:
            self._contradicted += rejected
        self._known = now
        return self._contradicted >= DOUBT

    @staticmethod
    def known(tick: TickRecord) -> Pose | None:
        """Return the filter's pose if it is certain enough, even if fixes contradict it."""
        known = tick.after.localization
        if known.map_from_base is None or np.sqrt(np.diag(known.covariance)[:3]).max() > LOCALISED_SD:
            return None
        return known.map_from_base


def along(command: Twist, way_m: float) -> np.ndarray:
    """Return (SAMPLES, 2) [m] points of the base's origin along `way_m` of its arc, the start first."""
    signed_m = np.linspace(0.0, way_m, SAMPLES) * np.sign(command.v_mps)
    yaw_rad = signed_m * command.w_radps / command.v_mps
    chord_m = signed_m * np.sinc(yaw_rad / (2.0 * np.pi))
    return np.stack([chord_m * np.cos(yaw_rad / 2.0), chord_m * np.sin(yaw_rad / 2.0)], axis=1)


def behind_m(points: np.ndarray, radius_m: float) -> float:
    """Return the free distance of a circle of `radius_m` straight back [m]."""
    met = points[(points[:, 0] < 0.0) & (np.abs(points[:, 1]) < radius_m)]
    free_m = -met[:, 0] - np.sqrt(radius_m**2 - met[:, 1] ** 2)
    return max(0.0, float(free_m.min(initial=np.inf)))
