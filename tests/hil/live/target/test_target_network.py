"""World and target in two network namespaces, joined by a link that delays and drops, as seeded.

What is asserted holds however busy the machine is: what is lost comes again, what is not there stops the robot.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.rigs.machine.processes import Command, running
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain
from tests.rigs.network.lossy_link import DEVICE, TARGET, Link, NoNamespacesError, lossy_link

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

DELAY_MS = 5.0
COUNT = 150


@contextmanager
def both(folder: Path, loss: float, count: int, *options: str) -> Iterator[tuple[Link, Command, Command]]:
    """Run the command at one end of a link, the runtime at the other."""
    with ExitStack() as held:
        try:
            link = held.enter_context(lossy_link(loss, DELAY_MS))
        except NoNamespacesError as error:
            pytest.skip(f"needs two network namespaces: {error}")
        ends = {"folder": folder, "domain": free_domain()}
        command = ("target", "--interface", DEVICE, "--target", TARGET, "--write-config", "target.toml", *options)
        command += ("--count", str(count), "--json", "desktop.json", "--no-depth-noise")
        desktop = held.enter_context(running("hil", *command, prefix=link.desktop, **ends))
        desktop.wait_for("Ctrl-C ends")
        run = ("run", "--config", "target.toml", "--no-status", "--json", "run.json")
        yield link, desktop, held.enter_context(running("onboard", *run, prefix=link.target, **ends))


def result_of(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "desktop.json").read_text())
    return result


@pytest.mark.parametrize("loss", [0.0, 0.01, 0.1])
def test_what_is_lost_comes_again(loss: float, tmp_path: Path) -> None:
    with both(tmp_path, loss, COUNT) as (_, desktop, robot):
        assert desktop.wait(600) == 0, desktop.err
        assert robot.end(signal.SIGINT) == 0, robot.err
    result = result_of(tmp_path)
    assert (result["ended"], result["base"]["at_rest"]) == ("complete", True)
    assert result["depth_to_command"]["wire"]["min_ms"] >= 2 * DELAY_MS
    assert result["pose_to_sensors"]["min_ms"] >= 2 * DELAY_MS
    assert result["color_to_decision"]["count"] > 0
    assert result["base"]["path_m"] > 0.5
    print((tmp_path / "desktop.json").read_text())  # noqa: T201 - for who asks with -s what loss does


def test_a_cable_that_is_pulled_stops_the_robot_and_it_goes_on_when_it_is_back(tmp_path: Path) -> None:
    with both(tmp_path, 0.0, 100_000) as (link, desktop, robot):
        desktop.wait_for("measuring")
        until(lambda: "state=navigating" in robot.err)
        link.change(1.0, DELAY_MS)
        until(lambda: "stale_odometry" in robot.err or "stale_scan" in robot.err)
        link.change(0.0, DELAY_MS)
        before = robot.err.count("state=reached")
        until(lambda: robot.err.count("state=reached") > before, 300.0)
        desktop.interrupt()
        assert desktop.wait(120) == 1, desktop.err
        assert robot.end() == 0
    result = result_of(tmp_path)
    assert (result["ended"], result["base"]["at_rest"]) == ("interrupted", True)
    assert result["depth_to_command"]["count"] > 0


def test_a_cable_that_stays_pulled_leaves_a_base_that_stands(tmp_path: Path) -> None:
    with both(tmp_path, 0.0, 100_000) as (link, desktop, robot):
        desktop.wait_for("measuring")
        until(lambda: "state=navigating" in robot.err)
        link.change(1.0, DELAY_MS)
        assert desktop.wait(120) == 1, desktop.err
        assert robot.end() == 0
    result = result_of(tmp_path)
    assert (result["ended"], result["base"]["at_rest"]) == ("the target was silent for 10 s", True)
    stops = json.loads((tmp_path / "run.json").read_text())["commands_by_reason"]
    assert stops.get("stale_odometry", 0) + stops.get("stale_scan", 0) > 0
