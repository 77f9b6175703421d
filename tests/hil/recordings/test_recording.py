"""Recordings as messages in order; foreign and damaged files are refused in one line."""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from mcap.reader import SeekingReader
from mcap.records import ChunkIndex
from mcap.writer import CompressionType, Writer

from hil.recordings import recording as recordings
from hil.recordings.recording import MOST_BYTES, TICK, messages_of, open_recording
from hil.replay.recorded_policy import recorded_plant
from onboard.values.errors import InputError
from tests.rigs.recorded_drive import Recorded, record_drive


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record_drive(tmp_path_factory.mktemp("drive"))


def copied(drive: Recorded, folder: Path) -> Path:
    return Path(shutil.copy(drive.path, folder / "drive.mcap"))


def test_every_message_comes_under_our_name_at_its_time(drive):
    with open_recording(drive.path) as recording:
        messages = list(recording.read())
        assert recording.left_out == ()
        assert list(recording.mounts.depth) == ["front_left", "front", "front_right", "rear"]
        assert recording.config.robot.name == "robot"
    count = Counter(message.topic for message in messages)
    assert len(messages) == recording.messages
    for name in (TICK, "tf", "scan", "cmd_vel", "odom"):
        assert count[name] == len(drive.ticks)
    decisions = sum(tick.sensed is not None for tick in drive.ticks)
    assert count["front/depth/image"] == count["rear/depth/image"] == count["color/image"] == decisions
    assert (count["goal_pose"], count["amcl_pose"], count["e_stop"]) == (1, 1, 1)
    assert [message.time_ns for message in messages if message.topic == TICK] == drive.times_ns


def test_topics_keep_our_names_when_the_robot_has_a_namespace_and_a_remapping(tmp_path):
    drive = record_drive(tmp_path, dds={"namespace": "robot7", "remap": {"scan": "my_scan"}})
    with open_recording(drive.path) as recording:
        topics = Counter(message.topic for message in recording.read())
    assert topics["scan"] == topics["cmd_vel"] == len(drive.ticks)
    assert "front/depth/image" in topics


def test_stamped_commands_are_read_as_recorded(tmp_path):
    drive = record_drive(tmp_path, dds={"stamped_cmd_vel": True})
    with open_recording(drive.path) as recording:
        assert recording.left_out == ()
        sent = [message.sample.twist for message in recording.read() if message.topic == "cmd_vel"]
    assert [(twist.linear.x, twist.angular.z) for twist in sent] == [
        (tick.command.v_mps, tick.command.w_radps) for tick in drive.ticks
    ]


def test_a_message_of_another_version_is_left_out_and_named(drive, monkeypatch):
    monkeypatch.setattr(recordings, "message_type", lambda kind: type("Other", (), {"definition": "float64 other\n"}))
    with open_recording(drive.path) as recording:
        assert list(recording.read()) == []
    assert "/onboard/tick" in recording.left_out


def foreign(path: Path) -> None:
    with path.open("wb") as stream:
        writer = Writer(stream)
        writer.start(profile="ros2", library="another")
        schema = writer.register_schema("std_msgs/msg/String", "ros2msg", b"string data\n")
        writer.add_message(writer.register_channel("/chatter", "cdr", schema), 1, b"\0\1\0\0\1\0\0\0\0", 1)
        writer.finish()


#   what is done to it   the line, after the name of the file
BAD_FILES = [
    (lambda path: path.write_bytes(b"SQLite format 3\0" * 100), "not a recording: no MCAP file"),
    (lambda path: path.write_bytes(b""), "not a recording: no MCAP file"),
    (
        lambda path: path.write_bytes(path.read_bytes()[:-2000]),
        "unfinished: still being recorded, or cut off: then `onboard repair` completes it",
    ),
    (foreign, "not a recording of onboard: it has no record 'onboard_session'"),
    (lambda path: (path.unlink(), path.mkdir()), "cannot be read: Is a directory"),
    (Path.unlink, "cannot be read: No such file or directory"),
]


@pytest.mark.parametrize(("spoil", "line"), BAD_FILES)
def test_a_file_that_is_no_whole_recording_of_ours_is_refused_in_one_line(drive, tmp_path, spoil, line):
    path = copied(drive, tmp_path)
    spoil(path)
    with pytest.raises(InputError) as raised, open_recording(path):
        pass
    assert str(raised.value) == f"{path}: {line}"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.99])
def test_damage_in_the_middle_is_one_line_after_what_was_good(drive, tmp_path, share):
    path = copied(drive, tmp_path)
    with open_recording(path) as recording:
        whole = sum(1 for _ in recording.read())
    with path.open("rb") as stream:
        chunk = SeekingReader(stream).get_summary().chunk_indexes[-1]
    at = chunk.chunk_start_offset + chunk.chunk_length - chunk.compressed_size + int(chunk.compressed_size * share)
    with path.open("r+b") as stream:
        stream.seek(at)
        byte = stream.read(1)[0]
        stream.seek(at)
        stream.write(bytes([byte ^ 0x5A]))
    good = []
    with pytest.raises(InputError) as raised, open_recording(path) as recording:
        good.extend(recording.read())
    assert 0 < len(good) < whole
    assert str(raised.value).startswith(f"{path}: damaged after the messages of 17900000")
    assert "\n" not in str(raised.value)


