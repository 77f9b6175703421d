"""Policies by name, and the one that sees nothing."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from hil.drive.fast.drive import drive_fast
from hil.drive.robot import Senses
from hil.drive.setting import Setting
from hil.evaluate.baselines.blind import straight
from hil.evaluate.baselines.registry import POLICIES, make_policy
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from onboard.config import pretrained
from onboard.config.config import DEFAULT_ROBOT, Config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.policy.dwa.cost_to_go import sample
from onboard.policy.fallback import WithFallback
from onboard.values.errors import InputError
from onboard.values.interfaces import Policy
from onboard.values.messages import Pose
from tests.rigs.devices.small_model import observation, small_policy_files
from tests.rigs.rooms import drawn, room

PLANT = load_plant(DEFAULT_ROBOT / "plant.toml")
MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
EXACT = Senses(drift_scale=0.0, localization_scale=0.0)
EMPTY = Setting(room(8.0, 6.0), PLANT, Body(), MOUNTS, Config(), EXACT, limits=False)
ACROSS = Episode(Pose(1.0, 3.0, 2.0), (6.5, 4.0), 5.6)
WALLED = drawn(
    """
    ################
    #......#.......#
    #......#.......#
    #......#.......#
    #..............#
    ################
    """,
    0.5,
)


@pytest.mark.parametrize("name", list(POLICIES))
def test_every_baseline_has_its_name_and_arrives_in_an_empty_room(name):
    policy: Policy = make_policy(name, EMPTY, ACROSS)
    assert policy.name == name
    outcome = drive_fast(EMPTY, ACROSS, policy, seed=1)
    assert (outcome.reached, outcome.contacts) == (True, 0)
    assert outcome.path_m < 1.15 * ACROSS.geodesic_m
    policy.close()


def test_the_blind_one_runs_into_what_stands_in_its_way():
    setting = replace(EMPTY, world=WALLED)
    outcome = drive_fast(
        setting, Episode(Pose(1.5, 2.0, 0.0), (6.0, 2.0), 6.0), make_policy("blind", setting, ACROSS), 1
    )
    assert not outcome.reached
    assert outcome.contacts > 0


@pytest.mark.parametrize(("x", "y"), [(0.0, 0.0), (0.33, -0.4), (-1.0, 0.9)])
def test_the_straight_way_is_as_long_as_it_is(x, y):
    field = straight((3.0, 1.0), np.array([(-1.0, -1.0), (1.0, 1.0)]))
    i, j = ((a - corner) / field.cell_m - 0.5 for a, corner in zip((x, y), field.corner_xy_m, strict=True))
    assert sample(field.cost, i, j, field.most_m)[0] == pytest.approx(math.hypot(x - 3.0, y - 1.0), abs=0.01)


def test_an_unknown_name_is_one_line_that_lists_the_known_ones():
    with pytest.raises(
        InputError,
        match=r"^policy rective: must be one of planner, mapped, reactive, forgetful, blind, .*or the path of",
    ):
        make_policy("rective", EMPTY, ACROSS)


def test_a_policy_that_ships_is_known_by_its_name(tmp_path, monkeypatch):
    small_policy_files(tmp_path)
    monkeypatch.setattr(pretrained, "PRETRAINED", tmp_path)
    policy = make_policy("small", EMPTY, ACROSS)
    assert policy.name == "small"
    policy.close()
    beside = make_policy("small+reactive", EMPTY, ACROSS)
    assert isinstance(beside, WithFallback)
    assert (beside.name, beside.first.name) == ("small+reactive", "small")
    beside.close()
    with pytest.raises(InputError, match="one of planner, mapped, reactive, forgetful, blind, small, or the path"):
        make_policy("smal", EMPTY, ACROSS)


@pytest.mark.parametrize("name", ["reactive+reactive", "blind+reactive", "small+planner", "+reactive", "small+"])
def test_other_fallbacks_are_refused(tmp_path, monkeypatch, name):
    small_policy_files(tmp_path)
    monkeypatch.setattr(pretrained, "PRETRAINED", tmp_path)
    with pytest.raises(
        InputError, match=rf"^policy {re.escape(name)}: must be one of .*; \+reactive may follow a model$"
    ):
        make_policy(name, EMPTY, ACROSS)


def test_a_model_with_its_manifest_is_a_policy(tmp_path):
    policy = make_policy(str(small_policy_files(tmp_path)), EMPTY, ACROSS)
    assert policy.name == "small"
    decision, memory = policy.decide(observation(), policy.initial_memory())
    assert decision.action == int(np.argmax(decision.logits))
    assert memory.shape == (2, 3)
    policy.close()
