"""The doctor beside a service: it reads what the unit gives the runtime, and opens nothing the service may have."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from onboard.commands.doctor import command as examining
from onboard.commands.doctor import service
from onboard.commands.doctor.command import NOT_OPENED, examine
from onboard.commands.doctor.finding import Finding, Level
from onboard.config.config import Config, DdsSection, OdometrySection
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.robot_link import Claim
from onboard.service.readiness import base_to_come
from onboard.values.errors import ConfigError
from tests.rigs.machine.processes import toml
from tests.rigs.network.loopback import free_domain

GREEN, AMBER, RED = Level.GREEN, Level.AMBER, Level.RED
QUIET = {"record": {"enabled": False}, "policy": {"model": "reactive"}}
NO_CAMERAS = {"source": "none", "color": "none"}
NO_WIRE = {"interface": "none0"}
Unit = Callable[..., None]


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unit:
    """A program in the place of systemctl, which says of the unit what a test wants."""
    program = tmp_path / "systemctl"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def says(**state: str) -> None:
        lines = [f"echo '{name}={value}'" for name, value in {"LoadState": "loaded", **state}.items()]
        program.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        program.chmod(0o755)

    return says


@pytest.fixture
def robot_end() -> Iterator[str]:
    """A serial port with nobody at its other end; the test fails when something was sent there."""
    base_end, robot_end = os.openpty()
    os.set_blocking(base_end, False)
    yield os.ttyname(robot_end)
    with pytest.raises(BlockingIOError):
        os.read(base_end, 1)
    os.close(base_end)
    os.close(robot_end)


def rows(given: Path | None) -> dict[str, Finding]:
    return {finding.part: finding for finding in examine(given, 0.5).findings}


#   name             as systemctl shows it                                 what the process is given
ENVIRONMENTS = [
    ("nothing", "", {}),
    ("some", "HOME=/var/lib/onboard ROS_DOMAIN_ID=7", {"HOME": "/var/lib/onboard", "ROS_DOMAIN_ID": "7"}),
    ("with a space", '"WORDS=two of them" ROS_DOMAIN_ID=7', {"WORDS": "two of them", "ROS_DOMAIN_ID": "7"}),
    ("no words", 'ROS_DOMAIN_ID="7', {}),
]


@pytest.mark.parametrize(("shown", "given"), [row[1:] for row in ENVIRONMENTS], ids=[row[0] for row in ENVIRONMENTS])
def test_the_environment_of_the_unit(shown: str, given: dict[str, str]) -> None:
    assert service.environment({"Environment": shown}) == given
    assert service.environment({}) == {}


#   name                   domain in the file   in the unit           in effect
DOMAINS = [
    ("the unit's", None, "ROS_DOMAIN_ID=7", 7),
    ("the file's", 9, "ROS_DOMAIN_ID=7", 9),
    ("that of a unit that states none", None, "HOME=/x", 0),
]


@pytest.mark.parametrize(("file", "shown", "domain"), [row[1:] for row in DOMAINS], ids=[row[0] for row in DOMAINS])
def test_the_domain_of_the_service_is_not_that_of_who_asks(
    file: int | None, shown: str, domain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "5")
    config = Config(dds=DdsSection(domain=file))
    assert service.as_served(config, {"Environment": shown}).dds.domain == domain
    with pytest.raises(ConfigError, match="ROS_DOMAIN_ID"):
        service.as_served(Config(), {"Environment": "ROS_DOMAIN_ID=none"})


#   state of the unit                                           has devices
UP = [
    ({"LoadState": "loaded", "ActiveState": "active"}, True),
    ({"LoadState": "loaded", "ActiveState": "activating"}, True),
    ({"LoadState": "loaded", "ActiveState": "deactivating"}, True),
    ({"LoadState": "loaded", "ActiveState": "inactive"}, False),
    ({"LoadState": "loaded", "ActiveState": "failed"}, False),
    ({"LoadState": "not-found", "ActiveState": "inactive"}, False),
    ({}, False),
]


@pytest.mark.parametrize(("state", "up"), UP)
def test_when_the_service_may_have_devices(state: dict[str, str], up: bool) -> None:
    assert service.is_up(state) == up


def test_a_runtime_on_the_units_domain_is_found_from_a_shell_without_it(
    unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit that systemd says is down: only the claim on its domain tells that somebody has the robot."""
    domain = free_domain()
    given = toml(tmp_path / "onboard.toml", cameras=NO_CAMERAS, **QUIET)
    monkeypatch.delenv("ROS_DOMAIN_ID", raising=False)
    monkeypatch.setattr(examining, "INSTALLED", given)
    unit(ActiveState="inactive", Environment=f"ROS_DOMAIN_ID={domain}")
    with closing(Wire(DdsSection(domain=domain))) as wire, closing(Claim(wire, "robot")):
        assert "of this robot is running but does not answer" in rows(None)["runtime"].found
        elsewhere = {"domain": free_domain()}
        assert "runtime" not in rows(toml(tmp_path / "other.toml", cameras=NO_CAMERAS, dds=elsewhere, **QUIET))


