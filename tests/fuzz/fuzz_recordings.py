"""Recordings of ours, of cameras and of other robots, as rows of `fuzz_parsers.Parser`."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

from hypothesis import strategies as st
from mcap.writer import CompressionType, Writer

from hil.commands.judge.replay import as_json
from hil.commands.look.report import timelines_of
from hil.recordings.bags.bag import open_bag
from hil.recordings.locate import takes_of
from hil.recordings.recording import open_recording
from hil.replay.replay import Replayer, ReplayOptions, UnreadableFile
from hil.report.page import write_page
from onboard.assembly.policies import policy_maker
from onboard.config.config import Config, ZonesSection
from onboard.config.footprint import Footprint
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.realsense.device import check_recording_file
from onboard.navigation.ekf import LocalizationState
from onboard.recording import state_snapshot
from onboard.recording.repair import repair
from onboard.safety.keepout_zones import decode, encode, load_zones, zone_of
from onboard.values.errors import InputError
from onboard.values.messages import Pose
from tests.fuzz.fuzz_bytes import damaged
from tests.fuzz.fuzz_parsers import InFile, Parser
from tests.rigs.recordings.bag_rig import CAMERA_TOPICS, drive, write_ros1, write_ros2_file, write_ros2_mcap
from tests.rigs.recordings.replay_mutations import Whole, mutant, put_together, taken_apart
from tests.rigs.runtime_bench import MOUNTS, PLANT, Bench, Puppet, Tape

MUTANTS = 1 << 20
"""Of a recording that is taken apart, spoiled and put together again (`replay_mutations`)."""
TAIL_BYTES = 6_000
"""The end of a file, where its index and summary are."""


def small_recording(compression: CompressionType) -> bytes:
    """Return a recording of one topic, some chunks long."""
    stream = io.BytesIO()
    writer = Writer(stream, compression=compression, chunk_size=200)
    writer.start("ros2")
    schema = writer.register_schema("std_msgs/msg/Bool", "ros2msg", b"bool data")
    channel = writer.register_channel("/e_stop", "cdr", schema)
    for i in range(20):
        writer.add_message(channel, i, ros.to_cdr(ros.Bool(True)), i)
    writer.finish()
    return stream.getvalue()


def unfinished(_folder: Path) -> st.SearchStrategy[bytes]:
    whole = [small_recording(kind) for kind in (CompressionType.NONE, CompressionType.ZSTD)]
    return damaged(*whole, *(one[:-60] for one in whole))


@cache
def a_drive(folder: Path) -> Whole:
    """Return two seconds of a drive before walls in several chunks, whole states among them.

    It is small, for its images are even.
    """
    place = folder / "drive"
    place.mkdir()
    config = Config()
    tape = Tape(place, config)
    bench = Bench(policy_maker(config, PLANT)(), listeners=[tape])
    for camera in MOUNTS.depth:
        bench.wall(camera, 3000)
    bench.ask()
    bench.ticks(25)
    bench.fix(Pose(1.0, 2.0, 0.6))
    bench.ticks(30)
    return taken_apart(put_together(taken_apart(tape.close().read_bytes())))


def spoiled_drive(folder: Path) -> st.SearchStrategy[bytes]:
    """Return what draws the drive spoiled in its parts, in its bytes, or in its index and summary."""
    whole = a_drive(folder)
    head, tail = whole.content[:-TAIL_BYTES], whole.content[-TAIL_BYTES:]
    parts = st.integers(0, MUTANTS).map(lambda number: mutant(whole, number))
    return st.one_of(parts, damaged(whole.content), damaged(tail, longest=0).map(lambda end: head + end))


def read_messages(path: Path) -> None:
    with open_recording(path) as recording:
        for _ in recording.read():
            pass


@cache
def replayer() -> Replayer:
    return Replayer(ReplayOptions())


def replayed(path: Path) -> None:
    """Replay a file. Raises InputError where it is refused; fails unless the answer is JSON that names the file."""
    (answer,) = [one for take in takes_of([str(path)]) for one in replayer()(take).answers]
    json.dumps(as_json([answer]), allow_nan=False)
    if isinstance(answer, UnreadableFile):
        assert answer.reason.startswith(f"{path}: "), answer.reason
        raise InputError(answer.reason)


def reported(path: Path) -> None:
    for take in takes_of([str(path)]):
        for timeline in timelines_of(take)[0]:
            write_page(path.with_name("page.html"), timeline)


# ---- what stands in them as text


def states(_folder: Path) -> st.SearchStrategy[bytes]:
    bench = Bench(Puppet()).driving()
    bench.fix(Pose(1.0, 2.0, 0.6))
    return damaged(state_snapshot.encode(bench.tick().after).encode())


def state(content: bytes, _folder: Path) -> None:
    state_snapshot.decode(content.decode(errors="replace"))


def masks_in_a_recording(folder: Path) -> st.SearchStrategy[bytes]:
    from tests.fuzz.fuzz_files import MAP, MAP_YAML, image

    (folder / MAP).write_bytes(MAP_YAML)
    (folder / "map.pgm").write_bytes(image("map.pgm"))
    masks = load_zones(ZonesSection(keep_out=folder / MAP, speed=folder / MAP), 1.0, Footprint(0.25))
    assert masks is not None
    return damaged(encode(masks).encode())


def recorded_masks(content: bytes, _folder: Path) -> None:
    masks = decode(content.decode(errors="replace"), ZonesSection(), 1.0, Footprint(0.25))
    zone_of(masks, LocalizationState(map_from_base=Pose(0.3, 0.2, 0.4)))


# ---- of others


def ros1_bag(folder: Path) -> bytes:
    return write_ros1(folder / "ros1", drive(0.3, CAMERA_TOPICS)).read_bytes()


def ros2_sqlite(folder: Path) -> bytes:
    return write_ros2_file(folder / "ros2", drive(0.3, CAMERA_TOPICS)).read_bytes()


def ros2_mcap(folder: Path) -> bytes:
    (file,) = write_ros2_mcap(folder / "mcap", drive(0.3, CAMERA_TOPICS)).glob("*.mcap")
    return file.read_bytes()


def bags(writers: Sequence[Callable[[Path], bytes]], folder: Path) -> st.SearchStrategy[bytes]:
    return damaged(*(write(folder) for write in writers))


def bag(path: Path) -> None:
    """Read all messages of all topics that are read."""
    with open_bag([path]) as opened:
        for _ in opened.read({topic.name for topic in opened.topics}):
            pass


def camera_heads(folder: Path) -> st.SearchStrategy[bytes]:
    field = b"index_pos=" + struct.pack("<Q", 80)
    closed = b"#ROSBAG V2.0\n" + struct.pack("<II", len(field) + 4, len(field)) + field + bytes(80)
    return damaged(ros1_bag(folder)[:4200], ros2_sqlite(folder)[:200], closed)


PARSERS = (
    Parser("unfinished recording", unfinished, InFile("r.mcap", repair)),
    Parser("recording", spoiled_drive, InFile("r.mcap", read_messages)),
    Parser("replay", spoiled_drive, InFile("r.mcap", replayed)),
    Parser("page of a recording", spoiled_drive, InFile("r.mcap", reported)),
    Parser("state in a recording", states, state),
    Parser("zones in a recording", masks_in_a_recording, recorded_masks),
    Parser("camera recording", camera_heads, InFile("r.db3", check_recording_file)),
    Parser("ROS 1 bag", partial(bags, [ros1_bag]), InFile("r.bag", bag)),
    Parser("ROS 2 bag", partial(bags, [ros2_sqlite]), InFile("r.db3", bag)),
    Parser("ROS 2 bag of MCAP", partial(bags, [ros2_mcap]), InFile("r.mcap", bag)),
)
