"""The recorder: accepts messages without waiting; a thread writes them to MCAP files (ROS 2 profile).

The control path only puts groups of messages into a bounded queue. The thread makes, serialises, compresses and writes
them. A full queue drops the whole group and counts it. If the disk is full or fails, recording ends with one reason.
The files stay readable and driving continues.
"""

from __future__ import annotations

import errno
import os
import queue
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from onboard import __version__
from onboard.config.config import RecordSection
from onboard.recording.mcap_file import FORMAT, MessageType, RecordFile
from onboard.recording.repair import Repair
from onboard.recording.retention import Budget, Folder
from onboard.system.threads import RECORDER_BELOW, step_down
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.errors import ConfigError, OnboardError
from onboard.values.reasons import NO_REASON, Said

# ---- The bounded queue from the control path, which never waits, to the writing thread

SEQUENCE_WRAP = 2**32

Payload = bytes | Callable[[], bytes]


class Message(NamedTuple):
    """A message for the file.

    payload: CDR, or a function that returns CDR; the writing thread calls it
    latched: repeated at the start of each further file, for topics published once (`/tf_static`)
    """

    topic: str
    kind: MessageType
    payload: Payload
    latched: bool = False


class Queued(NamedTuple):
    """A group of messages in the queue.

    messages: iterated once, in the writing thread; may be a generator
    log_ns:   wall time of the messages
    number:   number of the group in the session; a gap shows lost groups
    """

    messages: Iterable[Message]
    log_ns: int
    number: int
    held_bytes: int


class Signal(Enum):
    """Signals to the writing thread."""

    CLOSE = auto()


class RecordQueue:
    """A queue bounded by count and bytes, for one producer and one consumer. Each changes only its own counts."""

    def __init__(self, most: int, most_bytes: float) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._queue: queue.SimpleQueue[Queued | Signal] = queue.SimpleQueue()
        self._number = self.refused = self._put_bytes = 0
        self._taken = self._taken_bytes = 0

    @property
    def waiting(self) -> int:
        """Return the number of groups in the queue."""
        return self._number - self.refused - self._taken

    @property
    def waiting_bytes(self) -> int:
        """Return the memory of the groups in the queue [bytes]."""
        return self._put_bytes - self._taken_bytes

    def put(self, messages: Iterable[Message], log_ns: int, held_bytes: int) -> bool:
        """Queue a group. If the queue is full, count the group as refused and return False. Never waits."""
        if self.waiting >= self._most or self.waiting_bytes + held_bytes > self._most_bytes:
            self.refuse()
            return False
        self._number += 1
        self._put_bytes += held_bytes
        self._queue.put(Queued(messages, log_ns, self._number % SEQUENCE_WRAP, held_bytes))
        return True

    def refuse(self) -> None:
        """Count a refused group."""
        self._number += 1
        self.refused += 1

    def close(self) -> None:
        """Queue the signal to close."""
        self._queue.put(Signal.CLOSE)

    def next(self, due_s: float | None) -> Queued | Signal | None:
        """Return the next item, or None if there is none until `due_s` (monotonic). Without `due_s` wait for ever."""
        try:
            item = self._queue.get(timeout=None if due_s is None else max(0.0, due_s - time.monotonic()))
        except queue.Empty:
            return None
        if isinstance(item, Queued):
            self._taken += 1
            self._taken_bytes += item.held_bytes
        return item


BYTES_PER_MB = 1_000_000
MAX_LOG_NS = 2**63 - 1
QUEUE_MESSAGES, QUEUE_MB = 2000, 256.0
"""Groups of messages that may wait for the disk, and their memory; more are dropped and counted."""
FLUSH_S = 1.0
"""Longest time until a message is on the disk."""
FLUSHES_PER_PERIOD = 2
"""Flush twice per `FLUSH_S`, so that a crash on a busy machine loses at most `FLUSH_S`."""

