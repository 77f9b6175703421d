"""All checks of a session: floors, overlap of cameras, wheels against localisation, response."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations

import numpy as np
import numpy.typing as npt
from numba import types

from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.config.plant_model import Axis, Plant, step_axis
from onboard.health.floor import expects_floor, floor
from onboard.health.gatherer import Place, TickExcerpt
from onboard.health.verdict import LEAST_LIMITS, LIMITS, Check, Health
from onboard.perception.fusion_kernel import lower_ranges, projection_of
from onboard.perception.kernels import NEAR_M, planar
from onboard.values.geometry import IDENTITY, wrap
from onboard.values.kernel import kernel
from onboard.values.messages import BINS

RATIOS = np.exp(np.linspace(math.log(0.4), math.log(1.8), 31))
"""How much faster than the plant the base may be: factors on its natural frequencies."""
WINDOW_S = 5.0
MOST_GAP_S = 0.1
LEAST_WINDOWS = 4
EXCITED = {"linear": 0.2, "angular": 0.4}
"""A window counts if its commands differ by so much [m/s, rad/s]."""


_VECTOR = types.float64[::1]


@kernel(signature=types.float64(_VECTOR, _VECTOR, _VECTOR, _VECTOR, types.float64))
def squared_error(
    commands: Floats, speeds: Floats, dt_s: Floats, axis: Floats, ratio: float
) -> float:  # pragma: no cover - compiled
    """Return the sum of squares of the speed errors of a plant with `ratio` times its frequencies.

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
                errors.append([squared_error(*ways, dt_s, table, ratio) for ratio in RATIOS])
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


Floats = npt.NDArray[np.float64]

