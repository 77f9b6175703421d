"""Kernels on the simulated robot: none is as today, a slippery place is learned from runs, and walls stop an effect."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.commands.judge.kernels import ROBOT_TABLE, read_runs
from hil.drive.robot import Senses, SimulatedRobot
from hil.evaluate.result import row_of_json
from hil.physics.collision_world import Body
from hil.physics.kernel_effects import BaseKernels, check_robot_table, load_robot_kernels, state_vector
from hil.physics.state_kernels.generate import generate
from hil.physics.state_kernels.kernel_set import KernelSet, no_kernels, save_kernels
from hil.physics.state_kernels.state_table import StateTable, load_state_table
from onboard.values.errors import InputError
from onboard.values.messages import Pose, Twist
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT

TABLE = load_state_table(ROBOT_TABLE)
EVERY = 10
AHEAD = Twist(0.6, 0.0)
SLIPPERY = (3.0, 4.5)
BLIND = replace(MOUNTS, depth={}, color={})


def robot(seed: int, kernels: KernelSet | None = None, y_m: float = 2.5) -> SimulatedRobot:
    senses = Senses(seed=seed, localization=False)
    return SimulatedRobot(room(9.0, 5.0), PLANT, Body(), BLIND, Pose(1.0, y_m, 0.0), senses, kernels=kernels)


def drive(seed: int, slips: bool, kernels: KernelSet | None = None, ticks: int = 240) -> list[tuple[Pose, Twist]]:
    """Return pose and twist each period, straight on; a robot that slips makes a quarter of the way in `SLIPPERY`."""
    y_m = 2.5 + 0.1 * (np.random.default_rng(seed).random() - 0.5)
    one, rows = robot(seed, kernels, y_m), []
    for tick in range(ticks):
        if tick % EVERY == 0:
            rows.append((one.state.pose, one.state.twist))
        one.command(AHEAD)
        before = one.state.pose
        one.step(images=False)
        if slips and SLIPPERY[0] < before.x_m < SLIPPERY[1]:
            motion = one.state.base.motion
            pose = replace(motion.pose, x_m=before.x_m + 0.25 * (motion.pose.x_m - before.x_m))
            one.state = replace(one.state, base=replace(one.state.base, motion=replace(motion, pose=pose)))
    return rows


def write_runs(file: Path, slips: bool, seeds: range) -> None:
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["run", *TABLE.names, "action", "reward"])
        for seed in seeds:
            for pose, twist in drive(seed, slips):
                writer.writerow([seed, *state_vector(TABLE, pose, twist), 17, 0.0])  # 17: 0.6 m/s, 0 rad/s


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    write_runs(folder / "sim.csv", False, range(12))
    write_runs(folder / "real.csv", True, range(20, 32))
    return folder / "sim.csv", folder / "real.csv"


def test_a_slippery_place_is_learned_from_runs(runs: tuple[Path, Path]) -> None:
    simulated, real = (read_runs(str(place), TABLE, ROBOT_TABLE) for place in runs)
    kernels = generate(simulated, real, TABLE).kernels

    def end_m(slips: bool, under: KernelSet | None = None) -> float:
        return float(np.mean([drive(seed, slips, under)[-1][0].x_m for seed in range(50, 56)]))

    plain, slipping, under = end_m(False), end_m(True), end_m(False, kernels)
    assert plain - slipping > 0.5
    assert abs(under - slipping) < 0.5 * (plain - slipping)


def test_without_kernels_and_with_kernels_far_away_the_drive_is_as_today(runs: tuple[Path, Path]) -> None:
    arrays = no_kernels(TABLE)._replace(
        centers=np.full((1, 5), 100.0),
        physical=np.ones(1),
        known=np.ones((1, 28), np.bool_),
        maps=np.ones((1, 28, 5, 6)),
    )
    assert drive(3, False) == drive(3, False, KernelSet(TABLE, arrays))
    assert robot(3).effects is None


def test_an_effect_into_a_wall_is_refused_and_told() -> None:
    maps = np.zeros((1, 28, 5, 6))
    maps[..., 0, 5] = 3.0  # three metres ahead
    near = TABLE.model_copy(update={"sigma": 100.0})
    arrays = no_kernels(near)._replace(
        centers=np.zeros((1, 5)), physical=np.ones(1), known=np.ones((1, 28), np.bool_), maps=maps
    )
    one = robot(1, KernelSet(near, arrays))
    for _ in range(4 * EVERY):
        one.command(AHEAD)
        one.step(images=False)
    effects = one.effects
    assert effects is not None
    assert [effect.refused for effect in effects] == [False, False, True]
    assert [effect.tick for effect in effects] == [10, 20, 30]
    assert effects[0].after.x_m == pytest.approx(1.0 + 3.0, abs=0.01)
    assert one.state.pose.x_m < 9.0


def test_the_command_writes_kernels_that_drive_the_robot(runs: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "k.npz"
    done = CliRunner().invoke(app, ["kernels", "generate", *map(str, runs), "-o", str(out), "--json", "-"])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    kernels = load_robot_kernels(out)
    assert kernels is not None
    assert result["kernels"] == len(kernels) > 0
    assert result["transitions"] == {"simulated": 12 * 23, "real": 12 * 23}
    twice = [BaseKernels(kernels, 1, lambda pose: False) for _ in range(2)]
    for one in twice:
        for tick in range(0, 400, EVERY):
            pose = Pose(3.0 + 0.002 * tick, 2.5, 0.0)
            one.pose_at(tick, pose, AHEAD)
            one.begin(pose, AHEAD, AHEAD)
    assert twice[0].effects == twice[1].effects


@pytest.mark.parametrize(("p_p", "line"), [(1.0, "kernels set "), (0.0, "warning: kernels set 0 poses in 1 drives")])
def test_evaluate_says_how_many_poses_kernels_set(p_p: float, line: str, tmp_path: Path) -> None:
    near = TABLE.model_copy(update={"sigma": 1e6})
    arrays = no_kernels(near)._replace(
        centers=np.zeros((1, 5)), physical=np.full(1, p_p), known=np.ones((1, 28), np.bool_),
        maps=np.zeros((1, 28, 5, 6)),
    )  # fmt: skip
    save_kernels(KernelSet(near, arrays), tmp_path / "k.npz")
    words = ["--policy", "reactive", "--map", "home", "--episodes", "1", "--kernels", str(tmp_path / "k.npz")]
    done = CliRunner().invoke(app, ["evaluate", *words, "--json", str(tmp_path / "e.json")])
    assert done.exit_code == 0, done.output
    (row,) = json.loads((tmp_path / "e.json").read_text())["per_episode"]
    assert (row["set_by_kernels"] > 0) is (p_p > 0.0)
    assert line in done.stderr
    assert row_of_json(row).as_json() == row


HEAD = "run,action,reward,x_m,y_m,yaw_rad,v_mps,w_radps\n"
BAD = {
    "no column": ("run,x_m\n", "no column action"),
    "text": (
        HEAD + "1,17,0,a,0,0,0,0\n",
        "line 2: x_m = 'a' is not a number",
    ),
    "nan": (
        HEAD + "1,17,0,nan,0,0,0,0\n",
        "line 2: x_m = nan is not finite",
    ),
    "short": (HEAD + "1,17,0,1\n", "line 2: 4 values for 8 columns; a row is cut"),
    "half": (HEAD + "1,0.5,0,1,0,0,0,0\n", "action is 0.5, must be a whole"),
    "one row": (HEAD + "1,17,0,1,0,0,0,0\n", "no transitions"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_tables_get_one_line(name: str, runs: tuple[Path, Path], tmp_path: Path) -> None:
    text, words = BAD[name]
    file, out = tmp_path / "bad.csv", tmp_path / "k.npz"
    file.write_text(text)
    arguments = ["kernels", "generate", str(runs[0]), str(file), "-o", str(out)]
    with pytest.raises(InputError, match=words) as caught:
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not out.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": {"terrain": {"weight": 1.0, "settable": True}}}, "has only x_m"),
        ({"state": {"v_mps": {"weight": 1.0, "settable": True}}}, "of the robot can be set"),
        ({"period_s": 0.05}, "whole number of ticks"),
        ({"action": None, "actions": 2}, "needs set points"),
    ],
)
def test_kernels_of_another_robot_are_refused(change: dict[str, object], words: str, tmp_path: Path) -> None:
    table = StateTable.model_validate({**TABLE.model_dump(exclude={"actions"}), **change})
    save_kernels(KernelSet(table, no_kernels(table)), tmp_path / "k.npz")
    with pytest.raises(InputError, match=words):
        load_robot_kernels(tmp_path / "k.npz")
    with pytest.raises(InputError, match=r"k\.toml"):
        check_robot_table(table, "k.toml")


def test_a_recording_gives_transitions() -> None:
    log = read_runs("tests/data/replay/demo.mcap", TABLE, ROBOT_TABLE)
    assert len(log) > 5
    steps = np.hypot(*(log.nexts - log.states)[:, :2].T)
    assert steps.max() < 0.5, "no faster than the robot"
    assert np.ptp(log.states[:, 0]) + np.ptp(log.states[:, 1]) > 0.5
