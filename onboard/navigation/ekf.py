"""External localisation and the wheels in one estimate: an EKF in the map frame. Pure; nothing here reads a clock.

The state is map_from_base and two systematic errors of the wheels: scale, the fraction by which a reported way is too
long (a wheel's radius is never quite the one in the base's firmware), and creep, forward motion reported too much while
anything moves (the paper's simulated wheels: 1 cm a step). Left out, they put the estimate ahead of the robot and make
it too sure of itself. They are learned from the fixes, not configured, and outlive a goal. Odometry's increments
predict the state with the paper's noise, fixes correct it.

A fix is late: it is carried to now by the wheels' motion since its stamp, its covariance grown likewise, and then
corrects the state. (The noise since the stamp is thereby counted in both; the fix weighs a little less than it might.)

A fix far outside what the filter can believe is an outlier: counted, and it changes nothing, but `OUTLIERS_TO_RESTART`
in a row that agree with each other start the filter anew there. Wheels and fixes that contradict each other
`OUTLIERS_TO_DOUBT` times in a row leave it open where the robot is: it is not localised until a fix is believed again
that could not be theirs as well.
Honest fixes are refused too, where the wheels are worse than the noise that is assumed of them (three times as bad, one
fix in nine). So outliers agree as far apart as such wheels may have led from each to the next.

Nothing that is received may spoil the state for what comes after: a fix counts within bounds (`incoming_fix`), and a
filter whose numbers are not finite any more is given up for one that the next fix begins.

What the policy sees as `loc` is the newest fix as it was received (`Received`), never the filter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from onboard.config.config import OdometrySection
from onboard.navigation import fix_gating, odometry
from onboard.navigation.fix_gating import AT_THE_ORIGIN, WheelsThen, believable, led_here
from onboard.navigation.odometry import Covariance, OdometryState
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, between, compose, inverse, wrap
from onboard.values.messages import Fix, Pose, Twist

Floats = npt.NDArray[np.float64]

STATES = 5
"""x, y, yaw, scale, creep."""
OUTLIERS_TO_RESTART = 3
OUTLIERS_TO_DOUBT = 2
STAMP_STEP_NS = 10 * NS_PER_S
"""A fix older than the newest by more than this tells of a new clock, not of a late message."""
SYSTEMATIC_VARIANCE = np.diag(np.square([0.05, 0.03]))
"""Of scale and creep [m/s] before anything is known of them."""
SYSTEMATIC_WALK = np.diag(np.square([0.01, 0.003]))
"""By how much their variance grows in a second of motion: floors differ."""

LOCALISED_SD_M = 0.5
LOCALISED_SD_RAD = 0.5
"""Localised means known at least as well as this (standard deviations of each coordinate)."""


@dataclass(frozen=True, slots=True)
class Received:
    """The newest fix as received. pose: map_from_base then; twist: the wheels' at that time; taken_ns: monotonic."""

    pose: Pose
    twist: Twist
    stamp_ns: int
    taken_ns: int


@dataclass(frozen=True, slots=True)
class LocalizationState:
    """The filter and its counts.

    map_from_base: estimate at the newest odometry taken in; None before the first fix
    systematic:    estimate of the wheels' scale and creep [m/s]
    covariance:    (5, 5) of x, y, yaw in the map frame, scale and creep [m, m, rad, 1, m/s]
    odom_from_base, moving_s: the odometry that the estimate has taken in
    refused_at:    the wheels when a fix was an outlier last
    outliers:      map_from_odom as each of the last outliers that agree has it
    rejected_in_row: outliers since the last fix that was believed, whether they agree or not
    refusal:       why the newest refused fix was refused
    """

    map_from_base: Pose | None = None
    systematic: tuple[float, float] = (0.0, 0.0)
    covariance: Covariance | None = None
    odom_from_base: Pose = IDENTITY
    moving_s: float = 0.0
    refused_at: WheelsThen = AT_THE_ORIGIN
    received: Received | None = None
    outliers: tuple[Pose, ...] = ()
    rejected_in_row: int = 0
    fixes: int = 0
    ignored: int = 0
    rejected: int = 0
    restarts: int = 0
    refused: int = 0
    refusal: str = ""


