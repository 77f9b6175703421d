"""`onboard install` where the base is not plugged in: what it refuses to start, and what it only says.

The real `check-config` of this tree, read by the real steps, with a systemd that only says what it was asked for.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from onboard.commands.install.layout import UNITS_IN_VERSION, Layout, Version, pointed_at, write_marker
from onboard.commands.install.plan import InstalledState, InstallRequest, plan
from onboard.commands.install.steps import Installer, Timeouts
from onboard.commands.install.wheel import Choice
from onboard.values.errors import InputError
from tests.onboard.commands.install.test_install_back import NEW, OLD, RUNS, FakeSystemd
from tests.rigs.machine.install_rig import ROOT
from tests.rigs.machine.processes import toml
from tests.rigs.network.loopback import free_domain

CHOICE = Choice("", None, False, Path("/usr/bin/python3"))
WANT_NEW = InstallRequest("0.2.0", NEW, compiles=False)
PORT = "no-base"
OFF = replace(RUNS, active="inactive")


@pytest.fixture
def reported(tmp_path: Path) -> FakeSystemd:
    """Two versions whose command is this tree's, and a robot whose base is on a cable; the old one is in force."""
    layout = Layout(tmp_path)
    for name in (OLD, NEW):
        folder = layout.folder(name)
        for part in (UNITS_IN_VERSION, "bin"):
            (folder / part).mkdir(parents=True)
        command = folder / "bin" / "onboard"
        command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m onboard "$@"\n')
        command.chmod(0o755)
        (folder / UNITS_IN_VERSION / "onboard.service").write_text("[Service]\n")
        write_marker(folder, Version(name, name.partition("-")[0], "x.whl"))
    layout.current.symlink_to(f"versions/{OLD}")
    layout.configuration.mkdir(parents=True)
    toml(
        layout.configuration_file,
        odometry={"input": "serial", "serial_port": str(tmp_path / PORT)},
        cameras={"source": "none", "color": "none"},
        record={"enabled": False},
        dds={"domain": free_domain()},
    )
    return FakeSystemd(layout)


def there(reported: FakeSystemd) -> InstalledState:
    """Return that the old one is in force and runs."""
    found = InstalledState(
        reported.layout.complete(), OLD, None, left=(), placed=True, configured=True, runs=True, enabled=True
    )
    return replace(found, running=OLD)


def done(reported: FakeSystemd, order: InstallRequest, found: InstalledState) -> list[str]:
    """Do all steps; return what was shown."""
    shown: list[str] = []
    Installer(reported.layout, reported, order, found, None, CHOICE, Timeouts(1.0, 0.0), shown.append).do(
        plan(order, found)
    )
    return shown


def test_an_upgrade_is_refused_at_once_and_nothing_is_changed(reported: FakeSystemd) -> None:
    with pytest.raises(InputError, match=rf"odometry\.serial_port: .*{PORT} does not exist; .* or use --no-start$"):
        done(reported, WANT_NEW, there(reported))
    assert (reported.asked, pointed_at(reported.layout.current)) == ([], OLD)


def test_without_a_start_it_is_said_and_the_version_is_in_force(reported: FakeSystemd) -> None:
    shown = done(reported, replace(WANT_NEW, start=False), there(reported))
    assert [line for line in shown if line.startswith("warning: odometry.serial_port: ")]
    assert pointed_at(reported.layout.current) == NEW
    assert not [one for one in reported.asked if one.startswith("start")]


def test_a_file_of_ours_that_is_missing_is_put_back_while_the_service_runs(reported: FakeSystemd) -> None:
    shown = done(reported, InstallRequest("0.1.0", OLD, compiles=False), replace(there(reported), placed=False))
    assert [line for line in shown if line.startswith("warning: ")]
    assert pointed_at(reported.layout.current) == OLD


def test_the_first_is_started_since_its_own_device_rules_may_name_the_port(reported: FakeSystemd) -> None:
    reported.layout.current.unlink()
    reported.seen = [OFF]
    nothing = replace(there(reported), current=None, placed=False, runs=False, running=None)
    shown = done(reported, WANT_NEW, nothing)
    assert [line for line in shown if line.startswith("warning: ")]
    assert pointed_at(reported.layout.current) == NEW
    assert [one for one in reported.asked if one.startswith("start")]
