"""The Kobuki protocol: frames of a real base, damaged streams, velocity commands, wheel motion."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.drivers.kobuki_protocol import (
    HEADER,
    M_PER_TICK,
    WHEELBASE_M,
    WRAP,
    Feedback,
    encode_velocity,
    motion,
    packet,
    parse,
)
from onboard.values.errors import InputError
from onboard.values.messages import Twist

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data/kobuki/vectors.json").read_text())
FRAMES = [bytes.fromhex(frame["hex"]) for frame in VECTORS["feedback_frames_captured_from_a_real_kobuki"]]
EXPECTED = [frame["expected"] for frame in VECTORS["feedback_frames_captured_from_a_real_kobuki"]]
LONGEST_PACKET_BYTES = 3 + 255 + 1


@pytest.mark.parametrize(("frame", "expected"), list(zip(FRAMES, EXPECTED, strict=True)))
def test_a_real_frame_decodes_to_its_stated_values(frame: bytes, expected: dict[str, Any]) -> None:
    (feedback,), rest = parse(frame)
    for name in ("timestamp_ms", "left_encoder", "right_encoder"):
        assert getattr(feedback, name) == expected[name], name
    assert (feedback.bumper, feedback.wheel_drop, feedback.cliff, feedback.button, rest) == (0, 0, 0, 0, b"")
    assert (feedback.battery_dv, feedback.charger) == (expected["battery"], 18)


#   charger, voltage [0.1 V], charge
CHARGES = [
    (0, 165, 1.0), (0, 132, 0.05), (0, 148, 0.5106), (0, 120, 0.0), (0, 170, 1.0),
    (2, 140, 1.0), (18, 140, 1.0), (6, 132, 0.05), (22, 132, 0.05),
]  # fmt: skip


@pytest.mark.parametrize(("charger", "battery_dv", "charge"), CHARGES)
def test_the_charge_is_that_of_kobuki_core(charger: int, battery_dv: int, charge: float) -> None:
    assert Feedback(0, 0, 0, 0, 0, 0, 0, charger, battery_dv).charge == pytest.approx(charge, abs=1e-4)


@pytest.mark.parametrize("tail", VECTORS["malformed_subpayload_tails_from_docs"])
def test_a_malformed_tail_gives_nothing_and_its_header_waits_for_more(tail: str) -> None:
    packets, rest = parse(bytes.fromhex(tail))
    assert packets == []
    assert rest == bytes.fromhex(tail)[1:]


BASIC = struct.pack("<BBHBBBHHbbBBBB", 1, 15, 0, 0, 0, 0, 7, 9, 0, 0, 0, 0, 160, 0)

#   what                                payload
BAD_PAYLOADS = [
    ("no basic sensors", bytes([3, 3, 0, 0, 0])),
    ("a part that runs past the end", BASIC + bytes([5, 6, 0, 0])),
    ("half a part header", BASIC + bytes([5])),
    ("basic sensors of another length", bytes([1, 4, 0, 0, 0, 0])),
]


@pytest.mark.parametrize(("what", "payload"), BAD_PAYLOADS, ids=[row[0] for row in BAD_PAYLOADS])
def test_a_bad_payload_with_a_right_checksum_is_passed_over(what: str, payload: bytes) -> None:
    packets, rest = parse(packet(payload) + FRAMES[0])
    assert [one.timestamp_ms for one in packets] == [EXPECTED[0]["timestamp_ms"]]
    assert rest == b""


def test_an_unknown_part_is_skipped_by_its_length() -> None:
    (feedback,), _ = parse(packet(bytes([99, 2, 1, 2]) + BASIC))
    assert (feedback.left_encoder, feedback.right_encoder) == (7, 9)


@given(st.integers(0, len(FRAMES[1]) - 1), st.integers(1, 255))
def test_any_changed_byte_loses_that_frame_alone(at: int, change: int) -> None:
    damaged = bytearray(FRAMES[1])
    damaged[at] ^= change
    stream = FRAMES[0] + bytes(damaged) + (FRAMES[2] + FRAMES[0]) * 3
    stamps = [one.timestamp_ms for one in parse(stream)[0]]
    assert stamps[0] == EXPECTED[0]["timestamp_ms"]
    assert EXPECTED[1]["timestamp_ms"] not in stamps
    assert stamps[-2:] == [EXPECTED[2]["timestamp_ms"], EXPECTED[0]["timestamp_ms"]]


GARBAGE = st.one_of(st.binary(max_size=300), st.lists(st.sampled_from([0xAA, 0x55, 3, 255]), max_size=60).map(bytes))


@given(GARBAGE)
def test_after_garbage_the_stream_is_found_again(garbage: bytes) -> None:
    after = LONGEST_PACKET_BYTES // len(FRAMES[0]) + 1
    packets, rest = parse(garbage + FRAMES[0] * after + FRAMES[1] + FRAMES[2])
    assert [one.timestamp_ms for one in packets[-2:]] == [one["timestamp_ms"] for one in EXPECTED[1:]]
    assert rest == b""


@given(GARBAGE, st.lists(st.integers(0, 600), max_size=6))
def test_it_does_not_matter_how_the_bytes_arrive(garbage: bytes, cuts: list[int]) -> None:
    stream = FRAMES[0] + garbage + FRAMES[1] + FRAMES[2]
    whole, whole_rest = parse(stream)
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces: list[Feedback] = []
    rest = b""
    for start, stop in pairwise(bounds):
        packets, rest = parse(rest + stream[start:stop])
        assert len(rest) < LONGEST_PACKET_BYTES
        pieces += packets
    assert (pieces, rest) == (whole, whole_rest)


def speed_and_radius(data: bytes) -> tuple[int, int]:
    assert data[:5] == HEADER + bytes([6, 1, 4])
    speed, radius = struct.unpack("<hh", data[5:9])
    return speed, radius


def test_the_packet_is_that_of_the_documentation() -> None:
    expected = bytes.fromhex(VECTORS["command_vectors"][0]["hex"])
    assert packet(struct.pack("<BBhh", 1, 4, 100, -100)) == expected


#   what                     command             speed [mm/s], radius [mm]
COMMANDS = [
    ("stop", Twist(0.0, 0.0), (0, 0)),
    ("straight", Twist(0.3, 0.0), (300, 0)),
    ("straight back", Twist(-0.2, 0.0), (-200, 0)),
    ("on the spot left", Twist(0.0, 1.0), (115, 1)),
    ("on the spot right", Twist(0.0, -2.0), (-230, 1)),
    ("arc left", Twist(0.6, 1.0), (715, 600)),
    ("arc right", Twist(0.6, -1.0), (715, -600)),
    ("arc back", Twist(-0.2, 0.5), (-258, -400)),
    ("almost straight", Twist(1.0, 1e-5), (1000, 0)),
    ("beyond 16 bits", Twist(1e6, 0.0), (32767, 0)),
]


@pytest.mark.parametrize(("what", "command", "expected"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_a_velocity_becomes_speed_and_radius(what: str, command: Twist, expected: tuple[int, int]) -> None:
    assert speed_and_radius(encode_velocity(command)) == expected


@given(st.floats(-1.0, 1.0), st.floats(-3.0, 3.0))
def test_the_table_of_the_protocol_read_backward_gives_the_command(v_mps: float, w_radps: float) -> None:
    speed, radius = speed_and_radius(encode_velocity(Twist(v_mps, w_radps)))
    half = 1000.0 * WHEELBASE_M / 2
    if radius == 0:
        v, w = speed / 1000.0, 0.0
    elif radius == 1:
        v, w = 0.0, speed / half
    else:
        w = speed / (radius + math.copysign(half, radius))
        v = w * radius / 1000.0
    assert v == pytest.approx(v_mps, abs=0.007)
    widest = abs(v_mps) / 32.767 if radius == 0 else 0.0  # an arc wider than 16 bits of millimetres goes straight
    assert w == pytest.approx(w_radps, abs=0.006 + widest)


@pytest.mark.parametrize("command", [Twist(math.nan, 0.0), Twist(0.0, math.inf), Twist(1e306, 0.0)])
def test_a_command_that_is_not_finite_is_refused(command: Twist) -> None:
    with pytest.raises(InputError, match="not finite"):
        encode_velocity(command)


START = parse(FRAMES[0])[0][0]


def moved(ms: int, left: int, right: int, start: Feedback = START) -> Feedback:
    return replace(
        start,
        timestamp_ms=(start.timestamp_ms + ms) % WRAP,
        left_encoder=(start.left_encoder + left) % WRAP,
        right_encoder=(start.right_encoder + right) % WRAP,
    )


def test_the_real_frames_are_those_of_a_base_driving_straight() -> None:
    first, second, third = (parse(frame)[0][0] for frame in FRAMES)
    for before, after in ((first, second), (second, third)):
        step = motion(before, after)
        assert step is not None
        dt_s, twist = step
        assert dt_s == pytest.approx(0.020)
        assert twist.v_mps == pytest.approx(7.5 * M_PER_TICK / 0.020)
        assert abs(twist.w_radps) <= M_PER_TICK / WHEELBASE_M / 0.020 * 1.001


@given(
    st.integers(0, WRAP - 1),
    st.integers(0, WRAP - 1),
    st.integers(1, 1000),
    st.integers(-300, 300),
    st.integers(-300, 300),
)
def test_motion_does_not_depend_on_where_the_counters_stand(
    stamp: int, encoder: int, ms: int, left: int, right: int
) -> None:
    elsewhere = replace(START, timestamp_ms=stamp, left_encoder=encoder, right_encoder=(encoder * 7) % WRAP)
    assert motion(elsewhere, moved(ms, left, right, elsewhere)) == motion(START, moved(ms, left, right))


#   what                         ms   left   right
NOT_BELIEVED = [
    ("the same packet again", 0, 0, 0),
    ("a second and more", 1001, 10, 10),
    ("time going backward", -20, -5, -5),
    ("a wheel too fast", 20, 400, 0),
    ("encoders set back", 20, -20000, -20000),
]


@pytest.mark.parametrize(("what", "ms", "left", "right"), NOT_BELIEVED, ids=[row[0] for row in NOT_BELIEVED])
def test_motion_that_is_not_believed(what: str, ms: int, left: int, right: int) -> None:
    assert motion(START, moved(ms, left, right)) is None


#   what comes                          what waits for more
CUT = [
    ("nothing but a header",            HEADER,                            HEADER),
    ("a length that no packet has",     HEADER + b"\x00\x00\x00",          b""),
    ("a packet that is not whole",      FRAMES[0][:-1],                    FRAMES[0][:-1]),
    ("a header after a packet",         FRAMES[0] + HEADER[:1],            HEADER[:1]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "buffer", "rest"), CUT, ids=[row[0] for row in CUT])
def test_what_is_cut_off_waits_and_what_is_none_is_passed_over(what: str, buffer: bytes, rest: bytes) -> None:
    packets, kept = parse(buffer)
    assert len(packets) == (1 if buffer.startswith(FRAMES[0]) else 0)
    assert kept == rest
    for one in FRAMES:
        assert parse(one)[0][0] in parse(kept + 4 * one)[0], "the stream goes on"
