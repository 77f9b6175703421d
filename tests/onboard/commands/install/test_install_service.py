"""Real releases of this tree, installed over each other under a real systemd, while a base is driven over real DDS.

What a person types, what the base hears meanwhile, and what runs afterwards. The tests share one machine, in the order
in which they stand. Each release compiles its kernels at its first start, so this takes minutes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from onboard.config.config import DdsSection
from onboard.values.clock import wall_ns
from onboard.values.messages import STOP
from tests.onboard.commands.install.release_rig import HANGS, MODEL, SERVICE, built, cannot_build, changed
from tests.onboard.service.test_systemd_systemd import FORWARD, STANDING_MPS, UNIT_STOPPING, by_writer
from tests.rigs.machine.processes import toml
from tests.rigs.machine.service_base import SCAN_TOPIC, Base
from tests.rigs.machine.systemd_rig import PYTHON, WRITABLE, Machine, machine, missing
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(missing() or cannot_build()), reason=missing() or cannot_build() or "a systemd of its own"),
]

FIRST, WRONG_MODEL, HANGING, SECOND = "1.0.0", "1.1.0", "1.2.0", "2.0.0"
WENT_BACK, REFUSED = 1, 2
COMMAND = "import sys; sys.path.insert(0, '/opt/tree'); from onboard.__main__ import main; main()"
CLEAN = ("env", "-i", "PATH=/usr/bin:/usr/sbin", "HOME=/root", "PIP_NO_INDEX=1")
CONFIG = "etc/onboard/onboard.toml"
DROP_IN = "[Service]\nEnvironment=NUMBA_CACHE_DIR=/var/cache/numba OMP_NUM_THREADS=1\n" + WRITABLE
LIMIT_S = 900.0
MOST_MOVING_TICKS = 2
PATIENCE_S = 45
"""For a release that hangs; one that comes up compiles its kernels first and is given longer."""


@dataclass
class Robot:
    """A machine on which the service is installed, and the base that it drives."""

    machine: Machine
    base: Base

    def install(self, release: str, *words: str, ready_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
        wheel = f"/opt/wheels/onboard-{release}-py3-none-any.whl"
        return self.machine.tried(
            *CLEAN, PYTHON, "-c", COMMAND, "install", wheel, "--extras", "", "--system-packages", "--unlocked",
            "--ready-within", str(ready_s), "--settle", "2", *words,
            limit_s=LIMIT_S,
        )  # fmt: skip

    @property
    def in_force(self) -> str:
        """The release that `current` leads to, "" without one."""
        return Path(self.machine.tried("readlink", "/opt/onboard/current").stdout.strip()).name.partition("-")[0]

    @property
    def running(self) -> str:
        """The release whose process runs and is READY, "" when none is."""
        if not self.machine.is_state("active"):
            return ""
        line = self.machine.tried("ps", "-o", "args=", "-p", self.machine.show("MainPID")["MainPID"]).stdout
        return line.partition("/opt/onboard/versions/")[2].partition("-")[0] or self.in_force

    def left_on_trial(self) -> list[str]:
        return self.machine.tried("ls", "/run/systemd/system").stdout.split()


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Robot]:
    folder, wheels = tmp_path_factory.mktemp("installing"), tmp_path_factory.mktemp("wheels")
    wheel, domain = built(wheels), free_domain()
    changed(wheel, FIRST)
    changed(wheel, WRONG_MODEL, {MODEL: b"\0"})
    changed(wheel, HANGING, {SERVICE: HANGS})
    changed(wheel, SECOND)
    config = toml(
        folder / "onboard.toml",
        robot={"name": "installed"},
        cameras={"source": "none", "color": "none"},
        scan={"topic": SCAN_TOPIC},
        policy={"model": "onboard-v2"},
        dds={"domain": domain},
    ).read_text()
    files = {CONFIG: config, "etc/systemd/system/onboard.service.d/test.conf": DROP_IN}
    with machine(folder, files, "install", wheels) as there, Base(DdsSection(domain=domain)) as base:
        base.looks, base.operator = True, FORWARD
        yield Robot(there, base)


def drives(robot: Robot) -> None:
    until(lambda: robot.base.driven, LIMIT_S)


def test_the_first_release_is_ready_and_drives(robot: Robot) -> None:
    done = robot.install(FIRST)
    assert done.returncode == 0, done.stderr + str(robot.machine.journal("-u", "onboard.service"))
    assert (robot.in_force, robot.running, robot.left_on_trial()) == (FIRST, FIRST, [])
    drives(robot)


def test_a_release_whose_model_is_not_its_manifests_is_refused_while_the_old_one_drives_on(robot: Robot) -> None:
    drives(robot)
    pid = robot.machine.main_pid()
    done = robot.install(WRONG_MODEL)
    assert done.returncode == REFUSED, done.stdout
    assert robot.machine.main_pid() == pid
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "onboard-v2" in done.stderr
    assert (robot.in_force, robot.running, robot.left_on_trial()) == (FIRST, FIRST, [])
    drives(robot)


def test_a_release_that_hangs_at_its_start_is_taken_back_and_the_base_stands_meanwhile(robot: Robot) -> None:
    drives(robot)
    began = wall_ns()
    done = robot.install(HANGING, ready_s=PATIENCE_S)
    assert done.returncode == WENT_BACK, done.stdout + done.stderr
    assert f"not READY within {PATIENCE_S} s" in done.stderr
    assert "runs again" in done.stderr
    assert (robot.in_force, robot.running, robot.left_on_trial()) == (FIRST, FIRST, [])
    drives(robot)
    old, *between, again = by_writer(robot.base.since(began))
    assert any(one.twist != STOP for one in old), "it drove when it was asked to end"
    assert old[-1].twist == STOP
    assert between, "zero came from elsewhere too"
    assert {one.twist for writer in between for one in writer} == {STOP}
    assert abs(again[0].speed_mps) < STANDING_MPS, "the base stood before the old one drove again"


def test_an_upgrade_while_driving_ends_in_zero_before_the_next_release_is_heard(robot: Robot) -> None:
    drives(robot)
    began = wall_ns()
    done = robot.install(SECOND)
    assert done.returncode == 0, done.stderr
    assert (robot.in_force, robot.running, robot.left_on_trial()) == (SECOND, SECOND, [])
    drives(robot)
    old, *between, new = by_writer(robot.base.since(began))
    (stopping, *_) = robot.machine.journal("-u", "onboard.service", f"MESSAGE_ID={UNIT_STOPPING}", "--reverse")
    asked_ns = 1000 * int(stopping["_SOURCE_REALTIME_TIMESTAMP"])
    moving = [one for one in old if one.twist != STOP]
    assert moving
    assert len([one for one in moving if one.written_ns >= asked_ns]) <= MOST_MOVING_TICKS
    assert old[-1].twist == STOP
    assert between, "zero came from elsewhere too"
    assert {one.twist for writer in between for one in writer} == {STOP}
    assert abs(new[0].speed_mps) < STANDING_MPS, "the base stood when the new one was first heard"
