"""Judges a fit of the wheels: what is measured well enough, and UMBmark's errors.

UMBmark (Borenstein and Feng, "Measurement and correction of systematic odometry errors in mobile robots", IEEE
Transactions on Robotics and Automation 12(6), 1996): from the return errors of squares driven in both directions come
alpha, beta, E_b (track over nominal track) and E_d (right over left wheel diameter). Squares say nothing of the speed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calib.dynamics.plausibility import FASTEST_MPS, FASTEST_RADPS
from calib.wheels.fit import FitResult, Reference, between, chained, driven, fit
from calib.wheels.runs import Floats, Run, yaw_of
from onboard.values.errors import InputError

NAMES = ("speed", "turning", "turn_per_m")
GOOD_SD = (0.005, 0.005, 0.003)
"""A factor with a larger standard deviation is doubtful: 5 cm in 10 m, 2 deg a turn, 2 deg in 10 m."""
MOST_SD = (0.02, 0.02, 0.01)
"""A factor with a larger standard deviation is not measured: the differences that `verify` watches for are smaller."""
FACTOR_WITHIN = (0.5, 2.0)
"""The limits of `odometry.correction`."""
LEAST_WAY_M = 8.0
GOOD_TURN_RAD, LEAST_TURN_RAD = 1.9 * math.pi, math.pi
"""To the left, and to the right: a whole turn, less what wheels may be wrong by; with half a turn it is doubtful."""
MOST_NOISE = 10.0
"""Random errors beyond this multiple of the usual ones: reference and wheels do not match, or the base slips."""
SWAY_RAD = 0.1
NEUTRAL = np.array([1.0, 1.0, 0.0])


@dataclass(frozen=True, slots=True)
class Wheels:
    """What the wheels are by some drives.

    reasons:  why the result is refused; empty if it is not
    doubts:   why it is less certain than it should be
    notes:    what was not measured, and why
    umbmark:  errors of UMBmark; empty without loops in both directions
    """

    fitted: FitResult
    way_m: float
    left_rad: float
    right_rad: float
    reasons: tuple[str, ...]
    doubts: tuple[str, ...]
    notes: tuple[str, ...]
    umbmark: dict[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Return "accepted", "doubtful" or "refused"; a robot may use the first two."""
        return "refused" if self.reasons else "doubtful" if self.doubts else "accepted"

    @property
    def correction(self) -> tuple[float, float, float]:
        """`odometry.correction`, neutral in what was not measured."""
        measured = np.where(self.fitted.sd <= MOST_SD, self.fitted.factors, NEUTRAL)
        return (float(measured[0]), float(measured[1]), float(measured[2]))


def measured(drives: Sequence[Reference], track_m: float | None = None) -> Wheels:
    """Return the wheel factors that the drives show. track_m: the track that the base believes in, for the radii.

    Raises InputError for data that cannot be of one robot: a swapped sign, degrees, another drive's reference.
    """
    for drive in drives:
        _check_gaps(drive)
        _check_signs(drive)
        _check_speeds(drive.run)
    try:
        fitted = fit(drives)
    except ValueError as error:
        raise InputError(f"{drives[0].run.name}: {error}") from error
    _check_direction(drives, fitted)
    way_m = sum(float(np.abs(drive.run.way_m).sum()) for drive in drives)
    left, right = (sum(sides) for sides in zip(*(_turned(drive.run) for drive in drives), strict=True))
    reasons, doubts, notes = _judged(fitted, way_m, left, right)
    left_out = tuple(f"{line}; this drive is not used" for drive in drives for line in drive.run.silences)
    return Wheels(fitted, way_m, left, right, reasons, doubts, (*left_out, *notes), _umbmark(drives, fitted, track_m))


