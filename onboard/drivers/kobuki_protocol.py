"""The serial protocol of the Kobuki base: bytes to feedback, velocity to command bytes. Pure, no port.

Source: "Protocol Specification", appendix of the kobuki_core documentation (Yujin Robot, BSD); the wheel radius and
the angle of an encoder tick are those of kobuki_core's `DiffDrive`. A packet is AA 55, payload length, payload,
checksum (exclusive or of all bytes after AA 55, which makes the whole zero); a payload is a row of (identifier,
length, data). Integers are little-endian.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

from onboard.values.errors import InputError
from onboard.values.messages import Twist

HEADER = b"\xaa\x55"
MIN_PAYLOAD_BYTES = 3
BASE_CONTROL = 1
BASIC_SENSORS = 1
INERTIAL_SENSOR = 4
CLIFF_SENSORS = 5
MOTOR_CURRENT = 6

WHEELBASE_M = 0.230
WHEEL_RADIUS_M = 0.035
TICK_RAD = 0.002436916871363930
M_PER_TICK = WHEEL_RADIUS_M * TICK_RAD

WRAP = 1 << 16
"""Encoders [ticks] and time stamp [ms] run from 0 to 65535 and start again."""

MAX_INTERVAL_S = 1.0
"""A longer silence may hide a wrap of an encoder or a restart of the base: the motion over it is not believed."""

MAX_WHEEL_MPS = 1.5
"""No Kobuki wheel turns faster (the base is rated 0.7 m/s): a greater step is a restart or a damaged frame."""

MIN_RADIUS_MM = 2
"""The protocol reads radius 0 as straight and 1 as turning on the spot; arcs begin at 2."""

INT16_MAX = 32767

_BASIC = struct.Struct("<HBBBHHbbBBBB")
_INERTIAL = struct.Struct("<hh3x")
_CLIFF = struct.Struct("<HHH")
_CURRENT = struct.Struct("<BB")


@dataclass(frozen=True, slots=True)
class Feedback:
    """One packet of the base with its basic sensors, sent 50 times a second.

    timestamp_ms:  the base's clock, wraps at 65536
    bumper, cliff: bits 1 right, 2 centre, 4 left
    wheel_drop:    bits 1 right, 2 left
    button:        bits 1, 2, 4 for the buttons B0, B1, B2
    *_encoder:     accumulated ticks, growing forward, wrap at 65536
    battery:       [0.1 V]
    gyro_*_raw:    factory-calibrated heading and its rate [0.01 deg, 0.01 deg/s]; None when the packet has none
    cliff_raw:     right, centre, left converter values; None when the packet has none
    current:       left, right motor [10 mA]; None when the packet has none
    """

    timestamp_ms: int
    bumper: int
    wheel_drop: int
    cliff: int
    left_encoder: int
    right_encoder: int
    left_pwm: int
    right_pwm: int
    button: int
    charger: int
    battery: int
    overcurrent: int
    gyro_angle_raw: int | None = None
    gyro_rate_raw: int | None = None
    cliff_raw: tuple[int, int, int] | None = None
    current: tuple[int, int] | None = None


def parse(buffer: bytes) -> tuple[list[Feedback], bytes]:
    """Return the feedback in `buffer`, oldest first, and the bytes to put before what arrives next.

    Bytes that belong to no whole packet, packets with a wrong checksum and packets without basic sensors are passed
    over. Never raises. The rest is at most one packet long.
    """
    packets: list[Feedback] = []
    at = done = 0
    while (at := buffer.find(HEADER, at)) >= 0:
        if len(buffer) < at + 3:
            return packets, buffer[at:]
        length = buffer[at + 2]
        end = at + 3 + length + 1
        if length < MIN_PAYLOAD_BYTES:
            at += 1
        elif len(buffer) < end:
            return packets, buffer[at:]
        elif _checksum(buffer[at + 2 : end]) != 0:
            at += 1
        else:
            feedback = _feedback(buffer[at + 3 : end - 1])
            if feedback is not None:
                packets.append(feedback)
            at = done = end
    return packets, HEADER[:1] if buffer.endswith(HEADER[:1], done) else b""


def encode_velocity(command: Twist) -> bytes:
    """Return the Base Control packet for a body velocity. Raises InputError when it is not finite.

    Speed and radius follow the protocol's table; beyond 16 bits they are held at the end of the range, an arc
    wider than 32.767 m is sent as straight, one tighter than 2 mm as turning on the spot.
    """
    v_mmps, w_radps = 1000.0 * command.v_mps, command.w_radps
    if not (math.isfinite(v_mmps) and math.isfinite(w_radps)):
        raise InputError(f"velocity command ({command.v_mps}, {command.w_radps}) is not finite")
    half_base_mm = 1000.0 * WHEELBASE_M / 2
    if abs(w_radps) * INT16_MAX < abs(v_mmps) or (v_mmps == 0.0 and w_radps == 0.0):
        speed, radius = v_mmps, 0
    elif abs(v_mmps) < MIN_RADIUS_MM * abs(w_radps):
        speed, radius = w_radps * half_base_mm, 1
    else:
        radius = round(v_mmps / w_radps)
        speed = w_radps * (radius + math.copysign(half_base_mm, radius))
    return packet(struct.pack("<BBhh", BASE_CONTROL, 4, _int16(speed), radius))


def packet(payload: bytes) -> bytes:
    """Return the payload with header, length and checksum. The payload holds 3 to 255 bytes."""
    body = bytes([len(payload)]) + payload
    return HEADER + body + bytes([_checksum(body)])


def motion(before: Feedback, after: Feedback) -> tuple[float, Twist] | None:
    """Return the time between two packets [s] and the mean body velocity over it, from the wheels' encoders.

    None where there is nothing to believe: the same packet again, more than MAX_INTERVAL_S between them, or a wheel
    faster than MAX_WHEEL_MPS.
    """
    dt_s = (after.timestamp_ms - before.timestamp_ms) % WRAP / 1000.0
    if not 0.0 < dt_s <= MAX_INTERVAL_S:
        return None
    left_mps = _signed(after.left_encoder - before.left_encoder) * M_PER_TICK / dt_s
    right_mps = _signed(after.right_encoder - before.right_encoder) * M_PER_TICK / dt_s
    if max(abs(left_mps), abs(right_mps)) > MAX_WHEEL_MPS:
        return None
    return dt_s, Twist((left_mps + right_mps) / 2, (right_mps - left_mps) / WHEELBASE_M)


def _feedback(payload: bytes) -> Feedback | None:
    """Return what a payload holds; None when a part runs past its end or the basic sensors are missing."""
    parts: dict[int, bytes] = {}
    at = 0
    while at < len(payload):
        if at + 2 > len(payload) or (end := at + 2 + payload[at + 1]) > len(payload):
            return None
        parts[payload[at]] = payload[at + 2 : end]
        at = end
    basic = parts.get(BASIC_SENSORS, b"")
    if len(basic) != _BASIC.size:
        return None
    values: list[Any] = [*_BASIC.unpack(basic)]
    values += _unpack(_INERTIAL, parts.get(INERTIAL_SENSOR)) or (None, None)
    values += [_unpack(_CLIFF, parts.get(CLIFF_SENSORS)), _unpack(_CURRENT, parts.get(MOTOR_CURRENT))]
    return Feedback(*values)


def _unpack(layout: struct.Struct, data: bytes | None) -> tuple[Any, ...] | None:
    return layout.unpack(data) if data is not None and len(data) == layout.size else None


def _checksum(data: bytes) -> int:
    value = 0
    for byte in data:
        value ^= byte
    return value


def _signed(difference: int) -> int:
    """Return the shorter way round between two 16-bit counters."""
    return (difference + WRAP // 2) % WRAP - WRAP // 2


def _int16(value: float) -> int:
    return round(min(max(value, -INT16_MAX), INT16_MAX))
