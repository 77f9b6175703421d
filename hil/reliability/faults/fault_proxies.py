"""Proxies that inject faults into a runtime. Each implements one of the runtime's protocols and wraps a real object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from hil.reliability.faults.inject.schedule import COLOR, Injection, Schedule
from onboard.assembly.inbox import UnchangedScans, UnchangedWatch
from onboard.assembly.robot import scan_topics
from onboard.config.config import Config, DdsSection
from onboard.config.mounts import Mounts
from onboard.drivers.dds.camera_input import DdsColorCamera, DdsDepthCamera
from onboard.drivers.dds.participant import ReceivedMessage
from onboard.drivers.dds.ros_convert import optical_frame, ros_image, ros_scan
from onboard.drivers.dds.ros_types import Image, LaserScan
from onboard.drivers.dds.scan_input import DdsScans
from onboard.drivers.dds.topics import Topic, scan_source, topic
from onboard.policy.inference import Inference, InferenceResult
from onboard.values.clock import NS_PER_S, Clock, SimulatedClock
from onboard.values.interfaces import Drive, Inbox
from onboard.values.messages import ColorFrame, DepthFrame, Inputs, Memory, Observation, Scan, Twist

Sample = TypeVar("Sample", Image, LaserScan)

SENDERS_AHEAD_NS = 24 * 3600 * NS_PER_S
"""Offset of the clock in image headers from the runtime's clock: a step back then leaves stamps positive."""