def advance(
    state: LocalizationState, fixes: Iterable[Fix], wheels: OdometryState, section: OdometrySection
) -> LocalizationState:
    """Return the filter at the newest odometry, with the fixes of this tick in it. Never raises: see `refusal`."""
    state = _finite(predict(state, wheels))
    for fix in fixes:
        state = _finite(correct(state, fix, wheels, section))
    return state


def predict(state: LocalizationState, wheels: OdometryState) -> LocalizationState:
    """Return the filter carried along with the wheels."""
    if state.map_from_base is None or state.covariance is None:
        return state
    before, moving_s = state.map_from_base, wheels.moving_s - state.moving_s
    reported = compose(before, between(state.odom_from_base, wheels.pose))
    excess = _excess(before, reported, moving_s)
    x, y, yaw = _vector(reported) - excess @ state.systematic
    after = Pose(float(x), float(y), float(yaw))
    carried = np.eye(STATES)
    carried[:3, :3], carried[:3, 3:] = odometry.transition(before, after), -excess
    covariance = carried @ state.covariance @ carried.T
    covariance[:3, :3] += odometry.noise(before, after, moving_s)
    covariance[3:, 3:] += SYSTEMATIC_WALK * moving_s
    return replace(
        state,
        map_from_base=after,
        covariance=0.5 * (covariance + covariance.T),
        odom_from_base=wheels.pose,
        moving_s=wheels.moving_s,
    )


def correct(state: LocalizationState, fix: Fix, wheels: OdometryState, section: OdometrySection) -> LocalizationState:
    """Return the filter, already predicted to `wheels`, after one fix."""
    reason = fix_gating.refusal(fix, wheels)
    if reason:
        return replace(state, refused=state.refused + 1, refusal=f"localisation refused: {reason}")
    newest = state.received
    if newest is not None and 0 <= newest.stamp_ns - fix.stamp_ns <= STAMP_STEP_NS:
        return replace(state, ignored=state.ignored + 1)
    then = fix_gating.sample_of(fix, wheels)
    behind_ns = (wheels.stamp_ns or 0) - then.stamp_ns
    received = Received(fix.pose, then.motion.twist, fix.stamp_ns, (wheels.arrival_ns or 0) - behind_ns)
    state = replace(state, received=received, fixes=state.fixes + 1)
    measured = compose(fix.pose, between(then.motion.pose, wheels.pose))
    moving_s = max(0.0, wheels.moving_s - then.moving_s)
    noise = odometry.grown(fix_gating.measurement_noise(fix, section), fix.pose, measured, moving_s)
    if state.map_from_base is None or state.covariance is None:
        return _started(state, measured, noise, wheels)
    return _updated(state, measured, _excess(fix.pose, measured, moving_s), noise, wheels)


def localised(state: LocalizationState) -> bool:
    """Return whether the base's place in the map is known well enough to take goals there: nothing contradicts it."""
    return tracked(state) and state.rejected_in_row < OUTLIERS_TO_DOUBT


def tracked(state: LocalizationState) -> bool:
    """Return whether the filter knows the base's place in the map well enough, by its own covariance.

    Age alone does not end it: localisation is silent while the robot stands still, and standing adds no error. Nor do
    fixes that contradict it: what was believed last is still the best that is known, for the zones of the map.
    """
    if state.map_from_base is None or state.covariance is None:
        return False
    return _known(state.covariance)


def map_from_odom(state: LocalizationState) -> Pose | None:
    """Return where the odom frame stands in the map (for `/tf`), None before the first fix."""
    if state.map_from_base is None:
        return None
    return compose(state.map_from_base, inverse(state.odom_from_base))


def _known(covariance: Covariance) -> bool:
    """Return whether x, y and yaw are known well enough to tell the robot's place. covariance: (3, 3) or (5, 5)"""
    sd_x, sd_y, sd_yaw = np.sqrt(np.diag(covariance)[:3])
    return bool(max(sd_x, sd_y) <= LOCALISED_SD_M and sd_yaw <= LOCALISED_SD_RAD)


def _vector(pose: Pose) -> Floats:
    return np.array([pose.x_m, pose.y_m, pose.yaw_rad])


