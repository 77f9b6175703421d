"""The robots of examples/robots: what their folders state; and each drives, behind its own driver's topics."""

from __future__ import annotations

import contextlib
import json
import math
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hil.drive.episodes import load_episodes
from onboard.__main__ import app
from onboard.commands.init import answers as robots_module
from onboard.commands.init.answers import shipped_robots
from onboard.config.config import Config, load_config
from onboard.config.plant_model import load_plant
from onboard.drivers.dds.topics import ros_topic, scan_source
from onboard.values.geometry import composed
from tests.rigs.machine.processes import ROOT, done, running
from tests.rigs.network.loopback import free_domain
from tests.rigs.network.ros2_peer import HERE, ROS_PYTHON, ros_environment

RUNNER = CliRunner()
ROBOTS = ROOT / "examples" / "robots"
NAMES = ["husky", "jackal", "kobuki", "stretch", "turtlebot4"]
FILES = sorted(path for path in ROBOTS.glob("*/*.toml") if not path.stem.endswith(("mounts", "plant")))
MOST_LINES = 120


def test_five_robots_ship() -> None:
    assert list(shipped_robots()) == NAMES


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_folder_is_valid_and_within_what_its_base_can(file: Path) -> None:
    checked = RUNNER.invoke(app, ["check-config", "--config", str(file), "--files-only"])
    assert checked.exit_code == 0, checked.stderr
    config = load_config(file)
    plant = load_plant(config.robot.plant)
    assert config.limits.v_max_mps <= plant.linear.speed_max
    assert config.limits.w_max_radps <= plant.angular.speed_max
    assert (config.robot.mounts.parent, config.robot.plant.parent) == (file.parent, file.parent)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_short_and_names_its_sources(name: str) -> None:
    page = (ROBOTS / name / "README.md").read_text()
    assert len(page.splitlines()) <= MOST_LINES
    assert f"onboard init my_robot --robot {name}" in page
    for section in ("## First hour", "## Topics", "## Numbers and their sources", "## What is known to bite"):
        assert section in page


def test_init_copies_a_robot(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    said = RUNNER.invoke(app, ["init", str(folder), "--robot", "jackal"])
    assert said.exit_code == 0, said.stderr
    assert "written: README.md, d435.toml, d435_mounts.toml, mounts.toml, onboard.toml, plant.toml" in said.stdout
    for copy in folder.glob("*.toml"):
        assert copy.read_bytes() == (ROBOTS / "jackal" / copy.name).read_bytes()
    links = re.findall(r"\]\(file://([^)#]+)", (folder / "README.md").read_text())
    assert links
    assert all(Path(link).is_file() for link in links)
    again = RUNNER.invoke(app, ["init", str(folder), "--robot", "jackal"])
    assert isinstance(again.exception, Exception) or "--force replaces it" in again.stderr
    assert RUNNER.invoke(app, ["init", str(folder), "--robot", "jackal", "--force"]).exit_code == 0


def test_a_page_without_the_documents_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_module, "DOCUMENTS", Path("/nowhere"))
    page = robots_module._linked((ROBOTS / "turtlebot4" / "README.md").read_text())
    assert "../" not in page
    assert "docs/robot.md (in the source of `onboard`)" in page


#   further arguments                                     what is said
REFUSED = [
    (["--robot", "nao"], "--robot nao: no shipped robot has this name; available: husky, jackal, kobuki"),
    (["--robot", "husky", "--speed", "1"], "--robot husky copies files as they are: leave out --speed"),
    (["--robot", "husky", "--camera", "a=0,0,1,0,0,0"], "leave out --camera"),
]


@pytest.mark.parametrize(("arguments", "words"), REFUSED, ids=["unknown", "speed", "camera"])
def test_init_refuses(arguments: list[str], words: str, tmp_path: Path) -> None:
    asked = done("onboard", "init", tmp_path / "x", *arguments, folder=tmp_path)
    assert asked.process.returncode != 0
    assert words in asked.err
    assert not (tmp_path / "x").exists()


# ---- each robot drives from its folder, behind its own driver

MAP, EPISODE = "gdc1", 13
"""Free floor around the start: at least 1.2 m to all sides of the three goals."""
START = load_episodes(MAP).episodes[EPISODE].start
GOALS = [(1.2, -0.3), (1.5, -0.6), (0.4, 0.3)]
"""Three goals in `odom`, which begins at the start: ahead, to the right, and back."""
NEAR_M = 0.35
"""The goal's tolerance of 0.2 m, and what wheels and scans leave of 4 m."""
END_S = 30.0
DRIVES = [
    *(pytest.param(name, GOALS[:1], id=f"{name}-one") for name in NAMES if name != "jackal"),  # the Husky's driver
    *(pytest.param(name, GOALS, id=f"{name}-three", marks=pytest.mark.long) for name in NAMES),
]


@contextlib.contextmanager
def driver(name: str, sim: int, robot: int, config: Config) -> Iterator[subprocess.Popen[str]]:
    """The robot's ROS 2 driver between the simulated base and the robot's own topics; ends with its standard input."""
    section = config.dds
    topics = {"odom": ros_topic(section, "odom"), "cmd_vel": ros_topic(section, "cmd_vel")}
    topics["scan"] = ros_topic(section, scan_source(config.scan.topic))
    process = subprocess.Popen(
        [str(ROS_PYTHON), str(HERE / "ros2" / "robot_drivers.py"), name, str(sim), str(robot), json.dumps(topics)],
        env=ros_environment(robot), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(600)
@pytest.mark.skipif(ROS_PYTHON is None, reason="no ROS 2 here: `make test` prepares .venv-ros")
@pytest.mark.parametrize(("name", "goals"), DRIVES)
def test_a_robot_reaches_its_goals_from_its_folder_unchanged(
    name: str, goals: list[tuple[float, float]], tmp_path: Path
) -> None:
    file = ROBOTS / name / "onboard.toml"
    config = load_config(file)
    truth = tmp_path / "truth.json"
    of_sim, of_robot = free_domain(), free_domain()
    world: list[Any] = ["--map", MAP, "--episode", str(EPISODE), "--no-localization", "--drift", "0", "--json", truth]
    with (
        running("hil", "sim", "--config", file, *world, folder=tmp_path, domain=of_sim) as sim,
        running("onboard", "run", "--config", file, folder=tmp_path, domain=of_robot) as runtime,
    ):
        sim.wait_for("simulated robot")
        runtime.wait_for(f"robot={name}")  # of its line `ready`
        with driver(name, of_sim, of_robot, config) as ros:
            assert ros.stdout is not None
            assert ros.stdout.readline() == "heard\n"
            for x, y in goals:
                sent = ["goal", str(x), "--frame", "odom", "--wait", "--config", file, "--", str(y)]
                asked = done("onboard", *sent, folder=tmp_path, domain=of_robot)
                assert asked.process.returncode == 0, f"{asked.out} {asked.err} {runtime.err[-2000:]}"
            received = json.loads(ros.communicate(timeout=END_S)[0])
        assert runtime.end() == 0
        assert sim.end() == 0
    end = json.loads(truth.read_text())
    wanted = composed(START.x_m, START.y_m, START.yaw_rad, *goals[-1], 0.0)
    assert math.dist(wanted[:2], end["pose"][:2]) < NEAR_M
    assert end["contacts"] == 0
    assert received["fastest_mps"] <= config.limits.v_max_mps + 1e-6
    assert received["fastest_radps"] <= config.limits.w_max_radps + 1e-6
    assert config.limits.v_min_mps < 0.0 or received["reverse"] == 0
