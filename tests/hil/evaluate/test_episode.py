"""From a job to its row: what the loops are given, and that nothing but the job decides it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import structlog

from hil.commands.judge.evaluate import load_robot
from hil.drive.setting import MAX_S, Outcome, Setting, wants_color
from hil.evaluate import episode as episode_driver
from hil.evaluate.baselines.registry import make_policy
from hil.evaluate.campaign import Job, jobs_of
from hil.evaluate.episode import EpisodeDriver, Run, check_run, unseen_contacts
from hil.evaluate.episode_selection import Source
from hil.physics.odometry_noise import TRAINING_FIX_PERIOD_S
from hil.sensors.direct_scan import ScanKind
from onboard.policy.contract import ACTIONS
from onboard.policy.fallback import WithFallback
from onboard.policy.network_policy import NetworkPolicy
from onboard.values.errors import InputError
from tests.rigs.devices.small_model import small_policy_files
from tests.rigs.rooms import room, with_box

SOURCES = {name: Source(name, name, 5) for name in ("depot", "apartment")}
ROBOT = load_robot(None)
JOBS = jobs_of("depot", range(5), 1)


class Loops:
    """Stands for both loops and the policies: remembers what it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.drives: list[tuple[str, Setting, int, dict[str, Any]]] = []
        self.policies: list[tuple[str, Any]] = []
        monkeypatch.setattr(episode_driver, "drive_fast", self._loop("fast"))
        monkeypatch.setattr(episode_driver, "drive_runtime", self._loop("runtime"))
        monkeypatch.setattr(episode_driver, "make_policy", self._policy)

    def _loop(self, name: str) -> Any:
        def drive(setting: Setting, episode: Any, policy: object, seed: int, **options: Any) -> Outcome:
            self.drives.append((name, setting, seed, options))
            structlog.get_logger().error("this is no part of the result")
            trace = np.zeros((25, 6))
            trace[:, 1] = np.arange(25)
            counts = np.arange(len(ACTIONS))
            return Outcome(True, "stop", 1, 4.0, 3.0, 0.05, 0.3, counts, trace, bumps=2)

        return drive

    def _policy(self, name: str, setting: Setting, episode: object, known_map: object = None) -> str:
        self.policies.append((name, known_map))
        return name


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> Loops:
    return Loops(monkeypatch)


def test_the_row_says_what_came_of_it(loops: Loops, capsys: pytest.CaptureFixture[str]) -> None:
    driven = EpisodeDriver(Run("reactive"), ROBOT, SOURCES)(JOBS[3])
    row = driven.row
    assert (row.map, row.index, row.seed, row.policy, row.split) == ("depot", 3, JOBS[3].seed, "reactive", "train")
    assert (row.success, row.contacts, row.bumps, row.path_m, row.actions[5]) == (True, 1, 2, 3.0, 5)
    assert row.straight_m <= row.shortest_m * 1.01
    assert row.fastest_s > 0.0
    assert [point[0] for point in driven.path] == [0.0, 10.0, 20.0, 24.0]
    assert capsys.readouterr().out == ""


#   loop        drives     options
LOOPS = [("fast", "fast", {}), ("runtime", "runtime", {"rendered": False}), ("rendered", "runtime", {"rendered": True})]


@pytest.mark.parametrize(("loop", "called", "options"), LOOPS)
def test_the_loop_that_was_asked_for(loops: Loops, loop: Any, called: str, options: dict[str, Any]) -> None:
    EpisodeDriver(Run("reactive", loop, scan="lidar"), ROBOT, SOURCES)(JOBS[0])
    ((name, setting, seed, given),) = loops.drives
    assert (name, setting.scan, seed, given) == (called, "lidar", JOBS[0].seed, {**options, "max_s": MAX_S})
    assert setting.look is not None
    assert setting.crowd is None


@pytest.mark.parametrize("color", [True, False])
def test_the_colour_camera_is_there_or_not(loops: Loops, color: bool) -> None:
    EpisodeDriver(Run("reactive", color=color), ROBOT, SOURCES)(JOBS[0])
    ((_, setting, _, _),) = loops.drives
    assert setting.mounts.color == (ROBOT.mounts.color if color else {})
    assert setting.mounts.depth == ROBOT.mounts.depth


def test_pedestrians_are_of_the_job_alone(loops: Loops) -> None:
    drive = EpisodeDriver(Run("reactive", pedestrians=3), ROBOT, SOURCES)
    for job in (JOBS[0], JOBS[1], Job("apartment", 0, 9), JOBS[0]):
        drive(job)
    first, second, _, again = (setting.crowd for _, setting, _, _ in loops.drives)
    assert first is not None
    assert len(first.state) == 3
    np.testing.assert_array_equal(first.corners_m, again.corners_m)
    assert not np.array_equal(first.state, second.state)


def test_a_condition_is_the_same_robot_in_every_drive(loops: Loops) -> None:
    """What drives share goes by identity (`course_of`)."""
    drive = EpisodeDriver(Run("reactive", condition="plant_minus_30"), ROBOT, SOURCES)
    rows = [drive(job).row for job in JOBS[:2]]
    first, second = (setting for _, setting, _, _ in loops.drives)
    assert first.plant is ROBOT.plant
    assert first.true_plant is second.true_plant is not None
    assert first.senses.fix_period_s == TRAINING_FIX_PERIOD_S
    ordinary = EpisodeDriver(Run("reactive"), ROBOT, SOURCES)(JOBS[0]).row
    assert rows[0].fastest_s > ordinary.fastest_s
    assert replace(rows[0], fastest_s=0.0) == replace(ordinary, fastest_s=0.0)


