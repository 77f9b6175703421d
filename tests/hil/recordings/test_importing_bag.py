"""Bags of every kind are read as written; other files are refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hil.recordings.bags.bag import TRANSFORMS, open_bag
from onboard.drivers.dds.ros_types import TFMessage, to_cdr
from onboard.values.errors import InputError, MissingExtraError
from onboard.values.frames import Frames
from tests.rigs.recordings.bag_rig import (
    START_NS,
    TREE,
    drive,
    write_ros1,
    write_ros2,
    write_ros2_file,
    write_ros2_mcap,
)

KINDS = [write_ros2, write_ros2_mcap, write_ros2_file, write_ros1]


@pytest.mark.parametrize("write", KINDS, ids=lambda write: write.__name__)
def test_messages_come_back_as_they_were_written(write: Callable[..., Path], tmp_path: Path) -> None:
    messages = drive(0.5)
    with open_bag([write(tmp_path / "bag", messages)]) as bag:
        read = [(one.topic, one.time_ns, to_cdr(one.sample)) for one in bag.read({one.name for one in bag.topics})]
        assert bag.start_ns == START_NS
        assert bag.end_ns - bag.start_ns == pytest.approx(450_000_000, abs=1_000_000)
        assert {one.name: one.messages for one in bag.topics}["/robot/odom"] == 10
    assert sorted(read) == sorted((topic, at_ns, to_cdr(sample)) for topic, at_ns, sample in messages)
    assert [at_ns for _, at_ns, _ in read] == sorted(at_ns for _, at_ns, _ in read)


def test_several_ros1_bags_of_one_drive_are_one(tmp_path: Path) -> None:
    messages = drive(1.0)
    halves = [messages[:30], messages[30:]]
    files = [write_ros1(tmp_path / f"part{number}", half) for number, half in enumerate(halves)]
    with open_bag(files) as bag:
        assert [one.time_ns for one in bag.read({"/robot/odom"})] == [START_NS + n * 50_000_000 for n in range(20)]


@pytest.mark.parametrize("old", [True, None], ids=["old alone", "old and new on one topic"])
def test_transforms_of_both_types_of_ros1_place_the_sensors(old: bool | None, tmp_path: Path) -> None:
    parts = [("/tf", START_NS + number, TFMessage([transform])) for number, transform in enumerate(TREE.transforms)]
    messages = [*parts, *drive(0.2, ["/tf_static"])]
    with open_bag([write_ros1(tmp_path / "bag", messages, old_transforms=old)]) as bag:
        assert {topic.name: topic.kind for topic in bag.topics}["/tf"] == TRANSFORMS
        frames = Frames()
        for one in bag.read({"/tf"}):
            frames.hear(one.sample.transforms)
    assert frames.between("base", "camera_optical") is not None
    assert frames.between("base", "laser") is not None


def test_index_entries_of_another_size_are_one_line_that_says_so(tmp_path: Path) -> None:
    path = write_ros1(tmp_path / "bag", drive(0.5))
    data = bytearray(path.read_bytes())
    at = data.index(b"count=", data.index(b"op=\x04") - 60)
    data[at + 6 : at + 10] = (int.from_bytes(data[at + 6 : at + 10], "little") + 8).to_bytes(4, "little")
    path.write_bytes(data)
    refusal = outcome(path)
    assert refusal is not None
    assert refusal.startswith(f"{path}: unreadable bag: AssertionError in ")
    assert "of the library, at `assert size == count * 12`; reindex or convert the bag" in refusal


UNREADABLE = "unreadable bag: "
#   file               content            in the line, after the path
REFUSED: list[tuple[str, bytes | None, str]] = [
    ("nothing.bag",    None,              "there is no such bag"),
    ("",               None,              "not a rosbag2: the folder has no metadata.yaml"),
    ("notes.bag",      b"no bag\n",       UNREADABLE),
    ("empty.db3",      b"",               UNREADABLE),
    ("notes.txt",      b"no bag\n",       UNREADABLE),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "line"), REFUSED)
def test_what_is_no_bag_is_one_line(name: str, content: bytes | None, line: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert_refused(path, line)


def test_an_empty_and_a_cut_bag_are_refused(tmp_path: Path) -> None:
    assert_refused(write_ros2_mcap(tmp_path / "empty", []), "the bag has no message")
    cut = write_ros1(tmp_path / "cut", drive(0.5))
    cut.write_bytes(cut.read_bytes()[:-2000])
    assert_refused(cut, UNREADABLE)


def assert_refused(path: Path, line: str) -> None:
    with pytest.raises(InputError) as raised, open_bag([path]):
        pass
    assert str(raised.value).startswith(f"{path}: {line}")
    assert "\n" not in str(raised.value)


def test_several_rosbag2_at_once_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"several files of one drive are taken of ROS 1 \(.bag\) only"),
        open_bag([tmp_path / "a", tmp_path / "b"]),
    ):
        pass


def test_without_the_library_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rosbags.highlevel", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'onboard\[bags\]'"), open_bag([Path("a.bag")]):
        pass


def outcome(path: Path) -> str | None:
    """Return why a bag cannot be read, None where all of it can."""
    try:
        with open_bag([path]) as bag:
            for _ in bag.read({topic.name for topic in bag.topics}):
                pass
    except InputError as error:
        return str(error)
    return None
