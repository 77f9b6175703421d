"""Trains paper 4's corridor agent by TD3 and writes it as a policy: three ranges in, continuous v and w out.

The paper (SimPRIVE, arXiv 2504.21454) cuts a lidar to three ranges, ahead and 30 degrees to both sides. Its actor gives
v of at most 1 m/s and w of at most 0.5 rad/s, and is trained by DDPG. Here TD3, the successor of DDPG, trains it in the
twin's corridor (`hil/live/twin/corridor.py`). The reward is the progress along the corridor [m]; a contact ends the
drive. A range is the nearest of the twin's scan in 20 degrees. The agent knows no goal.

    pip install stable-baselines3
    python examples/policies/corridor/train.py --out out/corridor
    onboard-hil twin-demo --corridor --policy out/corridor/corridor.onnx
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import torch
from stable_baselines3 import TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise
from torch import nn

from hil.evaluate.episode import robot_files
from hil.live.twin.corridor import AREA_Y_M, CORRIDOR, DELAY_TICKS, END_X_M, Corridor, CorridorDrive
from hil.live.twin.scene import SiteOptions
from onboard.config.config import load_config
from onboard.policy.actions import ContinuousAction
from onboard.policy.encode import ScanFeed
from onboard.policy.manifest import OwnManifest, save_manifest, sha256_of
from onboard.values.errors import InputError
from onboard.values.messages import STOP, Pose

LONGEST_DRIVE = 240
"""Decisions after which a drive ends."""
CONTACT, DECISION = -5.0, -0.05
"""Reward of a contact, and of each decision, so that standing does not pay."""
FAR_YAW_RAD = 0.6
TEST_LIVES, TEST_EVERY = range(100_000, 100_010), 5000
"""Lives that no training drive uses. The network that passes most of them is kept."""
FRESH_LIVES = range(200_000, 200_100)

MANIFEST: dict[str, Any] = {
    "contract_version": 2,
    "policy": "corridor",
    "inputs": [
        {
            "name": "ranges",
            "shape": [1, 3],
            "feed": "scan",
            "bearings_deg": [-30.0, 0.0, 30.0],
            "width_deg": 20.0,
            "max_range_m": 5.0,
        }
    ],
    "action": {
        "kind": "continuous",
        "output": "action",
        "v_mps": [0.0, 1.0],
        "w_radps": [-0.5, 0.5],
        "squash": "unit",
        "stop_within_m": 0.2,
    },
    "training_delay_ticks": DELAY_TICKS,
    "control_hz": 30.0,
    "decision_hz": 3.0,
}
RANGES, ACTION = ScanFeed(**MANIFEST["inputs"][0]), ContinuousAction(**MANIFEST["action"])


class CorridorEnv(gymnasium.Env[npt.NDArray[np.float32], npt.NDArray[np.float32]]):
    """The corridor at 3 decisions a second, each acting three ticks later, as with the runtime."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (3,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def __init__(self, seed: int, *, anywhere: bool) -> None:
        """anywhere: whether drives begin in all of the corridor, or at its start."""
        robot = robot_files(load_config(None))
        self._site, self._anywhere = Corridor(SiteOptions(CORRIDOR, seed), robot.body, robot.plant), anywhere
        self._rng, self.number = np.random.default_rng(seed), -1

    def reset(self, **_: Any) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begin the next life."""
        self.number, self._decisions = self.number + 1, 0
        life = self._site.life(self.number)
        self.drive = CorridorDrive(life)
        while self._anywhere:
            at = Pose(float(self._rng.uniform(1.0, END_X_M - 2.0)), float(self._rng.uniform(*AREA_Y_M)),
                      float(self._rng.uniform(-FAR_YAW_RAD, FAR_YAW_RAD)))  # fmt: skip
            self.drive = CorridorDrive(life, at)
            if self.drive.clearance_m > 0.3:
                break
        return self._ranges(), {}

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Drive until the next decision."""
        before_m = self.drive.state.pose.x_m
        self.drive.decide(ACTION.choose(action).own or STOP)
        self._decisions += 1
        reward = self.drive.state.pose.x_m - before_m + DECISION + CONTACT * self.drive.touched
        ended = self.drive.touched or self.drive.passed
        return self._ranges(), reward, ended, self._decisions >= LONGEST_DRIVE, {}

    def _ranges(self) -> npt.NDArray[np.float32]:
        return RANGES.values(self.drive.observation(), ()).astype(np.float32)


