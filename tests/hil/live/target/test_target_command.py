"""`onboard-hil target` as a person uses it: mistakes, two processes over loopback, Ctrl-C, a target that is killed."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from onboard.values.errors import OnboardError
from tests.rigs.machine.processes import Command, running
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

#   arguments                                                       what is said
MISTAKES = [
    (["--target", "10.0.0.7"], "--target: over which interface?"),
    (["--interface", "nosuch0"], "dds.interface: there is no 'nosuch0'"),
    (["--policy", "nosuch"], "policy nosuch: no shipped policy has this name"),
    (["--map", "nosuch"], "nosuch"),
    (["--config", "nosuch.toml"], "nosuch.toml: cannot be read"),
    (["--json", "no/such/folder.json"], "there is no folder"),
]


@pytest.mark.parametrize(("arguments", "expected"), MISTAKES)
def test_a_mistake_is_one_line(
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    done = CliRunner().invoke(app, ["target", *arguments])
    assert isinstance(done.exception, OnboardError)
    assert expected in str(done.exception)
    assert "\n" not in str(done.exception)


@contextmanager
def both(folder: Path, count: int, *options: str) -> Iterator[tuple[Command, Command]]:
    """Run the command, and on the same machine the very line that it prints for the target."""
    domain = free_domain()
    with ExitStack() as held:
        command = ("target", "--count", count, "--json", "desktop.json", "--no-depth-noise", *options)
        desktop = held.enter_context(running("hil", *map(str, command), folder=folder, domain=domain))
        desktop.wait_for("Ctrl-C ends")
        line = next(line for line in desktop.err.splitlines() if line.startswith("  onboard run"))
        words = shlex.split(line)[1:]
        yield desktop, held.enter_context(running("onboard", *words, "--no-status", folder=folder, domain=domain))


def result_of(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "desktop.json").read_text())
    return result


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_processes(tmp_path: Path) -> None:
    with both(tmp_path, 100) as (desktop, robot):
        assert desktop.wait(600) == 0, desktop.err
        assert robot.end() == 0, robot.err
    result = result_of(tmp_path)
    assert (result["ended"], result["base"]["at_rest"]) == ("complete", True)
    assert result["depth_to_command"]["count"] >= 100
    assert result["depth_to_decision"]["count"] > 0
    assert result["color_to_decision"]["count"] > 0
    assert result["depth_to_decision"]["wire"]["min_ms"] > 0
    assert result["base"]["path_m"] > 0.5
    assert "paper 4" in desktop.out
    assert "Traceback" not in desktop.err + robot.err


#   what is done to whom                              why it ends
ENDS = [
    ("desktop", signal.SIGINT, "interrupted"),
    ("desktop", signal.SIGTERM, "interrupted"),
    ("target", signal.SIGKILL, "the target was silent for 10 s"),
]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("whom", "number", "why"), ENDS)
def test_however_it_ends_the_base_stands(whom: str, number: signal.Signals, why: str, tmp_path: Path) -> None:
    with both(tmp_path, 100_000) as (desktop, robot):
        desktop.wait_for("measuring")
        until(lambda: "state=navigating" in robot.err)
        (desktop if whom == "desktop" else robot).interrupt(number)
        assert desktop.wait(600) == 1, desktop.err
    result = result_of(tmp_path)
    assert (result["ended"], result["base"]["at_rest"]) == (why, True)
    assert f"NOT COMPLETE: {why}" in desktop.out
    assert "Traceback" not in desktop.err
