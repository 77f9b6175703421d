"""Runs the runtime over a bag, open loop, and records its ticks.

A bag takes the place of the DDS network: the runtime's inputs and cameras read its messages at their time.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hil.recordings.bags.bag import Bag, open_bag
from hil.recordings.bags.plan import ImportOptions, Plan, planned
from hil.recordings.recording import IMPORTED_COMMANDS, TopicMessage
from onboard.assembly.inbox import DeviceInbox, dds_inputs_of
from onboard.assembly.policies import policy_maker
from onboard.assembly.robot import build_rigs, building_of, robot_of, session_of, zones_of
from onboard.config.config import DdsSection, RecordSection
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.camera_input import DdsColorCamera, DdsDepthCamera
from onboard.drivers.dds.participant import ReceivedMessage
from onboard.drivers.dds.ros_convert import ns_from_time, rays_from_ros, ros_scan, ros_twist, twist_from_ros
from onboard.drivers.dds.ros_types import Twist as RosTwist
from onboard.drivers.dds.ros_types import TwistStamped, to_cdr
from onboard.drivers.dds.topics import Topic, topic
from onboard.perception.laser_scan import scan_of_rays
from onboard.perception.scan_fusion import reach_m
from onboard.policy.contract import nearest_action, twist_of
from onboard.policy.inference import InlineInference
from onboard.recording.recorder import BYTES_PER_MB, Recorder, RecordQueue
from onboard.recording.ros_schema import message_type
from onboard.recording.tick_writer import TickRecorder
from onboard.runtime import Runtime
from onboard.state import TickRecord
from onboard.system.log import unlogged
from onboard.values.clock import NS_PER_S, SimulatedClock
from onboard.values.errors import InputError
from onboard.values.frames import Transform
from onboard.values.messages import Decision, Inputs, Pose, Twist

WRITER = 1
"""Identity of the bag's writer, which is always present."""


@dataclass(slots=True)
class BagReader:
    """Reader of one topic; replaces `participant.Reader`."""

    undecodable: int = 0
    full: bool = False
    _waiting: list[ReceivedMessage] = field(default_factory=list)

    def put(self, sample: Any) -> None:
        """Add a message."""
        self._waiting.append(ReceivedMessage(sample, WRITER))

    def take(self) -> list[ReceivedMessage]:
        """Return the messages since the last call, oldest first."""
        taken, self._waiting = self._waiting, []
        return taken

    def overflowed(self, _messages: list[ReceivedMessage]) -> frozenset[int]:
        """Return no writer: the queue is never full."""
        return frozenset()

    def writers(self) -> frozenset[int]:
        """Return the identities of the present writers."""
        return frozenset({WRITER})


class BagWire:
    """Readers over the messages of a bag; replaces `participant.Wire`.

    arrived: messages in order, with the runtime's topic names and clock [ns]
    """

    def __init__(self, section: DdsSection, arrived: Iterator[TopicMessage]) -> None:
        self.section = section
        self._arrived = arrived
        self._next = next(arrived, None)
        self._readers: dict[str, list[BagReader]] = {}

    @property
    def ended(self) -> bool:
        """Whether all messages have arrived."""
        return self._next is None

    def reader(self, name: str | Topic) -> BagReader:
        """Return a new reader of a topic."""
        reader = BagReader()
        self._readers.setdefault(topic(name).name, []).append(reader)
        return reader

    def advance(self, now_ns: int) -> None:
        """Deliver the messages up to a time. Raises InputError for an unreadable message."""
        while self._next is not None and self._next.time_ns <= now_ns:
            for reader in self._readers.get(self._next.topic, ()):
                reader.put(self._next.sample)
            self._next = next(self._arrived, None)


class BagInbox:
    """`interfaces.Inbox` over a bag: the robot's devices, fed by the bag."""

    def __init__(self, wire: BagWire, devices: DeviceInbox) -> None:
        self._wire, self._devices = wire, devices

    def take(self, now_ns: int) -> Inputs:
        """Return the inputs since the last call."""
        self._wire.advance(now_ns)
        return self._devices.take(now_ns)

    def blind(self) -> Mapping[str, str]:
        """Return the reason of each camera that does not work now."""
        return {health.camera: health.reason for health in self._devices.cameras() if not health.working}

    def close(self) -> None:
        """Close the devices."""
        self._devices.close()


# ---- Agreement of the runtime's decisions with the recorded commands

FRESH_NS = 500_000_000
"""Timeout of a command, as in a base."""