def passed(network: nn.Module, lives: range = TEST_LIVES) -> tuple[int, int, float]:
    """Return how many of the lives an actor passes, in how many it touches something, and its mean time [s]."""
    env, ends, contacts, times_s = CorridorEnv(0, anywhere=False), 0, 0, []
    for life in lives:
        env.number = life - 1
        ranges, over = env.reset()[0], False
        while not over:
            with torch.inference_mode():
                action = network(torch.from_numpy(ranges[None]))[0].numpy()
            ranges, _, ended, late, _ = env.step(action)
            over = ended or late
        good = env.drive.passed and not env.drive.touched
        ends, contacts = ends + good, contacts + env.drive.touched
        times_s += [env.drive.state.time_ns / 1e9] if good else []
    return ends, contacts, float(np.mean(times_s)) if times_s else math.nan


class Keeper(BaseCallback):
    """Every `TEST_EVERY` decisions, drives the test lives, and writes the actor if it is the best so far."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self._best = folder, (-1, 0.0)

    def _on_step(self) -> bool:
        if self.num_timesteps % TEST_EVERY == 0:
            actor = self.model.policy.actor.mu  # type: ignore[union-attr]
            ends, contacts, time_s = passed(actor)
            sys.stdout.write(f"{self.num_timesteps} decisions: the end in {ends} of {len(TEST_LIVES)} drives, "
                             f"contacts in {contacts}, {time_s:.0f} s a drive\n")  # fmt: skip
            sys.stdout.flush()
            if (ends, -contacts) > self._best:
                self._best, self.actor = (ends, -contacts), copy.deepcopy(actor).eval()
                write(self.actor, self._folder)
        return True


def train(decisions: int, seed: int, folder: Path) -> nn.Module:
    """Write and return the best actor: (n, 3) ranges to (n, 2) numbers in [-1, 1]."""
    model = TD3(
        "MlpPolicy", CorridorEnv(seed, anywhere=True), seed=seed, learning_rate=5e-4, gamma=0.98, learning_starts=2000,
        batch_size=128, train_freq=2, gradient_steps=1, policy_kwargs={"net_arch": [64, 64]},
        action_noise=NormalActionNoise(np.zeros(2), 0.3 * np.ones(2)),
    )  # fmt: skip
    keeper = Keeper(folder)
    model.learn(decisions, keeper)
    return keeper.actor


def write(actor: nn.Module, folder: Path) -> Path:
    """Write the actor and its manifest; return the model's path."""
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "corridor.onnx"
    names = {"input_names": ["ranges"], "output_names": ["action"]}
    torch.onnx.export(actor, (torch.zeros(1, 3),), str(model), dynamo=False, opset_version=17, **names)
    save_manifest(model, OwnManifest.model_validate(MANIFEST | {"sha256": sha256_of(model)}))
    return model


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--decisions", type=int, default=15_000, help=f"a multiple of {TEST_EVERY}")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.decisions < TEST_EVERY:
        raise InputError(f"--decisions {given.decisions}: at least {TEST_EVERY}")
    torch.set_num_threads(1)
    began = time.monotonic()
    actor = train(given.decisions, given.seed, given.out)
    sys.stdout.write(f"{given.out}: trained in {time.monotonic() - began:.0f} s\n")
    ends, contacts, time_s = passed(actor, FRESH_LIVES)
    sys.stdout.write(
        f"{len(FRESH_LIVES)} lives that chose nothing: the end in {ends}, contacts in {contacts}, {time_s:.0f} s\n"
    )


if __name__ == "__main__":
    main()
