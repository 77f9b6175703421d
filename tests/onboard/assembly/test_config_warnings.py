"""What `check-config` and a start refuse or warn of, although each value alone is legal."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from onboard.__main__ import app
from onboard.assembly.assembly import check_files
from onboard.assembly.config_warnings import config_warnings
from onboard.config.config import DEFAULT_ROBOT, load_config
from onboard.values.errors import OnboardError

MASK = "image: {name}.png\nresolution: 0.25\norigin: [0, 0, 0]\nnegate: 0\noccupied_thresh: 0.65\nfree_thresh: 0.196\n"


def robot(folder: Path, text: str, mounts: str = "", plant: str = "") -> Path:
    """Write a robot: the default's files with further tables; mounts, plant: "OLD -> NEW" in the default's text."""
    for name, change in {"mounts": mounts, "plant": plant}.items():
        old, _, new = change.partition(" -> ")
        (folder / f"{name}.toml").write_text((DEFAULT_ROBOT / f"{name}.toml").read_text().replace(old, new, 1))
    files = '[robot]\nmounts = "mounts.toml"\nplant = "plant.toml"\n'
    (folder / "onboard.toml").write_text(files + text.removeprefix("[robot]\n"))
    return folder / "onboard.toml"


def mask(folder: Path, name: str, black: int, alpha: bool) -> None:
    """Write a mask of 5 x 8 cells, of which so many are black."""
    grey = np.full(40, 255, np.uint8)
    grey[:black] = 0
    image = np.stack([grey, np.full(40, 255, np.uint8)], axis=1).reshape(5, 8, 2) if alpha else grey.reshape(5, 8)
    Image.fromarray(image).save(folder / f"{name}.png")
    (folder / f"{name}.yaml").write_text(MASK.format(name=name))


HEIGHT = "translation_m = [0.22, 0.00, 0.61]"
#   name, onboard.toml, change of mounts.toml, words of the refusal; None: accepted
REFUSED = [
    ("cameras as old as the scan", "[cameras]\nstale_ms = 400\n", "", None),
    ("older", "[cameras]\nstale_ms = 401\n", "", "cameras.stale_ms 401 is above limits.scan_stale_ms 400"),
    ("a short scan", "[limits]\nscan_stale_ms = 250\n", "", "cameras.stale_ms 300 is above limits.scan_stale_ms 250"),
    ("a lidar", '[cameras]\nstale_ms = 900\n[scan]\ntopic = "/laser"\n', "", None),
    ("cameras for limits", '[cameras]\nstale_ms = 900\n[scan]\ntopic = "/l"\n[limits_scan]\n', "", "stale_ms 900"),
    ("a camera", '[dds.remap]\n"front/depth/image" = "/c/depth"\n', "", None),
    ("no camera", '[dds.remap]\n"fornt/depth/image" = "/c"\n', "", "unknown camera fornt, .* did you mean front?"),
    ("its info", '[dds.remap]\n"left/depth/camera_info" = "/c"\n', "", "dds.remap.left/depth/camera_info: unknown"),
    ("colour", '[dds.remap]\n"color/image" = "/c"\n', "", None),
    ("two inputs", '[dds.remap]\ne_stop = "/stop"\nobstacle = "stop"\n', "",
     "dds.remap.e_stop: /stop is the topic of dds.remap.obstacle too; give each a topic of its own"),
    ("an input on our output", '[dds.remap]\ncmd_vel_teleop = "cmd_vel"\n', "", "/cmd_vel is the topic of dds.rem"),
    ("on a default name", '[dds.remap]\nodom = "/amcl_pose"\n', "", "dds.remap.amcl_pose: /amcl_pose is the topic of"),
    ("two cameras", '[dds]\nnamespace = "r"\n[dds.remap]\n"front/depth/image" = "c"\n"rear/depth/image" = "/r/c"\n', "",
     "dds.remap.rear/depth/image: /r/c is"),
    ("two names changed", '[dds.remap]\ne_stop = "obstacle"\nobstacle = "e_stop"\n', "", None),
    ("colour that is not used", '[cameras]\ncolor = "none"\n[dds.remap]\n"color/image" = "odom"\n', "", None),
    ("the lidar has our scan's name", '[cameras]\nsource = "none"\n[scan]\ntopic = "/scan"\n', "", None),
    ("so has a fused one", '[dds]\nnamespace = "r"\n[scan.lasers]\n"scan" = [0, 0, 0.3, 0, 0, 0]\n', "", None),
    ("our scan is put there", '[cameras]\nsource = "none"\n[scan]\ntopic = "scan"\n[dds.remap]\nscan = "/scan"\n', "",
     "scan.topic: /scan is the topic of dds.remap.scan too"),
    ("one lidar for both scans", '[cameras]\nsource = "none"\n[scan]\ntopic = "/l"\n[limits_scan]\ntopic = "/l"\n', "",
     None),
    ("a lidar by two names", '[cameras]\nsource = "none"\n[scan.lasers]\n"/l" = [0, 0, 0.3, 0, 0, 0]\n'
     'l = [0, 0, 0.3, 0, 0, 0]\n', "", "scan.topic: /l is the topic of scan.topic too"),
    ("the IMU", '[odometry]\nimu = "odom"\n', "", "odometry.imu: /odom is the topic of dds.remap.odom too"),
    ("on the floor", "", "z -> 0.0", "cameras.*translation_m: z is 0 m, which is not above the floor"),
    ("under it", "", "z -> -0.05", "cameras.*translation_m: z is -0.05 m, which is not above the floor"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "height", "words"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_cannot_be_meant_is_refused(name, text, height, words, tmp_path):
    given = robot(tmp_path, text)
    if height:
        lines = (tmp_path / "mounts.toml").read_text().splitlines()
        at = next(number for number, line in enumerate(lines) if line.startswith("translation_m"))
        lines[at] = f"translation_m = [0.2, 0.0, {height.removeprefix('z -> ')}]"
        (tmp_path / "mounts.toml").write_text("\n".join(lines))
    if words is None:
        check_files(load_config(given))
    else:
        with pytest.raises(OnboardError, match=words):
            check_files(load_config(given))


#   name, onboard.toml, change of plant.toml, words of the one warning; None: no warning
WARNED = [
    ("the default", "", "", None),
    ("a slow timeout", "", "command_timeout_s = 0.5 -> command_timeout_s = 0.6", "command_timeout_s 0.6 is above 0.5"),
    ("a quick timeout", "", "command_timeout_s = 0.5 -> command_timeout_s = 0.2", None),
    ("a base that was identified slowly", "", "speed_max = 1.0 -> speed_max = 0.5",
     "linear.speed_max 0.5 is below limits.v_max_mps 1: the policy plans for a slower base"),
    ("as slow as its limit", "[limits]\nv_max_mps = 0.5\n", "speed_max = 1.0 -> speed_max = 0.5", None),
    ("backing off as fast as the limits let it", "[recovery]\nbackward_mps = 0.3\n", "", None),
    ("faster", "[recovery]\nbackward_mps = 0.4\n", "", "recovery.backward_mps 0.4 is above -limits.v_min_mps 0.3"),
    ("a base that does not", "[recovery]\nbackward_mps = 0.4\nback_off = false\n", "", None),
    ("a slow robot", "[limits]\nv_max_mps = 0.2\n", "",
     "goal.progress_timeout_s 120: with limits.v_max_mps 0.2 a path that leads away from the goal for 24 m ends "
     "the drive; 600 s allow 120 m"),
    ("with more time", "[limits]\nv_max_mps = 0.2\n[goal]\nprogress_timeout_s = 600\n", "", None),
    ("far goals", "[limits]\nv_max_mps = 0.1\n[goal]\nprogress_timeout_s = 1200\n", "",
     "goal.timeout_s 600: with limits.v_max_mps 0.1 the robot drives 60 m in this time, and goals may be 100 m away"),
    ("the noise of a fit", "", "speed_max = 1.0 -> speed_max = 0.97", None),
    ("a base that turns slowly", "", "speed_max = 3.0 -> speed_max = 1.2",
     "angular.speed_max 1.2 is below limits.w_max"),
    ("required without a mask", "[zones]\nrequired = true\n", "", "zones.required has no effect without a mask"),
    ("a mask", '[zones]\nkeep_out = "some.yaml"\nrequired = true\n', "", None),
    ("a mask with alpha", '[zones]\nkeep_out = "alpha.yaml"\n', "", None),
    ("an empty mask", '[zones]\nkeep_out = "none.yaml"\n', "", "none.yaml: zones.keep_out forbids no cell"),
    ("an empty speed mask", '[zones]\nspeed = "none.yaml"\n', "", None),
    ("a tall robot", "[robot]\nheight_m = 1.5\n", "", "robot.height_m 1.5 is above scan.z_max_m 1.2"),
    ("seen up there", "[robot]\nheight_m = 1.5\n[scan]\nz_max_m = 1.5\n", "", None),
    ("a tall robot with a lidar", '[robot]\nheight_m = 1.5\n[scan]\ntopic = "/laser"\n', "", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "plant", "words"), WARNED, ids=[row[0] for row in WARNED])
def test_what_is_hardly_meant_is_a_warning(name, text, plant, words, tmp_path):
    for kind, black, alpha in (("some", 3, False), ("alpha", 3, True), ("none", 0, True)):
        mask(tmp_path, kind, black, alpha)
    config = load_config(robot(tmp_path, text, plant=plant))
    check_files(config)
    warnings = config_warnings(config)
    assert [words in line for line in warnings] == ([] if words is None else [True]), warnings


@pytest.mark.parametrize(("name", "cells"), [("some", 3), ("alpha", 7), ("none", 0)])
def test_check_config_counts_the_cells_of_each_mask(name, cells, tmp_path):
    """Cells of the image: they are 0.25 m wide, and the runtime divides them."""
    mask(tmp_path, name, cells, alpha=name != "some")
    given = robot(tmp_path, f'[zones]\nkeep_out = "{name}.yaml"\n')
    shown = CliRunner().invoke(app, ["check-config", "--files-only", "--config", str(given), "--json", "-"])
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["zones"]["keep_out_cells"] == cells
    assert f"{name}.yaml forbids {cells} cells" in shown.stderr
    assert ("warning: " in shown.stderr) == (cells == 0)
