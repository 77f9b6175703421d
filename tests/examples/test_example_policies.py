"""The examples in `examples/policies/` from their own scripts to a drive: evaluation, replay, faults, limits.

The script of `stranger` trains only a moment here; what it learns is not judged. The shipped policies drive beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from examples.policies.stranger import train_and_export as stranger
from hil.drive.fast.drive import drive_fast
from hil.drive.full_runtime import drive_runtime
from hil.drive.setting import Setting
from hil.evaluate.baselines.registry import make_policy
from hil.live.twin.corridor import MODEL
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from hil.replay.replay import replay
from onboard.assembly.policies import policy_maker
from onboard.config.config import Config, PolicySection
from onboard.config.pretrained import pretrained
from onboard.values.messages import Pose
from tests.rigs.recordings.replay_rig import recorded
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT

WORLD = with_box(room(7.0, 5.0), (3.0, 3.3), (1.0, 3.0), (0.0, 0.5))
EPISODE = Episode(Pose(1.0, 2.0, 0.3), (5.5, 2.0), 5.0)
SLOW = Config(limits={"v_max_mps": 0.4, "w_max_radps": 0.3})
EXAMPLES = ("shipped", "corridor", "stranger")


def engines(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "engines", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("examples")
    own = folder / "stranger.onnx"
    stranger.export(stranger.train(steps=20, seed=0), own)
    output = engines("wrap", own, "-o", folder / "wrapped", "--v", "0", "0.6", "--w", "-1", "1", "--fov", "-180", "180")
    assert "input lidar: scan" in output
    assert "input target: goal" in output
    return {
        "shipped": pretrained("onboard-v2"),
        "corridor": MODEL,
        "stranger": folder / "wrapped" / "stranger.onnx",
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_valid(models: dict[str, Path], name: str) -> None:
    assert "output" in engines("validate", models[name])
    assert json.loads(engines("validate", models[name], "--json", "-"))["wrong"] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_evaluation_drives_it_as_the_runtime_does_and_within_the_limits(models: dict[str, Path], name: str) -> None:
    setting = Setting(WORLD, PLANT, Body(), MOUNTS, SLOW)
    policy = make_policy(str(models[name]), setting, EPISODE)
    fast, whole = (drive(setting, EPISODE, policy, 1, max_s=8.0) for drive in (drive_fast, drive_runtime))
    assert (fast.ended, fast.contacts) == (whole.ended, whole.contacts)
    assert fast.contacts == 0
    np.testing.assert_array_equal(fast.actions, whole.actions)
    np.testing.assert_allclose(fast.trace, whole.trace, atol=1e-9)
    assert np.abs(fast.trace[:, 4]).max() <= 0.4 * 1.2, "the base overshoots a little"


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_recorded_drive_replays_to_the_last_bit(models: dict[str, Path], name: str, tmp_path: Path) -> None:
    section = PolicySection(model=str(models[name]))
    config = Config(policy=section)
    (file,), ticks = recorded(tmp_path, policy=policy_maker(config, PLANT)(), policy_section=section)
    decided = [tick.acted.decision for tick in ticks if tick.acted and tick.acted.decision]
    assert decided
    assert all((one.own is None) == (name == "shipped") for one in decided)
    found = replay(file)
    assert (found.first, found.identical, found.decisions) == (None, True, len(decided))


def test_a_replay_finds_another_own_decision(models: dict[str, Path], tmp_path: Path) -> None:
    section = PolicySection(model=str(models["stranger"]))
    policy = policy_maker(Config(policy=section), PLANT)()
    (file,), _ = recorded(tmp_path, policy=policy, policy_section=section)

    class Other:
        name, memory_reset_s, initial_memory, close = policy.name, None, policy.initial_memory, policy.close

        def decide(self, observation, memory):
            decision, after = policy.decide(observation, memory)
            return replace(decision, own=replace(decision.own, w_radps=decision.own.w_radps + 1e-3)), after

    found = replay(file, policy=Other())
    assert found.first is not None
    assert (found.first.difference.stage, found.first.difference.field) == ("policy", "acted.decision.own")
