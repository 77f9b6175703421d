"""The teacher of the batched world: what it takes for safe, its cost to go, and that it drives well."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch

from engines.train.batched.atlas import PRICED_CELL_M, UNIT_M, UNREACHABLE, Generation, plan_floors
from engines.train.batched.lane_teacher import KEEP_M, UNSAFE_S, way_on
from engines.train.batched.world import BatchedWorld
from engines.train.config import rules_of
from hil.drive.fast.tick_state import NEVER
from onboard.policy.contract import ACTIONS, STOP_ACTION
from tests.rigs.train_rig import batched

CPU = torch.device("cpu")
LANES, DECISIONS = 32, 180
FARTHEST_M = 1.6
"""No action and its braking lead farther than this from where the robot is."""


@cache
def world_with(goals: int = 6) -> BatchedWorld:
    """Return lanes in a furnished depot; every goal has a cost to go."""
    config = batched(places__furniture=1.0, batched__teacher={"weight": 1.0}, domain__no_localization=0.0)
    rules, section = rules_of(config), config.batched
    with Generation(rules, plan_floors(rules.places.maps, 1, 0), 0, 0, 8, priced=True) as generation:
        atlas, drawn = generation.atlas(), generation.goals(at_least=goals)
    return BatchedWorld(rules, section, atlas, drawn, LANES, 1, CPU)


@pytest.fixture(scope="module")
def driven():
    """Return the world after drives by the best actions, the labels on the way, and the counts of the drives."""
    world, rows = world_with(), []
    for _ in range(DECISIONS):
        labels = world.labels().clone()
        places = np.array([(state["x_m"], state["y_m"]) for state in world._lanes.states])
        backing = np.array([one["backing"] != NEVER for one in world._lanes.more])
        rows.append((labels.numpy(), places, backing, world.observe().state[:, 0].numpy().copy()))
        world.step(labels.argmin(dim=1))
    return world, rows, world.stats()


def test_its_best_actions_drive_to_the_goal(driven):
    _, _, stats = driven
    assert stats["drives"] > LANES
    assert stats["reached"] > 0.85
    assert stats["spl"] > 0.8
    assert stats["contact"] == 0.0


def test_an_action_is_unsafe_only_near_an_obstacle_and_turning_never_is(driven):
    world, rows, _ = driven
    site, cell_m = world._site, world._rules.cell_m
    turns = [index for index, twist in enumerate(ACTIONS) if twist.v_mps == 0.0]
    unsafe = 0
    for labels, places, backing, _ in rows:
        gaps_m = site.blocked_gap[(places[:, 1] / cell_m).astype(int), (places[:, 0] / cell_m).astype(int)] * cell_m
        bad = labels >= UNSAFE_S
        silent = bad.all(axis=1)  # backing off, or without a believable goal
        assert silent[backing].all()
        assert not bad[~silent][:, turns].any()
        assert not bad[~silent & (gaps_m > FARTHEST_M + 0.25 + KEEP_M)].any()
        unsafe += int(bad[~silent].sum())
    assert unsafe > 100


def test_the_cost_to_go_is_at_least_the_path_and_falls_along_it():
    world = world_with()
    site, rng = world._site, np.random.default_rng(0)
    seen = lower = 0
    for goal in range(world.goals):
        row, column, rows, columns, first = site.windows[goal]
        field = site.fields[first : first + rows * columns].reshape(rows, columns)
        free = np.argwhere((field != UNREACHABLE) & (field * UNIT_M > 2.0))
        for i, j in free[rng.permutation(len(free))[:60]]:
            x, y = ((at + 2 * index + 1) * world._rules.cell_m for at, index in ((column, j), (row, i)))
            cost_m, angle = way_on(x, y, goal, site)
            # The true path bends along 5 cm cells, the cost to go along 20 cm cells.
            assert cost_m > 0.93 * field[i, j] * UNIT_M - PRICED_CELL_M
            ahead_m, _ = way_on(x + 0.1 * math.cos(angle), y + 0.1 * math.sin(angle), goal, site)
            seen, lower = seen + 1, lower + (ahead_m < cost_m)
    assert seen > 100
    assert lower > 0.95 * seen


def test_it_stops_at_the_believed_goal_and_nowhere_else(driven):
    _, rows, _ = driven
    stops = 0
    for labels, _, _, away_m in rows:
        taught = ~(labels >= UNSAFE_S).all(axis=1)
        wants = taught & (labels.argmin(axis=1) == STOP_ACTION)
        assert (away_m[wants] < 0.6).all()  # it brakes until it is there
        stops += int(wants.sum())
    assert stops > LANES


def test_a_long_way_round_a_wall_does_not_lead_through_it():
    config = batched(places__maps=["made-4", "made-6"], places__furniture=1.0, places__most_m=30.0, places__detours=1.0,
                     places__least_m=24.0, places__detour_ratio=5.0, batched__teacher={"weight": 1.0})  # fmt: skip
    rules = rules_of(config)
    with Generation(rules, plan_floors(rules.places.maps, 1, 0), 0, 0, 8, priced=True) as generation:
        atlas, goals = generation.atlas(), generation.goals(at_least=8)
    section = config.batched
    world = BatchedWorld(rules, section, atlas, goals, 8, 1, CPU)
    site, far = world._site, 0
    for goal in range(world.goals):
        for x, y, path_m in site.starts[goal]:
            cost_m, _ = way_on(x, y, goal, site)
            assert 0.93 * path_m - PRICED_CELL_M < cost_m < 2.5 * path_m
            x_m, y_m = site.goals[goal]
            far += path_m > 5.0 * math.hypot(x - x_m, y - y_m)
    assert far > 8
