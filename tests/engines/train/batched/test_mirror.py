"""Mirrored lanes: left is right in all that the policy sees, does and is taught."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engines.train.batched.training import Mirrored, check_mirror
from engines.train.config import rules_of
from onboard.policy.contract import ACTIONS
from onboard.values.errors import InputError
from onboard.values.messages import Twist
from tests.engines.train.batched.test_lane_teacher import LANES, world_with
from tests.rigs.train_rig import batched

CPU = torch.device("cpu")
SIN_GOAL, W = 2, 8


def test_half_of_the_lanes_are_as_in_a_mirror():
    world = world_with()
    mirrored, half = Mirrored(world, CPU), LANES // 2
    seen, shown = world.observe(), mirrored.observe()
    assert torch.equal(shown.scan[:half], seen.scan[:half])
    assert torch.equal(shown.scan[half:], seen.scan[half:].flip(1))
    assert not torch.equal(shown.scan[half:], seen.scan[half:])
    assert torch.equal(shown.state[half:, SIN_GOAL], -seen.state[half:, SIN_GOAL])
    assert torch.equal(shown.critic, seen.critic)


def test_a_turn_to_the_left_is_seen_as_one():
    mirrored = Mirrored(world_with(), CPU)
    left = torch.full((LANES,), ACTIONS.index(Twist(0.0, 1.0)))
    for _ in range(3):
        mirrored.step(left)
    seen = mirrored.observe().state[:, W]
    assert bool((seen > 0.0).all()), "the limits may slow a lane next to a wall, and no lane turns the other way"
    assert float(seen.median()) > 0.5


def test_cameras_that_look_to_one_side_are_refused():
    robot = rules_of(batched()).robot
    check_mirror(robot)
    scan = robot.config.scan
    left_blind = scan.model_copy(update={"cameras": [one for one in robot.mounts.depth if one != "front_left"]})
    config = robot.config.model_copy(update={"scan": left_blind})
    with pytest.raises(InputError, match="must be mirror images of each other"):
        check_mirror(replace(robot, config=config))
