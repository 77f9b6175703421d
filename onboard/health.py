"""Whether the robot still is as it was calibrated: floor, overlap of cameras, wheels against localisation, response.

`Gatherer` takes from each tick what the checks need, and costs the tick almost nothing. `Session` computes the checks
in a thread of its own (`Monitor`), or from a recording (`onboard-calib verify`). Nothing here changes what the robot
does.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt
import structlog
from numba import types

from onboard.config.config import CamerasSection, Config
from onboard.config.mounts import Mount, Mounts
from onboard.config.plant_model import Axis, Plant, step_axis
from onboard.counters import Counters
from onboard.drivers.realsense.cameras import camera_sources
from onboard.drivers.realsense.device import Device, Source, list_devices, read_intrinsics
from onboard.navigation import odometry
from onboard.navigation.odometry import OdometryState
from onboard.perception.fusion_kernel import eye_of, lower_ranges
from onboard.perception.kernels import planar
from onboard.state import TickRecord
from onboard.system.threads import INFERENCE_BELOW, step_down
from onboard.values.clock import NS_PER_S
from onboard.values.errors import ConfigError, DriverError, InputError
from onboard.values.geometry import IDENTITY, wrap
from onboard.values.interfaces import Diagnostic
from onboard.values.kernel import kernel
from onboard.values.messages import BINS, DepthFrame, Pose

log = structlog.get_logger()
Floats = npt.NDArray[np.float64]

OK, WATCH, RECALIBRATE = "ok", "watch", "recalibrate"
VERDICTS = (OK, WATCH, RECALIBRATE)

#   quantity              watch, recalibrate  from
LIMITS = {
    "tilt_deg":           (1.0, 2.0),
    "height_m":           (0.02, 0.05),
    "overlap_m":          (0.08, 0.15),
    "speed":              (0.01, 0.02),
    "turning":            (0.02, 0.04),
    "turn_per_m":         (0.01, 0.02),
    "response":           (0.12, 0.2),
}  # fmt: skip
"""Differences from the calibration that matter, where it states no covariance. Drop detection needs 1 to 2 deg."""
LEAST_LIMITS = {"tilt_deg": (0.3, 1.0), "height_m": (0.01, 0.03)}
"""Beside a calibration with covariance: 3 and 6 standard deviations, but at least these."""
SURE = 2.0
"""A difference counts less so many of its own standard deviations."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison with the calibration.

    name:  what was compared, such as "front tilt"
    value: difference from the calibration, in the unit of `quantity`; sd: its standard deviation
    """

    name: str
    quantity: str
    value: float
    sd: float
    watch: float
    recalibrate: float

    @property
    def verdict(self) -> str:
        """Return `OK`, `WATCH` or `RECALIBRATE`."""
        sure = abs(self.value) - SURE * self.sd
        return RECALIBRATE if sure > self.recalibrate else WATCH if sure > self.watch else OK


@dataclass(frozen=True, slots=True)
class Health:
    """All comparisons of a session. unmeasured: what could not be compared -> why."""

    checks: tuple[Check, ...] = ()
    unmeasured: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Return the worst verdict."""
        return max((one.verdict for one in self.checks), key=VERDICTS.index, default=OK)

    @property
    def message(self) -> str:
        """Return the verdict and what it is about."""
        bad = [f"{one.name} is off by {one.value:+.3g}" for one in self.checks if one.verdict != OK]
        nothing = "" if self.checks else ": nothing compared yet"
        return self.verdict + (f": {'; '.join(bad)}" if bad else nothing)

    def plain(self) -> dict[str, Any]:
        """Return the comparisons as plain values."""
        return {
            "verdict": self.verdict,
            "checks": {
                one.name: {
                    "quantity": one.quantity,
                    "value": round(one.value, 5),
                    "sd": round(one.sd, 5),
                    "watch": round(one.watch, 5),
                    "recalibrate": round(one.recalibrate, 5),
                    "verdict": one.verdict,
                }
                for one in self.checks
            },
            "unmeasured": dict(self.unmeasured),
        }


# ---- What a tick gives

