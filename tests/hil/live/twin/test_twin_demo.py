"""The picture of both paths, the figures of round trips, and the two long commands."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hil.__main__ import app
from hil.live.twin.latency import figures, summary
from hil.live.twin.plot import TwinDrawing, save_twin_picture
from hil.live.twin.scene import Site, SiteOptions
from hil.physics.collision_world import Body
from onboard.config.config import Config
from onboard.config.plant_model import load_plant
from onboard.values.errors import OnboardError
from tests.rigs.machine.processes import done
from tests.rigs.network.loopback import free_domain

BEGAN_NS = 1_700_000_000 * 10**9


def drawing() -> TwinDrawing:
    """Return a drive of two legs of a metre: in the room on the same line to and fro, for the twin straight on."""
    site = Site(SiteOptions("apartment", 3), Body(), load_plant(Config().robot.plant))
    start = site.episode.start
    ticks = np.arange(30)
    follows = (ticks < 10) | (ticks >= 20)
    twin_x = start.x_m + np.cumsum(np.where(follows & (ticks > 0), 0.1, 0.0))
    robot_x = 1.5 + 0.1 * np.where(ticks < 10, ticks, np.where(ticks < 20, 9, 28 - ticks))
    zero = np.zeros(30)
    stamps = BEGAN_NS + ticks * 10**8
    twin = np.stack([zero, stamps, twin_x, zero + start.y_m, zero, follows, zero, zero, zero], axis=1)
    robot = np.stack([ticks * 0.1, robot_x, zero + 1.5, zero, zero, zero], axis=1)
    return TwinDrawing(site, twin, robot, BEGAN_NS)


def test_the_picture_shows_both_paths_in_the_colours_of_their_legs(tmp_path: Path) -> None:
    both = drawing()
    assert both.legs == 2
    assert both.twin_path_m == pytest.approx(1.9, abs=0.11)
    save_twin_picture(both, tmp_path / "both.png")
    with Image.open(tmp_path / "both.png") as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    colours, counts = np.unique(pixels, axis=0, return_counts=True)
    vivid = (colours.max(axis=1).astype(int) - colours.min(axis=1) > 100) & (counts > 30)
    assert vivid.sum() >= 4, "two legs, start and goal"


def test_figures_of_round_trips() -> None:
    took = np.array([10.0] * 97 + [150.0, 250.0, inf])
    found = figures(took)
    assert (found["count"], found["lost"], found["above_200_ms"]) == (100, 1, 2)
    assert found["share_below_100_ms"] == 0.97
    assert found["mean_ms"] == pytest.approx((970 + 400) / 99, abs=0.001)
    assert found["worst_ms"] == 250.0
    more = {"simulator_ms": {"p50": 7.0}, "load_average": 0.5, "cores": 2, "paper_4": found | {"mean_ms": 71.75}}
    text = summary(found | more)
    assert "100 round trips, 1 lost" in text
    assert "median 10.00 ms, of these 7.00 ms in the simulator" in text


def test_no_round_trip_at_all_is_an_error_of_one_line() -> None:
    with pytest.raises(OnboardError, match="no message of any round trip"):
        figures(np.array([inf, inf]))


#   command                                   what its line names
MISTAKES = [
    (["twin", "--map", "nowhere"], "nowhere"),
    (["twin", "--areas", "none.toml"], "none.toml"),
    (["twin-demo", "--episode", "999"], "--episode 999"),
    (["twin-demo", "--policy", "nowhere.onnx"], "nowhere.onnx.manifest.json"),
    (["guard", "--config", "none.toml"], "none.toml"),
    (["twin-robot", "--room", "none.json"], "none.json"),
    (["twin-latency", "--config", "none.toml"], "none.toml"),
]


@pytest.mark.parametrize(("arguments", "named"), MISTAKES, ids=[" ".join(row[0]) for row in MISTAKES])
def test_bad_input_is_one_line(arguments: list[str], named: str) -> None:
    with pytest.raises(OnboardError, match=named) as caught:
        app(arguments, standalone_mode=False)
    assert "\n" not in str(caught.value)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_robot_in_a_small_room_drives_its_twin_to_a_goal(tmp_path: Path) -> None:
    command = done("hil", "twin-demo", "--json", "-", folder=tmp_path, domain=free_domain())
    result = json.loads(command.out)
    assert command.process.returncode == 0, result
    assert (result["reached"], result["virtual_contacts"], result["real_contacts"]) == (True, 0, 0)
    assert result["legs"] >= 3
    assert result["twin_path_m"] > 8.0
    assert Path(result["picture"]).stat().st_size > 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_round_trips_of_the_command(tmp_path: Path) -> None:
    paper = ("twin-latency", "--paper", "--count", "200", "--json", "-")
    command = done("hil", *paper, folder=tmp_path, domain=free_domain())
    assert command.process.returncode == 0, command.err
    result = json.loads(command.out)
    assert result["count"] == 200
    assert result["lost"] <= 10
    assert result["messages"] == ["scan", "color/image", "points", "collision"]
    assert 0.0 < result["simulator_ms"]["p50"] < result["p50_ms"]
    assert (tmp_path / "out" / "twin" / "twin-latency.svg").stat().st_size > 0