MOST_ROWS, MOST_PLACES, MOST_IMAGES = 18_000, 1000, 300
"""Ticks, fixes and images that are kept, the newest: ten minutes of driving."""
LEAST_IMAGES = 5
MISSED_IMAGES, MISSED_SHARE = 30, 0.1
"""A camera that should see the floor, and sees it in less than this share of this many images, may have moved."""
FILLED_SHARE = 0.3
"""Share of pixels with a depth in an image that counts."""
OVERLAP_M = 6.0
"""Ranges up to here are compared between cameras."""
CHORD_M = 2.0
"""Two fixes at least so far apart measure the length of the path between them."""
LEAST_CHORDS = 5
WAY_M, LEAST_FIXES, LEAST_REACH_M = 8.0, 4, 0.7
"""A stretch is fitted to its fixes: its length, the number of fixes, and their rms distance from their mean."""
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
        self._mounts = {
            name: mount for name, mount in mounts.depth.items() if name in named and config.scan.uses_cameras
        }
        boxes_m = np.array(config.scan.body_boxes_m, np.float64).reshape(-1, 6)
        limits = NEAR_M, min(config.scan.far_m, OVERLAP_M), config.scan.z_min_m, config.scan.z_max_m
        self._projections = {
            name: projection_of(
                (one.height, one.width), one.fx, one.fy, one.cx, one.cy, one.depth_scale_m, one.base_from_camera,
                *limits, boxes_m,
            )
            for name, one in self._mounts.items()
        }  # fmt: skip
        self._rows: deque[tuple[float, ...]] = deque(maxlen=MOST_ROWS)
        self._places: deque[Place] = deque(maxlen=MOST_PLACES)
        self._floors = {name: deque[tuple[float, float, float]](maxlen=MOST_IMAGES) for name in self._mounts}
        self._expected = {name: expects_floor(mount) for name, mount in self._mounts.items()}
        self._sights = {name: deque[bool](maxlen=MOST_IMAGES) for name in self._mounts}
        self._differences = {pair: deque[Floats](maxlen=MOST_IMAGES) for pair in combinations(self._mounts, 2)}

    def take(self, part: TickExcerpt) -> None:
        """Take what some ticks gave. The images take some milliseconds."""
        self._rows.extend(part.motions)
        self._places.extend(part.places)
        images = {name: frame.depth for name, frame in part.frames.items() if name in self._mounts}
        images = {name: image for name, image in images.items() if image.shape == self._shape(name)}
        for name, image in images.items():
            seen = floor(image, self._mounts[name])
            if seen is not None:
                self._floors[name].append(seen)
            if np.count_nonzero(image) >= FILLED_SHARE * image.size:
                self._sights[name].append(seen is not None)
        ranges_m = {name: self._ranges(name, image) for name, image in images.items()}
        for first, second in combinations(ranges_m, 2):
            difference = ranges_m[first] - ranges_m[second]
            difference = difference[np.isfinite(difference)]
            difference = difference[np.abs(difference) < MOST_DIFFERENCE_M]
            if len(difference):
                self._differences[first, second].append(difference)

    def health(self) -> Health:
        """Return all comparisons so far."""
        checks: list[Check] = []
        unmeasured: dict[str, str] = {}
        for found, named, why in (*self._of_floors(), *self._of_overlaps(), *self._of_wheels(), *self._of_response()):
            checks += found
            if not found:
                unmeasured[named] = why
        return Health(tuple(checks), unmeasured, dict(self._missed()))

    def _missed(self) -> Iterator[tuple[str, str]]:
        """Yield each camera that should see the floor and does not, and how often it saw it."""
        for name, sights in self._sights.items():
            if self._expected[name] and len(sights) >= MISSED_IMAGES and sum(sights) < MISSED_SHARE * len(sights):
                yield f"{name} floor", f"seen in {sum(sights)} of {len(sights)} images; has the camera moved?"

    def _shape(self, name: str) -> tuple[int, int]:
        return self._mounts[name].height, self._mounts[name].width

    def _ranges(self, name: str, image: npt.NDArray[np.uint16]) -> Floats:
        """Return (180,) the scan of one camera, NaN where it sees nothing."""
        ranges_m = np.full(BINS, np.inf, np.float32)
        lower_ranges(ranges_m, np.ascontiguousarray(image), self._projections[name], planar(IDENTITY))
        ranges_m[~np.isfinite(ranges_m)] = np.nan
        return ranges_m.astype(np.float64)

    def _of_floors(self) -> Iterator[Compared]:
        for name, floors in self._floors.items():
            if len(floors) < LEAST_IMAGES:
                yield (), f"{name} floor", f"seen in {len(floors)} images, at least {LEAST_IMAGES} needed"
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
        for (first, second), rows in self._differences.items():
            difference, name = np.concatenate([*rows, np.zeros(0)]), f"{first} and {second}"
            if len(difference) >= LEAST_DIFFERENCES and len(rows) >= LEAST_IMAGES:
                medians = np.array([[np.median(row)] for row in rows])
                sd = max(float(_spread(medians)[0]), 0.005)
                yield (Check(name, "overlap_m", float(np.median(difference)), sd, *LIMITS["overlap_m"]),), name, ""
            elif len(rows):
                yield (), name, f"{len(difference)} bins seen by both, at least {LEAST_DIFFERENCES} needed"

    def _of_wheels(self) -> Iterator[Compared]:
        ways = list(_ways(list(self._places)))
        if len(ways) < LEAST_WAYS:
            yield (), "wheels speed", f"{len(ways)} stretches of {WAY_M:g} m with fixes, at least {LEAST_WAYS} needed"
        else:
            ratio, sd_each = np.array(ways).T
            weight = 1.0 / np.square(sd_each)
            mean = float(np.average(ratio, weights=weight))
            scatter = math.sqrt(float(np.average(np.square(ratio - mean), weights=weight)) / (len(ratio) - 1))
            sd = max(scatter, 1.0 / math.sqrt(float(weight.sum())), SMALLEST_SD)
            yield (Check("wheels speed", "speed", mean, sd, *LIMITS["speed"]),), "wheels speed", ""
        chords = list(_chords(list(self._places)))
        if len(chords) < LEAST_CHORDS:
            yield (
                (),
                "wheels turning",
                f"{len(chords)} stretches of {CHORD_M:g} m between fixes, at least {LEAST_CHORDS} needed",
            )
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
        t_s, commands, shown = rows[:, 0], rows[:, 1:3], rows[:, 3:5]
        delay_s = self._plant.base.command_delay_s
        for column, (name, axis) in enumerate((("linear", self._plant.linear), ("angular", self._plant.angular))):
            found = response(t_s, commands[:, column], shown[:, column], axis, delay_s, EXCITED[name])
            label = f"{name} response"
            if found is None:
                yield (), label, f"fewer than {LEAST_WINDOWS} windows of {WINDOW_S:g} s with a change of the command"
            else:
                yield (Check(label, "response", *found, *LIMITS["response"]),), label, ""


Compared = tuple[Sequence[Check], str, str]
"""Checks, their label, and the reason if there are no checks."""


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
    """Yield for each stretch with enough fixes: by how much it is longer by the fixes than by the wheels, and the sd.

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
    """Yield for each stretch between two fixes: turn by the wheels, excess turn by the fixes, length [m], sd [rad]."""
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
