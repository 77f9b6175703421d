"""The ceiling: a known drive is lived as it was driven; the ideal estimator is what the model of the noise gives."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from hil.__main__ import app
from hil.commands.judge import upper_bound
from hil.drive.conditions import load_conditions
from hil.drive.fast.course import course_of
from hil.drive.fast.drive import FastDrive
from hil.drive.robot import Senses
from hil.drive.setting import Setting, goal_tick
from hil.evaluate.episode_selection import find_sets, load_set
from hil.evaluate.upper_bound.kernels import IDEAL_STATES, correct_ideal, draw_anew, predict_ideal
from hil.evaluate.upper_bound.upper_bound import (
    CASES,
    EndErrors,
    Replay,
    ceiling_of,
    drive_known,
    ends_of,
    ends_of_json,
    known_drive,
    own_pose,
    replay,
)
from hil.jobs.code_digest import code_digest
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from hil.physics.simulated_base import STEP_S
from onboard.config.config import Config
from onboard.policy.contract import ACTIONS
from onboard.values.errors import InputError
from onboard.values.geometry import between, wrap
from onboard.values.messages import Observation, Pose, Twist
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT, Puppet

WORLD = room(9.0, 6.0)
EPISODE = Episode(Pose(1.0, 3.0, 0.4), (7.5, 3.0), 6.5)
SETTING = Setting(WORLD, PLANT, Body(), MOUNTS, Config(odometry={"scan_matching": False}))
LEFT, RIGHT = ACTIONS.index(Twist(0.6, 1.0)), ACTIONS.index(Twist(0.6, -1.0))
MAX_S = 8.0
DRAWS = 60


def weaving(observation: Observation) -> int:
    return LEFT if observation.filtered.pose.y_m < 0.0 else RIGHT


def driven(setting: Setting, seed: int) -> FastDrive:
    drive = FastDrive(setting, course_of(setting), EPISODE, Puppet(weaving), seed, MAX_S)
    drive.run()
    return drive


def known_of(drive: FastDrive) -> np.ndarray:
    return known_drive(drive.outcome(), EPISODE.start, goal_tick(10))


SENSES = {
    "ordinary": Senses(),
    "paper": load_conditions()["paper"].senses(Senses()),
    "no localisation": Senses(localization=False),
    "noise beyond belief": load_conditions()["printed_noise_drift_3"].senses(Senses()),
    "late": Senses(fix_delay_s=1.0),
}


@pytest.mark.parametrize("name", list(SENSES))
def test_a_known_drive_is_lived_as_it_was_driven(name: str) -> None:
    """The same seed draws the same noise, so the runtime's filter ends where it ended in the drive."""
    setting = replace(SETTING, senses=SENSES[name])
    drive = driven(setting, 5)
    again = Replay(setting, course_of(setting), EPISODE.start, 5, known_of(drive))
    again.to_the_end()
    off = between(own_pose(drive.robot, EPISODE.start), own_pose(again, EPISODE.start))
    assert max(abs(off.x_m), abs(off.y_m), abs(off.yaw_rad)) < 1e-9
    assert again.tick == drive.robot.tick


@functools.cache
def known() -> np.ndarray:
    """Return the true poses of one drive without drift."""
    return known_of(driven(replace(SETTING, senses=Senses(drift_scale=0.0, localization_scale=0.0)), 0))