def result(wheels: Wheels, track_m: float | None = None) -> dict[str, Any]:
    """Return the plain values of a result. A number that was not measured is None."""
    fitted = wheels.fitted
    known = fitted.sd <= MOST_SD
    return {
        "accepted": wheels.verdict == "accepted",
        "verdict": wheels.verdict,
        "reason": "; ".join(wheels.reasons or wheels.doubts),
        "notes": list(wheels.notes),
        "correction": None if wheels.reasons else list(wheels.correction),
        **{name: _number(value, ok) for name, value, ok in zip(NAMES, fitted.factors, known, strict=True)},
        "sd": {name: _number(value, np.isfinite(value)) for name, value in zip(NAMES, fitted.sd, strict=True)},
        "track_ratio": _number(fitted.factors[0] / fitted.factors[1], known[0] and known[1]),
        "radii_ratio": None
        if track_m is None
        else _number(_radii_ratio(wheels.correction, track_m), known[1] & known[2]),
        "umbmark": wheels.umbmark or None,
        "drives": {
            "count": len(fitted.poses),
            "way_m": round(wheels.way_m, 2),
            "left_turns": round(wheels.left_rad / (2 * math.pi), 2),
            "right_turns": round(wheels.right_rad / (2 * math.pi), 2),
            "wheel_noise": round(fitted.noise, 3),
            "reference_noise": round(fitted.reference, 3),
        },
    }


def _number(value: float, known: bool | np.bool_) -> float | None:
    return round(float(value), 6) if known else None


def _radii_ratio(factors: tuple[float, float, float], track_m: float) -> float:
    """Return right over left radius. track_m: nominal."""
    speed, turning, turn_per_m = factors
    difference = turn_per_m * track_m * speed / turning
    return (speed + difference / 2.0) / (speed - difference / 2.0)


def _turned(run: Run) -> tuple[float, float]:
    """Return the whole turn of a drive to the left and to the right [rad]; turns below `SWAY_RAD` do not count."""
    turned, low, high = {1: 0.0, -1: 0.0}, 0.0, 0.0
    for yaw in np.cumsum(run.turn_rad):
        low, high = min(low, yaw), max(high, yaw)
        for sign, since in ((1, low), (-1, high)):
            if sign * (yaw - since) > SWAY_RAD:
                turned[sign] += sign * (yaw - since)
                low = high = float(yaw)
    return turned[1], turned[-1]


