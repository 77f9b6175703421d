"""Unattended collection: stays in its rectangle, gives up where it is stuck, and repeats by seed."""

from __future__ import annotations

import json

import numpy as np
from typer.testing import CliRunner

from calib.__main__ import app
from calib.dynamics.motion_log import read_logs
from calib.learned.collect import Collected, Collector, Rectangle, empty_room
from calib.learned.experiment import hidden_plant
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import MotionTable
from onboard.config.toml_text import as_toml
from tests.rigs.learned_models import PLANT
from tests.rigs.rooms import room, with_box

FLOOR = Rectangle(1.0, 1.0, 5.0, 4.0)


def collected(world: World, seconds: float = 60.0, seed: int = 1) -> Collected:
    found = list(Collector(world, PLANT, Body(), FLOOR, seed).run(seconds))
    assert len(found) > 1, "it tells how far it is"
    assert isinstance(found[-1], Collected)
    return found[-1]


def test_it_drives_to_pose_after_pose_within_its_rectangle() -> None:
    one = collected(empty_room(FLOOR))
    assert one.reached >= 4
    assert one.log.pose is not None
    assert one.log.pose[:, 0].min() > FLOOR.x_min_m - 0.3
    assert one.log.pose[:, 0].max() < FLOOR.x_max_m + 0.3
    assert np.ptp(one.log.pose[:, 0]) > 1.0
    assert one.log.v_cmd.min() < 0.0 < one.log.v_cmd.max()


def test_it_gives_up_where_it_is_stuck_and_drives_on() -> None:
    wall = with_box(room(6.0, 5.0), (2.9, 3.1), (0.3, 4.7), (0.0, 1.0))
    one = collected(wall, 90.0)
    assert one.stuck >= 1
    assert one.reached >= 1


def test_the_command_writes_a_log_that_calib_reads(tmp_path) -> None:
    file = tmp_path / "drive.csv"
    plant = tmp_path / "plant.toml"
    hidden = hidden_plant().model_copy(update={"motion": MotionTable(model="hidden-effects")})
    plant.write_text(as_toml(hidden, ""))
    words = ["collect", "--plant", str(plant), "--seconds", "12", "-o", str(file), "--json", "-"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["seconds"] == 12.0
    (log,) = read_logs([file]).logs
    assert len(log.t_s) == 720
    assert log.pose is not None


def test_bad_input_is_one_line(tmp_path) -> None:
    plant = str(DEFAULT_ROBOT / "plant.toml")
    for words, expected in (
        (["--rectangle", "0", "0", "0.5", "6"], "each side must be at least 1 m"),
        (["--rectangle", "0", "0", "nan", "6"], "must be finite"),
        (["--map", "home", "--rectangle", "500", "500", "510", "510"], "none of 1000 sampled poses is free"),
    ):
        out = tmp_path / "drive.csv"
        done = CliRunner().invoke(app, ["collect", "--plant", plant, "-o", str(out), *words])
        assert done.exit_code != 0
        assert expected in str(done.exception)
        assert not out.exists()
