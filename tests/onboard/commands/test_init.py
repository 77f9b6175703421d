"""`onboard init` writes files that drive as chosen, and like no file where nothing was chosen."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from onboard.__main__ import app
from onboard.commands.init.command import schema_of
from onboard.commands.init.files import File
from onboard.config.config import Config, ScanSection, load_config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.config.toml_file import read_toml, tomllib
from onboard.config.toml_text import template
from onboard.values.errors import InputError
from tests.rigs.machine.processes import ROOT, environment

RUNNER = CliRunner()
URDF = """<robot name="r"><link name="base_link"/><link name="front_optical"/>
<joint name="j" type="fixed"><parent link="base_link"/><child link="front_optical"/>
<origin xyz="0.5 0 0.3" rpy="-1.570796 0 -1.570796"/></joint></robot>"""


def made(folder: Path, *options: str) -> Config:
    """Write the files and return what `check-config` takes from them, which must have no complaint."""
    RUNNER.invoke(app, ["init", str(folder), *options], catch_exceptions=False)
    checked = RUNNER.invoke(app, ["check-config", "--config", str(folder / "onboard.toml"), "--files-only"])
    assert checked.exit_code == 0
    assert "warning" not in checked.stderr
    return load_config(folder / "onboard.toml")


def test_nothing_chosen_drives_like_no_file(tmp_path: Path) -> None:
    config, default = made(tmp_path / "robot"), Config()
    files = {"mounts": tmp_path / "robot" / "mounts.toml", "plant": tmp_path / "robot" / "plant.toml"}
    assert config.model_copy(update={"robot": config.robot.model_copy(update=files)}) == config
    assert config.model_dump(exclude={"robot": set(files)}) == default.model_dump(exclude={"robot": set(files)})
    stated, of_default = read_toml(files["mounts"]), read_toml(default.robot.mounts)
    for one in of_default["cameras"].values():
        assert one.pop("least_m") == 0.0  # of simulated cameras; the doctor asks for that of real ones
    assert stated == of_default
    assert load_plant(files["plant"]) == load_plant(default.robot.plant)


NUMBERS = [f"--serial={name}={name}1" for name in read_toml(Config().robot.mounts)["cameras"]]


#   options                                              table, key, value
CHOICES: list[tuple[list[str], str, str, Any]] = [
    (["--footprint", "0.3"], "robot", "footprint_radius_m", 0.3),
    (["--name", "carrier"], "robot", "name", "carrier"),
    (["--speed", "0.6"], "limits", "v_max_mps", 0.6),
    (["--policy", "reactive"], "policy", "model", "reactive"),
    (["--namespace", "robot1"], "dds", "namespace", "robot1"),
    (["--stamped"], "dds", "stamped_cmd_vel", True),
    (["--topic", "odom=wheels", "--topic", "e_stop=/stop"], "dds", "remap", {"odom": "wheels", "e_stop": "/stop"}),
    (["--base", "serial"], "odometry", "input", "serial"),
    (["--scan-topic", "lidar"], "scan", "topic", "lidar"),
    (["--height", "0.4"], "robot", "height_m", 0.4),
    (["--color", "none"], "cameras", "color", "none"),
    (["--cameras", "none"], "cameras", "color", "none"),
    (["--cameras", "realsense", *NUMBERS], "cameras", "color", "none"),
    (["--cameras", "realsense", *NUMBERS, "--serial", "color=9"], "cameras", "color", "realsense"),
    (["--cameras", "realsense", *NUMBERS, "--serial", "color=9"], "cameras", "color_serial", "9"),
    (["--cameras", "none", "--set", "cameras.color=dds"], "cameras", "color", "dds"),
    (["--set", "limits.remember_s=30"], "limits", "remember_s", 30.0),
    (["--set", "scan.cameras=['front', 'rear']"], "scan", "cameras", ["front", "rear"]),
]  # fmt: skip


@pytest.mark.parametrize(("options", "table", "key", "value"), CHOICES)
def test_a_choice_changes_its_key_alone(options: list[str], table: str, key: str, value: Any, tmp_path: Path) -> None:
    made_config, default = made(tmp_path / "robot", *options).model_dump(), Config().model_dump()
    assert made_config[table][key] == value
    for other in ("mounts", "plant", "footprint_m"):
        made_config["robot"].pop(other, None), default["robot"].pop(other, None)
    for other in {"source", "color", "color_serial"} - {key}:  # one choice of cameras may bring the other
        del made_config["cameras"][other], default["cameras"][other]
    if table in ("limits", "scan"):  # a slow robot may go longer without getting nearer
        made_config["goal"].pop("progress_timeout_s"), default["goal"].pop("progress_timeout_s")
    del made_config[table][key], default[table][key]
    assert made_config == default


def test_a_tall_robot_heeds_what_hangs_above_the_default_height(tmp_path: Path) -> None:
    tall = made(tmp_path / "robot", "--height", "1.6")
    assert (tall.robot.height_m, tall.scan.z_max_m) == (1.6, 1.8)
    assert made(tmp_path / "own", "--height", "1.6", "--set", "scan.z_max_m=3.0").scan.z_max_m == 3.0


#   options                                             progress_timeout_s, --limit in the README
PATIENCE = [
    ([],                                                120.0, 100),
    (["--speed", "0.5"],                                240.0, 200),
    (["--speed", "2"],                                  120.0, 100),
    (["--set", "scan.cameras=['front', 'rear']"],       400.0, 333),
    (["--speed", "0.6", "--set", "scan.cameras=['front', 'rear']"], 600.0, 556),
    (["--speed", "0.5", "--set", "goal.progress_timeout_s=70"], 70.0, 200),
]  # fmt: skip


@pytest.mark.parametrize(("options", "progress_s", "limit_s"), PATIENCE)
def test_a_slow_robot_gets_more_time(options: list[str], progress_s: float, limit_s: int, tmp_path: Path) -> None:
    assert made(tmp_path / "robot", *options).goal.progress_timeout_s == progress_s
    assert f"--episodes 10 --limit {limit_s}\n" in (tmp_path / "robot" / "README.md").read_text()


def test_cameras_of_a_urdf_and_by_hand(tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_text(URDF)
    urdf = ["--from-urdf", str(tmp_path / "robot.urdf"), "--camera", "front=front_optical"]
    made(tmp_path / "robot", *urdf, "--camera", "rear=-0.5,0,0.3,180,10,0", "--serial", "rear=42")
    depth = load_mounts(tmp_path / "robot" / "mounts.toml").depth
    assert list(depth) == ["front", "rear"]
    assert depth["front"].base_from_camera[:3, 2] == pytest.approx([1, 0, 0], abs=1e-5)  # looks ahead
    assert depth["front"].base_from_camera[:3, 3] == pytest.approx([0.5, 0, 0.3])
    assert depth["rear"].base_from_camera[0, 2] < -0.9  # looks back
    assert all(mount.lens_taken for mount in depth.values()), "the robot states it"
    assert depth["rear"].serial == "42"


def test_a_urdf_states_size_and_lidar(tmp_path: Path) -> None:
    """Nobody types what the file holds: the box, its height from the floor, the lidar that hangs upside down."""
    box = '<collision><geometry><box size="0.6 0.4 0.2"/></geometry></collision>'
    lidar = URDF.replace("front_optical", "lidar").replace("-1.570796 0 -1.570796", "3.14159265 0 1.570796")
    (tmp_path / "robot.urdf").write_text(lidar.replace('"base_link"/>', f'"base_link">{box}</link>', 1))
    options = ["--from-urdf", str(tmp_path / "robot.urdf"), "--floor-m", "0.15"]
    refused = RUNNER.invoke(app, ["init", str(tmp_path / "no"), *options])
    assert "--laser FRAME; it has lidar" in str(refused.exception)
    config = made(tmp_path / "robot", *options, "--scan-topic", "/scan", "--laser", "lidar")
    assert config.robot.footprint_m == ((0.3, 0.2), (-0.3, 0.2), (-0.3, -0.2), (0.3, -0.2))
    assert config.robot.height_m == 0.25
    assert config.scan.lasers == {"/scan": pytest.approx((0.5, 0.0, 0.45, 180.0, 0.0, 90.0))}
    assert config.dds.remap == {"scan": "onboard/scan"}
    made(tmp_path / "stated", *options, "--scan-topic", "/l", "--laser", "lidar", "--footprint", "0.4", "--height", "1")
    assert load_config(tmp_path / "stated" / "onboard.toml").robot.footprint_radius_m == 0.4


#   options, words of each line
REFUSED = [
    (["--speed", "-1", "--base", "usb"], ["limits.v_max_mps", "odometry.input"]),
    (["--set", "robot.height=1"], ["unknown key robot.height; did you mean robot.height_m?"]),
    (["--set", "height"], ["--set height: expected"]),
    (["--topic", "odom"], ["--topic odom: expected"]),
    (["--topic", "x=y"], ["'x'"]),
    (["--footprint", "big"], ["--footprint big"]),
    (["--footprint", "1xb"], ["--footprint 1xb: expected LENGTHxWIDTH"]),
    (["--camera", "front=link"], ["--camera front=link: a frame needs --from-urdf"]),
    (["--camera", "front=1,2"], ["--camera front=1,2: expected six numbers"]),
    (["--camera", "front=500,0,0.3,0,10,0"], ["500 m from the base frame's origin, at most 5 m"]),
    (["--topic", "x=y", "--topic", "odom=1 x"], ["'x'", "1 x"]),
    (["--camera", "front=nan,0,0.3,0,10,0"], ["--camera front=nan,0,0.3,0,10,0: expected finite numbers"]),
    (["--laser", "lidar"], ["--laser lidar: needs --from-urdf, the file with this frame, and --scan-topic"]),
    (["--camera", "a=0,0,1,0,0,0", "--camera", "a=1,0,1,0,0,0"], ["--camera: each name only once, found a, a"]),
    (["--camera", "fr ont=0,0,1,0,0,0"], ["camera 'fr ont' cannot be part of a ROS topic"]),
    (["--namespace", "1 x", "--policy", "v9"], ["dds.namespace: '1 x'", "policy v9: no shipped policy has this name"]),
    (
        ["--serial", "color=9", "--color", "none"],
        ["--serial color=9: has no effect, because the colour source is none"],
    ),
    (["--serial", "top=1"], ["--serial top=1: the cameras are front_left"]),
    (["--cameras", "realsense"], ["robot/mounts.toml: camera front_left: has no serial"]),
    (["--policy", "no.onnx"], ["no.onnx.manifest.json"]),
    (["--policy", "onboard-v9"], ["onboard-v9: no shipped policy has this name"]),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_a_choice_that_cannot_drive_writes_nothing(options: list[str], words: list[str], tmp_path: Path) -> None:
    with pytest.raises(Exception) as caught:
        RUNNER.invoke(app, ["init", str(tmp_path / "robot"), *options], catch_exceptions=False)
    for word in words:
        assert word in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_map_in_the_folder_is_found_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "robot"
    folder.mkdir()
    for name in ("depot.yaml", "depot.png"):
        shutil.copyfile(ROOT / "hil" / "maps" / "data" / name, folder / name)
    config = made(folder, "--set", "map.file=depot.yaml", "--set", "policy.model=mapped")
    assert config.map.file == folder / "depot.yaml"
    assert not (folder / "depot.yaml").is_symlink()


def test_files_that_are_there_are_left_unless_forced(tmp_path: Path) -> None:
    made(tmp_path, "--speed", "0.6")
    with pytest.raises(InputError, match=r"onboard\.toml: already exists; --force"):
        RUNNER.invoke(app, ["init", str(tmp_path)], catch_exceptions=False)
    assert load_config(tmp_path / "onboard.toml").limits.v_max_mps == 0.6
    assert made(tmp_path, "--force").limits.v_max_mps == Config().limits.v_max_mps


def test_on_a_terminal_it_asks_for_what_is_not_given(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"0.3\n0.6\n\n\nreactive\nrobot1\ntrue\n")
    done = subprocess.run(
        [sys.executable, "-m", "onboard", "init", "robot"],
        cwd=tmp_path, stdin=theirs, capture_output=True, timeout=100, env=environment(None),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    config = load_config(tmp_path / "robot" / "onboard.toml")
    made_config = config.robot.footprint_radius_m, config.limits.v_max_mps, config.policy.model, config.dds.namespace
    assert (*made_config, config.dds.stamped_cmd_vel) == (0.3, 0.6, "reactive", "robot1", True)


def test_a_wrong_answer_is_asked_again_and_serial_numbers_are_asked_for(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"big\n0.3\nfast\n\nrealsense\n\n\n\n\n11\n12\n13\n14\n")
    done = subprocess.run(
        [sys.executable, "-m", "onboard", "init", "robot", "--color", "none"],
        cwd=tmp_path, stdin=theirs, capture_output=True, timeout=100, env=environment(None), text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--footprint big: expected" in done.stderr
    assert "this answer: limits.v_max_mps" in done.stderr
    config = load_config(tmp_path / "robot" / "onboard.toml")
    numbers = [mount.serial for mount in load_mounts(config.robot.mounts).depth.values()]
    assert (config.robot.footprint_radius_m, config.cameras.source, numbers) == (
        0.3,
        "realsense",
        ["11", "12", "13", "14"],
    )


# ---- What is made from the schema


def described(schema: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """Return table, key and whether it is described, for all keys of a schema."""
    tables = {schema["title"]: schema, **schema["$defs"]}
    return [
        (name, key, bool(field.get("description")) or "$ref" in field)
        for name, table in tables.items()
        for key, field in table["properties"].items()
    ]


@pytest.mark.parametrize("file", File)
def test_the_schema_is_valid_and_describes_every_key(file: File) -> None:
    schema = schema_of(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert [(table, key) for table, key, description in described(schema) if not description] == []
    assert str(ROOT) not in json.dumps(schema)
    assert str(Path.home()) not in json.dumps(schema)


#   change of a valid table, whether the schema and the loader take it
TABLES: list[tuple[Callable[[dict[str, Any]], object], bool]] = [
    (lambda table: None, True),
    (lambda table: table["robot"].update(height_m=0.5), True),
    (lambda table: table["robot"].update(height_m=-0.5), False),
    (lambda table: table["robot"].update(height="x"), False),
    (lambda table: table.update(rates={"control_hz": 5}), False),
    (lambda table: table.update(cameras={"sources": {"front": "usb"}}), False),
    (lambda table: table.update(limits_scan={"cameras": ["front"]}), True),
    (lambda table: table.update(limits_scan={"far": 5.0}), False),
]


@pytest.mark.parametrize(("change", "valid"), TABLES)
def test_the_schema_takes_what_the_loader_takes(change: Callable[[dict[str, Any]], object], valid: bool) -> None:
    table: dict[str, Any] = {"robot": {"mounts": "mounts.toml"}}
    change(table)
    assert jsonschema.Draft202012Validator(schema_of(File.ONBOARD)).is_valid(table) == valid


def test_the_template_uncommented_is_the_defaults() -> None:
    text = re.sub(r"(?m)^#(?=\S)", "", template(Config, {}))
    table = tomllib.loads(text)
    del table["robot"]["footprint_m"]  # in place of the circle
    for name in ("scan", "limits_scan"):
        assert ScanSection.model_validate({key: table[name].pop(key) for key in ("lasers", "clouds")}).lasers
    made_config, default = Config.model_validate(table).model_dump(), Config().model_dump()
    files = {"mounts", "plant"}
    for name, one in default.items():
        if one is None:
            assert {**default["scan"], **made_config[name], "laser": None} == default["scan"]
            continue
        same = {key for key, value in one.items() if value is not None and key not in files}
        assert {key: made_config[name][key] for key in same} == {key: one[key] for key in same}, name
        later = {"correction", "no_return", "imu", "imu_rpy_deg", "file", "tracker", "subgoals"}
        later |= {"topic"} if name == "map" else set()
        assert set(table[name]) - later == set(one) - {"footprint_m", "lasers", "clouds"}
