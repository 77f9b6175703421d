"""The whole runtime in a simulated building, on the simulated clock: it arrives without contact, each run the same."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from engines.export.export import TorchEngine, manifest_of
from engines.network.network import TINY, untrained
from hil.drive.episodes import load_episodes
from hil.drive.robot import Senses, SimulatedRobot
from hil.maps.world_grid import World
from hil.physics.collision_world import body_of
from hil.physics.free_space import Episode
from onboard.config.config import Config
from onboard.policy.dwa.dynamic_window import ReactivePolicy
from onboard.policy.network_policy import NetworkPolicy
from onboard.recording.state_snapshot import encode
from onboard.state import TickRecord
from onboard.values.interfaces import Policy
from onboard.values.messages import STOP, Pose
from tests.rigs.in_process import Drive, InProcess
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT

CONFIG = Config()
BODY = body_of(CONFIG.robot)


@pytest.fixture(scope="module")
def building() -> tuple[World, tuple[Episode, ...]]:
    known = load_episodes("gdc1")
    return known.world, known.episodes


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Keep PyTorch's threads from fighting over a busy machine's cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def reactive() -> Policy:
    return ReactivePolicy(PLANT, CONFIG.robot, CONFIG.rates, CONFIG.goal)


def network(seed: int) -> Policy:
    """Return a tiny network without training behind the contract."""
    tiny = untrained(seed, TINY)
    return NetworkPolicy(TorchEngine(tiny), manifest_of(tiny, "0" * 64, "tiny", {}))


def drive(
    world: World, start: Pose, goal: Pose, policy: Policy, config: Config = CONFIG, seed: int = 0, limit_s: float = 60.0
) -> tuple[Drive, SimulatedRobot, InProcess]:
    robot = SimulatedRobot(world, PLANT, BODY, MOUNTS, start, Senses(seed=seed))
    process = InProcess(config, MOUNTS, PLANT, robot, policy)
    return process.drive_to(goal, limit_s=limit_s), robot, process


@pytest.mark.parametrize("number", [1, 2])
def test_committed_episodes_are_reached_without_contact(
    building: tuple[World, tuple[Episode, ...]], number: int
) -> None:
    world, episodes = building
    episode = episodes[number]
    ended, robot, process = drive(world, episode.start, Pose(*episode.goal_xy_m, 0.0), reactive(), seed=number)
    assert ended.state == "reached"
    assert robot.state.contacts == 0
    away_m = math.hypot(robot.state.pose.x_m - episode.goal_xy_m[0], robot.state.pose.y_m - episode.goal_xy_m[1])
    assert away_m <= CONFIG.goal.tolerance_m
    assert process.inbox.sent[-1] == STOP
    assert process.runtime.counters.missed_slots == process.runtime.counters.deadline_misses == 0
    assert process.runtime.counters.delay_error.max_ns < 10


def plain(tick: TickRecord) -> object:
    """Return everything of a tick that can be compared with ==."""
    sensed = tick.sensed and (tick.sensed.number, tick.sensed.memory_reset, tick.sensed.observation.odometry)
    acted = tick.acted and tick.acted.decision and (tick.acted.decision.action, tick.acted.decision.logits.tolist())
    scans = tick.scan.ranges_m.tolist(), tick.scan.seen.tolist()
    arrays = {"inputs", "scan", "limits_scan", "moved_scan", "sensed", "acted", "after"}
    rest = [getattr(tick, field.name) for field in dataclasses.fields(tick) if field.name not in arrays]
    return rest, sensed, acted, scans, tick.inputs.odometry, encode(tick.after)


def test_a_network_that_learnt_nothing_is_held_back_from_walls() -> None:
    """In a plain room, where the cameras see everything that stands."""
    ended, robot, process = drive(room(4.0, 4.0), Pose(1.0, 1.0, 0.3), Pose(3.0, 3.0, 0.0), network(5), limit_s=25.0)
    reasons = process.runtime.counters.reasons
    assert robot.state.path_m > 0.8
    assert robot.state.contacts == 0
    assert reasons["zone_stop"] + reasons["time_to_contact"] > 30
    for tick in ended.ticks:
        assert CONFIG.limits.v_min_mps <= tick.command.v_mps <= CONFIG.limits.v_max_mps
        assert abs(tick.command.w_radps) <= CONFIG.limits.w_max_radps


#   where the goal is                  box x              box z [m]     why the drive ends
TAKEN = [
    ("on a table",                     (2.8, 3.6),        (0.67, 0.71), "goal is occupied"),
    ("in a cupboard",                  (2.9, 3.3),        (0.0, 1.8),   "goal cannot be reached: no gap of 0.50 m"),
    ("just before a box",              (3.05, 3.6),       (0.0, 0.5),   "goal is occupied"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "x_m", "z_m", "why"), TAKEN, ids=[row[0] for row in TAKEN])
def test_a_goal_that_the_cameras_see_to_be_occupied_ends_the_drive(
    what: str, x_m: tuple[float, float], z_m: tuple[float, float], why: str
) -> None:
    world = with_box(room(6.0, 4.0), x_m, (1.6, 2.4), z_m)
    ended, robot, _ = drive(world, Pose(1.2, 2.0, 0.0), Pose(3.0, 2.0, 0.0), reactive(), limit_s=15.0)
    assert ended.state.startswith(f"stopped: {why}")
    assert robot.state.contacts == 0
    assert ended.time_s < 13.0


def test_the_scan_of_the_limits_may_be_another_and_buffered() -> None:
    config = Config(scan={"history": 4}, limits_scan={})
    ended, robot, _ = drive(room(6.0, 4.0), Pose(1.0, 1.0, 0.0), Pose(5.0, 3.0, 0.0), reactive(), config, limit_s=30.0)
    assert (ended.state, robot.state.contacts) == ("reached", 0)
    moving = [tick for tick in ended.ticks if tick.command != STOP]
    assert all(tick.limits_scan is not tick.scan for tick in ended.ticks)
    assert any(np.isfinite(tick.limits_scan.ranges_m).any() for tick in moving)