#   field            value                                line
BAD_SESSIONS = [
    ("configuration", '{"rates": {"control_hz": -1}}', "rates.control_hz"),
    ("configuration", "{", "recorded configuration: "),
    ("mounts", "[cameras]", "recorded mounts"),
]


@pytest.mark.parametrize(("field", "value", "words"), BAD_SESSIONS)
def test_a_session_that_cannot_be_understood_is_one_line(tmp_path, field, value, words):
    drive = record_drive(tmp_path, ticks=40, session={field: value})
    with pytest.raises(InputError) as raised, open_recording(drive.path):
        pass
    assert str(raised.value).startswith(f"{drive.path}: ")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_each_mistake_in_a_recorded_plant_or_in_recorded_mounts_names_the_file(tmp_path):
    """A mistake is a line, and whoever reads many recordings must see whose it is."""
    drive = record_drive(tmp_path / "plant", ticks=40, session={"plant": "name = 'empty'"})
    with open_recording(drive.path) as recording, pytest.raises(InputError) as raised:
        recorded_plant(drive.path, recording.sessions[0])
    lines = str(raised.value).splitlines()
    drive = record_drive(tmp_path / "mounts", ticks=40, session={"mounts": "other = 1\nanother = 2"})
    with pytest.raises(InputError) as raised, open_recording(drive.path):
        pass
    refused = [(f"{tmp_path}/plant", lines), (f"{tmp_path}/mounts", str(raised.value).splitlines())]
    for folder, said in refused:
        assert len(said) > 1
        assert all(line.startswith(folder) and ": recorded " in line for line in said), said


# ---- Messages of chunks: equal to the library's reader; impossible sizes are refused

MESSAGES = 400


def written(compression: CompressionType = CompressionType.ZSTD) -> bytes:
    """Return a file of two topics in several chunks."""
    stream = BytesIO()
    writer = Writer(stream, chunk_size=1 << 12, compression=compression)
    writer.start(profile="ros2", library="test")
    writer.add_metadata("about", {"a": "b"})
    schema = writer.register_schema("std_msgs/msg/String", "ros2msg", b"string data\n")
    channels = [writer.register_channel(topic, "cdr", schema) for topic in ("/even", "/odd")]
    for number in range(MESSAGES):
        writer.add_message(channels[number % 2], 1000 + number, bytes([number % 251]) * 50, 1000 + number)
    writer.finish()
    return stream.getvalue()


def summary_of(content: bytes) -> Any:
    return SeekingReader(BytesIO(content)).get_summary()


@pytest.mark.parametrize("compression", [CompressionType.ZSTD, CompressionType.NONE])
@pytest.mark.parametrize("topics", [{"/even", "/odd"}, {"/odd"}, set()])
def test_messages_are_those_of_the_librarys_reader(compression: CompressionType, topics: set[str]) -> None:
    content = written(compression)
    summary = summary_of(content)
    assert len(summary.chunk_indexes) > 3
    channels = {number for number, one in summary.channels.items() if one.topic in topics}
    theirs = [
        message for _, channel, message in SeekingReader(BytesIO(content)).iter_messages() if channel.topic in topics
    ]
    assert list(messages_of(BytesIO(content), summary.chunk_indexes, channels)) == theirs
    assert len(theirs) == MESSAGES // 2 * len(topics)


def test_a_compression_that_is_not_ours_is_named() -> None:
    content = written(CompressionType.LZ4)
    with pytest.raises(ValueError, match="a chunk compressed with 'lz4', must be zstd"):
        list(messages_of(BytesIO(content), summary_of(content).chunk_indexes, {1, 2}))


#   what the index says that is not so          said
LIES = [
    ({"chunk_length": MOST_BYTES + 1},           "an index of a record of 67108865 bytes"),
    ({"chunk_length": 3},                        "an index of a record of 3 bytes"),
    ({"chunk_start_offset": 1 << 40},            "the indexed record is not at byte 1099511627776"),
    ({"chunk_start_offset": 9},                  "the indexed record is not at byte 9"),
]  # fmt: skip


@pytest.mark.parametrize(("lie", "expected"), LIES)
def test_an_index_that_lies_is_found_out(lie: dict[str, int], expected: str) -> None:
    content = written()
    index: ChunkIndex = summary_of(content).chunk_indexes[0]
    for name, value in lie.items():
        setattr(index, name, value)
    with pytest.raises(ValueError, match=expected):
        list(messages_of(BytesIO(content), [index], {1, 2}))


def test_a_chunk_is_not_believed_to_hold_more_than_any_of_ours() -> None:
    content = bytearray(written())
    index = summary_of(bytes(content)).chunk_indexes[0]
    struct.pack_into("<Q", content, index.chunk_start_offset + 9 + 16, MOST_BYTES + 1)
    with pytest.raises(ValueError, match=f"claims {MOST_BYTES + 1} bytes"):
        list(messages_of(BytesIO(bytes(content)), [index], {1, 2}))
