"""Records a calibration session: ordinary ticks of the recorder, with depth images where the base stands."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from onboard.assembly.robot import session_of
from onboard.config.config import Config, RecordSection
from onboard.config.mounts import load_mounts
from onboard.perception.scan_fusion import NO_SCAN, ScanMemory, build_rig, fuse, reach_m
from onboard.policy.contract import NO_ACTION
from onboard.policy.decision import StartedDecision
from onboard.recording.recorder import BYTES_PER_MB, Recorder, RecordQueue
from onboard.recording.tick_writer import TickRecorder
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S, Slot, wall_ns
from onboard.values.errors import InputError
from onboard.values.geometry import IDENTITY
from onboard.values.messages import Inputs, Motion, Observation, Twist

MOST_WAITING = 200
"""Ticks that may wait for the disk before the session waits too."""
PAUSE_S = 0.002
ONE_FILE_MB = 4000.0


class Session:
    """Takes the ticks of a session. The scan is fused with the mounts that the robot believes in."""

    def __init__(self, config: Config, recorder: Recorder) -> None:
        mounts = load_mounts(config.robot.mounts)
        self._rig = build_rig(mounts, config.scan)
        self._recorder = recorder
        self._ticks = TickRecorder(recorder, config.dds, mounts, reach_m(self._rig))
        self._memory, self._scan = ScanMemory(), NO_SCAN
        self._number = self._images = 0

    def tick(self, inputs: Inputs, odometry: Motion, command: Twist, images: bool) -> None:
        """Record a tick. images: whether its depth images are kept. Raises InputError if an image fits no mount."""
        sensed = None
        if images:
            self._images += 1
            self._scan, self._memory = fuse(inputs.depth, inputs.now_ns, odometry.pose, self._memory, self._rig)
            seen = Observation(
                inputs.now_ns, None, self._scan, odometry, None, None, odometry, (0.0, 0.0), NO_ACTION
            )  # fmt: skip
            sensed = StartedDecision(self._images, seen, "")
        record = TickRecord(
            slot=Slot(self._number, inputs.now_ns, inputs.now_ns, 0), inputs=inputs, odometry=odometry,
            filtered=odometry, scan=self._scan, limits_scan=self._scan, state="idle", sensed=sensed, wanted=command,
            command=command, reason="calibration", sent_ns=inputs.now_ns,
        )  # fmt: skip
        self._number += 1
        self._ticks.record(record)
        pause = threading.Event()
        while self._recorder.waiting > MOST_WAITING and not self._recorder.stats().stopped:
            pause.wait(PAUSE_S)


def start_pose() -> Motion:
    """Return the odometry at the start of a session."""
    return Motion(IDENTITY, Twist(0.0, 0.0))


@contextlib.contextmanager
def recorded_session(config: Config, out: Path, *, force: bool = False) -> Iterator[Session]:
    """Yield a session that becomes the recording `out` once it ends without an error.

    force: replace a file that is there. Raises InputError if the file cannot be written whole.
    """
    if out.is_dir() or (out.exists() and not force):
        raise InputError(f"{out}: is a folder" if out.is_dir() else f"{out}: exists already; --force replaces it")
    if not out.parent.is_dir():
        raise InputError(f"{out}: cannot be written: there is no folder {out.parent}")
    try:
        folder = tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.")
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from error
    with folder:
        section = RecordSection(directory=Path(folder.name), max_file_mb=ONE_FILE_MB)
        queue = RecordQueue(2 * MOST_WAITING, ONE_FILE_MB * BYTES_PER_MB)
        recorder = Recorder(
            section, config.robot.name, session_of(config), wall_ns=wall_ns(), now_ns=NS_PER_S, queue=queue
        )
        with contextlib.closing(recorder):
            yield Session(config, recorder)
        stats = recorder.stats()
        if stats.stopped or stats.dropped or stats.file is None:
            raise InputError(f"{out}: {stats.stopped or stats.last_problem or 'not all of it was written'}")
        os.replace(stats.file, out)
