"""Trains paper 4's corridor agent in our world and writes it as a policy: three ranges in, continuous v and w out.

The paper (SimPRIVE, arXiv 2504.21454) cuts a lidar to three ranges, ahead and 30 degrees to both sides. Its actor gives
v of at most 1 m/s and w of at most 0.5 rad/s. It trains the actor by DDPG in its own simulator. Here the cross-entropy
method trains a smaller actor on buildings of this project, with the limits in force. The reward is new floor: a cell of
1 m counts once. The agent knows no goal, so it never arrives on purpose.

    python examples/policies/corridor/train.py --out out/corridor
    onboard-hil evaluate --policy out/corridor/corridor.onnx --map lgrc1 willow --episodes 4
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from hil.drive.episodes import load_episodes
from hil.drive.fast.drive import drive_fast
from hil.drive.setting import Setting
from hil.evaluate.episode import robot_files
from hil.physics.free_space import Episode
from onboard.config.config import load_config
from onboard.policy.manifest import OwnManifest, save_manifest, sha256_of
from onboard.policy.network_policy import NetworkPolicy
from onboard.system.log import unlogged

HIDDEN = 8
MAPS = ("gdc1", "gdc3", "ghc7")
DRIVE_S = 40.0
CELL_M = 1.0
ELITE, SPREAD = 0.25, 0.7
"""Share of candidates that the next generation is drawn around, and the first standard deviation of a weight."""

MANIFEST: dict[str, Any] = {
    "contract_version": 2,
    "policy": "corridor",
    "inputs": [
        {
            "name": "ranges",
            "shape": [1, 3],
            "feed": "scan",
            "bearings_deg": [-30.0, 0.0, 30.0],
            "width_deg": 10.0,
            "max_range_m": 5.0,
        }
    ],
    "action": {"kind": "continuous", "output": "action", "v_mps": [0.0, 1.0], "w_radps": [-0.5, 0.5], "squash": "unit"},
    "training_delay_ticks": 3,
    "control_hz": 30.0,
    "decision_hz": 3.0,
}


class Actor(nn.Module):
    """3 ranges to 2 numbers in [-1, 1]. Mirrored ranges give the same speed and the opposite turn."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 2))

    def forward(self, ranges: Tensor) -> Tensor:
        """Return (1, 2)."""
        seen, mirrored = self.layers(ranges), self.layers(ranges[:, [2, 1, 0]])
        return torch.tanh(torch.cat([seen[:, :1] + mirrored[:, :1], seen[:, 1:] - mirrored[:, 1:]], 1))


class TorchEngine:
    """An actor as the runtime's engine, so that training needs no file."""

    name = "torch"

    def __init__(self, network: nn.Module) -> None:
        self._network = network

    def warm_up(self) -> None:
        """Do nothing."""

    def run(self, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the action."""
        with torch.inference_mode():
            return {"action": self._network(torch.from_numpy(tensors["ranges"])).numpy()}

    def close(self) -> None:
        """Do nothing."""


def places(maps: tuple[str, ...]) -> list[tuple[Setting, tuple[Episode, ...]]]:
    """Return the default robot in each building, with the building's committed starts."""
    robot = robot_files(load_config(None))
    sets = [load_episodes(name) for name in maps]
    return [(Setting(one.world, robot.plant, robot.body, robot.mounts, robot.config), one.episodes) for one in sets]


def cells_seen(weights: npt.NDArray[np.float32], where: tuple[Setting, Episode], seed: int, drive_s: float) -> float:
    """Return the reward of one drive: the floor that was covered, less 5 for each contact."""
    network = Actor()
    nn.utils.vector_to_parameters(torch.from_numpy(weights), network.parameters())
    policy = NetworkPolicy(TorchEngine(network), OwnManifest.model_validate(MANIFEST | {"sha256": "0" * 64}))
    with unlogged():
        outcome = drive_fast(*where, policy, seed, drive_s)
    cells = np.floor(outcome.trace[:, 1:3] / CELL_M)
    return len(np.unique(cells, axis=0)) - 5.0 * outcome.contacts


def train(
    generations: int, candidates: int, drives: int, seed: int, maps: tuple[str, ...] = MAPS, drive_s: float = DRIVE_S
) -> npt.NDArray[np.float32]:
    """Return the weights of the best mean. Every candidate of a generation drives from the same starts."""
    rng = np.random.default_rng(seed)
    known = places(maps)
    size = sum(parameter.numel() for parameter in Actor().parameters())
    mean, spread = np.zeros(size, np.float32), np.full(size, SPREAD, np.float32)
    for generation in range(generations):
        starts = []
        for number in range(drives):
            setting, episodes = known[number % len(known)]
            starts.append((setting, episodes[int(rng.integers(len(episodes)))]))
        drawn = rng.normal(mean, spread, (candidates, size)).astype(np.float32)
        scores = [sum(cells_seen(one, where, seed + generation, drive_s) for where in starts) for one in drawn]
        best = drawn[np.argsort(scores)[-max(2, round(ELITE * candidates)) :]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.02
        floor = np.mean(scores) / drives, np.max(scores) / drives
        sys.stdout.write(
            f"generation {generation + 1} of {generations}: {floor[0]:.1f} cells a drive, best {floor[1]:.1f}\n"
        )
    return mean


def write(weights: npt.NDArray[np.float32], folder: Path) -> Path:
    """Write the actor and its manifest; return the model's path."""
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "corridor.onnx"
    network = Actor()
    nn.utils.vector_to_parameters(torch.from_numpy(weights), network.parameters())
    names = {"input_names": ["ranges"], "output_names": ["action"]}
    torch.onnx.export(network.eval(), (torch.zeros(1, 3),), str(model), dynamo=False, opset_version=17, **names)
    save_manifest(model, OwnManifest.model_validate(MANIFEST | {"sha256": sha256_of(model)}))
    return model


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--generations", type=int, default=10)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--drives", type=int, default=6, help="drives of each candidate in a generation")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    model = write(train(given.generations, given.candidates, given.drives, given.seed), given.out)
    sys.stdout.write(f"{model}: trained in {time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    main()
