"""What sets the position agent apart beside its actions: its teacher, and how long its memory lasts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engines.ablations.agents import SLOW_MAX_S, load_agents
from engines.ablations.position_actions.drive import SLOWER, PositionDrive
from engines.ablations.position_actions.expert import AT_GOAL_M, position_scores
from engines.train.config import rules_of
from engines.train.rollout.collector import make_buildings
from engines.train.rollout.places import draw_drives
from engines.train.rollout.vector_env import Seat
from hil.drive.fast.course import varied
from hil.drive.setting import MAX_S

SHIPPED = load_agents()
RESET_S, DECISIONS = 2.0, 6.0
"""A short period of the memory, and the decisions of 1/3 s in it where steps are executed exactly."""


def decisions_between_resets(exact: bool) -> list[int]:
    """Return how many decisions of the teacher are between two resets of a memory, in drives that it makes."""
    config = SHIPPED.agents["position"].config
    rules = rules_of(config.model_copy(update={"places": config.places.model_copy(update={"maps": ("depot",)})}))
    (building,) = make_buildings(rules, [1])
    robot = SHIPPED.agents["reference"].robot()
    setting = replace(building.setting, limits=False)
    setting = setting if exact else replace(setting, plant=robot.plant, config=robot.config)
    found: list[int] = []
    for seed in range(4):
        episode, goal = draw_drives(rules.places, building, np.random.default_rng([seed, 7]))[0]
        drive = PositionDrive(
            setting, varied(building.course, setting), episode, Seat(RESET_S, False), seed, 300.0, exact
        )
        fresh = []
        while not drive.ended:
            fresh.append(drive.observe()[1])
            drive.act(int(np.argmax(position_scores(building, goal, drive.robot.pose))))
        found += np.diff(np.flatnonzero(fresh)).tolist()
    return found


def test_the_memory_lasts_as_many_decisions_by_velocities_as_in_training():
    exactly, driven = decisions_between_resets(exact=True), decisions_between_resets(exact=False)
    assert set(exactly) == {DECISIONS}
    assert np.mean(driven) == pytest.approx(DECISIONS, rel=0.25)


def test_what_sets_its_teacher_and_its_memory_apart_is_told():
    others = {name: agent for name, agent in SHIPPED.agents.items() if name not in ("position", "taught_by_map")}
    ((knows, news_s),) = {(one.config.driving.knows, one.config.driving.news_s) for one in others.values()}
    assert knows == "seen"
    position = SHIPPED.agents["position"]
    reset_s = position.config.driving.memory_reset_s
    assert reset_s is not None
    assert SLOW_MAX_S == SLOWER * MAX_S
    told = ("the whole map", f"{AT_GOAL_M:g} m", f"{news_s:g} s", f"{SLOW_MAX_S:g} s", f"every {SLOWER * reset_s:g} s")
    assert [words for words in told if words not in position.section.what] == []