LOOK_S = 2.0
"""Between two sets of images on the robot."""
STILL_RADPS = 0.3
"""Turning faster, images of different cameras are not of one place."""


Place = tuple[float, float, Pose, Pose, float, float]
"""Way so far [m], turn so far [rad], odometry's pose, fix's pose, its sd [m] and [rad]."""


@dataclass(slots=True)
class Part:
    """What some ticks gave.

    motions: (time [s], commanded v, w, measured v, w) of each tick
    places:  of each fix
    frames:  images of all cameras at one time
    """

    motions: list[tuple[float, float, float, float, float]] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    frames: Mapping[str, DepthFrame] = field(default_factory=dict)


class Gatherer:
    """Collects from ticks, live or recorded, what the checks need. look_s: between two sets of images."""

    def __init__(self, config: Config, look_s: float = LOOK_S) -> None:
        self._section, self._look_ns = config.odometry, look_s * NS_PER_S
        self._wheels = OdometryState()
        self._part = Part()
        self._looked_ns = 0
        self._yaw: tuple[float, float] | None = None

    def take(self, record: TickRecord) -> Part | None:
        """Take a tick; return what was gathered whenever images are due. Recorded images are in some ticks only."""
        wheels = self._followed(record)
        command, measured, now_ns = record.command, record.odometry.twist, record.slot.start_ns
        row = (now_ns / NS_PER_S, command.v_mps, command.w_radps, measured.v_mps, measured.w_radps)
        self._part.motions.append(row)
        self._note_fixes(record, wheels)
        if now_ns - self._looked_ns < self._look_ns or abs(measured.w_radps) > STILL_RADPS:
            return None
        frames = {name: frame for name, frame in record.inputs.depth.items() if frame.depth.size}
        if not frames and record.inputs.depth:
            return None
        self._looked_ns = now_ns
        return self.rest(frames)

    def rest(self, frames: Mapping[str, DepthFrame] | None = None) -> Part:
        """Return what was gathered since the last part."""
        part, self._part = self._part, Part()
        part.frames = frames or {}
        return part

    def _followed(self, record: TickRecord) -> OdometryState:
        """Return the odometry after a tick: the runtime's, or integrated again where a recording has none."""
        if record.after is not None:
            return record.after.wheels
        for message in record.inputs.odometry:
            self._wheels = odometry.advance(self._wheels, message, self._section)
        return self._wheels

    def _note_fixes(self, record: TickRecord, wheels: OdometryState) -> None:
        yaw = record.odometry.pose.yaw_rad
        before, turned = self._yaw or (yaw, 0.0)
        turned += wrap(yaw - before)
        self._yaw = yaw, turned
        for fix in record.inputs.fixes:
            then = odometry.at(wheels, fix.stamp_ns)
            if then is None:
                continue
            covariance = np.zeros((3, 3)) if fix.covariance is None else fix.covariance
            sd_m = max(self._section.localization_sd[0], math.sqrt(max(0.0, covariance[0, 0], covariance[1, 1])))
            sd_rad = max(self._section.localization_sd[2], math.sqrt(max(0.0, covariance[2, 2])))
            since = wrap(yaw - then.motion.pose.yaw_rad)
            way_m = wheels.travelled_m
            self._part.places.append((way_m, turned - since, then.motion.pose, fix.pose, sd_m, sd_rad))


# ---- The floor in one image

PIXELS = 5000
"""About so many pixels of an image are used."""
TILT = math.tan(math.radians(8.0))
LIFT_M = 0.06
"""Points may be so far from the expected floor: LIFT_M, and TILT times their distance."""
FAR_M = 4.0
SCALES_PER_M = (0.06, 0.04, 0.025, 0.015, 0.01, 0.007, 0.007, 0.007)
"""Width of Tukey's weights in 1/depth, in the rounds of the fit; the noise of stereo is constant in 1/depth [1/m]."""
LEAST_PIXELS, LEAST_SHARE = 80, 0.25
FLATTEST_DEG = 0.5
"""A floor that tells the tilt less well than this standard deviation is not used."""