def errors_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (draws, 3) errors of the ideal estimator at the end, and (draws, 3, 3) what it believes of them."""
    setting = load_conditions()[name].of(SETTING)
    errors, spreads = [], []
    for seed in range(DRAWS):
        robot = Replay(setting, course_of(setting), EPISODE.start, seed, known())
        robot.to_the_end()
        x, y, yaw = robot.mean[:3] - known()[-1, :3]
        errors.append((x, y, math.remainder(yaw, 2.0 * math.pi)))
        spreads.append(robot.spread[:3, :3])
    return np.array(errors), np.array(spreads)


@pytest.mark.parametrize("name", ["paper", "printed_noise", "no_localization"])
def test_the_ideal_estimator_errs_as_much_as_it_believes(name: str) -> None:
    """Its errors have no bias, and their squares over the believed covariance are chi-squared with 3 freedoms."""
    errors, spreads = errors_of(name)
    squared = np.einsum("ni,nij,nj->n", errors, np.linalg.inv(spreads), errors)
    four_sd = 4.0 * math.sqrt(2.0 * 3.0 / DRAWS)
    assert abs(squared.mean() - 3.0) < four_sd
    bias = errors.mean(axis=0) / np.sqrt(np.einsum("nii->ni", spreads).mean(axis=0) / DRAWS)
    assert np.abs(bias).max() < 4.0


def test_without_drift_the_start_is_enough() -> None:
    setting = load_conditions()["no_localization_drift_0"].of(SETTING)
    assert replay(setting, EPISODE, known(), 1).ideal_m < 1e-6


def test_nobody_does_better_on_average() -> None:
    seeds = range(20)
    for _, ends in ends_of(SETTING, EPISODE, ("paper", "printed_noise", "no_localization"), seeds):
        ideal, own = (np.mean([getattr(end, name) ** 2 for end in ends]) for name in ("ideal_m", "own_m"))
        assert ideal < own


def test_waiting_for_a_fix_helps_but_where_none_comes() -> None:
    ends = dict(ends_of(SETTING, EPISODE, ("paper", "no_localization"), range(20)))
    mean = {name: np.mean([(row.ideal_m, row.waited_m) for row in rows], axis=0) for name, rows in ends.items()}
    assert mean["paper"][1] < mean["paper"][0]
    assert mean["no_localization"][1] == mean["no_localization"][0]


def test_whoever_waits_turns_on_the_spot_until_one_fix_has_come() -> None:
    setting = load_conditions()["paper"].of(SETTING)
    robot = Replay(setting, course_of(setting), EPISODE.start, 3, known())
    robot.to_the_end()
    before, yaw = robot.mean[:2].copy(), robot.pose.yaw_rad
    robot.to_the_next_fix()
    assert robot.pose.x_m == known()[-1, 0]
    turned = wrap(robot.pose.yaw_rad - yaw)
    waited_s = (robot.tick - len(known()) + 1) * STEP_S
    assert (robot.mean[:2] != before).all()
    assert 0.0 < waited_s < setting.senses.fix_period_s[1] + STEP_S
    assert turned == pytest.approx(wrap(waited_s), abs=1e-9)


def moved(mean: np.ndarray, v: float, w: float) -> np.ndarray:
    """The motion model by its definition: the heading first, then along it."""
    yaw = mean[2] + STEP_S * w - mean[4]
    way_m = STEP_S * v - mean[3]
    return np.array([mean[0] + way_m * math.cos(yaw), mean[1] + way_m * math.sin(yaw), yaw, mean[3], mean[4]])


def derivative(mean: np.ndarray, v: float, w: float, step: float = 1e-6) -> np.ndarray:
    sides = [(moved(mean + d, v, w) - moved(mean - d, v, w)) / (2.0 * step) for d in step * np.eye(IDEAL_STATES)]
    return np.stack(sides, axis=1)


small = st.floats(-1.0, 1.0)
spreads = st.lists(st.floats(-0.3, 0.3), min_size=25, max_size=25).map(
    lambda values: np.eye(5) * 1e-3 + np.reshape(values, (5, 5)) @ np.reshape(values, (5, 5)).T
)


@given(mean=st.tuples(small, small, small, small, small), v=small, w=st.floats(-3.0, 3.0), spread=spreads)
@settings(max_examples=100, deadline=None)
def test_it_is_carried_on_as_the_motion_model_says(mean, v, w, spread):
    ours, spread_after = np.array(mean), spread.copy()
    predict_ideal(ours, spread_after, v, w, True)
    np.testing.assert_allclose(ours, moved(np.array(mean), v, w), atol=1e-12)
    carried = derivative(np.array(mean), v, w)
    np.testing.assert_allclose(spread_after, carried @ spread @ carried.T, atol=1e-7)


@given(mean=st.tuples(small, small, small, small, small), fix=st.tuples(small, small, small), spread=spreads)
@settings(max_examples=100, deadline=None)
def test_a_fix_is_taken_in_as_by_the_book(mean, fix, spread):
    variance = np.array([0.02, 0.03, 0.05])
    ours, spread_after, model = np.array(mean), spread.copy(), np.eye(3, 5)
    correct_ideal(ours, spread_after, *fix, variance)
    gain = spread @ model.T @ np.linalg.inv(model @ spread @ model.T + np.diag(variance))
    np.testing.assert_allclose(ours, mean + gain @ (np.array(fix) - mean[:3]), atol=1e-9)
    np.testing.assert_allclose(spread_after, (np.eye(5) - gain @ model) @ spread, atol=1e-9)


def test_of_a_new_sample_nothing_but_its_distribution_is_known() -> None:
    mean, spread = np.ones(5), np.ones((5, 5))
    draw_anew(mean, spread, np.array([0.1, 0.0]), np.diag([2.0, 3.0]))
    assert mean.tolist() == [1.0, 1.0, 1.0, 0.1, 0.0]
    np.testing.assert_array_equal(spread[:3, :3], np.ones((3, 3)))
    np.testing.assert_array_equal(spread[3:], [[0, 0, 0, 2.0, 0], [0, 0, 0, 0, 3.0]])


def test_the_planners_drive_ends_at_rest_near_the_goal() -> None:
    known = drive_known(SETTING, EPISODE)
    assert math.dist(known[-1, :2], EPISODE.goal_xy_m) < 0.2
    assert abs(known[-1, 3]) < 0.02


def test_the_command_tells_every_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [
        "upper-bound",
        "--set",
        "unseen",
        "--map",
        "apartment",
        "--episodes",
        "1",
        "--draws",
        "2",
        "--json",
        "c.json",
    ]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, (ran.output, ran.exception)
    table = json.loads((tmp_path / "c.json").read_text())
    assert list(table["conditions"]) == list(CASES)
    assert table["code"] == code_digest()
    assert set(CASES) <= set(load_conditions())
    assert table["conditions"]["no_localization_drift_0"]["ideal"] == 1.0
    assert all(row["ideal_ci95"][0] <= row["ideal"] <= row["ideal_ci95"][1] for row in table["conditions"].values())
    assert "printed_noise" in ran.stdout
    (source,) = find_sets(["apartment"], 1, 1, Body(), "unseen")
    for name, figures in table["conditions"].items():
        ends = ends_of_json(table, name, tmp_path / "c.json")
        assert list(ends) == [("apartment", index) for index in source.indices]
        again = asdict(ceiling_of(list(ends.values())))
        assert (again["ideal"], again["own"]) == (figures["ideal"], figures["own"])
        assert again["ideal_median_m"] == pytest.approx(figures["ideal_median_m"], abs=1e-6)


def test_so_many_episodes_are_spread_over_the_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that a policy drives, with which it is compared."""
    driven: list[Episode] = []

    def ends(setting: Setting, episode: Episode, cases: tuple[str, ...], seeds: list[int]) -> object:
        driven.append(episode)
        return ((name, [EndErrors(0.0, 0.0, 0.0)] * len(seeds)) for name in cases)

    monkeypatch.setattr(upper_bound, "ends_of", ends)
    arguments = [
        "upper-bound",
        "--set",
        "validation",
        "--map",
        "depot",
        "--episodes",
        "4",
        "--json",
        str(tmp_path / "c.json"),
    ]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    (source,) = find_sets(["depot"], 4, 1, Body(), "validation")
    assert json.loads((tmp_path / "c.json").read_text())["episodes"] == {"depot": source.indices}
    assert source.indices[-1] > 4
    known = load_set(source).episodes
    assert driven == [known[index] for index in source.indices]


def test_no_draws_are_refused() -> None:
    ran = CliRunner().invoke(app, ["upper-bound", "--draws", "0"])
    assert isinstance(ran.exception, InputError)
    assert "--draws 0: must be at least 1" in str(ran.exception)
