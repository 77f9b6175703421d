"""`onboard goal`, `cancel` and `status` beside a real runtime and the simulated robot, over DDS."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from onboard.commands.operator.commands import _screen
from onboard.commands.operator.robot import LEVELS, DiagnosticsRow, Status
from onboard.config.config import load_config
from tests.rigs.machine.processes import Command, done, environment, running, toml
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain


@dataclass(frozen=True)
class Robot:
    """A robot that runs on a domain of its own."""

    folder: Path
    domain: int

    def say(self, *arguments: str, config: str = "onboard.toml") -> Command:
        """Run a command of the operator to its end."""
        return done("onboard", *arguments, "--config", config, folder=self.folder, domain=self.domain)

    def status(self) -> dict[str, Any]:
        """Return the JSON of `onboard status`."""
        result: dict[str, Any] = json.loads(self.say("status", "--json", "-").out)
        return result


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Robot]:
    folder, domain = tmp_path_factory.mktemp("robot"), free_domain()
    slow = {"v_max_mps": 0.3}
    tables: dict[str, dict[str, Any]] = {"policy": {"model": "reactive"}, "record": {"enabled": False}, "limits": slow}
    config = toml(folder / "onboard.toml", robot={"name": "carrier"}, dds={"namespace": "r7"}, **tables)
    toml(folder / "other.toml", robot={"name": "other"}, dds={"namespace": "r7"}, **tables)
    arguments = {"folder": folder, "domain": domain}
    with (
        running("hil", "sim", "--episode", "1", "--config", config, **arguments) as sim,
        running("onboard", "run", "--config", config, **arguments) as run,
    ):
        sim.wait_for("simulated robot on map")
        run.wait_for("ready")
        one = Robot(folder, domain)
        until(lambda: any(part["message"] == "localized" for part in one.status()["parts"]), 60.0)
        yield one


def test_a_goal_behind_and_to_the_right_is_driven_to(robot: Robot) -> None:
    command = robot.say("goal", "-0.4", "-0.1", "--frame", "odom", "--wait")
    assert (command.process.returncode, command.out, command.err) == (0, "reached\n", "")


def test_a_goal_that_a_pause_holds_is_shown_and_cancelled_and_the_next_one_drives(robot: Robot) -> None:
    """What is looked at is held, however long each command takes."""
    held = "paused, so the robot stands and keeps its goal"
    assert robot.say("pause").out.endswith(f"; {held}\n")
    assert robot.say("goal", "2", "0", "--frame", "odom", "--yaw", "90").out == f"navigating; {held}\n"
    shown = robot.say("status").out
    for words in ("carrier", "navigating", "m away", "camera front", "policy", "paused: Run `onboard resume`"):
        assert words in shown
    assert robot.say("cancel").out == f"idle: cancelled; {held}\n"
    assert robot.say("resume").out == "idle: cancelled\n"
    assert robot.status()["state"] == "idle: cancelled"
    assert json.loads(robot.say("goal", "3", "0", "--frame", "odom", "--json", "-").out) == {"state": "navigating"}
    command = robot.say("cancel")
    assert (command.process.returncode, command.out) == (0, "idle: cancelled\n")


#   arguments, exit code, words of standard output or error
REFUSED = [
    (["goal", "1000", "0"], 1, "goal refused"),
    (["goal", "nan", "0"], 2, "nan is not finite"),
    (["goal", "1"], 2, "map.file: places need the map of the building"),
    (["goal", "1", "0", "--frame", "moon"], 2, "moon"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), REFUSED)
def test_a_goal_that_cannot_be_driven_to_is_refused(arguments: list[str], code: int, words: str, robot: Robot) -> None:
    command = robot.say(*arguments)
    assert command.process.returncode == code
    assert words in command.out + command.err


def test_a_drive_is_watched_on_a_terminal(robot: Robot) -> None:
    """The whole command on a terminal of its own: what it draws, and that one key ends it."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
    command = [sys.executable, "-m", "onboard", "top", "--config", "onboard.toml"]
    drawn = b""
    with subprocess.Popen(
        command, cwd=robot.folder, env=environment(robot.domain) | {"TERM": "xterm-256color"},
        stdin=there, stdout=there, stderr=there, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(there)

        def read() -> None:
            """Take what it draws; it waits for a terminal that is full."""
            nonlocal drawn
            with contextlib.suppress(OSError):  # of a terminal that nobody has open any more
                while select.select([here], [], [], 0.05)[0]:
                    drawn += os.read(here, 1 << 16)

        def shows(*words: bytes) -> bool:
            read()
            assert process.poll() is None, drawn[-500:]
            return all(word in drawn for word in words)

        def ended() -> bool:
            read()
            return process.poll() is not None

        try:
            try:
                until(lambda: shows(b"carrier", b"lateness", b"deadline misses", b"camera front_left"), 60.0)
            except AssertionError:
                pytest.fail(f"the screen shows something else: {drawn[-3000:]!r}")
            os.write(here, b"q")
            until(ended, 60.0)
            assert process.returncode == 0
        finally:
            process.kill()
            os.close(here)


def test_the_screen_says_what_clears_each_reason() -> None:
    parts = [
        DiagnosticsRow(
            "runtime", LEVELS[2], "stopped: goal is occupied", {"code": "goal_occupied", "clears": "Free the goal."}
        ),
        DiagnosticsRow("command", LEVELS[0], "zone_stop", {"code": "zone_stop", "clears": "Free the space."}),
        DiagnosticsRow("policy", LEVELS[0], "in time", {}),
    ]
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(_screen(load_config(None), Status("carrier", 0, "stopped: goal is occupied", parts)))
    lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert lines[lines.index("runtime stopped: goal is occupied error") + 1] == "goal_occupied: Free the goal."
    place = next(number for number, line in enumerate(lines) if line.startswith("command"))
    assert "reason: zone_stop (limited so that the robot stops before an obstacle)" in lines[place]
    assert lines[place + 1] == "zone_stop: Free the space."
    assert lines[-1] == "policy in time ok"


def test_another_robots_configuration_is_noticed_and_without_a_runtime_the_domain_is_named(robot: Robot) -> None:
    """Both commands wait for ten seconds, so they wait side by side."""
    toml(robot.folder / "alone.toml", dds={"namespace": "nobody"})
    place = {"folder": robot.folder, "domain": robot.domain}
    with (
        running("onboard", "status", "--config", "other.toml", **place) as status,
        running("onboard", "cancel", "--config", "alone.toml", **place) as command,
    ):
        assert (status.wait(), command.wait()) == (2, 2)
    assert status.err.startswith("error: robot other: no diagnostics within")
    where = f"domain {robot.domain}, interface lo, namespace nobody"
    waits, ends = command.err.splitlines()
    assert waits == f"waiting up to 10 s for a runtime on {where}"
    assert ends == f"error: no runtime found on {where} within 10 s; is `onboard run` running?"
