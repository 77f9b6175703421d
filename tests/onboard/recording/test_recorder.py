"""The recorder: rosbags reads every message back, no call waits, losses are counted, disk space is bounded."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader

from onboard.config.config import RecordSection
from onboard.drivers.dds.ros_types import Image, LaserScan, String, TFMessage, Twist, Vector3, to_cdr
from onboard.recording.mcap_file import FORMAT
from onboard.recording.recorder import Message, Recorder, RecordQueue
from onboard.recording.ros_schema import message_type
from onboard.values.errors import ConfigError, InputError

WALL_NS = 1_790_000_000 * 10**9
NOW_NS = 5_000 * 10**9
STRING = message_type(String)
MB = 1_000_000


def recorder(
    folder: Path, name: str = "robot", wall_ns: int = WALL_NS, queue: RecordQueue | None = None, **section: Any
) -> Recorder:
    settings = RecordSection(directory=folder, **section)
    return Recorder(settings, name, {"mounts": "m"}, wall_ns=wall_ns, now_ns=NOW_NS, queue=queue)


def text(value: str) -> bytes:
    return to_cdr(String(value))


def noise(size: int, seed: int = 1) -> bytes:
    """Return incompressible bytes."""
    return random.Random(seed).randbytes(size)


def recordings(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.mcap"))


def read(*paths: Path) -> list[tuple[str, int, Any]]:
    """Return topic, time and decoded message of all messages in the files, read by rosbags."""
    messages = []
    for path in paths:
        with AnyReader([path]) as reader:
            for connection, log_ns, data in reader.messages():
                messages.append((connection.topic, log_ns, reader.deserialize(data, connection.msgtype)))
    return messages


def session_record(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        (metadata,) = make_reader(file).iter_metadata()
    assert metadata.name == "onboard_session"
    return metadata.metadata


def test_what_was_written_is_read_by_rosbags_with_its_wall_time(tmp_path: Path) -> None:
    session = recorder(tmp_path)
    session.write("/cmd_vel", message_type(Twist), to_cdr(Twist(linear=Vector3(x=0.6))), NOW_NS + 1)
    session.write("/scan", message_type(LaserScan), lambda: to_cdr(LaserScan(ranges=[1.5] * 180)), NOW_NS + 2)
    depth = Image(height=2, width=2, encoding="16UC1", step=4, data=bytes(range(8)))
    session.write("/front/depth/image", message_type(Image), to_cdr(depth), NOW_NS + 3)
    session.close()
    (path,) = recordings(tmp_path)
    assert path.name == "robot_20260921-141320_000.mcap"
    (_, first_ns, twist), (_, second_ns, scan), (topic, _, image) = read(path)
    assert (first_ns, second_ns) == (WALL_NS + 1, WALL_NS + 2)
    assert twist.linear.x == 0.6
    assert list(scan.ranges) == [1.5] * 180
    assert (topic, image.encoding, bytes(image.data)) == ("/front/depth/image", "16UC1", bytes(range(8)))


def test_the_file_says_what_recorded_it(tmp_path: Path) -> None:
    recorder(tmp_path).close()
    (path,) = recordings(tmp_path)
    with path.open("rb") as file:
        assert make_reader(file).get_header().profile == "ros2"
    session = session_record(path)
    assert session["mounts"] == "m"
    assert int(session["wall_minus_monotonic_ns"]) == WALL_NS - NOW_NS
    assert session["format"] == FORMAT


MESSAGE = st.tuples(
    st.sampled_from(["/a", "/b", "/c/d"]), st.text(max_size=40), st.integers(-(10**9), 10**9), st.booleans()
)


@settings(deadline=None, max_examples=30)
@given(st.lists(MESSAGE, max_size=40))
def test_any_sequence_of_messages_comes_back(
    tmp_path_factory: pytest.TempPathFactory, messages: list[tuple[str, str, int, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    session = recorder(folder)
    for topic, value, offset_ns, late in messages:
        data = to_cdr(String(value))
        session.write(topic, STRING, (lambda data=data: data) if late else data, NOW_NS + offset_ns)
    session.close()
    stats = session.stats()
    assert (stats.written, stats.dropped, stats.queued, stats.queued_bytes) == (len(messages), 0, 0, 0)
    assert stats.bytes == recordings(folder)[0].stat().st_size
    seen = [(topic, message.data, log_ns - WALL_NS) for topic, log_ns, message in read(*recordings(folder))]
    assert sorted(seen) == sorted((topic, value, offset_ns) for topic, value, offset_ns, _ in messages)
    assert [log for _, _, log in seen] == sorted(log for _, _, log in seen)


#   stamp [ns]            wall time in the file
EXTREMES = [(-(10**30), 0), (10**30, 2**63 - 1)]


@pytest.mark.parametrize(("stamp_ns", "log_ns"), EXTREMES)
def test_an_absurd_stamp_is_held_at_the_end_of_the_range(tmp_path: Path, stamp_ns: int, log_ns: int) -> None:
    session = recorder(tmp_path)
    session.write("/a", STRING, text("x"), stamp_ns)
    session.close()
    with recordings(tmp_path)[0].open("rb") as file:
        assert [message.log_time for _, _, message in make_reader(file).iter_messages()] == [log_ns]


class Gate:
    """A message that keeps the writing thread busy until `open` is called."""

    def __init__(self, session: Recorder) -> None:
        self.reached = threading.Event()
        self._go = threading.Event()
        session.write("/gate", STRING, self._wait, NOW_NS)
        self.reached.wait()

    def open(self) -> None:
        self._go.set()

    def _wait(self) -> bytes:
        self.reached.set()
        self._go.wait()
        return text("gate")


#   bound                      size  fits  dropped
BOUNDS = [
    ((3, 256e6), 10, 3, 4),
    ((2000, 1e3), 400, 2, 5),
]


@pytest.mark.parametrize(("bound", "size", "fits", "dropped"), BOUNDS)
def test_what_does_not_fit_the_queue_is_dropped_and_counted(
    tmp_path: Path, bound: tuple[int, float], size: int, fits: int, dropped: int
) -> None:
    session = recorder(tmp_path, queue=RecordQueue(*bound))
    gate = Gate(session)
    accepted = [
        session.write("/a", STRING, lambda number=number: text(str(number)), NOW_NS, held_bytes=size)
        for number in range(fits + dropped)
    ]
    waiting = session.stats()
    gate.open()
    session.close()
    assert accepted == [True] * fits + [False] * dropped
    assert (waiting.queued, waiting.queued_bytes, waiting.dropped) == (fits, fits * size, dropped)
    assert session.stats().written == 1 + fits
    assert [message.data for topic, _, message in read(*recordings(tmp_path)) if topic == "/a"] == [
        str(number) for number in range(fits)
    ]


def test_sequence_numbers_show_where_messages_were_dropped(tmp_path: Path) -> None:
    session = recorder(tmp_path, queue=RecordQueue(1, 256e6))
    gate = Gate(session)
    for number in range(3):
        session.write("/a", STRING, text(str(number)), NOW_NS)
    gate.open()
    session.close()
    late = recorder(tmp_path)
    late.close()
    with recordings(tmp_path)[0].open("rb") as file:
        assert [message.sequence for _, _, message in make_reader(file).iter_messages()] == [1, 2]
    assert session.stats().dropped == 2


def fail() -> bytes:
    raise InputError("no such image")


#   what                        payload            reason
UNSERIALISABLE = [
    ("our own error", fail, "/a: no such image"),
    ("wrong type", lambda: "text", "/a: "),
    ("nothing", lambda: None, "/a: "),
]


@pytest.mark.parametrize(("what", "payload", "reason"), UNSERIALISABLE, ids=[row[0] for row in UNSERIALISABLE])
def test_a_message_that_cannot_be_serialised_is_counted_alone(
    tmp_path: Path, what: str, payload: Any, reason: str
) -> None:
    session = recorder(tmp_path)
    session.write("/a", STRING, payload, NOW_NS)
    session.write("/a", STRING, text("after"), NOW_NS)
    session.close()
    stats = session.stats()
    assert (stats.written, stats.dropped, stats.stopped) == (1, 1, "")
    assert stats.last_problem.startswith(reason)
    assert [message.data for _, _, message in read(*recordings(tmp_path))] == ["after"]


def boom() -> bytes:
    raise RuntimeError("boom")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_unforeseen_fault_ends_the_recording_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    session = recorder(tmp_path)
    session.write("/a", STRING, text("before"), NOW_NS)
    session.write("/a", STRING, boom, NOW_NS)
    session.close()
    assert session.write("/a", STRING, text("after"), NOW_NS) is False
    assert session.stats().stopped.endswith("recording stopped: a message or the recorder failed: RuntimeError('boom')")
    assert [message.data for _, _, message in read(*recordings(tmp_path))] == ["before"]


IMAGE = message_type(Image)


def record_images(session: Recorder, count: int) -> None:
    for number in range(count):
        data = to_cdr(Image(height=number, data=noise(300_000, number)))
        while not session.write("/depth", IMAGE, data, NOW_NS + number):
            pass


def test_files_rotate_by_size_and_each_is_whole_by_itself(tmp_path: Path) -> None:
    session = recorder(tmp_path, max_file_mb=2)
    session.write("/tf_static", message_type(TFMessage), to_cdr(TFMessage()), NOW_NS, latched=True)
    record_images(session, 20)
    session.close()
    files = recordings(tmp_path)
    assert len(files) >= 3
    assert [path.name[-8:-5] for path in files] == [f"{number:03d}" for number in range(len(files))]
    for number, path in enumerate(files):
        assert path.stat().st_size < 4 * MB
        assert [topic for topic, _, _ in read(path)].count("/tf_static") == 1
        assert session_record(path)["file_number"] == str(number)
    assert [message.height for topic, _, message in read(*files) if topic == "/depth"] == list(range(20))
    assert session.stats().bytes == sum(path.stat().st_size for path in files)


def test_what_belongs_together_stands_in_one_file_and_under_one_number(tmp_path: Path) -> None:
    session = recorder(tmp_path, max_file_mb=1)
    for number in range(6):
        parts = (Message("/depth", IMAGE, to_cdr(Image(data=noise(700_000, number)))) for _ in range(4))
        session.write_together(parts, NOW_NS + number, 2_800_000)
    session.close()
    files = recordings(tmp_path)
    assert [[log_ns - WALL_NS for _, log_ns, _ in read(path)] for path in files] == [[n] * 4 for n in range(6)]
    with files[3].open("rb") as file:
        assert [message.sequence for _, _, message in make_reader(file).iter_messages()] == [4] * 4


def test_only_files_of_this_robot_go(tmp_path: Path) -> None:
    others = [tmp_path / "notes.txt", tmp_path / "robot_20200101-000000_000.mcap.bak", tmp_path / "other_0.mcap"]
    for path in others:
        path.touch()
    for day in range(3):
        recorder(tmp_path, wall_ns=WALL_NS + day * 86_400 * 10**9).close()
    recorder(tmp_path, name="robot2").close()
    before = sorted(tmp_path.glob("robot_*.mcap"))
    session = recorder(
        tmp_path,
        wall_ns=WALL_NS + 3 * 86_400 * 10**9,
        max_file_mb=0.001,
        max_total_mb=0.0012 + before[-1].stat().st_size / 1e6,
    )
    session.close()
    assert sorted(tmp_path.glob("robot_*.mcap")) == [before[-1], session.stats().file]
    assert all(path.exists() for path in others)
    assert len(list(tmp_path.glob("robot2_*.mcap"))) == 1


def test_a_long_session_keeps_its_newest_files(tmp_path: Path) -> None:
    recorder(tmp_path, wall_ns=WALL_NS + 10**9).close()  # dated later, as after a clock that was set back
    session = recorder(tmp_path, max_file_mb=1, max_total_mb=3.5)
    record_images(session, 24)
    session.close()
    numbers = [message.height for _, _, message in read(*recordings(tmp_path))]
    assert len(recordings(tmp_path)) == 3
    assert numbers == list(range(numbers[0], 24))


def test_a_file_that_another_session_is_writing_is_left_alone(tmp_path: Path) -> None:
    running = recorder(tmp_path)
    second = recorder(tmp_path, wall_ns=WALL_NS + 10**9, max_total_mb=0.001)
    second.close()
    running.write("/a", STRING, text("still here"), NOW_NS)
    running.close()
    assert second.stats().repaired == ()
    assert [message.data for _, _, message in read(running.stats().file)] == ["still here"]


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    session = recorder(tmp_path)
    session.write("/a", STRING, text("x"), NOW_NS)
    session.close()
    session.close()
    assert session.write("/a", STRING, text("too late"), NOW_NS) is False
    assert session.stats().dropped == 1
    assert len(read(*recordings(tmp_path))) == 1


def test_a_folder_that_cannot_be_used_is_named_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=rf"record.directory {tmp_path}/file/sub: cannot be used"):
        recorder(tmp_path / "file" / "sub")


def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"robot.name 'a/b'"):
        recorder(tmp_path, name="a/b")


FULL_DISK = """
    import resource, sys
    from pathlib import Path
    from tests.onboard.recording.test_recorder import IMAGE, NOW_NS, noise, record_images, recorder
    from onboard.drivers.dds.ros_types import Image, to_cdr
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    session = recorder(Path(sys.argv[1]))
    for number in range(40):
        session.write("/depth", IMAGE, to_cdr(Image(height=number, data=noise(100_000, number))), NOW_NS + number)
    session.close()
    stats = session.stats()
    print(stats.written, stats.dropped, stats.queued, stats.stopped, sep="|")
"""

#   free bytes on the disk
FULL_AT = [0, 100, 500, 1_000_000, 1_500_000, 2_100_000, 3_500_000]


@pytest.mark.parametrize("limit", FULL_AT)
def test_a_full_disk_ends_the_recording_with_one_reason_and_loses_nothing_recorded(tmp_path: Path, limit: int) -> None:
    """A limit on the file size makes a write fail half-way with an OSError, like a full disk.

    The process does not measure coverage, which would also write to the full disk.
    """
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(tmp_path), str(limit)],
        cwd=Path(__file__).parents[3],
        env={**unmeasured, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=True,
    )
    written, dropped, queued, stopped = done.stdout.strip().split("|")
    assert done.stderr == ""
    assert "recording stopped: File too large" in stopped
    assert (int(written) + int(dropped), int(queued)) == (40, 0)
    heights = [message.height for _, _, message in read(*recordings(tmp_path))]
    assert heights == list(range(int(written)))
    assert int(written) * 100_000 >= limit - 1_500_000