def test_a_network_is_loaded_once_and_keeps_its_memory_as_the_condition_says(
    loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[NetworkPolicy] = []

    def load(*_: object) -> NetworkPolicy:
        made.append(NetworkPolicy.__new__(NetworkPolicy))
        made[-1].memory_reset_s = 10.0
        return made[-1]

    monkeypatch.setattr(episode_driver, "make_policy", load)
    drive = EpisodeDriver(Run("some.onnx"), ROBOT, SOURCES)
    for job in JOBS[:3]:
        drive(job)
    assert [policy.memory_reset_s for policy in made] == [10.0]


def test_with_a_fallback_the_condition_resets_the_networks_memory_alone(
    loops: Loops, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[WithFallback] = []

    def load(name: str, setting: Setting, *others: Any) -> WithFallback:
        made.append(make_policy(name, setting, *others))
        return made[-1]

    monkeypatch.setattr(episode_driver, "make_policy", load)
    name = f"{small_policy_files(tmp_path, memory_reset_s=4.0)}+reactive"
    drive = EpisodeDriver(Run(name, condition="blocked"), ROBOT, SOURCES)
    for job in JOBS[:2]:
        drive(job)
    assert [(one.first.memory_reset_s, one.memory_reset_s) for one in made] == [(10.0, None)]


@pytest.mark.parametrize("wanted", [True, False])
def test_a_policy_with_a_fallback_gets_the_colour_that_it_wants(wanted: bool) -> None:
    beside = WithFallback.__new__(WithFallback)
    beside.first = SimpleNamespace(wants_color=wanted)  # type: ignore[assignment]
    assert wants_color(beside) is wanted


def test_conditions_are_checked_before_anything_drives() -> None:
    with pytest.raises(InputError, match="--condition no_limits: with --runtime the limits cannot be left out"):
        check_run(Run("reactive", "runtime", condition="no_limits"))
    config = ROBOT.config.model_copy(update={"scan": ROBOT.config.scan.model_copy(update={"cameras": ["front"]})})
    with pytest.raises(InputError, match=r"--condition no_front: cameras_gone: scan\.cameras has none but front"):
        check_run(Run("reactive", condition="no_front"), replace(ROBOT, config=config))


def test_a_way_that_can_be_blocked_has_a_door_and_one_in_a_hall_has_none(loops: Loops) -> None:
    (job,) = jobs_of("apartment", [0], 1)
    for run in (Run("reactive", condition="blocked"), Run("reactive", condition="blocked", pedestrians=1)):
        EpisodeDriver(run, ROBOT, SOURCES)(job)
    in_a_hall = EpisodeDriver(Run("reactive", condition="blocked"), ROBOT, SOURCES)(JOBS[0]).row
    assert (loops.drives.pop()[1].crowd, in_a_hall.door) == (None, "none")
    assert EpisodeDriver(Run("reactive"), ROBOT, SOURCES)(JOBS[0]).row.door is None
    assert loops.drives.pop()[1].crowd is None
    alone, among = (setting.crowd for _, setting, _, _ in loops.drives)
    assert alone is not None
    assert among is not None
    assert (len(alone.state), len(among.state)) == (0, 1)
    assert alone.blocking is not None
    assert alone.blocking.shut_s == 20.0
    assert among.blocking is not None


def test_only_a_rearranged_map_differs_from_the_true_one(loops: Loops) -> None:
    for known_map in ("true", "rearranged"):
        EpisodeDriver(Run("planner", known_map=known_map), ROBOT, SOURCES)(JOBS[0])
    (_, true), (_, rearranged) = loops.policies
    world = loops.drives[1][1].world
    assert true.occupied.shape == rearranged.occupied.shape == world.gap.shape
    assert not np.array_equal(rearranged.occupied, true.occupied)


def test_a_model_is_found_from_any_folder(loops: Loops) -> None:
    EpisodeDriver(Run("some.onnx"), ROBOT, SOURCES)(JOBS[0])
    EpisodeDriver(Run("some.onnx+reactive"), ROBOT, SOURCES)(JOBS[0])
    found = [name for name, *_ in loops.policies]
    assert found == [str(Path("some.onnx").resolve()), f"{Path('some.onnx').resolve()}+reactive"]


def test_runs_that_cannot_be() -> None:
    with pytest.raises(InputError, match="only planner and mapped know"):
        check_run(Run("reactive", known_map="rearranged"))


# ---- Contacts with what is below or above all that the scan sees

AT_BOX, AT_WALL = (5.74, 3.0), (7.74, 3.0)
#   heights of the box, scan, places of contacts, unseen ones
CONTACTS: list[tuple[tuple[float, float], ScanKind, list[tuple[float, float]], int]] = [
    ((0.0, 0.15), "lidar", [AT_BOX, AT_WALL, AT_BOX], 2),
    ((0.3, 0.8), "lidar", [AT_BOX], 1),
    ((0.0, 0.4), "lidar", [AT_BOX], 0),
    ((0.0, 0.15), "fused", [AT_BOX], 0),
    ((0.0, 0.15), "lidar", [(1.0, 1.0)], 0),
]


@pytest.mark.parametrize(("heights_m", "scan", "places_m", "unseen"), CONTACTS)
def test_a_contact_outside_of_the_scans_heights_is_counted(
    heights_m: tuple[float, float], scan: ScanKind, places_m: list[tuple[float, float]], unseen: int
) -> None:
    world = with_box(room(8.0, 6.0), (6.0, 6.3), (2.0, 4.0), heights_m)
    setting = Setting(world, ROBOT.plant, ROBOT.body, ROBOT.mounts, ROBOT.config, scan=scan)
    assert unseen_contacts(setting, places_m) == unseen
