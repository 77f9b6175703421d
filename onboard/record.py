"""The recorder: takes messages without ever waiting, one thread writes them to MCAP files (ROS 2 profile).

The control path only puts a message into a bounded queue; serialising, compressing and writing happen in the thread.
What does not fit is dropped and counted. When the disk is full or fails, recording ends with one reason, what was
recorded stays readable, and driving goes on.
"""

from __future__ import annotations

import errno
import os
import queue
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from onboard import __version__
from onboard.config import RecordSection
from onboard.errors import ConfigError, OnboardError
from onboard.record_file import MessageType, RecordFile
from onboard.record_folder import Folder
from onboard.repair import Repair

FORMAT = "2"
"""Version of what our topics mean; a replay refuses or migrates others."""

BYTES_PER_MB = 1_000_000
MAX_LOG_NS = 2**63 - 1
SEQUENCE_WRAP = 2**32
FLUSHES_PER_PERIOD = 2
"""Flushed twice in `flush_s`, so that a busy machine still keeps the promise to lose no more than that."""

CLOSE_TIMEOUT_S = 10.0
NICENESS = 10
"""Of the writing thread: the tick and the policy go first where cores are few."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNSERIALISABLE = (OnboardError, TypeError, ValueError, OverflowError, struct.error)

Payload = bytes | Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class RecorderStats:
    """What `/diagnostics` shows of the recorder.

    written:      messages in the files and in the chunk in progress, repeats of latched ones among them
    dropped:      messages that are not: the queue was full, they could not be serialised, or recording has stopped
    bytes:        on disk in this session
    queued:       messages waiting, with `queued_bytes` held by them
    file:         being written, or the last one
    stopped:      why recording ended, one line; "" while it goes on
    last_problem: why a message was last dropped though the queue was not full; "" when none was
    repaired:     what earlier sessions had left unfinished
    """

    written: int
    dropped: int
    bytes: int
    queued: int
    queued_bytes: int
    file: Path | None
    stopped: str
    last_problem: str
    repaired: tuple[Repair, ...]


class _Signal(Enum):
    CLOSE = auto()


class _Queued(NamedTuple):
    topic: str
    kind: MessageType
    payload: Payload
    log_ns: int
    number: int
    held_bytes: int
    latched: bool


class Recorder:
    """Records one session. `write` and `close` belong to one thread, which never waits in `write`."""

    def __init__(
        self, section: RecordSection, name: str, session: Mapping[str, str], *, wall_ns: int, now_ns: int
    ) -> None:
        """Repair what earlier sessions left, open the first file, start the writing thread.

        session: goes into every file as metadata: version, configuration, mounts, model hash, machine
        wall_ns, now_ns: wall and monotonic time at the same moment; names the files and dates the messages
        Raises ConfigError when the folder cannot be written to, except when the disk is full: see `stats`.
        """
        self._section = section
        self._wall_minus_monotonic_ns = wall_ns - now_ns
        self._session = {
            "format": FORMAT,
            "onboard_version": __version__,
            "wall_minus_monotonic_ns": str(self._wall_minus_monotonic_ns),
            **session,
        }
        self._queue: queue.SimpleQueue[_Queued | _Signal] = queue.SimpleQueue()
        self._number = self._refused = self._put_bytes = 0  # changed by the caller's thread alone
        self._taken = self._taken_bytes = self._written = self._failed = 0  # by the writing thread alone
        self._finished_bytes = self._file_bytes = 0
        self._closed = False
        self._stopped = self._last_problem = ""
        self._latched: dict[str, tuple[_Queued, bytes]] = {}
        self._file: RecordFile | None = None
        try:
            self._folder = Folder(section.directory, name, wall_ns, section.max_files)
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
        """Queue one message; return False when it was dropped and counted. Never waits.

        payload:    CDR, or a function that gives it, called in the writing thread
        stamp_ns:   monotonic time that dates the message [ns]
        held_bytes: what a function's message keeps in memory until then, for the bound of the queue
        latched:    written again at the start of each further file, for what is published once (`/tf_static`)
        """
        size = len(payload) if isinstance(payload, bytes) else held_bytes
        self._number += 1
        queued = self._number - self._refused - self._taken
        over = queued > self._section.queue_messages
        over |= self._put_bytes + size - self._taken_bytes > self._section.queue_mb * BYTES_PER_MB
        if over or self._closed or self._stopped:
            self._refused += 1
            return False
        self._put_bytes += size
        log_ns = min(max(stamp_ns + self._wall_minus_monotonic_ns, 0), MAX_LOG_NS)
        number = self._number % SEQUENCE_WRAP
        self._queue.put(_Queued(topic, kind, payload, log_ns, number, size, latched))
        return True

    def stats(self) -> RecorderStats:
        """Return the counts so far."""
        return RecorderStats(
            written=self._written,
            dropped=self._refused + self._failed,
            bytes=self._finished_bytes + self._file_bytes,
            queued=self._number - self._refused - self._taken,
            queued_bytes=self._put_bytes - self._taken_bytes,
            file=self._folder.current,
            stopped=self._stopped,
            last_problem=self._last_problem,
            repaired=self._repaired,
        )

    def close(self) -> None:
        """Write what is queued, finish the file and stop. Safe to call twice; gives up on a disk that hangs."""
        if not self._closed:
            self._closed = True
            self._queue.put(_Signal.CLOSE)
            self._thread.join(CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            self._stopped = f"{self._folder.current}: the disk did not take the rest within {CLOSE_TIMEOUT_S:g} s"

    def _run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        try:
            self._loop()
        except BaseException as error:
            self._on_disk(self._finish)
            self._stop(f"fault of a message or the recorder: {error!r}")
            raise

    def _loop(self) -> None:
        """Write messages as they come; flush soon after the first that is not yet safe in the file."""
        period_s = self._section.flush_s / FLUSHES_PER_PERIOD
        due_s: float | None = None
        while (item := self._next(due_s)) is not _Signal.CLOSE:
            if item is not None:
                self._take(item)
                due_s = due_s or time.monotonic() + period_s
            if due_s is not None and time.monotonic() >= due_s:
                self._on_disk(self._flush)
                due_s = None
        self._on_disk(self._finish)

    def _next(self, due_s: float | None) -> _Queued | _Signal | None:
        """Return what comes next, or None when nothing came until `due_s`."""
        try:
            return self._queue.get(timeout=None if due_s is None else max(0.0, due_s - time.monotonic()))
        except queue.Empty:
            return None

    def _on_disk(self, action: Callable[[], None]) -> None:
        """Do something with the file. An error of the disk ends the recording; afterwards nothing is done."""
        if self._stopped:
            return
        try:
            action()
        except OSError as error:
            self._stop(error.strerror or repr(error))

    def _take(self, item: _Queued) -> None:
        self._taken += 1
        self._taken_bytes += item.held_bytes
        if self._file is None:
            self._on_disk(self._open)
        file = self._file
        if file is None:
            self._failed += 1
        else:
            self._on_disk(lambda: self._append(file, item))

    def _append(self, file: RecordFile, item: _Queued) -> None:
        try:
            data = item.payload if isinstance(item.payload, bytes) else bytes(item.payload())
        except UNSERIALISABLE as error:
            self._last_problem = f"{item.topic}: {error}"
            self._failed += 1
            return
        if item.latched:
            self._latched[item.topic] = (item, data)
        self._written += 1
        file.add(item.topic, item.kind, data, item.log_ns, item.number)
        self._file_bytes = file.size_bytes()
        if self._file_bytes >= self._section.max_file_mb * BYTES_PER_MB:
            self._finish()

    def _open(self) -> None:
        """Begin the next file with the session's record and the latched messages."""
        number = self._folder.files
        session = {**self._session, "file_number": str(number)}
        self._file = RecordFile(self._folder.next_path(), session, f"onboard {__version__}")
        for item, data in self._latched.values():
            self._written += 1
            self._file.add(item.topic, item.kind, data, item.log_ns, item.number)

    def _flush(self) -> None:
        if self._file is not None:
            self._file_bytes = self._file.flush()

    def _finish(self) -> None:
        if self._file is not None:
            self._finished_bytes += self._file.finish()
            self._file, self._file_bytes = None, 0

    def _stop(self, reason: str) -> None:
        """End the recording for one reason; what stands whole in the file stays and is made readable."""
        self._stopped = f"{self._folder.current}: recording stopped: {reason}"
        if self._file is None:
            return
        saved = self._file.abandon()
        if saved is None:
            self._stopped += "; the file is unfinished, the next start or `onboard repair` completes it"
        lost = self._file.messages - (self._file.flushed if saved is None else saved)
        self._written -= lost
        self._failed += lost
        self._file = None