def _judged(
    fitted: FitResult, way_m: float, left: float, right: float
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return why a fit is refused, why it is doubtful, and what it leaves open."""
    reasons, doubts, notes = list[str](), list[str](), list[str]()
    if way_m < LEAST_WAY_M:
        reasons.append(f"only {way_m:.1f} m driven, at least {LEAST_WAY_M:g} m needed")
    for side, turned in (("left", left), ("right", right)):
        if turned < GOOD_TURN_RAD:
            turns = f"only {turned / (2 * math.pi):.2f} turns to the {side}"
            if turned < LEAST_TURN_RAD:
                reasons.append(f"{turns}, at least one full turn to each side needed")
            else:
                doubts.append(f"{turns}, a full turn is better")
    if fitted.noise > MOST_NOISE:
        reasons.append(
            f"wheels and reference differ by {fitted.noise:.0f} times the noise of wheels: slip, or not the same drive"
        )
    for name, value, sd, good, most in zip(NAMES, fitted.factors, fitted.sd, GOOD_SD, MOST_SD, strict=True):
        scatter = (
            "the data do not determine it" if math.isinf(sd) else f"its standard deviation is {sd:.4f}, limit {most:g}"
        )
        if sd > most and name == "speed":
            notes.append(f"speed not measured: {scatter}; drive a straight line of known length")
        elif sd > most:
            reasons.append(f"{name} not measured: {scatter}")
        elif name != "turn_per_m" and not FACTOR_WITHIN[0] <= value <= FACTOR_WITHIN[1]:
            unit = (
                "" if 0.1 < value < 10.0 else ": t_s, v and the reference are of different units; must be s, m/s and m"
            )
            reasons.append(f"{name} is {value:.3f}, outside {FACTOR_WITHIN[0]:g} to {FACTOR_WITHIN[1]:g}{unit}")
        elif sd > good:
            doubts.append(f"the standard deviation of {name} is {sd:.4f}, {good:g} is good: drive more loops")
    return tuple(reasons), tuple(doubts), tuple(notes)


# ---- Data of a wrong unit or sign

LEAST_FOLLOWED = 0.3
"""A gyroscope whose turns correlate less with those of the wheels measures something else."""
LEAST_AGREED = 0.6
"""A correlation beyond this determines a sign or a unit."""
SAME_SIZE = 0.2
"""Logarithm of a ratio up to which two quantities are of one size."""
DEGREE = math.pi / 180.0


def _check_gaps(drive: Reference) -> None:
    """Raise InputError for a gap in the odometry that the reference does not bridge."""
    located = len(drive.fixes.t_s) == len(drive.t_s) > 2
    if drive.run.gaps.any() and not located and (drive.links or drive.run.imu_rad is None):
        raise InputError(
            f"{drive.run.silences[0]}; only localisation or a gyroscope bridges it: use a drive without a gap"
        )


def _check_speeds(run: Run) -> None:
    """Raise InputError for speeds that only another unit explains."""
    dt_s = np.diff(run.t_s, prepend=run.t_s[0] - 1.0)
    for name, moved, most, unit in (("v", run.way_m, FASTEST_MPS, "m/s"), ("w", run.turn_rad, FASTEST_RADPS, "rad/s")):
        fast = float(np.percentile(np.abs(moved / dt_s), 99))
        if fast > most:
            raise InputError(f"{run.name}: {name} reaches {fast:.4g}: this seems to be another unit; must be {unit}")


def _check_signs(drive: Reference) -> None:
    """Raise InputError if w has the wrong sign or unit against the reference, or against the commands."""
    run = drive.run
    pairs = []
    if run.commanded_radps is not None:
        dt_s = np.diff(run.t_s, prepend=run.t_s[0] - 1.0)
        pairs.append(("the commands", run.commanded_radps, run.turn_rad / dt_s, run.way_m / dt_s))
    tied = ~run.has_gap(drive.t_s)
    steps = driven(run, drive.t_s, NEUTRAL)[tied]
    raw, ahead = steps[:, 2], steps[:, 0]
    if run.imu_rad is not None:
        turned = np.diff(np.interp(drive.t_s, run.t_s, np.cumsum(run.imu_rad)))[tied]
        pairs.append(("the gyroscope", turned - np.median(turned), raw, ahead))
    if len(drive.fixes.t_s) == len(drive.t_s) > 10:
        seen = between(drive.fixes.poses[:-1], drive.fixes.poses[1:])[tied]
        pairs.append(("the localisation", seen[:, 2], raw, ahead))
    for source, theirs, ours, way in pairs:
        if len(ours) < 10 or np.std(theirs) == 0.0 or np.std(ours) == 0.0:
            continue
        agreed = float(np.corrcoef(theirs, ours)[0, 1])
        if _alike(theirs, way) and not _alike(theirs, ours):
            raise InputError(f"{run.name}: v turns as {source} does, and w does not: v and w are swapped")
        if source == "the gyroscope" and abs(agreed) < LEAST_FOLLOWED:
            raise InputError(
                f"{run.name}: the gyroscope does not turn as the wheels do (correlation {agreed:.2f}); is its vertical "
                "axis the one that is read, and is it on this robot?"
            )
        if agreed < -LEAST_AGREED:
            raise InputError(f"{run.name}: w has the wrong sign: it turns against {source}")
        ratio = float(np.std(ours) / np.std(theirs))
        if agreed > LEAST_AGREED and abs(math.log(ratio * DEGREE)) < SAME_SIZE:
            raise InputError(f"{run.name}: w is in degrees: it is {ratio:.0f} times that of {source}, must be rad/s")
        if agreed > LEAST_AGREED and abs(math.log(ratio / DEGREE)) < SAME_SIZE:
            raise InputError(
                f"{run.name}: {source} turns {1.0 / ratio:.0f} times as far as w: it is in degrees, must be rad"
            )


def _alike(first: Floats, second: Floats) -> bool:
    """Return whether two quantities agree in course and size."""
    sizes = float(np.std(first)), float(np.std(second))
    if min(sizes) == 0.0 or abs(math.log(sizes[0] / sizes[1])) >= SAME_SIZE:
        return False
    return float(np.corrcoef(first, second)[0, 1]) > LEAST_AGREED


SURE_SD = 3.0


def _check_direction(drives: Sequence[Reference], fitted: FitResult) -> None:
    """Raise InputError if the base would drive backward by the reference: v or w is mirrored."""
    speed, sd = float(fitted.factors[0]), float(fitted.sd[0])
    if speed + SURE_SD * sd < 0.0:
        raise InputError(
            f"{', '.join(drive.run.name for drive in drives)}: v or w has the wrong sign: by the reference the base "
            f"drives {speed:.2f} times its odometry's distance; v is positive forward, w to the left (REP-103)"
        )


# ---- UMBmark

LOOP = (0.8, 1.2)
"""A loop turns by this part of a whole turn."""


def _umbmark(drives: Sequence[Reference], fitted: FitResult, track_m: float | None) -> dict[str, Any]:
    """Return UMBmark's errors of the drives that are loops; {} without one in each direction."""
    errors: dict[int, list[Floats]] = {1: [], -1: []}
    sides = []
    for drive, poses in zip(drives, fitted.poses, strict=True):
        steps = driven(drive.run, drive.t_s, NEUTRAL)
        turn = float(steps[:, 2].sum())
        if LOOP[0] <= abs(turn) / (2 * math.pi) <= LOOP[1] and not drive.run.gaps.any():
            actual, believed = between(poses[:1], poses[-1:])[0], chained(np.zeros(3), steps)[-1]
            error = actual - believed
            errors[1 if turn > 0 else -1].append(np.array([*error[:2], yaw_of(error[2:])[0]]))
            inside = (drive.run.t_s >= drive.t_s[0]) & (drive.run.t_s <= drive.t_s[-1])
            sides.append(float(np.abs(drive.run.way_m[inside]).sum()) / 4.0)
    if not errors[1] or not errors[-1]:
        return {}
    left, right = (np.mean(errors[sign], axis=0) for sign in (1, -1))
    side_m = float(np.mean(sides))
    alpha, beta = ((right[0] + left[0]) / (-4 * side_m), (right[0] - left[0]) / (-4 * side_m))
    e_b = 90.0 / (90.0 - math.degrees(alpha))
    report: dict[str, Any] = {
        "loops": {"cw": len(errors[-1]), "ccw": len(errors[1])},
        "cw_m": _rounded(right[:2]),
        "ccw_m": _rounded(left[:2]),
        "e_max_syst_m": round(float(max(np.hypot(*left[:2]), np.hypot(*right[:2]))), 4),
        "random_sd_m": {
            name: None if len(errors[sign]) < 2 else round(float(np.std(errors[sign], axis=0, ddof=1)[:2].max()), 4)
            for name, sign in (("cw", -1), ("ccw", 1))
        },
        "side_m": round(side_m, 3),
        "alpha_deg": round(math.degrees(alpha), 4),
        "beta_deg": round(math.degrees(beta), 4),
        "e_b": round(e_b, 6),
    }
    if track_m is not None:
        radius_m = (side_m / 2.0) / math.sin(beta / 2.0) if beta else math.inf
        track = track_m * e_b
        ratio = (radius_m + track / 2.0) / (radius_m - track / 2.0) if math.isfinite(radius_m) else 1.0
        report["e_d"] = round(ratio, 6)
    return report


def _rounded(values: Floats) -> list[float]:
    return [round(float(value), 4) for value in values]
