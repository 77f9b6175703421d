"""How much faster than real time a drive is: the fast loop, beside the whole runtime in the same run.

`make bench ARGS=tests/benchmarks/test_fast_speed.py` prints both, and what a decision costs besides the policy.
"""

from __future__ import annotations

import time

import pytest
from structlog.testing import capture_logs

from hil.drive.episodes import load_episodes
from hil.drive.fast.course import course_of
from hil.drive.fast.drive import drive_fast
from hil.drive.full_runtime import drive_runtime
from hil.drive.setting import Outcome, Setting
from hil.evaluate.baselines.registry import make_policy
from hil.physics.collision_world import Body
from onboard.config.config import Config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.values.interfaces import Policy
from onboard.values.messages import Decision, Memory, Observation

CONFIG = Config()
MAPS = ("gdc1", "ghc7", "willow")
EPISODES = 8
RUNTIME_EPISODES = 3


class Timed:
    """A policy that counts its own time."""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner
        self.name, self.memory_reset_s = inner.name, inner.memory_reset_s
        self.spent_s = 0.0

    def initial_memory(self) -> Memory:
        return self._inner.initial_memory()

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        begun = time.perf_counter()
        decided = self._inner.decide(observation, memory)
        self.spent_s += time.perf_counter() - begun
        return decided

    def close(self) -> None:
        self._inner.close()


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", MAPS)
def test_the_fast_loop_is_faster_than_the_whole_runtime(name, capsys):
    known = load_episodes(name)
    setting = Setting(known.world, load_plant(CONFIG.robot.plant), Body(), load_mounts(CONFIG.robot.mounts), CONFIG)
    course_of(setting)
    for drive in (drive_fast, drive_runtime):
        drive(setting, known.episodes[0], make_policy("reactive", setting, known.episodes[0]), 0, max_s=3.0)
    fast, fast_s, policy_s = _driven(drive_fast, setting, known.episodes[:EPISODES])
    with capture_logs():
        whole, whole_s, _ = _driven(drive_runtime, setting, known.episodes[:RUNTIME_EPISODES])
    simulated_s, decisions = sum(one.time_s for one in fast), sum(int(one.actions.sum()) for one in fast)
    pace, whole_pace = simulated_s / fast_s, sum(one.time_s for one in whole) / whole_s
    with capsys.disabled():
        print(
            f"\n{name}: {pace:.0f} simulated seconds a second in the fast loop, {whole_pace:.0f} in the whole runtime, "
            f"{pace / whole_pace:.1f} times; a decision {fast_s / decisions * 1e3:.2f} ms, "
            f"of which reactive {policy_s / decisions * 1e3:.2f} ms"
        )
    assert pace > whole_pace


def _driven(drive, setting: Setting, episodes) -> tuple[list[Outcome], float, float]:
    outcomes, spent_s, policy_s = [], 0.0, 0.0
    for number, episode in enumerate(episodes):
        policy = Timed(make_policy("reactive", setting, episode))
        begun = time.perf_counter()
        outcomes.append(drive(setting, episode, policy, number))
        spent_s += time.perf_counter() - begun
        policy_s += policy.spent_s
    return outcomes, spent_s, policy_s