def test_a_domain_of_the_unit_that_is_none_ends_no_report(
    unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = toml(tmp_path / "onboard.toml", cameras=NO_CAMERAS, **QUIET)
    monkeypatch.setattr(examining, "INSTALLED", given)
    unit(ActiveState="inactive", Environment="ROS_DOMAIN_ID=none")
    found = rows(None)
    assert (found["dds"].level, "ROS_DOMAIN_ID: 'none'" in found["dds"].found) == (RED, True)
    assert {"policy", "disk", "versions"} <= set(found)


def with_devices(folder: Path, name: str, port: str) -> Path:
    """Write the configuration of a robot with a camera and a base on cables, and no wire."""
    mounts = (examining.DEFAULT_ROBOT / "mounts.toml").read_text()
    (folder / "mounts.toml").write_text(mounts.replace('serial = ""', 'serial = "123"', 1))
    return toml(
        folder / name,
        robot={"mounts": "mounts.toml"},
        cameras={"source": "none", "sources": {"front_left": "realsense"}, "color": "none"},
        odometry={"input": "serial", "serial_port": port},
        dds=NO_WIRE,
        **QUIET,
    )


@pytest.mark.parametrize("own", [True, False])
def test_devices_that_the_service_may_have_are_not_opened(
    unit: Unit, robot_end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    """Nothing is heard of it: it begins, hangs, or is on a wire that cannot be joined."""
    given = with_devices(tmp_path, "robot.toml", robot_end)
    monkeypatch.setattr(examining, "INSTALLED", given if own else tmp_path / "onboard.toml")
    unit(ActiveState="activating", SubState="auto-restart")
    found = rows(given)
    assert "runtime" not in found
    for part in ("cameras", "base"):
        assert (found[part].level, found[part].found) == (AMBER, NOT_OPENED)
        assert "systemctl stop onboard" in found[part].remedy


def test_a_service_that_waits_for_its_base_is_told_and_nothing_is_opened(
    unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = base_to_come(OdometrySection(input="serial", serial_port=str(tmp_path / "base")))
    waits = f"waiting: {'; '.join(missing)}"
    given = with_devices(tmp_path, "robot.toml", str(tmp_path / "base"))
    monkeypatch.setattr(examining, "INSTALLED", given)
    unit(ActiveState="activating", SubState="start", NRestarts="0", StatusText=waits)
    found = rows(given)
    assert (found["base"].level, found["base"].found) == (RED, f"{tmp_path}/base does not exist")
    assert (found["service"].level, found["service"].found) == (AMBER, f"activating (start), 0 restarts, {waits}")
    assert (found["cameras"].level, found["cameras"].found) == (AMBER, NOT_OPENED)


#   state                                                                        level   words
STATES = [
    ({"ActiveState": "activating", "StatusText": "waiting: x is not there"}, AMBER, "waiting: x is not there"),
    ({"ActiveState": "activating", "StatusText": "waiting: x", "NRestarts": "2"}, AMBER, "2 restarts, waiting: x"),
    ({"ActiveState": "activating", "StatusText": "preparing onboard-v2"}, GREEN, "0 restarts"),
    ({"ActiveState": "activating", "SubState": "auto-restart", "StatusText": "stopped: x"}, AMBER, "0 restarts"),
    ({"ActiveState": "active", "StatusText": "waiting: a goal"}, GREEN, "0 restarts"),
]


@pytest.mark.parametrize(("state", "level", "words"), STATES)
def test_what_is_said_of_the_service(state: dict[str, str], level: Level, words: str) -> None:
    found = service.service({"LoadState": "loaded", **state})
    assert (found.level, words in found.found) == (level, True)


#   state of the unit     the policy is tried
TRIED = [("activating", True), ("deactivating", True), ("failed", True), ("active", False), ("reloading", False)]


@pytest.mark.parametrize(("active", "tried"), TRIED)
def test_a_policy_is_tried_unless_the_service_is_ready(unit: Unit, tmp_path: Path, active: str, tried: bool) -> None:
    """What it is that ends every start may be the policy itself."""
    unit(ActiveState=active)
    tables = {**QUIET, "policy": {"model": "onboard-v2"}}
    found = rows(toml(tmp_path / "other.toml", cameras=NO_CAMERAS, dds=NO_WIRE, **tables))
    assert ("decision_ms" in found["policy"].values, "in use" in found["policy"].found) == (tried, not tried)