class Feed:
    """A reader of one topic for a driver; `put` adds a message."""

    undecodable = 0

    def __init__(self) -> None:
        self._waiting: list[ReceivedMessage] = []

    def put(self, sample: Image | LaserScan) -> None:
        """Add a message, as if it had arrived."""
        self._waiting.append(ReceivedMessage(sample, 0))

    def take(self) -> list[ReceivedMessage]:
        """Return the messages since the last call."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def writers(self) -> frozenset[int]:
        """Return the identity of the only writer."""
        return frozenset({0})


class Feeds:
    """Replaces the DDS wire of the camera and scan drivers."""

    def __init__(self, section: DdsSection) -> None:
        self.section = section
        self._feeds: dict[str, Feed] = {}

    def reader(self, name: str | Topic) -> Feed:
        """Return the reader of a topic; each call returns the same reader."""
        return self._feeds.setdefault(topic(name).name, Feed())


class FaultyInbox:
    """`interfaces.Inbox` around another inbox: images and ready-made scans pass through the runtime's own drivers.

    A frame with a new number, or a scan with a new stamp, becomes a message. Faults change the messages. So the drivers
    check size, encoding, a covered lens, age and repeated stamps as on the robot.
    """

    def __init__(self, inner: Inbox, mounts: Mounts, config: Config, schedule: Schedule) -> None:
        self._inner, self._schedule = inner, schedule
        self._base_frame, self._far_m = config.dds.base_frame, config.scan.far_m
        wire, section, self._topics = Feeds(config.dds), config.cameras, sorted(set(scan_topics(config).values()))
        self._depth = {name: DdsDepthCamera(wire, mount, section) for name, mount in mounts.depth.items()}
        self._color = DdsColorCamera(wire, section)
        self._scans = DdsScans(wire, dict.fromkeys(self._topics))
        self._feeds = {name: wire.reader(f"{name}/depth/image") for name in mounts.depth}
        self._feeds |= {COLOR: wire.reader("color/image")}
        self._feeds |= {name: wire.reader(scan_source(name)) for name in self._topics}
        self._unchanged = UnchangedWatch(section.unchanged_m)
        self._unchanged_scans = UnchangedScans(section.unchanged_m)
        self._numbers: dict[str, int] = {}

    def take(self, now_ns: int) -> Inputs:
        """Return the inputs of a tick, changed by the active faults."""
        inputs = self._inner.take(now_ns)
        for name, frame in inputs.depth.items():
            self._arrive(name, frame, now_ns)
        if inputs.color is not None:
            self._arrive(COLOR, inputs.color, now_ns)
        for name in self._topics:
            if name in inputs.scans:
                self._arrive_scan(name, inputs.scans[name], now_ns)
        newest = {name: camera.latest(now_ns) for name, camera in self._depth.items()}
        frames = {name: frame for name, frame in newest.items() if frame is not None}
        inputs = replace(
            inputs,
            depth=self._unchanged.believed(frames, inputs.odometry),
            color=self._color.latest(now_ns),
            scans=self._unchanged_scans.believed(self._scans.take(now_ns), inputs.odometry),
        )
        for planned in self._schedule.active(now_ns):
            inputs = planned.injection.inputs(inputs)
        return inputs

    def close(self) -> None:
        """Close the wrapped object."""
        self._inner.close()

    def _arrive(self, name: str, frame: DepthFrame | ColorFrame, now_ns: int) -> None:
        if not self._is_new(name, frame.number):
            return
        encoding, pixels = ("16UC1", frame.depth) if isinstance(frame, DepthFrame) else ("rgb8", frame.image)
        came = ros_image(frame.stamp_ns + SENDERS_AHEAD_NS, optical_frame(name), encoding, pixels)
        self._through(name, came, lambda it, sample: it.image(name, sample, now_ns), now_ns)

    def _arrive_scan(self, topic: str, scan: Scan, now_ns: int) -> None:
        if not self._is_new(topic, scan.stamp_ns):
            return
        came = ros_scan(scan.stamp_ns + SENDERS_AHEAD_NS, self._base_frame, scan, self._far_m)
        self._through(topic, came, lambda it, sample: it.scan(topic, sample, now_ns), now_ns)

    def _through(
        self, name: str, came: Sample, change: Callable[[Injection, Sample], Sample | None], now_ns: int
    ) -> None:
        """Show a message to the coming faults, let the active faults change or drop it, and deliver the result."""
        for planned in self._schedule.coming(now_ns):
            planned.injection.saw(name, came)
        sample: Sample | None = came
        for planned in self._schedule.active(now_ns):
            sample = None if sample is None else change(planned.injection, sample)
        if sample is not None:
            self._feeds[name].put(sample)

    def _is_new(self, name: str, number: int) -> bool:
        """Return whether a frame's number, or a scan's stamp, differs from the last, and keep it."""
        known, self._numbers[name] = self._numbers.get(name), number
        return known != number


class FaultyInference:
    """`inference.Inference` around an inline inference: faults delay or replace results. Busy until a result is due."""

    def __init__(self, inner: Inference, clock: Clock, schedule: Schedule) -> None:
        self._inner, self._clock, self._schedule = inner, clock, schedule
        self._running: tuple[int, InferenceResult] | None = None
        self._done: InferenceResult | None = None

    def submit(self, number: int, observation: Observation, memory: Memory) -> bool:
        """Begin a decision. Return False and do nothing while the previous decision is not finished."""
        self._finish()
        if self._running is not None or not self._inner.submit(number, observation, memory):
            return False
        result = self._inner.poll()
        if result is None:
            return True
        now_ns = self._clock.now_ns()
        ready_ns = now_ns
        for planned in self._schedule.active(now_ns):
            result = planned.injection.result(result)
            ready_ns += planned.injection.late_ns(now_ns, planned.end_ns)
        if ready_ns > now_ns:
            result = replace(result, finished_ns=ready_ns, elapsed_ns=ready_ns - now_ns)
        self._running = ready_ns, result
        return True

    def poll(self) -> InferenceResult | None:
        """Return the newest finished result once, or None."""
        self._finish()
        result, self._done = self._done, None
        return result

    def close(self) -> None:
        """Close the wrapped object."""
        self._inner.close()

    def _finish(self) -> None:
        if self._running is not None and self._running[0] <= self._clock.now_ns():
            self._done, self._running = self._running[1], None


class FaultyClock:
    """`Clock` of `onboard/values/clock.py` around a simulated clock: faults block the loop past its deadline."""

    def __init__(self, inner: SimulatedClock, schedule: Schedule) -> None:
        self._inner, self._schedule = inner, schedule

    def now_ns(self) -> int:
        """Return the simulated time [ns]."""
        return self._inner.now_ns()

    async def sleep_until(self, deadline_ns: int) -> None:
        """Return at the deadline, or later while a fault blocks the loop."""
        await self._inner.sleep_until(deadline_ns)
        for planned in self._schedule.active(self._inner.now_ns()):
            self._inner.advance(planned.injection.blocked_ns())

    def hold_until(self, deadline_ns: int) -> None:
        """Return at the deadline."""
        self._inner.hold_until(deadline_ns)

    def close(self) -> None:
        """Close the wrapped object."""
        self._inner.close()


class FaultyDrive:
    """`interfaces.Drive` around another drive: faults replace or drop a command, or raise an error."""

    def __init__(self, inner: Drive, clock: Clock, schedule: Schedule) -> None:
        self._inner, self._clock, self._schedule = inner, clock, schedule

    def send(self, command: Twist) -> None:
        """Send a command as the active faults change it; they may drop it. Raises DriverError if the link is gone."""
        passed: Twist | None = command
        for planned in self._schedule.active(self._clock.now_ns()):
            passed = None if passed is None else planned.injection.command(passed)
        if passed is not None:
            self._inner.send(passed)

    def close(self) -> None:
        """Close the wrapped drive, which sends its stop."""
        self._inner.close()
