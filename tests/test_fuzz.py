"""Every parser of bytes from outside, fed damaged ones: each is understood, or refused by the error that it promises.

A few dozen of each here; `make fuzz` feeds thousands.
(Spoiled recordings in replay: `test_replay_fuzz.py`.)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fuzz_bytes import damaged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcap.writer import CompressionType, Writer
from PIL import Image
from test_ros_types import SAMPLES

from hil.ros_map import load_ros_map
from hil.vector_map import load_vector_map
from onboard.config import DEFAULT_ROBOT, load_config
from onboard.drivers import ros_messages as convert
from onboard.drivers import ros_types as ros
from onboard.drivers.kobuki import encode_velocity, packet, parse
from onboard.drivers.recording_file import check_recording_file
from onboard.drivers.wire import UNDECODABLE
from onboard.errors import OnboardError
from onboard.laser import scan_of_rays
from onboard.manifest import load_manifest
from onboard.messages import Twist
from onboard.motion import load_plant
from onboard.mounts import load_mounts
from onboard.onnx_file import weight_types
from onboard.pretrained import model_path
from onboard.repair import repair

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "40"))
FUZZED = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
MOST_REST_BYTES = 260
"""A packet of the serial base: AA 55, length, 255 of payload, checksum."""


@dataclass(frozen=True)
class Parser:
    """A parser of a file: its name there, what it may raise, what a valid file holds; others go beside it."""

    name: str
    file: str
    read: Callable[[Path], object]
    seeds: tuple[bytes, ...]
    beside: dict[str, bytes] = field(default_factory=dict)


def a_recording(folder: Path, compression: CompressionType) -> bytes:
    """Return a small recording that was not finished, as a crash leaves it."""
    with (folder / "whole.mcap").open("wb") as stream:
        writer = Writer(stream, compression=compression, chunk_size=200)
        writer.start("ros2")
        schema = writer.register_schema("std_msgs/msg/Bool", "ros2msg", b"bool data")
        channel = writer.register_channel("/e_stop", "cdr", schema)
        for i in range(20):
            writer.add_message(channel, i, ros.to_cdr(ros.Bool(True)), i)
        writer.finish()
    return (folder / "whole.mcap").read_bytes()


def a_map(folder: Path) -> bytes:
    Image.new("L", (12, 9), 254).save(folder / "map.pgm")
    return (folder / "map.pgm").read_bytes()


MAP_YAML = (
    b"image: map.pgm\nresolution: 0.05\norigin: [0.0, 0.0, 0.0]\nnegate: 0\noccupied_thresh: 0.65\nfree_thresh: 0.2\n"
)
VECTOR_MAP = b"0 0 1 0\n1 0 1 1\n"
MODEL = model_path("onboard-v1")
MANIFEST = MODEL.with_name(MODEL.name + ".manifest.json").read_bytes()
MODEL_HEAD = 4096


@pytest.fixture(scope="module")
def parsers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    recordings = tuple(a_recording(folder, kind) for kind in (CompressionType.NONE, CompressionType.ZSTD))
    pgm, default = a_map(folder), (DEFAULT_ROBOT / "onboard.toml").read_bytes()
    rows = [
        Parser("configuration", "robot.toml", load_config, (default, b"[dds]\ndomain = 3\npeers = []\n")),
        Parser("mounts", "mounts.toml", load_mounts, ((DEFAULT_ROBOT / "mounts.toml").read_bytes(),)),
        Parser("plant", "plant.toml", load_plant, ((DEFAULT_ROBOT / "plant.toml").read_bytes(),)),
        Parser("manifest", "m.onnx.manifest.json", lambda path: load_manifest(path.with_name("m.onnx")), (MANIFEST,),
               {"m.onnx": b""}),
        Parser("model", "m.onnx", weight_types, (MODEL.read_bytes()[:MODEL_HEAD],)),
        Parser("map table", "map.yaml", load_ros_map, (MAP_YAML,), {"map.pgm": pgm}),
        Parser("map image", "map.pgm", lambda path: load_ros_map(path.with_name("map.yaml")), (pgm,),
               {"map.yaml": MAP_YAML}),
        Parser("vector map", "map.txt", load_vector_map, (VECTOR_MAP,)),
        Parser("unfinished recording", "r.mcap", repair, (*recordings, *(one[:-60] for one in recordings))),
        Parser("camera recording", "r.db3", check_recording_file, (b"SQLite format 3\0" + bytes(84), b"x" * 100)),
        Parser("camera bag", "r.bag", check_recording_file, (b"#ROSBAG V2.0\n" + bytes(80),)),
    ]  # fmt: skip
    return {row.name: row for row in rows}


NAMES = (
    "configuration", "mounts", "plant", "manifest", "model", "map table", "map image", "vector map",
    "unfinished recording", "camera recording", "camera bag",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_read_or_refused_in_one_line(parsers, tmp_path, name):
    parser = parsers[name]
    for other, content in parser.beside.items():
        (tmp_path / other).write_bytes(content)

    @FUZZED
    @given(damaged(*parser.seeds))
    def fed(content):
        (tmp_path / parser.file).write_bytes(content)
        refusal = ""
        try:
            parser.read(tmp_path / parser.file)
        except OnboardError as error:
            refusal = str(error)
        assert "\n" not in refusal

    fed()


#   field of a chunk's head   its offset there   a length beyond all bounds, and its bytes
LENGTHS = [
    ("unpacked", 16, 2**63, 8),
    ("unpacked", 16, 2**41, 8),
    ("packed", 36, 2**63, 8),
    ("packed", 36, 2**41, 8),
    ("name", 28, 2**31, 4),
]
RECORD_HEAD_BYTES = 9
CHUNK = 6


@pytest.mark.parametrize(("name", "offset", "length", "width"), LENGTHS)
def test_found_once_a_chunk_that_names_a_length_beyond_all_bounds(tmp_path, name, offset, length, width):
    content = bytearray(a_recording(tmp_path, CompressionType.ZSTD)[:-60])
    header_bytes = RECORD_HEAD_BYTES + int.from_bytes(content[9:17], "little")
    chunk = len(b"\x89MCAP0\r\n") + header_bytes
    assert content[chunk] == CHUNK
    at = chunk + RECORD_HEAD_BYTES + offset
    content[at : at + width] = length.to_bytes(width, "little")
    (tmp_path / "r.mcap").write_bytes(content)
    with contextlib.suppress(OnboardError):
        assert repair(tmp_path / "r.mcap").messages < 20


def judged(sample):
    """Take a message as the runtime does, whatever is in it."""
    match sample:
        case ros.Odometry():
            convert.odometry_from_ros(sample, 1)
        case ros.PoseWithCovarianceStamped():
            convert.fix_from_ros(sample, 1)
        case ros.PoseStamped():
            convert.goal_from_ros(sample, 1)
        case ros.LaserScan():
            scan_of_rays(convert.rays_from_ros(sample), 1)
        case ros.Twist():
            convert.twist_from_ros(sample)


@pytest.mark.parametrize("kind", ros.MESSAGES, ids=lambda kind: kind.__name__)
def test_a_message_is_understood_or_counted_as_undecodable(kind):
    seeds = [ros.to_cdr(sample) for sample in SAMPLES if isinstance(sample, kind)]

    @FUZZED
    @given(damaged(*seeds))
    def heard(content):
        try:
            sample = kind.deserialize(content)
        except UNDECODABLE:
            return
        with contextlib.suppress(OnboardError):
            judged(sample)

    heard()


FEEDBACK = packet(bytes([1, 15, *range(15)]))


@FUZZED
@given(st.lists(damaged(FEEDBACK, FEEDBACK * 3, encode_velocity(Twist(0.3, 0.1))), max_size=4))
def test_serial_bytes_are_never_too_much(pieces):
    rest = b""
    for piece in pieces:
        _, rest = parse(rest + piece)
        assert len(rest) <= MOST_REST_BYTES