@dataclass(slots=True)
class Agreement:
    """Decisions compared with the recorded command.

    decisions: compared decisions; same: those with the action nearest to the command
    v_mps, w_radps: sums of the absolute differences
    """

    decisions: int = 0
    same: int = 0
    v_mps: float = 0.0
    w_radps: float = 0.0

    def add(self, decision: Decision, command: Twist) -> None:
        """Compare one decision."""
        chosen = twist_of(decision)
        self.decisions += 1
        self.same += decision.action == nearest_action(command)
        self.v_mps += abs(chosen.v_mps - command.v_mps)
        self.w_radps += abs(chosen.w_radps - command.w_radps)

    def line(self) -> str:
        """Return the agreement as a sentence."""
        mean_v, mean_w = self.v_mps / self.decisions, self.w_radps / self.decisions
        return (
            f"{self.same:,} of {self.decisions:,} decisions are the action nearest to the recorded command; "
            f"mean difference {mean_v:.2f} m/s, {mean_w:.2f} rad/s"
        )


class Commands:
    """Compares decisions with the newest recorded command."""

    def __init__(self, reader: BagReader) -> None:
        self._reader = reader
        self._newest: tuple[int, Twist] | None = None
        self.agreement = Agreement()

    def hear(self, tick: TickRecord) -> list[Twist]:
        """Compare a tick's decision; return the commands that arrived in the tick."""
        came = [_twist(message.sample) for message in self._reader.take()]
        if came:
            self._newest = tick.slot.start_ns, came[-1]
        decided = tick.acted.decision if tick.acted is not None else None
        if decided is not None and self._newest is not None and tick.slot.start_ns - self._newest[0] <= FRESH_NS:
            self.agreement.add(decided, self._newest[1])
        return came


def _twist(sample: RosTwist | TwistStamped) -> Twist:
    """Return the twist of a Twist or TwistStamped."""
    return twist_from_ros(sample.twist if isinstance(sample, TwistStamped) else sample)


COMMANDS_TOPIC = f"/{IMPORTED_COMMANDS}"
"""Topic of the bag's commands in the result, next to the runtime's commands."""

MOST_WAITING = 100
"""With more ticks waiting for the disk, the import pauses, because it runs faster than real time."""
PAUSE_S = 0.005
ONE_FILE_MB = 1e9


@dataclass(slots=True)
class ImportResult:
    """Result of an import.

    topics:    name in the runtime by topic of the bag
    scans:     ticks with a valid scan
    driven_m:  path length by the odometry
    missing:   one line for each missing input
    blind:     reason by camera that did not work at the end
    """

    file: Path
    topics: dict[str, str]
    missing: tuple[str, ...]
    ticks: int = 0
    seconds: float = 0.0
    scans: int = 0
    decisions: int = 0
    driven_m: float = 0.0
    state: str = ""
    agreement: Agreement | None = None
    blind: dict[str, str] = field(default_factory=dict)


def import_bag(paths: Sequence[Path], out: Path, options: ImportOptions, *, force: bool = False) -> ImportResult:
    """Drive the runtime through a bag and write the recording. Raises InputError, ConfigError, EngineError.

    force: replace a file that is there, once the new one is whole
    """
    if out.resolve() in [path.resolve() for path in paths] or out.is_dir():
        raise InputError(f"{out}: is the bag itself, or a folder")
    if out.exists() and not force:
        raise InputError(f"{out}: exists already; --force replaces it")
    if not out.parent.is_dir():
        raise InputError(f"{out}: cannot be written: there is no folder {out.parent}")
    with open_bag(paths) as bag, _working_folder(out) as folder, unlogged():
        plan = planned(bag, options, folder)
        imported = ImportResult(out, dict(plan.topics), plan.missing)
        session = {**session_of(plan.config), "imported_from": bag.name}
        section = RecordSection(directory=folder, max_file_mb=ONE_FILE_MB)
        queue = RecordQueue(2 * MOST_WAITING, ONE_FILE_MB * BYTES_PER_MB)
        recorder = Recorder(section, "imported", session, wall_ns=bag.start_ns, now_ns=NS_PER_S, queue=queue)
        with contextlib.closing(recorder):
            _drive(plan, bag, recorder, imported)
        stats = recorder.stats()
        if stats.stopped or stats.dropped or stats.file is None:
            raise InputError(f"{out}: {stats.stopped or stats.last_problem or 'not all of it was written'}")
        os.replace(stats.file, out)
    return imported


@contextlib.contextmanager
def _working_folder(out: Path) -> Iterator[Path]:
    """Yield a folder next to the result for the unfinished file. Raises InputError."""
    try:
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
            yield Path(folder)
    except PermissionError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from error


