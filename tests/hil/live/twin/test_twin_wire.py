"""The twin over DDS: a robot that drives for a few seconds, and what comes of every word that is said."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from hil.live.twin.process import TwinLink, TwinOptions, TwinProcess
from hil.live.twin.scene import Life
from hil.live.twin.sensors import Views
from hil.live.twin.topics import (
    COLLISION,
    PAUSE,
    PAUSED,
    POSE,
    RESET,
    RESUME,
    RUNNING,
    STATE,
    robot_section,
    twin_section,
)
from hil.scene.walkers import Crowd
from onboard.config.config import Config, DdsSection
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.camera_input import depth_from_ros
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.ros_convert import odometry_from_ros, pose_from_ros, rays_from_ros, ros_odometry
from onboard.drivers.dds.ros_types import Empty
from onboard.drivers.dds.sole_writer import HEARD_NS
from onboard.drivers.dds.topics import ros_topic
from onboard.navigation.odometry import integrate
from onboard.perception.laser_scan import scan_of_rays
from onboard.values.clock import NS_PER_S, SimulatedClock
from onboard.values.errors import InputError
from onboard.values.geometry import distance
from onboard.values.messages import STOP, Pose, Twist
from tests.hil.live.twin.twin_places import START, boxed, life, standing
from tests.rigs.network.loopback import DOMAIN, PATIENCE_S

CONFIG = Config(dds=DdsSection(domain=DOMAIN, namespace="r2", remap={"odom": "r2/twin/odom"}))
MOUNTS = load_mounts(CONFIG.robot.mounts)
TICK_NS = round(NS_PER_S / 30)
STAMP_NS = 1_700_000_000 * NS_PER_S
AHEAD = Twist(0.6, 0.0)


class Place:
    """Stands in for `Site`: the same room again and again, the second life elsewhere; of some there are none."""

    label = "room"

    def __init__(self, start: Pose = START, crowd: Crowd | None = None, full: frozenset[int] = frozenset()) -> None:
        self._start, self._crowd, self.full = start, crowd, full

    def life(self, number: int) -> Life:
        if number in self.full:
            raise InputError("map room: no room for a start")
        start = self._start if number == 0 else Pose(8.0, 1.0, 1.5)
        return life(number, start, self._crowd, boxed())


class Bench:
    """A robot at one end of the wire, the twin at the other, and everybody who listens."""

    def __init__(self, stack: contextlib.ExitStack, place: Place) -> None:
        def wire(section: DdsSection) -> Wire:
            return stack.enter_context(contextlib.closing(Wire(section)))

        robot, twin = robot_section(CONFIG.dds, "odom"), twin_section(CONFIG.dds)
        link = TwinLink(wire(robot), wire(twin), MOUNTS)
        views = Views(MOUNTS, CONFIG.scan)
        self.clock = SimulatedClock()
        self.process = TwinProcess(place, views, link, self.clock, CONFIG, TwinOptions(localization_scale=0.0))  # type: ignore[arg-type]
        self.theirs, surroundings = wire(robot), wire(twin)
        names = ["odom", "amcl_pose", "scan", "front/depth/image", "color/image", POSE, COLLISION, STATE]
        self.heard: dict[str, list[Any]] = {}
        self._readers = {getattr(name, "name", name): surroundings.reader(name) for name in names}
        self._readers["speed_limit"] = self.theirs.reader("speed_limit")
        self._odom = self.theirs.writer("odom")
        self._words = {word: surroundings.writer(word) for word in (RESET, PAUSE, RESUME)}
        self.robot, self.tick = Pose(-1.0, 4.0, 2.0), 0
        writers = [self._odom, *self._words.values()]
        assert wait_until(
            lambda: all(w.readers() for w in writers) and all(r.writers() for r in self._readers.values()), PATIENCE_S
        )

    def say(self, pose: Pose | None = None, twist: Twist = STOP, ticks: int = 1) -> None:
        """Let the robot drive so many ticks, or be somewhere, and the twin live as long."""
        for _ in range(ticks):
            self.robot = pose if pose is not None else integrate(self.robot, twist, TICK_NS / NS_PER_S)
            stamp_ns = STAMP_NS + self.tick * TICK_NS
            self._odom.write(ros_odometry(stamp_ns, "odom", "base_link", self.robot, twist))
            self.tick += 1
            self.live()

    def live(self, ticks: int = 1) -> None:
        for _ in range(ticks):
            self.clock.advance(TICK_NS)
            self.process.turn(self.process._link.take(self.clock, 1.0 if ticks == 1 else 0.0))
        for name, reader in self._readers.items():
            self.heard.setdefault(name, []).extend(message.sample for message in reader.take())

    def ask(self, word, twist: Twist = STOP) -> None:
        """Say a word to the twin, and let it live until it has heard it."""
        reader = self.process._link._words[word.name]
        self._words[word].write(Empty())
        assert reader.wait(PATIENCE_S)
        self.say(twist=twist)

    def newest(self, name: str) -> Any:
        assert wait_until(lambda: self._drain(name), PATIENCE_S)
        return self.heard[name][-1]

    def _drain(self, name: str) -> bool:
        self.heard.setdefault(name, []).extend(message.sample for message in self._readers[name].take())
        return bool(self.heard[name])

    def settle(self) -> None:
        """Take what is on its way."""
        for name in self._readers:
            self._readers[name].wait(0.05)
            self._drain(name)


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as held:
        yield held


def test_names_on_the_wire() -> None:
    section = twin_section(CONFIG.dds)
    assert ros_topic(section, "front/depth/image") == "/r2/twin/front/depth/image"
    assert ros_topic(section, COLLISION) == "/r2/twin/collision"
    assert ros_topic(robot_section(CONFIG.dds, "odom"), "odom") == "/r2/odom"
    renamed = DdsSection(remap={"odom": "twin/odom", "cmd_vel": "/base/cmd", "color/image": "/twin/color/image"})
    assert robot_section(renamed, "wheel/odom").remap == {"cmd_vel": "/base/cmd", "odom": "wheel/odom"}


def test_a_few_seconds_of_driving(stack: contextlib.ExitStack) -> None:
    """The robot drives on in its own room: the twin drives the same way in its own, senses, and tells."""
    bench = Bench(stack, Place())
    bench.say(bench.robot)
    assert bench.newest(STATE.name).data == RUNNING
    bench.say(twist=AHEAD, ticks=90)
    bench.settle()
    end = pose_from_ros(bench.newest(POSE.name).pose)
    assert distance(end, Pose(START.x_m + 1.8, START.y_m, 0.0)) < 1e-6
    wheels = odometry_from_ros(bench.newest("odom"), 0)
    assert wheels.pose is not None
    assert distance(wheels.pose, Pose(1.8, 0.0, 0.0)) < 1e-6
    assert wheels.twist == AHEAD
    assert wheels.stamp_ns == STAMP_NS + 90 * TICK_NS, "of the robot's message that it follows from"
    scan = scan_of_rays(rays_from_ros(bench.newest("scan")), 0)
    assert scan.ranges_m[0] == pytest.approx(2.8, abs=0.06), "the wall behind"
    assert scan.seen.all()
    depth = depth_from_ros(bench.newest("front/depth/image"), MOUNTS.depth["front"])
    assert depth.max() > 1000
    assert (bench.newest("color/image").width, bench.newest("color/image").height) == (256, 144)
    fixes = [pose_from_ros(fix.pose.pose) for fix in bench.heard["amcl_pose"]]
    assert 2 <= len(fixes) <= 4
    assert {message.data for message in bench.heard[COLLISION.name]} == {False}
    assert len(bench.heard[COLLISION.name]) == pytest.approx(91, abs=5)


def test_a_second_base_on_the_odometry_pauses_the_twin_and_is_named(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack, Place())
    bench.say(bench.robot)
    other = stack.enter_context(contextlib.closing(Wire(robot_section(CONFIG.dds, "odom")))).writer("odom")
    assert wait_until(lambda: bool(other.readers()), PATIENCE_S)

    def is_paused() -> bool:
        other.write(ros_odometry(STAMP_NS, "odom", "base_link", Pose(9.0, 9.0, 0.0), STOP))
        bench.say(twist=AHEAD)
        return bool(bench.process.twin.why)

    assert wait_until(is_paused, PATIENCE_S)
    assert bench.process.twin.why.startswith("second publisher on /r2/odom: ")
    bench.settle()
    assert bench.newest(STATE.name).data.startswith(f"{PAUSED}: second publisher on /r2/odom: ")
    before = bench.process.twin.pose
    bench.clock.advance(HEARD_NS)
    bench.say(twist=AHEAD, ticks=3)
    bench.ask(RESUME, AHEAD)
    bench.say(twist=AHEAD, ticks=3)
    assert bench.process.twin.why == ""
    assert distance(bench.process.twin.pose, before) < 0.3, "it follows from where it stood"


def test_a_contact_is_told_and_begins_another_life(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack, Place(Pose(4.6, 1.0, 0.0)))
    bench.say(bench.robot)
    bench.say(twist=AHEAD, ticks=30)
    bench.settle()
    words = [message.data for message in bench.heard[COLLISION.name]]
    assert words.count(True) == 1
    assert not words[-1]
    result = bench.process.result()
    assert (result["contacts"], result["lives"]) == (1, 2)
    after = pose_from_ros(bench.newest(POSE.name).pose)
    assert distance(after, Pose(8.0, 1.0, 0.0)) < 0.6
    json.dumps(result)


def test_the_speed_limit_comes_and_goes_with_people(stack: contextlib.ExitStack) -> None:
    bench = Bench(stack, Place(crowd=standing((2.6, 3.4))))
    bench.say(bench.robot)
    bench.settle()
    assert bench.newest("speed_limit").speed_limit == 0.5
    bench.say(twist=Twist(0.0, -2.0), ticks=60)
    bench.settle()
    limits_mps = [message.speed_limit for message in bench.heard["speed_limit"]]
    assert limits_mps.count(0.0) == 1, "said again it would end the limit of somebody else"
    assert limits_mps[-1] == 0.0
