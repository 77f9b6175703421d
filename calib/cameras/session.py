"""Records a calibration session: ordinary ticks of the recorder, with depth images where the base stands.

On the robot it shows the operator what to do next, and sends no command. The operator drives with the robot's own
remote control, or turns and pushes it by hand.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from calib.cameras.keyframes import APART_M, APART_RAD, REST_MPS, REST_RADPS
from onboard.assembly.robot import session_of
from onboard.config.config import Config, RecordSection
from onboard.config.mounts import load_mounts
from onboard.navigation.odometry import OdometryState, advance
from onboard.perception.scan_fusion import NO_SCAN, ScanMemory, build_rig, fuse, reach_m
from onboard.policy.contract import NO_ACTION
from onboard.policy.decision import StartedDecision
from onboard.recording.recorder import BYTES_PER_MB, Recorder, RecordQueue
from onboard.recording.tick_writer import TickRecorder
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S, MonotonicClock, Slot, wall_ns
from onboard.values.errors import InputError, naming
from onboard.values.geometry import IDENTITY, between
from onboard.values.interfaces import Inbox
from onboard.values.messages import STOP, Inputs, Motion, Observation, Pose, Twist

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
    with naming(out, "written"):
        folder = tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.")
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


TICK_S = 1.0 / 30.0
REST_S = 0.4
"""The base stands this long before its images count: vibrations and latency of the cameras have passed."""
IMAGES_A_STOP = 3
SILENCE_S = 5.0
"""Longest wait for the first odometry and for images at a stop."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the operator does next, until the base has turned [rad] and driven [m], and stopped so often."""

    text: str
    turn_rad: float = 0.0
    drive_m: float = 0.0
    stops: int = 0


STEPS = (
    Step("stand still", stops=1),
    Step("turn left in place, one full turn; stop for a second every 15 deg", turn_rad=6.2, stops=16),
    Step("drive short arcs left and right, and back along the same path; stop every 20 cm", drive_m=2.0, stops=8),
    Step("turn right in place, one full turn; stop for a second every 15 deg", turn_rad=6.2, stops=16),
    Step("drive 60 cm straight ahead and back, turn by 90 deg, repeat; stop every 20 cm", drive_m=2.0, stops=8),
)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the operator is. step: index in `STEPS`, their number at the end; pose: the base's, as of the last tick."""

    step: int = 0
    turned_rad: float = 0.0
    driven_m: float = 0.0
    stops: int = 0
    pose: Pose | None = None
    rest_since_ns: int | None = None
    stopped_at: Pose | None = None
    images: int = 0
    frames: dict[str, int] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether all steps are done."""
        return self.step == len(STEPS)

    @property
    def fraction(self) -> float:
        """Share of the present step that is done."""
        if self.done:
            return 1.0
        step = STEPS[self.step]
        parts = ((self.turned_rad, step.turn_rad), (self.driven_m, step.drive_m), (self.stops, step.stops))
        return min(1.0, *(value / need for value, need in parts if need))


def followed(progress: Progress, inputs: Inputs, odometry: Motion) -> tuple[Progress, bool]:
    """Return the progress after a tick, and whether the images of this tick are kept: new ones of a base at rest."""
    pose, twist = odometry.pose, odometry.twist
    moved = between(progress.pose or pose, pose)
    now = replace(
        progress,
        pose=pose,
        turned_rad=progress.turned_rad + abs(moved.yaw_rad),
        driven_m=progress.driven_m + math.hypot(moved.x_m, moved.y_m),
    )
    if abs(twist.v_mps) >= REST_MPS or abs(twist.w_radps) >= REST_RADPS:
        return replace(now, rest_since_ns=None, images=0), False
    since_ns = inputs.now_ns if now.rest_since_ns is None else now.rest_since_ns
    now = replace(now, rest_since_ns=since_ns)
    settled_ns = since_ns + round(REST_S * NS_PER_S)
    frames = {name: frame.number for name, frame in inputs.depth.items() if frame.stamp_ns >= settled_ns}
    new = bool(frames) and len(frames) == len(inputs.depth) and frames != now.frames
    here = now.stopped_at is not None and not _moved(now.stopped_at, pose)
    if not new or (here and now.images in (0, IMAGES_A_STOP)):
        return now, False
    first = now.images == 0
    now = replace(now, frames=frames, images=now.images + 1, stops=now.stops + first, stopped_at=pose)
    if now.images == IMAGES_A_STOP and now.fraction >= 1.0:
        now = replace(now, step=now.step + 1, turned_rad=0.0, driven_m=0.0, stops=0)
    return now, True


def _moved(one: Pose, other: Pose) -> bool:
    moved = between(one, other)
    return math.hypot(moved.x_m, moved.y_m) >= APART_M or abs(moved.yaw_rad) >= APART_RAD


def guide(
    config: Config, inbox: Inbox, times_ns: Iterable[int], session: Session, show: Callable[[Progress], None]
) -> Progress:
    """Record until all steps are done. times_ns: of the ticks; show: shows the operator where they are.

    Raises InputError without odometry or images for `SILENCE_S`, DriverError if a link is gone.
    """
    progress, wheels, received_ns = Progress(), OdometryState(), 0
    for now_ns in times_ns:
        inputs = inbox.take(now_ns)
        for message in inputs.odometry:
            wheels = advance(wheels, message, config.odometry)
        received_ns = now_ns if (inputs.odometry and inputs.depth) or not received_ns else received_ns
        if now_ns - received_ns > SILENCE_S * NS_PER_S:
            missing, names = "odometry", ["odom"]
            if inputs.odometry:
                missing, names = "depth images", [f"{name}/depth/image" for name in config.scan.cameras or ["CAMERA"]]
            where = ", ".join(f"/{name}" for name in names)
            raise InputError(f"no {missing} for {SILENCE_S:g} s ({where}): is its publisher or device running?")
        progress, images = followed(progress, inputs, wheels.motion)
        session.tick(inputs, wheels.motion, STOP, images)
        show(progress)
        if progress.done:
            break
    return progress


def real_times() -> Iterator[int]:
    """Yield the time of each tick [ns], at most every `TICK_S`."""
    pause = threading.Event()
    with contextlib.closing(MonotonicClock()) as clock:
        due_ns = clock.now_ns()
        while True:
            pause.wait(max(0.0, (due_ns - clock.now_ns()) / NS_PER_S))
            now_ns = clock.now_ns()
            yield now_ns
            due_ns = max(due_ns + round(TICK_S * NS_PER_S), now_ns)
