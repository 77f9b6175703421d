"""The serial protocol of the Kobuki base: bytes to feedback, velocity to command bytes. Pure, no port.

Source: "Protocol Specification", appendix of the kobuki_core documentation (Yujin Robot, BSD). Wheel radius and
encoder tick angle come from kobuki_core's `DiffDrive`. A packet is AA 55, payload length, payload, checksum. The
checksum is the exclusive or of all bytes after AA 55. A payload is a row of (identifier, length, data). Integers are
little-endian.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from onboard.values.errors import InputError
from onboard.values.messages import Twist

HEADER = b"\xaa\x55"
MIN_PAYLOAD_BYTES = 3
BASE_CONTROL = 1
BASIC_SENSORS = 1

WHEELBASE_M = 0.230
WHEEL_RADIUS_M = 0.035
TICK_RAD = 0.002436916871363930
M_PER_TICK = WHEEL_RADIUS_M * TICK_RAD

WRAP = 1 << 16
"""Encoders [ticks] and time stamp [ms] run from 0 to 65535 and start again."""

MAX_INTERVAL_S = 1.0
"""A longer gap between packets may hide an encoder wrap or a restart of the base, so its motion is dropped."""

MAX_WHEEL_MPS = 1.5
"""Above any Kobuki wheel (rated 0.7 m/s): a larger step is a restart or a damaged packet."""

MIN_RADIUS_MM = 2
"""The protocol reads radius 0 as straight and 1 as turning on the spot; arcs begin at 2."""

INT16_MAX = 32767

_BASIC = struct.Struct("<HBBBHH2xBBBx")
"""Padding covers motor duty and overcurrent, which no caller needs."""

CHARGED = 2
"""Low four bits of the charger's state of a full battery; 0 is discharging, 6 is charging."""

FULL_V, DANGEROUS_V, DANGEROUS_CHARGE = 16.5, 13.2, 0.05
"""The battery's voltage when full, and at 5 %; source: `src/driver/battery.cpp` of kobuki_core."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """The basic sensors of one packet; the base sends 50 packets a second.

    timestamp_ms:  the base's clock, wraps at 65536
    bumper, cliff: bits 1 right, 2 centre, 4 left
    wheel_drop:    bits 1 right, 2 left
    *_encoder:     accumulated ticks, growing forward, wrap at 65536
    button:        bits 1, 2, 4 for the buttons B0, B1, B2
    charger:       0 discharging, 2 and 18 charged, 6 and 22 charging, at the dock and at the plug
    battery_dv:    voltage of the battery [0.1 V]
    """

    timestamp_ms: int
    bumper: int
    wheel_drop: int
    cliff: int
    left_encoder: int
    right_encoder: int
    button: int
    charger: int
    battery_dv: int

    @property
    def charge(self) -> float:
        """Return the charge of the battery, 0 to 1, linear in its voltage as kobuki_core has it."""
        if self.charger & 0xF == CHARGED:
            return 1.0
        per_volt = (1.0 - DANGEROUS_CHARGE) / (FULL_V - DANGEROUS_V)
        return min(max(DANGEROUS_CHARGE + per_volt * (self.battery_dv / 10.0 - DANGEROUS_V), 0.0), 1.0)


def parse(buffer: bytes) -> tuple[list[Feedback], bytes]:
    """Return the feedback in `buffer`, oldest first, and the incomplete rest to prepend to the next bytes.

    Skips garbage, packets with a wrong checksum and packets without basic sensors. Never raises. The rest is at most
    one packet long.
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

    Speed and radius follow the protocol's table and are clipped to 16 bits. An arc wider than 32.767 m is sent as
    straight, an arc tighter than 2 mm as turning on the spot.
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

    None for a repeated packet, for packets more than MAX_INTERVAL_S apart, and for a wheel faster than MAX_WHEEL_MPS.
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
    """Return the feedback in a payload; None if a part runs past its end or the basic sensors are missing."""
    parts: dict[int, bytes] = {}
    at = 0
    while at < len(payload):
        if at + 2 > len(payload) or (end := at + 2 + payload[at + 1]) > len(payload):
            return None
        parts[payload[at]] = payload[at + 2 : end]
        at = end
    basic = parts.get(BASIC_SENSORS, b"")
    return Feedback(*_BASIC.unpack(basic)) if len(basic) == _BASIC.size else None


def _checksum(data: bytes) -> int:
    value = 0
    for byte in data:
        value ^= byte
    return value


def _signed(difference: int) -> int:
    """Return the shorter difference between two 16-bit counters."""
    return (difference + WRAP // 2) % WRAP - WRAP // 2


def _int16(value: float) -> int:
    return round(min(max(value, -INT16_MAX), INT16_MAX))