def _excess(before: Pose, after: Pose, moving_s: float) -> Floats:
    """Return (3, 2): by how much x, y, yaw of the reported `after` are wrong for each unit of scale and of creep.

    Scale acts on the way between, creep along the mean heading; neither turns.
    """
    heading = before.yaw_rad + 0.5 * wrap(after.yaw_rad - before.yaw_rad)
    return np.array(
        [
            [after.x_m - before.x_m, moving_s * math.cos(heading)],
            [after.y_m - before.y_m, moving_s * math.sin(heading)],
            [0.0, 0.0],
        ]
    )


def _started(state: LocalizationState, measured: Pose, noise: Covariance, wheels: OdometryState) -> LocalizationState:
    """Return the filter begun at a measurement. What was learned of the wheels stays, believed less again."""
    covariance = np.zeros((STATES, STATES))
    covariance[:3, :3], covariance[3:, 3:] = noise, SYSTEMATIC_VARIANCE
    return replace(
        state,
        map_from_base=measured,
        covariance=covariance,
        odom_from_base=wheels.pose,
        moving_s=wheels.moving_s,
        outliers=(),
        rejected_in_row=0,
    )


def _finite(state: LocalizationState) -> LocalizationState:
    """Return the filter; one whose numbers are not finite is given up, with what it learned of the wheels."""
    if state.map_from_base is None or state.covariance is None:
        return state
    numbers = [*_vector(state.map_from_base), *state.systematic, *state.covariance.flat]
    if np.isfinite(numbers).all():
        return state
    return replace(
        state,
        map_from_base=None,
        covariance=None,
        systematic=(0.0, 0.0),
        outliers=(),
        rejected_in_row=0,
        restarts=state.restarts + 1,
    )


def _updated(
    state: LocalizationState, measured: Pose, excess: Floats, noise: Covariance, wheels: OdometryState
) -> LocalizationState:
    """Return the filter after one measurement, or with one more outlier.

    Measured is map_from_base now, and with it what the wheels report too much of the way since the fix.
    """
    assumed, covariance = state.map_from_base, state.covariance
    if assumed is None or covariance is None:
        raise ValueError("the filter has not started")
    model = np.column_stack([np.eye(3), excess])
    residual = _vector(measured) - _vector(assumed) - excess @ state.systematic
    residual[2] = wrap(float(residual[2]))
    innovation = model @ covariance @ model.T + noise
    if not believable(residual, innovation):
        return _outlier(state, measured, noise, wheels)
    decides = _decides(state, measured, noise, wheels)
    gain = np.linalg.solve(innovation, model @ covariance).T
    x, y, yaw, scale, creep = (float(part) for part in gain @ residual)
    kept = np.eye(STATES) - gain @ model
    joseph = kept @ covariance @ kept.T + gain @ noise @ gain.T
    return replace(
        state,
        map_from_base=Pose(assumed.x_m + x, assumed.y_m + y, wrap(assumed.yaw_rad + yaw)),
        systematic=(state.systematic[0] + scale, state.systematic[1] + creep),
        covariance=0.5 * (joseph + joseph.T),
        outliers=() if decides else state.outliers,
        rejected_in_row=0 if decides else state.rejected_in_row,
    )


def _decides(state: LocalizationState, measured: Pose, noise: Covariance, wheels: OdometryState) -> bool:
    """Return whether a fix that is believed speaks against the outliers before it.

    One that knows too little to tell the robot's place could as well be where they are.
    """
    if not state.outliers or _known(noise):
        return True
    residual = _vector(measured) - _vector(compose(state.outliers[-1], wheels.pose))
    residual[2] = wrap(float(residual[2]))
    return not believable(residual, noise)


def _outlier(state: LocalizationState, measured: Pose, noise: Covariance, wheels: OdometryState) -> LocalizationState:
    """Return the filter with the outlier counted, or started anew when enough of them agree."""
    outliers = state.outliers
    if outliers and not led_here(compose(outliers[-1], wheels.pose), state.refused_at, measured, wheels):
        outliers = ()
    outliers = (*outliers, compose(measured, inverse(wheels.pose)))
    in_row = state.rejected_in_row + 1
    state = replace(
        state,
        rejected=state.rejected + 1,
        rejected_in_row=in_row,
        outliers=outliers,
        refused_at=WheelsThen(wheels.pose, wheels.moving_s),
    )
    if len(outliers) < OUTLIERS_TO_RESTART:
        return state
    return replace(_started(state, measured, noise, wheels), restarts=state.restarts + 1)
