"""What half weights are compared on: drives of the robot that the policy was trained on."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from engines.__main__ import main as engines_main
from engines.export.agreement_drives import recorded_drives
from engines.network.network import TINY, Variant, untrained
from engines.network.policy_checkpoint import CONTROL_HZ, DECISION_HZ, DELAY_TICKS, save_policy
from onboard.config.config import Config

SIGHTLESS = Variant(rgb=False, goal_from="pose")
PLANT, SPEED = Config().robot.plant, re.compile(r"speed_max *= *[0-9.]+")


@pytest.mark.long
def test_drives_are_of_the_robot_of_the_training(tmp_path):
    network, short = untrained(3, TINY, SIGHTLESS), {"max_s": 8.0, "maps": ("apartment",)}
    (usual,) = recorded_drives(network, 1, {}, **short)
    slower = {CONTROL_HZ: 60.0, DECISION_HZ: 2.0, DELAY_TICKS: 6}
    (seldom,) = recorded_drives(network, 1, slower, **short)
    assert (len(usual), len(seldom)) == (24, 16)
    plant = tmp_path / "plant.toml"
    plant.write_text(SPEED.sub("speed_max = 0.1", PLANT.read_text(), count=1))
    trained = {"training": {"config": {"robot": {"config": None, "plant": str(plant)}}}}
    (slow,) = recorded_drives(network, 1, trained, **short)
    speeds = [max(one.odometry.twist.v_mps for one in reported) for reported in (usual, slow)]
    assert speeds[1] < 0.75 * speeds[0]


#    what the training states                                             what is said
NOT_DRIVEN = [
    ({DECISION_HZ: 4.0}, "trained with 4 decisions a second, applied after 3 ticks of 1/30 s, which the simulated "),
    ({CONTROL_HZ: 20.0}, "applied after 3 ticks of 1/20 s, which the simulated robot of 30 ticks a second cannot "),
    ({DELAY_TICKS: 10}, "applied after 10 ticks of 1/30 s, which the simulated robot "),
    ({"training": {"config": {"robot": {"plant": "gone.toml"}}}}, "the robot of the training: gone.toml: cannot be r"),
    ({"training": {"config": 5}}, "the robot of the training: training.config.robot: expected a table; "),
    ({"training": {"config": {"robot": {"plant": 5}}}}, "training.config.robot.plant: found 5; "),
]


@pytest.mark.parametrize(("extra", "expected"), NOT_DRIVEN)
def test_a_robot_that_cannot_be_simulated_is_refused_in_one_line(tmp_path, extra, expected):
    save_policy(tmp_path / "a.pt", untrained(3, TINY, SIGHTLESS), {**extra, **extra.get("training", {})})
    arguments = ["export", "--checkpoint", str(tmp_path / "a.pt"), "--out", str(tmp_path / "a.onnx")]
    done = CliRunner().invoke(engines_main, [*arguments, "--weights", "fp16"])
    assert done.exit_code == 2
    *_, last = done.stderr.splitlines()
    assert last.startswith("error: ")
    assert expected in last
    assert last.endswith("; --drives 0 compares on random sequences")
    assert not (tmp_path / "a.onnx").exists()
