"""`onboard-hil sim`, the simulated robot as a process: what it says, what it obeys, and that it is alone."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hil.drive.robot import TICK_HZ, Glance
from hil.live.simulator import Link
from hil.physics.contact import NO_BODIES
from onboard.config.config import DEFAULT_ROBOT, DdsSection
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ros_twist
from onboard.values.geometry import IDENTITY
from onboard.values.messages import Twist
from tests.rigs.machine.processes import Command, done, next_message, running
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
TIMEOUT_TICKS = 15
"""The base's own time-out, 0.5 s at 30 Hz."""
BRAKING_TICKS = 24
"""0.8 s, in which it brakes from less than 1 m/s (paper 1, section 4, with plant.toml's numbers)."""
IN_FLIGHT = 3
LONGEST_TO_A_FIX_TICKS = 75
"""2.5 s; localisation comes every 1 to 2 s."""
SILENCE_S = 1.0


@pytest.fixture(scope="module")
def domain() -> int:
    return free_domain()


@pytest.fixture(scope="module")
def sim(domain: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    folder = tmp_path_factory.mktemp("sim")
    with running("hil", "sim", "--episode", "6", "--drift", "0", folder=folder, domain=domain) as command:
        command.wait_for("simulated robot on map gdc1")
        yield command


@pytest.fixture
def wire(sim: Command, domain: int) -> Iterator[Wire]:
    with contextlib.closing(Wire(DdsSection(domain=domain))) as ours:
        yield ours


def test_it_says_what_a_robot_with_these_mounts_would(wire: Wire) -> None:
    for name, mount in MOUNTS.depth.items():
        image = next_message(wire.reader(f"{name}/depth/image")).sample
        assert (image.width, image.height, image.encoding) == (mount.width, mount.height, "16UC1")
    image = next_message(wire.reader("color/image")).sample
    assert (image.width, image.height, image.encoding) == (256, 144, "rgb8")
    assert next_message(wire.reader("amcl_pose")).sample.header.frame_id == "map"
    assert next_message(wire.reader("obstacle")).sample.data is False
    odometry = next_message(wire.reader("odom")).sample
    assert (odometry.header.frame_id, odometry.child_frame_id) == ("odom", "base_link")


def test_the_base_stops_by_itself_when_commands_end(wire: Wire) -> None:
    commands, odometry = wire.writer("cmd_vel"), wire.reader("odom")
    assert commands.wait_for_reader(SILENCE_S * 10)
    while next_message(odometry).sample.twist.twist.linear.x < 0.3:
        commands.write(ros_twist(Twist(0.4, 0.0)))
    odometry.take()
    ticks = 0
    while next_message(odometry).sample.twist.twist.linear.x > 0.0:
        ticks += 1
    assert TIMEOUT_TICKS - IN_FLIGHT <= ticks <= TIMEOUT_TICKS + BRAKING_TICKS + IN_FLIGHT


def test_a_second_one_is_refused_on_its_domain_alone(sim: Command, domain: int, tmp_path: Path) -> None:
    second = done("hil", "sim", folder=tmp_path, domain=domain)
    assert (second.process.returncode, second.out) == (2, "")
    assert second.err == f"error: another base is on domain {domain} already: another process publishes /odom\n"


def test_without_localisation_and_told_to_stop_it_tells_the_truth(tmp_path: Path) -> None:
    domain = free_domain()
    start = ["--start", "-12.3,-2.2,0.5", "--no-localization", "--json", "-"]
    with (
        contextlib.closing(Wire(DdsSection(domain=domain))) as ours,
        running("hil", "sim", "--episode", "6", *start, folder=tmp_path, domain=domain) as command,
    ):
        fixes, odometry = ours.reader("amcl_pose"), ours.reader("odom")
        for _ in range(LONGEST_TO_A_FIX_TICKS):
            next_message(odometry)
        assert fixes.take() == []
        assert command.end() == 0
    truth = json.loads(command.out)
    assert truth["pose"] == [-12.3, -2.2, 0.5]
    assert (truth["contacts"], truth["path_m"], truth["twist"]) == (0, 0.0, [0.0, 0.0])
    assert truth["time_s"] > LONGEST_TO_A_FIX_TICKS / 30 - 0.5
    assert "Traceback" not in command.err


class Cameras:
    """What a robot's cameras show: nothing."""

    def depth(self, glance: Glance) -> dict[str, np.ndarray]:
        return {name: np.zeros((mount.height, mount.width), np.uint16) for name, mount in MOUNTS.depth.items()}

    def color(self, glance: Glance) -> np.ndarray:
        return np.zeros((144, 256, 3), np.uint8)


def test_an_unplugged_camera_falls_silent_at_its_time_and_the_others_go_on() -> None:
    section = DdsSection(domain=free_domain())
    with contextlib.closing(Wire(section)) as theirs, contextlib.closing(Wire(section)) as ours:
        readers = {name: ours.reader(f"{name}/depth/image") for name in MOUNTS.depth}
        readers["color"] = ours.reader("color/image")
        link = Link(theirs, MOUNTS, unplugged={"front": 10.0, "color": 0.0})

        def shown(tick: int) -> set[str]:
            link.show(Cameras(), Glance(IDENTITY, NO_BODIES, tick), depth=True, color=True)  # type: ignore[arg-type]
            next_message(readers["rear"])  # the last depth camera; the colour image follows it
            return {
                name for name, reader in readers.items() if name != "rear" and reader.wait(SILENCE_S) and reader.take()
            }

        until(lambda: "front" in shown(0))
        assert shown(10 * TICK_HZ - 1) == {"front_left", "front", "front_right"}
        assert shown(10 * TICK_HZ) == {"front_left", "front_right"}


#   --unplug          words of the refusal
UNPLUGGED = [
    ("frnt@10",       "--unplug frnt@10: there is no camera frnt; the cameras are front_left, front"),
    ("front",         "--unplug front: expected CAMERA@SECONDS, such as front@10"),
    ("front@-1",      "--unplug front@-1: expected CAMERA@SECONDS, such as front@10"),
    ("front@nan",     "--unplug front@nan: expected CAMERA@SECONDS, such as front@10"),
]  # fmt: skip


@pytest.mark.parametrize(("option", "words"), UNPLUGGED)
def test_a_camera_that_cannot_be_unplugged_is_one_line(option: str, words: str, tmp_path: Path) -> None:
    command = done("hil", "sim", "--unplug", option, folder=tmp_path)
    assert command.process.returncode == 2
    assert command.err.startswith(f"error: {words}")
