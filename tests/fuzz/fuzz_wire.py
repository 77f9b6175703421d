"""What comes over the network, a serial port or the environment, as rows of `fuzz_parsers.Parser`."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from hil.recordings.bags.bag import plain
from onboard.commands.doctor import wire_probe
from onboard.commands.doctor.camera_probe import measure_by_diagnostics
from onboard.commands.doctor.cameras import camera
from onboard.commands.doctor.report import Report, console_for, show
from onboard.config.config import DEFAULT_ROBOT, Config, DdsSection, ScanSection, load_config
from onboard.config.mounts import Mount, Mounts, load_mounts
from onboard.drivers.dds import ros_convert as convert
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.camera_input import color_from_ros, depth_from_ros, lens_of, uncompressed
from onboard.drivers.dds.participant import UNDECODABLE
from onboard.drivers.dds.topics import domain_id
from onboard.drivers.kobuki_protocol import encode_velocity, packet, parse
from onboard.perception.laser_scan import scan_of_rays
from onboard.perception.point_cloud import points_at_last, scan_of_points
from onboard.service import stop_base
from onboard.service.stop_base import DRIVEN_FILE, RUNTIME_DIRECTORY
from onboard.service.systemd import NOTIFY_SOCKET, Notifier
from onboard.system import journald
from onboard.values.errors import OnboardError
from onboard.values.frames import Frames
from onboard.values.messages import Inputs, Pose, Teleop, Twist
from tests.fuzz.fuzz_bytes import damaged, fixed
from tests.fuzz.fuzz_parsers import Parser
from tests.onboard.drivers.dds.test_ros_types import SAMPLES
from tests.rigs.recordings.bag_rig import rvl
from tests.rigs.runtime_bench import Bench, Puppet

KINDS = ros.MESSAGES
ROBOT = "robot"
MOST_REST_BYTES = 260
"""A packet of the serial base: AA 55, length, 255 of payload, checksum."""
LENGTH = struct.Struct("<BH")
"""In front of each message of a row of them: its type, its bytes."""


# ---- messages of DDS, each alone


def seeds_of(kind: type[Any]) -> tuple[bytes, ...]:
    """Return valid messages of a type, as they come over the wire."""
    return tuple(ros.to_cdr(sample) for sample in SAMPLES if isinstance(sample, kind))


def damaged_message(kinds: tuple[type[Any], ...] = KINDS) -> st.SearchStrategy[bytes]:
    """Return what draws damaged messages of these types, the number of the type in front."""
    one = [damaged(*seeds_of(kind)).map(lambda body, kind=kind: bytes([KINDS.index(kind)]) + body) for kind in kinds]
    return st.one_of(one)


@cache
def small_camera() -> Mount:
    """Return a camera whose images are those of `SAMPLES`."""
    front = load_mounts(DEFAULT_ROBOT / "mounts.toml").depth["front"]
    return replace(front, width=2, height=2)


def judge(sample: Any) -> None:
    """Take a message as whoever reads it does, whatever is in it."""
    match sample:
        case ros.Odometry():
            convert.odometry_from_ros(sample, 1)
        case ros.PoseWithCovarianceStamped():
            convert.fix_from_ros(sample, 1)
        case ros.PoseStamped():
            convert.goal_from_ros(sample, 1)
        case ros.Path():
            convert.goals_from_ros(sample, 1)
        case ros.LaserScan():
            scan_of_rays(convert.rays_from_ros(sample), 1)
        case ros.PointCloud2():
            points_m, age_s = convert.points_from_ros(sample), convert.ages_from_ros(sample)
            if age_s is not None:
                points_m = points_at_last(points_m, np.eye(4), Twist(0.3, 0.5), age_s)
            scan_of_points(points_m, 1, np.eye(4), ScanSection())
        case ros.Imu():
            convert.imu_from_ros(sample, (0.0, 0.0, 1.0), 1)
        case ros.CameraInfo():
            lens_of(sample, "/camera/camera_info")
        case ros.Twist():
            convert.twist_from_ros(sample)
        case ros.TwistStamped():
            convert.twist_from_ros(sample.twist)
        case ros.SpeedLimit():
            convert.speed_limit_from_ros(sample, 1.0)
        case ros.TFMessage():
            frames = Frames()
            frames.hear(sample.transforms)
            frames.between("odom", "base_link")
        case ros.Image() | ros.CompressedImage():
            with contextlib.suppress(OnboardError):
                raw = uncompressed(sample) if isinstance(sample, ros.CompressedImage) else sample
                depth_from_ros(raw, replace(small_camera(), width=raw.width, height=raw.height))
            color_from_ros(sample)
        case ros.DiagnosticArray():
            statuses = wire_probe.statuses_of(ROBOT, [sample, sample])
            wire_probe.findings(statuses, claimed=True)
            wire_probe.rate_hz(statuses, wire_probe.RUNTIME, "ticks")


@cache
def default_robot() -> tuple[Config, Mounts]:
    """Return the robot whose runtime `told_by_a_runtime` speaks of."""
    config = load_config(None)
    return config, load_mounts(config.robot.mounts)


def told_by_a_runtime() -> tuple[bytes, ...]:
    """Return what a runtime says of itself and its cameras, as it comes over the wire."""
    device = {"serial": "123", "name": "D435", "firmware": "5.1", "usb_type": "3.2", "port": "video4linux"}
    rows = [
        (wire_probe.RUNTIME, 0, "driving", {"ticks": 300}),
        ("policy", 1, "late", {"decisions": 30}),
        ("camera front", 0, "working", {"frames": 100, "restarts": 1, "device": device}),
        ("camera top", 2, "covered", {"frames": 0, "restarts": 0}),
    ]
    return tuple(ros.to_cdr(convert.ros_diagnostics(ns, ROBOT, rows[:most])) for ns, most in ((1, 4), (10**9, 3)))


def read_diagnostics(content: bytes, _folder: Path) -> None:
    """Take diagnostics, which anybody on the domain may send, as the doctor does; its page must be JSON."""
    try:
        sample = ros.DiagnosticArray.deserialize(content)
    except UNDECODABLE:
        return
    sooner = convert.ros_diagnostics(
        0, ROBOT, [(wire_probe.RUNTIME, 0, "", {}), ("camera front", 0, "", {"frames": 0})]
    )
    statuses = wire_probe.statuses_of(ROBOT, [sooner, sample])
    config, mounts = default_robot()
    cameras = [camera(one) for one in measure_by_diagnostics(config, mounts, statuses)]
    found = Report(ROBOT, (*wire_probe.findings(statuses, claimed=True), *cameras), ())
    json.dumps(found.as_json(), allow_nan=False)
    show(found, console_for(io.StringIO()))


def read_message(content: bytes, _folder: Path) -> None:
    """Decode one message and judge it; what cannot be decoded is counted by its reader."""
    if not content:
        return
    try:
        sample = KINDS[content[0] % len(KINDS)].deserialize(content[1:])
    except UNDECODABLE:
        return
    judge(sample)


# ---- the same, one after the other, in a runtime that drives


def _at(stamp_ns: int, frame: str) -> ros.Header:
    return convert.header(stamp_ns, frame)


def heard_while_driving() -> tuple[bytes, ...]:
    """Return messages that a runtime of `Bench` takes: odometry and fixes that go on, goals, commands, limits."""
    stamps = [1_000_000_000 + 33_333_333 * slot for slot in (1, 2, 5)]
    samples = [
        *(convert.ros_odometry(ns, "odom", "base_link", Pose(0.01, 0.0, 0.0), Twist(0.3, 0.0)) for ns in stamps),
        *(convert.ros_fix(ns, "map", Pose(1.0, 2.0, 0.5), (0.1, 0.1, 0.05)) for ns in stamps),
        *(convert.ros_goal(stamps[0], frame, Pose(2.0, 0.5, 0.0)) for frame in ("base_link", "odom", "map")),
        ros.Twist(ros.Vector3(x=0.3), ros.Vector3(z=-1.0)),
        ros.SpeedLimit(_at(0, ""), True, 50.0),
        ros.Bool(True),
    ]
    return tuple(bytes([KINDS.index(type(sample))]) + ros.to_cdr(sample) for sample in samples)


def _framed(messages: list[bytes]) -> bytes:
    return b"".join(LENGTH.pack(message[0], len(message) - 1) + message[1:] for message in messages if message)


def _messages(content: bytes) -> Iterator[Any]:
    at = 0
    while at + LENGTH.size <= len(content):
        kind, length = LENGTH.unpack_from(content, at)
        at += LENGTH.size
        with contextlib.suppress(*UNDECODABLE):
            yield KINDS[kind % len(KINDS)].deserialize(content[at : at + length])
        at += length


def _with(inputs: Inputs, sample: Any) -> Inputs:
    now_ns = inputs.now_ns
    match sample:
        case ros.Odometry():
            return replace(inputs, odometry=(*inputs.odometry, convert.odometry_from_ros(sample, now_ns)))
        case ros.PoseWithCovarianceStamped():
            return replace(inputs, fixes=(convert.fix_from_ros(sample, now_ns),))
        case ros.PoseStamped():
            return replace(inputs, goals=(convert.goal_from_ros(sample, now_ns),))
        case ros.Twist():
            return replace(inputs, teleop=Teleop(now_ns, convert.twist_from_ros(sample)))
        case ros.SpeedLimit():
            return replace(inputs, speed_limit_mps=convert.speed_limit_from_ros(sample, 1.0))
        case ros.Bool():
            return replace(inputs, e_stop=bool(sample.data))
    return inputs


def drive_among(content: bytes, _folder: Path) -> None:
    """Drive a runtime that hears a message a tick; every command must be finite and within the limits."""
    bench = Bench(Puppet())
    bench.driving()
    for sample in _messages(content):
        bench.alter = lambda inputs, sample=sample: _with(inputs, sample)
        bench.tick()
    bench.alter = lambda inputs: inputs
    bench.ticks(4)
    limits = bench.config.limits
    for command in bench.sent:
        assert math.isfinite(command.v_mps)
        assert math.isfinite(command.w_radps)
        assert abs(command.v_mps) <= limits.v_max_mps + 1e-9
        assert abs(command.w_radps) <= limits.w_max_radps + 1e-9


# ---- others


FORMATS = (
    "rgb8; jpeg compressed bgr8", "16UC1; compressedDepth png", "jpeg", "png", "16UC1; compressedDepth rvl",
    "32FC1; compressedDepth rvl",
)  # fmt: skip


@cache
def pictures() -> tuple[bytes, ...]:
    """Return images as a bag of another robot holds them, the number of the format in front."""
    grey = np.arange(256 * 144, dtype=np.uint16).reshape(144, 256)
    found = []
    for number, (name, pixels) in enumerate(
        [("jpeg", grey.astype(np.uint8)), ("png", grey), ("jpeg", grey.astype(np.uint8)), ("png", grey)]
    ):
        stream = io.BytesIO(bytes(12 if number == 1 else 0))
        stream.seek(0, io.SEEK_END)
        Image.fromarray(pixels).save(stream, name)
        found.append(bytes([number]) + stream.getvalue())
    packed = np.array([2, 2], "<i4").tobytes() + rvl(np.array([1000, 0, 1003, 999]))
    found += [bytes([4]) + bytes(12) + packed, bytes([5, 0, 0, 0, 0]) + np.array([1e4, -1e3], "<f4").tobytes() + packed]
    return tuple(found)


def read_picture(content: bytes, _folder: Path) -> None:
    """Take a compressed image as colour, or as depth."""
    if not content:
        return
    sample = ros.CompressedImage(ros.Header(), FORMATS[content[0] % len(FORMATS)], content[1:])
    with contextlib.suppress(OnboardError):
        color_from_ros(sample)
    plain(sample)
    depth_from_ros(sample, small_camera())


FEEDBACK = packet(bytes([1, 15, *range(15)]))


def read_serial(content: bytes, _folder: Path) -> None:
    """Take bytes in pieces of the length that the first one says; what is left over stays bounded."""
    step, rest = 1 + (content[0] if content else 0), b""
    for at in range(1, len(content), step):
        _, rest = parse(rest + content[at : at + step])
        assert len(rest) <= MOST_REST_BYTES


def read_environment(content: bytes, folder: Path) -> None:
    """Take what a service manager, a shell and the runtime's own note say; no variable can hold a zero byte."""
    (folder / DRIVEN_FILE).write_bytes(content)
    text = os.fsdecode(content.replace(b"\0", b""))
    stop_base.noted({RUNTIME_DIRECTORY: str(folder)})
    stop_base.log_end({"SERVICE_RESULT": text, "EXIT_CODE": text, "EXIT_STATUS": text})
    journald.is_ours(1, {journald.STREAM: text})
    with Notifier({NOTIFY_SOCKET: text.lstrip("/") if text.startswith("/") else text}) as notifier:
        notifier.send("READY=1", f"STATUS={text}")
    journald.entry(None, "info", {"event": text, text: text})
    domain_id(DdsSection(), {"ROS_DOMAIN_ID": text})


NOTE = {
    "dds": DdsSection().model_dump(mode="json"),
    "odometry": {"input": "dds", "serial_port": "/dev/base"},
    "control_hz": 30.0,
}


PARSERS = (
    Parser("DDS messages", lambda folder: damaged_message(), read_message),
    Parser("diagnostics", fixed(*told_by_a_runtime()), read_diagnostics),
    Parser("messages while driving",
           lambda folder: st.lists(damaged(*heard_while_driving(), longest=0), max_size=8).map(_framed), drive_among),
    Parser("compressed images", fixed(*pictures()), read_picture),
    Parser("serial frames",
           fixed(*(b"\x05" + one for one in (FEEDBACK, FEEDBACK * 3, encode_velocity(Twist(0.3, 0.1))))),
           read_serial),
    Parser("environment",
           fixed(b"7", b"0", b"8:12345", b"/run/systemd/notify", b"@notify", json.dumps(NOTE).encode()),
           read_environment),
)  # fmt: skip