CLOSE_TIMEOUT_S = 10.0
NICENESS = 10
"""Niceness of the writing thread, below tick and policy. Under FIFO see `onboard/system/threads.py`."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNSERIALISABLE = (OnboardError, TypeError, ValueError, OverflowError, struct.error)


@dataclass(frozen=True, slots=True)
class RecorderStats:
    """State of the recorder for `/diagnostics`.

    written:      messages in the files and in the current chunk, including repeated latched messages
    dropped:      groups lost to a full queue or after the end of recording, and messages lost to errors
    bytes:        on disk in this session
    queued:       groups in the queue; queued_bytes: their memory
    file:         current or last file
    stopped:      why recording ended, one line; "" while it continues
    last_problem: why a message could not be serialised, the last time; "" without such a message
    repaired:     unfinished files of earlier sessions
    """

    written: int
    dropped: int
    bytes: int
    queued: int
    queued_bytes: int
    file: Path | None
    stopped: Said
    last_problem: str
    repaired: tuple[Repair, ...]


def budget_of(section: RecordSection) -> Budget:
    """Return the bounds of the configuration."""
    return Budget(section.max_total_mb * BYTES_PER_MB, section.max_file_mb * BYTES_PER_MB)


class Recorder:
    """Records a session. One thread calls `write` and `close`; only `close` waits."""

    def __init__(
        self,
        section: RecordSection,
        name: str,
        session: Mapping[str, str],
        *,
        wall_ns: int,
        now_ns: int,
        queue: RecordQueue | None = None,
    ) -> None:
        """Repair unfinished files, open the first file, start the writing thread.

        session: metadata of every file, in addition to format, session name and file number
        wall_ns, now_ns: wall and monotonic time at the same moment, for file names and message times
        queue:   another than that of `QUEUE_MESSAGES` and `QUEUE_MB`
        Raises ConfigError if the folder is not writable. A full disk raises no error: see `stats`.
        """
        self._section = section
        self._wall_minus_monotonic_ns = wall_ns - now_ns
        self._queue = queue or RecordQueue(QUEUE_MESSAGES, QUEUE_MB * BYTES_PER_MB)
        self._written = self._failed = self._finished_bytes = self._file_bytes = 0  # changed by the writing thread
        self._closed = False
        self._stopped, self._last_problem = NO_REASON, ""
        self._latched: dict[str, tuple[Message, bytes, Queued]] = {}
        self._file: RecordFile | None = None
        try:
            self._folder = Folder(section.directory, name, wall_ns, budget_of(section))
            self._session = {
                "format": FORMAT,
                "onboard_version": __version__,
                "session": f"{self._folder.session}_{wall_ns % NS_PER_S:09d}",
                "wall_minus_monotonic_ns": str(self._wall_minus_monotonic_ns),
                **session,
            }
            self._repaired = self._folder.repair_leftovers()
        except OSError as error:
            raise ConfigError(f"record.directory {section.directory}: cannot be used: {error.strerror}") from error
        try:
            self._open()
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise ConfigError(f"record.directory {section.directory}: cannot be used: {error.strerror}") from error
            self._stop(error.strerror or repr(error))
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    @property
    def file_number(self) -> int:
        """Return the number of the current file, from 0. The writing thread changes it."""
        return self._folder.files - 1

    @property
    def waiting(self) -> int:
        """Return the number of groups in the queue."""
        return self._queue.waiting

    def wall_ns(self, stamp_ns: int) -> int:
        """Return the wall time of a monotonic time [ns]."""
        return min(max(stamp_ns + self._wall_minus_monotonic_ns, 0), MAX_LOG_NS)

    def write(
        self,
        topic: str,
        kind: MessageType,
        payload: Payload,
        stamp_ns: int,
        *,
        held_bytes: int = 0,
        latched: bool = False,
    ) -> bool:
        """Queue one message (see `Message`); return False if it was dropped and counted. Never waits."""
        size = len(payload) if isinstance(payload, bytes) else held_bytes
        return self.write_together((Message(topic, kind, payload, latched),), stamp_ns, size)

    def write_together(self, messages: Iterable[Message], stamp_ns: int, held_bytes: int) -> bool:
        """Queue a group of messages for one file; return False if it was dropped. Never waits.

        messages:   iterated in the writing thread; may be a generator
        stamp_ns:   monotonic time of the messages [ns]
        held_bytes: memory of the group in the queue
        """
        if self._closed or self._stopped:
            self._queue.refuse()
            return False
        return self._queue.put(messages, self.wall_ns(stamp_ns), held_bytes)

    def stats(self) -> RecorderStats:
        """Return the counts so far."""
        return RecorderStats(
            written=self._written,
            dropped=self._queue.refused + self._failed,
            bytes=self._finished_bytes + self._file_bytes,
            queued=self._queue.waiting,
            queued_bytes=self._queue.waiting_bytes,
            file=self._folder.current,
            stopped=self._stopped,
            last_problem=self._last_problem,
            repaired=self._repaired,
        )

    def close(self) -> None:
        """Write the queue, finish the file and stop, within CLOSE_TIMEOUT_S. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._queue.close()
            self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            self._stopped = reasons.RECORDING_SLOW.say(file=self._folder.current, seconds=CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        step_down(RECORDER_BELOW)
        try:
            self._loop()
        except BaseException as error:
            self._on_disk(self._finish)
            self._stop(f"a message or the recorder failed: {error!r}")
            raise

    def _loop(self) -> None:
        """Write messages as they arrive; flush half of `FLUSH_S` after the first unflushed message."""
        period_s = FLUSH_S / FLUSHES_PER_PERIOD
        due_s: float | None = None
        while (item := self._queue.next(due_s)) is not Signal.CLOSE:
            if isinstance(item, Queued):
                self._take(item)
                due_s = due_s or time.monotonic() + period_s
            if due_s is not None and time.monotonic() >= due_s:
                self._on_disk(self._flush)
                due_s = None
        self._on_disk(self._finish)

    def _on_disk(self, action: Callable[[], None]) -> None:
        """Run an action on the file. A disk error ends the recording; later actions do nothing."""
        if self._stopped:
            return
        try:
            action()
        except OSError as error:
            self._stop(error.strerror or repr(error))

    def _take(self, item: Queued) -> None:
        if self._file is None:
            self._on_disk(self._open)
        file = self._file
        if file is None:
            self._failed += 1
        else:
            self._on_disk(lambda: self._append(file, item))

    def _append(self, file: RecordFile, item: Queued) -> None:
        for message in item.messages:
            data = self._serialised(message)
            if data is None:
                continue
            if message.latched:
                self._latched[message.topic] = (message, data, item)
            self._written += 1
            file.add(message.topic, message.kind, data, item.log_ns, item.number)
        self._file_bytes = file.size_bytes()
        if self._file_bytes >= self._section.max_file_mb * BYTES_PER_MB:
            self._finish()

    def _serialised(self, message: Message) -> bytes | None:
        """Return a message's bytes. Count a message that cannot be serialised and return None."""
        try:
            return message.payload if isinstance(message.payload, bytes) else bytes(message.payload())
        except UNSERIALISABLE as error:
            self._last_problem = f"{message.topic}: {error}"
            self._failed += 1
            return None

    def _open(self) -> None:
        """Open the next file with the session's metadata and the latched messages."""
        number = self._folder.files
        session = {**self._session, "file_number": str(number)}
        self._file = RecordFile(self._folder.next_path(), session, f"onboard {__version__}")
        for message, data, item in self._latched.values():
            self._written += 1
            self._file.add(message.topic, message.kind, data, item.log_ns, item.number)

    def _flush(self) -> None:
        if self._file is not None:
            self._file_bytes = self._file.flush()

    def _finish(self) -> None:
        if self._file is not None:
            self._finished_bytes += self._file.finish()
            self._file, self._file_bytes = None, 0

    def _stop(self, reason: str) -> None:
        """End the recording with a reason and repair the current file."""
        file = self._folder.current or self._section.directory
        self._stopped = reasons.RECORDING_STOPPED.say(file=file, why=reason)
        if self._file is None:
            return
        saved = self._file.abandon()
        if saved is None:
            unfinished = f"{reason}; the file is unfinished, the next start or `onboard repair` completes it"
            self._stopped = reasons.RECORDING_STOPPED.say(file=file, why=unfinished)
        lost = self._file.messages - (self._file.flushed if saved is None else saved)
        self._written -= lost
        self._failed += lost
        self._file = None
