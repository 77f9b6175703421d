"""An EKF in the map frame that fuses external localisation and wheel odometry. Pure: no function reads a clock.

The state is map_from_base and two systematic errors of the odometry:

    scale   fraction by which the reported distance is too long: the true wheel radius differs from the firmware's
    creep   excess forward speed reported while anything moves (the paper's simulated wheels: 1 cm a step)

Without them, the estimate runs ahead of the robot and is overconfident. The filter learns them from the fixes and keeps
them across goals. Odometry increments predict the state with the paper's noise, or with the variances that `/odom`
states where they are larger; fixes correct it.

A fix is late. The odometry since its stamp carries it to the present and grows its covariance; then it corrects the
state. The noise since the stamp thus counts twice, so a fix weighs slightly less than it could.

The outlier gate rejects a fix far outside the filter's uncertainty. An outlier is counted and changes nothing. But
`OUTLIERS_TO_RESTART` outliers in a row that agree with each other restart the filter there. After `OUTLIERS_TO_DOUBT`
outliers in a row the robot is not localised, until the filter accepts a fix that does not also fit the outliers.

The gate also rejects good fixes when the odometry is worse than its assumed noise: with three times the noise, a fix in
nine. So outliers agree within the distance that such odometry may cause between two fixes.

With `odometry.scan_matching` (`scan_odometry.py`) the state also has the pose at a key scan, with its covariance. The
motion from there, by scan matching, corrects the present pose. The same gate applies.

No input may corrupt the state: `fix_gating` bounds each fix. A filter with values that are not finite is dropped, and
the next fix starts a new filter.

The policy's `loc` is the newest fix as received (`Received`), never the filter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from onboard.config.config import OdometrySection
from onboard.navigation import fix_gating, kalman, odometry, wheel_motion
from onboard.navigation.fix_gating import AT_THE_ORIGIN, DOUBT, WheelsAtFix, odometry_explains, passes_gate
from onboard.navigation.kalman import STATES
from onboard.navigation.odometry import Covariance, OdometryState
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, between, compose, inverse, wrap
from onboard.values.messages import STOP, Fix, Motion, Pose, Twist
from onboard.values.reasons import NO_REASON, Said

Floats = npt.NDArray[np.float64]

OUTLIERS_TO_RESTART = 3
OUTLIERS_TO_DOUBT = 2
STAMP_STEP_NS = 10 * NS_PER_S
"""A fix that is older than the newest by more than this has a new clock; it is no late message."""

LOCALISED_SD_M = 0.5
LOCALISED_SD_RAD = 0.5
"""Upper limits of the standard deviations of a localised robot."""


@dataclass(frozen=True, slots=True)
class ReceivedFix:
    """The newest fix as received. pose: map_from_base; twist: of the wheels at its time; taken_ns: monotonic."""

    pose: Pose
    twist: Twist
    stamp_ns: int
    taken_ns: int


@dataclass(frozen=True, slots=True)
class LocalizationState:
    """The filter and its counters.

    map_from_base: estimate at the newest odometry of the filter; None before the first fix
    systematic:    estimate of the wheels' scale and creep [m/s]
    covariance:    (5, 5) of x, y, yaw in the map frame, scale and creep [m, m, rad, 1, m/s]; (8, 8) with `key`
    odom_from_base, moving_s, stated: the newest odometry of the filter
    refused_at:    the odometry at the last outlier
    outliers:      map_from_odom by each of the last outliers that agree
    rejected_in_row: outliers since the last accepted fix, whether they agree or not
    refusal:       reason why the newest fix was refused; "" if it was not
    key:           map_from_base at the key scan; None without one
    """

    map_from_base: Pose | None = None
    systematic: tuple[float, float] = (0.0, 0.0)
    covariance: Covariance | None = None
    odom_from_base: Pose = IDENTITY
    moving_s: float = 0.0
    stated: tuple[float, float] = (0.0, 0.0)
    refused_at: WheelsAtFix = AT_THE_ORIGIN
    received: ReceivedFix | None = None
    outliers: tuple[Pose, ...] = ()
    rejected_in_row: int = 0
    fixes: int = 0
    ignored: int = 0
    rejected: int = 0
    restarts: int = 0
    refused: int = 0
    refusal: Said = NO_REASON
    key: Pose | None = None


def advance(
    state: LocalizationState, fixes: Iterable[Fix], wheels: OdometryState, section: OdometrySection
) -> LocalizationState:
    """Return the filter at the newest odometry, corrected by the fixes of this tick. Never raises: see `refusal`."""
    state = _finite(predict(state, wheels))
    for fix in fixes:
        state = _finite(correct(state, fix, wheels, section))
    return state


def predict(state: LocalizationState, wheels: OdometryState) -> LocalizationState:
    """Return the filter predicted to the newest odometry."""
    if state.map_from_base is None or state.covariance is None:
        return state
    before, step = state.map_from_base, between(state.odom_from_base, wheels.pose)
    covariance = np.array(state.covariance, order="C")
    x, y, yaw = kalman.predict(
        covariance, before.x_m, before.y_m, before.yaw_rad, step.x_m, step.y_m, step.yaw_rad, *state.systematic,
        wheels.moving_s - state.moving_s,
    )  # fmt: skip
    forward_m2, turn_rad2 = (now - then for now, then in zip(wheels.stated, state.stated, strict=True))
    if forward_m2 or turn_rad2:
        odometry.add_stated(covariance, wheel_motion.mean_heading(before.yaw_rad, yaw), forward_m2, turn_rad2)
    return replace(
        state,
        map_from_base=Pose(x, y, yaw),
        covariance=covariance,
        odom_from_base=wheels.pose,
        moving_s=wheels.moving_s,
        stated=wheels.stated,
    )


def correct(state: LocalizationState, fix: Fix, wheels: OdometryState, section: OdometrySection) -> LocalizationState:
    """Return the filter, already predicted to `wheels`, after one fix."""
    reason = fix_gating.refusal(fix, wheels)
    if reason:
        return replace(state, refused=state.refused + 1, refusal=reason)
    newest = state.received
    if newest is not None and 0 <= newest.stamp_ns - fix.stamp_ns <= STAMP_STEP_NS:
        return replace(state, ignored=state.ignored + 1)
    then = fix_gating.odometry_at(fix, wheels)
    behind_ns = (wheels.stamp_ns or 0) - then.stamp_ns
    received = ReceivedFix(fix.pose, then.motion.twist, fix.stamp_ns, (wheels.arrival_ns or 0) - behind_ns)
    state = replace(state, received=received, fixes=state.fixes + 1, refusal=NO_REASON)
    measured = compose(fix.pose, between(then.motion.pose, wheels.pose))
    moving_s = max(0.0, wheels.moving_s - then.moving_s)
    noise = odometry.grown(fix_gating.measurement_noise(fix, section), fix.pose, measured, moving_s)
    if state.map_from_base is None or state.covariance is None:
        return _started(state, measured, noise, wheels)
    return _updated(state, measured, _excess(fix.pose, measured, moving_s), noise, wheels)


def warm_up() -> None:
    """Compile the arithmetic of odometry and filter."""
    wheels = OdometryState(stamp_ns=0, arrival_ns=0, history=(odometry.Sample(0, Motion(IDENTITY, STOP), 0.0),))
    fix = Fix(0, 0, IDENTITY)
    begun = correct(LocalizationState(), fix, wheels, OdometrySection())
    correct(predict(begun, wheels), replace(fix, stamp_ns=1), wheels, OdometrySection())


def keyed(state: LocalizationState, back: Pose) -> LocalizationState:
    """Return the filter with the pose of a new key scan.

    back: the base at the scan, in its present frame, by the wheels; its errors are left out, as it is a few centimetres
    """
    if state.map_from_base is None or state.covariance is None:
        return state
    key = compose(state.map_from_base, back)
    grown = np.zeros((STATES + 3, STATES))
    grown[:STATES], grown[STATES:, :3] = np.eye(STATES), odometry.transition(state.map_from_base, key)
    return replace(state, key=key, covariance=grown @ state.covariance[:STATES, :STATES] @ grown.T)


def moved(
    state: LocalizationState, back: Pose, motion: Pose, noise: Covariance, wheels: Covariance
) -> tuple[LocalizationState, bool]:
    """Return the filter after the motion from the key scan to a newer one, and whether the gate let it pass.

    back:   the base at the newer scan, in its present frame
    motion: in the base frame of the key scan; noise: (3, 3) of it; wheels: of the wheels' motion, as assumed

    Wheels that slip fail the gate, and the scans are right. So the gate doubts the wheels once before it rejects.
    """
    now, key, covariance = state.map_from_base, state.key, state.covariance
    if now is None or key is None or covariance is None:
        return state, True
    then = compose(now, back)
    expected = between(key, then)
    c, s = math.cos(key.yaw_rad), math.sin(key.yaw_rad)
    turned = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    model = np.zeros((3, STATES + 3))
    model[:, :3], model[:, STATES:] = turned @ odometry.transition(now, then), -turned
    model[0, STATES + 2], model[1, STATES + 2] = expected.y_m, -expected.x_m
    residual = _vector(motion) - _vector(expected)
    for doubt in (0.0, DOUBT**2 - 1.0):
        doubted = covariance.copy()
        doubted[:3, :3] += doubt * turned.T @ wheels @ turned
        shifted = _shifted(replace(state, covariance=doubted), now, model, residual, noise)
        if shifted is not None:
            return shifted, True
    return state, False


def localised(state: LocalizationState) -> bool:
    """Return whether the pose in the map is certain enough for goals there: `tracked`, and no fixes contradict it."""
    return tracked(state) and state.rejected_in_row < OUTLIERS_TO_DOUBT


def tracked(state: LocalizationState) -> bool:
    """Return whether the filter's covariance of the base's pose is small enough.

    Age alone does not matter: localisation is silent while the robot stands, and standing adds no error. Nor do fixes
    that contradict the filter: for the map's zones, the last estimate is still the best.
    """
    if state.map_from_base is None or state.covariance is None:
        return False
    return _is_certain(state.covariance)


def deviations(state: LocalizationState) -> tuple[float, float] | None:
    """Return the standard deviations of the position, in its worst direction [m], and of yaw [rad].

    None before the first fix.
    """
    if state.map_from_base is None or state.covariance is None:
        return None
    return math.sqrt(principal_axes(state.covariance)[0]), math.sqrt(max(0.0, float(state.covariance[2, 2])))


def principal_axes(covariance: Covariance) -> tuple[float, float, float]:
    """Return the larger and the smaller variance of x and y [m^2], and the direction of the larger one [rad].

    covariance: of x and y in its first two rows and columns
    """
    return kalman.axes(float(covariance[0, 0]), float(covariance[0, 1]), float(covariance[1, 1]))


def map_from_odom(state: LocalizationState, own_from_odom: Pose = IDENTITY) -> Pose | None:
    """Return the base's own odom frame in the map (for `/tf`), None before the first fix.

    own_from_odom: `OdometryState.own_from_odom`
    """
    if state.map_from_base is None:
        return None
    return compose(state.map_from_base, inverse(odometry.own_pose(own_from_odom, state.odom_from_base)))


def _is_certain(covariance: Covariance) -> bool:
    """Return whether x, y and yaw are certain enough for a localised robot. covariance: (3, 3) or larger"""
    sd_x, sd_y, sd_yaw = np.sqrt(np.diag(covariance)[:3])
    return bool(max(sd_x, sd_y) <= LOCALISED_SD_M and sd_yaw <= LOCALISED_SD_RAD)


def _vector(pose: Pose) -> Floats:
    return np.array([pose.x_m, pose.y_m, pose.yaw_rad])


def _excess(before: Pose, after: Pose, moving_s: float) -> Floats:
    """Return (3, 2): the error of x, y, yaw in the reported `after` for each unit of scale and of creep."""
    scale_x, scale_y, creep_x, creep_y = wheel_motion.excess(
        before.x_m, before.y_m, before.yaw_rad, after.x_m, after.y_m, after.yaw_rad, moving_s
    )
    return np.array([[scale_x, creep_x], [scale_y, creep_y], [0.0, 0.0]])


def _started(state: LocalizationState, measured: Pose, noise: Covariance, wheels: OdometryState) -> LocalizationState:
    """Return the filter started at a measurement. It keeps scale and creep, with their initial variance."""
    covariance = np.empty((STATES, STATES))
    kalman.begin(covariance, noise)
    return replace(
        state,
        map_from_base=measured,
        covariance=covariance,
        key=None,
        odom_from_base=wheels.pose,
        moving_s=wheels.moving_s,
        stated=wheels.stated,
        outliers=(),
        rejected_in_row=0,
    )


def _finite(state: LocalizationState) -> LocalizationState:
    """Return the filter; if a value is not finite, return a filter before its first fix, without scale and creep."""
    if state.map_from_base is None or state.covariance is None:
        return state
    numbers = [*_vector(state.map_from_base), *state.systematic, *state.covariance.flat]
    numbers += [] if state.key is None else [*_vector(state.key)]
    if np.isfinite(numbers).all():
        return state
    return replace(
        state,
        map_from_base=None,
        covariance=None,
        key=None,
        systematic=(0.0, 0.0),
        outliers=(),
        rejected_in_row=0,
        restarts=state.restarts + 1,
    )


def _updated(
    state: LocalizationState, measured: Pose, excess: Floats, noise: Covariance, wheels: OdometryState
) -> LocalizationState:
    """Return the filter after one measurement, or with one more outlier.

    The measurement is the current map_from_base, with the odometry's `excess` since the fix.
    """
    assumed, covariance = state.map_from_base, state.covariance
    if assumed is None or covariance is None:
        raise ValueError("the filter has not started")
    model = np.zeros((3, len(covariance)))
    model[:, :3], model[:, 3:STATES] = np.eye(3), excess
    residual = _vector(measured) - _vector(assumed) - excess @ state.systematic
    shifted = _shifted(state, assumed, model, residual, noise)
    if shifted is None:
        return _outlier(state, measured, noise, wheels)
    contradicts = _contradicts_outliers(state, measured, noise, wheels)
    return replace(
        shifted,
        outliers=() if contradicts else state.outliers,
        rejected_in_row=0 if contradicts else state.rejected_in_row,
    )


def _shifted(
    state: LocalizationState, now: Pose, model: Floats, residual: Floats, noise: Covariance
) -> LocalizationState | None:
    """Return the filter after a measurement; None if it does not pass the gate. now: its pose before"""
    covariance = np.array(state.covariance, order="C")
    residual[2] = wrap(float(residual[2]))
    work = np.empty((6 + 2 * len(covariance), len(covariance)))
    if not kalman.correct(covariance, model, residual, np.array(noise, order="C"), work):
        return None
    x, y, yaw, scale, creep, *of_key = work[0].tolist()
    return replace(
        state,
        map_from_base=_moved_by(now, x, y, yaw),
        systematic=(state.systematic[0] + scale, state.systematic[1] + creep),
        covariance=covariance,
        key=_moved_by(state.key, *of_key) if state.key is not None else None,
    )


def _moved_by(pose: Pose, x_m: float, y_m: float, yaw_rad: float) -> Pose:
    return Pose(pose.x_m + x_m, pose.y_m + y_m, wrap(pose.yaw_rad + yaw_rad))


def _contradicts_outliers(state: LocalizationState, measured: Pose, noise: Covariance, wheels: OdometryState) -> bool:
    """Return whether an accepted fix contradicts the outliers before it.

    A fix with a large covariance may fit both the filter and the outliers.
    """
    if not state.outliers or _is_certain(noise):
        return True
    residual = _vector(measured) - _vector(compose(state.outliers[-1], wheels.pose))
    residual[2] = wrap(float(residual[2]))
    return not passes_gate(residual, noise)


def _outlier(state: LocalizationState, measured: Pose, noise: Covariance, wheels: OdometryState) -> LocalizationState:
    """Return the filter with the outlier counted, or restarted when enough outliers agree."""
    outliers = state.outliers
    if outliers and not odometry_explains(compose(outliers[-1], wheels.pose), state.refused_at, measured, wheels):
        outliers = ()
    outliers = (*outliers, compose(measured, inverse(wheels.pose)))
    in_row = state.rejected_in_row + 1
    state = replace(
        state,
        rejected=state.rejected + 1,
        rejected_in_row=in_row,
        outliers=outliers,
        refused_at=WheelsAtFix(wheels.pose, wheels.moving_s),
    )
    if len(outliers) < OUTLIERS_TO_RESTART:
        return state
    return replace(_started(state, measured, noise, wheels), restarts=state.restarts + 1)
