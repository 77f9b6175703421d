"""`onboard-hil target`: simulates world and base on this machine and measures round trips to the target's runtime.

`TargetLink` records send times of images, `EventReaders` records arrival times.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable
from queue import Empty as NothingLeft
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.drive.robot import TICK_HZ, Glance, SensorSignals, SimulatedRobot
from hil.live.simulator import Link, RenderThread
from hil.live.target.figures import PAPER, figures
from hil.live.target.goals import GoalSequence, Place
from hil.live.target.phases import NEVER, SILENT, Session, Stage
from hil.live.target.round_trips import Command, ImageSet, Matcher, Trips
from onboard.config.config import RatesSection
from onboard.config.mounts import Mounts
from onboard.drivers.dds.camera_input import COLOR, as_sent
from onboard.drivers.dds.participant import Reader, ReceivedMessage, Wire
from onboard.drivers.dds.robot_link import CLAIM_WAIT_S
from onboard.drivers.dds.ros_convert import optical_frame, ros_goal, ros_image
from onboard.drivers.dds.ros_types import Empty
from onboard.drivers.dds.topics import LOG, Topic, ros_topic, topic
from onboard.navigation.mission import drives
from onboard.service.image_acks import ImageTiming, used_from_ros
from onboard.system.signals import Signals
from onboard.values.clock import NS_PER_S, MonotonicClock, grid, wall_ns
from onboard.values.errors import DriverError, InputError, OnboardError
from onboard.values.messages import Pose

LISTEN_S = 0.1
"""Timeout of each wait of a listening thread. Closing takes at most this time."""

Happening = ImageSet | Command | tuple[ImageTiming, int]
"""An event on DDS: images just before sending, a received command, or a tick report with its arrival time [ns]."""


class TargetLink(Link):
    """DDS link of the simulated robot. It records the send times of images in `events`."""

    def __init__(self, wire: Wire, mounts: Mounts, events: SimpleQueue[Happening]) -> None:
        """Open readers and writers. Raises ConfigError, DriverError."""
        super().__init__(wire, mounts)
        self._events = events
        self._posed_ns: dict[int, int] = {}
        self._stamp_ns = 0

    def publish_pose(self, sensed: SensorSignals, number: int, tick: int) -> None:
        """Publish the sensed values of `tick`, and record the time. number: number of the slot."""
        self._posed_ns = {tick: time.monotonic_ns(), **dict(list(self._posed_ns.items())[:SHOWN_AT_ONCE])}
        self.publish(sensed, number)

    def show(self, robot: SimulatedRobot, glance: Glance, depth: bool, color: bool) -> None:
        """Render all due images, then publish them with the same stamp. depth, color: which images are due."""
        images: dict[str, tuple[str, npt.NDArray[np.uint16] | npt.NDArray[np.uint8]]] = {}
        if depth:
            images |= {name: ("16UC1", image) for name, image in robot.depth(glance).items()}
        seen = robot.color(glance) if color and self._color is not None else None
        writers = dict(self._depth)
        if seen is not None and self._color is not None:
            writers[COLOR] = self._color
            images[COLOR] = ("rgb8", seen)
        if not images:
            return
        self._stamp_ns = stamp_ns = max(wall_ns(), self._stamp_ns + 1)
        messages = {name: ros_image(stamp_ns, optical_frame(name), *image) for name, image in images.items()}
        began_ns = time.monotonic_ns()
        self._events.put(ImageSet(stamp_ns, tuple(images), began_ns, self._posed_ns.get(glance.tick, began_ns)))
        for name, message in messages.items():
            ours = "color/image" if name == COLOR else f"{name}/depth/image"
            writers[name].write(as_sent(message, self._section, ours))


SHOWN_AT_ONCE = 30
"""Number of older poses whose send times are kept: the rendering thread may still work on their images."""


class EventReaders:
    """Records commands and tick reports in `events`. Each topic has a separate thread."""

    def __init__(self, wire: Wire, events: SimpleQueue[Happening]) -> None:
        """Start the listening threads. Raises ConfigError, DriverError."""
        self._events, self._over = events, Event()
        command = topic("cmd_vel")
        every_one = Topic(command.name, command.wire, command.kind, LOG, command.stamped_kind)
        readers: dict[Callable[[ReceivedMessage, int], None], Reader] = {
            self._command: wire.reader(every_one),
            self._used: wire.reader("used"),
        }
        self._threads = [Thread(target=self._listen, args=item, daemon=True) for item in readers.items()]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop the threads. Call this before the wire is closed. A second call has no effect."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _listen(self, note: Callable[[ReceivedMessage, int], None], reader: Reader) -> None:
        while not self._over.is_set():
            if reader.wait(LISTEN_S):
                now_ns = time.monotonic_ns()
                for message in reader.take():
                    note(message, now_ns)

    def _command(self, message: ReceivedMessage, now_ns: int) -> None:
        self._events.put(Command(message.written_ns, now_ns))

    def _used(self, message: ReceivedMessage, now_ns: int) -> None:
        try:
            self._events.put((used_from_ros(message.sample), now_ns))
        except InputError:  # another sender's message on this topic; the target's messages are valid
            return


CANCEL_TICKS = 15
"""Period of the cancel message [ticks] until the robot stands. The repetition covers a lost message."""
REST_MPS, REST_RADPS = 0.02, 0.05

Report = Callable[[Stage, int], None]
"""Callback for every tick, with the stage and the number of round trips so far."""


class Desktop:
    """The desktop's side of the measurement: simulates the base, sends goals and images, records round trips."""

    def __init__(self, wire: Wire, robot: SimulatedRobot, mounts: Mounts, place: Place, count: int) -> None:
        """Open readers and writers, and start the listening threads. Raises ConfigError, DriverError."""
        self._robot = robot
        self._clock = MonotonicClock()
        self._happened: SimpleQueue[Happening] = SimpleQueue()
        self._link = TargetLink(wire, mounts, self._happened)
        self._states, self._goal, self._cancel = wire.reader("state"), wire.writer("goal_pose"), wire.writer("cancel")
        self._map_frame = wire.section.map_frame
        self._goals, self._state = GoalSequence(place), ""
        self._matcher = Matcher(list(mounts.depth))
        self._counts, self._reasons = Counter[str](), Counter[str]()
        self._command_ns, self._silence_ns = 0, 0
        self._measured = Trips()
        self.session = Session(count, self._clock.now_ns())
        self._readers = EventReaders(wire, self._happened)

    async def run(self, report: Report) -> None:
        """Simulate at the base's rate until the session is over. report: called every tick. Raises DriverError."""
        with contextlib.closing(RenderThread(self._robot, self._link)) as rendering:
            async for slot in grid(self._clock, round(NS_PER_S / TICK_HZ)):
                self._listen()
                stage = self._advance()
                if stage is Stage.OVER:
                    return
                report(stage, len(self._matcher.trips.command))
                self._ask(stage, slot.number)
                self._link.hear(self._robot)
                for _ in range(slot.missed):
                    self._robot.step(images=False)
                sensed = self._robot.step(images=False)
                self._link.publish_pose(sensed, slot.number, self._robot.glance().tick)
                rendering.start_due()
                self._count(ticks_here=1, missed_here=slot.missed)

    def close(self) -> None:
        """Stop listening. Call this before the wire is closed."""
        self._readers.close()
        self._clock.close()

    def result(self, rates: RatesSection) -> dict[str, Any]:
        """Return the measured values as a dict for JSON."""
        trips, counts, state = self._measured, self._counts, self._robot.state
        fixed_ms = 1e3 * rates.delay_ticks / rates.control_hz
        return {
            "ended": self.session.ended,
            "depth_to_command": figures(trips.command, trips.unanswered),
            "depth_to_decision": figures(trips.decision, fixed_ms=fixed_ms),
            "color_to_decision": figures(trips.color, fixed_ms=fixed_ms),
            "pose_to_sensors": figures(trips.sensors),
            "paper_4": PAPER,
            "images": {
                "sets": counts["sets"],
                "superseded": trips.superseded,
                "unanswered": trips.unanswered,
            },
            "commands": {
                "received": counts["commands"],
                "lost": trips.lost_commands,
                "longest_silence_ms": round(self._silence_ns / 1e6, 1),
                "by_reason": dict(self._reasons.most_common()),
            },
            "load": {
                **{name: counts[name] for name in ("ticks_here", "missed_here", "ticks_target", "missed_target")},
                "load_average": round(os.getloadavg()[0], 2),
                "cores": os.cpu_count(),
            },
            "base": {
                "at_rest": self._at_rest(),
                "contacts": state.contacts,
                "bumps": state.bumps,
                "path_m": round(state.path_m, 3),
                "goals": self._goals.sent,
                "reached": self._goals.reached,
            },
        }

    def _advance(self) -> Stage:
        """Update and return the stage. At the end of the measurement, keep the measured trips."""
        before, now_ns = self.session.stage, self._clock.now_ns()
        stage = self.session.advance(self._matcher, self._stands(), now_ns)
        if before is Stage.MEASURING and stage is not before:
            self._measured = self._matcher.end(now_ns)
        return stage

    def _listen(self) -> None:
        """Read all states and events since the last tick."""
        for message in self._states.take():
            self._state = message.sample.data
        with contextlib.suppress(NothingLeft):
            while True:
                self._note(self._happened.get_nowait())

    def _note(self, happened: Happening) -> None:
        if isinstance(happened, ImageSet):
            self._matcher.send(happened)
            self._count(sets=happened.cameras != (COLOR,))
        elif isinstance(happened, Command):
            if self._command_ns and self.session.stage is Stage.MEASURING:
                self._silence_ns = max(self._silence_ns, happened.received_ns - self._command_ns)
            self._command_ns = happened.received_ns
            self._matcher.receive(happened)
            self._count(commands=1)
        else:
            used, received_ns = happened
            self.session.received(received_ns)
            self._matcher.hear(used, received_ns)
            self._count(ticks_target=1, missed_target=used.missed)
            if self.session.stage is Stage.MEASURING:
                self._reasons[used.reason] += 1

    def _count(self, **more: int) -> None:
        if self.session.stage is Stage.MEASURING:
            self._counts.update(more)

    def _ask(self, stage: Stage, number: int) -> None:
        """Send the next goal if it is due. While the measurement ends, send cancel messages."""
        if stage is Stage.ENDING:
            if number % CANCEL_TICKS == 0:
                self._cancel.write(Empty())
        elif stage is not Stage.WAITING:
            goal = self._goals.next_goal(self._state, self._clock.now_ns())
            if goal is not None:
                self._goal.write(ros_goal(wall_ns(), self._map_frame, Pose(*goal, 0.0)))

    def _stands(self) -> bool:
        """Return whether the base is at rest, and either the runtime drives to no goal or the target is silent."""
        return self._at_rest() and (self.session.ended == SILENT or not drives(self._state))

    def _at_rest(self) -> bool:
        twist = self._robot.state.twist
        return abs(twist.v_mps) <= REST_MPS and abs(twist.w_radps) <= REST_RADPS


def run_target(
    wire: Wire, robot: SimulatedRobot, mounts: Mounts, place: Place, count: int, rates: RatesSection, report: Report
) -> dict[str, Any]:
    """Measure `count` round trips, or until a signal. Bring the base to rest and return the measured values.

    report: called every tick with the stage and the number of round trips so far
    Raises DriverError if another base is on the domain, and OnboardError if the target was never heard.
    """
    with Signals() as signals:
        if wire.foreign_writer("odom", CLAIM_WAIT_S):
            raise DriverError(
                f"another base is on domain {wire.domain} already: another process publishes "
                f"{ros_topic(wire.section, 'odom')}"
            )
        with contextlib.closing(Desktop(wire, robot, mounts, place, count)) as desktop:
            signals.stop_with(desktop.session.interrupt)
            asyncio.run(desktop.run(report))
            if desktop.session.ended == NEVER:
                raise OnboardError(f"{NEVER}: is it running, and do both use the same domain, interface and peers?")
            return desktop.result(rates)
