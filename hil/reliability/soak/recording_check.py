"""The recorder of a long drive: every file that it finishes is opened and read to its end, then deleted or kept.

Of every file each chunk is unpacked and checked and each message found; of every tenth each message is taken apart as
well, which takes ten times as long.

Simulated time runs faster than a disk writes, so the drive waits while too much is queued: what a robot would lose to
a slow disk is not what is looked for here.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
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
"""So many ticks may wait for the disk before the drive does."""
WAIT_S = 0.002
LOOK_TICKS = 300
"""How often it is looked for finished files."""
WALL_NS = 1_700_000_000 * 1_000_000_000
"""When the drive began, by the wall clock of its recordings: the same in every run."""
KEPT = "kept"
WHOLLY = 10
"""Every so many-th file is taken apart to its last message."""
UNREADABLE, INCOMPLETE = "recording unreadable", "recording incomplete"


@dataclass(slots=True)
class Read:
    """What was found in the recordings so far. kept: those in which a rule was broken, or that cannot be read."""

    files: int = 0
    bytes: int = 0
    messages: int = 0
    ticks: int = 0
    full_disks: int = 0
    kept: list[str] = field(default_factory=list)


class Records:
    """A listener of ticks that records them, through one recorder after another."""

    def __init__(self, config: Config, mounts: Mounts, folder: Path) -> None:
        """Take where recordings go. Raises ConfigError when the folder cannot be written to, with the first tick."""
        self._config = config.model_copy(
            update={"record": config.record.model_copy(update={"directory": folder, "enabled": True})}
        )
        self._mounts, self._folder = mounts, folder
        self._session: Mapping[str, str] = session_of(config)
        self._recorder: Recorder | None = None
        self._ticks: TickRecorder | None = None
        self._limit: tuple[int, int] | None = None
        self._put = self._found = self._lived = 0
        self._broken_ns: list[int] = []
        self._waiting = threading.Event()
        self.read = Read()
        self.problems: list[tuple[str, str]] = []

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Record a tick, and now and then read what is finished."""
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
        """Wait until nothing is queued: what waits is measured as held otherwise."""
        while self._recorder is not None and self._recorder.waiting and not self._recorder.stats().stopped:
            self._waiting.wait(WAIT_S)

    def broke(self, now_ns: int) -> None:
        """Keep the recording in which this moment is."""
        if not self._broken_ns or now_ns != self._broken_ns[-1]:
            self._broken_ns.append(now_ns)

    def fill_disk(self) -> None:
        """Let no file of this process grow beyond the recording's size of now: the next write fails, as on a full disk.

        Until `disk_was_full` has said so.
        """
        file = self._recorder.stats().file if self._recorder is not None else None
        if file is None or self._limit is not None:
            return
        self._limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size, self._limit[1]))

    def disk_was_full(self) -> bool:
        """Return whether a full disk has ended the recording; then there is room again and it begins anew."""
        if self._limit is None or self._recorder is None or not self._recorder.stats().stopped:
            return False
        self._room()
        self.read.full_disks += 1
        self._end(whole=False)
        return True

    def close(self) -> None:
        """End the recording, and read what is left."""
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
        """Close the recorder. whole: whether nothing of what it was given may be missing."""
        if self._recorder is None:
            return
        self._recorder.close()
        told = self._recorder.stats()
        stopped = told.stopped
        self._recorder = self._ticks = None
        if stopped and told.file is not None:
            self._complete(told.file)
        self._read_finished()
        if whole and (stopped or self._found != self._put):
            self.problems.append((INCOMPLETE, stopped or f"{self._found} of {self._put} ticks are in it"))

    def _complete(self, path: Path) -> None:
        """Do what the next start does with a file that a full disk has left unfinished."""
        try:
            repair(path)
        except (OSError, InputError) as error:
            self.problems.append((UNREADABLE, f"{path}: {error}"))

    def _room(self) -> None:
        if self._limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, self._limit)
            self._limit = None

    def _read_finished(self) -> None:
        """Read the files that are finished. It is looked what is there first: then none of these is begun any more."""
        there = sorted(self._folder.glob("*.mcap"))
        current = None if self._recorder is None else self._recorder.stats().file
        for path in there:
            if path != current:
                self._read(path)

    def _read(self, path: Path) -> None:
        """Read a recording wholly, then delete it, or keep it where something happened in it."""
        size, stamps_ns = path.stat().st_size, list[int]()
        broken = ""
        try:
            self.read.messages += _read_through(path, stamps_ns, wholly=self.read.files % WHOLLY == 0)
        except InputError as error:
            broken = str(error)
            self.problems.append((UNREADABLE, broken))
        self.read.files += 1
        self.read.bytes += size
        self.read.ticks += len(stamps_ns)
        self._found += len(stamps_ns)
        inside = [at_ns for at_ns in self._broken_ns if stamps_ns and stamps_ns[0] <= at_ns <= stamps_ns[-1]]
        if broken or inside:
            kept = self._folder / KEPT
            kept.mkdir(exist_ok=True)
            path.rename(kept / path.name)
            self.read.kept.append(path.name)
        else:
            path.unlink()
        self._broken_ns = [at_ns for at_ns in self._broken_ns if at_ns not in inside]


def _read_through(path: Path, stamps_ns: list[int], *, wholly: bool) -> int:
    """Return the messages of a recording. stamps_ns: gets when ticks were; wholly: whether each is taken apart."""
    count = 0
    with open_recording(path) as recording:
        each = ((one.topic, one.time_ns) for one in recording.heard()) if wholly else recording.walked()
        for topic, time_ns in each:
            count += 1
            if topic == TICK:
                stamps_ns.append(time_ns - WALL_NS)
        if count != recording.messages:
            raise InputError(f"{path}: {count} messages could be read, its summary says {recording.messages}")
    return count
