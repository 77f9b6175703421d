"""Repair of unfinished recordings: all complete records survive, and no other file changes."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from mcap.writer import Writer
from rosbags.highlevel import AnyReader, AnyReaderError

from onboard.config.config import RecordSection
from onboard.drivers.dds.ros_types import String, to_cdr
from onboard.recording.mcap_file import RecordFile
from onboard.recording.recorder import Recorder
from onboard.recording.repair import MAX_CUT_BYTES, is_finished, repair
from onboard.recording.ros_schema import message_type
from onboard.values.errors import InputError

STRING = message_type(String)
CHUNK_ENDS = (10, 11, 25, 40)
"""Number of messages in the file after each flush; each flush ends a chunk."""


def write_file(path: Path) -> list[int]:
    """Record 40 messages on three topics in four chunks; return the file's size after each flush."""
    file = RecordFile(path, {"mounts": "m"}, "test")
    sizes = [file.size_bytes()]
    for number in range(CHUNK_ENDS[-1]):
        topic = "/late" if number >= CHUNK_ENDS[1] and number % 2 else f"/topic{number % 2}"
        file.add(topic, STRING, to_cdr(String(f"message {number}")), 1000 + number, number)
        if number + 1 in CHUNK_ENDS:
            sizes.append(file.flush())
    file.finish()
    return sizes


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[int]]:
    path = tmp_path_factory.mktemp("whole") / "whole.mcap"
    sizes = write_file(path)
    return path.read_bytes(), sizes


def read(path: Path) -> list[str]:
    """Return the texts of all messages. Check that reading topic by topic gives the same texts."""
    with AnyReader([path]) as reader:
        everything = [reader.deserialize(data, kind.msgtype).data for kind, _, data in reader.messages()]
        for connection in reader.connections:
            alone = list(reader.messages(connections=[connection]))
            assert len(alone) == connection.msgcount
        assert reader.message_count == len(everything)
    return everything


