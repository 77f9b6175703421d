"""The recorder of a long drive: every finished file is read to its end, then deleted or kept.

The check unpacks each chunk of a file and finds each message. In every tenth file it also decodes each message, which
takes ten times as long.

Simulated time runs faster than the disk, so the drive waits for a long queue. The loss of data to a slow disk is not
part of this test.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hil.recordings.recording import TICK, open_recording
from onboard.assembly.robot import session_of
from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.counters import Counters
from onboard.recording.recorder import Recorder
from onboard.recording.repair import repair
from onboard.recording.tick_writer import TickRecorder
from onboard.state import TickRecord
from onboard.values.errors import InputError

MOST_QUEUED = 400
"""Maximum number of queued groups before the drive waits for the disk."""
WAIT_S = 0.002
LOOK_TICKS = 300
"""Number of ticks between two searches for finished files."""
WALL_NS = 1_700_000_000 * 1_000_000_000
"""Wall time of the start of the drive in its recordings: the same in every run."""
WHOLLY = 10
"""In every n-th file all messages are decoded."""
UNREADABLE, INCOMPLETE = "recording unreadable", "recording incomplete"


@dataclass(slots=True)
class Read:
    """Counts over the recordings so far."""

    files: int = 0
    bytes: int = 0
    messages: int = 0
    ticks: int = 0
    full_disks: int = 0


class Records:
    """A listener that records all ticks, with a new recorder after each end of a recording."""

    def __init__(self, config: Config, mounts: Mounts, folder: Path) -> None:
        """Take the folder of the recordings. The first tick raises ConfigError if the folder is not writable."""
        self._config = config.model_copy(
            update={"record": config.record.model_copy(update={"directory": folder, "enabled": True})}
        )
        self._mounts, self._folder = mounts, folder
        self._session: Mapping[str, str] = session_of(config)
        self._recorder: Recorder | None = None
        self._ticks: TickRecorder | None = None
        self._limit: tuple[int, int] | None = None
        self._put = self._found = self._lived = 0
        self.keep = False
        """Whether files stay when they are read: set when a rule is broken."""
        self._waiting = threading.Event()
        self._known: set[Path] = set()
        self.read = Read()
        self.problems: list[tuple[str, str]] = []

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Record a tick, and read the finished files every `LOOK_TICKS` ticks."""
        now_ns = record.slot.start_ns
        if self._recorder is None or self._ticks is None:
            recorder, ticks = self._begin(now_ns)
        else:
            recorder, ticks = self._recorder, self._ticks
        while recorder.waiting > MOST_QUEUED and not recorder.stats().stopped:
            self._waiting.wait(WAIT_S)
        self._put += ticks.record(record)
        self._lived += 1
        if self._lived % LOOK_TICKS == 0:
            self._read_finished()

    def settle(self) -> None:
        """Wait until the queue is empty; otherwise its memory would count as growth."""
        while self._recorder is not None and self._recorder.waiting and not self._recorder.stats().stopped:
            self._waiting.wait(WAIT_S)

    def fill_disk(self) -> None:
        """Limit the file size of this process to the current size of the recording: the next write fails.

        This is like a full disk, until `disk_was_full` returns True.
        """
        file = self._recorder.stats().file if self._recorder is not None else None
        if file is None or self._limit is not None:
            return
        self._limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size, self._limit[1]))

    def disk_was_full(self) -> bool:
        """Return whether a full disk has ended the recording; then remove the limit, so that a new recording begins."""
        if self._limit is None or self._recorder is None or not self._recorder.stats().stopped:
            return False
        self._room()
        self.read.full_disks += 1
        self._end(whole=False)
        return True

    def close(self) -> None:
        """End the recording, and read the last files."""
        self._room()
        self._end(whole=True)

    def _begin(self, now_ns: int) -> tuple[Recorder, TickRecorder]:
        section = self._config.record
        name = self._config.robot.name
        recorder = Recorder(section, name, self._session, wall_ns=WALL_NS + now_ns, now_ns=now_ns)
        self._recorder = recorder
        self._ticks = TickRecorder(recorder, self._config.dds, self._mounts, self._config.scan.far_m)
        self._put = self._found = 0
        return recorder, self._ticks

    def _end(self, *, whole: bool) -> None:
        """Close the recorder. whole: whether a missing tick is a problem."""
        if self._recorder is None:
            return
        self._recorder.close()
        stats = self._recorder.stats()
        stopped = stats.stopped
        self._recorder = self._ticks = None
        if stopped and stats.file is not None:
            self._complete(stats.file)
        self._read_finished()
        if whole and (stopped or self._found != self._put):
            self.problems.append((INCOMPLETE, stopped or f"{self._found} of {self._put} ticks are in it"))

    def _complete(self, path: Path) -> None:
        """Repair the unfinished file of a full disk, like the next start of the recorder."""
        try:
            repair(path)
        except (OSError, InputError) as error:
            self.problems.append((UNREADABLE, f"{path}: {error}"))

    def _room(self) -> None:
        if self._limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, self._limit)
            self._limit = None

    def _read_finished(self) -> None:
        """Read the finished files.

        The files are listed before the current file is asked for, so each other listed file is finished.
        """
        there = sorted(self._folder.glob("*.mcap"))
        current = None if self._recorder is None else self._recorder.stats().file
        for path in there:
            if path != current and path not in self._known:
                self._read(path)

    def _read(self, path: Path) -> None:
        """Read a whole recording, then delete it, unless it is unreadable or a rule was broken."""
        self._known.add(path)
        size, stamps_ns = path.stat().st_size, list[int]()
        try:
            self.read.messages += _read_through(path, stamps_ns, wholly=self.read.files % WHOLLY == 0)
        except InputError as error:
            self.keep = True
            self.problems.append((UNREADABLE, str(error)))
        self.read.files += 1
        self.read.bytes += size
        self.read.ticks += len(stamps_ns)
        self._found += len(stamps_ns)
        if not self.keep:
            path.unlink()


def _read_through(path: Path, stamps_ns: list[int], *, wholly: bool) -> int:
    """Return the number of messages. stamps_ns: gets the times of ticks; wholly: whether to decode each message."""
    count = 0
    with open_recording(path) as recording:
        each = ((one.topic, one.time_ns) for one in recording.read()) if wholly else recording.walked()
        for topic, time_ns in each:
            count += 1
            if topic == TICK:
                stamps_ns.append(time_ns - WALL_NS)
        if count != recording.messages:
            raise InputError(f"{path}: {count} messages could be read, its summary says {recording.messages}")
    return count
