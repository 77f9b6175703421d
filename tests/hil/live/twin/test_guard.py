"""The guard over DDS: what it hears of robot and twin, and what it says to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from hil.live.twin.guard.danger import Cause, GuardInputs
from hil.live.twin.guard.process import TWIN_SILENT_NS, GuardLink, GuardProcess, rules_of
from hil.live.twin.guard.rules import Phase
from hil.live.twin.topics import COLLISION, PAUSE, PAUSED, RESET, RESUME, RUNNING, STATE, robot_section, twin_section
from onboard.config.config import Config, DdsSection, LimitsSection, ScanSection
from onboard.config.plant_model import load_plant
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.ros_convert import header, ros_odometry, ros_scan, ros_twist
from onboard.drivers.dds.ros_types import Bool, Empty, LaserScan, String
from onboard.drivers.dds.sole_writer import HEARD_NS
from onboard.values.clock import NS_PER_S, SimulatedClock
from onboard.values.messages import BINS, STOP, Pose, Scan, Twist
from tests.rigs.network.loopback import DOMAIN, PATIENCE_S

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
        self._reset, self._mission = virtual.writer(RESET), theirs.writer("state")
        self.ticks = 0
        writers = [self._scan, self._command, self._odometry, self._frame, self._state, self._collision]
        writers += [self._reset, self._mission]
        assert wait_until(
            lambda: all(w.readers() for w in writers) and all(r.writers() for r in self._heard.values()), PATIENCE_S
        )
        self._link = link

    def tick(
        self,
        wall_m: float = 9.0,
        state: str | None = RUNNING,
        frame: bool = True,
        contact: bool = False,
        frame_lag_ns: int = 0,
        scan_frame: str = "base_link",
        scan_lag_ns: int = 0,
    ) -> None:
        """Let all the others speak once, wait until it is there, then let the guard look."""
        self.ticks += 1
        stamp_ns = STAMP_NS + self.ticks * TICK_NS
        ranges = np.full(BINS, np.inf, np.float32)
        ranges[89:91] = wall_m
        free = Scan(0, ranges, np.ones(BINS, bool))
        self._scan.write(ros_scan(stamp_ns - scan_lag_ns, scan_frame, free, 10.0))
        self._command.write(ros_twist(AHEAD))
        self._odometry.write(ros_odometry(stamp_ns, "odom", "base_link", Pose(0.0, 0.0, 0.0), AHEAD))
        readers = [self._link._scans.reader, self._link._commands, self._link._odometry]
        if state is not None:
            self._state.write(String(state))
            readers.append(self._link._states)
        if frame:
            self._frame.write(LaserScan(header(stamp_ns - frame_lag_ns, "base_link")))
            readers.append(self._link._frames)
        if contact:
            self._collision.write(Bool(True))
            readers.append(self._link._collisions)
        assert all(reader.wait(PATIENCE_S) for reader in readers)
        self.clock.advance(TICK_NS)
        self.process.tick(self.clock.now_ns())

    def read(self, **said: Any) -> GuardInputs:
        """Let one of the others say something, and return what the guard sees of it."""
        readers = {"reset": self._link._resets, "mission": self._link._missions}
        for name, sample in said.items():
            getattr(self, f"_{name}").write(sample)
            assert readers[name].wait(PATIENCE_S)
        return self._link.read(self.clock.now_ns())

    def said(self, word: Any) -> list[Any]:
        reader = self._heard[getattr(word, "name", word)]
        reader.wait(PATIENCE_S)
        return [message.sample for message in reader.take()]

    def take(self, word: str) -> list[Any]:
        return [message.sample for message in self._heard[word].take()]

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


def test_g1_a_pause_of_somebody_else_is_told_once_and_the_twin_left_alone(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack)
    bench.tick()
    for _ in range(3):
        bench.tick(state=f"{PAUSED}: odometry: x is nan")
    teleop = bench.said("cmd_vel_teleop")[-1]
    assert (teleop.linear.x, teleop.angular.z) == (0.0, 0.0)
    assert not bench.take(PAUSE.name)
    result = bench.process.watch.result()
    assert [phase for _, phase, _ in result["phases"]] == ["watching", "stopping"]
    assert result["stops"]["twin paused by another process or by itself"] == 1


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
    seen = bench._link.read(bench.clock.now_ns() + NS_PER_S)
    assert seen.command == STOP
    assert seen.measured is None
    assert seen.twin_running is True
    assert bench._link.read(bench.clock.now_ns() + TWIN_SILENT_NS + 1).twin_running is None


def test_g4_a_frame_of_an_old_pose_is_late_however_soon_it_comes(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack)
    bench.tick(frame_lag_ns=NS_PER_S // 10)
    assert bench.process.guard.phase is Phase.WATCHING
    bench.tick(frame_lag_ns=NS_PER_S // 4)
    assert bench.process.watch.result()["stops"]["virtual frame late"] == 1


#   what                    how a scan differs                  why it is refused
NO_SCANS = [
    ("frozen", {"scan_lag_ns": TICK_NS}, "stamp"),
    ("older", {"scan_lag_ns": NS_PER_S}, "stamp"),
]


@pytest.mark.parametrize(("what", "change", "named"), NO_SCANS, ids=[row[0] for row in NO_SCANS])
def test_g3_a_scan_that_cannot_be_believed_is_none(
    stack: contextlib.ExitStack, what: str, change: dict[str, Any], named: str
) -> None:
    bench = Bench(stack)
    bench.tick()
    seen_ns = bench.read().scan.stamp_ns  # type: ignore[union-attr]
    bench.tick(wall_m=0.8, **change)
    scan = bench.read().scan
    assert scan is not None
    assert (scan.stamp_ns, bench._link._scans.refused) == (seen_ns, 1)
    assert named in bench._link._scans._reason
    bench.tick()
    assert bench.read().scan.stamp_ns > seen_ns  # type: ignore[union-attr]


def test_g3_a_scan_in_another_frame_is_none(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack)
    bench.tick(scan_frame="front")
    assert bench.read().scan is None
    assert "front" in bench._link._scans._reason


@pytest.mark.parametrize("topic", ["odom", "limits_scan"])
def test_g3_a_second_publisher_stops_the_robot_until_it_has_gone(stack: contextlib.ExitStack, topic: str) -> None:
    bench = Bench(stack)
    reader = bench._link._odometry if topic == "odom" else bench._link._scans.reader
    other = stack.enter_context(contextlib.closing(Wire(robot_section(CONFIG.dds, "odom")))).writer(topic)
    odometry = ros_odometry(STAMP_NS, "odom", "base_link", Pose(9.0, 9.0, 0.0), STOP)
    free = Scan(0, np.full(BINS, np.inf, np.float32), np.ones(BINS, bool))
    bench.tick()
    assert wait_until(lambda: bool(other.readers()), PATIENCE_S)

    def rival_comes() -> bool:
        other.write(odometry if topic == "odom" else ros_scan(STAMP_NS, "base_link", free, 10.0))
        bench.tick()
        return bool(reader.rivals)

    with capture_logs() as logs:
        assert wait_until(rival_comes, PATIENCE_S)
    assert (bench.process.guard.phase, bench.process.guard.cause) == (Phase.STOPPING, Cause.RIVALS)
    (reason,) = (line["reason"] for line in logs if line["event"] == "second_publisher")
    assert reason.startswith(f"second publisher on {reader.topic}: ")
    assert bench.said("cmd_vel_teleop")[-1] == ros_twist(STOP)
    bench.clock.advance(HEARD_NS)
    bench.tick()
    assert not bench._link.read(bench.clock.now_ns()).rivals


def test_g7_it_hears_resets_and_whether_the_runtime_drives(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack)
    seen = bench.read()
    assert (seen.elsewhere, seen.driving) == (False, None)
    assert bench.read(reset=Empty()).elsewhere
    assert not bench.read().elsewhere
    assert bench.read(mission=String("navigating (goal refused: far)")).driving is True
    assert bench.read(mission=String("stopped: e_stop")).driving is False


def test_g8_a_dead_twin_is_not_driven_for(stack: contextlib.ExitStack) -> None:
    """It goes without a word: the robot is stopped, and never again told to move."""
    bench = Bench(stack)
    for _ in range(3):
        bench.tick()
    for _ in range(60):
        bench.tick(state=None, frame=False)
        assert all((said.linear.x, said.angular.z) == (0.0, 0.0) for said in bench.take("cmd_vel_teleop"))
    assert bench.process.guard.phase is Phase.STOPPING
    assert bench.process.watch.result()["stops"]["virtual frame late"] == 1
