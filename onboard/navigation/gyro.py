"""The yaw rate of an IMU joins the wheels' (`odometry.imu`): wheels that slip sideways report turns that the body does
not make, as those of every skid-steer. Pure: state and samples in, state and twist out.

    case                             the twist's yaw rate
    base at rest, by its wheels      the wheels'. The mean of the IMU is its bias, after REST_S and unless it turns
    bias not yet known               the wheels'
    first TRIED_RAD of turning       the wheels'; both are compared
    IMU turns with the wheels        mean of both, weighted by their variances
    IMU turns the other way, or in   the wheels' from there on (`against`): the operator must correct the rotation or
      another unit                   the driver, and start again
    IMU hardly turns                 the wheels' while it lasts (`idle`): another axis, or wheels that spin
    IMU silent for SILENT_NS         the wheels' until it is back

Samples are compared with the odometry by arrival, as both clocks may differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from onboard.navigation.wheel_motion import is_moving
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.messages import ImuSample, Twist
from onboard.values.reasons import NO_REASON, Said

SILENT_NS = NS_PER_S // 2
REST_S, BIAS_SAMPLES, MOST_SAMPLES = 0.3, 10, 300
"""Time at rest before the bias is measured, ticks until it is known, and ticks of its running mean."""
TURNED_RADPS = 0.1
"""At rest by its wheels, a base that turns faster is carried: no bias."""
TRIED_RAD, KEPT_RAD = 0.25, 3.0
"""Turning until the IMU is used, and turning after which a comparison counts 1/e."""
TURNING_RADPS = 0.1
"""Slower turns are not compared."""
AGAINST, LEAST, MOST = -0.3, 0.2, 3.0
"""Ratio of the IMU's turn to the wheels': the other way; hardly any turn; another unit (57 for degrees)."""
WHEEL_SD, WHEEL_SLIP = 0.02, 0.3
"""Standard deviation of the wheels' yaw rate where `/odom` states none: constant [rad/s], and share of the rate."""
IMU_SD = 0.01
"""Standard deviation of the IMU where it states none [rad/s]."""


@dataclass(frozen=True, slots=True)
class Gyro:
    """State of the IMU's yaw rate.

    rate_radps: mean of the newest tick with samples, with bias; variance: as it states, None if it does not
    heard_ns:   arrival of that tick; from the first tick on without any
    silent:     nothing for SILENT_NS
    samples:    ticks in the bias; rest_s: time at rest so far
    product, square: discounted integrals of wheels times IMU and wheels squared [rad^2/s]; turned_rad: compared so far
    against:    why the IMU is not used any more
    """

    rate_radps: float = 0.0
    variance: float | None = None
    heard_ns: int | None = None
    received: bool = False
    silent: bool = False
    bias_radps: float = 0.0
    samples: int = 0
    rest_s: float = 0.0
    product: float = 0.0
    square: float = 0.0
    turned_rad: float = 0.0
    against: Said = NO_REASON

    @property
    def ratio(self) -> float | None:
        """The IMU's turn over the wheels'; None before TRIED_RAD."""
        return self.product / self.square if self.turned_rad >= TRIED_RAD else None

    @property
    def used(self) -> bool:
        """Whether the IMU joins the wheels while the base turns."""
        ratio = self.ratio
        return not (self.against or self.silent) and ratio is not None and ratio >= LEAST

    @property
    def doubt(self) -> Said:
        """Why the wheels turn alone, "" if all is well or not yet known."""
        if self.against:
            return self.against
        if self.silent:
            return reasons.IMU_SILENT.say(ms=SILENT_NS // 1_000_000)
        ratio = self.ratio
        return reasons.IMU_IDLE.say(percent=100.0 * ratio) if ratio is not None and ratio < LEAST else NO_REASON


NEW = Gyro()


def hear(state: Gyro, samples: Sequence[ImuSample], now_ns: int) -> Gyro:
    """Return the state with the samples of a tick."""
    if samples:
        rate = sum(sample.yaw_radps for sample in samples) / len(samples)
        variance = samples[-1].variance
        return replace(state, rate_radps=rate, variance=variance, heard_ns=now_ns, received=True, silent=False)
    heard_ns = now_ns if state.heard_ns is None else state.heard_ns
    return replace(state, heard_ns=heard_ns, silent=now_ns - heard_ns > SILENT_NS)


def join(state: Gyro, wheels: Twist, wheel_variance: float | None, elapsed_s: float) -> tuple[Gyro, Twist]:
    """Return the state and the body twist after `elapsed_s` of a twist of the wheels.

    wheel_variance: of the yaw rate, None if `/odom` does not state it [rad^2/s^2]
    """
    if not state.received or state.silent or state.against:
        return state, wheels
    if not is_moving(wheels.v_mps, wheels.w_radps):
        return _rested(state, elapsed_s), wheels
    state = replace(state, rest_s=0.0)
    if state.samples < BIAS_SAMPLES:
        return state, wheels
    rate = state.rate_radps - state.bias_radps
    state = _compared(state, wheels.w_radps, rate, elapsed_s)
    if not state.used:
        return state, wheels
    own = state.variance or IMU_SD**2
    other = wheel_variance or (WHEEL_SD + WHEEL_SLIP * abs(wheels.w_radps)) ** 2
    return state, Twist(wheels.v_mps, (rate * other + wheels.w_radps * own) / (own + other))


def _rested(state: Gyro, elapsed_s: float) -> Gyro:
    rest_s = state.rest_s + elapsed_s
    if rest_s < REST_S or abs(state.rate_radps) > TURNED_RADPS:
        return replace(state, rest_s=rest_s)
    samples = min(state.samples + 1, MOST_SAMPLES)
    bias = state.bias_radps + (state.rate_radps - state.bias_radps) / samples
    return replace(state, rest_s=rest_s, samples=samples, bias_radps=bias)


def _compared(state: Gyro, wheels_radps: float, rate: float, elapsed_s: float) -> Gyro:
    if abs(wheels_radps) < TURNING_RADPS:
        return state
    turned_rad = abs(wheels_radps) * elapsed_s
    kept = math.exp(-turned_rad / KEPT_RAD)
    product = kept * state.product + wheels_radps * rate * elapsed_s
    square = kept * state.square + wheels_radps**2 * elapsed_s
    state = replace(state, product=product, square=square, turned_rad=state.turned_rad + turned_rad)
    ratio = state.ratio
    if ratio is None or AGAINST <= ratio <= MOST:
        return state
    row = reasons.IMU_AGAINST if ratio < AGAINST else reasons.IMU_UNIT
    return replace(state, against=row.say(ratio=ratio))