def expected(count: int) -> list[str]:
    return [f"message {number}" for number in range(count)]


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_a_file_cut_anywhere_gives_back_its_whole_chunks(
    whole: tuple[bytes, list[int]], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content, sizes = whole
    cut = data.draw(st.integers(sizes[0], len(content) - 1))
    tail = data.draw(st.sampled_from([b"", bytes(1000), b"\xff" * 50]))
    path = tmp_path_factory.mktemp("cut") / "cut.mcap"
    path.write_bytes(content[:cut] + tail)
    with pytest.raises(AnyReaderError):
        read(path)
    done = repair(path)
    flushed = max((count for count, size in zip((0, *CHUNK_ENDS), sizes, strict=True) if size <= cut), default=0)
    messages = read(path) if done.messages else []
    assert messages == expected(done.messages)
    assert done.messages >= flushed
    assert done.messages in (0, *CHUNK_ENDS)
    assert (done.finished, is_finished(path)) == (False, True)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_repair_that_was_interrupted_is_repeated(
    whole: tuple[bytes, list[int]], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content, sizes = whole
    path = tmp_path_factory.mktemp("twice") / "twice.mcap"
    path.write_bytes(content[: sizes[3] + 7])
    once = repair(path)
    repaired = path.read_bytes()
    path.write_bytes(repaired[: data.draw(st.integers(sizes[3], len(repaired) - 1))])
    assert repair(path).messages == once.messages == CHUNK_ENDS[2]
    assert path.read_bytes() == repaired


def test_a_finished_file_is_not_touched(whole: tuple[bytes, list[int]], tmp_path: Path) -> None:
    path = tmp_path / "finished.mcap"
    path.write_bytes(whole[0])
    assert repair(path).finished
    assert path.read_bytes() == whole[0]


def test_the_session_record_survives(whole: tuple[bytes, list[int]], tmp_path: Path) -> None:
    path = tmp_path / "session.mcap"
    path.write_bytes(whole[0][: whole[1][2]])
    repair(path)
    with path.open("rb") as file:
        (metadata,) = make_reader(file).iter_metadata()
    assert metadata.metadata == {"mounts": "m"}


def test_a_last_chunk_with_a_wrong_byte_is_left_out(whole: tuple[bytes, list[int]], tmp_path: Path) -> None:
    content, sizes = whole
    path = tmp_path / "wrong.mcap"
    damaged = bytearray(content[: sizes[4]])
    damaged[sizes[3] + 80] ^= 0xFF
    path.write_bytes(damaged)
    assert repair(path).messages == CHUNK_ENDS[2]
    assert read(path) == expected(CHUNK_ENDS[2])


INDEX, METADATA = 0x07, 0x0C


def first(content: bytes, opcode: int, start: int) -> int:
    """Return the offset of the first record of this kind, from `start`."""
    at = 8
    while content[at] != opcode or at < start:
        at += 9 + int.from_bytes(content[at + 1 : at + 9], "little")
    return at


def test_an_index_that_does_not_fit_ends_what_is_believed(whole: tuple[bytes, list[int]], tmp_path: Path) -> None:
    content, sizes = whole
    path, damaged = tmp_path / "index.mcap", bytearray(content[: sizes[4]])
    at = first(content, INDEX, sizes[2])
    damaged[at + 11 : at + 15] = (2**31 - 1).to_bytes(4, "little")
    path.write_bytes(damaged)
    assert repair(path).messages == CHUNK_ENDS[2]
    assert read(path) == expected(CHUNK_ENDS[2])


def test_a_session_record_that_does_not_fit_leaves_nothing(whole: tuple[bytes, list[int]], tmp_path: Path) -> None:
    content, sizes = whole
    path, damaged = tmp_path / "session.mcap", bytearray(content[: sizes[4]])
    at = first(content, METADATA, 0)
    damaged[at + 1] += 1
    path.write_bytes(damaged)
    assert repair(path).messages == 0
    assert is_finished(path)


def foreign(path: Path) -> None:
    with path.open("wb") as stream:
        writer = Writer(stream, use_chunking=False)
        writer.start(profile="ros2")
        schema = writer.register_schema("std_msgs/msg/String", "ros2msg", b"string data")
        writer.add_message(writer.register_channel("/a", "cdr", schema), 1, to_cdr(String("x")), 1)


def empty(path: Path) -> None:
    path.touch()


def only_magic(path: Path) -> None:
    path.write_bytes(b"\x89MCAP0\r\n")


def text(path: Path) -> None:
    path.write_text("not a recording")


def damaged_in_the_middle(path: Path) -> None:
    write_file(path)
    content = path.read_bytes()
    path.write_bytes(content[:600] + bytes(200) + content[800:])
    os.truncate(path, MAX_CUT_BYTES + 10_000)


#   file                    words in the message
REFUSED = [
    (foreign, "not recorded by onboard"),
    (empty, "not an MCAP file"),
    (only_magic, "ends before its first record"),
    (text, "not an MCAP file"),
    (damaged_in_the_middle, "damaged at byte .* not only at its end"),
]


@pytest.mark.parametrize(("make", "line"), REFUSED, ids=[row[0].__name__ for row in REFUSED])
def test_what_cannot_be_repaired_is_named_and_left_as_it_is(make: object, line: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.mcap"
    make(path)  # type: ignore[operator]
    before = path.read_bytes()
    with pytest.raises(InputError, match=f"{path}: {line}"):
        repair(path)
    assert path.read_bytes() == before


def test_a_file_that_is_being_recorded_is_left_alone(whole: tuple[bytes, list[int]], tmp_path: Path) -> None:
    path = tmp_path / "busy.mcap"
    path.write_bytes(whole[0][:-20])
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="is being recorded"):
            repair(path)
    assert path.stat().st_size == len(whole[0]) - 20


def test_the_next_start_repairs_what_the_last_session_left(whole: tuple[bytes, list[int]], tmp_path: Path) -> None:
    cut, useless = tmp_path / "robot_20200101-000000_000.mcap", tmp_path / "robot_20200101-000000_001.mcap"
    cut.write_bytes(whole[0][:-20])
    useless.touch()
    session = Recorder(RecordSection(directory=tmp_path), "robot", {}, wall_ns=0, now_ns=0)
    session.close()
    first, second = session.stats().repaired
    assert (first.path, first.messages, first.problem) == (cut, CHUNK_ENDS[-1], "")
    assert (second.path, second.problem) == (useless, f"{useless}: not an MCAP file")
    assert read(cut) == expected(CHUNK_ENDS[-1])
