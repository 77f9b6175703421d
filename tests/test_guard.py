"""The guard over DDS: what it hears of robot and twin, and what it says to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from loopback import DOMAIN, PATIENCE_S

from hil.twin.guard import GuardLink, GuardProcess, rules_of
from hil.twin.guard_rules import Phase
from hil.twin.topics import COLLISION, PAUSE, PAUSED, RESUME, RUNNING, STATE, robot_section, twin_section
from onboard.config import Config, DdsSection, LimitsSection, ScanSection
from onboard.drivers.ros_messages import ros_odometry, ros_scan, ros_twist
from onboard.drivers.ros_types import Bool, LaserScan, String
from onboard.drivers.wire import Wire, wait_until
from onboard.messages import BINS, STOP, Pose, Scan, Twist
from onboard.motion import load_plant
from onboard.scheduler import NS_PER_S, SimulatedClock

CONFIG = Config(dds=DdsSection(domain=DOMAIN, namespace="g1", remap={"odom": "twin/odom"}), limits_scan=ScanSection())
PLANT = load_plant(CONFIG.robot.plant)
TICK_NS = round(NS_PER_S / 30)
STAMP_NS = 1_700_000_000 * NS_PER_S
AHEAD = Twist(0.6, 0.0)
WORDS = ("cmd_vel_teleop", "cancel", PAUSE, RESUME)


def test_the_rules_are_of_robot_and_plant() -> None:
    rules = rules_of(CONFIG, PLANT, free_m=2.0)
    assert (rules.radius_m, rules.braking_mps2, rules.free_m) == (0.3, 2.5, 2.0)
    gentle = CONFIG.model_copy(update={"limits": LimitsSection(acceleration_mps2=1.0, stop_margin_m=0.1)})
    assert rules_of(gentle, PLANT).braking_mps2 == 1.0
    assert rules_of(gentle, PLANT).radius_m == pytest.approx(0.35)


class Bench:
    """A robot and a twin at one end of the wire, the guard at the other."""

    def __init__(self, stack: contextlib.ExitStack, config: Config = CONFIG) -> None:
        def wire(section: DdsSection) -> Wire:
            return stack.enter_context(contextlib.closing(Wire(section)))

        robot, twin = robot_section(config.dds, "odom"), twin_section(config.dds)
        self.clock = SimulatedClock()
        link = GuardLink(wire(robot), wire(twin), config)
        self.process = GuardProcess(link, self.clock, rules_of(config, PLANT))
        theirs, virtual = wire(robot), wire(twin)
        scan = "limits_scan" if config.limits_scan is not None else "scan"
        self._scan, self._command, self._odometry = (theirs.writer(name) for name in (scan, "cmd_vel", "odom"))
        self._frame, self._state, self._collision = (virtual.writer(name) for name in ("scan", STATE, COLLISION))
        self._heard = {
            getattr(name, "name", name): (theirs if isinstance(name, str) else virtual).reader(name) for name in WORDS
        }
        writers = [self._scan, self._command, self._odometry, self._frame, self._state, self._collision]
        assert wait_until(
            lambda: all(w.readers() for w in writers) and all(r.writers() for r in self._heard.values()), PATIENCE_S
        )
        self._link = link

    def tick(self, wall_m: float = 9.0, state: str = RUNNING, frame: bool = True, contact: bool = False) -> None:
        """Let all the others speak once, wait until it is there, then let the guard look."""
        ranges = np.full(BINS, np.inf, np.float32)
        ranges[89:91] = wall_m
        free = Scan(0, ranges, np.ones(BINS, bool))
        self._scan.write(ros_scan(STAMP_NS, "base_link", free, 10.0))
        self._command.write(ros_twist(AHEAD))
        self._odometry.write(ros_odometry(STAMP_NS, "odom", "base_link", Pose(0.0, 0.0, 0.0), AHEAD))
        self._state.write(String(state))
        readers = [self._link._scans, self._link._commands, self._link._odometry, self._link._states]
        if frame:
            self._frame.write(LaserScan())
            readers.append(self._link._frames)
        if contact:
            self._collision.write(Bool(True))
            readers.append(self._link._collisions)
        assert all(reader.wait(PATIENCE_S) for reader in readers)
        self.clock.advance(TICK_NS)
        self.process.tick(self.clock.now_ns())

    def said(self, word: Any) -> list[Any]:
        reader = self._heard[getattr(word, "name", word)]
        reader.wait(PATIENCE_S)
        return [message.sample for message in reader.take()]

    def silent(self) -> bool:
        return not any(reader.take() for reader in self._heard.values())


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as held:
        yield held


def test_while_nothing_is_wrong_it_says_nothing(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack)
    for _ in range(5):
        bench.tick()
    assert bench.process.guard.phase is Phase.WATCHING
    assert bench.silent()


def test_before_a_wall_it_stops_the_robot_and_pauses_the_twin(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack)
    bench.tick()
    bench.tick(wall_m=0.8)
    assert bench.process.guard.phase is Phase.STOPPING
    teleop = bench.said("cmd_vel_teleop")[-1]
    assert (teleop.linear.x, teleop.angular.z) == (0.0, 0.0)
    assert bench.said(PAUSE)
    bench.tick(wall_m=0.8, state=f"{PAUSED}: asked to")
    result = bench.process.watch.result()
    assert result["stops"]["obstacle"] == 1
    assert [phase for _, phase, _ in result["phases"]] == ["watching", "stopping"]


def test_a_late_virtual_frame_stops_too(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack)
    bench.tick()
    for _ in range(7):
        bench.tick(frame=False)
    assert bench.process.watch.result()["stops"]["virtual frame late"] == 1
    assert bench.said(PAUSE)


def test_a_virtual_contact_cancels_the_goal(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack)
    bench.tick()
    bench.tick(contact=True)
    assert bench.said("cancel")
    assert bench.process.watch.result()["stops"]["virtual contact"] == 1


def test_without_a_scan_of_their_own_the_limits_scan_is_the_policys(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack, CONFIG.model_copy(update={"limits_scan": None}))
    bench.tick()
    bench.tick(wall_m=0.8)
    assert bench.process.guard.phase is Phase.STOPPING


def test_what_was_said_long_ago_is_not_taken_for_now(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack)
    bench.tick()
    seen = bench._link.look(bench.clock.now_ns() + NS_PER_S)
    assert seen.command == STOP
    assert seen.measured is None