def floor(depth: npt.NDArray[np.uint16], mount: Mount) -> tuple[float, float, float] | None:
    """Return the floor in an image against the mount; None if too little of it is seen.

    The result is the x and y of the floor's normal in the base frame [rad], 0 for a level one, and how much higher the
    camera is than the mount says [m]. A plane is linear in 1/depth: least squares with Tukey's weights, ever narrower.
    """
    stride = max(1, round(math.sqrt(depth.size / PIXELS)))
    image = depth[stride // 2 :: stride, stride // 2 :: stride]
    v, u = np.nonzero(image)
    forward = image[v, u] * mount.depth_scale_m
    across, down = (
        ((u * stride + stride // 2) - mount.cx) / mount.fx,
        ((v * stride + stride // 2) - mount.cy) / mount.fy,
    )
    rays = np.column_stack([across, down, np.ones(len(u))])
    rotation, height_m = mount.base_from_camera[:3, :3], float(mount.base_from_camera[2, 3])
    rising = rays @ rotation[2]
    away_m = forward * np.linalg.norm(rays, axis=1)
    near = (np.abs(forward * rising + height_m) < LIFT_M + TILT * away_m) & (away_m < FAR_M)
    near &= forward > (mount.least_m or 0.0)
    rays, per_m = rays[near], 1.0 / forward[near]
    if len(per_m) < LEAST_PIXELS or height_m <= 0.0:
        return None
    plane = -rotation[2] / height_m
    for scale in SCALES_PER_M:
        off = per_m - rays @ plane
        weight = np.square(np.clip(1.0 - np.square(off / (3.0 * scale)), 0.0, None))
        information = rays.T @ (weight[:, None] * rays)
        if np.linalg.cond(information) > 1e8:
            return None
        plane = np.linalg.solve(information, rays.T @ (weight * per_m))
    inside = weight > 0.5
    if inside.sum() < max(LEAST_PIXELS, LEAST_SHARE * len(per_m)):
        return None
    found_m = 1.0 / float(np.linalg.norm(plane))
    spread = np.linalg.inv(information) * float(np.mean(np.square(off[inside]))) * found_m**2
    if math.degrees(math.sqrt(float(np.linalg.eigvalsh(spread)[-1]))) > FLATTEST_DEG:
        return None
    normal = rotation @ (-plane * found_m)
    return float(normal[0]), float(normal[1]), found_m - height_m


# ---- The response of one axis

RATIOS = np.exp(np.linspace(math.log(0.4), math.log(1.8), 31))
"""How much faster than the plant the base may be: factors on its natural frequencies."""
WINDOW_S = 5.0
MOST_GAP_S = 0.1
LEAST_WINDOWS = 4
EXCITED = {"linear": 0.2, "angular": 0.4}
"""A window counts if its commands differ by so much [m/s, rad/s]."""


_VECTOR = types.float64[::1]


@kernel(signature=types.float64(_VECTOR, _VECTOR, _VECTOR, _VECTOR, types.float64))
def missed(
    commands: Floats, speeds: Floats, dt_s: Floats, axis: Floats, ratio: float
) -> float:  # pragma: no cover - compiled
    """Return the sum of squares by which a plant with `ratio` times its frequencies misses the speeds.

    commands, speeds, dt_s: (n,) of ticks; the command of a tick acts until the next, dt_s later
    """
    scaled = axis.copy()
    scaled[0] *= ratio
    scaled[1] *= ratio
    speed, rate, total = speeds[0], 0.0, 0.0
    for k in range(len(commands) - 1):
        speed, rate = step_axis(commands[k], speed, rate, scaled, dt_s[k])
        total += (speed - speeds[k + 1]) ** 2
    return total


def response(
    t_s: Floats, commands: Floats, speeds: Floats, axis: Axis, delay_s: float, least: float
) -> tuple[float, float] | None:
    """Return by how much of its natural frequency an axis answers faster than the plant, and the standard deviation.

    t_s, commands, speeds: (n,) of ticks; least: change of the commands in a window that counts
    None if too few windows count. 0 is as the plant says, -0.3 is 30 % slower.
    """
    if len(t_s) < 2:
        return None
    late = round(delay_s / max(float(np.median(np.diff(t_s))), 1e-3))
    given = np.concatenate([np.zeros(min(late, len(commands))), commands[: max(0, len(commands) - late)]])
    cuts = np.flatnonzero(np.diff(t_s) > MOST_GAP_S) + 1
    errors = []
    for span in np.split(np.arange(len(t_s)), cuts):
        count = max(1, int((t_s[span[-1]] - t_s[span[0]]) / WINDOW_S))
        for window in np.array_split(span, count):
            if len(window) > 20 and np.ptp(given[window]) > least:
                dt_s, table = np.diff(t_s[window]), axis.as_array()
                ways = given[window].astype(np.float64), speeds[window].astype(np.float64)
                errors.append([missed(*ways, dt_s, table, ratio) for ratio in RATIOS])
    if len(errors) < LEAST_WINDOWS:
        return None
    table = np.array(errors)
    rng = np.random.default_rng(0)
    drawn = [_lowest(table[rng.integers(0, len(table), len(table))].sum(axis=0)) for _ in range(50)]
    return math.exp(_lowest(table.sum(axis=0))) - 1.0, float(np.std(drawn))


def _lowest(errors: Floats) -> float:
    """Return the logarithm of the ratio with the least error, by a parabola through its neighbours."""
    at = int(np.clip(np.argmin(errors), 1, len(errors) - 2))
    low, middle, high = errors[at - 1 : at + 2]
    bent = low - 2.0 * middle + high
    step = float(np.log(RATIOS[1] / RATIOS[0]))
    return float(
        np.log(RATIOS[at]) + (0.5 * step * float(np.clip((low - high) / bent, -2.0, 2.0)) if bent > 0.0 else 0.0)
    )


# ---- All checks of a session

MOST_ROWS, MOST_PLACES, MOST_IMAGES = 18_000, 1000, 300
"""Ticks, fixes and images that are kept, the newest: ten minutes of driving."""
LEAST_IMAGES = 5
OVERLAP_M = 6.0
"""Ranges up to here are compared between cameras."""
CHORD_M = 2.0
"""Two fixes at least so far apart tell the length of the way between them."""
LEAST_CHORDS = 5
WAY_M, LEAST_FIXES, LEAST_REACH_M = 8.0, 4, 0.7
"""A way is laid on its fixes: its length, the number of fixes, and their root mean square distance from their mean."""
LEAST_WAYS = 3
LEAST_DIFFERENCES = 20
MOST_DIFFERENCE_M = 1.0
"""Cameras that differ by more see different things in a bin."""
FLOOR_SD = {"tilt_deg": 0.1, "height_m": 0.003}
"""Least standard deviation of a floor: the base itself is not level to better."""
SMALLEST_SD = 0.002
"""Least standard deviation of a factor of the wheels."""


class Session:
    """The checks of one run. Not thread-safe."""

    def __init__(self, config: Config, mounts: Mounts, plant: Plant) -> None:
        self._plant = plant
        named = config.scan.cameras or list(mounts.depth)
        self._mounts = {name: mount for name, mount in mounts.depth.items() if name in named and not config.scan.topic}
        boxes_m = np.array(config.scan.body_boxes_m, np.float64).reshape(-1, 6)
        limits = config.scan.near_m, min(config.scan.far_m, OVERLAP_M), config.scan.z_min_m, config.scan.z_max_m
        self._eyes = {
            name: eye_of(
                (one.height, one.width), one.fx, one.fy, one.cx, one.cy, one.depth_scale_m, one.base_from_camera,
                *limits, boxes_m,
            )
            for name, one in self._mounts.items()
        }  # fmt: skip
        self._rows: deque[tuple[float, ...]] = deque(maxlen=MOST_ROWS)
        self._places: deque[Place] = deque(maxlen=MOST_PLACES)
        self._floors = {name: deque[tuple[float, float, float]](maxlen=MOST_IMAGES) for name in self._mounts}
        self._apart = {pair: deque[Floats](maxlen=MOST_IMAGES) for pair in combinations(self._mounts, 2)}

    def take(self, part: Part) -> None:
        """Take what some ticks gave. The images take some milliseconds."""
        self._rows.extend(part.motions)
        self._places.extend(part.places)
        images = {name: frame.depth for name, frame in part.frames.items() if name in self._mounts}
        images = {name: image for name, image in images.items() if image.shape == self._shape(name)}
        for name, image in images.items():
            seen = floor(image, self._mounts[name])
            if seen is not None:
                self._floors[name].append(seen)
        ranges_m = {name: self._ranges(name, image) for name, image in images.items()}
        for first, second in combinations(ranges_m, 2):
            apart = ranges_m[first] - ranges_m[second]
            apart = apart[np.isfinite(apart)]
            apart = apart[np.abs(apart) < MOST_DIFFERENCE_M]
            if len(apart):
                self._apart[first, second].append(apart)

    def health(self) -> Health:
        """Return all comparisons so far."""
        checks: list[Check] = []
        unmeasured: dict[str, str] = {}
        for found, named, why in (*self._of_floors(), *self._of_overlaps(), *self._of_wheels(), *self._of_response()):
            checks += found
            if not found:
                unmeasured[named] = why
        return Health(tuple(checks), unmeasured)

    def _shape(self, name: str) -> tuple[int, int]:
        return self._mounts[name].height, self._mounts[name].width

    def _ranges(self, name: str, image: npt.NDArray[np.uint16]) -> Floats:
        """Return (180,) the scan of one camera, NaN where it sees nothing."""
        ranges_m = np.full(BINS, np.inf, np.float32)
        lower_ranges(ranges_m, np.ascontiguousarray(image), self._eyes[name], planar(IDENTITY))
        ranges_m[~np.isfinite(ranges_m)] = np.nan
        return ranges_m.astype(np.float64)

    def _of_floors(self) -> Iterator[Compared]:
        for name, floors in self._floors.items():
            if len(floors) < LEAST_IMAGES:
                yield (), f"{name} floor", f"seen in {len(floors)} images, needed are {LEAST_IMAGES}"
                continue
            mount, table = self._mounts[name], np.array(floors)
            (x, y, lift_m), spread = np.median(table, axis=0), _spread(table)
            tilt_deg, tilt_sd = math.degrees(math.hypot(x, y)), math.degrees(math.hypot(spread[0], spread[1]))
            stated = {
                "tilt_deg": None if mount.sd_deg is None else math.hypot(*mount.sd_deg[:2]),
                "height_m": None if mount.sd_m is None else mount.sd_m[2],
            }
            found = []
            for what, value, sd in (("tilt_deg", tilt_deg, tilt_sd), ("height_m", float(lift_m), float(spread[2]))):
                limits = _limits(what, stated[what])
                kind = what.partition("_")[0]
                found.append(Check(f"{name} {kind}", what, value, max(sd, FLOOR_SD[what]), *limits))
            yield found, f"{name} floor", ""

    def _of_overlaps(self) -> Iterator[Compared]:
        for (first, second), rows in self._apart.items():
            apart, name = np.concatenate([*rows, np.zeros(0)]), f"{first} and {second}"
            if len(apart) >= LEAST_DIFFERENCES and len(rows) >= LEAST_IMAGES:
                medians = np.array([[np.median(row)] for row in rows])
                sd = max(float(_spread(medians)[0]), 0.005)
                yield (Check(name, "overlap_m", float(np.median(apart)), sd, *LIMITS["overlap_m"]),), name, ""
            elif len(rows):
                yield (), name, f"{len(apart)} bins seen by both, needed are {LEAST_DIFFERENCES}"

    def _of_wheels(self) -> Iterator[Compared]:
        ways = list(_ways(list(self._places)))
        if len(ways) < LEAST_WAYS:
            yield (), "wheels speed", f"{len(ways)} ways of {WAY_M:g} m with fixes, needed are {LEAST_WAYS}"
        else:
            ratio, sd_each = np.array(ways).T
            weight = 1.0 / np.square(sd_each)
            mean = float(np.average(ratio, weights=weight))
            scatter = math.sqrt(float(np.average(np.square(ratio - mean), weights=weight)) / (len(ratio) - 1))
            sd = max(scatter, 1.0 / math.sqrt(float(weight.sum())), SMALLEST_SD)
            yield (Check("wheels speed", "speed", mean, sd, *LIMITS["speed"]),), "wheels speed", ""
        chords = list(_chords(list(self._places)))
        if len(chords) < LEAST_CHORDS:
            yield (), "wheels turning", f"{len(chords)} ways of {CHORD_M:g} m between fixes, needed are {LEAST_CHORDS}"
            return
        turned, turn_off, way, sd_rad = np.array(chords).T
        design = np.column_stack([turned, way]) / sd_rad[:, None]
        with suppress(np.linalg.LinAlgError):
            covariance = np.linalg.inv(design.T @ design)
            values = covariance @ design.T @ (turn_off / sd_rad)
            off = turn_off / sd_rad - design @ values
            factor = math.sqrt(max(1.0, float(off @ off) / max(1, len(off) - 2)))
            for name, value, variance in zip(("turning", "turn_per_m"), values, np.diag(covariance), strict=True):
                sd = max(factor * math.sqrt(float(variance)), SMALLEST_SD)
                yield (Check(f"wheels {name}", name, float(value), sd, *LIMITS[name]),), f"wheels {name}", ""

    def _of_response(self) -> Iterator[Compared]:
        rows = np.array(self._rows).reshape(-1, 5)
        t_s, asked, shown = rows[:, 0], rows[:, 1:3], rows[:, 3:5]
        delay_s = self._plant.base.command_delay_s
        for column, (name, axis) in enumerate((("linear", self._plant.linear), ("angular", self._plant.angular))):
            found = response(t_s, asked[:, column], shown[:, column], axis, delay_s, EXCITED[name])
            label = f"{name} response"
            if found is None:
                yield (), label, f"fewer than {LEAST_WINDOWS} windows of {WINDOW_S:g} s with a change of the command"
            else:
                yield (Check(label, "response", *found, *LIMITS["response"]),), label, ""


Compared = tuple[Sequence[Check], str, str]
"""Checks, what they are about, and why there are none."""


def _spread(table: Floats) -> Floats:
    """Return the standard deviations of the medians of columns, from the medians of the absolute deviations."""
    deviation = np.median(np.abs(table - np.median(table, axis=0)), axis=0)
    found: Floats = 1.25 * 1.48 * deviation / math.sqrt(len(table))
    return found


def _limits(quantity: str, stated_sd: float | None) -> tuple[float, float]:
    """Return the limits of a quantity of which a calibration states the standard deviation, if it does."""
    if stated_sd is None:
        return LIMITS[quantity]
    least = LEAST_LIMITS[quantity]
    return max(3.0 * stated_sd, least[0]), max(6.0 * stated_sd, least[1])


def _ways(places: Sequence[Place]) -> Iterator[tuple[float, float]]:
    """Yield for each way with enough fixes: by how much it is longer by the fixes than by the wheels, and the sd.

    The wheels' positions are laid on the fixes by the similarity of least squares; its scale is the ratio.
    """
    first = 0
    for now, place in enumerate(places):
        if place[0] < places[first][0]:
            first = now
        if place[0] - places[first][0] < WAY_M and now + 1 < len(places):
            continue
        way, first = places[first : now + 1], now
        ours = np.array([complex(wheels.x_m, wheels.y_m) for _, _, wheels, _, _, _ in way])
        theirs = np.array([complex(fix.x_m, fix.y_m) for _, _, _, fix, _, _ in way])
        ours, theirs = ours - ours.mean(), theirs - theirs.mean()
        squares = float(np.sum(np.abs(ours) ** 2))
        if len(way) >= LEAST_FIXES and squares > len(way) * LEAST_REACH_M**2:
            ratio = abs(np.vdot(ours, theirs)) / squares
            yield ratio - 1.0, float(np.mean([row[4] for row in way])) / math.sqrt(squares)


def _chords(places: Sequence[Place]) -> Iterator[tuple[float, float, float, float]]:
    """Yield for each way between two fixes: turn by the wheels, by how much the fixes turn more, way [m], sd [rad]."""
    since = 0
    for now, (way_m, turn, wheels, fix, _, sd_rad) in enumerate(places):
        first_m, first_turn, first_wheels, first_fix, _, first_sd_rad = places[since]
        if way_m < first_m:
            since = now
        if way_m - first_m < CHORD_M:
            continue
        more = wrap(fix.yaw_rad - first_fix.yaw_rad) - wrap(wheels.yaw_rad - first_wheels.yaw_rad)
        yield turn - first_turn, wrap(more), way_m - first_m, math.hypot(sd_rad, first_sd_rad)
        since = now


# ---- The checks beside a run

ASSESS_EVERY = 15
"""Parts between two assessments: half a minute."""
MOST_WAITING = 30
"""Parts that may wait; more are dropped, as the machine has no time for them."""
END_S = 5.0


class Monitor:
    """A listener that hands each part of a run to a thread, and tells the newest comparison."""

    def __init__(self, config: Config, mounts: Mounts, plant: Plant) -> None:
        self.health = Health()
        self._gatherer = Gatherer(config)
        self._session = Session(config, mounts, plant)
        self._parts: SimpleQueue[Part | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)
        self._thread.start()

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Gather a tick. Never waits."""
        part = self._gatherer.take(record)
        if part is not None and self._parts.qsize() < MOST_WAITING:
            self._parts.put(part)

    def diagnostic(self) -> Diagnostic:
        """Return the row of `/diagnostics`; a difference is a warning, as the robot drives on."""
        health = self.health
        values = {one.name: f"{one.value:+.4g} {one.verdict}" for one in health.checks}
        return "calibration", int(health.verdict != OK), health.message, values

    def close(self) -> None:
        """Compare the whole run and log it in one line. For after the last command to the base. Safe to call twice."""
        if not self._thread.is_alive():
            return
        self._parts.put(self._gatherer.rest())
        self._parts.put(None)
        self._thread.join(END_S)
        told = {one.name.replace(" ", "_"): round(one.value, 4) for one in self.health.checks}
        log.info("health", verdict=self.health.verdict, **told)

    def _run(self) -> None:
        step_down(INFERENCE_BELOW)
        try:
            for number, part in enumerate(iter(self._parts.get, None), start=1):
                self._session.take(part)
                if number % ASSESS_EVERY == 0:
                    self.health = self._session.health()
            self.health = self._session.health()
        except Exception as error:  # noqa: BLE001 - a check that fails must not end the run
            log.warning("health_ended", error=f"{type(error).__name__}: {error}")


# ---- The cameras at the start

LOOKS, PAUSE_S = 3, 2.0
"""A camera may come late on the bus: the runtime looks so often before it refuses."""


def check_cameras(
    mounts: Mounts,
    section: CamerasSection,
    devices: Callable[[], Sequence[Device]] = list_devices,
    info: Callable[[Source], object] = read_intrinsics,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Compare the RealSense cameras that are plugged in with the mounts. Without such a camera do nothing.

    Raises ConfigError if another camera is there in place of one of the mounts, and if images have another size or
    depth scale. A camera that is only missing, or does not answer, is no mismatch: it is blind until it comes.
    """
    live = [source for source in camera_sources(mounts, section) if source.serial and not source.recording]
    known = {source.serial for source in live} | {
        one.serial for one in (*mounts.depth.values(), *mounts.color.values())
    }
    if not live:
        return
    try:
        for look in range(LOOKS):
            found = {one.serial for one in devices()}
            missing = [source for source in live if source.serial not in found]
            strangers = sorted(found - known)
            if not missing or not strangers:
                break
            if look + 1 < LOOKS:
                pause(PAUSE_S)
        else:
            raise ConfigError(
                f"{mounts.path}: camera {missing[0].camera}: serial {missing[0].serial} is not plugged in, but "
                f"{', '.join(strangers)} is: was the camera changed? Calibrate it and write its serial"
            )
        for source in live:
            if source not in missing:
                info(source)
    except InputError as error:
        raise ConfigError(f"{mounts.path}: {error}") from error
    except DriverError as error:
        log.warning("cameras_not_compared", error=str(error))