def _drive(plan: Plan, bag: Bag, recorder: Recorder, imported: ImportResult) -> None:
    """Run the runtime over the bag on the simulated clock."""
    config = plan.config
    mounts, plant = load_mounts(config.robot.mounts), load_plant(config.robot.plant)
    rigs = build_rigs(config, mounts)
    clock = SimulatedClock()
    wire = BagWire(config.dds, _arrived(plan, bag))
    depth = [DdsDepthCamera(wire, mount, config.cameras) for mount in mounts.depth.values()]
    color = DdsColorCamera(wire, config.cameras)
    inputs = dds_inputs_of(config, wire)
    inbox = BagInbox(wire, DeviceInbox(inputs, depth, color, unchanged_m=config.cameras.unchanged_m))
    with contextlib.closing(policy_maker(config, plant, building_of(config))()) as policy:
        robot = robot_of(config, rigs, plant, policy, zones_of(config), building_of(config))
        ticks = TickRecorder(recorder, config.dds, mounts, reach_m(rigs[0]))
        listener = _TickListener(recorder, ticks, Commands(wire.reader("cmd_vel")), wire, imported)
        runtime = Runtime(robot, clock, inbox, InlineInference(policy, clock.now_ns), _NoDrive(), (listener,))
        listener.runtime = runtime
        asyncio.run(runtime.run())
        imported.blind = dict(inbox.blind())


def _arrived(plan: Plan, bag: Bag) -> Iterator[TopicMessage]:
    """Yield the runtime's input messages, with its topic names and clock."""
    to_clock_ns, goal = NS_PER_S - bag.start_ns, plan.goal
    for one in bag.read(plan.topics.keys()):
        if goal is not None and goal.time_ns <= one.time_ns:
            yield replace(goal, time_ns=goal.time_ns + to_clock_ns)
            goal = None
        sample = one.sample
        if plan.laser is not None and one.topic == plan.laser[0]:
            with contextlib.suppress(InputError):  # the runtime's own scan input refuses a bad scan
                sample = seen_from_base(sample, plan.laser[1], plan.config.dds.base_frame)
        yield TopicMessage(plan.topics[one.topic], one.time_ns + to_clock_ns, sample)


class _NoDrive:
    """A drive that sends nothing: the bag's robot has driven already."""

    def send(self, command: Twist) -> None:
        """Send nothing."""

    def close(self) -> None:
        """Do nothing."""


class _TickListener:
    """Records and counts every tick, and stops the runtime at the end of the bag."""

    runtime: Runtime

    def __init__(
        self, recorder: Recorder, ticks: TickRecorder, commands: Commands, wire: BagWire, imported: ImportResult
    ) -> None:
        self._recorder, self._ticks, self._commands = recorder, ticks, commands
        self._wire, self._imported = wire, imported
        self._place: Pose | None = None

    def tick(self, record: TickRecord, counters: object) -> None:
        """Record a tick; wait while the disk is behind."""
        for twist in self._commands.hear(record):
            self._recorder.write(COMMANDS_TOPIC, TWIST, to_cdr(ros_twist(twist)), record.slot.start_ns)
        self._ticks.record(record)
        self._count(record)
        pause = threading.Event()
        while self._recorder.waiting > MOST_WAITING and not self._recorder.stats().stopped:
            pause.wait(PAUSE_S)
        if self._wire.ended:
            self.runtime.stop()

    def _count(self, record: TickRecord) -> None:
        found, place = self._imported, record.odometry.pose
        if self._place is not None:
            found.driven_m += math.hypot(place.x_m - self._place.x_m, place.y_m - self._place.y_m)
        self._place = place if self.runtime.state.wheels.messages else None
        found.ticks += 1
        found.seconds = (record.slot.start_ns - NS_PER_S) / NS_PER_S
        found.scans += bool(record.scan.seen.any())
        found.decisions += record.acted is not None and record.acted.decision is not None
        found.state = record.state
        agreement = self._commands.agreement
        found.agreement = agreement if agreement.decisions else None


TWIST = message_type(RosTwist)


def seen_from_base(sample: ros.LaserScan, base_from_laser: Transform, base_frame: str) -> ros.LaserScan:
    """Return the scan in the base frame: the nearest end of a ray in each bin.

    A ray without a hit marks the bin at the laser's reach as seen. A scan taken at the base is returned unchanged.
    Raises InputError for a bad scan.
    """
    header = ros.Header(sample.header.stamp, base_frame)
    if np.array_equal(base_from_laser, np.eye(4)):
        return replace(sample, header=header)
    rays, stamp_ns = rays_from_ros(sample), ns_from_time(sample.header.stamp)
    return ros_scan(stamp_ns, base_frame, scan_of_rays(rays, stamp_ns, base_from_laser), rays.range_max_m)
